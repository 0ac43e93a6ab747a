//! Settings of DynamoDB's layer.

use super::listen::Listen;

#[derive(Clone, Debug, Default)]
pub struct DynamoDbSettings {
    pub listen: Listen,
    pub access_keys: AccessKeys,
    /// Tables may consume no more than their provisioned throughput.
    pub throttling: bool,
    /// Each region that a credential names has tables of its own.
    pub regions_are_separate: bool,
    /// The buckets for exports and imports: names, and folders or `s3://` addresses.
    pub buckets: Vec<(String, String)>,
    /// Limit on a bucket's bytes: exports beyond it are refused.
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
    /// The key in the data. Opening replaces this by `Given` before its first use.
    Kept,
}

impl AccessKeys {
    /// The known keys; empty if any key is accepted.
    pub fn known(&self) -> &[(String, String)] {
        match self {
            AccessKeys::Any => &[],
            AccessKeys::Given(keys) => keys,
            AccessKeys::Kept => unreachable!("replaced when the data was opened"),
        }
    }
}
