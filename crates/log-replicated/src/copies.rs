//! Reports of nodes to the home about the records that they have and need: two kinds of leased
//! keys.
//!
//! ```text
//! nodes/ID       QNOD | format 1 u32 | cluster id u128 | clock, microseconds since 1970 u64
//!                | count u32 | count times: partition u32 | applied u64 | synced u64 | checksum u32
//! p/P/hold/ID    the lowest sequence needed u64 | checksum u32
//! ```

use quartet_model::LogSequence;

use crate::place::{Place, hex};
use crate::record::{Fields, seal, unsealed};
use crate::sequencer::{Answer, LeaseId, Operation, Request};
use crate::words::{ClusterId, NodeId, PartitionId};

const MAGIC: &[u8; 4] = b"QNOD";
const FORMAT: u32 = 1;
/// Number of nodes per read.
const NODES_MAX: u32 = 1000;

/// A node's account of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The cluster of its history: differs from the sequencer's if the node's own was lost.
    pub cluster: ClusterId,
    /// Its wall clock, in microseconds since 1970. Shows a clock that is off; decides nothing.
    pub clock_us: u64,
    /// Its progress in each partition.
    pub partitions: Vec<Reached>,
}

/// A node's progress in a partition. `synced <= applied`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The partition.
    pub partition: PartitionId,
    /// The last record applied.
    pub applied: LogSequence,
    /// The last record that is durable in the node's own log, and not within a group: where the
    /// node would restart after a crash.
    pub synced: LogSequence,
}

impl NodeReport {
    /// Puts the report of a node under its lease.
    pub fn request(&self, place: &Place, node: NodeId, lease: LeaseId) -> Request {
        leased(place.node_key(node), self.encode(), lease)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &FORMAT.to_le_bytes(), &self.cluster.0.to_le_bytes()].concat();
        bytes.extend_from_slice(&self.clock_us.to_le_bytes());
        bytes.extend_from_slice(&(self.partitions.len() as u32).to_le_bytes());
        for reached in &self.partitions {
            bytes.extend_from_slice(&reached.partition.0.to_le_bytes());
            bytes.extend_from_slice(&reached.applied.0.to_le_bytes());
            bytes.extend_from_slice(&reached.synced.0.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<NodeReport> {
        let mut fields = Fields(unsealed(bytes, bytes)?);
        let has_header = fields.take(4)? == MAGIC && fields.u32()? == FORMAT;
        let (cluster, clock_us, count) = (ClusterId(fields.u128()?), fields.u64()?, fields.u32()?);
        let mut partitions = Vec::new();
        for _ in 0..count {
            partitions.push(Reached {
                partition: PartitionId(fields.u32()?),
                applied: LogSequence(fields.u64()?),
                synced: LogSequence(fields.u64()?),
            });
        }
        let report = NodeReport {
            cluster,
            clock_us,
            partitions,
        };
        (has_header && fields.0.is_empty()).then_some(report)
    }
}

/// Puts a node's hold under its lease: no record from `needed` on may be trimmed.
pub fn hold_request(place: &Place, node: NodeId, needed: LogSequence, lease: LeaseId) -> Request {
    let mut value = needed.0.to_le_bytes().to_vec();
    seal(&mut value);
    leased(place.hold_key(node), value, lease)
}

/// Reads the holds of a partition. The answer goes to `holds`.
pub fn holds_request(place: &Place) -> Request {
    let (from, until) = place.holds();
    let limit = NODES_MAX;
    Request::Range { from, until, limit }
}

/// Returns the holds; `None` if any is unreadable: then nothing may be trimmed.
pub fn holds(answer: &Answer) -> Option<Vec<LogSequence>> {
    let needed = |value: &[u8]| {
        let mut fields = Fields(unsealed(value, value)?);
        fields.u64().map(LogSequence)
    };
    whole(answer)?.iter().map(|(_, value)| needed(value)).collect()
}

/// Reads the reports of all nodes. The answer goes to `reports`.
pub fn reports_request(place: &Place) -> Request {
    let (from, until) = place.nodes();
    let limit = NODES_MAX;
    Request::Range { from, until, limit }
}

/// Returns the readable reports on this cluster's history, by node. A node with an unreadable
/// report is not counted.
pub fn reports(place: &Place, answer: &Answer) -> Vec<(NodeId, NodeReport)> {
    let prefix = place.nodes().0;
    let report = |(key, value): &(Vec<u8>, Vec<u8>)| {
        let node = hex(key.strip_prefix(&prefix[..])?).map(NodeId)?;
        let report = NodeReport::decode(value)?;
        (report.cluster == place.cluster).then_some((node, report))
    };
    whole(answer).unwrap_or_default().iter().filter_map(report).collect()
}

pub(crate) fn whole(answer: &Answer) -> Option<&[(Vec<u8>, Vec<u8>)]> {
    match answer {
        Answer::Entries { entries, more: false } => Some(entries),
        _ => None,
    }
}

fn leased(key: Vec<u8>, value: Vec<u8>, lease: LeaseId) -> Request {
    let lease = Some(lease);
    Request::Transact {
        compares: Vec::new(),
        operations: vec![Operation::Put { key, value, lease }],
        otherwise: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_as_written_and_only_whole() {
        let reached = Reached {
            partition: PartitionId(4),
            applied: LogSequence(9),
            synced: LogSequence(8),
        };
        let report = NodeReport {
            cluster: ClusterId(3),
            clock_us: 5,
            partitions: vec![reached, reached],
        };
        let bytes = report.encode();
        assert_eq!(NodeReport::decode(&bytes), Some(report));
        for length in 0..bytes.len() {
            assert_eq!(NodeReport::decode(&bytes[..length]), None, "{length} bytes");
        }
    }
}
