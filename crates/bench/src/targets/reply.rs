//! Reads RESP2 replies, one element at a time, from any source.
//!
//! An array is returned as its length; its elements follow as the next elements. Small on purpose,
//! until the decoder of `quartet-wire-resp` replaces it. Every length is checked before it is used.

use std::io;

use super::socket::Source;

/// The longest element of an honest server: Redis' `proto-max-bulk-len`.
const ELEMENT_BYTES_MAX: usize = 512 * 1024 * 1024;
const READ_BYTES: usize = 16 * 1024;

/// One element. Byte strings are valid until the next element is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    Simple(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Bulk(&'a [u8]),
    /// A null string or a null array.
    Null,
    /// The number of elements that follow.
    Array(usize),
}

pub struct ReplyReader<S> {
    pub source: S,
    buffer: Vec<u8>,
    /// Received bytes that are not taken yet are `buffer[start..end]`.
    start: usize,
    end: usize,
}

impl<S: Source> ReplyReader<S> {
    pub fn new(source: S) -> ReplyReader<S> {
        ReplyReader {
            source,
            buffer: vec![0; READ_BYTES],
            start: 0,
            end: 0,
        }
    }

    /// Reads the next element. After an error the connection is unusable.
    pub async fn next(&mut self) -> io::Result<Element<'_>> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let line_bytes = self.line().await?;
        let line = self.start + 1..self.start + line_bytes;
        let kind = self.buffer[self.start];
        self.start += line_bytes + 2;
        match kind {
            b'+' => Ok(Element::Simple(&self.buffer[line])),
            b'-' => Ok(Element::Error(&self.buffer[line])),
            b':' => Ok(Element::Integer(number(&self.buffer[line])?)),
            b'$' => match number(&self.buffer[line])? {
                -1 => Ok(Element::Null),
                length => self.bulk(length).await,
            },
            b'*' => match number(&self.buffer[line])? {
                -1 => Ok(Element::Null),
                length => Ok(Element::Array(length_checked(length)?)),
            },
            _ => Err(malformed("unknown kind of reply")),
        }
    }

    async fn bulk(&mut self, length: i64) -> io::Result<Element<'_>> {
        let length = length_checked(length)?;
        while self.end - self.start < length + 2 {
            self.receive().await?;
        }
        let start = self.start;
        self.start += length + 2;
        match &self.buffer[start + length..start + length + 2] {
            b"\r\n" => Ok(Element::Bulk(&self.buffer[start..start + length])),
            _ => Err(malformed("a string does not end where it says")),
        }
    }

    /// The bytes before the next CR LF, counted from `start`; at least one.
    async fn line(&mut self) -> io::Result<usize> {
        let mut searched = 0;
        loop {
            let received = &self.buffer[self.start..self.end];
            if let Some(at) = received[searched..].iter().position(|&byte| byte == b'\r') {
                let at = searched + at;
                match received.get(at + 1) {
                    Some(b'\n') if at > 0 => return Ok(at),
                    Some(_) => return Err(malformed("a line does not end with CR LF")),
                    None => searched = at,
                }
            } else {
                searched = received.len();
            }
            self.receive().await?;
        }
    }

    async fn receive(&mut self) -> io::Result<()> {
        if self.buffer.len() - self.end < READ_BYTES / 4 {
            self.make_room();
        }
        self.end += self.source.receive(&mut self.buffer[self.end..]).await?;
        Ok(())
    }

    fn make_room(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.buffer.len() - self.end < READ_BYTES / 4 {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
    }
}

fn number(text: &[u8]) -> io::Result<i64> {
    let text = std::str::from_utf8(text).map_err(|_| malformed("a number is not text"))?;
    text.parse().map_err(|_| malformed("a number does not parse"))
}

fn length_checked(length: i64) -> io::Result<usize> {
    match usize::try_from(length) {
        Ok(length) if length <= ELEMENT_BYTES_MAX => Ok(length),
        _ => Err(malformed("a length is out of range")),
    }
}

fn malformed(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives at most `step` bytes a read, as a slow network would.
    struct Dripping<'a> {
        rest: &'a [u8],
        step: usize,
    }

    impl Source for Dripping<'_> {
        async fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.step.min(self.rest.len()).min(buffer.len());
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer[..count].copy_from_slice(&self.rest[..count]);
            self.rest = &self.rest[count..];
            Ok(count)
        }
    }

    /// All bytes that it waits for are buffered.
    fn done<T>(future: impl Future<Output = T>) -> T {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            std::task::Poll::Ready(done) => done,
            std::task::Poll::Pending => panic!("nothing to wait for"),
        }
    }

    fn check(bytes: &[u8], expected: &[Element]) {
        for step in [1, 2, 3, 7, usize::MAX] {
            let mut reader = ReplyReader::new(Dripping { rest: bytes, step });
            for element in expected {
                assert_eq!(done(reader.next()).unwrap(), *element);
            }
            assert_eq!(done(reader.next()).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn every_kind_is_read_however_it_is_cut() {
        use Element::*;
        check(
            b"+OK\r\n-ERR no\r\n:-12\r\n$-1\r\n*-1\r\n",
            &[Simple(b"OK"), Error(b"ERR no"), Integer(-12), Null, Null],
        );
        check(
            b"*2\r\n$3\r\na\r\n\r\n$0\r\n\r\n*0\r\n",
            &[Array(2), Bulk(b"a\r\n"), Bulk(b""), Array(0)],
        );
    }

    #[test]
    fn a_string_longer_than_the_buffer_is_read_whole() {
        let text = vec![b'x'; READ_BYTES * 5];
        let mut bytes = format!("+first\r\n${}\r\n", text.len()).into_bytes();
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(b"\r\n:1\r\n");
        let mut reader = ReplyReader::new(Dripping {
            rest: &bytes,
            step: 1000,
        });
        assert_eq!(done(reader.next()).unwrap(), Element::Simple(b"first"));
        assert_eq!(done(reader.next()).unwrap(), Element::Bulk(&text));
        assert_eq!(done(reader.next()).unwrap(), Element::Integer(1));
    }

    #[test]
    fn malformed_bytes_are_an_error() {
        let malformed: [&[u8]; 7] = [
            b"?x\r\n",
            b":x\r\n",
            b"$-2\r\n",
            b"$1\r\nabc",
            b"\r\n",
            b"+a\rb\r\n",
            b"*99999999999\r\n",
        ];
        for bytes in malformed {
            let mut reader = ReplyReader::new(Dripping {
                rest: bytes,
                step: usize::MAX,
            });
            assert_eq!(
                done(reader.next()).unwrap_err().kind(),
                io::ErrorKind::InvalidData,
                "{bytes:?}"
            );
        }
    }
}
