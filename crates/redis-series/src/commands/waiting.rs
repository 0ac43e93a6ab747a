//! TS.READ: the samples from a timestamp on, or a wait for them.

use quartet_layer_redis::module_api::definition::*;
use quartet_layer_redis::module_api::{Block, Context, EmptyReply, parse};
use quartet_wire_resp::{Arguments, encode_command};

use super::groups::SERIES;
use super::replies;
use super::requests::*;
use super::series::{LAST_TIMESTAMP, Series, wrong_type};

const FAMILY: Family = Family::of(SERIES)
    .keys(ONE_KEY)
    .since("8.10.0")
    .complexity("O(N) in the number of samples");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("ts.read", -1, READONLY | BLOCKING, "Returns the samples from a timestamp on, and waits for them if it is told to.", Decides(read)),
];

const NOT_HERE: &str =
    "TSDB: blocking TS.READ (with BLOCK) is not allowed inside MULTI, EVAL, or a deny-blocking context";
/// Marks the end of a wait in a request that is executed again, as milliseconds since the Unix
/// epoch.
const DEADLINE: u8 = b'@';

/// How long a request waits.
struct Wait {
    deadline_ms: Option<u64>,
    /// Samples that end the wait.
    count_min: u64,
}

struct Request {
    from: u64,
    wait: Option<Wait>,
    count_max: Option<u64>,
}

fn read_request(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Request, ErrorReply> {
    let options = 3.min(arguments.len());
    let block_at = position(arguments, options, "BLOCK");
    let count_at = position(arguments, options, "MAX_COUNT");
    let length = 3 + if block_at.is_some() { 3 } else { 0 } + if count_at.is_some() { 2 } else { 0 };
    check_arity(arguments, arguments.len() == length)?;
    let wait = match block_at {
        Some(at) => Some(read_wait(context, arguments, at)?),
        None => None,
    };
    let positive = |at: usize| {
        let number = arguments.get(at).and_then(parse::integer);
        number.filter(|number| *number > 0).map(|number| number as u64)
    };
    let count_max = match count_at {
        Some(at) => Some(positive(at + 1).ok_or("TSDB: MAX_COUNT must be a positive integer")?),
        None => None,
    };
    let count_min = wait.as_ref().map_or(1, |wait| wait.count_min);
    if count_max.is_some_and(|count_max| count_min > count_max) {
        return Err("TSDB: BLOCK min_count must be <= MAX_COUNT".into());
    }
    let from = read_from(context, arguments)?;
    Ok(Request { from, wait, count_max })
}

fn read_wait(context: &Context<'_, '_>, arguments: Arguments<'_>, at: usize) -> Result<Wait, ErrorReply> {
    const NO_TIME: &str = "TSDB: BLOCK milliseconds must be a non-negative integer";
    let word = arguments.get(at + 1).unwrap_or_default();
    let deadline_ms = match word.split_first() {
        Some((&DEADLINE, deadline)) if context.is_retry() => parse::unsigned(deadline),
        _ => match timestamp(word).ok_or(NO_TIME)? {
            0 => None,
            milliseconds => Some(context.now_ms.saturating_add(milliseconds)),
        },
    };
    let count_min = arguments.get(at + 2).and_then(parse::integer).ok_or(NO_TIME)?;
    match count_min > 0 {
        true => Ok(Wait {
            deadline_ms,
            count_min: count_min as u64,
        }),
        false => Err("TSDB: BLOCK min_count must be a positive integer".into()),
    }
}

/// The first timestamp that is read: `+` is the last timestamp, `$` the next.
fn read_from(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<u64, ErrorReply> {
    match &arguments[2] {
        b"-" => Ok(0),
        sign @ (b"+" | b"$") => {
            let series = find(context, &arguments[1])?;
            let last = series.and_then(|series| series.last(&mut context.keys()));
            Ok(last.map_or(0, |last| last.timestamp + u64::from(sign == b"$")))
        }
        word => timestamp(word).ok_or("TSDB: invalid timestamp".into()),
    }
}

fn find(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Option<Series>, ErrorReply> {
    match context.read(name) {
        None => Ok(None),
        Some(entry) => Series::of_entry(name, entry)
            .map(Some)
            .ok_or_else(|| wrong_type().ending_wait()),
    }
}

fn read(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    let request = read_request(context, arguments)?;
    let series = find(context, &arguments[1])?;
    let query = Query {
        from: request.from,
        to: LAST_TIMESTAMP,
        takes_latest: false,
        count: request.count_max,
        aggregation: None,
        values: None,
        timestamps: None,
    };
    if let Some(wait) = &request.wait {
        let is_over = wait
            .deadline_ms
            .is_some_and(|deadline_ms| deadline_ms <= context.now_ms);
        let is_gone = series.is_none() && context.is_retry();
        let has_enough = match &series {
            Some(series) => has_samples(context, series, &query, wait.count_min)?,
            None => false,
        };
        if !is_over && !is_gone && !has_enough {
            return waits(context, arguments, request.from, wait);
        }
    }
    match series {
        Some(series) => replies::samples(context, &series, &query, false)?,
        None => context.reply.array(0),
    }
    Ok(Outcome::Done)
}

fn has_samples(
    context: &mut Context<'_, '_>,
    series: &Series,
    query: &Query,
    count_min: u64,
) -> Result<bool, ErrorReply> {
    let groups = context.groups;
    let counted = Query {
        count: Some(count_min),
        ..query.clone()
    };
    let mut count = 0;
    super::reading::run(&mut context.keys(), groups, series, &counted, false, &mut |_, _| {
        count += 1;
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(count >= count_min)
}

/// Registers to be called again when the series changes, and at the end of the wait, which answers
/// what there is then.
fn waits(context: &Context<'_, '_>, arguments: Arguments<'_>, from: u64, wait: &Wait) -> Result<Outcome, ErrorReply> {
    if context.in_exec || context.client.is_script {
        return Err(NOT_HERE.into());
    }
    let mut words: Vec<Vec<u8>> = arguments.iter().map(<[u8]>::to_vec).collect();
    words[2] = from.to_string().into_bytes();
    if let (Some(at), Some(deadline_ms)) = (position(arguments, 3, "BLOCK"), wait.deadline_ms) {
        words[at + 1] = format!("{}{deadline_ms}", char::from(DEADLINE)).into_bytes();
    }
    let mut again = Vec::new();
    encode_command(&words, &mut again);
    Ok(Outcome::Wait(Box::new(Block {
        keys: vec![arguments[1].to_vec()],
        deadline_ms: None,
        in_exec: EmptyReply::NullArray,
        ask_again: Some(again),
        even_if_gone: true,
        even_below: false,
        again_at_ms: wait.deadline_ms,
    })))
}
