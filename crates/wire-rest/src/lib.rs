//! Upstash's REST protocol for Redis, as pure functions over bytes.
//!
//! ```text
//!   path, query, body --request--> commands, as RESP --> (a layer) --> RESP2 replies --reply--> JSON
//!                                                                      RESP2 messages --event--> lines of an event stream
//! ```
//!
//! RESP is the intermediate form because queues of MULTI, blocked commands and scripts of the layer
//! keep it: all of them would have to understand a second form of a request or of a reply. Each
//! direction is one pass over the bytes.
//!
//! No input panics, and nothing is allocated by a length that a peer announced. No I/O, no
//! knowledge of any command.
//!
//! Follows <https://upstash.com/docs/redis/features/restapi> and what `@upstash/redis` 1.38 sends
//! and reads.

#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod event;
pub mod reply;
pub mod request;

pub use event::write_events;
pub use reply::{Encoding, write_result, write_results, write_transaction};
pub use request::{Commands, Malformed, commands_of_body};
