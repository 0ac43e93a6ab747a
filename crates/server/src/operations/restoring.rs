//! A data folder out of a backup, for `quartet restore` and for an operator at the console.
//!
//! Everything is verified before anything is written. Rows are written beside the folder, and take
//! its name when they are whole, so that no server ever opens half of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use quartet_backup::{
    Archive, BackupError, Chain, DatabaseRows, PieceOfRows, Progress, Restore, Restored, Target, partition_address,
    partitions_in, restore,
};
use quartet_engine::{Engine, EngineOptions, PartitionId, Parts, StoreKind};
use quartet_env::{RealDisk, SystemClock};
use quartet_log::FileLogOptions;
use quartet_model::{DatabaseId, Version};
use quartet_tenancy::{Catalogue, DEFAULT_DATABASE, DEFAULT_NAME, Partitions};

use crate::partition_folders::wanted_folders;

/// The request for a restore.
pub struct FolderRestore {
    /// The state as of a version; `None`: the newest.
    pub at: Option<Version>,
    /// Only one logical database.
    pub database: Option<String>,
    /// The engine for the folder.
    pub engine: StoreKind,
}

/// Opens a target at an address.
pub type OpenTarget<'f, 't> = &'f dyn Fn(&str) -> Result<Box<dyn Target + 't>, BackupError>;

/// Restores `data`, which is absent or empty, from the backups at an address: of one partition, or
/// of all partitions of a server, each at its own newest version or at the wanted version. Returns
/// the state of each. Errors: the previous content of `data` is unchanged.
pub fn restore_folder(
    address: &str,
    open: OpenTarget<'_, '_>,
    data: &Path,
    options: &FolderRestore,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Restored>> {
    let is_empty = !data.exists() || fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_none());
    ensure!(is_empty, "{} is not empty: nothing was written", data.display());
    let mut chains = Vec::new();
    let partitions = partitions_in(open(address)?.as_ref())?;
    for partition in 0..partitions {
        let target = open(&partition_address(address, partition))?;
        let chain = Archive::read(target.as_ref()).and_then(|archive| archive.chain_at(options.at));
        let chain = match partitions {
            1 => chain?,
            _ => chain.with_context(|| format!("partition {partition}"))?,
        };
        chains.push((target, chain.up_to(options.at.unwrap_or(Version(u64::MAX)))));
    }
    let name = options.database.as_deref();
    let database = name.map(|name| find_database(&chains, name)).transpose()?;
    // Each is read twice: to be verified, and to be restored.
    let bytes_total = chains.iter().map(|(_, chain)| 2 * chain.bytes()).sum();
    let mut done = 0;
    let mut report = |bytes| progress(Progress { bytes, bytes_total });
    for (target, chain) in &chains {
        chain.verify(target.as_ref(), &mut |bytes| report(done + bytes))?;
        done += chain.bytes();
    }
    let unfinished = unfinished(data)?;
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).with_context(|| format!("removing {}", unfinished.display()))?;
    }
    let (mut disks, mut restored) = (Vec::new(), Vec::new());
    for (folder, (target, chain)) in wanted_folders(&unfinished, Some(chains.len() as u32))?
        .iter()
        .zip(&chains)
    {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let disk = Arc::new(RealDisk::open(folder)?);
        let rows = Restore {
            at: options.at,
            engine: options.engine,
            database,
        };
        restored.push(restore(target.as_ref(), chain, disk.clone(), rows, &mut |bytes| {
            report(done + bytes)
        })?);
        done += chain.bytes();
        disks.push(disk);
    }
    if disks.len() > 1 || database.is_some() {
        settle(disks, options.engine, name.zip(database))?;
    } else {
        drop(disks);
    }
    give_name(&unfinished, data)?;
    Ok(restored)
}

/// A database may have moved since the bases were taken: any of them may name it.
fn find_database(chains: &[(Box<dyn Target + '_>, Chain)], name: &str) -> Result<DatabaseId> {
    let databases = || chains.iter().flat_map(|(_, chain)| &chain.base().databases);
    let database = databases().find(|database| database.name == name);
    let names = || {
        databases()
            .map(|database| database.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let database = database.with_context(|| format!("the backup's base has no database {name}: it has {}", names()))?;
    Ok(DatabaseId(database.id))
}

/// Ends the moves that were in progress, and removes rows of databases that the catalogue does not
/// have in that partition: they were created, deleted or moved between the versions of two
/// partitions. With `only`, removes all other databases from the catalogue. A database that was
/// deleted and created again after the base has another number, and none of its rows was restored.
fn settle(disks: Vec<Arc<RealDisk>>, kind: StoreKind, only: Option<(&str, DatabaseId)>) -> Result<()> {
    let engines = open_engines(disks, kind)?;
    let partitions = Arc::new(Partitions::new(engines));
    let catalogue = Catalogue::open(partitions.clone(), Box::new(|_| {}))?;
    if let Some((name, id)) = only {
        leave_only(&catalogue, name, id)?;
    }
    for (partition, engine) in partitions.iter() {
        clear_strangers(&catalogue, partition, engine)?;
    }
    drop(catalogue);
    let partitions = Arc::into_inner(partitions).context("the engines are still in use")?;
    for engine in partitions.into_engines() {
        Arc::into_inner(engine).context("the engine is still in use")?.close()?;
    }
    Ok(())
}

fn open_engines(disks: Vec<Arc<RealDisk>>, kind: StoreKind) -> Result<Vec<Arc<Engine>>> {
    let log = FileLogOptions {
        is_one_of_several: disks.len() > 1,
        ..FileLogOptions::default()
    };
    let open = |disk: Arc<RealDisk>| {
        let options = EngineOptions {
            store: Some(kind),
            ..EngineOptions::default()
        };
        let ended = Box::new(|error: &_| tracing::error!("{error}"));
        let parts = Parts::with_file_log(disk, Arc::new(SystemClock), log.clone());
        Ok(Arc::new(Engine::open_with(parts, options, ended, &mut |_| {})?))
    };
    disks.into_iter().map(open).collect()
}

/// Gives the rows of the only database of a restored folder to `send`, in pieces. Returns their
/// number.
pub fn read_database(data: &Path, kind: StoreKind, send: &mut dyn FnMut(PieceOfRows) -> Result<()>) -> Result<u64> {
    let folders = wanted_folders(data, None)?;
    let disks: Result<_, _> = folders
        .iter()
        .map(|folder| RealDisk::open(folder).map(Arc::new))
        .collect();
    let mut rows = 0;
    for engine in open_engines(disks?, kind)? {
        let mut database_rows = DatabaseRows::of(&engine);
        while let Some(piece) = database_rows.next_piece()? {
            rows += piece.rows;
            send(piece)?;
        }
        drop(database_rows);
        Arc::into_inner(engine).context("the engine is still in use")?.close()?;
    }
    Ok(rows)
}

fn leave_only(catalogue: &Catalogue, name: &str, id: DatabaseId) -> Result<()> {
    let is_there = catalogue
        .list()
        .iter()
        .any(|database| database.id == id && database.definition().name == name);
    ensure!(
        is_there || name == DEFAULT_NAME,
        "the database {name} of the backup's base was deleted before the version to restore"
    );
    for database in catalogue.list() {
        let definition = database.definition();
        if definition.name != name {
            let closed = catalogue.close(&definition.name)?;
            catalogue.forget(&closed)?;
        }
    }
    Ok(())
}

fn clear_strangers(catalogue: &Catalogue, partition: PartitionId, engine: &Engine) -> Result<()> {
    for id in (DEFAULT_DATABASE.0 + 1..=u16::MAX).map(DatabaseId) {
        let belongs = catalogue
            .numbered(id)
            .is_some_and(|database| database.partition() == partition);
        if engine.stored_bytes(id) > 0 && !belongs {
            let cleared = engine.clear_database(id)?;
            ensure!(engine.wait_durable(cleared), "the log has failed");
        }
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
