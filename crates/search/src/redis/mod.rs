//! Redis' query engine: the query language, its execution, and aggregation.

pub mod aggregate;
pub mod execute;
pub mod highlight;
pub mod query;
