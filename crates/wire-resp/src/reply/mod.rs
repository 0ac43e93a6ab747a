//! Writes replies, in RESP2 or RESP3 as the connection chose with HELLO.
//!
//! A command names the kind of its reply (a map, a double, a null) and [`Reply`] picks the bytes;
//! no command depends on the protocol's version. Aggregates are written head first: `map(2)` and
//! then four elements. The announced number of elements is not checked; that is the command's duty.
//!
//! A reply may have a limit of bytes: a short request can name the same long value a thousand
//! times. It may also take the memory for its bytes before they are made ([`ReplyMemory`]). Bytes
//! beyond the limit, or without memory, are left out, and [`Reply::is_full`] says so; the command
//! then answers an error instead of the written bytes.
//!
//! Shapes follow the `addReply*` family of Redis 8's `networking.c`; doubles follow its `d2string`.

use std::io::Write;

/// The peer's protocol. A new connection speaks `Resp2` until HELLO says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Version 2. It has no maps, sets, doubles or booleans: they go out as arrays, bulk strings
    /// and integers.
    #[default]
    Resp2,
    /// Version 3, chosen by `HELLO 3`: every kind of reply has a type byte of its own.
    Resp3,
}

/// Gives the memory for replies.
pub trait ReplyMemory {
    /// Takes `bytes` for a buffer that takes the place of one of `old_bytes`. False: there is no
    /// room for them, and nothing was taken.
    fn take(&self, bytes: usize, old_bytes: usize) -> bool;

    /// The smaller buffer was freed.
    fn give_back(&self, old_bytes: usize);
}

/// Makes room for `more` bytes at the end of `out`. Growth beyond [`UNCOUNTED_BYTES`] is taken from
/// `memory` first. False: memory is short, and `out` is unchanged.
pub fn grow(out: &mut Vec<u8>, more: usize, memory: &dyn ReplyMemory) -> bool {
    let least = out.len().saturating_add(more);
    if least <= out.capacity() || least <= UNCOUNTED_BYTES {
        return true;
    }
    let capacity = out.capacity();
    let old_bytes = counted_bytes(capacity);
    let usual = least.max(capacity.saturating_add(capacity / 2));
    for new_bytes in [usual, least] {
        if memory.take(new_bytes, old_bytes) {
            out.reserve_exact(new_bytes - out.len());
            memory.give_back(old_bytes);
            return true;
        }
    }
    false
}

/// Returns the part of a buffer's capacity that [`grow`] has taken. A buffer that grows by itself
/// up to [`UNCOUNTED_BYTES`] may have twice the capacity.
pub fn counted_bytes(capacity: usize) -> usize {
    if capacity > 2 * UNCOUNTED_BYTES { capacity } else { 0 }
}

/// Up to this capacity a buffer takes no memory from [`ReplyMemory`].
pub const UNCOUNTED_BYTES: usize = 64 << 10;

/// Appends replies to a buffer.
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
    /// Up to this length `out` grows without a call. `end <= last`, and 0 once the reply is full.
    end: usize,
    /// `out` grows up to this length.
    last: usize,
    memory: Option<&'a dyn ReplyMemory>,
    /// Bytes of parts that are written later. `out` has room for them already.
    to_come: usize,
    /// Parts that are written later are kept as well until the reply is whole.
    is_kept_whole: bool,
    is_full: bool,
}

impl<'a> Reply<'a> {
    /// Appends to the present content of `out`, with no limit of bytes.
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Reply<'a> {
        Reply {
            out,
            protocol,
            end: usize::MAX,
            last: usize::MAX,
            memory: None,
            to_come: 0,
            is_kept_whole: false,
            is_full: false,
        }
    }

    /// Appends at most this many bytes, heads included.
    pub fn limited(mut self, bytes_max: usize) -> Reply<'a> {
        self.last = self.out.len().saturating_add(bytes_max);
        self.end = self.end.min(self.last);
        self
    }

    /// Takes the memory for what is appended from there.
    pub fn with_memory(mut self, memory: &'a dyn ReplyMemory) -> Reply<'a> {
        self.memory = Some(memory);
        self.end = self.uncounted_end();
        self
    }

    /// Takes memory for parts that are written later as well: the reply is not sent before it is
    /// whole.
    pub fn kept_whole(mut self, is_kept_whole: bool) -> Reply<'a> {
        self.is_kept_whole = is_kept_whole;
        self
    }

    fn uncounted_end(&self) -> usize {
        match self.memory {
            Some(_) => {
                let free = self.out.capacity().max(UNCOUNTED_BYTES);
                free.saturating_sub(self.to_come).min(self.last)
            }
            None => self.last,
        }
    }

    /// Something was left out for lack of room: what was written is no reply.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns whether `bytes` more may be appended, and a head and an end of line.
    #[inline]
    fn has_room(&mut self, bytes: usize) -> bool {
        match self.end.checked_sub(self.out.len()) {
            Some(room) if room >= bytes.saturating_add(HEAD_BYTES_MAX + 2) => true,
            _ => self.makes_room(bytes),
        }
    }

    #[cold]
    fn makes_room(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_add(HEAD_BYTES_MAX + 2);
        let fits = !self.is_full && more <= self.last.saturating_sub(self.out.len());
        let all = more.saturating_add(self.to_come);
        let is_made = fits && self.memory.is_some_and(|memory| grow(self.out, all, memory));
        match is_made {
            true => self.end = self.uncounted_end(),
            false => self.fill(),
        }
        is_made
    }

    /// Nothing more is appended: what was written is no reply.
    fn fill(&mut self) {
        (self.is_full, self.end) = (true, 0);
    }

    /// The protocol of the next reply.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// HELLO changes the protocol for its own reply already.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// The status `OK`. Written even when the limit of bytes has been reached.
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A status. CR and LF become spaces.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// Writes an error; `text` starts with its code: `ERR syntax error`. It may quote a peer's
    /// bytes, so CR and LF become spaces, and a text beyond [`ERROR_BYTES_MAX`] is cut.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        match text.len() > ERROR_BYTES_MAX {
            true => self.line(b'-', &cut(text)),
            false => self.line(b'-', text),
        }
    }

    /// A whole number, the same in both protocols.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        match u64::try_from(value) {
            Ok(value) => self.head(b':', value),
            Err(_) => self.line(b':', itoa::Buffer::new().format(value).as_bytes()),
        }
    }

    /// A string of any bytes, the empty one included; left out as a whole if the limit has no room
    /// for it.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        if !self.has_room(bytes.len()) {
            return;
        }
        self.out.reserve(HEAD_BYTES_MAX + bytes.len() + 2);
        self.head(b'$', bytes.len() as u64);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// Like [`Reply::bulk`], for `len` bytes that `append` adds to the buffer. Fewer bytes are
    /// padded with zeros, more are cut off, so that the reply is well-formed even if reading fails.
    pub fn bulk_with(&mut self, len: usize, append: impl FnOnce(&mut Vec<u8>)) {
        if !self.has_room(len) {
            return;
        }
        self.out.reserve(HEAD_BYTES_MAX + len + 2);
        self.head(b'$', len as u64);
        let end = self.out.len() + len;
        append(self.out);
        self.out.resize(end, 0);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A string of `len` bytes without the bytes, which count as written, but take memory only if
    /// the reply is kept whole. Returns the position of the bytes in the buffer, or `None` without
    /// room for them.
    pub fn bulk_to_come(&mut self, len: usize) -> Option<usize> {
        if !self.has_room(if self.is_kept_whole { len } else { 0 }) {
            return None;
        }
        if len > self.last.saturating_sub(self.out.len() + HEAD_BYTES_MAX + 2) {
            self.fill();
            return None;
        }
        self.last -= len;
        if self.is_kept_whole {
            self.to_come += len;
        }
        self.end = self.uncounted_end();
        self.head(b'$', len as u64);
        let place = self.out.len();
        self.out.extend_from_slice(b"\r\n");
        Some(place)
    }

    /// No value: a null bulk string in RESP2. Where an array is expected, use
    /// [`Reply::null_array`].
    #[inline]
    pub fn null(&mut self) {
        self.either(b"$-1\r\n", b"_\r\n");
    }

    /// Takes an array's place: a BLPOP that timed out, an EXEC that was aborted.
    pub fn null_array(&mut self) {
        self.either(b"*-1\r\n", b"_\r\n");
    }

    /// `len` elements follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.head(b'*', len as u64);
    }

    /// `pairs` keys, each followed by its value; RESP2 has an array of twice as many.
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(pairs * 2),
            Protocol::Resp3 => self.head(b'%', pairs as u64),
        }
    }

    /// The position of the next reply: for an aggregate that knows its length only after its
    /// elements.
    pub fn mark(&self) -> usize {
        self.out.len()
    }

    /// Returns the bytes written since `mark`.
    pub fn since(&self, mark: usize) -> &[u8] {
        &self.out[mark..]
    }

    /// Makes the `len` replies written since `mark` the elements of one array.
    pub fn array_since(&mut self, mark: usize, len: usize) {
        let end = self.out.len();
        self.array(len);
        self.move_before(mark, end);
    }

    /// Makes the `pairs` keys and values written since `mark` one map.
    pub fn map_since(&mut self, mark: usize, pairs: usize) {
        let end = self.out.len();
        self.map(pairs);
        self.move_before(mark, end);
    }

    /// Moves the bytes written since `end` before the bytes between `mark` and `end`.
    pub fn move_before(&mut self, mark: usize, end: usize) {
        let moved_bytes = self.out.len() - end;
        self.out[mark..].rotate_right(moved_bytes);
    }

    /// Replaces everything in the buffer with an error.
    pub fn replace_by_error(&mut self, text: impl AsRef<[u8]>) {
        self.out.clear();
        self.is_full = false;
        self.end = self.uncounted_end();
        self.error(text);
    }

    /// Removes the bytes written since `mark`.
    pub fn take_back(&mut self, mark: usize) {
        self.out.truncate(mark);
    }

    /// `len` members follow; an array in RESP2.
    pub fn set(&mut self, len: usize) {
        self.aggregate(b'~', len);
    }

    /// Writes the head of an out-of-band message of `len` elements; an array in RESP2.
    pub fn push(&mut self, len: usize) {
        self.aggregate(b'>', len);
    }

    /// Announces `pairs` of out-of-band data in front of the reply proper. RESP2 has no place for
    /// them: on `false` nothing was written, and the caller leaves the pairs out.
    #[must_use = "in RESP2 the pairs must not be written"]
    pub fn attribute(&mut self, pairs: usize) -> bool {
        let resp3 = self.protocol == Protocol::Resp3;
        if resp3 {
            self.head(b'|', pairs as u64);
        }
        resp3
    }

    /// See [`format_double`] for the text; a bulk string in RESP2.
    pub fn double(&mut self, value: f64) {
        if !self.has_room(DOUBLE_BYTES_MAX) {
            return;
        }
        match self.protocol {
            Protocol::Resp3 => {
                self.out.push(b',');
                format_double(value, self.out);
                self.out.extend_from_slice(b"\r\n");
            }
            Protocol::Resp2 => {
                let start = self.out.len();
                self.out.extend_from_slice(b"$00\r\n");
                format_double(value, self.out);
                let text_bytes = (self.out.len() - start - 5) as u8;
                self.out.extend_from_slice(b"\r\n");
                if text_bytes < 10 {
                    self.out.remove(start + 2);
                    self.out[start + 1] = b'0' + text_bytes;
                } else {
                    self.out[start + 1] = b'0' + text_bytes / 10;
                    self.out[start + 2] = b'0' + text_bytes % 10;
                }
            }
        }
    }

    /// Writes a double in the caller's text: `digits`, optionally with a point and a sign; a bulk
    /// string in RESP2.
    pub fn decimal(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => self.line(b',', digits.as_bytes()),
        }
    }

    /// 1 or 0 in RESP2.
    pub fn boolean(&mut self, value: bool) {
        match value {
            true => self.either(b":1\r\n", b"#t\r\n"),
            false => self.either(b":0\r\n", b"#f\r\n"),
        }
    }

    /// `digits`: an optional sign and decimal digits, which the caller vouches for; a bulk string
    /// in RESP2.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// Text for people; `format` is `txt` or `mkd`. A bulk string without the format in RESP2.
    pub fn verbatim(&mut self, format: &[u8; 3], bytes: &[u8]) {
        if self.protocol == Protocol::Resp2 {
            return self.bulk(bytes);
        }
        if !self.has_room(format.len() + 1 + bytes.len()) {
            return;
        }
        self.head(b'=', bytes.len() as u64 + 4);
        self.out.extend_from_slice(format);
        self.out.push(b':');
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    fn aggregate(&mut self, resp3_type: u8, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.array(len),
            Protocol::Resp3 => self.head(resp3_type, len as u64),
        }
    }

    fn either(&mut self, resp2: &[u8], resp3: &[u8]) {
        if self.has_room(0) {
            self.out
                .extend_from_slice(if self.protocol == Protocol::Resp2 { resp2 } else { resp3 });
        }
    }

    /// `<type><value>\r\n`. Values below a hundred, nearly all there are, go out as one small
    /// array.
    #[inline]
    fn head(&mut self, kind: u8, value: u64) {
        if !self.has_room(0) {
            return;
        }
        let (tens, ones) = (b'0'.wrapping_add((value / 10) as u8), b'0' + (value % 10) as u8);
        match value {
            0..10 => self.out.extend_from_slice(&[kind, ones, b'\r', b'\n']),
            10..100 => self.out.extend_from_slice(&[kind, tens, ones, b'\r', b'\n']),
            _ => {
                self.out.push(kind);
                self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        if !self.has_room(text.len()) {
            return;
        }
        self.out.push(kind);
        let start = self.out.len();
        self.out.extend_from_slice(text);
        for byte in &mut self.out[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Appends the text Redis 7.2 and later give a double: the fewest digits that read back as the same
/// value, at most 24 bytes, and `inf`, `-inf`, `nan`, `-0`.
///
/// Whole numbers up to 2^62 are written as integers. Otherwise the value is `digits * 10^exponent`,
/// and with `magnitude` the power of ten of the first digit: plain if at most six zeros must be
/// appended to the digits, or if fewer than seven digits follow the point, or if `magnitude` is
/// within three of zero; else `d.ddde+x`, the exponent unpadded. So 12345.5 is plain, while
/// 12345.6789012 is `1.23456789012e+4`: these are fpconv's rules, which Redis exposes to clients.
///
/// fpconv finds its digits by Grisu2, which for a few values in a thousand are not the shortest or
/// not the closest; these always are. Either text reads back as the same value.
pub fn format_double(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        return out.extend_from_slice(b"nan");
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let size = value.abs();
    if size.is_infinite() {
        out.extend_from_slice(b"inf");
    } else if size <= INTEGER_MAX && size.fract() == 0.0 {
        out.extend_from_slice(itoa::Buffer::new().format(size as u64).as_bytes());
    } else {
        format_digits(size, out);
    }
}

fn format_digits(size: f64, out: &mut Vec<u8>) {
    let mut text = [0; 32];
    let (mut digits, magnitude) = shortest_digits(size, &mut text);
    let exponent = magnitude - (digits.len() as i32 - 1);
    let few_zeros_behind = exponent >= 0 && magnitude < digits.len() as i32 + 7;
    let plain_fraction = exponent < 0 && (exponent > -7 || magnitude.abs() < 4);
    if few_zeros_behind {
        out.extend_from_slice(digits);
        out.resize(out.len() + exponent as usize, b'0');
    } else if plain_fraction && magnitude >= 0 {
        let (whole, fraction) = digits.split_at(magnitude as usize + 1);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else if plain_fraction {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-magnitude - 1) as usize, b'0');
        out.extend_from_slice(digits);
    } else {
        out.push(digits[0]);
        digits = &digits[1..];
        if !digits.is_empty() {
            out.push(b'.');
            out.extend_from_slice(digits);
        }
        out.extend_from_slice(if magnitude < 0 { b"e-" } else { b"e+" });
        out.extend_from_slice(itoa::Buffer::new().format(magnitude.unsigned_abs()).as_bytes());
    }
}

/// The significant digits of a finite positive `size`, and the power of ten of the first of them.
fn shortest_digits(size: f64, text: &mut [u8; 32]) -> (&[u8], i32) {
    let mut free = &mut text[..];
    write!(free, "{size:e}").expect("a double's shortest text, 24 bytes at most");
    let length = 32 - free.len();
    let exponent_mark = text[..length]
        .iter()
        .position(|&byte| byte == b'e')
        .expect("{:e} writes an exponent");
    let exponent = std::str::from_utf8(&text[exponent_mark + 1..length])
        .ok()
        .and_then(|digits| digits.parse().ok());
    let mut digits_end = exponent_mark;
    if exponent_mark > 1 {
        // "d.ddd": close the gap of the point.
        text.copy_within(2..exponent_mark, 1);
        digits_end -= 1;
    }
    (&text[..digits_end], exponent.expect("{:e} writes a whole exponent"))
}

/// The start of a text that is too long, up to the end of a character, with an ellipsis.
fn cut(text: &[u8]) -> Vec<u8> {
    let is_within = |byte: u8| byte & 0xC0 == 0x80;
    let mut end = ERROR_BYTES_MAX;
    while end > ERROR_BYTES_MAX - 4 && is_within(text[end]) {
        end -= 1;
    }
    [&text[..end], b"..."].concat()
}

/// Redis prints whole numbers up to half of LLONG_MAX as integers; as a double that is 2^62.
const INTEGER_MAX: f64 = (1u64 << 62) as f64;
const HEAD_BYTES_MAX: usize = 1 + 20 + 2;
/// Longest text of an error, in bytes. Longer texts repeat words of the request.
const ERROR_BYTES_MAX: usize = 4096;
/// A sign, seventeen digits, then seven zeros.
const DOUBLE_BYTES_MAX: usize = 25;

#[cfg(test)]
mod tests;
