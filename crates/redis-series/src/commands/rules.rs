//! Compactions: each bucket of a series, gathered to a number, is a sample of another series.
//!
//! A bucket is written when a sample after it arrives, in the transaction of that sample. Samples
//! that are inserted or removed later change the destinations at once. A rule counts only if its
//! destination refers back, so that a key that was removed, replaced or copied has none.

use quartet_layer_redis::module_api::{ErrorReply, Groups, Keyspace};

use super::definition::{DuplicatePolicy, Rule};
use super::gatherings::{Gathering, clear_gathering, destination, gathering, put_gathering, source};
use super::reading::{bucket_start, gathered, not_negative};
use super::rows::TimeRange;
use super::series::{self, Added, Series};
use crate::aggregation::Accumulator;
use crate::codec::Sample;

/// A rule, and the series that has it.
#[derive(Clone, Copy)]
struct Compaction<'r> {
    source: &'r Series,
    rule: &'r Rule,
}

/// Drops references to removed series. Returns true if there were any.
pub fn prune(keys: &mut Keyspace<'_, '_>, series: &mut Series) -> bool {
    let before = series.definition.clone();
    if before.source.is_some() && source(keys, series).is_none() {
        series.definition.source = None;
    }
    for rule in &before.rules {
        if destination(keys, series, rule).is_none() {
            clear_gathering(keys, series, rule);
            series.definition.rules.retain(|other_rule| other_rule != rule);
        }
    }
    let is_changed = series.definition != before;
    if is_changed {
        series.put(keys);
    }
    is_changed
}

/// Adds a sample, to the compactions too.
pub fn add(
    keys: &mut Keyspace<'_, '_>,
    groups: Groups<'_>,
    series: &mut Series,
    sample: Sample,
    policy: Option<DuplicatePolicy>,
) -> Result<Added, ErrorReply> {
    let (added, last) = series::add(keys, series, sample, policy)?;
    if matches!(added, Added::Ignored(_)) {
        return Ok(added);
    }
    if !series.definition.rules.is_empty() {
        prune(keys, series);
        for rule in series.definition.rules.clone() {
            match last {
                Some(last) if sample.timestamp <= last.timestamp => {
                    let (source, rule) = (&*series, &rule);
                    let compaction = Compaction { source, rule };
                    inserted(keys, groups, compaction, sample.timestamp, last.timestamp)?;
                }
                _ => appended(keys, series, &rule, sample),
            }
        }
    }
    Ok(added)
}

fn start_of(rule: &Rule, timestamp: u64) -> i64 {
    bucket_start(timestamp, rule.bucket_ms, rule.alignment)
}

fn end_of(rule: &Rule, start: i64) -> u64 {
    start.wrapping_add(rule.bucket_ms as i64) as u64
}

/// Writes a sample of a destination.
fn put(keys: &mut Keyspace<'_, '_>, destination: &Series, timestamp: u64, value: f64) {
    let sample = Sample { timestamp, value };
    // A sample that is older than the destination's retention is left out.
    if series::add(keys, destination, sample, Some(DuplicatePolicy::Last)).is_ok() {
        keys.touch(&destination.name);
    }
}

fn appended(keys: &mut Keyspace<'_, '_>, series: &Series, rule: &Rule, sample: Sample) {
    let mut gathering = gathering(keys, series, rule);
    let start = start_of(rule, sample.timestamp);
    let bucket = (not_negative(start), end_of(rule, start));
    let accumulator = &mut gathering.accumulator;
    let present = *gathering.start.get_or_insert_with(|| {
        accumulator.set_bucket(bucket.0, bucket.1);
        bucket.0
    });
    if bucket.0 > present {
        let last = accumulator.last_sample();
        if !accumulator.is_empty {
            if !sample.value.is_nan() {
                accumulator.add_next(sample);
            }
            let value = accumulator.result();
            if let Some(destination) = destination(keys, series, rule) {
                put(keys, &destination, present, value);
            }
        }
        *accumulator = Accumulator::new(rule.aggregator);
        accumulator.set_bucket(bucket.0, bucket.1);
        last.iter().for_each(|last| accumulator.add_previous(*last));
        gathering.start = Some(bucket.0);
    }
    gathering.accumulator.add(sample);
    put_gathering(keys, series, rule, &gathering);
}

/// Gathers a bucket again.
fn bucket(
    keys: &mut Keyspace<'_, '_>,
    groups: Groups<'_>,
    Compaction { source, rule }: Compaction<'_>,
    start: i64,
) -> Result<Accumulator, ErrorReply> {
    let range = TimeRange {
        from: not_negative(start),
        to: end_of(rule, start).wrapping_sub(1),
    };
    gathered(keys, groups, source, rule.aggregator, range)
}

fn inserted(
    keys: &mut Keyspace<'_, '_>,
    groups: Groups<'_>,
    compaction: Compaction<'_>,
    timestamp: u64,
    last_timestamp: u64,
) -> Result<(), ErrorReply> {
    let Compaction { source, rule } = compaction;
    let present = start_of(rule, last_timestamp);
    if timestamp >= not_negative(present) {
        let accumulator = bucket(keys, groups, compaction, present)?;
        let mut gathering = gathering(keys, source, rule);
        gathering.accumulator = accumulator;
        put_gathering(keys, source, rule, &gathering);
        return Ok(());
    }
    let start = start_of(rule, timestamp);
    let accumulator = bucket(keys, groups, compaction, start)?;
    if let Some(destination) = destination(keys, source, rule)
        && !accumulator.is_empty
    {
        put(keys, &destination, not_negative(start), accumulator.result());
    }
    Ok(())
}

/// Brings the compactions up to the removal of a range. `last_timestamp` was the last before.
pub fn deleted(
    keys: &mut Keyspace<'_, '_>,
    groups: Groups<'_>,
    series: &mut Series,
    range: TimeRange,
    last_timestamp: u64,
) -> Result<(), ErrorReply> {
    prune(keys, series);
    for rule in series.definition.rules.clone() {
        let Some(destination) = destination(keys, series, &rule) else {
            continue;
        };
        let (source, rule) = (&*series, &rule);
        let compaction = Compaction { source, rule };
        deleted_of(keys, groups, compaction, &destination, range, last_timestamp)?;
        keys.touch(&destination.name);
    }
    Ok(())
}

fn deleted_of(
    keys: &mut Keyspace<'_, '_>,
    groups: Groups<'_>,
    compaction: Compaction<'_>,
    destination: &Series,
    TimeRange { from, to }: TimeRange,
    last_timestamp: u64,
) -> Result<(), ErrorReply> {
    let Compaction { source, rule } = compaction;
    let present = start_of(rule, last_timestamp);
    let mut state = gathering(keys, source, rule);
    let touches_present = to >= not_negative(present);
    if from < not_negative(present) {
        let first = start_of(rule, from);
        let mut gone_from = not_negative(first);
        let accumulator = bucket(keys, groups, compaction, first)?;
        if !accumulator.is_empty {
            put(keys, destination, gone_from, accumulator.result());
            gone_from = end_of(rule, first);
        }
        let last = start_of(rule, to.min(last_timestamp));
        let mut gone_to = not_negative(last);
        let accumulator = match touches_present {
            true => None,
            false => Some(bucket(keys, groups, compaction, last)?),
        };
        if accumulator.is_none_or(|accumulator| !accumulator.is_empty) {
            if let Some(accumulator) = accumulator {
                put(keys, destination, gone_to, accumulator.result());
            }
            gone_to = not_negative(last.wrapping_sub(rule.bucket_ms as i64));
        }
        if gone_from <= gone_to {
            let removed = TimeRange {
                from: gone_from,
                to: gone_to,
            };
            series::delete(keys, destination, removed, groups.workspace())?;
        }
    }
    if touches_present {
        state.accumulator = bucket(keys, groups, compaction, present)?;
        if state.accumulator.is_empty {
            state = step_back(keys, groups, compaction, destination, last_timestamp)?;
        }
        put_gathering(keys, source, rule, &state);
    }
    Ok(())
}

/// The last bucket of a series was removed: the bucket before is gathered again, and is no sample
/// of the destination any more.
fn step_back(
    keys: &mut Keyspace<'_, '_>,
    groups: Groups<'_>,
    compaction: Compaction<'_>,
    destination: &Series,
    last_timestamp: u64,
) -> Result<Gathering, ErrorReply> {
    let last = destination.last(keys).filter(|last| last.timestamp < last_timestamp);
    let start = last.map_or(0, |last| last.timestamp);
    if last.is_some() {
        let removed = TimeRange { from: start, to: start };
        series::delete(keys, destination, removed, groups.workspace())?;
    }
    let start = start_of(compaction.rule, start);
    let accumulator = bucket(keys, groups, compaction, start)?;
    Ok(Gathering {
        start: (!accumulator.is_empty).then(|| not_negative(start)),
        accumulator,
    })
}
