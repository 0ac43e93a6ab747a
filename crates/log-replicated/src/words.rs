//! The words of the replicated log as types.

use std::time::Duration;

use quartet_model::{LogSequence, Version};

/// A cluster's identity, drawn at random when it is founded. Every record carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClusterId(pub u128);

/// The number of a partition. A cluster has partition 0 at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

/// The number of a period in which one node is home (leader) of a partition. The first is 1; each
/// later number is one higher.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

impl Term {
    /// Before the first.
    pub const ZERO: Term = Term(0);

    /// The next term.
    pub fn next(self) -> Term {
        Term(self.0 + 1)
    }
}

/// A node's number in its cluster. It stays the node's own over restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// One life of a node: its number, and an incarnation that no two of its processes share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Writer {
    /// The node.
    pub node: NodeId,
    /// Differs between any two processes of the node.
    pub incarnation: u64,
}

/// XXH3-128 of a record's bytes as stored. Guards against accidents, not against an adversary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordHash(pub u128);

/// The end of the history that a node has applied. Two equal positions have equal history before
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The last record; `LogSequence::ZERO` before the first.
    pub sequence: LogSequence,
    /// The hash of that record.
    pub hash: RecordHash,
    /// The term that was running at the record.
    pub term: Term,
    /// The writer of that term.
    pub writer: Writer,
}

/// The state of one partition's folder when it becomes the beginning of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundedState {
    /// The last record of its file log; zero if the partition has none.
    pub last: LogSequence,
    /// The version of its newest transaction.
    pub version: Version,
    /// The hash of all its rows.
    pub state: u128,
}

/// A point of the caller's monotonic clock. Only differences count, and only for how long something
/// has been waiting: no decision about the log's content rests on one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Duration);

impl Moment {
    /// The time from `earlier` to this moment; zero if there is none.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
