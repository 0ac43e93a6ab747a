//! References of series that were loaded from a file: they name keys that may be loaded later.
//!
//! ```text
//! 'E' id 'p'    name of the source, or nothing | rules: name of the destination, aggregator (1),
//!               bucket (8), alignment (8), start (8), gathered state; texts with their length (4)
//! ```
//!
//! They wait in a row until the other series is there and waits for this series; then both get the
//! other's id.

use quartet_layer_redis::module_api::Keyspace;

use super::definition::Rule;
use super::gatherings::{Gathering, put_gathering};
use super::series::Series;
use crate::aggregation::{Accumulator, Aggregator};
use crate::{Malformed, Numbers};

const NAME: &[u8] = b"p";
const NO_BUCKET: u64 = u64::MAX;

/// A rule with the name of its destination.
#[derive(Clone)]
pub struct NamedRule {
    pub destination: Vec<u8>,
    /// Without the destination's id.
    pub rule: Rule,
    pub gathering: Gathering,
}

/// The references of a series.
#[derive(Clone, Default)]
pub struct References {
    pub source: Option<Vec<u8>>,
    pub rules: Vec<NamedRule>,
}

fn push_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u32).to_le_bytes());
    out.extend_from_slice(text);
}

fn text<'b>(numbers: &mut Numbers<'b>) -> Result<&'b [u8], Malformed> {
    let length = numbers.u32()? as usize;
    let (text, rest) = numbers.0.split_at_checked(length).ok_or(Malformed)?;
    numbers.0 = rest;
    Ok(text)
}

impl References {
    fn is_empty(&self) -> bool {
        self.source.is_none() && self.rules.is_empty()
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push_text(self.source.as_deref().unwrap_or_default(), &mut bytes);
        for NamedRule {
            destination,
            rule,
            gathering,
        } in &self.rules
        {
            push_text(destination, &mut bytes);
            bytes.push(rule.aggregator as u8);
            for number in [rule.bucket_ms, rule.alignment, gathering.start.unwrap_or(NO_BUCKET)] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            push_text(&gathering.accumulator.to_bytes(), &mut bytes);
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<References, Malformed> {
        let mut numbers = Numbers(bytes);
        let source = text(&mut numbers)?.to_vec();
        let mut rules = Vec::new();
        while numbers.end().is_err() {
            let destination = text(&mut numbers)?.to_vec();
            let aggregator = Aggregator::numbered(numbers.u8()?.into()).ok_or(Malformed)?;
            let (bucket_ms, alignment, start) = (numbers.u64()?, numbers.u64()?, numbers.u64()?);
            let accumulator = Accumulator::from_bytes(aggregator, text(&mut numbers)?)?;
            rules.push(NamedRule {
                destination,
                rule: Rule {
                    destination: Default::default(),
                    aggregator,
                    bucket_ms,
                    alignment,
                },
                gathering: Gathering {
                    start: Some(start).filter(|start| *start != NO_BUCKET),
                    accumulator,
                },
            });
        }
        Ok(References {
            source: Some(source).filter(|source| !source.is_empty()),
            rules,
        })
    }

    fn of(keys: &mut Keyspace<'_, '_>, series: &Series) -> References {
        let row = series.elements().get(keys.tx, NAME);
        let read = row.map(|row| References::from_bytes(row.value()).expect("references of a series"));
        read.unwrap_or_default()
    }

    fn put(&self, keys: &mut Keyspace<'_, '_>, series: &Series) {
        match self.is_empty() {
            true => drop(series.elements().clear(keys.tx, NAME)),
            false => drop(series.elements().set(keys.tx, NAME, &self.to_bytes())),
        }
    }
}

/// Returns true if the row could be one of references.
pub fn is_sound_row(name: &[u8], value: &[u8]) -> bool {
    name == NAME && References::from_bytes(value).is_ok()
}

fn named(keys: &mut Keyspace<'_, '_>, name: &[u8]) -> Option<Series> {
    let entry = keys.find(name)?;
    Series::of_entry(name, entry)
}

/// Links a series that was just loaded with the series that wait for it.
pub fn link(keys: &mut Keyspace<'_, '_>, series: &mut Series, references: References) {
    references.put(keys, series);
    for rule in &references.rules {
        if let Some(mut destination) = named(keys, &rule.destination) {
            link_pair(keys, series, &mut destination);
        }
    }
    if let Some(mut source) = references.source.and_then(|source| named(keys, &source)) {
        link_pair(keys, &mut source, series);
    }
}

/// Links two series if each waits for the other.
fn link_pair(keys: &mut Keyspace<'_, '_>, source: &mut Series, destination: &mut Series) {
    let mut of_source = References::of(keys, source);
    let mut of_destination = References::of(keys, destination);
    let at = of_source
        .rules
        .iter()
        .position(|rule| rule.destination == destination.name);
    let (Some(at), true) = (at, of_destination.source.as_ref() == Some(&source.name)) else {
        return;
    };
    let NamedRule { rule, gathering, .. } = of_source.rules.remove(at);
    let rule = Rule {
        destination: destination.id(),
        ..rule
    };
    of_destination.source = None;
    of_source.put(keys, source);
    of_destination.put(keys, destination);
    destination.definition.source = Some(source.id());
    destination.put(keys);
    source.definition.rules.push(rule);
    source.put(keys);
    put_gathering(keys, source, &rule, &gathering);
}
