//! Lengths and strings of the RDB format.
//!
//! ```text
//! 00xxxxxx                  length of 6 bits
//! 01xxxxxx x8               length of 14 bits
//! 10000000 x32 | 10000001 x64   length, big-endian
//! 11000000 i8 | 11000001 i16 | 11000010 i32    the string that shows this integer, little-endian
//! 11000011 length length bytes                 a compressed string: compressed length, length, bytes
//! ```

use quartet_wire_resp::number;

use crate::lzf;

/// Bytes do not say what they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Longest string, as in Redis.
pub const STRING_BYTES_MAX: usize = 512 << 20;
/// Most bytes that the compressed strings of a payload give together: a list of them is up to 88
/// times as long as its payload, and no transaction can write more.
const EXPANDED_BYTES_MAX: usize = 1 << 30;
/// Shorter strings are not compressed.
const COMPRESSED_BYTES_MIN: usize = 20;

/// Reads from the front.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    pub rest: &'a [u8],
    expansion_left: usize,
}

enum Length {
    Plain(u64),
    Encoded(u8),
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader {
            rest: bytes,
            expansion_left: EXPANDED_BYTES_MAX,
        }
    }

    pub fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, remaining) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = remaining;
        Ok(bytes)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.bytes(N)?.try_into().expect("as many as were asked for"))
    }

    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.bytes(1)?[0])
    }

    fn any_length(&mut self) -> Result<Length, Malformed> {
        let first = self.byte()?;
        let low = first & 0x3f;
        Ok(Length::Plain(match first >> 6 {
            0 => u64::from(low),
            1 => u64::from(low) << 8 | u64::from(self.byte()?),
            2 if low == 0 => u64::from(u32::from_be_bytes(self.array()?)),
            2 if low == 1 => u64::from_be_bytes(self.array()?),
            3 => return Ok(Length::Encoded(low)),
            _ => return Err(Malformed),
        }))
    }

    pub fn length(&mut self) -> Result<u64, Malformed> {
        match self.any_length()? {
            Length::Plain(length) => Ok(length),
            Length::Encoded(_) => Err(Malformed),
        }
    }

    /// Reads a count of elements that take at least a byte each.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        let count = usize::try_from(self.length()?).map_err(|_| Malformed)?;
        if count > self.rest.len() {
            return Err(Malformed);
        }
        Ok(count)
    }

    pub fn string(&mut self) -> Result<Vec<u8>, Malformed> {
        let integer = match self.any_length()? {
            Length::Plain(length) => {
                let length = usize::try_from(length).map_err(|_| Malformed)?;
                return Ok(self.bytes(length)?.to_vec());
            }
            Length::Encoded(0) => i32::from(self.byte()? as i8),
            Length::Encoded(1) => i32::from(i16::from_le_bytes(self.array()?)),
            Length::Encoded(2) => i32::from_le_bytes(self.array()?),
            Length::Encoded(3) => {
                let (compressed, length) = (self.length()?, self.length()?);
                let compressed = self.bytes(usize::try_from(compressed).map_err(|_| Malformed)?)?;
                let length = usize::try_from(length).map_err(|_| Malformed)?;
                if length > STRING_BYTES_MAX {
                    return Err(Malformed);
                }
                self.expansion_left = self.expansion_left.checked_sub(length).ok_or(Malformed)?;
                return lzf::decompress(compressed, length).ok_or(Malformed);
            }
            Length::Encoded(_) => return Err(Malformed),
        };
        Ok(integer.to_string().into_bytes())
    }
}

pub fn write_length(length: usize, out: &mut Vec<u8>) {
    if length < 1 << 6 {
        out.push(length as u8);
    } else if length < 1 << 14 {
        out.extend_from_slice(&[0x40 | (length >> 8) as u8, length as u8]);
    } else if let Ok(length) = u32::try_from(length) {
        out.push(0x80);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(0x81);
        out.extend_from_slice(&(length as u64).to_be_bytes());
    }
}

/// Writes a string the shortest way: as an integer, compressed, or as it is.
pub fn write_string(text: &[u8], out: &mut Vec<u8>) {
    if let Some(integer) = short_integer(text) {
        return write_integer(integer, out);
    }
    if text.len() > COMPRESSED_BYTES_MIN
        && let Some(compressed) = lzf::compress(text)
    {
        out.push(0xc3);
        write_length(compressed.len(), out);
        write_length(text.len(), out);
        return out.extend_from_slice(&compressed);
    }
    write_length(text.len(), out);
    out.extend_from_slice(text);
}

fn short_integer(text: &[u8]) -> Option<i32> {
    if text.len() > 11 {
        return None;
    }
    i32::try_from(number::integer(text)?).ok()
}

fn write_integer(integer: i32, out: &mut Vec<u8>) {
    if let Ok(byte) = i8::try_from(integer) {
        out.extend_from_slice(&[0xc0, byte as u8]);
    } else if let Ok(short) = i16::try_from(integer) {
        out.push(0xc1);
        out.extend_from_slice(&short.to_le_bytes());
    } else {
        out.push(0xc2);
        out.extend_from_slice(&integer.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_survive_a_round_trip() {
        let long = b"abcabcabcabcabcabcabcabcabcabcabcabcabcabcabc".repeat(3);
        for text in [
            &b""[..],
            b"x",
            b"-128",
            b"32767",
            b"-2147483648",
            b"2147483648",
            b"007",
            &[b'q'; 70],
            &long,
        ] {
            let mut out = Vec::new();
            write_string(text, &mut out);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.string().unwrap(), text);
            assert!(reader.is_done());
        }
    }

    #[test]
    fn compressed_strings_have_a_budget() {
        let text = vec![b'x'; 1 << 20];
        let mut payload = Vec::new();
        (0..3).for_each(|_| write_string(&text, &mut payload));
        let mut reader = Reader::new(&payload);
        reader.expansion_left = (2 << 20) + 1;
        let read: Vec<bool> = (0..3).map(|_| reader.string().is_ok()).collect();
        assert_eq!(read, [true, true, false]);
    }

    #[test]
    fn malformed_bytes_are_refused() {
        for bytes in [
            &b""[..],
            b"\x05abc",
            b"\x81\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xc4",
            b"\xc3\x01\x7f\x00",
            b"\x82",
        ] {
            assert_eq!(Reader::new(bytes).string(), Err(Malformed), "{bytes:?}");
        }
    }
}
