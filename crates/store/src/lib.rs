//! Ordered storage: rows by key.

pub mod row;
mod run;
pub mod tree;
