//! A home's continuous backup. Its records are durable beside the nodes, so etcd may drop them.
//!
//! It is a backup as any other: whoever is home goes on with the chain that is there, and begins
//! with all rows where that does not lead to its own log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use quartet_backup::{BackupError, BackupOptions, open_shared, open_target, take};
use quartet_engine::Engine;
use quartet_env::{Runtime, SystemRuntime};
use quartet_model::LogSequence;

use crate::operations::local_backup::{LocalSource, Watched};
use crate::tenants::Tenants;

/// How often what is new is added, and how long after a failure that is tried again.
const STEP_EVERY: Duration = Duration::from_secs(2);
/// How often it is looked whether to end.
const LOOK: Duration = Duration::from_millis(100);
/// How long a request to an object store may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The backup that a home keeps. It ends with its term.
pub struct Archiving {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Archiving {
    /// Begins, or goes on with, the backup at `address`.
    pub fn begin(address: &str, tenants: &Arc<Tenants>) -> std::io::Result<Archiving> {
        let is_over = Arc::new(AtomicBool::new(false));
        let (over, address) = (is_over.clone(), address.to_owned());
        // The layers go with the term, however long the place takes to answer.
        let (tenants, engine) = (Arc::downgrade(tenants), tenants.parts.engine.clone());
        let keep = move || {
            SystemRuntime::default().make_way();
            let is_over = || over.load(Ordering::Relaxed);
            while !is_over() {
                let mut source = LocalSource::new(tenants.clone(), &is_over);
                if let Err(error) = keep_once(&address, &engine, &mut source, &is_over)
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
        let thread = std::thread::Builder::new().name("archive".into()).spawn(keep)?;
        Ok(Archiving { is_over, thread })
    }

    /// Asks it to end.
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

/// Adds to the archive until it is to end, or something fails.
fn keep_once(
    address: &str,
    engine: &Engine,
    source: &mut LocalSource<'_>,
    is_over: &(dyn Fn() -> bool + Sync),
) -> Result<(), BackupError> {
    let target = match address.contains("://") {
        true => open_shared(address, PATIENCE)?,
        false => open_target(address, true)?,
    };
    let target = Watched::new(target, is_over);
    let options = BackupOptions {
        follow: Some(STEP_EVERY),
        ..BackupOptions::default()
    };
    take(&target, source, &options, &mut |_| {}, &mut |taken| {
        engine.archived(LogSequence(taken.next_sequence.0.saturating_sub(1)));
        !is_over()
    })?;
    Ok(())
}
