//! A client's half: writes commands, reads replies of RESP2 and RESP3.
//!
//! One reader of elements serves both [`decode`], which builds a [`Value`], and [`skip`], which
//! only validates and measures, so the two agree on every input. Both start afresh at each call:
//! for a reply far larger than a read, call again only when much more has arrived.
//!
//! A collection grows as its elements are read, never by its announced length. Nesting beyond
//! [`DEPTH_MAX`] is refused, so hostile bytes cannot exhaust the stack. Streamed strings and
//! collections (`$?`) are refused: no server sends them.

/// Deepest nesting of collections.
pub const DEPTH_MAX: usize = 32;

/// One reply. Texts are bytes, since servers quote what clients sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A status such as `OK`: one line, without its end.
    Simple(Vec<u8>),
    /// A simple error or a bulk error, code included: `WRONGTYPE Operation against ...`.
    Error(Vec<u8>),
    /// A whole number.
    Integer(i64),
    /// A string of any bytes.
    Bulk(Vec<u8>),
    /// RESP3's null or RESP2's null bulk string.
    Null,
    /// RESP2's null array.
    NullArray,
    /// Elements in order; may be empty and of mixed kinds.
    Array(Vec<Value>),
    /// Keys and their values, in the order of the reply. A key may occur twice.
    Map(Vec<(Value, Value)>),
    /// Members in the order of the reply. A member may occur twice.
    Set(Vec<Value>),
    /// A message that answers no request; it may arrive between two replies.
    Push(Vec<Value>),
    /// A floating point number; infinities and not-a-number are possible.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// An optional sign and at least one digit.
    BigNumber(Vec<u8>),
    /// Text that is meant for people.
    Verbatim {
        /// `txt` or `mkd`; any other three bytes are passed on unchanged.
        format: [u8; 3],
        /// The text, without the format.
        text: Vec<u8>,
    },
    /// A reply with out-of-band data in front of it.
    Attribute {
        /// The out-of-band data: keys and their values, in the order of the reply.
        pairs: Vec<(Value, Value)>,
        /// The reply proper.
        reply: Box<Value>,
    },
}

/// The bytes are no reply. Close the connection: where the next reply starts is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No kind of reply has this type byte.
    #[error("unknown reply type {:?}", char::from(*.0))]
    UnknownType(u8),
    /// The bytes after this type byte are not a reply of its kind, or lack its line end.
    #[error("malformed {:?} in a reply", char::from(*.0))]
    Malformed(u8),
    /// A collection is nested in [`DEPTH_MAX`] others.
    #[error("reply nested deeper than {DEPTH_MAX}")]
    TooDeep,
}

/// The reply at the start of `input` and how many bytes it took; `None` if more must arrive.
pub fn decode(input: &[u8]) -> Result<Option<(Value, usize)>, DecodeError> {
    let mut reader = Reader::new(input);
    Ok(build(&mut reader, 0)?.map(|value| (value, reader.position)))
}

/// How many bytes the reply at the start of `input` takes; `None` if more must arrive. Accepts
/// exactly what [`decode`] accepts, and builds nothing.
pub fn skip(input: &[u8]) -> Result<Option<usize>, DecodeError> {
    let mut reader = Reader::new(input);
    Ok(pass(&mut reader, 0)?.map(|()| reader.position))
}

/// Appends a command as an array of bulk strings, the form every server reads.
pub fn encode_command(args: &[impl AsRef<[u8]>], out: &mut Vec<u8>) {
    let mut reply = crate::Reply::new(out, crate::Protocol::Resp2);
    reply.array(args.len());
    for argument in args {
        reply.bulk(argument.as_ref());
    }
}

fn build(reader: &mut Reader, depth: usize) -> Result<Option<Value>, DecodeError> {
    let Some(item) = reader.item(depth)? else {
        return Ok(None);
    };
    let value = match item {
        Item::Simple(text) => Value::Simple(text.to_vec()),
        Item::Error(text) => Value::Error(text.to_vec()),
        Item::Integer(value) => Value::Integer(value),
        Item::Bulk(bytes) => Value::Bulk(bytes.to_vec()),
        Item::Null => Value::Null,
        Item::NullArray => Value::NullArray,
        Item::Double(value) => Value::Double(value),
        Item::Boolean(value) => Value::Boolean(value),
        Item::BigNumber(digits) => Value::BigNumber(digits.to_vec()),
        Item::Verbatim(format, text) => Value::Verbatim {
            format,
            text: text.to_vec(),
        },
        Item::Elements(kind, len) => {
            let Some(elements) = build_elements(reader, len, depth)? else {
                return Ok(None);
            };
            match kind {
                b'*' => Value::Array(elements),
                b'~' => Value::Set(elements),
                _ => Value::Push(elements),
            }
        }
        Item::Map(pairs) => {
            let Some(pairs) = build_pairs(reader, pairs, depth)? else {
                return Ok(None);
            };
            Value::Map(pairs)
        }
        Item::Attribute(pairs) => {
            let Some(pairs) = build_pairs(reader, pairs, depth)? else {
                return Ok(None);
            };
            let Some(reply) = build(reader, depth + 1)? else {
                return Ok(None);
            };
            Value::Attribute {
                pairs,
                reply: Box::new(reply),
            }
        }
    };
    Ok(Some(value))
}

fn build_elements(reader: &mut Reader, len: u64, depth: usize) -> Result<Option<Vec<Value>>, DecodeError> {
    let mut elements = Vec::new();
    for _ in 0..len {
        let Some(element) = build(reader, depth + 1)? else {
            return Ok(None);
        };
        elements.push(element);
    }
    Ok(Some(elements))
}

type Pairs = Vec<(Value, Value)>;

fn build_pairs(reader: &mut Reader, len: u64, depth: usize) -> Result<Option<Pairs>, DecodeError> {
    let mut pairs = Vec::new();
    for _ in 0..len {
        let Some(key) = build(reader, depth + 1)? else {
            return Ok(None);
        };
        let Some(value) = build(reader, depth + 1)? else {
            return Ok(None);
        };
        pairs.push((key, value));
    }
    Ok(Some(pairs))
}

fn pass(reader: &mut Reader, depth: usize) -> Result<Option<()>, DecodeError> {
    let Some(item) = reader.item(depth)? else {
        return Ok(None);
    };
    // Lengths stay below 2^63 (see `length`), so twice one and one more fits.
    let children = match item {
        Item::Elements(_, len) => len,
        Item::Map(pairs) => pairs * 2,
        Item::Attribute(pairs) => pairs * 2 + 1,
        _ => 0,
    };
    for _ in 0..children {
        let Some(()) = pass(reader, depth + 1)? else {
            return Ok(None);
        };
    }
    Ok(Some(()))
}

/// A whole scalar, or the head of a collection, which its elements follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item<'a> {
    /// A status: one line, without its end.
    Simple(&'a [u8]),
    /// A simple error or a bulk error, code included.
    Error(&'a [u8]),
    /// A whole number.
    Integer(i64),
    /// A string of any bytes.
    Bulk(&'a [u8]),
    /// RESP3's null or RESP2's null bulk string.
    Null,
    /// RESP2's null array.
    NullArray,
    /// A floating point number; infinities and not-a-number are possible.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// An optional sign and at least one digit.
    BigNumber(&'a [u8]),
    /// Text that is meant for people: the format, then the text without it.
    Verbatim([u8; 3], &'a [u8]),
    /// The head of an array, a set or a push: its type byte, and the number of elements that
    /// follow. The peer announces that number, so nothing may be allocated by it.
    Elements(u8, u64),
    /// The head of a map: the number of pairs that follow, each a key and then its value. As
    /// untrusted as a count of elements.
    Map(u64),
    /// The head of out-of-band data: the number of pairs. The reply proper follows them.
    Attribute(u64),
}

/// Reads replies item by item, without building a [`Value`].
pub struct Reader<'a> {
    input: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// `input` starts where a reply starts.
    pub fn new(input: &'a [u8]) -> Reader<'a> {
        Reader { input, position: 0 }
    }

    /// Bytes of the items read.
    pub fn consumed(&self) -> usize {
        self.position
    }

    /// Reads one item nested in `depth` collections; `None` if it is incomplete. A reader without
    /// recursion may always pass zero, which allows any nesting.
    pub fn item(&mut self, depth: usize) -> Result<Option<Item<'a>>, DecodeError> {
        let Some(&kind) = self.input.get(self.position) else {
            return Ok(None);
        };
        if !b"+-:$*_#,(!=%~>|".contains(&kind) {
            return Err(DecodeError::UnknownType(kind));
        }
        let Some(line) = self.line(kind)? else { return Ok(None) };
        let malformed = DecodeError::Malformed(kind);
        let collection = |item: fn(u8, u64) -> Item<'a>| {
            let len = length(line).ok_or(malformed)?;
            if depth < DEPTH_MAX {
                Ok(item(kind, len))
            } else {
                Err(DecodeError::TooDeep)
            }
        };
        let item = match kind {
            b'+' => Item::Simple(line),
            b'-' => Item::Error(line),
            b':' => Item::Integer(integer(line).ok_or(malformed)?),
            b'$' | b'*' if line == b"-1" => {
                if kind == b'$' {
                    Item::Null
                } else {
                    Item::NullArray
                }
            }
            b'_' if line.is_empty() => Item::Null,
            b'#' if line == b"t" => Item::Boolean(true),
            b'#' if line == b"f" => Item::Boolean(false),
            b',' => Item::Double(double(line).ok_or(malformed)?),
            b'(' if is_big_number(line) => Item::BigNumber(line),
            b'$' | b'!' | b'=' => {
                let Some(bytes) = self.bulk(length(line).ok_or(malformed)?, malformed)? else {
                    return Ok(None);
                };
                match (kind, bytes) {
                    (b'$', _) => Item::Bulk(bytes),
                    (b'!', _) => Item::Error(bytes),
                    (_, [a, b, c, b':', text @ ..]) => Item::Verbatim([*a, *b, *c], text),
                    _ => return Err(malformed),
                }
            }
            b'*' | b'~' | b'>' => collection(Item::Elements)?,
            b'%' => collection(|_, len| Item::Map(len))?,
            b'|' => collection(|_, len| Item::Attribute(len))?,
            _ => return Err(malformed),
        };
        Ok(Some(item))
    }

    /// The line after the type byte, without its end.
    fn line(&mut self, kind: u8) -> Result<Option<&'a [u8]>, DecodeError> {
        let text = &self.input[self.position + 1..];
        let Some(end) = text.iter().position(|&byte| byte == b'\r') else {
            return Ok(None);
        };
        match text.get(end + 1) {
            None => Ok(None),
            Some(b'\n') => {
                self.position += end + 3;
                Ok(Some(&text[..end]))
            }
            Some(_) => Err(DecodeError::Malformed(kind)),
        }
    }

    fn bulk(&mut self, len: u64, malformed: DecodeError) -> Result<Option<&'a [u8]>, DecodeError> {
        let unread = &self.input[self.position..];
        let Some(end) = usize::try_from(len)
            .ok()
            .filter(|len| *len < unread.len().saturating_sub(1))
        else {
            return Ok(None);
        };
        if &unread[end..end + 2] != b"\r\n" {
            return Err(malformed);
        }
        self.position += end + 2;
        Ok(Some(&unread[..end]))
    }
}

/// Digits only, below 2^63.
fn length(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let len = text.iter().try_fold(0u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })?;
    (len <= i64::MAX as u64).then_some(len)
}

/// An optional sign, then digits.
fn integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Narrower than Rust's own reading, which also takes `infinity` and `NaN`.
fn double(text: &[u8]) -> Option<f64> {
    match text {
        b"inf" => Some(f64::INFINITY),
        b"-inf" => Some(f64::NEG_INFINITY),
        b"nan" => Some(f64::NAN),
        _ if text
            .iter()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) =>
        {
            std::str::from_utf8(text).ok()?.parse().ok()
        }
        _ => None,
    }
}

fn is_big_number(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests;
