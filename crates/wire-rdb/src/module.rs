//! Data of modules, as values and beside keys.
//!
//! ```text
//! module's number (a length): nine letters of six bits, the form's version in ten
//! then parts, each with its kind before it; a 0 ends them:
//!   1 | 2  a number (a length)      4  a double (8 bytes, little-endian)
//!   3      a float (4 bytes)        5  a string
//! ```

use crate::primitives::{Malformed, Reader, write_length, write_string};

/// One part of a module's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// A number. One with a sign is written as the number without a sign that has its bits.
    Number(u64),
    /// A double.
    Double(f64),
    /// A string.
    Text(Vec<u8>),
}

const END: u64 = 0;
const SIGNED: u64 = 1;
const NUMBER: u64 = 2;
const DOUBLE: u64 = 4;
const STRING: u64 = 5;

const VERSION_BITS: u64 = 0x3ff;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the number of a module with this name and the version 0.
pub const fn number_of(name: &[u8; 9]) -> u64 {
    let (mut number, mut at) = (0, 0);
    while at < name.len() {
        let mut letter = 0;
        while LETTERS[letter] != name[at] {
            letter += 1;
        }
        number = number << 6 | letter as u64;
        at += 1;
    }
    number << 10
}

/// Returns the name in a module's number.
pub fn name_of(number: u64) -> String {
    (0..9)
        .rev()
        .map(|place| char::from(LETTERS[(number >> (10 + 6 * place)) as usize & 63]))
        .collect()
}

/// Splits a module's number into that of its version 0 and the version.
pub fn split(number: u64) -> (u64, u64) {
    (number & !VERSION_BITS, number & VERSION_BITS)
}

pub fn write_number(number: u64, out: &mut Vec<u8>) {
    write_length(NUMBER as usize, out);
    write_length(number as usize, out);
}

pub fn write_double(number: f64, out: &mut Vec<u8>) {
    write_length(DOUBLE as usize, out);
    out.extend_from_slice(&number.to_le_bytes());
}

pub fn write_text(text: &[u8], out: &mut Vec<u8>) {
    write_length(STRING as usize, out);
    write_string(text, out);
}

/// Writes a string as C stores it, with a trailing zero.
pub fn write_c_text(text: &[u8], out: &mut Vec<u8>) {
    write_text(&[text, b"\0"].concat(), out);
}

pub fn write_end(out: &mut Vec<u8>) {
    write_length(END as usize, out);
}

pub fn write_part(part: &Part, out: &mut Vec<u8>) {
    match part {
        Part::Number(number) => write_number(*number, out),
        Part::Double(number) => write_double(*number, out),
        Part::Text(text) => write_text(text, out),
    }
}

/// Reads a part; `None` at the end of the value.
pub fn part(reader: &mut Reader<'_>) -> Result<Option<Part>, Malformed> {
    Ok(Some(match reader.length()? {
        END => return Ok(None),
        SIGNED | NUMBER => Part::Number(reader.length()?),
        DOUBLE => Part::Double(f64::from_le_bytes(reader.array()?)),
        STRING => Part::Text(reader.string()?),
        _ => return Err(Malformed),
    }))
}

pub fn number(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    match reader.length()? {
        SIGNED | NUMBER => reader.length(),
        _ => Err(Malformed),
    }
}

pub fn double(reader: &mut Reader<'_>) -> Result<f64, Malformed> {
    match reader.length()? {
        DOUBLE => Ok(f64::from_le_bytes(reader.array()?)),
        _ => Err(Malformed),
    }
}

pub fn text(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    match reader.length()? {
        STRING => reader.string(),
        _ => Err(Malformed),
    }
}

/// Reads a string with a trailing zero, and strips that.
pub fn c_text(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let mut text = text(reader)?;
    match text.pop() {
        Some(0) => Ok(text),
        _ => Err(Malformed),
    }
}

pub fn end(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    match reader.length()? {
        END => Ok(()),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_hold_names() {
        let number = number_of(b"ReJSON-RL");
        assert_eq!(number | 3, 0x45e2_5238_df91_2c03);
        assert_eq!(
            (name_of(number | 3).as_str(), split(number | 3)),
            ("ReJSON-RL", (number, 3))
        );
        assert_eq!(number_of(b"vectorset"), crate::vector_set::MODULE);
    }
}
