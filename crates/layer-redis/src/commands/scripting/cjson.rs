//! The library `cjson`: what lua-cjson 2.1 does, in safe Rust, its settings forgotten after each
//! script.
//!
//! Nesting is bounded in both directions, regardless of a script's settings: neither a deep text
//! nor a table that contains itself can exhaust the stack. A text is bounded in bytes, and the work
//! in the run's time: a table that contains the next one twice, a few dozen levels deep, would take
//! practically unlimited time.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::arguments::{Arguments, define, type_name};
use super::budget::{Budget, Steps, values_max};
use super::numbers::general;

/// Maximum nesting depth, lua-cjson's default; a script cannot raise it.
const DEPTH_MAX: i64 = 1000;
/// Largest index up to which a table with holes is written as an array.
const SPARSE_SAFE: i64 = 10;

#[derive(Clone, Debug)]
pub struct Options {
    sparse_convert: bool,
    sparse_ratio: i64,
    sparse_safe: i64,
    encode_depth: i64,
    decode_depth: i64,
    precision: i64,
    encode_invalid: Invalid,
    decode_invalid: Invalid,
    keep_buffer: bool,
}

/// The handling of numbers that JSON lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: SPARSE_SAFE,
            encode_depth: DEPTH_MAX,
            decode_depth: DEPTH_MAX,
            precision: 14,
            encode_invalid: Invalid::Refused,
            decode_invalid: Invalid::Written,
            keep_buffer: true,
        }
    }
}

impl Options {
    pub fn reset(&mut self) {
        *self = Options::default();
    }
}

type Shared = Rc<RefCell<Options>>;

/// Makes the library's table. `options` is what its setting functions change.
pub fn library(lua: &Lua, options: &Shared, budget: &Rc<Budget>) -> mlua::Result<Table> {
    let cjson = lua.create_table()?;
    cjson.raw_set("null", Value::NULL)?;
    cjson.raw_set("_NAME", "cjson")?;
    cjson.raw_set("_VERSION", "2.1.0")?;
    let (shared, run) = (options.clone(), budget.clone());
    define(lua, &cjson, "encode", move |lua, arguments| {
        one_argument(&arguments)?;
        let mut encoder = Encoder {
            steps: Steps::of(&run),
            values_left: values_max(lua),
            options: shared.borrow().clone(),
            out: Vec::new(),
        };
        encoder.value(arguments.get(0), 0)?;
        lua.create_string(&encoder.out).map_err(|error| error.to_string())
    })?;
    let (shared, run) = (options.clone(), budget.clone());
    define(lua, &cjson, "decode", move |lua, arguments| {
        one_argument(&arguments)?;
        let text = arguments.string(0)?;
        let text = text.as_bytes();
        if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
            return Err("JSON parser does not support UTF-16 or UTF-32".into());
        }
        let options = shared.borrow().clone();
        Decoder {
            lua,
            steps: Steps::of(&run),
            options,
            text: &text,
            at: 0,
        }
        .whole()
    })?;
    define_settings(lua, &cjson, options)?;
    Ok(cjson)
}

fn one_argument(arguments: &Arguments<'_>) -> Result<(), String> {
    if arguments.values.len() == 1 {
        return Ok(());
    }
    Err(arguments.bad(0, "expected 1 argument"))
}

fn define_settings(lua: &Lua, cjson: &Table, options: &Shared) -> mlua::Result<()> {
    define_numbers(lua, cjson, options)?;
    define_invalid_numbers(lua, cjson, options)?;
    define_arrays_and_buffer(lua, cjson, options)
}

/// The settings that are integers of a range.
fn define_numbers(lua: &Lua, cjson: &Table, options: &Shared) -> mlua::Result<()> {
    type Field = fn(&mut Options) -> &mut i64;
    let numbers: [(&'static str, Field, i64, &str); 3] = [
        (
            "encode_max_depth",
            |options| &mut options.encode_depth,
            i64::from(i32::MAX),
            "expected integer between 1 and 2147483647",
        ),
        (
            "decode_max_depth",
            |options| &mut options.decode_depth,
            i64::from(i32::MAX),
            "expected integer between 1 and 2147483647",
        ),
        (
            "encode_number_precision",
            |options| &mut options.precision,
            16,
            "expected integer between 1 and 16",
        ),
    ];
    for (name, field, most, range) in numbers {
        let shared = options.clone();
        define(lua, cjson, name, move |_, arguments| {
            let mut options = shared.borrow_mut();
            let field = field(&mut options);
            let value = arguments.integer_or(0, *field)?;
            if !(1..=most).contains(&value) {
                return Err(arguments.bad(0, range));
            }
            *field = value;
            Ok(value)
        })?;
    }
    Ok(())
}

/// The settings for infinities and NaN, which JSON has no numbers for.
fn define_invalid_numbers(lua: &Lua, cjson: &Table, options: &Shared) -> mlua::Result<()> {
    for (name, encodes) in [("encode_invalid_numbers", true), ("decode_invalid_numbers", false)] {
        let shared = options.clone();
        define(lua, cjson, name, move |lua, arguments| {
            let mut options = shared.borrow_mut();
            let field = if encodes {
                &mut options.encode_invalid
            } else {
                &mut options.decode_invalid
            };
            match arguments.get(0) {
                Value::Nil => {}
                Value::Boolean(allowed) => *field = if *allowed { Invalid::Written } else { Invalid::Refused },
                Value::String(word) if encodes && word.as_bytes() == b"null" => *field = Invalid::Null,
                Value::String(word) if word.as_bytes() == b"on" => *field = Invalid::Written,
                Value::String(word) if word.as_bytes() == b"off" => *field = Invalid::Refused,
                _ => return Err(arguments.bad(0, "invalid option")),
            }
            match *field {
                Invalid::Null => Ok(Value::String(
                    lua.create_string("null").map_err(|error| error.to_string())?,
                )),
                other => Ok(Value::Boolean(other == Invalid::Written)),
            }
        })?;
    }
    Ok(())
}

fn define_arrays_and_buffer(lua: &Lua, cjson: &Table, options: &Shared) -> mlua::Result<()> {
    let shared = options.clone();
    define(lua, cjson, "encode_keep_buffer", move |_, arguments| {
        let mut options = shared.borrow_mut();
        if let Value::Boolean(keep) = arguments.get(0) {
            options.keep_buffer = *keep;
        }
        Ok(options.keep_buffer)
    })?;
    let shared = options.clone();
    define(lua, cjson, "encode_sparse_array", move |_, arguments| {
        let mut options = shared.borrow_mut();
        if let Value::Boolean(convert) = arguments.get(0) {
            options.sparse_convert = *convert;
        }
        options.sparse_ratio = arguments.integer_or(1, options.sparse_ratio)?.max(0);
        options.sparse_safe = arguments.integer_or(2, options.sparse_safe)?.max(0);
        Ok((options.sparse_convert, options.sparse_ratio, options.sparse_safe))
    })
}

/// A thread that serves connections has no stack for the deepest nesting; only what nests deeply
/// gets more.
fn with_stack<T>(level: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(128 * 1024, 1024 * 1024, level)
}

struct Encoder<'a> {
    steps: Steps<'a>,
    values_left: usize,
    options: Options,
    out: Vec<u8>,
}

impl Encoder<'_> {
    fn value(&mut self, value: &Value, depth: i64) -> Result<(), String> {
        self.steps.take_in_call()?;
        if self.out.len() > super::strings::STRING_BYTES_MAX || self.values_left == 0 {
            return Err("resulting string too large".into());
        }
        self.values_left -= 1;
        match value {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::Boolean(value) => self.out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => self.out.extend_from_slice(b"null"),
            Value::Table(table) => {
                let depth = depth + 1;
                if depth > self.options.encode_depth.min(DEPTH_MAX) {
                    return Err(format!("Cannot serialise, excessive nesting ({depth})"));
                }
                match self.array_length(table)? {
                    Some(length) => with_stack(|| self.array(table, length, depth))?,
                    None => with_stack(|| self.object(table, depth))?,
                }
            }
            other => return Err(format!("Cannot serialise {}: type not supported", type_name(other))),
        }
        Ok(())
    }

    /// The length of the array that the table is; `None`: it is an object.
    fn array_length(&mut self, table: &Table) -> Result<Option<i64>, String> {
        let (mut longest, mut count) = (0, 0i64);
        for pair in table.pairs::<Value, Value>() {
            self.steps.take_in_call()?;
            match index(&pair.map_err(|error| error.to_string())?.0) {
                Some(index) => longest = longest.max(index),
                None => return Ok(None),
            }
            count += 1;
        }
        let options = &self.options;
        let is_sparse = options.sparse_ratio > 0
            && longest > count.saturating_mul(options.sparse_ratio)
            && longest > options.sparse_safe;
        if is_sparse && !options.sparse_convert {
            return Err("Cannot serialise table: excessively sparse array".into());
        }
        Ok((longest > 0 && !is_sparse).then_some(longest))
    }

    fn array(&mut self, table: &Table, length: i64, depth: i64) -> Result<(), String> {
        self.out.push(b'[');
        for place in 1..=length {
            if place > 1 {
                self.out.push(b',');
            }
            let item: Value = table.raw_get(place).map_err(|error| error.to_string())?;
            self.value(&item, depth)?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, table: &Table, depth: i64) -> Result<(), String> {
        self.out.push(b'{');
        for (position, pair) in table.pairs::<Value, Value>().enumerate() {
            let (key, value) = pair.map_err(|error| error.to_string())?;
            if position > 0 {
                self.out.push(b',');
            }
            match &key {
                Value::String(text) => self.string(&text.as_bytes()),
                Value::Integer(_) | Value::Number(_) => {
                    self.out.push(b'"');
                    self.value(&key, depth)?;
                    self.out.push(b'"');
                }
                other => {
                    let name = type_name(other);
                    return Err(format!("Cannot serialise {name}: table key must be a number or string"));
                }
            }
            self.out.push(b':');
            self.value(&value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<(), String> {
        if number.is_finite() {
            let text = general(number, self.options.precision as usize);
            self.out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        match self.options.encode_invalid {
            Invalid::Refused => return Err("Cannot serialise number: must not be NaN or Inf".into()),
            Invalid::Null => self.out.extend_from_slice(b"null"),
            Invalid::Written if number.is_nan() => self.out.extend_from_slice(b"nan"),
            Invalid::Written => self.out.extend_from_slice(general(number, 14).as_bytes()),
        }
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for &byte in text {
            let escape: &[u8] = match byte {
                b'"' => b"\\\"",
                b'\\' => b"\\\\",
                b'/' => b"\\/",
                0x08 => b"\\b",
                0x0c => b"\\f",
                b'\n' => b"\\n",
                b'\r' => b"\\r",
                b'\t' => b"\\t",
                0..0x20 | 0x7f => {
                    self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                    continue;
                }
                _ => {
                    self.out.push(byte);
                    continue;
                }
            };
            self.out.extend_from_slice(escape);
        }
        self.out.push(b'"');
    }
}

/// The place of an array that a key names.
fn index(key: &Value) -> Option<i64> {
    match key {
        Value::Integer(index) if *index >= 1 => Some(*index),
        Value::Number(number) if *number >= 1.0 && number.fract() == 0.0 && *number < 9e15 => Some(*number as i64),
        _ => None,
    }
}

struct Decoder<'a> {
    lua: &'a Lua,
    steps: Steps<'a>,
    options: Options,
    text: &'a [u8],
    at: usize,
}

impl Decoder<'_> {
    fn whole(mut self) -> Result<Value, String> {
        let value = self.value(0)?;
        self.skip_blanks();
        if self.at < self.text.len() {
            return Err(self.expected("the end"));
        }
        Ok(value)
    }

    fn skip_blanks(&mut self) {
        while matches!(self.text.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expected(&mut self, token: &str) -> String {
        self.skip_blanks();
        let actual = match self.text.get(self.at) {
            None => "T_END",
            Some(b'{') => "T_OBJ_BEGIN",
            Some(b'}') => "T_OBJ_END",
            Some(b'[') => "T_ARR_BEGIN",
            Some(b']') => "T_ARR_END",
            Some(b',') => "T_COMMA",
            Some(b':') => "T_COLON",
            Some(b'"') => "T_STRING",
            Some(byte) if byte.is_ascii_digit() || *byte == b'-' => "T_NUMBER",
            Some(_) if self.word("true") || self.word("false") => "T_BOOLEAN",
            Some(_) if self.word("null") => "T_NULL",
            Some(_) => "invalid token",
        };
        format!("Expected {token} but found {actual} at character {}", self.at + 1)
    }

    fn word(&self, word: &str) -> bool {
        self.text[self.at..].starts_with(word.as_bytes())
    }

    fn value(&mut self, depth: i64) -> Result<Value, String> {
        self.steps.take_in_call()?;
        self.skip_blanks();
        match self.text.get(self.at) {
            Some(b'{') => with_stack(|| self.object(depth + 1)),
            Some(b'[') => with_stack(|| self.array(depth + 1)),
            Some(b'"') => self.string(),
            Some(b't') if self.word("true") => Ok(self.literal(4, Value::Boolean(true))),
            Some(b'f') if self.word("false") => Ok(self.literal(5, Value::Boolean(false))),
            Some(b'n') if self.word("null") => Ok(self.literal(4, Value::NULL)),
            Some(_) => self.number(),
            None => Err(self.expected("value")),
        }
    }

    fn literal(&mut self, length: usize, value: Value) -> Value {
        self.at += length;
        value
    }

    fn check_depth(&self, depth: i64) -> Result<(), String> {
        if depth <= self.options.decode_depth.min(DEPTH_MAX) {
            return Ok(());
        }
        Err(format!(
            "Found too many nested data structures ({depth}) at character {}",
            self.at + 1
        ))
    }

    fn take(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let is_there = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn object(&mut self, depth: i64) -> Result<Value, String> {
        self.check_depth(depth)?;
        self.at += 1;
        let table = self.lua.create_table().map_err(|error| error.to_string())?;
        if self.take(b'}') {
            return Ok(Value::Table(table));
        }
        loop {
            self.skip_blanks();
            if self.text.get(self.at) != Some(&b'"') {
                return Err(self.expected("object key string"));
            }
            let key = self.string()?;
            if !self.take(b':') {
                return Err(self.expected("colon"));
            }
            let value = self.value(depth)?;
            table.raw_set(key, value).map_err(|error| error.to_string())?;
            if self.take(b'}') {
                return Ok(Value::Table(table));
            }
            if !self.take(b',') {
                return Err(self.expected("comma or object end"));
            }
        }
    }

    fn array(&mut self, depth: i64) -> Result<Value, String> {
        self.check_depth(depth)?;
        self.at += 1;
        let table = self.lua.create_table().map_err(|error| error.to_string())?;
        if self.take(b']') {
            return Ok(Value::Table(table));
        }
        for index in 1.. {
            let value = self.value(depth)?;
            table.raw_seti(index, value).map_err(|error| error.to_string())?;
            if self.take(b']') {
                break;
            }
            if !self.take(b',') {
                return Err(self.expected("comma or array end"));
            }
        }
        Ok(Value::Table(table))
    }

    fn number(&mut self) -> Result<Value, String> {
        let input = &self.text[self.at..];
        let length = input
            .iter()
            .take_while(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
            .count();
        let text = std::str::from_utf8(&input[..length]).unwrap_or_default();
        let digits = text.trim_start_matches(['+', '-']);
        let is_plain = digits.starts_with(|first: char| first.is_ascii_digit());
        let allowed = self.options.decode_invalid == Invalid::Written;
        let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hexadecimal) if allowed => u64::from_str_radix(hexadecimal, 16).ok().map(|number| number as f64),
            _ if is_plain || allowed && is_special(digits) => text.parse().ok(),
            _ => None,
        };
        let Some(number) = number else {
            return Err(self.expected("value"));
        };
        self.at += length;
        Ok(Value::Number(number))
    }

    fn string(&mut self) -> Result<Value, String> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            match self.text.get(self.at) {
                None => {
                    return Err(format!(
                        "Expected value but found unexpected end of string at character {}",
                        self.at + 1
                    ));
                }
                Some(b'"') => break,
                Some(b'\\') => self.escape(&mut bytes)?,
                Some(byte) => {
                    bytes.push(*byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        let text = self.lua.create_string(&bytes).map_err(|error| error.to_string())?;
        Ok(Value::String(text))
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), String> {
        let invalid = format!(
            "Expected value but found invalid escape code at character {}",
            self.at + 1
        );
        let escaped = match self.text.get(self.at + 1) {
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(&same @ (b'"' | b'\\' | b'/')) => same,
            Some(b'u') => {
                let (character, length) = self
                    .unicode()
                    .ok_or_else(|| invalid.replace("escape code", "unicode escape code"))?;
                let mut encoded = [0; 4];
                bytes.extend_from_slice(character.encode_utf8(&mut encoded).as_bytes());
                self.at += length;
                return Ok(());
            }
            _ => return Err(invalid),
        };
        bytes.push(escaped);
        self.at += 2;
        Ok(())
    }

    /// The character of `\uXXXX`, or of two that make a pair, and the length of the escape.
    fn unicode(&self) -> Option<(char, usize)> {
        let unit = |at: usize| {
            let digits = self.text.get(at + 2..at + 6)?;
            let marked = self.text[at..].starts_with(b"\\u") && digits.iter().all(u8::is_ascii_hexdigit);
            let digits = std::str::from_utf8(digits).ok()?;
            u32::from_str_radix(digits, 16).ok().filter(|_| marked)
        };
        let first = unit(self.at)?;
        if !(0xd800..0xdc00).contains(&first) {
            return Some((char::from_u32(first)?, 6));
        }
        let second = unit(self.at + 6).filter(|second| (0xdc00..0xe000).contains(second))?;
        let point = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        Some((char::from_u32(point)?, 12))
    }
}

fn is_special(digits: &str) -> bool {
    ["inf", "infinity", "nan"]
        .iter()
        .any(|word| digits.eq_ignore_ascii_case(word))
}
