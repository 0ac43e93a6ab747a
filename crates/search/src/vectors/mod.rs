//! Vectors: their distances, their codes, and the indexes that find the nearest.
//!
//! ```text
//!   metric --simd--> distances      quantized: a vector in 8 bits a component, with its error bound
//!   flat    compares the codes of all vectors of a field, block by block
//!   hnsw    a graph of near vectors as rows; resident_graph is its copy in memory, kept by cache
//!   set     Redis' vector sets: rows, graph and codes of their own forms
//! ```

pub(crate) mod cache;
pub mod fields;
pub mod flat;
pub mod hnsw;
pub mod metric;
pub(crate) mod quantized;
pub(crate) mod resident_graph;
pub mod set;
pub(crate) mod simd;
