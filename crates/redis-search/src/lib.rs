//! Redis' modules of search, over the layer of Redis: FT.* and vector sets, and Upstash's SEARCH.*
//! and VECTOR.*.
//!
//! ```text
//!   layer-redis --Module--> module, data_types --> commands --Search, Context--> indexes --> quartet_search
//! ```
//!
//! `quartet_search` has indexes as rows, queries and graphs; this crate has arguments, replies,
//! keys, and the upkeep of indexes in the transactions that change keys. The layer calls it only
//! through [`SearchModule`]; it calls the layer only through
//! [`module_api`](quartet_layer_redis::module_api).

mod background;
mod commands;
mod data_types;
mod errors;
mod groups;
mod indexes;
mod invariants;
mod kinds;
mod module;
mod state;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use indexes::IndexFigures;
pub use module::SearchModule;
pub use state::Search;
