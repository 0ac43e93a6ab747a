//! A node of a log that several share: the machines of the log, driven by events, and how they are
//! set up. The flusher applies what they deliver.

pub(crate) mod chores;
pub(crate) mod objects;
pub(crate) mod place;
pub(crate) mod replica;

use std::sync::Arc;

use quartet_log_replicated::{ObjectOptions, Place, Sequencer, Writer};

use crate::standing::Role;

/// Longest effects of one transaction over a replicated log without a store of objects, in bytes.
pub(crate) const TRANSACTION_EFFECTS_MAX: usize = 4 << 20;
/// An epoch over a replicated log is closed at this size, so that with one transaction more it is
/// no longer than records take. One with a longer transaction is an object.
pub(crate) const EPOCH_BYTES_MAX: usize = quartet_log_replicated::EPOCH_BYTES_MAX - TRANSACTION_EFFECTS_MAX - 4096;

/// Called for each event that a sequencer has to give.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// Makes a sequencer's handle, which calls the waker after each event that has arrived for it.
pub type MakeSequencer = Box<dyn FnOnce(Waker) -> Box<dyn Sequencer + Send> + Send>;

/// How an engine takes part in a replicated log.
pub struct Replicated {
    /// The partition.
    pub place: Place,
    /// This node, and a number that no other process of it has.
    pub me: Writer,
    /// The operator's number of nodes, running or not. A majority of the configured nodes
    /// (`quartet_log_replicated::configures`) must have synced a record before the sequencer drops
    /// it.
    pub nodes: usize,
    /// Makes the sequencer's handle, which reaches the store of objects too.
    pub sequencer: MakeSequencer,
    /// Called after each change of the role, from the log's thread. It must be quick. After a
    /// `Home` ends, layers must drop all cached state: versions may be assigned again to other
    /// content.
    pub on_role: Box<dyn Fn(&Role) + Send + Sync>,
    /// Bytes of records that the sequencer may hold.
    pub budget_bytes: u64,
    /// Which epochs are kept in the store of objects; `None`: there is none.
    pub objects: Option<ObjectOptions>,
}
