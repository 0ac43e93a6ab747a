//! Intersection, union and difference of sets. An absent key is an empty set; a key of another kind
//! is an error, at any position among the operands.

use std::collections::HashSet;

use quartet_wire_resp::Arguments;

use super::{integers_max, value};
use crate::command::error_reply::ErrorReply;
use crate::command::repetition::Repetition;
use crate::handler::context::Context;
use crate::keyspace::{Elements, Entry, Keyspace, Kind};
use crate::{command::errors, command::parse, keyspace::packed, keyspace::scan};

pub fn sinter(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, intersection, smallest, lookups_of_intersection)
}

pub fn sunion(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, union_by_name, all, members_of_all)
}

pub fn sdiff(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    answer(context, arguments, difference, first, lookups_of_difference)
}

pub fn sinterstore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    store(context, arguments, intersection, smallest, lookups_of_intersection)
}

pub fn sunionstore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    store(context, arguments, union, all, members_of_all)
}

pub fn sdiffstore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    store(context, arguments, difference, first, lookups_of_difference)
}

/// The sets that a command names, in its order.
type Operands = Vec<Option<Entry>>;
type Operation = fn(&mut Keyspace<'_, '_>, Operands) -> Vec<Vec<u8>>;
/// The sets all of whose members an operation gathers.
type Walked = fn(&[Option<Entry>]) -> Vec<Entry>;
/// How many members an operation looks at or looks up.
type Size = fn(&[Option<Entry>]) -> u64;

fn answer(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    operation: Operation,
    walked: Walked,
    size: Size,
) -> Result<(), ErrorReply> {
    let operands = operands(context, arguments.tail(1))?;
    if context.must_end_before(size(&operands)) {
        return Ok(());
    }
    let mut workspace = context.workspace();
    context.takes_elements(&mut workspace, &walked(&operands))?;
    let members = operation(&mut context.keys(), operands);
    context.reply.set(members.len());
    members.iter().for_each(|member| context.reply.bulk(member));
    Ok(())
}

fn store(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    operation: Operation,
    walked: Walked,
    size: Size,
) -> Result<(), ErrorReply> {
    let operands = operands(context, arguments.tail(2))?;
    if context.must_end_before(size(&operands)) {
        return Ok(());
    }
    let mut workspace = context.workspace();
    context.takes_elements(&mut workspace, &walked(&operands))?;
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
    let must_end = |looked_up| groups.must_end_before(looked_up);
    let count = common(&mut context.keys(), operands, limit, &must_end, &mut |_| ());
    context.reply.integer(count as i64);
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

fn all(operands: &[Option<Entry>]) -> Vec<Entry> {
    operands.iter().flatten().cloned().collect()
}

fn first(operands: &[Option<Entry>]) -> Vec<Entry> {
    all(&operands[..1])
}

fn smallest(operands: &[Option<Entry>]) -> Vec<Entry> {
    match operands.iter().all(Option::is_some) {
        true => operands
            .iter()
            .flatten()
            .min_by_key(|entry| value::len(entry))
            .cloned()
            .into_iter()
            .collect(),
        false => Vec::new(),
    }
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
    let mut members = Vec::new();
    common(keys, operands, usize::MAX, &|_| false, &mut |member| {
        members.push(member)
    });
    members
}

/// Members that are looked at between two questions whether there are enough. As many of the
/// longest take 4 MiB.
pub const PAGE: u64 = 64;

/// Passes on at most `count_max` members that all sets have: members of the smallest set that the
/// others contain. Fewer if `must_end`, given the number of lookups, returns true. Returns their
/// number.
fn common(
    keys: &mut Keyspace<'_, '_>,
    operands: Operands,
    count_max: usize,
    must_end: &dyn Fn(u64) -> bool,
    visit: &mut dyn FnMut(Vec<u8>),
) -> usize {
    let Some(mut sets) = operands.into_iter().collect::<Option<Vec<Entry>>>() else {
        return 0;
    };
    sets.sort_by_key(value::len);
    let further: Vec<Membership<'_>> = sets[1..].iter().map(Membership::of).collect();
    let (mut count, mut cursor, mut looked_up) = (0, 0, 0);
    loop {
        let mut candidates = Vec::new();
        cursor = value::page(keys, &sets[0], cursor, PAGE, &mut |member| {
            candidates.push(member.to_vec())
        });
        looked_up += (candidates.len() * sets.len()) as u64;
        for member in candidates {
            if count >= count_max {
                return count;
            }
            if further.iter().all(|other| other.contains(keys, &member)) {
                visit(member);
                count += 1;
            }
        }
        if cursor == 0 || must_end(looked_up) {
            return count;
        }
    }
}

/// Sorted, so that what is written does not depend on any hash order.
fn union_by_name(keys: &mut Keyspace<'_, '_>, operands: Operands) -> Vec<Vec<u8>> {
    let mut members = union(keys, operands);
    members.sort_unstable();
    members
}

/// In the order of a large set's rows, in which the members of each large set already are: the sort
/// merges them, and a set that stores them writes one row after the other.
fn union(keys: &mut Keyspace<'_, '_>, operands: Operands) -> Vec<Vec<u8>> {
    let mut members = Vec::new();
    for entry in operands.iter().flatten() {
        value::each(keys, entry, &mut |member| {
            members.push((scan::position(member), member.to_vec()))
        });
    }
    members.sort();
    members.dedup();
    members.into_iter().map(|(_, member)| member).collect()
}

fn difference(keys: &mut Keyspace<'_, '_>, operands: Operands) -> Vec<Vec<u8>> {
    let Some(Some(first)) = operands.first() else {
        return Vec::new();
    };
    let subtracted: Vec<Membership<'_>> = operands[1..].iter().flatten().map(Membership::of).collect();
    let mut members = value::members(keys, first);
    members.retain(|member| !subtracted.iter().any(|other| other.contains(keys, member)));
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
