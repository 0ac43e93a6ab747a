//! The configured nodes: nodes that have joined the cluster and were not removed, running or not.
//! The sequencer's records are dropped by a majority of their number.
//!
//! ```text
//! configured/ID  QCNF | format 1 u32 | state u8: 1 joined, 2 removed | name | checksum u32
//! ```
//!
//! A node puts its row before its first report. The row of a removed node stays, so that the
//! operator's announced number no longer counts the node, and it cannot return under its name.

use crate::copies::whole;
use crate::place::TermValue;
use crate::place::{FORMAT, Place, hex, put};
use crate::record::{Fields, seal, unsealed};
use crate::sequencer::{Answer, Compare, Operation, Request};
use crate::words::{NodeId, PartitionId};

const MAGIC: &[u8; 4] = b"QCNF";
/// Number of nodes per read.
const NODES_MAX: u32 = 1000;

/// A node's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    /// The name that the operator gave it.
    pub name: String,
    /// It was removed permanently.
    pub is_removed: bool,
}

impl Configured {
    fn encode(&self) -> Vec<u8> {
        let state = if self.is_removed { 2 } else { 1 };
        let mut bytes = [&MAGIC[..], &FORMAT.to_le_bytes(), &[state], self.name.as_bytes()].concat();
        seal(&mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Configured> {
        let mut fields = Fields(unsealed(bytes, bytes)?);
        let is_known = fields.take(4)? == MAGIC && fields.u32()? == FORMAT;
        let is_removed = match fields.u8()? {
            1 => false,
            2 => true,
            _ => return None,
        };
        let name = String::from_utf8(fields.0.to_vec()).ok()?;
        is_known.then_some(Configured { name, is_removed })
    }
}

/// Puts the row of a joining node: `Done`, or `Refused` with the existing row.
pub fn join_request(place: &Place, node: NodeId, name: &str) -> Request {
    let row = Configured {
        name: name.to_owned(),
        is_removed: false,
    };
    let key = place.configured_key(node);
    Request::Transact {
        compares: vec![place.is_this_cluster(), Compare::Absent(key.clone())],
        operations: vec![put(key.clone(), row.encode())],
        otherwise: vec![key],
    }
}

/// Removes a node permanently, with its report and its hold: `Done`, or `Refused` if it has
/// returned, is removed already, or another term has started. `terms`: the running terms, in the
/// order of the partitions. `alive`: a leased key that the node has while it runs.
pub fn remove_request(place: &Place, node: NodeId, name: &str, terms: &[TermValue], alive: Vec<u8>) -> Request {
    let row = |is_removed| Configured {
        name: name.to_owned(),
        is_removed,
    };
    let key = place.configured_key(node);
    let delete = |key: Vec<u8>| Operation::Delete {
        until: [&key[..], &[0]].concat(),
        from: key,
    };
    let runs = |(partition, term): (PartitionId, &TermValue)| Compare::Value {
        key: place.of(partition).term_key(),
        value: term.encode(),
    };
    let mut compares: Vec<Compare> = (0..).map(PartitionId).zip(terms).map(runs).collect();
    compares.push(Compare::Value {
        key: key.clone(),
        value: row(false).encode(),
    });
    compares.push(Compare::Absent(alive));
    Request::Transact {
        compares,
        operations: vec![
            put(key, row(true).encode()),
            delete(place.node_key(node)),
            delete(place.hold_key(node)),
        ],
        otherwise: Vec::new(),
    }
}

/// Reads the rows of all nodes. The answer goes to `configured`.
pub fn configured_request(place: &Place) -> Request {
    let (from, until) = place.configured();
    let limit = NODES_MAX;
    Request::Range { from, until, limit }
}

/// Returns the rows by node; `None` if any is unreadable: then nothing may be trimmed.
pub fn configured(place: &Place, answer: &Answer) -> Option<Vec<(NodeId, Configured)>> {
    let prefix = place.configured().0;
    let row = |(key, value): &(Vec<u8>, Vec<u8>)| {
        let node = hex(key.strip_prefix(&prefix[..])?).map(NodeId)?;
        Some((node, Configured::decode(value)?))
    };
    whole(answer)?.iter().map(row).collect()
}

/// Returns the number of configured nodes. `announced`: the operator's number of nodes, including
/// removed ones.
pub fn configures(announced: usize, rows: &[(NodeId, Configured)]) -> usize {
    let removed = rows.iter().filter(|(_, row)| row.is_removed).count();
    announced.max(rows.len()) - removed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, is_removed: bool) -> Configured {
        let name = name.to_owned();
        Configured { name, is_removed }
    }

    #[test]
    fn rows_are_read_as_written_and_only_whole() {
        for row in [row("a", false), row("", true)] {
            let bytes = row.encode();
            assert_eq!(Configured::decode(&bytes), Some(row));
            for length in 0..bytes.len() {
                assert_eq!(Configured::decode(&bytes[..length]), None, "{length} bytes");
            }
        }
    }

    #[test]
    fn a_node_that_was_removed_is_counted_no_more() {
        let check = |announced, removed: &[bool]| {
            let rows = removed.iter().zip(0..);
            let rows: Vec<_> = rows.map(|(removed, id)| (NodeId(id), row("x", *removed))).collect();
            configures(announced, &rows)
        };
        assert_eq!(check(3, &[]), 3, "nobody has joined");
        assert_eq!(check(3, &[false, false]), 3, "one has not joined yet");
        assert_eq!(check(3, &[false; 4]), 4, "one more than was said");
        assert_eq!(check(5, &[false, false, false, false, true]), 4);
        assert_eq!(
            check(5, &[false, false, false, false, true, false]),
            5,
            "one in its stead"
        );
        assert_eq!(check(3, &[true; 4]), 0);
    }
}
