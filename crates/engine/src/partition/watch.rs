//! Change notification: watches of keys and ranges.
//!
//! Registered and called under the partition's lock, in commit order, once per change. A callback
//! must be quick and must not take the lock: it records the change and wakes a thread.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use quartet_model::KeyRange;
use quartet_store::{Read, StoreError};

/// Names one registered watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(u64);

pub type Callback = Arc<dyn Fn(&[u8]) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Watches {
    next: u64,
    /// Those of one key in the order of their ids.
    points: BTreeMap<Vec<u8>, Vec<(WatchId, Callback)>>,
    point_keys: HashMap<WatchId, Vec<u8>>,
    /// In the order of their ids.
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
            if let Ok(at) = self.ranges.binary_search_by_key(&id, |(other, ..)| *other) {
                self.ranges.remove(at);
            }
            return;
        };
        if let Some(watches) = self.points.get_mut(&key) {
            if let Ok(at) = watches.binary_search_by_key(&id, |(other, _)| *other) {
                watches.remove(at);
            }
            if watches.is_empty() {
                self.points.remove(&key);
            }
        }
    }

    /// Notifies every watch of `key`.
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

    /// The watches of the keys of `start..end` that `store` holds, in the order of their keys.
    pub fn of_present(&self, store: &impl Read, start: &[u8], end: &[u8]) -> Result<Vec<WatchId>, StoreError> {
        let mut present = Vec::new();
        if self.is_empty() || start >= end {
            return Ok(present);
        }
        let inside = (Bound::Included(start), Bound::Excluded(end));
        for (key, watches) in self.points.range::<[u8], _>(inside) {
            if store.get(key)?.is_some() {
                present.extend(watches.iter().map(|(id, _)| *id));
            }
        }
        for (id, range, _) in &self.ranges {
            if store.count(start.max(&range.start), end.min(&range.end))? > 0 {
                present.push(*id);
            }
        }
        Ok(present)
    }

    /// Notifies every watch of a key or range with this prefix.
    pub fn tell_all(&self, prefix: &[u8]) {
        let points = self
            .points
            .range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
        for (key, watches) in points.take_while(|(key, _)| key.starts_with(prefix)) {
            watches.iter().for_each(|(_, callback)| callback(key));
        }
        for (_, range, callback) in &self.ranges {
            if range.start.starts_with(prefix) {
                callback(&range.start);
            }
        }
    }

    /// Notifies one watch: a point's with its own key, a range's with the start of the cleared
    /// range.
    pub fn tell(&self, id: WatchId, start: &[u8]) {
        let Some(key) = self.point_keys.get(&id) else {
            if let Ok(at) = self.ranges.binary_search_by_key(&id, |(other, ..)| *other) {
                (self.ranges[at].2)(start);
            }
            return;
        };
        let watches = self.points.get(key).map_or(&[][..], Vec::as_slice);
        if let Ok(at) = watches.binary_search_by_key(&id, |(other, _)| *other) {
            (watches[at].1)(key);
        }
    }

    fn new_id(&mut self) -> WatchId {
        self.next += 1;
        WatchId(self.next)
    }
}
