//! Databases that go from one partition to another while clients use them.
//!
//! ```text
//!   copying    rows of a snapshot, then what was changed since        clients go on at the source
//!   holding    new requests wait, running ones end; the source is
//!              fenced, the last changes are copied, the catalogue
//!              says so                                                clients wait
//!   clearing   what the source had                                    clients go on at the target
//! ```
//!
//! Each has a thread. `quartet_tenancy::moves` says which step is durable where, and what a start
//! finds after a crash; here is what clients notice. Holding is short: requests that do not end
//! soon make it end instead, and it is tried again later.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quartet_engine::{CopyFigures, DatabaseCopy, DatabaseCopyError, Engine, PartitionId};
use quartet_model::{DatabaseId, Version};
use quartet_tenancy::{CatalogueError, Database, Move};
use serde_json::{Value, json};

use crate::tenants::Tenants;

/// The first hold of clients for running requests; twice as long each time.
const HOLD_FIRST: Duration = Duration::from_millis(50);
const HOLD_LONGEST: Duration = Duration::from_secs(2);
/// Interval of checks for the end of these requests.
const LOOK: Duration = Duration::from_micros(200);
/// Time for which clients continue between two attempts, for each failed attempt.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(200);
/// After this number of attempts the move is given up.
const ATTEMPTS_MAX: u32 = 20;
/// Time limit of copying a held database's changes.
const FOLLOW_LONGEST: Duration = Duration::from_secs(2);
/// Interval between attempts to end a move in a busy partition.
const END_RETRY: Duration = Duration::from_millis(50);

/// The moves since the server's start: the last of each database.
#[derive(Default)]
pub struct Moves {
    all: Mutex<HashMap<DatabaseId, Arc<Progress>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    is_stopping: AtomicBool,
    pub figures: MoveFigures,
}

/// Counters for metrics.
#[derive(Default)]
pub struct MoveFigures {
    pub moved: AtomicU64,
    pub failed: AtomicU64,
    /// The time for which clients were held, in all and the longest.
    pub held_micros: AtomicU64,
    pub longest_micros: AtomicU64,
}

/// The steps of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Copying,
    Holding,
    Clearing,
    Moved,
    Failed,
}

const PHASES: [Phase; 5] = [
    Phase::Copying,
    Phase::Holding,
    Phase::Clearing,
    Phase::Moved,
    Phase::Failed,
];

/// The state of one, for an operator.
struct Progress {
    moving: Move,
    phase: AtomicU8,
    copied: Arc<CopyFigures>,
    /// Rows of the database at the start.
    rows: u64,
    attempts: AtomicU64,
    /// Time for which clients were held before they continued at the target.
    held_micros: AtomicU64,
    is_cancelled: AtomicBool,
    error: Mutex<Option<String>>,
}

/// Why a database stays where it is.
#[derive(Debug, thiserror::Error)]
enum Stays {
    #[error(transparent)]
    Copy(#[from] DatabaseCopyError),
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    #[error("the move was cancelled")]
    Cancelled,
    #[error("requests of the database take too long for it to be held")]
    NeverQuiet,
    #[error("source and target did not hold the same number of rows")]
    Differs,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Copying => "copying",
            Phase::Holding => "holding",
            Phase::Clearing => "clearing",
            Phase::Moved => "moved",
            Phase::Failed => "failed",
        }
    }
}

impl Progress {
    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    fn phase(&self) -> Phase {
        PHASES[usize::from(self.phase.load(Ordering::SeqCst))]
    }

    fn describe(&self, name: &str) -> Value {
        let number = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        json!({
            "database": name,
            "from": self.moving.from,
            "to": self.moving.to,
            "phase": self.phase().name(),
            "rows": self.rows,
            "rows_copied": number(&self.copied.rows),
            "bytes_copied": number(&self.copied.bytes),
            "transactions_followed": number(&self.copied.transactions),
            "times_held": number(&self.attempts),
            "held_micros": number(&self.held_micros),
            "error": *self.error.lock(),
        })
    }
}

impl Moves {
    /// Ends the threads. The next start clears the copy of a database that has not arrived.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.join().is_err() {
                tracing::error!("the thread of a move panicked");
            }
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    fn count(&self) -> usize {
        let all = self.all.lock();
        let is_under_way = |progress: &&Arc<Progress>| !matches!(progress.phase(), Phase::Moved | Phase::Failed);
        all.values().filter(is_under_way).count()
    }

    fn held(&self, duration: Duration) {
        let micros = duration.as_micros() as u64;
        self.figures.held_micros.fetch_add(micros, Ordering::Relaxed);
        self.figures.longest_micros.fetch_max(micros, Ordering::Relaxed);
    }
}

impl Tenants {
    /// Starts to move a database. Returns at once; false: it is already there.
    pub fn begin_move(&self, name: &str, to: PartitionId) -> Result<bool, CatalogueError> {
        let Some(tenants) = self.itself.upgrade().filter(|_| !self.moves.is_stopping()) else {
            return Err(CatalogueError::LogFailed);
        };
        let Some((database, moving)) = self.catalogue.begin_move(name, to)? else {
            return Ok(false);
        };
        let source = self.parts.partitions.engine(PartitionId(moving.from));
        let rows = source.rows_of(database.id).unwrap_or_default().iter().sum();
        let progress = Arc::new(Progress {
            moving,
            phase: AtomicU8::new(Phase::Copying as u8),
            copied: Arc::default(),
            rows,
            attempts: AtomicU64::new(0),
            held_micros: AtomicU64::new(0),
            is_cancelled: AtomicBool::new(false),
            error: Mutex::default(),
        });
        self.moves.all.lock().insert(database.id, progress.clone());
        let (moved, moving_progress) = (database.clone(), progress.clone());
        let thread = std::thread::Builder::new().name("quartet-move".into());
        let spawned = thread.spawn(move || tenants.go(&moved, &moving_progress));
        match spawned {
            Ok(thread) => {
                let mut threads = self.moves.threads.lock();
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
                Ok(true)
            }
            Err(error) => {
                tracing::error!(%error, "no thread can be started for a move");
                self.stays(&database, &progress, &Stays::Cancelled);
                Ok(true)
            }
        }
    }

    /// Cancels a move before the database is at the target.
    pub fn cancel_move(&self, name: &str) -> Result<(), CatalogueError> {
        let database = self.catalogue.named(name).ok_or(CatalogueError::Unknown)?;
        let progress = self.moves.all.lock().get(&database.id).cloned();
        let progress = progress.filter(|_| self.catalogue.is_moving(database.id));
        let progress = progress.ok_or(CatalogueError::NotMoving)?;
        progress.is_cancelled.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// The moves since the start, of each database the last.
    pub fn describe_moves(&self) -> Vec<Value> {
        let all = self.moves.all.lock();
        let named = all.iter().filter_map(|(id, progress)| {
            let database = self.catalogue.numbered(*id)?;
            Some(progress.describe(&database.definition().name))
        });
        named.collect()
    }

    /// The number of moves in progress.
    pub fn moves_under_way(&self) -> usize {
        self.moves.count()
    }

    /// Bytes of rows that the moves under way have copied.
    pub fn bytes_copied_by_moves(&self) -> u64 {
        let all = self.moves.all.lock();
        all.values()
            .map(|progress| progress.copied.bytes.load(Ordering::Relaxed))
            .sum()
    }

    fn go(&self, database: &Arc<Database>, progress: &Progress) {
        let name = database.definition().name.clone();
        let Move { from, to } = progress.moving;
        tracing::info!(database = name, from, to, "moving a database");
        match self.move_over(database, progress) {
            Ok(duration) => {
                progress
                    .held_micros
                    .store(duration.as_micros() as u64, Ordering::Relaxed);
                progress.enter(Phase::Clearing);
                self.moves.held(duration);
                self.end_move(database, progress);
                self.moves.figures.moved.fetch_add(1, Ordering::Relaxed);
                progress.enter(Phase::Moved);
                tracing::info!(
                    database = name,
                    from,
                    to,
                    held_micros = duration.as_micros() as u64,
                    "moved a database"
                );
            }
            // Whether it has arrived is not known: the process or the term ends, and who is home
            // next knows.
            Err(Stays::Catalogue(CatalogueError::LogFailed)) => {}
            Err(error) => self.stays(database, progress, &error),
        }
    }

    fn stays(&self, database: &Database, progress: &Progress, error: &Stays) {
        tracing::warn!(database = database.definition().name, %error, "a database was not moved");
        self.moves.figures.failed.fetch_add(1, Ordering::Relaxed);
        *progress.error.lock() = Some(error.to_string());
        self.end_move(database, progress);
        progress.enter(Phase::Failed);
    }

    /// Clears what is left in one of the partitions. The next start does if this one does not.
    fn end_move(&self, database: &Database, progress: &Progress) {
        while !self.moves.is_stopping() {
            match self.catalogue.end_move(database, progress.moving) {
                Ok(()) => return,
                Err(CatalogueError::Busy(_) | CatalogueError::DiskFull) => std::thread::sleep(END_RETRY),
                Err(error) => {
                    tracing::error!(%error, "ending a move");
                    return;
                }
            }
        }
    }

    /// Returns for how long clients were held.
    fn move_over(&self, database: &Arc<Database>, progress: &Progress) -> Result<Duration, Stays> {
        let engine = |number| self.parts.partitions.engine(PartitionId(number)).clone();
        let (source, target) = (engine(progress.moving.from), engine(progress.moving.to));
        // A partition from another time may have something of it.
        target.clear_database(database.id)?;
        let mut copy = DatabaseCopy::begin(&source, target.clone(), database.id, progress.copied.clone())?;
        while copy.copy_some()? {
            self.look_whether_to_go_on(database, progress)?;
        }
        let mut patience = HOLD_FIRST;
        for attempt in 1..=ATTEMPTS_MAX {
            // The first part is copied while clients continue, so that little remains for their
            // wait.
            while copy.follow_some()? {
                self.look_whether_to_go_on(database, progress)?;
            }
            copy.settle()?;
            self.look_whether_to_go_on(database, progress)?;
            progress.attempts.fetch_add(1, Ordering::Relaxed);
            progress.enter(Phase::Holding);
            if let Some(duration) = self.switch(database, progress, &mut copy, &source, &target, patience)? {
                return Ok(duration);
            }
            progress.enter(Phase::Copying);
            patience = (2 * patience).min(HOLD_LONGEST);
            let next = Instant::now() + BETWEEN_ATTEMPTS * attempt;
            while Instant::now() < next {
                self.look_whether_to_go_on(database, progress)?;
                if !copy.follow_some()? {
                    std::thread::sleep(LOOK);
                }
            }
        }
        Err(Stays::NeverQuiet)
    }

    fn look_whether_to_go_on(&self, database: &Database, progress: &Progress) -> Result<(), Stays> {
        let ends = self.moves.is_stopping() || database.is_closed() || progress.is_cancelled.load(Ordering::SeqCst);
        if ends { Err(Stays::Cancelled) } else { Ok(()) }
    }

    /// Holds the database, copies the rest, and lets its clients continue at the target. `None`:
    /// the hold failed, and its clients continue at the source.
    fn switch(
        &self,
        database: &Arc<Database>,
        progress: &Progress,
        copy: &mut DatabaseCopy,
        source: &Arc<Engine>,
        target: &Arc<Engine>,
        patience: Duration,
    ) -> Result<Option<Duration>, Stays> {
        let started = Instant::now();
        database.hold();
        let open = self.open.lock().get(&database.id).cloned();
        let layers = || open.iter().flat_map(|open| open.layers());
        layers().for_each(|layer| layer.hold(true));
        let let_go = || {
            layers().for_each(|layer| layer.hold(false));
            database.release();
            self.moves.held(started.elapsed());
        };
        let is_quiet = || open.as_ref().is_none_or(|open| open.in_use.load(Ordering::SeqCst) == 0);
        while !is_quiet() && started.elapsed() < patience {
            std::thread::sleep(LOOK);
        }
        if !is_quiet() {
            let_go();
            return Ok(None);
        }
        // They may have something to write down.
        layers().for_each(|layer| layer.save());
        let source_version = match source.fence(database.id) {
            Ok(source_version) => source_version,
            Err(error) => {
                let_go();
                return match error {
                    DatabaseCopyError::Busy(_) => Ok(None),
                    error => Err(error.into()),
                };
            }
        };
        match self.arrive(database, progress, copy, source, target, source_version) {
            Ok(()) => {}
            // The database may be at the target, and the source remains fenced: the process ends,
            // or a deposed home drops its layers, which waiting clients must not delay.
            Err(error @ Stays::Catalogue(CatalogueError::LogFailed)) => {
                let_go();
                return Err(error);
            }
            Err(error) => {
                source.unfence(database.id);
                let_go();
                return Err(error);
            }
        }
        target.unfence(database.id);
        if let Some(open) = &open {
            open.is_left.store(true, Ordering::SeqCst);
            self.left.lock().push(open.clone());
        }
        self.open.lock().remove(&database.id);
        database.release();
        let duration = started.elapsed();
        layers().for_each(|layer| layer.leave());
        source.tell_watchers(database.id);
        Ok(Some(duration))
    }

    /// Nothing of the database commits at the source.
    fn arrive(
        &self,
        database: &Database,
        progress: &Progress,
        copy: &mut DatabaseCopy,
        source: &Engine,
        target: &Engine,
        source_version: Version,
    ) -> Result<(), Stays> {
        if !source.wait_settled(source_version, copy.arrival()) {
            return Err(CatalogueError::LogFailed.into());
        }
        let started = Instant::now();
        while copy.seen() < source_version {
            self.look_whether_to_go_on(database, progress)?;
            if !copy.follow_some()? && started.elapsed() > FOLLOW_LONGEST {
                return Err(Stays::NeverQuiet);
            }
        }
        if source.rows_of(database.id)? != target.rows_of(database.id)? {
            return Err(Stays::Differs);
        }
        self.catalogue.arrive(database, progress.moving, source_version)?;
        Ok(())
    }
}
