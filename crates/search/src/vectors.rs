//! Vectors as clients send them, and how far one is from another.
//!
//! A vector is its components one after the other, little-endian. Distances are those of the
//! original: L2 is the squared distance, IP and COSINE are one minus the product.

use crate::SearchError;
use crate::lanes::widely;

/// Most components of a vector.
pub const DIMENSIONS_MAX: usize = 32_768;

/// The type of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// Four bytes.
    Float32,
    /// Eight bytes.
    Float64,
    /// Two bytes: a sign, five bits of exponent, ten of fraction.
    Float16,
    /// Two bytes: the first half of a `Float32`.
    BFloat16,
    /// One byte with a sign.
    Int8,
    /// One byte.
    Uint8,
}

impl Component {
    /// The component of this name, in any case.
    pub fn of_name(name: &str) -> Option<Component> {
        match name.to_ascii_uppercase().as_str() {
            "FLOAT32" => Some(Component::Float32),
            "FLOAT64" => Some(Component::Float64),
            "FLOAT16" => Some(Component::Float16),
            "BFLOAT16" => Some(Component::BFloat16),
            "INT8" => Some(Component::Int8),
            "UINT8" => Some(Component::Uint8),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Component::Float32 => "FLOAT32",
            Component::Float64 => "FLOAT64",
            Component::Float16 => "FLOAT16",
            Component::BFloat16 => "BFLOAT16",
            Component::Int8 => "INT8",
            Component::Uint8 => "UINT8",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Component::Float32 => 4,
            Component::Float64 => 8,
            Component::Float16 | Component::BFloat16 => 2,
            Component::Int8 | Component::Uint8 => 1,
        }
    }

    fn is_integer(self) -> bool {
        matches!(self, Component::Int8 | Component::Uint8)
    }

    /// Returns the nearest number that a component of this type holds, `None` if it is beyond them.
    pub fn rounded(self, number: f64) -> Option<f64> {
        let near = match self {
            Component::Float32 => f64::from(number as f32),
            Component::Float64 => number,
            Component::Float16 => float16(half_of(number as f32).to_le_bytes()),
            Component::BFloat16 => bfloat16(brain_half_of(number as f32).to_le_bytes()),
            Component::Int8 | Component::Uint8 => number.round_ties_even(),
        };
        let is_held = match self {
            Component::Int8 => (-128.0..=127.0).contains(&near),
            Component::Uint8 => (0.0..=255.0).contains(&near),
            _ => near.is_finite(),
        };
        is_held.then_some(near)
    }

    fn push(self, number: f64, blob: &mut Vec<u8>) {
        match self {
            Component::Float32 => blob.extend((number as f32).to_le_bytes()),
            Component::Float64 => blob.extend(number.to_le_bytes()),
            Component::Float16 => blob.extend(half_of(number as f32).to_le_bytes()),
            Component::BFloat16 => blob.extend(brain_half_of(number as f32).to_le_bytes()),
            Component::Int8 => blob.push(number as i8 as u8),
            Component::Uint8 => blob.push(number as u8),
        }
    }
}

fn float32([a, b, c, d]: [u8; 4]) -> f64 {
    f32::from_le_bytes([a, b, c, d]).into()
}

fn float16(bytes: [u8; 2]) -> f64 {
    let bits = u32::from(u16::from_le_bytes(bytes));
    let (sign, exponent, fraction) = (bits >> 15, bits >> 10 & 0x1f, bits & 0x3ff);
    let size = match exponent {
        0 => fraction as f32 / 16_777_216.0,
        31 => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    f64::from(if sign == 1 { -size } else { size })
}

/// The nearest number of sixteen bits; of two that are equally near the even one.
fn half_of(number: f32) -> u16 {
    let sign = (number.to_bits() >> 16) as u16 & 0x8000;
    let size = number.abs();
    let bits = size.to_bits();
    sign | if size.is_nan() {
        0x7e00
    } else if size >= 65_520.0 {
        0x7c00
    } else if size < 1.0 / 16_384.0 {
        (size * 16_777_216.0).round_ties_even() as u16
    } else {
        (((bits + 0xfff + (bits >> 13 & 1)) >> 13) - (112 << 10)) as u16
    }
}

fn bfloat16(bytes: [u8; 2]) -> f64 {
    f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16).into()
}

fn brain_half_of(number: f32) -> u16 {
    let bits = number.to_bits();
    match number.is_nan() {
        true => 0x7fc0,
        false => ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16,
    }
}

/// The measure of nearness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The squared Euclidean distance.
    L2,
    /// One minus the inner product.
    InnerProduct,
    /// One minus the cosine of the angle.
    Cosine,
}

impl Metric {
    /// The metric of this name, in any case.
    pub fn of_name(name: &str) -> Option<Metric> {
        match name.to_ascii_uppercase().as_str() {
            "L2" => Some(Metric::L2),
            "IP" => Some(Metric::InnerProduct),
            "COSINE" => Some(Metric::Cosine),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Metric::L2 => "L2",
            Metric::InnerProduct => "IP",
            Metric::Cosine => "COSINE",
        }
    }
}

/// How a graph of near vectors is built and searched (HNSW).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Graph {
    /// The number of a vector's links to neighbours; twice as many at the lowest level.
    pub links: usize,
    /// The number of candidates in the search for a new vector's neighbours.
    pub build_candidates: usize,
    /// The number of candidates that a search keeps.
    pub search_candidates: usize,
    /// The additional distance in which a search of a range looks, as a share of its radius.
    pub epsilon: f64,
}

/// Additional links of a node beyond these are of no use: larger requests are capped.
const LINKS_MADE_MAX: usize = 512;

impl Graph {
    /// The actual number of a vector's links to neighbours.
    pub(crate) fn links_made(&self) -> usize {
        self.links.min(LINKS_MADE_MAX)
    }
}

impl Default for Graph {
    fn default() -> Graph {
        Graph {
            links: 16,
            build_candidates: 200,
            search_candidates: 10,
            epsilon: 0.01,
        }
    }
}

/// The vectors of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VectorKind {
    component: Component,
    dimensions: usize,
    metric: Metric,
    graph: Option<Graph>,
}

impl VectorKind {
    /// Vectors of `1..=DIMENSIONS_MAX` components, each of which is compared with the query's
    /// (FLAT).
    pub fn new(component: Component, dimensions: usize, metric: Metric) -> Result<VectorKind, SearchError> {
        if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
            let text = format!("Invalid vector dimension {dimensions}: it must be from 1 to {DIMENSIONS_MAX}");
            return Err(SearchError::Arguments(text));
        }
        Ok(VectorKind {
            component,
            dimensions,
            metric,
            graph: None,
        })
    }

    /// The same with a graph.
    pub fn with_graph(self, graph: Graph) -> VectorKind {
        VectorKind {
            graph: Some(graph),
            ..self
        }
    }

    /// The graph; nothing if each vector is compared.
    pub fn graph(&self) -> Option<&Graph> {
        self.graph.as_ref()
    }

    /// The type of its components.
    pub fn component(&self) -> Component {
        self.component
    }

    /// Number of components.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The measure of nearness.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// Length of a vector, in bytes.
    pub fn bytes(&self) -> usize {
        self.component.bytes() * self.dimensions
    }

    /// Appends a component to a vector. Nothing if it cannot be one.
    pub(crate) fn push(&self, number: f64, blob: &mut Vec<u8>) -> Option<()> {
        let fits = match self.component {
            Component::Int8 => number.fract() == 0.0 && (-128.0..=127.0).contains(&number),
            Component::Uint8 => number.fract() == 0.0 && (0.0..=255.0).contains(&number),
            _ => true,
        };
        fits.then(|| self.component.push(number, blob))
    }

    /// The vector as it is stored: of length one if only angles count. So it is at the original,
    /// which shows in components of 16 bits.
    pub(crate) fn stored(&self, blob: &[u8]) -> Vec<u8> {
        if !self.is_normalized() {
            return blob.to_vec();
        }
        if self.component == Component::Float32 {
            return normalized(blob);
        }
        let components = self.components(blob);
        let norm = self.norm(&components);
        let mut stored = Vec::with_capacity(blob.len());
        for component in components {
            self.component.push(component / norm, &mut stored);
        }
        stored
    }

    /// Vectors are stored with length one.
    pub(crate) fn is_normalized(&self) -> bool {
        self.metric == Metric::Cosine && !self.component.is_integer()
    }

    fn norm(&self, components: &[f64]) -> f64 {
        let squares = components.iter().map(|component| component * component);
        squares.sum::<f64>().sqrt()
    }

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
        match self.component {
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

    /// The components of a stored vector.
    pub(crate) fn components(&self, blob: &[u8]) -> Vec<f64> {
        match self.component {
            Component::Float32 => decoded(blob, float32),
            Component::Float64 => decoded(blob, f64::from_le_bytes),
            Component::Float16 => decoded(blob, float16),
            Component::BFloat16 => decoded(blob, bfloat16),
            Component::Int8 => decoded(blob, |[byte]| f64::from(byte as i8)),
            Component::Uint8 => decoded(blob, |[byte]| f64::from(byte)),
        }
    }
}

fn decoded<const BYTES: usize, Number>(blob: &[u8], decode: impl Fn([u8; BYTES]) -> Number) -> Vec<Number> {
    let chunks = blob.as_chunks::<BYTES>().0;
    chunks.iter().map(|bytes| decode(*bytes)).collect()
}

/// A vector of `Float32` with length one.
fn normalized(blob: &[u8]) -> Vec<u8> {
    let components = blob.as_chunks::<4>().0;
    let squares = components.iter().map(|bytes| float32(*bytes) * float32(*bytes));
    let norm = squares.sum::<f64>().sqrt();
    let mut stored = blob.to_vec();
    for bytes in stored.as_chunks_mut::<4>().0 {
        *bytes = ((float32(*bytes) / norm) as f32).to_le_bytes();
    }
    stored
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
        match self.kind.component {
            Component::Float64 => self.components.clone(),
            _ => self.singles.iter().map(|component| f64::from(*component)).collect(),
        }
    }

    /// The distance of a stored vector. Infinite if a component is not a number, or a COSINE has no
    /// angle.
    pub fn distance(&self, stored: &[u8]) -> f64 {
        let distance = match self.kind.metric {
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
        let distances = stored.chunks_exact(self.kind.bytes()).map(|one| self.distance(one));
        distances.fold(f64::INFINITY, f64::min)
    }

    fn product(&self, stored: &[u8]) -> f64 {
        self.sum(stored, |a, b| a * b, |a, b| a * b)
    }

    /// The sum of a function over the pairs of components.
    fn sum(&self, stored: &[u8], of_singles: impl Fn(f32, f32) -> f32, of_doubles: impl Fn(f64, f64) -> f64) -> f64 {
        match self.kind.component {
            Component::Float32 => summed(&self.singles, stored, f32::from_le_bytes, of_singles),
            Component::Float64 => {
                let pairs = self.components.iter().zip(stored.as_chunks::<8>().0);
                pairs.map(|(a, bytes)| of_doubles(*a, f64::from_le_bytes(*bytes))).sum()
            }
            Component::Float16 => summed(&self.singles, stored, |bytes| float16(bytes) as f32, of_singles),
            Component::BFloat16 => summed(&self.singles, stored, |bytes| bfloat16(bytes) as f32, of_singles),
            Component::Int8 => summed(&self.singles, stored, |[byte]| f32::from(byte as i8), of_singles),
            Component::Uint8 => summed(&self.singles, stored, |[byte]| f32::from(byte), of_singles),
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
    of_pair: impl Fn(f32, f32) -> f32,
) -> f64 {
    let lanes = widely(|| {
        let mut lanes = [0.0f32; LANES];
        let (rows, rest) = singles.as_chunks::<LANES>();
        let stored = stored.as_chunks::<BYTES>().0;
        let (stored_rows, stored_rest) = stored.as_chunks::<LANES>();
        for (row, stored) in rows.iter().zip(stored_rows) {
            for lane in 0..LANES {
                lanes[lane] += of_pair(row[lane], decode(stored[lane]));
            }
        }
        for (lane, (single, stored)) in rest.iter().zip(stored_rest).enumerate() {
            lanes[lane] += of_pair(*single, decode(*stored));
        }
        lanes
    });
    lanes.iter().map(|lane| f64::from(*lane)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(components: &[f32]) -> Vec<u8> {
        components
            .iter()
            .flat_map(|component| component.to_le_bytes())
            .collect()
    }

    fn check(metric: Metric, expected: f64) {
        let kind = VectorKind::new(Component::Float32, 2, metric).unwrap();
        let query = kind.query(&blob(&[3.0, 4.0])).unwrap();
        let found = query.distance(&kind.stored(&blob(&[3.0, 0.0])));
        assert!((found - expected).abs() < 1e-6, "{found}");
    }

    #[test]
    fn opposite_vectors_are_two_apart_in_spite_of_rounding() {
        let kind = VectorKind::new(Component::Float32, 3, Metric::Cosine).unwrap();
        for scale in [0.1_f32, 0.3, 0.7, 1.0, 3.0] {
            let bytes = |sign: f32| {
                [0.1_f32, 0.1, 0.5]
                    .map(|one| (sign * scale * one).to_le_bytes())
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
    fn small_floats_survive_a_round_trip() {
        for number in [
            0.0,
            1.0,
            -2.5,
            65_504.0,
            1.0 / 16_777_216.0,
            0.000_061_035_156,
            f32::INFINITY,
        ] {
            assert_eq!(float16(half_of(number).to_le_bytes()), f64::from(number));
            assert_eq!(float16(half_of(-number).to_le_bytes()), f64::from(-number));
        }
        assert_eq!(half_of(65_520.0), half_of(f32::INFINITY));
        assert_eq!(
            (half_of(1.0 + 1.0 / 2048.0), half_of(1.0 + 3.0 / 2048.0)),
            (0x3c00, 0x3c02)
        );
        assert_eq!(
            (brain_half_of(1.0), brain_half_of(-1.0 - 3.0 / 256.0)),
            (0x3f80, 0xbf82)
        );
        assert!(float16(half_of(f32::NAN).to_le_bytes()).is_nan());
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
