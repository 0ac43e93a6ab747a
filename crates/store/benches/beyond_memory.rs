//! The ssd engine's store in isolation, with more data than memory: random reads, and nine reads
//! per write.
//!
//! `cargo bench -p quartet-store --bench beyond_memory -- DIRECTORY GIGABYTES
//! CACHE_MEBIBYTES SECONDS BUFFER_MEBIBYTES`
//!
//! An empty directory is filled; with no seconds that is all. Keys have 16 bytes, values 8 to 100.
//! `benchmarks/storage.py` runs it beside `benchmarks/rocksdb.c`, which does the same with RocksDB,
//! each in a process that is limited to the same memory. Neither writes a log of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quartet_env::RealDisk;
use quartet_model::{LogSequence, Version};
use quartet_store::{
    Flush, PartitionFlushed, PartitionStore, Position, Read, Row, Store, StoreError, StoreKind, StoreOptions,
};

/// Size of a row: its key and 54 bytes of value on average.
const ROW_BYTES: u64 = 16 + 54;
const READS_IN_TEN: [(&str, u64); 2] = [("reads", 10), ("90/10", 9)];

/// Numbers in an order of their own, the same each time (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Ascending, and as far apart as they can be, so that an empty directory is filled in order.
fn key(number: u64, rows: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&(number * (u64::MAX / rows)).to_be_bytes());
    key[8..].copy_from_slice(&Numbers(number).next().to_be_bytes());
    key
}

struct Bench {
    rows: u64,
    store: PartitionStore,
    /// A flush in the background.
    flushing: Option<JoinHandle<Result<PartitionFlushed, StoreError>>>,
    /// Number of finished flushes.
    flushes: u64,
    unflushed_bytes: u64,
    /// Bytes that gather in memory before a flush.
    buffer_bytes: u64,
    version: u64,
    numbers: Numbers,
    value: Vec<u8>,
}

impl Bench {
    fn put(&mut self, number: u64) {
        let bytes = 8 + (self.numbers.next() % 93) as usize;
        self.version += 1;
        let row = Row::new(&key(number, self.rows), &self.value[..bytes], Version(self.version));
        let row_bytes = row.stored_bytes();
        drop(self.store.set(row).expect("the disk can be read"));
        self.unflushed_bytes += row_bytes;
        let is_over = self.flushing.as_ref().is_some_and(JoinHandle::is_finished);
        // Writes wait when as much again has gathered.
        if is_over || self.unflushed_bytes >= self.buffer_bytes {
            self.end_flush();
        }
        if self.unflushed_bytes >= self.buffer_bytes && self.flushing.is_none() {
            self.begin_flush();
        }
    }

    fn begin_flush(&mut self) {
        self.unflushed_bytes = 0;
        let position = Position {
            version: Version(self.version),
            sequence: LogSequence(self.version),
        };
        let flush = self.store.begin_flush();
        self.flushing = Some(std::thread::spawn(move || flush.run(position)));
    }

    fn end_flush(&mut self) {
        if let Some(flushing) = self.flushing.take() {
            let flushed = flushing.join().expect("a flush does not panic");
            let flushed = flushed.expect("the disk can be written");
            drop(self.store.end_flush(Some(flushed)));
            self.flushes += 1;
        }
    }

    /// Operations done in that time.
    fn run(&mut self, reads_in_ten: u64, seconds: Duration) -> f64 {
        let (began, mut done) = (Instant::now(), 0_u64);
        while began.elapsed() < seconds {
            for _ in 0..100 {
                let number = self.numbers.next() % self.rows;
                if self.numbers.next() % 10 < reads_in_ten {
                    let row = self.store.get(&key(number, self.rows)).expect("the disk can be read");
                    assert!(row.is_some(), "every key is there");
                } else {
                    self.put(number);
                }
            }
            done += 100;
        }
        done as f64 / began.elapsed().as_secs_f64()
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [directory, gigabytes, cache_mebibytes, seconds, buffer_mebibytes] = arguments.as_slice() else {
        eprintln!("beyond_memory DIRECTORY GIGABYTES CACHE_MEBIBYTES SECONDS BUFFER_MEBIBYTES");
        std::process::exit(2);
    };
    let number = |text: &String| text.parse::<f64>().expect("a number");
    let disk = Arc::new(RealDisk::open(PathBuf::from(directory)).expect("a directory"));
    let options = StoreOptions {
        kind: Some(StoreKind::Ssd),
        cache_bytes: number(cache_mebibytes) as u64 * (1 << 20),
        ..StoreOptions::default()
    };
    let opened = PartitionStore::open(disk, &options, &mut |_| {}).expect("an empty directory, or one filled before");
    let rows = (number(gigabytes) * 1e9) as u64 / ROW_BYTES;
    let mut bench = Bench {
        rows,
        version: opened.store.applied().version.0,
        store: opened.store,
        flushing: None,
        flushes: 0,
        unflushed_bytes: 0,
        buffer_bytes: number(buffer_mebibytes) as u64 * (1 << 20),
        numbers: Numbers(1),
        value: vec![b'v'; 128],
    };
    if bench.store.len() < rows {
        let began = Instant::now();
        (0..rows).for_each(|number| bench.put(number));
        bench.end_flush();
        bench.begin_flush();
        bench.end_flush();
        println!("fill {:.0}", rows as f64 / began.elapsed().as_secs_f64());
    }
    let seconds = Duration::from_secs_f64(number(seconds));
    for (name, reads_in_ten) in READS_IN_TEN.into_iter().filter(|_| !seconds.is_zero()) {
        let flushes_before = bench.flushes;
        println!("{name} {:.0}", bench.run(reads_in_ten, seconds));
        println!("{name}, flushes {}", bench.flushes - flushes_before);
    }
    bench.end_flush();
}
