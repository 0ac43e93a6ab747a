//! The settings of a file log.

use std::hash::{BuildHasher, RandomState};

/// How a file log is written.
#[derive(Clone, Debug)]
pub struct FileLogOptions {
    /// A segment takes no record that would make it larger, unless it holds no other.
    pub segment_bytes: u64,
    /// Mixed into the checksums of new segments. Must be unknown to clients, so that no value they
    /// store can look like a record; random unless a simulation sets it.
    pub salt: u64,
    /// The folder has one of several partitions, and is marked accordingly: programs without
    /// support for partitions do not open it. The mark is permanent.
    pub is_one_of_several: bool,
}

impl Default for FileLogOptions {
    fn default() -> FileLogOptions {
        FileLogOptions {
            segment_bytes: 64 * 1024 * 1024,
            salt: RandomState::new().hash_one(0),
            is_one_of_several: false,
        }
    }
}
