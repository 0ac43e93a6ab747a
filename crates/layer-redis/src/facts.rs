//! Facts for clients that hold for every layer.

pub use quartet_wire_rdb::DATABASES;

/// The version of Redis whose commands and replies this layer follows; clients gate features on it.
pub const REDIS_VERSION: &str = "7.4.0";
/// A value of 512 MB fits, and all of a large collection.
pub const REPLY_BYTES_MAX: usize = 1 << 30;
