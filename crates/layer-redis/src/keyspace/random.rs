//! Random picks for the commands that answer some element: SPOP, SRANDMEMBER, HRANDFIELD and their
//! like.
//!
//! Seeded once per process by the standard library, so no clock and no device is read here.
//! Commands are logged by their effects, so replaying the log needs no random number. Not for
//! secrets: SplitMix64 (Steele, Lea, Flood 2014).

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::command::error_reply::ErrorReply;
use crate::{command::errors, command::parse};

pub struct Random {
    state: AtomicU64,
}

impl Default for Random {
    fn default() -> Random {
        Random::seeded(RandomState::new().hash_one(0_u64))
    }
}

impl Random {
    pub fn seeded(seed: u64) -> Random {
        Random {
            state: AtomicU64::new(seed),
        }
    }

    pub fn next(&self) -> u64 {
        let state = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`; panics if `bound` is 0. The high half of a product: its bias is far
    /// below one in 2^32 for any bound that a collection reaches.
    pub fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// `count` different numbers in `0..bound`, every choice equally likely, in arbitrary order.
    /// `count <= bound`. Floyd's algorithm: as many steps as numbers, even if `count` is close to
    /// `bound`.
    pub fn distinct(&self, count: u64, bound: u64) -> Vec<u64> {
        assert!(count <= bound, "only {bound} different numbers, {count} wanted");
        let mut seen = HashSet::with_capacity(count as usize);
        let mut picked = Vec::with_capacity(count as usize);
        for last in bound - count..bound {
            let candidate = self.below(last + 1);
            let number = if seen.insert(candidate) { candidate } else { last };
            seen.insert(number);
            picked.push(number);
        }
        picked
    }
}

/// The number of elements to pick, as in SRANDMEMBER, HRANDFIELD and ZRANDMEMBER: a negative number
/// allows repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PickCount(i64);

/// Most picks with repetitions. Redis would go on until its memory is used up.
const REPEATED_PICKS_MAX: u64 = 1 << 22;
const OUT_OF_RANGE: &str = "ERR value is out of range";
/// A position, and its place among those that are known.
const POSITION_BYTES: usize = 32;

impl PickCount {
    pub fn parse(text: &[u8]) -> Result<PickCount, ErrorReply> {
        match parse::required_integer(text)? {
            i64::MIN => Err(errors::COUNT_OUT_OF_RANGE.into()),
            count => Ok(PickCount(count)),
        }
    }

    /// Refuses what would overflow as each pick answers two elements.
    pub fn of_pairs(self) -> Result<PickCount, ErrorReply> {
        if self.0.unsigned_abs() > i64::MAX as u64 / 2 {
            return Err(OUT_OF_RANGE.into());
        }
        Ok(self)
    }

    /// Memory for the positions in a collection of `size` elements.
    pub fn bytes(self, size: u64) -> usize {
        let wanted = self.0.unsigned_abs();
        let count = if self.0 >= 0 {
            wanted.min(size)
        } else {
            wanted.min(REPEATED_PICKS_MAX)
        };
        (count as usize).saturating_mul(POSITION_BYTES)
    }

    /// Positions in a collection of `size` elements: all of them in order if that many are wanted,
    /// otherwise in any order.
    pub fn positions(self, random: &Random, size: u64) -> Result<Vec<u64>, ErrorReply> {
        let count = self.0.unsigned_abs();
        if size == 0 {
            return Ok(Vec::new());
        }
        if self.0 >= 0 && count >= size {
            return Ok((0..size).collect());
        }
        if self.0 >= 0 {
            return Ok(random.distinct(count, size));
        }
        if count > REPEATED_PICKS_MAX {
            return Err(OUT_OF_RANGE.into());
        }
        Ok((0..count).map(|_| random.below(size)).collect())
    }
}

/// The golden ratio's fraction: every multiple of it modulo 2^64 is another state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_are_different_and_cover_everything() {
        let random = Random::seeded(7);
        for count in 0..=10 {
            let mut picked = random.distinct(count, 10);
            picked.sort_unstable();
            picked.dedup();
            assert_eq!(picked.len() as u64, count);
            assert!(picked.iter().all(|&number| number < 10));
        }
    }

    #[test]
    fn the_requested_number_is_picked() {
        let random = Random::seeded(7);
        let picked = |count: &[u8], size| PickCount::parse(count).unwrap().positions(&random, size);
        for (count, size, expected) in [
            ("3", 10, 3),
            ("12", 10, 10),
            ("-12", 10, 12),
            ("0", 10, 0),
            ("-5", 0, 0),
        ] {
            assert_eq!(
                picked(count.as_bytes(), size).unwrap().len(),
                expected,
                "{count} of {size}"
            );
        }
        assert!(picked(b"-4194305", 10).is_err());
        assert!(PickCount::parse(b"-9223372036854775808").is_err());
        assert!(PickCount::parse(b"4611686018427387904").unwrap().of_pairs().is_err());
    }

    #[test]
    fn every_number_is_about_equally_frequent() {
        let random = Random::seeded(1);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }
}
