//! The numbers of keys of the default database.

use quartet_layer_redis::Redis;
use quartet_layer_redis::keyspace::{KeyCount, key_counts};

/// The numbers of keys by Redis' numbered databases.
pub struct KeyCounts {
    /// They were counted now, and not at an earlier read.
    pub is_new: bool,
    pub counts: Vec<KeyCount>,
}

impl KeyCounts {
    /// A script may keep the partition for seconds, and metrics are read on a thread that serves
    /// others: then the last counts are returned.
    pub fn read(layer: &Redis) -> KeyCounts {
        let is_new = count_keys(layer);
        let counts = layer.observation.key_counts.lock().clone();
        KeyCounts { is_new, counts }
    }
}

/// Counts the keys, unless something keeps the partition. Done once when the server starts, so that
/// there are always some counts to return.
pub fn count_keys(layer: &Redis) -> bool {
    if layer.engine.is_busy() {
        return false;
    }
    let Ok(reader) = layer.engine.reader(layer.space) else {
        return false;
    };
    *layer.observation.key_counts.lock() = key_counts(&reader);
    true
}
