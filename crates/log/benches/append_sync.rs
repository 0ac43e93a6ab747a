//! The cost of one durable append: `cargo bench -p quartet-log --bench append_sync --
//! DIRECTORY`.
//!
//! Compares the log with the simplest equally safe alternative, a file that grows by each record,
//! and with a file that only reserves its space. All write records of 544 bytes (a payload of 512)
//! and sync after each.

use quartet_env::{Disk, File, RealDisk};
use quartet_log::{FileLog, FileLogOptions, Log};
use quartet_model::LogSequence;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const APPENDS: u64 = 10_000;
const RECORD_BYTES: usize = 544;

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(
        std::env::args()
            .skip(1)
            .find(|word| word != "--bench")
            .ok_or("usage: append_sync DIRECTORY")?,
    )
    .join("append_sync");
    for round in 1..=3 {
        let disk = RealDisk::open(&root)?;
        println!("round {round}");
        report("growing file", &mut plain_file(&disk, 0)?);
        report("reserved file", &mut plain_file(&disk, 64 * 1024 * 1024)?);
        report("log", &mut log(disk)?);
        std::fs::remove_dir_all(&root)?;
    }
    Ok(())
}

fn plain_file(disk: &dyn Disk, reserve_bytes: u64) -> Result<Vec<Duration>, Box<dyn Error>> {
    let file: Box<dyn File> = disk.create("plain")?;
    if reserve_bytes > 0 {
        file.allocate(reserve_bytes)?;
    }
    let record = [7; RECORD_BYTES];
    let times = (0..APPENDS).map(|at| {
        let start = Instant::now();
        file.write_at(at * RECORD_BYTES as u64, &record)?;
        file.sync_data()?;
        Ok(start.elapsed())
    });
    times.collect()
}

fn log(disk: RealDisk) -> Result<Vec<Duration>, Box<dyn Error>> {
    let start = Instant::now();
    let options = FileLogOptions::default();
    let mut log = FileLog::open(Arc::new(disk), options, LogSequence(1), &mut |_, _| Ok(()), &mut |_| {})?;
    println!("  opening an empty log: {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let times = (0..APPENDS).map(|_| {
        let start = Instant::now();
        log.append(log.tail(), &[&[7; 512]])?;
        log.sync()?;
        Ok(start.elapsed())
    });
    times.collect()
}

fn report(name: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e6;
    let mean = times.iter().sum::<Duration>().as_secs_f64() * 1e6 / times.len() as f64;
    println!(
        "  {name:14} mean {mean:6.0} us   p50 {:6.0}   p99 {:6.0}   p99.9 {:6.0}",
        at(0.5),
        at(0.99),
        at(0.999)
    );
}
