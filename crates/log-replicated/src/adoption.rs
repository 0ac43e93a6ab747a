//! Founds a new cluster from one node's file log, when the sequencer that the node followed is lost
//! or was restored to an earlier state.
//!
//! ```text
//! ROOT/adopted   QADP | format 1 u32 | cluster id u128 | sequence u64 ... | checksum u32
//!                the cluster whose history goes on here, and its last record that is kept, of each
//!                partition
//! ```
//!
//! The history continues under another cluster's id, so that late messages of the old sequencer or
//! its clients are not taken for a part of it. It starts with a Term record after the node's last
//! record. The node has that record in its own file log; every other node copies.

use quartet_model::{LogSequence, Version};

use crate::agreed::Agreed;
use crate::place::{FORMAT, Place, TermValue, meta_key, put};
use crate::record::{Body, Fields, Record, hash, seal, unsealed};
use crate::sequencer::{Compare, Operation, Request};
use crate::words::{ClusterId, PartitionId, Position, Writer};

const MAGIC: &[u8; 4] = b"QADP";

/// The origin of a cluster that was adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The cluster with the continued history.
    pub from: ClusterId,
    /// The last record of that history, of each partition.
    pub lasts: Vec<LogSequence>,
}

/// The start of a new cluster's log.
#[derive(Clone, Debug)]
pub struct Adoption {
    place: Place,
    adopted: Adopted,
    record: Vec<u8>,
    term: TermValue,
}

impl Adoption {
    /// Continues as the cluster of `place` after `last`, the end of a history of the cluster
    /// `from`. `tail`: the last record of the file log, which may be after `last` if a group is
    /// cut. Versions of the new term are above `floor`.
    pub fn new(
        place: Place,
        from: ClusterId,
        last: &Position,
        tail: LogSequence,
        me: Writer,
        floor: Version,
    ) -> Adoption {
        let record = Record {
            cluster: place.cluster,
            partition: place.partition,
            sequence: tail.next(),
            term: last.term.next(),
            writer: me,
            before: last.hash,
            body: Body::Term { floor },
        };
        let bytes = record.encode();
        let term = TermValue {
            term: record.term,
            writer: me,
            sequence: record.sequence,
            hash: hash(&bytes),
        };
        Adoption {
            place,
            adopted: Adopted {
                from,
                lasts: vec![tail],
            },
            record: bytes,
            term,
        }
    }

    /// The same, where an interrupted adoption has ended the old history at `last`: the Term record
    /// that it wrote follows that.
    #[must_use]
    pub fn of_records_up_to(mut self, last: LogSequence) -> Adoption {
        self.adopted.lasts = vec![last];
        self
    }

    /// The position of the Term record, the last record of the node's own file log.
    pub fn position(&self) -> Position {
        Position {
            sequence: self.term.sequence,
            hash: self.term.hash,
            term: self.term.term,
            writer: self.term.writer,
        }
    }

    /// Founds the log, if there is no cluster: `Done`, or `Refused` with the value of `meta`.
    pub fn request(&self) -> Request {
        let root = self.place.root();
        let meta = meta_key(root);
        let mut operations = vec![
            put(meta.clone(), self.place.meta_value()),
            put(adopted_key(root), self.adopted.encode()),
            put(self.place.record_key(self.term.sequence), self.record.clone()),
            put(self.place.term_key(), self.term.encode()),
        ];
        operations.extend(Agreed::of_founder().founding(root));
        Request::Transact {
            compares: vec![Compare::Absent(meta.clone())],
            operations,
            otherwise: vec![meta],
        }
    }

    /// Removes everything below the root of `place`, if it is that cluster.
    pub fn clear(place: &Place) -> Request {
        let path = |end| format!("{}{end}", place.root()).into_bytes();
        Request::Transact {
            compares: vec![place.is_this_cluster()],
            operations: vec![Operation::Delete {
                from: path('/'),
                until: path('0'),
            }],
            otherwise: Vec::new(),
        }
    }

    /// Reads whether the cluster was adopted. The answer goes to `adopted`.
    pub fn origin_request(root: &str) -> Request {
        let key = adopted_key(root.trim_end_matches('/'));
        Request::Get { key }
    }
}

impl Adopted {
    /// The last record of a partition; that before the first if the cluster did not have it.
    pub fn last(&self, partition: PartitionId) -> LogSequence {
        let last = self.lasts.get(partition.0 as usize);
        last.copied().unwrap_or(LogSequence::ZERO)
    }

    /// Returns the bytes of `ROOT/adopted`.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &FORMAT.to_le_bytes(), &self.from.0.to_le_bytes()].concat();
        for last in &self.lasts {
            bytes.extend_from_slice(&last.0.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }
}

/// Reads what `ROOT/adopted` holds.
pub fn adopted(bytes: &[u8]) -> Option<Adopted> {
    let mut fields = Fields(unsealed(bytes, bytes)?);
    let is_known = fields.take(4)? == MAGIC && fields.u32()? == FORMAT;
    let from = ClusterId(fields.u128()?);
    let mut lasts = vec![LogSequence(fields.u64()?)];
    while !fields.0.is_empty() {
        lasts.push(LogSequence(fields.u64()?));
    }
    is_known.then_some(Adopted { from, lasts })
}

pub(crate) fn adopted_key(root: &str) -> Vec<u8> {
    format!("{root}/adopted").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::follower::{Content, Follower};
    use crate::model::Store;
    use crate::record::origin;
    use crate::sequencer::Answer;
    use crate::stop::StopReason;
    use crate::words::{NodeId, RecordHash, Term};

    const LOST: ClusterId = ClusterId(1);
    const NEW: ClusterId = ClusterId(2);
    const ADOPTER: Writer = Writer {
        node: NodeId(5),
        incarnation: 6,
    };

    fn place(cluster: ClusterId) -> Place {
        Place::new("/x", cluster, PartitionId(0))
    }

    /// A node of the lost cluster at record `sequence`.
    fn reached(sequence: u64) -> Position {
        Position {
            sequence: LogSequence(sequence),
            hash: RecordHash(77),
            term: Term(3),
            writer: Writer::default(),
        }
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
    fn a_history_continues_as_another_cluster_after_all_records_of_the_node() {
        let mut store = Store::default();
        // Two chunks of an unfinished group follow the last whole record.
        let (last, tail) = (reached(9), LogSequence(11));
        let adoption = Adoption::new(place(NEW), LOST, &last, tail, ADOPTER, Version(50));
        assert!(matches!(ask(&mut store, &adoption.request()), Answer::Done { .. }));
        let again = ask(&mut store, &adoption.request());
        let meta = place(NEW).meta_value();
        assert_eq!(
            again,
            Answer::Refused {
                values: vec![Some(meta)]
            }
        );
        let Answer::Value(Some(value)) = ask(&mut store, &Adoption::origin_request("/x/")) else {
            panic!("no origin");
        };
        let origin_read = Adopted {
            from: LOST,
            lasts: vec![tail],
        };
        assert_eq!(adopted(&value), Some(origin_read));

        let position = adoption.position();
        assert_eq!((position.sequence, position.term), (LogSequence(12), Term(4)));
        assert_eq!(read(&mut store, Follower::new(place(NEW), position)), Ok(vec![]));
        for behind in [8, 9] {
            let trimmed = StopReason::Trimmed {
                next: LogSequence(behind + 1),
                first: LogSequence(12),
            };
            let follower = Follower::new(place(NEW), reached(behind));
            assert_eq!(read(&mut store, follower), Err(trimmed), "copies");
        }
        let lost_position = Position {
            sequence: LogSequence(11),
            ..reached(9)
        };
        let found = NEW;
        let at = LogSequence(12);
        let other = StopReason::OtherCluster { at, found };
        assert_eq!(read(&mut store, Follower::new(place(LOST), lost_position)), Err(other));
    }

    #[test]
    fn only_this_cluster_is_cleared_and_wholly() {
        let mut store = Store::default();
        let before = Position {
            hash: origin(LOST, PartitionId(0)),
            ..reached(0)
        };
        let first = Adoption::new(place(NEW), LOST, &before, LogSequence::ZERO, ADOPTER, Version(1));
        ask(&mut store, &first.request());
        let other = ask(&mut store, &Adoption::clear(&place(LOST)));
        assert_eq!(other, Answer::Refused { values: vec![] });
        assert!(store.value(b"/x/meta").is_some());
        ask(&mut store, &Adoption::clear(&place(NEW)));
        for key in ["/x/meta", "/x/adopted", "/x/p/0/term", "/x/p/0/r/0000000000000001"] {
            assert_eq!(store.value(key.as_bytes()), None, "{key}");
        }
    }

    #[test]
    fn an_origin_is_read_as_written_and_only_whole() {
        for lasts in [vec![9], vec![9, 0, 7]] {
            let value = Adopted {
                from: ClusterId(7),
                lasts: lasts.into_iter().map(LogSequence).collect(),
            };
            let bytes = value.encode();
            assert_eq!(adopted(&bytes), Some(value));
            for length in 0..bytes.len() {
                assert_eq!(adopted(&bytes[..length]), None, "{length} bytes");
            }
        }
    }
}
