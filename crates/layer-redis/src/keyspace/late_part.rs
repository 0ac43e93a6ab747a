//! Parts of a reply that are produced after the partition's lock is released, because they are
//! long.
//!
//! Copying a hundred megabytes takes as long as a hundred thousand small commands, and all of them
//! waited for it. So the reply is written without such a part; its value is held, and the part is
//! produced step by step and inserted at its position, while other requests continue: on other
//! threads, because no lock is held, and on the same thread between two steps.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

use quartet_engine::{Reader, Transaction};

use crate::keyspace::Entry;
use crate::keyspace::string_value::{Piece, StringValue};

/// A part that rests on fewer bytes is made at once: that takes no longer than some commands do.
pub const LATE_FROM: u64 = 1 << 20;
/// Bytes of values that are read in one step.
pub const STEP_BYTES: u64 = 1 << 20;

/// A string as it was when it was read, despite later changes.
pub struct HeldString {
    entry: Entry,
    /// The state from which chunks are read. A value in the key's own row needs none.
    chunks: Option<Reader>,
}

impl HeldString {
    /// The string as the transaction sees it now.
    pub fn new(tx: &mut Transaction<'_>, entry: &Entry) -> HeldString {
        HeldString {
            entry: entry.clone(),
            chunks: entry.is_large().then(|| tx.reader()),
        }
    }

    /// Visits the bytes of `range`, which is within the value, in order until `visit` breaks.
    /// Returns false if the disk did not return them.
    #[must_use]
    pub fn each(&self, range: Range<u64>, visit: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>) -> bool {
        let value = StringValue::of(&self.entry);
        match (&self.chunks, value.packed()) {
            (Some(reader), _) => {
                value.each_of(reader, range, visit);
                !reader.is_unreadable()
            }
            (None, Some(packed)) => {
                let _ = visit(Piece::Bytes(&packed[range.start as usize..range.end as usize]));
                true
            }
            (None, None) => unreachable!("a string in chunks that are not held"),
        }
    }

    /// Appends the first bytes of `range`, which is within the value, and removes them from it.
    pub fn append_step(&self, range: &mut Range<u64>, out: &mut Vec<u8>) -> Made {
        let end = range.end.min(range.start + STEP_BYTES);
        let is_read = self.each(range.start..end, &mut |piece| {
            piece.append_to(out);
            ControlFlow::Continue(())
        });
        range.start = end;
        match (is_read, range.is_empty()) {
            (false, _) => Made::Unreadable,
            (true, true) => Made::Wholly,
            (true, false) => Made::Partly,
        }
    }
}

/// The progress of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// There is more to do.
    Partly,
    Wholly,
    /// The disk did not return something: the reply cannot be completed.
    Unreadable,
}

/// Appends as much of a part as is made in one step.
pub type Make = Box<dyn FnMut(&mut Vec<u8>) -> Made + Send + Sync>;

/// A part of a reply that is still to be made.
pub struct LatePart {
    /// Its position in the reply.
    pub at: usize,
    /// Length in bytes, or about that.
    pub bytes: usize,
    pub make: Make,
}

/// A reply that lacks parts. Its bytes before the first of them are where it is written to.
pub struct Incomplete {
    /// In the order of their places.
    parts: VecDeque<LatePart>,
    /// The reply's bytes from the first part's place on.
    rest: Vec<u8>,
    rest_at: usize,
}

impl Incomplete {
    /// Splits the bytes after the first part off the reply. `None` if it is complete.
    pub fn new(out: &mut Vec<u8>, parts: Vec<LatePart>) -> Option<Incomplete> {
        let rest_at = parts.first()?.at;
        Some(Incomplete {
            parts: parts.into(),
            rest: out.split_off(rest_at),
            rest_at,
        })
    }

    /// Approximate number of missing bytes.
    pub fn bytes(&self) -> usize {
        self.rest.len() + self.parts.iter().map(|part| part.bytes).sum::<usize>()
    }

    /// Appends the next bytes, about [`STEP_BYTES`] of them.
    pub fn step(&mut self, out: &mut Vec<u8>) -> Made {
        let Some(part) = self.parts.front_mut() else {
            return Made::Wholly;
        };
        let made = (part.make)(out);
        if made != Made::Wholly {
            return made;
        }
        let begin = part.at - self.rest_at;
        self.parts.pop_front();
        let end = self
            .parts
            .front()
            .map_or(self.rest.len(), |next| next.at - self.rest_at);
        out.extend_from_slice(&self.rest[begin..end]);
        match self.parts.is_empty() {
            true => Made::Wholly,
            false => Made::Partly,
        }
    }
}

#[cfg(test)]
mod tests {
    use quartet_wire_resp::Value;

    use crate::testing::{Fixture, show};

    const LONG: usize = 3 << 20;

    /// GET of 128 MB copied it under the lock, and all other clients waited for 450 ms. These are
    /// replies that are completed later: in pipelines, between other elements, in transactions, of
    /// values in one row and in chunks, and of a key that the command itself removes.
    #[test]
    fn long_values_are_in_their_positions() {
        let mut connection = Fixture::new().connect();
        let long = "0123456789abcdef".repeat(LONG / 16);
        connection.run(&["SET", "whole", &long]);
        connection.run(&["SET", "chunks", &long]);
        connection.run(&["SETRANGE", "chunks", "5", "X"]);
        let patched = format!("01234X{}", &long[6..]);
        connection.run(&["SETRANGE", "zeros", &(LONG - 1).to_string(), "x"]);
        let zeros = format!("{}x", "\0".repeat(LONG - 1));
        connection.run(&["SET", "short", "s"]);
        for (name, value) in [("whole", &long), ("chunks", &patched), ("zeros", &zeros)] {
            assert_eq!(show(&connection.run(&["GET", name])), **value, "{name}");
            let part = show(&connection.run(&["GETRANGE", name, "3", "-2"]));
            assert_eq!(part, value[3..LONG - 1], "{name}");
        }
        let all = show(&connection.run(&["MGET", "short", "whole", "none", "chunks", "short", "zeros"]));
        assert_eq!(all, format!("[s {long} nil {patched} s {zeros}]"));
        connection.run(&["MULTI"]);
        connection.run(&["GET", "chunks"]);
        assert_eq!(show(&connection.run(&["EXEC"])), format!("[{patched}]"));
        let script = "return #redis.call('GET', KEYS[1])";
        assert_eq!(
            show(&connection.run(&["EVAL", script, "1", "chunks"])),
            LONG.to_string()
        );
        for name in ["whole", "chunks", "zeros"] {
            let ones = show(&connection.run(&["BITCOUNT", name, "1", "-2"]));
            connection.run(&["MULTI"]);
            connection.run(&["BITCOUNT", name, "1", "-2"]);
            assert_eq!(show(&connection.run(&["EXEC"])), format!("[{ones}]"), "{name}");
            let Value::Bulk(dumped) = connection.run(&["DUMP", name]) else {
                panic!("no dump of {name}");
            };
            let dumped = quartet_wire_rdb::value::restore(&dumped);
            assert!(dumped.is_ok(), "{name}");
        }
        assert_eq!(show(&connection.run(&["GETEX", "chunks", "EX", "100"])), patched);
        assert_eq!(show(&connection.run(&["GETSET", "chunks", "new"])), patched);
        assert_eq!(show(&connection.run(&["GETDEL", "zeros"])), zeros);
        assert_eq!(show(&connection.run(&["SET", "whole", "new", "GET"])), long);
        connection.check("GET chunks => new\nGET whole => new\nEXISTS zeros => 0");
    }

    #[test]
    fn a_pipeline_continues_after_a_long_value() {
        let mut connection = Fixture::new().connect();
        let long = "x".repeat(LONG);
        connection.run(&["SET", "a", &long]);
        let mut input: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
        let mut out = Vec::new();
        while !input.is_empty() {
            input = &input[connection.session.receive(input, &mut out).consumed..];
        }
        let bulk = format!("${LONG}\r\n{long}\r\n");
        assert!(out == format!("{bulk}+PONG\r\n{bulk}").as_bytes());
    }

    #[test]
    fn suppressed_parts_are_omitted() {
        let mut connection = Fixture::new().connect();
        connection.run(&["SET", "a", &"x".repeat(LONG)]);
        let mut out = Vec::new();
        let request = b"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$4\r\nSKIP\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
        let consumed = connection.session.receive(request, &mut out).consumed;
        assert_eq!((consumed, out.len()), (request.len(), 0));
        connection.check("PING => PONG");
    }

    /// The copying was moved out of the lock, but still blocked the thread: its other connections
    /// waited as long as before. A step produces a mebibyte, and earlier bytes may be sent.
    #[test]
    fn a_step_makes_little() {
        let mut connection = Fixture::new().connect();
        connection.run(&["SETRANGE", "a", &(LONG - 1).to_string(), "x"]);
        for (request, reply_bytes) in [
            (&b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"[..], LONG + 12),
            (b"*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\na\r\n", 2 * (LONG + 12) + 4),
            (b"*2\r\n$8\r\nBITCOUNT\r\n$1\r\na\r\n", 4),
        ] {
            let (mut out, mut written, mut steps) = (Vec::new(), 0, 0);
            connection.session.receive_in_steps(request, &mut out);
            while connection.session.lacks_parts() {
                written += std::mem::take(&mut out).len();
                connection.session.complete(&mut out);
                assert!(out.len() <= super::STEP_BYTES as usize + 100);
                steps += 1;
            }
            assert_eq!(written + out.len(), reply_bytes);
            assert!(steps >= LONG >> 20, "{steps}");
        }
    }
}
