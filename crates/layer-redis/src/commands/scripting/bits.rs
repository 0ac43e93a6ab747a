//! The library `bit`: operations on 32-bit integers, as in Lua BitOp 1.0.

use mlua::{Lua, Table};

use super::arguments::{Arguments, define};

/// Makes the library's table.
pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let bit = lua.create_table()?;
    define(lua, &bit, "tobit", |_, a| operand(&a, 0))?;
    define(lua, &bit, "bnot", |_, a| Ok(!operand(&a, 0)?))?;
    define(lua, &bit, "band", |_, a| fold(&a, |x, y| x & y))?;
    define(lua, &bit, "bor", |_, a| fold(&a, |x, y| x | y))?;
    define(lua, &bit, "bxor", |_, a| fold(&a, |x, y| x ^ y))?;
    define(lua, &bit, "lshift", |_, a| shift(&a, |x, n| x << n))?;
    define(lua, &bit, "rshift", |_, a| shift(&a, |x, n| (x as u32 >> n) as i32))?;
    define(lua, &bit, "arshift", |_, a| shift(&a, |x, n| x >> n))?;
    define(lua, &bit, "rol", |_, a| shift(&a, |x, n| x.rotate_left(n)))?;
    define(lua, &bit, "ror", |_, a| shift(&a, |x, n| x.rotate_right(n)))?;
    define(lua, &bit, "bswap", |_, a| Ok(operand(&a, 0)?.swap_bytes()))?;
    define(lua, &bit, "tohex", |_, a| tohex(&a))?;
    Ok(bit)
}

/// The argument modulo 2^32, halves rounded to even.
fn operand(arguments: &Arguments<'_>, index: usize) -> Result<i32, String> {
    let number = arguments.number(index)?;
    if !number.is_finite() {
        return Ok(0);
    }
    let modulo = number.round_ties_even().rem_euclid(4_294_967_296.0);
    Ok(modulo as u32 as i32)
}

fn fold(arguments: &Arguments<'_>, operation: fn(i32, i32) -> i32) -> Result<i32, String> {
    let mut result = operand(arguments, 0)?;
    for index in 1..arguments.values.len() {
        result = operation(result, operand(arguments, index)?);
    }
    Ok(result)
}

fn shift(arguments: &Arguments<'_>, operation: fn(i32, u32) -> i32) -> Result<i32, String> {
    let count = operand(arguments, 1)? as u32 & 31;
    Ok(operation(operand(arguments, 0)?, count))
}

/// The lowest digits in hexadecimal: eight by default, else the requested number; upper case if the
/// number is negative.
fn tohex(arguments: &Arguments<'_>) -> Result<String, String> {
    let number = operand(arguments, 0)?;
    let count = if arguments.values.len() > 1 {
        operand(arguments, 1)?
    } else {
        8
    };
    let digits = count.unsigned_abs().min(8) as usize;
    let all = if count < 0 {
        format!("{number:08X}")
    } else {
        format!("{number:08x}")
    };
    Ok(all[8 - digits..].to_owned())
}
