//! Parts of an answer, and how much of it a request may keep.

use crate::error::SearchError;
use crate::upstash::value::Value;

/// Most groups of a request over all of its aggregations, empty groups included.
const BUCKETS_MAX: usize = 65_000;

/// Most values that a request keeps for percentiles and numbers of different values.
const VALUES_MAX: usize = 2_000_000;

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// There is none.
    Null,
    /// A count.
    Integer(i64),
    /// Another number.
    Number(f64),
    /// A text.
    Text(String),
    /// Figures by name.
    Map(Vec<(String, Figure)>),
    /// Several, in their order.
    List(Vec<Figure>),
}

impl Figure {
    pub(super) fn of(number: Option<f64>) -> Figure {
        number
            .filter(|number| number.is_finite())
            .map_or(Figure::Null, Figure::Number)
    }
}

pub fn pairs<const N: usize>(pairs: [(&str, Figure); N]) -> Vec<(String, Figure)> {
    pairs
        .into_iter()
        .map(|(name, figure)| (name.to_owned(), figure))
        .collect()
}

/// The buckets and values that a request may still keep.
pub struct Budget {
    buckets: usize,
    values: usize,
}

impl Budget {
    pub fn new() -> Budget {
        Budget {
            buckets: BUCKETS_MAX,
            values: VALUES_MAX,
        }
    }

    pub fn take_bucket(&mut self) -> Result<(), SearchError> {
        let text = || format!("an aggregation has at most {BUCKETS_MAX} buckets");
        self.buckets = self.buckets.checked_sub(1).ok_or_else(|| SearchError::Limit(text()))?;
        Ok(())
    }

    pub fn take_value(&mut self) -> Result<(), SearchError> {
        let text = || format!("an aggregation keeps at most {VALUES_MAX} values");
        self.values = self.values.checked_sub(1).ok_or_else(|| SearchError::Limit(text()))?;
        Ok(())
    }
}

/// The values of one field.
pub fn of_field(values: &[(u16, Value)], field: u16) -> impl Iterator<Item = &Value> {
    values
        .iter()
        .filter(move |(number, _)| *number == field)
        .map(|(_, value)| value)
}
