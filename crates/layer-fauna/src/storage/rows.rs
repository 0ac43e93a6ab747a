//! Where the layer keeps what, and the two ways to read it: at a moment, or inside a transaction.
//!
//! ```text
//!   1 database D collection id               the current version of a document: its time, its end (0: none), its fields
//!   1 database H collection id time          a former version, or the mark of a deletion
//!   1 database W collection id time          that its history was rewritten then: see `Rewriting`
//!   1 database N kind name                   the id of the schema object of that name
//!   1 database E index terms values document an entry: its time, its end, the values
//!   1 database L index terms time values doc an entry that left at that time: when it came, the values
//!   1 database C collection id              the id of a document's credentials
//!   1 database V                             when the schema last changed
//!   0 R database                             the registry of databases: parent, name, global id
//!   0 K id / 0 T id                          where the key or the token of that id lives
//!   0 P issuer                               where the access provider of that issuer lives
//!   0 X database, 0 B database index         what is left to clear, or to build
//!   0 S                                      the latest time that may have been shown: see `shown_times`
//! ```
//!
//! A document is part of the keys of entries as its id and then its collection, which is the order
//! of refs.
//!
//! Numbers are eight bytes, most significant first. A time that is unknown before the commit is
//! `Timestamp::PENDING`, so that it sorts after every known one.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use quartet_engine::{Dependency, OptimisticTransaction, Reader, RowValue, Stamp, Visit};
use quartet_model::Version;

use crate::language::codec::{self, Decoder, Encoder};
use crate::language::value::{Fields, Names, Timestamp};

/// A database by number: 0 is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DatabaseNumber(pub u64);

pub const ROOT: DatabaseNumber = DatabaseNumber(0);

/// The state that a query sees which only reads.
///
/// Documents and entries have times, so such a query sees them as of the newest durable version.
/// Rows without a time (the stamp of a schema, keys, tokens, the registry of databases) exist only
/// as of the latest commit. The newest change among the rows read is recorded: while it is durable
/// they were the same at the durable version, so that all reads are of one state. Otherwise the
/// query must be evaluated at the latest commit, and its answer held.
pub struct Moment {
    pub reader: Reader,
    newest: Cell<Version>,
}

impl Moment {
    pub fn of(reader: Reader) -> Moment {
        Moment {
            reader,
            newest: Cell::new(Version::ZERO),
        }
    }

    fn note(&self, changed: Version) {
        self.newest.set(self.newest.get().max(changed));
    }

    /// Returns true if a row that was read is newer than the durable version.
    pub fn is_ahead(&self) -> bool {
        self.newest.get() > self.reader.durable
    }

    /// Returns the dependency of an answer that shows only rows read without a time.
    pub fn dependency(&self) -> Dependency {
        match self.is_ahead() {
            true => self.reader.dependency,
            false => Version::ZERO,
        }
    }
}

/// The state that an evaluation reads, and writes if it may.
pub enum View<'a> {
    Reader(&'a Moment),
    Transaction(&'a mut OptimisticTransaction),
}

impl View<'_> {
    pub fn get(&mut self, key: &[u8]) -> Option<RowValue> {
        match self {
            View::Reader(moment) => moment.reader.get_row(key),
            View::Transaction(transaction) => transaction.get_row(key),
        }
    }

    /// Reads a row without a time of its own. An absent row may have been deleted a moment ago.
    pub fn get_latest(&mut self, key: &[u8]) -> Option<RowValue> {
        let row = self.get(key);
        if let View::Reader(moment) = self {
            moment.note(match &row {
                Some(RowValue::Stored(row)) => row.version(),
                _ => Version::MAX,
            });
        }
        row
    }

    /// Reads a row that is written again and again but never cleared: if it is not there, it never
    /// was.
    pub fn get_stamp(&mut self, key: &[u8]) -> Option<RowValue> {
        let row = self.get(key);
        if let (View::Reader(moment), Some(RowValue::Stored(row))) = (self, &row) {
            moment.note(row.version());
        }
        row
    }

    /// Reads what concurrent changes may change without harm.
    pub fn snapshot_scan(&mut self, start: &[u8], end: &[u8], reverse: bool, visit: Visit<'_>) {
        match self {
            View::Reader(moment) => moment.reader.scan(start, end, reverse, visit),
            View::Transaction(transaction) => transaction.snapshot_scan(start, end, reverse, visit),
        }
    }

    pub fn scan(&mut self, start: &[u8], end: &[u8], reverse: bool, visit: Visit<'_>) {
        match self {
            View::Reader(moment) => moment.reader.scan(start, end, reverse, visit),
            View::Transaction(transaction) => transaction.scan(start, end, reverse, visit),
        }
    }

    /// At most `limit` rows of the range.
    pub fn rows(&mut self, start: &[u8], end: &[u8], reverse: bool, limit: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows = Vec::new();
        if limit == 0 {
            return rows;
        }
        self.scan(start, end, reverse, &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            match rows.len() < limit {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        rows
    }

    /// The transaction. Only called by an evaluation that may write, which always has one.
    pub fn writing(&mut self) -> &mut OptimisticTransaction {
        match self {
            View::Transaction(transaction) => transaction,
            View::Reader(_) => panic!("a query without writes has tried to write"),
        }
    }

    /// The time of the query, in microseconds since the Unix epoch. It never goes back with the
    /// clock, so what has expired stays so, and nothing that was committed is in the future.
    pub fn now_micros(&self) -> u64 {
        match self {
            View::Reader(moment) => moment.reader.present_micros,
            View::Transaction(transaction) => transaction.present_micros(),
        }
    }

    /// The clock's time, in microseconds since the Unix epoch: for how long something takes, and
    /// for others' times.
    pub fn clock_micros(&self) -> u64 {
        match self {
            View::Reader(moment) => moment.reader.now_micros,
            View::Transaction(transaction) => transaction.now_micros(),
        }
    }
}

/// Builds a key.
#[derive(Clone, Debug)]
pub struct Key(pub Vec<u8>);

/// Most keys are shorter, so they are built without growing.
const KEY_BYTES: usize = 64;

impl Key {
    fn starting(first: u8) -> Key {
        let mut key = Vec::with_capacity(KEY_BYTES);
        key.push(first);
        Key(key)
    }

    pub fn global(kind: u8) -> Key {
        Key::starting(0).byte(kind)
    }

    pub fn of(database: DatabaseNumber, kind: u8) -> Key {
        Key::database(database).byte(kind)
    }

    /// Everything of a database.
    pub fn database(database: DatabaseNumber) -> Key {
        Key::starting(1).number(database.0)
    }

    pub fn byte(mut self, byte: u8) -> Key {
        self.0.push(byte);
        self
    }

    pub fn number(mut self, number: u64) -> Key {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Key {
        self.0.extend_from_slice(bytes);
        self
    }

    /// The first key after all keys with this prefix.
    pub fn end(&self) -> Vec<u8> {
        quartet_model::next_prefix(&self.0)
    }
}

pub fn document(database: DatabaseNumber, collection: u64, id: u64) -> Key {
    Key::of(database, b'D').number(collection).number(id)
}

pub fn history(database: DatabaseNumber, collection: u64, id: u64) -> Key {
    Key::of(database, b'H').number(collection).number(id)
}

/// The bytes that a document takes at the end of the key of an entry.
pub const DOCUMENT_BYTES: usize = 16;

/// A document at the end of the key of an entry.
pub fn entry_document(collection: u64, id: u64) -> [u8; DOCUMENT_BYTES] {
    (u128::from(id) << 64 | u128::from(collection)).to_be_bytes()
}

/// The collection and the id of the document at the end of the key of an entry.
pub fn document_of_entry(key: &[u8]) -> (u64, u64) {
    let tail = key.len().saturating_sub(DOCUMENT_BYTES);
    (number_at(key, tail + 8), number_at(key, tail))
}

/// The row that records the time at which the history of a document was rewritten.
pub fn rewritten(database: DatabaseNumber, collection: u64, id: u64) -> Key {
    Key::of(database, b'W').number(collection).number(id)
}

/// The state of a version after its document's history was rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rewritten {
    Create,
    Update,
    Delete,
}

/// One version that a rewriting concerns. In its row: 1 if it was taken out, the action, the time.
#[derive(Clone, Copy, Debug)]
pub struct Rewriting {
    pub is_removal: bool,
    pub action: Rewritten,
    pub ts: Timestamp,
}

/// Returns the rewritings of a row.
pub fn rewritings(row: &[u8]) -> impl Iterator<Item = Rewriting> {
    row.chunks_exact(10).map(|bytes| Rewriting {
        is_removal: bytes[0] == 1,
        action: match bytes[1] {
            0 => Rewritten::Create,
            1 => Rewritten::Update,
            _ => Rewritten::Delete,
        },
        ts: Timestamp(number_at(bytes, 2)),
    })
}

pub fn name(database: DatabaseNumber, kind: u8, name: &str) -> Key {
    Key::of(database, b'N').byte(kind).bytes(name.as_bytes())
}

pub fn schema_stamp(database: DatabaseNumber) -> Key {
    Key::of(database, b'V')
}

/// The eight bytes at `offset`; zero if they are missing.
pub fn number_at(bytes: &[u8], offset: usize) -> u64 {
    let number = bytes.get(offset..).and_then(|tail| tail.first_chunk::<8>());
    number.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// The stamps of a row with its time at `offset`: one if the commit has yet to set it.
pub fn stamp_if_pending(ts: Timestamp, offset: usize) -> Vec<Stamp> {
    match ts {
        Timestamp::PENDING => vec![codec::stamp(offset)],
        _ => Vec::new(),
    }
}

/// A version of a document in a row: its time, when it ends in microseconds (0: never), its fields.
pub fn encode_version(ts: Timestamp, expiry_micros: u64, fields: &Fields, names: &dyn Names) -> Encoder {
    let mut encoder = Encoder {
        bytes: Vec::with_capacity(16 + fields.encoded_bytes()),
        stamps: stamp_if_pending(ts, 0),
    };
    encoder.bytes.extend(ts.0.to_be_bytes());
    encoder.bytes.extend(expiry_micros.to_be_bytes());
    encoder.fields(fields, names);
    encoder
}

/// The time and the fields of a version.
pub fn decode_version(row: &[u8], names: &dyn Names) -> (Timestamp, Arc<Fields>) {
    let fields = row.get(16..).and_then(|fields| Decoder::new(fields, names).fields());
    (Timestamp(number_at(row, 0)), Arc::new(fields.unwrap_or_default()))
}
