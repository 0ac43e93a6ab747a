//! Parts of values: APPEND, STRLEN, GETRANGE, SETRANGE.

use std::ops::Range;

use quartet_wire_resp::Arguments;

use super::check_growth;
use super::values::reply_part;
use crate::command::error_reply::ErrorReply;
use crate::command::parse;
use crate::handler::context::Context;
use crate::keyspace::string_value::{StringValue, length};
use crate::keyspace::{Header, Kind};

pub fn append(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (name, more) = (&arguments[1], &arguments[2]);
    let old = context.keys().find_kind(name, Kind::String)?;
    let offset = length(old.as_ref());
    let new_length = offset + more.len() as u64;
    check_growth(context.config(), new_length)?;
    let header = match &old {
        Some(_) => Header::patched(old.as_ref()),
        None => Header::new(Kind::String),
    };
    context.patch_string(name, header, old.as_ref(), offset, more);
    context.reply.integer(new_length as i64);
    Ok(())
}

pub fn strlen(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.read_kind(&arguments[1], Kind::String)?;
    context.reply.integer(length(entry.as_ref()) as i64);
    Ok(())
}

/// GETRANGE and SUBSTR.
pub fn getrange(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let start = parse::required_integer(&arguments[2])?;
    let end = parse::required_integer(&arguments[3])?;
    match context.read_kind(&arguments[1], Kind::String)? {
        Some(entry) => {
            let range = part(StringValue::of(&entry).length(), start, end);
            reply_part(context, &entry, range);
        }
        None => context.reply.bulk(b""),
    }
    Ok(())
}

/// The bytes of a value of this length that two indexes name, both included. As in Redis 7 an end
/// before the first byte means the first byte, unless both indexes are negative and in the wrong
/// order.
fn part(length: u64, start: i64, end: i64) -> Range<u64> {
    let length = length as i64;
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let from_front = |index: i64| if index < 0 { (length + index).max(0) } else { index };
    let start = from_front(start);
    let end = from_front(end).min(length - 1);
    if start > end {
        return 0..0;
    }
    start as u64..end as u64 + 1
}

pub fn setrange(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (name, patch) = (&arguments[1], &arguments[3]);
    let offset = parse::required_integer(&arguments[2])?;
    if offset < 0 {
        return Err("ERR offset is out of range".into());
    }
    let old = context.keys().find_kind(name, Kind::String)?;
    let length = length(old.as_ref());
    if patch.is_empty() {
        context.reply.integer(length as i64);
        return Ok(());
    }
    let offset = offset as u64;
    let end = offset.saturating_add(patch.len() as u64);
    check_growth(context.config(), end)?;
    let header = Header::patched(old.as_ref());
    context.patch_string(name, header, old.as_ref(), offset, patch);
    context.reply.integer(end.max(length) as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    #[test]
    fn parts_are_read_and_written() {
        Fixture::new().connect().check(
            "APPEND a hello => 5
             OBJECT ENCODING a => embstr
             APPEND a -world => 11
             STRLEN a => 11
             STRLEN nosuch => 0
             GETRANGE a 0 4 => hello
             GETRANGE a -5 -1 => world
             SUBSTR a 0 -1 => hello-world
             GETRANGE a 5 4 =>
             GETRANGE a -1 -2 =>
             GETRANGE a 0 -100 => h
             GETRANGE a -9223372036854775808 9223372036854775807 => hello-world
             GETRANGE a 9223372036854775807 -9223372036854775808 =>
             GETRANGE nosuch 0 -1 =>
             GETRANGE a x 1 => !ERR value is not an integer or out of range
             SETRANGE a 6 W => 11
             SETRANGE a 10 D! => 12
             GET a => hello-WorlD!
             SETRANGE a 3 \"\" => 12
             SETRANGE nosuch 9223372036854775807 \"\" => 0
             GET nosuch => nil
             SETRANGE b 2 x => 3
             STRLEN b => 3
             GETRANGE b 2 2 => x
             SETRANGE b -1 x => !ERR offset is out of range
             SETRANGE b 536870912 x => !ERR string exceeds maximum allowed size (proto-max-bulk-len)
             SETRANGE b 9223372036854775807 x => !ERR string exceeds maximum allowed size (proto-max-bulk-len)",
        );
    }

    /// OBJECT ENCODING said `int` of a number that SETRANGE had made, which Redis calls `raw`: only
    /// SET and INCR look at whether a value is a number.
    #[test]
    fn a_value_changed_in_place_is_raw() {
        Fixture::new().connect().check(
            "SET a 1234 EX 100 => OK
             OBJECT ENCODING a => int
             SETRANGE a 0 \"\" => 4
             OBJECT ENCODING a => int
             SETRANGE a 0 2 => 4
             OBJECT ENCODING a => raw
             TTL a => 100
             INCR a => 2235
             OBJECT ENCODING a => int
             APPEND a 1 => 5
             OBJECT ENCODING a => raw
             TTL a => 100
             INCRBYFLOAT a 0.5 => 22351.5
             OBJECT ENCODING a => embstr
             SETRANGE b 0 1 => 1
             OBJECT ENCODING b => raw
             SETBIT c 2 1 => 0
             OBJECT ENCODING c => raw
             SET c 1 => OK
             OBJECT ENCODING c => int
             BITOP NOT d c => 1
             OBJECT ENCODING d => raw
             PFADD e x => 1
             OBJECT ENCODING e => raw",
        );
    }
}
