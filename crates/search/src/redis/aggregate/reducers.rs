//! Functions over all records of a group.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::SearchError;
use crate::redis::aggregate::collect::{Collect, Collection};
use crate::redis::aggregate::distinct::Distinct;
use crate::redis::aggregate::{Record, Value};

/// A function of all records of a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Reducer {
    /// The number of records.
    Count,
    /// The sum of the numbers of a property.
    Sum(String),
    /// The least number.
    Min(String),
    /// The greatest number.
    Max(String),
    /// The mean of the numbers.
    Avg(String),
    /// The number of different values. COUNT_DISTINCTISH counts exactly, too.
    CountDistinct(String),
    /// An estimate of how many different values there are, as bytes for `HllSum`.
    Hll(String),
    /// The number of different values, by several of these estimates together.
    HllSum(String),
    /// The number below which this part of them is, from 0 to 1.
    Quantile(String, f64),
    /// The standard deviation of a sample.
    StdDev(String),
    /// The different values, in order.
    ToList(String),
    /// This many of the values, chosen at random; the same for the same records.
    RandomSample(String, usize),
    /// The value of the first record, or of the first by another property, which ascends or not.
    FirstValue(String, Option<(String, bool)>),
    /// The records themselves.
    Collect(Collect),
}

impl Reducer {
    /// Reads a reducer by its name, in any case, and its arguments.
    pub fn parse(name: &str, arguments: &[&str]) -> Result<Reducer, SearchError> {
        let upper = name.to_ascii_uppercase();
        if upper == "COUNT" {
            return match arguments {
                [] => Ok(Reducer::Count),
                _ => Err(refused("Count accepts 0 values only")),
            };
        }
        let make: fn(String) -> Reducer = match upper.as_str() {
            "SUM" => Reducer::Sum,
            "MIN" => Reducer::Min,
            "MAX" => Reducer::Max,
            "AVG" => Reducer::Avg,
            "COUNT_DISTINCT" | "COUNT_DISTINCTISH" => Reducer::CountDistinct,
            "HLL" => Reducer::Hll,
            "HLL_SUM" => Reducer::HllSum,
            "STDDEV" => Reducer::StdDev,
            "TOLIST" => Reducer::ToList,
            "QUANTILE" => return quantile(arguments),
            "FIRST_VALUE" => return first_value(arguments),
            "RANDOM_SAMPLE" => return random_sample(arguments),
            "COLLECT" => return Collect::parse(arguments).map(Reducer::Collect),
            _ => return Err(refused(&format!("No such reducer: {name}"))),
        };
        match arguments {
            [] => Err(refused(&format!("Missing arguments for {upper}"))),
            [single] => Ok(make(property(single)?)),
            [_, extra, ..] => Err(unknown(extra, arguments.len() - 1, &upper)),
        }
    }

    /// Names of the properties that it reads.
    pub fn properties(&self) -> Vec<&str> {
        match self {
            Reducer::Count => Vec::new(),
            Reducer::FirstValue(name, Some((by, _))) => vec![name, by],
            Reducer::Collect(collect) => collect.properties().collect(),
            Reducer::FirstValue(name, None)
            | Reducer::Sum(name)
            | Reducer::Min(name)
            | Reducer::Max(name)
            | Reducer::Avg(name)
            | Reducer::CountDistinct(name)
            | Reducer::Hll(name)
            | Reducer::HllSum(name)
            | Reducer::Quantile(name, _)
            | Reducer::StdDev(name)
            | Reducer::RandomSample(name, _)
            | Reducer::ToList(name) => vec![name],
        }
    }
}

fn refused(text: &str) -> SearchError {
    SearchError::Arguments(text.into())
}

fn unknown(argument: &str, position: usize, reducer: &str) -> SearchError {
    SearchError::Unrecognized(format!(
        "Unknown argument `{argument}` at position {position} for {reducer}"
    ))
}

fn property(argument: &str) -> Result<String, SearchError> {
    let name = argument.strip_prefix('@');
    let missing = || refused(&format!("Unknown property `{argument}`. Did you mean `@{argument}`?"));
    name.map(str::to_owned).ok_or_else(missing)
}

fn quantile(arguments: &[&str]) -> Result<Reducer, SearchError> {
    // The third is how exact the original's estimate is.
    let ([name, part] | [name, part, _]) = arguments else {
        return Err(refused("Missing arguments for QUANTILE"));
    };
    let wrong = |_| refused("Bad arguments for QUANTILE: Could not convert argument to expected type");
    let part = Some(part.parse::<f64>().map_err(wrong)?).filter(|part| (0.0..=1.0).contains(part));
    let part = part.ok_or_else(|| refused("Percentage must be between 0.0 and 1.0"))?;
    Ok(Reducer::Quantile(property(name)?, part))
}

/// Most values of a sample.
const SAMPLE_MAX: usize = 1000;

fn random_sample(arguments: &[&str]) -> Result<Reducer, SearchError> {
    let wrong = |why: &str| refused(&format!("Bad arguments for <sample size>: {why}"));
    let [name, size] = arguments else {
        return Err(wrong("Expected an argument, but none provided"));
    };
    let size = size.parse::<usize>();
    let size = size.map_err(|_| wrong("Could not convert argument to expected type"))?;
    match size <= SAMPLE_MAX {
        true => Ok(Reducer::RandomSample(property(name)?, size)),
        false => Err(refused("Sample size too large")),
    }
}

fn first_value(arguments: &[&str]) -> Result<Reducer, SearchError> {
    let is_by = |word: &str| word.eq_ignore_ascii_case("BY");
    let by = match arguments {
        [] => return Err(refused("Missing arguments for FIRST_VALUE")),
        [_] => None,
        [_, by, other] if is_by(by) => Some((property(other)?, true)),
        [_, by, other, order] if is_by(by) => match order.to_ascii_uppercase().as_str() {
            "ASC" => Some((property(other)?, true)),
            "DESC" => Some((property(other)?, false)),
            _ => return Err(unknown(order, 3, "FIRST_VALUE")),
        },
        [_, extra, ..] => return Err(unknown(extra, 1, "FIRST_VALUE")),
    };
    Ok(Reducer::FirstValue(property(arguments[0])?, by))
}

/// The state of a reducer after the records so far.
pub(super) struct Reduced<'r> {
    reducer: &'r Reducer,
    records: u64,
    numbers: Vec<f64>,
    values: BTreeSet<Value>,
    sample: Vec<Value>,
    first: Option<(Value, Value)>,
    collection: Collection,
    distinct: Option<Distinct>,
}

impl<'r> Reduced<'r> {
    pub fn new(reducer: &'r Reducer) -> Reduced<'r> {
        Reduced {
            reducer,
            records: 0,
            numbers: Vec::new(),
            values: BTreeSet::new(),
            sample: Vec::new(),
            first: None,
            collection: Collection::default(),
            distinct: None,
        }
    }

    /// Returns how many bytes more it keeps, about.
    pub fn add(&mut self, record: &Record) -> usize {
        self.records += 1;
        if let Reducer::Collect(collect) = self.reducer {
            return self.collection.add(collect, record);
        }
        if let Reducer::Hll(name) | Reducer::HllSum(name) = self.reducer {
            return self.estimate(record.get(name));
        }
        let before = self.numbers.len() + self.values.len() + self.sample.len();
        self.take(record);
        let after = self.numbers.len() + self.values.len() + self.sample.len();
        match self.reducer {
            _ if after == before => 0,
            Reducer::CountDistinct(name) | Reducer::ToList(name) | Reducer::RandomSample(name, _) => {
                size_of::<Value>() + record.get(name).size()
            }
            _ => size_of::<f64>(),
        }
    }

    /// Returns how many bytes more it keeps. A value that is no estimate adds nothing to a sum.
    fn estimate(&mut self, value: &Value) -> usize {
        let is_first = self.distinct.is_none();
        let distinct = self.distinct.get_or_insert_with(Distinct::new);
        match (self.reducer, value) {
            (_, Value::Null) => {}
            (Reducer::HllSum(_), Value::Text(bytes)) => _ = distinct.merge(bytes),
            (Reducer::HllSum(_), _) => {}
            _ => distinct.add(&value.bytes()),
        }
        if is_first { Distinct::BYTES } else { 0 }
    }

    fn take(&mut self, record: &Record) {
        match self.reducer {
            Reducer::Count | Reducer::Collect(_) | Reducer::Hll(_) | Reducer::HllSum(_) => {}
            Reducer::Sum(name) | Reducer::Min(name) | Reducer::Max(name) => self.add_to_one(record.get(name)),
            Reducer::Avg(name) | Reducer::Quantile(name, _) | Reducer::StdDev(name) => {
                self.numbers.extend(record.get(name).number());
            }
            Reducer::CountDistinct(name) | Reducer::ToList(name) => {
                if *record.get(name) != Value::Null {
                    self.values.insert(record.get(name).clone());
                }
            }
            Reducer::RandomSample(name, size) => self.add_to_sample(record.get(name), *size),
            Reducer::FirstValue(name, by) => self.add_first(record, name, by.as_ref()),
        }
    }

    /// One number is enough for these.
    fn add_to_one(&mut self, value: &Value) {
        let Some(number) = value.number() else {
            return;
        };
        let so_far = self.numbers.pop();
        let now = match (self.reducer, so_far) {
            (_, None) => number,
            (Reducer::Min(_), Some(so_far)) => number.min(so_far),
            (Reducer::Max(_), Some(so_far)) => number.max(so_far),
            (_, Some(so_far)) => number + so_far,
        };
        self.numbers.push(now);
    }

    /// Every value is in the sample with the same probability.
    fn add_to_sample(&mut self, value: &Value, size: usize) {
        if *value == Value::Null {
            self.records -= 1;
            return;
        }
        if self.sample.len() < size {
            return self.sample.push(value.clone());
        }
        let hash = xxh3_64(&self.records.to_be_bytes());
        let place = (hash % self.records) as usize;
        if let Some(replaced) = self.sample.get_mut(place) {
            *replaced = value.clone();
        }
    }

    fn add_first(&mut self, record: &Record, name: &str, by: Option<&(String, bool)>) {
        let Some((by, ascends)) = by else {
            self.first
                .get_or_insert_with(|| (Value::Null, record.get(name).clone()));
            return;
        };
        let order = record.get(by);
        let is_first = self.first.as_ref().is_none_or(|(first, _)| match ascends {
            true => order.compare(first).is_lt(),
            false => order.compare(first).is_gt(),
        });
        if is_first && *order != Value::Null {
            self.first = Some((order.clone(), record.get(name).clone()));
        }
    }

    pub fn result(mut self) -> Value {
        let count = self.numbers.len() as f64;
        let mean = if count > 0.0 {
            self.numbers.iter().sum::<f64>() / count
        } else {
            f64::NAN
        };
        Value::Number(match self.reducer {
            Reducer::Count => self.records as f64,
            Reducer::Sum(_) => self.numbers.first().copied().unwrap_or(f64::NAN),
            Reducer::Min(_) => self.numbers.first().copied().unwrap_or(f64::INFINITY),
            Reducer::Max(_) => self.numbers.first().copied().unwrap_or(f64::NEG_INFINITY),
            Reducer::Avg(_) => mean,
            Reducer::CountDistinct(_) => self.values.len() as f64,
            Reducer::Hll(_) => return Value::Text(self.distinct.unwrap_or_else(Distinct::new).to_bytes()),
            Reducer::HllSum(_) => self.distinct.map_or(0.0, |distinct| distinct.estimate()),
            Reducer::Quantile(_, part) => {
                self.numbers.sort_by(f64::total_cmp);
                let rank = (part * count).ceil().max(1.0) as usize - 1;
                self.numbers.get(rank).copied().unwrap_or(f64::NAN)
            }
            Reducer::StdDev(_) => {
                let squares = self.numbers.iter().map(|number| (number - mean).powi(2));
                if count > 1.0 {
                    (squares.sum::<f64>() / (count - 1.0)).sqrt()
                } else {
                    0.0
                }
            }
            Reducer::RandomSample(..) => return Value::List(self.sample),
            Reducer::ToList(_) => return Value::List(self.values.into_iter().collect()),
            Reducer::Collect(collect) => return self.collection.result(collect),
            Reducer::FirstValue(..) => return self.first.map_or(Value::Null, |(_, value)| value),
        })
    }
}
