//! A copy of another node's whole state, for a node that has none or whose own can no longer be
//! continued.
//!
//! ```text
//!   the verb `copy`:  repeated: length u32 | that many bytes      opaque: `CopySource`, `CopyTarget`
//!                     0 u32                                        the end
//! ```
//!
//! A node copies before it opens its data: an empty folder while the cluster has a home, or one
//! with the file [`NEEDS_COPY`], whose content goes. A hold keeps the sequencer's records
//! meanwhile, and until the node has caught up.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quartet_engine::{CopySource, CopyTarget, Engine, Parts, StoreKind};
use quartet_log_replicated::Hold;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::link::{self, Link, Stream};

/// Marks a folder whose content is to be replaced by a copy.
const NEEDS_COPY: &str = "needs-copy";
/// Says which cluster a folder is of (`identity`).
pub const CLUSTER_ID: &str = "cluster-id";
/// Longest piece of a copy, in bytes: a row may have as many.
const PIECE_BYTES_MAX: u32 = 64 << 20;
/// The source gathers for no longer than this between two pieces.
const PIECE_TIMEOUT: Duration = Duration::from_secs(60);
/// A hold lasts ten seconds.
const KEEP_EVERY: Duration = Duration::from_secs(3);

/// True if the folder holds nothing that a node could go on from.
pub fn is_needed(folder: &Path) -> Result<bool> {
    if folder.join(NEEDS_COPY).exists() {
        return Ok(true);
    }
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries
            .all(|entry| entry.is_ok_and(|entry| ["LOCK", CLUSTER_ID].iter().any(|name| entry.file_name() == *name)))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error).with_context(|| format!("reading {}", folder.display())),
    }
}

/// Makes the next start replace the folder's content by a copy.
pub fn mark(folder: &Path) -> Result<()> {
    fs::write(folder.join(NEEDS_COPY), b"").with_context(|| format!("writing to {}", folder.display()))
}

/// Removes what a marked folder holds.
pub fn clear(folder: &Path) -> Result<()> {
    if !folder.join(NEEDS_COPY).exists() {
        return Ok(());
    }
    // The mark goes last: a start that is interrupted here goes on.
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_file = entry.file_type()?.is_file();
        if is_file && entry.file_name() != NEEDS_COPY && entry.file_name() != "LOCK" {
            fs::remove_file(entry.path()).with_context(|| format!("removing {}", entry.path().display()))?;
        }
    }
    fs::remove_file(folder.join(NEEDS_COPY)).context("removing the mark")
}

/// Fills an empty folder with what the node at `address` has. `hold` is kept meanwhile.
pub fn fetch(link: &Link, address: &str, parts: Parts, kind: StoreKind, hold: &mut Hold) -> Result<()> {
    let mut target = CopyTarget::begin(parts, kind)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut stream = runtime.block_on(link.call(address, "copy"))?;
    let (mut kept, mut bytes) = (Instant::now(), 0);
    loop {
        let piece = async { tokio::time::timeout(PIECE_TIMEOUT, read_piece(stream.as_mut())).await };
        let Some(piece) = runtime.block_on(piece).context("the source is silent")?? else {
            break;
        };
        bytes += piece.len();
        target.take(&piece)?;
        if kept.elapsed() >= KEEP_EVERY {
            hold.keep()?;
            kept = Instant::now();
        }
    }
    target.finish()?;
    tracing::info!(bytes, address, "copied a node");
    Ok(())
}

async fn read_piece(stream: &mut dyn Stream) -> Result<Option<Vec<u8>>> {
    let length = stream.read_u32().await?;
    ensure!(length <= PIECE_BYTES_MAX, "a piece of {length} bytes");
    if length == 0 {
        return Ok(None);
    }
    // Never makes room by an announced length, only by what has come.
    let mut piece = Vec::new();
    let read = stream.take(length.into()).read_to_end(&mut piece).await?;
    ensure!(read == length as usize, "the copy ended within a piece");
    Ok(Some(piece))
}

/// Keeps the hold until the engine has caught up, or `is_over`. For a thread of its own.
pub fn keep_until_caught_up(mut hold: Hold, engine: &Engine, is_over: impl Fn() -> bool) {
    let mut kept = Instant::now();
    while !is_over() {
        let figures = engine.replication();
        if figures.is_home || figures.term > 0 && figures.lag_records == 0 && figures.lag_millis < 1000 {
            break;
        }
        if kept.elapsed() >= KEEP_EVERY {
            kept = Instant::now();
            if let Err(error) = hold.keep() {
                tracing::warn!(%error, "the records that this node still needs may be dropped");
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    hold.end();
}

/// Gives the caller everything that this node has.
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
