//! The upkeep of indexes and graphs: inside the transactions that change keys, and between them.

mod indexing;
mod linking;
