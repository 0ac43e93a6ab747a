//! The server's replies. The form of a reply's body follows from the request it answers, so the
//! reader says which it expects.

use crate::bytes::{Input, Malformed, Output};
use crate::code::ErrorCode;
use crate::frame::{Frame, put_frame};

const DONE: u8 = 0;
const FAILED: u8 = 1;

/// A reply: the result, or the reason of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The body, whose form follows from the request: read it with this module's function for that
    /// form.
    Done(&'a [u8]),
    /// The request was refused or could not be carried out.
    Failed {
        /// Why, and so what the client may do next.
        code: ErrorCode,
        /// For a conflict, the encoded positions of the ranges that changed; else words, or
        /// nothing.
        detail: &'a [u8],
    },
}

/// The answer to a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The server's protocol version on this connection.
    pub protocol_version: u16,
    /// A number that differs with each start of the server: earlier promises are void.
    pub instance: u64,
    /// The time for which a version stays readable, in microseconds; a commit may depend on reads
    /// of at most this age.
    pub read_window_micros: u64,
    /// A commit of more bytes is refused: keys, values and the ends of conflict ranges, with an
    /// overhead for each.
    pub transaction_bytes_max: u32,
}

/// Rows of a range, as encoded in the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeReply<'a> {
    /// A limit ended it; there may be more.
    pub more: bool,
    rows: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Distinguishes success from failure. `Malformed`: neither, or a failure without its number;
    /// the caller closes the connection.
    pub fn parse(frame: &Frame<'a>) -> Result<Reply<'a>, Malformed> {
        match frame.code {
            DONE => Ok(Reply::Done(frame.body)),
            FAILED => {
                let mut input = Input(frame.body);
                Ok(Reply::Failed {
                    code: ErrorCode(input.u16()?),
                    detail: input.rest(),
                })
            }
            _ => Err(Malformed),
        }
    }

    /// For any request. `detail` is words for people, or nothing; for a conflict, use
    /// [`Reply::put_conflict`].
    pub fn put_failure(output: &mut Vec<u8>, id: u32, code: ErrorCode, detail: &[u8]) {
        put_frame(output, id, FAILED, |body| {
            body.extend_from_slice(&code.0.to_le_bytes());
            body.extend_from_slice(detail);
        });
    }

    /// For a conflict: the positions of the changed ranges, among the ranges read.
    pub fn put_conflict(output: &mut Vec<u8>, id: u32, changed: &[usize]) {
        let positions: Vec<u8> = changed
            .iter()
            .flat_map(|&position| u32::try_from(position).unwrap_or(u32::MAX).to_le_bytes())
            .collect();
        Reply::put_failure(output, id, ErrorCode::NOT_COMMITTED, &positions);
    }

    /// Reads the detail of a failure with [`ErrorCode::NOT_COMMITTED`]. The positions are
    /// untrusted: they may exceed the last range that was sent. Bytes of an incomplete position at
    /// the end are ignored.
    pub fn conflict_positions(detail: &[u8]) -> Vec<usize> {
        let positions = detail.chunks_exact(4);
        positions
            .map(|position| u32::from_le_bytes([position[0], position[1], position[2], position[3]]) as usize)
            .collect()
    }

    /// For a watch: it fired.
    pub fn put_empty(output: &mut Vec<u8>, id: u32) {
        put_frame(output, id, DONE, |_| {});
    }

    /// For READ_VERSION, OPEN_VERSION and COMMIT: a version; for ESTIMATED_BYTES a count.
    pub fn put_number(output: &mut Vec<u8>, id: u32, number: u64) {
        put_frame(output, id, DONE, |body| body.extend_from_slice(&number.to_le_bytes()));
    }

    /// Reads what [`Reply::put_number`] wrote; nothing may follow it.
    pub fn number(body: &[u8]) -> Result<u64, Malformed> {
        let mut input = Input(body);
        let number = input.u64()?;
        input.end()?;
        Ok(number)
    }

    /// For GET: the value, if there is one.
    pub fn put_value(output: &mut Vec<u8>, id: u32, value: Option<&[u8]>) {
        put_frame(output, id, DONE, |body| {
            body.push(u8::from(value.is_some()));
            body.extend_from_slice(value.unwrap_or_default());
        });
    }

    /// Reads what [`Reply::put_value`] wrote. `None` is a key that is absent, unlike one with an
    /// empty value.
    pub fn value(body: &[u8]) -> Result<Option<&[u8]>, Malformed> {
        let mut input = Input(body);
        let present = input.bool()?;
        let value = input.rest();
        match present {
            true => Ok(Some(value)),
            false if value.is_empty() => Ok(None),
            false => Err(Malformed),
        }
    }

    /// For GET_KEY and STATUS: bytes.
    pub fn put_bytes(output: &mut Vec<u8>, id: u32, bytes: &[u8]) {
        put_frame(output, id, DONE, |body| body.extend_from_slice(bytes));
    }

    /// For SPLIT_POINTS: keys in order.
    pub fn put_keys(output: &mut Vec<u8>, id: u32, keys: &[Vec<u8>]) {
        put_frame(output, id, DONE, |body| keys.iter().for_each(|key| body.put_bytes(key)));
    }

    /// Reads what [`Reply::put_keys`] wrote. Their order is not checked.
    pub fn keys(body: &[u8]) -> Result<Vec<&[u8]>, Malformed> {
        let mut input = Input(body);
        let mut keys = Vec::new();
        while !input.is_empty() {
            keys.push(input.bytes()?);
        }
        Ok(keys)
    }

    /// For GET_RANGE. `write` appends rows by [`RangeReply::put_row`] and returns whether there may
    /// be more.
    pub fn put_range(output: &mut Vec<u8>, id: u32, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        put_frame(output, id, DONE, |body| {
            let start = body.len();
            body.push(0);
            body[start] = u8::from(write(body));
        });
    }
}

impl<'a> RangeReply<'a> {
    /// Appends one row, inside [`Reply::put_range`].
    pub fn put_row(body: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        body.put_bytes(key);
        body.put_bytes(value);
    }

    /// Reads what [`Reply::put_range`] wrote, and looks through all rows once: a row that is cut
    /// short is an error here.
    pub fn parse(body: &'a [u8]) -> Result<RangeReply<'a>, Malformed> {
        let mut input = Input(body);
        let more = input.bool()?;
        let rows = input.rest();
        let reply = RangeReply { more, rows };
        let mut input = Input(rows);
        while !input.is_empty() {
            input.bytes()?;
            input.bytes()?;
        }
        Ok(reply)
    }

    /// Keys with their values, in the order of the reply. Allocates nothing.
    pub fn rows(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut input = Input(self.rows);
        // Both are present: parsing has verified the bytes.
        std::iter::from_fn(move || Some((input.bytes().ok()?, input.bytes().ok()?)))
    }
}

impl Welcome {
    /// Appends the frame that answers the greeting `id`.
    pub fn put(&self, output: &mut Vec<u8>, id: u32) {
        put_frame(output, id, DONE, |body| {
            body.extend_from_slice(&self.protocol_version.to_le_bytes());
            body.extend_from_slice(&self.instance.to_le_bytes());
            body.extend_from_slice(&self.read_window_micros.to_le_bytes());
            body.extend_from_slice(&self.transaction_bytes_max.to_le_bytes());
        });
    }

    /// Reads what [`Welcome::put`] wrote; nothing may follow it.
    pub fn parse(body: &[u8]) -> Result<Welcome, Malformed> {
        let mut input = Input(body);
        let welcome = Welcome {
            protocol_version: input.u16()?,
            instance: input.u64()?,
            read_window_micros: input.u64()?,
            transaction_bytes_max: input.u32()?,
        };
        input.end()?;
        Ok(welcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{FRAME_BYTES_MAX, next_frame};

    /// The body of the single reply that `write` appends.
    fn body_of(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes);
        let frame = next_frame(&bytes, FRAME_BYTES_MAX).unwrap().unwrap();
        match Reply::parse(&frame).unwrap() {
            Reply::Done(body) => body.to_vec(),
            Reply::Failed { code, .. } => panic!("{code}"),
        }
    }

    #[test]
    fn replies_are_read_as_they_were_written() {
        assert_eq!(Reply::number(&body_of(|output| Reply::put_number(output, 1, 5))), Ok(5));
        for value in [None, Some(&b""[..]), Some(b"v")] {
            assert_eq!(
                Reply::value(&body_of(|output| Reply::put_value(output, 1, value))),
                Ok(value)
            );
        }
        let keys = vec![b"a".to_vec(), Vec::new()];
        assert_eq!(
            Reply::keys(&body_of(|output| Reply::put_keys(output, 1, &keys))).unwrap(),
            [&b"a"[..], b""]
        );
        let range = body_of(|output| {
            Reply::put_range(output, 1, |body| {
                RangeReply::put_row(body, b"k", b"v");
                RangeReply::put_row(body, b"l", b"");
                true
            });
        });
        let range = RangeReply::parse(&range).unwrap();
        assert!(range.more);
        assert_eq!(range.rows().collect::<Vec<_>>(), [(&b"k"[..], &b"v"[..]), (b"l", b"")]);
        let welcome = Welcome {
            protocol_version: 1,
            instance: 2,
            read_window_micros: 3,
            transaction_bytes_max: 4,
        };
        assert_eq!(Welcome::parse(&body_of(|output| welcome.put(output, 1))), Ok(welcome));
    }

    #[test]
    fn failures_carry_their_code_and_what_changed() {
        let mut bytes = Vec::new();
        Reply::put_conflict(&mut bytes, 3, &[1, 300]);
        let frame = next_frame(&bytes, FRAME_BYTES_MAX).unwrap().unwrap();
        let Ok(Reply::Failed { code, detail }) = Reply::parse(&frame) else {
            panic!("a failure")
        };
        assert_eq!(
            (code, Reply::conflict_positions(detail)),
            (ErrorCode::NOT_COMMITTED, vec![1, 300])
        );
    }

    #[test]
    fn cut_rows_are_refused() {
        let range = body_of(|output| {
            Reply::put_range(output, 1, |body| {
                RangeReply::put_row(body, b"k", b"v");
                false
            });
        });
        for length in 2..range.len() {
            assert_eq!(RangeReply::parse(&range[..length]), Err(Malformed));
        }
    }
}
