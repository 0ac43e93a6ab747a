//! The bounds of HTTP/1.1 requests (RFC 9112), without I/O.
//!
//! Two readers of one stream of bytes must never disagree about the start of a request: otherwise
//! an attacker can smuggle requests past the proxy in front. So ambiguous input is refused, even if
//! the RFC would permit a guess: a length together with Transfer-Encoding, two lengths, even equal
//! ones, a length other than a plain number, any coding but one `chunked`, line ends other than CR
//! LF.

use std::mem::MaybeUninit;

use super::message::{Head, Header, is_bodiless};

/// A request with more headers is refused.
pub const HEADERS_MAX: usize = 100;
/// Request line and headers together.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// The limit of a line with a chunk's size, or of the trailers after the last chunk.
const CHUNK_LINE_BYTES_MAX: usize = 4096;
/// The first bytes of a peer that speaks HTTP/2 with prior knowledge (RFC 9113, 3.4).
pub const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub type HeaderRoom<'r> = [MaybeUninit<Header<'r>>; HEADERS_MAX];

/// The reason why a connection must end: its final status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Malformed,
    HeadTooLong,
    UnknownCoding,
}

impl Refusal {
    pub fn status(self) -> u16 {
        match self {
            Refusal::Malformed => 400,
            Refusal::HeadTooLong => 431,
            Refusal::UnknownCoding => 501,
        }
    }
}

/// A request's head, and the framing of its body.
#[derive(Debug)]
pub struct Request<'r> {
    pub head: Head<'r>,
    pub head_bytes: usize,
    pub framing: Framing,
    /// The peer speaks HTTP/1.0: it knows no chunks, and connections end unless it says otherwise.
    pub is_old: bool,
    pub keeps_alive: bool,
    /// The peer waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(u64),
    Chunked,
}

/// Parses the head at the start of `input`; `None` if it is incomplete.
pub fn parse<'r>(input: &'r [u8], room: &'r mut HeaderRoom<'r>) -> Result<Option<Request<'r>>, Refusal> {
    let mut request = httparse::Request::new(&mut []);
    let head_bytes = match request.parse_with_uninit_headers(input, room) {
        Ok(httparse::Status::Complete(bytes)) if bytes <= HEAD_BYTES_MAX => bytes,
        Ok(httparse::Status::Partial) if input.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(Refusal::HeadTooLong),
        Err(_) => return Err(Refusal::Malformed),
    };
    if has_bare_line_feed(&input[..head_bytes]) {
        return Err(Refusal::Malformed);
    }
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(Refusal::Malformed);
    };
    let head = Head {
        method,
        target: without_authority(target),
        headers: request.headers,
    };
    let said = Said::of(head.headers)?;
    let is_old = version == 0;
    Ok(Some(Request {
        head,
        head_bytes,
        framing: said.framing(is_old)?,
        is_old,
        keeps_alive: if is_old { said.keep_alive } else { !said.close },
        expects_continue: said.expects_continue && !is_old,
    }))
}

/// An answer's head, and the framing of its body.
#[derive(Debug, PartialEq, Eq)]
pub struct AnswerHead {
    pub status: u16,
    pub head_bytes: usize,
    /// Another answer to the same request follows.
    pub is_interim: bool,
    /// `None`: the body ends with the connection.
    pub framing: Option<Framing>,
    pub keeps_alive: bool,
}

impl AnswerHead {
    /// For what is no answer: it ends with the connection.
    pub fn unknown() -> AnswerHead {
        AnswerHead {
            status: 0,
            head_bytes: 0,
            is_interim: false,
            framing: None,
            keeps_alive: false,
        }
    }
}

/// Parses the head of the answer at the start of `input`; `None` if it is incomplete.
/// `is_for_head`: the request was HEAD.
pub fn parse_answer(input: &[u8], is_for_head: bool) -> Result<Option<AnswerHead>, Refusal> {
    let mut room = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut answer = httparse::Response::new(&mut room);
    let head_bytes = match answer.parse(input) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if input.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(_) => return Err(Refusal::HeadTooLong),
        Err(_) => return Err(Refusal::Malformed),
    };
    let (Some(status), Some(version)) = (answer.code, answer.version) else {
        return Err(Refusal::Malformed);
    };
    let said = Said::of(answer.headers)?;
    let framing = match (said.chunked, said.length) {
        _ if is_for_head || is_bodiless(status) => Some(Framing::Length(0)),
        (true, _) => Some(Framing::Chunked),
        (false, Some(length)) => Some(Framing::Length(length)),
        (false, None) => None,
    };
    // Another protocol follows.
    let is_switch = status == 101;
    let framing = framing.filter(|_| !is_switch);
    Ok(Some(AnswerHead {
        status,
        head_bytes,
        is_interim: (100..200).contains(&status) && !is_switch,
        framing,
        keeps_alive: framing.is_some() && version == 1 && !said.close,
    }))
}

/// A lone LF ends a line for some readers and not for others.
fn has_bare_line_feed(head: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', head).any(|at| at == 0 || head[at - 1] != b'\r')
}

/// Path and query of a target that a client gave as to a proxy.
fn without_authority(target: &str) -> &str {
    let Some((_, after_scheme)) = target.split_once("://").filter(|(scheme, _)| !scheme.contains('/')) else {
        return target;
    };
    after_scheme.find(['/', '?']).map_or("/", |at| &after_scheme[at..])
}

/// The headers about the body and the connection.
#[derive(Default)]
struct Said {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
}

impl Said {
    fn of(headers: &[Header<'_>]) -> Result<Said, Refusal> {
        let mut said = Said::default();
        for header in headers {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let repeated = said.length.replace(length(header.value)?).is_some();
                if repeated {
                    return Err(Refusal::Malformed);
                }
            } else if is("transfer-encoding") {
                if said.chunked || !header.value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Refusal::UnknownCoding);
                }
                said.chunked = true;
            } else if is("connection") {
                said.close |= names(header.value, b"close");
                said.keep_alive |= names(header.value, b"keep-alive");
            } else if is("expect") {
                said.expects_continue = header.value.eq_ignore_ascii_case(b"100-continue");
            }
        }
        Ok(said)
    }

    fn framing(&self, is_old: bool) -> Result<Framing, Refusal> {
        match (self.chunked, self.length) {
            (false, length) => Ok(Framing::Length(length.unwrap_or(0))),
            (true, None) if !is_old => Ok(Framing::Chunked),
            (true, _) => Err(Refusal::Malformed),
        }
    }
}

/// Digits and nothing else.
fn length(value: &[u8]) -> Result<u64, Refusal> {
    let digits = std::str::from_utf8(value).map_err(|_| Refusal::Malformed)?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Refusal::Malformed);
    }
    digits.parse().map_err(|_| Refusal::Malformed)
}

/// Returns true if a list of tokens contains this token.
fn names(list: &[u8], token: &[u8]) -> bool {
    list.split(|byte| *byte == b',')
        .any(|element| element.trim_ascii().eq_ignore_ascii_case(token))
}

/// Takes a body out of the bytes it arrives in, however they are cut.
pub struct BodyReader {
    state: State,
    bytes_max: usize,
    pub body: Vec<u8>,
    /// All bytes of the body so far, whether kept or not.
    pub total: u64,
}

#[derive(Clone, Copy)]
enum State {
    /// Bytes that are left of a body without chunks.
    Plain(u64),
    /// Bytes that are left of this chunk; with none left, the end of its line.
    Chunk(u64),
    ChunkSize,
    Trailers,
    Done,
}

impl BodyReader {
    /// Keeps nothing of a body longer than `bytes_max`.
    pub fn new(framing: Framing, bytes_max: usize) -> BodyReader {
        let state = match framing {
            Framing::Length(remaining) => State::Plain(remaining),
            Framing::Chunked => State::ChunkSize,
        };
        BodyReader {
            state,
            bytes_max,
            body: Vec::new(),
            total: 0,
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    pub fn is_too_long(&self) -> bool {
        self.total > self.bytes_max as u64
    }

    /// Takes the bytes of the body from the start of `input`; returns their number. Until the body
    /// is complete, the caller must pass the rest again, followed by more input.
    pub fn take(&mut self, input: &[u8]) -> Result<usize, Refusal> {
        let mut consumed = 0;
        while let Some(count) = self.step(&input[consumed..])? {
            consumed += count;
        }
        Ok(consumed)
    }

    /// The length of one step; `None` if it needs more input, or if the body is complete.
    fn step(&mut self, input: &[u8]) -> Result<Option<usize>, Refusal> {
        match self.state {
            State::Done => return Ok(None),
            State::Plain(0) => {
                self.state = State::Done;
                return Ok(Some(0));
            }
            State::Chunk(0) => return self.end_chunk(input),
            State::Plain(_) | State::Chunk(_) if input.is_empty() => return Ok(None),
            State::Plain(remaining) => {
                let count = self.keep(input, remaining);
                self.state = State::Plain(remaining - count as u64);
                return Ok(Some(count));
            }
            State::Chunk(remaining) => {
                let count = self.keep(input, remaining);
                self.state = State::Chunk(remaining - count as u64);
                return Ok(Some(count));
            }
            State::ChunkSize | State::Trailers => {}
        }
        let Some((line, bytes)) = line(input)? else {
            return Ok(None);
        };
        self.state = match self.state {
            State::Trailers if line.is_empty() => State::Done,
            State::Trailers => State::Trailers,
            _ => match chunk_size(line)? {
                0 => State::Trailers,
                size => State::Chunk(size),
            },
        };
        Ok(Some(bytes))
    }

    fn end_chunk(&mut self, input: &[u8]) -> Result<Option<usize>, Refusal> {
        match input {
            [b'\r', b'\n', ..] => {
                self.state = State::ChunkSize;
                Ok(Some(2))
            }
            [] | [b'\r'] => Ok(None),
            _ => Err(Refusal::Malformed),
        }
    }

    /// Adds up to `remaining` bytes to the body; returns how many.
    fn keep(&mut self, input: &[u8], remaining: u64) -> usize {
        let count = input.len().min(usize::try_from(remaining).unwrap_or(usize::MAX));
        self.total += count as u64;
        if self.is_too_long() {
            self.body = Vec::new();
        } else {
            self.body.extend_from_slice(&input[..count]);
        }
        count
    }
}

/// The first line of `input`, and its length with CR LF; `None` if it is incomplete.
fn line(input: &[u8]) -> Result<Option<(&[u8], usize)>, Refusal> {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
        let fits = input.len() <= CHUNK_LINE_BYTES_MAX;
        return if fits { Ok(None) } else { Err(Refusal::Malformed) };
    };
    let line = input[..end].strip_suffix(b"\r").ok_or(Refusal::Malformed)?;
    let has_lone_return = line.contains(&b'\r');
    if has_lone_return || line.len() > CHUNK_LINE_BYTES_MAX {
        return Err(Refusal::Malformed);
    }
    Ok(Some((line, end + 1)))
}

/// Hexadecimal digits, with an optional extension.
fn chunk_size(line: &[u8]) -> Result<u64, Refusal> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let digits = digits.trim_ascii_end();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(Refusal::Malformed);
    }
    let text = std::str::from_utf8(digits).map_err(|_| Refusal::Malformed)?;
    u64::from_str_radix(text, 16).map_err(|_| Refusal::Malformed)
}

#[cfg(test)]
mod tests;
