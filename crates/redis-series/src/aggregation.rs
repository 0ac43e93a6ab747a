//! Aggregators: one number of the samples of a bucket, gathered a sample at a time.
//!
//! Sums, variances and averages over time are computed as RedisTimeSeries computes them, so that
//! the results agree to the last digit.

use smallvec::SmallVec;

use crate::Malformed;
use crate::codec::Sample;

/// A function of the values of a bucket. The numbers are those of RedisTimeSeries' dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregator {
    /// The least value.
    Minimum = 1,
    /// The greatest value.
    Maximum,
    /// The sum.
    Sum,
    /// The mean.
    Average,
    /// The number of values that are not NaN.
    Count,
    /// The value of the first sample.
    First,
    /// The value of the last sample.
    Last,
    /// The greatest value less the least.
    Range,
    /// The standard deviation of a population.
    DeviationOfAll,
    /// The standard deviation estimated from a sample.
    DeviationOfSome,
    /// The variance of a population.
    VarianceOfAll,
    /// The variance estimated from a sample.
    VarianceOfSome,
    /// The average of the lines between the samples, over time.
    OverTime,
    /// The number of values that are NaN.
    CountNan,
    /// The number of values.
    CountAll,
}

use Aggregator::*;

const NAMES: [(Aggregator, &str); 15] = [
    (Minimum, "min"),
    (Maximum, "max"),
    (Sum, "sum"),
    (Average, "avg"),
    (Count, "count"),
    (First, "first"),
    (Last, "last"),
    (Range, "range"),
    (DeviationOfAll, "std.p"),
    (DeviationOfSome, "std.s"),
    (VarianceOfAll, "var.p"),
    (VarianceOfSome, "var.s"),
    (OverTime, "twa"),
    (CountNan, "countnan"),
    (CountAll, "countall"),
];

/// Aggregators that there are.
pub const AGGREGATORS: usize = NAMES.len();

impl Aggregator {
    /// The aggregator with this name, in letters of any case.
    pub fn named(name: &[u8]) -> Option<Aggregator> {
        let mut names = NAMES.iter();
        let named = names.find(|(_, aggregator_name)| name.eq_ignore_ascii_case(aggregator_name.as_bytes()));
        named.map(|(aggregator, _)| *aggregator)
    }

    /// The aggregator with this number.
    pub fn numbered(number: u64) -> Option<Aggregator> {
        let mut aggregators = NAMES.iter().map(|(aggregator, _)| *aggregator);
        aggregators.find(|aggregator| *aggregator as u64 == number)
    }

    /// The name, in lower case.
    pub fn name(self) -> &'static str {
        NAMES[self as usize - 1].1
    }

    /// Returns true if the aggregator takes this value into account.
    pub fn takes(self, value: f64) -> bool {
        match self {
            CountAll => true,
            CountNan => value.is_nan(),
            _ => !value.is_nan(),
        }
    }
}

/// The average over time of a bucket, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct OverTimeState {
    area: f64,
    last: Sample,
    bucket: (u64, u64),
    start: u64,
    end: u64,
    has_previous: bool,
    count: u64,
}

impl OverTimeState {
    fn add(&mut self, sample: Sample) {
        let (from, to) = (self.last, sample);
        if self.count > 0 {
            self.area += (from.value + to.value) * (to.timestamp.wrapping_sub(from.timestamp)) as f64 / 2.0;
        } else if self.has_previous {
            self.start = self.bucket.0;
            let at_start = between(from, to, self.bucket.0);
            self.area += (at_start + to.value) * (to.timestamp.wrapping_sub(self.bucket.0)) as f64 / 2.0;
        } else {
            self.start = sample.timestamp;
        }
        self.end = sample.timestamp;
        self.last = sample;
        self.count = self.count.saturating_add(1);
    }

    fn add_next(&mut self, sample: Sample) {
        let at_end = between(self.last, sample, self.bucket.1);
        let width = self.bucket.1.wrapping_sub(self.last.timestamp) as f64;
        self.area += (at_end + self.last.value) * width / 2.0;
        self.end = self.bucket.1;
    }

    fn result(&self) -> f64 {
        match self.end.wrapping_sub(self.start) as i64 {
            0 => self.last.value,
            width => self.area / width.unsigned_abs() as f64,
        }
    }
}

/// The value at a time on the line through two samples.
fn between(from: Sample, to: Sample, timestamp: u64) -> f64 {
    let width = to.timestamp.wrapping_sub(from.timestamp) as f64;
    let part = timestamp.wrapping_sub(from.timestamp) as f64;
    from.value + part * (to.value - from.value) / width
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Extremes { least: f64, greatest: f64 },
    Single(f64),
    Average { sum: f64, count: f64, is_mean: bool },
    Deviation { sum: f64, squares: f64, count: u64 },
    OverTime(OverTimeState),
}

/// A part of a stored state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// A double.
    Double(f64),
    /// A number without a sign.
    Number(u64),
}

type NextFigure<'n> = &'n mut dyn FnMut() -> Option<Figure>;

fn double(next: NextFigure<'_>) -> Result<f64, Malformed> {
    match next() {
        Some(Figure::Double(double)) => Ok(double),
        _ => Err(Malformed),
    }
}

fn number(next: NextFigure<'_>) -> Result<u64, Malformed> {
    match next() {
        Some(Figure::Number(number)) => Ok(number),
        _ => Err(Malformed),
    }
}

/// A bucket that is gathered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accumulator {
    /// The function of the values.
    pub aggregator: Aggregator,
    state: State,
    /// It has no value yet.
    pub is_empty: bool,
}

impl Accumulator {
    /// An empty bucket.
    pub fn new(aggregator: Aggregator) -> Accumulator {
        let state = match aggregator {
            Minimum | Maximum | Range => State::Extremes {
                least: f64::MAX,
                greatest: f64::MIN,
            },
            Sum | Count | CountNan | CountAll | First => State::Single(0.0),
            Last => State::Single(f64::NAN),
            Average => State::Average {
                sum: 0.0,
                count: 0.0,
                is_mean: false,
            },
            DeviationOfAll | DeviationOfSome | VarianceOfAll | VarianceOfSome => State::Deviation {
                sum: 0.0,
                squares: 0.0,
                count: 0,
            },
            OverTime => State::OverTime(OverTimeState::default()),
        };
        Accumulator {
            aggregator,
            state,
            is_empty: true,
        }
    }

    /// Adds the next sample, unless the aggregator takes no such values.
    pub fn add(&mut self, sample: Sample) {
        let value = sample.value;
        if !self.aggregator.takes(value) {
            return;
        }
        match &mut self.state {
            State::Extremes { least, greatest } => {
                *least = if value < *least { value } else { *least };
                *greatest = if value > *greatest { value } else { *greatest };
            }
            State::Single(result) => match self.aggregator {
                Sum => *result += value,
                First if !self.is_empty => {}
                First | Last => *result = value,
                _ => *result += 1.0,
            },
            State::Average { sum, count, is_mean } => {
                *count += 1.0;
                let overflows = (*sum < 0.0) == (value < 0.0) && sum.abs() > f64::MAX - value.abs();
                if *is_mean || overflows {
                    let before = if *is_mean { *count - 1.0 } else { 1.0 };
                    *sum = *sum / *count * before + value / *count;
                    *is_mean = true;
                } else {
                    *sum += value;
                }
            }
            State::Deviation { sum, squares, count } => {
                *count = count.saturating_add(1);
                *sum += value;
                *squares += value * value;
            }
            State::OverTime(state) => state.add(sample),
        }
        self.is_empty = false;
    }

    /// The result for a bucket that has a value.
    pub fn result(&self) -> f64 {
        match self.state {
            State::Extremes { least, greatest } => match self.aggregator {
                Minimum => least,
                Maximum => greatest,
                _ => greatest - least,
            },
            State::Single(result) => result,
            State::Average { sum, is_mean: true, .. } => sum,
            State::Average { sum, count, .. } => sum / count,
            State::Deviation { sum, squares, count } => self.deviation(sum, squares, count as f64),
            State::OverTime(state) => state.result(),
        }
    }

    fn deviation(&self, sum: f64, squares: f64, count: f64) -> f64 {
        let mean = sum / count;
        let population_variance = (squares - 2.0 * sum * sum / count + mean.powi(2) * count) / count;
        let sample_variance = if count == 1.0 {
            0.0
        } else {
            population_variance * count / (count - 1.0)
        };
        match self.aggregator {
            VarianceOfAll => population_variance,
            VarianceOfSome => sample_variance,
            DeviationOfAll => population_variance.sqrt(),
            _ => sample_variance.sqrt(),
        }
    }

    /// The result for a bucket without values. It may be the last value of the bucket before.
    pub fn result_of_none(&self) -> f64 {
        match (self.aggregator, self.state) {
            (Sum | Count | CountNan | CountAll, _) => 0.0,
            (Last, State::Single(last)) => last,
            _ => f64::NAN,
        }
    }

    /// Empties the bucket for the next one.
    pub fn reset(&mut self) {
        let last = self.state;
        *self = Accumulator::new(self.aggregator);
        if self.aggregator == Last {
            self.state = last;
        }
    }

    /// The times between which an average over time is taken: start, and end (not included).
    pub fn set_bucket(&mut self, start: u64, end: u64) {
        if let State::OverTime(state) = &mut self.state {
            state.bucket = (start, end);
        }
    }

    /// The last sample before the bucket.
    pub fn add_previous(&mut self, sample: Sample) {
        if let State::OverTime(state) = &mut self.state {
            state.last = sample;
            state.has_previous = true;
        }
    }

    /// The first sample after the bucket, which has a value.
    pub fn add_next(&mut self, sample: Sample) {
        if let State::OverTime(state) = &mut self.state {
            state.add_next(sample);
        }
    }

    /// The last sample of an average over time.
    pub fn last_sample(&self) -> Option<Sample> {
        match &self.state {
            State::OverTime(state) if state.count > 0 || state.has_previous => Some(state.last),
            _ => None,
        }
    }

    /// The state as RedisTimeSeries stores it.
    pub fn figures(&self) -> SmallVec<[Figure; 10]> {
        use Figure::{Double, Number};
        match self.state {
            State::Extremes { least, greatest } => SmallVec::from_slice(&[Double(greatest), Double(least)]),
            State::Single(result) if self.aggregator == First => {
                SmallVec::from_slice(&[Double(result), Number(self.is_empty.into())])
            }
            State::Single(result) => SmallVec::from_slice(&[Double(result)]),
            State::Average { sum, count, is_mean } => {
                SmallVec::from_slice(&[Double(sum), Double(count), Number(is_mean.into())])
            }
            State::Deviation { sum, squares, count } => {
                SmallVec::from_slice(&[Double(sum), Double(squares), Number(count)])
            }
            State::OverTime(state) => SmallVec::from_slice(&[
                Double(state.area),
                Number(state.last.timestamp),
                Double(state.last.value),
                Number(state.bucket.0),
                Number(state.bucket.1),
                Number(state.start),
                Number(state.end),
                Number((!state.has_previous).into()),
                Number(state.count),
                Number(0),
            ]),
        }
    }

    /// Reads a stored state. `is_empty`: it has no value.
    pub fn of_figures(aggregator: Aggregator, is_empty: bool, next: NextFigure<'_>) -> Result<Accumulator, Malformed> {
        let mut accumulator = Accumulator::new(aggregator);
        match &mut accumulator.state {
            State::Extremes { least, greatest } => (*greatest, *least) = (double(next)?, double(next)?),
            State::Single(result) => *result = double(next)?,
            State::Average { sum, count, .. } => (*sum, *count) = (double(next)?, double(next)?),
            State::Deviation { sum, squares, .. } => (*sum, *squares) = (double(next)?, double(next)?),
            State::OverTime(state) => state.area = double(next)?,
        }
        match &mut accumulator.state {
            State::Single(_) if aggregator == First => drop(number(next)?),
            State::Average { is_mean, .. } => *is_mean = number(next)? != 0,
            State::Deviation { count, .. } => *count = number(next)?,
            State::OverTime(state) => {
                state.last.timestamp = number(next)?;
                state.last.value = double(next)?;
                state.bucket = (number(next)?, number(next)?);
                (state.start, state.end) = (number(next)?, number(next)?);
                state.has_previous = number(next)? == 0;
                state.count = number(next)?;
                number(next)?;
            }
            _ => {}
        }
        accumulator.is_empty = is_empty;
        Ok(accumulator)
    }

    /// The stored state of a rule's bucket: its figures, and whether it is empty.
    pub fn to_bytes(&self) -> SmallVec<[u8; 88]> {
        let mut bytes = SmallVec::new();
        bytes.push(self.is_empty.into());
        for figure in self.figures() {
            let bits = match figure {
                Figure::Double(double) => double.to_bits(),
                Figure::Number(number) => number,
            };
            bytes.extend_from_slice(&bits.to_le_bytes());
        }
        bytes
    }

    /// Reads a stored state of a rule's bucket.
    pub fn from_bytes(aggregator: Aggregator, bytes: &[u8]) -> Result<Accumulator, Malformed> {
        let (is_empty, numbers) = bytes.split_first().ok_or(Malformed)?;
        let kinds = Accumulator::new(aggregator).figures();
        if numbers.len() != kinds.len() * 8 {
            return Err(Malformed);
        }
        let mut figures = numbers.as_chunks().0.iter().zip(&kinds).map(|(bytes, kind)| {
            let bits = u64::from_le_bytes(*bytes);
            match kind {
                Figure::Double(_) => Figure::Double(f64::from_bits(bits)),
                Figure::Number(_) => Figure::Number(bits),
            }
        });
        Accumulator::of_figures(aggregator, *is_empty != 0, &mut || figures.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(aggregator: Aggregator, values: &[f64]) -> Accumulator {
        let mut accumulator = Accumulator::new(aggregator);
        accumulator.set_bucket(10, 20);
        for (index, value) in values.iter().enumerate() {
            accumulator.add(Sample {
                timestamp: 10 + index as u64,
                value: *value,
            });
        }
        accumulator
    }

    #[test]
    fn results_are_those_of_the_values() {
        let values = [1.0, 2.0, 6.0];
        let expected = [
            1.0,
            6.0,
            9.0,
            3.0,
            3.0,
            1.0,
            6.0,
            5.0,
            2.160246899469287,
            2.6457513110645907,
            4.666666666666667,
            7.0,
            2.75,
            0.0,
            3.0,
        ];
        for ((aggregator, name), expected) in NAMES.iter().zip(expected) {
            let accumulator = gathered(*aggregator, &values);
            assert_eq!(Aggregator::named(name.to_uppercase().as_bytes()), Some(*aggregator));
            assert_eq!(accumulator.result(), expected, "{name}");
            let stored = Accumulator::from_bytes(*aggregator, &accumulator.to_bytes());
            assert_eq!(stored, Ok(accumulator), "{name}");
        }
        assert_eq!(gathered(Average, &[f64::MAX, f64::MAX]).result(), f64::MAX);
        assert!(gathered(Sum, &[f64::NAN]).is_empty);
        assert_eq!(gathered(CountNan, &[f64::NAN, 1.0]).result(), 1.0);
    }
}
