//! The records of an RDB file or stream, in order, and their requests to the target.

use std::io::Read;

pub use quartet_wire_rdb::file::Record;
use quartet_wire_rdb::file::{Found, Key, Scanner, SearchKey};
use quartet_wire_rdb::search_index::SearchIndex;
use quartet_wire_rdb::suggestions::Dictionary;
use quartet_wire_rdb::{DATABASES, NAME_BYTES_MAX};

use crate::carrier::Carrier;
use crate::error::{Error, Result};
use crate::progress::Step;
use crate::watcher::shown;

const READ_BYTES: usize = 256 << 10;
/// Most that is read at once for a large record.
const READ_BYTES_MAX: usize = 64 << 20;

/// Reads records from the front of a source. Buffers at most the largest record and one read.
pub struct Records<R> {
    name: String,
    source: R,
    scanner: Scanner,
    buffer: Vec<u8>,
    start: usize,
}

impl<R: Read> Records<R> {
    /// `name` is what errors call it.
    pub fn new(name: &str, source: R) -> Records<R> {
        Records {
            name: name.into(),
            source,
            scanner: Scanner::new(),
            buffer: Vec::new(),
            start: 0,
        }
    }

    /// Bytes of the records that were given.
    pub fn offset(&self) -> u64 {
        self.scanner.offset()
    }

    pub fn read(&mut self) -> Result<Record> {
        loop {
            let unread = &self.buffer[self.start..];
            match self.scanner.read(unread) {
                Ok(Found::Bytes { consumed, record }) => {
                    self.start += consumed;
                    if let Some(record) = record {
                        return Ok(record);
                    }
                }
                Ok(Found::Nothing { missing }) => {
                    // The scanner rescans all of it, so a large record is read in large parts;
                    // never the whole announced length.
                    let bytes = missing.min(unread.len()).clamp(READ_BYTES, READ_BYTES_MAX);
                    self.fill(bytes)?;
                }
                Err(unreadable) => {
                    let name = self.name.clone();
                    return Err(Error::Unreadable { name, unreadable });
                }
            }
        }
    }

    fn fill(&mut self, bytes: usize) -> Result<()> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let old = self.buffer.len();
        self.buffer.resize(old + bytes, 0);
        let read = loop {
            match self.source.read(&mut self.buffer[old..]) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(old + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(Error::Link(format!(
                "{} ends at byte {}, before its end",
                self.name,
                self.offset()
            ))),
            Ok(_) => Ok(()),
            Err(error) => Err(Error::Link(format!("{}: {error}", self.name))),
        }
    }

    /// The input after the records: the bytes that were read already, and the rest of the source.
    pub fn into_rest(mut self) -> (Vec<u8>, R) {
        self.buffer.drain(..self.start);
        (self.buffer, self.source)
    }
}

/// The position of a file's records in a copy.
pub struct Place {
    pub db: u64,
    /// An earlier run has sent the records before this byte.
    pub skip_before: u64,
}

/// Words of dictionaries in one request.
const WORDS_AT_ONCE: usize = 1000;

/// Sends all records, with search indexes after the keys, so that each is filled at once in the
/// background, and not key by key. `step` builds the progress from an offset and a database.
pub fn bring<R: Read>(
    records: &mut Records<R>,
    carrier: &mut Carrier<'_>,
    place: &mut Place,
    before_bytes: u64,
    step: &dyn Fn(u64, u64) -> Step,
) -> Result<()> {
    let mut last = Vec::new();
    loop {
        let is_new = records.offset() >= place.skip_before;
        match records.read()? {
            Record::End if is_new => {
                let is_resumed = place.skip_before > 0;
                last.iter()
                    .for_each(|words: &Vec<Vec<u8>>| add_definition(carrier, words, is_resumed));
                break;
            }
            Record::End => break,
            Record::SearchIndexes(indexes) => {
                last.extend(indexes.iter().flat_map(SearchIndex::requests));
            }
            Record::SearchKey(key) => last.extend(search_requests(key)),
            Record::SearchAliases(aliases) => {
                let request = |[alias, index]: [Vec<u8>; 2]| vec![b"SEARCH.ALIASADD".to_vec(), alias, index];
                last.extend(aliases.into_iter().map(request));
            }
            Record::Dictionaries(dictionaries) if is_new => {
                dictionaries
                    .iter()
                    .for_each(|dictionary| add_dictionary(carrier, dictionary));
            }
            Record::Select(db) => place.db = db,
            Record::Key(key) if is_new => bring_key(carrier, place.db, &key),
            Record::Function(code) if is_new => {
                carrier.add(place.db, &[b"FUNCTION", b"LOAD", b"REPLACE", &code]);
            }
            Record::OfModule { name, module } if is_new => {
                carrier.reject(place.db, shown(&name), kind_of(&module));
            }
            Record::BesideKeys { module } if is_new => {
                carrier.reject(
                    place.db,
                    format!("what the module {module} keeps beside keys"),
                    "its form is not known",
                );
            }
            _ => {}
        }
        carrier.bytes_read = before_bytes + records.offset();
        if carrier.is_full() {
            carrier.send_keys(step(records.offset(), place.db))?;
            if carrier.watcher.is_stopped() {
                carrier.wait()?;
                return Err(Error::Stopped);
            }
        }
    }
    carrier.send_keys(step(records.offset(), place.db))?;
    carrier.wait()
}

/// Names the kind of a module's value, as a reason to leave it out.
fn kind_of(module: &str) -> String {
    let kind = match module {
        "MBbloom--" => "a Bloom filter",
        "MBbloomCF" => "a cuckoo filter",
        "CMSk-TYPE" => "a count-min sketch",
        "TopK-TYPE" => "a Top-K list",
        "TDIS-TYPE" => "a t-digest",
        "TSDB-TYPE" => "a time series",
        _ => return format!("a value of the module {module}"),
    };
    format!("{kind} (a value of the module {module})")
}

/// Creates the key and fills it with the stored content, also if it was created to skip that.
fn search_requests(key: SearchKey) -> Vec<Vec<Vec<u8>>> {
    let (name, deadline_ms) = (key.name, key.deadline_ms);
    let skips = key
        .words
        .iter()
        .any(|word| word.eq_ignore_ascii_case(b"SKIPINITIALSCAN"));
    let mut create = vec![b"SEARCH.CREATE".to_vec(), name.clone()];
    create.extend(key.words);
    let fill = skips.then(|| vec![b"SEARCH.REINDEX".to_vec(), name.clone()]);
    let expire = deadline_ms.map(|ms| vec![b"PEXPIREAT".to_vec(), name.clone(), ms.to_string().into_bytes()]);
    [Some(create), fill, expire].into_iter().flatten().collect()
}

/// `is_resumed`: an earlier run may have sent it without receiving the reply.
fn add_definition(carrier: &mut Carrier<'_>, words: &[Vec<u8>], is_resumed: bool) {
    let mut request: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    if is_resumed {
        match request[0] {
            b"FT.CREATE" => request[0] = b"FT._CREATEIFNX",
            b"FT.ALIASADD" => request[0] = b"FT._ALIASADDIFNX",
            b"SEARCH.CREATE" => request.insert(2, b"EXISTSOK"),
            _ => {}
        }
    }
    carrier.add(0, &request);
}

fn add_dictionary(carrier: &mut Carrier<'_>, dictionary: &Dictionary) {
    for words in dictionary.words.chunks(WORDS_AT_ONCE) {
        let mut request: Vec<&[u8]> = vec![b"FT.DICTADD", &dictionary.name];
        request.extend(words.iter().map(Vec::as_slice));
        carrier.add(0, &request);
    }
}

fn bring_key(carrier: &mut Carrier<'_>, db: u64, key: &Key) {
    if db >= u64::from(DATABASES) {
        return carrier.reject(db, shown(&key.name), format!("there are {DATABASES} databases"));
    }
    if key.name.len() > NAME_BYTES_MAX {
        return carrier.reject(
            db,
            shown(&key.name),
            format!("a key's name has at most {NAME_BYTES_MAX} bytes"),
        );
    }
    // Zero would say that it never expires.
    let deadline_ms = key.deadline_ms.map_or(0, |deadline_ms| deadline_ms.max(1)).to_string();
    let hint = match (key.idle_seconds, key.frequency) {
        (Some(seconds), _) => Some(("IDLETIME", seconds.to_string())),
        (None, Some(count)) => Some(("FREQ", count.to_string())),
        (None, None) => None,
    };
    let mut words: Vec<&[u8]> = vec![
        b"RESTORE",
        &key.name,
        deadline_ms.as_bytes(),
        &key.payload,
        b"REPLACE",
        b"ABSTTL",
    ];
    if let Some((word, number)) = &hint {
        words.extend([word.as_bytes(), number.as_bytes()]);
    }
    carrier.add(db, &words);
}
