//! A data folder out of a backup, for `quartet restore` and for an operator at the console.
//!
//! Everything is verified before anything is written. Rows are written beside the folder, and take
//! its name when they are whole, so that no server ever opens half of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use quartet_backup::{Archive, Chain, Progress, Restore, Restored, Target, restore};
use quartet_engine::{Engine, EngineOptions, StoreKind};
use quartet_env::{RealDisk, SystemClock};
use quartet_model::{DatabaseId, Version};
use quartet_tenancy::{Catalogue, DEFAULT_NAME, Partitions};

/// The request for a restore.
pub struct FolderRestore {
    /// The state as of a version; `None`: the newest.
    pub at: Option<Version>,
    /// One logical database alone.
    pub database: Option<String>,
    /// The engine that is to open the folder.
    pub engine: StoreKind,
}

/// Makes `data`, which is not there or empty. Errors: nothing has that name, or what was there is
/// as it was.
pub fn restore_folder(
    target: &dyn Target,
    data: &Path,
    wanted: &FolderRestore,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored> {
    let is_empty = !data.exists() || fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_none());
    ensure!(is_empty, "{} is not empty: nothing was written", data.display());
    let archive = Archive::read(target)?;
    let chain = archive.chain_at(wanted.at)?;
    let chain = chain.up_to(wanted.at.unwrap_or(Version(u64::MAX)));
    let name = wanted.database.as_deref();
    let database = name.map(|name| find_database(&chain, name)).transpose()?;
    // It is read twice: to be verified, and to be restored.
    let (verified, bytes_total) = (chain.bytes(), 2 * chain.bytes());
    chain.verify(target, &mut |bytes| progress(Progress { bytes, bytes_total }))?;
    let unfinished = unfinished(data)?;
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).with_context(|| format!("removing {}", unfinished.display()))?;
    }
    fs::create_dir_all(&unfinished).with_context(|| format!("making {}", unfinished.display()))?;
    let disk = Arc::new(RealDisk::open(&unfinished)?);
    let rows = Restore {
        at: wanted.at,
        engine: wanted.engine,
        database,
    };
    let mut told = |bytes| {
        progress(Progress {
            bytes: verified + bytes,
            bytes_total,
        });
    };
    let restored = restore(target, &chain, disk.clone(), rows, &mut told)?;
    if let (Some(name), Some(id)) = (name, database) {
        leave_only(disk, wanted.engine, name, id)?;
    } else {
        drop(disk);
    }
    give_name(&unfinished, data)?;
    Ok(restored)
}

fn find_database(chain: &Chain, name: &str) -> Result<DatabaseId> {
    let databases = &chain.base().databases;
    let found = databases.iter().find(|database| database.name == name);
    let names = || {
        databases
            .iter()
            .map(|database| database.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let found = found.with_context(|| format!("the backup's base has no database {name}: it has {}", names()))?;
    Ok(DatabaseId(found.id))
}

/// Takes all other databases out of the restored catalogue. One that was deleted and made anew
/// behind the base has another number, and none of its rows was restored.
fn leave_only(disk: Arc<RealDisk>, kind: StoreKind, name: &str, id: DatabaseId) -> Result<()> {
    let options = EngineOptions {
        store: Some(kind),
        ..EngineOptions::default()
    };
    let ended = Box::new(|error: &_| tracing::error!("{error}"));
    let engine = Engine::open(disk, Arc::new(SystemClock), options, ended, &mut |_| {})?;
    let partitions = Arc::new(Partitions::new(vec![Arc::new(engine)]));
    let catalogue = Catalogue::open(partitions.clone(), Box::new(|_| {}))?;
    let is_there = catalogue
        .list()
        .iter()
        .any(|database| database.id == id && database.definition().name == name);
    ensure!(
        is_there || name == DEFAULT_NAME,
        "the database {name} of the backup's base was deleted before the version that is to be restored"
    );
    for database in catalogue.list() {
        let definition = database.definition();
        if definition.name != name {
            let closed = catalogue.close(&definition.name)?;
            catalogue.forget(&closed)?;
        }
    }
    drop(catalogue);
    let partitions = Arc::into_inner(partitions).context("the engine is still in use")?;
    for engine in partitions.into_engines() {
        Arc::into_inner(engine).context("the engine is still in use")?.close()?;
    }
    Ok(())
}

/// Beside the folder, on the same file system.
fn unfinished(data: &Path) -> Result<PathBuf> {
    let data = std::path::absolute(data)?;
    let name = data.file_name().context("the folder needs a name")?;
    let mut unfinished = name.to_owned();
    unfinished.push(".restoring");
    Ok(data.with_file_name(unfinished))
}

fn give_name(unfinished: &Path, data: &Path) -> Result<()> {
    if data.exists() {
        fs::remove_dir(data).with_context(|| format!("removing the empty folder {}", data.display()))?;
    }
    fs::rename(unfinished, data).with_context(|| format!("naming {}", data.display()))?;
    let parent = std::path::absolute(data)?;
    let parent = parent.parent().unwrap_or(Path::new("/"));
    Ok(fs::File::open(parent)?.sync_all()?)
}
