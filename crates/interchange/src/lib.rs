//! Exchange with other databases, to and from running servers, through the servers' own protocols.
//!
//! ```text
//!   DynamoDB's export, in a folder or a bucket; a live table   <->  a table
//!   a folder with the documents of each collection             <->  FaunaDB's collections
//!   a file of keys and values                                  <->  the key-value layer
//! ```
//!
//! A record arrives whole or not at all, and sending one again changes nothing: items, documents
//! with their times, and keys replace themselves. So a [`Journal`] next to the command, which is
//! never ahead of the arrived records, suffices to resume a killed copy. Records that a target
//! refuses are reported and left out, up to a limit; so are unknown parts of a file.
//!
//! Everything is read and written by blocking calls, on the caller's thread.

pub mod dynamodb;
mod error;
pub mod fauna;
mod http;
mod journal;
pub mod keyvalue;
mod lines;
mod observer;
mod roots;
mod whole_file;

pub use error::{Error, Result};
pub use journal::Journal;
pub use observer::Observer;
pub use roots::TrustedRoots;
pub use whole_file::WholeFile;
