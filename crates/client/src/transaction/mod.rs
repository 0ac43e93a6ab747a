//! The operations of one transaction, and its life from its first operation to its commit.
//!
//! ```text
//!   active --commit--> committing --+--> committed --reset--> active
//!     ^                             +--> failed  --on_error--> active
//! ```
//!
//! Every operation takes effect when it is called, in the order of the calls; a future only waits
//! for the outcome. Writes have no outcome: the first error is kept, and later requests, including
//! the commit, return it.

mod begin;
mod commit;
mod mapped;
mod own_watches;
mod size;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use quartet_wire_keyvalue::{ErrorCode, Mutation, MutationKind, Reply, Request};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::attempt::{Attempt, Outcome, StoredValue};
use crate::conflicts::RangeSet;
use crate::connection::code_of_read;
use crate::mutations::Mutations;
use crate::options::Options;
use crate::reading::{RangeOptions, Rows, Selector, View};
use crate::special::{self, SpecialKeyInfo};
use crate::writes::Writes;
use crate::{Database, METADATA_VERSION_KEY, TransactionOption, VALUE_BYTES_MAX, key_after, key_bytes_max};

pub use mapped::{Mapped, MappedRow, MappedRows};
use own_watches::OwnWatches;
use size::Size;

const BACKOFF_MIN: Duration = Duration::from_millis(10);
/// Longest backoff while the server is busy.
const BACKOFF_MAX_BUSY: Duration = Duration::from_secs(30);
const STAMP_BYTES: usize = 10;
const STAMP_OFFSET_BYTES: usize = 4;

/// Clones are the same transaction.
#[derive(Clone)]
pub struct Transaction {
    inner: Arc<Inner>,
}

struct Inner {
    database: Database,
    state: Mutex<State>,
}

struct State {
    attempt: Arc<Attempt>,
    options: Options,
    phase: Phase,
    /// Write set visible to reads: the first `shown` mutations.
    writes: Arc<Writes>,
    shown: usize,
    mutations: Mutations,
    /// Declared conflict ranges, in addition to the mutations' ranges.
    write_conflicts: RangeSet,
    own_watches: OwnWatches,
    size: Size,
    /// The first failure of an operation without an outcome.
    failed: Option<ErrorCode>,
    cancelled: bool,
    timed_out: bool,
    timer: Option<AbortHandle>,
    /// Time of its creation or last reset: a timeout counts from here.
    began: Instant,
    has_begun: bool,
    retries: u32,
    backoff: Duration,
    /// The conflicting ranges of the last refused commit.
    conflicting: RangeSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Active,
    Committing,
    Committed(Option<u64>),
    Failed,
}

/// The kind of a conflict range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictKind {
    /// Keys read: a later write of them by another transaction refuses the commit.
    Read,
    /// Keys written: they refuse the commits of transactions that have read them.
    Write,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        state.stop_timer();
        if !matches!(state.phase, Phase::Committed(_) | Phase::Committing) {
            state.attempt.end(ErrorCode::TRANSACTION_CANCELLED);
        }
    }
}

impl Transaction {
    pub(crate) fn new(database: Database) -> Transaction {
        let options = database.inner.defaults.lock().clone();
        let attempt = Attempt::new(database.inner.connection.clone());
        let has_timeout = options.timeout.is_some();
        let transaction = Transaction {
            inner: Arc::new(Inner {
                database,
                state: Mutex::new(State::new(attempt, options)),
            }),
        };
        if has_timeout {
            transaction.start_timer();
        }
        transaction
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock()
    }

    /// Returns the database of the transaction.
    pub fn database(&self) -> &Database {
        &self.inner.database
    }

    /// Sets an option. Errors: `CLIENT_INVALID_OPERATION` if the option must be set before the
    /// first operation and there was one.
    pub fn set_option(&self, option: TransactionOption) -> Result<(), ErrorCode> {
        let mut state = self.state();
        if option == TransactionOption::ReadYourWritesDisable && state.has_begun {
            return Err(ErrorCode::CLIENT_INVALID_OPERATION);
        }
        state.options.set(option);
        drop(state);
        if matches!(option, TransactionOption::Timeout(_)) {
            self.start_timer();
        }
        Ok(())
    }

    /// Records the first failure of an operation without an outcome, which later ones return. For
    /// invalid options.
    pub fn fail(&self, code: ErrorCode) {
        self.state().failed.get_or_insert(code);
    }

    // ---- versions

    /// Sets the version to read at, instead of requesting the newest from the server.
    pub fn set_read_version(&self, version: i64) {
        let mut state = self.state();
        let result = match u64::try_from(version) {
            Ok(version) if version > 0 => state.attempt.give_version(version),
            _ => Err(ErrorCode::VERSION_INVALID),
        };
        if let Err(code) = result {
            state.failed.get_or_insert(code);
        }
    }

    /// Returns the version that the transaction reads at, and fixes it if it was open.
    pub fn get_read_version(&self) -> impl Future<Output = Result<u64, ErrorCode>> + Send + use<> {
        let state = self.state();
        let (checked, attempt) = (state.check_ended(), state.attempt.clone());
        async move {
            checked?;
            attempt.until_ended(attempt.told_version()).await
        }
    }

    /// The version of its commit; −1 if it wrote nothing, or has not committed.
    pub fn committed_version(&self) -> i64 {
        match self.state().phase {
            Phase::Committed(Some(version)) => i64::try_from(version).unwrap_or(i64::MAX),
            _ => -1,
        }
    }

    /// The ten bytes that a commit writes for versionstamps. Call it before the commit.
    pub fn versionstamp(&self) -> impl Future<Output = Result<[u8; STAMP_BYTES], ErrorCode>> + Send + use<> {
        let mut state = self.state();
        let (checked, attempt) = (state.check_operation(), state.attempt.clone());
        async move {
            checked?;
            // A reset breaks the promise; a cancelled transaction returns its error.
            let outcome = attempt.outcome().await.map_err(|code| match code {
                ErrorCode::TRANSACTION_CANCELLED => ErrorCode::BROKEN_PROMISE,
                code => code,
            })?;
            match outcome {
                Outcome::Committed(Some(version)) => {
                    let mut stamp = [0; STAMP_BYTES];
                    stamp[..8].copy_from_slice(&version.to_be_bytes());
                    Ok(stamp)
                }
                Outcome::Committed(None) => Err(ErrorCode::NO_COMMIT_VERSION),
                Outcome::Failed(_) => Err(ErrorCode::TRANSACTION_INVALID_VERSION),
            }
        }
    }

    // ---- reads

    /// Reads the value of a key; `None` if there is none. A `snapshot` read is no read conflict.
    pub fn get(
        &self,
        key: &[u8],
        snapshot: bool,
    ) -> impl Future<Output = Result<Option<Vec<u8>>, ErrorCode>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        // The caller may have been dropped.
        self.take_value(key, snapshot, move |value| drop(sender.send(value)));
        async move {
            let value = receiver.await.unwrap_or(Err(ErrorCode::BROKEN_PROMISE))?;
            Ok(value.map(|value| value.to_vec()))
        }
    }

    /// The same for callers without tasks: `take` is called with the value, before this returns or
    /// later on the runtime. It must be quick, and is dropped without a call when the runtime goes.
    pub fn take_value(
        &self,
        key: &[u8],
        snapshot: bool,
        take: impl FnOnce(Result<Option<StoredValue>, ErrorCode>) + Send + 'static,
    ) {
        let is_special = special::is_special(key);
        let result = self.begin_read(snapshot, is_special, |state| state.check_readable_key(key));
        let (view, info) = match result {
            Ok(read) => read,
            Err(code) => return take(Err(code)),
        };
        if info.is_none() && key.len() > key_bytes_max(key) {
            return take(Ok(None));
        }
        if info.is_none() && view.is_stored() {
            return view.take_stored(key, Box::new(take));
        }
        let (key, attempt) = (key.to_vec(), view.attempt.clone());
        let runtime = &self.inner.database.inner.runtime;
        let Some(info) = info else {
            let under_way = attempt.begin_read();
            runtime.spawn(async move { take(under_way.outcome(view.get(&key)).await) });
            return;
        };
        runtime.spawn(async move {
            let value = attempt.until_ended(special::get(&attempt, &info, &key)).await;
            take(value.map(|value| value.map(StoredValue::from)));
        });
    }

    /// Returns the key that the selector names, within the readable keys: the empty key before the
    /// first, the end of them after the last.
    pub fn get_key(
        &self,
        selector: &Selector,
        snapshot: bool,
    ) -> impl Future<Output = Result<Vec<u8>, ErrorCode>> + Send + use<> {
        let selector = selector.clone();
        let result = self
            .begin_read(snapshot, false, |state| state.check_selector(&selector))
            .map(|(view, _)| (view.attempt.begin_read(), view));
        async move {
            let (under_way, view) = result?;
            under_way.outcome(view.get_key(&selector)).await
        }
    }

    /// Reads the rows from `begin` to before `end`, as far as the options' limits reach. A caller
    /// reads on from the last row while `more` is true.
    pub fn get_range(
        &self,
        begin: &Selector,
        end: &Selector,
        options: RangeOptions,
        snapshot: bool,
    ) -> impl Future<Output = Result<Rows, ErrorCode>> + Send + use<> {
        let (begin, end) = (begin.clone(), end.clone());
        let is_special = special::is_special_range(&begin.key, &end.key);
        let result = self.begin_read(snapshot, is_special, |state| {
            state.check_selector(&begin)?;
            state.check_selector(&end)
        });
        let result = result.map(|(view, info)| (info.is_none().then(|| view.attempt.begin_read()), view, info));
        async move {
            let (under_way, view, info) = result?;
            let attempt = view.attempt.clone();
            let rows = async {
                if let Some(info) = info {
                    return Box::pin(special::get_range(&view.attempt, &info, &begin, &end, options)).await;
                }
                match special::system_range(&view.attempt.connection.cluster, &begin, &end, options) {
                    Some(rows) => Ok(rows),
                    None => view.get_range(&begin, &end, options).await,
                }
            };
            match under_way {
                Some(under_way) => under_way.outcome(rows).await,
                None => attempt.until_ended(rows).await,
            }
        }
    }

    /// Returns the view of a read, with the state for computed keys if it reads those. Computed
    /// keys can also be read during a commit and after it.
    fn begin_read(
        &self,
        snapshot: bool,
        is_special: bool,
        check: impl FnOnce(&State) -> Result<(), ErrorCode>,
    ) -> Result<(View, Option<Box<SpecialKeyInfo>>), ErrorCode> {
        let mut state = self.state();
        if is_special {
            state.check_ended()?;
        } else {
            state.check_operation()?;
            check(&state)?;
        }
        state.has_begun = true;
        let sees_own =
            !state.options.read_your_writes_disabled && (!snapshot || state.options.snapshot_read_your_writes > 0);
        let info = is_special.then(|| Box::new(state.told()));
        let view = View {
            attempt: state.attempt.clone(),
            writes: if sees_own {
                state.shown_writes().clone()
            } else {
                Arc::default()
            },
            end: state.options.end_of_readable(),
            bypass_unreadable: state.options.bypass_unreadable,
            conflicts: !snapshot,
        };
        Ok((view, info))
    }

    // ---- writes

    /// Writes a value. Keys have at most 10,000 bytes and values 100,000; longer ones fail the
    /// transaction.
    pub fn set(&self, key: &[u8], value: &[u8]) {
        self.write(|state| {
            if special::is_special(key) {
                return Err(state.refused_special());
            }
            state.check_writable_key(key)?;
            check_value(value)?;
            state.push(MutationKind::Set, key, value);
            Ok(())
        });
    }

    /// Deletes a key, if it exists.
    pub fn clear(&self, key: &[u8]) {
        self.write(|state| {
            if special::is_special(key) {
                return Err(state.refused_special());
            }
            state.check_outside(key)?;
            if key.len() <= key_bytes_max(key) {
                state.push(MutationKind::Clear, key, b"");
            }
            Ok(())
        });
    }

    /// Deletes the keys from `begin` to before `end`.
    pub fn clear_range(&self, begin: &[u8], end: &[u8]) {
        self.write(|state| {
            if begin > end {
                return Err(ErrorCode::INVERTED_RANGE);
            }
            if special::is_special_range(begin, end) {
                let is_nothing = begin == end || special::is_empty_module(begin, end);
                return match is_nothing && state.options.special_keys_writable {
                    true => Ok(()),
                    false => Err(state.refused_special()),
                };
            }
            let writable = state.options.end_of_writable();
            if begin > writable || end > writable {
                return Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE);
            }
            let (cut_begin, cut_end) = (cut_bound(begin), cut_bound(end));
            match cut_begin < cut_end {
                true => state.push(MutationKind::ClearRange, cut_begin, cut_end),
                false => state.size.add_clear_range(begin, end, true),
            }
            Ok(())
        });
    }

    /// `kind` is one of the atomic operations, or a set with a versionstamp.
    pub fn atomic(&self, kind: MutationKind, key: &[u8], operand: &[u8]) {
        self.write(|state| {
            if key == METADATA_VERSION_KEY {
                let is_allowed = kind == MutationKind::SetVersionstampedValue && operand == [0; 14];
                if !is_allowed {
                    return Err(ErrorCode::CLIENT_INVALID_OPERATION);
                }
            } else {
                state.check_outside(key)?;
                check_key_length(key)?;
            }
            check_value(operand)?;
            match kind {
                MutationKind::Atomic(_) => {}
                MutationKind::SetVersionstampedValue => drop(split_stamp(operand)?),
                MutationKind::SetVersionstampedKey => {
                    // The hidden part depends on the version that is known now.
                    let (first, last) = state.stamped_bounds(key)?;
                    Arc::make_mut(state.shown_writes()).versionstamped_key(&first, &last);
                }
                _ => return Err(ErrorCode::INVALID_MUTATION_TYPE),
            }
            state.push(kind, key, operand);
            Ok(())
        });
    }

    /// Applies a write. A cancelled transaction accepts writes, too: its size grows, and later
    /// requests fail.
    fn write(&self, write: impl FnOnce(&mut State) -> Result<(), ErrorCode>) {
        let mut state = self.state();
        let done = state.check_phase().and_then(|()| {
            state.has_begun = true;
            write(&mut state)
        });
        if let Err(code) = done {
            state.failed.get_or_insert(code);
        }
    }

    /// Only an inverted range is refused immediately. Other faults fail the next request.
    pub fn add_conflict_range(&self, begin: &[u8], end: &[u8], kind: ConflictKind) -> Result<(), ErrorCode> {
        if begin > end {
            return Err(ErrorCode::INVERTED_RANGE);
        }
        self.write(|state| {
            let bound = match kind {
                ConflictKind::Read => state.options.end_of_readable(),
                ConflictKind::Write => state.options.end_of_writable(),
            };
            let is_metadata_version = begin == METADATA_VERSION_KEY && end == key_after(METADATA_VERSION_KEY);
            if end > bound && !(kind == ConflictKind::Read && is_metadata_version) {
                return Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE);
            }
            let (begin, end) = (cut_bound(begin), cut_bound(end));
            if begin < end {
                state.add_conflict_range(begin, end, kind);
            }
            Ok(())
        });
        Ok(())
    }

    // ---- sizes and places

    /// Estimates the size of the rows from `begin` to before `end`, in bytes.
    pub fn estimated_range_bytes(
        &self,
        begin: &[u8],
        end: &[u8],
    ) -> impl Future<Output = Result<i64, ErrorCode>> + Send + use<> {
        let response = self.about_range(begin, end, &Request::EstimatedBytes { begin, end });
        async move {
            let bytes = Reply::number(&response.await?).map_err(|_| ErrorCode::INTERNAL_ERROR)?;
            Ok(i64::try_from(bytes).unwrap_or(i64::MAX))
        }
    }

    /// `begin`, keys that cut the range into pieces of about `piece_bytes`, and `end`.
    pub fn split_points(
        &self,
        begin: &[u8],
        end: &[u8],
        piece_bytes: i64,
        limit: Option<u32>,
    ) -> impl Future<Output = Result<Vec<Vec<u8>>, ErrorCode>> + Send + use<> {
        let request = Request::SplitPoints {
            begin,
            end,
            piece_bytes: u64::try_from(piece_bytes).unwrap_or(0),
            limit: limit.unwrap_or(u32::MAX),
            system: self.state().options.reads_system_keys,
        };
        let bound = self.state().options.end_of_readable();
        let response = self.about_range(begin, end, &request);
        let is_outside = begin > bound || end > bound;
        async move {
            if is_outside {
                return Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE);
            }
            let body = response.await?;
            let keys = Reply::keys(&body).map_err(|_| ErrorCode::INTERNAL_ERROR)?;
            Ok(keys.into_iter().map(<[u8]>::to_vec).collect())
        }
    }

    fn about_range(
        &self,
        begin: &[u8],
        end: &[u8],
        request: &Request<'_>,
    ) -> impl Future<Output = Result<Vec<u8>, ErrorCode>> + Send + use<> {
        let mut state = self.state();
        let (checked, attempt) = (state.check_operation(), state.attempt.clone());
        drop(state);
        let is_inverted = begin > end;
        let mut owned = Vec::new();
        request.put(0, &mut owned);
        async move {
            checked?;
            if is_inverted {
                return Err(ErrorCode::INVERTED_RANGE);
            }
            let call = async {
                // There may be no connection yet; a version waits for one.
                attempt.version().await?;
                let frame = quartet_wire_keyvalue::next_frame(&owned, usize::MAX);
                let frame = frame.ok().flatten().ok_or(ErrorCode::INTERNAL_ERROR)?;
                let request = Request::parse(&frame).map_err(|_| ErrorCode::INTERNAL_ERROR)?;
                attempt.connection.ask(&request).await.map_err(code_of_read)
            };
            attempt.until_ended(call).await
        }
    }

    /// The addresses of the server that has `key`.
    pub fn addresses_of(&self, _key: &[u8]) -> impl Future<Output = Result<Vec<String>, ErrorCode>> + Send + use<> {
        let mut state = self.state();
        let (checked, attempt) = (state.check_operation(), state.attempt.clone());
        async move {
            checked?;
            attempt
                .until_ended(async { attempt.version().await.map(|_| ()) })
                .await?;
            Ok(attempt.connection.cluster.addresses.iter().take(1).cloned().collect())
        }
    }

    // ---- the end

    /// Waits for the backoff of `code` and makes the transaction ready for another attempt; or
    /// fails with `code` if it is not retryable.
    pub fn on_error(&self, code: ErrorCode) -> impl Future<Output = Result<(), ErrorCode>> + Send + use<> {
        let decided = self.decide_retry(code);
        let transaction = self.clone();
        async move {
            let delay = decided?;
            let attempt = transaction.state().attempt.clone();
            attempt
                .until_ended(async {
                    tokio::time::sleep(delay).await;
                    Ok(())
                })
                .await?;
            let mut state = transaction.state();
            let defaults = transaction.inner.database.inner.defaults.lock().clone();
            let next = Attempt::new(transaction.inner.database.inner.connection.clone());
            state.begin_again(next, &defaults);
            Ok(())
        }
    }

    /// The wait before the next attempt.
    fn decide_retry(&self, code: ErrorCode) -> Result<Duration, ErrorCode> {
        let mut state = self.state();
        if let Some(code) = state.ended() {
            return Err(code);
        }
        if state.phase == Phase::Committing {
            return Err(ErrorCode::USED_DURING_COMMIT);
        }
        let code = match code.0 {
            0 => ErrorCode::CLIENT_INVALID_OPERATION,
            _ => code,
        };
        let may_retry = code.is_retried() && state.options.retry_limit.is_none_or(|limit| state.retries < limit);
        if !may_retry {
            state.cancel();
            return Err(code);
        }
        state.retries += 1;
        let limit = match code.0 {
            1042 | 1078 => BACKOFF_MAX_BUSY,
            _ => state.options.max_retry_delay,
        };
        if matches!(code, ErrorCode::TRANSACTION_TOO_OLD | ErrorCode::FUTURE_VERSION) {
            return Ok(BACKOFF_MIN.min(limit));
        }
        let delay = state.backoff.min(limit).mul_f64(fraction());
        state.backoff = (state.backoff * 2).min(limit);
        Ok(delay)
    }

    /// Resets it to its initial state. Requests in flight fail, except a commit.
    pub fn reset(&self) {
        let defaults = self.inner.database.inner.defaults.lock().clone();
        let attempt = Attempt::new(self.inner.database.inner.connection.clone());
        let mut state = self.state();
        state.end_attempt();
        state.stop_timer();
        let has_timeout = defaults.timeout.is_some();
        *state = State::new(attempt, defaults);
        drop(state);
        if has_timeout {
            self.start_timer();
        }
    }

    /// Fails requests in flight, and new ones before a reset.
    pub fn cancel(&self) {
        self.state().cancel();
    }

    /// Ends the transaction when the time of its options has passed. An earlier limit counts no
    /// longer.
    fn start_timer(&self) {
        let mut state = self.state();
        state.stop_timer();
        let Some(timeout) = state.options.timeout else {
            return;
        };
        let remaining = timeout.saturating_sub(state.began.elapsed());
        if remaining.is_zero() {
            return state.time_out();
        }
        let inner = Arc::downgrade(&self.inner);
        let timer = self.inner.database.inner.runtime.spawn(async move {
            tokio::time::sleep(remaining).await;
            if let Some(inner) = inner.upgrade() {
                inner.state.lock().time_out();
            }
        });
        state.timer = Some(timer.abort_handle());
    }

    // ---- size

    /// Returns about how large the transaction is, in bytes, also when it was cancelled or has
    /// committed.
    pub fn approximate_size(&self) -> impl Future<Output = Result<i64, ErrorCode>> + Send + use<> {
        let state = self.state();
        let size = i64::try_from(state.reported_size()).unwrap_or(i64::MAX);
        std::future::ready(state.failed.map_or(Ok(size), Err))
    }
}

impl State {
    /// Without read-your-writes the original counts neither what is read nor keys that are cleared.
    fn reported_size(&self) -> usize {
        match self.options.read_your_writes_disabled {
            true => self.size.bytes(),
            false => self.size.bytes() + self.attempt.with_read_conflicts(|read| read.reported_bytes()),
        }
    }

    fn new(attempt: Arc<Attempt>, options: Options) -> State {
        State {
            attempt,
            options,
            phase: Phase::Active,
            writes: Arc::default(),
            shown: 0,
            mutations: Mutations::default(),
            write_conflicts: RangeSet::default(),
            own_watches: OwnWatches::default(),
            size: Size::default(),
            failed: None,
            cancelled: false,
            timed_out: false,
            timer: None,
            began: Instant::now(),
            has_begun: false,
            retries: 0,
            backoff: BACKOFF_MIN,
            conflicting: RangeSet::default(),
        }
    }

    /// The reason why no operation is possible.
    fn ended(&self) -> Option<ErrorCode> {
        if self.cancelled {
            return Some(ErrorCode::TRANSACTION_CANCELLED);
        }
        self.timed_out.then_some(ErrorCode::TRANSACTION_TIMED_OUT)
    }

    /// Fails if the transaction has failed or ended, whether it has committed or not.
    fn check_ended(&self) -> Result<(), ErrorCode> {
        self.failed.or(self.ended()).map_or(Ok(()), Err)
    }

    /// Fails if no operation is possible now. An operation during a commit makes the commit's
    /// future fail as well, unless the options say otherwise.
    fn check_operation(&mut self) -> Result<(), ErrorCode> {
        self.failed.map_or(Ok(()), Err)?;
        self.check_phase()?;
        self.ended().map_or(Ok(()), Err)
    }

    /// Fails from the call of a commit until a reset.
    fn check_phase(&mut self) -> Result<(), ErrorCode> {
        if self.phase == Phase::Active {
            return Ok(());
        }
        let code = ErrorCode::USED_DURING_COMMIT;
        if self.phase == Phase::Committing && self.options.used_during_commit_protection {
            self.failed.get_or_insert(code);
            self.attempt.end(code);
        }
        Err(code)
    }

    fn cancel(&mut self) {
        self.cancelled = true;
        self.attempt.end(ErrorCode::TRANSACTION_CANCELLED);
    }

    fn time_out(&mut self) {
        self.timed_out = true;
        self.attempt.end(ErrorCode::TRANSACTION_TIMED_OUT);
    }

    fn end_attempt(&mut self) {
        if !matches!(self.phase, Phase::Committed(_) | Phase::Committing) {
            self.attempt.end(ErrorCode::TRANSACTION_CANCELLED);
        }
    }

    /// After `on_error`: limits, their counts and the last conflict stay.
    fn begin_again(&mut self, attempt: Arc<Attempt>, defaults: &Options) {
        self.end_attempt();
        let before = std::mem::replace(self, State::new(attempt, self.options.after_retry(defaults)));
        self.timer = before.timer;
        self.began = before.began;
        self.retries = before.retries;
        self.backoff = before.backoff;
        self.conflicting = before.conflicting;
    }

    fn stop_timer(&mut self) {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
    }

    fn push(&mut self, kind: MutationKind, key: &[u8], value: &[u8]) {
        let conflicts = !std::mem::take(&mut self.options.next_write_no_write_conflict);
        let mutation = Mutation { kind, key, value };
        if kind != MutationKind::Clear || !self.options.read_your_writes_disabled {
            self.size.add_mutation(&mutation, conflicts);
        }
        self.own_watches.written(&mutation);
        self.mutations.push(kind, key, value);
    }

    /// Returns the writes up to now, as its reads see them. Never called by a transaction that only
    /// writes.
    fn shown_writes(&mut self) -> &mut Arc<Writes> {
        if self.shown < self.mutations.len() {
            let writes = Arc::make_mut(&mut self.writes);
            self.mutations
                .since(self.shown)
                .for_each(|mutation| writes.apply(&mutation));
            self.shown = self.mutations.len();
        }
        &mut self.writes
    }

    fn add_conflict_range(&mut self, begin: &[u8], end: &[u8], kind: ConflictKind) {
        match kind {
            ConflictKind::Write => {
                self.size.add_conflict_range(begin, end);
                self.write_conflicts.add(begin, end);
            }
            ConflictKind::Read if self.options.read_your_writes_disabled => {
                self.size.add_conflict_range(begin, end);
                self.attempt.with_read_conflicts(|conflicts| conflicts.add(begin, end));
            }
            ConflictKind::Read => {
                let parts = self.shown_writes().depended_on(begin, end);
                self.attempt
                    .with_read_conflicts(|conflicts| conflicts.add_parts(begin, end, &parts));
            }
        }
    }

    fn told(&self) -> SpecialKeyInfo {
        SpecialKeyInfo {
            conflicting: self.conflicting.clone(),
            read_conflicts: self.attempt.with_read_conflicts(|read| read.gather().clone()),
            write_conflicts: self.all_write_conflicts(),
            relaxed: self.options.special_keys_relaxed,
        }
    }

    /// Returns the ranges that others must take as written by this transaction.
    fn all_write_conflicts(&self) -> RangeSet {
        let mut all = self.write_conflicts.clone();
        for mutation in self.mutations.since(0) {
            match mutation.kind {
                MutationKind::ClearRange => all.add(mutation.key, mutation.value),
                MutationKind::SetVersionstampedKey => {}
                _ => all.add_key(mutation.key),
            }
        }
        all
    }

    fn check_readable_key(&self, key: &[u8]) -> Result<(), ErrorCode> {
        if key >= self.options.end_of_readable() && key != METADATA_VERSION_KEY {
            return Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE);
        }
        Ok(())
    }

    fn check_selector(&self, selector: &Selector) -> Result<(), ErrorCode> {
        if selector.key.as_slice() > self.options.end_of_readable() {
            return Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE);
        }
        Ok(())
    }

    /// Refuses keys that a plain set may not write. The metadata's version accepts only a
    /// versionstamp, regardless of the options.
    fn check_writable_key(&self, key: &[u8]) -> Result<(), ErrorCode> {
        if key == METADATA_VERSION_KEY {
            return Err(ErrorCode::CLIENT_INVALID_OPERATION);
        }
        self.check_outside(key)?;
        check_key_length(key)
    }

    fn check_outside(&self, key: &[u8]) -> Result<(), ErrorCode> {
        match key >= self.options.end_of_writable() {
            true => Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE),
            false => Ok(()),
        }
    }

    /// Why a computed key cannot be written.
    fn refused_special(&self) -> ErrorCode {
        match self.options.special_keys_writable {
            false => ErrorCode::SPECIAL_KEYS_WRITE_DISABLED,
            true => ErrorCode::SPECIAL_KEYS_NO_WRITE_MODULE,
        }
    }

    /// The first and the last key that a key with a stamp can become.
    fn stamped_bounds(&self, key: &[u8]) -> Result<(Vec<u8>, Vec<u8>), ErrorCode> {
        let (key, offset) = split_stamp(key)?;
        let stamp = offset..offset + STAMP_BYTES;
        let (mut first, mut last) = (key.to_vec(), key.to_vec());
        let after = self.attempt.known_version().map_or(0, |version| version + 1);
        first[stamp.clone()].fill(0);
        first[offset..offset + 8].copy_from_slice(&after.to_be_bytes());
        last[stamp].fill(0xff);
        Ok((first, last))
    }
}

/// Splits a key or value with a versionstamp from the offset that follows it, and checks that the
/// stamp fits.
fn split_stamp(bytes: &[u8]) -> Result<(&[u8], usize), ErrorCode> {
    let start = bytes
        .len()
        .checked_sub(STAMP_OFFSET_BYTES)
        .ok_or(ErrorCode::CLIENT_INVALID_OPERATION)?;
    let (bytes, offset) = bytes.split_at(start);
    let offset = i32::from_le_bytes([offset[0], offset[1], offset[2], offset[3]]);
    match usize::try_from(offset) {
        Ok(offset) if offset + STAMP_BYTES <= bytes.len() => Ok((bytes, offset)),
        _ => Err(ErrorCode::CLIENT_INVALID_OPERATION),
    }
}

fn check_key_length(key: &[u8]) -> Result<(), ErrorCode> {
    if key.len() > key_bytes_max(key) {
        return Err(ErrorCode::KEY_TOO_LARGE);
    }
    Ok(())
}

fn check_value(value: &[u8]) -> Result<(), ErrorCode> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(ErrorCode::VALUE_TOO_LARGE);
    }
    Ok(())
}

/// A bound longer than any key is the same as what is left of it one byte beyond the longest key.
fn cut_bound(bound: &[u8]) -> &[u8] {
    &bound[..bound.len().min(key_bytes_max(bound) + 1)]
}

/// A number from 0 to 1 that differs from call to call, so that conflicting transactions do not
/// collide again.
fn fraction() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::time::Instant::now()) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cluster;

    /// The future of a read is moved a few times before it is pinned, and thousands are in flight
    /// concurrently.
    #[tokio::test]
    async fn the_future_of_a_read_is_small() {
        let database = Database::open(Cluster::parse("a:b@127.0.0.1:1").expect("a cluster"));
        let get = database.begin().get(b"key", false);
        assert!(size_of_val(&get) <= 512, "{} bytes", size_of_val(&get));
    }
}
