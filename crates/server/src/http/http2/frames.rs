//! The frames of HTTP/2 (RFC 9113, section 4), as far as the end of a connection needs them.
//!
//! A client knows the outcome of a request from its answer, from a RST_STREAM, or from a GOAWAY:
//! one with an error, or with the number of an earlier stream. Node.js, and so FaunaDB's JavaScript
//! driver, knows it from nothing else for certain: it settles no promise at the end of the bytes,
//! whether or not a GOAWAY without an error came before; none at a reset after a GOAWAY; and none
//! at a reset that crosses bytes of its own, as it ignores the error of the write and then reads
//! the end. So a server says how each stream ends before it ends the connection.
//!
//! ```text
//!   length (3)  kind (1)  flags (1)  stream (4)  content (length)
//! ```

/// The frames' kinds.
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const GOAWAY: u8 = 7;
/// The flag of a stream's last frame of [`DATA`] or [`HEADERS`].
pub const END_STREAM: u8 = 1;
/// The greatest number of a stream. In a GOAWAY it announces another GOAWAY.
pub const ANY_STREAM: u32 = 0x7fff_ffff;
/// The first frame of a server. It sets nothing.
pub const SETTINGS: [u8; HEAD_BYTES] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

const HEAD_BYTES: usize = 9;
/// A longer frame leaves in pieces. Peers send no longer frames unless the other side allows them.
const HELD_BYTES_MAX: usize = 64 << 10;

/// The reason in a GOAWAY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    NoError = 0,
    /// The outcome of the streams up to the last stream is unknown.
    InternalError = 2,
}

/// Streams after `last` were not executed.
pub fn goaway(last: u32, reason: Reason) -> [u8; HEAD_BYTES + 8] {
    let mut frame = [0; HEAD_BYTES + 8];
    frame[2] = 8;
    frame[3] = GOAWAY;
    frame[HEAD_BYTES..HEAD_BYTES + 4].copy_from_slice(&last.to_be_bytes());
    frame[HEAD_BYTES + 4..].copy_from_slice(&(reason as u32).to_be_bytes());
    frame
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    content_bytes: usize,
}

impl Frame {
    /// `None`: a part of the head is missing.
    fn parse(bytes: &[u8]) -> Option<Frame> {
        let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & ANY_STREAM,
            content_bytes: u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize,
        })
    }

    /// The last stream of a GOAWAY with this content.
    pub fn last_stream(self, content: &[u8]) -> Option<u32> {
        let last = content.first_chunk().filter(|_| self.kind == GOAWAY)?;
        Some(u32::from_be_bytes(*last) & ANY_STREAM)
    }
}

/// Divides received bytes into frames.
#[derive(Default)]
pub struct Frames {
    /// Received bytes that no frame was taken from.
    pub received: Vec<u8>,
    /// Bytes left of the frame that is being taken.
    left: usize,
    /// That frame is left out.
    is_left_out: bool,
}

impl Frames {
    /// Frames after the `preface_bytes` bytes of a preface.
    pub fn behind(preface_bytes: usize) -> Frames {
        Frames {
            left: preface_bytes,
            ..Frames::default()
        }
    }

    /// Moves the whole frames to `taken`, except those for which `takes` answers false. It is given
    /// each frame once, with the content that was received of it: all, unless the frame is long.
    pub fn take(&mut self, taken: &mut Vec<u8>, mut takes: impl FnMut(Frame, &[u8]) -> bool) {
        let mut at = 0;
        loop {
            let rest = &self.received[at..];
            if self.left == 0 {
                let Some(frame) = Frame::parse(rest) else {
                    break;
                };
                let frame_bytes = HEAD_BYTES + frame.content_bytes;
                if rest.len() < frame_bytes.min(HELD_BYTES_MAX) {
                    break;
                }
                let content = &rest[HEAD_BYTES..frame_bytes.min(rest.len())];
                self.is_left_out = !takes(frame, content);
                self.left = frame_bytes;
            }
            let count = self.left.min(rest.len());
            if count == 0 {
                break;
            }
            if !self.is_left_out {
                taken.extend_from_slice(&rest[..count]);
            }
            self.left -= count;
            at += count;
        }
        self.received.drain(..at);
    }

    /// Returns true if the taken bytes end with a frame.
    pub fn are_whole(&self) -> bool {
        self.left == 0
    }
}

/// Finds out whether written bytes end with a frame.
#[derive(Default)]
pub struct Written {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes left of the frame's content.
    left: usize,
}

impl Written {
    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let count = self.left.min(bytes.len());
                self.left -= count;
                bytes = &bytes[count..];
                continue;
            }
            let count = (HEAD_BYTES - self.head_bytes).min(bytes.len());
            self.head[self.head_bytes..self.head_bytes + count].copy_from_slice(&bytes[..count]);
            self.head_bytes += count;
            bytes = &bytes[count..];
            if self.head_bytes == HEAD_BYTES {
                self.head_bytes = 0;
                self.left = Frame::parse(&self.head).map_or(0, |frame| frame.content_bytes);
            }
        }
    }

    pub fn is_whole(&self) -> bool {
        self.left == 0 && self.head_bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, stream: u32, content: &[u8]) -> Vec<u8> {
        let length = (content.len() as u32).to_be_bytes();
        [&length[1..], &[kind, 0], &stream.to_be_bytes(), content].concat()
    }

    /// The end of a connection must not fall within a frame.
    #[test]
    fn frames_leave_whole_unless_they_are_long() {
        let short = [frame(HEADERS, 1, b"head"), frame(DATA, 3, &[7; 300]), frame(4, 0, &[])];
        let long = frame(DATA, 1, &vec![9; 2 * HELD_BYTES_MAX]);
        let all = [short.concat(), long.clone(), goaway(5, Reason::NoError).to_vec()].concat();
        for piece in [1, 3, 10, 1000, all.len()] {
            let (mut frames, mut taken, mut written) = (Frames::behind(2), Vec::new(), Written::default());
            let mut lasts = Vec::new();
            let sent = [b"PR".as_slice(), &all].concat();
            for piece in sent.chunks(piece) {
                frames.received.extend_from_slice(piece);
                let before = taken.len();
                frames.take(&mut taken, |frame, content| {
                    lasts.extend(frame.last_stream(content));
                    frame.stream != 3
                });
                written.add(&taken[before.max(2).min(taken.len())..]);
                if taken.len() >= 2 {
                    assert_eq!(frames.are_whole(), written.is_whole(), "{}", taken.len());
                }
            }
            let expected = [b"PR", &short[0][..], &short[2], &long, &goaway(5, Reason::NoError)].concat();
            assert!(taken == expected && frames.received.is_empty(), "pieces of {piece}");
            assert_eq!(lasts, [5]);
        }
    }
}
