//! Bytes that deleting every row may write to the log.
//!
//! A deletion writes its key, and its share of a record: all of the record, if a client waits for
//! each reply before the next. Deletions of a layer may write more, as those of indexed documents
//! do; so the estimate is at least a share of the rows.
//!
//! The estimate is at most the bytes of the rows: with that space a checkpoint fits, and frees the
//! log.

use quartet_store::{Read, StoreError};

use crate::durability::stored::KEYS_END;

/// Number of keys that the mean length is taken from, at most; evenly spread.
const SAMPLES: u64 = 64;
/// Bytes of a record with one deletion beside its key: the headers of the record, the transaction
/// and the effect, and what aligns it.
const RECORD_BYTES: u64 = 56;
/// Bytes of rows for each byte that their deletion writes, at most. A document of 150 words in an
/// index has 3 kB as stored, and its deletion writes 0.4.
const STORED_PER_DELETED: u64 = 4;

/// Returns the bytes that deleting all `rows`, of `stored_bytes`, one by one may write to the log.
pub(crate) fn deletion_bytes(rows: &impl Read, stored_bytes: u64) -> Result<u64, StoreError> {
    let (mut samples, mut key_bytes) = (0, 0);
    for index in (0..rows.len()).step_by(rows.len().div_ceil(SAMPLES).max(1) as usize) {
        if let Some(row) = rows.nth(&[], &KEYS_END, index)? {
            samples += 1;
            key_bytes += row.key().len() as u64;
        }
    }
    let each = RECORD_BYTES + key_bytes / samples.max(1);
    let one_by_one = rows.len().saturating_mul(each);
    Ok(one_by_one.max(stored_bytes / STORED_PER_DELETED).min(stored_bytes))
}
