//! Where the iterations of SCAN stand.
//!
//! Keys lie in the order of their names, which keeps neighbours together for the store, but a name does not fit into a
//! 64-bit cursor. So a cursor is a hash of the name to go on from, and the latest few thousand, or megabytes, are remembered here. A cursor
//! that is not, because the server was restarted or too many iterations run at once, starts the iteration over: keys come
//! twice, which SCAN allows, but none that is there throughout is missed.

use std::collections::{HashMap, VecDeque};

use xxhash_rust::xxh3::Xxh3;

/// Cursors remembered.
const CURSORS_MAX: usize = 16 * 1024;
/// Bytes of their names together.
const NAME_BYTES_MAX: usize = 4 << 20;

#[derive(Default)]
pub struct Cursors {
    names: HashMap<u64, Vec<u8>>,
    /// Oldest first.
    order: VecDeque<u64>,
    name_bytes: usize,
}

impl Cursors {
    /// The cursor that goes on from `name` in database `db`. Never 0.
    pub fn remember(&mut self, db: u8, name: &[u8]) -> u64 {
        let cursor = cursor_of(db, name);
        match self.names.insert(cursor, name.to_vec()) {
            None => self.order.push_back(cursor),
            Some(same_hash) => self.name_bytes -= same_hash.len(),
        }
        self.name_bytes += name.len();
        while self.order.len() > CURSORS_MAX || self.name_bytes > NAME_BYTES_MAX {
            self.forget_oldest();
        }
        cursor
    }

    fn forget_oldest(&mut self) {
        let oldest = self.order.pop_front().and_then(|oldest| self.names.remove(&oldest));
        self.name_bytes -= oldest.map_or(0, |name| name.len());
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
    // Some clients, of JavaScript above all, keep cursors in 64-bit floats, which are exact up to 2^53.
    (hasher.digest() >> 11).max(1)
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

    /// Keys may be 65,000 bytes: a bound of their number alone let cursors take a gigabyte.
    #[test]
    fn long_names_are_bounded_by_their_bytes() {
        let mut cursors = Cursors::default();
        let name = |index: u8| vec![index; NAME_BYTES_MAX / 64];
        let remembered: Vec<u64> = (0..65).map(|index| cursors.remember(0, &name(index))).collect();
        assert_eq!(cursors.name(0, remembered[0]), b"");
        assert_eq!(cursors.name(0, remembered[1]), name(1));
        cursors.remember(0, &name(64));
        assert_eq!((cursors.names.len(), cursors.name_bytes), (64, NAME_BYTES_MAX));
    }
}
