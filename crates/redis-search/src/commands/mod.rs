//! The commands, a family a room.

pub mod search;
pub mod vector_indexes;
pub mod vector_sets;
