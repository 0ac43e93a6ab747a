//! From JSON to expressions and back: versions of the API, values and their bytes, errors, the
//! table of signatures, parsing and showing.
//!
//! Nothing here knows of keys or of transactions.

pub mod api_version;
pub mod casefold;
pub mod codec;
pub mod error;
pub mod expression;
pub mod interned;
pub mod json;
pub mod number;
pub mod parse;
pub mod references;
pub mod render;
pub mod signature;
pub mod time;
pub mod value;
