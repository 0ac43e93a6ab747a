//! Epochs that are full.
//!
//! One hold of the lock may commit more than a log record can carry, or than memory should keep. So an epoch that has grown
//! to its limit is closed at the end of a transaction and queued, and the holder waits while too many are queued (`lock`).

use std::collections::VecDeque;

use quartet_model::{Payload, Version};

/// Committed transactions that become durable together, as one log record.
pub(crate) struct Epoch {
    pub payload: Payload,
    /// Of the newest transaction in it and before it.
    pub version: Version,
    /// Somebody waits for it to be durable.
    pub needs_sync: bool,
}

/// What the lock guards of all this.
#[derive(Default)]
pub(crate) struct FullEpochs {
    /// Oldest first.
    pub queue: VecDeque<Epoch>,
    pub is_lent: bool,
}
