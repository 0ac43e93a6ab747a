//! The world outside as small traits: a clock, time and threads, and a disk of one directory.
//!
//! Everything that keeps state receives these instead of calling the operating system, so that the
//! same code runs on a real machine and on a machine that fails on purpose. This crate does not
//! know logs or checkpoints.

#![warn(missing_docs)]

mod clock;
mod disk;
mod faulty_disk;
mod gentle;
mod memory_disk;
mod real_disk;
mod runtime;

pub use clock::{Clock, CorrectedClock, ManualClock, SystemClock};
pub use disk::{Disk, File, UNSYNCED_BYTES_MAX, is_shortage};
pub use faulty_disk::{BLOCK_BYTES, Fault, FaultyDisk, Operation, SECTOR_BYTES};
pub use memory_disk::MemoryDisk;
pub use real_disk::{RealDisk, create_directory_durably};
pub use runtime::{Next, Runtime, Step, SystemRuntime, Task};
