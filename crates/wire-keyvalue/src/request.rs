//! A client's requests.

use quartet_model::AtomicOperation;

use crate::bytes::{Input, Malformed, Output};
use crate::frame::{Frame, put_frame};

/// A request that borrows from its frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// The first of a connection; anything else before it ends the connection.
    Hello(Hello<'a>),
    /// A version to read at: the state of everything acknowledged before the request. It stays
    /// readable until it is released as often as it was given, or the server's window for reads has
    /// passed.
    ReadVersion,
    /// The same for a version that the client names. The server answers with the version it kept,
    /// the first at or after it.
    OpenVersion {
        /// The requested version; need not be a commit's.
        version: u64,
    },
    /// No reply.
    Release {
        /// A version that this connection was given: one use of it ends.
        version: u64,
    },
    /// The value of one key, or that there is none.
    Get {
        /// A version that this connection was given and has not released.
        version: u64,
        /// Allows keys under 0xff.
        system: bool,
        /// The key, to the end of the frame.
        key: &'a [u8],
    },
    /// The key that a selector names.
    GetKey {
        /// A version that this connection was given and has not released.
        version: u64,
        /// Resolved among the keys as they were at `version`.
        selector: Selector<'a>,
        /// Allows keys under 0xff.
        system: bool,
    },
    /// Rows between two keys, as many as the limits allow.
    GetRange(RangeRequest<'a>),
    /// Certifies and applies a transaction as a whole, or refuses it. The reply, a version, waits
    /// until it is durable.
    Commit(Commit<'a>),
    /// Answered once the value of `key` differs from `value`; `None` means an absent key.
    Watch {
        /// Allows keys under 0xff.
        system: bool,
        /// The key, compared with `value` at once: a change that has happened already is answered
        /// too.
        key: &'a [u8],
        /// The value that the client knows.
        value: Option<&'a [u8]>,
    },
    /// Forgets a watch. No reply, to either.
    Cancel {
        /// The number of the request that set the watch; unknown numbers are ignored.
        id: u32,
    },
    /// About how many bytes keys and values of a range take.
    EstimatedBytes {
        /// The first key of the range.
        begin: &'a [u8],
        /// The exclusive end of the range. Below `begin` is an error.
        end: &'a [u8],
    },
    /// Keys that cut a range into pieces of about `piece_bytes`; at most `limit`.
    SplitPoints {
        /// The first key of the range.
        begin: &'a [u8],
        /// The exclusive end of the range. Below `begin` is an error.
        end: &'a [u8],
        /// Bytes of keys and values that a piece should have.
        piece_bytes: u64,
        /// Most keys between the two ends, which the reply holds as well.
        limit: u32,
        /// Allows keys under 0xff.
        system: bool,
    },
    /// How the server does, as JSON.
    Status,
}

/// The client's credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The newest version of the protocol that the client speaks.
    pub protocol_version: u16,
    /// Chosen by the client at random, the same for all its connections. The server lets a
    /// connection in when the session's others have ended. Zero: there is no session.
    pub session: [u8; 16],
    /// A credential of a logical database; empty if there is none.
    pub token: &'a [u8],
}

/// Names a key by its place: the last key before `key` (or at it, if `or_equal`), and then `offset`
/// keys on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector<'a> {
    /// The key from which the selection counts; need not exist.
    pub key: &'a [u8],
    /// Whether `key` itself counts if it exists.
    pub or_equal: bool,
    /// Number of keys to advance, or to go back if negative. Beyond the first or last key, the
    /// answer is the edge of the space.
    pub offset: i32,
}

/// The rows to read, and their limits. Rows are in key order, or in descending order with
/// `reverse`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeRequest<'a> {
    /// A version that this connection was given and has not released.
    pub version: u64,
    /// Names the first key.
    pub begin: Selector<'a>,
    /// Names where the range ends, itself excluded.
    pub end: Selector<'a>,
    /// Most rows; 0: no limit.
    pub rows_max: u32,
    /// The row that reaches this many bytes (8 more than its key and value, for each) is the last;
    /// 0: the server's limit.
    pub bytes_max: u32,
    /// Starts at the end: limits then keep the last rows.
    pub reverse: bool,
    /// Allows keys under 0xff.
    pub system: bool,
}

/// The reads and writes of a transaction, as lists of encoded parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit<'a> {
    /// 0 if nothing was read.
    pub read_version: u64,
    /// Reports the changed ranges of a conflict.
    pub report_conflicts: bool,
    /// Allows mutations of keys under 0xff.
    pub system: bool,
    /// Ranges that must not have changed since `read_version`, as begin and end, the end excluded.
    pub read_conflicts: Vec<(&'a [u8], &'a [u8])>,
    /// Ranges that count as written for other transactions, in addition to those that the mutations
    /// write.
    pub write_conflicts: Vec<(&'a [u8], &'a [u8])>,
    /// Writes, applied in this order.
    pub mutations: Vec<Mutation<'a>>,
}

/// One write of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mutation<'a> {
    /// Decides what `key` and `value` mean.
    pub kind: MutationKind,
    /// The key, or the start of a cleared range.
    pub key: &'a [u8],
    /// The value, the operand, or where a cleared range ends.
    pub value: &'a [u8],
}

/// The operation of a mutation. As a byte, the number that FoundationDB's interface has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MutationKind {
    /// `key` gets `value`.
    Set,
    /// Clears `key..value`.
    ClearRange,
    /// `key` goes; `value` is empty.
    Clear,
    /// Computes the new value from the old value at the commit, with `value` as the operand.
    Atomic(AtomicOperation),
    /// The versionstamp goes into the key, or into the value, at an offset that follows it in four
    /// bytes.
    SetVersionstampedKey,
    /// See [`MutationKind::SetVersionstampedKey`].
    SetVersionstampedValue,
}

const OPERATIONS: [(u8, AtomicOperation); 10] = [
    (2, AtomicOperation::Add),
    (6, AtomicOperation::And),
    (7, AtomicOperation::Or),
    (8, AtomicOperation::Xor),
    (9, AtomicOperation::AppendIfFits),
    (12, AtomicOperation::Max),
    (13, AtomicOperation::Min),
    (16, AtomicOperation::ByteMin),
    (17, AtomicOperation::ByteMax),
    (20, AtomicOperation::CompareAndClear),
];
/// Not a FoundationDB number: its wire has only ranges.
const CLEAR: u8 = 255;

impl MutationKind {
    /// Its byte in a commit.
    pub fn number(self) -> u8 {
        match self {
            MutationKind::Set => 0,
            MutationKind::ClearRange => 1,
            MutationKind::Clear => CLEAR,
            MutationKind::SetVersionstampedKey => 14,
            MutationKind::SetVersionstampedValue => 15,
            MutationKind::Atomic(operation) => {
                let row = OPERATIONS.iter().find(|(_, candidate)| *candidate == operation);
                row.expect("every operation has a number").0
            }
        }
    }

    /// The kind of a byte, which is also FoundationDB's number of a mutation; `None` for a number
    /// that is not served.
    pub fn numbered(number: u8) -> Option<MutationKind> {
        match number {
            0 => Some(MutationKind::Set),
            1 => Some(MutationKind::ClearRange),
            CLEAR => Some(MutationKind::Clear),
            14 => Some(MutationKind::SetVersionstampedKey),
            15 => Some(MutationKind::SetVersionstampedValue),
            _ => {
                let row = OPERATIONS.iter().find(|(code, _)| *code == number);
                row.map(|(_, operation)| MutationKind::Atomic(*operation))
            }
        }
    }
}

mod code {
    pub const HELLO: u8 = 1;
    pub const READ_VERSION: u8 = 2;
    pub const OPEN_VERSION: u8 = 3;
    pub const RELEASE: u8 = 4;
    pub const GET: u8 = 5;
    pub const GET_KEY: u8 = 6;
    pub const GET_RANGE: u8 = 7;
    pub const COMMIT: u8 = 8;
    pub const WATCH: u8 = 9;
    pub const CANCEL: u8 = 10;
    pub const ESTIMATED_BYTES: u8 = 11;
    pub const SPLIT_POINTS: u8 = 12;
    pub const STATUS: u8 = 13;
}

impl<'a> Request<'a> {
    /// Reads a client's frame. `Malformed` covers unknown codes and bytes left over; the server
    /// ends the connection.
    pub fn parse(frame: &Frame<'a>) -> Result<Request<'a>, Malformed> {
        let mut input = Input(frame.body);
        let request = match frame.code {
            code::HELLO => Request::Hello(Hello {
                protocol_version: input.u16()?,
                session: input.array()?,
                token: input.rest(),
            }),
            code::READ_VERSION => Request::ReadVersion,
            code::OPEN_VERSION => Request::OpenVersion { version: input.u64()? },
            code::RELEASE => Request::Release { version: input.u64()? },
            code::GET => Request::Get {
                version: input.u64()?,
                system: input.bool()?,
                key: input.rest(),
            },
            code::GET_KEY => Request::GetKey {
                version: input.u64()?,
                system: input.bool()?,
                selector: Selector::parse(&mut input)?,
            },
            code::GET_RANGE => Request::GetRange(RangeRequest::parse(&mut input)?),
            code::COMMIT => Request::Commit(Commit::parse(&mut input)?),
            code::WATCH => Request::Watch {
                system: input.bool()?,
                key: input.bytes()?,
                value: if input.bool()? { Some(input.rest()) } else { None },
            },
            code::CANCEL => Request::Cancel { id: input.u32()? },
            code::ESTIMATED_BYTES => Request::EstimatedBytes {
                begin: input.bytes()?,
                end: input.bytes()?,
            },
            code::SPLIT_POINTS => Request::SplitPoints {
                piece_bytes: input.u64()?,
                limit: input.u32()?,
                system: input.bool()?,
                begin: input.bytes()?,
                end: input.bytes()?,
            },
            code::STATUS => Request::Status,
            _ => return Err(Malformed),
        };
        input.end()?;
        Ok(request)
    }

    /// Appends the request's frame.
    pub fn put(&self, id: u32, output: &mut Vec<u8>) {
        put_frame(output, id, self.code(), |body| self.put_body(body));
    }

    fn code(&self) -> u8 {
        match self {
            Request::Hello(_) => code::HELLO,
            Request::ReadVersion => code::READ_VERSION,
            Request::OpenVersion { .. } => code::OPEN_VERSION,
            Request::Release { .. } => code::RELEASE,
            Request::Get { .. } => code::GET,
            Request::GetKey { .. } => code::GET_KEY,
            Request::GetRange(_) => code::GET_RANGE,
            Request::Commit(_) => code::COMMIT,
            Request::Watch { .. } => code::WATCH,
            Request::Cancel { .. } => code::CANCEL,
            Request::EstimatedBytes { .. } => code::ESTIMATED_BYTES,
            Request::SplitPoints { .. } => code::SPLIT_POINTS,
            Request::Status => code::STATUS,
        }
    }

    fn put_body(&self, body: &mut Vec<u8>) {
        match self {
            Request::Hello(hello) => {
                body.extend_from_slice(&hello.protocol_version.to_le_bytes());
                body.extend_from_slice(&hello.session);
                body.extend_from_slice(hello.token);
            }
            Request::ReadVersion | Request::Status => {}
            Request::OpenVersion { version } | Request::Release { version } => {
                body.extend_from_slice(&version.to_le_bytes());
            }
            Request::Get { version, system, key } => {
                body.extend_from_slice(&version.to_le_bytes());
                body.push(u8::from(*system));
                body.extend_from_slice(key);
            }
            Request::GetKey {
                version,
                selector,
                system,
            } => {
                body.extend_from_slice(&version.to_le_bytes());
                body.push(u8::from(*system));
                selector.put(body);
            }
            Request::GetRange(range) => range.put(body),
            Request::Commit(commit) => commit.put(body),
            Request::Watch { system, key, value } => {
                body.push(u8::from(*system));
                body.put_bytes(key);
                body.push(u8::from(value.is_some()));
                body.extend_from_slice(value.unwrap_or_default());
            }
            Request::Cancel { id } => body.extend_from_slice(&id.to_le_bytes()),
            Request::EstimatedBytes { begin, end } => {
                body.put_bytes(begin);
                body.put_bytes(end);
            }
            Request::SplitPoints {
                begin,
                end,
                piece_bytes,
                limit,
                system,
            } => {
                body.extend_from_slice(&piece_bytes.to_le_bytes());
                body.extend_from_slice(&limit.to_le_bytes());
                body.push(u8::from(*system));
                body.put_bytes(begin);
                body.put_bytes(end);
            }
        }
    }
}

impl<'a> Selector<'a> {
    /// The first key at or after `key`.
    pub fn first_at_or_after(key: &'a [u8]) -> Selector<'a> {
        Selector {
            key,
            or_equal: false,
            offset: 1,
        }
    }

    fn parse(input: &mut Input<'a>) -> Result<Selector<'a>, Malformed> {
        Ok(Selector {
            or_equal: input.bool()?,
            offset: input.i32()?,
            key: input.bytes()?,
        })
    }

    fn put(&self, body: &mut Vec<u8>) {
        body.push(u8::from(self.or_equal));
        body.extend_from_slice(&self.offset.to_le_bytes());
        body.put_bytes(self.key);
    }
}

impl<'a> RangeRequest<'a> {
    fn parse(input: &mut Input<'a>) -> Result<RangeRequest<'a>, Malformed> {
        Ok(RangeRequest {
            version: input.u64()?,
            rows_max: input.u32()?,
            bytes_max: input.u32()?,
            reverse: input.bool()?,
            system: input.bool()?,
            begin: Selector::parse(input)?,
            end: Selector::parse(input)?,
        })
    }

    fn put(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(&self.version.to_le_bytes());
        body.extend_from_slice(&self.rows_max.to_le_bytes());
        body.extend_from_slice(&self.bytes_max.to_le_bytes());
        body.push(u8::from(self.reverse));
        body.push(u8::from(self.system));
        self.begin.put(body);
        self.end.put(body);
    }
}

impl<'a> Commit<'a> {
    /// Returns true if it may make the data larger.
    pub fn grows(&self) -> bool {
        let clears = |mutation: &Mutation<'_>| matches!(mutation.kind, MutationKind::Clear | MutationKind::ClearRange);
        !self.mutations.iter().all(clears)
    }

    /// Each list is its length in bytes and then its parts, so missing parts cause no allocation.
    fn parse(input: &mut Input<'a>) -> Result<Commit<'a>, Malformed> {
        let mut commit = Commit {
            read_version: input.u64()?,
            report_conflicts: input.bool()?,
            system: input.bool()?,
            ..Commit::default()
        };
        for ranges in [&mut commit.read_conflicts, &mut commit.write_conflicts] {
            let mut list = Input(input.bytes()?);
            while !list.is_empty() {
                ranges.push((list.bytes()?, list.bytes()?));
            }
        }
        while !input.is_empty() {
            commit.mutations.push(Mutation {
                kind: MutationKind::numbered(input.u8()?).ok_or(Malformed)?,
                key: input.bytes()?,
                value: input.bytes()?,
            });
        }
        Ok(commit)
    }

    fn put(&self, body: &mut Vec<u8>) {
        body.extend_from_slice(&self.read_version.to_le_bytes());
        body.push(u8::from(self.report_conflicts));
        body.push(u8::from(self.system));
        for ranges in [&self.read_conflicts, &self.write_conflicts] {
            let bytes: usize = ranges.iter().map(|(begin, end)| 8 + begin.len() + end.len()).sum();
            let bytes = u32::try_from(bytes).expect("conflict ranges below 4 GiB");
            body.extend_from_slice(&bytes.to_le_bytes());
            for (begin, end) in ranges {
                body.put_bytes(begin);
                body.put_bytes(end);
            }
        }
        for mutation in &self.mutations {
            body.push(mutation.kind.number());
            body.put_bytes(mutation.key);
            body.put_bytes(mutation.value);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::{FRAME_BYTES_MAX, next_frame};

    fn check(request: &Request<'_>) {
        let mut bytes = Vec::new();
        request.put(9, &mut bytes);
        let frame = next_frame(&bytes, FRAME_BYTES_MAX).unwrap().unwrap();
        assert_eq!((frame.id, frame.bytes), (9, bytes.len()));
        assert_eq!(&Request::parse(&frame).unwrap(), request);
    }

    #[test]
    fn requests_are_read_as_they_were_written() {
        let selector = Selector {
            key: b"k",
            or_equal: true,
            offset: -3,
        };
        check(&Request::Hello(Hello {
            protocol_version: 1,
            session: [7; 16],
            token: b"secret",
        }));
        check(&Request::ReadVersion);
        check(&Request::OpenVersion { version: u64::MAX });
        check(&Request::Release { version: 1 });
        check(&Request::Get {
            version: 2,
            system: true,
            key: b"",
        });
        check(&Request::GetKey {
            version: 3,
            selector,
            system: true,
        });
        check(&Request::GetRange(RangeRequest {
            version: 4,
            begin: selector,
            end: Selector::first_at_or_after(b"\xff"),
            rows_max: 5,
            bytes_max: 6,
            reverse: true,
            system: false,
        }));
        for value in [Some(&b""[..]), None] {
            check(&Request::Watch {
                system: value.is_some(),
                key: b"k",
                value,
            });
        }
        check(&Request::Cancel { id: 7 });
        check(&Request::EstimatedBytes { begin: b"a", end: b"b" });
        check(&Request::SplitPoints {
            begin: b"a",
            end: b"b",
            piece_bytes: 8,
            limit: 9,
            system: true,
        });
        check(&Request::Status);
    }

    #[test]
    fn every_kind_of_mutation_survives() {
        let kinds = (0..=255).filter_map(MutationKind::numbered);
        let mutations: Vec<_> = kinds
            .map(|kind| Mutation {
                kind,
                key: b"key",
                value: b"value",
            })
            .collect();
        assert_eq!(mutations.len(), 15);
        check(&Request::Commit(Commit {
            read_version: 1,
            report_conflicts: true,
            system: true,
            read_conflicts: vec![(b"a", b"b"), (b"", b"")],
            write_conflicts: vec![(b"c", b"d")],
            mutations,
        }));
        check(&Request::Commit(Commit::default()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_refused(code in 0u8..16, body in proptest::collection::vec(any::<u8>(), 0..80)) {
            let frame = Frame { id: 1, code, body: &body, bytes: 0 };
            if let Ok(request) = Request::parse(&frame) {
                let mut bytes = Vec::new();
                request.put(1, &mut bytes);
                let again = next_frame(&bytes, FRAME_BYTES_MAX).unwrap().unwrap();
                prop_assert_eq!(Request::parse(&again), Ok(request));
            }
        }
    }
}
