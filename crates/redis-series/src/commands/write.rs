//! TS.CREATE, ALTER, ADD, MADD, INCRBY, DECRBY, DEL, CREATERULE and DELETERULE.

use quartet_layer_redis::module_api::definition::*;
use quartet_layer_redis::module_api::{Context, parse};
use quartet_wire_resp::Arguments;

use super::definition::{DuplicatePolicy, Rule};
use super::groups::SERIES;
use super::requests::*;
use super::rows::TimeRange;
use super::series::{self, Added, LAST_TIMESTAMP, Series};
use super::{gatherings, rules};
use crate::codec::Sample;

const PER_RULE: &str = "O(M) in the number of compaction rules";
const EACH_THIRD: Keys = Keys::Range {
    first: 1,
    last: -1,
    step: 3,
};

/// Each command checks the number of its arguments itself, and COMMAND INFO shows -1.
const FAMILY: Family = Family::of(SERIES).keys(ONE_KEY);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("ts.create", -1, WRITE | DENYOOM, "Creates a time series.", Answers(create)),
    FAMILY.row("ts.alter", -1, WRITE | DENYOOM, "Changes the settings of a time series.", Answers(alter)).complexity("O(N) in the number of labels"),
    FAMILY.row("ts.add", -1, WRITE | DENYOOM, "Adds a sample to a time series, which is created if it is absent.", Answers(add)).complexity(PER_RULE),
    FAMILY.row("ts.madd", -1, WRITE | DENYOOM, "Adds samples to time series.", Answers(add_many)).keys(EACH_THIRD).complexity("O(N * M): N samples, M rules"),
    FAMILY.row("ts.incrby", -1, WRITE | DENYOOM, "Adds a sample that is greater than the last.", Answers(increase)).complexity(PER_RULE),
    FAMILY.row("ts.decrby", -1, WRITE | DENYOOM, "Adds a sample that is less than the last.", Answers(decrease)).complexity(PER_RULE),
    FAMILY.row("ts.createrule", -1, WRITE | DENYOOM, "Creates a compaction rule.", Answers(create_rule)).keys(TWO_KEYS),
    FAMILY.row("ts.deleterule", -1, WRITE, "Removes a compaction rule.", Answers(delete_rule)).keys(TWO_KEYS),
    FAMILY.row("ts.del", -1, WRITE, "Removes the samples of a range.", Answers(delete)).since("1.6.0").complexity("O(N) in the number of removed samples"),
];

const NO_SERIES: &str = "ERR TSDB: the key is not a TSDB key";

/// The key's elements changed, while its row may be as it was.
fn note(context: &mut Context<'_, '_>, series: &Series) {
    context.note_change(&series.name, Some(&series.entry));
    context.keys().touch(&series.name);
}

fn create(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 2)?;
    let (definition, labels) = Settings::read(arguments)?.definition();
    if context.keys().find(&arguments[1]).is_some() {
        return Err("ERR TSDB: key already exists".into());
    }
    Series::create(&mut context.keys(), &arguments[1], definition, &labels);
    context.reply.ok();
    Ok(())
}

fn alter(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 2)?;
    let settings = Settings::read(arguments)?;
    let mut series = Series::to_change(context, &arguments[1])?;
    let labels = settings.apply(&mut series.definition);
    match labels {
        Some(labels) => series.put_with(&mut context.keys(), &labels),
        None => series.put(&mut context.keys()),
    }
    context.reply.ok();
    Ok(())
}

/// Reads a sample; `*` is the present time.
fn read_sample(context: &Context<'_, '_>, time: &[u8], number: &[u8]) -> Result<Sample, &'static str> {
    let value = value(number).ok_or("ERR TSDB: invalid value")?;
    if time == b"*" {
        let timestamp = context.now_ms;
        return Ok(Sample { timestamp, value });
    }
    let timestamp = parse::integer(time).ok_or("ERR TSDB: invalid timestamp")?;
    let timestamp =
        u64::try_from(timestamp).map_err(|_| "ERR TSDB: invalid timestamp, must be a nonnegative integer")?;
    Ok(Sample { timestamp, value })
}

/// Adds a sample to a series and replies its timestamp.
fn add_to(
    context: &mut Context<'_, '_>,
    series: &mut Series,
    sample: Sample,
    policy: Option<DuplicatePolicy>,
) -> Result<(), ErrorReply> {
    let groups = context.groups;
    let added = rules::add(&mut context.keys(), groups, series, sample, policy)?;
    match added {
        Added::Ignored(timestamp) => context.reply.integer(timestamp as i64),
        Added::Stored(timestamp) => {
            note(context, series);
            context.reply.integer(timestamp as i64);
        }
    }
    Ok(())
}

fn add(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 4)?;
    let sample = read_sample(context, &arguments[2], &arguments[3])?;
    let entry = context.keys().find(&arguments[1]);
    let (mut series, policy) = match entry {
        None => {
            let (definition, labels) = Settings::read(arguments)?.definition();
            (
                Series::create(&mut context.keys(), &arguments[1], definition, &labels),
                None,
            )
        }
        Some(entry) => {
            let series = Series::of_entry(&arguments[1], entry).ok_or(NO_SERIES)?;
            (series, policy(arguments, "ON_DUPLICATE")?)
        }
    };
    add_to(context, &mut series, sample, policy)
}

/// A sample that cannot be added is an error among the replies, and the others are added.
fn add_many(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let is_sound = arguments.len() >= 4 && (arguments.len() - 1).is_multiple_of(3);
    check_arity(arguments, is_sound)?;
    context.reply.array((arguments.len() - 1) / 3);
    for at in (1..arguments.len()).step_by(3) {
        let sample = read_sample(context, &arguments[at + 1], &arguments[at + 2]);
        let entry = context.keys().find(&arguments[at]);
        let series = entry.and_then(|entry| Series::of_entry(&arguments[at], entry));
        let added = match (sample, series) {
            (Err(error), _) => Err(error.into()),
            (Ok(_), None) => Err(ErrorReply::new(NO_SERIES)),
            (Ok(sample), Some(mut series)) => add_to(context, &mut series, sample, None),
        };
        if let Err(error) = added {
            if context.is_refused_memory() {
                return Err(error);
            }
            context.reply.error(error.text.as_bytes());
        }
    }
    Ok(())
}

fn increase(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    change_last(context, arguments, 1.0)
}

fn decrease(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    change_last(context, arguments, -1.0)
}

fn change_last(context: &mut Context<'_, '_>, arguments: Arguments<'_>, sign: f64) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    let entry = context.keys().find(&arguments[1]);
    let series = match entry {
        Some(entry) => Some(Series::of_entry(&arguments[1], entry).ok_or_else(series::wrong_type)?),
        None => None,
    };
    let settings = match &series {
        Some(_) => None,
        None => Some(Settings::read(arguments)?),
    };
    let step = parse::float(&arguments[2]).ok_or("ERR TSDB: invalid increase/decrease value")?;
    let timestamp = match position(arguments, 1, "TIMESTAMP").map(|at| arguments.get(at + 1)) {
        None | Some(Some(b"*")) => context.now_ms as i64,
        Some(word) => word.and_then(parse::integer).ok_or("ERR TSDB: invalid timestamp")?,
    };
    let last = series.as_ref().and_then(|series| series.last(&mut context.keys()));
    let last_timestamp = last.map_or(0, |last| last.timestamp);
    if timestamp < last_timestamp as i64 {
        // The original has no code here.
        return Err("TSDB: timestamp must be equal to or higher than the maximum existing timestamp".into());
    }
    let timestamp = u64::try_from(timestamp).map_err(|_| "ERR TSDB: invalid timestamp")?;
    let value = last.map_or(0.0, |last| last.value);
    if value.is_nan() {
        return Err("ERR TSDB: cannot increment/decrement NaN value".into());
    }
    let value = value + sign * step;
    if !value.is_finite() {
        return Err("ERR TSDB: invalid increase/decrease value".into());
    }
    let mut series = match (series, settings) {
        (Some(series), _) => series,
        (None, settings) => {
            let (definition, labels) = settings.expect("read for an absent key").definition();
            Series::create(&mut context.keys(), &arguments[1], definition, &labels)
        }
    };
    let sample = Sample { timestamp, value };
    add_to(context, &mut series, sample, Some(DuplicatePolicy::Last))
}

fn delete(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 4)?;
    let query = Query::read(arguments, 2)?;
    let mut series = Series::to_change(context, &arguments[1])?;
    let groups = context.groups;
    let last = series.last(&mut context.keys()).map_or(0, |last| last.timestamp);
    let oldest = series.oldest_kept(last);
    let starts = series.definition.rules.iter().map(|rule| {
        super::reading::not_negative(super::reading::bucket_start(query.from, rule.bucket_ms, rule.alignment))
    });
    if !series.definition.rules.is_empty() && starts.chain([query.from]).any(|start| start < oldest) {
        return Err(
            "ERR TSDB: When a series has compactions, deleting samples or compaction buckets beyond the \
                    series retention period is not possible"
                .into(),
        );
    }
    let range = TimeRange {
        from: query.from,
        to: query.to,
    };
    let deleted = series::delete(&mut context.keys(), &series, range, groups.workspace())?;
    // Also without a deleted sample: buckets older than a rule are gathered now, as at the
    // original.
    if !series.definition.rules.is_empty() {
        rules::deleted(&mut context.keys(), groups, &mut series, range, last)?;
    }
    if deleted > 0 {
        note(context, &series);
    }
    context.reply.integer(deleted as i64);
    Ok(())
}

fn create_rule(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, matches!(arguments.len(), 6 | 7))?;
    let at = position(arguments, 1, "AGGREGATION").ok_or_else(|| wrong_arity(arguments))?;
    let (aggregators, bucket_ms) = aggregators_and_bucket(arguments, at, 1)?;
    let alignment = match arguments.get(6) {
        None => 0,
        Some(word) => timestamp(word).ok_or("ERR TSDB: Couldn't parse alignTimestamp")?,
    };
    let [aggregator] = aggregators[..] else {
        return Err("ERR TSDB: CREATERULE requires exactly one aggregation type".into());
    };
    if arguments[1] == arguments[2] {
        return Err("ERR TSDB: the source key and destination key should be different".into());
    }
    let mut source = Series::to_change(context, &arguments[1])?;
    rules::prune(&mut context.keys(), &mut source);
    if source.definition.source.is_some() {
        return Err("ERR TSDB: the source key already has a source rule".into());
    }
    let mut destination = Series::to_change(context, &arguments[2])?;
    rules::prune(&mut context.keys(), &mut destination);
    if !destination.definition.rules.is_empty() {
        return Err("ERR TSDB: the destination key already has a dst rule".into());
    }
    if destination.definition.source.is_some() {
        return Err("ERR TSDB: the destination key already has a src rule".into());
    }
    destination.definition.source = Some(source.id());
    destination.put(&mut context.keys());
    source.definition.rules.push(Rule {
        destination: destination.id(),
        aggregator,
        bucket_ms: bucket_ms.min(LAST_TIMESTAMP),
        alignment,
    });
    source.put(&mut context.keys());
    context.reply.ok();
    Ok(())
}

fn delete_rule(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 3)?;
    let mut source = Series::to_change(context, &arguments[1])?;
    rules::prune(&mut context.keys(), &mut source);
    let destination = context.keys().find(&arguments[2]);
    let destination = destination.and_then(|entry| Series::of_entry(&arguments[2], entry));
    let rule = destination.as_ref().and_then(|destination| {
        let rules = source.definition.rules.iter();
        rules.copied().find(|rule| rule.destination == destination.id())
    });
    let (Some(mut destination), Some(rule)) = (destination, rule) else {
        return Err("ERR TSDB: compaction rule does not exist".into());
    };
    gatherings::clear_gathering(&mut context.keys(), &source, &rule);
    source.definition.rules.retain(|other_rule| *other_rule != rule);
    source.put(&mut context.keys());
    destination.definition.source = None;
    destination.put(&mut context.keys());
    context.reply.ok();
    Ok(())
}
