//! An estimate of how many different values there were, which others can be added to (HyperLogLog).
//!
//! ```text
//! 0 (4 bytes), RANK_BITS (1), then for each of the 2^RANK_BITS groups of values the highest rank (1)
//! ```
//!
//! A value belongs to the group that the first bits of its hash name. Its rank is the place of the
//! first bit that is set in the rest, so that rank `n` takes `2^n` values on average. The method:
//! <https://algo.inria.fr/flajolet/Publications/FlFuGaMe07.pdf>. The error is about 6.5 %.

use xxhash_rust::xxh3::xxh3_64;

const RANK_BITS: u32 = 8;

const GROUPS: usize = 1 << RANK_BITS;

const HEAD: [u8; 5] = [0, 0, 0, 0, RANK_BITS as u8];

/// The highest ranks so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Distinct(Box<[u8; GROUPS]>);

impl Distinct {
    pub const BYTES: usize = GROUPS;

    pub fn new() -> Distinct {
        Distinct(Box::new([0; GROUPS]))
    }

    pub fn add(&mut self, value: &[u8]) {
        let hash = xxh3_64(value);
        let group = (hash >> (u64::BITS - RANK_BITS)) as usize;
        // The additional low bit bounds the rank.
        let remainder = (hash << RANK_BITS) | (1 << (RANK_BITS - 1));
        self.0[group] = self.0[group].max(remainder.leading_zeros() as u8 + 1);
    }

    /// Adds what others have estimated. Returns false if these bytes are none of it.
    pub fn merge(&mut self, bytes: &[u8]) -> bool {
        let ranks: Option<&[u8; GROUPS]> = bytes.strip_prefix(&HEAD).and_then(|ranks| ranks.try_into().ok());
        let Some(ranks) = ranks else {
            return false;
        };
        for (own, other) in self.0.iter_mut().zip(ranks) {
            *own = (*own).max(*other);
        }
        true
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        [&HEAD[..], &self.0[..]].concat()
    }

    /// The approximate number of different values.
    pub fn estimate(&self) -> f64 {
        let groups = GROUPS as f64;
        let sum: f64 = self.0.iter().map(|rank| (-f64::from(*rank)).exp2()).sum();
        let estimate = 0.7213 / (1.0 + 1.079 / groups) * groups * groups / sum;
        let empty = self.0.iter().filter(|rank| **rank == 0).count();
        match estimate <= 2.5 * groups && empty > 0 {
            true => (groups * (groups / empty as f64).ln()).round(),
            false => estimate.round(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_close_and_counts_a_value_once() {
        for count in [0_u32, 1, 10, 100, 1000, 100_000] {
            let mut distinct = Distinct::new();
            for _ in 0..2 {
                (0..count).for_each(|number| distinct.add(&number.to_be_bytes()));
            }
            let error = (distinct.estimate() - f64::from(count)).abs();
            assert!(error <= 0.15 * f64::from(count), "{count}: {}", distinct.estimate());
        }
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let (mut whole, mut sum) = (Distinct::new(), Distinct::new());
        for part in 0..5_u32 {
            let mut partial = Distinct::new();
            for number in part * 100..part * 100 + 200 {
                partial.add(&number.to_be_bytes());
                whole.add(&number.to_be_bytes());
            }
            assert!(sum.merge(&partial.to_bytes()));
        }
        assert_eq!(sum, whole);
    }

    #[test]
    fn other_bytes_are_no_estimate() {
        let mut distinct = Distinct::new();
        let bytes = distinct.to_bytes();
        for other in [&b""[..], b"7", &bytes[..bytes.len() - 1], &[&bytes[..], b"0"].concat()] {
            assert!(!distinct.merge(other));
        }
        // Ranks that no value has.
        assert!(distinct.merge(&[&HEAD[..], &[u8::MAX; GROUPS]].concat()));
        assert!(distinct.estimate().is_finite());
    }
}
