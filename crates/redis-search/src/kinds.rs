//! The numbers of the module's kinds of keys in their headers.

use quartet_layer_redis::module_api::Kind;

pub const VECTOR_SET: Kind = Kind::Module(7);
pub const SUGGESTIONS: Kind = Kind::Module(8);
/// An index of Upstash's search: its number, see [`crate::indexes`].
pub const SEARCH_INDEX: Kind = Kind::Module(9);
/// The vectors of Upstash's `VECTOR.*`.
pub const VECTOR_INDEX: Kind = Kind::Module(10);
