//! The reasons for which a node stops following or writing a partition's log.

use quartet_model::LogSequence;

use crate::record::RecordError;
use crate::words::{ClusterId, Term};

/// A contradiction between what a node has and what the sequencer has. It serves nothing from then
/// on; but for `Trimmed`, which a copy from a peer cures, an operator must decide.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopReason {
    /// The record is of another cluster.
    #[error("record {} is of cluster {:032x}", at.0, found.0)]
    OtherCluster {
        /// The record.
        at: LogSequence,
        /// The cluster that it names.
        found: ClusterId,
    },
    /// The sequencer's `meta` does not name this cluster.
    #[error("the sequencer does not hold this cluster")]
    NotThisCluster,
    /// The record is damaged or of an unknown format.
    #[error("record {} cannot be read: {why}", at.0)]
    Unreadable {
        /// The record.
        at: LogSequence,
        /// The reason.
        why: RecordError,
    },
    /// The record carries another sequence number.
    #[error("record {} carries another sequence number", at.0)]
    Misplaced {
        /// The sequence at which it was found.
        at: LogSequence,
    },
    /// The record does not continue the history that this node has.
    #[error("record {} does not continue this node's history", at.0)]
    BrokenChain {
        /// The record.
        at: LogSequence,
    },
    /// The record's term or writer is not the running one.
    #[error("record {} is of term {}, which does not run there", at.0, term.0)]
    WrongTerm {
        /// The record.
        at: LogSequence,
        /// Its term.
        term: Term,
    },
    /// The record does not belong between the chunks of one group, or is a chunk without those
    /// before it.
    #[error("record {} breaks a group of chunks", at.0)]
    BrokenGroup {
        /// The record.
        at: LogSequence,
    },
    /// The record is whole, and its content is nothing that a node could apply.
    #[error("record {} cannot be applied", at.0)]
    Inapplicable {
        /// The record.
        at: LogSequence,
    },
    /// The record points to an object that the store does not have.
    #[error("the object of record {} is not in the object store", at.0)]
    LostObject {
        /// The record.
        at: LogSequence,
    },
    /// The object that the record points to is another than the record says.
    #[error("the object of record {} is damaged in the object store", at.0)]
    DamagedObject {
        /// The record.
        at: LogSequence,
    },
    /// The log ends before the history that this node has: it was restored from a backup, or is
    /// another.
    #[error("the log ends before record {}, which this node has", applied.0)]
    EndsBefore {
        /// The last record that this node has.
        applied: LogSequence,
    },
    /// The sequencer no longer has the next record; peers have it.
    #[error("records {} to {} are trimmed", next.0, first.0.saturating_sub(1))]
    Trimmed {
        /// The record that this node needs next.
        next: LogSequence,
        /// The first that is left.
        first: LogSequence,
    },
    /// The sequencer's term is older than one that this node knows: it was restored from a backup.
    #[error("the sequencer is in a term before {}", known.0)]
    TermWentBack {
        /// The newest term that this node knows.
        known: Term,
    },
    /// The record before the one to append is missing, in the writer's own term.
    #[error("record {} is missing before its successor was appended", missing.0)]
    LostPredecessor {
        /// The missing record.
        missing: LogSequence,
    },
    /// Another writer's record in a place where only the writer of this term may append.
    #[error("record {} was written by another in this node's own term", at.0)]
    ForeignRecord {
        /// The record.
        at: LogSequence,
    },
    /// The sequencer's answer does not belong to the request.
    #[error("the sequencer answered {0} with something else")]
    Confused(&'static str),
}
