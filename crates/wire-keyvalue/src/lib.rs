//! The key-value protocol: bytes in, requests out; replies in, bytes out. No I/O.
//! `docs/keyvalue-protocol.md` draws it.
//!
//! Both sides send frames. Each request has a number, which its reply repeats, so any number of
//! requests may be in flight and replies may arrive in any order. Everything decoded borrows from
//! the frame; nothing is allocated by an announced length.
//!
//! | file      | what it is                                        |
//! |-----------|---------------------------------------------------|
//! | `frame`   | the boundaries of a frame                         |
//! | `request` | a client's requests, as values and as bytes       |
//! | `reply`   | the server's replies                              |
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
