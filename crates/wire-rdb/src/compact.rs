//! Redis' compact encodings, read into their elements: listpack, ziplist, intset, zipmap. Listpacks
//! are written too.
//!
//! All elements are located by walking from the front; the lengths and counts in the headers are
//! not trusted. The announced size of each element is checked against the remaining bytes.

use quartet_wire_resp::number;

use crate::primitives::{Malformed, Reader};

pub type Elements = Vec<Vec<u8>>;

const LISTPACK_HEADER_BYTES: usize = 6;
const ZIPLIST_HEADER_BYTES: usize = 10;
const END: u8 = 0xff;

/// The encoding's own length field must equal its whole length, and its last byte must be its end
/// mark.
fn entries_of(bytes: &[u8], header_bytes: usize) -> Result<Reader<'_>, Malformed> {
    let announced = Reader::new(bytes).array().map(u32::from_le_bytes)?;
    let entries = bytes.get(header_bytes..).ok_or(Malformed)?;
    if announced as usize != bytes.len() || entries.last() != Some(&END) {
        return Err(Malformed);
    }
    Ok(Reader::new(entries))
}

/// Sign-extends the lowest `bits` of `number`.
fn signed(number: u64, bits: u32) -> i64 {
    ((number << (64 - bits)) as i64) >> (64 - bits)
}

/// A little-endian number of `count` bytes.
fn little(reader: &mut Reader<'_>, count: usize) -> Result<u64, Malformed> {
    let bytes = reader.bytes(count)?;
    Ok(bytes
        .iter()
        .rev()
        .fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn text(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

pub fn listpack(bytes: &[u8]) -> Result<Elements, Malformed> {
    let mut reader = entries_of(bytes, LISTPACK_HEADER_BYTES)?;
    let mut elements = Vec::new();
    loop {
        let before = reader.rest.len();
        let first = reader.byte()?;
        if first == END {
            return if reader.is_done() { Ok(elements) } else { Err(Malformed) };
        }
        let low = u64::from(first);
        let element = match first {
            0..0x80 => text(i64::from(first)),
            0x80..0xc0 => reader.bytes(usize::from(first & 0x3f))?.to_vec(),
            0xc0..0xe0 => text(signed((low & 0x1f) << 8 | u64::from(reader.byte()?), 13)),
            0xe0..0xf0 => {
                let length = usize::from(first & 0x0f) << 8 | usize::from(reader.byte()?);
                reader.bytes(length)?.to_vec()
            }
            0xf0 => {
                let length = little(&mut reader, 4)? as usize;
                reader.bytes(length)?.to_vec()
            }
            0xf1 => text(signed(little(&mut reader, 2)?, 16)),
            0xf2 => text(signed(little(&mut reader, 3)?, 24)),
            0xf3 => text(signed(little(&mut reader, 4)?, 32)),
            0xf4 => text(signed(little(&mut reader, 8)?, 64)),
            _ => return Err(Malformed),
        };
        let entry_bytes = before - reader.rest.len();
        check_back_length(&mut reader, entry_bytes)?;
        elements.push(element);
    }
}

/// Encodes a listpack of elements; integers are encoded as such.
pub fn write_listpack(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![0; LISTPACK_HEADER_BYTES];
    for element in elements {
        let start = out.len();
        match number::integer(element) {
            Some(number) => write_integer(number, &mut out),
            None => write_text(element, &mut out),
        }
        write_back_length(out.len() - start, &mut out);
    }
    out.push(END);
    let bytes = out.len() as u32;
    out[..4].copy_from_slice(&bytes.to_le_bytes());
    // The greatest count means that it is unknown.
    let count = u16::try_from(elements.len()).unwrap_or(u16::MAX);
    out[4..LISTPACK_HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    out
}

fn write_integer(number: i64, out: &mut Vec<u8>) {
    let low_bytes = number.to_le_bytes();
    match number {
        0..=127 => out.push(number as u8),
        -4096..=4095 => out.extend_from_slice(&[0xc0 | (number >> 8) as u8 & 0x1f, number as u8]),
        -32_768..=32_767 => {
            out.push(0xf1);
            out.extend_from_slice(&low_bytes[..2]);
        }
        -8_388_608..=8_388_607 => {
            out.push(0xf2);
            out.extend_from_slice(&low_bytes[..3]);
        }
        -2_147_483_648..=2_147_483_647 => {
            out.push(0xf3);
            out.extend_from_slice(&low_bytes[..4]);
        }
        _ => {
            out.push(0xf4);
            out.extend_from_slice(&low_bytes);
        }
    }
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    match text.len() {
        length @ 0..64 => out.push(0x80 | length as u8),
        length @ 64..4096 => out.extend_from_slice(&[0xe0 | (length >> 8) as u8, length as u8]),
        length => {
            out.push(0xf0);
            out.extend_from_slice(&(length as u32).to_le_bytes());
        }
    }
    out.extend_from_slice(text);
}

/// The number of bytes of an entry's trailing length.
fn back_length_bytes(entry_bytes: usize) -> usize {
    match entry_bytes {
        0..=127 => 1,
        128..=16_383 => 2,
        16_384..=2_097_151 => 3,
        2_097_152..=268_435_455 => 4,
        _ => 5,
    }
}

/// The most significant seven bits first; all bytes but the first are marked.
fn write_back_length(entry_bytes: usize, out: &mut Vec<u8>) {
    let count = back_length_bytes(entry_bytes);
    for place in (0..count).rev() {
        let mark = if place + 1 < count { 0x80 } else { 0 };
        out.push((entry_bytes >> (7 * place)) as u8 & 0x7f | mark);
    }
}

/// An entry ends with its length, seven bits a byte, the most significant first.
fn check_back_length(reader: &mut Reader<'_>, entry_bytes: usize) -> Result<(), Malformed> {
    let bytes = reader.bytes(back_length_bytes(entry_bytes))?;
    let length = bytes
        .iter()
        .fold(0, |length, &byte| length << 7 | usize::from(byte & 0x7f));
    if length == entry_bytes { Ok(()) } else { Err(Malformed) }
}

pub fn ziplist(bytes: &[u8]) -> Result<Elements, Malformed> {
    let mut reader = entries_of(bytes, ZIPLIST_HEADER_BYTES)?;
    let mut elements = Vec::new();
    let mut previous_bytes = 0;
    loop {
        let before = reader.rest.len();
        let announced = match reader.byte()? {
            END if reader.is_done() => return Ok(elements),
            END => return Err(Malformed),
            0xfe => little(&mut reader, 4)? as usize,
            length => usize::from(length),
        };
        if announced != previous_bytes {
            return Err(Malformed);
        }
        elements.push(ziplist_entry(&mut reader)?);
        previous_bytes = before - reader.rest.len();
    }
}

fn ziplist_entry(reader: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
    let first = reader.byte()?;
    let length = match first {
        0..0x40 => usize::from(first),
        0x40..0x80 => usize::from(first & 0x3f) << 8 | usize::from(reader.byte()?),
        0x80 => u32::from_be_bytes(reader.array()?) as usize,
        0xc0 => return Ok(text(signed(little(reader, 2)?, 16))),
        0xd0 => return Ok(text(signed(little(reader, 4)?, 32))),
        0xe0 => return Ok(text(signed(little(reader, 8)?, 64))),
        0xf0 => return Ok(text(signed(little(reader, 3)?, 24))),
        0xfe => return Ok(text(signed(little(reader, 1)?, 8))),
        0xf1..=0xfd => return Ok(text(i64::from(first & 0x0f) - 1)),
        _ => return Err(Malformed),
    };
    Ok(reader.bytes(length)?.to_vec())
}

/// Integers in ascending order.
pub fn intset(bytes: &[u8]) -> Result<Elements, Malformed> {
    let mut reader = Reader::new(bytes);
    let width = u32::from_le_bytes(reader.array()?) as usize;
    let count = u32::from_le_bytes(reader.array()?) as usize;
    if !matches!(width, 2 | 4 | 8) || count.checked_mul(width) != Some(reader.rest.len()) {
        return Err(Malformed);
    }
    let mut integers = Vec::new();
    while !reader.is_done() {
        integers.push(signed(little(&mut reader, width)?, 8 * width as u32));
    }
    if !integers.is_sorted_by(|a, b| a < b) {
        return Err(Malformed);
    }
    Ok(integers.into_iter().map(text).collect())
}

/// Fields and values in turn.
pub fn zipmap(bytes: &[u8]) -> Result<Elements, Malformed> {
    let mut reader = Reader::new(bytes);
    reader.byte()?;
    let mut elements = Vec::new();
    loop {
        let Some(length) = zipmap_length(&mut reader)? else {
            return if reader.is_done() { Ok(elements) } else { Err(Malformed) };
        };
        elements.push(reader.bytes(length)?.to_vec());
        let length = zipmap_length(&mut reader)?.ok_or(Malformed)?;
        let free = usize::from(reader.byte()?);
        elements.push(reader.bytes(length)?.to_vec());
        reader.bytes(free)?;
    }
}

fn zipmap_length(reader: &mut Reader<'_>) -> Result<Option<usize>, Malformed> {
    match reader.byte()? {
        END => Ok(None),
        254 => Ok(Some(little(reader, 4)? as usize)),
        length => Ok(Some(usize::from(length))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(read: Result<Elements, Malformed>, expected: &[&str]) {
        let expected: Elements = expected.iter().map(|element| element.as_bytes().to_vec()).collect();
        assert_eq!(read, Ok(expected));
    }

    /// Bytes in the form that Redis 7.0 writes, put together by hand.
    #[test]
    fn encodings_of_redis_are_read() {
        check(
            listpack(b"\x0f\0\0\0\x03\0\x01\x01\x81a\x02\xc1\x2c\x02\xff"),
            &["1", "a", "300"],
        );
        check(ziplist(b"\x10\0\0\0\x0c\0\0\0\x02\0\0\x01a\x03\xf3\xff"), &["a", "2"]);
        check(intset(b"\x02\0\0\0\x02\0\0\0\xff\xff\x05\0"), &["-1", "5"]);
        check(zipmap(b"\x01\x01k\x01\0v\xff"), &["k", "v"]);
    }

    #[test]
    fn listpacks_survive_a_round_trip() {
        let mut elements: Elements = [
            0,
            127,
            128,
            -1,
            4095,
            4096,
            -4096,
            -4097,
            32_767,
            -32_768,
            32_768,
            8_388_607,
            -8_388_608,
            8_388_608,
            i64::MAX,
            i64::MIN,
        ]
        .map(text)
        .to_vec();
        for length in [0, 1, 63, 64, 126, 127, 4095, 4096, 16_384, 2_097_152] {
            elements.push(vec![b'x'; length]);
        }
        elements.push(b"007".to_vec());
        assert_eq!(listpack(&write_listpack(&elements)), Ok(elements));
    }

    proptest! {
        #[test]
        fn any_bytes_end(mut bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = (intset(&bytes), zipmap(&bytes));
            bytes.push(END);
            if bytes.len() > 10 {
                let length = bytes.len() as u32;
                bytes[..4].copy_from_slice(&length.to_le_bytes());
            }
            let _ = (listpack(&bytes), ziplist(&bytes));
        }
    }
}
