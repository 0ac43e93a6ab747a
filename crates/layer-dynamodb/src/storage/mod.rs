//! The rows: tables, items, indexes, streams and what accounts for them.

pub(crate) mod attributes;
pub(crate) mod backup;
pub(crate) mod buckets;
pub(crate) mod capacity;
pub(crate) mod catalog;
pub(crate) mod changes;
pub(crate) mod filling;
pub(crate) mod found;
pub(crate) mod history;
pub(crate) mod invariants;
pub(crate) mod key;
pub(crate) mod layer;
pub mod region;
pub(crate) mod source;
pub(crate) mod stored;
pub(crate) mod streams;
pub(crate) mod table;
pub(crate) mod throughput;
pub(crate) mod vector_index;
pub(crate) mod write;
