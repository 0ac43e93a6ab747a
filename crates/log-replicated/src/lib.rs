//! The log that several nodes share: one history of a partition, across changes of its home
//! (leader).
//!
//! A *sequencer* (etcd) holds the newest records, one key each, and the value of `term`, which
//! names the home. There is no election and no trust in clocks: conditional transactions decide
//! appends and take-overs.
//!
//! ```text
//!            append, confirm, trim                       range, watch
//!   home ------------------------------> sequencer <---------------------- follower
//!    ^                                                                        |
//!    +--------------------------- take-over ---------------------------------+
//! ```
//!
//! The machines here are pure: they return requests, take answers, and never wait, send, or read a
//! clock. `drive` carries their requests for callers that may block. `model` is a sequencer in
//! memory with a network determined by a seed; `conformance` is the contract of a sequencer for two
//! writers. `docs/cluster.md` draws records, keys, states and answers.
//!
//! Epochs that are too long for records are objects in a store beside the sequencer (`objects`).
//!
//! No claim is made here about state, snapshots or the file logs of nodes: those are the engine's.

#![warn(missing_docs)]

mod adoption;
mod agreed;
mod configured;
mod confirmations;
pub mod conformance;
pub mod copies;
pub mod drive;
mod ending;
mod follower;
mod founding;
mod hold;
mod home;
pub mod model;
mod objects;
mod pace;
mod place;
mod pointer;
mod record;
mod replica_reads;
mod sequencer;
mod stop;
mod take_over;
mod trim;
mod words;

pub use adoption::{Adopted, Adoption, adopted};
pub use agreed::{Agreed, UnfitFormat};
pub use configured::{Configured, configured, configured_request, configures, join_request, remove_request};
pub use confirmations::Arrival;
pub use ending::Ended;
pub use follower::{Content, Delivery, Follower, Hinted, RANGE_RECORDS};
pub use founding::{FOUNDED_PARTITIONS_MAX, Founding};
pub use hold::Hold;
pub use home::{
    AppendError, Appended, Confirmation, EPOCH_BYTES_MAX, EVIDENCE_LASTS, Fate, Home, ObjectOptions, Outcome,
};
pub use pace::Pace;
pub use place::{Place, TermValue, cluster_of, meta_key};
pub use pointer::{OBJECT_BYTES_MAX, ObjectAnswer, ObjectRequest, PIECE_BYTES_MAX, Pointer};
pub use record::{BODY_BYTES_MAX, Body, PACKED_FROM_BYTES, RECORD_BYTES_MAX, Record, RecordError, hash, origin};
pub use replica_reads::ReplicaReads;
pub use sequencer::{Answer, Compare, Event, Failure, Hint, LeaseId, Operation, Request, RequestId, Sequencer};
pub use stop::StopReason;
pub use take_over::{Progress, TakeOver};
pub use trim::{Copies, Trim, Window, trim};
pub use words::{ClusterId, FoundedState, Moment, NodeId, PartitionId, Position, RecordHash, Term, Writer};
