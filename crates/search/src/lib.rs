//! Full-text, tag, numeric, geographic and vector search over ordered rows.
//!
//! ```text
//!   document --analysis--> terms, tags, numbers, vectors --index--> rows, in the writer's transaction
//!   query    --query-----> tree --search--> matches at the snapshot that the rows show --aggregate--> groups
//! ```
//!
//! An index consists only of rows: any commit, replication or restore of the rows includes the
//! index, and nothing needs rebuilding. [`Rows`] and [`WriteRows`] are this crate's view of them:
//! reads and writes by key, ordered scans, counts. A search reads only its rows, so a search inside
//! a transaction sees that transaction's own writes.
//!
//! No RESP, no I/O, no thread, no clock. Grammar, tokens, scores and texts of errors follow Redis'
//! query engine: <https://redis.io/docs/latest/develop/ai/search-and-query/>, and what version 2.10
//! of it was seen to answer (`tests/redis-oracle`). Where 8.x differs from 2.10, 8.x is followed.
//!
//! Nothing a client sends panics, and depth, terms and expansions of a query are bounded.

#![warn(missing_docs)]

pub mod aggregate;
pub mod analysis;
mod best;
mod coded;
pub mod codes;
pub mod document;
pub mod error;
pub mod filter;
pub mod geo;
pub mod graph;
pub mod highlight;
mod image;
pub mod index;
pub mod judge;
mod lanes;
mod layout;
mod lengths;
mod postings;
pub mod query;
mod reasons;
pub mod resident;
pub mod rows;
pub mod schema;
pub mod search;
pub mod shapes;
mod term_numbers;
mod time;
mod values;
pub mod vector_set;
pub mod vectors;
mod walking;

pub use document::{Document, Json};
pub use error::SearchError;
pub use rows::{MemoryRows, Rows, WriteRows};
pub use schema::{Field, FieldKind, Schema};
pub use time::{Parts, Time};
