//! The flusher's memory of the log that its node shares: what is on its way between the sequencer,
//! the state and the own file log.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quartet_log_replicated::{Position as Place, RecordHash};
use quartet_model::LogSequence;
use quartet_store::{PartitionFlush, PartitionSnapshot, StoreError};

use crate::durability::epochs::Epoch;
use crate::durability::job::Job;
use crate::replication::replica::Replica;
use crate::standing::{Standing, StateHash};

/// The flusher's view of the shared log.
pub(crate) struct Sharing {
    pub replica: Replica,
    pub standing: Arc<Standing>,
    /// The last whole record in the file log, and the same as far as that is durable.
    pub written: Place,
    /// The hash of the last record in the file log, whole or not.
    pub chained: RecordHash,
    pub synced: LogSequence,
    /// Records that are confirmed and not in the file log yet: the disk is full.
    pub unwritten: VecDeque<Unwritten>,
    pub flight: Option<Flight>,
    /// Full epochs queued after the one in flight.
    pub waiting: VecDeque<Epoch>,
    pub last_take: Duration,
    /// Transactions may be as long as objects take.
    pub takes_objects: bool,
    pub hashing: Option<(LogSequence, Job<Result<u128, StoreError>>)>,
    /// The start time of the hash in progress.
    pub hashing_since: Duration,
    pub own_hash: Option<(LogSequence, u128)>,
    pub homes_hash: Option<(LogSequence, u128)>,
    /// A hash of this home's that has yet to be appended.
    pub unsent_hash: Option<(LogSequence, u128)>,
    pub stopping_since: Option<Duration>,
}

pub(crate) struct Unwritten {
    pub place: Place,
    pub is_part: bool,
    pub payload: Vec<u8>,
}

/// Something that this home has given to the sequencer and does not know to be durable.
pub(crate) enum Flight {
    Epoch(Box<EpochInFlight>),
    Mark(Box<PartitionSnapshot>),
    Hash(StateHash),
}

pub(crate) struct EpochInFlight {
    pub epoch: Epoch,
    /// The uses of the state at its end.
    pub edge: Edge,
}

/// The state at the end of an epoch without later commits, for a flush or a mark.
#[derive(Default)]
pub(crate) struct Edge {
    pub flush: Option<PartitionFlush>,
    pub marked: Option<PartitionSnapshot>,
    pub copied: Option<PartitionSnapshot>,
}

impl Sharing {
    pub fn new(replica: Replica, standing: Arc<Standing>, written: Place, chained: RecordHash) -> Sharing {
        Sharing {
            replica,
            standing,
            written,
            chained,
            synced: written.sequence,
            unwritten: VecDeque::new(),
            flight: None,
            waiting: VecDeque::new(),
            last_take: Duration::ZERO,
            takes_objects: false,
            hashing: None,
            hashing_since: Duration::ZERO,
            own_hash: None,
            homes_hash: None,
            unsent_hash: None,
            stopping_since: None,
        }
    }
}
