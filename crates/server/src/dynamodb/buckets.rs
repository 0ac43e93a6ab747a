//! The buckets for DynamoDB's exports and imports: folders, or prefixes in an object store, named
//! by the operator. And the thread that executes them, the only thread that waits for their files.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use quartet_backup::{Tree, open_tree};
use quartet_layer_dynamodb::{Buckets, DynamoDb};
use tokio::sync::watch;

/// Longest time before the thread notices a requested transfer.
const LOOKS_EVERY: Duration = Duration::from_millis(200);
const AFTER_A_PANIC: Duration = Duration::from_secs(1);

/// The places by the names that clients say. Each is opened for each file: what an object store's
/// client keeps would have to be dropped on a thread that may wait.
pub struct NamedBuckets {
    addresses: BTreeMap<String, String>,
    /// The limit of each bucket, for the bytes of all writers.
    bytes_max: Option<u64>,
    /// The bytes of each bucket when it was counted, plus the bytes written since.
    held_bytes: Mutex<BTreeMap<String, u64>>,
}

impl NamedBuckets {
    /// Refuses an address that cannot be opened.
    pub fn new(named: &[(String, String)], bytes_max: Option<u64>) -> Result<NamedBuckets> {
        for (name, address) in named {
            open_tree(address).with_context(|| format!("dynamodb-buckets: {name}"))?;
        }
        Ok(NamedBuckets {
            addresses: named.iter().cloned().collect(),
            bytes_max,
            held_bytes: Mutex::default(),
        })
    }

    fn tree(&self, bucket: &str) -> io::Result<Arc<dyn Tree>> {
        let address = self.addresses.get(bucket).ok_or(io::ErrorKind::NotFound)?;
        open_tree(address).map_err(io::Error::other)
    }

    /// Reserves `bytes` before a write, if there is room for them. The bucket's contents are
    /// counted again before any refusal: an operator may have made room.
    fn take_room(&self, bucket: &str, tree: &dyn Tree, bytes: u64) -> io::Result<()> {
        let Some(bytes_max) = self.bytes_max else { return Ok(()) };
        let mut held_bytes = self.held_bytes.lock();
        let fits = |bucket_bytes: &u64| bucket_bytes.saturating_add(bytes) <= bytes_max;
        let bucket_bytes = match held_bytes.get(bucket).copied().filter(fits) {
            Some(bucket_bytes) => bucket_bytes,
            None => tree.bytes()?,
        };
        if !fits(&bucket_bytes) {
            let text = format!("the bucket {bucket} holds {bucket_bytes} bytes, and may hold {bytes_max}");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        held_bytes.insert(bucket.to_owned(), bucket_bytes + bytes);
        Ok(())
    }
}

impl Buckets for NamedBuckets {
    fn has(&self, bucket: &str) -> bool {
        self.addresses.contains_key(bucket)
    }

    fn put(&self, bucket: &str, path: &str, bytes: Vec<u8>) -> io::Result<()> {
        let tree = self.tree(bucket)?;
        self.take_room(bucket, tree.as_ref(), bytes.len() as u64)?;
        tree.put(path, bytes)
    }

    fn list(&self, bucket: &str, prefix: &str) -> io::Result<Vec<String>> {
        self.tree(bucket)?.list(prefix)
    }

    fn open(&self, bucket: &str, path: &str) -> io::Result<Box<dyn Read + Send>> {
        self.tree(bucket)?.open(path)
    }
}

/// Executes requested transfers until the server stops.
pub fn transfer(layer: &DynamoDb, stopped: &watch::Receiver<bool>) {
    let may_go_on = || !*stopped.borrow();
    while may_go_on() {
        let turn = AssertUnwindSafe(|| layer.transfer(&may_go_on));
        let pause = match catch_unwind(turn) {
            Ok(()) => LOOKS_EVERY,
            Err(_) => {
                tracing::error!("an export or import panicked: it is tried again");
                AFTER_A_PANIC
            }
        };
        std::thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_takes_no_more_than_it_may_hold() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("there before"), [0; 30]).unwrap();
        let named = [("here".to_owned(), folder.path().to_str().unwrap().to_owned())];
        let buckets = NamedBuckets::new(&named, Some(100)).unwrap();
        buckets.put("here", "a/1", vec![0; 40]).unwrap();
        let refused = buckets.put("here", "a/2", vec![0; 31]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
        assert_eq!(
            buckets.list("here", "a/").unwrap(),
            ["a/1"],
            "nothing is written in part"
        );
        buckets.put("here", "a/2", vec![0; 30]).unwrap();
        assert!(buckets.put("here", "a/3", vec![0; 1]).is_err());
        std::fs::remove_file(folder.path().join("there before")).unwrap();
        buckets.put("here", "a/3", vec![0; 30]).unwrap();
        let unbounded = NamedBuckets::new(&named, None).unwrap();
        unbounded.put("here", "a/4", vec![0; 1000]).unwrap();
    }
}
