//! Reading the durable log of a running engine: for change feeds and backups.
//!
//! ```text
//!   flusher --> log --> durable sequence --> LogReader, on any thread
//!      ^                                         |
//!      +---- trims nothing that is held <--------+ holds all from the record it gives next
//! ```
//!
//! A reader returns each record once, in order, without gaps, once it is durable;
//! [`quartet_model::EffectsReader`] reads a record's contents. It holds the log from the record
//! that it returned last. That is bounded: beyond
//! [`EngineOptions::log_retention_bytes`](crate::EngineOptions), and on a disk that is short of
//! room, the log is trimmed anyway, and a reader that lags further gets [`LogReadError::TooOld`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_log::{LogCursor, LogError, LogRecord};
use quartet_model::{EffectsReader, LogSequence, Version};

use crate::durability::log_readers::{Holder, OnMore};
use crate::engine::Engine;
use crate::partition::shared::Shared;

/// Why the log could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LogReadError {
    /// The requested record is no longer kept: the reader starts again from a snapshot.
    #[error("the log starts at record {}: the requested record is too old", oldest.0)]
    TooOld {
        /// The oldest record that is kept.
        oldest: LogSequence,
    },
    /// The log ends before that record: the caller's position is from another log.
    #[error("the log ends at record {}: the requested record has not been written", newest.0)]
    Beyond {
        /// The newest record that is durable.
        newest: LogSequence,
    },
    /// The record could not be read back. The server's log has the details; the engine keeps
    /// running.
    #[error("{0}")]
    Unreadable(LogError),
}

/// One reader's position in the log of a running engine.
pub struct LogReader {
    shared: Arc<Shared>,
    cursor: Box<dyn LogCursor>,
    holder: Arc<Holder>,
}

impl Engine {
    /// The newest record of the log that is durable; zero if there never was one.
    pub fn durable_sequence(&self) -> LogSequence {
        self.shared().log_readers.durable()
    }

    /// Reads the log from the record `from` on, at most the successor of the newest durable record.
    /// Reads from the disk.
    ///
    /// Errors: `TooOld`; `Beyond`; `Unreadable`.
    pub fn read_log(&self, from: LogSequence) -> Result<LogReader, LogReadError> {
        LogReader::begin(self.shared_arc(), from.max(LogSequence::ZERO.next()))
    }

    /// Reads the log from the first record that holds a transaction newer than `version`. That
    /// record may hold older transactions too. Reads from the disk, up to a segment of the log.
    ///
    /// Errors: those of [`Engine::read_log`]; `TooOld` also where a transaction newer than
    /// `version` may have been dropped.
    pub fn read_log_after(&self, version: Version) -> Result<LogReader, LogReadError> {
        let shared = self.shared_arc();
        let readers = &shared.log_readers;
        loop {
            let starts = readers.source.starts().map_err(LogReadError::Unreadable)?;
            let Some(&oldest) = starts.first() else {
                return self.read_log(readers.durable().next());
            };
            // The searched records are not trimmed meanwhile.
            let mut reader = match LogReader::begin(shared.clone(), oldest) {
                Err(LogReadError::TooOld { .. }) => continue,
                result => result?,
            };
            let start = reader.last_start_at_or_before(&starts, version)?;
            return reader
                .go_to_first_after(start.unwrap_or(oldest), version)
                .map(|()| reader);
        }
    }
}

impl LogReader {
    fn begin(shared: Arc<Shared>, from: LogSequence) -> Result<LogReader, LogReadError> {
        let readers = &shared.log_readers;
        let newest = readers.durable();
        if from > newest.next() {
            return Err(LogReadError::Beyond { newest });
        }
        let holder = readers.hold(from);
        let cursor = readers.source.cursor(from);
        let reader = LogReader {
            shared: shared.clone(),
            cursor,
            holder,
        };
        // The cursor will miss records whose trimming has already started.
        let starts = readers.source.starts().map_err(LogReadError::Unreadable)?;
        match starts.first() {
            Some(&oldest) if oldest > from => Err(LogReadError::TooOld { oldest }),
            _ => Ok(reader),
        }
    }

    /// Returns the next record, or `None` if all durable records have been returned; more may
    /// follow. The record, and all later ones, are held until the next call. Reads from the disk.
    ///
    /// Errors: after `TooOld` the reader is useless; after `Unreadable` the same record is tried
    /// again.
    #[expect(clippy::should_implement_trait, reason = "what it gives borrows from it")]
    pub fn next(&mut self) -> Result<Option<LogRecord<'_>>, LogReadError> {
        let readers = &self.shared.log_readers;
        let position = self.cursor.position();
        self.holder.from.fetch_max(position.0, Ordering::SeqCst);
        if self.holder.is_lost.load(Ordering::SeqCst) {
            return Err(self.too_old());
        }
        if position > readers.durable() {
            self.holder.waits.store(true, Ordering::SeqCst);
            readers.is_awaited.store(true, Ordering::SeqCst);
        }
        // Either this thread sees the sequence move, or the flusher sees it wait.
        let durable = readers.durable();
        match self.cursor.next(durable) {
            Ok(record) => Ok(record),
            Err(LogError::Trimmed { first, .. }) => Err(LogReadError::TooOld { oldest: first }),
            Err(error) => Err(LogReadError::Unreadable(error)),
        }
    }

    /// The sequence of the record that is given next.
    pub fn position(&self) -> LogSequence {
        self.cursor.position()
    }

    /// Calls `listener` each time there is more to read after [`LogReader::next`] has answered
    /// `None`, and when the place is lost.
    pub fn on_more(&self, listener: OnMore) {
        *self.holder.on_more.lock() = Some(listener);
    }

    fn too_old(&mut self) -> LogReadError {
        let starts = self.shared.log_readers.source.starts().unwrap_or_default();
        // A segment that was removed is given back.
        self.cursor = self.shared.log_readers.source.cursor(self.cursor.position());
        let oldest = starts.first().copied().unwrap_or(self.shared.log_readers.durable());
        LogReadError::TooOld { oldest }
    }

    /// Returns the last of `starts` whose first transaction is `version` or older; all earlier
    /// records are older then. `None` if there is none: records after `version` may have been
    /// dropped, unless the log is complete from its first record.
    fn last_start_at_or_before(
        &self,
        starts: &[LogSequence],
        version: Version,
    ) -> Result<Option<LogSequence>, LogReadError> {
        let readers = &self.shared.log_readers;
        for &start in starts.iter().rev() {
            let mut cursor = readers.source.cursor(start);
            let record = cursor.next(readers.durable()).map_err(LogReadError::Unreadable)?;
            let first = record.and_then(|record| versions(record.payload).next());
            if first.is_some_and(|first| first <= version) {
                return Ok(Some(start));
            }
        }
        match starts.first() {
            Some(&oldest) if oldest > LogSequence::ZERO.next() && version < self.shared.durable() => {
                Err(LogReadError::TooOld { oldest })
            }
            _ => Ok(None),
        }
    }

    fn go_to_first_after(&mut self, start: LogSequence, version: Version) -> Result<(), LogReadError> {
        let source = self.shared.log_readers.source.clone();
        self.cursor = source.cursor(start);
        let mut first = None;
        while first.is_none()
            && let Some(record) = self.next()?
        {
            let is_newer = versions(record.payload).any(|record_version| record_version > version);
            first = is_newer.then_some(record.sequence);
        }
        if let Some(first) = first {
            self.cursor = source.cursor(first);
        }
        Ok(())
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        let mut holders = self.shared.log_readers.holders.lock();
        holders.retain(|holder| !Arc::ptr_eq(holder, &self.holder));
    }
}

/// Returns the versions of a record's transactions, ascending.
fn versions(payload: &[u8]) -> impl Iterator<Item = Version> {
    let mut reader = EffectsReader::new(payload);
    std::iter::from_fn(move || Some(reader.next_transaction().ok()??.0))
}
