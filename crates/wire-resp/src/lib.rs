//! RESP2 and RESP3, the protocol of Redis, as pure functions over bytes.
//!
//! ```text
//!   bytes of a client --request--> arguments --> (a layer) --> Reply --> bytes to the client
//!   arguments --encode_command--> bytes            bytes of a server --value--> Value
//! ```
//!
//! Three ideas, one file each: [`request`] (server reads), [`reply`] (server writes), [`value`]
//! (both halves of a client). [`number`] reads numbers in words as Redis does. "More bytes are
//! needed" is an answer, never an error. Nothing here allocates by a length that a peer merely
//! announced, and no input panics. No I/O, no async, no knowledge of any command.
//!
//! Follows the RESP specification (redis.io, "Redis serialization protocol specification"); where
//! that is silent, what Redis 8's `networking.c` does.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod number;
pub mod reply;
pub mod request;
pub mod value;

pub use reply::{Protocol, Reply, ReplyMemory, format_double};
pub use request::{Args, Arguments, Limits, Parsed, Parser, ProtocolError, parse};
pub use value::{DecodeError, Value, decode, encode_command, skip};
