//! Upstash's `redis.search`: typed fields, filters in JSON, BM25 a field, aggregations.
//!
//! ```text
//!   JSON --request--> clauses --walk--> ids, ascending, with scores --execute--> the best
//!   values --document--> Document                                  `--aggregate--> buckets, figures
//! ```
//!
//! An index has the same rows as any other index of this crate. Terms start with the number of
//! their field, so that each TEXT field has words, positions and lengths of its own; values of all
//! other types are TAG values whose bytes sort as the values do. Requests follow
//! <https://upstash.com/docs/redis/search>; tokens, scores and buckets are those of Tantivy 0.26,
//! which Upstash runs. Where the pages leave a figure open, `docs/search-upstash.md` has the figure
//! used here.

mod aggregate;
mod analysis;
mod automata;
mod bm25;
mod dates;
mod document;
mod execute;
mod highlight;
mod phrases;
mod request;
mod schema;
mod scoring;
mod terms;
mod value;
mod walk;

pub use aggregate::{Aggregation, Figure, aggregate};
pub use document::{Given, document};
pub use execute::{Order, Page, count, search};
pub use highlight::Highlighter;
pub use request::{Clause, parse};
pub use schema::{FieldType, Schema, TypedField};
pub use scoring::{FieldScore, Modifier, Operation, ScoreFunction};
pub use value::Value;
