//! Commands about single members: ZADD, ZREM, ZSCORE, ZRANK and their like, ZRANDMEMBER, ZSCAN.

use quartet_wire_resp::{Arguments, format_double};

use super::range::{write_head, write_pair};
use super::value::{Editor, Order, SortedSet, order_of, pair_bound, row_score, score_of};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::random::PickCount;
use crate::keyspace::scan::{self, Scan};
use crate::keyspace::{Entry, Kind, NAME_BYTES_MAX};
use crate::{command::errors, command::parse};

const NOT_A_NUMBER: &str = "ERR resulting score is not a number (NaN)";
const MEMBER_TOO_LARGE: &str = "ERR member exceeds the maximum size of 65000 bytes";

/// The options of ZADD. `Default` is a plain ZADD.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    pub only_new: bool,
    pub only_existing: bool,
    pub only_greater: bool,
    pub only_less: bool,
    pub count_changed: bool,
    pub increment: bool,
}

/// The outcome of one pair of ZADD.
enum Outcome {
    /// The conditions forbid it.
    Refused,
    /// The member has this score from now on; it may have had it before.
    Score(f64),
}

pub fn zadd(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (conditions, pairs) = zadd_options(arguments);
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return Err(errors::SYNTAX.into());
    }
    check_conditions(conditions, pairs.len() / 2)?;
    add(context, &arguments[1], conditions, &read_pairs(pairs)?)
}

pub fn zincrby(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let conditions = Conditions {
        increment: true,
        ..Conditions::default()
    };
    add(context, &arguments[1], conditions, &read_pairs(arguments.tail(2))?)
}

/// Parses the options. Returns them, and the scores and members after them.
fn zadd_options(arguments: Arguments<'_>) -> (Conditions, Arguments<'_>) {
    let mut conditions = Conditions::default();
    let mut position = 2;
    while let Some(word) = arguments.get(position) {
        match () {
            () if parse::is(word, "nx") => conditions.only_new = true,
            () if parse::is(word, "xx") => conditions.only_existing = true,
            () if parse::is(word, "gt") => conditions.only_greater = true,
            () if parse::is(word, "lt") => conditions.only_less = true,
            () if parse::is(word, "ch") => conditions.count_changed = true,
            () if parse::is(word, "incr") => conditions.increment = true,
            () => break,
        }
        position += 1;
    }
    (conditions, arguments.tail(position))
}

fn check_conditions(conditions: Conditions, pairs: usize) -> Result<(), ErrorReply> {
    if conditions.only_new && conditions.only_existing {
        return Err("ERR XX and NX options at the same time are not compatible".into());
    }
    let exclusive = [conditions.only_greater, conditions.only_less, conditions.only_new];
    if exclusive.into_iter().filter(|&is_set| is_set).count() > 1 {
        return Err("ERR GT, LT, and/or NX options at the same time are not compatible".into());
    }
    if conditions.increment && pairs > 1 {
        return Err("ERR INCR option supports a single increment-element pair".into());
    }
    Ok(())
}

/// Scores and members, added under the conditions. Only a single increment can fail, and nothing
/// has been written then; or a member that is too long, which is found first.
pub fn add(
    context: &mut Context<'_, '_>,
    name: &[u8],
    conditions: Conditions,
    pairs: &[(f64, &[u8])],
) -> Result<(), ErrorReply> {
    if pairs.iter().any(|(_, member)| member.len() > NAME_BYTES_MAX) {
        return Err(MEMBER_TOO_LARGE.into());
    }
    let config = context.config();
    let mut keys = context.keys();
    let entry = keys.find_kind(name, Kind::SortedSet)?;
    let (mut added, mut updated, mut last) = (0, 0, None);
    if entry.is_some() || !conditions.only_existing {
        let mut editor = Editor::new(entry.as_ref(), config);
        for &(score, member) in pairs {
            let existing = editor.find(keys.tx, member);
            let old = existing.order;
            let Outcome::Score(new) = decide(conditions, old, score)? else {
                continue;
            };
            last = Some(new);
            if old == Some(order_of(new)) {
                continue;
            }
            added += i64::from(old.is_none());
            updated += i64::from(old.is_some());
            editor.put(&mut keys, existing, order_of(new));
        }
        editor.finish(&mut keys, name);
        context.note_change(name, entry.as_ref());
    }
    match (conditions.increment, last) {
        (true, Some(score)) => context.reply.double(score),
        (true, None) => context.reply.null(),
        (false, _) if conditions.count_changed => context.reply.integer(added + updated),
        (false, _) => context.reply.integer(added),
    }
    Ok(())
}

/// Scores and members one after the other.
fn read_pairs(arguments: Arguments<'_>) -> Result<Vec<(f64, &[u8])>, ErrorReply> {
    let mut pairs = Vec::with_capacity(arguments.len() / 2);
    let mut words = arguments.iter();
    while let Some((score, member)) = words.next().zip(words.next()) {
        pairs.push((parse::required_float(score)?, member));
    }
    Ok(pairs)
}

fn decide(conditions: Conditions, old: Option<Order>, score: f64) -> Result<Outcome, ErrorReply> {
    let Some(old) = old.map(score_of) else {
        return Ok(if conditions.only_existing {
            Outcome::Refused
        } else {
            Outcome::Score(score)
        });
    };
    if conditions.only_new {
        return Ok(Outcome::Refused);
    }
    let new = if conditions.increment { old + score } else { score };
    if new.is_nan() {
        return Err(NOT_A_NUMBER.into());
    }
    if conditions.only_less && new >= old || conditions.only_greater && new <= old {
        return Ok(Outcome::Refused);
    }
    Ok(Outcome::Score(new))
}

pub fn zrem(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let config = context.config();
    let mut keys = context.keys();
    let mut removed = 0;
    if let Some(entry) = keys.find_kind(&arguments[1], Kind::SortedSet)? {
        let mut editor = Editor::new(Some(&entry), config);
        removed = editor.remove(&mut keys, arguments.tail(2).iter()) as i64;
        editor.finish(&mut keys, &arguments[1]);
    }
    context.reply.integer(removed);
    Ok(())
}

/// The sorted set that a command reads.
pub fn read(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Option<SortedSet>, ErrorReply> {
    let entry: Option<Entry> = context.read_kind(name, Kind::SortedSet)?;
    Ok(entry.map(SortedSet::of))
}

pub fn zscore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let set = read(context, &arguments[1])?;
    write_score(context, set.as_ref(), &arguments[2]);
    Ok(())
}

pub fn zmscore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let set = read(context, &arguments[1])?;
    context.reply.array(arguments.len() - 2);
    for member in arguments.iter().skip(2) {
        write_score(context, set.as_ref(), member);
    }
    Ok(())
}

fn write_score(context: &mut Context<'_, '_>, set: Option<&SortedSet>, member: &[u8]) {
    match set.and_then(|set| set.score(context.tx, member)) {
        Some(score) => context.reply.double(score),
        None => context.reply.null(),
    }
}

pub fn zcard(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let set = read(context, &arguments[1])?;
    context.reply.integer(set.map_or(0, |set| set.len() as i64));
    Ok(())
}

pub fn zrank(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    rank(context, arguments, "zrank", false)
}

pub fn zrevrank(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    rank(context, arguments, "zrevrank", true)
}

fn rank(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    command: &str,
    reverse: bool,
) -> Result<(), ErrorReply> {
    if arguments.len() > 4 {
        return Err(format!("ERR wrong number of arguments for '{command}' command").into());
    }
    let with_score = arguments.len() == 4;
    if with_score && !parse::is(&arguments[3], "withscore") {
        return Err(errors::SYNTAX.into());
    }
    let rank_of_member = read(context, &arguments[1])?.and_then(|set| {
        let order = set.order(context.tx, &arguments[2])?;
        let rank = set.rank(context.tx, &pair_bound(order, &arguments[2]));
        Some((if reverse { set.len() - 1 - rank } else { rank }, score_of(order)))
    });
    match rank_of_member {
        Some((rank, score)) if with_score => {
            context.reply.array(2);
            context.reply.integer(rank as i64);
            context.reply.double(score);
        }
        Some((rank, _)) => context.reply.integer(rank as i64),
        None if with_score => context.reply.null_array(),
        None => context.reply.null(),
    }
    Ok(())
}

pub fn zrandmember(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let Some(count) = arguments.get(2) else {
        return one_random(context, &arguments[1]);
    };
    let count = PickCount::parse(count)?;
    let with_scores = arguments.len() == 4 && parse::is(&arguments[3], "withscores");
    if arguments.len() > 3 && !with_scores {
        return Err(errors::SYNTAX.into());
    }
    let count = if with_scores { count.of_pairs()? } else { count };
    let Some(set) = read(context, &arguments[1])? else {
        context.reply.array(0);
        return Ok(());
    };
    let mut workspace = context.workspace();
    workspace.take(count.bytes(set.len()))?;
    let ranks = count.positions(context.random(), set.len())?;
    write_head(&mut context.reply, ranks.len(), with_scores);
    for rank in ranks {
        let reply = &mut context.reply;
        set.visit(context.tx, rank..rank + 1, false, &mut |member, score| {
            write_pair(reply, member, score, with_scores);
        });
    }
    Ok(())
}

fn one_random(context: &mut Context<'_, '_>, name: &[u8]) -> Result<(), ErrorReply> {
    let Some(set) = read(context, name)? else {
        context.reply.null();
        return Ok(());
    };
    let rank = context.random().below(set.len());
    let reply = &mut context.reply;
    set.visit(context.tx, rank..rank + 1, false, &mut |member, _| reply.bulk(member));
    Ok(())
}

pub fn zscan(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let cursor = scan::cursor(&arguments[2])?;
    let Some(set) = read(context, &arguments[1])? else {
        scan::write_page(&mut context.reply, 0, &[]);
        return Ok(());
    };
    let options = scan::options(arguments.tail(3), Scan::SortedSet)?;
    let mut members = context.gathered_list();
    let mut visit = |member: &[u8], score: f64| {
        if options.matches(member) {
            members.push(member);
            if !options.no_values {
                // A string in either protocol.
                let mut text = Vec::new();
                format_double(score, &mut text);
                members.push(&text);
            }
        }
    };
    let mut next = 0;
    if set.entry().is_large() {
        let elements = set.entry().elements();
        next = scan::page(&elements, context.tx, cursor, options.count, &mut |member, value| {
            visit(member, row_score(value));
        });
    } else {
        set.visit(context.tx, 0..set.len(), false, &mut visit);
    }
    scan::write_page(&mut context.reply, next, members.all()?);
    Ok(())
}
