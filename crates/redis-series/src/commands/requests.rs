//! Arguments of TS.*, as RedisTimeSeries finds them: options by their words, at any place.

use quartet_layer_redis::module_api::definition::ErrorReply;
use quartet_layer_redis::module_api::parse;
use quartet_wire_resp::Arguments;

use super::definition::{Definition, DuplicatePolicy, Labels};
use super::series::LAST_TIMESTAMP;
use crate::Encoding;
use crate::aggregation::{AGGREGATORS, Aggregator};

const CHUNK_BYTES: std::ops::RangeInclusive<i64> = 48..=1_048_576;
const FILTERED_TIMESTAMPS_MAX: usize = 128;

pub fn wrong_arity(arguments: Arguments<'_>) -> ErrorReply {
    let name = String::from_utf8_lossy(&arguments[0]).to_ascii_lowercase();
    format!("ERR wrong number of arguments for '{name}' command").into()
}

pub fn check_arity(arguments: Arguments<'_>, accepts: bool) -> Result<(), ErrorReply> {
    match accepts {
        true => Ok(()),
        false => Err(wrong_arity(arguments)),
    }
}

/// The position of a word from `from` on.
pub fn position(arguments: Arguments<'_>, from: usize, word: &str) -> Option<usize> {
    (from..arguments.len()).find(|at| parse::is(&arguments[*at], word))
}

/// Reads a timestamp.
pub fn timestamp(word: &[u8]) -> Option<u64> {
    parse::integer(word).and_then(|number| u64::try_from(number).ok())
}

/// Reads the value of a sample. NaN is one since Redis 8.6; infinite values are none.
pub fn value(word: &[u8]) -> Option<f64> {
    if word.eq_ignore_ascii_case(b"nan") {
        return Some(f64::NAN);
    }
    let starts_well = word.first().is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-');
    let is_decimal = word.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte));
    let value = (starts_well && is_decimal).then(|| parse::float(word))??;
    value.is_finite().then_some(value)
}

/// Settings of TS.CREATE, TS.ALTER and commands that create; what is absent is `None`.
pub struct Settings {
    pub retention_ms: Option<u64>,
    pub chunk_bytes: Option<u32>,
    pub encoding: Option<Encoding>,
    pub policy: Option<DuplicatePolicy>,
    pub ignored: Option<(u64, f64)>,
    pub labels: Option<Labels>,
}

impl Settings {
    /// Reads the options after a key.
    pub fn read(arguments: Arguments<'_>) -> Result<Settings, ErrorReply> {
        Ok(Settings {
            labels: labels(arguments)?,
            retention_ms: retention(arguments)?,
            chunk_bytes: chunk_bytes(arguments)?,
            encoding: encoding(arguments)?,
            policy: policy(arguments, "DUPLICATE_POLICY")?,
            ignored: ignored(arguments)?,
        })
    }

    /// A new series with these settings, and its labels.
    pub fn definition(self) -> (Definition, Labels) {
        let mut definition = Definition {
            encoding: self.encoding.unwrap_or(Encoding::Compressed),
            ..Definition::default()
        };
        let labels = self.apply(&mut definition);
        (definition, labels.unwrap_or_default())
    }

    /// Changes the given options except the encoding, and returns the labels.
    pub fn apply(self, definition: &mut Definition) -> Option<Labels> {
        definition.retention_ms = self.retention_ms.unwrap_or(definition.retention_ms);
        definition.chunk_bytes = self.chunk_bytes.unwrap_or(definition.chunk_bytes);
        definition.policy = self.policy.or(definition.policy);
        if let Some((ignored_ms, ignored_difference)) = self.ignored {
            (definition.ignored_ms, definition.ignored_difference) = (ignored_ms, ignored_difference);
        }
        self.labels
    }
}

fn labels(arguments: Arguments<'_>) -> Result<Option<Labels>, ErrorReply> {
    let Some(at) = position(arguments, 2, "LABELS") else {
        return Ok(None);
    };
    let mut labels = Labels::default();
    for at in (at + 1..arguments.len().saturating_sub(1)).step_by(2) {
        let (label, value) = (&arguments[at], &arguments[at + 1]);
        let is_sound = !label.is_empty() && !value.is_empty() && !value.iter().any(|byte| b"(),".contains(byte));
        if !is_sound {
            return Err("ERR TSDB: Couldn't parse LABELS".into());
        }
        labels.0.push((label.to_vec(), value.to_vec()));
    }
    Ok(Some(labels))
}

fn retention(arguments: Arguments<'_>) -> Result<Option<u64>, ErrorReply> {
    let Some(at) = position(arguments, 2, "RETENTION") else {
        return Ok(None);
    };
    let number = arguments.get(at + 1).and_then(parse::integer);
    let number = number.ok_or("ERR TSDB: Couldn't parse RETENTION")?;
    // The original has no code here.
    u64::try_from(number)
        .map(Some)
        .map_err(|_| "TSDB: Couldn't parse RETENTION".into())
}

fn chunk_bytes(arguments: Arguments<'_>) -> Result<Option<u32>, ErrorReply> {
    let Some(at) = position(arguments, 2, "CHUNK_SIZE") else {
        return Ok(None);
    };
    let number = arguments.get(at + 1).and_then(parse::integer);
    let number = number.ok_or("ERR TSDB: Couldn't parse CHUNK_SIZE")?;
    match CHUNK_BYTES.contains(&number) && number % 8 == 0 {
        true => Ok(Some(number as u32)),
        false => Err("ERR TSDB: CHUNK_SIZE value must be a multiple of 8 in the range [48 .. 1048576]".into()),
    }
}

fn encoding(arguments: Arguments<'_>) -> Result<Option<Encoding>, ErrorReply> {
    if let Some(at) = position(arguments, 2, "ENCODING") {
        let word = arguments.get(at + 1).ok_or_else(|| wrong_arity(arguments))?;
        return match () {
            () if parse::is(word, "uncompressed") => Ok(Some(Encoding::Uncompressed)),
            () if parse::is(word, "compressed") => Ok(Some(Encoding::Compressed)),
            () => Err("ERR TSDB: unknown ENCODING parameter".into()),
        };
    }
    // The words of old versions.
    if position(arguments, 2, "UNCOMPRESSED").is_some() {
        return Ok(Some(Encoding::Uncompressed));
    }
    Ok(position(arguments, 2, "COMPRESSED").map(|_| Encoding::Compressed))
}

/// Reads a policy for duplicates after a word.
pub fn policy(arguments: Arguments<'_>, word: &str) -> Result<Option<DuplicatePolicy>, ErrorReply> {
    let Some(at) = position(arguments, 2, word) else {
        return Ok(None);
    };
    let name = arguments
        .get(at + 1)
        .ok_or("ERR TSDB: Couldn't parse DUPLICATE_POLICY")?;
    let policy = DuplicatePolicy::named(name).ok_or("ERR TSDB: Unknown DUPLICATE_POLICY")?;
    Ok(Some(policy))
}

fn ignored(arguments: Arguments<'_>) -> Result<Option<(u64, f64)>, ErrorReply> {
    let Some(at) = position(arguments, 2, "IGNORE") else {
        return Ok(None);
    };
    let number = arguments.get(at + 1).and_then(parse::integer);
    let difference = arguments.get(at + 2).and_then(parse::float);
    let (Some(number), Some(difference)) = (number, difference) else {
        return Err("ERR TSDB: Couldn't parse IGNORE".into());
    };
    if number < 0 || difference < 0.0 {
        return Err("ERR TSDB: IGNORE arguments cannot be negative".into());
    }
    Ok(Some((number as u64, difference)))
}

/// The alignment of a query's buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BucketTimestamp {
    #[default]
    Start,
    Middle,
    End,
}

/// The aggregation of a query.
#[derive(Clone, Debug)]
pub struct Aggregation {
    pub aggregators: Vec<Aggregator>,
    pub bucket_ms: u64,
    pub fills_empty: bool,
    pub timestamp: BucketTimestamp,
    pub alignment: u64,
}

/// A query of one series.
#[derive(Clone, Debug)]
pub struct Query {
    pub from: u64,
    pub to: u64,
    pub takes_latest: bool,
    pub count: Option<u64>,
    pub aggregation: Option<Aggregation>,
    /// The least and greatest value.
    pub values: Option<(f64, f64)>,
    /// Rising.
    pub timestamps: Option<Vec<u64>>,
}

impl Query {
    /// Reads a query with its range at `at`.
    pub fn read(arguments: Arguments<'_>, at: usize) -> Result<Query, ErrorReply> {
        Query::read_of_lists(arguments, at, 1)
    }

    /// The same with several lists of aggregators; the query gets the first list.
    pub fn read_of_lists(arguments: Arguments<'_>, at: usize, lists: usize) -> Result<Query, ErrorReply> {
        let (start, end) = (&arguments[at], &arguments[at + 1]);
        let from = match start {
            b"-" => 0,
            word => timestamp(word).ok_or("ERR TSDB: wrong fromTimestamp")?,
        };
        let to = match end {
            b"+" => LAST_TIMESTAMP,
            word => timestamp(word).ok_or("ERR TSDB: wrong toTimestamp")?,
        };
        let takes_latest = position(arguments, at, "LATEST").is_some();
        let count = count(arguments, at)?;
        let mut aggregation = aggregation(arguments, at, lists)?;
        let alignment = alignment(arguments, at)?;
        match (alignment, &mut aggregation) {
            (Align::Default, _) => {}
            (_, None) => return Err("ERR TSDB: ALIGN parameter can only be used with AGGREGATION".into()),
            (Align::Start, _) if start == b"-" => {
                return Err("ERR TSDB: start alignment can only be used with explicit start timestamp".into());
            }
            (Align::End, _) if end == b"+" => {
                return Err("ERR TSDB: end alignment can only be used with explicit end timestamp".into());
            }
            (Align::Start, Some(aggregation)) => aggregation.alignment = from,
            (Align::End, Some(aggregation)) => aggregation.alignment = to,
            (Align::At(timestamp), Some(aggregation)) => aggregation.alignment = timestamp,
        }
        Ok(Query {
            from,
            to,
            takes_latest,
            count,
            aggregation,
            values: filtered_values(arguments, at)?,
            timestamps: filtered_timestamps(arguments, at)?,
        })
    }
}

fn count(arguments: Arguments<'_>, from: usize) -> Result<Option<u64>, ErrorReply> {
    let mut at = position(arguments, from, "COUNT");
    // The word may be the name of an aggregator.
    for word in ["AGGREGATION", "REDUCE"] {
        let before = position(arguments, from, word);
        if let (Some(found), Some(before)) = (at, before)
            && found == before + 1
        {
            at = position(arguments, before + 2, "COUNT");
        }
    }
    let Some(at) = at else {
        return Ok(None);
    };
    let word = arguments.get(at + 1).ok_or("ERR TSDB: COUNT argument is missing")?;
    let count = parse::integer(word).ok_or("ERR TSDB: Couldn't parse COUNT")?;
    match count < 1 {
        true => Err("ERR TSDB: Invalid COUNT value".into()),
        false => Ok(Some(count as u64)),
    }
}

/// Reads aggregators, separated by commas.
pub fn aggregators(word: &[u8]) -> Result<Vec<Aggregator>, ErrorReply> {
    let mut all = Vec::new();
    for name in word.split(|byte| *byte == b',') {
        if name.is_empty() && !word.is_empty() {
            return Err("ERR TSDB: Empty aggregation type in list".into());
        }
        if all.len() > AGGREGATORS {
            return Err("ERR TSDB: Too many aggregation types".into());
        }
        all.push(Aggregator::named(name).ok_or("ERR TSDB: Unknown aggregation type")?);
    }
    Ok(all)
}

/// Reads the aggregators and the length of a bucket after the word at `at`, with `lists` lists of
/// aggregators between them.
pub fn aggregators_and_bucket(
    arguments: Arguments<'_>,
    at: usize,
    lists: usize,
) -> Result<(Vec<Aggregator>, u64), ErrorReply> {
    let bucket = arguments.get(at + 1 + lists).and_then(parse::integer);
    let bucket = bucket.ok_or("ERR TSDB: Couldn't parse AGGREGATION")?;
    let aggregators = aggregators(&arguments[at + 1])?;
    match bucket <= 0 {
        true => Err("ERR TSDB: bucketDuration must be greater than zero".into()),
        false => Ok((aggregators, bucket as u64)),
    }
}

fn aggregation(arguments: Arguments<'_>, from: usize, lists: usize) -> Result<Option<Aggregation>, ErrorReply> {
    let Some(at) = position(arguments, from, "AGGREGATION") else {
        return Ok(None);
    };
    let (aggregators, bucket_ms) = aggregators_and_bucket(arguments, at, lists)?;
    let empty = position(arguments, from, "EMPTY");
    let behind = at + 2 + lists;
    if empty.is_some_and(|empty| empty != behind && empty != behind + 2) {
        return Err("ERR TSDB: EMPTY flag should be the 3rd or 5th flag after AGGREGATION flag".into());
    }
    Ok(Some(Aggregation {
        aggregators,
        bucket_ms,
        fills_empty: empty.is_some(),
        timestamp: bucket_timestamp(arguments, from, behind)?,
        alignment: 0,
    }))
}

fn bucket_timestamp(arguments: Arguments<'_>, from: usize, behind: usize) -> Result<BucketTimestamp, ErrorReply> {
    let Some(at) = position(arguments, from, "BUCKETTIMESTAMP") else {
        return Ok(BucketTimestamp::Start);
    };
    if at != behind && at != behind + 1 {
        return Err("ERR TSDB: BUCKETTIMESTAMP flag should be the 3rd or 4th flag after AGGREGATION flag".into());
    }
    let word = arguments.get(at + 1).ok_or_else(|| wrong_arity(arguments))?;
    let named = [
        ("start", "-", BucketTimestamp::Start),
        ("end", "+", BucketTimestamp::End),
        ("mid", "~", BucketTimestamp::Middle),
    ];
    let is_named = |name: &str, sign: &str| parse::is(word, name) || parse::is(word, sign);
    let found = named.into_iter().find(|(name, sign, _)| is_named(name, sign));
    found
        .map(|(.., timestamp)| timestamp)
        .ok_or("ERR TSDB: unknown BUCKETTIMESTAMP parameter".into())
}

#[derive(Clone, Copy)]
enum Align {
    Default,
    Start,
    End,
    At(u64),
}

fn alignment(arguments: Arguments<'_>, from: usize) -> Result<Align, ErrorReply> {
    let Some(at) = position(arguments, from, "ALIGN") else {
        return Ok(Align::Default);
    };
    let word = arguments.get(at + 1).ok_or_else(|| wrong_arity(arguments))?;
    match () {
        () if parse::is(word, "start") || word == b"-" => Ok(Align::Start),
        () if parse::is(word, "end") || word == b"+" => Ok(Align::End),
        () => timestamp(word)
            .map(Align::At)
            .ok_or("ERR TSDB: unknown ALIGN parameter".into()),
    }
}

fn filtered_values(arguments: Arguments<'_>, from: usize) -> Result<Option<(f64, f64)>, ErrorReply> {
    let Some(at) = position(arguments, from, "FILTER_BY_VALUE") else {
        return Ok(None);
    };
    let (Some(least), Some(greatest)) = (arguments.get(at + 1), arguments.get(at + 2)) else {
        return Err("ERR TSDB: FILTER_BY_VALUE one or more arguments are missing".into());
    };
    let least = parse::float(least).ok_or("ERR TSDB: Couldn't parse MIN")?;
    let greatest = parse::float(greatest).ok_or("ERR TSDB: Couldn't parse MAX")?;
    Ok(Some((least, greatest)))
}

fn filtered_timestamps(arguments: Arguments<'_>, from: usize) -> Result<Option<Vec<u64>>, ErrorReply> {
    let Some(at) = position(arguments, from, "FILTER_BY_TS") else {
        return Ok(None);
    };
    let words = (at + 1..arguments.len()).map(|at| timestamp(&arguments[at]));
    let mut timestamps: Vec<u64> = words
        .map_while(|timestamp| timestamp)
        .take(FILTERED_TIMESTAMPS_MAX)
        .collect();
    if timestamps.is_empty() {
        return Err("ERR TSDB: FILTER_BY_TS one or more arguments are missing".into());
    }
    timestamps.sort_unstable();
    timestamps.dedup();
    Ok(Some(timestamps))
}
