//! A reader's view: an overlay and the tree on disk below it.
//!
//! Rows of both are merged in key order. Counting needs no merging: the number of rows seen below a
//! key is the overlay's, and the tree's less what is hidden. The n-th row is found by one way down
//! the tree with that sum as its measure.

use std::ops::ControlFlow;

use quartet_model::Version;

use super::base::{Base, CacheMode, Cursor, Found};
use super::overlay::{Lower, Overlay, hidden_bytes, hidden_row};
use crate::error::StoreError;
use crate::interface::{Read, Snapshot};
use crate::row::Row;

/// A snapshot of an [`SsdStore`](crate::SsdStore). While it lives, the files that its tree needs
/// are kept, within a bound: an old snapshot may become unreadable.
#[derive(Clone)]
pub struct SsdSnapshot {
    pub(super) overlay: Overlay,
    pub(super) base: Base,
}

type Visit<'v> = &'v mut dyn FnMut(&Row) -> ControlFlow<()>;

/// The ends of a range; `None` is beyond every key.
#[derive(Clone, Copy)]
struct Span<'a> {
    start: &'a [u8],
    end: Option<&'a [u8]>,
}

/// Number of consecutive hidden rows that are stepped over; then the next visible row is looked up.
const STEPPED_OVER: u32 = 16;

impl SsdSnapshot {
    /// Prefetches the rows under the keys. A row that cannot be read is reported to its reader.
    pub(super) fn fetch(&self, keys: &[&[u8]]) {
        let mut below = Vec::new();
        let mut keys_left = keys.iter();
        self.overlay.rows.fetch(keys, &mut |way| {
            let key = keys_left.next();
            below.extend(key.filter(|_| way.is_none()).copied());
        });
        self.base.fetch(&below);
    }

    /// Rows of the tree that are seen below `key`.
    fn seen_below(&self, key: &[u8], rank: u64) -> u64 {
        rank - self.overlay.unseen_below(key, rank)
    }

    /// Rows seen below `key`; `rank` is the number of the tree's rows below it.
    fn merged_below(&self, key: &[u8], rank: u64) -> u64 {
        self.overlay.rows.rank(key) + self.seen_below(key, rank)
    }

    pub(super) fn rank(&self, key: &[u8]) -> Result<u64, StoreError> {
        Ok(self.merged_below(key, self.base.rank(key)?.rows))
    }

    /// The row with `rank` rows before it.
    fn row_at(&self, rank: u64) -> Result<Option<Row>, StoreError> {
        if rank >= self.len() {
            return Ok(None);
        }
        let position = self
            .base
            .last_before(|key, before| self.merged_below(key, before) <= rank)?;
        let Some(position) = position else {
            return Ok(self.overlay.rows.nth(rank).cloned());
        };
        let before = position.before();
        let Some(index) = position.index else {
            let seen = self.seen_below(position.leaf().key(0), before);
            return Ok(self.overlay.rows.nth(rank - seen).cloned());
        };
        let entry = position.leaf().entry(index);
        let is_seen = !self.overlay.hides(entry.key);
        if is_seen && self.merged_below(entry.key, before) == rank {
            return self.base.row(entry).map(Some);
        }
        let seen = self.seen_below(entry.key, before) + u64::from(is_seen);
        Ok(self.overlay.rows.nth(rank - seen).cloned())
    }

    /// The last of the tree's rows that are seen with at most `seen` of them before it.
    fn seen_row(&self, seen: u64) -> Result<Option<Found>, StoreError> {
        self.base
            .last_before(|key, before| self.seen_below(key, before) <= seen)
    }

    fn visit_forwards(&self, span: Span<'_>, keeps: CacheMode, visit: Visit<'_>) -> Result<(), StoreError> {
        let own = &self.overlay.rows;
        let mut own = match span.end {
            Some(end) => own.range(span.start, end),
            None => own.rows_from(span.start),
        }
        .peekable();
        let mut below = Below {
            view: self,
            cursor: self.base.cursor_at(span.start, keeps)?,
        };
        let mut next = below.next(span.end)?;
        loop {
            let takes_own = match (own.peek(), &next) {
                (Some(own), Some(next)) => own.key() < next.key(),
                (own, _) => own.is_some(),
            };
            let flow = if takes_own {
                own.next().map(&mut *visit)
            } else if let Some(row) = next.take() {
                let flow = visit(&row);
                if flow.is_continue() {
                    next = below.next(span.end)?;
                }
                Some(flow)
            } else {
                None
            };
            if flow.is_none_or(|flow| flow.is_break()) {
                return Ok(());
            }
        }
    }

    fn visit_backwards(&self, start: &[u8], end: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        let mut own = self.overlay.rows.range(start, end).rev().peekable();
        let mut below = Below {
            view: self,
            cursor: self.base.cursor_at(end, CacheMode::Leaves)?,
        };
        let mut next = below.previous(start)?;
        loop {
            let takes_own = match (own.peek(), &next) {
                (Some(own), Some(next)) => own.key() > next.key(),
                (own, _) => own.is_some(),
            };
            let flow = if takes_own {
                own.next().map(&mut *visit)
            } else if let Some(row) = next.take() {
                let flow = visit(&row);
                if flow.is_continue() {
                    next = below.previous(start)?;
                }
                Some(flow)
            } else {
                None
            };
            if flow.is_none_or(|flow| flow.is_break()) {
                return Ok(());
            }
        }
    }

    /// Returns the size of the tree's rows in the range, without masked rows.
    pub(super) fn unmasked_bytes(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        let between = |start: &[u8], end: &[u8]| -> Result<u64, StoreError> {
            Ok(self.base.rank(end)?.row_bytes - self.base.rank(start)?.row_bytes)
        };
        let mut bytes = between(start, end)?;
        for mask in self.overlay.masks() {
            let (masked_from, masked_to) = (start.max(&mask.start), end.min(&mask.end));
            if masked_from < masked_to {
                bytes -= between(masked_from, masked_to)?;
            }
        }
        Ok(bytes)
    }
}

/// The tree's rows that are seen, one after the other.
struct Below<'v> {
    view: &'v SsdSnapshot,
    cursor: Cursor<'v>,
}

impl Below<'_> {
    fn next(&mut self, end: Option<&[u8]>) -> Result<Option<Row>, StoreError> {
        let (view, mut stepped) = (self.view, 0);
        loop {
            let Some(entry) = self.cursor.after()? else {
                return Ok(None);
            };
            if end.is_some_and(|end| entry.key >= end) {
                return Ok(None);
            }
            if let Some(mask) = view.overlay.mask_of(entry.key) {
                self.cursor.seek(&mask.end)?;
                continue;
            }
            if !view.overlay.is_hidden(entry.key) {
                let row = view.base.row(entry)?;
                self.cursor.step();
                return Ok(Some(row));
            }
            stepped += 1;
            if stepped < STEPPED_OVER {
                self.cursor.step();
                continue;
            }
            stepped = 0;
            let rank = view.base.rank(entry.key)?.rows;
            let seen = view.seen_below(entry.key, rank);
            if seen == view.base.rows() - view.overlay.unseen() {
                return Ok(None);
            }
            let Some((position, index)) = view.seen_row(seen)?.and_then(Found::with_index) else {
                return Ok(None);
            };
            self.cursor.seek(position.leaf().key(index))?;
        }
    }

    fn previous(&mut self, start: &[u8]) -> Result<Option<Row>, StoreError> {
        let (view, mut stepped) = (self.view, 0);
        loop {
            let Some(entry) = self.cursor.before()? else {
                return Ok(None);
            };
            if entry.key < start {
                return Ok(None);
            }
            if let Some(mask) = view.overlay.mask_of(entry.key) {
                self.cursor.seek(&mask.start)?;
                continue;
            }
            if !view.overlay.is_hidden(entry.key) {
                let row = view.base.row(entry)?;
                self.cursor.step_back();
                return Ok(Some(row));
            }
            stepped += 1;
            if stepped < STEPPED_OVER {
                self.cursor.step_back();
                continue;
            }
            stepped = 0;
            let rank = view.base.rank(entry.key)?.rows;
            let Some(seen) = view.seen_below(entry.key, rank).checked_sub(1) else {
                return Ok(None);
            };
            let Some((position, index)) = view.seen_row(seen)?.and_then(Found::with_index) else {
                return Ok(None);
            };
            let key = position.leaf().key(index);
            self.cursor.seek(key)?;
            // Past the row that was found.
            self.cursor.after()?;
            self.cursor.step();
        }
    }
}

impl Read for SsdSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Row>, StoreError> {
        if let Some(row) = self.overlay.rows.get(key) {
            return Ok(Some(row.clone()));
        }
        if self.overlay.hides_unwritten(key) {
            return Ok(None);
        }
        self.base.get(key)
    }

    fn get_each(&self, keys: &[&[u8]]) -> Result<Vec<Option<Row>>, StoreError> {
        let mut rows = Vec::with_capacity(keys.len());
        self.overlay.rows.get_each(keys, &mut |row| rows.push(row.cloned()));
        let is_below = |(key, row): &(&&[u8], &mut Option<Row>)| row.is_none() && !self.overlay.hides_unwritten(key);
        let missing = keys.iter().zip(&mut rows).filter(is_below);
        let (keys, places): (Vec<&[u8]>, Vec<&mut Option<Row>>) = missing.map(|(key, row)| (*key, row)).unzip();
        for (place, row) in places.into_iter().zip(self.base.get_each(&keys)?) {
            *place = row;
        }
        Ok(rows)
    }

    fn fetch_rows(&self, keys: &[&[u8]]) {
        self.fetch(keys);
    }

    fn scan(&self, start: &[u8], end: &[u8], reverse: bool, visit: Visit<'_>) -> Result<(), StoreError> {
        if start >= end {
            return Ok(());
        }
        let span = Span { start, end: Some(end) };
        match reverse {
            true => self.visit_backwards(start, end, visit),
            false => self.visit_forwards(span, CacheMode::Leaves, visit),
        }
    }

    fn walk(&self, start: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        self.visit_forwards(Span { start, end: None }, CacheMode::Nothing, visit)
    }

    fn count(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        if start >= end {
            return Ok(0);
        }
        Ok(self.rank(end)? - self.rank(start)?)
    }

    fn nth(&self, start: &[u8], end: &[u8], index: u64) -> Result<Option<Row>, StoreError> {
        if start >= end {
            return Ok(None);
        }
        let Some(rank) = self.rank(start)?.checked_add(index) else {
            return Ok(None);
        };
        Ok(self.row_at(rank)?.filter(|row| row.key() < end))
    }

    fn row_bytes(&self, start: &[u8], end: &[u8]) -> Result<u64, StoreError> {
        if start >= end {
            return Ok(0);
        }
        let own: u64 = self.overlay.rows.range(start, end).map(Row::stored_bytes).sum();
        let hidden: u64 = self.overlay.hidden().range(start, end).map(hidden_bytes).sum();
        Ok(own + self.unmasked_bytes(start, end)? - hidden)
    }

    /// A hidden row of the tree has been replaced by a newer one, or removed.
    fn has_newer(&self, start: &[u8], end: &[u8], version: Version) -> Result<bool, StoreError> {
        Ok(self.overlay.rows.has_newer(start, end, version) || self.base.has_newer(start, end, version)?)
    }

    fn len(&self) -> u64 {
        self.overlay.rows.len() + self.base.rows() - self.overlay.unseen()
    }
}

impl Snapshot for SsdSnapshot {
    fn drain(self, visit: Visit<'_>) -> Result<(), StoreError> {
        self.walk(b"", visit)
    }
}

impl Lower for Base {
    fn rank_below(&self, key: &[u8]) -> Result<u64, StoreError> {
        Ok(self.rank(key)?.rows)
    }

    fn keys(&self, start: &[u8], end: &[u8]) -> Result<Vec<Row>, StoreError> {
        let (mut cursor, mut keys) = (self.cursor_at(start, CacheMode::Leaves)?, Vec::new());
        while let Some(entry) = cursor.after()?.filter(|entry| entry.key < end) {
            keys.push(hidden_row(entry.key, entry.row_bytes()));
            cursor.step();
        }
        Ok(keys)
    }
}

impl Lower for SsdSnapshot {
    fn rank_below(&self, key: &[u8]) -> Result<u64, StoreError> {
        self.rank(key)
    }

    fn keys(&self, start: &[u8], end: &[u8]) -> Result<Vec<Row>, StoreError> {
        let mut keys = Vec::new();
        self.scan(start, end, false, &mut |row| {
            keys.push(hidden_row(row.key(), row.stored_bytes()));
            ControlFlow::Continue(())
        })?;
        Ok(keys)
    }
}
