//! One layer's part of one logical database.

use quartet_model::{DatabaseId, LayerId};

use crate::options::Durability;

/// Length of the prefix that a space adds to each key.
pub const SPACE_BYTES: usize = 3;

/// The prefix below which a transaction reads and writes, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// The logical database.
    pub database: DatabaseId,
    /// Which layer's part.
    pub layer: LayerId,
    /// The time at which writes of this logical database are acknowledged.
    pub durability: Durability,
}

impl Space {
    /// Returns the prefix of each of its keys in the store.
    pub fn prefix(self) -> [u8; SPACE_BYTES] {
        let [high, low] = self.database.0.to_be_bytes();
        [high, low, self.layer as u8]
    }
}
