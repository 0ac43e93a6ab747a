//! The settings of a file log.

use std::hash::{BuildHasher, RandomState};

/// How a file log is written.
#[derive(Clone, Debug)]
pub struct FileLogOptions {
    /// A segment takes no record that would make it larger, unless it holds no other.
    pub segment_bytes: u64,
    /// Mixed into the checksums of segments begun from now on. Must be unknown to clients, so that
    /// no value they store can look like a record; random unless a simulation sets it.
    pub salt: u64,
    /// The folder has one of several partitions, and says so from now on: programs that know of no
    /// partitions do not open it. One that says so already stays one.
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
