//! Taking a backup: from whoever gives rows and records, into a target.
//!
//! Parts first, then the manifest that names them: what was ended in the middle is no backup, and the next one begins where the last
//! whole step ended. Memory holds one part.
//!
//! Of two that run at the same time, the one that writes a manifest first has that number. The other ends there, with nothing of its own
//! kept: parts of different runs have different names, and nobody removes what another may still name.

use std::io;
use std::time::{Duration, Instant};

use quartet_model::{EffectsReader, LogSequence, Version};
use quartet_store::StateHasher;
use xxhash_rust::xxh3::xxh3_128;

use crate::frame::{FORMAT, Frame, Frames, PART_HEADER_BYTES, part_header};
use crate::manifest::hex;
use crate::{Anchor, Archive, BackupError, Begun, Chain, DatabaseName, Kind, Manifest, Part, Target};

/// A part is closed once it holds so much.
const PART_BYTES: usize = 16 << 20;
/// A step of the log is closed once it holds so much.
const STEP_BYTES: u64 = 256 << 20;
/// Asked for at once.
const PIECE_BYTES: usize = 2 << 20;

/// Gives what is to be backed up. Its frames are those of [`Session`](crate::Session).
pub trait Source {
    /// Goes on behind `anchor`, or begins with a snapshot; with one in any case if `is_full`.
    fn begin(&mut self, anchor: Option<Anchor>, is_full: bool) -> Result<Begun, BackupError>;
    /// Rows behind a key.
    fn rows(&mut self, after: Option<&[u8]>, bytes_max: usize) -> Result<Vec<u8>, BackupError>;
    /// Records from a sequence on.
    fn log(&mut self, from: LogSequence, bytes_max: usize) -> Result<Vec<u8>, BackupError>;
    /// The time, in microseconds since the Unix epoch.
    fn now_micros(&self) -> u64;
}

/// How a backup is taken.
#[derive(Clone, Debug, Default)]
pub struct Take {
    /// Begin anew with all rows, also if the log reaches back to the last step.
    pub full: bool,
    /// Go no faster.
    pub bytes_per_second: Option<u64>,
    /// After the first step, add another each time this has passed, until `take` is told to stop.
    pub follow: Option<Duration>,
}

/// How far it has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes that have been taken.
    pub bytes: u64,
    /// About how many there are; zero if that is not known.
    pub bytes_total: u64,
}

/// What one call has added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Steps.
    pub steps: Vec<u64>,
    /// A base was among them.
    pub is_full: bool,
    /// Bytes of all parts.
    pub bytes: u64,
    /// The newest version that the target holds.
    pub version: u64,
    /// A base stands alone behind what was there before.
    pub gap: Option<Gap>,
}

/// The log did not lead from one chain to the next: what was between them is in no backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The newest version that is covered before it.
    pub after: Version,
    /// The version of the base behind it. Not above `after`: the server is another, or was restored to an earlier version.
    pub before: Version,
}

/// Adds to the target what is new, and all rows if they are wanted or the log no longer reaches back to what the target holds. Before the
/// rows, the old chain gets the log up to their version, so that no version is left out between the two. `go_on` hears of each step and of
/// time that passes, and answers whether to go on.
pub fn take(
    target: &dyn Target,
    source: &mut dyn Source,
    options: &Take,
    progress: &mut dyn FnMut(Progress),
    go_on: &mut dyn FnMut(&Taken) -> bool,
) -> Result<Taken, BackupError> {
    let archive = Archive::read(target)?;
    let covered = archive.chains()?.last().map(Chain::covered);
    let mut leftovers = archive.leftovers.clone();
    if target.is_held() {
        remove(target, &mut leftovers)?;
    }
    let newest = archive.newest();
    let anchor = newest.and_then(|(manifest, _)| manifest.anchor.clone());
    let begun = source.begin(anchor.clone(), options.full)?;
    let mut taking = Taking {
        target,
        source,
        run: run_name(),
        leftovers,
        number: archive.next_number(),
        previous: newest.map(|(_, hash)| hash.clone()),
        version: newest.map_or(0, |(manifest, _)| manifest.version),
        next: LogSequence(begun.next_sequence),
        pace: Pace::new(options.bytes_per_second),
        taken: Taken::default(),
        bytes_total: begun.snapshot_bytes,
        progress,
    };
    if let (Some(anchor), Some(last)) = (anchor, begun.last_before_snapshot) {
        taking.end_chain(LogSequence(anchor.sequence), LogSequence(last))?;
    }
    if let Some(version) = begun.snapshot {
        let before = Version(version);
        let stands_alone = |after: &Version| begun.last_before_snapshot.is_none() && *after != before;
        taking.taken.gap = covered.filter(stands_alone).map(|after| Gap { after, before });
        taking.base(version, &begun)?;
    }
    loop {
        let stepped = taking.log_step(EVERYTHING)?;
        taking.taken.version = taking.version;
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

/// Another one each time.
fn run_name() -> String {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Behind every record.
const EVERYTHING: LogSequence = LogSequence(u64::MAX);
const PAUSE: Duration = Duration::from_millis(200);

#[derive(PartialEq, Eq)]
enum Stepped {
    /// All that is durable, or all that is wanted, has been taken.
    UpToDate,
    More,
}

struct Taking<'a> {
    target: &'a dyn Target,
    source: &'a mut dyn Source,
    /// In the names of its parts.
    run: String,
    /// Parts that no manifest names, and that none will once this run has written one.
    leftovers: Vec<String>,
    number: u64,
    previous: Option<String>,
    version: u64,
    next: LogSequence,
    pace: Pace,
    taken: Taken,
    bytes_total: u64,
    progress: &'a mut dyn FnMut(Progress),
}

impl Taking<'_> {
    /// Adds the log behind `anchor` up to `last`, which ends the old chain.
    fn end_chain(&mut self, anchor: LogSequence, last: LogSequence) -> Result<(), BackupError> {
        self.next = anchor.next();
        while self.log_step(last)? == Stepped::More {}
        match self.next > last {
            true => Ok(()),
            false => Err(BackupError::Source(format!("its log ended before record {}", last.0))),
        }
    }

    fn base(&mut self, version: u64, begun: &Begun) -> Result<(), BackupError> {
        let mut parts = Parts::new(format!("part-{:010}-{}", self.number, self.run));
        let mut hasher = StateHasher::new();
        let (mut rows, mut last_key) = (0, None::<Vec<u8>>);
        loop {
            let piece = self.pace.piece_bytes();
            let bytes = self.source.rows(last_key.as_deref(), piece)?;
            if bytes.is_empty() {
                break;
            }
            let mut frames = received(&bytes);
            while let Some(frame) = frames.next()? {
                let Frame::Rows(mut found) = frame else {
                    return Err(BackupError::Source("it gave something else than rows".into()));
                };
                while let Some(row) = found.next().map_err(|reason| BackupError::Source(reason.into()))? {
                    hasher.push(&row);
                    rows += 1;
                    last_key = Some(row.key().to_vec());
                }
            }
            self.keep(&mut parts, &bytes)?;
        }
        let manifest = Manifest {
            kind: Kind::Base,
            previous: self.previous.clone().filter(|_| begun.last_before_snapshot.is_some()),
            version,
            first_sequence: begun.next_sequence,
            anchor: begun.anchor.clone(),
            rows,
            state_hash: hex(hasher.finish()),
            databases: begun.databases.clone(),
            ..self.manifest()
        };
        self.version = version;
        self.next = LogSequence(begun.next_sequence);
        self.taken.is_full = true;
        self.finish(parts, manifest)
    }

    /// Adds records up to `last`, and those that come with them.
    fn log_step(&mut self, last: LogSequence) -> Result<Stepped, BackupError> {
        let mut parts = Parts::new(format!("part-{:010}-{}", self.number, self.run));
        let first = self.next;
        let mut anchor = None;
        let mut stepped = Stepped::UpToDate;
        while self.next <= last {
            let bytes = self.source.log(self.next, self.pace.piece_bytes())?;
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
            self.keep(&mut parts, &bytes)?;
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

    /// One that says nothing yet.
    fn manifest(&self) -> Manifest {
        Manifest {
            format: FORMAT,
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

    fn keep(&mut self, parts: &mut Parts, frames: &[u8]) -> Result<(), BackupError> {
        parts.open.extend_from_slice(frames);
        if parts.open.len() >= PART_BYTES {
            parts.close(self.target)?;
        }
        parts.bytes += frames.len() as u64;
        self.taken.bytes += frames.len() as u64;
        (self.progress)(Progress {
            bytes: self.taken.bytes,
            bytes_total: self.bytes_total,
        });
        self.pace.took(frames.len());
        Ok(())
    }

    fn finish(&mut self, mut parts: Parts, mut manifest: Manifest) -> Result<(), BackupError> {
        parts.close(self.target)?;
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
                    "another backup was taken into the same place at the same time, and has written {name}: begin this one anew"
                )));
            }
            put => put.map_err(BackupError::target(&name))?,
        }
        remove(self.target, &mut self.leftovers)?;
        self.taken.steps.push(self.number);
        self.number += 1;
        Ok(())
    }
}

/// The parts of one step.
struct Parts {
    /// What their names begin with.
    name: String,
    open: Vec<u8>,
    closed: Vec<Part>,
    bytes: u64,
}

impl Parts {
    fn new(name: String) -> Parts {
        Parts {
            name,
            open: part_header(),
            closed: Vec::new(),
            bytes: 0,
        }
    }

    fn close(&mut self, target: &dyn Target) -> Result<(), BackupError> {
        if self.open.len() == PART_HEADER_BYTES {
            return Ok(());
        }
        let bytes = std::mem::replace(&mut self.open, part_header());
        let part = Part {
            name: format!("{}-{:06}", self.name, self.closed.len()),
            bytes: bytes.len() as u64,
            digest: hex(xxh3_128(&bytes)),
        };
        target.put(&part.name, bytes).map_err(BackupError::target(&part.name))?;
        self.closed.push(part);
        Ok(())
    }
}

/// Keeps to so many bytes in a second, on the average since the beginning.
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
        rest: bytes,
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
