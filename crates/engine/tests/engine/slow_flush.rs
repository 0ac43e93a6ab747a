//! What is written while the store takes long to be flushed.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use quartet_engine::{Engine, EngineOptions, Parts, StoreKind};
use quartet_env::{Disk, FaultyDisk, File, ManualClock};
use quartet_log::FileLogOptions;

use crate::world::{ALWAYS, execute, set};

/// A disk on which no file of the tree begins while it is held.
#[derive(Clone, Default)]
struct HeldDisk {
    disk: FaultyDisk,
    held: Arc<(Mutex<bool>, Condvar)>,
}

/// Lets it go when dropped, also by a test that fails: nothing ends while it is held.
struct Hold<'d>(&'d HeldDisk);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        *self.0.held.0.lock().unwrap() = false;
        self.0.held.1.notify_all();
    }
}

impl HeldDisk {
    fn hold(&self) -> Hold<'_> {
        *self.held.0.lock().unwrap() = true;
        Hold(self)
    }

    fn wait(&self, name: &str) {
        if name.starts_with("base-") {
            let held = self.held.0.lock().unwrap();
            drop(self.held.1.wait_while(held, |held| *held).unwrap());
        }
    }
}

impl Disk for HeldDisk {
    fn create(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.wait(name);
        self.disk.create(name)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        self.disk.open(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        self.disk.exists(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.wait(to);
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }

    fn available_bytes(&self) -> io::Result<u64> {
        self.disk.available_bytes()
    }
}

fn open(disk: &HeldDisk) -> Engine {
    let options = EngineOptions {
        store: Some(StoreKind::Ssd),
        cache_bytes: 1 << 20,
        unflushed_log_bytes: 64 << 10,
        ..EngineOptions::default()
    };
    let clock = Arc::new(ManualClock::default());
    let parts = Parts::with_file_log(Arc::new(disk.clone()), clock, FileLogOptions::default());
    let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
    Engine::open_with(parts, options, failure, &mut |_| {}).unwrap()
}

/// Writes stood still once four times as much had gathered as starts a flush. From half of that on they are slower, and go on.
#[test]
fn writes_become_slower_and_go_on() {
    let disk = HeldDisk::default();
    let engine = open(&disk);
    let write = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            let dependency = set(&engine, ALWAYS, &number.to_be_bytes(), &[1; 4000]);
            assert!(engine.wait_durable(dependency));
        }
    };
    let hold = disk.hold();
    // The flush begins with the seventeenth; half of what may gather until it ends has gathered with the fiftieth.
    write(0..50);
    let began = Instant::now();
    write(50..64);
    assert!(began.elapsed() >= Duration::from_millis(100), "nobody was slowed down");
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| write(64..200));
        drop(hold);
        writer.join().unwrap();
    });
    let count = execute(&engine, ALWAYS, |tx| {
        (0..200_u64)
            .filter(|number| tx.get(&number.to_be_bytes()).is_some())
            .count()
    });
    assert_eq!(count.0, 200);
    engine.close().unwrap();
}
