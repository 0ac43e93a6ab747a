//! A node among others: several processes that share one log, of which one is home.
//!
//! | file           | content                                                               |
//! |----------------|-----------------------------------------------------------------------|
//! | `link`         | connections between nodes, by certificates of the cluster             |
//! | `members`      | the nodes of the cluster, by their own entries in the sequencer       |
//! | `balance`      | the choice of the next home to move                                   |
//! | `silence`      | the time at which a node tries to become home, without I/O            |
//! | `node`         | the node itself: its services in each role, and the heartbeats        |
//! | `standby`      | the listeners of a node that is not home                              |
//! | `waiting`      | what a node says that has not joined yet                              |
//! | `copying`      | copies of a whole node, before its data are opened                    |
//! | `forward`      | how its clients are passed on to the home                             |
//! | `identity`     | which cluster a folder is of                                          |
//! | `founding`     | a new cluster with the data of a folder that was no node's            |
//! | `archive`      | a home's continuous backup                                            |
//! | `object_store` | where the bytes of large transactions are                             |
//! | `adoption`     | a new cluster out of one node's folder                                |
//!
//! `docs/cluster.md` has the protocol. Only the log provides safety (`quartet_log_replicated`);
//! this module determines the time until another node is home, and what clients see meanwhile.

pub mod adoption;
pub mod archive;
pub mod balance;
pub mod copying;
pub mod forward;
pub mod founding;
pub mod identity;
#[cfg(test)]
mod killed;
pub mod link;
pub mod members;
pub mod node;
pub mod object_store;
pub mod silence;
pub mod standby;
pub mod waiting;
