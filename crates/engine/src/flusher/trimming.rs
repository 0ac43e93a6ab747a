//! Trimming the log after the store's files and its readers.

use std::time::Duration;

use quartet_model::LogSequence;

use crate::durability::retention::Retention;

/// Interval of checks of the log that is retained for readers.
const INTERVAL: Duration = Duration::from_secs(1);

/// How far the log is trimmed.
pub(super) struct Trimming {
    pub retention: Retention,
    /// The first log record that the store needs.
    pub needed: LogSequence,
    /// The log holds nothing below.
    pub below: LogSequence,
    pub last: Duration,
}

impl Trimming {
    pub fn new(retention: Retention, needed: LogSequence, now: Duration) -> Trimming {
        Trimming {
            retention,
            needed,
            below: LogSequence::ZERO,
            last: now,
        }
    }
    /// Returns true if readers may have advanced, or retained records have aged.
    pub fn is_due(&self, now: Duration) -> bool {
        now - self.last >= INTERVAL
    }
}
