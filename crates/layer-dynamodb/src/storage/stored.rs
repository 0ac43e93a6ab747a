//! Items as bytes in the store.
//!
//! ```text
//! item   size u32 | count | (name length, name, value)...          counts and lengths are LEB128
//! value  tag, then   S B: length, bytes   N: see below   BOOL: one byte   NULL: nothing
//!                    M: as an item without size   L: count, values   sets: count, elements as S, N, B without tags
//! number flags (1 = negative) | exponent i16 | coefficient LEB128
//! ```
//!
//! The size is the service's, stored so that a page can be measured without decoding. Bytes are
//! from our own log, whose checksums were verified: a wrong byte here is a broken invariant and
//! panics.

use crate::wire::json::write_text;
use crate::wire::number::Number;
use crate::wire::value::{Item, Value, item_size, write_binary, write_number};

const SIZE_BYTES: usize = 4;
/// Flags and exponent.
const NUMBER_HEAD_BYTES: usize = 3;

pub fn encode(item: &Item) -> Vec<u8> {
    let size = item_size(item);
    let mut out = Vec::with_capacity(size + 4 * item.len() + 16);
    out.extend_from_slice(&(size as u32).to_le_bytes());
    encode_members(item, &mut out);
    out
}

/// The size of a stored item, as the service counts it.
pub fn size(stored: &[u8]) -> usize {
    u32::from_le_bytes(stored[..SIZE_BYTES].try_into().expect("four bytes")) as usize
}

pub fn decode(stored: &[u8]) -> Item {
    Reader {
        rest: &stored[SIZE_BYTES..],
    }
    .members()
}

/// The attributes with matching names, without building the others.
pub fn decode_some(stored: &[u8], is_wanted: impl Fn(&str) -> bool) -> Item {
    let mut reader = Reader {
        rest: &stored[SIZE_BYTES..],
    };
    let mut item = Item::new();
    for _ in 0..reader.count() {
        let name = reader.text();
        if is_wanted(name) {
            item.insert(name.to_owned(), reader.value());
        } else {
            reader.skip_value();
        }
    }
    item
}

/// Appends a stored item as JSON without building it.
pub fn write_json(stored: &[u8], out: &mut Vec<u8>) {
    out.reserve(stored.len() * 2);
    Reader {
        rest: &stored[SIZE_BYTES..],
    }
    .write_members(out);
}

fn encode_members(item: &Item, out: &mut Vec<u8>) {
    encode_length(item.len() as u128, out);
    for (name, value) in item {
        encode_bytes(name.as_bytes(), out);
        encode_value(value, out);
    }
}

fn encode_value(value: &Value, out: &mut Vec<u8>) {
    out.push(tag(value));
    match value {
        Value::S(text) => encode_bytes(text.as_bytes(), out),
        Value::N(number) => encode_number(*number, out),
        Value::B(bytes) => encode_bytes(bytes, out),
        Value::Bool(value) => out.push((*value).into()),
        Value::Null => {}
        Value::M(members) => encode_members(members, out),
        Value::L(elements) => {
            encode_length(elements.len() as u128, out);
            elements.iter().for_each(|value| encode_value(value, out));
        }
        Value::SS(set) => {
            encode_length(set.len() as u128, out);
            set.iter().for_each(|text| encode_bytes(text.as_bytes(), out));
        }
        Value::NS(set) => {
            encode_length(set.len() as u128, out);
            set.iter().for_each(|number| encode_number(*number, out));
        }
        Value::BS(set) => {
            encode_length(set.len() as u128, out);
            set.iter().for_each(|bytes| encode_bytes(bytes, out));
        }
    }
}

fn tag(value: &Value) -> u8 {
    match value {
        Value::S(_) => b'S',
        Value::N(_) => b'N',
        Value::B(_) => b'B',
        Value::Bool(_) => b'?',
        Value::Null => b'0',
        Value::M(_) => b'M',
        Value::L(_) => b'L',
        Value::SS(_) => b's',
        Value::NS(_) => b'n',
        Value::BS(_) => b'b',
    }
}

fn encode_length(mut length: u128, out: &mut Vec<u8>) {
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    encode_length(bytes.len() as u128, out);
    out.extend_from_slice(bytes);
}

fn encode_number(number: Number, out: &mut Vec<u8>) {
    let (negative, exponent, coefficient) = number.parts();
    out.push(negative.into());
    out.extend_from_slice(&exponent.to_le_bytes());
    encode_length(coefficient, out);
}

/// Walks stored bytes.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (bytes, remaining) = self.rest.split_at(count);
        self.rest = remaining;
        bytes
    }

    fn length(&mut self) -> u128 {
        let mut length = 0;
        for shift in (0..).step_by(7) {
            let byte = self.take(1)[0];
            length |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        length
    }

    fn count(&mut self) -> usize {
        match self.rest {
            [byte @ ..0x80, remaining @ ..] => {
                self.rest = remaining;
                usize::from(*byte)
            }
            _ => self.length() as usize,
        }
    }

    fn bytes(&mut self) -> &'a [u8] {
        let count = self.count();
        self.take(count)
    }

    fn text(&mut self) -> &'a str {
        std::str::from_utf8(self.bytes()).expect("stored text is UTF-8")
    }

    fn number(&mut self) -> Number {
        let negative = self.take(1)[0] != 0;
        let exponent = i16::from_le_bytes(self.take(2).try_into().expect("two bytes"));
        Number::from_parts(negative, exponent, self.length())
    }

    fn members(&mut self) -> Item {
        (0..self.count())
            .map(|_| (self.text().to_owned(), self.value()))
            .collect()
    }

    fn value(&mut self) -> Value {
        match self.take(1)[0] {
            b'S' => Value::S(self.text().to_owned()),
            b'N' => Value::N(self.number()),
            b'B' => Value::B(self.bytes().to_vec()),
            b'?' => Value::Bool(self.take(1)[0] != 0),
            b'0' => Value::Null,
            b'M' => Value::M(self.members()),
            b'L' => Value::L((0..self.count()).map(|_| self.value()).collect()),
            b's' => Value::SS((0..self.count()).map(|_| self.text().to_owned()).collect()),
            b'n' => Value::NS((0..self.count()).map(|_| self.number()).collect()),
            b'b' => Value::BS((0..self.count()).map(|_| self.bytes().to_vec()).collect()),
            other => panic!("no stored value begins with {other}"),
        }
    }

    fn skip_value(&mut self) {
        match self.take(1)[0] {
            b'S' | b'B' => {
                self.bytes();
            }
            b'N' => self.skip_number(),
            b'?' => {
                self.take(1);
            }
            b'0' => {}
            b'M' => self.skip_each(|reader| {
                reader.bytes();
                reader.skip_value();
            }),
            b'L' => self.skip_each(Reader::skip_value),
            b's' | b'b' => self.skip_each(|reader| {
                reader.bytes();
            }),
            b'n' => self.skip_each(Reader::skip_number),
            other => panic!("no stored value begins with {other}"),
        }
    }

    fn skip_each(&mut self, skip: impl Fn(&mut Self)) {
        (0..self.count()).for_each(|_| skip(self));
    }

    fn skip_number(&mut self) {
        self.take(NUMBER_HEAD_BYTES);
        self.length();
    }

    fn write_members(&mut self, out: &mut Vec<u8>) {
        out.push(b'{');
        for index in 0..self.count() {
            if index > 0 {
                out.push(b',');
            }
            write_text(out, self.bytes());
            out.push(b':');
            self.write_value(out);
        }
        out.push(b'}');
    }

    fn write_value(&mut self, out: &mut Vec<u8>) {
        let tag = self.take(1)[0];
        match tag {
            b'S' => {
                out.extend_from_slice(b"{\"S\":");
                write_text(out, self.bytes());
            }
            b'N' => {
                out.extend_from_slice(b"{\"N\":");
                write_number(out, self.number());
            }
            b'B' => {
                out.extend_from_slice(b"{\"B\":");
                write_binary(out, self.bytes());
            }
            b'?' => out.extend_from_slice(match self.take(1)[0] {
                0 => b"{\"BOOL\":false",
                _ => b"{\"BOOL\":true",
            }),
            b'0' => out.extend_from_slice(b"{\"NULL\":true"),
            b'M' => {
                out.extend_from_slice(b"{\"M\":");
                self.write_members(out);
            }
            b'L' => self.write_elements(b"{\"L\":[", out, |reader, out| reader.write_value(out)),
            b's' => self.write_elements(b"{\"SS\":[", out, |reader, out| write_text(out, reader.bytes())),
            b'n' => self.write_elements(b"{\"NS\":[", out, |reader, out| write_number(out, reader.number())),
            b'b' => self.write_elements(b"{\"BS\":[", out, |reader, out| write_binary(out, reader.bytes())),
            other => panic!("no stored value begins with {other}"),
        }
        out.push(b'}');
    }

    fn write_elements(&mut self, opening: &[u8], out: &mut Vec<u8>, mut write: impl FnMut(&mut Self, &mut Vec<u8>)) {
        out.extend_from_slice(opening);
        for index in 0..self.count() {
            if index > 0 {
                out.push(b',');
            }
            write(self, out);
        }
        out.push(b']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::json::Json;
    use crate::wire::value::{item_json, parse_item};

    #[test]
    fn items_are_read_back() {
        let text = r#"{"a":{"S":"ä\"\n"},"b":{"N":"-1.5"},"c":{"B":"AAE="},"d":{"BOOL":true},"e":{"NULL":true},
            "f":{"M":{"x":{"L":[{"N":"12345678901234567890123456789012345678"},{"S":""}]}}},
            "g":{"SS":["x","y"]},"h":{"NS":["1","2"]},"i":{"BS":["AA=="]},"j":{"BOOL":false},"k":{"N":"0"}}"#;
        let item = parse_item(&Json::parse(text.as_bytes()).unwrap()).unwrap();
        let stored = encode(&item);
        assert_eq!(decode(&stored), item);
        assert_eq!(size(&stored), item_size(&item));
        let mut json = Vec::new();
        write_json(&stored, &mut json);
        assert_eq!(String::from_utf8(json).unwrap(), item_json(&item));
        for names in ["", "a", "k", "adfk", "bcegij"] {
            let mut part = item.clone();
            part.retain(|name, _| names.contains(name.as_str()));
            assert_eq!(decode_some(&stored, |name| names.contains(name)), part);
        }
    }
}
