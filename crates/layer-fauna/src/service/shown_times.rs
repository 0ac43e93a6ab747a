//! Keeps true after a restart what a reply has shown of the time.
//!
//! A reply may show a time that is in no record of the log: that of `Now`, that in an id of
//! `NewId`, or the state as of a moment after the newest commit. No commit may land at or below it
//! afterwards, or the same question about the past has another answer. While the server runs the
//! engine sees to that: commits land above the time that a reader was given. The clock of the next
//! start may show an earlier time, so a row says above which time that start commits. The row is
//! written ahead of the time, and a query waits for it once a second at most. Nothing is written
//! for what shows no time.

use quartet_engine::{Busy, Dependency, Reader, RunError};
use quartet_model::Version;

use crate::language::error::Errors;
use crate::service::{ATTEMPTS, Fauna};
use crate::storage::rows::{self, Key};

/// By how much the row is ahead of the time that is shown, in microseconds.
const AHEAD_MICROS: u64 = 1_000_000;

/// The latest time that may be shown, in microseconds since the Unix epoch, once the dependency is
/// durable.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shown {
    until_micros: u64,
    dependency: Dependency,
}

impl Fauna {
    /// Makes commits and new ids higher than everything shown before this start.
    pub(crate) fn begin_above_shown(&self) -> Result<(), Busy> {
        let partition = self.engine.partition_in_time()?;
        let reader = partition.reader(self.space);
        let until_micros = shown_until_micros(&reader);
        partition.land_above(until_micros);
        self.ids_begin_above(until_micros.max(reader.version.0));
        match reader.is_unreadable() {
            true => Err(Busy),
            false => Ok(()),
        }
    }

    /// Lets `micros` be shown once the dependency is durable. `newest` is a durable commit, or one
    /// that the reply waits for.
    pub(crate) fn keep_shown(&self, micros: u64, newest: Version) -> Result<Dependency, RunError<Errors>> {
        if micros <= newest.0 {
            return Ok(Version::ZERO);
        }
        let current = *self.shown.lock();
        if micros <= current.until_micros {
            return Ok(current.dependency);
        }
        let (until_micros, dependency) = self.engine.run(self.space, ATTEMPTS, |transaction| {
            let row = transaction.get(&row_key().0).unwrap_or_default();
            let until_micros = rows::number_at(&row, 0).max(micros.saturating_add(AHEAD_MICROS));
            // It takes no space, and reads continue when the disk is full.
            transaction.deletes();
            transaction.set(&row_key().0, &until_micros.to_be_bytes());
            Ok::<u64, Errors>(until_micros)
        })?;
        let mut current = self.shown.lock();
        if until_micros > current.until_micros {
            *current = Shown {
                until_micros,
                dependency,
            };
        }
        Ok(dependency)
    }
}

/// The time that no reply up to a state has shown more than, if it is in no record of the log.
pub(crate) fn shown_until_micros(reader: &Reader) -> u64 {
    let row = reader.get(&row_key().0).unwrap_or_default();
    rows::number_at(&row, 0)
}

fn row_key() -> Key {
    Key::global(b'S')
}
