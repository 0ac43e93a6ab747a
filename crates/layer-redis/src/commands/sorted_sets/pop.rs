//! Commands that take members from either end: ZPOPMIN, ZPOPMAX, ZMPOP, and those of them that
//! wait.

use quartet_wire_resp::{Arguments, Protocol};

use super::value::{SortedSet, pair_of, remove_run, take_end};
use crate::command::error_reply::ErrorReply;
use crate::connections::blocking::EmptyReply;
use crate::handler::command_memory::ELEMENT_BYTES;
use crate::handler::context::Context;
use crate::handler::outcome::Outcome;
use crate::keyspace::Kind;
use crate::{command::errors, command::parse};

/// Which end of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Lowest,
    Highest,
}

/// How what was popped is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Member, score, member, score.
    Flat,
    /// The same in RESP2, pairs in RESP3.
    Pairs,
    /// Key, member, score.
    KeyFlat,
    /// Key, array of pairs.
    KeyPairs,
}

pub fn zpopmin(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    pop_one_key(context, arguments, End::Lowest)
}

pub fn zpopmax(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    pop_one_key(context, arguments, End::Highest)
}

fn pop_one_key(context: &mut Context<'_, '_>, arguments: Arguments<'_>, end: End) -> Result<(), ErrorReply> {
    if arguments.len() > 3 {
        return Err(errors::SYNTAX.into());
    }
    let (count, shape) = match arguments.get(2) {
        Some(count) => (positive(count, 0, errors::OUT_OF_RANGE_POSITIVE)?, Shape::Pairs),
        None => (1, Shape::Flat),
    };
    if !pop_first(context, &[&arguments[1]], end, count, shape)? {
        context.reply.array(0);
    }
    Ok(())
}

pub fn bzpopmin(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    pop_or_wait(context, arguments, End::Lowest)
}

pub fn bzpopmax(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    pop_or_wait(context, arguments, End::Highest)
}

fn pop_or_wait(context: &mut Context<'_, '_>, arguments: Arguments<'_>, end: End) -> Result<Outcome, ErrorReply> {
    let timeout = &arguments[arguments.len() - 1];
    let names: Vec<&[u8]> = arguments.iter().take(arguments.len() - 1).skip(1).collect();
    parse::deadline_ms(timeout, context.now_ms)?;
    if pop_first(context, &names, end, 1, Shape::KeyFlat)? {
        return Ok(Outcome::Done);
    }
    wait(context, &names, timeout)
}

pub fn zmpop(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (names, end, count) = several_keys(arguments.tail(1))?;
    if !pop_first(context, &names, end, count, Shape::KeyPairs)? {
        context.reply.null_array();
    }
    Ok(())
}

pub fn bzmpop(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let (names, end, count) = several_keys(arguments.tail(2))?;
    parse::deadline_ms(&arguments[1], context.now_ms)?;
    if pop_first(context, &names, end, count, Shape::KeyPairs)? {
        return Ok(Outcome::Done);
    }
    wait(context, &names, &arguments[1])
}

fn wait(context: &mut Context<'_, '_>, names: &[&[u8]], timeout: &[u8]) -> Result<Outcome, ErrorReply> {
    let names = names.iter().map(|name| name.to_vec()).collect();
    context.block_on(names, timeout, EmptyReply::NullArray)
}

/// Number of keys, keys, end, and perhaps a count.
fn several_keys(arguments: Arguments<'_>) -> Result<(Vec<&[u8]>, End, u64), ErrorReply> {
    let announced = positive(&arguments[0], 1, "ERR numkeys should be greater than 0")?;
    // At least the end's name must follow the keys.
    if announced > arguments.len().saturating_sub(2) as u64 {
        return Err(errors::SYNTAX.into());
    }
    let key_count = announced as usize;
    let names = arguments.iter().skip(1).take(key_count).collect();
    let end = match &arguments[key_count + 1] {
        word if parse::is(word, "min") => End::Lowest,
        word if parse::is(word, "max") => End::Highest,
        _ => return Err(errors::SYNTAX.into()),
    };
    let options = arguments.tail(key_count + 2);
    let count = match options.len() {
        0 => 1,
        2 if parse::is(&options[0], "count") => positive(&options[1], 1, "ERR count should be greater than 0")?,
        // A second option is an error, but a wrong count in front of it is found first.
        length if length > 2 && parse::is(&options[0], "count") => {
            positive(&options[1], 1, "ERR count should be greater than 0")?;
            return Err(errors::SYNTAX.into());
        }
        _ => return Err(errors::SYNTAX.into()),
    };
    Ok((names, end, count))
}

fn positive(text: &[u8], least: i64, error: &'static str) -> Result<u64, ErrorReply> {
    parse::integer(text)
        .filter(|&value| value >= least)
        .map(|value| value as u64)
        .ok_or(ErrorReply::new(error))
}

/// Pops from the first key that has members, and replies. Returns false if there is none. Keys of
/// another kind were reported at the first call of a blocking command; on later calls they are
/// skipped.
fn pop_first(
    context: &mut Context<'_, '_>,
    names: &[&[u8]],
    end: End,
    count: u64,
    shape: Shape,
) -> Result<bool, ErrorReply> {
    for name in names {
        if !context.may_be_served_by(name) {
            continue;
        }
        let found = match context.keys().find_kind(name, Kind::SortedSet) {
            Err(_) if context.is_retry() => None,
            found => found?,
        };
        if let Some(entry) = found {
            pop(context, name, SortedSet::of(entry), end, count, shape)?;
            return Ok(true);
        }
    }
    Ok(false)
}

fn pop(
    context: &mut Context<'_, '_>,
    name: &[u8],
    set: SortedSet,
    end: End,
    count: u64,
    shape: Shape,
) -> Result<(), ErrorReply> {
    let count = count.min(set.len());
    let ranks = match end {
        End::Lowest => 0..count,
        End::Highest => set.len() - count..set.len(),
    };
    if context.must_end_before(count) {
        return Ok(());
    }
    let nested = write_shape(context, name, count as usize, shape);
    if count == 1 && set.len() > 1 && set.entry().is_large() {
        let row = take_end(&mut context.keys(), name, &set, end == End::Highest);
        if let Some((member, score)) = row.as_ref().map(pair_of) {
            write_pair(context, nested, member, score);
        }
        return Ok(());
    }
    let (mut workspace, mut outcome) = (context.workspace(), Ok(()));
    workspace.take(count as usize * size_of::<(Vec<u8>, f64)>())?;
    let mut popped = Vec::with_capacity(count as usize);
    set.visit(context.tx, ranks.clone(), end == End::Highest, &mut |member, score| {
        if outcome.is_ok() {
            outcome = workspace.take(member.len() + ELEMENT_BYTES);
            popped.push((member.to_vec(), score));
        }
    });
    outcome?;
    for (member, score) in &popped {
        write_pair(context, nested, member, *score);
    }
    let config = context.config();
    let members = popped.iter().map(|(member, _)| member.as_slice());
    remove_run(&mut context.keys(), config, name, &set, ranks, members);
    Ok(())
}

fn write_pair(context: &mut Context<'_, '_>, nested: bool, member: &[u8], score: f64) {
    if nested {
        context.reply.array(2);
    }
    context.reply.bulk(member);
    context.reply.double(score);
}

/// Writes the head of the reply before the pairs. Returns true if each pair is an array of its own.
fn write_shape(context: &mut Context<'_, '_>, name: &[u8], count: usize, shape: Shape) -> bool {
    let reply = &mut context.reply;
    let nested = shape == Shape::KeyPairs || shape == Shape::Pairs && reply.protocol() == Protocol::Resp3;
    match shape {
        Shape::Flat | Shape::Pairs => reply.array(if nested { count } else { 2 * count }),
        Shape::KeyFlat => {
            reply.array(1 + 2 * count);
            reply.bulk(name);
        }
        Shape::KeyPairs => {
            reply.array(2);
            reply.bulk(name);
            reply.array(count);
        }
    }
    nested
}
