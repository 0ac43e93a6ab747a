//! Settings of DynamoDB's layer.

use super::listen::Listen;

#[derive(Clone, Debug, Default)]
pub struct DynamoDbSettings {
    pub listen: Listen,
    /// Access keys and their secrets; none: any is accepted, and therefore only on loopback.
    pub access_keys: Vec<(String, String)>,
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
