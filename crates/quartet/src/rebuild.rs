//! Replaces a damaged checkpoint, or the ssd engine's damaged tree, by its trustworthy rows.
//!
//! A sound one is written in a directory next to it, `repairing`. The damaged files get second
//! names, `dropped-...`, then the new files are moved here, the authoritative one last. So a crash
//! at any moment leaves the damaged one or the sound one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use quartet_engine::{Damage, Lost, OpenError, Salvaged};
use quartet_env::{Clock, Disk, RealDisk, SystemClock};
use quartet_model::LayerId;
use quartet_server::layer_name;

use crate::repair_report::{Report, shown};

const WORK: &str = "repairing";
/// The root of the ssd engine's tree: what it names counts.
const ROOT: &str = "base";
const COPY_OF_ROOT: &str = "base.copy";

/// Replaces the damaged store with a sound one. Returns false if nothing could be saved; then
/// nothing was changed.
pub fn rebuild(data: &Path, disk: &Arc<RealDisk>, error: &OpenError, report: &mut Report) -> Result<bool> {
    report.say(&format!("damaged: {error}"))?;
    let work = data.join(WORK);
    if work.exists() {
        fs::remove_dir_all(&work).with_context(|| format!("removing {}", work.display()))?;
    }
    let anew = Arc::new(RealDisk::open(&work).with_context(|| format!("creating {}", work.display()))?);
    let damaged: Arc<dyn Disk> = disk.clone();
    let mut result = Ok(());
    let mut tell = |damage| {
        if result.is_ok() {
            result = report.say(&in_words(&damage));
        }
    };
    let rebuilt = quartet_engine::rebuild(&damaged, anew.clone(), &mut tell);
    result?;
    match rebuilt {
        Ok(salvaged) => {
            report.say(&sum_in_words(&salvaged))?;
            put_in_place(data, disk.as_ref(), anew.as_ref(), report)?;
        }
        Err(error) if error.is_damage() => return remove(&work).map(|()| false),
        Err(error) => return Err(error.into()),
    }
    drop(anew);
    remove(&work).map(|()| true)
}

fn remove(work: &Path) -> Result<()> {
    fs::remove_dir_all(work).with_context(|| format!("removing {}", work.display()))
}

/// The files of a store: base files, followed by the root that names them; or the checkpoint.
fn store_files(disk: &dyn Disk) -> Result<Vec<String>> {
    let names = disk.list()?;
    let is_of = |prefix: &str| {
        let names = names.iter().filter(move |name| {
            let digits = name.strip_prefix(prefix);
            digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        });
        names.cloned().collect::<Vec<_>>()
    };
    if names.iter().any(|name| name == ROOT) {
        let mut files = is_of("base-");
        files.extend(names.iter().filter(|name| *name == COPY_OF_ROOT).cloned());
        files.push(ROOT.into());
        return Ok(files);
    }
    Ok(is_of("checkpoint-"))
}

fn put_in_place(data: &Path, disk: &dyn Disk, anew: &dyn Disk, report: &mut Report) -> Result<()> {
    let (old, new) = (store_files(disk)?, store_files(anew)?);
    for name in &old {
        let aside = aside(data, name);
        report.say(&format!("{name} as it was is kept as {}", aside.display()))?;
        fs::hard_link(data.join(name), &aside).with_context(|| format!("keeping {name} as {}", aside.display()))?;
    }
    disk.sync_directory()?;
    for name in &new {
        let moved = fs::rename(data.join(WORK).join(name), data.join(name));
        moved.with_context(|| format!("moving {name} to its place"))?;
    }
    disk.sync_directory()?;
    for name in old.iter().filter(|name| !new.contains(name)) {
        disk.remove(name)?;
    }
    Ok(disk.sync_directory()?)
}

fn aside(data: &Path, name: &str) -> PathBuf {
    data.join(format!("dropped-{}-{name}-from-0", SystemClock.now_micros()))
}

/// Prints the rows that a repair would drop, line by line; nothing is changed.
pub fn foresee(disk: Arc<RealDisk>, tell: &mut dyn FnMut(String)) -> Result<(), OpenError> {
    let damaged: Arc<dyn Disk> = disk;
    match quartet_engine::salvage(&damaged, &mut |damage| tell(in_words(&damage))) {
        Ok(salvaged) => tell(sum_in_words(&salvaged)),
        Err(error) if error.is_damage() => {
            tell("only a backup can replace it: see `quartet restore`".into());
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

fn in_words(damage: &Damage) -> String {
    match damage {
        Damage::Mended(description) => format!("mended: {description}"),
        Damage::Lost(lost) => lost_in_words(lost),
    }
}

fn lost_in_words(lost: &Lost) -> String {
    let Lost {
        from,
        before,
        rows,
        likely,
        what,
    } = lost;
    if let (Some(1), [only]) = (rows, likely.as_slice()) {
        return format!("dropped: {}: {what}", key_in_words(only));
    }
    let rows = rows.map_or("the rows that were there".into(), |rows| format!("{rows} rows"));
    let before = match before {
        Some(before) => format!("before {}", key_in_words(before)),
        None => "up to the end".into(),
    };
    let mut words = format!("dropped: {rows} from {} on and {before}: {what}", key_in_words(from));
    for key in likely {
        words += &format!("\n  likely among them: {}", key_in_words(key));
    }
    words
}

fn sum_in_words(salvaged: &Salvaged) -> String {
    let sum = format!("kept: {} rows", salvaged.rows);
    match salvaged.missing {
        Some(missing) => format!("{sum}; {missing} rows are dropped in all"),
        None => format!("{sum}; how many are dropped in all cannot be known"),
    }
}

/// The database and the layer of the row, and the key as its layer knows it.
fn key_in_words(key: &[u8]) -> String {
    match key {
        [high, low, layer, key @ ..] => {
            let database = u16::from_be_bytes([*high, *low]);
            let layer = LayerId::ALL.into_iter().find(|id| *id as u8 == *layer);
            format!(
                "database {database}, {}, {}",
                layer.map_or("no layer", layer_name),
                shown(key)
            )
        }
        _ => format!("the key {}", shown(key)),
    }
}
