//! Mappers of mapped ranges: a tuple that says which query follows from each row of a range.
//!
//! ```text
//!   ("people", "{K[3]}", "{V[0]}")            a key: elements of the row's key and value, put in
//!   ("people", "{K[3]}", "{...}")             all keys that begin so
//!   ("{{people}}",)                           braces of their own are written twice
//! ```
//!
//! Follows the wiki page "Everything about GetMappedRange" of FoundationDB, and its errors.

use crate::ErrorCode;

/// The query that follows from a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    Key(Vec<u8>),
    Prefix(Vec<u8>),
}

pub(crate) struct Mapper {
    parts: Vec<Part>,
    is_range: bool,
}

enum Part {
    /// An element as it is encoded.
    Literal(Vec<u8>),
    /// An element of the row; `None` as its index is no number.
    OfKey(Option<usize>),
    OfValue(Option<usize>),
}

const BYTES: u8 = 0x01;
const TEXT: u8 = 0x02;
const NESTED: u8 = 0x05;
/// Follows a zero byte that is part of an element.
const ESCAPE: u8 = 0xff;

impl Mapper {
    pub fn parse(mapper: &[u8]) -> Result<Mapper, ErrorCode> {
        let elements = elements(mapper).ok_or(ErrorCode::MAPPER_NOT_TUPLE)?;
        let (mut parts, mut is_range) = (Vec::new(), false);
        for (place, element) in elements.iter().enumerate() {
            let text = match element.first() {
                Some(&BYTES | &TEXT) => content(element),
                _ => Vec::new(),
            };
            if let Some(plain) = unescaped(&text) {
                // An element with braces of its own becomes bytes, as in the original.
                parts.push(Part::Literal(encoded(&plain)));
            } else if let Some(part) = selector(&text) {
                parts.push(part);
            } else if text == b"{...}" {
                if place + 1 < elements.len() {
                    return Err(ErrorCode::MAPPER_BAD_RANGE);
                }
                is_range = true;
            } else {
                parts.push(Part::Literal(element.to_vec()));
            }
        }
        Ok(Mapper { parts, is_range })
    }

    pub fn query(&self, key: &[u8], value: &[u8]) -> Result<Query, ErrorCode> {
        let (mut key_elements, mut value_elements) = (None, None);
        let mut mapped = Vec::new();
        for part in &self.parts {
            let (parsed, whole, index, failure) = match part {
                Part::Literal(element) => {
                    mapped.extend_from_slice(element);
                    continue;
                }
                Part::OfKey(index) => (&mut key_elements, key, index, ErrorCode::KEY_NOT_TUPLE),
                Part::OfValue(index) => (&mut value_elements, value, index, ErrorCode::VALUE_NOT_TUPLE),
            };
            let index = index.ok_or(ErrorCode::MAPPER_BAD_INDEX)?;
            // Keys and values without a selected element need not be tuples.
            if parsed.is_none() {
                *parsed = Some(elements(whole).ok_or(failure)?);
            }
            let element = parsed.as_ref().and_then(|elements| elements.get(index));
            mapped.extend_from_slice(element.ok_or(ErrorCode::MAPPER_BAD_INDEX)?);
        }
        Ok(match self.is_range {
            true => Query::Prefix(mapped),
            false => Query::Key(mapped),
        })
    }
}

/// Returns the first key after all keys with the prefix; `None`: no key follows them.
pub(crate) fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

fn selector(text: &[u8]) -> Option<Part> {
    let inner = text.strip_prefix(b"{")?.strip_suffix(b"]}")?;
    let (kind, index) = inner.split_at_checked(2)?;
    let index = std::str::from_utf8(index).ok().and_then(|index| index.parse().ok());
    match kind {
        b"K[" if !inner[2..].is_empty() => Some(Part::OfKey(index)),
        b"V[" if !inner[2..].is_empty() => Some(Part::OfValue(index)),
        _ => None,
    }
}

/// `None`: nothing is written twice.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let (mut plain, mut at, mut has_changed) = (Vec::new(), 0, false);
    while let Some(&byte) = text.get(at) {
        let is_twice = matches!(byte, b'{' | b'}') && text.get(at + 1) == Some(&byte);
        plain.push(byte);
        at += if is_twice { 2 } else { 1 };
        has_changed |= is_twice;
    }
    has_changed.then_some(plain)
}

/// Returns the content of bytes or a text, between its type and its end.
fn content(element: &[u8]) -> Vec<u8> {
    let inner = &element[1..element.len() - 1];
    let mut content = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(&byte) = bytes.next() {
        content.push(byte);
        if byte == 0 {
            bytes.next();
        }
    }
    content
}

fn encoded(bytes: &[u8]) -> Vec<u8> {
    let mut element = vec![BYTES];
    for &byte in bytes {
        element.push(byte);
        if byte == 0 {
            element.push(ESCAPE);
        }
    }
    element.push(0);
    element
}

/// Returns the encoded elements of a tuple; `None`: the bytes are no tuple.
fn elements(tuple: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut elements, mut remaining) = (Vec::new(), tuple);
    while !remaining.is_empty() {
        let (element, after) = remaining.split_at_checked(element_bytes(remaining)?)?;
        elements.push(element);
        remaining = after;
    }
    Some(elements)
}

/// The length of the first element.
fn element_bytes(tuple: &[u8]) -> Option<usize> {
    let (&kind, body) = tuple.split_first()?;
    let content = match kind {
        0x00 | 0x26 | 0x27 => 0,
        BYTES | TEXT => terminated_bytes(body)?,
        NESTED => nested_bytes(body)?,
        // Whole numbers of many bytes have their length behind the type, negative ones its
        // complement.
        0x0b => 1 + usize::from(!*body.first()?),
        0x0c..=0x1c => usize::from(kind.abs_diff(0x14)),
        0x1d => 1 + usize::from(*body.first()?),
        0x20 => 4,
        0x21 | 0x31 => 8,
        0x30 => 16,
        0x32 => 10,
        0x33 => 12,
        _ => return None,
    };
    Some(1 + content)
}

/// Returns the length up to and including the first zero byte without an escape after it.
fn terminated_bytes(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == 0)? + 1;
        match bytes.get(at) {
            Some(&ESCAPE) => at += 1,
            _ => return Some(at),
        }
    }
}

/// The same of a tuple within a tuple, whose nulls are a zero byte with an escape. Tuples within it
/// are counted, not descended into.
fn nested_bytes(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut open) = (0, 1_usize);
    while open > 0 {
        match *bytes.get(at)? {
            0 if bytes.get(at + 1) == Some(&ESCAPE) => at += 2,
            0 => {
                open -= 1;
                at += 1;
            }
            NESTED => {
                open += 1;
                at += 1;
            }
            _ => at += element_bytes(&bytes[at..])?,
        }
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        [&[TEXT], text.as_bytes(), &[0]].concat()
    }

    fn tuple(elements: &[&str]) -> Vec<u8> {
        elements.iter().flat_map(|element| text(element)).collect()
    }

    fn query(mapper: &[&str], key: &[u8], value: &[u8]) -> Result<Query, ErrorCode> {
        Mapper::parse(&tuple(mapper))?.query(key, value)
    }

    #[test]
    fn selectors_become_elements_of_the_row() {
        let key = [tuple(&["index", "red"]), vec![0x15, 7]].concat();
        let value = [vec![0x05], text("in"), vec![0, 0xff, 0x05, 0, 0], text("end")].concat();
        let expected = [text("record"), vec![0x15, 7]].concat();
        assert_eq!(
            query(&["record", "{K[2]}"], &key, &[0xee]),
            Ok(Query::Key(expected.clone()))
        );
        assert_eq!(
            query(&["record", "{K[2]}", "{...}"], &key, b""),
            Ok(Query::Prefix(expected))
        );
        let nested = [&value[..value.len() - 5], &text("red")].concat();
        assert_eq!(query(&["{V[0]}", "{K[1]}"], &key, &value), Ok(Query::Key(nested)));
        assert_eq!(query(&["{V[1]}"], &key, &value), Ok(Query::Key(text("end"))));
        let braces = [encoded(b"{K[9]}"), encoded(b"a}"), text("{K[]}"), text("{...")].concat();
        assert_eq!(
            query(&["{{K[9]}}", "a}}", "{K[]}", "{..."], &key, b""),
            Ok(Query::Key(braces))
        );
        assert_eq!(query(&[], &[0xee], b""), Ok(Query::Key(Vec::new())));
    }

    #[test]
    fn each_fault_has_its_code() {
        let key = tuple(&["index"]);
        for (mapper, key, value, code) in [
            (&["{K[1]}"][..], &*key, &b""[..], ErrorCode::MAPPER_BAD_INDEX),
            (&["{K[-1]}"], &key, b"", ErrorCode::MAPPER_BAD_INDEX),
            (&["{V[x]}"], &key, b"", ErrorCode::MAPPER_BAD_INDEX),
            (&["{...}", "a"], &key, b"", ErrorCode::MAPPER_BAD_RANGE),
            (&["{K[0]}"], &[0xee], b"", ErrorCode::KEY_NOT_TUPLE),
            (&["{V[0]}"], &key, &[TEXT, b'x'], ErrorCode::VALUE_NOT_TUPLE),
        ] {
            assert_eq!(query(mapper, key, value), Err(code), "{mapper:?}");
        }
        assert_eq!(Mapper::parse(b"no tuple").err(), Some(ErrorCode::MAPPER_NOT_TUPLE));
        for bad in [
            &[TEXT][..],
            &[0x05, 0x05, 0],
            &[0x1d],
            &[0x0b, 0, 1],
            &[0x33, 1],
            &[0x1c, 0],
        ] {
            assert_eq!(elements(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn every_type_has_its_length() {
        for element in [
            vec![0],
            [vec![BYTES], vec![b'a', 0, 0xff, b'b', 0]].concat(),
            vec![0x0b, !9, 1, 2, 3, 4, 5, 6, 7, 8, 9],
            vec![0x0c, 1, 2, 3, 4, 5, 6, 7, 8],
            vec![0x14],
            vec![0x15, 0],
            vec![0x1d, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9],
            [vec![0x20], vec![0; 4]].concat(),
            [vec![0x21], vec![0; 8]].concat(),
            vec![0x26],
            vec![0x27],
            [vec![0x30], vec![0; 16]].concat(),
            [vec![0x33], vec![0; 12]].concat(),
        ] {
            let two = [&element[..], &[0x27]].concat();
            assert_eq!(elements(&two), Some(vec![&element[..], &[0x27][..]]));
        }
    }

    #[test]
    fn the_end_of_a_prefix_is_the_next_prefix() {
        assert_eq!(end_of_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(end_of_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(end_of_prefix(b"\xff"), None);
        assert_eq!(end_of_prefix(b""), None);
    }
}
