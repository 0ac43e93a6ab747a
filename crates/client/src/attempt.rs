//! What a reset ends: the version a transaction reads at, what it has read, and how its commit came out.
//!
//! Reads under way hold the attempt that they began in. So a reset need not wait for them: it ends the attempt, which fails
//! them, and the transaction goes on with a new one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use quartet_wire_keyvalue::ErrorCode;
use tokio::sync::{Notify, OnceCell, watch};

use crate::conflicts::RangeSet;
use crate::connection::{Connection, OpenVersion, VersionReply};

/// How long a version that does not exist yet is waited for, and how often it is asked for.
const FUTURE_VERSION_TIMEOUT: Duration = Duration::from_secs(1);
const FUTURE_VERSION_RETRY: Duration = Duration::from_millis(50);

pub(crate) struct Attempt {
    pub connection: Arc<Connection>,
    /// The version that was asked for, if one was.
    given_version: OnceLock<u64>,
    version: OnceCell<Arc<OpenVersion>>,
    pub read_conflicts: Mutex<RangeSet>,
    /// Stored values that were read, so that reading them again needs no server.
    pub values: Mutex<HashMap<Vec<u8>, Option<Vec<u8>>>>,
    reads_under_way: AtomicUsize,
    /// Why the first read that failed did; a commit fails for the same reason.
    read_failed: Mutex<Option<ErrorCode>>,
    read_ended: Notify,
    /// Why everything that is under way fails.
    ended: watch::Sender<Option<ErrorCode>>,
    outcome: watch::Sender<Option<Outcome>>,
}

/// How a commit came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// At this version; `None`: nothing was written.
    Committed(Option<u64>),
    Failed(ErrorCode),
}

/// A read under way, which a commit waits for.
struct ReadUnderWay(Arc<Attempt>);

impl Drop for ReadUnderWay {
    fn drop(&mut self) {
        if self.0.reads_under_way.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.read_ended.notify_waiters();
        }
    }
}

impl Attempt {
    pub fn new(connection: Arc<Connection>) -> Arc<Attempt> {
        Arc::new(Attempt {
            connection,
            given_version: OnceLock::new(),
            version: OnceCell::new(),
            read_conflicts: Mutex::default(),
            values: Mutex::default(),
            reads_under_way: AtomicUsize::new(0),
            read_failed: Mutex::default(),
            read_ended: Notify::new(),
            ended: watch::Sender::new(None),
            outcome: watch::Sender::new(None),
        })
    }

    /// The version this attempt reads at, asked for by whoever needs it first.
    pub async fn version(&self) -> Result<&Arc<OpenVersion>, ErrorCode> {
        let open = || async {
            match self.given_version.get() {
                // It is rare, and would make the future of each read larger.
                Some(version) => Box::pin(self.open(*version)).await,
                None => self
                    .connection
                    .read_version()
                    .await
                    .unwrap_or(Err(ErrorCode::BROKEN_PROMISE)),
            }
        };
        self.version.get_or_try_init(open).await
    }

    /// A version that does not exist yet is waited for.
    async fn open(&self, version: u64) -> VersionReply {
        let until = tokio::time::Instant::now() + FUTURE_VERSION_TIMEOUT;
        self.connection.is_up().await;
        loop {
            let opened = self.connection.open_version(version).await;
            let opened = opened.unwrap_or(Err(ErrorCode::BROKEN_PROMISE));
            let is_early = matches!(&opened, Err(ErrorCode::FUTURE_VERSION));
            if !is_early || tokio::time::Instant::now() >= until {
                return opened;
            }
            tokio::time::sleep(FUTURE_VERSION_RETRY).await;
        }
    }

    /// The version by which a commit is judged, and that the user sees: the one given, or the one that was got.
    pub async fn told_version(&self) -> Result<u64, ErrorCode> {
        match self.given_version.get() {
            Some(version) => Ok(*version),
            None => Ok(self.version().await?.version),
        }
    }

    /// The version, if it is known already.
    pub fn known_version(&self) -> Option<u64> {
        let got = self.version.get().map(|version| version.version);
        self.given_version.get().copied().or(got)
    }

    /// Fails if there is a version already, or somebody asked for one.
    pub fn give_version(&self, version: u64) -> Result<(), ErrorCode> {
        if self.version.initialized() {
            return Err(ErrorCode::READ_VERSION_ALREADY_SET);
        }
        self.given_version
            .set(version)
            .map_err(|_| ErrorCode::READ_VERSION_ALREADY_SET)
    }

    fn begin_read(self: &Arc<Attempt>) -> ReadUnderWay {
        self.reads_under_way.fetch_add(1, Ordering::SeqCst);
        ReadUnderWay(self.clone())
    }

    /// Completes when no read is under way; with the error of the first that failed.
    pub async fn reads_ended(&self) -> Result<(), ErrorCode> {
        loop {
            let ended = self.read_ended.notified();
            if self.reads_under_way.load(Ordering::SeqCst) == 0 {
                return self.read_failed.lock().map_or(Ok(()), Err);
            }
            ended.await;
        }
    }

    /// The outcome of a read, unless the attempt ends before.
    pub async fn read<T>(
        self: &Arc<Attempt>,
        read: impl Future<Output = Result<T, ErrorCode>>,
    ) -> Result<T, ErrorCode> {
        let _under_way = self.begin_read();
        let outcome = self.until_ended(read).await;
        if let Err(code) = &outcome {
            self.read_failed.lock().get_or_insert(*code);
        }
        outcome
    }

    /// Fails everything that is under way, and what begins later.
    pub fn end(&self, code: ErrorCode) {
        self.ended.send_if_modified(|ended| {
            let is_first = ended.is_none();
            ended.get_or_insert(code);
            is_first
        });
    }

    pub fn has_ended(&self) -> Option<ErrorCode> {
        *self.ended.borrow()
    }

    /// The outcome of `work`, unless the attempt ends before.
    pub async fn until_ended<T>(&self, work: impl Future<Output = Result<T, ErrorCode>>) -> Result<T, ErrorCode> {
        let mut ended = self.ended.subscribe();
        tokio::select! {
            biased;
            done = work => done,
            code = ended.wait_for(Option::is_some) => Err(code.ok().and_then(|code| *code).unwrap_or(ErrorCode::TRANSACTION_CANCELLED)),
        }
    }

    pub fn came_out(&self, outcome: Outcome) {
        self.outcome.send_replace(Some(outcome));
    }

    /// How the commit came out; an error if the attempt ended without one.
    pub async fn outcome(&self) -> Result<Outcome, ErrorCode> {
        let mut outcome = self.outcome.subscribe();
        let waiting = async {
            let outcome = outcome.wait_for(Option::is_some).await;
            outcome
                .ok()
                .and_then(|outcome| *outcome)
                .ok_or(ErrorCode::TRANSACTION_CANCELLED)
        };
        self.until_ended(waiting).await
    }
}
