//! Results of aggregations that clients fetch piece by piece. They are only in memory: a cursor is
//! lost with the process.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use quartet_engine::{Reserved, UniqueId};
use quartet_search::SearchError;
use quartet_search::aggregate::Record;

use crate::command::error_reply::ErrorReply;

/// Most cursors of one index.
pub const CURSORS_OF_INDEX_MAX: usize = 128;

/// Most bytes that all cursors of a database hold, about.
const BYTES_MAX: usize = 64 << 20;

/// Which parts of a record are shown.
#[derive(Clone, Copy, Default)]
pub struct RecordForm {
    pub with_scores: bool,
    /// Scores are shown with their reasons.
    pub explains_scores: bool,
    pub with_payloads: bool,
    pub no_content: bool,
    /// WITHCOUNT: each piece has the total, also an empty one.
    pub with_count: bool,
}

/// The rest of a result.
pub struct Cursor {
    /// The number of its index, which no later one of the same name has.
    pub index: UniqueId,
    /// The number of records before the first piece.
    pub total: u64,
    pub records: VecDeque<Record>,
    pub form: RecordForm,
    /// The number of a piece's records.
    pub count: usize,
    pub idle_ms_max: u64,
    /// The time of its last read.
    pub used_ms: u64,
    /// The bytes of its records in the process' budget.
    pub reserved: Reserved,
}

impl Cursor {
    fn bytes(&self) -> usize {
        self.records.iter().map(Record::size).sum()
    }

    /// Takes the next piece, and returns it with whether it is the last: the piece with fewer
    /// records than requested. Like the original's, a cursor whose records are exactly used up
    /// still returns an empty piece, which clients rely on.
    pub fn piece(&mut self, count: Option<usize>) -> (Vec<Record>, bool) {
        let count = count.unwrap_or(self.count);
        let is_last = self.records.len() < count;
        let piece = self.records.drain(..count.min(self.records.len())).collect();
        self.reserved.set(self.bytes() as u64);
        (piece, is_last)
    }
}

#[derive(Default)]
pub struct Cursors {
    by_id: Mutex<BTreeMap<u64, Cursor>>,
}

impl Cursors {
    /// Keeps a cursor under an id that `make_id` gives. The error is for the client.
    pub fn add(&self, mut cursor: Cursor, now_ms: u64, mut make_id: impl FnMut() -> u64) -> Result<u64, ErrorReply> {
        let mut by_id = self.by_id.lock();
        by_id.retain(|_, known| now_ms.saturating_sub(known.used_ms) <= known.idle_ms_max);
        let of_index = by_id.values().filter(|known| known.index == cursor.index).count();
        if of_index >= CURSORS_OF_INDEX_MAX {
            return Err("SEARCH_LIMIT_OVER Too many cursors allocated for index".into());
        }
        let bytes: usize = by_id.values().chain([&cursor]).map(Cursor::bytes).sum();
        if bytes > BYTES_MAX {
            return Err("SEARCH_LIMIT_OVER Cursors of this database hold too many results".into());
        }
        let own = cursor.bytes() as u64;
        if !cursor.reserved.try_set(own) {
            return Err(SearchError::Memory.into());
        }
        loop {
            let id = make_id();
            if id != 0 && !by_id.contains_key(&id) {
                by_id.insert(id, cursor);
                return Ok(id);
            }
        }
    }

    /// Takes a cursor out, to read it.
    pub fn take(&self, index: &UniqueId, id: u64, now_ms: u64) -> Option<Cursor> {
        let mut by_id = self.by_id.lock();
        by_id.retain(|_, known| now_ms.saturating_sub(known.used_ms) <= known.idle_ms_max);
        by_id.get(&id).filter(|cursor| cursor.index == *index)?;
        by_id.remove(&id)
    }

    /// Returns a cursor that was taken.
    pub fn put_back(&self, id: u64, cursor: Cursor) {
        self.by_id.lock().insert(id, cursor);
    }

    /// Number of all cursors and of those of an index.
    pub fn counts(&self, index: &UniqueId) -> (usize, usize) {
        let by_id = self.by_id.lock();
        let of_index = by_id.values().filter(|known| known.index == *index);
        (by_id.len(), of_index.count())
    }

    /// Removes the cursors of a dropped index.
    pub fn forget(&self, index: &UniqueId) {
        self.by_id.lock().retain(|_, cursor| cursor.index != *index);
    }
}
