//! An operator's decisions about a logical database, and the JSON form in which the catalogue
//! stores them.
//!
//! Passwords, tokens and Fauna's keys are kept as SHA-256 only: they are made here, of 192 random
//! bits. A secret access key of DynamoDB is kept as it is, because a signature can only be verified
//! with the secret itself.

use std::collections::BTreeMap;

use quartet_engine::Durability;
use quartet_model::{DatabaseId, hexadecimal};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use sha2::{Digest, Sha256};

use crate::quotas::Quotas;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Lower-case letters, digits and hyphens.
    pub name: String,
    #[serde(serialize_with = "write_durability", deserialize_with = "read_durability")]
    pub durability: Durability,
    pub consistency: Consistency,
    /// Without free room, old keys are evicted, instead of writes being refused. Only for Redis
    /// keys.
    pub eviction: bool,
    pub quotas: Quotas,
    pub credentials: KeptCredentials,
    pub created_micros: u64,
    /// It is being deleted: no client is admitted, and its rows are removed.
    #[serde(default)]
    pub deleted: bool,
    /// The number of the partition that has all of its rows.
    #[serde(default, skip_serializing_if = "is_first")]
    pub partition: u32,
    /// Its last move, if it was in another partition before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// The version of the first partition's log at which this was decided, if there are several
    /// partitions: the higher version is newer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub revision: u64,
}

impl Definition {
    /// A database about which nothing else was decided: in the first partition, without quotas.
    pub fn new(name: impl Into<String>, durability: Durability) -> Definition {
        Definition {
            name: name.into(),
            durability,
            consistency: Consistency::default(),
            eviction: false,
            quotas: Quotas::default(),
            credentials: KeptCredentials::default(),
            created_micros: 0,
            deleted: false,
            partition: 0,
            moved: None,
            revision: 0,
        }
    }
}

/// The last move of a database from one partition to another. Versions of two partitions have no
/// common order, but the database's versions do: each at `from` is below `left`, and each since is
/// above `arrived`, which is above `left`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    /// The count of its moves.
    pub times: u64,
    /// The partition before.
    pub from: u32,
    /// The version in that partition's log at which it had arrived; zero: always there.
    pub since: u64,
    /// The version in that log at which it left.
    pub left: u64,
    /// The version of this partition's log since which it is here.
    pub arrived: u64,
}

/// A move in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Move {
    /// The partition that has the database.
    pub from: u32,
    /// The target partition.
    pub to: u32,
}

/// Whether a database that was moved is in this partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    /// The previous count of its moves.
    pub times: u64,
    pub is_here: bool,
}

/// Omitted for the first partition, so that a single partition's catalogue remains readable to a
/// program without partitions.
fn is_first(partition: &u32) -> bool {
    *partition == 0
}

fn is_zero(revision: &u64) -> bool {
    *revision == 0
}

/// The states that reads may show. One node has one replica, and all three are the same on it:
/// strong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Consistency {
    #[default]
    Strong,
    Session,
    Eventual,
}

impl Consistency {
    pub fn name(self) -> &'static str {
        match self {
            Consistency::Strong => "strong",
            Consistency::Session => "session",
            Consistency::Eventual => "eventual",
        }
    }

    pub fn parse(text: &str) -> Option<Consistency> {
        [Consistency::Strong, Consistency::Session, Consistency::Eventual]
            .into_iter()
            .find(|consistency| consistency.name() == text)
    }
}

/// The hashes and names of a database's secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptCredentials {
    /// Redis' password, and the token of the REST API.
    pub token: Hash,
    /// The same for read-only access.
    pub read_only_token: Hash,
    /// The secret of the admin of Fauna's root database.
    pub fauna_key: Hash,
    /// DynamoDB's access keys and their secrets.
    pub access_keys: BTreeMap<String, String>,
}

/// A SHA-256; 64 hexadecimal digits in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    pub fn of(secret: &[u8]) -> Hash {
        Hash(Sha256::digest(secret).into())
    }

    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Hash> {
        let mut hash = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (index, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Hash(hash))
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&hexadecimal(&self.0))
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hash, D::Error> {
        let text = String::deserialize(deserializer)?;
        Hash::parse(&text).ok_or_else(|| D::Error::custom("a hash has 64 hexadecimal digits"))
    }
}

/// Longest name of a database.
const NAME_BYTES_MAX: usize = 64;
/// The database that every server has, and that connections are in until they say otherwise.
pub const DEFAULT_DATABASE: DatabaseId = DatabaseId(1);
/// Its name.
pub const DEFAULT_NAME: &str = "default";

/// Names are used in paths, labels and user names, so they are plain.
pub fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_plain) && name != DEFAULT_NAME
}

fn write_durability<S: Serializer>(durability: &Durability, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(durability.name())
}

fn read_durability<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Durability, D::Error> {
    let text = String::deserialize(deserializer)?;
    Durability::parse(&text).ok_or_else(|| D::Error::custom("durability is always, interval or none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for good in ["a", "shop-2", "0"] {
            assert!(is_name(good), "{good}");
        }
        let long = "a".repeat(65);
        for bad in ["", "default", "Shop", "a/b", "a b", "ä", &long] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn a_definition_is_read_as_it_was_written() {
        let definition = Definition {
            name: "shop".into(),
            durability: Durability::Interval,
            consistency: Consistency::Session,
            eviction: true,
            quotas: Quotas {
                stored_bytes: Some(7),
                ..Quotas::default()
            },
            credentials: KeptCredentials {
                token: Hash::of(b"token"),
                access_keys: BTreeMap::from([("QK1".into(), "secret".into())]),
                ..KeptCredentials::default()
            },
            created_micros: 5,
            deleted: false,
            partition: 0,
            moved: None,
            revision: 0,
        };
        let text = serde_json::to_string(&definition).unwrap();
        assert_eq!(serde_json::from_str::<Definition>(&text).unwrap(), definition);
        assert!(!text.contains("\"token\":\"token\""));
    }
}
