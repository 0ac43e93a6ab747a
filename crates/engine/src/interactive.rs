//! Interactive transactions: a client reads at a version for as long as it likes, and then sends what it read and what it
//! writes, to be certified and applied together.
//!
//! The client says what it depends on (read conflict ranges) and what others must take as written by it (write conflict
//! ranges, beyond what its mutations write). Certification is that of `optimistic`: a conflict is a change of something
//! read, after the read version. A read version whose evidence is gone is answered `TooOld`.

use std::sync::atomic::Ordering;

use quartet_model::{AtomicOperation, KeyRange, Version};

use crate::home::{ExecuteError, HomeState};
use crate::optimistic::unchanged_range;
use crate::transaction::Transaction;
use crate::{Engine, Hold, Home, Reader, Space};

/// Why `commit` refused; nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitError {
    /// Something it read was written since: read again and retry. Carries the positions, in `read_conflicts`, of the ranges
    /// that changed: all of them if the request asked for that, else none.
    Conflict(Vec<usize>),
    /// The read version is outside the conflict window: read again and retry.
    TooOld,
    /// The read version is newer than any commit: the caller made it up.
    FutureVersion,
    /// See [`ExecuteError::TooLarge`].
    TooLarge,
    /// See [`ExecuteError::DiskFull`].
    DiskFull,
}

/// A write of an interactive transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    Set {
        key: Vec<u8>,
        value: Vec<u8>,
    },
    Clear {
        key: Vec<u8>,
    },
    ClearRange {
        range: KeyRange,
    },
    /// Computed from the value at commit.
    Atomic {
        operation: AtomicOperation,
        key: Vec<u8>,
        operand: Vec<u8>,
    },
    /// The versionstamp overwrites ten bytes of the key. Precondition: `offset + VERSIONSTAMP_BYTES <= key.len()`.
    SetVersionstampedKey {
        key: Vec<u8>,
        offset: usize,
        value: Vec<u8>,
    },
    /// The versionstamp overwrites ten bytes of the value. Precondition: `offset + VERSIONSTAMP_BYTES <= value.len()`.
    SetVersionstampedValue {
        key: Vec<u8>,
        value: Vec<u8>,
        offset: usize,
    },
}

pub const VERSIONSTAMP_BYTES: usize = 10;

/// What a transaction that committed at `version` is known by: the version, big-endian, and its position among the
/// transactions of that version, which is zero because each has a version of its own.
pub fn versionstamp(version: Version) -> [u8; VERSIONSTAMP_BYTES] {
    let mut stamp = [0; VERSIONSTAMP_BYTES];
    stamp[..8].copy_from_slice(&version.0.to_be_bytes());
    stamp
}

/// An interactive transaction, ready to be judged.
#[derive(Clone, Debug, Default)]
pub struct CommitRequest {
    pub read_version: Version,
    /// What it read. Empty: it commits unconditionally.
    pub read_conflicts: Vec<KeyRange>,
    /// What others must consider written by it, beyond what its mutations write.
    pub write_conflicts: Vec<KeyRange>,
    pub mutations: Vec<Mutation>,
    /// A refusal is to name all ranges that changed.
    pub report_conflicts: bool,
}

impl CommitRequest {
    fn certify(&self, state: &HomeState, prefix: &[u8]) -> Result<(), CommitError> {
        if self.read_version > state.last_version() {
            return Err(CommitError::FutureVersion);
        }
        let names_version = self.read_version > Version::ZERO || !self.read_conflicts.is_empty();
        if names_version && !state.changes.can_judge(prefix, self.read_version) {
            return Err(CommitError::TooOld);
        }
        let mut changed = self.read_conflicts.iter().enumerate().filter(|(_, range)| {
            let range = prefixed(prefix, range);
            unchanged_range(state, &range, self.read_version).is_err()
        });
        match changed.next() {
            None => Ok(()),
            Some(_) if !self.report_conflicts => Err(CommitError::Conflict(Vec::new())),
            Some((first, _)) => {
                let all = std::iter::once(first).chain(changed.map(|(index, _)| index));
                Err(CommitError::Conflict(all.collect()))
            }
        }
    }

    fn writes_nothing(&self) -> bool {
        self.mutations.is_empty() && self.write_conflicts.is_empty()
    }
}

impl Engine {
    /// See [`Home::read_version`].
    pub fn read_version(&self, space: Space) -> Reader {
        self.home().read_version(space)
    }

    /// See [`Home::commit`].
    pub fn commit(&self, space: Space, request: &CommitRequest) -> Result<(Version, Hold), CommitError> {
        self.home().commit(space, request)
    }
}

impl Home<'_> {
    /// The state of one space at the latest commit, for an interactive transaction that will commit against its version. What
    /// it shows may not be told before the hold is durable.
    pub fn read_version(&mut self, space: Space) -> Reader {
        let now_micros = self.now_micros();
        self.state().interactive_reader(now_micros);
        self.reader(space)
    }

    /// Certifies an interactive transaction and applies its writes. The version is where it committed; of one that writes
    /// nothing, the newest at which what it read still held.
    pub fn commit(&mut self, space: Space, request: &CommitRequest) -> Result<(Version, Hold), CommitError> {
        let prefix = space.prefix();
        request.certify(self.state(), &prefix).inspect_err(|_| {
            self.statistics().conflicts.fetch_add(1, Ordering::Relaxed);
        })?;
        if request.writes_nothing() {
            return Ok((self.last_version(), self.latest_hold(space)));
        }
        let committed = self.execute(space, |target| -> Result<Version, std::convert::Infallible> {
            request.mutations.iter().for_each(|mutation| mutation.apply(target));
            Ok(target.commit_version())
        });
        let (version, hold) = match committed {
            Ok(committed) => committed,
            Err(ExecuteError::TooLarge(_)) => return Err(CommitError::TooLarge),
            Err(ExecuteError::DiskFull(_)) => return Err(CommitError::DiskFull),
            Err(ExecuteError::Layer(never, _)) => match never {},
        };
        for range in &request.write_conflicts {
            self.state().changes.declare(&prefixed(&prefix, range), version);
        }
        Ok((version, hold))
    }
}

fn prefixed(prefix: &[u8], range: &KeyRange) -> KeyRange {
    KeyRange::new([prefix, &range.start].concat(), [prefix, &range.end].concat())
}

impl Mutation {
    fn apply(&self, target: &mut Transaction<'_>) {
        match self {
            Mutation::Set { key, value } => drop(target.set(key, value)),
            Mutation::Clear { key } => drop(target.clear(key)),
            Mutation::ClearRange { range } => drop(target.clear_range(&range.start, &range.end)),
            Mutation::Atomic {
                operation,
                key,
                operand,
            } => {
                let old = target.get(key);
                match operation.apply(old.as_ref().map(|row| row.value()), operand) {
                    Some(new) => drop(target.set(key, &new)),
                    None => drop(target.clear(key)),
                }
            }
            Mutation::SetVersionstampedKey { key, offset, value } => {
                let key = stamped(key, *offset, target);
                target.set(&key, value);
            }
            Mutation::SetVersionstampedValue { key, value, offset } => {
                let value = stamped(value, *offset, target);
                target.set(key, &value);
            }
        }
    }
}

fn stamped(bytes: &[u8], offset: usize, target: &mut Transaction<'_>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[offset..offset + VERSIONSTAMP_BYTES].copy_from_slice(&versionstamp(target.commit_version()));
    bytes
}
