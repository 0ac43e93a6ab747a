//! The requests that the log sends to its sequencer, and no others.
//!
//! A sequencer is a small linearizable store of keys: each request except a watch takes effect at
//! one instant between its sending and its answer, or not at all. It promises no order between
//! requests that are outstanding together, and none between a request whose answer was lost and
//! later ones. Watches are hints: they may be late, repeated, or lost.

use std::time::Duration;

use crate::pointer::{ObjectAnswer, ObjectRequest};

/// One request. Keys are bytes and ordered as such; ranges include their start and exclude their
/// end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Reads one key. Answer: `Value`.
    Get {
        /// The key.
        key: Vec<u8>,
    },
    /// Reads up to `limit` keys of a range, the lowest first. Answer: `Entries`.
    Range {
        /// Included.
        from: Vec<u8>,
        /// Excluded.
        until: Vec<u8>,
        /// At least 1.
        limit: u32,
    },
    /// Does all of `operations`, if every one of `compares` holds; else reads `otherwise`. All at
    /// one instant. Answer: `Done` or `Refused`.
    Transact {
        /// The conditions; all must hold.
        compares: Vec<Compare>,
        /// The changes made then.
        operations: Vec<Operation>,
        /// The keys that are read if something does not hold.
        otherwise: Vec<Vec<u8>>,
    },
    /// Forgets the history of keys below a revision that a `Done` named. Answer: `Compacted`, also
    /// if it was forgotten before.
    Compact {
        /// That revision.
        revision: i64,
    },
    /// Makes a lease. Answer: `Lease`.
    Grant {
        /// Seconds without renewal after which the lease and its keys expire.
        seconds: u32,
    },
    /// Renews a lease. Answer: `Lease`, or `NoLease` if it has ended.
    KeepAlive {
        /// The lease.
        lease: LeaseId,
    },
    /// Ends a lease and deletes its keys. Answer: `NoLease`.
    Revoke {
        /// The lease.
        lease: LeaseId,
    },
    /// A request of the store of objects beside the sequencer. Answer: `Object`.
    Object(ObjectRequest),
}

/// A condition on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key exists with this value. Compares the value rather than the revision: revisions have
    /// gone back after a crash (etcd #16693).
    Value {
        /// The key.
        key: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// There is no such key.
    Absent(Vec<u8>),
    /// There is such a key.
    Present(Vec<u8>),
}

/// A change within a `Transact`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Puts a key.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its new value.
        value: Vec<u8>,
        /// The lease that it goes with.
        lease: Option<LeaseId>,
    },
    /// Deletes a range of keys.
    Delete {
        /// Included.
        from: Vec<u8>,
        /// Excluded.
        until: Vec<u8>,
    },
}

/// The sequencer's name of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseId(pub i64);

/// The sequencer's answer to a request; `Request` documents which is returned for which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The key's value, if there is such a key.
    Value(Option<Vec<u8>>),
    /// Keys with their values, ascending.
    Entries {
        /// At most the requested number.
        entries: Vec<(Vec<u8>, Vec<u8>)>,
        /// True if the range holds more.
        more: bool,
    },
    /// All conditions held and all was done.
    Done {
        /// The store's revision after it.
        revision: i64,
    },
    /// A condition did not hold, and nothing was done.
    Refused {
        /// The values of `otherwise`, in its order.
        values: Vec<Option<Vec<u8>>>,
    },
    /// History is forgotten.
    Compacted,
    /// The lease lives.
    Lease(LeaseId),
    /// The lease does not exist, or has expired.
    NoLease,
    /// The store of objects answers.
    Object(ObjectAnswer),
}

/// Why a request has no answer. A request that changes something may have taken effect all the
/// same, and may still do so later, unless the variant says otherwise; an earlier copy of the same
/// request may have done so in any case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The answer is missing: a time-out, a broken connection, a change of leader.
    #[error("no answer from the sequencer: {0}")]
    Unknown(String),
    /// The sequencer has no room; this request had no effect.
    #[error("the sequencer has no room")]
    NoRoom,
    /// The sequencer refuses such requests as a matter of its settings; this request had no effect.
    #[error("the sequencer refuses: {0}")]
    Denied(String),
    /// The object store did not answer, has refused, or does not exist.
    #[error("no answer from the object store: {0}")]
    Store(String),
}

/// The number of a request, given by the sequencer's handle; unique within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A change of a watched range, as a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hint {
    /// A key was put.
    Put {
        /// The key.
        key: Vec<u8>,
        /// The value it got.
        value: Vec<u8>,
    },
    /// Something may have been missed.
    Missed,
}

/// Something that a sequencer reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A request's answer; exactly one for each.
    Answered(RequestId, Result<Answer, Failure>),
    /// A watched range may have changed.
    Hint(Hint),
}

/// One client's handle.
pub trait Sequencer {
    /// Sends a request and returns immediately. Its answer, or failure, is returned by `receive` in
    /// bounded time.
    fn send(&mut self, request: Request) -> RequestId;

    /// Requests hints about a range, starting about now, for as long as the handle lives.
    fn watch(&mut self, from: Vec<u8>, until: Vec<u8>);

    /// Waits for the next event, `wait` at most.
    fn receive(&mut self, wait: Duration) -> Option<Event>;
}
