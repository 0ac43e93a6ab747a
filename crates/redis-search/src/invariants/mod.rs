//! The invariants of the module's rows, for `quartet check`.

pub mod search;
pub mod vector_sets;
