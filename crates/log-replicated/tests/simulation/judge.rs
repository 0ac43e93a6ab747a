//! Knows the sequencer's journal and every node's disk, and says what is wrong.

use std::collections::BTreeMap;

use quartet_log_replicated::model::{Change, Store};
use quartet_log_replicated::{Body, Operation, Place, Record, RecordHash, StopReason, Term, TermValue, hash};
use quartet_model::LogSequence;

/// A violation of the log's guarantees.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("record {at} was written again")]
    WrittenAgain { at: u64 },
    #[error("record {at} was written behind record {last}")]
    Hole { at: u64, last: u64 },
    #[error("record {at} of term {term} was written in term {running}")]
    WrongTerm { at: u64, term: u64, running: u64 },
    #[error("record {at} does not continue the chain")]
    Chain { at: u64 },
    #[error("record {at} was trimmed, and {copies} nodes have synced it")]
    TrimmedWithoutCopies { at: u64, copies: usize },
    #[error("write {write} was acknowledged and is not in the log")]
    NotInTheLog { write: u64 },
    #[error("write {write} is in the log twice")]
    Twice { write: u64 },
    #[error("write {write} was acknowledged behind a later one")]
    OutOfOrder { write: u64 },
    #[error("nodes {one} and {other} acknowledged in term {term}")]
    TwoHomes { term: u64, one: usize, other: usize },
    #[error("node {node} answered a read with {found} writes, where {required} were acknowledged before it arrived")]
    StaleRead { node: usize, found: usize, required: usize },
    #[error("node {node} answered a read with writes that are not in the log")]
    PhantomRead { node: usize },
    #[error("node {node} has applied something else than the log, at write {at}")]
    Diverged { node: usize, at: usize },
    #[error("node {node} stopped: {reason}")]
    Stopped { node: usize, reason: StopReason },
    #[error("nothing was acknowledged in {0} s at the end")]
    NoProgress(u64),
}

pub struct Judge {
    place: Place,
    /// Changes of the journal that have been read.
    read: usize,
    last: (LogSequence, RecordHash),
    running: Term,
    /// The log's writes, in order, of whole epochs.
    history: Vec<u64>,
    places: BTreeMap<u64, usize>,
    /// The writes of an unfinished group's first chunk.
    group: Vec<u64>,
    /// For the Term record that cut a group, the group's writes.
    cut: BTreeMap<LogSequence, Vec<u64>>,
    trimmed_below: LogSequence,
    /// The end of the acknowledged part, as an index into `history`.
    acknowledged: usize,
    homes: BTreeMap<u64, (usize, usize)>,
}

impl Judge {
    pub fn new(place: Place) -> Judge {
        let beginning = place.beginning();
        Judge {
            place,
            read: 0,
            last: (beginning.sequence, beginning.hash),
            running: Term::ZERO,
            history: Vec::new(),
            places: BTreeMap::new(),
            group: Vec::new(),
            cut: BTreeMap::new(),
            trimmed_below: LogSequence::ZERO,
            acknowledged: 0,
            homes: BTreeMap::new(),
        }
    }

    /// Reads what is new in the journal. `synced`: each node's last record on disk for good.
    pub fn scan(&mut self, store: &Store, synced: &[LogSequence]) -> Result<(), Violation> {
        let journal = store.journal();
        for change in &journal[self.read..] {
            self.change(change, synced)?;
        }
        self.read = journal.len();
        Ok(())
    }

    fn change(&mut self, change: &Change, synced: &[LogSequence]) -> Result<(), Violation> {
        match &change.operation {
            Operation::Put { key, value, .. } if *key == self.place.term_key() => {
                self.running = TermValue::decode(value).expect("a term is put").term;
                Ok(())
            }
            Operation::Put { key, value, .. } => match self.place.sequence_of(key) {
                Some(at) => self.record(at, value),
                None => Ok(()),
            },
            Operation::Delete { until, .. } => match self.place.sequence_of(until) {
                Some(below) => self.trim(below, synced),
                None => Ok(()),
            },
        }
    }

    fn record(&mut self, at: LogSequence, bytes: &[u8]) -> Result<(), Violation> {
        let (last, before) = self.last;
        if at <= last {
            return Err(Violation::WrittenAgain { at: at.0 });
        }
        if at != last.next() {
            let last = last.0;
            return Err(Violation::Hole { at: at.0, last });
        }
        let record = Record::decode(bytes).expect("a record is put");
        if record.before != before {
            return Err(Violation::Chain { at: at.0 });
        }
        let begins = matches!(record.body, Body::Term { .. } | Body::Founding { .. });
        let expected = if begins { self.running.next() } else { self.running };
        if record.term != expected {
            let (term, running) = (record.term.0, self.running.0);
            return Err(Violation::WrongTerm {
                at: at.0,
                term,
                running,
            });
        }
        self.last = (at, hash(bytes));
        self.body(at, record.body)
    }

    fn body(&mut self, at: LogSequence, body: Body) -> Result<(), Violation> {
        match body {
            Body::Epoch(epoch) => self.happened(&writes(&epoch)),
            Body::Chunk { index, count, bytes } => {
                if index == 0 {
                    self.group = writes(&bytes);
                }
                if index + 1 == count {
                    let group = std::mem::take(&mut self.group);
                    return self.happened(&group);
                }
                Ok(())
            }
            Body::Term { .. } | Body::Founding { .. } => {
                let group = std::mem::take(&mut self.group);
                if !group.is_empty() {
                    self.cut.insert(at, group);
                }
                Ok(())
            }
            Body::Mark | Body::Hash { .. } => Ok(()),
            Body::Object(_) => unreachable!("these nodes have no store of objects"),
        }
    }

    fn happened(&mut self, writes: &[u64]) -> Result<(), Violation> {
        for write in writes {
            if self.places.insert(*write, self.history.len()).is_some() {
                return Err(Violation::Twice { write: *write });
            }
            self.history.push(*write);
        }
        Ok(())
    }

    fn trim(&mut self, below: LogSequence, synced: &[LogSequence]) -> Result<(), Violation> {
        let below = below.max(self.trimmed_below);
        let Some(at) = below.0.checked_sub(1).filter(|at| *at >= self.trimmed_below.0.max(1)) else {
            return Ok(());
        };
        let copies = synced.iter().filter(|synced| synced.0 >= at).count();
        if copies < (synced.len() / 2 + 1).max(2) {
            return Err(Violation::TrimmedWithoutCopies { at, copies });
        }
        self.trimmed_below = below;
        Ok(())
    }

    /// Records that a client received an acknowledgement of these writes.
    pub fn acknowledge(&mut self, node: usize, term: Term, writes: &[u64]) -> Result<(), Violation> {
        for write in writes {
            let place = self.places.get(write).copied();
            let place = place.ok_or(Violation::NotInTheLog { write: *write })?;
            let (home, last) = self.homes.entry(term.0).or_insert((node, 0));
            if *home != node {
                let (one, other, term) = (*home, node, term.0);
                return Err(Violation::TwoHomes { term, one, other });
            }
            if place < *last {
                return Err(Violation::OutOfOrder { write: *write });
            }
            *last = place + 1;
            self.acknowledged = self.acknowledged.max(place + 1);
        }
        Ok(())
    }

    /// The writes that a read must see that arrives now.
    pub fn required(&self) -> usize {
        self.acknowledged
    }

    /// A client gets the answer to a read: the first `applied` writes, and then `in_flight`.
    pub fn answer(&self, node: usize, applied: usize, in_flight: &[u64], required: usize) -> Result<(), Violation> {
        let found = applied + in_flight.len();
        if found < required {
            return Err(Violation::StaleRead { node, found, required });
        }
        let entries = self.history.get(applied..found);
        if entries != Some(in_flight) {
            return Err(Violation::PhantomRead { node });
        }
        Ok(())
    }

    /// A node has applied `writes` after its first `before`.
    pub fn applied(&self, node: usize, before: usize, writes: &[u64]) -> Result<(), Violation> {
        let entries = self.history.get(before..before + writes.len());
        let at = before;
        (entries == Some(writes))
            .then_some(())
            .ok_or(Violation::Diverged { node, at })
    }

    /// The writes of the group that the Term record at `at` has cut.
    pub fn cut_at(&self, at: LogSequence) -> Option<&Vec<u64>> {
        self.cut.get(&at)
    }
}

/// An epoch: how many writes, the writes, and any padding.
pub fn epoch(writes: &[u64], padding: usize) -> Vec<u8> {
    let mut bytes = (writes.len() as u64).to_le_bytes().to_vec();
    writes
        .iter()
        .for_each(|write| bytes.extend_from_slice(&write.to_le_bytes()));
    bytes.resize(bytes.len() + padding, 0);
    bytes
}

/// The writes in an epoch, or in the first chunk of one.
pub fn writes(epoch: &[u8]) -> Vec<u64> {
    let mut words = epoch
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")));
    let count = words.next().unwrap_or(0) as usize;
    words.take(count).collect()
}
