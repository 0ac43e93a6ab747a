//! Vectors as clients send them, and how far one is from another.
//!
//! A vector is its components one after the other, little-endian. Distances are those of the
//! original: L2 is the squared distance, IP and COSINE are one minus the product.

use crate::SearchError;

/// Most components of a vector.
pub const DIMENSIONS_MAX: usize = 32_768;

/// The type of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// Four bytes.
    Float32,
    /// Eight bytes.
    Float64,
}

impl Component {
    /// The component of this name, in any case.
    pub fn of_name(name: &str) -> Option<Component> {
        match name.to_ascii_uppercase().as_str() {
            "FLOAT32" => Some(Component::Float32),
            "FLOAT64" => Some(Component::Float64),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Component::Float32 => "FLOAT32",
            Component::Float64 => "FLOAT64",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Component::Float32 => 4,
            Component::Float64 => 8,
        }
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

/// The vectors of a field. Each is compared with the query's, so answers are exact (FLAT).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorKind {
    component: Component,
    dimensions: usize,
    metric: Metric,
}

impl VectorKind {
    /// Vectors of `1..=DIMENSIONS_MAX` components.
    pub fn new(component: Component, dimensions: usize, metric: Metric) -> Result<VectorKind, SearchError> {
        if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
            let text = format!("Invalid vector dimension {dimensions}: it must be from 1 to {DIMENSIONS_MAX}");
            return Err(SearchError::Arguments(text));
        }
        Ok(VectorKind {
            component,
            dimensions,
            metric,
        })
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
        let components: Vec<f64> = self.components(blob).collect();
        let norm = product(&components, components.iter().copied()).sqrt();
        Ok(QueryVector {
            kind: *self,
            components,
            norm,
        })
    }

    fn components<'a>(&self, blob: &'a [u8]) -> Box<dyn Iterator<Item = f64> + 'a> {
        match self.component {
            Component::Float32 => {
                let chunks = blob.chunks_exact(4);
                Box::new(chunks.map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four bytes")).into()))
            }
            Component::Float64 => {
                let chunks = blob.chunks_exact(8);
                Box::new(chunks.map(|bytes| f64::from_le_bytes(bytes.try_into().expect("eight bytes"))))
            }
        }
    }
}

/// The vector of a query, ready to be compared.
pub struct QueryVector {
    kind: VectorKind,
    components: Vec<f64>,
    norm: f64,
}

impl QueryVector {
    /// How far a stored vector is. Infinitely far if a component is not a number, or a COSINE has
    /// no angle.
    pub fn distance(&self, stored: &[u8]) -> f64 {
        let distance = self.number(stored);
        if distance.is_nan() { f64::INFINITY } else { distance }
    }

    fn number(&self, stored: &[u8]) -> f64 {
        let other: Vec<f64> = self.kind.components(stored).collect();
        match self.kind.metric {
            Metric::L2 => {
                let differences = self.components.iter().zip(&other).map(|(a, b)| a - b);
                differences.map(|difference| difference * difference).sum()
            }
            Metric::InnerProduct => 1.0 - product(&self.components, other.iter().copied()),
            Metric::Cosine => {
                let norm = product(&other, other.iter().copied()).sqrt();
                1.0 - product(&self.components, other.iter().copied()) / (self.norm * norm)
            }
        }
    }
}

fn product(a: &[f64], b: impl Iterator<Item = f64>) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
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
        assert_eq!(query.distance(&blob(&[3.0, 0.0])), expected);
    }

    #[test]
    fn distances_are_those_of_the_original() {
        check(Metric::L2, 16.0);
        check(Metric::InnerProduct, -8.0);
        check(Metric::Cosine, 0.4);
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
