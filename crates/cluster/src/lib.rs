//! A node of a cluster as a state machine: roles of its engines, signs of the homes' life and the
//! time in, services and take-overs out.
//!
//! ```text
//!   roles, heartbeats, reads of the sequencer, the time --> NodeState --> Action
//! ```
//!
//! Pure: no thread, no I/O, no lock, no clock. `server::cluster` has threads that carry the actions
//! out, and `sim::cluster` runs the same machine in a simulated world. Only the log provides safety
//! (`quartet_log_replicated`); the exception is the rule that layers end before a take-over, which
//! keeps layers from two terms.
//!
//! | file          | content                                                     |
//! |---------------|-------------------------------------------------------------|
//! | `state`       | the machine                                                 |
//! | `standing`    | the roles of all partitions, and what a node serves in them |
//! | `silence`     | the time at which a node tries to become home               |
//! | `divergence`  | the comparison of state hashes                              |
//! | `start_marks` | the marks for nodes that have started                       |
//! | `balance`     | the choice of the next home to move                         |

pub mod balance;
pub mod divergence;
pub mod silence;
pub mod standing;
pub mod start_marks;
pub mod state;
