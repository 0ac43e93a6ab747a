//! The definition of a series, in the key's own row.
//!
//! ```text
//! 'K' db name     header with LARGE, perhaps MARKED (it has labels) and LISTED_BY_ID (rules);
//!                 id (10 bytes) | labels, as marks, if MARKED | definition
//! 'E' id 'c' first timestamp, piece    part of a chunk: see `rows`
//! 'E' id 'r' id of a destination       start of the bucket (8 bytes, all ones: none), gathered state
//!
//! definition:     options (1) | duplicate policy (1) | chunk bytes (4) | retention (8)
//!                 | ignored time (8) | ignored difference (8) | source's id (10, zeros: none)
//!                 | rules of 27 bytes: destination's id (10), aggregator (1), bucket (8), alignment (8)
//! ```
//!
//! Numbers are little-endian. Series refer to each other by the ids of their elements, which stay
//! when a key is renamed and are new when it is copied; a reference counts only if the other series
//! refers back.

use quartet_engine::UniqueId;
use quartet_layer_redis::module_api::marks::{self, LISTED_BY_ID, MARKED};
use quartet_layer_redis::module_api::{Entry, Header, Keyspace, Kind, LARGE};

use crate::aggregation::Aggregator;
use crate::{Encoding, Malformed, Numbers};

/// The kind of keys with a series.
pub const SERIES: Kind = Kind::Module(12);
const ID_BYTES: usize = 10;
const UNCOMPRESSED: u8 = 1;
const NO_ID: UniqueId = [0; ID_BYTES];

/// The policy for a sample with the timestamp of another. The numbers are those of
/// RedisTimeSeries' dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicatePolicy {
    Block = 1,
    Last,
    First,
    Minimum,
    Maximum,
    Sum,
}

const POLICIES: [(DuplicatePolicy, &str); 6] = [
    (DuplicatePolicy::Block, "block"),
    (DuplicatePolicy::Last, "last"),
    (DuplicatePolicy::First, "first"),
    (DuplicatePolicy::Minimum, "min"),
    (DuplicatePolicy::Maximum, "max"),
    (DuplicatePolicy::Sum, "sum"),
];

impl DuplicatePolicy {
    pub fn named(name: &[u8]) -> Option<DuplicatePolicy> {
        let mut policies = POLICIES.iter();
        let named = policies.find(|(_, known)| name.eq_ignore_ascii_case(known.as_bytes()));
        named.map(|(policy, _)| *policy)
    }

    pub fn numbered(number: u64) -> Option<DuplicatePolicy> {
        let policies = POLICIES.iter().map(|(policy, _)| *policy);
        policies.into_iter().find(|policy| *policy as u64 == number)
    }

    pub fn name(self) -> &'static str {
        POLICIES[self as usize - 1].1
    }
}

/// A compaction: each bucket of this series becomes a sample of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub destination: UniqueId,
    pub aggregator: Aggregator,
    pub bucket_ms: u64,
    pub alignment: u64,
}

/// A series without its labels and samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub encoding: Encoding,
    /// `None`: the server's policy, which blocks.
    pub policy: Option<DuplicatePolicy>,
    /// Bytes of a chunk that is not full yet.
    pub chunk_bytes: u32,
    /// The greatest age of a sample, counted from the last sample; 0: no limit.
    pub retention_ms: u64,
    /// A sample that differs from the last sample by at most both is ignored.
    pub ignored_ms: u64,
    pub ignored_difference: f64,
    /// The series that this is a compaction of.
    pub source: Option<UniqueId>,
    pub rules: Vec<Rule>,
}

impl Definition {
    fn to_bytes(&self) -> Vec<u8> {
        let options = if self.encoding == Encoding::Uncompressed {
            UNCOMPRESSED
        } else {
            0
        };
        let mut bytes = vec![options, self.policy.map_or(0, |policy| policy as u8)];
        bytes.extend_from_slice(&self.chunk_bytes.to_le_bytes());
        bytes.extend_from_slice(&self.retention_ms.to_le_bytes());
        bytes.extend_from_slice(&self.ignored_ms.to_le_bytes());
        bytes.extend_from_slice(&self.ignored_difference.to_le_bytes());
        bytes.extend_from_slice(&self.source.unwrap_or(NO_ID));
        for rule in &self.rules {
            bytes.extend_from_slice(&rule.destination);
            bytes.push(rule.aggregator as u8);
            bytes.extend_from_slice(&rule.bucket_ms.to_le_bytes());
            bytes.extend_from_slice(&rule.alignment.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<Definition, Malformed> {
        let mut numbers = Numbers(bytes);
        let encoding = match numbers.u8()? {
            0 => Encoding::Compressed,
            UNCOMPRESSED => Encoding::Uncompressed,
            _ => return Err(Malformed),
        };
        let policy = match numbers.u8()? {
            0 => None,
            number => Some(DuplicatePolicy::numbered(number.into()).ok_or(Malformed)?),
        };
        let mut definition = Definition {
            encoding,
            policy,
            chunk_bytes: numbers.u32()?,
            retention_ms: numbers.u64()?,
            ignored_ms: numbers.u64()?,
            ignored_difference: numbers.f64()?,
            source: Some(numbers.array()?).filter(|id| *id != NO_ID),
            rules: Vec::new(),
        };
        while numbers.end().is_err() {
            let destination = numbers.array()?;
            let aggregator = Aggregator::numbered(numbers.u8()?.into()).ok_or(Malformed)?;
            let (bucket_ms, alignment) = (numbers.u64()?, numbers.u64()?);
            if bucket_ms == 0 {
                return Err(Malformed);
            }
            definition.rules.push(Rule {
                destination,
                aggregator,
                bucket_ms,
                alignment,
            });
        }
        Ok(definition)
    }

    /// The definition in a key's row; an error if no version has written it.
    pub fn of_entry(entry: &Entry) -> Result<Definition, Malformed> {
        let payload = match entry.is_large() {
            true => entry.large_payload(),
            false => return Err(Malformed),
        };
        let own = match entry.flags & MARKED {
            0 => Some(payload),
            _ => marks::behind(payload),
        };
        Definition::from_bytes(own.ok_or(Malformed)?)
    }

    /// Writes a key's own row. `header` gives it its expiry.
    pub fn put(&self, keys: &mut Keyspace<'_, '_>, name: &[u8], id: &UniqueId, header: Header, labels: &Labels) {
        let mut flags = LARGE;
        if self.source.is_some() || !self.rules.is_empty() {
            flags |= LISTED_BY_ID;
        }
        if labels.0.is_empty() {
            return keys.put_parts(name, header.flags(flags), &[id, &self.to_bytes()]);
        }
        let labels = labels
            .0
            .iter()
            .map(|(label, value)| (label.as_slice(), value.as_slice()));
        let labels = marks::to_bytes(labels);
        keys.put_parts(name, header.flags(flags | MARKED), &[id, &labels, &self.to_bytes()]);
    }
}

/// Labels in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(pub Vec<(Vec<u8>, Vec<u8>)>);

/// The labels of a key.
pub fn labels_of(entry: &Entry) -> Vec<(&[u8], &[u8])> {
    match entry.flags & MARKED {
        0 => Vec::new(),
        _ => marks::split(entry.large_payload()).map_or(Vec::new(), |(labels, _)| labels),
    }
}

impl Labels {
    pub fn of_entry(entry: &Entry) -> Labels {
        let labels = labels_of(entry).into_iter();
        Labels(labels.map(|(label, value)| (label.to_vec(), value.to_vec())).collect())
    }
}
