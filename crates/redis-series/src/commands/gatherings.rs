//! The buckets that rules still gather, and the series at both ends of a rule.

use quartet_layer_redis::module_api::Keyspace;

use super::definition::Rule;
use super::series::Series;
use crate::aggregation::Accumulator;
use crate::codec::Sample;

const TAG: u8 = b'r';
/// The start of the bucket of a rule that has had no sample.
const NO_BUCKET: u64 = u64::MAX;

/// A rule's bucket.
#[derive(Clone, Copy)]
pub struct Gathering {
    pub start: Option<u64>,
    pub accumulator: Accumulator,
}

impl Gathering {
    pub fn new(rule: &Rule) -> Gathering {
        Gathering {
            start: None,
            accumulator: Accumulator::new(rule.aggregator),
        }
    }

    fn from_bytes(rule: &Rule, bytes: &[u8]) -> Option<Gathering> {
        let (start, state) = bytes.split_first_chunk()?;
        let start = u64::from_le_bytes(*start);
        Some(Gathering {
            start: Some(start).filter(|start| *start != NO_BUCKET),
            accumulator: Accumulator::from_bytes(rule.aggregator, state).ok()?,
        })
    }
}

fn row_name(rule: &Rule) -> Vec<u8> {
    [&[TAG], rule.destination.as_slice()].concat()
}

/// Returns true if a row could be that of one of these rules.
pub fn is_sound_row(rules: &[Rule], name: &[u8], value: &[u8]) -> bool {
    let rule = rules.iter().find(|rule| row_name(rule) == name);
    rule.is_none_or(|rule| Gathering::from_bytes(rule, value).is_some()) && name.first() == Some(&TAG)
}

/// The bucket of a rule.
pub fn gathering(keys: &mut Keyspace<'_, '_>, series: &Series, rule: &Rule) -> Gathering {
    let row = series.elements().get(keys.tx, &row_name(rule));
    match row {
        Some(row) => Gathering::from_bytes(rule, row.value()).expect("the bucket of a rule"),
        None => Gathering::new(rule),
    }
}

pub fn put_gathering(keys: &mut Keyspace<'_, '_>, series: &Series, rule: &Rule, gathering: &Gathering) {
    let start = gathering.start.unwrap_or(NO_BUCKET).to_le_bytes();
    let bytes = [start.as_slice(), &gathering.accumulator.to_bytes()].concat();
    series.elements().set(keys.tx, &row_name(rule), &bytes);
}

/// Removes what belongs to a rule beside the definitions.
pub fn clear_gathering(keys: &mut Keyspace<'_, '_>, series: &Series, rule: &Rule) {
    series.elements().clear(keys.tx, &row_name(rule));
}

/// The series that a rule leads to, if that refers back.
pub fn destination(keys: &mut Keyspace<'_, '_>, series: &Series, rule: &Rule) -> Option<Series> {
    let destination = Series::by_id(keys, &rule.destination)?;
    let refers_back = destination.definition.source == Some(series.id());
    refers_back.then_some(destination)
}

/// The source of a compaction, if that has a rule for it.
pub fn source(keys: &mut Keyspace<'_, '_>, series: &Series) -> Option<(Series, Rule)> {
    let source = Series::by_id(keys, &series.definition.source?)?;
    let id = series.id();
    let rule = source
        .definition
        .rules
        .iter()
        .find(|rule| rule.destination == id)
        .copied();
    rule.map(|rule| (source, rule))
}

/// The bucket of the source that is still gathered, as a sample.
pub fn latest(keys: &mut Keyspace<'_, '_>, series: &Series) -> Option<Sample> {
    let (source, rule) = source(keys, series)?;
    source.last(keys)?;
    let gathering = gathering(keys, &source, &rule);
    (!gathering.accumulator.is_empty).then_some(Sample {
        timestamp: gathering.start?,
        value: gathering.accumulator.result(),
    })
}
