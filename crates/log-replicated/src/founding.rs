//! A new cluster from the data of a folder that was no node's: a server's own data, a restored
//! backup, or converted data.
//!
//! ```text
//! QFND | format 1 u32 | cluster id u128 | node u64 | incarnation u64 | partitions u32 | folder ... | origin | checksum u32
//! folder   sequence u64 | version u64 | state hash u128 | floor u64
//! origin   nothing, or the value of `ROOT/adopted`: the folder's data are those of a cluster that has ended
//! ```
//!
//! The log of each partition starts with a founding record right after the folder's last record, so
//! the folder's file log, its checkpoints and the cluster's log count the same sequences. One
//! transaction puts the founding records, the terms and `meta`: a cluster has all of them or does
//! not exist. The record replaces record 1, and contains the hash of the folder's state.
//!
//! The founder keeps the bytes above before it sends the transaction, and removes them once its
//! folder is a node's. A founder that was killed in between sends the same transaction again:
//! `meta` shows whether an earlier one has won.

use quartet_model::{LogSequence, Version};

use crate::adoption::{Adopted, adopted, adopted_key};
use crate::agreed::Agreed;
use crate::place::{FORMAT, Place, TermValue, cluster_of, meta_key, put};
use crate::record::{Body, Fields, Record, hash, seal, unsealed};
use crate::sequencer::{Answer, Compare, Request};
use crate::words::{ClusterId, FoundedState, PartitionId, Position, RecordHash, Term, Writer};

const MAGIC: &[u8; 4] = b"QFND";
/// Partitions that one transaction of etcd founds: it takes 128 puts, two for each partition and
/// one each for `meta`, `format` and `adopted`.
pub const FOUNDED_PARTITIONS_MAX: u32 = 62;

/// A cluster that starts with data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Founding {
    cluster: ClusterId,
    founder: Writer,
    /// One for each partition, with the floor of its first term's versions.
    folders: Vec<(FoundedState, Version)>,
    /// The cluster with the continued history.
    origin: Option<Adopted>,
}

impl Founding {
    /// Founds `cluster` with the state of each partition. Versions of the first terms are above
    /// `clock_us` and above all that the folders have.
    pub fn new(cluster: ClusterId, founder: Writer, states: &[FoundedState], clock_us: u64) -> Founding {
        let floor = |state: &FoundedState| Version(clock_us.max(state.version.0 + 1));
        Founding {
            cluster,
            founder,
            folders: states.iter().map(|state| (*state, floor(state))).collect(),
            origin: None,
        }
    }

    /// The same, where the folder's history is that of another cluster: folders of its nodes are
    /// replaced by copies when they join.
    #[must_use]
    pub fn after(self, origin: Option<Adopted>) -> Founding {
        Founding { origin, ..self }
    }

    /// The first partition of the cluster.
    pub fn place(&self, root: &str) -> Place {
        Place::new(root, self.cluster, PartitionId(0)).with_partitions(self.folders.len() as u32)
    }

    /// The states of the partitions, in their order.
    pub fn states(&self) -> impl Iterator<Item = FoundedState> {
        self.folders.iter().map(|(state, _)| *state)
    }

    /// Puts the whole cluster if there is none. The answer must be passed to `is_founded`.
    pub fn request(&self, root: &str) -> Request {
        let place = self.place(root);
        let meta = meta_key(root);
        let mut operations = vec![put(meta.clone(), place.meta_value())];
        for partition in self.partitions() {
            let place = place.of(partition);
            let (record, term) = self.beginning(&place);
            operations.push(put(place.record_key(term.sequence), record));
            operations.push(put(place.term_key(), term.encode()));
        }
        operations.extend(Agreed::of_founder().founding(place.root()));
        if let Some(origin) = &self.origin {
            operations.push(put(adopted_key(place.root()), origin.encode()));
        }
        Request::Transact {
            compares: vec![Compare::Absent(meta.clone())],
            operations,
            otherwise: vec![meta],
        }
    }

    /// Returns true if this cluster exists: this request or an earlier one has put it. False: there
    /// is another cluster.
    pub fn is_founded(&self, answer: &Answer) -> bool {
        match answer {
            Answer::Done { .. } => true,
            Answer::Refused { values } => {
                let meta = values.first().and_then(|meta| meta.as_deref());
                meta.and_then(cluster_of) == Some(self.cluster)
            }
            _ => false,
        }
    }

    /// The position of a partition's founding record, and the floor of its versions: the
    /// partition's file log must end with it.
    pub fn position(&self, partition: PartitionId) -> (Position, Version) {
        // The root is no part of the record.
        let (_, term) = self.beginning(&self.place("").of(partition));
        let position = Position {
            sequence: term.sequence,
            hash: term.hash,
            term: term.term,
            writer: term.writer,
        };
        (position, self.folders[partition.0 as usize].1)
    }

    /// Returns the bytes that the founder keeps.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &FORMAT.to_le_bytes(), &self.cluster.0.to_le_bytes()].concat();
        bytes.extend_from_slice(&self.founder.node.0.to_le_bytes());
        bytes.extend_from_slice(&self.founder.incarnation.to_le_bytes());
        bytes.extend_from_slice(&(self.folders.len() as u32).to_le_bytes());
        for (FoundedState { last, version, state }, floor) in &self.folders {
            bytes.extend_from_slice(&last.0.to_le_bytes());
            bytes.extend_from_slice(&version.0.to_le_bytes());
            bytes.extend_from_slice(&state.to_le_bytes());
            bytes.extend_from_slice(&floor.0.to_le_bytes());
        }
        if let Some(origin) = &self.origin {
            bytes.extend_from_slice(&origin.encode());
        }
        seal(&mut bytes);
        bytes
    }

    /// Reads what `encode` wrote.
    pub fn decode(bytes: &[u8]) -> Option<Founding> {
        let mut fields = Fields(unsealed(bytes, bytes)?);
        let is_known = fields.take(4)? == MAGIC && fields.u32()? == FORMAT;
        let (cluster, founder) = (ClusterId(fields.u128()?), fields.writer()?);
        let count = fields.u32()?;
        let mut folders = Vec::new();
        for _ in 0..count {
            let state = FoundedState {
                last: LogSequence(fields.u64()?),
                version: Version(fields.u64()?),
                state: fields.u128()?,
            };
            folders.push((state, Version(fields.u64()?)));
        }
        let origin = match fields.0.is_empty() {
            true => None,
            false => Some(adopted(fields.0)?),
        };
        (is_known && count > 0).then_some(Founding {
            cluster,
            founder,
            folders,
            origin,
        })
    }

    fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.folders.len() as u32).map(PartitionId)
    }

    /// The first record of a partition, and its first term.
    fn beginning(&self, place: &Place) -> (Vec<u8>, TermValue) {
        let (founded, floor) = self.folders[place.partition.0 as usize];
        let record = Record {
            cluster: place.cluster,
            partition: place.partition,
            sequence: founded.last.next(),
            term: Term::ZERO.next(),
            writer: self.founder,
            before: before(place, &founded),
            body: Body::Founding { floor, founded },
        };
        let bytes = record.encode();
        let term = TermValue {
            term: record.term,
            writer: record.writer,
            sequence: record.sequence,
            hash: hash(&bytes),
        };
        (bytes, term)
    }
}

/// The previous hash in a founding record. Without data it is the start of the log, which a
/// node without records continues from.
fn before(place: &Place, founded: &FoundedState) -> RecordHash {
    let origin = place.beginning().hash;
    if founded.last == LogSequence::ZERO {
        return origin;
    }
    let mut bytes = origin.0.to_le_bytes().to_vec();
    bytes.extend_from_slice(&founded.last.0.to_le_bytes());
    bytes.extend_from_slice(&founded.version.0.to_le_bytes());
    bytes.extend_from_slice(&founded.state.to_le_bytes());
    hash(&bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::follower::{Content, Follower};
    use crate::model::Store;
    use crate::stop::StopReason;
    use crate::words::NodeId;

    const CLUSTER: ClusterId = ClusterId(2);
    const FOUNDER: Writer = Writer {
        node: NodeId(5),
        incarnation: 6,
    };

    fn founding() -> Founding {
        let state = |last, version, state| FoundedState {
            last: LogSequence(last),
            version: Version(version),
            state,
        };
        Founding::new(CLUSTER, FOUNDER, &[state(2_000, 70, 9), state(0, 0, 8)], 50)
    }

    fn ask(store: &mut Store, request: &Request) -> Answer {
        store.execute(0, Duration::ZERO, request)
    }

    fn read(store: &mut Store, mut follower: Follower) -> Result<Vec<Content>, StopReason> {
        let request = follower.request();
        let (deliveries, _) = follower.take(ask(store, &request))?;
        Ok(deliveries.into_iter().map(|delivery| delivery.content).collect())
    }

    #[test]
    fn each_log_starts_right_after_the_records_of_its_folder() {
        let (mut store, founding) = (Store::default(), founding());
        let first = ask(&mut store, &founding.request("/x/"));
        assert!(founding.is_founded(&first));
        let again = ask(&mut store, &founding.request("/x/"));
        assert!(matches!(again, Answer::Refused { .. }) && founding.is_founded(&again));
        let other = Founding::new(ClusterId(3), FOUNDER, &[], 1);
        assert!(!other.is_founded(&ask(&mut store, &other.request("/x/"))));

        let place = founding.place("/x/");
        let (position, floor) = founding.position(PartitionId(0));
        assert_eq!((position.sequence, floor), (LogSequence(2_001), Version(71)));
        assert_eq!(read(&mut store, Follower::new(place.clone(), position)), Ok(vec![]));
        let (next, first) = (LogSequence(1), position.sequence);
        let empty = Follower::new(place.clone(), place.beginning());
        assert_eq!(read(&mut store, empty), Err(StopReason::Trimmed { next, first }));
        // Another folder of the same length is not what the record names.
        let other = Position {
            hash: RecordHash(1),
            ..position
        };
        let at = position.sequence;
        let broken = Err(StopReason::BrokenChain { at });
        assert_eq!(read(&mut store, Follower::new(place.clone(), other)), broken);

        let second = place.of(PartitionId(1));
        let (position, floor) = founding.position(PartitionId(1));
        assert_eq!((position.sequence, floor), (LogSequence(1), Version(50)));
        let (term, writer) = (position.term, FOUNDER);
        let records = vec![Content::Term { term, writer, floor }];
        assert_eq!(
            read(&mut store, Follower::new(second.clone(), second.beginning())),
            Ok(records)
        );
    }

    #[test]
    fn a_founding_is_read_as_written_and_only_whole() {
        let origin = Adopted {
            from: ClusterId(9),
            lasts: vec![LogSequence(3), LogSequence(4)],
        };
        for founding in [founding(), founding().after(Some(origin))] {
            let bytes = founding.encode();
            assert_eq!(Founding::decode(&bytes), Some(founding));
            for length in 0..bytes.len() {
                assert_eq!(Founding::decode(&bytes[..length]), None, "{length} bytes");
            }
        }
    }
}
