//! The commands on the members of one set, and SMOVE. Replies follow the pages at
//! <https://redis.io/docs/latest/commands/>.

use quartet_wire_resp::Arguments;

use super::integers_max;
use super::value::{self, MEMBER_BYTES_MAX};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::random::PickCount;
use crate::keyspace::scan::{self, Scan};
use crate::keyspace::{Entry, Kind};
use crate::{command::errors, command::parse};

const MEMBER_TOO_LARGE: &str = "ERR member exceeds the maximum size of 65000 bytes";

pub fn sadd(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let integers_max = integers_max(context.config());
    let mut keys = context.keys();
    let entry = keys.find_kind(&arguments[1], Kind::Set)?;
    let mut members = arguments.tail(2).iter();
    if members.clone().any(|member| member.len() > MEMBER_BYTES_MAX) {
        return Err(MEMBER_TOO_LARGE.into());
    }
    let added = value::add(&mut keys, integers_max, &arguments[1], entry.as_ref(), &mut members);
    context.reply.integer(added as i64);
    Ok(())
}

pub fn srem(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mut keys = context.keys();
    let entry = keys.find_kind(&arguments[1], Kind::Set)?;
    let members = arguments.tail(2).iter();
    let removed = entry.map_or(0, |entry| value::remove(&mut keys, &arguments[1], &entry, members));
    context.reply.integer(removed as i64);
    Ok(())
}

pub fn smembers(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.read_kind(&arguments[1], Kind::Set)?;
    if context.must_end_before(entry.as_ref().map_or(0, value::len)) {
        return Ok(());
    }
    let (mut keys, reply) = context.keys_and_reply();
    let Some(entry) = entry else {
        reply.set(0);
        return Ok(());
    };
    reply.set(value::len(&entry) as usize);
    value::each(&mut keys, &entry, &mut |member| reply.bulk(member));
    Ok(())
}

pub fn sismember(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.read_kind(&arguments[1], Kind::Set)?;
    reply_membership(context, entry.as_ref(), &arguments[2]);
    Ok(())
}

pub fn smismember(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.read_kind(&arguments[1], Kind::Set)?;
    context.reply.array(arguments.len() - 2);
    for member in arguments.iter().skip(2) {
        reply_membership(context, entry.as_ref(), member);
    }
    Ok(())
}

fn reply_membership(context: &mut Context<'_, '_>, entry: Option<&Entry>, member: &[u8]) {
    let mut keys = context.keys();
    let is_member = entry.is_some_and(|entry| value::contains(&mut keys, entry, member));
    context.reply.integer(i64::from(is_member));
}

pub fn scard(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.read_kind(&arguments[1], Kind::Set)?;
    context
        .reply
        .integer(entry.map_or(0, |entry| value::len(&entry) as i64));
    Ok(())
}

/// An absent source answers 0 before the destination's kind is looked at, as in Redis.
pub fn smove(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (from, to, member) = (&arguments[1], &arguments[2], &arguments[3]);
    let integers_max = integers_max(context.config());
    let mut keys = context.keys();
    let Some(source) = keys.find_kind(from, Kind::Set)? else {
        context.reply.integer(0);
        return Ok(());
    };
    let destination = keys.find_kind(to, Kind::Set)?;
    let is_member = value::contains(&mut keys, &source, member);
    if is_member && from != to {
        value::remove(&mut keys, from, &source, std::iter::once(member));
        let mut members = std::iter::once(member);
        value::add(&mut keys, integers_max, to, destination.as_ref(), &mut members);
    }
    context.reply.integer(i64::from(is_member));
    Ok(())
}

pub fn spop(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    if arguments.len() > 3 {
        return Err(errors::SYNTAX.into());
    }
    let Some(count) = arguments.get(2) else {
        let entry = context.keys().find_kind(name, Kind::Set)?;
        match entry.and_then(|entry| pop(context, name, &entry, 1).pop()) {
            Some(member) => context.reply.bulk(&member),
            None => context.reply.null(),
        }
        return Ok(());
    };
    let count = parse::integer(count).and_then(|count| u64::try_from(count).ok());
    let count = count.ok_or(ErrorReply::new(errors::OUT_OF_RANGE_POSITIVE))?;
    let entry = context.keys().find_kind(name, Kind::Set)?;
    if context.must_end_before(entry.as_ref().map_or(0, value::len).min(count)) {
        return Ok(());
    }
    let mut workspace = context.workspace();
    if let Some(entry) = entry.as_ref().filter(|_| count > 1) {
        context.takes_elements(&mut workspace, [entry])?;
    }
    let popped = entry.map_or(Vec::new(), |entry| pop(context, name, &entry, count));
    context.reply.set(popped.len());
    popped.iter().for_each(|member| context.reply.bulk(member));
    Ok(())
}

/// Removes `count` random members, or all if there are fewer.
fn pop(context: &mut Context<'_, '_>, name: &[u8], entry: &Entry, count: u64) -> Vec<Vec<u8>> {
    let random = context.random();
    let mut keys = context.keys();
    let size = value::len(entry);
    if count >= size {
        let members = value::members(&mut keys, entry);
        keys.remove(name);
        return members;
    }
    if count == 1 {
        return vec![value::take(&mut keys, name, entry, random.below(size))];
    }
    let mut popped: Vec<Vec<u8>> = Vec::new();
    let indexes = random.distinct(count, size);
    value::at(&mut keys, entry, &indexes, &mut |member| popped.push(member.to_vec()));
    value::remove(&mut keys, name, entry, popped.iter().map(Vec::as_slice));
    popped
}

pub fn srandmember(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.len() > 3 {
        return Err(errors::SYNTAX.into());
    }
    match arguments.get(2) {
        Some(count) => random_members(context, &arguments[1], count),
        None => random_member(context, &arguments[1]),
    }
}

fn random_member(context: &mut Context<'_, '_>, name: &[u8]) -> Result<(), ErrorReply> {
    let entry = context.read_kind(name, Kind::Set)?;
    let random = context.random();
    let (mut keys, reply) = context.keys_and_reply();
    let Some(entry) = entry else {
        reply.null();
        return Ok(());
    };
    let index = random.below(value::len(&entry));
    value::at(&mut keys, &entry, &[index], &mut |member| reply.bulk(member));
    Ok(())
}

fn random_members(context: &mut Context<'_, '_>, name: &[u8], count: &[u8]) -> Result<(), ErrorReply> {
    let count = PickCount::parse(count)?;
    let entry = context.read_kind(name, Kind::Set)?;
    let (random, mut workspace) = (context.random(), context.workspace());
    let (mut keys, reply) = context.keys_and_reply();
    let Some(entry) = entry else {
        reply.array(0);
        return Ok(());
    };
    workspace.take(count.bytes(value::len(&entry)))?;
    let indexes = count.positions(random, value::len(&entry))?;
    reply.array(indexes.len());
    value::at(&mut keys, &entry, &indexes, &mut |member| reply.bulk(member));
    Ok(())
}

pub fn sscan(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let cursor = scan::cursor(&arguments[2])?;
    let Some(entry) = context.read_kind(&arguments[1], Kind::Set)? else {
        scan::write_page(&mut context.reply, 0, &[]);
        return Ok(());
    };
    let options = scan::options(arguments.tail(3), Scan::Members)?;
    let mut members = context.gathered_list();
    let next = value::page(&mut context.keys(), &entry, cursor, options.count, &mut |member| {
        if options.matches(member) {
            members.push(member);
        }
    });
    scan::write_page(&mut context.reply, next, members.all()?);
    Ok(())
}
