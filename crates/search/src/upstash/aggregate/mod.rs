//! Figures and groups of a filter's matches.
//!
//! Each aggregation has a name and one operator; operators that make groups may hold further
//! aggregations, which are computed for each group. All are exact: also counts of terms, numbers of
//! different values and percentiles, which Tantivy estimates.

mod buckets;
mod figure;
mod metrics;
mod request;

#[cfg(test)]
mod tests;

pub use figure::Figure;
pub use request::Aggregation;

use crate::error::SearchError;
use crate::rows::Rows;
use crate::upstash::aggregate::buckets::Collected;
use crate::upstash::aggregate::figure::Budget;
use crate::upstash::execute::each;
use crate::upstash::request::Clause;
use crate::upstash::schema::Schema;

/// Computes aggregations over the documents that a clause matches.
pub fn aggregate(
    rows: &mut dyn Rows,
    schema: &Schema,
    clause: &Clause,
    aggregations: &[Aggregation],
    is_over: &dyn Fn() -> bool,
) -> Result<Figure, SearchError> {
    let mut budget = Budget::new();
    let mut collected = Collected::new(aggregations);
    each(rows, schema, clause, is_over, &mut |_, document| {
        collected.add(&document.values, &mut budget)
    })?;
    Ok(Figure::Map(collected.finish(&mut budget)?))
}
