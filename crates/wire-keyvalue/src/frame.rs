//! The boundaries of a frame.
//!
//! ```text
//! | length u32 | id u32 | code u8 | body ... |
//!              <------- length bytes ------->
//! ```
//!
//! A client first sends eight bytes, [`PREAMBLE`], which no other protocol starts with; frames
//! follow in both directions.

use crate::bytes::Malformed;

/// A client's greeting, sent once, before any frame. A server closes a connection without it.
pub const PREAMBLE: [u8; 8] = *b"QuartKV1";

/// Largest frame, without its length field. It holds the largest transaction that a server can be
/// set to take.
pub const FRAME_BYTES_MAX: usize = 256 << 20;
/// Largest frame from an unauthenticated peer.
pub const UNAUTHENTICATED_FRAME_BYTES_MAX: usize = 4 << 10;

const LENGTH_BYTES: usize = 4;
const HEAD_BYTES: usize = 5;

/// One frame, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The request that it is, or that it answers.
    pub id: u32,
    /// The kind of the body.
    pub code: u8,
    /// The bytes after the head; borrowed from the input, empty for some codes.
    pub body: &'a [u8],
    /// Length of the whole frame in the input.
    pub bytes: usize,
}

/// The first frame of `input`; `None` until all of it has arrived. A frame larger than `bytes_max`
/// is refused as soon as its length is known.
pub fn next_frame(input: &[u8], bytes_max: usize) -> Result<Option<Frame<'_>>, Malformed> {
    let Some((length, body)) = input.split_at_checked(LENGTH_BYTES) else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(length.try_into().map_err(|_| Malformed)?) as usize;
    if !(HEAD_BYTES..=bytes_max).contains(&length) {
        return Err(Malformed);
    }
    let Some(frame) = body.get(..length) else {
        return Ok(None);
    };
    let (head, body) = frame.split_at(HEAD_BYTES);
    Ok(Some(Frame {
        id: u32::from_le_bytes([head[0], head[1], head[2], head[3]]),
        code: head[4],
        body,
        bytes: LENGTH_BYTES + length,
    }))
}

/// Appends a frame with the body that `write` appends.
pub(crate) fn put_frame(output: &mut Vec<u8>, id: u32, code: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let start = output.len();
    output.extend_from_slice(&[0; LENGTH_BYTES]);
    output.extend_from_slice(&id.to_le_bytes());
    output.push(code);
    write(output);
    let length = u32::try_from(output.len() - start - LENGTH_BYTES).expect("a frame below 4 GiB");
    output[start..start + LENGTH_BYTES].copy_from_slice(&length.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_whole_or_not_there_yet() {
        let mut bytes = Vec::new();
        put_frame(&mut bytes, 7, 3, |body| body.extend_from_slice(b"abc"));
        for length in 0..bytes.len() {
            assert_eq!(next_frame(&bytes[..length], 100), Ok(None));
        }
        let frame = next_frame(&bytes, 8).unwrap().unwrap();
        assert_eq!(
            (frame.id, frame.code, frame.body, frame.bytes),
            (7, 3, &b"abc"[..], bytes.len())
        );
    }

    #[test]
    fn absurd_lengths_are_refused_before_anything_arrives() {
        for length in [0u32, 4, 101, u32::MAX] {
            assert_eq!(next_frame(&length.to_le_bytes(), 100), Err(Malformed));
        }
    }
}
