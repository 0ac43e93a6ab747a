//! Regions: the region of a request, and whether each has tables of its own.
//!
//! Shared, all regions see the same tables, and resource names have the requested region. Separate,
//! each region has tables, streams and tokens of its own; those of [`HOME`] are stored under their
//! plain names, so all regions see them when they share.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::DynamoDb;
use crate::wire::failure::Failure;

/// The region of a request without one, and of the tables older than separate regions.
pub const HOME: &str = "us-east-1";
/// Layers of other regions that are kept; a client may name any region.
const KEPT_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 64;

/// The layers of other regions than this one's.
#[derive(Default)]
pub struct OtherRegions {
    kept: RwLock<HashMap<String, Arc<DynamoDb>>>,
}

/// Returns the credential's region, if it can be one: lower-case letters, digits and hyphens.
pub fn named(name: &str) -> &str {
    let is_name_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_name_byte) {
        true => name,
        false => HOME,
    }
}

impl DynamoDb {
    /// Lets `act` use the layer as it is in another region.
    pub fn in_region<R>(&self, region: &str, act: impl FnOnce(&DynamoDb) -> R) -> R {
        if region == self.region {
            return act(self);
        }
        let existing = self.others.kept.read().get(region).cloned();
        act(&existing.unwrap_or_else(|| self.make_region(region)))
    }

    fn make_region(&self, region: &str) -> Arc<DynamoDb> {
        let made = Arc::new(DynamoDb {
            engine: self.engine.clone(),
            space: self.space,
            replica: self.replica,
            region: region.to_owned(),
            regions_are_separate: self.regions_are_separate,
            account: self.account.clone(),
            endpoint: self.endpoint.clone(),
            throughput: self.throughput.clone(),
            buckets: self.buckets.clone(),
            catalog: self.catalog.clone(),
            others: OtherRegions::default(),
        });
        let mut layers = self.others.kept.write();
        if layers.len() >= KEPT_MAX {
            layers.clear();
        }
        layers.insert(region.to_owned(), made.clone());
        made
    }

    /// The region of this layer, if its tables are separate from those of the default region.
    pub(crate) fn own_region(&self) -> Option<&str> {
        (self.regions_are_separate && self.region != HOME).then_some(self.region.as_str())
    }

    /// Refuses the ARN of a region with other tables than this one's.
    pub(crate) fn check_region<'g>(&self, name_or_arn: &'g str) -> Result<&'g str, Failure> {
        match self.is_of_this_region(name_or_arn) {
            true => Ok(name_or_arn),
            false => Err(Failure::validation(format!(
                "1 validation error detected: Invalid AWS region in '{name_or_arn}'"
            ))),
        }
    }

    /// True for a plain name too.
    pub(crate) fn is_of_this_region(&self, name_or_arn: &str) -> bool {
        let region = name_or_arn.strip_prefix("arn:").and_then(|arn| arn.split(':').nth(2));
        !self.regions_are_separate || region.is_none_or(|region| region == self.region)
    }
}
