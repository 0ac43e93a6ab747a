//! Knows the sequencer's journal, replays it, and says what contradicts it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cluster::histories::Anomaly;
use quartet_log_replicated::model::{Change, Store};
use quartet_log_replicated::{Body, EVIDENCE_LASTS, Operation, Place, Record, StopReason};
use quartet_model::{Effect, EffectsReader, LogSequence, Version};

/// A violation of the cluster's guarantees.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("record {at} was written again")]
    WrittenAgain { at: u64 },
    #[error("record {at} was written behind record {last}")]
    Hole { at: u64, last: u64 },
    #[error("record {at} was trimmed, and {copies} nodes have synced it")]
    TrimmedWithoutCopies { at: u64, copies: usize },
    #[error("record {at} was appended, and the object that it points to is not in the store")]
    WithoutObject { at: u64 },
    #[error("version {version} was acknowledged, and is not in the log with what it wrote")]
    NotInTheLog { version: u64 },
    #[error(
        "node {node} answered a read as of version {found}, where {required} was acknowledged or read before it arrived"
    )]
    StaleRead { node: usize, found: u64, required: u64 },
    #[error("node {node} answered a read with what the log does not have")]
    PhantomRead { node: usize },
    #[error("node {node} acknowledged {0} ms after another's term began", after.as_millis())]
    AcknowledgedTooLong { node: usize, after: Duration },
    #[error("node {node} shows something else than the log at version {version}")]
    Diverged { node: usize, version: u64 },
    #[error("node {node} has another state hash than its home")]
    HashDiffers { node: usize },
    #[error("node {node} serves, and has another state hash than both others")]
    DivergedServes { node: usize },
    #[error("with the same records, node {node} has another state hash than node 0")]
    EndsDifferently { node: usize },
    #[error("the nodes did not come to the same record at the end{nodes}")]
    NeverAlike { nodes: String },
    #[error("node {node} stopped: {reason}")]
    Stopped { node: usize, reason: StopReason },
    #[error("node {node} reported record {synced} as synced, and opened at record {found}")]
    LostSynced { node: usize, synced: u64, found: u64 },
    #[error("lists: {0}")]
    Lists(Anomaly),
    #[error("node {node} cannot be opened: {why}")]
    NotOpened { node: usize, why: String },
    #[error("the accounts of node {node} hold {found}, those of the log {in_the_log}")]
    Money { node: usize, found: u64, in_the_log: u64 },
    #[error("versions do not ascend at {version}")]
    VersionAgain { version: u64 },
    #[error("nothing was acknowledged at the end{nodes}")]
    NoProgress { nodes: String },
}

/// How exact ages are: a tick of the world, and what an answer needs.
const TICK: Duration = Duration::from_millis(5);

/// A version and the value that it gave a key, or none.
type Written = (Version, Option<Vec<u8>>);

pub struct Judge {
    place: Place,
    read: usize,
    last: LogSequence,
    version: Version,
    group: Vec<u8>,
    /// Homes of new terms since the last call of `take_begun`, and the number of groups that those
    /// terms cut.
    begun: Vec<usize>,
    groups_cut: u64,
    trims: u64,
    objects: u64,
    /// The values of each key, by the version that gave it.
    rows: BTreeMap<Vec<u8>, Vec<Written>>,
    /// The newest version of each key that a client knows of.
    acknowledged: BTreeMap<Vec<u8>, Version>,
    trimmed_below: LogSequence,
    /// The start of each term, and the node that is its home.
    terms: Vec<(Duration, usize)>,
}

impl Judge {
    pub fn new(place: Place) -> Judge {
        Judge {
            place,
            read: 0,
            last: LogSequence::ZERO,
            version: Version::ZERO,
            group: Vec::new(),
            begun: Vec::new(),
            groups_cut: 0,
            trims: 0,
            objects: 0,
            rows: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            trimmed_below: LogSequence::ZERO,
            terms: Vec::new(),
        }
    }

    /// The log starts after a folder's last record, with this row of it.
    pub fn begins_with(&mut self, key: Vec<u8>, version: Version, value: Vec<u8>) {
        self.last = self.last.next();
        self.version = self.version.max(version);
        self.wrote(&key, version, Some(value));
    }

    /// The last record that was put.
    pub fn last(&self) -> LogSequence {
        self.last
    }

    /// Records below were dropped from the log.
    pub fn trimmed_below(&self) -> LogSequence {
        self.trimmed_below
    }

    /// Reads what is new in the journal. `synced`: each node's last record on disk for good.
    pub fn scan(&mut self, store: &Store, synced: &[LogSequence]) -> Result<(), Violation> {
        let journal = store.journal();
        for change in &journal[self.read..] {
            self.change(store, change, synced)?;
        }
        self.read = journal.len();
        Ok(())
    }

    fn change(&mut self, store: &Store, change: &Change, synced: &[LogSequence]) -> Result<(), Violation> {
        match &change.operation {
            Operation::Put { key, value, .. } => match self.place.sequence_of(key) {
                Some(at) => self.record(store, at, value, change.at),
                None => Ok(()),
            },
            Operation::Delete { until, .. } => match self.place.sequence_of(until) {
                Some(below) => self.trim(below, synced),
                None => Ok(()),
            },
        }
    }

    fn record(&mut self, store: &Store, at: LogSequence, bytes: &[u8], when: Duration) -> Result<(), Violation> {
        if at <= self.last {
            return Err(Violation::WrittenAgain { at: at.0 });
        }
        if at != self.last.next() {
            let last = self.last.0;
            return Err(Violation::Hole { at: at.0, last });
        }
        self.last = at;
        let record = Record::decode(bytes).expect("a record is put");
        match record.body {
            Body::Epoch(epoch) => self.happened(&epoch),
            Body::Chunk { index, count, bytes } => {
                self.group.extend_from_slice(&bytes);
                match index + 1 == count {
                    true => {
                        let epoch = std::mem::take(&mut self.group);
                        self.happened(&epoch)
                    }
                    false => Ok(()),
                }
            }
            Body::Term { floor } | Body::Founding { floor, .. } => {
                self.groups_cut += u64::from(!self.group.is_empty());
                self.group.clear();
                self.version = self.version.max(floor);
                let home = record.writer.node.0 as usize;
                self.terms.push((when, home));
                self.begun.push(home);
                Ok(())
            }
            Body::Object(pointer) => {
                let name = |piece| self.place.object_name(at, record.term, &pointer, piece);
                let pieces = (0..pointer.pieces()).filter_map(|piece| store.objects().get(&name(piece)));
                let epoch = pieces.flatten().copied().collect::<Vec<u8>>();
                if !pointer.fits(&epoch) {
                    return Err(Violation::WithoutObject { at: at.0 });
                }
                self.objects += 1;
                self.happened(&epoch)
            }
            Body::Mark | Body::Hash { .. } => Ok(()),
        }
    }

    fn happened(&mut self, epoch: &[u8]) -> Result<(), Violation> {
        let mut reader = EffectsReader::new(epoch);
        while let Some((version, mut effects)) = reader.next_transaction().expect("an engine has written it") {
            if version <= self.version {
                return Err(Violation::VersionAgain { version: version.0 });
            }
            self.version = version;
            while let Some(effect) = effects.next() {
                match effect.expect("an engine has written it") {
                    Effect::Set { key, value } => self.wrote(key, version, Some(value.to_vec())),
                    Effect::Clear { key } => self.wrote(key, version, None),
                    _ => unreachable!("the workload only sets and clears"),
                }
            }
        }
        Ok(())
    }

    fn wrote(&mut self, key: &[u8], version: Version, value: Option<Vec<u8>>) {
        self.rows.entry(key.to_vec()).or_default().push((version, value));
    }

    fn trim(&mut self, below: LogSequence, synced: &[LogSequence]) -> Result<(), Violation> {
        if below <= self.trimmed_below || below <= LogSequence(1) {
            return Ok(());
        }
        let at = below.0 - 1;
        let copies = synced.iter().filter(|synced| synced.0 >= at).count();
        if copies < (synced.len() / 2 + 1).max(2) {
            return Err(Violation::TrimmedWithoutCopies { at, copies });
        }
        self.trimmed_below = below;
        self.trims += 1;
        Ok(())
    }

    /// Returns the homes of the terms that have started since the last call.
    pub fn take_begun(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.begun)
    }

    /// Returns how often it has seen each rare state.
    pub fn counts(&self) -> [(&'static str, u64); 3] {
        [
            ("chunk group cut by a term", self.groups_cut),
            ("records trimmed", self.trims),
            ("epoch kept as an object", self.objects),
        ]
    }

    /// A key's row in the log as of a version, with the version that wrote it.
    fn row_at(&self, key: &[u8], version: Version) -> Option<&Written> {
        let history = self.rows.get(key)?;
        let count = history.partition_point(|(at, _)| *at <= version);
        history.get(count.checked_sub(1)?)
    }

    /// The sum over the last rows of the counted keys.
    pub fn sum(&self, counts: fn(&[u8]) -> bool, number: fn(&[u8]) -> u64) -> u64 {
        let keys = self.rows.keys().filter(|key| counts(key));
        let rows = keys.filter_map(|key| self.row_at(key, Version::MAX));
        rows.filter_map(|(_, value)| value.as_deref()).map(number).sum()
    }

    /// Records that a client received an acknowledgement of these writes.
    pub fn acknowledge(&mut self, version: Version, writes: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Violation> {
        for (key, value) in writes {
            let row = self.row_at(key, version);
            if row != Some(&(version, Some(value.clone()))) {
                return Err(Violation::NotInTheLog { version: version.0 });
            }
            let newest = self.acknowledged.entry(key.clone()).or_default();
            *newest = (*newest).max(version);
        }
        Ok(())
    }

    /// Records that a client received, at `now`, an acknowledgement of a relaxed write by a node
    /// that was home in its term `term`.
    pub fn acknowledge_relaxed(&self, node: usize, term: u64, now: Duration) -> Result<(), Violation> {
        let Some((ended, _)) = self.terms.get(term as usize) else {
            return Ok(());
        };
        let after = now.saturating_sub(*ended);
        match after > EVIDENCE_LASTS + TICK {
            true => Err(Violation::AcknowledgedTooLong { node, after }),
            false => Ok(()),
        }
    }

    /// The version of a key that a read must see that arrives now.
    pub fn required(&self, key: &[u8]) -> Version {
        self.acknowledged.get(key).copied().unwrap_or_default()
    }

    /// A client gets the answer to a read of `key`. Later reads, at any node, must see that version
    /// too.
    pub fn answer(
        &mut self,
        node: usize,
        key: &[u8],
        version: Version,
        value: Option<&[u8]>,
        required: Version,
    ) -> Result<(), Violation> {
        if version < required {
            let (found, required) = (version.0, required.0);
            return Err(Violation::StaleRead { node, found, required });
        }
        let row = self.row_at(key, version);
        let is_held = match value {
            Some(value) => row.is_some_and(|(at, stored)| *at == version && stored.as_deref() == Some(value)),
            None => version == Version::ZERO && row.is_none(),
        };
        is_held.then_some(()).ok_or(Violation::PhantomRead { node })?;
        let newest = self.acknowledged.entry(key.to_vec()).or_default();
        *newest = (*newest).max(version);
        Ok(())
    }

    /// A node shows a state, which is confirmed; `visit_all` visits its rows.
    pub fn shows(
        &self,
        node: usize,
        version: Version,
        visit_all: impl Fn(&mut dyn FnMut(&[u8], &[u8])),
    ) -> Result<(), Violation> {
        let (mut count, mut is_held) = (0, true);
        visit_all(&mut |key, value| {
            count += 1;
            let stored = self.row_at(key, version).and_then(|(_, stored)| stored.as_deref());
            is_held &= stored == Some(value);
        });
        let is_there = |key: &&Vec<u8>| self.row_at(key, version).is_some_and(|(_, stored)| stored.is_some());
        let expected = self.rows.keys().filter(is_there).count();
        let version = version.0;
        let is_right = is_held && count == expected;
        is_right.then_some(()).ok_or(Violation::Diverged { node, version })
    }
}
