//! The part of a transaction that a reset ends: its read version, its reads, and the outcome of its
//! commit.
//!
//! A read holds the attempt in which it started. So a reset need not wait for reads: it ends the
//! attempt, which fails them, and the transaction continues with a new attempt.
//!
//! Reads of keys and commits have no task. A callback runs when the reply arrives, on the
//! connection's driver, never under a lock: thousands may be in flight, and a task for each would
//! cost more than all the rest of it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use quartet_wire_keyvalue::{Commit, ErrorCode, Reply, Request};
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, oneshot};

use crate::conflicts::ReadConflicts;
use crate::connection::{Complete, Connection, Failure, OpenVersion, TakeVersion, VersionReply, code_of_read};
use crate::{METADATA_VERSION_KEY, USER_KEYS_END, system_keys};

/// Timeout and retry interval for a version that does not exist yet.
const FUTURE_VERSION_TIMEOUT: Duration = Duration::from_secs(1);
const FUTURE_VERSION_RETRY: Duration = Duration::from_millis(50);

/// A stored value. The transaction caches it, to answer repeated reads.
pub type StoredValue = Arc<[u8]>;
/// Receives the value of a key, or that there is none.
pub(crate) type TakeValue = Box<dyn FnOnce(Result<Option<StoredValue>, ErrorCode>) + Send>;
/// Receives the outcome of a commit.
pub(crate) type TakeOutcome = Box<dyn FnOnce(Result<(), ErrorCode>) + Send>;

pub(crate) struct Attempt {
    pub connection: Arc<Connection>,
    /// The read version that the user set, if any.
    given_version: OnceLock<u64>,
    state: Mutex<State>,
    /// Notifies tasks of a change: the attempt ended, no read is in flight, or the commit has an
    /// outcome.
    changed: Notify,
}

#[derive(Default)]
struct State {
    version: ReadVersion,
    read_conflicts: ReadConflicts,
    /// Stored values that were read, so that reading them again needs no server.
    values: FxHashMap<Box<[u8]>, Option<StoredValue>>,
    /// Reads of keys by position; `None` when it is done. Emptied when all are.
    gets: Vec<Option<Get>>,
    gets_under_way: usize,
    /// Positions from here on wait for the version.
    first_unsent: usize,
    /// Reads that are tasks.
    tasks_under_way: usize,
    /// Why the first read that failed did; a commit fails for the same reason.
    read_failed: Option<ErrorCode>,
    /// The error with which all requests in flight fail.
    ended: Option<ErrorCode>,
    outcome: Option<Outcome>,
    /// The waiter for the commit.
    commit: Option<TakeOutcome>,
}

/// The read version of an attempt, requested by its first user.
#[derive(Default)]
enum ReadVersion {
    #[default]
    Unknown,
    Asked(Vec<TakeVersion>),
    Known(Arc<OpenVersion>),
}

/// A read of a key in flight.
struct Get {
    key: Box<[u8]>,
    system: bool,
    take: TakeValue,
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// At this version; `None`: nothing was written.
    Committed(Option<u64>),
    Failed(ErrorCode),
}

/// A read in flight, which a commit waits for. It is created when the read is called, not when its
/// task first runs: a commit may be called in between.
pub(crate) struct ReadUnderWay(Arc<Attempt>);

impl Drop for ReadUnderWay {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.tasks_under_way -= 1;
        let is_last = state.has_no_reads();
        drop(state);
        if is_last {
            self.0.changed.notify_waiters();
        }
    }
}

/// Ends the attempt if the task that holds it is dropped before it has done its work.
pub(crate) struct EndOnDrop(Option<Arc<Attempt>>);

impl EndOnDrop {
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if let Some(attempt) = &self.0 {
            attempt.end(ErrorCode::BROKEN_PROMISE);
        }
    }
}

impl ReadUnderWay {
    /// The outcome of a read that is a task, unless the attempt ends before.
    pub async fn outcome<T>(self, read: impl Future<Output = Result<T, ErrorCode>>) -> Result<T, ErrorCode> {
        let outcome = self.0.until_ended(read).await;
        if let Err(code) = &outcome {
            self.0.state.lock().read_failed.get_or_insert(*code);
        }
        outcome
    }
}

impl State {
    fn has_no_reads(&self) -> bool {
        self.gets_under_way == 0 && self.tasks_under_way == 0
    }

    fn begin_get(&mut self, get: Get) -> usize {
        self.gets.push(Some(get));
        self.gets_under_way += 1;
        self.gets.len() - 1
    }

    /// The read at a position, unless it has ended before.
    fn end_get(&mut self, position: usize) -> Option<Get> {
        let get = self.gets.get_mut(position)?.take()?;
        self.gets_under_way -= 1;
        if self.gets_under_way == 0 {
            self.gets.clear();
            self.first_unsent = 0;
        }
        Some(get)
    }
}

impl Attempt {
    pub fn new(connection: Arc<Connection>) -> Arc<Attempt> {
        Arc::new(Attempt {
            connection,
            given_version: OnceLock::new(),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    // ---- versions

    /// The version this attempt reads at.
    pub async fn version(self: &Arc<Attempt>) -> VersionReply {
        let (sender, receiver) = oneshot::channel();
        // The caller may have been dropped.
        self.take_version(Box::new(move |reply| drop(sender.send(reply))));
        receiver.await.unwrap_or(Err(ErrorCode::BROKEN_PROMISE))
    }

    fn take_version(self: &Arc<Attempt>, take: TakeVersion) {
        let mut state = self.state.lock();
        match &mut state.version {
            ReadVersion::Known(version) => {
                let version = version.clone();
                drop(state);
                take(Ok(version));
            }
            ReadVersion::Asked(waiting) => waiting.push(take),
            ReadVersion::Unknown => {
                state.version = ReadVersion::Asked(vec![take]);
                drop(state);
                self.ask_version();
            }
        }
    }

    fn ask_version(self: &Arc<Attempt>) {
        let attempt = self.clone();
        match self.given_version.get().copied() {
            None => self
                .connection
                .read_version(Box::new(move |reply| attempt.version_came(reply))),
            Some(version) => {
                let guard = self.end_on_drop();
                self.connection.runtime.spawn(async move {
                    let reply = attempt.open(version).await;
                    attempt.version_came(reply);
                    guard.disarm();
                });
            }
        }
    }

    fn version_came(self: &Arc<Attempt>, reply: VersionReply) {
        let mut state = self.state.lock();
        let waiting = match std::mem::take(&mut state.version) {
            ReadVersion::Asked(waiting) => waiting,
            other => {
                state.version = other;
                return;
            }
        };
        let unsent = state.first_unsent..state.gets.len();
        state.first_unsent = state.gets.len();
        let sent = match &reply {
            Ok(version) => {
                state.version = ReadVersion::Known(version.clone());
                self.send_gets(&state, version, unsent.clone())
            }
            Err(code) => Err(*code),
        };
        drop(state);
        if let Err(code) = sent {
            unsent.for_each(|position| self.value_came(position, Err(code.into())));
        }
        waiting.into_iter().for_each(|take| take(reply.clone()));
    }

    /// A version that does not exist yet is waited for.
    async fn open(&self, version: u64) -> VersionReply {
        let until = tokio::time::Instant::now() + FUTURE_VERSION_TIMEOUT;
        self.connection.is_up().await;
        loop {
            let (sender, receiver) = oneshot::channel();
            let take = Box::new(move |reply| drop(sender.send(reply)));
            self.connection.open_version(version, take);
            let opened: VersionReply = receiver.await.unwrap_or(Err(ErrorCode::BROKEN_PROMISE));
            let is_early = matches!(&opened, Err(ErrorCode::FUTURE_VERSION));
            if !is_early || tokio::time::Instant::now() >= until {
                return opened;
            }
            tokio::time::sleep(FUTURE_VERSION_RETRY).await;
        }
    }

    /// The transaction's read version, which certifies its commit: the one set by the user, or else
    /// the one obtained from the server.
    pub async fn told_version(self: &Arc<Attempt>) -> Result<u64, ErrorCode> {
        match self.given_version.get() {
            Some(version) => Ok(*version),
            None => Ok(self.version().await?.version),
        }
    }

    /// The version, if it is known already.
    pub fn known_version(&self) -> Option<u64> {
        let got = || match &self.state.lock().version {
            ReadVersion::Known(version) => Some(version.version),
            _ => None,
        };
        self.given_version.get().copied().or_else(got)
    }

    /// Fails if the attempt already has a version, or has requested one.
    pub fn give_version(&self, version: u64) -> Result<(), ErrorCode> {
        if !matches!(self.state.lock().version, ReadVersion::Unknown) {
            return Err(ErrorCode::READ_VERSION_ALREADY_SET);
        }
        self.given_version
            .set(version)
            .map_err(|_| ErrorCode::READ_VERSION_ALREADY_SET)
    }

    // ---- reads

    /// Passes `take` the stored value of a key: immediately if it is cached, else when the reply
    /// arrives.
    pub fn get(self: &Arc<Attempt>, key: &[u8], system: bool, conflicts: bool, take: TakeValue) {
        let mut state = self.state.lock();
        if let Some(code) = state.ended {
            drop(state);
            return take(Err(code));
        }
        if conflicts {
            state.read_conflicts.add_key(key);
        }
        if let Some(value) = state.values.get(key).cloned() {
            drop(state);
            return take(Ok(value));
        }
        let key = Box::from(key);
        let position = state.begin_get(Get { key, system, take });
        match &state.version {
            ReadVersion::Known(version) => {
                let sent = self.send_gets(&state, version, position..position + 1);
                state.first_unsent = state.gets.len();
                drop(state);
                if let Err(code) = sent {
                    self.value_came(position, Err(code.into()));
                }
            }
            ReadVersion::Asked(_) => {}
            ReadVersion::Unknown => {
                state.version = ReadVersion::Asked(Vec::new());
                drop(state);
                self.ask_version();
            }
        }
    }

    fn send_gets(
        self: &Arc<Attempt>,
        state: &State,
        version: &OpenVersion,
        positions: std::ops::Range<usize>,
    ) -> Result<(), ErrorCode> {
        let gets = positions.filter_map(|position| {
            let get = state.gets.get(position)?.as_ref()?;
            let request = Request::Get {
                version: version.version,
                system: get.system,
                key: &get.key,
            };
            let attempt = self.clone();
            let complete: Complete = Box::new(move |reply| attempt.value_came(position, reply));
            Some((request, complete))
        });
        self.connection.read_all(version, gets)
    }

    fn value_came(self: &Arc<Attempt>, position: usize, reply: Result<&[u8], Failure>) {
        let mut state = self.state.lock();
        let Some(get) = state.end_get(position) else {
            return;
        };
        let value = match reply {
            Ok(body) => self.stored_value(&get.key, body),
            Err(failure) => Err(code_of_read(failure)),
        };
        match &value {
            Ok(value) => drop(state.values.insert(get.key, value.clone())),
            Err(code) => drop(state.read_failed.get_or_insert(*code)),
        }
        let is_last = state.has_no_reads();
        drop(state);
        if is_last {
            self.changed.notify_waiters();
        }
        (get.take)(value);
    }

    fn stored_value(&self, key: &[u8], body: &[u8]) -> Result<Option<StoredValue>, ErrorCode> {
        let value = Reply::value(body).map_err(|_| ErrorCode::INTERNAL_ERROR)?;
        Ok(match value {
            Some(value) => Some(value.into()),
            // It exists from the start.
            None if key == METADATA_VERSION_KEY => Some([0; 10].into()),
            None if key.starts_with(USER_KEYS_END) => {
                system_keys::value(&self.connection.cluster, key).map(StoredValue::from)
            }
            None => None,
        })
    }

    /// The reads that certify the commit.
    pub fn with_read_conflicts<T>(&self, body: impl FnOnce(&mut ReadConflicts) -> T) -> T {
        body(&mut self.state.lock().read_conflicts)
    }

    pub fn begin_read(self: &Arc<Attempt>) -> ReadUnderWay {
        self.state.lock().tasks_under_way += 1;
        ReadUnderWay(self.clone())
    }

    /// Returns true if no read is in flight or has failed.
    pub fn has_read_all(&self) -> bool {
        let state = self.state.lock();
        state.has_no_reads() && state.read_failed.is_none() && state.ended.is_none()
    }

    /// Completes when no read is in flight; with the error of the first that failed.
    pub async fn reads_ended(&self) -> Result<(), ErrorCode> {
        self.until(|state| state.has_no_reads().then_some(state.read_failed))
            .await
            .map_or(Ok(()), Err)
    }

    // ---- the end

    /// Fails all requests in flight, and all later ones. Waiters are called from the runtime: the
    /// caller may hold a lock.
    pub fn end(&self, code: ErrorCode) {
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(code);
        state.gets_under_way = 0;
        let gets: Vec<Get> = state.gets.drain(..).flatten().collect();
        let commit = state.commit.take();
        drop(state);
        self.changed.notify_waiters();
        if !gets.is_empty() || commit.is_some() {
            self.connection.runtime.spawn(async move {
                gets.into_iter().for_each(|get| (get.take)(Err(code)));
                if let Some(take) = commit {
                    take(Err(code));
                }
            });
        }
    }

    pub fn end_on_drop(self: &Arc<Attempt>) -> EndOnDrop {
        EndOnDrop(Some(self.clone()))
    }

    pub fn has_ended(&self) -> Option<ErrorCode> {
        self.state.lock().ended
    }

    /// The outcome of `work`, unless the attempt ends before.
    pub async fn until_ended<T>(&self, work: impl Future<Output = Result<T, ErrorCode>>) -> Result<T, ErrorCode> {
        tokio::select! {
            biased;
            done = work => done,
            code = self.until(|state| state.ended) => Err(code),
        }
    }

    /// Waits until the state has an answer.
    async fn until<T>(&self, ask: impl Fn(&State) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(answer) = ask(&self.state.lock()) {
                return answer;
            }
            changed.await;
        }
    }

    /// The receiver of the commit's outcome.
    pub fn begin_commit(&self, take: TakeOutcome) {
        let mut state = self.state.lock();
        match state.ended {
            None => state.commit = Some(take),
            Some(code) => {
                drop(state);
                take(Err(code));
            }
        }
    }

    /// Sends a commit of this attempt's reads and of `commit`. Read conflicts are referred to by
    /// their positions.
    pub fn send_commit(&self, commit: Commit<'_>, complete: Complete) -> Result<(), ErrorCode> {
        let mut state = self.state.lock();
        let commit = Commit {
            read_conflicts: state.read_conflicts.ranges(),
            ..commit
        };
        self.connection.send(None, &Request::Commit(commit), complete).map(drop)
    }

    pub fn came_out(&self, outcome: Outcome) {
        let mut state = self.state.lock();
        state.outcome = Some(outcome);
        let take = state.commit.take();
        drop(state);
        self.changed.notify_waiters();
        if let Some(take) = take {
            take(match outcome {
                Outcome::Committed(_) => Ok(()),
                Outcome::Failed(code) => Err(code),
            });
        }
    }

    /// The outcome of the commit; an error if the attempt ended without one.
    pub async fn outcome(&self) -> Result<Outcome, ErrorCode> {
        self.until_ended(async { Ok(self.until(|state| state.outcome).await) })
            .await
    }
}
