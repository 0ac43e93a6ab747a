//! The key-value protocol: bytes in, requests out; replies in, bytes out. No I/O.
//! `docs/keyvalue-protocol.md` draws it.
//!
//! Both sides send frames. A request names itself by a number that its reply repeats, so any number
//! may be under way and replies come in any order. Everything decoded borrows from the frame;
//! nothing is allocated by an announced length.
//!
//! | file      | what it is                                        |
//! |-----------|---------------------------------------------------|
//! | `frame`   | where a frame begins and ends                     |
//! | `request` | what a client asks, as values and as bytes        |
//! | `reply`   | what the server answers                           |
//! | `code`    | the numbers of errors, which are FoundationDB's   |
//! | `texts`   | their texts                                       |
//! | `bytes`   | reading and writing the parts of a frame          |

#![warn(missing_docs)]

mod bytes;
mod code;
mod frame;
mod reply;
mod request;
mod texts;

pub use bytes::Malformed;
pub use code::ErrorCode;
pub use frame::{FRAME_BYTES_MAX, Frame, PREAMBLE, UNAUTHENTICATED_FRAME_BYTES_MAX, next_frame};
pub use reply::{RangeReply, Reply, Welcome};
pub use request::{Commit, Hello, Mutation, MutationKind, RangeRequest, Request, Selector};

/// The version of the protocol that this crate speaks.
pub const PROTOCOL_VERSION: u16 = 1;
