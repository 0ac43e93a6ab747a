//! Transactions that run without the lock and are judged at commit.
//!
//! A transaction commits if nothing it read was written between its read version and its commit. Present rows carry the
//! version that wrote them; for absent ones the engine keeps recent clears (`changes`). So a point is checked by one look-up
//! and a range by one scan. A read version whose evidence is gone is answered `TooOld`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_model::{KeyRange, Version};
use quartet_store::Snapshot;

use crate::home::{ExecuteError, HomeState};
use crate::reader::RowValue;
use crate::transaction::{SPACE_BYTES, Transaction};
use crate::{Busy, Durability, Engine, Hold, Space};

/// Why `run` gave up.
#[derive(Debug, PartialEq, Eq)]
pub enum RunError<E> {
    /// What the layer's code answered; nothing was written. It may be told once the hold is durable.
    Layer(E, Hold),
    /// Every attempt met a concurrent change of what it had read; nothing was written.
    Conflict,
    /// See [`ExecuteError::TooLarge`].
    TooLarge(Hold),
    /// See [`ExecuteError::DiskFull`].
    DiskFull(Hold),
    /// See [`Busy`]; nothing was written.
    Busy,
}

impl<E> From<Busy> for RunError<E> {
    fn from(_: Busy) -> RunError<E> {
        RunError::Busy
    }
}

/// What one attempt of `run` reads and writes. Sees its own writes. Keys are relative to the space.
pub struct OptimisticTransaction {
    snapshot: Arc<dyn Snapshot>,
    prefix: [u8; SPACE_BYTES],
    now_micros: u64,
    /// What a conflict is judged by, and what is to land if there is none.
    attempt: Attempt,
}

/// What is left of an attempt when the layer's code has ended.
struct Attempt {
    read_version: Version,
    points_read: PointsRead,
    ranges_read: Vec<KeyRange>,
    /// By full key.
    writes: BTreeMap<Vec<u8>, Write>,
    deletes: bool,
}

/// Full keys, one behind the other: a transaction reads many, and looks at them again only if something else committed.
#[derive(Default)]
struct PointsRead {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl PointsRead {
    /// Adds a key and returns it.
    fn push(&mut self, prefix: &[u8], key: &[u8]) -> &[u8] {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(prefix);
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        &self.bytes[start..]
    }

    fn pop(&mut self) {
        self.ends.pop();
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// A row to write: its new value, `None` for a clear, and where the commit version goes.
struct Write {
    value: Option<Vec<u8>>,
    key_stamps: Vec<Stamp>,
    value_stamps: Vec<Stamp>,
}

impl Write {
    fn plain(value: Option<Vec<u8>>) -> Write {
        Write {
            value,
            key_stamps: Vec::new(),
            value_stamps: Vec::new(),
        }
    }

    fn is_stamped(&self) -> bool {
        !(self.key_stamps.is_empty() && self.value_stamps.is_empty())
    }
}

/// Eight bytes that the commit version fills in, in the layer's spelling. Until then the layer has its own placeholder there.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub offset: usize,
    pub bytes: fn(Version) -> [u8; 8],
}

impl Stamp {
    fn fill(stamps: &[Stamp], target: &mut [u8], version: Version) {
        for stamp in stamps {
            target[stamp.offset..stamp.offset + 8].copy_from_slice(&(stamp.bytes)(version));
        }
    }
}

impl OptimisticTransaction {
    pub fn read_version(&self) -> Version {
        self.attempt.read_version
    }

    pub fn now_micros(&self) -> u64 {
        self.now_micros
    }

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
    pub fn get_unjudged(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let key = self.full_key(key);
        match self.attempt.writes.get(&key) {
            Some(written) => written.value.clone(),
            None => self.snapshot.get(&key).map(|row| row.value().to_vec()),
        }
    }

    pub fn set(&mut self, key: &[u8], value: &[u8]) {
        let key = self.full_key(key);
        self.attempt.writes.insert(key, Write::plain(Some(value.to_vec())));
    }

    /// Sets a row in whose key and value the commit version is to be filled in. Offsets into the key count from the
    /// layer's part of it. Later reads of this transaction see the placeholders.
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

    /// Takes back what this transaction wrote under `key`.
    pub fn forget_write(&mut self, key: &[u8]) {
        let key = self.full_key(key);
        self.attempt.writes.remove(&key);
    }

    /// See [`Transaction::deletes`].
    pub fn deletes(&mut self) {
        self.attempt.deletes = true;
    }

    /// True if this transaction has written something.
    pub fn has_written(&self) -> bool {
        !self.attempt.writes.is_empty()
    }

    pub fn clear(&mut self, key: &[u8]) {
        let key = self.full_key(key);
        self.attempt.writes.insert(key, Write::plain(None));
    }

    /// Visits keys and values of `start..end` in key order, or backwards, until `visit` breaks. What was visited, and only
    /// that, is remembered as read.
    pub fn scan(&mut self, start: &[u8], end: &[u8], reverse: bool, visit: Visit<'_>) {
        if let Some(read) = self.visit_range(start, end, reverse, visit) {
            self.attempt.ranges_read.push(read);
        }
    }

    /// Like `scan`, but a later change in the range is no conflict.
    pub fn scan_unjudged(&mut self, start: &[u8], end: &[u8], reverse: bool, visit: Visit<'_>) {
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
}

/// Merges the transaction's own writes, held in reverse visiting order, into a scan of the snapshot.
struct Merge<'a> {
    own: Vec<(&'a Vec<u8>, &'a Option<Vec<u8>>)>,
    reverse: bool,
    /// The full key at which the visitor broke off.
    stopped_at: Option<Vec<u8>>,
}

/// Takes a key, relative to the space, and its value.
pub type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

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

impl Engine {
    /// Runs `body` on a snapshot without the lock, certifies what it read, and lands its writes together. Tried at most
    /// `attempts` times.
    pub fn run<R, E>(
        &self,
        space: Space,
        attempts: u32,
        body: impl FnMut(&mut OptimisticTransaction) -> Result<R, E>,
    ) -> Result<(R, Hold), RunError<E>> {
        self.run_telling(false, space, attempts, body)
            .map(|(answer, _, hold)| (answer, hold))
    }

    /// Like `run`, and tells the commit version, or the read version if nothing was written.
    pub fn run_versioned<R, E>(
        &self,
        space: Space,
        attempts: u32,
        body: impl FnMut(&mut OptimisticTransaction) -> Result<R, E>,
    ) -> Result<(R, Version, Hold), RunError<E>> {
        self.run_telling(true, space, attempts, body)
    }

    /// A version that is told must be in the log, so writes that change nothing are logged for its sake alone.
    fn run_telling<R, E>(
        &self,
        tells_version: bool,
        space: Space,
        attempts: u32,
        mut body: impl FnMut(&mut OptimisticTransaction) -> Result<R, E>,
    ) -> Result<(R, Version, Hold), RunError<E>> {
        for _ in 0..attempts {
            let (mut transaction, reading, hold) = self.begin(space)?;
            let answer = body(&mut transaction);
            // A snapshot that is still held makes each write copy the nodes on its way.
            let mut attempt = transaction.into_attempt();
            let mut home = self.home_in_time()?;
            let judged = match &answer {
                Ok(_) if !attempt.writes.is_empty() => attempt.certify(home.state(), &space.prefix()),
                _ => Ok(()),
            };
            reading.end(home.state());
            let answer = answer.map_err(|error| RunError::Layer(error, hold))?;
            if judged.is_err() {
                self.shared().statistics.conflicts.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            if attempt.writes.is_empty() {
                return Ok((answer, attempt.read_version, hold));
            }
            let (version, written) = home
                .execute(space, |target| attempt.write_to(target, tells_version))
                .map_err(|error| match error {
                    ExecuteError::Layer(never, _) => match never {},
                    ExecuteError::TooLarge(written) => RunError::TooLarge(hold.max(written)),
                    ExecuteError::DiskFull(written) => RunError::DiskFull(hold.max(written)),
                })?;
            // Writes that changed nothing leave only what was read to wait for.
            return Ok((answer, version, hold.max(written)));
        }
        Err(RunError::Conflict)
    }

    fn begin(&self, space: Space) -> Result<(OptimisticTransaction, Reading<'_>, Hold), Busy> {
        let mut home = self.home_in_time()?;
        let now_micros = home.now_micros();
        let read_version = home.state().last_version();
        home.state().reader_started(read_version);
        let transaction = OptimisticTransaction {
            snapshot: home.state().snapshot(),
            prefix: space.prefix(),
            now_micros,
            attempt: Attempt {
                read_version,
                points_read: PointsRead::default(),
                ranges_read: Vec::new(),
                writes: BTreeMap::new(),
                deletes: false,
            },
        };
        let hold = match space.durability {
            Durability::Always => home.state().hold_of_everything(self.durable()),
            Durability::Interval | Durability::None => Version::ZERO,
        };
        let reading = Reading {
            engine: self,
            version: read_version,
            ended: false,
        };
        Ok((transaction, reading, hold))
    }
}

/// An optimistic transaction that runs: what it may be judged by is kept until it ends, even by a panic in the layer or because
/// the lock is not to be had.
struct Reading<'e> {
    engine: &'e Engine,
    version: Version,
    ended: bool,
}

impl Reading<'_> {
    fn end(mut self, state: &mut HomeState) {
        state.reader_ended(self.version);
        self.ended = true;
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.engine.shared().home.reader_ended(self.version);
        }
    }
}

/// The evidence says that somebody wrote what was read, or is gone.
pub(crate) struct Changed;

impl OptimisticTransaction {
    fn into_attempt(self) -> Attempt {
        self.attempt
    }
}

impl Attempt {
    fn certify(&self, state: &HomeState, prefix: &[u8]) -> Result<(), Changed> {
        // Every change that is evidence against a reader has a version of its own.
        if state.last_version() == self.read_version {
            return Ok(());
        }
        if !state.changes.can_judge(prefix, self.read_version) {
            return Err(Changed);
        }
        for key in self.points_read.iter() {
            unchanged_point(state, key, self.read_version)?;
        }
        for range in &self.ranges_read {
            unchanged_range(state, range, self.read_version)?;
        }
        Ok(())
    }

    /// Returns the commit version, or zero if it is neither told nor stamped.
    fn write_to(
        &mut self,
        target: &mut Transaction<'_>,
        tells_version: bool,
    ) -> Result<Version, std::convert::Infallible> {
        if self.deletes {
            target.deletes();
        }
        let needs_version = tells_version || self.writes.values().any(Write::is_stamped);
        let version = if needs_version {
            target.commit_version()
        } else {
            Version::ZERO
        };
        for (mut key, mut write) in std::mem::take(&mut self.writes) {
            Stamp::fill(&write.key_stamps, &mut key, version);
            match &mut write.value {
                Some(value) => {
                    Stamp::fill(&write.value_stamps, value, version);
                    target.set(&key[SPACE_BYTES..], value);
                }
                None => drop(target.clear(&key[SPACE_BYTES..])),
            }
        }
        Ok(version)
    }
}

fn unchanged_point(state: &HomeState, key: &[u8], read_version: Version) -> Result<(), Changed> {
    let present = state.store.get(key).map(|row| row.version());
    let declared = state.changes.newest_declared_at(key);
    let newest = present
        .unwrap_or_default()
        .max(state.changes.newest_at(key))
        .max(declared);
    if newest > read_version { Err(Changed) } else { Ok(()) }
}

pub(crate) fn unchanged_range(state: &HomeState, range: &KeyRange, read_version: Version) -> Result<(), Changed> {
    if range.is_empty() {
        return Ok(());
    }
    let declared = state.changes.newest_declared(&range.start, &range.end);
    if state.changes.newest_in(&range.start, &range.end).max(declared) > read_version {
        return Err(Changed);
    }
    let mut newer = false;
    state.store.scan(&range.start, &range.end, false, &mut |row| {
        newer = row.version() > read_version;
        if newer {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    if newer { Err(Changed) } else { Ok(()) }
}
