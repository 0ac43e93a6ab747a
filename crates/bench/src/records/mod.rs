//! The data of the benchmarks, which workloads make and targets store.

pub mod calvin;
pub mod product;
pub mod search;
pub mod ycsb;
