//! A query's text to a tree of what documents have to hold.
//!
//! The grammar is that of dialects 2 to 4 of the original; the first dialect, whose modifiers and
//! signs reach further, is another grammar and not read here.

mod explain;
mod lexer;
mod parser;
mod shapes;
mod tree;
mod vectors;

pub use parser::parse;
pub use tree::{Affix, HybridPolicy, Nearest, NearestOptions, Node, NodeKind, NumberRange, Options, Parameters, Query};
pub use tree::{ShapeCondition, VectorRange};

/// Most levels of a query's tree.
pub const DEPTH_MAX: usize = 128;

/// Most words, values and ranges of a query.
pub const LEAVES_MAX: usize = 1024;
