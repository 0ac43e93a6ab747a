//! The changes since an immutable state: new rows, and the old rows that they hide.
//!
//! The state below (`lower`) never changes while an overlay is based on it, so these suffice, in
//! rows or in ranks:
//!
//! - `rows`: the rows that were written since;
//! - `hidden`: the keys of lower rows that were replaced or removed individually, each with the
//!   size of its row (its value);
//! - `masks`: ranges from which every lower row was removed, with their ranks below.
//!
//! The visible rows are `rows`, and the lower rows that nothing hides. Since all three are counted,
//! so are the visible rows.
//!
//! Invariants: a hidden key has a lower row, and is in no mask; masks are in order, do not touch,
//! and each hold a lower row; a lower row under the key of one of `rows` is hidden or masked.

use std::sync::Arc;

use quartet_model::Version;

use crate::error::StoreError;
use crate::memory::tree::{RemovedRows, Tree};
use crate::row::Row;

#[derive(Clone, Default)]
pub(super) struct Overlay {
    pub rows: Tree,
    hidden: Tree,
    /// A lower row was removed. As long as none was, each hidden key has one of `rows`.
    has_removed: bool,
    masks: Arc<Vec<Mask>>,
    /// Memory of `rows` and `hidden` without the trees' nodes. After a range clear it is by the
    /// mean of the rows.
    bytes: u64,
}

/// A range from which every lower row was removed.
#[derive(Clone)]
pub(super) struct Mask {
    pub start: Box<[u8]>,
    pub end: Box<[u8]>,
    /// Lower rows below the start and below the end.
    first: u64,
    last: u64,
    /// Lower rows in the preceding masks.
    before: u64,
}

/// The state that an overlay is based on.
pub(super) trait Lower {
    /// The number of rows below `key`.
    fn rank_below(&self, key: &[u8]) -> Result<u64, StoreError>;

    /// The keys of the range and what their rows take, as rows of an overlay's `hidden`.
    fn keys(&self, start: &[u8], end: &[u8]) -> Result<Vec<Row>, StoreError>;
}

/// Up to this number of lower rows, a range is cleared row by row; otherwise it becomes a mask.
const CLEARED_ONE_BY_ONE: u64 = 64;

/// How a range will be cleared: what had to be read for it.
pub(super) enum ClearPlan {
    /// Lower rows to hide.
    Hide(Vec<Row>),
    Mask {
        first: u64,
        last: u64,
    },
}

/// The parts that clearing a range removed from an overlay and added to it.
pub(super) struct ClearedPart {
    start: Box<[u8]>,
    end: Box<[u8]>,
    pub rows: RemovedRows,
    /// Keys that the mask hides now.
    pub unhidden: RemovedRows,
    /// Keys hidden one by one.
    pub hidden: Vec<Row>,
    masks_before: Arc<Vec<Mask>>,
    bytes_before: u64,
}

/// A hidden key, with the counted size of its row.
pub(super) fn hidden_row(key: &[u8], row_bytes: u64) -> Row {
    Row::new(key, &row_bytes.to_le_bytes(), Version::ZERO)
}

/// Returns the size that the hidden row counts for.
pub(super) fn hidden_bytes(hidden: &Row) -> u64 {
    hidden.value().try_into().map_or(0, u64::from_le_bytes)
}

/// The part of `bytes` that falls to `some` of `all` entries.
fn share(bytes: u64, some: u64, all: u64) -> u64 {
    match all {
        0 => 0,
        _ => (u128::from(bytes) * u128::from(some) / u128::from(all)) as u64,
    }
}

impl Overlay {
    /// Writes a row; `seen` is the present row under its key. It reads nothing, so it cannot fail.
    pub fn put(&mut self, row: Row, seen: Option<&Row>) {
        self.bytes += row.memory_bytes();
        match (self.rows.insert(row), seen) {
            (Some(replaced), _) => self.bytes = self.bytes.saturating_sub(replaced.memory_bytes()),
            (None, Some(seen)) => self.hide(hidden_row(seen.key(), seen.stored_bytes())),
            (None, None) => {}
        }
    }

    /// Removes the row that is seen.
    pub fn take(&mut self, seen: &Row) {
        self.has_removed = true;
        match self.rows.remove(seen.key()) {
            Some(removed) => self.bytes = self.bytes.saturating_sub(removed.memory_bytes()),
            None => self.hide(hidden_row(seen.key(), seen.stored_bytes())),
        }
    }

    fn hide(&mut self, hidden: Row) {
        self.bytes += hidden.memory_bytes();
        if let Some(replaced) = self.hidden.insert(hidden) {
            self.bytes = self.bytes.saturating_sub(replaced.memory_bytes());
        }
    }

    /// Memory of the rows and keys that it holds, in bytes, without the nodes of its trees.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of rows and keys that its trees hold.
    pub fn entries(&self) -> u64 {
        self.rows.len() + self.hidden.len()
    }

    /// Returns true if a lower row under `key`, which none of `rows` has, is not seen. Where rows
    /// are only replaced, it costs no look-up.
    pub fn hides_unwritten(&self, key: &[u8]) -> bool {
        self.mask_of(key).is_some() || self.has_removed && self.is_hidden(key)
    }

    /// Returns true if a lower row under `key` is not seen.
    pub fn hides(&self, key: &[u8]) -> bool {
        self.mask_of(key).is_some() || self.is_hidden(key)
    }

    /// Returns true if a lower row was replaced or removed individually.
    pub fn is_hidden(&self, key: &[u8]) -> bool {
        !self.hidden.is_empty() && self.hidden.get(key).is_some()
    }

    pub fn mask_of(&self, key: &[u8]) -> Option<&Mask> {
        let behind = self.masks.partition_point(|mask| &*mask.start <= key);
        let mask = &self.masks[behind.checked_sub(1)?];
        (key < &*mask.end).then_some(mask)
    }

    /// The masks, including some outside of the range.
    pub fn masks(&self) -> &[Mask] {
        &self.masks
    }

    /// The keys hidden one by one, in order.
    pub fn hidden(&self) -> &Tree {
        &self.hidden
    }

    /// Lower rows below `key` that are not seen; `rank` is the number of lower rows below it.
    pub fn unseen_below(&self, key: &[u8], rank: u64) -> u64 {
        let behind = self.masks.partition_point(|mask| &*mask.start < key);
        let masked = match behind.checked_sub(1).map(|index| &self.masks[index]) {
            Some(mask) => mask.before + rank.min(mask.last) - mask.first,
            None => 0,
        };
        masked + self.hidden.rank(key)
    }

    /// Lower rows that are not seen.
    pub fn unseen(&self) -> u64 {
        let masked = self.masks.last().map_or(0, |mask| mask.before + mask.last - mask.first);
        masked + self.hidden.len()
    }

    pub fn plan_clear(&self, lower: &impl Lower, start: &[u8], end: &[u8]) -> Result<ClearPlan, StoreError> {
        let (first, last) = (lower.rank_below(start)?, lower.rank_below(end)?);
        let seen = last - first + self.unseen_below(start, first) - self.unseen_below(end, last);
        if seen == 0 {
            return Ok(ClearPlan::Hide(Vec::new()));
        }
        if last - first > CLEARED_ONE_BY_ONE {
            return Ok(ClearPlan::Mask { first, last });
        }
        let mut keys = lower.keys(start, end)?;
        keys.retain(|key| !self.hides(key.key()));
        Ok(ClearPlan::Hide(keys))
    }

    /// Clears a range as it was planned. No reading: it cannot fail.
    pub fn clear_range(&mut self, plan: ClearPlan, start: &[u8], end: &[u8]) -> ClearedPart {
        self.has_removed = true;
        let (entries_before, bytes_before) = (self.entries(), self.bytes);
        let rows = self.rows.remove_range(start, end);
        let masks_before = self.masks.clone();
        let (unhidden, hidden) = match plan {
            ClearPlan::Hide(keys) => (RemovedRows::default(), keys),
            ClearPlan::Mask { first, last } => {
                self.mask(start, end, first, last);
                (self.hidden.remove_range(start, end), Vec::new())
            }
        };
        self.bytes = share(bytes_before, self.entries(), entries_before);
        for key in &hidden {
            self.hide(key.clone());
        }
        ClearedPart {
            start: start.into(),
            end: end.into(),
            rows,
            unhidden,
            hidden,
            masks_before,
            bytes_before,
        }
    }

    /// Undoes a clear; all later writes must have been undone before.
    pub fn restore(&mut self, cleared: &ClearedPart) {
        // Rows written there since and undone may have left hidden keys that the mask hid as well.
        drop(self.rows.remove_range(&cleared.start, &cleared.end));
        self.masks = cleared.masks_before.clone();
        for row in cleared.rows.rows() {
            self.rows.insert(row.clone());
        }
        for key in cleared.unhidden.rows() {
            self.hidden.insert(key.clone());
        }
        for key in &cleared.hidden {
            self.hidden.remove(key.key());
        }
        self.bytes = cleared.bytes_before;
    }

    /// Adds a mask, and merges it with masks that it overlaps or touches.
    fn mask(&mut self, start: &[u8], end: &[u8], first: u64, last: u64) {
        let masks = Arc::make_mut(&mut self.masks);
        let from = masks.partition_point(|mask| &*mask.end < start);
        let to = masks.partition_point(|mask| &*mask.start <= end);
        let mut joined = Mask {
            start: start.into(),
            end: end.into(),
            first,
            last,
            before: 0,
        };
        for other in masks.drain(from..to) {
            joined.start = joined.start.min(other.start);
            joined.end = joined.end.max(other.end);
            joined.first = joined.first.min(other.first);
            joined.last = joined.last.max(other.last);
        }
        masks.insert(from, joined);
        let mut before = 0;
        for mask in masks.iter_mut() {
            mask.before = before;
            before += mask.last - mask.first;
        }
    }
}
