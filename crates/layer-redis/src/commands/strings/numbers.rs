//! Values that are numbers: INCR, DECR, INCRBYFLOAT.

use std::io::Write;

use quartet_wire_resp::Arguments;

use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::long_double::{self, Parsed};
use crate::keyspace::string_value::StringValue;
use crate::keyspace::{Entry, Header, Kind};
use crate::{command::errors, command::parse};

pub fn incr(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    add(context, &arguments[1], 1)
}

pub fn decr(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    add(context, &arguments[1], -1)
}

pub fn incrby(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let amount = parse::required_integer(&arguments[2])?;
    add(context, &arguments[1], amount)
}

pub fn decrby(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let amount = parse::required_integer(&arguments[2])?
        .checked_neg()
        .ok_or("ERR decrement would overflow")?;
    add(context, &arguments[1], amount)
}

fn add(context: &mut Context<'_, '_>, name: &[u8], amount: i64) -> Result<(), ErrorReply> {
    let mut keys = context.keys();
    let old = keys.find_kind(name, Kind::String)?;
    let value = match &old {
        Some(entry) => parse::required_integer(number_text(entry))?,
        None => 0,
    };
    let value = value.checked_add(amount).ok_or(errors::OVERFLOW)?;
    let mut text = [0; 20];
    let mut buffer = &mut text[..];
    write!(buffer, "{value}").expect("twenty bytes hold every 64-bit integer");
    let length = 20 - buffer.len();
    let header = Header::new(Kind::String).expiry(old.and_then(|entry| entry.expiry_ms));
    keys.put(name, header, &text[..length]);
    context.reply.integer(value);
    Ok(())
}

/// The text that may be a number; empty, which is none, if the value is longer than any.
fn number_text(entry: &Entry) -> &[u8] {
    StringValue::of(entry).packed().unwrap_or_default()
}

pub fn incrbyfloat(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let mut keys = context.keys();
    let old = keys.find_kind(name, Kind::String)?;
    let value = match &old {
        Some(entry) => long_double::parse(number_text(entry)).ok_or(errors::NOT_FLOAT)?,
        None => Parsed::ZERO,
    };
    let amount = long_double::parse(&arguments[2]).ok_or(errors::NOT_FLOAT)?;
    let sum = value.plus(amount).ok_or(errors::NOT_FINITE)?.to_string();
    let header = Header::new(Kind::String).expiry(old.and_then(|entry| entry.expiry_ms));
    keys.put(name, header, sum.as_bytes());
    context.reply.bulk(sum.as_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    #[test]
    fn integers_are_counted() {
        Fixture::new().connect().check(
            "INCR a => 1
             INCRBY a 9223372036854775806 => 9223372036854775807
             INCR a => !ERR increment or decrement would overflow
             DECRBY a 9223372036854775807 => 0
             DECRBY a -9223372036854775808 => !ERR decrement would overflow
             INCRBY a -9223372036854775808 => -9223372036854775808
             DECR a => !ERR increment or decrement would overflow
             GET a => -9223372036854775808
             INCRBY a 9223372036854775808 => !ERR value is not an integer or out of range
             SET b 011 => OK
             INCR b => !ERR value is not an integer or out of range
             SET b \"\" => OK
             INCR b => !ERR value is not an integer or out of range
             INCRBY b => !ERR wrong number of arguments for 'incrby' command",
        );
    }

    #[test]
    fn floats_are_added() {
        Fixture::new().connect().check(
            "INCRBYFLOAT a 10.5 => 10.5
             INCRBYFLOAT a 0.1 => 10.6
             INCRBYFLOAT a -5 => 5.6
             SET a 5.0e3 => OK
             INCRBYFLOAT a 2.0e2 => 5200
             INCRBYFLOAT a +inf => !ERR increment would produce NaN or Infinity
             INCRBYFLOAT a nan => !ERR value is not a valid float
             INCRBYFLOAT a x => !ERR value is not a valid float
             INCRBYFLOAT a -5200 => 0
             SET b abc => OK
             INCRBYFLOAT b 1 => !ERR value is not a valid float",
        );
    }
}
