//! The requests of one node to another: a line of text each, after the greeting of [`super::link`],
//! which has the format of the requests and of the streams that follow them.
//!
//! ```text
//!   watch PARTITION                      heartbeats, while the called node is home
//!   forward LISTENER PEER PARTITION      a client's connection
//!   carry LISTENER PEER BYTES            a client's connection, after BYTES of its session
//!   push PARTITION NUMBER BYTES          a decision of the first partition's home, BYTES of it
//!   count PROCESS NUMBER BYTES           usage of databases that a node has counted, BYTES of it
//!   hand-over PARTITION NODE             NODE, 16 hexadecimal digits, becomes home
//!   copy PARTITION                       the partition's state and log
//!   clock                                the called node's clock, at each byte
//!   may-take-over                        a check that etcd answers the called node
//!   take-over PARTITION                  the called node becomes home
//! ```

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::str::FromStr;

use quartet_log_replicated::{NodeId, PartitionId};

/// Length limit of a listener's name, in bytes.
const LISTENER_BYTES_MAX: usize = 32;

/// A request of one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeRequest {
    /// Requests heartbeats of the partition's home.
    Watch(PartitionId),
    /// Passes a client on to the listener of the partition's home.
    Forward {
        /// The name of the listener.
        listener: String,
        /// The client's address.
        peer: SocketAddr,
        /// The partition of the client's database.
        partition: PartitionId,
    },
    /// Passes a client and the state of its session on to the first partition's home.
    Carry {
        /// The name of the listener.
        listener: String,
        /// The client's address.
        peer: SocketAddr,
        /// The length of the session's state in bytes; it follows the line.
        bytes: u64,
    },
    /// Sends a decision of the first partition's home to another partition's home.
    Push {
        /// The partition that takes the decision.
        partition: PartitionId,
        /// The decision's number.
        number: u64,
        /// The decision's length in bytes; it follows the line.
        bytes: u64,
    },
    /// Adds to the usage of databases what a node that is not home has counted.
    Count {
        /// The number of the node's process.
        process: u64,
        /// The report's number; it is added once, although it may be sent again.
        number: u64,
        /// The report's length in bytes; it follows the line.
        bytes: u64,
    },
    /// Calls on the partition's home to hand over to another node.
    HandOver {
        /// The partition.
        partition: PartitionId,
        /// The next home.
        node: NodeId,
    },
    /// Requests a copy of a partition.
    Copy(PartitionId),
    /// Requests the called node's clock.
    Clock,
    /// Checks that etcd answers the called node.
    MayTakeOver,
    /// Makes the called node home of the partition.
    TakeOver(PartitionId),
}

/// A line is no request that this version knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown request")]
pub struct UnknownRequest;

impl Display for NodeRequest {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            NodeRequest::Watch(partition) => write!(formatter, "watch {}", partition.0),
            NodeRequest::Forward {
                listener,
                peer,
                partition,
            } => write!(formatter, "forward {listener} {peer} {}", partition.0),
            NodeRequest::Carry { listener, peer, bytes } => write!(formatter, "carry {listener} {peer} {bytes}"),
            NodeRequest::Push {
                partition,
                number,
                bytes,
            } => write!(formatter, "push {} {number} {bytes}", partition.0),
            NodeRequest::Count { process, number, bytes } => write!(formatter, "count {process:016x} {number} {bytes}"),
            NodeRequest::HandOver { partition, node } => write!(formatter, "hand-over {} {:016x}", partition.0, node.0),
            NodeRequest::Copy(partition) => write!(formatter, "copy {}", partition.0),
            NodeRequest::Clock => formatter.write_str("clock"),
            NodeRequest::MayTakeOver => formatter.write_str("may-take-over"),
            NodeRequest::TakeOver(partition) => write!(formatter, "take-over {}", partition.0),
        }
    }
}

impl FromStr for NodeRequest {
    type Err = UnknownRequest;

    fn from_str(line: &str) -> Result<NodeRequest, UnknownRequest> {
        let words: Vec<&str> = line.splitn(5, ' ').collect();
        Ok(match words.as_slice() {
            ["watch", partition] => NodeRequest::Watch(partition_id(partition)?),
            ["forward", listener, peer, partition] => NodeRequest::Forward {
                listener: listener_name(listener)?,
                peer: peer.parse().map_err(|_| UnknownRequest)?,
                partition: partition_id(partition)?,
            },
            ["carry", listener, peer, bytes] => NodeRequest::Carry {
                listener: listener_name(listener)?,
                peer: peer.parse().map_err(|_| UnknownRequest)?,
                bytes: bytes.parse().map_err(|_| UnknownRequest)?,
            },
            ["push", partition, number, bytes] => NodeRequest::Push {
                partition: partition_id(partition)?,
                number: number.parse().map_err(|_| UnknownRequest)?,
                bytes: bytes.parse().map_err(|_| UnknownRequest)?,
            },
            ["count", process, number, bytes] => NodeRequest::Count {
                process: u64::from_str_radix(process, 16).map_err(|_| UnknownRequest)?,
                number: number.parse().map_err(|_| UnknownRequest)?,
                bytes: bytes.parse().map_err(|_| UnknownRequest)?,
            },
            ["hand-over", partition, node] => NodeRequest::HandOver {
                partition: partition_id(partition)?,
                node: u64::from_str_radix(node, 16).map(NodeId).map_err(|_| UnknownRequest)?,
            },
            ["copy", partition] => NodeRequest::Copy(partition_id(partition)?),
            ["clock"] => NodeRequest::Clock,
            ["may-take-over"] => NodeRequest::MayTakeOver,
            ["take-over", partition] => NodeRequest::TakeOver(partition_id(partition)?),
            _ => return Err(UnknownRequest),
        })
    }
}

fn partition_id(number: &str) -> Result<PartitionId, UnknownRequest> {
    number.parse().map(PartitionId).map_err(|_| UnknownRequest)
}

fn listener_name(name: &str) -> Result<String, UnknownRequest> {
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
    match !name.is_empty() && name.len() <= LISTENER_BYTES_MAX && name.bytes().all(is_name) {
        true => Ok(name.to_owned()),
        false => Err(UnknownRequest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_read_as_it_was_written() {
        let partition = PartitionId(3);
        let peer = |address: &str| address.parse().unwrap();
        let forward = |address| NodeRequest::Forward {
            listener: "dynamodb".into(),
            peer: peer(address),
            partition,
        };
        for (request, line) in [
            (NodeRequest::Watch(PartitionId(0)), "watch 0"),
            (forward("10.0.0.1:80"), "forward dynamodb 10.0.0.1:80 3"),
            (forward("[::1]:80"), "forward dynamodb [::1]:80 3"),
            (
                NodeRequest::Carry {
                    listener: "redis".into(),
                    peer: peer("10.0.0.1:80"),
                    bytes: 0,
                },
                "carry redis 10.0.0.1:80 0",
            ),
            (
                NodeRequest::Push {
                    partition,
                    number: 7,
                    bytes: 9,
                },
                "push 3 7 9",
            ),
            (
                NodeRequest::Count {
                    process: 255,
                    number: 7,
                    bytes: 9,
                },
                "count 00000000000000ff 7 9",
            ),
            (
                NodeRequest::HandOver {
                    partition,
                    node: NodeId(255),
                },
                "hand-over 3 00000000000000ff",
            ),
            (NodeRequest::Copy(partition), "copy 3"),
            (NodeRequest::Clock, "clock"),
            (NodeRequest::MayTakeOver, "may-take-over"),
            (NodeRequest::TakeOver(partition), "take-over 3"),
        ] {
            assert_eq!(request.to_string(), line);
            assert_eq!(line.parse(), Ok(request));
        }
    }

    #[test]
    fn a_line_that_is_no_request_is_refused() {
        for line in [
            "",
            "watch",
            "watch ",
            "watch -1",
            "watch 99999999999999999999",
            "watch 0 0",
            "forward redis localhost:80 0",
            "forward  10.0.0.1:80 0",
            "forward RÉDIS 10.0.0.1:80 0",
            "push 0 1",
            "count 7 9",
            "count g 7 9",
            "hand-over 0 g",
            "copy",
            "take-over",
            "may-take-over 0",
            "stop",
        ] {
            assert_eq!(line.parse::<NodeRequest>(), Err(UnknownRequest), "{line}");
        }
    }
}
