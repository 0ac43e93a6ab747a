//! Reads one request from the start of a byte slice: an array of bulk strings, or an inline line.
//!
//! ```text
//!   *2\r\n $3\r\n GET\r\n $1\r\n k\r\n        GET "k"\r\n
//!   ^count ^length ^bytes                     ^anything but '*': a line, split with shell-like quotes
//! ```
//!
//! Arguments are spans into the caller's slice, so a request of bulk strings costs no copy and,
//! once [`Args`] is warm, no allocation. An inline line is rare and may hold escapes: its arguments
//! are unquoted into a scratch inside `Args`.
//!
//! [`Parser`] remembers its position, so a request arriving in many pieces costs time linear in its
//! size. The free function [`parse`] starts afresh each time.
//!
//! Answers do not depend on how the bytes were cut, with Redis' texts and limits
//! (`processMultibulkBuffer`, `processInlineBuffer`, `sdssplitargs` and `string2ll`, Redis 8). Like
//! Redis, the `\n` of a count's line and the two bytes after a bulk string are skipped without a
//! look. Unlike Redis, a NUL byte is a byte like any other; there, C's string functions stop at it
//! and the connection waits for more.

use std::ops::{Index, Range};

use smallvec::SmallVec;

use crate::number::integer;

/// Limits on a peer's requests. The two bounds on a peer that has not authenticated hold in
/// addition to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest bulk string; Redis' `proto-max-bulk-len`.
    pub bulk_bytes_max: usize,
    /// Most elements in one request. Nothing is allocated for elements that have not arrived.
    pub elements_max: usize,
    /// Longest inline line without its line feed, and longest line of a count.
    pub inline_bytes_max: usize,
    /// False before a required password: 10 elements of 16 KiB at most.
    pub authenticated: bool,
}

impl Limits {
    const UNAUTHENTICATED_ELEMENTS_MAX: usize = 10;
    const UNAUTHENTICATED_BULK_BYTES_MAX: usize = 16 * 1024;

    /// The defaults for a peer that still has to authenticate.
    pub fn unauthenticated() -> Limits {
        Limits {
            authenticated: false,
            ..Limits::default()
        }
    }

    /// For a request that has been accepted before, when the limits may have been others.
    pub fn unlimited() -> Limits {
        Limits {
            bulk_bytes_max: usize::MAX,
            elements_max: usize::MAX,
            inline_bytes_max: usize::MAX,
            authenticated: true,
        }
    }

    /// A bulk string up to this length passes every check.
    fn bulk_bytes_accepted(&self) -> usize {
        if self.authenticated {
            self.bulk_bytes_max
        } else {
            self.bulk_bytes_max.min(Limits::UNAUTHENTICATED_BULK_BYTES_MAX)
        }
    }
}

impl Default for Limits {
    /// Redis' defaults for an authenticated peer: 2^31 - 1 elements, 512 MiB a bulk string, 64 KiB
    /// a line. The caller bounds the memory of the elements: see [`Parser::words_bytes`].
    fn default() -> Limits {
        Limits {
            bulk_bytes_max: 512 * 1024 * 1024,
            elements_max: i32::MAX as usize,
            inline_bytes_max: 64 * 1024,
            authenticated: true,
        }
    }
}

/// The item at the start of the input. `consumed` counts bytes from there, the terminator included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// One request with at least one argument.
    Request {
        /// Length of the request in bytes.
        consumed: usize,
    },
    /// An empty line or an array of no elements: drop the bytes, send no reply.
    Nothing {
        /// Number of bytes to drop.
        consumed: usize,
    },
    /// The rest of the request has not arrived.
    Incomplete {
        /// At least this many more bytes are needed, never 0. It derives from the peer's
        /// announcement: use it to size a read within a bound, never to reserve memory directly.
        needed_hint: usize,
    },
}

/// The peer broke the protocol. Send `-ERR <this text>` and close: the place where the next request
/// starts is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The count of elements is not a number, or above [`Limits::elements_max`].
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// The length of a bulk string is not a number, negative, or above [`Limits::bulk_bytes_max`].
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// An element starts with this byte instead of `$`. Redis sends the byte unchanged; a byte
    /// above 0x7f is written here as the character of that number.
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0))]
    ExpectedDollar(u8),
    /// An inline line ends inside quotes, or has no space after a closing quote.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// The line of the count of elements is longer than [`Limits::inline_bytes_max`].
    #[error("Protocol error: too big mbulk count string")]
    MultibulkCountTooBig,
    /// The line of the length of a bulk string is longer than [`Limits::inline_bytes_max`].
    #[error("Protocol error: too big bulk count string")]
    BulkCountTooBig,
    /// An inline line is longer than [`Limits::inline_bytes_max`].
    #[error("Protocol error: too big inline request")]
    InlineTooBig,
    /// More than 10 elements from an unauthenticated peer.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// A bulk string above 16 KiB from an unauthenticated peer.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
}

/// The positions of one request's arguments. Keep one per connection: its allocations are reused
/// for the next request.
#[derive(Debug, Default)]
pub struct Args {
    spans: SmallVec<[Range<usize>; 16]>,
    /// The unquoted arguments of an inline request, one after the other.
    scratch: Vec<u8>,
    /// Spans point into `scratch` rather than into the input.
    inline: bool,
}

impl Args {
    /// No arguments yet. Allocates only for a request of more than 16 arguments, an inline line or
    /// [`Args::gather`].
    pub fn new() -> Args {
        Args::default()
    }

    /// The arguments as bytes. `input` must start with the request they were parsed from.
    pub fn of<'a>(&'a self, input: &'a [u8]) -> Arguments<'a> {
        Arguments {
            bytes: if self.inline { &self.scratch } else { input },
            spans: &self.spans,
        }
    }

    /// A request that arrives in no bytes of its own: `arguments` are copied one after the other.
    /// Read it with [`Args::of`] of an empty input.
    pub fn gather(&mut self, arguments: impl Iterator<Item = impl AsRef<[u8]>>) {
        self.clear();
        self.scratch.clear();
        self.inline = true;
        for argument in arguments {
            let start = self.scratch.len();
            self.scratch.extend_from_slice(argument.as_ref());
            self.spans.push(start..self.scratch.len());
        }
    }

    /// Forgets the arguments, and gives back what an unusually large request took.
    fn clear(&mut self) {
        self.spans.clear();
        self.inline = false;
        if self.spans.capacity() > SPANS_KEPT_MAX {
            self.spans = SmallVec::new();
        }
        if self.scratch.capacity() > SCRATCH_BYTES_KEPT_MAX {
            self.scratch = Vec::new();
        }
    }
}

/// The arguments of one request, the command's name first. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    bytes: &'a [u8],
    spans: &'a [Range<usize>],
}

impl<'a> Arguments<'a> {
    /// The number of arguments, the command's name included.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Never true of a parsed request, which has a name; a [`tail`](Arguments::tail) may be empty.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Unlike indexing, lends the bytes for as long as the input lives.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| &self.bytes[span.clone()])
    }

    /// The arguments in order. Each is lent for as long as the input lives.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + Clone + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| &bytes[span.clone()])
    }

    /// Returns the arguments from `start` on; none if there are fewer.
    pub fn tail(&self, start: usize) -> Arguments<'a> {
        Arguments {
            bytes: self.bytes,
            spans: self.spans.get(start..).unwrap_or_default(),
        }
    }
}

impl Index<usize> for Arguments<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        &self.bytes[self.spans[index].clone()]
    }
}

impl std::fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.iter().map(|argument| argument.escape_ascii().to_string()))
            .finish()
    }
}

/// Parses one request at a time, picking up where the last call ran out of bytes.
///
/// After `Incomplete`, call again with the same bytes and more appended (they may have moved in
/// memory). After any other answer, call with the bytes that follow the consumed ones. `limits` are
/// read as elements arrive, so a request after an AUTH must be parsed after that AUTH was executed.
#[derive(Debug, Default)]
pub struct Parser {
    args: Args,
    progress: Progress,
}

impl Parser {
    /// Expects the start of a request. Keep one per connection.
    pub fn new() -> Parser {
        Parser::default()
    }

    /// Continues the request that starts at the first byte of `input`. After an error the
    /// connection cannot continue: see [`ProtocolError`].
    pub fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<Parsed, ProtocolError> {
        if self.progress.is_at_start() {
            self.args.clear();
        }
        let parsed = self.progress.advance(input, limits, &mut self.args);
        if !matches!(parsed, Ok(Parsed::Incomplete { .. })) {
            self.progress = Progress::default();
        }
        parsed
    }

    /// Memory of the elements' positions, in bytes: a request of empty words takes several times
    /// its own length. The reader of a stream counts it with the request.
    pub fn words_bytes(&self) -> usize {
        match self.args.spans.spilled() {
            true => self.args.spans.capacity() * size_of::<Range<usize>>(),
            false => 0,
        }
    }

    /// The arguments after a `Parsed::Request`, until the next call of `parse`. `input` is what
    /// that call was given.
    pub fn arguments<'a>(&'a self, input: &'a [u8]) -> Arguments<'a> {
        self.args.of(input)
    }
}

/// Parses the request at the start of `input`, remembering nothing. On `Request`, `args.of(input)`
/// are its arguments; on any other answer they mean nothing.
#[inline]
pub fn parse(input: &[u8], limits: &Limits, args: &mut Args) -> Result<Parsed, ProtocolError> {
    args.clear();
    Progress::default().advance(input, limits, args)
}

/// The progress of reading a request. Offsets count from its first byte.
#[derive(Debug, Default)]
struct Progress {
    /// The first byte not understood yet; `position` > 0 once the count of elements is known.
    position: usize,
    /// `position..scanned` holds no end of line. Meaningful only if above `position`.
    scanned: usize,
    /// Number of elements that have not been parsed.
    elements_left: usize,
    /// Length of the bulk string that starts at `position`, if its head was already parsed.
    bulk_bytes: Option<usize>,
}

impl Progress {
    fn is_at_start(&self) -> bool {
        self.position == 0
    }

    #[inline]
    fn advance(&mut self, input: &[u8], limits: &Limits, args: &mut Args) -> Result<Parsed, ProtocolError> {
        if self.is_at_start() {
            match input.first() {
                Some(b'*') => {}
                Some(_) => return self.inline(input, limits, args),
                None => return Ok(Parsed::Incomplete { needed_hint: 1 }),
            }
            if let Some(answer) = self.count(input, limits)? {
                return Ok(answer);
            }
        }
        self.elements(input, limits, args)
    }

    /// Reads `*<count>\r\n`. `None` means that elements follow.
    #[inline]
    fn count(&mut self, input: &[u8], limits: &Limits) -> Result<Option<Parsed>, ProtocolError> {
        let (count, next) = match short_length(input, 1) {
            Some((count, next)) => (count as i64, next),
            None => match self.line(input, limits, ProtocolError::MultibulkCountTooBig)? {
                None => return Ok(Some(Parsed::Incomplete { needed_hint: 1 })),
                Some(end) => (
                    integer(&input[1..end]).ok_or(ProtocolError::InvalidMultibulkLength)?,
                    end + 2,
                ),
            },
        };
        if count <= 0 {
            return Ok(Some(Parsed::Nothing { consumed: next }));
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > limits.elements_max {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        if !limits.authenticated && count > Limits::UNAUTHENTICATED_ELEMENTS_MAX {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        self.elements_left = count;
        self.position = next;
        Ok(None)
    }

    #[inline]
    fn elements(&mut self, input: &[u8], limits: &Limits, args: &mut Args) -> Result<Parsed, ProtocolError> {
        let bulk_bytes_accepted = limits.bulk_bytes_accepted();
        while self.elements_left > 0 {
            let length = match self.bulk_bytes.take() {
                Some(length) => length,
                None => match self.bulk_length(input, limits, bulk_bytes_accepted)? {
                    Some(length) => length,
                    None => return Ok(Parsed::Incomplete { needed_hint: 1 }),
                },
            };
            let available = input.len().saturating_sub(self.position);
            let needed = length.saturating_add(2);
            if available < needed {
                self.bulk_bytes = Some(length);
                return Ok(Parsed::Incomplete {
                    needed_hint: needed - available,
                });
            }
            args.spans.push(self.position..self.position + length);
            self.position += needed;
            self.elements_left -= 1;
        }
        Ok(Parsed::Request {
            consumed: self.position,
        })
    }

    /// Reads `$<length>\r\n` and advances past it. `None` means that its line is incomplete.
    #[inline]
    fn bulk_length(&mut self, input: &[u8], limits: &Limits, accepted: usize) -> Result<Option<usize>, ProtocolError> {
        if input.get(self.position) == Some(&b'$')
            && let Some((length, next)) = short_length(input, self.position + 1)
            && length <= accepted
        {
            self.position = next;
            return Ok(Some(length));
        }
        self.bulk_length_with_care(input, limits)
    }

    /// The way of lengths that are split, long, refused or nonsense.
    #[cold]
    fn bulk_length_with_care(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        let Some(end) = self.line(input, limits, ProtocolError::BulkCountTooBig)? else {
            return Ok(None);
        };
        let line = &input[self.position..end];
        let first = input[self.position];
        if first != b'$' {
            return Err(ProtocolError::ExpectedDollar(first));
        }
        let length = integer(&line[1..]).ok_or(ProtocolError::InvalidBulkLength)?;
        let length = usize::try_from(length).map_err(|_| ProtocolError::InvalidBulkLength)?;
        if length > limits.bulk_bytes_max {
            return Err(ProtocolError::InvalidBulkLength);
        }
        if length > limits.bulk_bytes_accepted() {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        self.position = end + 2;
        Ok(Some(length))
    }

    /// The offset of the `\r` that ends the line at `position`, once the byte after it has arrived
    /// as well.
    fn line(&mut self, input: &[u8], limits: &Limits, too_big: ProtocolError) -> Result<Option<usize>, ProtocolError> {
        let end = self.find(b'\r', input, limits.inline_bytes_max).map_err(|_| too_big)?;
        Ok(end.filter(|end| end + 1 < input.len()))
    }

    fn inline(&mut self, input: &[u8], limits: &Limits, args: &mut Args) -> Result<Parsed, ProtocolError> {
        let end = self
            .find(b'\n', input, limits.inline_bytes_max)
            .map_err(|_| ProtocolError::InlineTooBig)?;
        let Some(end) = end else {
            return Ok(Parsed::Incomplete { needed_hint: 1 });
        };
        let line = &input[..end];
        split_quoted(line.strip_suffix(b"\r").unwrap_or(line), args)?;
        let consumed = end + 1;
        Ok(if args.spans.is_empty() {
            Parsed::Nothing { consumed }
        } else {
            Parsed::Request { consumed }
        })
    }

    /// Searches the bytes from `position` on for `target`, skipping bytes that an earlier call has
    /// searched; `Err` once it is certainly more than `line_bytes_max` away.
    fn find(&mut self, target: u8, input: &[u8], line_bytes_max: usize) -> Result<Option<usize>, LineTooLong> {
        let from = self.scanned.max(self.position).min(input.len());
        let window_end = self
            .position
            .saturating_add(line_bytes_max)
            .saturating_add(1)
            .min(input.len());
        let window = input.get(from..window_end).unwrap_or_default();
        if let Some(offset) = window.iter().position(|&byte| byte == target) {
            self.scanned = from + offset;
            return Ok(Some(from + offset));
        }
        self.scanned = window_end;
        if input.len().saturating_sub(self.position) > line_bytes_max {
            Err(LineTooLong)
        } else {
            Ok(None)
        }
    }
}

struct LineTooLong;

/// Reads a length of at most nine digits and its line end: returns the value and the position of
/// the next byte. `None` only means that the slow path must decide.
#[inline(always)]
fn short_length(input: &[u8], start: usize) -> Option<(usize, usize)> {
    let bytes = input.get(start..)?;
    let mut value = 0;
    let mut digits = 0;
    while digits < 10 {
        let digit = bytes.get(digits)?.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value * 10 + usize::from(digit);
        digits += 1;
    }
    let padded = digits > 1 && bytes[0] == b'0';
    let ended = bytes.get(digits) == Some(&b'\r') && digits + 1 < bytes.len();
    (ended && !padded && (1..10).contains(&digits)).then_some((value, start + digits + 2))
}

/// Splits an inline line as `sdssplitargs` does: quotes may open anywhere in an argument, and where
/// they close the argument must end.
fn split_quoted(line: &[u8], args: &mut Args) -> Result<(), ProtocolError> {
    args.inline = true;
    args.scratch.clear();
    let mut text = line;
    loop {
        text = &text[text.iter().take_while(|byte| is_space(**byte)).count()..];
        if text.is_empty() {
            return Ok(());
        }
        let start = args.scratch.len();
        text = unquote(text, &mut args.scratch).ok_or(ProtocolError::UnbalancedQuotes)?;
        args.spans.push(start..args.scratch.len());
    }
}

/// Appends the argument at the start of `text` to `out`; returns what follows it, or `None` for
/// unbalanced quotes.
fn unquote<'a>(mut text: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match text {
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Some(text),
            [b'"', tail @ ..] => return double_quoted(tail, out),
            [b'\'', tail @ ..] => return single_quoted(tail, out),
            [byte, tail @ ..] => {
                out.push(*byte);
                text = tail;
            }
        }
    }
}

fn double_quoted<'a>(mut text: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, tail) = match text {
            [] => return None,
            [b'"', tail @ ..] => return ends_argument(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex_digit(*high) * 16 + hex_digit(*low), tail)
            }
            [b'\\', escaped, tail @ ..] => (escape(*escaped), tail),
            [byte, tail @ ..] => (*byte, tail),
        };
        out.push(byte);
        text = tail;
    }
}

fn single_quoted<'a>(mut text: &'a [u8], out: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, tail) = match text {
            [] => return None,
            [b'\'', tail @ ..] => return ends_argument(tail),
            [b'\\', b'\'', tail @ ..] => (b'\'', tail),
            [byte, tail @ ..] => (*byte, tail),
        };
        out.push(byte);
        text = tail;
    }
}

fn ends_argument(tail: &[u8]) -> Option<&[u8]> {
    tail.first().is_none_or(|byte| is_space(*byte)).then_some(tail)
}

fn escape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// The value of a byte known to be a hexadecimal digit.
fn hex_digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        _ => byte.to_ascii_lowercase() - b'a' + 10,
    }
}

/// C's `isspace`, which unlike Rust's ASCII one counts the vertical tab.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

const SPANS_KEPT_MAX: usize = 1024;
const SCRATCH_BYTES_KEPT_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests;
