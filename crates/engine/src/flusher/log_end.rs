//! The log's end as the flusher has written it, and an epoch that has yet to be.

use std::collections::VecDeque;
use std::time::Duration;

use quartet_model::{LogSequence, Payload, Version};

use crate::durability::epochs::Epoch;

/// Delay before an epoch without room is retried: it doubles each time.
const RETRY_MIN: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_millis(500);
/// A larger buffer is given back after its epoch is written.
const SPARE_BYTES_MAX: usize = 16 << 20;

/// The log's end as this flusher has written it.
pub(super) struct LogEnd {
    /// The log's end as far as this home knows. An append names it; if the log ends at another
    /// record, another node is home.
    pub tail: LogSequence,
    /// The sequence up to which the log has reported records as durable.
    pub durable: LogSequence,
    /// Records that may not be durable yet, oldest first, each with the newest version in it and
    /// before it.
    pub unsynced: VecDeque<(LogSequence, Version)>,
    /// The log says how far it is durable.
    pub is_marked: bool,
    pub last_sync: Duration,
}

impl LogEnd {
    pub fn new(tail: LogSequence, now: Duration) -> LogEnd {
        LogEnd {
            tail,
            durable: tail,
            unsynced: VecDeque::new(),
            is_marked: true,
            last_sync: now,
        }
    }

    /// Returns true if every record is durable, and the log says so.
    pub fn is_settled(&self) -> bool {
        self.unsynced.is_empty() && self.is_marked
    }
}

/// An epoch that the full disk did not take: it precedes any other, and anything is promised only
/// after it.
pub(super) struct RefusedEpoch {
    pub epoch: Option<Epoch>,
    pub retry_at: Duration,
    pub pause: Duration,
}

impl RefusedEpoch {
    pub fn none(now: Duration) -> RefusedEpoch {
        RefusedEpoch {
            epoch: None,
            retry_at: now,
            pause: RETRY_MIN,
        }
    }

    pub fn put(&mut self, epoch: Epoch, now: Duration) {
        self.retry_at = now + self.pause;
        self.pause = (self.pause * 2).min(RETRY_MAX);
        self.epoch = Some(epoch);
    }

    /// Resets the delay of the next retry to the shortest.
    pub fn retry_soon(&mut self) {
        self.pause = RETRY_MIN;
    }

    /// Takes the epoch once its retry is due.
    pub fn take_due(&mut self, now: Duration) -> Option<Epoch> {
        self.epoch.take_if(|_| now >= self.retry_at)
    }
}

/// Returns the payload's buffer for the next epoch, unless it is large.
pub(super) fn reusable(payload: Payload) -> Vec<u8> {
    let buffer = payload.into_buffer();
    if buffer.capacity() > SPARE_BYTES_MAX {
        Vec::new()
    } else {
        buffer
    }
}
