//! Keys of rows: their layout, and bytes that sort as key attributes do.
//!
//! ```text
//! 'T' table name                                              -> the table, as JSON
//! 'I' table u32 | index u16 | place                           -> an item; index 0 is the table itself
//!                                                                or an entry of an index: `stored`, or `vector_index`
//!     place = hash u32 | (length u16, hash attribute)... | range attribute... | place in the table, if in an index
//! 'S' stream u32                                              -> the stream, as JSON
//! 'R' stream u32 | shard u8 | version u64 | number u32        -> a stream record
//! 'X' expiry seconds u64 | table u32 | place                  -> the name of the table whose item may expire then
//! 'J' table u32 | index u16                                   -> how far the filling of a new index is
//! 'K' token                                                   -> a transaction done, 'L' time u64 | token to forget it
//! 'N'                                                         -> the last number given to a table or a stream
//! 'H' table u32 | place | until u64                           -> from u64 | what the item was between these versions
//! 'P' table u32 | version u64 | number u32                    -> nothing: the state at this version is needed
//! 'B' name of a backup                                        -> the backup, as JSON
//! 'E' time u64 | name of a backup                             -> nothing: when to delete it
//! 'D' table u32                                               -> a table that was deleted and whose state is needed, as JSON
//! 'Y' number u32                                              -> how far the filling of a restored table is
//! 'W' name of an export                                       -> the export, as JSON
//! 'F' export u32 | index u32                                  -> a file that an export has written, as JSON
//! 'M' name of an import                                       -> the import, as JSON
//! 'Q' number u32                                              -> 'W' or 'M' and the name of what is to be done
//! 'G' time u64 | table u32                                    -> when to look for history that is not needed, and how far that is
//! ```
//!
//! The hash in front spreads partitions over the whole range, so that parallel scans divide it
//! evenly. Within a partition rows sort by the range attributes, each of which is self-delimiting.

use std::borrow::Cow;

use quartet_model::{KeyRange, Version};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::wire::expression::KeyTest;
use crate::wire::expression::condition::Comparison;
use crate::wire::value::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeyType {
    S,
    N,
    B,
}

impl KeyType {
    pub fn parse(name: &str) -> Option<KeyType> {
        match name {
            "S" => Some(KeyType::S),
            "N" => Some(KeyType::N),
            "B" => Some(KeyType::B),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            KeyType::S => "S",
            KeyType::N => "N",
            KeyType::B => "B",
        }
    }
}

/// An attribute that is part of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPart {
    pub name: String,
    pub kind: KeyType,
}

pub fn table(name: &str) -> Vec<u8> {
    [b"T", name.as_bytes()].concat()
}

/// Returns the prefix of all items of a table, or of one of its indexes.
pub fn items(table: u32, index: u16) -> Vec<u8> {
    let mut key = Vec::with_capacity(64);
    key.push(b'I');
    key.extend_from_slice(&table.to_be_bytes());
    key.extend_from_slice(&index.to_be_bytes());
    key
}

/// The length of the keys from `items`.
pub const ITEMS_PREFIX_BYTES: usize = 7;

/// All items of a table and of its indexes.
pub fn everything_of(table: u32) -> KeyRange {
    KeyRange::prefix(&[b"I".as_slice(), &table.to_be_bytes()].concat())
}

/// The part of `segment` out of `total` of the items below `prefix`.
pub fn segment(prefix: &[u8], segment: u64, total: u64) -> KeyRange {
    let bound = |segment: u64| {
        let hash = (u64::from(u32::MAX) + 1) * segment / total;
        u32::try_from(hash).map(|hash| [prefix, &hash.to_be_bytes()].concat())
    };
    let all = KeyRange::prefix(prefix);
    KeyRange {
        start: bound(segment).unwrap_or(all.start),
        end: bound(segment + 1).unwrap_or(all.end),
    }
}

/// Appends the place of a partition.
pub fn write_partition(values: &[&Value], key: &mut Vec<u8>) {
    let start = key.len();
    key.extend_from_slice(&[0; 4]);
    for value in values {
        let length = key.len();
        key.extend_from_slice(&[0; 2]);
        match value {
            Value::S(text) => key.extend_from_slice(text.as_bytes()),
            Value::B(bytes) => key.extend_from_slice(bytes),
            Value::N(number) => number.write_ordered(key),
            _ => unreachable!("key attributes are scalar"),
        }
        let bytes = (key.len() - length - 2) as u16;
        key[length..length + 2].copy_from_slice(&bytes.to_be_bytes());
    }
    let hash = (xxh3_64(&key[start + 4..]) >> 32) as u32;
    key[start..start + 4].copy_from_slice(&hash.to_be_bytes());
}

/// Appends a range attribute.
pub fn write_range(value: &Value, key: &mut Vec<u8>) {
    match value {
        Value::N(number) => number.write_ordered(key),
        other => {
            write_escaped(other, key);
            key.extend_from_slice(&[0, 0]);
        }
    }
}

/// Zeros become `00 ff`, so that the end, `00 00`, sorts before anything longer.
fn write_escaped(value: &Value, key: &mut Vec<u8>) {
    let bytes = match value {
        Value::S(text) => text.as_bytes(),
        Value::B(bytes) => bytes.as_slice(),
        _ => unreachable!("key attributes are scalar"),
    };
    for &byte in bytes {
        key.push(byte);
        if byte == 0 {
            key.push(0xff);
        }
    }
}

/// The rows below `prefix` whose next range attribute passes the test.
pub fn test_range(prefix: &[u8], test: &KeyTest) -> KeyRange {
    let with = |value: &Value| {
        let mut key = prefix.to_vec();
        write_range(value, &mut key);
        KeyRange::prefix(&key)
    };
    let all = KeyRange::prefix(prefix);
    match test {
        KeyTest::Compare(Comparison::Equal, value) => with(value),
        KeyTest::Compare(Comparison::Less, value) => KeyRange::new(all.start, with(value).start),
        KeyTest::Compare(Comparison::LessOrEqual, value) => KeyRange::new(all.start, with(value).end),
        KeyTest::Compare(Comparison::Greater, value) => KeyRange::new(with(value).end, all.end),
        KeyTest::Compare(_, value) => KeyRange::new(with(value).start, all.end),
        KeyTest::Between(low, high) => KeyRange::new(with(low).start, with(high).end),
        KeyTest::BeginsWith(start) => {
            let mut key = prefix.to_vec();
            write_escaped(start, &mut key);
            KeyRange::prefix(&key)
        }
        KeyTest::Unindexed => unreachable!("no search is begun with it"),
    }
}

pub fn stream(id: u32) -> Vec<u8> {
    [b"S".as_slice(), &id.to_be_bytes()].concat()
}

pub fn streams() -> KeyRange {
    KeyRange::prefix(b"S")
}

/// Returns the prefix of the records of one shard.
pub fn shard(stream: u32, shard: u8) -> Vec<u8> {
    let mut key = vec![b'R'];
    key.extend_from_slice(&stream.to_be_bytes());
    key.push(shard);
    key
}

/// A position in a shard: the version of a commit and the number of a change within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub version: u64,
    pub number: u32,
}

pub fn record(stream: u32, shard_number: u8, position: Position) -> Vec<u8> {
    let mut key = shard(stream, shard_number);
    key.extend_from_slice(&position.version.to_be_bytes());
    key.extend_from_slice(&position.number.to_be_bytes());
    key
}

/// The position at the end of a record's key.
pub fn record_position(key: &[u8]) -> Position {
    let (prefix, number) = key.split_last_chunk().expect("a record's key");
    let version = prefix.last_chunk().expect("a record's key");
    Position {
        version: u64::from_be_bytes(*version),
        number: u32::from_be_bytes(*number),
    }
}

/// `place` is the item's key after the prefix of its table.
pub fn expiry(seconds: u64, table: u32, place: &[u8]) -> Vec<u8> {
    [b"X".as_slice(), &seconds.to_be_bytes(), &table.to_be_bytes(), place].concat()
}

/// Expiries before `seconds`.
pub fn expiries_before(seconds: u64) -> KeyRange {
    KeyRange::new(b"X", [b"X".as_slice(), &seconds.to_be_bytes()].concat())
}

/// Takes an expiry's key apart: seconds, table, place.
pub fn expiry_parts(key: &[u8]) -> (u64, u32, &[u8]) {
    let (seconds, tail) = key[1..].split_first_chunk().expect("an expiry's key");
    let (table, place) = tail.split_first_chunk().expect("an expiry's key");
    (u64::from_be_bytes(*seconds), u32::from_be_bytes(*table), place)
}

pub fn filling(table: u32, index: u16) -> Vec<u8> {
    [b"J".as_slice(), &table.to_be_bytes(), &index.to_be_bytes()].concat()
}

pub fn fillings() -> KeyRange {
    KeyRange::prefix(b"J")
}

pub fn token(token: &str) -> Vec<u8> {
    [b"K", token.as_bytes()].concat()
}

pub fn token_expiry(micros: u64, token: &str) -> Vec<u8> {
    [b"L".as_slice(), &micros.to_be_bytes(), token.as_bytes()].concat()
}

pub const LAST_NUMBER: &[u8] = b"N";

/// Returns the range of all history of a table.
pub fn history_of(table: u32) -> KeyRange {
    KeyRange::prefix(&history(table, &[]))
}

/// Returns the prefix of the history of one item; no place is a prefix of another.
pub fn history(table: u32, place: &[u8]) -> Vec<u8> {
    [b"H".as_slice(), &table.to_be_bytes(), place].concat()
}

/// `until` is the version of the change that ended it.
pub fn history_entry(table: u32, place: &[u8], until: Version) -> Vec<u8> {
    let mut key = history(table, place);
    key.extend_from_slice(&until.0.to_be_bytes());
    key
}

/// The end of the history of the item at `place`.
pub fn history_after(table: u32, place: &[u8]) -> Vec<u8> {
    KeyRange::prefix(&history(table, place)).end
}

/// Takes the key of a history row apart: place and version.
pub fn history_parts(key: &[u8]) -> (&[u8], Version) {
    let (place, until) = key[5..].split_last_chunk().expect("a history row's key");
    (place, Version(u64::from_be_bytes(*until)))
}

pub fn pin(table: u32, version: Version, number: u32) -> Vec<u8> {
    let mut key = pins_from(table, version);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The start of the pins of a table at a version.
pub fn pins_from(table: u32, version: Version) -> Vec<u8> {
    let mut key = vec![b'P'];
    key.extend_from_slice(&table.to_be_bytes());
    key.extend_from_slice(&version.0.to_be_bytes());
    key
}

pub fn pins(table: u32) -> KeyRange {
    KeyRange::prefix(&[b"P".as_slice(), &table.to_be_bytes()].concat())
}

/// The version in a pin's key.
pub fn pinned_version(key: &[u8]) -> Version {
    let (_, tail) = key.split_first_chunk::<5>().expect("a pin's key");
    Version(u64::from_be_bytes(*tail.first_chunk().expect("a pin's key")))
}

/// The name under which a table of a region is kept. No table's own name has a slash.
pub fn kept_name<'n>(region: Option<&str>, name: &'n str) -> Cow<'n, str> {
    match region {
        None => name.into(),
        Some(region) => format!("{region}/{name}").into(),
    }
}

pub fn backup(kept_name: &str) -> Vec<u8> {
    [b"B", kept_name.as_bytes()].concat()
}

pub fn backup_expiry(micros: u64, kept_name: &str) -> Vec<u8> {
    [b"E".as_slice(), &micros.to_be_bytes(), kept_name.as_bytes()].concat()
}

pub fn dropped(table: u32) -> Vec<u8> {
    [b"D".as_slice(), &table.to_be_bytes()].concat()
}

pub fn restoring(number: u32) -> Vec<u8> {
    [b"Y".as_slice(), &number.to_be_bytes()].concat()
}

pub fn sweep(due_micros: u64, table: u32) -> Vec<u8> {
    [b"G".as_slice(), &due_micros.to_be_bytes(), &table.to_be_bytes()].concat()
}

/// `letter` is `W` for an export and `M` for an import.
pub fn transfer(letter: u8, kept_name: &str) -> Vec<u8> {
    [&[letter], kept_name.as_bytes()].concat()
}

pub fn queued(number: u32) -> Vec<u8> {
    [b"Q".as_slice(), &number.to_be_bytes()].concat()
}

pub fn export_files(export: u32) -> KeyRange {
    KeyRange::prefix(&[b"F".as_slice(), &export.to_be_bytes()].concat())
}

pub fn export_file(export: u32, index: u32) -> Vec<u8> {
    [b"F".as_slice(), &export.to_be_bytes(), &index.to_be_bytes()].concat()
}

/// Takes the key of a sweep apart: when it is due, and the table.
pub fn sweep_parts(key: &[u8]) -> (u64, u32) {
    let (due, table) = key[1..].split_first_chunk().expect("a sweep's key");
    let table = table.try_into().expect("a sweep's key");
    (u64::from_be_bytes(*due), u32::from_be_bytes(table))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::value::parse_number;

    fn text(text: &str) -> Value {
        Value::S(text.into())
    }

    #[test]
    fn range_attributes_sort_and_tests_select() {
        let values = ["", "\0", "\0\0", "a", "a\0", "a\0b", "ab", "b"];
        let keys: Vec<Vec<u8>> = values
            .iter()
            .map(|value| {
                let mut key = b"P".to_vec();
                write_range(&text(value), &mut key);
                key
            })
            .collect();
        assert!(keys.is_sorted());
        let selected = |test: KeyTest| -> Vec<&str> {
            let range = test_range(b"P", &test);
            let within = values.iter().zip(&keys).filter(|(_, key)| range.contains(key));
            within.map(|(value, _)| *value).collect()
        };
        assert_eq!(selected(KeyTest::Compare(Comparison::Equal, text("a"))), ["a"]);
        assert_eq!(
            selected(KeyTest::Compare(Comparison::Less, text("a"))),
            ["", "\0", "\0\0"]
        );
        assert_eq!(
            selected(KeyTest::Compare(Comparison::LessOrEqual, text("\0"))),
            ["", "\0"]
        );
        assert_eq!(
            selected(KeyTest::Compare(Comparison::Greater, text("a"))),
            ["a\0", "a\0b", "ab", "b"]
        );
        assert_eq!(
            selected(KeyTest::Compare(Comparison::GreaterOrEqual, text("ab"))),
            ["ab", "b"]
        );
        assert_eq!(
            selected(KeyTest::Between(text("a"), text("ab"))),
            ["a", "a\0", "a\0b", "ab"]
        );
        assert_eq!(selected(KeyTest::BeginsWith(text("a\0"))), ["a\0", "a\0b"]);
    }

    #[test]
    fn segments_cover_everything_once() {
        let prefix = items(7, 0);
        for total in [1, 2, 3, 1_000_000] {
            let first = segment(&prefix, 0, total);
            let last = segment(&prefix, total - 1, total);
            assert_eq!(first.start, [prefix.as_slice(), &[0; 4]].concat());
            assert_eq!(last.end, KeyRange::prefix(&prefix).end);
            for number in 1..total.min(10) {
                assert_eq!(
                    segment(&prefix, number - 1, total).end,
                    segment(&prefix, number, total).start
                );
            }
        }
    }

    #[test]
    fn equal_numbers_have_one_place() {
        let place = |number: &str| {
            let mut key = Vec::new();
            write_partition(&[&Value::N(parse_number(number).unwrap())], &mut key);
            key
        };
        assert_eq!(place("1"), place("1.0"));
        assert_ne!(place("1"), place("-1"));
    }
}
