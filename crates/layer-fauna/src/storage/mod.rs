//! Storage: rows and their keys, schemas, documents with their history, entries of indexes.

pub mod contents;
pub mod documents;
pub mod indexes;
pub mod order;
pub mod ranges;
pub mod rows;
pub mod schema;
