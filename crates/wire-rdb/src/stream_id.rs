//! IDs of stream entries.
//!
//! An ID is milliseconds and a sequence number, `1526919030474-55`. As one number of 128 bits, the
//! milliseconds above, IDs sort as entries do, and the next ID is the next number.

/// The ID of an entry. No entry has the ID `0-0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(u128);

/// Two numbers of at most twenty digits.
const TEXT_BYTES_MAX: usize = 41;
/// Size of an ID as bytes.
pub const ID_BYTES: usize = 16;

impl StreamId {
    /// The ID `0-0`.
    pub const ZERO: StreamId = StreamId(0);
    /// The greatest ID.
    pub const MAX: StreamId = StreamId(u128::MAX);

    /// Returns the ID of a millisecond and a sequence number in it.
    pub fn new(ms: u64, seq: u64) -> StreamId {
        StreamId(u128::from(ms) << 64 | u128::from(seq))
    }

    /// Returns the milliseconds.
    pub fn ms(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// Returns the sequence number.
    pub fn seq(self) -> u64 {
        self.0 as u64
    }

    /// Returns the next greater ID; `None` after the greatest.
    pub fn next(self) -> Option<StreamId> {
        self.0.checked_add(1).map(StreamId)
    }

    /// Returns the next smaller ID; `None` before `0-0`.
    pub fn previous(self) -> Option<StreamId> {
        self.0.checked_sub(1).map(StreamId)
    }

    /// Returns sixteen bytes that sort as the ID does.
    pub fn to_bytes(self) -> [u8; ID_BYTES] {
        self.0.to_be_bytes()
    }

    /// Returns the ID of [`StreamId::to_bytes`]. Panics unless there are sixteen bytes.
    pub fn from_bytes(bytes: &[u8]) -> StreamId {
        StreamId(u128::from_be_bytes(bytes.try_into().expect("sixteen bytes of ID")))
    }

    /// Returns `ms-seq` in digits.
    pub fn text(self) -> IdText {
        let mut text = IdText {
            bytes: [0; TEXT_BYTES_MAX],
            length: 0,
        };
        text.append(itoa::Buffer::new().format(self.ms()).as_bytes());
        text.append(b"-");
        text.append(itoa::Buffer::new().format(self.seq()).as_bytes());
        text
    }
}

/// An ID in digits, without an allocation.
pub struct IdText {
    bytes: [u8; TEXT_BYTES_MAX],
    length: usize,
}

impl IdText {
    fn append(&mut self, part: &[u8]) {
        self.bytes[self.length..][..part.len()].copy_from_slice(part);
        self.length += part.len();
    }

    /// Returns the digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
