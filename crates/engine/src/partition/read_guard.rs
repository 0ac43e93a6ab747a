//! The partition's lock, held beside other readers, and transactions under it that only read.

use crate::conflicts::full_keys::FullKeys;
use crate::partition::fair_lock::Mode;
use crate::partition::hold_times::Stopwatch;
use crate::partition::raw::SharedGuard;
use crate::partition::reader::Reader;
use crate::partition::reading::reader_of;
use crate::partition::shared::Shared;
use crate::partition::state::Dependency;
use crate::partition::state::PartitionState;
use crate::partition::transaction::Transaction;
use crate::partition::{ExecuteError, Release};
use crate::space::Space;
use crate::standing::FollowingPeriod;
use quartet_model::{DatabaseId, Version};
use quartet_store::Read;

/// A read-only transaction has tried to write. Nothing was done: the caller runs its code again
/// with the exclusive lock ([`crate::PartitionGuard::execute`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a transaction that only reads has tried to write")]
pub struct MustWrite;

/// The partition's lock, held beside other readers. Nothing is written meanwhile.
pub struct ReadGuard<'e> {
    shared: &'e Shared,
    state: SharedGuard<'e, PartitionState>,
    now_micros: u64,
    /// Another node is home, and this one has what the readers must see, in this period.
    replica: Option<FollowingPeriod>,
    /// Transactions that have ended under this hold.
    transactions: u64,
    /// Scratch for building full keys.
    key: Vec<u8>,
    stopwatch: Stopwatch,
    /// Declared after the guard: it is dropped once the lock is free.
    _release: Release<'e>,
}

impl<'e> ReadGuard<'e> {
    pub(crate) fn new(shared: &'e Shared, state: SharedGuard<'e, PartitionState>) -> ReadGuard<'e> {
        ReadGuard {
            shared,
            state,
            now_micros: shared.clock.now_micros(),
            replica: None,
            transactions: 0,
            key: Vec::new(),
            stopwatch: Stopwatch::begin(&*shared.runtime),
            _release: Release(&shared.partition.announcement),
        }
    }

    /// For reads at a node that is not home: see [`crate::Engine::read_replica_in_time`].
    pub(crate) fn of_replica(
        shared: &'e Shared,
        state: SharedGuard<'e, PartitionState>,
        period: FollowingPeriod,
    ) -> ReadGuard<'e> {
        let mut guard = ReadGuard::new(shared, state);
        guard.replica = Some(period);
        guard
    }

    /// Returns true if transactions of this database run here.
    #[inline]
    fn executes(&self, database: DatabaseId) -> bool {
        match self.replica {
            None => self.state.executes(database),
            Some(period) => {
                let standing = self.shared.standing.as_ref();
                standing.is_some_and(|standing| standing.is_in(period)) && self.state.shows(database)
            }
        }
    }

    /// The time that every transaction under this lock sees, in microseconds since the Unix epoch.
    pub fn now_micros(&self) -> u64 {
        self.now_micros
    }

    /// The version of the latest commit.
    pub fn last_version(&self) -> Version {
        self.state.last_version()
    }

    /// Runs `body` as one read-only transaction at the latest state. If it tries to write, its
    /// answer is dropped; its side effects outside of the transaction remain, and the caller
    /// reverts them.
    pub fn execute<R, E>(
        &mut self,
        space: Space,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<Result<(R, Dependency), ExecuteError<E>>, MustWrite> {
        if !self.executes(space.database) {
            return Ok(Err(ExecuteError::NotHome));
        }
        self.stopwatch.executes(space.layer);
        let key = std::mem::take(&mut self.key);
        let durable = self.shared.durable();
        let mut transaction = Transaction::reading(&self.state, key, space, durable, self.now_micros);
        let answer = transaction.run(body);
        let must_write = transaction.must_write();
        let (dependency, key) = transaction.into_read();
        self.key = key;
        if must_write {
            return Err(MustWrite);
        }
        let Some(answer) = answer else {
            return Ok(Err(ExecuteError::Unreadable(dependency)));
        };
        Ok(match answer {
            Ok(answer) => {
                self.transactions += 1;
                Ok((answer, dependency))
            }
            Err(error) => Err(ExecuteError::Layer(error, dependency)),
        })
    }

    /// Prefetches the rows at the keys, which transactions are about to read. Errors are ignored
    /// here: the transactions that read those rows fail instead.
    pub fn fetch<'k>(&self, space: Space, keys: impl Iterator<Item = &'k [u8]>) {
        let (prefix, mut full) = (space.prefix(), FullKeys::new());
        keys.for_each(|key| _ = full.push(&prefix, key));
        let _ = self.state.store.get_each(&full.iter().collect::<Vec<_>>());
    }

    /// The database is in another partition.
    pub(crate) fn has_left(&self, database: DatabaseId) -> bool {
        self.state.fenced.contains(&database)
    }

    /// See [`crate::PartitionGuard::reader`].
    pub fn reader(&self, space: Space) -> Reader {
        reader_of(self.shared, &self.state, space, self.now_micros)
    }

    /// The same, unless transactions of the space's database would be refused here.
    pub(crate) fn replica_reader(&self, space: Space) -> Option<Reader> {
        self.executes(space.database).then(|| self.reader(space))
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.shared
    }

    pub(crate) fn state(&self) -> &PartitionState {
        &self.state
    }

    /// See [`crate::PartitionGuard::read_version`].
    pub fn read_version(&self, space: Space) -> Reader {
        self.state.interactive_reader(self.now_micros);
        self.reader(space)
    }
}

impl Drop for ReadGuard<'_> {
    fn drop(&mut self) {
        let Shared {
            runtime, statistics, ..
        } = self.shared;
        statistics.reads_ended(self.transactions);
        self.stopwatch.end(&**runtime, Mode::Shared, &statistics.hold_times);
    }
}
