//! Commands that only look at a list: LLEN, LINDEX, LRANGE, LPOS.

use std::ops::ControlFlow;

use quartet_wire_resp::Arguments;

use super::rows::{self, End};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::{Keyspace, Kind};
use crate::{command::errors, command::parse};

/// Redis' index, which counts from the end if negative, as one inside `0..length`.
pub fn index_in(index: i64, length: u64) -> Option<u64> {
    let index = if index < 0 {
        index.checked_add(length as i64)?
    } else {
        index
    };
    (0..length as i64).contains(&index).then_some(index as u64)
}

pub fn llen(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.read_kind(&arguments[1], Kind::List)?;
    context
        .reply
        .integer(entry.map_or(0, |entry| rows::length(&entry)) as i64);
    Ok(())
}

pub fn lindex(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let Some(entry) = context.read_kind(&arguments[1], Kind::List)? else {
        context.reply.null();
        return Ok(());
    };
    let index = parse::required_integer(&arguments[2])?;
    let mut element = None;
    if let Some(index) = index_in(index, rows::length(&entry)) {
        rows::range(&mut context.keys(), &entry, index..index + 1, &mut |value| {
            element = Some(value.to_vec());
        });
    }
    match element {
        Some(value) => context.reply.bulk(&value),
        None => context.reply.null(),
    }
    Ok(())
}

pub fn lrange(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let start = parse::required_integer(&arguments[2])?;
    let stop = parse::required_integer(&arguments[3])?;
    let Some(entry) = context.read_kind(&arguments[1], Kind::List)? else {
        context.reply.array(0);
        return Ok(());
    };
    let range = parse::index_range(start, stop, rows::length(&entry));
    if context.must_end_before(range.end - range.start) {
        return Ok(());
    }
    context.reply.array((range.end - range.start) as usize);
    let mut keys = Keyspace {
        tx: context.tx,
        db: context.client.db,
        now_ms: context.now_ms,
        changes: context.groups.changes(),
    };
    rows::range(&mut keys, &entry, range, &mut |value| context.reply.bulk(value));
    Ok(())
}

/// The search of LPOS.
struct Search<'a> {
    value: &'a [u8],
    from: End,
    /// Matches to pass over first.
    skip: u64,
    /// `None`: one, answered without a list around it.
    count: Option<u64>,
    /// Comparisons at most.
    compared_max: u64,
}

pub fn lpos(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let search = lpos_options(arguments)?;
    let entry = context.read_kind(&arguments[1], Kind::List)?;
    let positions = entry.map_or_else(Vec::new, |entry| indexes(&mut context.keys(), &entry, &search));
    match (search.count, positions.first()) {
        (Some(_), _) => {
            context.reply.array(positions.len());
            positions.iter().for_each(|index| context.reply.integer(*index as i64));
        }
        (None, Some(index)) => context.reply.integer(*index as i64),
        (None, None) => context.reply.null(),
    }
    Ok(())
}

fn indexes(keys: &mut Keyspace<'_, '_>, entry: &crate::keyspace::Entry, search: &Search<'_>) -> Vec<u64> {
    let count = search.count.unwrap_or(1);
    let (mut positions, mut skipped, mut compared) = (Vec::new(), 0, 0);
    rows::search(keys, entry, search.from, &mut |index, value| {
        if value == search.value {
            if skipped < search.skip {
                skipped += 1;
            } else {
                positions.push(index);
            }
        }
        compared += 1;
        if positions.len() as u64 == count || compared == search.compared_max {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    positions
}

fn lpos_options(arguments: Arguments<'_>) -> Result<Search<'_>, ErrorReply> {
    let mut search = Search {
        value: arguments.get(2).expect("the arity is three at least"),
        from: End::Left,
        skip: 0,
        count: None,
        compared_max: u64::MAX,
    };
    let options: Vec<&[u8]> = arguments.iter().skip(3).collect();
    for option in options.chunks(2) {
        let &[word, number] = option else {
            return Err(errors::SYNTAX.into());
        };
        if parse::is(word, "rank") {
            let rank = parse::required_integer(number)?;
            if rank == 0 {
                return Err(RANK_ZERO.into());
            }
            if rank == i64::MIN {
                return Err(RANK_OUT_OF_RANGE.into());
            }
            search.from = if rank > 0 { End::Left } else { End::Right };
            search.skip = rank.unsigned_abs() - 1;
        } else if parse::is(word, "count") {
            let count = parse::integer(number)
                .filter(|count| *count >= 0)
                .ok_or(COUNT_NEGATIVE)?;
            search.count = Some(if count == 0 { u64::MAX } else { count as u64 });
        } else if parse::is(word, "maxlen") {
            let most = parse::integer(number)
                .filter(|most| *most >= 0)
                .ok_or(MAXLEN_NEGATIVE)?;
            search.compared_max = if most == 0 { u64::MAX } else { most as u64 };
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    Ok(search)
}

const RANK_ZERO: &str = "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list";
const RANK_OUT_OF_RANGE: &str =
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";
const COUNT_NEGATIVE: &str = "ERR COUNT can't be negative";
const MAXLEN_NEGATIVE: &str = "ERR MAXLEN can't be negative";
