//! The terms of the design as types, and the encoding of a transaction's effects in the log; also
//! one encoder of hexadecimal digits, for every crate.
//!
//! No I/O, no clock, no threads. Every other crate depends on this crate; it depends on none of
//! them.

#![warn(missing_docs)]

mod atomic;
mod effects;
pub mod format;
pub mod half_floats;
mod hexadecimal;
mod key;

pub use atomic::{APPEND_BYTES_MAX, AtomicOperation};
pub use effects::{
    Effect, Effects, EffectsError, EffectsReader, EffectsWriter, Payload, Savepoint, SharedValue, WrittenKey,
    place_header, split_place,
};
pub use hexadecimal::{hexadecimal, push_hexadecimal};
pub use key::{KEY_BYTES_MAX, KeyRange, VALUE_BYTES_MAX, next_prefix};

/// A point in the order of transactions, in microseconds since the Unix epoch, strictly increasing.
///
/// Taken as `max(last + 1, now)`, so it orders; it never decides correctness by being close to the
/// clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// Before every commit.
    pub const ZERO: Version = Version(0);
    /// Greater than every commit's.
    pub const MAX: Version = Version(u64::MAX);
}

/// The position of an epoch in a partition's log. The first epoch is 1; 0 means "before the first".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogSequence(pub u64);

impl LogSequence {
    /// Before the first epoch.
    pub const ZERO: LogSequence = LogSequence(0);

    /// The next sequence.
    pub fn next(self) -> LogSequence {
        LogSequence(self.0 + 1)
    }
}

/// The number of a logical database. It prefixes every key of that database, below the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DatabaseId(pub u16);

/// Which layer a key belongs to, inside its logical database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LayerId {
    /// The server's own rows: the catalogue of databases.
    System = 0,
    /// Redis.
    Redis = 1,
    /// FaunaDB.
    Fauna = 2,
    /// DynamoDB.
    DynamoDb = 3,
    /// FoundationDB's key-value pairs.
    KeyValue = 4,
}

impl LayerId {
    /// Every layer, and the server's own rows.
    pub const ALL: [LayerId; 5] = [
        LayerId::System,
        LayerId::Redis,
        LayerId::Fauna,
        LayerId::DynamoDb,
        LayerId::KeyValue,
    ];
}
