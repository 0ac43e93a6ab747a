//! Redis' RDB format as pure functions: values as DUMP, RESTORE and MIGRATE exchange them, and
//! whole files. No I/O, and no knowledge of how a layer keeps a value.
//!
//! ```text
//! payload: what is dumped, RDB version (2 bytes, little-endian), CRC-64 of all before it (8 bytes, little-endian)
//! ```
//!
//! The bytes are untrusted: malformed ones are errors, and nothing is allocated by an announced
//! length. The written version is Redis 7.0's; versions up to Redis 8.4 and Valkey 9 are read.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod compact;
pub mod crc64;
pub mod file;
pub mod functions;
mod json;
mod lzf;
mod module;
mod primitives;
pub mod search_index;
pub mod series;
pub mod sketch;
pub mod stream;
pub mod stream_id;
pub mod suggestions;
pub mod value;
pub mod vector_set;
mod walk;

pub use module::Part;
pub use stream_id::StreamId;

use crc64::crc64;

/// Number of databases that SELECT reaches: a key is in one of `0..DATABASES`.
pub const DATABASES: u8 = 16;
/// Longest name of a key, in bytes.
pub const NAME_BYTES_MAX: usize = 65_000;

/// The version written: Redis 7.0.
const VERSION: u16 = 10;
/// The newest version of Redis that is read: that of Redis 8.4 knows no other kinds of values.
const VERSION_MAX: u16 = 13;
/// The version that knows deadlines of fields: Redis 7.4.
const VERSION_OF_DEADLINES: u16 = 12;
/// From this version on they are Valkey's own, starting with Valkey 9.
const FIRST_VALKEY_VERSION: u16 = 80;
const TRAILER_BYTES: usize = 10;

/// Appends the version and the checksum that end a payload.
pub fn seal(payload: Vec<u8>) -> Vec<u8> {
    seal_as(payload, VERSION)
}

/// The same with another version, for kinds that version 7.0 does not have.
fn seal_as(mut payload: Vec<u8>, version: u16) -> Vec<u8> {
    payload.extend_from_slice(&version.to_le_bytes());
    let checksum = crc64(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// Returns the payload without its trailer, or `None` if version or checksum are wrong.
pub fn open(payload: &[u8]) -> Option<&[u8]> {
    let body_bytes = payload.len().checked_sub(TRAILER_BYTES)?;
    let (body, trailer) = payload.split_at(body_bytes);
    let (version, checksum) = trailer.split_at(2);
    let version = u16::from_le_bytes(version.try_into().ok()?);
    let checksum = u64::from_le_bytes(checksum.try_into().ok()?);
    // A checksum of zero says that none was computed.
    let is_right = checksum == 0 || checksum == crc64(&payload[..body_bytes + 2]);
    let is_known = version <= VERSION_MAX || version == FIRST_VALKEY_VERSION;
    (is_known && is_right).then_some(body)
}
