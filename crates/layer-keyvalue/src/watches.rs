//! Notification of a client that the value of a key changed.
//!
//! The engine calls the watch for every write of the key, under the lock; the session then compares
//! the value, so writing the same value again causes no notification. A watch is registered under
//! the lock that its value was compared under, so no change is missed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use quartet_engine::{Dependency, PartitionGuard, WatchId};
use quartet_wire_keyvalue::{ErrorCode, Request};

use crate::KeyValue;

/// Most bytes that all watches of a database together keep: keys, values, and what each takes
/// beside them.
const WATCHED_BYTES_MAX: usize = 256 << 20;
const WATCH_BYTES: usize = 300;

/// Wakes the connection, from any thread. It must be quick.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

pub(crate) struct Watches {
    wake: Wake,
    by_request: HashMap<u32, Watched>,
    /// Requests with a written key. A set: a peer that does not take replies may watch keys that
    /// are written constantly.
    touched: Arc<Mutex<HashSet<u32>>>,
    /// The memory of the watches of all sessions.
    all_bytes: Arc<AtomicUsize>,
}

struct Watched {
    watch: WatchId,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    _counted: Counted,
}

impl Watched {
    /// Writes the request once more.
    fn put(&self, request: u32, output: &mut Vec<u8>) {
        let watch = Request::Watch {
            // It was allowed.
            system: true,
            key: &self.key,
            value: self.value.as_deref(),
        };
        watch.put(request, output);
    }
}

/// Bytes that a watch keeps, counted until it is dropped.
struct Counted {
    all_bytes: Arc<AtomicUsize>,
    bytes: usize,
}

impl Counted {
    fn new(all_bytes: &Arc<AtomicUsize>, bytes: usize) -> Option<Counted> {
        let room = WATCHED_BYTES_MAX.checked_sub(bytes)?;
        let added = all_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |all| {
            (all <= room).then_some(all + bytes)
        });
        added.ok().map(|_| Counted {
            all_bytes: all_bytes.clone(),
            bytes,
        })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.all_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Watches {
    pub fn new(wake: Wake, all_bytes: Arc<AtomicUsize>) -> Watches {
        Watches {
            wake,
            by_request: HashMap::new(),
            touched: Arc::default(),
            all_bytes,
        }
    }

    /// Adds a watch; or returns, with the dependency, that the value already differs.
    pub fn add(
        &mut self,
        layer: &KeyValue,
        partition: &mut PartitionGuard<'_>,
        request: u32,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<Option<Dependency>, ErrorCode> {
        let (differs, dependency) = compare(layer, partition, key, value);
        if differs {
            return Ok(Some(dependency));
        }
        if self.by_request.len() >= layer.options.watches_max {
            return Err(ErrorCode::WATCH_LIMIT);
        }
        let bytes = WATCH_BYTES + key.len() + value.map_or(0, <[u8]>::len);
        let counted = Counted::new(&self.all_bytes, bytes).ok_or(ErrorCode::WATCH_LIMIT)?;
        let (touched, wake) = (self.touched.clone(), self.wake.clone());
        let note = move |_: &[u8]| {
            touched.lock().insert(request);
            wake();
        };
        let watched = Watched {
            watch: partition.watch_key(layer.space, key, Arc::new(note)),
            key: key.to_vec(),
            value: value.map(<[u8]>::to_vec),
            _counted: counted,
        };
        if let Some(replaced) = self.by_request.insert(request, watched) {
            partition.unwatch(replaced.watch);
        }
        Ok(None)
    }

    pub fn is_touched(&self) -> bool {
        !self.touched.lock().is_empty()
    }

    /// Removes and returns the watches whose values differ now, each with its notification's
    /// dependency.
    pub fn fired(&mut self, layer: &KeyValue, partition: &mut PartitionGuard<'_>) -> Vec<(u32, Dependency)> {
        let touched = std::mem::take(&mut *self.touched.lock());
        let mut fired = Vec::new();
        for request in touched {
            let Some(watched) = self.by_request.get(&request) else {
                continue;
            };
            let (differs, dependency) = compare(layer, partition, &watched.key, watched.value.as_deref());
            if differs {
                partition.unwatch(watched.watch);
                self.by_request.remove(&request);
                fired.push((request, dependency));
            }
        }
        fired
    }

    pub fn cancel(&mut self, partition: &mut PartitionGuard<'_>, request: u32) {
        if let Some(watched) = self.by_request.remove(&request) {
            partition.unwatch(watched.watch);
        }
    }

    /// The requests for what is watched.
    pub fn requests(&self) -> Vec<u8> {
        let mut requests = Vec::new();
        let watched = self.by_request.iter();
        watched.for_each(|(request, watched)| watched.put(*request, &mut requests));
        requests
    }

    pub fn is_empty(&self) -> bool {
        self.by_request.is_empty()
    }

    /// Everything that is watched. It is left to the caller to end it.
    pub fn take_all(&mut self) -> Vec<WatchId> {
        self.by_request.drain().map(|(_, watched)| watched.watch).collect()
    }
}

/// Whether the key's value differs from `value`, and what the answer depends on.
fn compare(
    layer: &KeyValue,
    partition: &mut PartitionGuard<'_>,
    key: &[u8],
    value: Option<&[u8]>,
) -> (bool, Dependency) {
    let compared = partition.execute(layer.space, |transaction| {
        let row = transaction.get(key);
        Ok::<_, std::convert::Infallible>(row.as_ref().map(|row| row.value()) != value)
    });
    compared.expect("reading neither fails nor grows")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_watches_are_counted_and_bounded() {
        let all_bytes = Arc::new(AtomicUsize::new(0));
        let half = Counted::new(&all_bytes, WATCHED_BYTES_MAX / 2).unwrap();
        let other_half = Counted::new(&all_bytes, WATCHED_BYTES_MAX / 2).unwrap();
        assert!(Counted::new(&all_bytes, 1).is_none());
        assert!(Counted::new(&all_bytes, usize::MAX).is_none());
        drop(half);
        let half = Counted::new(&all_bytes, 1).unwrap();
        drop((half, other_half));
        assert_eq!(all_bytes.load(Ordering::Relaxed), 0);
    }
}
