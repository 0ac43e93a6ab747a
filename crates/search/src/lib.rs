//! Full-text, tag, numeric, geographic and vector search over ordered rows.
//!
//! ```text
//!   document --text--> terms, tags, numbers, vectors --index, vectors--> rows, in the writer's transaction
//!   query    --redis, upstash--> matches at the snapshot that the rows show --aggregate--> groups
//! ```
//!
//! An index consists only of rows: any commit, replication or restore of the rows includes the
//! index, and nothing needs rebuilding. [`rows::Rows`] and [`rows::WriteRows`] are this crate's
//! view of them: reads and writes by key, ordered scans, counts. A search reads only its rows, so a
//! search inside a transaction sees that transaction's own writes.
//!
//! No RESP, no I/O, no thread, no clock. Grammar, tokens, scores and texts of errors follow Redis'
//! query engine: <https://redis.io/docs/latest/develop/ai/search-and-query/>, and what version 2.10
//! of it was seen to answer (`tests/redis-oracle`). Where 8.x differs from 2.10, 8.x is followed.
//!
//! Nothing a client sends panics, and depth, terms and expansions of a query are bounded.

#![warn(missing_docs)]

mod encoding;
pub mod error;
pub mod hits;
pub mod index;
pub mod redis;
pub mod rows;
pub mod text;
pub mod time;
pub mod top_k;
pub mod upstash;
pub mod vectors;
