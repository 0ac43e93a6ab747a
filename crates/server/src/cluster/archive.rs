//! A home's continuous backup. Its records are durable beside the nodes, so etcd may drop them.
//!
//! It is an ordinary backup: every new home continues the existing chain, and starts with all rows
//! if the chain does not lead to its own log. If old versions must be removed, the archive restarts
//! once a day: `take` then finds expired versions, and decides if all rows are due.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quartet_backup::{BackupError, BackupOptions, Manifest, open_shared, open_target, take};
use quartet_engine::{Engine, PartitionId};
use quartet_env::{Runtime, SystemRuntime};
use quartet_model::LogSequence;

use crate::operations::local_backup::{LocalSource, Watched};
use crate::tenants::Tenants;

/// Interval of additions, and of attempts after a failure.
const STEP_EVERY: Duration = Duration::from_secs(2);
/// Interval of the search for expired versions.
const ANEW_EVERY: Duration = Duration::from_hours(24);
/// Interval of checks for its end.
const LOOK: Duration = Duration::from_millis(100);
/// Time limit of a request to an object store.
const PATIENCE: Duration = Duration::from_secs(30);

/// The backup that a home keeps. It ends with its term.
pub struct Archiving {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Archiving {
    /// Starts or continues the backup at `address`. `has_begun`: this process has added to it
    /// before, so it must exist.
    pub fn begin(
        address: &str,
        keep: Option<Duration>,
        has_begun: &Arc<AtomicBool>,
        tenants: &Arc<Tenants>,
    ) -> std::io::Result<Archiving> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, address, has_begun) = (is_over.clone(), address.to_owned(), has_begun.clone());
        // The layers go with the term, however long the place takes to answer.
        let (tenants, engine) = (Arc::downgrade(tenants), tenants.parts.engine.clone());
        let archive = move || {
            SystemRuntime::default().make_way();
            let is_over = || over.load(Ordering::Relaxed);
            while !is_over() {
                let mut source = LocalSource::new(tenants.clone(), PartitionId(0), &is_over);
                if let Err(error) = keep_once(&address, keep, &has_begun, &engine, &mut source, &is_over)
                    && !is_over()
                {
                    tracing::warn!(%error, address, "the archive is not kept at present");
                }
                let mut left = STEP_EVERY;
                while !is_over() && !left.is_zero() {
                    std::thread::sleep(LOOK);
                    left = left.saturating_sub(LOOK);
                }
            }
        };
        let thread = std::thread::Builder::new().name("archive".into()).spawn(archive)?;
        Ok(Archiving { is_over, thread })
    }

    /// Requests its end.
    pub fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Waits until it has.
    pub fn end(self) {
        self.stop();
        if self.thread.join().is_err() {
            tracing::error!("the thread of the archive panicked");
        }
    }
}

/// Adds to the archive until it must end or restart, or an error occurs.
fn keep_once(
    address: &str,
    keep: Option<Duration>,
    has_begun: &AtomicBool,
    engine: &Engine,
    source: &mut LocalSource<'_>,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<(), BackupError> {
    let has_begun_here = has_begun.load(Ordering::Relaxed);
    let gone = || BackupError::Address(format!("what was at {address} is gone"));
    let target = match address.contains("://") {
        true => open_shared(address, PATIENCE)?,
        // A folder that is not mounted any more: files written there would be on this node's own
        // disk.
        false if has_begun_here && !Path::new(address).is_dir() => return Err(gone()),
        false => open_target(address, true)?,
    };
    let is_manifest = |name: &String| Manifest::number_in(name).is_some();
    if has_begun_here && !target.list().is_ok_and(|names| names.iter().any(is_manifest)) {
        return Err(gone());
    }
    let target = Watched::new(target, is_over);
    let options = BackupOptions {
        follow: Some(STEP_EVERY),
        keep,
        ..BackupOptions::default()
    };
    let begun = Instant::now();
    take(&target, source, &options, &mut |_| {}, &mut |taken| {
        has_begun.store(true, Ordering::Relaxed);
        engine.archived(LogSequence(taken.next_sequence.0.saturating_sub(1)));
        !is_over() && (keep.is_none() || begun.elapsed() < ANEW_EVERY)
    })?;
    Ok(())
}
