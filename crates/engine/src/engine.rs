//! One partition at its home (leader): opening and closing, the partition's lock, and waiting for
//! durability.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quartet_env::{Clock, CorrectedClock, Disk};
use quartet_log::LogError;
use quartet_model::{DatabaseId, KeyRange, LogSequence, Version};
use quartet_store::{PartitionSnapshot, Row, Store, StoreError, StoreKind, StoreOptions};

use crate::durability::log_readers::LogReaders;
use crate::durability::memory::Memory;
use crate::durability::pressure::Pressure;
use crate::durability::room::Room;
use crate::durability::stored::StoredBytes;
use crate::flusher::{CheckpointError, Flusher, Opened, Shares};
use crate::options::{Durability, EngineOptions, OpenError, OpenProgress};
use crate::partition::before_long::BeforeLong;
use crate::partition::busy;
use crate::partition::busy::Busy;
use crate::partition::busy::{Listeners, Listening};
use crate::partition::frozen::Frozen;
use crate::partition::lock::PartitionLock;
use crate::partition::read_guard::ReadGuard;
use crate::partition::reader::Reader;
use crate::partition::shared::{FlusherTask, Shared};
use crate::partition::state::Dependency;
use crate::partition::state::PartitionState;
use crate::partition::statistics::Statistics;
use crate::partition::transaction::Transaction;
use crate::partition::watch::WatchId;
use crate::partition::{ExecuteError, PartitionGuard};
use crate::parts::Parts;
use crate::recovery::opening::{Recovered, recover};
use crate::replication::place::Folder;
use crate::replication::{self, Replicated, TRANSACTION_EFFECTS_MAX};
use crate::space::Space;
use crate::standing::{Arrival, FollowingPeriod, ReadArrival, Replication, Role, Settled, Standing};

/// Interval at which a thread that waits for durability checks.
const DURABLE_LOOK: Duration = Duration::from_micros(100);
/// No epoch grows larger before it is closed: with one transaction more it still fits a log record,
/// which holds 4 GiB.
const EPOCH_BYTES_LIMIT: usize = 2 << 30;
/// Time for which a home refuses commits while it waits for a successor.
const DRAIN_LASTS: Duration = Duration::from_secs(10);

/// One partition at its home: state, log and the threads that serve them.
pub struct Engine {
    shared: Arc<Shared>,
    flusher: Flusher,
}

/// Time after which a checkpoint's memory has been freed, returned by the allocator, and measured.
const GIVEN_BACK_AFTER_MICROS: u64 = 2_000_000;

/// A row that is changed where a node's engine opens; never in a program that is released.
static FALSIFIED: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();

impl Engine {
    /// Opens the partition of a standalone server. See [`Engine::open_with`].
    pub fn open(
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        options: EngineOptions,
        failure: Box<dyn Fn(&LogError) + Send>,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> Result<Engine, OpenError> {
        Engine::open_with(Parts::on_one_machine(disk, clock), options, failure, progress)
    }

    /// Opens the partition: the store's content on disk, then the rest of the log. `failure` is
    /// called once, from the thread that detects it, when the log can no longer be trusted; nothing
    /// is acknowledged as durable after it.
    pub fn open_with(
        parts: Parts,
        options: EngineOptions,
        failure: Box<dyn Fn(&LogError) + Send>,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> Result<Engine, OpenError> {
        Engine::open_parts(parts, options, None, failure, progress)
    }

    /// Opens the partition of a node that shares its log: its own files, then it follows. `failure`
    /// as above, for its own files. Never waits for the sequencer.
    pub fn open_replicated(
        parts: Parts,
        options: EngineOptions,
        replicated: Replicated,
        failure: Box<dyn Fn(&LogError) + Send>,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> Result<Engine, OpenError> {
        let engine = Engine::open_parts(parts, options, Some(replicated), failure, progress)?;
        if let Some((key, value)) = FALSIFIED.get() {
            engine.falsify(key, value);
        }
        Ok(engine)
    }

    fn open_parts(
        parts: Parts,
        options: EngineOptions,
        replicated: Option<Replicated>,
        failure: Box<dyn Fn(&LogError) + Send>,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> Result<Engine, OpenError> {
        let Parts {
            disk,
            log,
            clock,
            runtime,
        } = parts;
        let store_options = StoreOptions {
            kind: options.store,
            cache_bytes: options.cache_bytes,
            reserved_bytes: options.kept_bytes,
            ..StoreOptions::default()
        };
        let folder = match replicated {
            Some(_) => Folder::Node,
            None => Folder::Server,
        };
        let Recovered {
            store,
            position,
            checkpoint_bytes,
            log,
            last,
            places,
        } = recover(disk.clone(), log, &store_options, folder, progress)?;
        let is_all_in_memory = store.kind() == StoreKind::Memory;
        let room = Room::new(log.room(), options.kept_bytes);
        store.tidy();
        let stored = StoredBytes::of(&store).map_err(quartet_store::OpenError::Store)?;
        let unflushed_bytes = store.unflushed_bytes();
        let mut state = PartitionState::new(store, last);
        let mut epoch_bytes_max = options.epoch_bytes_max.min(EPOCH_BYTES_LIMIT);
        let shares = replicated.map(|replicated| {
            (state.is_home, state.follows) = (false, true);
            state.effects_bytes_max = TRANSACTION_EFFECTS_MAX;
            epoch_bytes_max = epoch_bytes_max.min(replication::EPOCH_BYTES_MAX);
            Shares::of(replicated, &places)
        });
        let corrected = shares.is_some().then(|| Arc::new(CorrectedClock::new(clock.clone())));
        let shared = Arc::new(Shared {
            partition: PartitionLock::new(state),
            before_long: BeforeLong::default(),
            flusher: FlusherTask::default(),
            room,
            pressure: Pressure::new(options.unflushed_bytes_max),
            clock: corrected.clone().map_or(clock, |corrected| corrected as Arc<dyn Clock>),
            corrected,
            runtime,
            durable: AtomicU64::new(last.0),
            waited_for: AtomicBool::new(false),
            listeners: Listeners::default(),
            log_readers: LogReaders::new(log.source(), log.tail()),
            statistics: Statistics::default(),
            memory: options.memory.clone(),
            checkpoint_given_up: store_options.checkpoint_given_up,
            checkpoint_given_up_micros: AtomicU64::new(0),
            is_all_in_memory,
            stored,
            epoch_bytes_max,
            standing: shares.as_ref().map(|shares| shares.standing.clone()),
        });
        shared.pressure.gathered(unflushed_bytes, 0);
        shared
            .statistics
            .checkpoint_last_version
            .store(position.version.0, Ordering::Relaxed);
        shared
            .statistics
            .checkpoint_last_micros
            .store(position.version.0, Ordering::Relaxed);
        let opened = Opened {
            log,
            disk,
            position,
            checkpoint_bytes,
            shares,
        };
        let flusher = Flusher::start(shared.clone(), opened, options, failure);
        Ok(Engine { shared, flusher })
    }

    /// Takes the partition's lock, however long that takes: not for a thread that serves
    /// connections.
    pub fn partition(&self) -> PartitionGuard<'_> {
        debug_assert!(
            !busy::is_serving_thread(),
            "a thread that serves connections may not wait"
        );
        PartitionGuard::new(&self.shared, self.shared.partition.lock())
    }

    /// Takes the partition's lock, or gives up once the wait exceeds the calling thread's limit: a
    /// moment if the thread serves connections ([`serve_on_this_thread`]), a few seconds otherwise.
    /// A pipeline of commands takes it once.
    pub fn partition_in_time(&self) -> Result<PartitionGuard<'_>, Busy> {
        let state = self.shared.partition.lock_in_time()?;
        Ok(PartitionGuard::new(&self.shared, state))
    }

    /// As [`Engine::partition`], shared with other readers.
    pub fn read(&self) -> ReadGuard<'_> {
        debug_assert!(
            !busy::is_serving_thread(),
            "a thread that serves connections may not wait"
        );
        ReadGuard::new(&self.shared, self.shared.partition.read())
    }

    /// As [`Engine::partition_in_time`], shared with other readers. A thread that holds it must not
    /// take the lock again: the two would deadlock.
    pub fn read_in_time(&self) -> Result<ReadGuard<'_>, Busy> {
        let state = self.shared.partition.read_in_time()?;
        Ok(ReadGuard::new(&self.shared, state))
    }

    /// Notes the arrival of a request that only reads, at a node that is not home. `None`: this
    /// node is home, or has no other. Once [`Engine::may_read`] is true of it, the request is
    /// executed under [`Engine::read_replica_in_time`], and its reply depends on nothing more.
    pub fn read_arrival(&self) -> Option<ReadArrival> {
        self.shared.standing.as_ref()?.read_arrival()
    }

    /// Returns true once this node's state has everything that was acknowledged, by durability
    /// `always`, or answered before the arrival, at any node. If not yet, the listeners of
    /// [`Engine::on_durable`] are called when that may have changed. It may never be, as when the
    /// sequencer does not answer or this node becomes home: bound the wait.
    pub fn may_read(&self, arrival: ReadArrival) -> bool {
        let Some(standing) = &self.shared.standing else {
            return false;
        };
        if standing.confirms_read(arrival) {
            return true;
        }
        // As in `is_durable`: either this thread sees the change, or the flusher sees it wait.
        self.shared.waited_for.store(true, Ordering::SeqCst);
        self.shared.flusher.wake();
        standing.confirms_read(arrival)
    }

    /// As [`Engine::read_in_time`], at a node that is not home: transactions see the log up to some
    /// record, and nothing that is not in it. They are refused as [`ExecuteError::NotHome`] once
    /// `period` has ended, and while the state of this node may differ from the log's.
    pub fn read_replica_in_time(&self, period: FollowingPeriod) -> Result<ReadGuard<'_>, Busy> {
        let state = self.shared.partition.read_in_time()?;
        Ok(ReadGuard::of_replica(&self.shared, state, period))
    }

    /// As [`Engine::reader`], at a node that is not home: see [`Engine::read_replica_in_time`].
    /// Busy if transactions are refused there.
    pub fn replica_reader(&self, space: Space, period: FollowingPeriod) -> Result<Reader, Busy> {
        let partition = self.read_replica_in_time(period)?;
        partition.replica_reader(space).ok_or(Busy)
    }

    /// Returns true if the log is shared with other nodes, which may read a record before this node
    /// knows that it is durable.
    pub fn is_replicated(&self) -> bool {
        self.shared.standing.is_some()
    }

    /// Counts a request that was answered so.
    pub fn count_replica_read(&self) {
        if let Some(standing) = &self.shared.standing {
            standing.count_read();
        }
    }

    /// Takes the partition's lock for an operation that may take long. The flusher receives
    /// everything committed before, so replies that wait for durability do not wait for the holder,
    /// and threads that serve connections give up on the lock at once.
    pub fn partition_for_long(&self) -> PartitionGuard<'_> {
        let mut partition = self.partition();
        partition.hand_over_pending();
        self.shared.partition.announcement.announce();
        partition
    }

    /// Returns true while the holder of the lock shows the state before its transaction: see
    /// [`Engine::frozen_before_long`].
    #[inline]
    pub fn shows_state(&self) -> bool {
        self.shared.before_long.is_shown()
    }

    /// The latest state, if it can be read without the lock although a transaction holds that for
    /// long ([`PartitionGuard::show_state`]). `None`: the reader waits for the lock. Its time is
    /// the present.
    pub fn frozen_before_long(&self, space: Space) -> Option<Frozen> {
        match self.are_requests_held() {
            true => None,
            false => Frozen::before_long(&self.shared, space),
        }
    }

    /// See [`PartitionGuard::reader`].
    pub fn reader(&self, space: Space) -> Result<Reader, Busy> {
        let partition = self.read_in_time()?;
        match partition.has_left(space.database) {
            true => Err(Busy),
            false => Ok(partition.reader(space)),
        }
    }

    /// Lets the waiters of the partition's lock go first, for a moment: for background work,
    /// between two of its steps. Otherwise they would wait for the lock's fairness limit.
    pub fn give_way(&self) {
        self.shared.partition.give_way();
    }

    /// Returns true if a thread has waited in vain for the partition's lock, and it has not been
    /// free since, or if requests are held.
    pub fn is_busy(&self) -> bool {
        self.shared.partition.announcement.is_busy() || self.are_requests_held()
    }

    /// Ends watches. Never waits: while another thread keeps the lock they may still be notified of
    /// changes.
    pub fn unwatch(&self, watches: Vec<WatchId>) {
        self.shared.partition.unwatch(watches);
    }

    /// Calls `listener` when the lock is released after [`Engine::is_busy`] was true, from the
    /// thread that held it. The listener must be quick, and a call may be missed: its owner also
    /// polls. It stays registered until the returned value is dropped.
    pub fn on_free(&self, listener: Arc<dyn Fn() + Send + Sync>) -> Listening {
        self.shared.partition.announcement.listen(listener)
    }

    /// Everything up to this version is durable.
    pub fn durable(&self) -> Version {
        self.shared.durable()
    }

    /// Returns true once the answer that depends on `dependency` may be sent. When false, the
    /// listeners will be called after the durable version moves.
    pub fn is_durable(&self, dependency: Dependency) -> bool {
        if dependency <= self.durable() {
            return true;
        }
        // Sequentially consistent on both sides: either this thread sees the version move, or the
        // flusher sees it wait.
        if !self.shared.waited_for.swap(true, Ordering::SeqCst) {
            // The writer may be in no hurry for a sync; this reader is.
            self.shared.flusher.wake();
        }
        dependency.0 <= self.shared.durable.load(Ordering::SeqCst)
    }

    /// Notes that every record up to `sequence` is durable beside the nodes of the cluster. The
    /// sequencer may drop what is archived so and durable in the own file log, as if a majority of
    /// the nodes had it.
    pub fn archived(&self, sequence: LogSequence) {
        if let Some(standing) = &self.shared.standing {
            standing.wishes.archived.fetch_max(sequence.0, Ordering::SeqCst);
        }
    }

    /// Records the arrival of a request. Call it before the request executes. `durability` is the
    /// mode of the space that it will use.
    #[inline]
    pub fn arrival(&self, durability: Durability) -> Arrival {
        match &self.shared.standing {
            None => Arrival::default(),
            Some(standing) => standing.arrival(durability),
        }
    }

    /// Returns whether a reply that depends on `dependency` may be sent, to a request that arrived
    /// at `arrival`. Over a local log: once the dependency is durable. Over a shared log, evidence
    /// is also required that this node was home after the arrival; relaxed durability accepts
    /// evidence of the last two seconds instead. If not yet, the listeners will be called.
    #[inline]
    pub fn settled(&self, dependency: Dependency, arrival: Arrival) -> Settled {
        let Some(standing) = &self.shared.standing else {
            return match self.is_durable(dependency) {
                true => Settled::Yes,
                false => Settled::NotYet,
            };
        };
        let settled = self.looks_settled(standing, dependency, arrival);
        if settled != Settled::NotYet {
            return settled;
        }
        // As in `is_durable`: either this thread sees the change, or the flusher sees it wait.
        if !self.shared.waited_for.swap(true, Ordering::SeqCst) {
            self.shared.flusher.wake();
        }
        self.looks_settled(standing, dependency, arrival)
    }

    fn looks_settled(&self, standing: &Standing, dependency: Dependency, arrival: Arrival) -> Settled {
        let durable = Version(self.shared.durable.load(Ordering::SeqCst));
        standing.settles(dependency, arrival, durable, self.shared.runtime.now())
    }

    /// Blocks the calling thread until the reply may leave; false if it never may. For threads that
    /// may wait.
    pub fn wait_settled(&self, dependency: Dependency, arrival: Arrival) -> bool {
        loop {
            match self.settled(dependency, arrival) {
                Settled::Yes => return true,
                Settled::Lost => return false,
                Settled::NotYet if self.shared.partition.has_failed() => return false,
                Settled::NotYet => self.shared.runtime.pause(DURABLE_LOOK),
            }
        }
    }

    /// Runs `body` as [`PartitionGuard::execute`] does, and blocks the calling thread until what it
    /// did and saw is durable. [`ExecuteError::NotHome`] as well if that will not be, or is not
    /// known: the log has failed, or this node ceased to be home. For threads that may wait.
    pub fn execute_durably<R, E>(
        &self,
        space: Space,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<R, E>,
    ) -> Result<Result<R, ExecuteError<E>>, Busy> {
        // From before the commit: after it, another home may have a version of the same number.
        let arrival = self.arrival(Durability::Always);
        let executed = self.partition_in_time()?.execute(space, body);
        Ok(
            executed.and_then(|(answer, dependency)| match self.wait_settled(dependency, arrival) {
                true => Ok(answer),
                false => Err(ExecuteError::NotHome),
            }),
        )
    }

    /// Makes `dependency` durable on the calling thread, which waits for the disk. For a thread
    /// without other connections to serve meanwhile: it saves the round trip to the flusher's
    /// thread. Returns false if the flusher is busy for long, or the log failed or is shared: then
    /// the caller waits as usual.
    pub fn make_durable(&self, dependency: Dependency) -> bool {
        dependency <= self.durable() || self.flusher.flush_here(dependency)
    }

    /// Calls `listener` from the flusher each time the durable version advanced while replies
    /// waited. It must be quick. It stays registered until the returned value is dropped.
    pub fn on_durable(&self, listener: Arc<dyn Fn() + Send + Sync>) -> Listening {
        self.shared.listeners.add(listener)
    }

    /// Blocks the calling thread until `dependency` is durable. For threads that may wait; I/O
    /// threads use the listeners. False if the log failed and `dependency` never will be.
    pub fn wait_durable(&self, dependency: Dependency) -> bool {
        let arrival = self.arrival(Durability::Always);
        if self.shared.standing.is_some() {
            return self.wait_settled(dependency, arrival);
        }
        while !self.is_durable(dependency) {
            if self.shared.partition.has_failed() {
                return false;
            }
            self.shared.runtime.pause(DURABLE_LOOK);
        }
        true
    }

    /// The state at the latest commit, and the dependency of everything read from it. It shows
    /// every logical database: for replicas and tests. A layer has a [`Reader`](crate::Reader) of
    /// its own part.
    pub fn snapshot(&self) -> (PartitionSnapshot, Version, Dependency) {
        let state = self.shared.partition.look();
        let version = state.last_version();
        let dependency = state.dependency_on_everything(self.durable());
        (state.snapshot(), version, dependency)
    }

    /// Starts a checkpoint now and waits until it is on disk.
    pub fn checkpoint(&self) -> Result<(), CheckpointError> {
        self.flusher.checkpoint()
    }

    /// Starts a checkpoint in the background unless one is running.
    pub fn checkpoint_in_background(&self) {
        self.flusher.request_checkpoint();
    }

    /// A hash of every row in `space` (of the whole partition if none) at the latest commit: equal
    /// states, equal hashes.
    pub fn state_hash(&self, space: Option<Space>) -> Result<u128, StoreError> {
        let (snapshot, _, _) = self.snapshot();
        let range = space.map(|space| KeyRange::prefix(&space.prefix()));
        quartet_store::state_hash(&snapshot, range.as_ref())
    }

    /// Returns the counters since the start.
    pub fn statistics(&self) -> &Statistics {
        &self.shared.statistics
    }

    /// Returns the size of a logical database's rows, including cleared ranges until they are
    /// freed.
    pub fn stored_bytes(&self, database: DatabaseId) -> u64 {
        self.shared.stored.read(database)
    }

    /// Returns the size of all databases' rows, without rows that only a snapshot still holds.
    pub fn live_bytes(&self) -> u64 {
        self.shared.stored.total()
    }

    /// The same where room is made by removing rows. In memory small rows take less than they
    /// count, and all of them at most as much as the process' rows do; the ssd engine has most of
    /// its rows on disk.
    pub fn removable_bytes(&self) -> u64 {
        match self.shared.is_all_in_memory {
            true => self.live_bytes().min(quartet_store::all_rows_bytes()),
            false => self.live_bytes(),
        }
    }

    /// Every row is in memory, so that removing rows gives it back; false for the ssd engine.
    pub fn is_all_in_memory(&self) -> bool {
        self.shared.is_all_in_memory
    }

    /// Returns the process' memory budget, and whether there is room for more.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.shared.memory
    }

    /// Abandons the running checkpoint, if any, to release the rows that it holds and that are no
    /// longer live; returns true while that is awaited. Until a checkpoint has succeeded, evictions
    /// leave more room for it ([`Memory::evicts_above`]).
    pub fn give_up_checkpoint(&self) -> bool {
        let (shared, now_micros) = (&self.shared, self.now_micros());
        if shared.is_all_in_memory && shared.statistics.checkpoint_running.load(Ordering::Relaxed) {
            shared.memory.leave_room_for_checkpoint(true);
            shared.checkpoint_given_up.store(true, Ordering::Relaxed);
            shared.checkpoint_given_up_micros.store(now_micros, Ordering::Relaxed);
        }
        let given_up_micros = shared.checkpoint_given_up_micros.load(Ordering::Relaxed);
        now_micros.saturating_sub(given_up_micros) < GIVEN_BACK_AFTER_MICROS
    }

    /// Returns true while the disk has no room for writes that make the database larger: they are
    /// refused.
    pub fn is_disk_full(&self) -> bool {
        self.shared.room.is_short()
    }

    /// Notes how far the clock of this node's machine is ahead of most nodes' clocks, and takes
    /// `correction` off all times from now on; in microseconds. A server on its own has no others.
    pub fn correct_clock(&self, ahead: i64, correction: i64) {
        if let Some(clock) = &self.shared.corrected {
            clock.correct(correction);
        }
        self.wish(|standing, _| {
            let mut figures = standing.figures.lock();
            (figures.clock_ahead_micros, figures.clock_correction_micros) = (ahead, correction);
        });
    }

    /// The time, in microseconds since the Unix epoch.
    pub fn now_micros(&self) -> u64 {
        self.shared.clock.now_micros()
    }

    /// Flushes everything and stops the threads. Later transactions panic: the caller has stopped
    /// its layers first.
    pub fn close(mut self) -> Result<(), LogError> {
        self.flusher.stop()
    }

    /// Returns this node's part in its log.
    pub fn role(&self) -> Role {
        let standing = self.shared.standing.as_ref();
        standing.map_or(Role::Alone, |standing| standing.role())
    }

    /// Returns true if transactions are executed here.
    pub fn is_home(&self) -> bool {
        self.shared.standing.as_ref().is_none_or(|standing| standing.is_home())
    }

    /// Tries to become home until this node is, or another. Returns at once.
    pub fn take_over(&self) {
        self.wish(|standing, _| standing.wishes.take_over.store(true, Ordering::SeqCst));
    }

    /// Prepares to hand over: commits are refused for ten seconds, or until [`Engine::resume`].
    /// Once the role's condition is `Drained`, the successor may take over, and nothing is lost.
    pub fn drain(&self) {
        self.wish(|standing, now| {
            let until_micros = (now + DRAIN_LASTS).as_micros() as u64;
            standing.wishes.drain_until_micros.store(until_micros, Ordering::SeqCst);
        });
    }

    /// Makes requests wait until [`Engine::resume`]: every thread that takes the partition's lock
    /// in time finds it busy. Every reply to an earlier request will be confirmed before the home's
    /// condition is `Drained`. False: a request that takes long has not ended within `timeout`, and
    /// nothing is held.
    pub fn hold_requests(&self, timeout: Duration) -> bool {
        let is_held = self.shared.partition.hold_requests(timeout);
        if is_held {
            self.wish(|standing, _| standing.want_confirmation());
        }
        is_held
    }

    /// Makes requests wait from the end of this term until [`Engine::resume`]. Layers run a moment
    /// longer than their term: a request that arrives meanwhile continues at the next home, and
    /// none reads here. Call before the layers of a term start.
    pub fn hold_requests_after_term(&self) {
        self.shared.partition.hold_after_term();
    }

    /// Returns true during [`Engine::hold_requests`], or after the end of a term.
    pub fn are_requests_held(&self) -> bool {
        self.shared.partition.is_held()
    }

    /// Ends [`Engine::drain`], [`Engine::hold_requests`], and the wait after the end of a term.
    pub fn resume(&self) {
        self.shared.partition.release_requests();
        self.wish(|standing, _| standing.wishes.drain_until_micros.store(0, Ordering::SeqCst));
    }

    /// Requests every node's state hash at one record. For a home; on other nodes it does nothing.
    pub fn mark(&self) {
        self.wish(|standing, _| standing.wishes.mark.store(true, Ordering::SeqCst));
    }

    fn wish(&self, wish: impl FnOnce(&Standing, Duration)) {
        if let Some(standing) = &self.shared.standing {
            wish(standing, self.shared.runtime.now());
            self.shared.flusher.wake();
        }
    }

    /// Changes a row without the log, as damaged memory does, for simulations.
    #[doc(hidden)]
    pub fn falsify(&self, key: &[u8], value: &[u8]) {
        let mut partition = self.shared.partition.borrow();
        let version = partition.last_version();
        let set = partition.store.set(Row::new(key, value, version));
        drop(set.expect("a store without faults"));
    }

    /// Makes every node's engine that this process opens start with [`Engine::falsify`], for the
    /// test program of the vote about states.
    #[doc(hidden)]
    pub fn falsify_when_opened(key: &[u8], value: &[u8]) {
        FALSIFIED.get_or_init(|| (key.to_vec(), value.to_vec()));
    }

    /// Counts a state hash that differed in a process of this node that has ended since.
    pub fn count_hash_mismatch(&self) {
        self.wish(|standing, _| standing.figures.lock().hash_mismatches += 1);
    }

    /// Returns the figures of the replicated log.
    pub fn replication(&self) -> Replication {
        let standing = self.shared.standing.as_ref();
        standing.map_or_else(Replication::default, |standing| {
            standing.replication(self.shared.runtime.now())
        })
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn shared_arc(&self) -> Arc<Shared> {
        self.shared.clone()
    }
}
