//! The requests to a flusher, and the times that its parts share.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::Mutex;
use quartet_log::LogError;
use quartet_model::LogSequence;
use quartet_store::Position;

/// Time for which effects without waiting replies may gather before they are written to the log.
pub(super) const GATHER: Duration = Duration::from_millis(10);
/// Interval at which effects without waiting replies are synced.
pub(super) const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// Time for which the flusher's thread waits for the lock before it checks for unsynced records.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_millis(100);
/// Time for which a thread that flushes itself waits for the end of the flusher's turn, and then
/// for the lock.
pub(super) const TURN_TIMEOUT: Duration = Duration::from_millis(2);
/// Called with the log's failure, on the thread that detected it.
pub(crate) type OnFailure = Box<dyn Fn(&LogError) + Send>;

#[derive(Default)]
pub(super) struct Control {
    pub stop: AtomicBool,
    /// A thread that is not the flusher's has flushed.
    pub flushed_elsewhere: AtomicBool,
    pub checkpoint_wanted: AtomicBool,
    pub checkpoint: Mutex<CheckpointState>,
    /// How the flusher's work ended.
    pub outcome: Mutex<Option<Result<(), LogError>>>,
}

#[derive(Default)]
pub(super) struct CheckpointState {
    pub started: u64,
    pub finished: u64,
    pub failure: Option<String>,
}

/// The first record that a store at `position` needs. A node that shares its log keeps the record
/// at that position, which has its position in the shared log.
pub(super) fn needed_behind(position: Position, is_shared: bool) -> LogSequence {
    if is_shared {
        return position.sequence;
    }
    position.sequence.next()
}
