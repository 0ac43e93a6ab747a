//! The contents of a target: chains, each a base and the log steps that continue it, and whether
//! they are sound.

use std::collections::BTreeMap;
use std::iter;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::Scope;
use std::time::Duration;

use quartet_model::{EffectsReader, Version};
use quartet_store::StateHasher;
use time::UtcDateTime;
use time::format_description::well_known::Rfc3339;
use xxhash_rust::xxh3::xxh3_128;

use crate::frame::{Frame, Frames};
use crate::manifest::hex;
use crate::{BackupError, Kind, Manifest, Part, Target};

/// The manifests of a target, sound each for itself.
pub struct Archive {
    /// By number, with the hash of the manifest's bytes.
    manifests: BTreeMap<u64, (Manifest, String)>,
    /// Files that no manifest names: what a backup has left that was ended in the middle.
    pub leftovers: Vec<String>,
}

/// A base, and the steps of the log that continue it.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The base first.
    pub steps: Vec<Manifest>,
    /// The version up to which the chain is complete.
    covered: Version,
    /// The previous chain reaches up to its base.
    follows: bool,
}

impl Archive {
    /// Reads all manifests.
    ///
    /// Errors: `Target`; `Damaged`; `Format`.
    pub fn read(target: &dyn Target) -> Result<Archive, BackupError> {
        let names = target.list().map_err(BackupError::target("the list of files"))?;
        let mut manifests = BTreeMap::new();
        for name in &names {
            let Some(number) = Manifest::number_in(name) else {
                continue;
            };
            let bytes = target.get(name).map_err(BackupError::target(name))?;
            let manifest = Manifest::decode(name, &bytes)?;
            if manifest.number != number {
                let file = name.clone();
                let reason = "the manifest is another's";
                return Err(BackupError::Damaged {
                    file,
                    offset: 0,
                    reason,
                });
            }
            manifests.insert(number, (manifest, hex(xxh3_128(&bytes))));
        }
        let is_named = |name: &String| {
            let mut parts = manifests.values().flat_map(|(manifest, _)| &manifest.parts);
            Manifest::number_in(name).is_some() || parts.any(|part| part.name == *name)
        };
        let is_ours = |name: &&String| name.starts_with("part-") || name.starts_with("manifest-");
        let leftovers = names.iter().filter(|name| is_ours(name) && !is_named(name));
        let leftovers = leftovers.cloned().collect();
        Ok(Archive { manifests, leftovers })
    }

    /// The number of the next step.
    pub fn next_number(&self) -> u64 {
        self.manifests.keys().next_back().map_or(1, |number| number + 1)
    }

    /// The newest step, and its hash.
    pub fn newest(&self) -> Option<&(Manifest, String)> {
        self.manifests.values().next_back()
    }

    /// All chains, oldest first. Steps before the first base belong to a removed chain.
    ///
    /// Errors: `Incomplete`.
    pub fn chains(&self) -> Result<Vec<Chain>, BackupError> {
        let mut chains: Vec<Chain> = Vec::new();
        let mut before: Option<(u64, &String)> = None;
        for (number, (manifest, hash)) in &self.manifests {
            let continues = manifest.kind == Kind::Log || manifest.previous.is_some();
            let follows = before
                .is_some_and(|(last, last_hash)| last + 1 == *number && manifest.previous.as_ref() == Some(last_hash));
            if continues && !follows && !chains.is_empty() {
                let missing = Manifest::name(number - 1);
                return Err(BackupError::Incomplete(format!(
                    "{missing}, or what it was, is missing"
                )));
            }
            let version = Version(manifest.version);
            if let Some(chain) = chains.last_mut().filter(|_| follows) {
                chain.covered = chain.covered.max(version);
            }
            match (manifest.kind, chains.last_mut()) {
                (Kind::Base, last) => {
                    let follows = follows && last.is_some();
                    chains.push(Chain {
                        steps: vec![manifest.clone()],
                        covered: version,
                        follows,
                    });
                }
                (Kind::Log, Some(chain)) => chain.steps.push(manifest.clone()),
                (Kind::Log, None) => {}
            }
            before = Some((*number, hash));
        }
        Ok(chains)
    }

    /// The chain that holds the state at `version`, or the newest.
    ///
    /// Errors: `NotCovered`; `Incomplete`.
    pub fn chain_at(&self, version: Option<Version>) -> Result<Chain, BackupError> {
        let chains = self.chains()?;
        let is_before = |chain: &&Chain| version.is_none_or(|version| chain.oldest() <= version);
        let Some(chain) = chains.iter().rev().find(is_before) else {
            let oldest = chains.first().map(Chain::oldest);
            return Err(BackupError::NotCovered(match oldest {
                None => "there is no backup".into(),
                Some(oldest) => format!("the oldest version that is covered is {}", with_time(oldest)),
            }));
        };
        if version.is_some_and(|version| version > chain.covered()) {
            let [oldest, covered] = [chain.oldest(), chain.covered()].map(with_time);
            let message = format!("versions are covered from {oldest} to {covered}");
            return Err(BackupError::NotCovered(message));
        }
        Ok(chain.clone())
    }

    /// Returns true if the newest base was written longer ago than `age`, or there is none.
    ///
    /// Errors: `Incomplete`.
    pub(crate) fn is_base_older(&self, now_micros: u64, age: Duration) -> Result<bool, BackupError> {
        let chains = self.chains()?;
        let written = chains.last().map_or(0, |chain| chain.base().written_micros);
        Ok(now_micros.saturating_sub(written) > age.as_micros() as u64)
    }

    /// Removes the steps that no version from `version` on needs, the oldest first and each before
    /// its parts: what is left is whole at any moment.
    ///
    /// Errors: `Incomplete`; `Target`.
    pub fn remove_before(&self, target: &dyn Target, version: Version) -> Result<(), BackupError> {
        let chains = self.chains()?;
        let Some(needed) = chains.iter().rev().find(|chain| chain.oldest() <= version) else {
            return Ok(());
        };
        for (number, (manifest, _)) in self.manifests.range(..needed.base().number) {
            let parts = manifest.parts.iter().map(|part| part.name.clone());
            for name in iter::once(Manifest::name(*number)).chain(parts) {
                target.remove(&name).map_err(BackupError::target(&name))?;
            }
        }
        Ok(())
    }
}

impl Chain {
    /// The base.
    pub fn base(&self) -> &Manifest {
        &self.steps[0]
    }

    /// The oldest version that can be restored.
    pub fn oldest(&self) -> Version {
        Version(self.base().version)
    }

    /// The newest version that can be restored: of its newest transaction, or of the base that
    /// follows.
    pub fn covered(&self) -> Version {
        self.covered
    }

    /// Returns true if the chain before it reaches up to its base. If not, what was between the two
    /// is in no backup.
    pub fn follows(&self) -> bool {
        self.follows
    }

    /// The first steps, as many as the state at `version` needs.
    pub fn up_to(mut self, version: Version) -> Chain {
        let needed = self.steps.iter().position(|step| step.version > version.0);
        let needed = needed.map_or(self.steps.len(), |index| index + 1);
        self.steps.truncate(needed.max(1));
        self
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.steps
            .iter()
            .flat_map(|step| &step.parts)
            .map(|part| part.bytes)
            .sum()
    }

    /// Reads everything, and sees that it is what was written: every checksum, the order and the
    /// hash of all rows, the order of all records.
    ///
    /// Errors: `Damaged`; `Incomplete`; `Target`.
    pub fn verify(&self, target: &dyn Target, progress: &mut dyn FnMut(u64)) -> Result<(), BackupError> {
        std::thread::scope(|scope| self.verify_parts(read_ahead(scope, target, &self.steps), progress))
    }

    fn verify_parts(&self, parts: PartsAhead<'_>, progress: &mut dyn FnMut(u64)) -> Result<(), BackupError> {
        let mut parts = parts.into_iter();
        let mut done = 0;
        let mut next = None;
        for step in &self.steps {
            let mut reading = Reading::new(step, next);
            for (part, bytes) in parts.by_ref().take(step.parts.len()) {
                let bytes = bytes?;
                let mut frames = Frames::of_part(&part.name, &bytes)?;
                while let Some(frame) = frames.next()? {
                    let judged = reading.frame(frame);
                    judged.map_err(|reason| damaged(&part.name, frames.offset, reason))?;
                }
                done += part.bytes;
                progress(done);
            }
            next = reading.end()?;
        }
        Ok(())
    }
}

/// The accumulated findings about a step.
struct Reading<'m> {
    step: &'m Manifest,
    hasher: StateHasher,
    rows: u64,
    /// Key of the last row, if there was one.
    last_key: Vec<u8>,
    /// Sequence of the next record, if it is known.
    next: Option<u64>,
    newest: u64,
}

impl Reading<'_> {
    fn new(step: &Manifest, next: Option<u64>) -> Reading<'_> {
        Reading {
            step,
            hasher: StateHasher::new(),
            rows: 0,
            last_key: Vec::new(),
            next,
            newest: 0,
        }
    }

    fn frame(&mut self, frame: Frame<'_>) -> Result<(), &'static str> {
        match (self.step.kind, frame) {
            (Kind::Base, Frame::Rows(mut rows)) => {
                while let Some(row) = rows.next()? {
                    if self.rows > 0 && &self.last_key[..] >= row.key {
                        return Err("rows are not in order before this byte");
                    }
                    self.last_key.clear();
                    self.last_key.extend_from_slice(row.key);
                    self.rows += 1;
                    self.hasher.push_parts(row.key, row.value, row.version);
                }
                Ok(())
            }
            (Kind::Log, Frame::Record { sequence, payload }) => {
                if self.next.is_some_and(|next| next != sequence.0) {
                    return Err("a record of the log is missing before this byte");
                }
                self.next = Some(sequence.0 + 1);
                let mut transactions = EffectsReader::new(payload);
                let malformed = |_| "a record before this byte is not one of the log's";
                while let Some((version, mut effects)) = transactions.next_transaction().map_err(malformed)? {
                    self.newest = self.newest.max(version.0);
                    while let Some(effect) = effects.next() {
                        effect.map_err(malformed)?;
                    }
                }
                Ok(())
            }
            _ => Err("a frame before this byte does not belong here"),
        }
    }

    /// Verifies the end of the step. Returns the record with which the next step continues.
    fn end(self) -> Result<Option<u64>, BackupError> {
        let file = Manifest::name(self.step.number);
        if self.step.kind == Kind::Log {
            return Ok(self.next);
        }
        if self.rows != self.step.rows || hex(self.hasher.finish()) != self.step.state_hash {
            return Err(damaged(
                &file,
                0,
                "the rows of its parts differ from the rows that were backed up",
            ));
        }
        Ok(Some(self.step.first_sequence))
    }
}

/// Parts with their bytes, in order; the last may be an error.
pub(crate) type PartsAhead<'s> = Receiver<(&'s Part, Result<Vec<u8>, BackupError>)>;

/// Reads the parts of all steps on a thread of the scope, a few ahead of the consumer, until the
/// consumer drops the receiver.
pub(crate) fn read_ahead<'s, 'e>(
    scope: &'s Scope<'s, 'e>,
    target: &'e dyn Target,
    steps: &'e [Manifest],
) -> PartsAhead<'e> {
    let (give, parts) = sync_channel(PARTS_AHEAD);
    scope.spawn(move || {
        for part in steps.iter().flat_map(|step| &step.parts) {
            let bytes = read_part(target, part);
            let is_last = bytes.is_err();
            if give.send((part, bytes)).is_err() || is_last {
                break;
            }
        }
    });
    parts
}

/// Number of waiting parts, while one is used and one more is read. A part may be as large as the
/// largest record, so they are few.
const PARTS_AHEAD: usize = 1;

/// Reads a part and verifies its bytes.
fn read_part(target: &dyn Target, part: &Part) -> Result<Vec<u8>, BackupError> {
    let bytes = target.get(&part.name).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => BackupError::Incomplete(format!("{} is missing", part.name)),
        _ => BackupError::target(&part.name)(source),
    })?;
    if hex(xxh3_128(&bytes)) == part.digest && bytes.len() as u64 == part.bytes {
        return Ok(bytes);
    }
    // Which byte it is, the frames know better.
    let mut frames = Frames::of_part(&part.name, &bytes)?;
    while frames.next()?.is_some() {}
    let offset = (bytes.len() as u64).min(part.bytes);
    Err(damaged(
        &part.name,
        offset,
        "it is shorter or longer than it was written, or another file",
    ))
}

fn damaged(file: &str, offset: u64, reason: &'static str) -> BackupError {
    BackupError::Damaged {
        file: file.to_owned(),
        offset,
        reason,
    }
}

/// A version, and the time that it is: versions are microseconds since the Unix epoch.
fn with_time(version: Version) -> String {
    let time = UtcDateTime::from_unix_timestamp_nanos(i128::from(version.0) * 1000).ok();
    let time = time.and_then(|time| time.format(&Rfc3339).ok());
    time.map_or_else(|| version.0.to_string(), |time| format!("{} ({time})", version.0))
}
