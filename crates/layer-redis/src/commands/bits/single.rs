//! SETBIT and GETBIT.

use quartet_wire_resp::Arguments;

use super::offset;
use crate::commands::strings::check_growth;
use crate::context::Context;
use crate::failure::Failure;
use crate::keyspace::{Header, Kind};

pub fn setbit(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), Failure> {
    let name = &arguments[1];
    let offset = offset(&arguments[2])?;
    let on = match &arguments[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let old = context.keys().find_kind(name, Kind::String)?;
    check_growth(context.layer, offset / 8 + 1)?;
    let mut keys = context.keys();
    let value = old.as_ref().map_or(&b""[..], |entry| entry.payload());
    let was_on = bit(value, offset);
    let index = (offset / 8) as usize;
    if index >= value.len() || on != was_on {
        let gap = vec![0; index.saturating_sub(value.len())];
        let mask = 0x80 >> (offset % 8);
        let byte = value.get(index).copied().unwrap_or(0);
        let byte = if on { byte | mask } else { byte & !mask };
        let before = &value[..index.min(value.len())];
        let after = value.get(index + 1..).unwrap_or_default();
        let header = Header::patched(old.as_ref());
        keys.put_parts(name, header, &[before, &gap, &[byte], after]);
    }
    context.reply.integer(i64::from(was_on));
    Ok(())
}

pub fn getbit(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), Failure> {
    let offset = offset(&arguments[2])?;
    let found = context.read_kind(&arguments[1], Kind::String)?;
    let on = found.is_some_and(|entry| bit(entry.payload(), offset));
    context.reply.integer(i64::from(on));
    Ok(())
}

/// Bits behind the value are clear.
fn bit(value: &[u8], offset: u64) -> bool {
    value
        .get((offset / 8) as usize)
        .is_some_and(|byte| byte & 0x80 >> (offset % 8) != 0)
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
