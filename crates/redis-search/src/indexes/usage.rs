//! Number of queries of indexes since the start of the process, which FT.INFO shows.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use quartet_engine::UniqueId;

/// Indexes whose uses are counted. Those of all are forgotten when there are more.
const COUNTED_MAX: usize = 4096;

/// The dialects that there are.
pub const DIALECTS: std::ops::RangeInclusive<u8> = 1..=4;

/// The uses of one index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Searches and aggregations that were answered.
    pub queries: u64,
    /// Requests about the index itself.
    pub others: u64,
    /// A bit for each dialect that a query had.
    dialects: u8,
}

impl Uses {
    pub fn had_dialect(&self, dialect: u8) -> bool {
        self.dialects & (1 << dialect) != 0
    }
}

/// The uses of all indexes, by their numbers.
#[derive(Default)]
pub struct Usage(Mutex<BTreeMap<UniqueId, Uses>>);

impl Usage {
    pub fn note_query(&self, index: &UniqueId, dialect: u8) {
        self.change(index, |uses| {
            uses.queries += 1;
            uses.dialects |= 1 << dialect;
        });
    }

    /// Counts a request about the index itself. Returns the uses, this one among them.
    pub fn note_other(&self, index: &UniqueId) -> Uses {
        self.change(index, |uses| uses.others += 1)
    }

    fn change(&self, index: &UniqueId, change: impl FnOnce(&mut Uses)) -> Uses {
        let mut counts = self.0.lock();
        if counts.len() >= COUNTED_MAX && !counts.contains_key(index) {
            counts.clear();
        }
        let uses = counts.entry(*index).or_default();
        change(uses);
        *uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_index_has_its_own() {
        let usage = Usage::default();
        let (first, second) = ([1; 10], [2; 10]);
        usage.note_query(&first, 3);
        let uses = usage.note_other(&first);
        assert_eq!((uses.queries, uses.others), (1, 1));
        assert_eq!(
            DIALECTS
                .filter(|dialect| uses.had_dialect(*dialect))
                .collect::<Vec<_>>(),
            [3]
        );
        assert_eq!(
            usage.note_other(&second),
            Uses {
                others: 1,
                ..Uses::default()
            }
        );
    }
}
