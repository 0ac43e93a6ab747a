//! The keys of a cluster below its root, and the two small values among them.
//!
//! ```text
//! ROOT/meta                 QMET | format 1 u32 | cluster id u128 | checksum u32                      written once
//!                           with several partitions: format 2 | cluster id | their number u32 | checksum
//! ROOT/adopted              QADP | format 1 u32 | cluster id u128 | sequence u64 | checksum u32      with meta, once
//! ROOT/store                QSTO | format 1 u32 | address of the store of objects, UTF-8 | checksum u32  written once
//! ROOT/format               the format that the nodes write (`agreed`)
//! ROOT/configured/ID        a node that is configured, or was removed (`configured`)
//! ROOT/nodes/ID             a node's report (`copies`), leased
//! ROOT/p/P/term             QTRM | format 1 u32 | term u64 | node u64 | incarnation u64
//!                           | sequence u64 and hash u128 of the Term record | checksum u32            by take-over alone
//! ROOT/p/P/r/N              record N                                                                  written once
//! ROOT/p/P/hold/ID          the lowest sequence that node ID still needs, u64, leased
//! ROOT/p/P/nodes/ID         as ROOT/nodes/ID, for a partition other than the first
//! ```
//!
//! P is decimal; ID and N have 16 hexadecimal digits, so that keys sort in numeric order. The value
//! of `term` names its Term record by hash: no two attempts to take over share one, and a term is
//! never repeated.

use quartet_model::LogSequence;

use crate::record::{Fields, origin, seal, unsealed};
use crate::sequencer::{Compare, Operation, Request};
use crate::words::{ClusterId, NodeId, PartitionId, Position, RecordHash, Term, Writer};

pub(crate) const FORMAT: u32 = 1;
/// The format of `meta` for several partitions: a program that supports only one refuses it.
const SEVERAL: u32 = 2;
const META_MAGIC: &[u8; 4] = b"QMET";
const TERM_MAGIC: &[u8; 4] = b"QTRM";
const STORE_MAGIC: &[u8; 4] = b"QSTO";

/// A partition of a cluster: where its keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    root: String,
    /// The cluster.
    pub cluster: ClusterId,
    /// The partition.
    pub partition: PartitionId,
    /// The number of the cluster's partitions.
    partitions: u32,
}

/// The value of `term`: the home of a partition, as the sequencer has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermValue {
    /// The term.
    pub term: Term,
    /// Its home.
    pub writer: Writer,
    /// The sequence of its Term record.
    pub sequence: LogSequence,
    /// The hash of that record.
    pub hash: RecordHash,
}

impl Place {
    /// The only partition of the cluster with keys under `root` and a slash.
    pub fn new(root: &str, cluster: ClusterId, partition: PartitionId) -> Place {
        let root = root.trim_end_matches('/').to_owned();
        Place {
            root,
            cluster,
            partition,
            partitions: 1,
        }
    }

    /// The same where the cluster has as many partitions.
    #[must_use]
    pub fn with_partitions(self, partitions: u32) -> Place {
        Place { partitions, ..self }
    }

    /// The number of the cluster's partitions.
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// Another partition of the cluster.
    #[must_use]
    pub fn of(&self, partition: PartitionId) -> Place {
        Place {
            partition,
            ..self.clone()
        }
    }

    /// The first partition of the cluster with this `meta`.
    pub fn of_meta(root: &str, meta: &[u8]) -> Option<Place> {
        let (cluster, partitions) = read_meta(meta)?;
        Some(Place::new(root, cluster, PartitionId(0)).with_partitions(partitions))
    }

    /// The prefix of the cluster's keys, without a slash at its end.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The position before record 1.
    pub fn beginning(&self) -> Position {
        Position {
            sequence: LogSequence::ZERO,
            hash: origin(self.cluster, self.partition),
            term: Term::ZERO,
            writer: Writer::default(),
        }
    }

    /// The condition that the store holds this cluster.
    pub fn is_this_cluster(&self) -> Compare {
        Compare::Value {
            key: meta_key(&self.root),
            value: self.meta_value(),
        }
    }

    pub(crate) fn meta_value(&self) -> Vec<u8> {
        let format = if self.partitions == 1 { FORMAT } else { SEVERAL };
        let cluster = self.cluster.0.to_le_bytes();
        let mut bytes = [&META_MAGIC[..], &format.to_le_bytes(), &cluster].concat();
        if format == SEVERAL {
            bytes.extend_from_slice(&self.partitions.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    /// `ROOT/store`.
    pub fn store_key(&self) -> Vec<u8> {
        format!("{}/store", self.root).into_bytes()
    }

    /// Notes the address of the cluster's store of objects, unless there is one.
    pub fn store_request(&self, address: &str) -> Request {
        let mut value = [&STORE_MAGIC[..], &FORMAT.to_le_bytes(), address.as_bytes()].concat();
        seal(&mut value);
        Request::Transact {
            compares: vec![self.is_this_cluster(), Compare::Absent(self.store_key())],
            operations: vec![put(self.store_key(), value)],
            otherwise: Vec::new(),
        }
    }

    /// Returns the address in a value of `ROOT/store`.
    pub fn store_of(value: &[u8]) -> Option<String> {
        let mut fields = Fields(unsealed(value, value)?);
        let has_header = fields.take(4)? == STORE_MAGIC && fields.u32()? == FORMAT;
        let address = String::from_utf8(fields.0.to_vec()).ok()?;
        has_header.then_some(address)
    }

    /// `ROOT/p/P/term`.
    pub fn term_key(&self) -> Vec<u8> {
        format!("{}/p/{}/term", self.root, self.partition.0).into_bytes()
    }

    /// `ROOT/p/P/r/N`.
    pub fn record_key(&self, sequence: LogSequence) -> Vec<u8> {
        format!("{}/p/{}/r/{:016x}", self.root, self.partition.0, sequence.0).into_bytes()
    }

    /// The end of the keys of all records.
    pub fn records_end(&self) -> Vec<u8> {
        format!("{}/p/{}/r0", self.root, self.partition.0).into_bytes()
    }

    /// The sequence in a record's key; `None` for any other key.
    pub fn sequence_of(&self, key: &[u8]) -> Option<LogSequence> {
        let start = self.record_key(LogSequence::ZERO);
        let (prefix, _) = start.split_at(start.len() - 16);
        hex(key.strip_prefix(prefix)?).map(LogSequence)
    }

    /// `ROOT/p/P/hold/ID`.
    pub fn hold_key(&self, node: NodeId) -> Vec<u8> {
        format!("{}/p/{}/hold/{:016x}", self.root, self.partition.0, node.0).into_bytes()
    }

    /// `ROOT/p/P/hold/` and the end of the keys with that prefix.
    pub fn holds(&self) -> (Vec<u8>, Vec<u8>) {
        let path = |end| format!("{}/p/{}/hold{end}", self.root, self.partition.0).into_bytes();
        (path('/'), path('0'))
    }

    /// `ROOT/configured/ID`.
    pub fn configured_key(&self, node: NodeId) -> Vec<u8> {
        format!("{}/configured/{:016x}", self.root, node.0).into_bytes()
    }

    /// `ROOT/configured/` and the end of the keys with that prefix.
    pub fn configured(&self) -> (Vec<u8>, Vec<u8>) {
        let path = |end| format!("{}/configured{end}", self.root).into_bytes();
        (path('/'), path('0'))
    }

    /// `ROOT/nodes/ID`, or `ROOT/p/P/nodes/ID` after the first partition.
    pub fn node_key(&self, node: NodeId) -> Vec<u8> {
        let (mut key, _) = self.nodes();
        key.extend_from_slice(format!("{:016x}", node.0).as_bytes());
        key
    }

    /// The prefix of the keys of `node_key`, and the end of the keys with that prefix.
    pub fn nodes(&self) -> (Vec<u8>, Vec<u8>) {
        let above = match self.partition.0 {
            0 => self.root.clone(),
            number => format!("{}/p/{number}", self.root),
        };
        let path = |end| format!("{above}/nodes{end}").into_bytes();
        (path('/'), path('0'))
    }
}

impl TermValue {
    /// Returns the bytes that `term` holds.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = [&TERM_MAGIC[..], &FORMAT.to_le_bytes()].concat();
        for number in [
            self.term.0,
            self.writer.node.0,
            self.writer.incarnation,
            self.sequence.0,
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.hash.0.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Reads what `encode` wrote.
    pub fn decode(bytes: &[u8]) -> Option<TermValue> {
        let mut fields = Fields(unsealed(bytes, bytes)?);
        let has_header = fields.take(4)? == TERM_MAGIC && fields.u32()? == FORMAT;
        let value = TermValue {
            term: Term(fields.u64()?),
            writer: fields.writer()?,
            sequence: LogSequence(fields.u64()?),
            hash: RecordHash(fields.u128()?),
        };
        (has_header && fields.0.is_empty()).then_some(value)
    }
}

/// `ROOT/meta`: read before anything else by a node that joins.
pub fn meta_key(root: &str) -> Vec<u8> {
    format!("{}/meta", root.trim_end_matches('/')).into_bytes()
}

/// Returns the cluster that a value of `meta` names.
pub fn cluster_of(meta: &[u8]) -> Option<ClusterId> {
    read_meta(meta).map(|(cluster, _)| cluster)
}

/// The cluster of a value of `meta`, and how many partitions it has.
fn read_meta(meta: &[u8]) -> Option<(ClusterId, u32)> {
    let mut fields = Fields(unsealed(meta, meta)?);
    let is_meta = fields.take(4)? == META_MAGIC;
    let (format, cluster) = (fields.u32()?, ClusterId(fields.u128()?));
    let partitions = match format {
        FORMAT => 1,
        SEVERAL => fields.u32().filter(|partitions| *partitions > 1)?,
        _ => return None,
    };
    (is_meta && fields.0.is_empty()).then_some((cluster, partitions))
}

/// The number in 16 hexadecimal digits.
pub(crate) fn hex(digits: &[u8]) -> Option<u64> {
    let is_number = digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    u64::from_str_radix(text, 16).ok()
}

pub(crate) fn put(key: Vec<u8>, value: Vec<u8>) -> Operation {
    let lease = None;
    Operation::Put { key, value, lease }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place::new("/prod/", ClusterId(7), PartitionId(2))
    }

    #[test]
    fn keys_are_those_of_the_page_and_in_order() {
        let place = place();
        assert_eq!(place.record_key(LogSequence(255)), b"/prod/p/2/r/00000000000000ff");
        assert_eq!(place.term_key(), b"/prod/p/2/term");
        assert_eq!(place.hold_key(NodeId(1)), b"/prod/p/2/hold/0000000000000001");
        assert_eq!(place.node_key(NodeId(1)), b"/prod/p/2/nodes/0000000000000001");
        let first = place.of(PartitionId(0));
        assert_eq!(first.node_key(NodeId(1)), b"/prod/nodes/0000000000000001");
        assert!(place.record_key(LogSequence(u64::MAX)) < place.records_end());
        assert!(place.term_key() > place.records_end());
    }

    #[test]
    fn only_keys_of_the_partition_have_a_sequence() {
        let place = place();
        let sequence = LogSequence(u64::MAX - 1);
        assert_eq!(place.sequence_of(&place.record_key(sequence)), Some(sequence));
        let other = Place::new("/prod", ClusterId(7), PartitionId(20));
        assert_eq!(place.sequence_of(&other.record_key(sequence)), None);
        assert_eq!(place.sequence_of(&place.term_key()), None);
        assert_eq!(place.sequence_of(b"/prod/p/2/r/+0000000000000ff"), None);
    }

    #[test]
    fn the_address_of_the_store_is_read_as_noted() {
        let Request::Transact { operations, .. } = place().store_request("s3://bucket/prefix") else {
            panic!("it is a transaction");
        };
        let [Operation::Put { key, value, .. }] = &operations[..] else {
            panic!("it puts one key");
        };
        assert_eq!(key, b"/prod/store");
        assert_eq!(Place::store_of(value).as_deref(), Some("s3://bucket/prefix"));
        assert_eq!(Place::store_of(&value[1..]), None);
    }

    #[test]
    fn small_values_are_read_as_written_and_only_whole() {
        let value = TermValue {
            term: Term(3),
            writer: Writer {
                node: NodeId(1),
                incarnation: 2,
            },
            sequence: LogSequence(9),
            hash: RecordHash(11),
        };
        let (term, meta) = (value.encode(), place().meta_value());
        assert_eq!(TermValue::decode(&term), Some(value));
        assert_eq!(cluster_of(&meta), Some(ClusterId(7)));
        for bit in 0..term.len() * 8 {
            let mut term = term.clone();
            term[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(TermValue::decode(&term), None, "bit {bit}");
        }
        let several = place().with_partitions(4).meta_value();
        let several_place = Place::of_meta("/prod", &several).unwrap();
        assert_eq!((several_place.cluster, several_place.partitions()), (ClusterId(7), 4));
        assert_eq!(Place::of_meta("/prod", &meta).unwrap().partitions(), 1);
        for meta in [meta, several] {
            for length in 0..meta.len() {
                assert_eq!(cluster_of(&meta[..length]), None, "{length} bytes");
            }
        }
    }
}
