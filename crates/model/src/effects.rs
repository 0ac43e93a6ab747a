//! What a transaction did, as bytes: the payload of the log.
//!
//! An epoch's payload is a run of transactions, each
//!
//! ```text
//! version u64 LE | byte length of the effects u32 LE | effects
//! effect: 0 set        key length varint, key, value length varint, value
//!         1 clear      key length varint, key
//!         2 clearrange start length varint, start, end length varint, end
//! ```
//!
//! Effects stand in the order in which the transaction made them, and are replayed in that order: a set inside a range
//! that the same transaction cleared before survives. Atomic mutations are resolved to the value they produced before
//! they are written here, so replaying needs no knowledge of how they compute. Reading never trusts a length.

use crate::Version;

/// One effect, borrowed from the log payload or on its way into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// A row has this value now.
    #[expect(missing_docs, reason = "a key and its value")]
    Set { key: &'a [u8], value: &'a [u8] },
    /// A row is gone.
    #[expect(missing_docs, reason = "a key")]
    Clear { key: &'a [u8] },
    /// All rows from `start` on and before `end` are gone.
    #[expect(missing_docs, reason = "the bounds of a range")]
    ClearRange { start: &'a [u8], end: &'a [u8] },
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

/// A value that is not copied into the payload: it is written to the log from where it lies.
pub type SharedValue = Box<dyn AsRef<[u8]> + Send + Sync>;

/// Bytes, among them some that lie elsewhere.
#[derive(Default)]
pub struct Payload {
    bytes: Vec<u8>,
    /// Each with the length of `bytes` before it.
    shared: Vec<(usize, SharedValue)>,
    shared_bytes: usize,
}

/// How long a payload was at some moment.
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

/// Where a key stands in what is gathered, until that is taken.
#[derive(Clone, Copy, Debug)]
pub struct WrittenKey {
    start: usize,
    bytes: usize,
}

/// Appends transactions to an epoch's payload. A transaction that is rolled back leaves no trace.
#[derive(Default)]
pub struct EffectsWriter {
    payload: Payload,
    /// Where the open transaction's header starts; the payload's end when none is open.
    open: Mark,
}

const HEADER_BYTES: usize = 12;

impl EffectsWriter {
    /// Opens a transaction.
    pub fn begin(&mut self) {
        self.open = self.payload.mark();
        self.payload.bytes.extend_from_slice(&[0; HEADER_BYTES]);
    }

    /// Adds to the open transaction that `key` has this value. Returns where the key stands.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> WrittenKey {
        self.payload.bytes.push(0);
        self.bytes(key);
        let written = self.just_written(key);
        self.bytes(value);
        written
    }

    /// Like `set`, for a value too large to be copied.
    pub fn set_shared(&mut self, key: &[u8], value: SharedValue) -> WrittenKey {
        self.payload.bytes.push(0);
        self.bytes(key);
        let written = self.just_written(key);
        let length = (*value).as_ref().len();
        self.length(length);
        self.payload.shared_bytes += length;
        self.payload.shared.push((self.payload.bytes.len(), value));
        written
    }

    fn just_written(&self, key: &[u8]) -> WrittenKey {
        WrittenKey {
            start: self.payload.bytes.len() - key.len(),
            bytes: key.len(),
        }
    }

    /// A key of the open transaction, or of the one that was closed last.
    pub fn key(&self, written: WrittenKey) -> &[u8] {
        &self.payload.bytes[written.start..][..written.bytes]
    }

    /// Adds to the open transaction that `key` is gone.
    pub fn clear(&mut self, key: &[u8]) {
        self.payload.bytes.push(1);
        self.bytes(key);
    }

    /// Adds to the open transaction that all of `start..end` is gone.
    pub fn clear_range(&mut self, start: &[u8], end: &[u8]) {
        self.payload.bytes.push(2);
        self.bytes(start);
        self.bytes(end);
    }

    /// Closes the open transaction under `version`, also one without effects: its version is then all that is kept of it.
    pub fn commit(&mut self, version: Version) {
        let length = u32::try_from(self.open_bytes()).expect("a transaction below 4 GiB");
        let header = &mut self.payload.bytes[self.open.bytes..][..HEADER_BYTES];
        header[..8].copy_from_slice(&version.0.to_le_bytes());
        header[8..].copy_from_slice(&length.to_le_bytes());
        self.open = self.payload.mark();
    }

    /// Forgets the open transaction.
    pub fn rollback(&mut self) {
        self.payload.cut(self.open);
    }

    /// Bytes of the open transaction's effects so far; zero if it has none.
    pub fn open_bytes(&self) -> usize {
        self.payload.len() - self.open.bytes - self.open.shared_bytes - HEADER_BYTES
    }

    /// Bytes of all transactions, the open one included.
    pub fn len(&self) -> usize {
        self.payload.len()
    }

    /// There is no transaction, not even an open one.
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty()
    }

    /// Takes the payload for the log, leaving `empty` (its capacity is reused) to gather the next epoch.
    pub fn take(&mut self, mut empty: Vec<u8>) -> Payload {
        empty.clear();
        self.open = Mark::default();
        let next = Payload {
            bytes: empty,
            ..Payload::default()
        };
        std::mem::replace(&mut self.payload, next)
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

/// Walks the transactions of an epoch's payload, giving each transaction's version and then its effects.
#[derive(Clone, Debug)]
pub struct EffectsReader<'a> {
    rest: &'a [u8],
}

impl<'a> EffectsReader<'a> {
    /// Reads the payload of one epoch.
    pub fn new(payload: &'a [u8]) -> EffectsReader<'a> {
        EffectsReader { rest: payload }
    }

    /// The next transaction: its version and an iterator over its effects. `None` at the end of the payload.
    pub fn next_transaction(&mut self) -> Result<Option<(Version, Effects<'a>)>, EffectsError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (header, rest) = self.rest.split_at_checked(HEADER_BYTES).ok_or(EffectsError)?;
        let version = u64::from_le_bytes(header[..8].try_into().map_err(|_| EffectsError)?);
        let length = u32::from_le_bytes(header[8..].try_into().map_err(|_| EffectsError)?);
        let (effects, rest) = rest.split_at_checked(length as usize).ok_or(EffectsError)?;
        self.rest = rest;
        Ok(Some((Version(version), Effects { rest: effects })))
    }
}

/// The effects of one transaction, in the order they were made.
#[derive(Clone, Debug)]
pub struct Effects<'a> {
    rest: &'a [u8],
}

impl<'a> Effects<'a> {
    fn bytes(&mut self) -> Result<&'a [u8], EffectsError> {
        let (mut length, mut shift) = (0u64, 0);
        loop {
            let (&byte, rest) = self.rest.split_first().ok_or(EffectsError)?;
            self.rest = rest;
            length |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 28 {
                return Err(EffectsError);
            }
        }
        let (bytes, rest) = self.rest.split_at_checked(length as usize).ok_or(EffectsError)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn effect(&mut self, tag: u8) -> Result<Effect<'a>, EffectsError> {
        match tag {
            0 => Ok(Effect::Set {
                key: self.bytes()?,
                value: self.bytes()?,
            }),
            1 => Ok(Effect::Clear { key: self.bytes()? }),
            2 => Ok(Effect::ClearRange {
                start: self.bytes()?,
                end: self.bytes()?,
            }),
            _ => Err(EffectsError),
        }
    }
}

impl<'a> Iterator for Effects<'a> {
    type Item = Result<Effect<'a>, EffectsError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.rest.split_first()?;
        self.rest = rest;
        let effect = self.effect(tag);
        if effect.is_err() {
            self.rest = &[];
        }
        Some(effect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rolled_back_transactions_leave_no_trace_and_empty_ones_their_version() {
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

    proptest! {
        #[test]
        fn what_is_written_is_read(transactions in prop::collection::vec(
            prop::collection::vec((0u8..4, prop::collection::vec(any::<u8>(), 0..300), prop::collection::vec(any::<u8>(), 0..300)), 0..5), 0..5)) {
            let mut writer = EffectsWriter::default();
            for (version, effects) in transactions.iter().enumerate() {
                writer.begin();
                for (tag, a, b) in effects {
                    let written = match tag {
                        0 => Some(writer.set(a, b)),
                        1 => { writer.clear(a); None }
                        2 => { writer.clear_range(a, b); None }
                        _ => Some(writer.set_shared(a, Box::new(b.clone()))),
                    };
                    prop_assert!(written.is_none_or(|written| writer.key(written) == a.as_slice()));
                }
                writer.commit(Version(version as u64));
                writer.begin();
                writer.set_shared(b"taken back", Box::new(b"value"));
                writer.rollback();
            }
            let payload = writer.take(Vec::new());
            prop_assert_eq!(payload.len(), payload.parts().concat().len());
            let payload = payload.parts().concat();
            let mut reader = EffectsReader::new(&payload);
            for (version, effects) in transactions.iter().enumerate() {
                let (found, read) = reader.next_transaction().unwrap().unwrap();
                prop_assert_eq!(found, Version(version as u64));
                let read: Vec<_> = read.map(|effect| effect.unwrap()).collect();
                let expected: Vec<_> = effects.iter().map(|(tag, a, b)| match tag {
                    0 | 3 => Effect::Set { key: a, value: b },
                    1 => Effect::Clear { key: a },
                    _ => Effect::ClearRange { start: a, end: b },
                }).collect();
                prop_assert_eq!(read, expected);
            }
            prop_assert!(reader.next_transaction().unwrap().is_none());
        }

        #[test]
        fn any_bytes_are_read_without_panic(payload in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut reader = EffectsReader::new(&payload);
            while let Ok(Some((_, effects))) = reader.next_transaction() {
                for _ in effects {}
            }
        }
    }
}
