//! One figure over all values of a field, or several.

use std::collections::BTreeSet;

use crate::error::SearchError;
use crate::upstash::aggregate::figure::{Budget, Figure, of_field, pairs};
use crate::upstash::aggregate::request::{Aggregation, Metric, MetricFigure};
use crate::upstash::schema::FieldType;
use crate::upstash::value::Value;

pub struct Metrics<'m> {
    field: u16,
    kind: FieldType,
    metric: &'m Metric,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
    /// The average so far, and the sum of squared distances from it.
    mean: f64,
    distances: f64,
    squares: f64,
    values: Vec<f64>,
    different: BTreeSet<Vec<u8>>,
}

impl<'m> Metrics<'m> {
    pub fn new(aggregation: &Aggregation, metric: &'m Metric) -> Metrics<'m> {
        Metrics {
            field: aggregation.field,
            kind: aggregation.kind,
            metric,
            count: 0,
            sum: 0.0,
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            mean: 0.0,
            distances: 0.0,
            squares: 0.0,
            values: Vec::new(),
            different: BTreeSet::new(),
        }
    }

    pub fn add(&mut self, values: &[(u16, Value)], budget: &mut Budget) -> Result<(), SearchError> {
        if matches!(self.metric.figure, MetricFigure::Cardinality) {
            return self.add_different(values, budget);
        }
        let mut is_missing = true;
        for value in of_field(values, self.field) {
            is_missing = false;
            // A text counts and is no number.
            self.add_number(value.number().unwrap_or(0.0), budget)?;
        }
        match self.metric.missing {
            Some(number) if is_missing => self.add_number(number, budget),
            _ => Ok(()),
        }
    }

    fn add_number(&mut self, number: f64, budget: &mut Budget) -> Result<(), SearchError> {
        self.count += 1;
        self.sum += number;
        self.min = self.min.min(number);
        self.max = self.max.max(number);
        self.squares += number * number;
        let distance = number - self.mean;
        self.mean += distance / self.count as f64;
        self.distances += distance * (number - self.mean);
        if matches!(self.metric.figure, MetricFigure::Percentiles { .. }) {
            budget.take_value()?;
            self.values.push(number);
        }
        Ok(())
    }

    /// Counts a facet's whole paths only, not their beginnings.
    fn add_different(&mut self, values: &[(u16, Value)], budget: &mut Budget) -> Result<(), SearchError> {
        let all: Vec<&Value> = of_field(values, self.field).collect();
        for (at, value) in all.iter().enumerate() {
            let is_beginning = self.kind == FieldType::Facet && is_beginning(value, all.get(at + 1).copied());
            if !is_beginning && self.different.insert(value.sorted()) {
                budget.take_value()?;
            }
        }
        if let (true, Some(key)) = (all.is_empty(), &self.metric.missing_key) {
            let key = Value::of_text(self.kind, key).unwrap_or_else(|| Value::Text(key.clone()));
            self.different.insert(key.sorted());
        }
        Ok(())
    }

    pub fn finish(mut self) -> Figure {
        let (count, any) = (self.count as f64, self.count > 0);
        let some = |figure: f64| any.then_some(figure);
        let single = |figure: Figure| Figure::Map(pairs([("value", figure)]));
        match &self.metric.figure {
            MetricFigure::Avg => single(Figure::of(some(self.sum / count))),
            MetricFigure::Sum => single(Figure::of(Some(self.sum))),
            MetricFigure::Min => single(Figure::of(some(self.min))),
            MetricFigure::Max => single(Figure::of(some(self.max))),
            MetricFigure::Count => single(Figure::Integer(self.count as i64)),
            MetricFigure::Cardinality => single(Figure::Integer(self.different.len() as i64)),
            MetricFigure::Stats => Figure::Map(self.stats()),
            MetricFigure::Extended(sigma) => Figure::Map(self.extended(*sigma)),
            MetricFigure::Percentiles { percents, keyed } => {
                self.values.sort_by(f64::total_cmp);
                let percentiles = percents
                    .iter()
                    .map(|percent| (*percent, Figure::of(percentile(&self.values, *percent))));
                let values = match keyed {
                    true => Figure::Map(
                        percentiles
                            .map(|(percent, figure)| (format!("{percent:?}"), figure))
                            .collect(),
                    ),
                    false => Figure::List(
                        percentiles
                            .map(|(percent, figure)| {
                                Figure::Map(pairs([("key", Figure::Number(percent)), ("value", figure)]))
                            })
                            .collect(),
                    ),
                };
                Figure::Map(pairs([("values", values)]))
            }
        }
    }

    fn stats(&self) -> Vec<(String, Figure)> {
        let some = |figure: f64| Figure::of((self.count > 0).then_some(figure));
        pairs([
            ("count", Figure::Integer(self.count as i64)),
            ("min", some(self.min)),
            ("max", some(self.max)),
            ("sum", Figure::of(Some(self.sum))),
            ("avg", some(self.sum / self.count as f64)),
        ])
    }

    fn extended(&self, sigma: f64) -> Vec<(String, Figure)> {
        let count = self.count as f64;
        let population = (self.count > 0).then(|| self.distances / count);
        let sampling = (self.count > 1).then(|| self.distances / (count - 1.0));
        let deviation = |variance: Option<f64>| variance.map(f64::sqrt);
        let mean = self.sum / count;
        let bound = |variance: Option<f64>, sign: f64| {
            Figure::of(deviation(variance).map(|deviation| mean + sign * sigma * deviation))
        };
        let mut figures = self.stats();
        figures.extend(pairs([
            ("sumOfSquares", Figure::of(Some(self.squares))),
            ("variance", Figure::of(population)),
            ("variancePopulation", Figure::of(population)),
            ("varianceSampling", Figure::of(sampling)),
            ("stdDeviation", Figure::of(deviation(population))),
            ("stdDeviationPopulation", Figure::of(deviation(population))),
            ("stdDeviationSampling", Figure::of(deviation(sampling))),
            (
                "stdDeviationBounds",
                Figure::Map(pairs([
                    ("upper", bound(population, 1.0)),
                    ("lower", bound(population, -1.0)),
                    ("upperSampling", bound(sampling, 1.0)),
                    ("lowerSampling", bound(sampling, -1.0)),
                    ("upperPopulation", bound(population, 1.0)),
                    ("lowerPopulation", bound(population, -1.0)),
                ])),
            ),
        ]));
        figures
    }
}

/// The parents of a facet sort before it, the shortest first.
fn is_beginning(value: &Value, next: Option<&Value>) -> bool {
    let (Value::Text(path), Some(Value::Text(next))) = (value, next) else {
        return false;
    };
    next.strip_prefix(path.as_str())
        .is_some_and(|suffix| suffix.starts_with('/'))
}

/// The value below which this share of all is, between the two that are nearest.
fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = percent / 100.0 * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}
