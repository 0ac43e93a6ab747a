//! The commit of a transaction.
//!
//! It runs to its end, even if its waiter is dropped. The commit is sent in the call if it has
//! nothing to wait for, and the arriving reply ends the transaction; a task is needed only where
//! reads or a connection are missing.

use std::sync::Arc;

use quartet_wire_keyvalue::{Commit, ErrorCode, Reply};
use tokio::sync::oneshot;

use super::{Phase, State, Transaction};
use crate::attempt::{Attempt, Outcome};
use crate::conflicts::{RangeSet, ReadConflicts};
use crate::connection::{Complete, Failure};
use crate::mutations::Mutations;

/// Bytes that a mutation and a conflict range count for in the size of a commit, beside their keys
/// and values.
const SENT_ITEM_BYTES: usize = 24;

/// The parts that a commit sends beside the reads.
struct Gathered {
    mutations: Mutations,
    write_conflicts: RangeSet,
    report_conflicts: bool,
    system: bool,
}

impl Transaction {
    /// Commits. `Ok`: the writes are durable, and no key read has changed since. After a transient
    /// error, [`Transaction::on_error`] restarts the transaction; after `COMMIT_UNKNOWN_RESULT` the
    /// writes may have happened.
    pub fn commit(&self) -> impl Future<Output = Result<(), ErrorCode>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        // The caller may have been dropped.
        self.commit_and_tell(move |done| _ = sender.send(done));
        async move { receiver.await.unwrap_or(Err(ErrorCode::BROKEN_PROMISE)) }
    }

    /// The same for callers without tasks: `take` is called with the outcome, before this returns
    /// or later on the runtime. It must be quick, and is dropped without a call when the runtime
    /// goes.
    pub fn commit_and_tell(&self, take: impl FnOnce(Result<(), ErrorCode>) + Send + 'static) {
        let mut state = self.state();
        if let Err(code) = state.check_operation() {
            drop(state);
            return take(Err(code));
        }
        state.phase = Phase::Committing;
        let attempt = state.attempt.clone();
        drop(state);
        attempt.begin_commit(Box::new(take));
        if attempt.has_read_all()
            && let Some(version) = attempt.known_commit_version()
        {
            return self.send_commit(&attempt, version);
        }
        let transaction = self.clone();
        let guard = attempt.end_on_drop();
        self.inner.database.inner.runtime.spawn(async move {
            match transaction.until_sendable(&attempt).await {
                Ok(version) => transaction.send_commit(&attempt, version),
                Err(code) => transaction.came_out(&attempt, Err(code)),
            }
            guard.disarm();
        });
    }

    /// Waits for the reads in flight, and for the read version that certifies the commit.
    async fn until_sendable(&self, attempt: &Arc<Attempt>) -> Result<u64, ErrorCode> {
        let reads = attempt.reads_ended().await;
        attempt.has_ended().map_or(reads, Err)?;
        if self.writes_nothing() {
            return Ok(0);
        }
        attempt.commit_version().await
    }

    fn writes_nothing(&self) -> bool {
        let state = self.state();
        state.mutations.is_empty() && state.write_conflicts.is_empty()
    }

    fn send_commit(&self, attempt: &Arc<Attempt>, version: u64) {
        let gathered = match self.gather(attempt) {
            Ok(Some(gathered)) => gathered,
            Ok(None) => return self.came_out(attempt, Ok(None)),
            Err(code) => return self.came_out(attempt, Err(code)),
        };
        let commit = Commit {
            read_version: version,
            report_conflicts: gathered.report_conflicts,
            system: gathered.system,
            read_conflicts: Vec::new(),
            write_conflicts: gathered.write_conflicts.iter().collect(),
            mutations: gathered.mutations.since(0).collect(),
        };
        let complete: Complete = {
            let (transaction, attempt) = (self.clone(), attempt.clone());
            Box::new(move |reply| transaction.was_answered(&attempt, reply))
        };
        if let Err(code) = attempt.send_commit(commit, complete) {
            self.was_answered(attempt, Err(code.into()));
        }
    }

    /// Returns the commit to send, if there is anything to commit.
    fn gather(&self, attempt: &Arc<Attempt>) -> Result<Option<Gathered>, ErrorCode> {
        let mut state = self.state();
        if !Arc::ptr_eq(&state.attempt, attempt) {
            // It was reset while the commit waited for reads.
            return Err(ErrorCode::TRANSACTION_CANCELLED);
        }
        if let Some(code) = state.failed {
            return Err(code);
        }
        if state.mutations.is_empty() && state.write_conflicts.is_empty() {
            return Ok(None);
        }
        if state.options.is_read_only {
            return Err(ErrorCode::TRANSACTION_READ_ONLY);
        }
        if state.sent_bytes() > state.options.size_limit {
            return Err(ErrorCode::TRANSACTION_TOO_LARGE);
        }
        Ok(Some(Gathered {
            mutations: std::mem::take(&mut state.mutations),
            write_conflicts: state.write_conflicts.clone(),
            report_conflicts: state.options.report_conflicting_keys,
            system: state.options.writes_system_keys,
        }))
    }

    fn was_answered(&self, attempt: &Arc<Attempt>, reply: Result<&[u8], Failure>) {
        let done = match reply {
            Ok(body) => Reply::number(body).map_err(|_| ErrorCode::COMMIT_UNKNOWN_RESULT),
            Err(failure) if failure.code == ErrorCode::CONNECTION_FAILED => return self.is_unknown(attempt),
            Err(failure) => {
                if failure.code == ErrorCode::NOT_COMMITTED {
                    self.note_conflicts(attempt, &failure.detail);
                }
                Err(failure.code)
            }
        };
        self.came_out(attempt, done.map(Some));
    }

    /// Once there is a connection again, the commit is decided, and the next attempt can read the
    /// outcome.
    fn is_unknown(&self, attempt: &Arc<Attempt>) {
        let (transaction, attempt) = (self.clone(), attempt.clone());
        let guard = attempt.end_on_drop();
        self.inner.database.inner.runtime.spawn(async move {
            attempt.connection.is_up().await;
            transaction.came_out(&attempt, Err(ErrorCode::COMMIT_UNKNOWN_RESULT));
            guard.disarm();
        });
    }

    fn note_conflicts(&self, attempt: &Attempt, detail: &[u8]) {
        let mut conflicting = RangeSet::default();
        attempt.with_read_conflicts(|read| {
            let ranges = read.ranges();
            for position in Reply::conflict_positions(detail) {
                if let Some((start, end)) = ranges.get(position) {
                    conflicting.add(start, end);
                }
            }
        });
        self.state().conflicting = conflicting;
    }

    fn came_out(&self, attempt: &Arc<Attempt>, done: Result<Option<u64>, ErrorCode>) {
        let mut state = self.state();
        if Arc::ptr_eq(&state.attempt, attempt) {
            state.phase = match done {
                Ok(version) => Phase::Committed(version),
                Err(_) => Phase::Failed,
            };
            if done.is_ok() {
                state.stop_timer();
            }
        }
        drop(state);
        attempt.came_out(match done {
            Ok(version) => Outcome::Committed(version),
            Err(code) => Outcome::Failed(code),
        });
    }
}

impl Attempt {
    /// The version that certifies a commit, if it is known without waiting.
    fn known_commit_version(&self) -> Option<u64> {
        let unread = || self.with_read_conflicts(|read| read.is_empty()) && self.connection.is_connected();
        self.known_version().or_else(|| unread().then_some(0))
    }

    /// The same; 0 if nothing was read, once there is a connection.
    async fn commit_version(self: &Arc<Attempt>) -> Result<u64, ErrorCode> {
        let has_read = self.with_read_conflicts(|read| !read.is_empty());
        if has_read || self.known_version().is_some() {
            return self.told_version().await;
        }
        match self.connection.is_up().await {
            true => Ok(0),
            false => Err(ErrorCode::BROKEN_PROMISE),
        }
    }
}

impl State {
    /// Returns the size of the commit as the server counts it.
    fn sent_bytes(&self) -> usize {
        let range = |(begin, end): (&[u8], &[u8])| SENT_ITEM_BYTES + begin.len() + end.len();
        let written: usize = self.write_conflicts.iter().map(range).sum();
        let read = |read: &mut ReadConflicts| read.ranges().into_iter().map(range).sum::<usize>();
        let mutations = self.mutations.bytes() + SENT_ITEM_BYTES * self.mutations.len();
        mutations + written + self.attempt.with_read_conflicts(read)
    }
}
