//! The functions by which documents are scored.

/// By which function documents are scored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scorer {
    /// Okapi BM25, the default.
    Bm25Std(Revision),
    /// The same, mapped to 0 to 1 by a hyperbolic tangent that is stretched by this factor.
    Bm25StdTanh(f64),
    /// The same, divided by the best hit's.
    Bm25StdNorm,
    /// The original's older form of it.
    Bm25,
    /// Frequency by rarity, over the document's highest frequency.
    TfIdf,
    /// The same, over the document's length.
    TfIdfDocNorm,
    /// Frequencies; of alternatives the best.
    DisMax,
    /// The document's own weight.
    DocScore,
    /// The number of equal bits in the payloads of the document and the query. The caller, who
    /// knows the payloads, scores by [`hamming`].
    Hamming,
}

/// One over the number of bits that differ and one; nothing if the lengths differ.
pub fn hamming(a: &[u8], b: &[u8]) -> Option<f64> {
    if a.len() != b.len() || a.is_empty() {
        return None;
    }
    let differing: u32 = a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum();
    Some(1.0 / f64::from(differing + 1))
}

impl Default for Scorer {
    fn default() -> Scorer {
        Scorer::Bm25Std(Revision::Redis8)
    }
}

/// Two forms of BM25STD that the original has had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Revision {
    /// `b` is 0.75, and the weights of words count.
    #[default]
    Redis8,
    /// `b` is 0.5, and the weights of words do not count.
    Search2_10,
}
