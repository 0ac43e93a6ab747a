//! A vector as it is stored: its length apart, its direction in one of three forms.
//!
//! ```text
//! NOQUANT   a component is a float of four bytes, little-endian
//! Q8        a component is a signed byte: 127 stands for the largest magnitude of the vector, its range
//! BIN       a component is a bit, set if it is above zero; 64 to a word, little-endian
//! ```
//!
//! Vector indexes, an interface of Upstash, keep the original floats and the length of the vector,
//! and compare them in one of three ways.
//!
//! Clients see these bytes and the values computed from them (VEMB, scores), so the arithmetic is
//! that of Redis, in single precision and in its order. Only sums over floats use another order,
//! which differs in the last digits.

use crate::vectors::simd::{OfPair, product_of_bytes, sum_over_floats};

/// Most components of a vector.
pub const DIMENSIONS_MAX: usize = 65_536;

/// Most components of a projection's matrix.
const PROJECTION_MAX: usize = 1 << 26;

/// The form of the vectors of a set. The first three numbers are those of RDB files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Quantization {
    /// NOQUANT.
    None = 0,
    /// Q8.
    Bytes = 1,
    /// BIN.
    Bits = 2,
    /// Unchanged floats, compared by the angle between vectors.
    PlainCosine = 3,
    /// Unchanged floats, compared by the square of the Euclidean distance.
    PlainEuclidean = 4,
    /// Unchanged floats; the greater their product is, the nearer they are.
    PlainProduct = 5,
}

impl Quantization {
    /// Returns the form with this number, if there is one.
    pub fn from_number(number: u8) -> Option<Quantization> {
        match number {
            0 => Some(Quantization::None),
            1 => Some(Quantization::Bytes),
            2 => Some(Quantization::Bits),
            3 => Some(Quantization::PlainCosine),
            4 => Some(Quantization::PlainEuclidean),
            5 => Some(Quantization::PlainProduct),
            _ => None,
        }
    }

    /// Returns true for the forms of vector indexes. Such an index may be empty.
    pub fn is_plain(self) -> bool {
        matches!(
            self,
            Quantization::PlainCosine | Quantization::PlainEuclidean | Quantization::PlainProduct
        )
    }

    /// Returns true if a component is a float.
    pub(super) fn has_floats(self) -> bool {
        self == Quantization::None || self.is_plain()
    }

    /// Returns the name that VINFO and VEMB show, and VECTOR.INFO for a metric.
    pub fn name(self) -> &'static str {
        match self {
            Quantization::None => "f32",
            Quantization::Bytes => "int8",
            Quantization::Bits => "bin",
            Quantization::PlainCosine => "COSINE",
            Quantization::PlainEuclidean => "EUCLIDEAN",
            Quantization::PlainProduct => "DOT",
        }
    }

    /// Returns how many bytes the components of a vector take.
    pub fn code_bytes(self, dimensions: usize) -> usize {
        match self {
            Quantization::Bytes => dimensions,
            Quantization::Bits => dimensions.div_ceil(64) * 8,
            _ => dimensions * 4,
        }
    }
}

/// A vector as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Coded {
    /// The length of the vector; 1 if all its components are zero.
    pub length: f32,
    /// The largest magnitude of a component of the vector of length 1; only of Q8, else zero.
    pub range: f32,
    /// The components.
    pub code: Vec<u8>,
}

/// Bytes of a vector's length and range in its row.
pub(super) const SCALES_BYTES: usize = 8;

impl Coded {
    /// Takes a vector of finite components.
    pub fn of(vector: &[f32], quantization: Quantization) -> Coded {
        let (unit, length) = normalized(vector);
        let floats = |floats: &[f32]| floats.iter().flat_map(|float| float.to_le_bytes()).collect();
        let (code, range) = match quantization {
            Quantization::None => (floats(&unit), 0.0),
            Quantization::Bytes => bytes_of(&unit),
            Quantization::Bits => (bits_of(&unit), 0.0),
            _ => (floats(vector), 0.0),
        };
        Coded { length, range, code }
    }

    /// Returns the decoded vector. BIN has lost its length.
    pub fn decoded(&self, quantization: Quantization, dimensions: usize) -> Vec<f32> {
        match quantization {
            Quantization::None => floats_of(&self.code).map(|float| float * self.length).collect(),
            Quantization::Bytes => {
                let component = |code: &u8| f32::from(*code as i8) * self.range / 127.0 * self.length;
                self.code.iter().map(component).collect()
            }
            Quantization::Bits => {
                let is_set = |at: usize| self.code[at / 8] & (1 << (at % 8)) != 0;
                (0..dimensions).map(|at| if is_set(at) { 1.0 } else { -1.0 }).collect()
            }
            _ => floats_of(&self.code).collect(),
        }
    }

    /// Returns the same code with the length of its components, if the length is only stored as a
    /// copy.
    pub fn with_own_length(mut self, quantization: Quantization) -> Coded {
        if quantization.is_plain() {
            let vector: Vec<f32> = floats_of(&self.code).collect();
            self.length = normalized(&vector).1;
        }
        self
    }

    /// The row of a vector, with the element's name at its end.
    pub(super) fn to_row(&self, element: &[u8]) -> Vec<u8> {
        let scales = [self.length.to_le_bytes(), self.range.to_le_bytes()].concat();
        [&scales, &self.code, element].concat()
    }

    /// The vector and the element's name in a row.
    pub(super) fn split(row: &[u8], code_bytes: usize) -> (Coded, &[u8]) {
        let (scales, code) = row.split_at(SCALES_BYTES);
        let (code, element) = code.split_at(code_bytes);
        let coded = Coded {
            length: float(&scales[..4]),
            range: float(&scales[4..]),
            code: code.to_vec(),
        };
        (coded, element)
    }
}

fn float(bytes: &[u8]) -> f32 {
    f32::from_le_bytes(bytes.try_into().expect("four bytes of a float"))
}

fn floats_of(code: &[u8]) -> impl Iterator<Item = f32> + '_ {
    code.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// The vector of length 1, and its original length. A zero vector remains unchanged.
fn normalized(vector: &[f32]) -> (Vec<f32>, f32) {
    let (fours, remainder) = vector.as_chunks::<4>();
    let mut squares = 0.0f32;
    for [a, b, c, d] in fours {
        squares += a * a + b * b + c * c + d * d;
    }
    for component in remainder {
        squares += component * component;
    }
    if squares == 0.0 {
        return (vector.to_vec(), 1.0);
    }
    let length = squares.sqrt();
    (vector.iter().map(|component| component / length).collect(), length)
}

fn bytes_of(unit: &[f32]) -> (Vec<u8>, f32) {
    let range = unit.iter().fold(0.0f32, |range, component| range.max(component.abs()));
    if range == 0.0 {
        return (vec![0; unit.len()], 0.0);
    }
    let scale = 127.0 / range;
    let code = unit.iter().map(|component| (component * scale).round() as i8 as u8);
    (code.collect(), range)
}

fn bits_of(unit: &[f32]) -> Vec<u8> {
    let mut code = vec![0; Quantization::Bits.code_bytes(unit.len())];
    for (at, _) in unit.iter().enumerate().filter(|(_, component)| **component > 0.0) {
        code[at / 8] |= 1 << (at % 8);
    }
    code
}

/// Returns the distance of the vectors of two rows: 0 for equal directions, 2 for opposite
/// directions; for [`Quantization::PlainEuclidean`] the square of the distance, for
/// [`Quantization::PlainProduct`] the negated product. The bytes after the components are ignored.
pub(super) fn distance(quantization: Quantization, dimensions: usize, first: &[u8], other: &[u8]) -> f32 {
    let codes = SCALES_BYTES..SCALES_BYTES + quantization.code_bytes(dimensions);
    let (one_code, other_code) = (&first[codes.clone()], &other[codes]);
    match quantization {
        Quantization::None => 1.0 - product_of_floats(one_code, other_code),
        Quantization::Bytes => {
            let (one_range, other_range) = (float(&first[4..8]), float(&other[4..8]));
            if one_range == 0.0 || other_range == 0.0 {
                return 1.0;
            }
            let scale = (one_range / 127.0) * (other_range / 127.0);
            (1.0 - product_of_bytes(one_code, other_code) as f32 * scale).clamp(0.0, 2.0)
        }
        Quantization::Bits => {
            let pairs = one_code.as_chunks::<8>().0.iter().zip(other_code.as_chunks::<8>().0);
            let differ =
                pairs.map(|(first, other)| (u64::from_le_bytes(*first) ^ u64::from_le_bytes(*other)).count_ones());
            differ.sum::<u32>() as f32 * 2.0 / dimensions as f32
        }
        Quantization::PlainCosine => {
            let (one_length, other_length) = (float(&first[..4]), float(&other[..4]));
            let cosine = product_of_floats(one_code, other_code) / one_length / other_length;
            (1.0 - cosine).clamp(0.0, 2.0)
        }
        Quantization::PlainEuclidean => square_of_distance(one_code, other_code),
        Quantization::PlainProduct => -product_of_floats(one_code, other_code),
    }
}

fn product_of_floats(first: &[u8], other: &[u8]) -> f32 {
    sum_over_floats(first, other, OfPair::Product)
}

fn square_of_distance(first: &[u8], other: &[u8]) -> f32 {
    sum_over_floats(first, other, OfPair::SquareOfDifference)
}

/// How vectors are made shorter before they are stored (REDUCE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projection {
    /// Components of the input vectors.
    pub from: usize,
    /// Components of the stored vectors.
    pub to: usize,
}

impl Projection {
    /// Returns none if there were too much to compute, or nothing.
    pub fn new(from: usize, to: usize) -> Option<Projection> {
        let is_possible = (1..=DIMENSIONS_MAX).contains(&from) && (1..=DIMENSIONS_MAX).contains(&to);
        (is_possible && from * to <= PROJECTION_MAX).then_some(Projection { from, to })
    }

    /// Returns the vector's projection, which has `to` components. `matrix` has `from` floats for
    /// each of them; without one it is Hadamard's, that of Redis.
    pub fn apply(self, vector: &[f32], matrix: Option<&[u8]>) -> Vec<f32> {
        let scale = self.scale();
        let row = |to: usize| {
            let matrix_row = matrix.map(|matrix| &matrix.as_chunks::<4>().0[to * self.from..]);
            let mut sum = 0.0f32;
            for (at, component) in vector.iter().enumerate() {
                sum += component
                    * match matrix_row {
                        Some(row) => f32::from_le_bytes(row[at]),
                        None => sign(to, at) * scale,
                    };
            }
            sum
        };
        (0..self.to).map(row).collect()
    }

    /// Returns the matrix as RDB files have it.
    pub fn matrix(self) -> Vec<u8> {
        let scale = self.scale();
        let rows = (0..self.to).flat_map(|to| (0..self.from).map(move |at| sign(to, at) * scale));
        rows.flat_map(f32::to_le_bytes).collect()
    }

    fn scale(self) -> f32 {
        (1.0 / (self.from as f64).sqrt()) as f32
    }
}

fn sign(to: usize, at: usize) -> f32 {
    if (to & at).count_ones().is_multiple_of(2) {
        1.0
    } else {
        -1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the original answered to VEMB with RAW and without it.
    #[test]
    fn codes_are_those_of_the_original() {
        let q8 = Coded::of(&[1.0, 2.0, 3.0], Quantization::Bytes);
        assert_eq!(
            (q8.code.as_slice(), q8.length, q8.range),
            (b"*U\x7f".as_slice(), 3.741_657_5, 0.801_783_7)
        );
        assert_eq!(q8.decoded(Quantization::Bytes, 3), [0.992_125_9, 2.007_874, 3.0]);
        let bits = Coded::of(&[1.0, -2.0, 3.0], Quantization::Bits);
        assert_eq!(
            (bits.code.as_slice(), bits.length),
            (b"\x05\0\0\0\0\0\0\0".as_slice(), 3.741_657_5)
        );
        assert_eq!(bits.decoded(Quantization::Bits, 3), [1.0, -1.0, 1.0]);
        let floats = Coded::of(&[1.0, -2.0, 3.0], Quantization::None);
        assert_eq!(floats.code, b"w\xd6\x88>w\xd6\x08\xbf\xb2AM?");
        assert_eq!(floats.decoded(Quantization::None, 3), [1.0, -2.0, 3.0]);
    }

    #[test]
    fn a_vector_without_direction_is_as_far_as_a_right_angle() {
        let row = |vector: &[f32]| Coded::of(vector, Quantization::Bytes).to_row(b"name");
        assert_eq!(
            distance(Quantization::Bytes, 2, &row(&[0.0, 0.0]), &row(&[1.0, 0.0])),
            1.0
        );
        assert_eq!(
            distance(Quantization::Bytes, 2, &row(&[-1.0, 0.0]), &row(&[1.0, 0.0])),
            2.0
        );
    }

    /// The signs of the matrix that DUMP showed, and its sums.
    #[test]
    fn projections_are_those_of_the_original() {
        let projection = Projection::new(3, 5).unwrap();
        let projected = projection.apply(&[1.0; 3], None);
        let third = 1.0 / 3f32.sqrt();
        assert_eq!(projected.len(), 5);
        for (component, expected) in projected.iter().zip([3.0, 1.0, 1.0, -1.0, 3.0]) {
            assert!((component - expected * third).abs() < 1e-6, "{projected:?}");
        }
        assert_eq!(projection.apply(&[1.0; 3], Some(&projection.matrix())), projected);
        assert!(Projection::new(0, 3).is_none() && Projection::new(65_536, 65_536).is_none());
    }
}
