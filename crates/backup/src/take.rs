//! Takes a backup: from a source of rows and records, to a target.
//!
//! Parts first, then the manifest that names them: an interrupted step is no backup, and the next
//! one starts where the last whole step ended. One thread requests rows, another verifies them, and
//! a third writes a part while the next one gathers: memory holds two parts and a few pieces.
//!
//! If two run at the same time, the first to write a manifest owns that number. The other fails and
//! discards its step: parts of different runs have different names, and a part that another
//! manifest may name is never removed.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use quartet_model::{EffectsReader, LogSequence, Version, format, hexadecimal};
use quartet_store::StateHasher;
use xxhash_rust::xxh3::xxh3_128;

use crate::frame::{Frame, Frames, PART_HEADER_BYTES, RowBytes, part_header};
use crate::manifest::hex;
use crate::{Anchor, Archive, BackupError, BackupStart, Chain, DatabaseName, Kind, Manifest, Part, Target};

/// The interval between bases, if older versions are to be removed at some time.
const BASE_EVERY: Duration = Duration::from_hours(24);
/// Size at which a part is closed.
const PART_BYTES: usize = 16 << 20;
/// Size at which a step of the log is closed.
const STEP_BYTES: u64 = 256 << 20;
/// Bytes per request. They are copied and sent by a thread that serves other connections too: with
/// two megabytes at a time, those waited for a millisecond and more.
const PIECE_BYTES: usize = 256 << 10;

/// The source of a backup. Its frames are those of [`Session`](crate::Session).
pub trait Source: Send {
    /// Continues after `anchor`, or starts with a snapshot; always with a snapshot if `is_full`.
    fn begin(&mut self, anchor: Option<Anchor>, is_full: bool) -> Result<BackupStart, BackupError>;
    /// Returns rows after a key.
    fn rows(&mut self, after: Option<&[u8]>, bytes_max: usize) -> Result<Vec<u8>, BackupError>;
    /// Records from a sequence on.
    fn log(&mut self, from: LogSequence, bytes_max: usize) -> Result<Vec<u8>, BackupError>;
    /// The time, in microseconds since the Unix epoch.
    fn now_micros(&self) -> u64;
}

/// How a backup is taken.
#[derive(Clone, Debug, Default)]
pub struct BackupOptions {
    /// Starts a new chain with all rows, also if the log reaches back to the last step.
    pub full: bool,
    /// Go no faster.
    pub bytes_per_second: Option<u64>,
    /// After the first step, adds another each time this has passed, until `go_on` returns false.
    pub follow: Option<Duration>,
    /// Keeps every version younger than this: at the start, removes the files that only older
    /// versions need, and takes all rows again once the newest base is a day old, so that its
    /// predecessors can be removed later. `None`: nothing is removed.
    pub keep: Option<Duration>,
}

/// Progress of a backup.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes that have been taken.
    pub bytes: u64,
    /// About how many there are; zero if that is not known.
    pub bytes_total: u64,
}

/// The additions of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupSummary {
    /// Steps.
    pub steps: Vec<u64>,
    /// A base was among them.
    pub is_full: bool,
    /// Bytes of all parts.
    pub bytes: u64,
    /// The newest version that the target holds.
    pub version: u64,
    /// The first record of the log that the target does not hold.
    pub next_sequence: LogSequence,
    /// The gap before a base that does not continue the previous chain.
    pub gap: Option<Gap>,
}

/// The log did not lead from one chain to the next: what was between them is in no backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The newest version that is covered before it.
    pub after: Version,
    /// The version of the next base. Not above `after`: the server is another, or was restored to
    /// an earlier version.
    pub before: Version,
}

/// Adds new records to the target, and all rows if they are requested or the log no longer reaches
/// back to the target's state. Before the rows, the old chain gets the log up to their version, so
/// that no version is missing between the two. `go_on` is called after each step and at intervals,
/// and returns whether to continue.
pub fn take(
    target: &dyn Target,
    source: &mut dyn Source,
    options: &BackupOptions,
    progress: &mut dyn FnMut(Progress),
    go_on: &mut dyn FnMut(&BackupSummary) -> bool,
) -> Result<BackupSummary, BackupError> {
    std::thread::scope(|scope| take_in(scope, target, source, options, progress, go_on))
}

fn take_in<'s, 'e>(
    scope: &'s Scope<'s, 'e>,
    target: &'e dyn Target,
    source: &mut dyn Source,
    options: &BackupOptions,
    progress: &mut dyn FnMut(Progress),
    go_on: &mut dyn FnMut(&BackupSummary) -> bool,
) -> Result<BackupSummary, BackupError> {
    let archive = Archive::read(target)?;
    let covered = archive.chains()?.last().map(Chain::covered);
    let mut leftovers = archive.leftovers.clone();
    if target.is_held() {
        remove(target, &mut leftovers)?;
    }
    let is_full = options.full || options.keep.is_some() && archive.is_base_older(source.now_micros(), BASE_EVERY)?;
    if let Some(keep) = options.keep {
        let keep = u64::try_from(keep.as_micros()).unwrap_or(u64::MAX);
        let oldest = source.now_micros().saturating_sub(keep);
        archive.remove_before(target, Version(oldest))?;
    }
    let newest = archive.newest();
    let anchor = newest.and_then(|(manifest, _)| manifest.anchor.clone());
    let start = source.begin(anchor.clone(), is_full)?;
    let mut taking = BackupRun {
        scope,
        target,
        source,
        run: run_name(),
        leftovers,
        number: archive.next_number(),
        previous: newest.map(|(_, hash)| hash.clone()),
        version: newest.map_or(0, |(manifest, _)| manifest.version),
        next: LogSequence(start.next_sequence),
        taken: BackupSummary::default(),
        passing: Passing {
            pace: Pace::new(options.bytes_per_second),
            bytes: 0,
            bytes_total: start.snapshot_bytes,
            progress,
        },
    };
    if let (Some(anchor), Some(last)) = (anchor, start.last_before_snapshot) {
        taking.end_chain(LogSequence(anchor.sequence), LogSequence(last))?;
    }
    if let Some(version) = start.snapshot {
        let before = Version(version);
        let stands_alone = |after: &Version| start.last_before_snapshot.is_none() && *after != before;
        taking.taken.gap = covered.filter(stands_alone).map(|after| Gap { after, before });
        taking.base(version, &start)?;
    }
    loop {
        let stepped = taking.log_step(EVERYTHING)?;
        (taking.taken.version, taking.taken.next_sequence) = (taking.version, taking.next);
        if stepped == Stepped::More {
            continue;
        }
        let Some(interval) = options.follow else { break };
        let due = Instant::now() + interval;
        while Instant::now() < due {
            if !go_on(&taking.taken) {
                return Ok(taking.taken);
            }
            std::thread::sleep(PAUSE.min(interval));
        }
    }
    Ok(taking.taken)
}

fn remove(target: &dyn Target, names: &mut Vec<String>) -> Result<(), BackupError> {
    for name in names.drain(..) {
        target.remove(&name).map_err(BackupError::target(&name))?;
    }
    Ok(())
}

/// A different name for each run.
fn run_name() -> String {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    hexadecimal(&bytes)
}

/// Above every record.
const EVERYTHING: LogSequence = LogSequence(u64::MAX);
const PAUSE: Duration = Duration::from_millis(200);

#[derive(PartialEq, Eq)]
enum Stepped {
    /// All that is durable, or all that is wanted, has been taken.
    UpToDate,
    More,
}

struct BackupRun<'a, 's, 'e> {
    scope: &'s Scope<'s, 'e>,
    target: &'e dyn Target,
    source: &'a mut dyn Source,
    /// In the names of its parts.
    run: String,
    /// Parts that no manifest names, and that none will once this run has written one.
    leftovers: Vec<String>,
    number: u64,
    previous: Option<String>,
    version: u64,
    next: LogSequence,
    taken: BackupSummary,
    passing: Passing<'a>,
}

/// Accounting of transferred bytes: their number, their rate, and the observer.
struct Passing<'a> {
    pace: Pace,
    bytes: u64,
    bytes_total: u64,
    progress: &'a mut dyn FnMut(Progress),
}

/// Pieces of rows that wait to be verified.
const PIECES_AHEAD: usize = 8;

impl<'s, 'e> BackupRun<'_, 's, 'e> {
    /// Adds the log after `anchor` up to `last`, which ends the old chain.
    fn end_chain(&mut self, anchor: LogSequence, last: LogSequence) -> Result<(), BackupError> {
        self.next = anchor.next();
        while self.log_step(last)? == Stepped::More {}
        match self.next > last {
            true => Ok(()),
            false => Err(BackupError::Source(format!("its log ended before record {}", last.0))),
        }
    }

    fn base(&mut self, version: u64, start: &BackupStart) -> Result<(), BackupError> {
        let mut parts = self.parts();
        let mut hasher = StateHasher::new();
        let mut rows = 0;
        let piece_bytes = self.passing.pace.piece_bytes();
        let (source, passing) = (&mut *self.source, &mut self.passing);
        std::thread::scope(|scope| {
            let (give, pieces) = sync_channel(PIECES_AHEAD);
            scope.spawn(move || give_rows(source, piece_bytes, &give));
            for piece in pieces {
                let bytes = piece?;
                each_row(&bytes, |row| {
                    hasher.push_parts(row.key, row.value, row.version);
                    rows += 1;
                })?;
                passing.keep(&mut parts, &bytes)?;
            }
            Ok::<(), BackupError>(())
        })?;
        let manifest = Manifest {
            kind: Kind::Base,
            previous: self.previous.clone().filter(|_| start.last_before_snapshot.is_some()),
            version,
            first_sequence: start.next_sequence,
            anchor: start.anchor.clone(),
            rows,
            state_hash: hex(hasher.finish()),
            databases: start.databases.clone(),
            ..self.manifest()
        };
        self.version = version;
        self.next = LogSequence(start.next_sequence);
        self.taken.is_full = true;
        self.finish(parts, manifest)
    }

    /// Adds records up to `last`, and further ones in the same frames.
    fn log_step(&mut self, last: LogSequence) -> Result<Stepped, BackupError> {
        let mut parts = self.parts();
        let first = self.next;
        let mut anchor = None;
        let mut stepped = Stepped::UpToDate;
        while self.next <= last {
            let bytes = self.source.log(self.next, self.passing.pace.piece_bytes())?;
            if bytes.is_empty() {
                break;
            }
            let mut frames = received(&bytes);
            while let Some(frame) = frames.next()? {
                let Frame::Record { sequence, payload } = frame else {
                    return Err(BackupError::Source("it gave something else than records".into()));
                };
                if sequence != self.next {
                    return Err(BackupError::Source(format!("it left out record {}", self.next.0)));
                }
                self.next = sequence.next();
                self.version = self.version.max(newest_version(payload));
                anchor = Some((sequence.0, xxh3_128(payload)));
            }
            self.passing.keep(&mut parts, &bytes)?;
            if parts.bytes >= STEP_BYTES {
                stepped = Stepped::More;
                break;
            }
        }
        let Some((sequence, digest)) = anchor else {
            return Ok(stepped);
        };
        let manifest = Manifest {
            kind: Kind::Log,
            first_sequence: first.0,
            anchor: Some(Anchor {
                sequence,
                digest: hex(digest),
            }),
            ..self.manifest()
        };
        self.finish(parts, manifest)?;
        Ok(stepped)
    }

    /// A manifest without content.
    fn manifest(&self) -> Manifest {
        Manifest {
            format: format::written(),
            number: self.number,
            kind: Kind::Log,
            previous: self.previous.clone(),
            written_micros: 0,
            version: self.version,
            first_sequence: 0,
            anchor: None,
            rows: 0,
            state_hash: String::new(),
            databases: Vec::<DatabaseName>::new(),
            parts: Vec::new(),
        }
    }

    fn parts(&self) -> Parts<'s, 'e> {
        let name = format!("part-{:010}-{}", self.number, self.run);
        Parts::new(self.scope, self.target, name)
    }

    fn finish(&mut self, mut parts: Parts<'s, 'e>, mut manifest: Manifest) -> Result<(), BackupError> {
        parts.close()?;
        parts.wait()?;
        manifest.parts = parts.closed;
        manifest.written_micros = self.source.now_micros();
        let bytes = manifest.encode();
        self.previous = Some(hex(xxh3_128(&bytes)));
        let name = Manifest::name(self.number);
        match self.target.put_new(&name, bytes) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut own = manifest.parts.into_iter().map(|part| part.name).collect();
                remove(self.target, &mut own)?;
                return Err(BackupError::Address(format!(
                    "another backup into the same target at the same time has written {name}: run this backup again"
                )));
            }
            put => put.map_err(BackupError::target(&name))?,
        }
        remove(self.target, &mut self.leftovers)?;
        self.taken.steps.push(self.number);
        self.taken.bytes = self.passing.bytes;
        self.number += 1;
        Ok(())
    }
}

impl Passing<'_> {
    fn keep(&mut self, parts: &mut Parts<'_, '_>, frames: &[u8]) -> Result<(), BackupError> {
        parts.add(frames)?;
        self.bytes += frames.len() as u64;
        (self.progress)(Progress {
            bytes: self.bytes,
            bytes_total: self.bytes_total,
        });
        self.pace.took(frames.len());
        Ok(())
    }
}

/// Sends all rows, a piece at a time, until the receiver is dropped.
fn give_rows(source: &mut dyn Source, piece_bytes: usize, give: &SyncSender<Result<Vec<u8>, BackupError>>) {
    let mut last_key = None::<Vec<u8>>;
    loop {
        let rows = source.rows(last_key.as_deref(), piece_bytes);
        let outcome = rows.and_then(|bytes| Ok((last_key_of(&bytes)?, bytes)));
        let (last, piece) = match outcome {
            Ok((None, _)) => return,
            Ok((last, bytes)) => (last, Ok(bytes)),
            Err(error) => (None, Err(error)),
        };
        if give.send(piece).is_err() || last.is_none() {
            return;
        }
        last_key = last;
    }
}

/// `None` if there are no rows.
fn last_key_of(bytes: &[u8]) -> Result<Option<Vec<u8>>, BackupError> {
    let mut last: &[u8] = &[];
    let mut count = 0;
    each_row(bytes, |row| (last, count) = (row.key, count + 1))?;
    Ok((count > 0).then(|| last.to_vec()))
}

fn each_row<'b>(bytes: &'b [u8], mut visit: impl FnMut(RowBytes<'b>)) -> Result<(), BackupError> {
    let mut frames = received(bytes);
    while let Some(frame) = frames.next()? {
        let Frame::Rows(mut rows) = frame else {
            return Err(BackupError::Source("it gave something else than rows".into()));
        };
        while let Some(row) = rows.next().map_err(|reason| BackupError::Source(reason.into()))? {
            visit(row);
        }
    }
    Ok(())
}

/// The parts of one step.
struct Parts<'s, 'e> {
    scope: &'s Scope<'s, 'e>,
    target: &'e dyn Target,
    /// The prefix of their names.
    name: String,
    open: Vec<u8>,
    /// The newest that was closed.
    writing: Option<ScopedJoinHandle<'s, Result<Part, BackupError>>>,
    closed: Vec<Part>,
    bytes: u64,
}

impl<'s, 'e> Parts<'s, 'e> {
    fn new(scope: &'s Scope<'s, 'e>, target: &'e dyn Target, name: String) -> Parts<'s, 'e> {
        Parts {
            scope,
            target,
            name,
            open: empty_part(),
            writing: None,
            closed: Vec::new(),
            bytes: 0,
        }
    }

    fn add(&mut self, frames: &[u8]) -> Result<(), BackupError> {
        self.open.extend_from_slice(frames);
        self.bytes += frames.len() as u64;
        match self.open.len() >= PART_BYTES {
            true => self.close(),
            false => Ok(()),
        }
    }

    /// Closes the open part, which is written while the next one gathers.
    fn close(&mut self) -> Result<(), BackupError> {
        if self.open.len() == PART_HEADER_BYTES {
            return Ok(());
        }
        self.wait()?;
        let bytes = std::mem::replace(&mut self.open, empty_part());
        let (target, name) = (self.target, format!("{}-{:06}", self.name, self.closed.len()));
        self.writing = Some(self.scope.spawn(move || write_part(target, name, bytes)));
        Ok(())
    }

    /// Waits for the part that is written.
    fn wait(&mut self) -> Result<(), BackupError> {
        if let Some(writing) = self.writing.take() {
            let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            self.closed.push(written?);
        }
        Ok(())
    }
}

/// With room for a part, which is otherwise copied again and again while it grows.
fn empty_part() -> Vec<u8> {
    let mut part = Vec::with_capacity(PART_BYTES + 2 * PIECE_BYTES);
    part.extend_from_slice(&part_header());
    part
}

fn write_part(target: &dyn Target, name: String, bytes: Vec<u8>) -> Result<Part, BackupError> {
    let part = Part {
        bytes: bytes.len() as u64,
        digest: hex(xxh3_128(&bytes)),
        name,
    };
    target.put(&part.name, bytes).map_err(BackupError::target(&part.name))?;
    Ok(part)
}

/// Limits the average rate since the start to a number of bytes per second.
struct Pace {
    bytes_per_second: Option<u64>,
    began: Instant,
    bytes: u64,
}

impl Pace {
    fn new(bytes_per_second: Option<u64>) -> Pace {
        Pace {
            bytes_per_second: bytes_per_second.filter(|bytes| *bytes > 0),
            began: Instant::now(),
            bytes: 0,
        }
    }

    /// So that no wait is long: what waits at the other end is forgotten.
    fn piece_bytes(&self) -> usize {
        let second = self.bytes_per_second.unwrap_or(u64::MAX);
        second.min(PIECE_BYTES as u64) as usize
    }

    fn took(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if let Some(bytes_per_second) = self.bytes_per_second {
            let due = Duration::from_secs_f64(self.bytes as f64 / bytes_per_second as f64);
            std::thread::sleep(due.saturating_sub(self.began.elapsed()));
        }
    }
}

fn received(bytes: &[u8]) -> Frames<'_> {
    Frames {
        file: "what the server gave",
        offset: 0,
        unread: bytes,
    }
}

fn newest_version(payload: &[u8]) -> u64 {
    let mut transactions = EffectsReader::new(payload);
    let mut newest = 0;
    while let Ok(Some((version, _))) = transactions.next_transaction() {
        newest = newest.max(version.0);
    }
    newest
}
