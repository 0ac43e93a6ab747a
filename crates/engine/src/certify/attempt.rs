//! One attempt of an optimistic transaction: its reads and writes, their certification, and the
//! application of its writes.
//!
//! A transaction commits if nothing it read was written between its read version and its commit.
//! Present rows carry the version that wrote them; for absent ones the engine keeps recent clears
//! (`changes`). So a point is checked by one look-up and a range by a descent past what is older. A
//! read version older than the kept conflict history is answered `TooOld`.

use std::collections::BTreeMap;

use quartet_model::{KeyRange, Version};
use quartet_store::Read;

use crate::conflicts::full_keys::FullKeys;
use crate::partition::state::PartitionState;
use crate::partition::transaction::Transaction;
use crate::space::SPACE_BYTES;

/// The remains of an attempt after the layer's code has ended.
pub(crate) struct Attempt {
    pub read_version: Version,
    pub points_read: FullKeys,
    pub ranges_read: Vec<KeyRange>,
    /// By full key.
    pub writes: BTreeMap<Vec<u8>, Write>,
    pub deletes: bool,
    /// Its commit version is greater than this.
    pub above_micros: u64,
}

/// A row to write: its new value, `None` for a clear, and where the commit version goes.
pub(crate) struct Write {
    pub value: Option<Vec<u8>>,
    pub key_stamps: Vec<Stamp>,
    pub value_stamps: Vec<Stamp>,
}

impl Write {
    pub fn plain(value: Option<Vec<u8>>) -> Write {
        Write {
            value,
            key_stamps: Vec::new(),
            value_stamps: Vec::new(),
        }
    }

    fn is_stamped(&self) -> bool {
        !(self.key_stamps.is_empty() && self.value_stamps.is_empty())
    }
}

/// Eight bytes to be replaced by the commit version, in the layer's spelling. Until the commit the
/// layer has its own placeholder in them.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Offset of the eight bytes.
    pub offset: usize,
    /// How the layer spells a version.
    pub bytes: fn(Version) -> [u8; 8],
}

impl Stamp {
    fn fill(stamps: &[Stamp], target: &mut [u8], version: Version) {
        for stamp in stamps {
            target[stamp.offset..stamp.offset + 8].copy_from_slice(&(stamp.bytes)(version));
        }
    }
}

/// A key that was read has been written since, or the evidence has been dropped.
pub(crate) struct Changed;

impl Attempt {
    pub fn certify(&self, state: &PartitionState, prefix: &[u8]) -> Result<(), Changed> {
        // Every change that is evidence against a reader has a version of its own.
        if state.last_version() == self.read_version {
            return Ok(());
        }
        if !state.changes.can_certify(prefix, self.read_version) {
            return Err(Changed);
        }
        for key in self.points_read.iter() {
            unchanged_point(state, key, self.read_version)?;
        }
        for range in &self.ranges_read {
            unchanged_range(state, range, self.read_version)?;
        }
        Ok(())
    }

    /// Returns the commit version, or zero if it is neither returned to the caller nor stamped.
    pub fn write_to(
        &mut self,
        target: &mut Transaction<'_>,
        tells_version: bool,
    ) -> Result<Version, std::convert::Infallible> {
        if self.deletes {
            target.deletes();
        }
        let needs_version = tells_version || self.writes.values().any(Write::is_stamped);
        let version = if needs_version {
            target.commit_version()
        } else {
            Version::ZERO
        };
        for (mut key, mut write) in std::mem::take(&mut self.writes) {
            Stamp::fill(&write.key_stamps, &mut key, version);
            match &mut write.value {
                Some(value) => {
                    Stamp::fill(&write.value_stamps, value, version);
                    target.set(&key[SPACE_BYTES..], value);
                }
                None => drop(target.clear(&key[SPACE_BYTES..])),
            }
        }
        Ok(version)
    }
}

fn unchanged_point(state: &PartitionState, key: &[u8], read_version: Version) -> Result<(), Changed> {
    // A row that cannot be read may have changed.
    let present = state.store.get(key).map_err(|_| Changed)?.map(|row| row.version());
    let declared = state.changes.newest_declared_at(key);
    let newest = present
        .unwrap_or_default()
        .max(state.changes.newest_at(key))
        .max(declared);
    if newest > read_version { Err(Changed) } else { Ok(()) }
}

pub(crate) fn unchanged_range(state: &PartitionState, range: &KeyRange, read_version: Version) -> Result<(), Changed> {
    if range.is_empty() {
        return Ok(());
    }
    let declared = state.changes.newest_declared(&range.start, &range.end);
    if state.changes.newest_in(&range.start, &range.end).max(declared) > read_version {
        return Err(Changed);
    }
    // Removals are known by now, and a range that cannot be read may have changed.
    match state.store.has_newer(&range.start, &range.end, read_version) {
        Ok(false) => Ok(()),
        Ok(true) | Err(_) => Err(Changed),
    }
}
