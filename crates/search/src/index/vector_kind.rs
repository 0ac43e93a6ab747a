//! The vectors of a field: their components, their measure, and the form in which they are stored.
//!
//! A vector is its components one after the other, little-endian.

use quartet_model::half_floats::{bfloat16, float16, nearest_bfloat16, nearest_float16};

use crate::error::SearchError;

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

    pub(crate) fn bytes(self) -> usize {
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
            Component::Float16 => float16(nearest_float16(number as f32)),
            Component::BFloat16 => bfloat16(nearest_bfloat16(number as f32)),
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
            Component::Float16 => blob.extend(nearest_float16(number as f32)),
            Component::BFloat16 => blob.extend(nearest_bfloat16(number as f32)),
            Component::Int8 => blob.push(number as i8 as u8),
            Component::Uint8 => blob.push(number as u8),
        }
    }
}

pub(crate) fn float32([a, b, c, d]: [u8; 4]) -> f64 {
    f32::from_le_bytes([a, b, c, d]).into()
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
    /// The additional distance of a search of a range, as a share of its radius.
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
    pub fn stored(&self, blob: &[u8]) -> Vec<u8> {
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

    pub(crate) fn norm(&self, components: &[f64]) -> f64 {
        let squares = components.iter().map(|component| component * component);
        squares.sum::<f64>().sqrt()
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

pub(crate) fn decoded<const BYTES: usize, Number>(blob: &[u8], decode: impl Fn([u8; BYTES]) -> Number) -> Vec<Number> {
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
