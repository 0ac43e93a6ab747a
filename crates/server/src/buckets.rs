//! The buckets that DynamoDB's exports go to and imports come from: folders, or prefixes in an object store, that the operator has
//! named. And the thread that does them, the only one that waits for their files.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use quartet_backup::{Tree, open_tree};
use quartet_layer_dynamodb::{Buckets, DynamoDb};
use tokio::sync::watch;

/// How long a transfer that was asked for may wait for the thread to look.
const LOOKS_EVERY: Duration = Duration::from_millis(200);
const AFTER_A_PANIC: Duration = Duration::from_secs(1);

/// Addresses by the names that clients say. Each is opened for each file: what an object store's client keeps would have to be
/// dropped on a thread that may wait.
pub struct NamedBuckets(BTreeMap<String, String>);

impl NamedBuckets {
    /// Refuses an address that cannot be opened.
    pub fn new(named: &[(String, String)]) -> Result<NamedBuckets> {
        for (name, address) in named {
            open_tree(address).with_context(|| format!("dynamodb-buckets: {name}"))?;
        }
        Ok(NamedBuckets(named.iter().cloned().collect()))
    }

    fn tree(&self, bucket: &str) -> io::Result<Arc<dyn Tree>> {
        let address = self.0.get(bucket).ok_or(io::ErrorKind::NotFound)?;
        open_tree(address).map_err(io::Error::other)
    }
}

impl Buckets for NamedBuckets {
    fn has(&self, bucket: &str) -> bool {
        self.0.contains_key(bucket)
    }

    fn put(&self, bucket: &str, path: &str, bytes: Vec<u8>) -> io::Result<()> {
        self.tree(bucket)?.put(path, bytes)
    }

    fn list(&self, bucket: &str, prefix: &str) -> io::Result<Vec<String>> {
        self.tree(bucket)?.list(prefix)
    }

    fn open(&self, bucket: &str, path: &str) -> io::Result<Box<dyn Read + Send>> {
        self.tree(bucket)?.open(path)
    }
}

/// Does what is asked for until the server stops.
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
