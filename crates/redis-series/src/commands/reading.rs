//! Samples of a series for a query: filtered, and aggregated in buckets.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use quartet_layer_redis::module_api::{ErrorReply, Groups, Keyspace};
use smallvec::SmallVec;

use super::gatherings;
use super::requests::{Aggregation, BucketTimestamp, Query};
use super::rows::{Blocks, TimeRange};
use super::series::Series;
use crate::aggregation::{Accumulator, Aggregator};
use crate::codec::Sample;

/// Takes a row of a result, and breaks to end it.
pub type Emit<'e> = &'e mut dyn FnMut(u64, &[f64]) -> ControlFlow<()>;

/// A number of values, mostly one.
pub type Values = SmallVec<[f64; 1]>;

/// The start of the bucket with a timestamp; below zero if the alignment has it so.
pub fn bucket_start(timestamp: u64, bucket_ms: u64, alignment: u64) -> i64 {
    let distance = (timestamp as i64).wrapping_sub(alignment as i64);
    (timestamp as i64).wrapping_sub(distance.rem_euclid(bucket_ms as i64))
}

/// The start of a bucket, at least zero.
pub fn not_negative(start: i64) -> u64 {
    start.max(0) as u64
}

/// A series with the bounds of a query.
struct Reading<'r> {
    series: &'r Series,
    groups: Groups<'r>,
    query: &'r Query,
    /// The oldest timestamp that the retention keeps.
    oldest: u64,
    /// The bucket of the source that is still gathered.
    latest: Option<Sample>,
}

/// Visits the result of a query.
pub fn run(
    keys: &mut Keyspace<'_, '_>,
    groups: Groups<'_>,
    series: &Series,
    query: &Query,
    is_reverse: bool,
    emit: Emit<'_>,
) -> Result<(), ErrorReply> {
    let last = series.last(keys).map_or(0, |last| last.timestamp);
    let takes_latest = query.takes_latest && series.definition.source.is_some() && query.to > last;
    let reading = Reading {
        series,
        groups,
        query,
        oldest: series.oldest_kept(last),
        latest: if takes_latest {
            gatherings::latest(keys, series)
        } else {
            None
        },
    };
    let mut remaining = query.count.unwrap_or(u64::MAX);
    let mut counted = |timestamp: u64, values: &[f64]| {
        remaining -= 1;
        match emit(timestamp, values).is_break() || remaining == 0 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    match (&query.aggregation, is_reverse) {
        (None, _) => reading.plain(keys, is_reverse, &mut counted),
        (Some(aggregation), false) => {
            let from = query.from.max(reading.oldest);
            reading.aggregated(keys, aggregation, from, &mut counted)
        }
        (Some(aggregation), true) => reading.aggregated_backwards(keys, aggregation, &mut counted),
    }
}

/// The samples of a range that pass the filters, a block at a time.
struct Input<'r> {
    blocks: Blocks<'r>,
    query: &'r Query,
    latest: Option<Sample>,
    is_reverse: bool,
}

impl Input<'_> {
    fn passes(&self, sample: &Sample) -> bool {
        let values = self.query.values;
        let timestamps = &self.query.timestamps;
        values.is_none_or(|(least, greatest)| (least..=greatest).contains(&sample.value))
            && timestamps
                .as_ref()
                .is_none_or(|timestamps| timestamps.binary_search(&sample.timestamp).is_ok())
    }

    fn next(&mut self, keys: &mut Keyspace<'_, '_>, series: &Series) -> Result<Option<Vec<Sample>>, ErrorReply> {
        loop {
            let latest = if self.is_reverse { self.latest.take() } else { None };
            let block = match latest {
                Some(latest) => Some(vec![latest]),
                None => self.blocks.next(&mut series.rows(keys))?,
            };
            let Some(mut block) = block.or_else(|| self.latest.take().map(|latest| vec![latest])) else {
                return Ok(None);
            };
            if self.query.values.is_some() || self.query.timestamps.is_some() {
                block.retain(|sample| self.passes(sample));
            }
            if !block.is_empty() {
                return Ok(Some(block));
            }
        }
    }
}

impl<'r> Reading<'r> {
    fn input(&self, from: u64, is_reverse: bool) -> Input<'r> {
        let query = self.query;
        let from = from.max(self.oldest);
        Input {
            blocks: Blocks::new(TimeRange { from, to: query.to }, is_reverse, self.groups.workspace()),
            query,
            latest: self
                .latest
                .filter(|latest| (from..=query.to).contains(&latest.timestamp)),
            is_reverse,
        }
    }

    fn plain(&self, keys: &mut Keyspace<'_, '_>, is_reverse: bool, emit: Emit<'_>) -> Result<(), ErrorReply> {
        let mut input = self.input(self.query.from, is_reverse);
        while let Some(block) = input.next(keys, self.series)? {
            for sample in &block {
                if emit(sample.timestamp, &[sample.value]).is_break() {
                    return Ok(());
                }
            }
            if self.groups.must_end_before_block(block.len()) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The last sample before a timestamp that is a number.
    fn before(&self, keys: &mut Keyspace<'_, '_>, timestamp: u64) -> Result<Option<Sample>, ErrorReply> {
        match timestamp.checked_sub(1) {
            Some(to) => {
                let from = self.oldest;
                self.nearest(keys, TimeRange { from, to }, true)
            }
            None => Ok(None),
        }
    }

    /// The first sample from a timestamp on that is a number.
    fn after(&self, keys: &mut Keyspace<'_, '_>, timestamp: u64) -> Result<Option<Sample>, ErrorReply> {
        let (from, to) = (timestamp.max(self.oldest), u64::MAX);
        self.nearest(keys, TimeRange { from, to }, false)
    }

    fn nearest(
        &self,
        keys: &mut Keyspace<'_, '_>,
        range: TimeRange,
        is_reverse: bool,
    ) -> Result<Option<Sample>, ErrorReply> {
        let mut blocks = Blocks::new(range, is_reverse, self.groups.workspace());
        while let Some(block) = blocks.next(&mut self.series.rows(keys))? {
            if let Some(sample) = block.iter().find(|sample| !sample.value.is_nan()) {
                return Ok(Some(*sample));
            }
        }
        Ok(None)
    }

    fn aggregated(
        &self,
        keys: &mut Keyspace<'_, '_>,
        aggregation: &Aggregation,
        from: u64,
        emit: Emit<'_>,
    ) -> Result<(), ErrorReply> {
        let mut buckets = Buckets::new(self, aggregation, from);
        let mut input = self.input(from, false);
        while let Some(block) = input.next(keys, self.series)? {
            for sample in &block {
                if buckets.add(keys, *sample, emit)?.is_break() {
                    return Ok(());
                }
            }
            if self.groups.must_end_before_block(block.len()) {
                return Ok(());
            }
        }
        buckets.finish(keys, emit)
    }

    /// Aggregates the last buckets, and doubles their number until there are enough results.
    fn aggregated_backwards(
        &self,
        keys: &mut Keyspace<'_, '_>,
        aggregation: &Aggregation,
        emit: Emit<'_>,
    ) -> Result<(), ErrorReply> {
        let query = self.query;
        let first = query.from.max(self.oldest);
        let count_max = query.count.unwrap_or(u64::MAX);
        let newest = match query.count {
            Some(_) => self.input(query.from, true).next(keys, self.series)?,
            None => None,
        };
        let newest = newest.and_then(|block| block.first().copied());
        let mut width = count_max.saturating_mul(aggregation.bucket_ms);
        loop {
            let from = newest.map_or(first, |newest| {
                let start = bucket_start(newest.timestamp, aggregation.bucket_ms, aggregation.alignment);
                let back = i128::from(width - aggregation.bucket_ms.min(width));
                ((i128::from(start) - back).max(0) as u64).max(first)
            });
            let mut results: VecDeque<(u64, Values)> = VecDeque::new();
            let mut workspace = self.groups.workspace();
            let mut refused = None;
            self.aggregated(keys, aggregation, from, &mut |timestamp, values| {
                if results.len() as u64 == count_max {
                    results.pop_front();
                } else if let Err(error) = workspace.take(size_of::<(u64, Values)>() + values.len() * 8) {
                    refused = Some(error);
                    return ControlFlow::Break(());
                }
                results.push_back((timestamp, Values::from_slice(values)));
                ControlFlow::Continue(())
            })?;
            if let Some(error) = refused {
                return Err(error);
            }
            if results.len() as u64 >= count_max || from <= first {
                for (timestamp, values) in results.iter().rev() {
                    if emit(*timestamp, values).is_break() {
                        break;
                    }
                }
                return Ok(());
            }
            width = width.saturating_mul(2);
        }
    }
}

/// Buckets that are gathered in the order of their times.
struct Buckets<'r, 'a> {
    reading: &'a Reading<'r>,
    aggregation: &'a Aggregation,
    accumulators: SmallVec<[Accumulator; 2]>,
    /// The first timestamp that is read.
    from: u64,
    /// The start of the present bucket, and its end, not included.
    bucket: Option<(i64, u64)>,
    is_over_time: bool,
}

impl<'r, 'a> Buckets<'r, 'a> {
    fn new(reading: &'a Reading<'r>, aggregation: &'a Aggregation, from: u64) -> Buckets<'r, 'a> {
        let aggregators = aggregation.aggregators.iter();
        Buckets {
            reading,
            aggregation,
            accumulators: aggregators.map(|aggregator| Accumulator::new(*aggregator)).collect(),
            from: from.max(reading.query.from),
            bucket: None,
            is_over_time: aggregation.aggregators.contains(&Aggregator::OverTime),
        }
    }

    fn start_of(&self, timestamp: u64) -> i64 {
        bucket_start(timestamp, self.aggregation.bucket_ms, self.aggregation.alignment)
    }

    fn label(&self, start: u64) -> u64 {
        let bucket_ms = self.aggregation.bucket_ms;
        match self.aggregation.timestamp {
            BucketTimestamp::Start => start,
            BucketTimestamp::Middle => start.wrapping_add(bucket_ms / 2),
            BucketTimestamp::End => start.wrapping_add(bucket_ms),
        }
    }

    /// The part of a bucket that is in the query's range.
    fn clipped(&self, start: u64, end: u64) -> (u64, u64) {
        let query = self.reading.query;
        (start.max(query.from), end.min(query.to))
    }

    fn fills_ends(&self) -> bool {
        self.aggregation.fills_empty && self.is_over_time
    }

    fn add(
        &mut self,
        keys: &mut Keyspace<'_, '_>,
        sample: Sample,
        emit: Emit<'_>,
    ) -> Result<ControlFlow<()>, ErrorReply> {
        match self.bucket {
            Some((_, end)) if sample.timestamp < end => {}
            Some((_, end)) => {
                let next = Some(sample).filter(|sample| !sample.value.is_nan());
                if self.emit_bucket(keys, next, emit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                let lasts: SmallVec<[Option<Sample>; 2]> =
                    self.accumulators.iter().map(Accumulator::last_sample).collect();
                self.accumulators.iter_mut().for_each(Accumulator::reset);
                let start = self.start_of(sample.timestamp);
                if self.aggregation.fills_empty && self.fill(keys, end, not_negative(start), emit)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                self.open(start);
                for (accumulator, last) in self.accumulators.iter_mut().zip(lasts) {
                    last.iter().for_each(|last| accumulator.add_previous(*last));
                }
            }
            None => {
                let start = self.start_of(sample.timestamp);
                if self.fills_ends() {
                    let first = not_negative(self.start_of(self.from));
                    if self.fill_end(keys, first, not_negative(start), emit)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                self.open(start);
                if self.is_over_time
                    && let Some(previous) = self.reading.before(keys, sample.timestamp)?
                {
                    let accumulators = self.accumulators.iter_mut();
                    accumulators.for_each(|accumulator| accumulator.add_previous(previous));
                }
            }
        }
        self.accumulators
            .iter_mut()
            .for_each(|accumulator| accumulator.add(sample));
        Ok(ControlFlow::Continue(()))
    }

    fn open(&mut self, start: i64) {
        let end = start.wrapping_add(self.aggregation.bucket_ms as i64) as u64;
        self.bucket = Some((start, end));
        let (from, to) = self.clipped(not_negative(start), end);
        let accumulators = self.accumulators.iter_mut();
        accumulators.for_each(|accumulator| accumulator.set_bucket(from, to));
    }

    /// Emits the present bucket, unless it has no values and empty buckets are left out.
    fn emit_bucket(
        &mut self,
        keys: &mut Keyspace<'_, '_>,
        next: Option<Sample>,
        emit: Emit<'_>,
    ) -> Result<ControlFlow<()>, ErrorReply> {
        let Some((start, end)) = self.bucket else {
            return Ok(ControlFlow::Continue(()));
        };
        let start = not_negative(start);
        let is_empty = self.accumulators.iter().all(|accumulator| accumulator.is_empty);
        if is_empty && !self.aggregation.fills_empty {
            return Ok(ControlFlow::Continue(()));
        }
        if let Some(next) = next {
            let full = self.accumulators.iter_mut().filter(|accumulator| !accumulator.is_empty);
            full.for_each(|accumulator| accumulator.add_next(next));
        }
        let is_line =
            |accumulator: &Accumulator| accumulator.is_empty && accumulator.aggregator == Aggregator::OverTime;
        let around = match self.accumulators.iter().any(is_line) {
            true => self.around(keys, start, end)?,
            false => None,
        };
        let accumulators = self.accumulators.iter();
        let values: Values = accumulators
            .map(|accumulator| match accumulator.is_empty {
                false => accumulator.result(),
                true if is_line(accumulator) => self.on_line(around, start),
                true => accumulator.result_of_none(),
            })
            .collect();
        Ok(emit(self.label(start), &values))
    }

    /// The samples on both sides of an empty bucket.
    fn around(
        &self,
        keys: &mut Keyspace<'_, '_>,
        start: u64,
        end: u64,
    ) -> Result<Option<(Sample, Sample)>, ErrorReply> {
        let (from, _) = self.clipped(start, end);
        let before = self.reading.before(keys, from)?;
        let after = self.reading.after(keys, from)?;
        Ok(before.zip(after))
    }

    /// The average over time of an empty bucket, between two samples.
    fn on_line(&self, around: Option<(Sample, Sample)>, start: u64) -> f64 {
        let Some((before, after)) = around else {
            return f64::NAN;
        };
        let (from, to) = self.clipped(start, start.wrapping_add(self.aggregation.bucket_ms));
        let width = after.timestamp.wrapping_sub(before.timestamp) as f64;
        let at = |timestamp: u64| {
            let part = timestamp.wrapping_sub(before.timestamp) as f64;
            before.value + part * (after.value - before.value) / width
        };
        (at(from) + at(to)) / 2.0
    }

    /// Emits the empty buckets from `first` up to `end`, not included.
    fn fill(
        &mut self,
        keys: &mut Keyspace<'_, '_>,
        first: u64,
        end: u64,
        emit: Emit<'_>,
    ) -> Result<ControlFlow<()>, ErrorReply> {
        let bucket_ms = self.aggregation.bucket_ms;
        if first >= end {
            return Ok(ControlFlow::Continue(()));
        }
        let around = match self.is_over_time {
            true => self.around(keys, first, first.wrapping_add(bucket_ms))?,
            false => None,
        };
        let mut start = first;
        while start < end {
            let values: Values = self
                .accumulators
                .iter()
                .map(|accumulator| match accumulator.aggregator {
                    Aggregator::OverTime => self.on_line(around, start),
                    _ => accumulator.result_of_none(),
                })
                .collect();
            if emit(self.label(start), &values).is_break() || self.reading.groups.is_refused_memory() {
                return Ok(ControlFlow::Break(()));
            }
            start = start.saturating_add(bucket_ms);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The same before the first sample or after the last, if there are samples on both sides.
    fn fill_end(
        &mut self,
        keys: &mut Keyspace<'_, '_>,
        first: u64,
        end: u64,
        emit: Emit<'_>,
    ) -> Result<ControlFlow<()>, ErrorReply> {
        let is_between = first < end
            && self
                .around(keys, first, first.wrapping_add(self.aggregation.bucket_ms))?
                .is_some();
        match is_between {
            true => self.fill(keys, first, end, emit),
            false => Ok(ControlFlow::Continue(())),
        }
    }

    /// Emits the last bucket.
    fn finish(&mut self, keys: &mut Keyspace<'_, '_>, emit: Emit<'_>) -> Result<(), ErrorReply> {
        let last = not_negative(self.start_of(self.reading.query.to));
        let Some((_, end)) = self.bucket else {
            if self.fills_ends() {
                let first = not_negative(self.start_of(self.from));
                let _ended = self.fill_end(keys, first, last.saturating_add(1), emit)?;
            }
            return Ok(());
        };
        let last_sample = self.accumulators.iter().find_map(Accumulator::last_sample);
        let next = match last_sample {
            Some(last) if self.is_over_time => self.reading.after(keys, last.timestamp.saturating_add(1))?,
            _ => None,
        };
        if self.emit_bucket(keys, next, emit)?.is_continue() && self.fills_ends() {
            self.accumulators.iter_mut().for_each(Accumulator::reset);
            let _ended = self.fill_end(keys, end, last.saturating_add(1), emit)?;
        }
        Ok(())
    }
}

/// Gathers the samples of a range as the bucket of a rule.
pub fn gathered(
    keys: &mut Keyspace<'_, '_>,
    groups: Groups<'_>,
    series: &Series,
    aggregator: Aggregator,
    TimeRange { from, to }: TimeRange,
) -> Result<Accumulator, ErrorReply> {
    let last = series.last(keys).map_or(0, |last| last.timestamp);
    let query = Query {
        from,
        to,
        takes_latest: false,
        count: None,
        aggregation: None,
        values: None,
        timestamps: None,
    };
    let reading = Reading {
        series,
        groups,
        query: &query,
        oldest: series.oldest_kept(last),
        latest: None,
    };
    let mut accumulator = Accumulator::new(aggregator);
    let is_over_time = aggregator == Aggregator::OverTime;
    accumulator.set_bucket(from, to.wrapping_add(1));
    if is_over_time && let Some(previous) = reading.before(keys, from)? {
        accumulator.add_previous(previous);
    }
    let mut input = reading.input(from, false);
    while let Some(block) = input.next(keys, series)? {
        block.iter().for_each(|sample| accumulator.add(*sample));
    }
    if is_over_time
        && !accumulator.is_empty
        && let Some(end) = to.checked_add(1)
        && let Some(next) = reading.after(keys, end)?
    {
        accumulator.add_next(next);
    }
    Ok(accumulator)
}

/// A part of the work of a command that may take long.
trait Steps {
    /// Counts samples. Returns true if the command must end here.
    fn must_end_before_block(self, samples: usize) -> bool;
}

impl Steps for Groups<'_> {
    fn must_end_before_block(self, samples: usize) -> bool {
        samples > 0 && self.must_end(self.engine().now_micros()) || self.is_refused_memory()
    }
}
