//! The description of one backup step, as JSON.

use quartet_model::format;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use crate::BackupError;

/// One step of a backup: its parts, and what they cover.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Format of the manifest and its parts.
    pub format: u32,
    /// Steps of one target are numbered without gaps.
    pub number: u64,
    /// The kind of step.
    pub kind: Kind,
    /// The hash of the manifest before it, which a log step continues. A base has it if the chain
    /// before it reaches up to its version; none: there is no chain before it, or versions between
    /// the two are in no backup.
    pub previous: Option<String>,
    /// The time of its writing, in microseconds since the Unix epoch.
    pub written_micros: u64,
    /// The newest version that it holds. Versions are microseconds since the Unix epoch, too.
    pub version: u64,
    /// For a log step: its first record.
    pub first_sequence: u64,
    /// The record of the log after which the next step continues.
    pub anchor: Option<Anchor>,
    /// For a base: the number of its rows.
    pub rows: u64,
    /// For a base: the hash of all rows.
    pub state_hash: String,
    /// For a base: its logical databases.
    pub databases: Vec<DatabaseName>,
    /// In order.
    pub parts: Vec<Part>,
}

/// The kinds of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Every row as of one version.
    Base,
    /// Records of the log, after the previous step.
    Log,
}

/// A record of the log, which identifies the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// Its sequence.
    pub sequence: u64,
    /// The hash of its payload.
    pub digest: String,
}

/// A logical database, as recorded in the backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseName {
    /// As its credential opens it.
    pub name: String,
    /// Its number, the prefix of its keys.
    pub id: u16,
}

/// A file of the backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// In the target.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// XXH3-128 of its bytes.
    pub digest: String,
}

/// How a manifest file is laid out: its own hash, so that no flipped byte in it is believed.
#[derive(Serialize, Deserialize)]
struct Sealed {
    digest: String,
    manifest: serde_json::Value,
}

impl Manifest {
    /// The name of the manifest of this number.
    pub fn name(number: u64) -> String {
        format!("manifest-{number:010}.json")
    }

    /// The inverse of [`Manifest::name`].
    pub fn number_in(name: &str) -> Option<u64> {
        let digits = name.strip_prefix("manifest-")?.strip_suffix(".json")?;
        let number = digits.parse().ok()?;
        (Manifest::name(number) == name).then_some(number)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let manifest = serde_json::to_value(self).expect("numbers and texts are JSON");
        let digest = hex(xxh3_128(manifest.to_string().as_bytes()));
        serde_json::to_vec_pretty(&Sealed { digest, manifest }).expect("numbers and texts are JSON")
    }

    /// Errors: `Damaged`; `Format`.
    pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<Manifest, BackupError> {
        let damaged = |offset, reason| BackupError::Damaged {
            file: name.to_owned(),
            offset,
            reason,
        };
        let sealed: Sealed = serde_json::from_slice(bytes)
            .map_err(|error| damaged(error.column() as u64, "the manifest is not readable"))?;
        if hex(xxh3_128(sealed.manifest.to_string().as_bytes())) != sealed.digest {
            return Err(damaged(0, "the manifest does not match its hash"));
        }
        match sealed.manifest["format"].as_u64() {
            Some(format) if u32::try_from(format).is_ok_and(format::is_read) => {}
            format => {
                return Err(BackupError::Format {
                    file: name.to_owned(),
                    format: format.unwrap_or_default() as u32,
                });
            }
        }
        serde_json::from_value(sealed.manifest).map_err(|_| damaged(0, "the manifest is not readable"))
    }
}

/// As manifests spell hashes.
pub(crate) fn hex(hash: u128) -> String {
    format!("{hash:032x}")
}
