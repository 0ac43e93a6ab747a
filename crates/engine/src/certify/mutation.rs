//! The writes of an interactive transaction, and how each is applied at commit.

use quartet_model::{AtomicOperation, KeyRange, Version};

use crate::partition::transaction::Transaction;

/// A write of an interactive transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// The key has this value.
    Set {
        /// Below the prefix of the space, as in every variant.
        key: Vec<u8>,
        /// The row's new value.
        value: Vec<u8>,
    },
    /// Deletes the key.
    Clear {
        /// Nothing happens if it is not there.
        key: Vec<u8>,
    },
    /// Deletes all keys of the range.
    ClearRange {
        /// Start included, end excluded.
        range: KeyRange,
    },
    /// Computed from the value at commit.
    Atomic {
        /// How.
        operation: AtomicOperation,
        /// The row's key.
        key: Vec<u8>,
        /// The operation's operand, beside the present value.
        operand: Vec<u8>,
    },
    /// The versionstamp overwrites ten bytes of the key. Precondition: `offset + VERSIONSTAMP_BYTES
    /// <= key.len()`.
    SetVersionstampedKey {
        /// With room for the versionstamp.
        key: Vec<u8>,
        /// Offset of the versionstamp in the key.
        offset: usize,
        /// The row's new value.
        value: Vec<u8>,
    },
    /// The versionstamp overwrites ten bytes of the value. Precondition: `offset +
    /// VERSIONSTAMP_BYTES <= value.len()`.
    SetVersionstampedValue {
        /// The row's key.
        key: Vec<u8>,
        /// With room for the versionstamp.
        value: Vec<u8>,
        /// Offset of the versionstamp in the value.
        offset: usize,
    },
}

/// Length of a versionstamp.
pub const VERSIONSTAMP_BYTES: usize = 10;

/// Returns the versionstamp of a transaction that committed at `version`: the version, big-endian,
/// and its position among the transactions of that version, which is zero because each has a
/// version of its own.
pub fn versionstamp(version: Version) -> [u8; VERSIONSTAMP_BYTES] {
    let mut stamp = [0; VERSIONSTAMP_BYTES];
    stamp[..8].copy_from_slice(&version.0.to_be_bytes());
    stamp
}

impl Mutation {
    /// Returns the single key that it writes, if that is known before it commits.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match self {
            Mutation::Set { key, .. }
            | Mutation::Clear { key }
            | Mutation::Atomic { key, .. }
            | Mutation::SetVersionstampedValue { key, .. } => Some(key),
            Mutation::ClearRange { .. } | Mutation::SetVersionstampedKey { .. } => None,
        }
    }

    /// Applies it. Returns the range that it writes without leaving a trace, because the range was
    /// empty: its readers must still conflict.
    #[must_use]
    pub(crate) fn apply(&self, target: &mut Transaction<'_>) -> Option<KeyRange> {
        match self {
            Mutation::Set { key, value } => _ = target.set_parts(&[key], &[value]),
            Mutation::Clear { key } => return cleared(target, key),
            Mutation::ClearRange { range } => {
                let count = target.clear_range(&range.start, &range.end);
                return (count == 0 && !range.is_empty()).then(|| range.clone());
            }
            Mutation::Atomic {
                operation,
                key,
                operand,
            } => {
                let old = target.get(key);
                match operation.apply(old.as_ref().map(|row| row.value()), operand) {
                    Some(new) => _ = target.set_parts(&[key], &[&new]),
                    None => return cleared(target, key),
                }
            }
            Mutation::SetVersionstampedKey { key, offset, value } => {
                let key = stamped(key, *offset, target);
                target.set_parts(&[&key], &[value]);
            }
            Mutation::SetVersionstampedValue { key, value, offset } => {
                let value = stamped(value, *offset, target);
                target.set_parts(&[key], &[&value]);
            }
        }
        None
    }
}

/// Clears a key. Returns it if there was nothing to clear.
fn cleared(target: &mut Transaction<'_>, key: &[u8]) -> Option<KeyRange> {
    match target.clear(key) {
        Some(_) => None,
        None => Some(KeyRange::point(key)),
    }
}

fn stamped(bytes: &[u8], offset: usize, target: &mut Transaction<'_>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[offset..offset + VERSIONSTAMP_BYTES].copy_from_slice(&versionstamp(target.commit_version()));
    bytes
}
