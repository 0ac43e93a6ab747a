//! The records of YCSB: ten fields of 100 bytes below a key that is a hash of their number.

use crate::byte_strings::ByteStrings;
use crate::random::Random;

/// The fields of a record.
pub const FIELD_NAMES: [&str; 10] = [
    "field0", "field1", "field2", "field3", "field4", "field5", "field6", "field7", "field8", "field9",
];
/// Length of each value.
pub const FIELD_BYTES: usize = 100;

/// A record: its key, and the values in the order of `FIELD_NAMES`.
#[derive(Clone, Debug, Default)]
pub struct Record {
    key: u64,
    values: ByteStrings,
}

impl Record {
    /// At most `i64::MAX`.
    pub fn key(&self) -> u64 {
        self.key
    }

    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.values.iter()
    }

    /// Becomes the record `number` with values drawn from `random`.
    pub fn fill(&mut self, number: u64, random: &mut Random) {
        self.key = key_of(number);
        self.values.clear();
        FIELD_NAMES
            .iter()
            .for_each(|_| random.text(FIELD_BYTES, &mut self.values));
    }
}

/// The key of the record `number`, a hash of it.
pub fn key_of(number: u64) -> u64 {
    scatter(number) & i64::MAX as u64
}

/// FNV-1a over the eight bytes of a number: YCSB's hash of ranks and of keys.
pub fn scatter(number: u64) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    number.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_of_a_kilobyte_and_the_same_for_the_same_seed() {
        let record = |seed| {
            let mut record = Record::default();
            record.fill(7, &mut Random::new(seed, &[]));
            record
        };
        let values: Vec<Vec<u8>> = record(1).values().map(<[u8]>::to_vec).collect();
        assert_eq!(values.concat().len(), 1_000);
        assert!(
            values
                .concat()
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        );
        assert_eq!(record(1).values, record(1).values);
        assert_ne!(record(1).values, record(2).values);
    }

    #[test]
    fn keys_differ_and_are_in_no_order() {
        let keys: Vec<u64> = (0..10_000).map(key_of).collect();
        let distinct: std::collections::HashSet<&u64> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        assert!(!keys.is_sorted() && keys.iter().all(|key| i64::try_from(*key).is_ok()));
    }
}
