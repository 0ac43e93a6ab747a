//! Files: an RDB file, an append-only file, and the folder of several that Redis 7 keeps, with its
//! manifest.
//!
//! ```text
//! appendonlydir/NAME.manifest:  file NAME seq NUMBER type b | i | h     (base, increment, history: not needed any more)
//! a file: records of an RDB file, if it begins with one, then commands
//! ```
//!
//! Only the last file may end within a command or a transaction, as a server that lost its power
//! leaves it: the incomplete part was not committed, and is reported and left out.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::carrier::Carrier;
use crate::commands::Commands;
use crate::connection::Target;
use crate::error::{Error, Result};
use crate::progress::{self, Keeper, Progress, Step};
use crate::records::{Place, Records, bring};
use crate::watcher::Watcher;

const READ_BYTES: usize = 256 << 10;

/// The outcome of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    pub done: u64,
    pub rejected: u64,
}

/// Copies the file or the folder, from where an earlier run has stopped.
pub fn copy(path: &Path, target: &mut dyn Target, watcher: &mut dyn Watcher, merges: bool) -> Result<Copied> {
    let files = files_of(path)?;
    let source = name_of_source(path, &files)?;
    let progress = progress::prepare(target, &source, u64::from(quartet_wire_rdb::DATABASES), merges)?;
    let mut place = Begin::of(&files, progress)?;
    let bytes_max = files
        .iter()
        .filter_map(|file| file.metadata().ok())
        .map(|data| data.len())
        .sum();
    watcher.phase(if place.is_resumed { "going on" } else { "copying" }, Some(bytes_max));
    let begin = Step::File {
        name: file_name(&files[place.index]),
        offset: place.offset,
        db: place.db,
    };
    let mut carrier = Carrier::new(target, watcher, &source, begin, Keeper::Key);
    carrier.begin()?;
    let mut before_bytes = 0;
    for (index, file) in files.iter().enumerate() {
        if index >= place.index {
            let skip_before = if index == place.index { place.offset } else { 0 };
            let is_last = index + 1 == files.len();
            place.db = copy_file(
                file,
                &mut carrier,
                Part {
                    db: place.db,
                    skip_before,
                    before_bytes,
                    is_last,
                },
            )?;
        }
        before_bytes += file.metadata().map_or(0, |data| data.len());
    }
    let copied = Copied {
        done: carrier.done,
        rejected: carrier.rejected,
    };
    progress::finish(target)?;
    Ok(copied)
}

/// The start of a copy.
struct Begin {
    index: usize,
    offset: u64,
    db: u64,
    is_resumed: bool,
}

impl Begin {
    fn of(files: &[PathBuf], progress: Option<Progress>) -> Result<Begin> {
        let Some(Progress {
            step: Step::File { name, offset, db },
            ..
        }) = progress
        else {
            return Ok(Begin {
                index: 0,
                offset: 0,
                db: 0,
                is_resumed: false,
            });
        };
        let index = files.iter().position(|file| file_name(file) == name);
        let index =
            index.ok_or_else(|| Error::Source(format!("{name}, the file at the copy's position, is missing")))?;
        Ok(Begin {
            index,
            offset,
            db,
            is_resumed: true,
        })
    }
}

/// A file of several.
struct Part {
    db: u64,
    skip_before: u64,
    before_bytes: u64,
    is_last: bool,
}

/// Returns the database that its last command was for.
fn copy_file(path: &Path, carrier: &mut Carrier<'_>, part: Part) -> Result<u64> {
    let name = file_name(path);
    let mut file = File::open(path).map_err(|error| Error::file(path, error))?;
    let step = |offset, db| Step::File {
        name: name.clone(),
        offset,
        db,
    };
    let mut db = part.db;
    let mut offset = 0;
    if begins_with_records(&mut file, path)? {
        let mut records = Records::new(&name, file);
        let mut place = Place {
            db: 0,
            skip_before: part.skip_before,
        };
        bring(&mut records, carrier, &mut place, part.before_bytes, &step).map_err(|error| at_file(error, &name))?;
        offset = records.offset();
        db = if part.skip_before > offset { part.db } else { 0 };
        (_, file) = records.into_rest();
    }
    offset = offset.max(part.skip_before);
    file.seek(SeekFrom::Start(offset))
        .map_err(|error| Error::file(path, error))?;
    copy_commands(
        file,
        path,
        carrier,
        &Part {
            db,
            skip_before: offset,
            ..part
        },
    )
}

/// Maps an error for a file: an early end is damage, whereas a connection might have been restored.
fn at_file(error: Error, name: &str) -> Error {
    match error {
        Error::Link(text) => Error::Source(format!("{name} is not whole: {text}")),
        error => error,
    }
}

fn begins_with_records(file: &mut File, path: &Path) -> Result<bool> {
    let mut first = [0; 6];
    let mut count = 0;
    while count < first.len() {
        match file
            .read(&mut first[count..])
            .map_err(|error| Error::file(path, error))?
        {
            0 => break,
            more => count += more,
        }
    }
    file.seek(SeekFrom::Start(0))
        .map_err(|error| Error::file(path, error))?;
    Ok(first.starts_with(b"REDIS") || first == *b"VALKEY")
}

fn copy_commands(mut file: File, path: &Path, carrier: &mut Carrier<'_>, part: &Part) -> Result<u64> {
    let name = file_name(path);
    let mut commands = Commands::new(part.db);
    // Position after the last whole command, with its transaction.
    let (mut whole, mut whole_db) = (part.skip_before, part.db);
    let mut mark = carrier.mark();
    let (mut buffer, mut start, mut at) = (Vec::new(), 0, part.skip_before);
    loop {
        let applied = commands.take(&buffer[start..], carrier).map_err(|reason| {
            Error::Source(format!(
                "{name}, byte {at}: {reason}; an append-only file is repaired by redis-check-aof --fix"
            ))
        })?;
        if let Some((count, _)) = applied {
            start += count;
            at += count as u64;
            if !commands.is_in_transaction() {
                (whole, whole_db) = (at, commands.db);
                carrier.bytes_read = part.before_bytes + at;
                if carrier.is_full() {
                    carrier.bring_commands(Step::File {
                        name: name.clone(),
                        offset: whole,
                        db: whole_db,
                    })?;
                    if carrier.watcher.is_stopped() {
                        return Err(Error::Stopped);
                    }
                }
                mark = carrier.mark();
            }
            continue;
        }
        if read_more(&mut file, path, &mut buffer, &mut start)? == 0 {
            break;
        }
    }
    let lost = at + (buffer.len() - start) as u64 - whole;
    if lost > 0 && !part.is_last {
        return Err(Error::Source(format!(
            "{name} ends within a command, and is not the last file"
        )));
    }
    if lost > 0 {
        carrier.forget_behind(mark);
        carrier.watcher.note(&format!(
            "{name}: its last {lost} bytes are no whole command or transaction, and are left out"
        ));
    }
    carrier.bring_commands(Step::File {
        name,
        offset: whole,
        db: whole_db,
    })?;
    Ok(whole_db)
}

fn read_more(file: &mut File, path: &Path, buffer: &mut Vec<u8>, start: &mut usize) -> Result<usize> {
    buffer.drain(..*start);
    *start = 0;
    let old = buffer.len();
    buffer.resize(old + old.clamp(READ_BYTES, 64 << 20), 0);
    let count = file
        .read(&mut buffer[old..])
        .map_err(|error| Error::file(path, error))?;
    buffer.truncate(old + count);
    Ok(count)
}

/// The files, in reading order.
fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        File::open(path).map_err(|error| Error::file(path, error))?;
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(|error| Error::file(path, error))?;
    let mut manifests: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.extension().is_some_and(|extension| extension == "manifest"))
        .collect();
    let manifest = match (manifests.pop(), manifests.is_empty()) {
        (Some(manifest), true) => manifest,
        (None, _) => return Err(Error::Source(format!("{} holds no manifest", path.display()))),
        _ => {
            return Err(Error::Source(format!(
                "{} holds more than one manifest",
                path.display()
            )));
        }
    };
    let text = std::fs::read_to_string(&manifest).map_err(|error| Error::file(&manifest, error))?;
    let names = manifest_files(&text)
        .map_err(|line| Error::Source(format!("{}: a line that is not understood: {line}", manifest.display())))?;
    Ok(names.into_iter().map(|name| path.join(name)).collect())
}

/// The base's name, then the increments' names. The error is a line of unknown form.
fn manifest_files(text: &str) -> std::result::Result<Vec<String>, String> {
    let mut files: Vec<(bool, u64, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = |key: &str| words.chunks_exact(2).find(|pair| pair[0] == key).map(|pair| pair[1]);
        let (Some(name), Some(number), Some(kind)) = (value("file"), value("seq"), value("type")) else {
            return Err(line.into());
        };
        let name = name.trim_matches('"');
        let number = number.parse().map_err(|_| line.to_owned())?;
        match kind {
            _ if name.contains('/') => return Err(line.into()),
            "b" | "i" => files.push((kind == "i", number, name.into())),
            "h" => {}
            _ => return Err(line.into()),
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, _, name)| name).collect())
}

/// Identifies the copied source, so that a later run recognizes it. A folder's last file may grow,
/// and others may be added at its end.
fn name_of_source(path: &Path, files: &[PathBuf]) -> Result<String> {
    let first = files
        .first()
        .ok_or_else(|| Error::Source(format!("{} names no files", path.display())))?;
    let mut file = File::open(first).map_err(|error| Error::file(first, error))?;
    let mut head = Vec::new();
    Read::by_ref(&mut file)
        .take(4096)
        .read_to_end(&mut head)
        .map_err(|error| Error::file(first, error))?;
    let length = file.metadata().map_err(|error| Error::file(first, error))?.len();
    let sum = quartet_wire_rdb::crc64::crc64(&head);
    Ok(format!("{}, {length} bytes, {sum:016x}", file_name(first)))
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(|| "?".into(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_gives_base_and_increments_in_order() {
        let text = "file a.3.incr.aof seq 3 type i\nfile a.1.base.rdb seq 1 type b\nfile a.0.base.rdb seq 0 type h\nfile a.2.incr.aof seq 2 type i\n";
        let files = manifest_files(text).unwrap();
        assert_eq!(files, ["a.1.base.rdb", "a.2.incr.aof", "a.3.incr.aof"]);
        for line in [
            "file a",
            "file ../a seq 1 type b",
            "file a seq x type b",
            "file a seq 1 type z",
        ] {
            assert_eq!(manifest_files(line), Err(line.to_owned()));
        }
    }
}
