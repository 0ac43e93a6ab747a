//! Where the iterations of SCAN stand.
//!
//! Keys lie in the order of their names, which keeps neighbours together for the store, but a name does not fit into a
//! 64-bit cursor. So a cursor is a hash of the name to go on from, and the latest few thousand are remembered here. A cursor
//! that is not, because the server was restarted or too many iterations run at once, starts the iteration over: keys come
//! twice, which SCAN allows, but none that is there throughout is missed.

use std::collections::{HashMap, VecDeque};

use xxhash_rust::xxh3::Xxh3;

/// Cursors remembered.
const CURSORS_MAX: usize = 16 * 1024;

#[derive(Default)]
pub struct Cursors {
    names: HashMap<u64, Vec<u8>>,
    /// Oldest first.
    order: VecDeque<u64>,
}

impl Cursors {
    /// The cursor that goes on from `name` in database `db`. Never 0.
    pub fn remember(&mut self, db: u8, name: &[u8]) -> u64 {
        let cursor = cursor_of(db, name);
        if self.names.insert(cursor, name.to_vec()).is_none() {
            self.order.push_back(cursor);
            if self.order.len() > CURSORS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.names.remove(&oldest);
            }
        }
        cursor
    }

    /// The name to go on from: the first of all for cursor 0, or one that is not known in this database.
    pub fn name(&self, db: u8, cursor: u64) -> Vec<u8> {
        let name = self.names.get(&cursor).filter(|name| cursor_of(db, name) == cursor);
        name.cloned().unwrap_or_default()
    }
}

fn cursor_of(db: u8, name: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&[db]);
    hasher.update(name);
    // Some clients keep cursors in signed numbers.
    (hasher.digest() >> 1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered_and_others_start_over() {
        let mut cursors = Cursors::default();
        let first = cursors.remember(0, b"first");
        assert_eq!(cursors.name(0, first), b"first");
        assert_eq!(cursors.name(1, first), b"");
        for index in 0..CURSORS_MAX {
            cursors.remember(0, index.to_string().as_bytes());
        }
        assert_eq!(cursors.name(0, first), b"");
        assert_eq!((cursors.names.len(), cursors.order.len()), (CURSORS_MAX, CURSORS_MAX));
    }
}
