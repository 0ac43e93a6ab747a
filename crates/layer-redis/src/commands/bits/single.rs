//! SETBIT and GETBIT.

use quartet_wire_resp::Arguments;

use super::offset;
use crate::command::error_reply::ErrorReply;
use crate::commands::strings::check_growth;
use crate::handler::context::Context;
use crate::keyspace::string_value::{StringValue, length};
use crate::keyspace::{Entry, Header, Kind};

pub fn setbit(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let offset = offset(&arguments[2])?;
    let on = match &arguments[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let old = context.keys().find_kind(name, Kind::String)?;
    check_growth(context.config(), offset / 8 + 1)?;
    let index = offset / 8;
    let byte = byte(context, old.as_ref(), index);
    let mask = 0x80 >> (offset % 8);
    let was_on = byte & mask != 0;
    if index >= length(old.as_ref()) || on != was_on {
        let byte = if on { byte | mask } else { byte & !mask };
        let header = Header::patched(old.as_ref());
        context.patch_string(name, header, old.as_ref(), index, &[byte]);
    }
    context.reply.integer(i64::from(was_on));
    Ok(())
}

pub fn getbit(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let offset = offset(&arguments[2])?;
    let entry = context.read_kind(&arguments[1], Kind::String)?;
    let on = byte(context, entry.as_ref(), offset / 8) & 0x80 >> (offset % 8) != 0;
    context.reply.integer(i64::from(on));
    Ok(())
}

/// Bits after the value's end are clear.
fn byte(context: &mut Context<'_, '_>, entry: Option<&Entry>, index: u64) -> u8 {
    entry.map_or(0, |entry| StringValue::of(entry).byte(context.tx, index))
}

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    #[test]
    fn bits_are_set_and_read() {
        Fixture::new().connect().check(
            "SETBIT a 1 1 => 0
             GET a => @
             SETBIT a 7 1 => 0
             SETBIT a 1 0 => 1
             GETBIT a 7 => 1
             GETBIT a 1 => 0
             GETBIT a 4294967295 => 0
             SETBIT a 20 0 => 0
             STRLEN a => 3
             GETBIT nosuch 0 => 0
             SETBIT a 0 2 => !ERR bit is not an integer or out of range
             SETBIT a 0 -1 => !ERR bit is not an integer or out of range
             SETBIT a -1 1 => !ERR bit offset is not an integer or out of range
             SETBIT a 4294967296 1 => !ERR bit offset is not an integer or out of range
             SETBIT a 9223372036854775807 1 => !ERR bit offset is not an integer or out of range
             GETBIT a -9223372036854775808 => !ERR bit offset is not an integer or out of range",
        );
    }
}
