//! The words of a VECTOR field: how its vectors are kept, and all parameters.

use quartet_search::error::SearchError;
use quartet_search::index::vector_kind::{Component, Graph, Metric, VectorKind};

/// Upper bounds of a node's links, as in the original, and of candidates while a graph is built or
/// searched.
const LINKS_MAX: usize = 32_767;
const CANDIDATES_MAX: usize = 4096;

/// Number of vectors that are sampled before compression, by default and at most.
const TRAINING_THRESHOLD: u64 = 10_240;
const TRAINING_THRESHOLD_MAX: u64 = 102_400;

/// Codes of Intel's library. FT.INFO repeats them; vectors are stored uncompressed.
const COMPRESSIONS: &[&str] = &["LVQ4", "LVQ8", "LVQ4x4", "LVQ4x8", "LeanVec4x8", "LeanVec8x8"];

/// The storage of a field's vectors. One graph serves both approximate kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    #[default]
    Flat,
    Hnsw,
    SvsVamana(Compression),
}

/// The codes requested by SVS-VAMANA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compression {
    pub codes: Option<&'static str>,
    pub training_threshold: Option<u64>,
    pub dimensions: Option<u64>,
}

impl Algorithm {
    pub fn of_name(name: &[u8]) -> Option<Algorithm> {
        Some(match name.to_ascii_uppercase().as_slice() {
            b"FLAT" => Algorithm::Flat,
            b"HNSW" => Algorithm::Hnsw,
            b"SVS-VAMANA" => Algorithm::SvsVamana(Compression::default()),
            _ => return None,
        })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Algorithm::Flat => "FLAT",
            Algorithm::Hnsw => "HNSW",
            Algorithm::SvsVamana(_) => "SVS-VAMANA",
        }
    }

    /// The graph where nothing is said about it.
    fn graph(&self) -> Graph {
        match self {
            Algorithm::SvsVamana(_) => Graph {
                links: 32,
                ..Graph::default()
            },
            _ => Graph::default(),
        }
    }
}

/// Reads the named parameters of an algorithm.
pub fn parse(algorithm: Algorithm, pairs: &[&[u8]]) -> Result<(VectorKind, Algorithm), SearchError> {
    let mut parameters = Parameters {
        graph: algorithm.graph(),
        algorithm,
        component: None,
        dimensions: None,
        metric: None,
    };
    for pair in pairs.chunks(2) {
        parameters.set(pair[0], &String::from_utf8_lossy(pair[1]))?;
    }
    parameters.finish()
}

fn refused(text: impl Into<String>) -> SearchError {
    SearchError::Arguments(text.into())
}

struct Parameters {
    algorithm: Algorithm,
    component: Option<Component>,
    dimensions: Option<usize>,
    metric: Option<Metric>,
    graph: Graph,
}

impl Parameters {
    fn wrong(&self, option: &str, why: &str) -> SearchError {
        let name = self.algorithm.name();
        refused(format!(
            "Bad arguments for vector similarity {name} index {option}: {why}"
        ))
    }

    fn number<N: std::str::FromStr>(&self, option: &str, value: &str) -> Result<N, SearchError> {
        let wrong = |_| self.wrong(option, "Could not convert argument to expected type");
        value.parse().map_err(wrong)
    }

    fn within(&self, option: &str, value: &str, max: usize) -> Result<usize, SearchError> {
        let number = self.number(option, value)?;
        match (1..=max).contains(&number) {
            true => Ok(number),
            false => Err(self.wrong(option, "Value is outside acceptable bounds")),
        }
    }

    fn set(&mut self, name: &[u8], value: &str) -> Result<(), SearchError> {
        let unknown = |option: &'static str| self.wrong(option, "Unknown argument");
        let upper = name.to_ascii_uppercase();
        match upper.as_slice() {
            b"TYPE" => self.component = Some(Component::of_name(value).ok_or_else(|| unknown("type"))?),
            b"DIM" => self.dimensions = Some(self.within("dim", value, usize::MAX)?),
            b"DISTANCE_METRIC" => self.metric = Some(Metric::of_name(value).ok_or_else(|| unknown("metric"))?),
            b"INITIAL_CAP" => _ = self.number::<u64>("initial cap", value)?,
            other => match self.algorithm {
                Algorithm::Flat if other == b"BLOCK_SIZE" => _ = self.number::<u64>("block size", value)?,
                Algorithm::Flat => return Err(self.not_of_algorithm(name)),
                Algorithm::Hnsw => self.set_of_hnsw(name, value)?,
                Algorithm::SvsVamana(_) => self.set_of_vamana(name, value)?,
            },
        }
        Ok(())
    }

    fn not_of_algorithm(&self, name: &[u8]) -> SearchError {
        let (algorithm, argument) = (self.algorithm.name(), String::from_utf8_lossy(name));
        refused(format!("Bad arguments for algorithm {algorithm}: {argument}"))
    }

    fn set_of_hnsw(&mut self, name: &[u8], value: &str) -> Result<(), SearchError> {
        match name.to_ascii_uppercase().as_slice() {
            b"M" => self.graph.links = self.within("m", value, LINKS_MAX)?,
            b"EF_CONSTRUCTION" => self.graph.build_candidates = self.within("efConstruction", value, CANDIDATES_MAX)?,
            b"EF_RUNTIME" => self.graph.search_candidates = self.within("efRuntime", value, CANDIDATES_MAX)?,
            b"EPSILON" => self.graph.epsilon = self.epsilon(value)?,
            // As on every Redis that keeps its indexes in memory.
            b"RERANK" => return Err(self.wrong("rerank", "Only disk-based vector indexes take it")),
            _ => return Err(self.not_of_algorithm(name)),
        }
        Ok(())
    }

    fn set_of_vamana(&mut self, name: &[u8], value: &str) -> Result<(), SearchError> {
        match name.to_ascii_uppercase().as_slice() {
            b"GRAPH_MAX_DEGREE" => self.graph.links = self.within("graph max degree", value, LINKS_MAX)?,
            b"CONSTRUCTION_WINDOW_SIZE" => {
                self.graph.build_candidates = self.within("construction window size", value, CANDIDATES_MAX)?;
            }
            b"SEARCH_WINDOW_SIZE" => {
                self.graph.search_candidates = self.within("search window size", value, CANDIDATES_MAX)?;
            }
            b"EPSILON" => self.graph.epsilon = self.epsilon(value)?,
            b"COMPRESSION" => {
                let codes_name = COMPRESSIONS
                    .iter()
                    .find(|codes_name| codes_name.eq_ignore_ascii_case(value));
                let codes = codes_name.ok_or_else(|| self.wrong("compression", "Unknown argument"))?;
                self.compression().codes = Some(codes);
            }
            b"TRAINING_THRESHOLD" => {
                let threshold = self.within("training threshold", value, TRAINING_THRESHOLD_MAX as usize)?;
                self.compression().training_threshold = Some(threshold as u64);
            }
            b"REDUCE" => self.compression().dimensions = Some(self.within("reduce", value, usize::MAX)? as u64),
            _ => return Err(self.not_of_algorithm(name)),
        }
        Ok(())
    }

    fn compression(&mut self) -> &mut Compression {
        match &mut self.algorithm {
            Algorithm::SvsVamana(compression) => compression,
            _ => unreachable!("only SVS-VAMANA has a compression"),
        }
    }

    fn epsilon(&self, value: &str) -> Result<f64, SearchError> {
        let epsilon: f64 = self.number("epsilon", value)?;
        match epsilon >= 0.0 {
            true => Ok(epsilon),
            false => Err(self.wrong("epsilon", "Value is outside acceptable bounds")),
        }
    }

    fn finish(mut self) -> Result<(VectorKind, Algorithm), SearchError> {
        let name = self.algorithm.name();
        let missing = |option: &str| {
            refused(format!(
                "Missing mandatory parameter: cannot create {name} index without specifying {option} argument"
            ))
        };
        let component = self.component.ok_or_else(|| missing("TYPE"))?;
        let dimensions = self.dimensions.ok_or_else(|| missing("DIM"))?;
        let metric = self.metric.ok_or_else(|| missing("DISTANCE_METRIC"))?;
        let mut kind = VectorKind::new(component, dimensions, metric)?;
        if self.algorithm != Algorithm::Flat {
            kind = kind.with_graph(self.graph);
        }
        if matches!(self.algorithm, Algorithm::SvsVamana(_)) {
            self.check_vamana(component, dimensions)?;
        }
        Ok((kind, self.algorithm))
    }

    fn check_vamana(&mut self, component: Component, dimensions: usize) -> Result<(), SearchError> {
        if !matches!(component, Component::Float32 | Component::Float16) {
            return Err(refused("Not supported data type is given. Expected: FLOAT16, FLOAT32"));
        }
        let compression = self.compression();
        let is_reduced = compression.codes.is_some_and(|codes| codes.starts_with("LeanVec"));
        if compression.training_threshold.is_some() && compression.codes.is_none() {
            let text = "TRAINING_THRESHOLD is irrelevant when compression was not requested";
            return Err(refused(text));
        }
        if compression.dimensions.is_some() && !is_reduced {
            let text = "REDUCE is irrelevant when compression is not of type LeanVec";
            return Err(refused(text));
        }
        if compression.codes.is_some() {
            compression.training_threshold.get_or_insert(TRAINING_THRESHOLD);
        }
        if is_reduced {
            let reduced = *compression.dimensions.get_or_insert(dimensions as u64 / 2);
            if reduced >= dimensions as u64 {
                return Err(self.wrong("reduce", "Value is outside acceptable bounds"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 512 was the most, and the original takes more.
    #[test]
    fn the_limit_of_links_is_as_in_the_original() {
        let links = |links: &str| {
            let words = ["TYPE", "FLOAT32", "DIM", "4", "DISTANCE_METRIC", "L2", "M", links];
            let pairs = words.map(str::as_bytes);
            let (kind, _) = parse(Algorithm::Hnsw, &pairs)?;
            Ok::<_, SearchError>(kind.graph().map(|graph| graph.links))
        };
        assert_eq!(links("513").unwrap(), Some(513));
        assert_eq!(links("32767").unwrap(), Some(32_767));
        assert!(links("32768").is_err() && links("0").is_err());
    }
}
