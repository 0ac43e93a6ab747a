//! Groups of documents by the values of a field, and what is computed for each.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use crate::error::SearchError;
use crate::upstash::aggregate::figure::{Budget, Figure, of_field, pairs};
use crate::upstash::aggregate::metrics::Metrics;
use crate::upstash::aggregate::request::{Aggregation, Chosen, Facet, Histogram, Operator, Range, TermOrder, Terms};
use crate::upstash::dates;
use crate::upstash::schema::FieldType;
use crate::upstash::value::Value;

/// The figures of some aggregations so far.
pub struct Collected<'a> {
    of: &'a [Aggregation],
    parts: Vec<Part<'a>>,
}

enum Part<'a> {
    Metrics(Metrics<'a>),
    Groups(Groups<'a>),
}

impl<'a> Collected<'a> {
    pub fn new(aggregations: &'a [Aggregation]) -> Collected<'a> {
        let parts = aggregations.iter().map(|aggregation| match &aggregation.operator {
            Operator::Metric(metric) => Part::Metrics(Metrics::new(aggregation, metric)),
            operator => Part::Groups(Groups::new(aggregation, operator)),
        });
        Collected {
            of: aggregations,
            parts: parts.collect(),
        }
    }

    pub fn add(&mut self, values: &[(u16, Value)], budget: &mut Budget) -> Result<(), SearchError> {
        self.parts.iter_mut().try_for_each(|part| match part {
            Part::Metrics(metrics) => metrics.add(values, budget),
            Part::Groups(groups) => groups.add(values, budget),
        })
    }

    pub fn finish(self, budget: &mut Budget) -> Result<Vec<(String, Figure)>, SearchError> {
        let mut figures = Vec::new();
        for (aggregation, part) in self.of.iter().zip(self.parts) {
            let figure = match part {
                Part::Metrics(metrics) => metrics.finish(),
                Part::Groups(groups) => groups.finish(budget)?,
            };
            figures.push((aggregation.name.clone(), figure));
        }
        Ok(figures)
    }
}

/// The groups of one aggregation.
pub struct Groups<'g> {
    of: &'g Aggregation,
    operator: &'g Operator,
    /// By the bytes of a value, the number of a range or of an interval.
    buckets: BTreeMap<Vec<u8>, Bucket<'g>>,
    /// Documents by the paths of a facet.
    paths: BTreeMap<String, u64>,
}

struct Bucket<'g> {
    key: Key,
    documents: u64,
    inner: Collected<'g>,
}

enum Key {
    Value(Value),
    /// The group of documents without a value.
    Missing(Json),
    Number(f64),
    Range(usize),
}

impl<'g> Groups<'g> {
    pub fn new(of: &'g Aggregation, operator: &'g Operator) -> Groups<'g> {
        Groups {
            of,
            operator,
            buckets: BTreeMap::new(),
            paths: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, values: &[(u16, Value)], budget: &mut Budget) -> Result<(), SearchError> {
        let (of, operator) = (self.of, self.operator);
        let mut own = of_field(values, of.field);
        match operator {
            Operator::Metric(_) => unreachable!("a metric makes no groups"),
            Operator::Terms(terms) => {
                let mut is_missing = true;
                for value in own {
                    is_missing = false;
                    if terms.takes(value) {
                        let place = [&[0], &value.sorted()[..]].concat();
                        self.count(place, || Key::Value(value.clone()), values, budget)?;
                    }
                }
                match &terms.missing {
                    Some(missing) if is_missing => {
                        let place = [&[1], missing.to_string().as_bytes()].concat();
                        self.count(place, || Key::Missing(missing.clone()), values, budget)
                    }
                    _ => Ok(()),
                }
            }
            Operator::Range { ranges, .. } => own.try_for_each(|value| {
                let number = value.number().unwrap_or(0.0);
                let at = ranges.iter().position(|range| range.contains(number));
                let at = at.expect("every number is in a range");
                self.count(at.to_be_bytes().into(), || Key::Range(at), values, budget)
            }),
            Operator::Histogram(histogram) => own.try_for_each(|value| {
                let number = value.number().unwrap_or(0.0);
                match histogram.hard {
                    Some((min, max)) if !(min..=max).contains(&number) => Ok(()),
                    _ => {
                        let key = histogram.key(number);
                        self.count(Value::F64(key).sorted(), || Key::Number(key), values, budget)
                    }
                }
            }),
            Operator::Facet(facet) => {
                let paths = own.filter_map(|value| match value {
                    Value::Text(path) if facet.shows(path) => Some(path),
                    _ => None,
                });
                // Two facets of a document may share a parent.
                paths.collect::<BTreeSet<_>>().into_iter().try_for_each(|path| {
                    if let Some(count) = self.paths.get_mut(path) {
                        *count += 1;
                        return Ok(());
                    }
                    budget.take_bucket()?;
                    self.paths.insert(path.clone(), 1);
                    Ok(())
                })
            }
        }
    }

    fn count(
        &mut self,
        place: Vec<u8>,
        key: impl FnOnce() -> Key,
        values: &[(u16, Value)],
        budget: &mut Budget,
    ) -> Result<(), SearchError> {
        if !self.buckets.contains_key(&place) {
            budget.take_bucket()?;
        }
        let bucket = self.buckets.entry(place).or_insert_with(|| Bucket {
            key: key(),
            documents: 0,
            inner: Collected::new(&self.of.inner),
        });
        bucket.documents += 1;
        bucket.inner.add(values, budget)
    }

    pub fn finish(mut self, budget: &mut Budget) -> Result<Figure, SearchError> {
        match self.operator {
            Operator::Metric(_) => unreachable!("a metric makes no groups"),
            Operator::Terms(terms) => self.terms(terms, budget),
            Operator::Range { ranges, keyed } => {
                for at in 0..ranges.len() {
                    self.add_empty(at.to_be_bytes().into(), Key::Range(at), budget)?;
                }
                let figures = self.shown(0, budget)?;
                Ok(listed(figures, *keyed))
            }
            Operator::Histogram(histogram) => {
                self.add_between(histogram, budget)?;
                let figures = self.shown(histogram.min_documents, budget)?;
                Ok(listed(figures, histogram.keyed))
            }
            Operator::Facet(facet) => Ok(Figure::Map(facet.tree(&self.paths, &facet.path, facet.depth))),
        }
    }

    fn add_empty(&mut self, place: Vec<u8>, key: Key, budget: &mut Budget) -> Result<(), SearchError> {
        if self.buckets.contains_key(&place) {
            return Ok(());
        }
        budget.take_bucket()?;
        let inner = Collected::new(&self.of.inner);
        let documents = 0;
        self.buckets.insert(place, Bucket { key, documents, inner });
        Ok(())
    }

    /// Adds the empty intervals between the first and the last, if they are shown.
    fn add_between(&mut self, histogram: &Histogram, budget: &mut Budget) -> Result<(), SearchError> {
        if histogram.min_documents > 0 {
            return Ok(());
        }
        let numbers = self.buckets.values().map(|bucket| match bucket.key {
            Key::Number(number) => number,
            _ => unreachable!("an interval begins with a number"),
        });
        let bounds = histogram
            .extended
            .map(|(min, max)| [histogram.key(min), histogram.key(max)]);
        let all = numbers.chain(bounds.into_iter().flatten());
        let (first, last) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |(first, last), number| {
            (first.min(number), last.max(number))
        });
        if first > last {
            return Ok(());
        }
        let steps = ((last - first) / histogram.interval).round();
        let mut step = 0.0;
        while step <= steps {
            // Rounds as for a value within that interval; repeated additions would round
            // differently.
            let key = histogram.key(first + (step + 0.5) * histogram.interval);
            self.add_empty(Value::F64(key).sorted(), Key::Number(key), budget)?;
            step += 1.0;
        }
        Ok(())
    }

    /// The groups in their order, with their keys as names.
    fn shown(self, min_documents: u64, budget: &mut Budget) -> Result<Vec<(String, Figure)>, SearchError> {
        let (operator, kind) = (self.operator, self.of.kind);
        let mut ranges = Vec::new();
        for bucket in self.buckets.into_values() {
            if bucket.documents < min_documents {
                continue;
            }
            let (name, mut figures) = bucket.key.shown(operator, kind);
            figures.extend(pairs([("docCount", Figure::Integer(bucket.documents as i64))]));
            figures.extend(bucket.inner.finish(budget)?);
            ranges.push((name, Figure::Map(figures)));
        }
        Ok(ranges)
    }

    fn terms(self, terms: &Terms, budget: &mut Budget) -> Result<Figure, SearchError> {
        let (operator, kind) = (self.operator, self.of.kind);
        let mut buckets = Vec::new();
        for (place, bucket) in self.buckets {
            if bucket.documents < terms.min_documents {
                continue;
            }
            let (_, mut figures) = bucket.key.shown(operator, kind);
            figures.extend(pairs([("docCount", Figure::Integer(bucket.documents as i64))]));
            let inner = bucket.inner.finish(budget)?;
            let rank = match &terms.order {
                TermOrder::Count => bucket.documents as f64,
                TermOrder::Key => 0.0,
                TermOrder::Inner { name, part } => figure_of(&inner, name, part.as_deref().unwrap_or("value")),
            };
            figures.extend(inner);
            buckets.push((rank, place, bucket.documents, Figure::Map(figures)));
        }
        let is_by_key = matches!(terms.order, TermOrder::Key);
        buckets.sort_by(|(a_rank, a_place, ..), (b_rank, b_place, ..)| {
            let rank_order = match terms.ascends {
                true => a_rank.total_cmp(b_rank),
                false => b_rank.total_cmp(a_rank),
            };
            let place_order = match is_by_key && !terms.ascends {
                true => b_place.cmp(a_place),
                false => a_place.cmp(b_place),
            };
            rank_order.then(place_order)
        });
        let omitted = buckets
            .iter()
            .skip(terms.size)
            .map(|(_, _, documents, _)| *documents as i64);
        let omitted = omitted.sum();
        let listed = buckets.into_iter().take(terms.size).map(|(.., figure)| figure);
        Ok(Figure::Map(pairs([
            ("buckets", Figure::List(listed.collect())),
            ("sumOtherDocCount", Figure::Integer(omitted)),
            ("docCountErrorUpperBound", Figure::Integer(0)),
        ])))
    }
}

fn figure_of(inner: &[(String, Figure)], name: &str, part: &str) -> f64 {
    let figure = inner.iter().find(|(figure_name, _)| figure_name == name);
    let Some((_, Figure::Map(parts))) = figure else {
        return 0.0;
    };
    match parts.iter().find(|(part_name, _)| part_name == part) {
        Some((_, Figure::Number(number))) => *number,
        Some((_, Figure::Integer(number))) => *number as f64,
        _ => f64::NEG_INFINITY,
    }
}

fn listed(buckets: Vec<(String, Figure)>, keyed: bool) -> Figure {
    let buckets = match keyed {
        true => Figure::Map(buckets),
        false => Figure::List(buckets.into_iter().map(|(_, figure)| figure).collect()),
    };
    Figure::Map(pairs([("buckets", buckets)]))
}

impl Key {
    /// The key as a name, and as parts of its group.
    fn shown(&self, operator: &Operator, kind: FieldType) -> (String, Vec<(String, Figure)>) {
        match (self, operator) {
            (Key::Range(at), Operator::Range { ranges, .. }) => {
                let range = &ranges[*at];
                let mut figures = pairs([("key", Figure::Text(range.name(kind)))]);
                for (end, named, number) in [("from", "fromAsString", range.from), ("to", "toAsString", range.to)] {
                    let Some(number) = number else { continue };
                    figures.extend(pairs([(end, Figure::Number(number))]));
                    if kind == FieldType::Date {
                        figures.extend(pairs([(named, Figure::Text(date_text(number)))]));
                    }
                }
                (range.name(kind), figures)
            }
            (Key::Number(number), _) => {
                let mut figures = pairs([("key", Figure::Number(*number))]);
                if kind == FieldType::Date {
                    figures.extend(pairs([("keyAsString", Figure::Text(date_text(*number)))]));
                }
                (number.to_string(), figures)
            }
            (Key::Missing(missing), _) => {
                let key = match missing {
                    Json::String(text) => Figure::Text(text.clone()),
                    Json::Number(number) => Figure::of(number.as_f64()),
                    other => Figure::Text(other.to_string()),
                };
                (missing.to_string(), pairs([("key", key)]))
            }
            (Key::Value(value), _) => (String::new(), of_value(value)),
            (Key::Range(_), _) => unreachable!("only ranges have their numbers"),
        }
    }
}

fn of_value(value: &Value) -> Vec<(String, Figure)> {
    match value {
        Value::Text(text) => pairs([("key", Figure::Text(text.clone()))]),
        Value::Bool(truth) => pairs([
            ("key", Figure::Integer((*truth).into())),
            ("keyAsString", Figure::Text(truth.to_string())),
        ]),
        Value::Date(micros) => pairs([
            ("key", Figure::of(value.number())),
            ("keyAsString", Figure::Text(dates::text(*micros))),
        ]),
        Value::I64(number) => pairs([("key", Figure::Integer(*number))]),
        Value::U64(number) => pairs([(
            "key",
            i64::try_from(*number).map_or_else(|_| Figure::Text(number.to_string()), Figure::Integer),
        )]),
        Value::F64(number) => pairs([("key", Figure::Number(*number))]),
    }
}

fn date_text(millis: f64) -> String {
    dates::text((millis * 1000.0) as i64)
}

impl Range {
    fn contains(&self, number: f64) -> bool {
        self.from.is_none_or(|from| number >= from) && self.to.is_none_or(|to| number < to)
    }

    fn name(&self, kind: FieldType) -> String {
        if let Some(key) = &self.key {
            return key.clone();
        }
        let end = |end: Option<f64>| match end {
            None => "*".to_owned(),
            Some(millis) if kind == FieldType::Date => date_text(millis),
            Some(number) => number.to_string(),
        };
        format!("{}-{}", end(self.from), end(self.to))
    }
}

impl Histogram {
    /// The lower bound of a number's interval.
    fn key(&self, number: f64) -> f64 {
        ((number - self.offset) / self.interval).floor() * self.interval + self.offset
    }
}

impl Terms {
    fn takes(&self, value: &Value) -> bool {
        let Value::Text(text) = value else {
            return true;
        };
        let is_in = |chosen: &Chosen| match chosen {
            Chosen::Listed(listed) => listed.contains(text),
            Chosen::Matching(automaton) => automaton.matches(text.as_bytes()),
        };
        self.include.as_ref().is_none_or(is_in) && !self.exclude.as_ref().is_some_and(is_in)
    }
}

impl Facet {
    /// Returns true if the path is below that of the aggregation and within the requested depth.
    fn shows(&self, path: &str) -> bool {
        let below = path.strip_prefix(self.path.as_str());
        below.is_some_and(|below| below.starts_with('/') && below.matches('/').count() <= self.depth)
    }

    fn tree(&self, paths: &BTreeMap<String, u64>, path: &str, depth: usize) -> Vec<(String, Figure)> {
        let start = format!("{path}/");
        let below = paths
            .range(start.clone()..)
            .take_while(|(other, _)| other.starts_with(&start));
        let children = below.filter(|(other, _)| !other[start.len()..].contains('/'));
        let mut children: Vec<(&String, u64)> = children.map(|(path, documents)| (path, *documents)).collect();
        children.retain(|(_, documents)| *documents >= self.min_documents);
        children.sort_by(|(a_path, a_documents), (b_path, b_documents)| {
            let order = match self.by_path {
                true => a_path.cmp(b_path),
                false => a_documents.cmp(b_documents),
            };
            let order = if self.ascends { order } else { order.reverse() };
            order.then_with(|| a_path.cmp(b_path))
        });
        let omitted: u64 = children.iter().skip(self.size).map(|(_, documents)| documents).sum();
        let listed = children.iter().take(self.size).map(|(child, documents)| {
            let mut figures = pairs([
                ("path", Figure::Text((*child).clone())),
                ("docCount", Figure::Integer(*documents as i64)),
            ]);
            let deeper = match depth {
                1 => pairs([("sumOtherDocCount", Figure::Integer(0))]),
                _ => self.tree(paths, child, depth - 1).split_off(1),
            };
            figures.extend(deeper);
            Figure::Map(figures)
        });
        let listed: Vec<Figure> = listed.collect();
        let mut figures = pairs([
            ("path", Figure::Text(path.to_owned())),
            ("sumOtherDocCount", Figure::Integer(omitted as i64)),
        ]);
        if !listed.is_empty() || path == self.path {
            figures.push(("children".to_owned(), Figure::List(listed)));
        }
        figures
    }
}
