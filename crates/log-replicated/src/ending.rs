//! The end of a cluster. One node's folder keeps the data: as a single server's, or as the data of
//! another cluster.
//!
//! ```text
//! ROOT/ended   QEND | format 1 u32 | cluster id u128 | node u64 | checksum u32
//! ```
//!
//! One transaction removes the cluster's keys, provided that no partition's log has a record after
//! those in the folder. So no acknowledged record is lost, and no other node can append or take
//! over afterwards: both need `meta`. The key `ended` stays: a node that was killed before it had
//! the answer learns that its request has won, and the other nodes learn where the data are.

use crate::place::{FORMAT, Place, cluster_of, meta_key, put};
use crate::record::{Fields, seal, unsealed};
use crate::sequencer::{Compare, Operation, Request};
use crate::words::{ClusterId, NodeId, PartitionId, Position};
use quartet_model::LogSequence;

const MAGIC: &[u8; 4] = b"QEND";

/// A cluster that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node with its data.
    pub at: NodeId,
}

impl Ended {
    /// Ends the cluster of `place`: `Done`, or `Refused` with the values of `meta` and `ended`.
    /// `lasts`: the node's last record of each partition, in their order.
    pub fn request(&self, place: &Place, lasts: &[Position]) -> Request {
        let root = place.root();
        let mut compares = vec![place.is_this_cluster()];
        for (partition, last) in (0..).map(PartitionId).zip(lasts) {
            let place = place.of(partition);
            compares.push(Compare::Absent(place.record_key(last.sequence.next())));
            // The next may be absent because it was trimmed.
            if last.sequence > LogSequence::ZERO {
                compares.push(Compare::Present(place.record_key(last.sequence)));
            }
        }
        let (meta, ended) = (meta_key(root), ended_key(root));
        let delete = |from: Vec<u8>, until: Vec<u8>| Operation::Delete { from, until };
        Request::Transact {
            compares,
            operations: vec![
                delete(format!("{root}/").into_bytes(), ended.clone()),
                delete([&ended[..], &[0]].concat(), format!("{root}0").into_bytes()),
                put(ended.clone(), self.encode()),
            ],
            otherwise: vec![meta, ended],
        }
    }

    /// Reads which cluster has ended below `root` most recently. The value goes to `decode`.
    pub fn read_request(root: &str) -> Request {
        let key = ended_key(root.trim_end_matches('/'));
        Request::Get { key }
    }

    /// Reads what `ROOT/ended` holds.
    pub fn decode(bytes: &[u8]) -> Option<Ended> {
        let mut fields = Fields(unsealed(bytes, bytes)?);
        let is_known = fields.take(4)? == MAGIC && fields.u32()? == FORMAT;
        let (cluster, at) = (ClusterId(fields.u128()?), NodeId(fields.u64()?));
        (is_known && fields.0.is_empty()).then_some(Ended { cluster, at })
    }

    /// Returns true if the values that refused `request` show that it has won before.
    pub fn has_won(&self, values: &[Option<Vec<u8>>]) -> bool {
        let [meta, ended] = values else {
            return false;
        };
        let is_gone = meta.as_deref().and_then(cluster_of) != Some(self.cluster);
        is_gone && ended.as_deref().and_then(Ended::decode) == Some(*self)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &FORMAT.to_le_bytes(), &self.cluster.0.to_le_bytes()].concat();
        bytes.extend_from_slice(&self.at.0.to_le_bytes());
        seal(&mut bytes);
        bytes
    }
}

fn ended_key(root: &str) -> Vec<u8> {
    format!("{root}/ended").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::follower::Follower;
    use crate::founding::Founding;
    use crate::model::Store;
    use crate::sequencer::Answer;
    use crate::take_over::TakeOver;
    use crate::words::{FoundedState, Writer};
    use quartet_model::Version;

    const CLUSTER: ClusterId = ClusterId(7);
    const ENDED: Ended = Ended {
        cluster: CLUSTER,
        at: NodeId(3),
    };

    fn ask(store: &mut Store, request: &Request) -> Answer {
        store.execute(0, Duration::ZERO, request)
    }

    /// A cluster of two partitions, and the last record of each.
    fn cluster() -> (Store, Place, Vec<Position>) {
        let state = FoundedState {
            last: LogSequence(8),
            version: Version(70),
            state: 5,
        };
        let founding = Founding::new(CLUSTER, Writer::default(), &[state, state], 50);
        let mut store = Store::default();
        ask(&mut store, &founding.request("/x"));
        let lasts = (0..2).map(|number| founding.position(PartitionId(number)).0);
        (store, founding.place("/x"), lasts.collect())
    }

    #[test]
    fn a_cluster_ends_only_with_all_its_records_and_refuses_later_claims() {
        let (mut store, place, lasts) = cluster();
        for behind in 0..2 {
            let mut lasts = lasts.clone();
            lasts[behind].sequence = LogSequence(8);
            let refused = ask(&mut store, &ENDED.request(&place, &lasts));
            let Answer::Refused { values } = refused else {
                panic!("{refused:?}");
            };
            assert!(!ENDED.has_won(&values));
            // Its next record may be trimmed, and absent.
            lasts[behind].sequence = LogSequence(2);
            let refused = ask(&mut store, &ENDED.request(&place, &lasts));
            assert!(matches!(refused, Answer::Refused { .. }));
        }
        let mut follower = Follower::new(place.clone(), lasts[0]);
        let mut claim = TakeOver::new(Writer {
            node: NodeId(9),
            incarnation: 1,
        });
        for _ in 0..2 {
            let answer = ask(&mut store, &claim.request(&mut follower).unwrap());
            claim.answered(&mut follower, Ok(answer)).unwrap();
        }
        claim.claim(&follower, Version(90));
        let late = claim.request(&mut follower).unwrap();

        assert!(matches!(
            ask(&mut store, &ENDED.request(&place, &lasts)),
            Answer::Done { .. }
        ));
        assert!(
            matches!(ask(&mut store, &late), Answer::Refused { .. }),
            "another node's claim"
        );
        let again = ask(&mut store, &ENDED.request(&place, &lasts));
        let Answer::Refused { values } = again else {
            panic!("{again:?}");
        };
        assert!(ENDED.has_won(&values));
        let other = Ended { at: NodeId(4), ..ENDED };
        assert!(!other.has_won(&values), "another node has ended it");
        for key in ["/x/meta", "/x/p/0/term", "/x/p/1/r/0000000000000009"] {
            assert_eq!(store.value(key.as_bytes()), None, "{key}");
        }
        let Answer::Value(Some(value)) = ask(&mut store, &Ended::read_request("/x/")) else {
            panic!("no `ended`");
        };
        assert_eq!(Ended::decode(&value), Some(ENDED));
        for length in 0..value.len() {
            assert_eq!(Ended::decode(&value[..length]), None, "{length} bytes");
        }
    }
}
