//! Intersection, union and difference of sets. An absent key is an empty set; a key of another kind
//! is an error, at any position among the operands.

use std::collections::{BTreeSet, HashSet};

use quartet_wire_resp::Arguments;

use super::{integers_max, value};
use crate::command::error_reply::ErrorReply;
use crate::command::repetition::Repetition;
use crate::handler::context::Context;
use crate::keyspace::{Elements, Entry, Keyspace, Kind};
use crate::{command::errors, command::parse, keyspace::packed, keyspace::scan};

pub fn sinter(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, intersection, lookups_of_intersection)
}

pub fn sunion(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, union, members_of_all)
}

pub fn sdiff(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, difference, lookups_of_difference)
}

pub fn sinterstore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    store(context, arguments, intersection)
}

pub fn sunionstore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    store(context, arguments, union)
}

pub fn sdiffstore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    store(context, arguments, difference)
}

/// The sets that a command names, in its order.
type Operands = Vec<Option<Entry>>;
type Operation = fn(&mut Keyspace<'_, '_>, Operands) -> Vec<Vec<u8>>;
/// How many members an operation looks at or looks up.
type Size = fn(&[Option<Entry>]) -> u64;

fn answer(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    operation: Operation,
    size: Size,
) -> Result<(), ErrorReply> {
    let operands = operands(context, arguments.tail(1))?;
    if context.must_end_before(size(&operands)) {
        return Ok(());
    }
    let members = operation(&mut context.keys(), operands);
    context.reply.set(members.len());
    members.iter().for_each(|member| context.reply.bulk(member));
    Ok(())
}

fn store(context: &mut Context<'_, '_>, arguments: Arguments<'_>, operation: Operation) -> Result<(), ErrorReply> {
    let operands = operands(context, arguments.tail(2))?;
    let integers_max = integers_max(context.config());
    let mut keys = context.keys();
    let members = operation(&mut keys, operands);
    let count = value::store(&mut keys, integers_max, &arguments[1], &members);
    context.reply.integer(count as i64);
    Ok(())
}

fn operands(context: &mut Context<'_, '_>, names: Arguments<'_>) -> Result<Operands, ErrorReply> {
    sets(context, names.iter())
}

fn sets<'a>(context: &mut Context<'_, '_>, names: impl Iterator<Item = &'a [u8]>) -> Result<Operands, ErrorReply> {
    let mut repetition = Repetition::default();
    let mut find = |name| {
        let entry = context.read_kind(name, Kind::Set)?;
        repetition.add(name, entry.as_ref().map_or(0, value::len))?;
        Ok(entry)
    };
    names.map(&mut find).collect()
}

pub fn sintercard(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let count = parse::integer(&arguments[1])
        .filter(|&count| count > 0)
        .ok_or(ErrorReply::new("ERR numkeys should be greater than 0"))?;
    if count > arguments.len() as i64 - 2 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let options = arguments.tail(2 + count as usize);
    let limit = limit(options)?;
    let names = arguments.iter().skip(2).take(count as usize);
    let operands = sets(context, names)?;
    let groups = context.groups;
    let is_over = || groups.must_end(groups.engine().now_micros());
    let found = common(&mut context.keys(), operands, limit, &is_over);
    context.reply.integer(found.len() as i64);
    Ok(())
}

/// LIMIT's value; 0, as none given: no limit. Given more than once, the last counts.
fn limit(options: Arguments<'_>) -> Result<usize, ErrorReply> {
    let mut limit = 0;
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let value = words.next().filter(|_| parse::is(word, "limit"));
        let value = value.ok_or(ErrorReply::new(errors::SYNTAX))?;
        limit = parse::integer(value)
            .and_then(|limit| usize::try_from(limit).ok())
            .ok_or(ErrorReply::new("ERR LIMIT can't be negative"))?;
    }
    Ok(if limit == 0 { usize::MAX } else { limit })
}

fn member_count(entry: Option<&Entry>) -> u64 {
    entry.map_or(0, value::len)
}

fn lookups_of_intersection(operands: &[Option<Entry>]) -> u64 {
    let smallest = operands.iter().map(|entry| member_count(entry.as_ref())).min();
    smallest.unwrap_or(0).saturating_mul(operands.len() as u64)
}

fn lookups_of_difference(operands: &[Option<Entry>]) -> u64 {
    let first = member_count(operands.first().and_then(Option::as_ref));
    first.saturating_mul(operands.len() as u64)
}

fn members_of_all(operands: &[Option<Entry>]) -> u64 {
    operands.iter().map(|entry| member_count(entry.as_ref())).sum()
}

fn intersection(keys: &mut Keyspace<'_, '_>, operands: Operands) -> Vec<Vec<u8>> {
    common(keys, operands, usize::MAX, &|| false)
}

/// Members that are looked at between two looks at the clock.
const MEMBERS_AT_A_TIME: u64 = 1024;

/// At most `count_max` members that all sets have: those of the smallest that the others contain,
/// which is walked no further than needed. Ends without an answer if `is_over` says so.
fn common(
    keys: &mut Keyspace<'_, '_>,
    operands: Operands,
    count_max: usize,
    is_over: &dyn Fn() -> bool,
) -> Vec<Vec<u8>> {
    let Some(mut sets) = operands.into_iter().collect::<Option<Vec<Entry>>>() else {
        return Vec::new();
    };
    sets.sort_by_key(value::len);
    let others: Vec<Membership<'_>> = sets[1..].iter().map(Membership::of).collect();
    let mut found = Vec::new();
    for start in (0..value::len(&sets[0])).step_by(MEMBERS_AT_A_TIME as usize) {
        for member in value::run(keys, &sets[0], start..start + MEMBERS_AT_A_TIME) {
            if found.len() == count_max {
                return found;
            }
            if others.iter().all(|other| other.contains(keys, &member)) {
                found.push(member);
            }
        }
        if is_over() {
            break;
        }
    }
    found
}

/// Sorted, so that what is written does not depend on any hash order.
fn union(keys: &mut Keyspace<'_, '_>, operands: Operands) -> Vec<Vec<u8>> {
    let mut members = BTreeSet::new();
    for entry in operands.iter().flatten() {
        value::each(keys, entry, &mut |member| {
            if !members.contains(member) {
                members.insert(member.to_vec());
            }
        });
    }
    members.into_iter().collect()
}

fn difference(keys: &mut Keyspace<'_, '_>, operands: Operands) -> Vec<Vec<u8>> {
    let Some(Some(first)) = operands.first() else {
        return Vec::new();
    };
    let others: Vec<Membership<'_>> = operands[1..].iter().flatten().map(Membership::of).collect();
    let mut members = value::members(keys, first);
    members.retain(|member| !others.iter().any(|other| other.contains(keys, member)));
    members
}

/// A set prepared for many membership tests.
enum Membership<'e> {
    Small(HashSet<&'e [u8]>),
    Large(Elements),
}

impl<'e> Membership<'e> {
    fn of(entry: &'e Entry) -> Membership<'e> {
        if entry.is_large() {
            Membership::Large(entry.elements())
        } else {
            Membership::Small(packed::iter(entry.payload()).collect())
        }
    }

    fn contains(&self, keys: &mut Keyspace<'_, '_>, member: &[u8]) -> bool {
        match self {
            Membership::Small(members) => members.contains(member),
            Membership::Large(elements) => scan::get(elements, keys.tx, member).is_some(),
        }
    }
}
