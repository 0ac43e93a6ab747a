//! Search indexes over the keys of database 0: their definitions, and the places of their rows.
//!
//! ```text
//! 'S' 'c'                 changes with every change of the definitions; absent while there is none
//! 'S' 'i' name            an index: number (10), place (4), then packed: the words of FT.CREATE, those of each FT.ALTER,
//!                         `SYNONYMS` with groups and words in turn
//! 'S' 'a' alias           the name of the index that it stands for
//! 'S' 'j' name            an index that is a key: number (10), place (4), then packed the words of SEARCH.CREATE
//! 'S' 'k' alias           the name of such an index, which need not be there
//! 'S' 'b' number          the index is being filled: cursor of SCAN (8), 1 if documents are analysed anew
//! 'S' 'e' number          the stream that an index follows, see `FollowedStream`
//! 'S' 'f' number          documents that could not be indexed: see `Failures`
//! 'S' 't' number          when a temporary index was used: see `temporary`
//! 'S' 'd' place ...       the index's own rows: `quartet_search`; a place below 128 is a byte, others are four
//! 'S' 'y' length name word   a word of a dictionary; the length has two bytes
//! 'V' id                  elements of the vector set with this id may wait to be linked; no value
//! ```
//!
//! Numbers have ten bytes and are never reused. Places are reused once they have no rows left: they
//! are part of the key of every row of an index. The words of the request are the definition, so
//! there is one grammar for both, [`Definition::parse`]; it must continue to accept everything that
//! it once accepted.
//!
//! The catalogue is read from its rows when the row 'c' has changed, so a transaction sees the
//! definitions as of its own state, and a rolled-back transaction leaves no wrong state.

mod catalogue;
mod codes;
mod cursors;
mod definition;
mod failures;
pub mod figures;
mod followed_stream;
mod key_index;
mod marks;
mod pace;
pub mod query_memory;
mod resident;
mod rows;
mod stored;
pub mod temporary;
pub mod usage;
mod vectors;
mod words;

pub use catalogue::{Catalogue, Index};
pub use codes::AllCodes;
#[cfg(test)]
pub use cursors::CURSORS_OF_INDEX_MAX;
pub use cursors::{Cursor, Cursors, RecordForm};
pub use definition::{Accepted, Definition};
pub use failures::{Failure, Failures};
pub use figures::IndexFigures;
pub use followed_stream::{FollowedStream, row_key as followed_stream_key};
pub use key_index::{KeyDefinition, KeyIndex};
pub use marks::{Progress, numbered};
pub use resident::{ResidentSets, SetRows};
pub use rows::{Overlay, TransactionRows};
#[cfg(test)]
pub use stored::row_parts;
pub use stored::{NO_PLACE, StoredIndex, rows_at, rows_prefix_of};
pub use vectors::Algorithm;
pub use words::{Words, refused};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use quartet_engine::{Transaction, UniqueId};
use quartet_layer_redis::module_api::TransactionEnds;
use quartet_search::rows::DocumentId;

/// State in memory beside the rows.
#[derive(Default)]
pub struct Indexes {
    latest: Mutex<Option<Arc<Catalogue>>>,
    /// The catalogue was read in a transaction that has not ended yet.
    uncertain: AtomicBool,
    ends: TransactionEnds,
    /// By the number of an index: its newest document, and since when it is the newest.
    newest: Mutex<BTreeMap<UniqueId, (DocumentId, u64)>>,
    pub codes: AllCodes,
    pub resident_sets: ResidentSets,
    /// The version at which vectors were last taken into their graphs.
    pub linked: AtomicU64,
    pub uses: temporary::Uses,
    pub usage: usage::Usage,
    pub paces: pace::Paces,
    pub query_memory: query_memory::QueryMemory,
    /// As they were when they were last read.
    figures: Mutex<Vec<IndexFigures>>,
    pub sizes: figures::KnownSizes,
    /// Searches that ran out of time: with an error reply, and with a partial reply.
    pub timeouts: [AtomicU64; 2],
}

/// Time without new documents after which an index is quiet.
const QUIET_MS: u64 = 1000;

/// Limit of indexes with a recorded newest document. Entries of dropped indexes are removed
/// together with all others.
const NEWEST_MAX: usize = 4096;

impl Indexes {
    pub fn new(ends: TransactionEnds) -> Indexes {
        Indexes {
            ends,
            ..Indexes::default()
        }
    }

    /// The transaction was committed.
    #[inline]
    pub fn commit(&self) {
        self.uncertain.store(false, Ordering::Relaxed);
    }

    /// The transaction was rolled back. Another may assign its marks again, so the definitions read
    /// in it are dropped.
    pub fn discard(&self) {
        if self.uncertain.swap(false, Ordering::Relaxed) {
            *self.latest.lock() = None;
        }
    }

    /// The newest definitions are committed.
    pub fn is_certain(&self) -> bool {
        !self.uncertain.load(Ordering::Relaxed)
    }

    /// Returns whether an index with this newest document is quiet. Call it at intervals.
    pub fn is_quiet(&self, index: &Index, newest: DocumentId, now_ms: u64) -> bool {
        let mut newest_marks = self.newest.lock();
        if newest_marks.len() > NEWEST_MAX {
            newest_marks.clear();
        }
        match newest_marks.get(&index.head.number) {
            Some((last, since_ms)) if *last == newest => now_ms.saturating_sub(*since_ms) >= QUIET_MS,
            _ => {
                newest_marks.insert(index.head.number, (newest, now_ms));
                false
            }
        }
    }

    /// The figures of all indexes, read again if `tx` is given.
    pub fn figures(&self, tx: Option<&mut Transaction<'_>>) -> Vec<IndexFigures> {
        if let Some(tx) = tx {
            let catalogue = self.catalogue(tx);
            let read = figures::figures(tx, &catalogue, &self.paces);
            *self.figures.lock() = read;
        }
        self.figures.lock().clone()
    }

    /// Counts a search that ran out of time.
    pub fn note_timeout(&self, answers_part: bool) {
        self.timeouts[usize::from(answers_part)].fetch_add(1, Ordering::Relaxed);
    }

    /// The definitions as the transaction sees them.
    pub fn catalogue(&self, tx: &mut Transaction<'_>) -> Arc<Catalogue> {
        let mark = tx.get(marks::MARK);
        let mark = mark.as_ref().map(|row| row.value());
        let mut latest = self.latest.lock();
        if let Some(current) = latest.as_ref().filter(|current| current.mark() == mark) {
            return current.clone();
        }
        let read = Arc::new(Catalogue::read(tx, mark.map(<[u8]>::to_vec)));
        // One that only reads sees what is committed, and perhaps an older state than others know.
        let is_newer = latest.as_ref().is_none_or(|current| current.mark() < read.mark());
        if !tx.only_reads() {
            self.uncertain.store(true, Ordering::Relaxed);
            self.ends.await_next();
        }
        if is_newer || !tx.only_reads() {
            *latest = Some(read.clone());
        }
        read
    }
}

/// Removes all definitions with their rows.
pub fn clear(tx: &mut Transaction<'_>) {
    tx.clear_range(b"S", b"T");
}
