//! RDB files: the output of SAVE, a replica's first copy, and the base of an append-only file.
//!
//! ```text
//! REDIS and four digits, or VALKEY and three: the version
//! then records, each begun by a byte:
//!   250 name value      about the file             245 code     a library of functions
//!   254 number          keys of this database follow
//!   251 keys expiring   244 slot keys expiring     sizes, as a hint
//!   253 seconds (4 bytes) | 252 milliseconds (8)   the next key's deadline
//!   248 seconds | 249 count (1 byte)               how idle, or how frequent the next key is
//!   247 module 2 when    what a module has saved beside its keys, before them (1) or behind (2)
//!   kind name value     a key
//!   255 CRC-64 (8 bytes, from version 5; zero if nobody computed it)
//! facts (250) that only Quartet reads, and that Redis skips like any unknown fact:
//!   quartet-key             deadline (8 bytes, 0: never) name value      a key without a form of Redis', its value as DUMP has it
//!   quartet-search-index    deadline name words                          a key that SEARCH.CREATE with these words makes
//!   quartet-search-aliases  pairs of an alias and an index
//! ```
//!
//! [`Scanner`] returns one record after the other from bytes that may still be arriving. It keeps
//! none of them, and a record is whole when it is returned; the largest record bounds its caller's
//! memory. Vector sets, JSON documents, suggestions, definitions of search indexes and dictionaries
//! are decoded; other data of a module are returned by the module's name and skipped: only the
//! module could read them. An unknown record ends the reading, since the start of the next record
//! is then unknown.

use crate::crc64::Crc64;
use crate::module;
use crate::primitives::{Malformed, Reader, write_length, write_string};
use crate::search_index::{self, SearchIndex};
use crate::suggestions::{self, Dictionary};
use crate::value::{self, Value};
use crate::walk::{Stop, Walk};
use crate::{FIRST_VALKEY_VERSION, VERSION, VERSION_MAX, VERSION_OF_DEADLINES, seal_as};

const FUNCTION: u8 = 245;
const SLOT_SIZES: u8 = 244;
const MODULE_AUX: u8 = 247;
const IDLE: u8 = 248;
const FREQUENCY: u8 = 249;
const AUX: u8 = 250;
const SIZES: u8 = 251;
const DEADLINE_MS: u8 = 252;
const DEADLINE_SECONDS: u8 = 253;
const SELECT: u8 = 254;
const END: u8 = 255;
/// Places of a module's data.
const BEFORE_KEYS: u64 = 1;
const BEHIND_KEYS: u64 = 2;
const HEADER_BYTES: usize = 9;
/// Files of earlier versions end without a checksum.
const VERSION_OF_CHECKSUM: u16 = 5;
/// The newest version of Valkey that is read: Valkey 9.
const VALKEY_VERSION_MAX: u16 = 80;
/// Largest record, in bytes: a larger value could not be kept anyway.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

/// One thing that a file says.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Something about the file: the server's version, its position in a replication stream.
    About {
        /// The fact's name.
        name: Vec<u8>,
        /// The fact's value, as text.
        value: Vec<u8>,
    },
    /// Keys of this database follow.
    Select(u64),
    /// The code of a library of functions.
    Function(Vec<u8>),
    /// A key with its value.
    Key(Key),
    /// A key of a kind that only a module knows.
    OfModule {
        /// The key's name.
        name: Vec<u8>,
        /// The module's name.
        module: String,
    },
    /// A key that is a search index.
    SearchKey(SearchKey),
    /// The aliases of keys that are search indexes, each with the index's name.
    SearchAliases(Vec<[Vec<u8>; 2]>),
    /// Search indexes.
    SearchIndexes(Vec<SearchIndex>),
    /// Dictionaries.
    Dictionaries(Vec<Dictionary>),
    /// The data that another module, or a newer version, has saved besides its keys.
    BesideKeys {
        /// The module's name.
        module: String,
    },
    /// The file is whole, and its checksum right, if it has one.
    End,
}

/// A key as a file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// The key's name.
    pub name: Vec<u8>,
    /// The time at which the key expires, in milliseconds since the Unix epoch; `None`: never.
    pub deadline_ms: Option<u64>,
    /// The time since the key was last used, in seconds, if the file has it.
    pub idle_seconds: Option<u64>,
    /// The logarithmic counter of the key's uses, if the file has it.
    pub frequency: Option<u8>,
    /// The value as DUMP would give it, for RESTORE.
    pub payload: Vec<u8>,
}

/// A key that is a search index, as a file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchKey {
    /// The key's name.
    pub name: Vec<u8>,
    /// The time at which the key expires, in milliseconds since the Unix epoch; `None`: never.
    pub deadline_ms: Option<u64>,
    /// The words of SEARCH.CREATE after the name.
    pub words: Vec<Vec<u8>>,
}

/// Why a file can not be read on, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {offset}: {what}")]
pub struct Unreadable {
    /// The start of the record that could not be read, in bytes from the start of the file.
    pub offset: u64,
    /// The reason, as a phrase for a person.
    pub what: String,
}

/// The scanner's finding at the start of the bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// The bytes hold no whole record: more must arrive.
    Nothing {
        /// The least number of bytes still missing, as the file announces it: a hint.
        missing: usize,
    },
    /// The bytes start with a record, or with a part of the next one.
    Bytes {
        /// The number of bytes to drop before the next call.
        consumed: usize,
        /// The record; `None` if the bytes only prepare the next record or have no meaning here.
        record: Option<Record>,
    },
}

/// Reads a file a record at a time.
pub struct Scanner {
    /// `None`: the header was not read yet.
    version: Option<u16>,
    offset: u64,
    checksum: Crc64,
    deadline_ms: Option<u64>,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
}

impl Default for Scanner {
    fn default() -> Scanner {
        Scanner::new()
    }
}

impl Scanner {
    /// Returns a scanner at the start of a file.
    pub fn new() -> Scanner {
        Scanner {
            version: None,
            offset: 0,
            checksum: Crc64::default(),
            deadline_ms: None,
            idle_seconds: None,
            frequency: None,
        }
    }

    /// Returns the start of the next record, in bytes from the start of the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads the next record, if the bytes hold it. They must start where the last answer's
    /// `consumed` ended. After an error the rest of the file is unreadable.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Found, Unreadable> {
        let mut walk = Walk::new(bytes);
        match self.step(bytes, &mut walk) {
            Ok(record) => {
                let consumed = walk.at;
                if !matches!(record, Some(Record::End)) {
                    self.checksum.add(&bytes[..consumed]);
                }
                self.offset += consumed as u64;
                Ok(Found::Bytes { consumed, record })
            }
            Err(Stop::Short(missing)) if bytes.len() < RECORD_BYTES_MAX => Ok(Found::Nothing { missing }),
            Err(Stop::Short(_)) => Err(self.unreadable("a record of more than 1 GB")),
            Err(Stop::Malformed(reason)) => Err(self.unreadable(reason)),
        }
    }

    fn unreadable(&self, reason: impl Into<String>) -> Unreadable {
        Unreadable {
            offset: self.offset,
            what: reason.into(),
        }
    }

    fn step(&mut self, bytes: &[u8], walk: &mut Walk<'_>) -> Result<Option<Record>, Stop> {
        let Some(version) = self.version else {
            self.version = Some(version(&walk.array()?)?);
            return Ok(None);
        };
        let start = walk.at;
        let kind = walk.byte()?;
        let record = match kind {
            AUX => {
                walk.string()?;
                walk.string()?;
                let mut texts = Texts::behind_kind(bytes, walk);
                let (name, value) = (texts.next()?, texts.next()?);
                own_record(&name, &value)?.unwrap_or(Record::About { name, value })
            }
            SELECT => Record::Select(walk.length()?),
            FUNCTION => {
                walk.string()?;
                Record::Function(Texts::behind_kind(bytes, walk).next()?)
            }
            SIZES | SLOT_SIZES => {
                let numbers = if kind == SIZES { 2 } else { 3 };
                (0..numbers).try_for_each(|_| walk.length().map(drop))?;
                return Ok(None);
            }
            DEADLINE_SECONDS => {
                let seconds = i32::from_le_bytes(walk.array()?);
                self.deadline_ms = Some(u64::try_from(seconds).unwrap_or(0) * 1000);
                return Ok(None);
            }
            DEADLINE_MS => {
                let milliseconds = i64::from_le_bytes(walk.array()?);
                self.deadline_ms = Some(u64::try_from(milliseconds).unwrap_or(0));
                return Ok(None);
            }
            IDLE => {
                self.idle_seconds = Some(walk.length()?);
                return Ok(None);
            }
            FREQUENCY => {
                self.frequency = Some(walk.byte()?);
                return Ok(None);
            }
            MODULE_AUX => {
                let module = walk.length()?;
                // When it was saved, announced as a number of two parts.
                walk.length()?;
                walk.length()?;
                let parts_at = walk.at;
                walk.module()?;
                match &bytes[parts_at..walk.at] {
                    [0] => return Ok(None),
                    parts => beside_keys(module, parts),
                }
            }
            value::MODULE => {
                let name_at = walk.at;
                walk.string()?;
                let name = Texts(Reader::new(&bytes[name_at..walk.at])).next()?;
                let value_at = walk.at;
                let module = walk.length()?;
                walk.module()?;
                if value::is_known_module(module) {
                    let payload = payload(kind, &bytes[value_at..walk.at]);
                    return Ok(Some(Record::Key(self.key(name, payload))));
                }
                self.forget_next_key();
                let module = module::name_of(module);
                Record::OfModule { name, module }
            }
            END => {
                self.check_end(version, walk)?;
                Record::End
            }
            _ => {
                let name_at = walk.at;
                walk.string()?;
                let value_at = walk.at;
                if kind == value::HASH_2 && version < FIRST_VALKEY_VERSION {
                    return Err(Stop::Malformed(
                        "a hash as only release candidates of Redis 7.4 wrote it",
                    ));
                }
                walk.value(kind).map_err(|stop| name_unknown(kind, stop))?;
                let name = Texts(Reader::new(&bytes[name_at..value_at])).next()?;
                debug_assert_eq!(bytes[start], kind);
                let payload = payload(kind, &bytes[value_at..walk.at]);
                Record::Key(self.key(name, payload))
            }
        };
        Ok(Some(record))
    }

    fn key(&mut self, name: Vec<u8>, payload: Vec<u8>) -> Key {
        let key = Key {
            name,
            deadline_ms: self.deadline_ms,
            idle_seconds: self.idle_seconds,
            frequency: self.frequency,
            payload,
        };
        self.forget_next_key();
        key
    }

    fn forget_next_key(&mut self) {
        (self.deadline_ms, self.idle_seconds, self.frequency) = (None, None, None);
    }

    fn check_end(&self, version: u16, walk: &mut Walk<'_>) -> Result<(), Stop> {
        if version < VERSION_OF_CHECKSUM {
            return Ok(());
        }
        let mut checksum = self.checksum;
        checksum.add(&[END]);
        match u64::from_le_bytes(walk.array()?) {
            0 => Ok(()),
            stored if stored == checksum.value() => Ok(()),
            _ => Err(Stop::Malformed("the checksum is wrong: the file is damaged")),
        }
    }
}

/// Names Redis' own kinds that are newer than those decoded here.
fn name_unknown(kind: u8, stop: Stop) -> Stop {
    match (kind, stop) {
        (_, Stop::Short(_)) => stop,
        (6, _) => Stop::Malformed("a module's value as only release candidates of Redis 4.0 wrote it"),
        (23, _) => Stop::Malformed("a hash as only release candidates of Redis 7.4 wrote it"),
        (26 | 27, _) => Stop::Malformed("a stream as Redis 8.6 and later write it"),
        (28, _) => Stop::Malformed("an array of Redis 8.8"),
        (243, _) => Stop::Malformed("metadata of keys, or a slot that moves: from Redis 8.6 or Valkey 9"),
        (246, _) => Stop::Malformed("functions as only release candidates of Redis 7.0 wrote them"),
        _ => stop,
    }
}

/// Strings that are known to be whole.
struct Texts<'a>(Reader<'a>);

impl<'a> Texts<'a> {
    fn behind_kind(bytes: &'a [u8], walk: &Walk<'_>) -> Texts<'a> {
        Texts(Reader::new(&bytes[1..walk.at]))
    }

    fn next(&mut self) -> Result<Vec<u8>, Stop> {
        self.0
            .string()
            .map_err(|_| Stop::Malformed("a string that does not unpack"))
    }
}

fn version(header: &[u8; HEADER_BYTES]) -> Result<u16, Stop> {
    const UNKNOWN: Stop = Stop::Malformed("this is no RDB file");
    let (digits, max) = match header {
        [b'R', b'E', b'D', b'I', b'S', digits @ ..] => (&digits[..], VERSION_MAX),
        [b'V', b'A', b'L', b'K', b'E', b'Y', digits @ ..] => (&digits[..], VALKEY_VERSION_MAX),
        _ => return Err(UNKNOWN),
    };
    let number = std::str::from_utf8(digits)
        .ok()
        .filter(|_| digits.iter().all(u8::is_ascii_digit));
    let number: u16 = number.and_then(|digits| digits.parse().ok()).ok_or(UNKNOWN)?;
    match number {
        0 => Err(UNKNOWN),
        number if number <= max => Ok(number),
        _ => Err(Stop::Malformed(
            "a version of RDB that is newer than what is known here",
        )),
    }
}

/// Reads the data that a module saved besides the keys.
fn beside_keys(number: u64, parts: &[u8]) -> Record {
    let mut reader = Reader::new(parts);
    let read = match module::split(number) {
        (search_index::MODULE, version) => search_index::read(version, &mut reader).map(Record::SearchIndexes),
        (suggestions::MODULE_OF_DICTIONARIES, suggestions::VERSION_OF_DICTIONARIES) => {
            suggestions::read_dictionaries(&mut reader).map(Record::Dictionaries)
        }
        _ => Err(Malformed),
    };
    read.unwrap_or_else(|_| Record::BesideKeys {
        module: module::name_of(number),
    })
}

const OWN_KEY: &str = "quartet-key";
const SEARCH_INDEX: &str = "quartet-search-index";
const SEARCH_ALIASES: &str = "quartet-search-aliases";

/// Reads a fact that is a record of Quartet's own.
fn own_record(name: &[u8], value: &[u8]) -> Result<Option<Record>, Stop> {
    let mut reader = Reader::new(value);
    let record = match std::str::from_utf8(name) {
        Ok(OWN_KEY) => read_own_key(&mut reader),
        Ok(SEARCH_INDEX) => read_search_key(&mut reader),
        Ok(SEARCH_ALIASES) => read_aliases(&mut reader),
        _ => return Ok(None),
    };
    record
        .map(Some)
        .map_err(|Malformed| Stop::Malformed("a malformed record of Quartet's own"))
}

fn read_own_key(reader: &mut Reader<'_>) -> Result<Record, Malformed> {
    let (deadline_ms, name) = read_name(reader)?;
    Ok(Record::Key(Key {
        name,
        deadline_ms,
        idle_seconds: None,
        frequency: None,
        payload: reader.rest.to_vec(),
    }))
}

fn read_search_key(reader: &mut Reader<'_>) -> Result<Record, Malformed> {
    let (deadline_ms, name) = read_name(reader)?;
    let mut words = Vec::new();
    while !reader.is_done() {
        words.push(reader.string()?);
    }
    Ok(Record::SearchKey(SearchKey {
        name,
        deadline_ms,
        words,
    }))
}

fn read_aliases(reader: &mut Reader<'_>) -> Result<Record, Malformed> {
    let mut aliases = Vec::new();
    while !reader.is_done() {
        aliases.push([reader.string()?, reader.string()?]);
    }
    Ok(Record::SearchAliases(aliases))
}

fn read_name(reader: &mut Reader<'_>) -> Result<(Option<u64>, Vec<u8>), Malformed> {
    let deadline_ms = u64::from_le_bytes(reader.array()?);
    Ok(((deadline_ms > 0).then_some(deadline_ms), reader.string()?))
}

fn write_name(name: &[u8], deadline_ms: Option<u64>) -> Vec<u8> {
    let mut value = deadline_ms.unwrap_or(0).to_le_bytes().to_vec();
    write_string(name, &mut value);
    value
}

/// The value as DUMP would give it, of the version that knows its kind.
fn payload(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(body.len() + 11);
    payload.push(kind);
    payload.extend_from_slice(body);
    let version = match kind {
        value::HASH_2 => VALKEY_VERSION_MAX,
        value::SET_LISTPACK.. => VERSION_OF_DEADLINES,
        _ => VERSION,
    };
    seal_as(payload, version)
}

/// Writes a file, part by part: each call appends to `out`, which is sent or stored and emptied as
/// its owner likes.
pub struct Writer {
    checksum: Crc64,
}

impl Writer {
    /// Writes the header. `has_deadlines`: a hash has fields that expire, which Redis knows since
    /// 7.4; any other file is one of 7.0.
    pub fn begin(has_deadlines: bool, out: &mut Vec<u8>) -> Writer {
        let version = if has_deadlines { VERSION_OF_DEADLINES } else { VERSION };
        let mut writer = Writer {
            checksum: Crc64::default(),
        };
        writer.append(out, |out| {
            out.extend_from_slice(format!("REDIS{version:04}").as_bytes())
        });
        writer
    }

    fn append(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        write(out);
        self.checksum.add(&out[start..]);
    }

    /// Writes a fact about the file.
    pub fn about(&mut self, name: &str, value: &str, out: &mut Vec<u8>) {
        self.fact(name, value.as_bytes(), out);
    }

    fn fact(&mut self, name: &str, value: &[u8], out: &mut Vec<u8>) {
        self.append(out, |out| {
            out.push(AUX);
            write_string(name.as_bytes(), out);
            write_string(value, out);
        });
    }

    /// Writes a key of a kind that Redis does not have into the current database. Redis skips it.
    pub fn own_key(&mut self, name: &[u8], deadline_ms: Option<u64>, value: &Value, out: &mut Vec<u8>) {
        let mut fact = write_name(name, deadline_ms);
        fact.extend_from_slice(&value::dump(value));
        self.fact(OWN_KEY, &fact, out);
    }

    /// Writes a key that is a search index. Redis skips it.
    pub fn search_key(&mut self, key: &SearchKey, out: &mut Vec<u8>) {
        let mut fact = write_name(&key.name, key.deadline_ms);
        key.words.iter().for_each(|word| write_string(word, &mut fact));
        self.fact(SEARCH_INDEX, &fact, out);
    }

    /// Writes the aliases of keys that are search indexes. Redis skips them.
    pub fn search_aliases(&mut self, aliases: &[[Vec<u8>; 2]], out: &mut Vec<u8>) {
        let mut fact = Vec::new();
        aliases.iter().flatten().for_each(|name| write_string(name, &mut fact));
        self.fact(SEARCH_ALIASES, &fact, out);
    }

    /// Writes a library of functions.
    pub fn function(&mut self, code: &[u8], out: &mut Vec<u8>) {
        self.append(out, |out| {
            out.push(FUNCTION);
            write_string(code, out);
        });
    }

    /// Writes search indexes, which the original expects before the keys.
    pub fn search_indexes(&mut self, indexes: &[SearchIndex], out: &mut Vec<u8>) {
        let version = search_index::version_for(indexes);
        self.append(out, |out| {
            begin_beside_keys(search_index::MODULE | version, BEFORE_KEYS, out);
            search_index::write(version, indexes, out);
        });
    }

    /// Writes dictionaries, which the original expects after the keys.
    pub fn dictionaries(&mut self, dictionaries: &[Dictionary], out: &mut Vec<u8>) {
        let number = suggestions::MODULE_OF_DICTIONARIES | suggestions::VERSION_OF_DICTIONARIES;
        self.append(out, |out| {
            begin_beside_keys(number, BEHIND_KEYS, out);
            suggestions::write_dictionaries(dictionaries, out);
        });
    }

    /// Starts the keys of a database, with their number and the number of expiring keys.
    pub fn select(&mut self, db: u8, keys: u64, expiring: u64, out: &mut Vec<u8>) {
        self.append(out, |out| {
            out.push(SELECT);
            write_length(usize::from(db), out);
            out.push(SIZES);
            write_length(keys as usize, out);
            write_length(expiring as usize, out);
        });
    }

    /// Writes a key of the current database. `deadline_ms`: milliseconds since the Unix epoch.
    pub fn key(&mut self, name: &[u8], deadline_ms: Option<u64>, value: &Value, out: &mut Vec<u8>) {
        self.append(out, |out| {
            if let Some(deadline_ms) = deadline_ms {
                out.push(DEADLINE_MS);
                out.extend_from_slice(&deadline_ms.to_le_bytes());
            }
            let kind_at = out.len();
            out.push(0);
            write_string(name, out);
            out[kind_at] = value::write_body(value, out);
        });
    }

    /// Writes the end of the file and its checksum.
    pub fn end(mut self, out: &mut Vec<u8>) {
        self.append(out, |out| out.push(END));
        out.extend_from_slice(&self.checksum.value().to_le_bytes());
    }
}

fn begin_beside_keys(number: u64, when: u64, out: &mut Vec<u8>) {
    out.push(MODULE_AUX);
    write_length(number as usize, out);
    module::write_number(when, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every record of the bytes, given to the scanner in pieces.
    fn scan(bytes: &[u8], piece: usize) -> Result<Vec<Record>, Unreadable> {
        let (mut scanner, mut records) = (Scanner::new(), Vec::new());
        let (mut start, mut end) = (0, 0);
        loop {
            match scanner.read(&bytes[start..end])? {
                Found::Bytes { consumed, record } => {
                    start += consumed;
                    assert_eq!(scanner.offset(), start as u64);
                    records.extend(record);
                    if records.last() == Some(&Record::End) {
                        return Ok(records);
                    }
                }
                Found::Nothing { missing } => {
                    assert!(missing > 0);
                    if end == bytes.len() {
                        return Ok(records);
                    }
                    end = bytes.len().min(end + piece);
                }
            }
        }
    }

    fn written() -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = Writer::begin(false, &mut out);
        writer.about("redis-ver", "7.4.0", &mut out);
        writer.function(b"#!lua name=l\n", &mut out);
        writer.select(0, 2, 1, &mut out);
        writer.key(b"a", Some(1_800_000_000_000), &Value::String(b"1".to_vec()), &mut out);
        writer.select(15, 1, 0, &mut out);
        writer.key(b"b", None, &Value::Set(vec![b"x".to_vec(), b"y".repeat(100)]), &mut out);
        writer.end(&mut out);
        out
    }

    fn key(name: &str, deadline_ms: Option<u64>, value: &Value) -> Record {
        Record::Key(Key {
            name: name.into(),
            deadline_ms,
            idle_seconds: None,
            frequency: None,
            payload: value::dump(value),
        })
    }

    #[test]
    fn a_written_file_is_read_however_it_arrives() {
        let bytes = written();
        for piece in [1, 3, 1000] {
            let records = scan(&bytes, piece).unwrap();
            let expected = [
                Record::About {
                    name: b"redis-ver".to_vec(),
                    value: b"7.4.0".to_vec(),
                },
                Record::Function(b"#!lua name=l\n".to_vec()),
                Record::Select(0),
                key("a", Some(1_800_000_000_000), &Value::String(b"1".to_vec())),
                Record::Select(15),
                key("b", None, &Value::Set(vec![b"x".to_vec(), b"y".repeat(100)])),
                Record::End,
            ];
            assert_eq!(records, expected);
        }
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let bytes = written();
        for place in 9..bytes.len() {
            for bit in [1, 0x40] {
                let mut damaged = bytes.clone();
                damaged[place] ^= bit;
                let records = scan(&damaged, 1000);
                let is_whole = records.is_ok_and(|records| records.last() == Some(&Record::End));
                assert!(!is_whole, "byte {place}");
            }
        }
    }

    /// The forms of older servers, put together by hand.
    #[test]
    fn older_forms_are_read() {
        let first = b"REDIS0002\xfe\x01\xfd\x10\0\0\0\x00\x01k\x01v\x0c\x01z\x13\x13\0\0\0\x0c\0\0\0\x02\0\0\x01m\x03\xf3\xff...\xff";
        let records = scan(first, 7);
        assert_eq!(
            records.unwrap()[1],
            Record::Key(Key {
                name: b"k".to_vec(),
                deadline_ms: Some(16_000),
                idle_seconds: None,
                frequency: None,
                payload: seal_as(b"\0\x01v".to_vec(), VERSION),
            })
        );
        let hints = b"REDIS0009\xf8\x05\x00\x01k\x01v\xf9\x07\x00\x01l\x01v\xff\0\0\0\0\0\0\0\0";
        let records = scan(hints, 100).unwrap();
        assert!(matches!(&records[0], Record::Key(key) if key.idle_seconds == Some(5)));
        assert!(matches!(&records[1], Record::Key(key) if key.frequency == Some(7) && key.idle_seconds.is_none()));
    }

    #[test]
    fn modules_are_passed_over_by_name() {
        let id = b"\x81\x24\x92\x49\x24\x92\x49\x24\x01";
        let mut file = b"REDIS0011\xf7".to_vec();
        file.extend_from_slice(id);
        file.extend_from_slice(b"\x02\x01\x02\x05\x05\x03abc\x00\x07\x01k");
        file.extend_from_slice(id);
        file.extend_from_slice(b"\x01\x05\x03\0\0\0\0\x04\0\0\0\0\0\0\0\0\x00\x00\x01a\x01b\xff\0\0\0\0\0\0\0\0");
        let records = scan(&file, 2).unwrap();
        assert!(matches!(&records[0], Record::BesideKeys { module } if module == "JJJJJJJJJ"));
        assert!(matches!(&records[1], Record::OfModule { name, .. } if name == b"k"));
        assert!(matches!(&records[2], Record::Key(_)));
    }

    #[test]
    fn hashes_of_valkey_9_have_their_deadlines() {
        let mut file = b"VALKEY080\x16\x01h\x02\x01f\x01v".to_vec();
        file.extend_from_slice(&(-1i64).to_le_bytes());
        file.extend_from_slice(b"\x01g\x01w");
        file.extend_from_slice(&2_000_000_000_000i64.to_le_bytes());
        file.extend_from_slice(b"\xff\0\0\0\0\0\0\0\0");
        let records = scan(&file, 4).unwrap();
        let Record::Key(key) = &records[0] else {
            panic!("{records:?}")
        };
        let Ok(Value::Hash(fields)) = value::restore(&key.payload) else {
            panic!("no hash")
        };
        assert_eq!(fields[0].deadline_ms, None);
        assert_eq!(fields[1].deadline_ms, Some(2_000_000_000_000));
    }

    #[test]
    fn unknown_parts_are_named() {
        let check = |bytes: &[u8], text: &str| {
            let error = scan(bytes, 100).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        };
        check(b"REDIS0099", "newer");
        check(b"GARBAGE..", "no RDB file");
        check(b"REDIS0013\x1b\x01k\x00", "Redis 8.6");
        check(b"REDIS0012\x16\x01k\x00", "release candidates");
        check(b"REDIS0012\x00\x01k\x80\xff\xff\xff\xff", "512 MB");
        check(
            b"REDIS0012\x00\x01k\x01v\xff12345678",
            "at byte 14: the checksum is wrong",
        );
    }

    proptest! {
        #[test]
        fn any_bytes_end(body in prop::collection::vec(any::<u8>(), 0..200), valkey in any::<bool>()) {
            let header: &[u8] = if valkey { b"VALKEY080" } else { b"REDIS0012" };
            let _ = scan(&[header, &body].concat(), 50);
        }
    }
}
