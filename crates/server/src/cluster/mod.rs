//! A node among others: several processes that share one log, of which one is home.
//!
//! | file           | what it is                                                            |
//! |----------------|-----------------------------------------------------------------------|
//! | `link`         | connections between nodes, by certificates of the cluster             |
//! | `members`      | the nodes that there are, as each says of itself in the sequencer     |
//! | `balance`      | which home is to be another node's                                    |
//! | `silence`      | when a node tries to become home, without I/O                         |
//! | `node`         | the node itself: what is served in which role, and who is heard       |
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
//! `docs/cluster.md` has the protocol. Safety is the log's alone (`quartet_log_replicated`); what
//! is here decides how soon another node is home, and what clients see meanwhile.

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
