//! Epochs that are full.
//!
//! One hold of the lock may commit more than a log record can carry, or than memory should keep. So
//! an epoch that has reached its size limit is closed at the end of a transaction and queued, and
//! the holder waits while the queue is full (`lock`).

use std::collections::VecDeque;

use quartet_model::{Payload, Version};

/// Committed transactions that become durable together, as one log record.
pub(crate) struct Epoch {
    pub payload: Payload,
    /// The version of the newest transaction in it or before it.
    pub version: Version,
    /// True if a reply waits for it to be durable.
    pub needs_sync: bool,
}

/// The part of all this that the lock guards.
#[derive(Default)]
pub(crate) struct FullEpochs {
    /// Oldest first.
    pub queue: VecDeque<Epoch>,
    pub is_lent: bool,
}
