//! The library `cmsgpack`: MessagePack as Redis' scripts know it, in safe Rust.
//!
//! Tables nested deeper than sixteen levels are written as nil, as in Redis; a table that holds
//! itself three times would still take 64 million of them, so values are counted and the work is
//! part of the run's time. Input may nest as deep as [`DEPTH_MAX`]. Lengths that the bytes announce
//! are believed only as far as bytes follow.

use std::rc::Rc;

use mlua::{IntoLua, Lua, MultiValue, Table, Value};

use super::arguments::{Arguments, define};
use super::budget::{Budget, Steps, values_max};

const NESTING_MAX: usize = 16;
/// Deepest nesting that is read.
const DEPTH_MAX: usize = 200;

pub fn library(lua: &Lua, budget: &Rc<Budget>) -> mlua::Result<Table> {
    let cmsgpack = lua.create_table()?;
    cmsgpack.raw_set("_NAME", "cmsgpack")?;
    cmsgpack.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    let run = budget.clone();
    define(lua, &cmsgpack, "pack", move |lua, arguments| {
        if arguments.values.is_empty() {
            return Err("bad argument #0 to 'pack' (MessagePack pack needs input.)".into());
        }
        let mut encoder = Encoder {
            steps: Steps::of(&run),
            values_left: values_max(lua),
            out: Vec::new(),
        };
        for value in &arguments.values {
            encoder.value(value, 0)?;
        }
        lua.create_string(&encoder.out).map_err(|error| error.to_string())
    })?;
    let run = budget.clone();
    define(lua, &cmsgpack, "unpack", move |_, arguments| {
        unpack(&run, &arguments, 0, 0)
    })?;
    let run = budget.clone();
    define(lua, &cmsgpack, "unpack_one", move |_, arguments| {
        let offset = arguments.integer_or(1, 0)?;
        unpack(&run, &arguments, 1, offset)
    })?;
    let run = budget.clone();
    define(lua, &cmsgpack, "unpack_limit", move |_, arguments| {
        let (limit, offset) = (arguments.integer(1)?, arguments.integer_or(2, 0)?);
        unpack(&run, &arguments, limit, offset)
    })?;
    Ok(cmsgpack)
}

struct Encoder<'a> {
    steps: Steps<'a>,
    values_left: usize,
    out: Vec<u8>,
}

impl Encoder<'_> {
    fn value(&mut self, value: &Value, level: usize) -> Result<(), String> {
        self.steps.take_in_call()?;
        if self.out.len() > super::strings::STRING_BYTES_MAX || self.values_left == 0 {
            return Err("resulting string too large".into());
        }
        self.values_left -= 1;
        let out = &mut self.out;
        match value {
            Value::String(text) => {
                let text = text.as_bytes();
                head(text.len(), [(31, 0xa0), (0xff, 0xd9), (0xffff, 0xda)], 0xdb, out);
                out.extend_from_slice(&text);
            }
            Value::Boolean(value) => out.push(if *value { 0xc3 } else { 0xc2 }),
            Value::Integer(number) => integer(*number, out),
            Value::Number(number) => double(*number, out),
            Value::Table(table) if level < NESTING_MAX => self.table(table, level)?,
            _ => out.push(0xc0),
        }
        Ok(())
    }

    fn table(&mut self, table: &Table, level: usize) -> Result<(), String> {
        // Counted first: Lua gives us places for a few thousand values only, so they are not
        // gathered.
        let (mut count, mut longest) = (0, Some(0));
        for pair in table.pairs::<Value, Value>() {
            self.steps.take_in_call()?;
            longest = match pair.map_err(|error| error.to_string())?.0 {
                Value::Integer(index) if index > 0 => longest.map(|longest: i64| longest.max(index)),
                _ => None,
            };
            count += 1;
        }
        if longest == Some(count as i64) {
            head(count, [(15, 0x90), (0, 0), (0xffff, 0xdc)], 0xdd, &mut self.out);
            for index in 1..=count {
                let item: Value = table.raw_get(index).map_err(|error| error.to_string())?;
                self.value(&item, level + 1)?;
            }
            return Ok(());
        }
        head(count, [(15, 0x80), (0, 0), (0xffff, 0xde)], 0xdf, &mut self.out);
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(|error| error.to_string())?;
            self.value(&key, level + 1)?;
            self.value(&value, level + 1)?;
        }
        Ok(())
    }
}

/// Writes a kind with its length: within the byte, or after it in one, two or four bytes. The first
/// step's bound is that of a length within the byte; a bound of zero skips a step.
fn head(length: usize, steps: [(usize, u8); 3], last: u8, out: &mut Vec<u8>) {
    let [(within, code), (byte_max, byte), (short_max, short)] = steps;
    if length <= within {
        out.push(code | length as u8);
    } else if length <= byte_max {
        out.extend_from_slice(&[byte, length as u8]);
    } else if length <= short_max {
        out.push(short);
        out.extend_from_slice(&(length as u16).to_be_bytes());
    } else {
        out.push(last);
        out.extend_from_slice(&(length as u32).to_be_bytes());
    }
}

fn integer(number: i64, out: &mut Vec<u8>) {
    match number {
        0..=127 => out.push(number as u8),
        -32..=-1 => out.push(number as i8 as u8),
        128..=0xff => out.extend_from_slice(&[0xcc, number as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend_from_slice(&(number as u64).to_be_bytes());
        }
        -128..=-33 => out.extend_from_slice(&[0xd0, number as i8 as u8]),
        -0x8000..=-129 => {
            out.push(0xd1);
            out.extend_from_slice(&(number as i16).to_be_bytes());
        }
        -0x8000_0000..=-0x8001 => {
            out.push(0xd2);
            out.extend_from_slice(&(number as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

/// A float if it is one exactly.
fn double(number: f64, out: &mut Vec<u8>) {
    let float = number as f32;
    if f64::from(float) == number {
        out.push(0xca);
        out.extend_from_slice(&float.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Reads `limit` objects from `offset`, all if the limit is zero. With a limit the first value is
/// the next offset, -1 at the end.
fn unpack(budget: &Budget, arguments: &Arguments<'_>, limit: i64, offset: i64) -> Result<MultiValue, String> {
    let text = arguments.string(0)?;
    let text = text.as_bytes();
    if limit < 0 || offset < 0 {
        return Err(format!(
            "Invalid request to unpack with offset of {offset} and limit of {}.",
            text.len()
        ));
    }
    if offset as u64 > text.len() as u64 {
        return Err(format!(
            "Start offset {offset} greater than input length {}.",
            text.len()
        ));
    }
    let mut reader = Reader {
        lua: arguments.lua,
        steps: Steps::of(budget),
        rest: &text[offset as usize..],
    };
    let most = if limit == 0 { i64::MAX } else { limit };
    let mut values = MultiValue::new();
    while !reader.rest.is_empty() && (values.len() as i64) < most {
        if values.len() >= VALUES_MAX {
            return Err("too many results to unpack".into());
        }
        values.push_back(reader.value(0)?);
    }
    if limit > 0 {
        let next = text.len() - reader.rest.len();
        let next = if reader.rest.is_empty() { -1 } else { next as i64 };
        values.push_front(Value::Integer(next));
    }
    Ok(values)
}

/// Values that one call may return: Lua's stack holds eight thousand.
const VALUES_MAX: usize = 4000;

struct Reader<'a> {
    lua: &'a Lua,
    steps: Steps<'a>,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (prefix, suffix) = self.rest.split_at_checked(count).ok_or("Missing bytes in input.")?;
        self.rest = suffix;
        Ok(prefix)
    }

    /// A big-endian number of `count` bytes.
    fn number(&mut self, count: usize) -> Result<u64, String> {
        Ok(self
            .take(count)?
            .iter()
            .fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        self.steps.take_in_call()?;
        if depth > DEPTH_MAX {
            return Err("Bad data format in input.".into());
        }
        let code = self.take(1)?[0];
        Ok(match code {
            0..=0x7f => Value::Integer(i64::from(code)),
            0x80..=0x8f => self.map(usize::from(code & 15), depth)?,
            0x90..=0x9f => self.array(usize::from(code & 15), depth)?,
            0xa0..=0xbf => self.string(usize::from(code & 31))?,
            0xc0 => Value::Nil,
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xca => Value::Number(f64::from(f32::from_bits(self.number(4)? as u32))),
            0xcb => Value::Number(f64::from_bits(self.number(8)?)),
            0xcc..=0xcf => Value::Number(self.number(1 << (code - 0xcc))? as f64),
            0xd0 => Value::Integer(i64::from(self.number(1)? as i8)),
            0xd1 => Value::Integer(i64::from(self.number(2)? as i16)),
            0xd2 => Value::Integer(i64::from(self.number(4)? as i32)),
            0xd3 => Value::Integer(self.number(8)? as i64),
            0xd9..=0xdb => {
                let length = self.number(1 << (code - 0xd9))? as usize;
                self.string(length)?
            }
            0xdc | 0xdd => {
                let count = self.number(if code == 0xdc { 2 } else { 4 })? as usize;
                self.array(count, depth)?
            }
            0xde | 0xdf => {
                let count = self.number(if code == 0xde { 2 } else { 4 })? as usize;
                self.map(count, depth)?
            }
            0xe0..=0xff => Value::Integer(i64::from(code as i8)),
            _ => return Err("Bad data format in input.".into()),
        })
    }

    fn string(&mut self, length: usize) -> Result<Value, String> {
        let text = self.take(length)?;
        let text = self.lua.create_string(text).map_err(|error| error.to_string())?;
        text.into_lua(self.lua).map_err(|error| error.to_string())
    }

    fn array(&mut self, count: usize, depth: usize) -> Result<Value, String> {
        let table = self.lua.create_table().map_err(|error| error.to_string())?;
        for index in 1..=count {
            let item = self.value(depth + 1)?;
            table.raw_seti(index, item).map_err(|error| error.to_string())?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, count: usize, depth: usize) -> Result<Value, String> {
        let table = self.lua.create_table().map_err(|error| error.to_string())?;
        for _ in 0..count {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            if matches!(key, Value::Nil) || matches!(key, Value::Number(number) if number.is_nan()) {
                return Err("Bad data format in input.".into());
            }
            table.raw_set(key, value).map_err(|error| error.to_string())?;
        }
        Ok(Value::Table(table))
    }
}
