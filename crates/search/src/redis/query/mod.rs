//! A query's text to a tree of conditions on documents.
//!
//! Dialects 2 to 4 of the original have one grammar ([`parse`]); in the first, fields and signs
//! reach further ([`parse_first`]).

mod explain;
mod first_dialect;
mod lexer;
mod parser;
mod shapes;
mod tree;
mod vectors;

pub use parser::{parse, parse_first};
pub use tree::{
    Affix, Expander, HybridPolicy, Nearest, NearestOptions, Node, NodeKind, NumberRange, Options, Parameters, Query,
    ShapeCondition, VectorRange,
};

/// Most levels of a query's tree.
pub const DEPTH_MAX: usize = 128;

/// Longest text of a query, in bytes. It is looked at before anything is made of the text, whose
/// tokens take many times its size.
pub const QUERY_BYTES_MAX: usize = 256 << 10;

/// Most words, values and ranges of a query.
pub const LEAVES_MAX: usize = 1024;
