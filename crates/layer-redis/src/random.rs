//! Random picks for the commands that answer some element: SPOP, SRANDMEMBER, HRANDFIELD and their like.
//!
//! Seeded once per process by the standard library, so no clock and no device is read here. Commands are logged by their
//! effects; replaying the log therefore never asks for a random number. Not for secrets: SplitMix64 (Steele, Lea, Flood 2014).

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

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

    /// A number in `0..bound`; panics if `bound` is 0. The high half of a product: its bias is far below one in 2^32 for any
    /// bound that a collection reaches.
    pub fn below(&self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below zero");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// `count` different numbers in `0..bound`, every choice equally likely, their order arbitrary. `count <= bound`.
    /// Floyd's algorithm: as many steps as numbers, however close `count` is to `bound`.
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
    fn every_number_comes_about_equally_often() {
        let random = Random::seeded(1);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }
}
