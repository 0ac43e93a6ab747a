//! Change notification: who wants to know that a key or a range changed.
//!
//! Registered and called under the partition's lock, in commit order, once per transaction and watch. A callback must be
//! quick and must not take the lock: it notes the change and wakes somebody.

use std::collections::HashMap;
use std::sync::Arc;

use quartet_model::KeyRange;

/// Names one registered watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(u64);

pub type Callback = Arc<dyn Fn(&[u8]) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Watches {
    next: u64,
    points: HashMap<Vec<u8>, Vec<(WatchId, Callback)>>,
    point_keys: HashMap<WatchId, Vec<u8>>,
    ranges: Vec<(WatchId, KeyRange, Callback)>,
}

impl Watches {
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.ranges.is_empty()
    }

    pub fn add_point(&mut self, key: Vec<u8>, callback: Callback) -> WatchId {
        let id = self.new_id();
        self.points.entry(key.clone()).or_default().push((id, callback));
        self.point_keys.insert(id, key);
        id
    }

    pub fn add_range(&mut self, range: KeyRange, callback: Callback) -> WatchId {
        let id = self.new_id();
        self.ranges.push((id, range, callback));
        id
    }

    pub fn remove(&mut self, id: WatchId) {
        let Some(key) = self.point_keys.remove(&id) else {
            self.ranges.retain(|(other, ..)| *other != id);
            return;
        };
        if let Some(watches) = self.points.get_mut(&key) {
            watches.retain(|(other, _)| *other != id);
            if watches.is_empty() {
                self.points.remove(&key);
            }
        }
    }

    /// Tells every watch of `key`.
    pub fn key_changed(&self, key: &[u8]) {
        for (_, callback) in self.points.get(key).into_iter().flatten() {
            callback(key);
        }
        for (_, range, callback) in &self.ranges {
            if range.contains(key) {
                callback(key);
            }
        }
    }

    /// Tells every watch that a key of `start..end` may have changed. Point watches are told their own key.
    pub fn range_cleared(&self, start: &[u8], end: &[u8]) {
        for (key, watches) in &self.points {
            if start <= key.as_slice() && key.as_slice() < end {
                watches.iter().for_each(|(_, callback)| callback(key));
            }
        }
        for (_, range, callback) in &self.ranges {
            if range.start.as_slice() < end && start < range.end.as_slice() {
                callback(start);
            }
        }
    }

    fn new_id(&mut self) -> WatchId {
        self.next += 1;
        WatchId(self.next)
    }
}
