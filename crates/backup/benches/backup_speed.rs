//! How fast a backup is taken of an engine of this process, and restored: no network, no
//! foreground.
//!
//! `cargo bench -p quartet-backup --bench backup_speed -- DIRECTORY GIGABYTES memory|ssd`
//!
//! Rows have 16 bytes of key and 1,000 of value. The directory is empty or not there; it is left
//! with the data, the backup and what was restored.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use quartet_backup::{
    Anchor, Archive, BackupError, BackupOptions, BackupStart, Restore, Session, Source, open_target, restore, take,
};
use quartet_engine::{Durability, Engine, EngineOptions, Space, StoreKind};
use quartet_env::{RealDisk, SystemClock};
use quartet_model::{DatabaseId, LayerId, LogSequence};

const SPACE: Space = Space {
    database: DatabaseId(1),
    layer: LayerId::Redis,
    durability: Durability::Interval,
};
const VALUE_BYTES: u64 = 1000;
const AT_ONCE: u64 = 1000;

struct Beside {
    engine: Arc<Engine>,
    session: Option<Session>,
}

impl Beside {
    fn session(&mut self) -> &mut Session {
        self.session.as_mut().expect("it was begun")
    }
}

impl Source for Beside {
    fn begin(&mut self, anchor: Option<Anchor>, is_full: bool) -> Result<BackupStart, BackupError> {
        let (session, start) = Session::begin(self.engine.clone(), anchor, is_full)?;
        self.session = Some(session);
        Ok(start)
    }

    fn rows(&mut self, after: Option<&[u8]>, bytes_max: usize) -> Result<Vec<u8>, BackupError> {
        self.session().rows(after, bytes_max)
    }

    fn log(&mut self, from: LogSequence, bytes_max: usize) -> Result<Vec<u8>, BackupError> {
        self.session().log(from, bytes_max)
    }

    fn now_micros(&self) -> u64 {
        0
    }
}

/// Values that do not compress, the same each time.
fn value(number: u64) -> Vec<u8> {
    let mut state = number;
    let mut value = Vec::with_capacity(VALUE_BYTES as usize);
    while value.len() < VALUE_BYTES as usize {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        value.extend_from_slice(&state.to_be_bytes());
    }
    value
}

fn fill(engine: &Engine, rows: u64) {
    for first in (0..rows).step_by(AT_ONCE as usize) {
        let executed = engine.partition().execute(SPACE, |tx| -> Result<(), ()> {
            for number in first..(first + AT_ONCE).min(rows) {
                tx.set(format!("{number:016}").as_bytes(), &value(number));
            }
            Ok(())
        });
        let ((), version) = executed.expect("nothing is refused");
        assert!(engine.wait_durable(version), "the log works");
    }
}

/// Prints the total time, and the processor time of this process.
fn timed<T>(name: &str, megabytes: f64, work: impl FnOnce() -> T) -> T {
    let (began, busy) = (Instant::now(), busy_seconds());
    let done = work();
    let took = began.elapsed().as_secs_f64();
    println!(
        "{name}: {:.0} MB/s, {:.1} s of processors in {took:.1} s",
        megabytes / took,
        busy_seconds() - busy
    );
    done
}

fn busy_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    (ticks(11).unwrap_or_default() + ticks(12).unwrap_or_default()) / 100.0
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [directory, gigabytes, kind] = arguments.as_slice() else {
        eprintln!("backup_speed DIRECTORY GIGABYTES memory|ssd");
        std::process::exit(2);
    };
    let directory = PathBuf::from(directory);
    let kind = StoreKind::parse(kind).expect("memory or ssd");
    let megabytes = gigabytes.parse::<f64>().expect("a number") * 1000.0;
    let disk = Arc::new(RealDisk::open(directory.join("data")).expect("a directory"));
    let options = EngineOptions {
        store: Some(kind),
        ..EngineOptions::default()
    };
    let ended = Box::new(|error: &_| panic!("the log failed: {error}"));
    let engine = Engine::open(disk, Arc::new(SystemClock), options, ended, &mut |_| {});
    let engine = Arc::new(engine.expect("an empty directory"));
    timed("fill", megabytes, || {
        fill(&engine, (megabytes * 1e6) as u64 / VALUE_BYTES)
    });
    let target = open_target(&directory.join("backup").to_string_lossy(), true).expect("a folder");
    let mut source = Beside { engine, session: None };
    let summary = timed("backup", megabytes, || {
        take(
            target.as_ref(),
            &mut source,
            &BackupOptions::default(),
            &mut |_| {},
            &mut |_| true,
        )
    });
    summary.expect("a backup");
    drop(source);
    timed("restore", megabytes, || {
        let archive = Archive::read(target.as_ref()).expect("a backup");
        let chain = archive.chain_at(None).expect("a chain");
        chain.verify(target.as_ref(), &mut |_| {}).expect("a whole backup");
        let disk = Arc::new(RealDisk::open(directory.join("restored")).expect("a directory"));
        let request = Restore {
            at: None,
            engine: kind,
            database: None,
        };
        restore(target.as_ref(), &chain, disk, request, &mut |_| {}).expect("all rows");
    });
}
