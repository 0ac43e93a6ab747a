//! A copy of another node's whole state, for a node without a state, or with a state that can no
//! longer be continued.
//!
//! ```text
//!   the request `copy PARTITION`:
//!                     repeated: length u32 | that many bytes      opaque: `CopySource`, `CopyTarget`
//!                     0 u32                                        the end
//! ```
//!
//! Each partition is copied by itself, before the node opens its data: into an empty folder while
//! the cluster has a home, or into a folder that has the file [`NEEDS_COPY`] and is emptied first.
//! That file stays until the copy is whole. A hold retains the sequencer's records meanwhile, while
//! the copy is opened, and until the node has caught up.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quartet_engine::{CopySource, CopyTarget, Engine, Parts, StoreKind};
use quartet_log_replicated::{Hold, PartitionId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::link::{self, Link};
use super::protocol::NodeRequest;
use crate::connections::stream::Stream;

/// Marks a folder: a copy must replace its content.
const NEEDS_COPY: &str = "needs-copy";
/// The content of the mark in that case.
const STATE_DIFFERS: &str = "the state differs\n";
/// Says which cluster a folder is of (`identity`).
pub const CLUSTER_ID: &str = "cluster-id";
/// Names in a folder that do not count as data. `partitions` has folders of its own.
const NOT_COPIED: [&str; 3] = ["LOCK", CLUSTER_ID, "partitions"];
/// Longest piece of a copy, in bytes: a row may have as many.
const PIECE_BYTES_MAX: u32 = 64 << 20;
/// The source gathers for no longer than this between two pieces.
const PIECE_TIMEOUT: Duration = Duration::from_secs(60);
/// A hold lasts ten seconds.
const KEEP_EVERY: Duration = Duration::from_secs(3);

/// Returns true if the folder has no data that a node can continue from.
pub fn is_needed(folder: &Path) -> Result<bool> {
    if is_marked(folder) {
        return Ok(true);
    }
    match fs::read_dir(folder) {
        Ok(mut entries) => {
            Ok(entries.all(|entry| entry.is_ok_and(|entry| NOT_COPIED.iter().any(|name| entry.file_name() == *name))))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| format!("reading {}", folder.display())),
    }
}

/// Returns true if a copy must replace the folder's content, which may be a part of another copy.
pub fn is_marked(folder: &Path) -> bool {
    folder.join(NEEDS_COPY).exists()
}

/// Makes the next start replace the folder's content by a copy. `has_differed`: its state is
/// another than the home's, which that start counts.
pub fn mark(folder: &Path, has_differed: bool) -> Result<()> {
    let reason = if has_differed { STATE_DIFFERS } else { "" };
    fs::write(folder.join(NEEDS_COPY), reason).with_context(|| format!("writing to {}", folder.display()))
}

/// Returns true if the folder must be replaced because of its different state.
pub fn has_differed(folder: &Path) -> bool {
    fs::read_to_string(folder.join(NEEDS_COPY)).is_ok_and(|reason| reason == STATE_DIFFERS)
}

/// Empties the folder except for the mark of an incomplete copy: a start that is killed meanwhile
/// is repeated from scratch.
pub fn begin(folder: &Path, has_differed: bool) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    mark(folder, has_differed)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_file = entry.file_type()?.is_file();
        if is_file && entry.file_name() != NEEDS_COPY && entry.file_name() != "LOCK" {
            fs::remove_file(entry.path()).with_context(|| format!("removing {}", entry.path().display()))?;
        }
    }
    Ok(())
}

/// Removes the mark: the copy is whole.
pub fn finish(folder: &Path) -> Result<()> {
    fs::remove_file(folder.join(NEEDS_COPY)).context("removing the mark")
}

/// A hold that a thread of its own keeps until this is dropped, however long a step of the copy
/// takes.
pub struct KeptHold {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl KeptHold {
    pub fn new(mut hold: Hold) -> std::io::Result<KeptHold> {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let keep = move || {
            while !over.load(Ordering::Relaxed) {
                if let Err(error) = hold.keep() {
                    tracing::warn!(%error, "the records that this node still needs may be dropped");
                }
                std::thread::park_timeout(KEEP_EVERY);
            }
            hold.end();
        };
        let thread = Some(std::thread::Builder::new().name("hold".into()).spawn(keep)?);
        Ok(KeptHold { is_over, thread })
    }
}

impl Drop for KeptHold {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the thread that keeps a hold panicked");
            }
        }
    }
}

/// Fills a partition's empty folder with what the node at `address` has. A hold is kept meanwhile.
pub fn fetch(link: &Link, address: &str, partition: PartitionId, parts: Parts, kind: StoreKind) -> Result<()> {
    let mut target = CopyTarget::begin(parts, kind)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut stream = runtime.block_on(link.call(address, &NodeRequest::Copy(partition)))?;
    let mut bytes = 0;
    loop {
        let piece = async { tokio::time::timeout(PIECE_TIMEOUT, read_piece(stream.as_mut())).await };
        let Some(piece) = runtime.block_on(piece).context("the source is silent")?? else {
            break;
        };
        bytes += piece.len();
        target.take(&piece)?;
    }
    target.finish()?;
    tracing::info!(bytes, address, partition = partition.0, "copied a node");
    Ok(())
}

async fn read_piece(stream: &mut dyn Stream) -> Result<Option<Vec<u8>>> {
    let length = stream.read_u32().await?;
    ensure!(length <= PIECE_BYTES_MAX, "a piece of {length} bytes");
    if length == 0 {
        return Ok(None);
    }
    // Allocates by received bytes, never by an announced length.
    let mut piece = Vec::new();
    let read = stream.take(length.into()).read_to_end(&mut piece).await?;
    ensure!(read == length as usize, "the copy ended within a piece");
    Ok(Some(piece))
}

/// Keeps the hold until the engine has caught up, or `is_over`. For a thread of its own.
pub fn keep_until_caught_up(hold: KeptHold, engine: &Engine, is_over: impl Fn() -> bool) {
    let has_caught_up = || {
        let figures = engine.replication();
        figures.is_home || figures.term > 0 && figures.lag_records == 0 && figures.lag_millis < 1000
    };
    while !is_over() && !has_caught_up() {
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(hold);
}

/// Gives the caller everything that this node has of a partition.
pub async fn send(engine: Arc<Engine>, mut stream: Box<dyn Stream>) -> std::io::Result<()> {
    let begun = tokio::task::spawn_blocking(move || engine.copy_source()).await;
    let mut source = match begun {
        Ok(Ok(source)) => source,
        Ok(Err(error)) => return link::refuse(stream.as_mut(), &error.to_string()).await,
        Err(_) => return link::refuse(stream.as_mut(), "the copy failed").await,
    };
    link::accept(stream.as_mut()).await?;
    loop {
        let next = tokio::task::spawn_blocking(move || next_of(source)).await;
        let (rest, piece) = next.map_err(std::io::Error::other)?;
        source = rest;
        let piece = piece.map_err(std::io::Error::other)?.unwrap_or_default();
        stream.write_u32(piece.len() as u32).await?;
        stream.write_all(&piece).await?;
        if piece.is_empty() {
            return stream.shutdown().await;
        }
    }
}

type Piece = Result<Option<Vec<u8>>, quartet_engine::CopyError>;

fn next_of(mut source: CopySource) -> (CopySource, Piece) {
    let piece = source.next();
    (source, piece)
}
