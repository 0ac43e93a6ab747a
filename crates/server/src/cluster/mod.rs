//! A node among others: several processes that share one log. One of them is home.
//!
//! | file           | content                                                               |
//! |----------------|-----------------------------------------------------------------------|
//! | `link`         | connections between nodes, by certificates of the cluster             |
//! | `protocol`     | the requests of one node to another                                   |
//! | `members`      | the nodes of the cluster, by their own entries in the sequencer       |
//! | `clocks`       | what the nodes know of each other's clocks                            |
//! | `node`         | the node itself: its services in each role, and the heartbeats        |
//! | `standby`      | the listeners of a node that is not home                              |
//! | `waiting`      | what a node says that has not joined yet                              |
//! | `copying`      | copies of a whole node, before its data are opened                    |
//! | `forward`      | how its clients are passed on to the home                             |
//! | `forward_http2`| the same for connections of HTTP/2, frame by frame                    |
//! | `replica_reads`| reads that a node answers although another is home                    |
//! | `formats`      | the formats that the nodes agree to write, for rolling upgrades       |
//! | `carrying`     | connections that continue at the next home                            |
//! | `identity`     | which cluster a folder is of                                          |
//! | `founding`     | a new cluster with the data of a folder that was no node's            |
//! | `archive`      | a home's continuous backup                                            |
//! | `object_store` | where the bytes of large transactions are                             |
//! | `adoption`     | a new cluster out of one node's folder                                |
//! | `ending`       | the end of a cluster: one node's folder keeps the data                |
//!
//! `docs/cluster.md` has the protocol. Only the log provides safety (`quartet_log_replicated`);
//! this module determines the time until another node is home, and what clients see meanwhile. Its
//! rules are a state machine in `quartet_cluster`.

pub mod adoption;
pub mod archive;
pub mod carrying;
pub mod clocks;
pub mod copying;
pub mod ending;
pub mod formats;
pub mod forward;
mod forward_http2;
mod founding;
pub mod identity;
#[cfg(test)]
mod killed;
pub mod link;
pub mod members;
pub mod node;
pub mod object_store;
pub mod protocol;
pub mod replica_reads;
pub mod standby;
pub mod waiting;
