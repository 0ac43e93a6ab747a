//! Which record a request takes: the distributions of YCSB.
//!
//! Zipfian numbers by the method of Gray and others ("Quickly generating billion-record synthetic
//! databases", 1994), with YCSB's exponent of 0.99. YCSB draws a rank among ten billion and
//! scatters it over the records by a hash, so that the popular records are spread out; "latest"
//! takes the rank unchanged, counted back from the newest record.

use crate::random::Random;
use crate::records::ycsb::scatter;

/// How the records of a workload are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Distribution {
    /// A few records are chosen often, spread over all.
    Zipfian,
    /// Every record as often as any other.
    Uniform,
    /// The newer, the more often.
    Latest,
}

const EXPONENT: f64 = 0.99;
/// Ranks that are scattered over the records, and the harmonic sum over all of them.
const SCATTERED_RANKS: u64 = 10_000_000_000;
const SCATTERED_ZETA: f64 = 26.469_028_201_783_02;

/// Chooses records by their number, in the order of their insertion.
#[derive(Clone, Debug)]
pub struct Choice {
    distribution: Distribution,
    zipfian: Zipfian,
}

impl Choice {
    /// `records` is how many there are at the start.
    pub fn new(distribution: Distribution, records: u64) -> Choice {
        let zipfian = match distribution {
            Distribution::Latest => Zipfian::among(records),
            Distribution::Zipfian | Distribution::Uniform => Zipfian::with_zeta(SCATTERED_RANKS, SCATTERED_ZETA),
        };
        Choice { distribution, zipfian }
    }

    /// Chooses one of `0..records`; `records` is at least 1.
    pub fn choose(&mut self, random: &mut Random, records: u64) -> u64 {
        match self.distribution {
            Distribution::Uniform => random.below(records),
            Distribution::Zipfian => scatter(self.zipfian.rank(random)) % records,
            Distribution::Latest => {
                self.zipfian.grow(records);
                records - 1 - self.zipfian.rank(random).min(records - 1)
            }
        }
    }
}

/// Ranks from 0, in descending probability: rank `r` is drawn in proportion to `1 / (r + 1) ^
/// EXPONENT`.
#[derive(Clone, Debug)]
struct Zipfian {
    count: u64,
    /// The sum of the proportions of all ranks.
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    fn among(count: u64) -> Zipfian {
        Zipfian::with_zeta(count, zeta_between(0, count))
    }

    fn with_zeta(count: u64, zeta: f64) -> Zipfian {
        let eta = (1.0 - (2.0 / count as f64).powf(1.0 - EXPONENT)) / (1.0 - zeta_between(0, 2) / zeta);
        Zipfian { count, zeta, eta }
    }

    fn grow(&mut self, count: u64) {
        if count > self.count {
            *self = Zipfian::with_zeta(count, self.zeta + zeta_between(self.count, count));
        }
    }

    fn rank(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let share = unit * self.zeta;
        if share < 1.0 {
            return 0;
        }
        if share < 1.0 + 0.5_f64.powf(EXPONENT) {
            return 1;
        }
        let power = (self.eta * unit - self.eta + 1.0).powf(1.0 / (1.0 - EXPONENT));
        ((self.count as f64 * power) as u64).min(self.count - 1)
    }
}

fn zeta_between(from: u64, to: u64) -> f64 {
    (from..to).map(|rank| 1.0 / (rank as f64 + 1.0).powf(EXPONENT)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 200_000;

    /// The number of choices of each of `records`.
    fn counts(distribution: Distribution, records: u64) -> Vec<u64> {
        let (mut choice, mut random) = (Choice::new(distribution, records), Random::new(1, &[]));
        let mut counts = vec![0; records as usize];
        for _ in 0..DRAWS {
            counts[choice.choose(&mut random, records) as usize] += 1;
        }
        counts
    }

    fn check_share(count: u64, expected: f64) {
        let share = count as f64 / DRAWS as f64;
        assert!((share / expected - 1.0).abs() < 0.1, "{share} instead of {expected}");
    }

    #[test]
    fn uniform_takes_each_as_often() {
        counts(Distribution::Uniform, 20)
            .iter()
            .for_each(|&count| check_share(count, 0.05));
    }

    #[test]
    fn latest_follows_the_law_of_zipf_from_the_end() {
        let counts = counts(Distribution::Latest, 1_000);
        let zeta = zeta_between(0, 1_000);
        for rank in [0, 1] {
            check_share(counts[999 - rank], 1.0 / (rank as f64 + 1.0).powf(EXPONENT) / zeta);
        }
        // Single ranks are approximated; what the hundred newest have together is not.
        check_share(counts[900..].iter().sum(), zeta_between(0, 100) / zeta);
    }

    #[test]
    fn zipfian_has_the_same_popularity_somewhere_else() {
        let mut counts = counts(Distribution::Zipfian, 1_000);
        assert!(
            counts[0] < counts.iter().copied().max().unwrap(),
            "the most popular is not the first"
        );
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // The most popular of ten billion, and its share of the scattered ranks.
        check_share(counts[0], 1.0 / SCATTERED_ZETA + 0.0005);
        assert!(counts[999] > 0, "the tail is scattered over all");
    }

    #[test]
    fn growing_is_the_same_as_being_larger() {
        let mut grown = Zipfian::among(10);
        grown.grow(5_000);
        let whole = Zipfian::among(5_000);
        assert!((grown.zeta - whole.zeta).abs() < 1e-9 && (grown.eta - whole.eta).abs() < 1e-9);
        let mut random = Random::new(3, &[]);
        assert!((0..DRAWS).all(|_| grown.rank(&mut random) < 5_000));
    }

    #[test]
    fn one_record_is_always_picked() {
        for distribution in [Distribution::Zipfian, Distribution::Uniform, Distribution::Latest] {
            assert_eq!(counts(distribution, 1), [DRAWS]);
        }
    }
}
