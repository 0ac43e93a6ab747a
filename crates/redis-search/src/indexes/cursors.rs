//! Results of aggregations that clients fetch piece by piece. They are only in memory: a cursor is
//! lost with the process.
//!
//! A cursor has the remaining records, not the plan and a place in it. So all pieces show the state
//! of the request: a plan executed at each piece would see later states, skip and repeat documents,
//! or need a snapshot that outlives the window of versions. GROUPBY and SORTBY need all records
//! before the first piece anyway. `BYTES_MAX` and the process' budget limit the memory.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;
use quartet_engine::{Reserved, UniqueId};
use quartet_layer_redis::module_api::ErrorReply;
use quartet_search::error::SearchError;
use quartet_search::redis::aggregate::Record;

use crate::errors::IntoReply;

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
    /// records than requested. As at the original, a cursor whose last piece was full returns an
    /// empty piece, and clients rely on that.
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
        let mut cursors = self.by_id.lock();
        cursors.retain(|_, open| now_ms.saturating_sub(open.used_ms) <= open.idle_ms_max);
        let count = cursors.values().filter(|open| open.index == cursor.index).count();
        if count >= CURSORS_OF_INDEX_MAX {
            return Err(SearchError::Limit("Too many cursors allocated for index".into()).into_reply());
        }
        let bytes: usize = cursors.values().chain([&cursor]).map(Cursor::bytes).sum();
        if bytes > BYTES_MAX {
            return Err(SearchError::Limit("Cursors of this database hold too many results".into()).into_reply());
        }
        let own = cursor.bytes() as u64;
        if !cursor.reserved.try_set(own) {
            return Err(SearchError::Memory.into_reply());
        }
        loop {
            let id = make_id();
            if id != 0 && !cursors.contains_key(&id) {
                cursors.insert(id, cursor);
                return Ok(id);
            }
        }
    }

    /// Takes a cursor out, to read it.
    pub fn take(&self, index: &UniqueId, id: u64, now_ms: u64) -> Option<Cursor> {
        let mut cursors = self.by_id.lock();
        cursors.retain(|_, open| now_ms.saturating_sub(open.used_ms) <= open.idle_ms_max);
        cursors.get(&id).filter(|cursor| cursor.index == *index)?;
        cursors.remove(&id)
    }

    /// Returns a cursor that was taken.
    pub fn put_back(&self, id: u64, cursor: Cursor) {
        self.by_id.lock().insert(id, cursor);
    }

    /// Number of all cursors and of those of an index.
    pub fn counts(&self, index: &UniqueId) -> (usize, usize) {
        let cursors = self.by_id.lock();
        let count = cursors.values().filter(|open| open.index == *index);
        (cursors.len(), count.count())
    }

    /// Removes the cursors of a dropped index.
    pub fn forget(&self, index: &UniqueId) {
        self.by_id.lock().retain(|_, cursor| cursor.index != *index);
    }
}
