//! The engine's response to a log's answers: how far it is durable, and that another writer has
//! appended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use quartet_engine::{Engine, EngineOptions, ExecuteError, Parts, RunError};
use quartet_env::{Disk, FaultyDisk, ManualClock};
use quartet_log::{
    FileLogOpener, FileLogOptions, Log, LogError, LogOpener, LogPart, LogRoom, LogSource, Replay, ReplayProgress,
};
use quartet_model::LogSequence;

use crate::world::{ALWAYS, execute, set};

/// A file log that a test can get at while an engine writes to it.
#[derive(Clone, Default)]
struct Watched {
    log: Arc<Mutex<Option<Box<dyn Log>>>>,
    /// A sync leaves out the newest record, as does a log that is durable on too few disks.
    lags: Arc<AtomicBool>,
    /// The last answer of `sync`.
    synced: Arc<AtomicU64>,
}

impl Watched {
    fn with<T>(&self, use_log: impl FnOnce(&mut dyn Log) -> T) -> T {
        use_log(self.log.lock().as_deref_mut().expect("the log is open"))
    }

    fn open(&self, disk: &FaultyDisk, failure: impl Fn(&LogError) + Send + 'static) -> Engine {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let file_log = FileLogOpener {
            disk: disk.clone(),
            options: FileLogOptions::default(),
        };
        let parts = Parts {
            log: Box::new(Opener(self.clone(), Box::new(file_log))),
            ..Parts::on_one_machine(disk, Arc::new(ManualClock::new(1)))
        };
        Engine::open_with(parts, EngineOptions::default(), Box::new(failure), &mut |_| {}).unwrap()
    }
}

struct Opener(Watched, Box<FileLogOpener>);

impl LogOpener for Opener {
    fn open(
        self: Box<Self>,
        replay_from: LogSequence,
        replay: &mut Replay<'_>,
        progress: &mut dyn FnMut(ReplayProgress),
    ) -> Result<Box<dyn Log>, LogError> {
        let Opener(watched, file_log) = *self;
        *watched.log.lock() = Some(file_log.open(replay_from, replay, progress)?);
        Ok(Box::new(watched))
    }
}

impl Log for Watched {
    fn tail(&self) -> LogSequence {
        self.with(|log| log.tail())
    }

    fn append(&mut self, expected_tail: LogSequence, payload: &[&[u8]]) -> Result<LogSequence, LogError> {
        self.with(|log| log.append(expected_tail, payload))
    }

    fn sync(&mut self) -> Result<LogSequence, LogError> {
        let mut durable = self.with(|log| log.sync())?;
        if self.lags.load(Ordering::SeqCst) {
            durable = LogSequence(durable.0 - 1);
        }
        self.synced.store(durable.0, Ordering::SeqCst);
        Ok(durable)
    }

    fn mark_durable(&mut self) -> Result<(), LogError> {
        self.with(|log| log.mark_durable())
    }

    fn close(&mut self) -> Result<(), LogError> {
        self.with(|log| log.close())
    }

    fn trim_below(&mut self, sequence: LogSequence) -> Result<(), LogError> {
        self.with(|log| log.trim_below(sequence))
    }

    fn bytes(&self) -> u64 {
        self.with(|log| log.bytes())
    }

    fn parts(&self) -> Vec<LogPart> {
        self.with(|log| log.parts())
    }

    fn source(&self) -> Arc<dyn LogSource> {
        self.with(|log| log.source())
    }

    fn room(&self) -> Arc<dyn LogRoom> {
        self.with(|log| log.room())
    }
}

/// Everything appended counted as durable after a sync, regardless of the log's answer.
#[test]
fn no_more_is_acknowledged_than_the_log_says_is_durable() {
    let watched = Watched::default();
    let engine = watched.open(&FaultyDisk::new(), |error| panic!("the log failed: {error}"));
    let first = set(&engine, ALWAYS, b"a", b"1");
    assert!(engine.wait_durable(first));
    watched.lags.store(true, Ordering::SeqCst);
    let second = set(&engine, ALWAYS, b"b", b"2");
    while watched.tail() < LogSequence(2) {
        assert!(!engine.make_durable(second));
    }
    assert_eq!(watched.synced.load(Ordering::SeqCst), 1);
    assert!(!engine.is_durable(second));
    let third = set(&engine, ALWAYS, b"c", b"3");
    // The newest record is left out, and the one before it is included.
    assert!(engine.wait_durable(second));
    assert!(!engine.is_durable(third));
    watched.lags.store(false, Ordering::SeqCst);
    assert!(engine.wait_durable(third));
    engine.close().unwrap();
}

/// The flusher passed the log's own tail as its expected tail, so it appended after another
/// writer's records.
#[test]
fn a_home_acknowledges_nothing_after_another_writer_appended() {
    let disk = FaultyDisk::new();
    let (watched, reason_slot) = (Watched::default(), Arc::new(Mutex::new(None)));
    let tells = reason_slot.clone();
    let engine = watched.open(&disk, move |error| *tells.lock() = Some(error.to_string()));
    let before = set(&engine, ALWAYS, b"before", b"1");
    assert!(engine.wait_durable(before));
    watched.with(|log| {
        let tail = log.tail();
        log.append(tail, &[]).unwrap();
    });
    let after = set(&engine, ALWAYS, b"after", b"2");
    assert!(!engine.wait_durable(after));
    assert!(!engine.make_durable(after));
    assert_eq!(engine.durable(), before);
    let reason = loop {
        match reason_slot.lock().take() {
            Some(reason) => break reason,
            None => std::thread::yield_now(),
        }
    };
    assert_eq!(reason, "the log's tail is 2, not 1: another node is its home");
    let mut partition = engine.partition();
    let refused = partition.execute(ALWAYS, |tx| -> Result<(), ()> {
        tx.set(b"never", b"3");
        Ok(())
    });
    assert!(matches!(refused, Err(ExecuteError::NotHome)));
    drop(partition);
    let run = engine.run(ALWAYS, 1, |tx| -> Result<_, ()> { Ok(tx.get(b"before")) });
    assert_eq!(run, Err(RunError::NotHome));
    // Commits that were never confirmed are undone, also for readers without a transaction.
    let reader = engine.reader(ALWAYS).unwrap();
    assert_eq!(reader.version, before);
    assert!(reader.get(b"before").is_some() && reader.get(b"after").is_none());
    assert!(engine.close().is_err());
    drop(watched);
    // Opening the log finds everything acknowledged, and nothing else.
    let engine = Watched::default().open(&disk, |error| panic!("the log failed: {error}"));
    let read = |key: &[u8]| execute(&engine, ALWAYS, |tx| tx.get(key).is_some()).0;
    assert!(read(b"before") && !read(b"after"));
}

#[test]
fn a_reader_gets_only_durable_records_and_is_notified_of_more() {
    let watched = Watched::default();
    let engine = watched.open(&FaultyDisk::new(), |error| panic!("the log failed: {error}"));
    let first = set(&engine, ALWAYS, b"a", b"1");
    assert!(engine.wait_durable(first));
    watched.lags.store(true, Ordering::SeqCst);
    let second = set(&engine, ALWAYS, b"b", b"2");
    while watched.tail() < LogSequence(2) {
        assert!(!engine.make_durable(second));
    }
    let mut reader = engine.read_log(LogSequence(1)).unwrap();
    let is_notified = Arc::new(AtomicBool::new(false));
    let tells = is_notified.clone();
    reader.on_more(Arc::new(move || tells.store(true, Ordering::SeqCst)));
    assert_eq!(
        reader.next().unwrap().map(|record| record.sequence),
        Some(LogSequence(1))
    );
    assert_eq!(reader.next().unwrap(), None);
    assert!(!is_notified.load(Ordering::SeqCst));
    watched.lags.store(false, Ordering::SeqCst);
    assert!(engine.wait_durable(second));
    assert!(is_notified.load(Ordering::SeqCst));
    assert_eq!(
        reader.next().unwrap().map(|record| record.sequence),
        Some(LogSequence(2))
    );
    engine.close().unwrap();
}
