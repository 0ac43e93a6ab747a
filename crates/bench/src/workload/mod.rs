//! The workloads: the data and the choices of each published benchmark, without a word about how a
//! database does them.
//!
//! Everything derives from a seed, so that two targets are given the same work.

pub mod calvin;
pub mod news;
pub mod product;
pub mod search;
pub mod vectors;
pub mod ycsb;
