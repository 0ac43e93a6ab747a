//! A transaction that runs without the lock: it reads a snapshot and its own writes, and remembers
//! what it has read.

use std::ops::ControlFlow;

use quartet_model::{KeyRange, Version};

use crate::certify::attempt::{Attempt, Stamp, Write};
use crate::partition::reader::{Readable, RowValue, Visit};
use crate::space::SPACE_BYTES;

/// Reads and writes of one attempt of `run`. Sees its own writes. Keys are relative to the space.
pub struct OptimisticTransaction {
    pub(crate) snapshot: Readable,
    pub(crate) prefix: [u8; SPACE_BYTES],
    pub(crate) now_micros: u64,
    pub(crate) present_micros: u64,
    /// The reads that decide a conflict, and the writes that land if there is none.
    pub(crate) attempt: Attempt,
}

impl OptimisticTransaction {
    /// The version of its snapshot.
    pub fn read_version(&self) -> Version {
        self.attempt.read_version
    }

    /// Makes this transaction's writes, and all later ones, commit above `micros` since the Unix
    /// epoch.
    pub fn land_above(&mut self, micros: u64) {
        self.attempt.above_micros = self.attempt.above_micros.max(micros);
    }

    /// The clock's time at the start of the transaction, in microseconds since the Unix epoch.
    pub fn now_micros(&self) -> u64 {
        self.now_micros
    }

    /// See [`crate::Reader::present_micros`].
    pub fn present_micros(&self) -> u64 {
        self.present_micros
    }

    /// The value at `key`: this transaction's own, or the snapshot's. A later change of it by
    /// another transaction is a conflict.
    pub fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        match self.get_row(key)? {
            RowValue::Stored(row) => Some(row.value().to_vec()),
            RowValue::Written(value) => Some(value),
        }
    }

    /// Like `get`, without copying what is stored.
    pub fn get_row(&mut self, key: &[u8]) -> Option<RowValue> {
        let attempt = &mut self.attempt;
        let key = attempt.points_read.push(&self.prefix, key);
        if let Some(written) = attempt.writes.get(key) {
            let value = written.value.clone();
            attempt.points_read.pop();
            return value.map(RowValue::Written);
        }
        self.snapshot.get(key).map(RowValue::Stored)
    }

    /// Like `get`, but a later change of the row is no conflict.
    pub fn snapshot_get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let key = self.full_key(key);
        match self.attempt.writes.get(&key) {
            Some(written) => written.value.clone(),
            None => self.snapshot.get(&key).map(|row| row.value().to_vec()),
        }
    }

    /// Gives `key` this value.
    pub fn set(&mut self, key: &[u8], value: &[u8]) {
        let key = self.full_key(key);
        self.attempt.writes.insert(key, Write::plain(Some(value.to_vec())));
    }

    /// Sets a row whose key and value receive the commit version at the given offsets. Offsets into
    /// the key count from the layer's part of it. Later reads of this transaction see the
    /// placeholders.
    pub fn set_stamped(&mut self, key: &[u8], key_stamps: &[Stamp], value: Vec<u8>, value_stamps: Vec<Stamp>) {
        let key = self.full_key(key);
        let below_prefix = |stamp: &Stamp| Stamp {
            offset: stamp.offset + SPACE_BYTES,
            ..*stamp
        };
        let write = Write {
            value: Some(value),
            key_stamps: key_stamps.iter().map(below_prefix).collect(),
            value_stamps,
        };
        self.attempt.writes.insert(key, write);
    }

    /// Discards this transaction's write under `key`.
    pub fn forget_write(&mut self, key: &[u8]) {
        let key = self.full_key(key);
        self.attempt.writes.remove(&key);
    }

    /// See [`Transaction::deletes`].
    pub fn deletes(&mut self) {
        self.attempt.deletes = true;
    }

    /// Returns true if this transaction has written any row.
    pub fn has_written(&self) -> bool {
        !self.attempt.writes.is_empty()
    }

    /// Removes `key`.
    pub fn clear(&mut self, key: &[u8]) {
        let key = self.full_key(key);
        self.attempt.writes.insert(key, Write::plain(None));
    }

    /// Visits keys and values of `start..end` in key order, or backwards, until `visit` breaks. The
    /// visited rows, and only those, are recorded as read.
    pub fn scan(&mut self, start: &[u8], end: &[u8], reverse: bool, visit: Visit<'_>) {
        if let Some(read) = self.visit_range(start, end, reverse, visit) {
            self.attempt.ranges_read.push(read);
        }
    }

    /// Like `scan`, but a later change in the range is no conflict.
    pub fn snapshot_scan(&mut self, start: &[u8], end: &[u8], reverse: bool, visit: Visit<'_>) {
        self.visit_range(start, end, reverse, visit);
    }

    /// The part of the range that was visited.
    fn visit_range(&self, start: &[u8], end: &[u8], reverse: bool, visit: Visit<'_>) -> Option<KeyRange> {
        let (start, end) = (self.full_key(start), self.full_key(end));
        if start >= end {
            return None;
        }
        let written = self.attempt.writes.range(start.clone()..end.clone());
        let mut own: Vec<(&Vec<u8>, &Option<Vec<u8>>)> = written.map(|(key, write)| (key, &write.value)).collect();
        if !reverse {
            own.reverse();
        }
        let mut merge = Merge {
            own,
            reverse,
            stopped_at: None,
        };
        let mut broke = false;
        self.snapshot.scan(&start, &end, reverse, &mut |row| {
            let flow = merge.row(row.key(), row.value(), visit);
            broke = flow.is_break();
            flow
        });
        if !broke {
            let _ = merge.rest(visit);
        }
        Some(match (merge.stopped_at, reverse) {
            (None, _) => KeyRange { start, end },
            (Some(key), false) => KeyRange {
                start,
                end: KeyRange::point(&key).end,
            },
            (Some(key), true) => KeyRange { start: key, end },
        })
    }

    fn full_key(&self, key: &[u8]) -> Vec<u8> {
        [&self.prefix, key].concat()
    }

    /// Returns the reads and writes, and whether something could not be read. Releases the
    /// snapshot: a snapshot still held when the writes land makes each of them copy the nodes on
    /// its path.
    pub(crate) fn end(self) -> (Attempt, bool) {
        (self.attempt, self.snapshot.has_failed())
    }
}

/// Merges the transaction's own writes, held in reverse visiting order, into a scan of the
/// snapshot.
struct Merge<'a> {
    own: Vec<(&'a Vec<u8>, &'a Option<Vec<u8>>)>,
    reverse: bool,
    /// The full key at which the visitor stopped.
    stopped_at: Option<Vec<u8>>,
}

impl Merge<'_> {
    fn row(&mut self, key: &[u8], value: &[u8], visit: Visit<'_>) -> ControlFlow<()> {
        while let Some(&(own_key, own_value)) = self.own.last() {
            let comes_first = if self.reverse {
                own_key.as_slice() > key
            } else {
                own_key.as_slice() < key
            };
            if own_key.as_slice() == key {
                self.own.pop();
                return self.visit(own_key, own_value.as_deref(), visit);
            }
            if !comes_first {
                break;
            }
            self.own.pop();
            self.visit(own_key, own_value.as_deref(), visit)?;
        }
        self.visit(key, Some(value), visit)
    }

    fn rest(&mut self, visit: Visit<'_>) -> ControlFlow<()> {
        while let Some((key, value)) = self.own.pop() {
            self.visit(key, value.as_deref(), visit)?;
        }
        ControlFlow::Continue(())
    }

    fn visit(&mut self, key: &[u8], value: Option<&[u8]>, visit: Visit<'_>) -> ControlFlow<()> {
        let Some(value) = value else {
            return ControlFlow::Continue(());
        };
        let flow = visit(&key[SPACE_BYTES..], value);
        if flow.is_break() {
            self.stopped_at = Some(key.to_vec());
        }
        flow
    }
}
