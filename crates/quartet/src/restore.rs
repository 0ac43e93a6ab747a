//! `quartet restore`: makes a data folder out of a backup (`docs/backup.md`).
//!
//! Everything is verified before anything is written. What is written is written beside the folder, and takes its name when it is
//! whole, so that no server ever opens half of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use quartet_backup::{Archive, Chain, Restore, open_target, restore as restore_chain};
use quartet_engine::{Engine, EngineOptions, StoreKind};
use quartet_env::{RealDisk, SystemClock};
use quartet_model::{DatabaseId, Version};
use quartet_tenancy::{Catalogue, DEFAULT_NAME};
use time::UtcDateTime;
use time::format_description::well_known::Rfc3339;

use crate::backup::bar;

#[derive(Args)]
pub struct RestoreArguments {
    /// Where backups are kept: a folder, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR|s3://BUCKET/PREFIX")]
    from: String,
    /// The folder to make: it is not there, or empty
    #[arg(long)]
    data: PathBuf,
    /// The state as of a version, or of a time as 2026-11-22T18:00:00Z [default: the newest]
    #[arg(long, value_name = "VERSION|TIME")]
    at: Option<String>,
    /// This logical database alone
    #[arg(long)]
    database: Option<String>,
    /// The engine that is to open the folder
    #[arg(long, default_value = "memory", value_parser = ["memory", "ssd"])]
    engine: String,
}

pub fn restore(arguments: &RestoreArguments) -> Result<()> {
    let data = &arguments.data;
    let is_empty = !data.exists() || fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_none());
    ensure!(is_empty, "{} is not empty: nothing was written", data.display());
    let target = open_target(&arguments.from, false)?;
    let at = arguments.at.as_deref().map(version).transpose()?;
    let archive = Archive::read(target.as_ref())?;
    let chain = archive.chain_at(at)?.up_to(at.unwrap_or(Version(u64::MAX)));
    let database = arguments.database.as_deref();
    let database = database.map(|name| find_database(&chain, name)).transpose()?;
    let bar = bar();
    bar.set_length(2 * chain.bytes());
    chain.verify(target.as_ref(), &mut |bytes| bar.set_position(bytes))?;
    let unfinished = unfinished(data)?;
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).with_context(|| format!("removing {}", unfinished.display()))?;
    }
    fs::create_dir_all(&unfinished).with_context(|| format!("making {}", unfinished.display()))?;
    let wanted = Restore {
        at,
        engine: StoreKind::parse(&arguments.engine).context("an engine is memory or ssd")?,
        database,
    };
    let disk = Arc::new(RealDisk::open(&unfinished)?);
    let verified = chain.bytes();
    let mut progress = |bytes| bar.set_position(verified + bytes);
    let restored = restore_chain(target.as_ref(), &chain, disk.clone(), wanted, &mut progress)?;
    bar.finish_and_clear();
    if let (Some(name), Some(id)) = (&arguments.database, database) {
        leave_only(disk, wanted.engine, name, id)?;
    } else {
        drop(disk);
    }
    give_name(&unfinished, data)?;
    println!(
        "{}: version {}, {} rows, state hash {:032x}",
        data.display(),
        restored.version.0,
        restored.rows,
        restored.state_hash
    );
    Ok(())
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

/// Takes all other databases out of the restored catalogue. One that was deleted and made anew behind the base has another number, and none of
/// its rows was restored.
fn leave_only(disk: Arc<RealDisk>, kind: StoreKind, name: &str, id: DatabaseId) -> Result<()> {
    let options = EngineOptions {
        store: Some(kind),
        ..EngineOptions::default()
    };
    let ended = Box::new(|error: &_| tracing::error!("{error}"));
    let engine = Engine::open(disk, Arc::new(SystemClock), options, ended, &mut |_| {})?;
    let engine = Arc::new(engine);
    let catalogue = Catalogue::open(engine.clone(), Box::new(|_| {}));
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
    let engine = Arc::into_inner(engine).context("the engine is still in use")?;
    Ok(engine.close()?)
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

/// Versions are microseconds since the Unix epoch.
fn version(text: &str) -> Result<Version> {
    if let Ok(version) = text.parse() {
        return Ok(Version(version));
    }
    match time(text) {
        Some(micros) => Ok(Version(micros)),
        None => bail!("'{text}' is neither a version nor a time as 2026-11-22T18:00:00Z"),
    }
}

/// Of a time as RFC 3339 writes it, in microseconds since the Unix epoch. The last one of a second that is given whole.
fn time(text: &str) -> Option<u64> {
    let time = UtcDateTime::parse(text, &Rfc3339).ok()?;
    let micros = u64::try_from(time.unix_timestamp_nanos() / 1000).ok()?;
    let is_whole_second = !text.contains('.');
    Some(if is_whole_second { micros + 999_999 } else { micros })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_microseconds() {
        for (text, micros) in [
            ("1970-01-01T00:00:00.000000Z", 0),
            ("2000-02-29T12:00:00.5Z", 951_825_600_500_000),
            ("2026-11-22T18:00:00Z", 1_795_370_400_999_999),
            ("2026-11-22T19:00:00+01:00", 1_795_370_400_999_999),
        ] {
            assert_eq!(time(text), Some(micros), "{text}");
        }
        for text in [
            "2026-11-22",
            "2026-13-22T18:00:00Z",
            "2026-02-30T18:00:00Z",
            "2026-11-22T18:00:00",
            "2026-11-22T24:00:00Z",
            "now",
        ] {
            assert!(version(text).is_err(), "{text}");
        }
        assert_eq!(version("17").unwrap(), Version(17));
    }
}
