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
pub fn named(given: &str) -> &str {
    let is_name_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    match !given.is_empty() && given.len() <= NAME_BYTES_MAX && given.bytes().all(is_name_byte) {
        true => given,
        false => HOME,
    }
}

impl DynamoDb {
    /// Lets `act` use the layer as it is in another region.
    pub fn in_region<R>(&self, region: &str, act: impl FnOnce(&DynamoDb) -> R) -> R {
        if region == self.region {
            return act(self);
        }
        let kept = self.others.kept.read().get(region).cloned();
        act(&kept.unwrap_or_else(|| self.make_region(region)))
    }

    fn make_region(&self, region: &str) -> Arc<DynamoDb> {
        let made = Arc::new(DynamoDb {
            engine: self.engine.clone(),
            space: self.space,
            region: region.to_owned(),
            regions_are_separate: self.regions_are_separate,
            account: self.account.clone(),
            endpoint: self.endpoint.clone(),
            throughput: self.throughput.clone(),
            buckets: self.buckets.clone(),
            catalog: self.catalog.clone(),
            others: OtherRegions::default(),
        });
        let mut kept = self.others.kept.write();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(region.to_owned(), made.clone());
        made
    }

    /// The region whose tables are apart from the others', if this is one.
    pub(crate) fn own_region(&self) -> Option<&str> {
        (self.regions_are_separate && self.region != HOME).then_some(self.region.as_str())
    }

    /// Refuses the ARN of a region with other tables than this one's.
    pub(crate) fn check_region<'g>(&self, given: &'g str) -> Result<&'g str, Failure> {
        match self.is_of_this_region(given) {
            true => Ok(given),
            false => Err(Failure::validation(format!(
                "1 validation error detected: Invalid AWS region in '{given}'"
            ))),
        }
    }

    /// True for a plain name too.
    pub(crate) fn is_of_this_region(&self, given: &str) -> bool {
        let region = given.strip_prefix("arn:").and_then(|rest| rest.split(':').nth(2));
        !self.regions_are_separate || region.is_none_or(|region| region == self.region)
    }
}
