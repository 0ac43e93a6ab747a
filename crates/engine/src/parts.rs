//! The parts of a partition, beside its rows.

use std::sync::Arc;

use quartet_env::{Clock, Disk, Runtime, SystemRuntime};
use quartet_log::{FileLogOpener, FileLogOptions, LogOpener};

/// The environment of an engine in place of the operating system, and its log.
pub struct Parts {
    /// The disk of the checkpoints.
    pub disk: Arc<dyn Disk>,
    /// Opens the log.
    pub log: Box<dyn LogOpener>,
    /// The source of versions.
    pub clock: Arc<dyn Clock>,
    /// Time that passes, threads, randomness.
    pub runtime: Arc<dyn Runtime>,
}

impl Parts {
    /// The parts of a standalone server: its log is files of the same disk, its threads are the
    /// machine's.
    pub fn on_one_machine(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>) -> Parts {
        Parts::with_file_log(disk, clock, FileLogOptions::default())
    }

    /// The same, with a file log that is set up otherwise.
    pub fn with_file_log(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, options: FileLogOptions) -> Parts {
        Parts {
            log: Box::new(FileLogOpener {
                disk: disk.clone(),
                options,
            }),
            disk,
            clock,
            runtime: Arc::new(SystemRuntime::default()),
        }
    }
}
