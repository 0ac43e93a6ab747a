//! BM25 as Lucene and Tantivy compute it: in single precision, from lengths of one byte.

const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Lengths up to here are exact; longer lengths keep four bits after the highest.
const EXACT_LENGTHS: u32 = 24;

/// The value of `length` after rounding down to what one byte can hold.
fn rounded(length: u32) -> u32 {
    if length < EXACT_LENGTHS {
        return length;
    }
    let above = length - EXACT_LENGTHS;
    let bits = u32::BITS - above.leading_zeros();
    match bits.checked_sub(4) {
        None | Some(0) => length,
        Some(dropped) => EXACT_LENGTHS + (above >> dropped << dropped),
    }
}

/// The share of a term's worth that its frequency in a document earns.
#[derive(Clone, Copy, Debug)]
pub struct Bm25 {
    weight: f32,
    average_length: f32,
}

impl Bm25 {
    /// For terms of one field, with how many documents have each, among `total` documents with
    /// `tokens` in that field.
    pub fn new(documents: &[u64], total: u64, tokens: u64) -> Bm25 {
        let rarity: f32 = documents.iter().map(|with| rarity(*with, total)).sum();
        Bm25 {
            weight: rarity * (1.0 + K1),
            average_length: tokens as f32 / total as f32,
        }
    }

    /// The worth of the terms in a document.
    pub fn score(&self, frequency: u32, length: u32) -> f32 {
        let frequency = frequency as f32;
        let norm = K1 * (1.0 - B + B * rounded(length) as f32 / self.average_length);
        self.weight * (frequency / (frequency + norm))
    }
}

fn rarity(documents: u64, total: u64) -> f32 {
    let without = total.saturating_sub(documents) as f32;
    (1.0 + (without + 0.5) / (documents as f32 + 0.5)).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_rounded_down_to_four_bits() {
        let lengths = [0, 1, 39, 40, 41, 42, 43, 54, 55, 56, 57, 60, 1000];
        let stored_lengths = [0, 1, 39, 40, 40, 42, 42, 54, 54, 56, 56, 60, 984];
        assert_eq!(lengths.map(rounded), stored_lengths);
    }
}
