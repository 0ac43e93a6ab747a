//! The effects of a transaction as bytes: the payload of the log.
//!
//! An epoch's payload is a run of transactions, each
//!
//! ```text
//! version u64 LE | byte length of the effects u32 LE | effects
//! effect: 0 set        key length varint, key, value length varint, value
//!         1 clear      key length varint, key
//!         2 clearrange start length varint, start, end length varint, end
//!         3 set        like another key, value length varint, value
//!         4 clear      like another key
//!         5 patch      key length varint, key, offset varint, length varint, bytes
//!         6 patch      like another key, offset varint, length varint, bytes
//!         7 row        key length varint, key, version u64 LE, value length varint, value
//! like another key: bytes of its beginning varint, bytes of its end varint, length varint, what stands between them
//! ```
//!
//! In the file log of a node that shares its log with others, an epoch's payload starts with a
//! *place*: the zero version, which no transaction has, a length as above, and bytes that give the
//! record's position in the shared log. Readers of transactions skip it.
//!
//! The other key is the last one before it in the transaction that a set, a clear or a patch has in
//! full. A member of a sorted set is in three keys of a transaction, which differ in a few of their
//! first bytes.
//!
//! Effects are stored and replayed in the order of the transaction: a set inside a
//! range that the same transaction cleared before survives. Atomic mutations are resolved to their
//! resulting value before they are written here, so replaying needs no knowledge of how they
//! compute. A patch is the only effect that needs the previous state: it holds the new bytes of a
//! part of a value, so that a small change of a large value is a small effect. Every value can be
//! patched at every offset below the limit of a value, an absent row as an empty value, so
//! replaying has no case that fails. A row is a set that keeps the version of an earlier
//! transaction: it was copied from another partition. Reading never trusts a length.

use std::borrow::Cow;

use crate::{VALUE_BYTES_MAX, Version};

/// One effect, borrowed from the log payload or on its way into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// A row has this value now.
    #[expect(missing_docs, reason = "a key and its value")]
    Set { key: &'a [u8], value: &'a [u8] },
    /// Deletes a row.
    #[expect(missing_docs, reason = "a key")]
    Clear { key: &'a [u8] },
    /// Deletes all rows from `start`, inclusive, to `end`, exclusive.
    #[expect(missing_docs, reason = "the bounds of a range")]
    ClearRange { start: &'a [u8], end: &'a [u8] },
    /// Writes `bytes` at `offset` of a row's value, with zeros between its former end and `offset`
    /// if the value was shorter. An absent row counts as an empty value. `offset + bytes.len() <=
    /// VALUE_BYTES_MAX`.
    #[expect(missing_docs, reason = "a key, a place in its value and what stands there")]
    Patch {
        key: &'a [u8],
        offset: usize,
        bytes: &'a [u8],
    },
    /// A row that an earlier transaction, of another partition, has written.
    #[expect(missing_docs, reason = "a row")]
    Row {
        key: &'a [u8],
        value: &'a [u8],
        version: Version,
    },
}

impl<'a> Effect<'a> {
    /// The key of the row, or the first of the range.
    pub fn start(&self) -> &'a [u8] {
        match *self {
            Effect::Set { key, .. } | Effect::Clear { key } | Effect::Patch { key, .. } | Effect::Row { key, .. } => {
                key
            }
            Effect::ClearRange { start, .. } => start,
        }
    }
}

/// The payload is not what a writer of this version would have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectsError;

impl std::fmt::Display for EffectsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("malformed transaction effects")
    }
}

impl std::error::Error for EffectsError {}

/// A value that is not copied into the payload: it is written to the log directly.
pub type SharedValue = Box<dyn AsRef<[u8]> + Send + Sync>;

/// Bytes, with references to bytes in other places.
#[derive(Default)]
pub struct Payload {
    bytes: Vec<u8>,
    /// Each with the length of `bytes` before it.
    shared: Vec<(usize, SharedValue)>,
    shared_bytes: usize,
}

/// The length of a payload at some moment.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    bytes: usize,
    shared: usize,
    shared_bytes: usize,
}

impl Payload {
    /// In bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() + self.shared_bytes
    }

    /// It holds no transaction.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All bytes in order, piece by piece.
    pub fn parts(&self) -> Vec<&[u8]> {
        let mut parts = Vec::with_capacity(2 * self.shared.len() + 1);
        let mut from = 0;
        for (to, value) in &self.shared {
            parts.push(&self.bytes[from..*to]);
            parts.push((**value).as_ref());
            from = *to;
        }
        parts.push(&self.bytes[from..]);
        parts
    }

    /// The buffer, to gather another payload.
    pub fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    fn mark(&self) -> Mark {
        Mark {
            bytes: self.bytes.len(),
            shared: self.shared.len(),
            shared_bytes: self.shared_bytes,
        }
    }

    fn cut(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        self.shared.truncate(mark.shared);
        self.shared_bytes = mark.shared_bytes;
    }
}

/// The position of a key in the gathered effects, valid until those are taken.
#[derive(Clone, Copy, Debug)]
pub struct WrittenKey {
    start: usize,
    /// Distance back, in bytes, to the key that it is encoded relative to; zero if it is stored in
    /// full.
    like: u32,
}

/// Shorter keys are written in full.
const LIKE_FROM: usize = 64;
/// The same for patches: the keys of several patches mostly differ in their last bytes, and are
/// longer than the patched bytes.
const PATCH_LIKE_FROM: usize = 16;

/// A key that others may be like.
#[derive(Clone, Copy, Debug)]
struct FullKey {
    /// The offset of its length.
    start: usize,
    bytes: usize,
}

/// Appends transactions to an epoch's payload. A transaction that is rolled back leaves no trace.
#[derive(Default)]
pub struct EffectsWriter {
    payload: Payload,
    /// The start of the open transaction's header, or else the payload's end.
    open: Mark,
    /// The last of the open transaction.
    full: Option<FullKey>,
    /// Bytes of the open transaction's keys that are not written, because they are like others, and
    /// of its values that are not, because only a part of each is new.
    spared: usize,
}

/// A point between two effects of the open transaction.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    end: Mark,
    full: Option<FullKey>,
    spared: usize,
}

const HEADER_BYTES: usize = 12;

const SET: u8 = 0;
const CLEAR: u8 = 1;
const CLEAR_RANGE: u8 = 2;
const SET_LIKE: u8 = 3;
const CLEAR_LIKE: u8 = 4;
const PATCH: u8 = 5;
const PATCH_LIKE: u8 = 6;
const ROW: u8 = 7;

impl EffectsWriter {
    /// Opens a transaction.
    pub fn begin(&mut self) {
        self.open = self.payload.mark();
        self.forget_keys();
        self.payload.bytes.extend_from_slice(&[0; HEADER_BYTES]);
    }

    /// Adds a set of `key` to the open transaction. Returns the position of the key.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> WrittenKey {
        let written = self.tag_and_key(SET, SET_LIKE, LIKE_FROM, key);
        self.bytes(value);
        written
    }

    /// Like `set`, for a value too large to be copied.
    pub fn set_shared(&mut self, key: &[u8], value: SharedValue) -> WrittenKey {
        let written = self.tag_and_key(SET, SET_LIKE, LIKE_FROM, key);
        self.shared_value(value);
        written
    }

    /// Adds to the open transaction that `key` has this value since `version`.
    pub fn row(&mut self, key: &[u8], value: &[u8], version: Version) -> WrittenKey {
        let written = self.row_key(key, version);
        self.bytes(value);
        written
    }

    /// Like `row`, for a value too large to be copied.
    pub fn row_shared(&mut self, key: &[u8], value: SharedValue, version: Version) -> WrittenKey {
        let written = self.row_key(key, version);
        self.shared_value(value);
        written
    }

    fn row_key(&mut self, key: &[u8], version: Version) -> WrittenKey {
        let start = self.payload.bytes.len() + 1;
        self.payload.bytes.push(ROW);
        self.bytes(key);
        self.payload.bytes.extend_from_slice(&version.0.to_le_bytes());
        WrittenKey { start, like: 0 }
    }

    /// Adds to the open transaction that the value of `key`, of `value_bytes` by now, has `bytes`
    /// at `offset`.
    pub fn patch(&mut self, key: &[u8], offset: usize, bytes: &[u8], value_bytes: usize) -> WrittenKey {
        let written = self.tag_and_key(PATCH, PATCH_LIKE, PATCH_LIKE_FROM, key);
        self.length(offset);
        self.bytes(bytes);
        self.spared += value_bytes - bytes.len();
        written
    }

    /// A key of the open transaction, or of the transaction that was closed last.
    pub fn key(&self, written: WrittenKey) -> Cow<'_, [u8]> {
        let from = |start: usize| Effects::new(&self.payload.bytes[start..]);
        let mut effects = from(written.start);
        let key = if written.like == 0 {
            effects.bytes().map(Cow::Borrowed)
        } else {
            let full = from(written.start - written.like as usize).bytes();
            let put_together = full.and_then(|full| effects.put_together(full));
            put_together.map(|()| Cow::Owned(effects.key))
        };
        key.expect("a key stands where it was written")
    }

    /// Adds a deletion of `key` to the open transaction.
    pub fn clear(&mut self, key: &[u8]) {
        self.tag_and_key(CLEAR, CLEAR_LIKE, LIKE_FROM, key);
    }

    /// Keys of at least `like_from` bytes may be written like another.
    fn tag_and_key(&mut self, in_full: u8, like_another: u8, like_from: usize, key: &[u8]) -> WrittenKey {
        let start = self.payload.bytes.len() + 1;
        if key.len() >= like_from
            && let Some(like) = self.key_like_another(like_another, key)
        {
            return WrittenKey { start, like };
        }
        self.payload.bytes.push(in_full);
        self.bytes(key);
        let bytes = key.len();
        self.full = Some(FullKey { start, bytes });
        WrittenKey { start, like: 0 }
    }

    /// Writes the key as its difference from the last full key, if that is at most half of its
    /// length. Returns the distance to that key.
    fn key_like_another(&mut self, tag: u8, key: &[u8]) -> Option<u32> {
        let FullKey { start, bytes } = self.full?;
        let full = &self.payload.bytes[start + length_bytes(bytes)..][..bytes];
        let beginning = common_prefix(full, key);
        let end = common_suffix(&full[beginning..], &key[beginning..]);
        let between = &key[beginning..key.len() - end];
        if between.len() > key.len() / 2 {
            return None;
        }
        let away = u32::try_from(self.payload.bytes.len() + 1 - start).ok()?;
        self.payload.bytes.push(tag);
        self.length(beginning);
        self.length(end);
        self.bytes(between);
        self.spared += beginning + end;
        Some(away)
    }

    /// Adds a deletion of `start..end` to the open transaction.
    pub fn clear_range(&mut self, start: &[u8], end: &[u8]) {
        self.payload.bytes.push(CLEAR_RANGE);
        self.bytes(start);
        self.bytes(end);
    }

    /// Closes the open transaction under `version`, also one without effects: its version is then
    /// all that is kept of it.
    pub fn commit(&mut self, version: Version) {
        let length = u32::try_from(self.open_bytes()).expect("a transaction below 4 GiB");
        let header = &mut self.payload.bytes[self.open.bytes..][..HEADER_BYTES];
        header[..8].copy_from_slice(&version.0.to_le_bytes());
        header[8..].copy_from_slice(&length.to_le_bytes());
        self.open = self.payload.mark();
        self.forget_keys();
    }

    /// Forgets the open transaction.
    pub fn rollback(&mut self) {
        self.payload.cut(self.open);
        self.forget_keys();
    }

    /// Returns a point for [`EffectsWriter::rollback_to`].
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            end: self.payload.mark(),
            full: self.full,
            spared: self.spared,
        }
    }

    /// Forgets the effects since a savepoint of the open transaction.
    pub fn rollback_to(&mut self, savepoint: Savepoint) {
        self.payload.cut(savepoint.end);
        self.full = savepoint.full;
        self.spared = savepoint.spared;
    }

    /// Bytes of the open transaction's effects; zero if it has none.
    pub fn open_bytes(&self) -> usize {
        self.payload.len() - self.open.bytes - self.open.shared_bytes - HEADER_BYTES
    }

    /// The same, as if each key and each value were stored in full: a transaction's effects take no
    /// less memory because keys are similar or values change in part.
    pub fn open_bytes_in_full(&self) -> usize {
        self.open_bytes() + self.spared
    }

    fn forget_keys(&mut self) {
        self.full = None;
        self.spared = 0;
    }

    /// Bytes of all transactions, the open one included.
    pub fn len(&self) -> usize {
        self.payload.len()
    }

    /// Returns true if there is no transaction, not even an open one.
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// Takes the payload for the log, leaving `empty` (its capacity is reused) to gather the next
    /// epoch.
    pub fn take(&mut self, mut empty: Vec<u8>) -> Payload {
        empty.clear();
        self.open = Mark::default();
        self.forget_keys();
        let next = Payload {
            bytes: empty,
            ..Payload::default()
        };
        std::mem::replace(&mut self.payload, next)
    }

    fn shared_value(&mut self, value: SharedValue) {
        let length = (*value).as_ref().len();
        self.length(length);
        self.payload.shared_bytes += length;
        self.payload.shared.push((self.payload.bytes.len(), value));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.payload.bytes.extend_from_slice(bytes);
    }

    fn length(&mut self, mut length: usize) {
        while length >= 0x80 {
            self.payload.bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        self.payload.bytes.push(length as u8);
    }
}

/// Returns the size of a written length.
fn length_bytes(length: usize) -> usize {
    (usize::BITS - (length | 1).leading_zeros()).div_ceil(7) as usize
}

/// The length of the common prefix.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks().0.iter().zip(b.as_chunks().0);
    let mut equal = 0;
    for (a, b) in words {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return equal + differing.trailing_zeros() as usize / 8;
        }
        equal += size_of::<u64>();
    }
    equal + a[equal..].iter().zip(&b[equal..]).take_while(|(a, b)| a == b).count()
}

/// The length of the common suffix, in bytes.
fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_rchunks().1.iter().rev().zip(b.as_rchunks().1.iter().rev());
    let mut equal = 0;
    for (a, b) in words {
        let differing = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differing != 0 {
            return equal + differing.leading_zeros() as usize / 8;
        }
        equal += size_of::<u64>();
    }
    let uncompared = |bytes: &[u8]| bytes.len() - equal;
    let (a, b) = (a[..uncompared(a)].iter().rev(), b[..uncompared(b)].iter().rev());
    equal + a.zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns the header that precedes a place of this many bytes.
pub fn place_header(place_bytes: u32) -> [u8; 12] {
    let mut header = [0; HEADER_BYTES];
    header[8..].copy_from_slice(&place_bytes.to_le_bytes());
    header
}

/// Splits a payload into its place, if it has one, and the rest.
pub fn split_place(payload: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let place = || {
        let (header, body) = payload.split_first_chunk::<HEADER_BYTES>()?;
        let (version, length) = header.split_first_chunk::<8>()?;
        let length = u32::from_le_bytes(length.try_into().ok()?);
        let is_place = u64::from_le_bytes(*version) == Version::ZERO.0;
        is_place.then(|| body.split_at_checked(length as usize)).flatten()
    };
    match place() {
        Some((place, effects)) => (Some(place), effects),
        None => (None, payload),
    }
}

/// Walks the transactions of an epoch's payload, giving each transaction's version and then its
/// effects.
#[derive(Clone, Debug)]
pub struct EffectsReader<'a> {
    unread: &'a [u8],
}

impl<'a> EffectsReader<'a> {
    /// Reads the payload of one epoch, without its place if it has one.
    pub fn new(payload: &'a [u8]) -> EffectsReader<'a> {
        let (_, unread) = split_place(payload);
        EffectsReader { unread }
    }

    /// The next transaction: its version and its effects. `None` at the end of the payload.
    pub fn next_transaction(&mut self) -> Result<Option<(Version, Effects<'a>)>, EffectsError> {
        if self.unread.is_empty() {
            return Ok(None);
        }
        let (header, unread) = self.unread.split_at_checked(HEADER_BYTES).ok_or(EffectsError)?;
        let version = u64::from_le_bytes(header[..8].try_into().map_err(|_| EffectsError)?);
        let length = u32::from_le_bytes(header[8..].try_into().map_err(|_| EffectsError)?);
        let (effects, unread) = unread.split_at_checked(length as usize).ok_or(EffectsError)?;
        self.unread = unread;
        Ok(Some((Version(version), Effects::new(effects))))
    }
}

/// The effects of one transaction, in the order they were made.
#[derive(Clone, Debug)]
pub struct Effects<'a> {
    unread: &'a [u8],
    /// The last key that was stored in full.
    full: &'a [u8],
    /// The key that was put together last.
    key: Vec<u8>,
}

impl<'a> Effects<'a> {
    fn new(effects: &'a [u8]) -> Effects<'a> {
        Effects {
            unread: effects,
            full: &[],
            key: Vec::new(),
        }
    }

    /// The next effect; `None` at the end, and after an error.
    #[expect(
        clippy::should_implement_trait,
        reason = "an effect may lie in what the next call changes"
    )]
    pub fn next(&mut self) -> Option<Result<Effect<'_>, EffectsError>> {
        let (&tag, unread) = self.unread.split_first()?;
        self.unread = unread;
        let Ok(read) = self.read(tag) else {
            self.unread = &[];
            return Some(Err(EffectsError));
        };
        let key = read.key.unwrap_or(&self.key);
        Some(Ok(match read.rest {
            Rest::Value(value) => Effect::Set { key, value },
            Rest::Nothing => Effect::Clear { key },
            Rest::End(end) => Effect::ClearRange { start: key, end },
            Rest::Part(offset, bytes) => Effect::Patch { key, offset, bytes },
            Rest::Row(version, value) => Effect::Row { key, value, version },
        }))
    }

    fn read(&mut self, tag: u8) -> Result<ReadEffect<'a>, EffectsError> {
        let key = match tag {
            SET | CLEAR | PATCH => {
                self.full = self.bytes()?;
                Some(self.full)
            }
            SET_LIKE | CLEAR_LIKE | PATCH_LIKE => {
                self.put_together(self.full)?;
                None
            }
            CLEAR_RANGE | ROW => Some(self.bytes()?),
            _ => return Err(EffectsError),
        };
        let rest = match tag {
            SET | SET_LIKE => Rest::Value(self.bytes()?),
            CLEAR_RANGE => Rest::End(self.bytes()?),
            PATCH | PATCH_LIKE => self.part()?,
            ROW => Rest::Row(self.version()?, self.bytes()?),
            _ => Rest::Nothing,
        };
        Ok(ReadEffect { key, rest })
    }

    /// Reads what a patch writes, and where.
    fn part(&mut self) -> Result<Rest<'a>, EffectsError> {
        let (offset, bytes) = (self.length()?, self.bytes()?);
        match offset + bytes.len() <= VALUE_BYTES_MAX {
            true => Ok(Rest::Part(offset, bytes)),
            false => Err(EffectsError),
        }
    }

    fn version(&mut self) -> Result<Version, EffectsError> {
        let (version, unread) = self.unread.split_first_chunk().ok_or(EffectsError)?;
        self.unread = unread;
        Ok(Version(u64::from_le_bytes(*version)))
    }

    /// Reads a key that is like another.
    fn put_together(&mut self, full: &[u8]) -> Result<(), EffectsError> {
        let (beginning, end) = (self.length()?, self.length()?);
        let between = self.bytes()?;
        let (beginning, tail) = full.split_at_checked(beginning).ok_or(EffectsError)?;
        let end = tail.len().checked_sub(end).ok_or(EffectsError)?;
        self.key.clear();
        [beginning, between, &tail[end..]]
            .iter()
            .for_each(|part| self.key.extend_from_slice(part));
        Ok(())
    }

    fn length(&mut self) -> Result<usize, EffectsError> {
        let (mut length, mut shift) = (0u64, 0);
        loop {
            let (&byte, unread) = self.unread.split_first().ok_or(EffectsError)?;
            self.unread = unread;
            length |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Ok(length as usize);
            }
            if shift > 28 {
                return Err(EffectsError);
            }
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8], EffectsError> {
        let length = self.length()?;
        let (bytes, unread) = self.unread.split_at_checked(length).ok_or(EffectsError)?;
        self.unread = unread;
        Ok(bytes)
    }
}

/// An effect, its key possibly assembled.
struct ReadEffect<'a> {
    key: Option<&'a [u8]>,
    rest: Rest<'a>,
}

/// The part of an effect after its key.
enum Rest<'a> {
    Nothing,
    Value(&'a [u8]),
    /// The end of a range.
    End(&'a [u8]),
    /// A part of a value: its offset, and its bytes.
    Part(usize, &'a [u8]),
    /// The version since which a row is so, and its value.
    Row(Version, &'a [u8]),
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rolled_back_transactions_leave_no_trace_and_empty_transactions_their_version() {
        let mut writer = EffectsWriter::default();
        writer.begin();
        writer.set(b"k", b"v");
        writer.rollback();
        assert!(writer.is_empty());
        writer.begin();
        assert_eq!(writer.open_bytes(), 0);
        writer.commit(Version(7));
        let payload = writer.take(Vec::new()).parts().concat();
        let mut reader = EffectsReader::new(&payload);
        let (version, mut effects) = reader.next_transaction().unwrap().unwrap();
        assert_eq!((version, effects.next()), (Version(7), None));
    }

    #[test]
    fn effects_after_a_savepoint_leave_no_trace() {
        let key = |last: u8| [&[b'k'; 100][..], &[last]].concat();
        let written = |goes_back: bool| {
            let mut writer = EffectsWriter::default();
            writer.begin();
            writer.set(&key(1), b"first");
            if goes_back {
                let savepoint = writer.savepoint();
                writer.set(b"another long key that later keys would be like", b"");
                writer.set_shared(&key(2), Box::new(vec![7; 1000]));
                writer.patch(&key(3), 10, b"part", 1000);
                writer.rollback_to(savepoint);
            }
            writer.set(&key(4), b"last");
            let in_full = writer.open_bytes_in_full();
            writer.commit(Version(1));
            (writer.take(Vec::new()).parts().concat(), in_full)
        };
        assert_eq!(written(true), written(false));
    }

    #[test]
    fn a_prefix_shared_with_the_last_full_key_is_written_once_a_transaction() {
        let member = [b'm'; 400];
        let key = |order: &[u8]| [b"the set", order, &member].concat();
        let mut writer = EffectsWriter::default();
        for version in [1, 2] {
            writer.begin();
            writer.set(&key(b""), b"new");
            let index = writer.set(&key(b"new"), b"");
            writer.clear(&key(b"old"));
            writer.clear_range(&key(b"a"), &key(b"b"));
            writer.set(b"short", b"");
            assert_eq!(writer.open_bytes_in_full(), writer.open_bytes() + 407 + 407);
            writer.commit(Version(version));
            assert_eq!(writer.key(index), key(b"new"));
            writer.begin();
            writer.set(&key(b""), b"");
            writer.rollback();
        }
        assert_eq!(writer.len(), 2 * (HEADER_BYTES + 414 + 9 + 8 + 821 + 8));
        let payload = writer.take(Vec::new()).parts().concat();
        let mut reader = EffectsReader::new(&payload);
        while let Some((_, mut effects)) = reader.next_transaction().unwrap() {
            let expected = [
                Effect::Set {
                    key: &key(b""),
                    value: b"new",
                },
                Effect::Set {
                    key: &key(b"new"),
                    value: b"",
                },
                Effect::Clear { key: &key(b"old") },
                Effect::ClearRange {
                    start: &key(b"a"),
                    end: &key(b"b"),
                },
                Effect::Set {
                    key: b"short",
                    value: b"",
                },
            ];
            for effect in expected {
                assert_eq!(effects.next(), Some(Ok(effect)));
            }
            assert_eq!(effects.next(), None);
        }
    }

    #[test]
    fn a_patch_takes_what_it_changes_and_counts_as_the_value() {
        let mut writer = EffectsWriter::default();
        writer.begin();
        writer.patch(b"key", 300, b"new", 4096);
        assert_eq!(writer.open_bytes(), 1 + 4 + 2 + 4);
        assert_eq!(writer.open_bytes_in_full(), writer.open_bytes() + 4093);
        writer.rollback();
        writer.begin();
        assert_eq!(writer.open_bytes_in_full(), 0);
    }

    #[test]
    fn a_patch_beyond_the_longest_value_is_malformed() {
        let patch = |offset: usize| {
            let mut writer = EffectsWriter::default();
            writer.begin();
            writer.patch(b"key", offset, b"x", 1);
            writer.commit(Version(1));
            let payload = writer.take(Vec::new()).parts().concat();
            let (_, mut effects) = EffectsReader::new(&payload).next_transaction().unwrap().unwrap();
            effects.next().unwrap().is_ok()
        };
        assert!(patch(VALUE_BYTES_MAX - 1));
        assert!(!patch(VALUE_BYTES_MAX) && !patch(usize::MAX));
    }

    #[test]
    fn a_key_that_is_like_none_or_is_longer_than_that_is_malformed() {
        let like = |full: &[u8], beginning, end| {
            let mut effects = vec![0, full.len() as u8];
            effects.extend_from_slice(full);
            effects.extend_from_slice(&[0, CLEAR_LIKE, beginning, end, 1, b'-']);
            let mut effects = Effects::new(&effects);
            effects.next();
            match effects.next() {
                Some(Ok(Effect::Clear { key })) => Some(key.to_vec()),
                Some(Err(EffectsError)) => None,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(like(b"full", 2, 2), Some(b"fu-ll".to_vec()));
        assert_eq!(like(b"full", 0, 0), Some(b"-".to_vec()));
        for (beginning, end) in [(5, 0), (0, 5), (3, 2)] {
            assert_eq!(like(b"full", beginning, end), None);
        }
        let mut none_before = Effects::new(&[CLEAR_LIKE, 1, 0, 0]);
        assert_eq!(none_before.next(), Some(Err(EffectsError)));
        assert_eq!(none_before.next(), None);
    }

    proptest! {
        #[test]
        fn the_common_prefix_is_counted_byte_by_byte(a in any_key(), b in any_key()) {
            let equal = |(a, b): &(&u8, &u8)| a == b;
            prop_assert_eq!(common_prefix(&a, &b), a.iter().zip(&b).take_while(equal).count());
            prop_assert_eq!(common_suffix(&a, &b), a.iter().rev().zip(b.iter().rev()).take_while(equal).count());
        }
    }

    /// Half of them differ in little.
    fn any_key() -> impl Strategy<Value = Vec<u8>> {
        let bytes = |most| prop::collection::vec(any::<u8>(), 0..most);
        let alike = (0..200usize, 0..200usize, bytes(40));
        prop_oneof![
            bytes(300),
            alike.prop_map(|(beginning, end, between)| [vec![7; beginning], between, vec![9; end]].concat())
        ]
    }

    proptest! {
        #[test]
        fn a_written_value_is_read(transactions in prop::collection::vec(
            prop::collection::vec((0u8..7, any_key(), any_key()), 0..8), 0..5)) {
            let mut writer = EffectsWriter::default();
            for (version, effects) in transactions.iter().enumerate() {
                writer.begin();
                let mut keys = Vec::new();
                for (tag, a, b) in effects {
                    let written = match tag {
                        0 => Some(writer.set(a, b)),
                        1 => { writer.clear(a); None }
                        2 => { writer.clear_range(a, b); None }
                        3 => Some(writer.patch(a, 7 * b.len(), b, 8 * b.len())),
                        5 => Some(writer.row(a, b, Version(a.len() as u64))),
                        6 => Some(writer.row_shared(a, Box::new(b.clone()), Version(a.len() as u64))),
                        _ => Some(writer.set_shared(a, Box::new(b.clone()))),
                    };
                    keys.extend(written.map(|written| (written, a)));
                }
                writer.commit(Version(version as u64 + 1));
                for (written, key) in keys {
                    prop_assert_eq!(&*writer.key(written), key);
                }
                writer.begin();
                writer.set_shared(b"taken back", Box::new(b"value"));
                writer.rollback();
            }
            let payload = writer.take(Vec::new());
            prop_assert_eq!(payload.len(), payload.parts().concat().len());
            let payload = payload.parts().concat();
            let mut reader = EffectsReader::new(&payload);
            for (version, effects) in transactions.iter().enumerate() {
                let (found, mut read) = reader.next_transaction().unwrap().unwrap();
                prop_assert_eq!(found, Version(version as u64 + 1));
                for (tag, a, b) in effects {
                    let expected = match tag {
                        0 | 4 => Effect::Set { key: a, value: b },
                        1 => Effect::Clear { key: a },
                        3 => Effect::Patch { key: a, offset: 7 * b.len(), bytes: b },
                        5 | 6 => Effect::Row { key: a, value: b, version: Version(a.len() as u64) },
                        _ => Effect::ClearRange { start: a, end: b },
                    };
                    prop_assert_eq!(read.next(), Some(Ok(expected)));
                }
                prop_assert_eq!(read.next(), None);
            }
            prop_assert!(reader.next_transaction().unwrap().is_none());
        }

        #[test]
        fn any_bytes_are_read_without_panic(payload in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = EffectsReader::new(&payload);
            while let Ok(Some((_, mut effects))) = reader.next_transaction() {
                while effects.next().is_some() {}
            }
        }
    }
}
