//! Rows beside the definitions: when these changed, and how far an index is filled.

use quartet_engine::{Transaction, UniqueId};

pub const MARK: &[u8] = b"Sc";

/// The key of rows of the index with this number.
pub fn numbered(tag: u8, number: &UniqueId) -> Vec<u8> {
    [&[b'S', tag], number.as_slice()].concat()
}

/// The definitions are others from here on.
pub fn changed(tx: &mut Transaction<'_>) {
    if tx.count(b"Si", b"Sl") == 0 {
        tx.clear(MARK);
        return;
    }
    let mark = tx.unique_id();
    tx.set(MARK, &mark);
}

/// The state of an index that is being filled.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// As SCAN's: keys before it are in the index.
    pub cursor: u64,
    /// Existing documents are analysed again, for an added field.
    pub anew: bool,
}

impl Progress {
    /// Nothing is in the index.
    pub const FIRST: Progress = Progress { cursor: 0, anew: false };

    /// The progress of an index that has looked at this share of its documents.
    pub fn of_share(share: f64) -> Progress {
        Progress {
            cursor: (share.clamp(0.0, 1.0) * (1u64 << 53) as f64) as u64,
            anew: false,
        }
    }

    /// The part of all keys that were looked at.
    pub fn share(self) -> f64 {
        self.cursor as f64 / (1u64 << 53) as f64
    }

    pub fn to_row(self) -> Vec<u8> {
        [&self.cursor.to_be_bytes()[..], &[u8::from(self.anew)]].concat()
    }
}

pub fn progress_of(tx: &mut Transaction<'_>, number: &UniqueId) -> Option<Progress> {
    let row = tx.get(&numbered(b'b', number))?;
    let (cursor, remainder) = row.value().split_first_chunk().expect("a cursor has eight bytes");
    Some(Progress {
        cursor: u64::from_be_bytes(*cursor),
        anew: remainder == [1],
    })
}

pub fn set_progress_of(tx: &mut Transaction<'_>, number: &UniqueId, progress: Option<Progress>) {
    let key = numbered(b'b', number);
    match progress {
        None => _ = tx.clear(&key),
        Some(progress) => _ = tx.set(&key, &progress.to_row()),
    }
}
