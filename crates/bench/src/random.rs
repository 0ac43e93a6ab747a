//! Random numbers that are the same on every machine for the same seed.
//!
//! SplitMix64 (Steele, Lea, Flood 2014): one addition and a few multiplications a number, so the
//! load generator spends next to nothing on choosing. Workloads need reproducible variety from it,
//! not cryptographic quality.

use crate::byte_strings::ByteStrings;

#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A stream of its own for each path, such as `[test, parallelism, worker]`, so that no two
    /// workers choose alike.
    pub fn new(seed: u64, path: &[u64]) -> Random {
        let mut random = Random { state: seed };
        for &part in path {
            random.state = random.next() ^ part;
        }
        random
    }

    // Not an `Iterator`: the stream has no end, and an `Option` on every number would be noise.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in `0..end`, to within `end / 2^64`. `end` is above zero.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// Uniform in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Adds a string of `length` letters, digits, `-` and `_`, which no protocol has to escape.
    pub fn text(&mut self, bytes: usize, strings: &mut ByteStrings) {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut remaining = bytes;
        while remaining > 0 {
            // Ten letters of six bits.
            let (mut bits, mut letters) = (self.next(), [0; 10]);
            for letter in &mut letters {
                *letter = LETTERS[bits as usize % LETTERS.len()];
                bits >>= 6;
            }
            let count = remaining.min(letters.len());
            strings.extend(&letters[..count]);
            remaining -= count;
        }
        strings.end_string();
    }

    /// One of `choices`, which is not empty.
    pub fn choose<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_and_paths_give_equal_streams() {
        let stream = |seed, path: &[u64]| {
            let mut random = Random::new(seed, path);
            (0..100).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(stream(7, &[1, 2]), stream(7, &[1, 2]));
        assert_ne!(stream(7, &[1, 2]), stream(7, &[2, 1]));
        assert_ne!(stream(7, &[1, 2]), stream(8, &[1, 2]));
        assert!(stream(7, &[]).iter().all(|&number| number < 1000));
    }

    #[test]
    fn units_and_texts_are_within_their_bounds() {
        let (mut random, mut strings) = (Random::new(1, &[]), ByteStrings::default());
        let mean = (0..10_000).map(|_| random.unit()).sum::<f64>() / 10_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
        (0..50).for_each(|bytes| random.text(bytes, &mut strings));
        assert!(strings.iter().map(<[u8]>::len).eq(0..50));
    }
}
