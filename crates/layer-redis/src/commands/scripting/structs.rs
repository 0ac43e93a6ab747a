//! The library `struct`: packs values into C's layouts, as Roberto Ierusalimschy's does, in safe
//! Rust.
//!
//! The formats: `<` `>` byte order, `!n` alignment, `b B h H l L T iN IN` integers, `f d` floats,
//! `x` padding, `cN` a string of N bytes, `s` a string that ends with a zero byte. Every size is
//! checked before it is added to another.

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use super::arguments::{Arguments, define};

const INTEGER_BYTES_MAX: usize = 32;
const NATIVE_ALIGNMENT: usize = 8;
/// Values that one call may return: Lua's stack holds eight thousand.
const VALUES_MAX: usize = 4000;

pub fn library(lua: &Lua) -> mlua::Result<Table> {
    let library = lua.create_table()?;
    define(lua, &library, "pack", pack)?;
    define(lua, &library, "unpack", unpack)?;
    define(lua, &library, "size", |_, arguments| size(&arguments))?;
    Ok(library)
}

/// The rest of a format, with the options parsed before.
struct Format<'a> {
    rest: &'a [u8],
    big_endian: bool,
    alignment: usize,
}

/// One option: its letter and its size.
#[derive(Clone, Copy)]
struct Item {
    letter: u8,
    bytes: usize,
}

impl Format<'_> {
    fn new(format: &[u8]) -> Format<'_> {
        // C reads up to a zero byte.
        let end = format.iter().position(|&byte| byte == 0).unwrap_or(format.len());
        Format {
            rest: &format[..end],
            big_endian: false,
            alignment: 1,
        }
    }

    fn number(&mut self, default: usize) -> Result<usize, String> {
        let length = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if length == 0 {
            return Ok(default);
        }
        let (digits, suffix) = self.rest.split_at(length);
        self.rest = suffix;
        let number = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| digits.parse::<i32>().ok());
        Ok(number.ok_or("integral size overflow")? as usize)
    }

    /// The next option for a value or padding, and the number of bytes that align it after
    /// `position`.
    fn next(&mut self, arguments: &Arguments<'_>, position: usize) -> Result<Option<(Item, usize)>, String> {
        while let Some((&letter, suffix)) = self.rest.split_first() {
            self.rest = suffix;
            let bytes = match letter {
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'l' | b'L' | b'T' | b'd' => 8,
                b'f' => 4,
                b's' => 0,
                b'c' => self.number(1)?,
                b'i' | b'I' => match self.number(4)? {
                    size if size > INTEGER_BYTES_MAX => {
                        return Err(format!(
                            "integral size {size} is larger than limit of {INTEGER_BYTES_MAX}"
                        ));
                    }
                    size => size,
                },
                b' ' => continue,
                b'>' => {
                    self.big_endian = true;
                    continue;
                }
                b'<' => {
                    self.big_endian = false;
                    continue;
                }
                b'!' => {
                    let alignment = self.number(NATIVE_ALIGNMENT)?;
                    if !alignment.is_power_of_two() {
                        return Err(format!("alignment {alignment} is not a power of 2"));
                    }
                    self.alignment = alignment;
                    continue;
                }
                other => {
                    let why = format!("invalid format option '{}'", char::from(other));
                    return Err(arguments.bad(0, &why));
                }
            };
            let item = Item { letter, bytes };
            return Ok(Some((item, self.padding(item, position))));
        }
        Ok(None)
    }

    fn padding(&self, item: Item, position: usize) -> usize {
        if item.bytes == 0 || item.letter == b'c' {
            return 0;
        }
        // A size that is no power of two aligns in its own odd way, as in C.
        let size = item.bytes.min(self.alignment);
        size.wrapping_sub(position & (size - 1)) & (size - 1)
    }

    fn ordered(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }
}

fn pack(lua: &Lua, arguments: Arguments<'_>) -> Result<LuaString, String> {
    let format = arguments.string(0)?;
    let format = format.as_bytes();
    let mut format = Format::new(&format);
    let (mut out, mut index) = (Vec::new(), 1);
    while let Some((item, padding)) = format.next(&arguments, out.len())? {
        out.resize(out.len() + padding, 0);
        match item.letter {
            b'x' => {
                out.push(0);
                continue;
            }
            b'f' => out.extend(format.ordered((arguments.number(index)? as f32).to_le_bytes().to_vec())),
            b'd' => out.extend(format.ordered(arguments.number(index)?.to_le_bytes().to_vec())),
            b'c' | b's' => {
                let text = arguments.string(index)?;
                let text = text.as_bytes();
                let bytes = if item.bytes == 0 { text.len() } else { item.bytes };
                let text = text
                    .get(..bytes)
                    .ok_or_else(|| arguments.bad(index + 1, "string too short"))?;
                out.extend_from_slice(text);
                if item.letter == b's' {
                    out.push(0);
                }
            }
            _ => {
                let number = arguments.number(index)?;
                let number = if number < 0.0 {
                    number as i64 as u64
                } else {
                    number as u64
                };
                let mut bytes = number.to_le_bytes().to_vec();
                bytes.resize(item.bytes, 0);
                out.extend(format.ordered(bytes));
            }
        }
        index += 1;
        if out.len() > super::strings::STRING_BYTES_MAX {
            return Err("resulting string too large".into());
        }
    }
    lua.create_string(&out).map_err(|error| error.to_string())
}

fn unpack(lua: &Lua, arguments: Arguments<'_>) -> Result<MultiValue, String> {
    let format = arguments.string(0)?;
    let format = format.as_bytes();
    let mut format = Format::new(&format);
    let data = arguments.string(1)?;
    let data = data.as_bytes();
    let start = arguments.integer_or(2, 1)?;
    if start < 1 {
        return Err(arguments.bad(2, "offset must be 1 or greater"));
    }
    let mut position = usize::try_from(start - 1).unwrap_or(usize::MAX);
    let mut values = MultiValue::new();
    while let Some((item, padding)) = format.next(&arguments, position)? {
        position = position.saturating_add(padding);
        let too_short = || arguments.bad(1, "data string too short");
        let input = data.get(position..).ok_or_else(too_short)?;
        let mut taken = input.get(..item.bytes).ok_or_else(too_short)?;
        match item.letter {
            b'x' => {}
            b'f' => {
                let bytes = format.ordered(taken.to_vec());
                let bytes = bytes.try_into().expect("four bytes");
                values.push_back(Value::Number(f64::from(f32::from_le_bytes(bytes))));
            }
            b'd' => {
                let bytes = format.ordered(taken.to_vec());
                values.push_back(Value::Number(f64::from_le_bytes(
                    bytes.try_into().expect("eight bytes"),
                )));
            }
            b'c' => {
                if item.bytes == 0 {
                    let size = match values.pop_back() {
                        Some(Value::Number(size)) if size < 0.0 => return Err(too_short()),
                        Some(Value::Number(size)) => size,
                        _ => return Err("format 'c0' needs a previous size".into()),
                    };
                    taken = input.get(..size as usize).ok_or_else(too_short)?;
                }
                let text = lua.create_string(taken).map_err(|error| error.to_string())?;
                values.push_back(Value::String(text));
            }
            b's' => {
                let end = input
                    .iter()
                    .position(|&byte| byte == 0)
                    .ok_or("unfinished string in data")?;
                let text = lua.create_string(&input[..end]).map_err(|error| error.to_string())?;
                values.push_back(Value::String(text));
                taken = &input[..=end];
            }
            letter => {
                let bytes = format.ordered(taken.to_vec());
                values.push_back(Value::Number(integer(&bytes, letter.is_ascii_lowercase())));
            }
        }
        position += taken.len();
        if values.len() > VALUES_MAX {
            return Err("too many results".into());
        }
    }
    values.push_back(Value::Number((position + 1) as f64));
    Ok(values)
}

/// A little-endian integer of up to 32 bytes, of which the lowest eight count.
fn integer(bytes: &[u8], is_signed: bool) -> f64 {
    let number = bytes
        .iter()
        .take(8)
        .rev()
        .fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
    if !is_signed || bytes.is_empty() {
        return number as f64;
    }
    let unused = 64 - 8 * bytes.len().min(8) as u32;
    (((number << unused) as i64) >> unused) as f64
}

fn size(arguments: &Arguments<'_>) -> Result<f64, String> {
    let format = arguments.string(0)?;
    let format = format.as_bytes();
    let mut format = Format::new(&format);
    let mut position: usize = 0;
    while let Some((item, padding)) = format.next(arguments, position)? {
        match item {
            Item { letter: b's', .. } => return Err(arguments.bad(0, "option 's' has no fixed size")),
            Item { letter: b'c', bytes: 0 } => return Err(arguments.bad(0, "option 'c0' has no fixed size")),
            _ => position = position.saturating_add(padding).saturating_add(item.bytes),
        }
    }
    Ok(position as f64)
}
