//! The documents and vectors that the benchmarks of search store and look for.

use crate::random::Random;

/// Words of a text, drawn by Zipf's law: the word of rank `r` with a probability that goes as `1 /
/// r`.
const WORDS: usize = 60;
pub const VOCABULARY: u64 = 20_000;

pub const TAGS: u64 = 1_000;

/// Numbers are random in `0..NUMBERS`.
pub const NUMBERS: u64 = 1_000_000;

/// A document of a text, a tag and a number.
#[derive(Clone, Debug, Default)]
pub struct Document {
    pub number: u64,
    /// Ranks of its words, from 0.
    pub words: Vec<u64>,
    pub tag: u64,
    pub value: u64,
}

impl Document {
    /// Replaces the content of this document.
    pub fn fill(&mut self, number: u64, random: &mut Random) {
        self.number = number;
        self.words.clear();
        let rank = |random: &mut Random| ((VOCABULARY as f64 + 1.0).powf(random.unit()) as u64 - 1).min(VOCABULARY - 1);
        self.words.extend((0..WORDS).map(|_| rank(random)));
        self.tag = random.below(TAGS);
        self.value = random.below(NUMBERS);
    }

    pub fn text(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|rank| word(*rank)).collect();
        words.join(" ")
    }
}

/// The word of a rank, which has no stem and is no stop word.
pub fn word(rank: u64) -> String {
    format!("w{rank:05}")
}

/// Which documents are looked for.
#[derive(Clone, Copy, Debug)]
pub enum Condition {
    Tag(u64),
    /// Numbers from the first to the second, both inclusive.
    Numbers(u64, u64),
    /// Ranked by score.
    Word(u64),
}

/// The place of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// In hashes below an index with a graph.
    Indexed,
    /// In a set of vectors.
    Set,
}

/// Vectors around a hundred centres, by their numbers.
pub struct Cloud {
    seed: u64,
    centres: Vec<Vec<f32>>,
    dimensions: usize,
}

const CENTRES: u64 = 100;

impl Cloud {
    pub fn new(seed: u64, dimensions: usize) -> Cloud {
        let mut random = Random::new(seed, &[CENTRE_STREAM]);
        let centre = |random: &mut Random| (0..dimensions).map(|_| random.unit() as f32 - 0.5).collect();
        Cloud {
            seed,
            centres: (0..CENTRES).map(|_| centre(&mut random)).collect(),
            dimensions,
        }
    }

    /// The vector that is stored under this number, of length one.
    pub fn stored(&self, number: u64) -> Vec<f32> {
        self.vector(STORED_STREAM, number)
    }

    /// The vector of a query.
    pub fn asked(&self, number: u64) -> Vec<f32> {
        self.vector(ASKED_STREAM, number)
    }

    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn vector(&self, stream: u64, number: u64) -> Vec<f32> {
        let mut random = Random::new(self.seed, &[stream, number]);
        let centre = &self.centres[random.below(CENTRES) as usize];
        let vector: Vec<f32> = centre
            .iter()
            .map(|component| component + random.unit() as f32 - 0.5)
            .collect();
        let length = product(&vector, &vector).sqrt();
        vector.iter().map(|component| component / length).collect()
    }
}

/// The inner product, in lanes that a compiler adds side by side.
pub fn product(a: &[f32], b: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0; LANES];
    for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

/// Components as the commands take them.
pub fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|component| component.to_le_bytes()).collect()
}

const CENTRE_STREAM: u64 = 1;
const STORED_STREAM: u64 = 2;
const ASKED_STREAM: u64 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_words_are_those_of_low_ranks() {
        let (mut random, mut document) = (Random::new(1, &[]), Document::default());
        let mut counts = vec![0_u32; VOCABULARY as usize];
        for number in 0..1_000 {
            document.fill(number, &mut random);
            document.words.iter().for_each(|rank| counts[*rank as usize] += 1);
            assert!(document.tag < TAGS && document.value < NUMBERS);
        }
        let of = |ranks: std::ops::Range<usize>| counts[ranks].iter().sum::<u32>();
        // About one of ten words is the first, and as many are of each doubling.
        assert!((3_000..6_000).contains(&of(0..1)), "{}", of(0..1));
        assert!((3_000..6_000).contains(&of(999..1_999)), "{}", of(999..1_999));
        assert!(document.text().starts_with('w'));
    }

    #[test]
    fn vectors_have_length_one_and_neighbours() {
        let cloud = Cloud::new(1, 33);
        let vectors: Vec<_> = (0..200).map(|number| cloud.stored(number)).collect();
        let query = cloud.asked(0);
        assert!(
            vectors
                .iter()
                .all(|vector| (product(vector, vector) - 1.0).abs() < 1e-5)
        );
        assert_eq!((cloud.stored(7), query.len()), (vectors[7].clone(), 33));
        assert_eq!(bytes(&query).len(), 4 * 33);
    }
}
