//! How far one vector is from another.
//!
//! Distances are those of the original: L2 is the squared distance, IP and COSINE are one minus the
//! product.

use quartet_model::half_floats::{bfloat16, float16};

use crate::error::SearchError;
use crate::index::vector_kind::{Component, Metric, VectorKind, decoded};
use crate::vectors::simd::widely;

impl VectorKind {
    /// Reads the vector of a query, which has to be of the right length.
    pub fn query(&self, blob: &[u8]) -> Result<QueryVector, SearchError> {
        if blob.len() != self.bytes() {
            let (is, expected) = (blob.len(), self.bytes());
            let text = format!(
                "Error parsing vector similarity query: query vector blob size ({is}) does not match index's expected \
                 size ({expected})."
            );
            return Err(SearchError::Value(text));
        }
        Ok(self.compared(&self.stored(blob)))
    }

    /// A stored vector, ready to be compared with others.
    pub(crate) fn compared(&self, stored: &[u8]) -> QueryVector {
        let mut vector = QueryVector {
            kind: *self,
            components: Vec::new(),
            singles: Vec::new(),
            norm: 0.0,
        };
        match self.component() {
            Component::Float32 => vector.singles = decoded(stored, f32::from_le_bytes),
            Component::Float64 => vector.components = self.components(stored),
            _ => {
                let components = self.components(stored);
                vector.singles = components.iter().map(|component| *component as f32).collect();
                vector.norm = self.norm(&components);
            }
        }
        vector
    }
}

/// A vector, prepared for comparisons with stored vectors.
pub struct QueryVector {
    kind: VectorKind,
    /// The components of `Float64`.
    components: Vec<f64>,
    /// Those of every other type, which have no more digits.
    singles: Vec<f32>,
    /// The length of a vector of integers.
    norm: f64,
}

impl QueryVector {
    /// Its components, of any type.
    pub(crate) fn all_components(&self) -> Vec<f64> {
        match self.kind.component() {
            Component::Float64 => self.components.clone(),
            _ => self.singles.iter().map(|component| f64::from(*component)).collect(),
        }
    }

    /// The distance of a stored vector. Infinite if a component is not a number, or a COSINE has no
    /// angle.
    pub fn distance(&self, stored: &[u8]) -> f64 {
        let distance = match self.kind.metric() {
            Metric::L2 => self.sum(stored, |a, b| (a - b) * (a - b), |a, b| (a - b) * (a - b)),
            Metric::InnerProduct => 1.0 - self.product(stored),
            Metric::Cosine if self.kind.is_normalized() => of_cosine(self.product(stored)),
            Metric::Cosine => {
                let norm = self.kind.norm(&self.kind.components(stored));
                of_cosine(self.product(stored) / (self.norm * norm))
            }
        };
        if distance.is_nan() { f64::INFINITY } else { distance }
    }

    /// The least distance of several vectors that are stored one after the other.
    pub fn least_distance(&self, stored: &[u8]) -> f64 {
        let distances = stored
            .chunks_exact(self.kind.bytes())
            .map(|vector| self.distance(vector));
        distances.fold(f64::INFINITY, f64::min)
    }

    fn product(&self, stored: &[u8]) -> f64 {
        self.sum(stored, |a, b| a * b, |a, b| a * b)
    }

    /// The sum of a function over the pairs of components.
    fn sum(
        &self,
        stored: &[u8],
        pair_of_singles: impl Fn(f32, f32) -> f32,
        pair_of_doubles: impl Fn(f64, f64) -> f64,
    ) -> f64 {
        match self.kind.component() {
            Component::Float32 => summed(&self.singles, stored, f32::from_le_bytes, pair_of_singles),
            Component::Float64 => {
                let pairs = self.components.iter().zip(stored.as_chunks::<8>().0);
                pairs
                    .map(|(a, bytes)| pair_of_doubles(*a, f64::from_le_bytes(*bytes)))
                    .sum()
            }
            Component::Float16 => summed(&self.singles, stored, |bytes| float16(bytes) as f32, pair_of_singles),
            Component::BFloat16 => summed(&self.singles, stored, |bytes| bfloat16(bytes) as f32, pair_of_singles),
            Component::Int8 => summed(&self.singles, stored, |[byte]| f32::from(byte as i8), pair_of_singles),
            Component::Uint8 => summed(&self.singles, stored, |[byte]| f32::from(byte), pair_of_singles),
        }
    }
}

/// From 0 to 2: vectors whose lengths are one up to rounding are no farther apart than opposite
/// vectors.
fn of_cosine(cosine: f64) -> f64 {
    1.0 - cosine.clamp(-1.0, 1.0)
}

/// Sums that are kept beside each other, so that a processor can do them at once. Each is of the
/// same components on every processor, so a distance does not depend on which one computes it.
const LANES: usize = 16;

fn summed<const BYTES: usize>(
    singles: &[f32],
    stored: &[u8],
    decode: impl Fn([u8; BYTES]) -> f32,
    add_pair: impl Fn(f32, f32) -> f32,
) -> f64 {
    let lanes = widely(|| {
        let mut lanes = [0.0f32; LANES];
        let (rows, remainder) = singles.as_chunks::<LANES>();
        let stored = stored.as_chunks::<BYTES>().0;
        let (stored_rows, stored_rest) = stored.as_chunks::<LANES>();
        for (row, stored) in rows.iter().zip(stored_rows) {
            for lane in 0..LANES {
                lanes[lane] += add_pair(row[lane], decode(stored[lane]));
            }
        }
        for (lane, (single, stored)) in remainder.iter().zip(stored_rest).enumerate() {
            lanes[lane] += add_pair(*single, decode(*stored));
        }
        lanes
    });
    lanes.iter().map(|lane| f64::from(*lane)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::vector_kind::DIMENSIONS_MAX;

    fn blob(components: &[f32]) -> Vec<u8> {
        components
            .iter()
            .flat_map(|component| component.to_le_bytes())
            .collect()
    }

    fn check(metric: Metric, expected: f64) {
        let kind = VectorKind::new(Component::Float32, 2, metric).unwrap();
        let query = kind.query(&blob(&[3.0, 4.0])).unwrap();
        let distance = query.distance(&kind.stored(&blob(&[3.0, 0.0])));
        assert!((distance - expected).abs() < 1e-6, "{distance}");
    }

    #[test]
    fn opposite_vectors_are_two_apart_in_spite_of_rounding() {
        let kind = VectorKind::new(Component::Float32, 3, Metric::Cosine).unwrap();
        for scale in [0.1_f32, 0.3, 0.7, 1.0, 3.0] {
            let bytes = |sign: f32| {
                [0.1_f32, 0.1, 0.5]
                    .map(|component| (sign * scale * component).to_le_bytes())
                    .concat()
            };
            let query = kind.query(&bytes(1.0)).unwrap();
            let distance = |sign: f32| query.distance(&kind.stored(&bytes(sign)));
            assert!((1.999_999..=2.0).contains(&distance(-1.0)), "{scale}");
            assert!((0.0..0.000_001).contains(&distance(1.0)), "{scale}");
        }
    }

    #[test]
    fn distances_are_those_of_the_original() {
        check(Metric::L2, 16.0);
        check(Metric::InnerProduct, -8.0);
        check(Metric::Cosine, 0.4);
    }

    #[test]
    fn integers_are_compared_as_they_are() {
        let kind = VectorKind::new(Component::Int8, 2, Metric::Cosine).unwrap();
        let query = kind.query(&[3, 4]).unwrap();
        assert!((query.distance(&kind.stored(&[3, 0])) - 0.4).abs() < 1e-6);
        let kind = VectorKind::new(Component::Uint8, 1, Metric::L2).unwrap();
        assert_eq!(kind.query(&[255]).unwrap().least_distance(&[0, 250]), 25.0);
    }

    #[test]
    fn a_blob_of_another_length_and_senseless_dimensions_are_refused() {
        assert!(VectorKind::new(Component::Float32, 0, Metric::L2).is_err());
        assert!(VectorKind::new(Component::Float64, DIMENSIONS_MAX + 1, Metric::L2).is_err());
        let kind = VectorKind::new(Component::Float64, 2, Metric::L2).unwrap();
        assert!(kind.query(&[0; 15]).is_err());
    }

    #[test]
    fn components_that_are_no_numbers_are_infinitely_far() {
        let kind = VectorKind::new(Component::Float32, 2, Metric::L2).unwrap();
        let query = kind.query(&blob(&[f32::NAN, 1.0])).unwrap();
        assert_eq!(query.distance(&blob(&[1.0, 1.0])), f64::INFINITY);
    }
}
