//! The targets of exports and sources of imports.

use std::io::{self, Read};

/// The folders that an operator lets clients write to and read from, by their names as buckets.
pub trait Buckets: Send + Sync {
    /// There is a bucket of this name.
    fn has(&self, bucket: &str) -> bool;
    /// Writes a whole file.
    fn put(&self, bucket: &str, path: &str, bytes: Vec<u8>) -> io::Result<()>;
    /// The paths with the prefix `prefix`, sorted.
    fn list(&self, bucket: &str, prefix: &str) -> io::Result<Vec<String>>;
    /// The content of a file.
    fn open(&self, bucket: &str, path: &str) -> io::Result<Box<dyn Read + Send>>;
}

/// Exports and imports are off.
pub struct NoBuckets;

impl Buckets for NoBuckets {
    fn has(&self, _: &str) -> bool {
        false
    }

    fn put(&self, _: &str, _: &str, _: Vec<u8>) -> io::Result<()> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn list(&self, _: &str, _: &str) -> io::Result<Vec<String>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn open(&self, _: &str, _: &str) -> io::Result<Box<dyn Read + Send>> {
        Err(io::ErrorKind::NotFound.into())
    }
}
