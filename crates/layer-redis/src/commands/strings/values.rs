//! Whole values: GET, SET and their relatives.

use std::ops::Range;

use quartet_wire_resp::Arguments;

use super::check_length;
use super::options::{self, Condition, Lifetime, Options, Unit};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::late_part::HeldString;
use crate::keyspace::string_value::StringValue;
use crate::keyspace::{Entry, Header, Kind};
use crate::{command::errors, command::parse};

pub fn get(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    read_value(context, &arguments[1])?;
    Ok(())
}

/// Answers the value before the command, and returns it.
fn read_value(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Option<Entry>, ErrorReply> {
    let found = context.read_kind(name, Kind::String)?;
    match &found {
        Some(entry) => reply_value(context, entry),
        None => context.reply.null(),
    }
    Ok(found)
}

/// Answers a string's value.
pub(super) fn reply_value(context: &mut Context<'_, '_>, entry: &Entry) {
    reply_part(context, entry, 0..StringValue::of(entry).length());
}

/// Replies the bytes of `range`, which is within the value.
pub(super) fn reply_part(context: &mut Context<'_, '_>, entry: &Entry, range: Range<u64>) {
    let (length, value) = (range.end - range.start, StringValue::of(entry));
    if context.makes_late(length) {
        if let Some(place) = context.reply.bulk_to_come(length as usize) {
            let string = HeldString::new(context.tx, entry);
            let mut remaining = range;
            context.make_late(place, length as usize, move |out| {
                string.append_step(&mut remaining, out)
            });
        }
        return;
    }
    let (tx, reply) = (&mut *context.tx, &mut context.reply);
    match value.packed() {
        Some(bytes) => reply.bulk(&bytes[range.start as usize..range.end as usize]),
        None => reply.bulk_with(length as usize, |out| value.append_to(tx, range, out)),
    }
}

pub fn set(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (name, value) = (&arguments[1], &arguments[2]);
    check_length(value.len() as u64)?;
    if arguments.len() == 3 {
        context.keys().put(name, Header::new(Kind::String), value);
        context.reply.ok();
        return Ok(());
    }
    let options = options::of_set(arguments)?;
    set_with(context, name, value, &options)
}

fn set_with(context: &mut Context<'_, '_>, name: &[u8], value: &[u8], options: &Options<'_>) -> Result<(), ErrorReply> {
    let deadline_ms = match options.lifetime {
        Lifetime::Until(unit, amount) => Some(options::deadline_ms(unit, amount, context.now_ms, "set")?),
        _ => None,
    };
    let old = if options.get {
        context.read(name)
    } else {
        context.keys().find(name)
    };
    let must_be_string = options.get || options.condition.reads_value();
    if must_be_string && old.as_ref().is_some_and(|entry| entry.kind != Kind::String) {
        return Err(errors::WRONG_TYPE.into());
    }
    let holds = options.condition.holds(context.tx, old.as_ref());
    match &old {
        // The old value is no longer available once the new one is stored.
        Some(old) if options.get => reply_value(context, old),
        _ if options.get || !holds => context.reply.null(),
        _ => context.reply.ok(),
    }
    if holds {
        let kept_ms = old.as_ref().and_then(|entry| entry.expiry_ms);
        let expiry_ms = match options.lifetime {
            Lifetime::Keep => kept_ms,
            _ => deadline_ms,
        };
        store(context, name, value, expiry_ms);
    }
    Ok(())
}

/// Writes the value; one that has expired already leaves no key, but watchers of the name are
/// notified.
fn store(context: &mut Context<'_, '_>, name: &[u8], value: &[u8], expiry_ms: Option<u64>) {
    if expiry_ms.is_some_and(|expiry_ms| context.is_over(expiry_ms)) {
        let mut keys = context.keys();
        if !keys.remove(name) {
            keys.touch(name);
        }
    } else {
        let header = Header::new(Kind::String).expiry(expiry_ms);
        context.keys().put(name, header, value);
    }
}

pub fn setnx(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (name, value) = (&arguments[1], &arguments[2]);
    check_length(value.len() as u64)?;
    let absent = context.keys().find(name).is_none();
    if absent {
        context.keys().put(name, Header::new(Kind::String), value);
    }
    context.reply.integer(i64::from(absent));
    Ok(())
}

pub fn setex(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    set_for(context, arguments, Unit::Seconds, "setex")
}

pub fn psetex(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    set_for(context, arguments, Unit::Milliseconds, "psetex")
}

fn set_for(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    unit: Unit,
    command: &str,
) -> Result<(), ErrorReply> {
    check_length(arguments[3].len() as u64)?;
    let deadline_ms = options::deadline_ms(unit, &arguments[2], context.now_ms, command)?;
    store(context, &arguments[1], &arguments[3], Some(deadline_ms));
    context.reply.ok();
    Ok(())
}

pub fn getset(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_length(arguments[2].len() as u64)?;
    read_value(context, &arguments[1])?;
    context
        .keys()
        .put(&arguments[1], Header::new(Kind::String), &arguments[2]);
    Ok(())
}

pub fn getdel(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if read_value(context, &arguments[1])?.is_some() {
        context.keys().remove(&arguments[1]);
    }
    Ok(())
}

pub fn getex(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let lifetime = options::of_getex(arguments)?;
    let Some(entry) = context.read_kind(name, Kind::String)? else {
        context.reply.null();
        return Ok(());
    };
    let deadline_ms = match lifetime {
        Lifetime::Until(unit, amount) => Some(options::deadline_ms(unit, amount, context.now_ms, "getex")?),
        _ => None,
    };
    reply_value(context, &entry);
    match deadline_ms {
        Some(deadline_ms) if context.is_over(deadline_ms) => _ = context.keys().remove(name),
        Some(_) => context.keys().set_expiry(name, &entry, deadline_ms),
        None if matches!(lifetime, Lifetime::Persist) && entry.expiry_ms.is_some() => {
            context.keys().set_expiry(name, &entry, None);
        }
        None => {}
    }
    Ok(())
}

pub fn delex(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    if !matches!(arguments.len(), 2 | 4) {
        return Err("ERR wrong number of arguments for 'delex' command".into());
    }
    let Some(entry) = context.keys().find(name) else {
        context.reply.integer(0);
        return Ok(());
    };
    if arguments.len() > 2 && entry.kind != Kind::String {
        return Err("ERR Key should be of string type if conditions are specified".into());
    }
    let condition: Condition<'_> = options::of_delex(arguments)?;
    condition.check_digest()?;
    let holds = condition.holds(context.tx, Some(&entry));
    if holds {
        context.keys().remove(name);
    }
    context.reply.integer(i64::from(holds));
    Ok(())
}

/// DELIFEQ key value, as Valkey has it.
pub fn delifeq(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.keys().find_kind(&arguments[1], Kind::String)?;
    let is_equal = Condition::IfEqual(&arguments[2]).holds(context.tx, entry.as_ref());
    if is_equal {
        context.keys().remove(&arguments[1]);
    }
    context.reply.integer(i64::from(is_equal));
    Ok(())
}

pub fn digest(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    match context.read_kind(&arguments[1], Kind::String)? {
        Some(entry) => {
            let value = StringValue::of(&entry).whole(context.tx);
            context.reply.bulk(options::digest(&value).as_bytes());
        }
        None => context.reply.null(),
    }
    Ok(())
}

/// A key of another kind counts as absent here.
pub fn mget(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    context.reply.array(arguments.len() - 1);
    for name in arguments.iter().skip(1) {
        match context.read(name) {
            Some(entry) if entry.kind == Kind::String => reply_value(context, &entry),
            _ => context.reply.null(),
        }
    }
    Ok(())
}

pub fn mset(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_pairs(arguments, "mset")?;
    put_pairs(context, arguments);
    context.reply.ok();
    Ok(())
}

pub fn msetnx(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_pairs(arguments, "msetnx")?;
    let mut keys = context.keys();
    let all_absent = arguments
        .iter()
        .skip(1)
        .step_by(2)
        .all(|name| keys.find(name).is_none());
    if all_absent {
        put_pairs(context, arguments);
    }
    context.reply.integer(i64::from(all_absent));
    Ok(())
}

/// Positions of the keys of MSETEX: each is followed by its value.
pub fn msetex_keys(arguments: Arguments<'_>) -> Vec<usize> {
    match pair_count(arguments) {
        Ok(count) => (2..2 + 2 * count).step_by(2).collect(),
        Err(_) => Vec::new(),
    }
}

fn pair_count(arguments: Arguments<'_>) -> Result<usize, ErrorReply> {
    let count = parse::integer(&arguments[1]).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or("ERR invalid numkeys value")?;
    match count <= (arguments.len() - 2) / 2 {
        true => Ok(count),
        false => Err("ERR wrong number of key-value pairs".into()),
    }
}

/// MSETEX numkeys key value [key value ...] [NX | XX] [EX | PX | EXAT | PXAT amount | KEEPTTL]: the
/// condition is one for all keys.
pub fn msetex(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let count = pair_count(arguments)?;
    let options = options::of_msetex(arguments.tail(2 + 2 * count))?;
    let pairs = || {
        (2..2 + 2 * count)
            .step_by(2)
            .map(|at| (&arguments[at], &arguments[at + 1]))
    };
    pairs().try_for_each(|(_, value)| check_length(value.len() as u64))?;
    let deadline_ms = match options.lifetime {
        Lifetime::Until(unit, amount) => Some(options::deadline_ms(unit, amount, context.now_ms, "msetex")?),
        _ => None,
    };
    let mut keys = context.keys();
    let holds = pairs().all(|(name, _)| {
        let existing = keys.find(name);
        options.condition.holds(keys.tx, existing.as_ref())
    });
    for (name, value) in pairs().filter(|_| holds) {
        let kept_ms = context.keys().find(name).and_then(|entry| entry.expiry_ms);
        let expiry_ms = match options.lifetime {
            Lifetime::Keep => kept_ms,
            _ => deadline_ms,
        };
        store(context, name, value, expiry_ms);
    }
    context.reply.integer(i64::from(holds));
    Ok(())
}

fn check_pairs(arguments: Arguments<'_>, command: &str) -> Result<(), ErrorReply> {
    if arguments.len().is_multiple_of(2) {
        return Err(format!("ERR wrong number of arguments for '{command}' command").into());
    }
    let mut values = arguments.iter().skip(2).step_by(2);
    values.try_for_each(|value| check_length(value.len() as u64))
}

fn put_pairs(context: &mut Context<'_, '_>, arguments: Arguments<'_>) {
    let mut keys = context.keys();
    let mut words = arguments.iter().skip(1);
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        keys.put(name, Header::new(Kind::String), value);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    fn check(script: &str) {
        Fixture::new().connect().check(script);
    }

    #[test]
    fn set_obeys_conditions() {
        check(
            "SET a 1 XX => nil
             SET a 1 NX => OK
             SET a 2 NX => nil
             SET a 2 xx => OK
             SET a 3 NX XX => !ERR syntax error
             SET a 3 GET => 2
             SET a 4 NX GET => 3
             SET b 4 XX GET => nil
             SET b 4 NX GET => nil
             GET a => 3
             SET a 5 IFEQ 3 => OK
             SET a 6 IFEQ 3 => nil
             SET a 6 IFNE 3 GET => 5
             SET c 1 IFEQ x => nil
             SET c 1 IFNE x => OK
             SET c 1 IFEQ => !ERR syntax error
             SET c 1 NX IFEQ 1 => !ERR syntax error
             SET c 1 IFEQ 1 XX => !ERR syntax error
             SET c 1 NOSUCH => !ERR syntax error
             SETNX c 2 => 0
             SETNX d 2 => 1",
        );
    }

    #[test]
    fn digests_are_compared() {
        check(
            "DIGEST a => nil
             SET a hello => OK
             DIGEST a => 9555e8555c62dcfd
             SET a world IFDEQ 9555E8555C62DCFD => OK
             SET a x IFDEQ 9555e8555c62dcfd => nil
             SET a y IFDNE 9555e8555c62dcfd => OK
             SET b y IFDEQ 9555e8555c62dcfd => nil
             SET b hello IFDNE 9555e8555c62dcfd => OK
             SET b y IFDEQ 12 => !ERR The digest must be exactly 16 hexadecimal characters
             DELEX b IFDEQ 12 => !ERR The digest must be exactly 16 hexadecimal characters
             DELEX b IFDNE 9555e8555c62dcfd => 0
             DELEX b IFDEQ 9555e8555c62dcfd => 1
             DELEX b => 0
             DELEX a IFEQ x => 0
             DELEX a IFNE y => 0
             DELEX a NOSUCH y => !ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE
             DELEX a IFEQ => !ERR wrong number of arguments for 'delex' command
             DELEX a IFEQ y => 1
             SET a 1 => OK
             DELEX a => 1",
        );
    }

    #[test]
    fn a_key_is_removed_if_its_value_is_equal() {
        check(
            "SET a x => OK
             DELIFEQ a y => 0
             DELIFEQ a x => 1
             DELIFEQ a x => 0
             SADD s x => 1
             DELIFEQ s x => !WRONGTYPE Operation against a key holding the wrong kind of value",
        );
    }

    #[test]
    fn several_keys_are_set_with_one_expiry() {
        check(
            "MSETEX 2 a 1 b 2 EX 100 => 1
             TTL a => 100
             TTL b => 100
             MSETEX 2 a 3 c 4 NX => 0
             MSETEX 2 a 3 c 4 XX => 0
             MGET a b c => [1 2 nil]
             MSETEX 2 a 3 b 4 XX KEEPTTL => 1
             TTL a => 100
             MSETEX 1 a 5 => 1
             TTL a => -1
             MSETEX 1 a 5 PXAT 1 => 1
             GET a => nil
             MSETEX 2 c 1 d 2 px 5000 nx => 1
             PTTL d => 5000
             MSETEX 0 a 1 => !ERR invalid numkeys value
             MSETEX x a 1 => !ERR invalid numkeys value
             MSETEX 2 a 1 b => !ERR wrong number of key-value pairs
             MSETEX 1 a 1 NX XX => !ERR syntax error
             MSETEX 1 a 1 EX 1 PX 1 => !ERR syntax error
             MSETEX 1 a 1 EX 0 => !ERR invalid expire time in 'msetex' command
             MSETEX 1 a 1 GET => !ERR syntax error
             COMMAND GETKEYS MSETEX 2 a 1 b 2 EX 10 => [a b]",
        );
    }

    #[test]
    fn expiries_are_set_kept_and_cleared() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        connection.check(
            "SET a 1 EX 10 => OK
             SET b 1 PX 10000 => OK
             SET c 1 EXAT 1700000010 => OK
             SET d 1 PXAT 1700000010000 => OK
             SETEX e 10 1 => OK
             PSETEX f 10000 1 => OK
             SET g 1 EX 10 => OK
             SET g 2 KEEPTTL => OK
             SET h 1 EX 10 => OK
             SET h 2 => OK
             SET i 1 EX 10 => OK
             GETSET i 2 => 1
             SET j 1 EX 10 => OK
             GETEX j PERSIST => 1
             SET k 1 => OK
             GETEX k PX 10000 => 1
             SET l 1 PX 10000 => OK
             INCR l => 2
             APPEND l 3 => 2
             SETRANGE l 0 5 => 2
             SET m 1 PXAT 1 => OK
             GET m => nil",
        );
        fixture.advance_ms(9_999);
        connection.check("MGET a b c d e f g h i j k l => [1 1 1 1 1 1 2 2 2 1 1 53]");
        fixture.advance_ms(1);
        connection.check(
            "MGET a b c d e f g => [nil nil nil nil nil nil nil]
             MGET h i j k l => [2 2 1 nil nil]",
        );
    }

    #[test]
    fn expiries_out_of_range_are_refused() {
        check(
            "SET a 1 EX 0 => !ERR invalid expire time in 'set' command
             SET a 1 PX -1 => !ERR invalid expire time in 'set' command
             SET a 1 EX 9223372036854775807 => !ERR invalid expire time in 'set' command
             SET a 1 EX 9223372036854775 => !ERR invalid expire time in 'set' command
             SET a 1 PX 9223372036854775807 => !ERR invalid expire time in 'set' command
             SET a 1 EXAT 9223372036854775807 => !ERR invalid expire time in 'set' command
             SET a 1 PXAT -9223372036854775808 => !ERR invalid expire time in 'set' command
             SET a 1 PXAT 9223372036854775807 => OK
             SET a 1 EX x => !ERR value is not an integer or out of range
             SET a 1 EX => !ERR syntax error
             SET a 1 EX 1 PX 1 => !ERR syntax error
             SET a 1 KEEPTTL EX 1 => !ERR syntax error
             SET a 1 PERSIST => !ERR syntax error
             SETEX a 0 1 => !ERR invalid expire time in 'setex' command
             PSETEX a -9223372036854775808 1 => !ERR invalid expire time in 'psetex' command
             GETEX a EX 0 => !ERR invalid expire time in 'getex' command
             GETEX nosuch EX 0 => nil
             GETEX a KEEPTTL => !ERR syntax error
             GETEX a PERSIST EX 1 => !ERR syntax error
             GETEX a PXAT 1 => 1
             GET a => nil",
        );
    }

    #[test]
    fn many_values_at_once() {
        check(
            "MSET a 1 b 2 a 3 => OK
             MGET a b c => [3 2 nil]
             MSET a => !ERR wrong number of arguments for 'mset' command
             MSET a 1 b => !ERR wrong number of arguments for 'mset' command
             MSETNX c 1 a 1 => 0
             GET c => nil
             MSETNX c 1 d 1 => 1
             MSETNX c 1 d => !ERR wrong number of arguments for 'msetnx' command
             GETDEL c => 1
             GETDEL c => nil",
        );
    }
}
