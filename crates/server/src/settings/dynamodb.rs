//! Settings of DynamoDB's layer.

use super::listen::Listen;

#[derive(Clone, Debug, Default)]
pub struct DynamoDbSettings {
    pub listen: Listen,
    pub access_keys: AccessKeys,
    /// Tables may consume no more than what they are provisioned with.
    pub throttling: bool,
    /// Each region that a credential names has tables of its own.
    pub regions_are_separate: bool,
    /// The buckets that exports go to and imports come from: names, and folders or `s3://`
    /// addresses.
    pub buckets: Vec<(String, String)>,
    /// An export is refused what would make a bucket hold more.
    pub bucket_bytes_max: Option<u64>,
}

/// The access keys of the default database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AccessKeys {
    /// Any is accepted, and therefore only on loopback.
    #[default]
    Any,
    /// Names and secrets; at least one.
    Given(Vec<(String, String)>),
    /// The one that the data hold. Before anything asks, opening replaces this by `Given`.
    Kept,
}

impl AccessKeys {
    /// Those that are known; empty if any is accepted.
    pub fn known(&self) -> &[(String, String)] {
        match self {
            AccessKeys::Any => &[],
            AccessKeys::Given(keys) => keys,
            AccessKeys::Kept => unreachable!("replaced when the data was opened"),
        }
    }
}
