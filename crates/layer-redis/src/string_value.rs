//! Values of strings: short ones whole in the key's own row, long ones in chunks, so that a small change copies a small part.
//!
//! ```text
//! packed:  'K' db name        header, the value
//! chunked: 'K' db name        header with LARGE, id (10 bytes), length in bytes (8 bytes, big-endian)
//!          'E' id index       bytes of the value from index * CHUNK_BYTES on; index in 4 bytes, big-endian
//! ```
//!
//! A chunk that is absent, and what a shorter one lacks, is zeros: a bit set far behind the end of a value costs one chunk. A chunk is
//! changed by a patch ([`quartet_model::Effect::Patch`]), so the log has what is new and nothing else.
//!
//! A value that is set whole stays packed up to [`WHOLE_BYTES_MAX`], because one row is the fastest to read and write whole; one that is
//! changed in place is chunked from [`PATCHED_BYTES_MAX`] on. Readers do not know which form a value has.
//!
//! Invariants: a chunk holds 1 to CHUNK_BYTES bytes and ends at or before the value's length.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use quartet_engine::Transaction;
use smallvec::SmallVec;

use crate::keyspace::{Elements, Entry, Header, Keyspace, LARGE};

/// Bytes of a chunk. A patch copies at most one: with 4 KiB that costs as much as a step down the tree.
pub const CHUNK_BYTES: usize = 4 << 10;
/// A longer value is chunked when it is set.
const WHOLE_BYTES_MAX: usize = 64 << 10;
/// A longer value is chunked when it is changed in place.
const PATCHED_BYTES_MAX: usize = 2 * CHUNK_BYTES;
/// Bytes of a chunk's name: its index.
pub const INDEX_BYTES: usize = 4;

/// The value of a key that holds a string.
#[derive(Clone, Copy)]
pub struct StringValue<'e> {
    entry: &'e Entry,
}

/// A part of a value as it is kept.
pub enum Piece<'p> {
    Bytes(&'p [u8]),
    /// As many bytes as are kept nowhere.
    Zeros(u64),
}

impl Piece<'_> {
    /// In bytes.
    pub fn len(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Zeros(count) => *count,
        }
    }
}

/// Bytes of a value that were not copied if they did not have to be.
pub type ValueBytes<'e> = Cow<'e, [u8]>;

impl<'e> StringValue<'e> {
    pub fn of(entry: &'e Entry) -> StringValue<'e> {
        StringValue { entry }
    }

    /// In bytes.
    pub fn len(self) -> u64 {
        match self.packed() {
            Some(value) => value.len() as u64,
            None => chunked_length(self.entry.large_payload()).expect("a chunked string has a length"),
        }
    }

    /// The value, if it stands in the key's own row. A longer one is no number, no word and no small image of anything.
    pub fn packed(self) -> Option<&'e [u8]> {
        (!self.entry.is_large()).then(|| self.entry.payload())
    }

    /// All of it.
    pub fn whole(self, tx: &mut Transaction<'_>) -> ValueBytes<'e> {
        self.part(tx, 0..self.len())
    }

    /// The bytes of `range`, which lies within the value.
    pub fn part(self, tx: &mut Transaction<'_>, range: Range<u64>) -> ValueBytes<'e> {
        match self.packed() {
            Some(value) => Cow::Borrowed(&value[range.start as usize..range.end as usize]),
            None => {
                let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
                self.append_to(tx, range, &mut bytes);
                Cow::Owned(bytes)
            }
        }
    }

    /// The byte at `index`; zero behind the value's end.
    pub fn byte(self, tx: &mut Transaction<'_>, index: u64) -> u8 {
        if let Some(value) = self.packed() {
            return value.get(index as usize).copied().unwrap_or(0);
        }
        let (chunk, at) = place(index);
        let row = self.entry.elements().get(tx, &chunk);
        row.and_then(|row| row.value().get(at).copied()).unwrap_or(0)
    }

    /// Appends the bytes of `range`, which lies within the value.
    pub fn append_to(self, tx: &mut Transaction<'_>, range: Range<u64>, out: &mut Vec<u8>) {
        self.each(tx, range, &mut |piece| {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Zeros(count) => out.resize(out.len() + count as usize, 0),
            }
            ControlFlow::Continue(())
        });
    }

    /// Visits the bytes of `range`, which lies within the value, in order until `visit` breaks.
    pub fn each(
        self,
        tx: &mut Transaction<'_>,
        range: Range<u64>,
        visit: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
    ) {
        if let Some(value) = self.packed() {
            let _ = visit(Piece::Bytes(&value[range.start as usize..range.end as usize]));
            return;
        }
        if range.is_empty() {
            return;
        }
        let mut at = range.start;
        let mut is_over = false;
        let (first, behind) = (place(at).0, place(range.end - 1 + CHUNK_BYTES as u64).0);
        self.entry
            .elements()
            .scan(tx, &first, Some(&behind), false, &mut |index, chunk| {
                let start = start_of(index);
                let kept = start.max(at)..(start + chunk.len() as u64).min(range.end);
                if kept.is_empty() {
                    return ControlFlow::Continue(());
                }
                let zeros = kept.start - at;
                at = kept.end;
                let bytes = &chunk[(kept.start - start) as usize..(kept.end - start) as usize];
                let visited = match zeros {
                    0 => visit(Piece::Bytes(bytes)),
                    _ => match visit(Piece::Zeros(zeros)) {
                        ControlFlow::Continue(()) => visit(Piece::Bytes(bytes)),
                        broken => broken,
                    },
                };
                is_over = visited.is_break();
                visited
            });
        if !is_over && at < range.end {
            let _ = visit(Piece::Zeros(range.end - at));
        }
    }
}

/// All of a string; empty if there is none.
pub fn whole<'e>(tx: &mut Transaction<'_>, entry: Option<&'e Entry>) -> ValueBytes<'e> {
    entry.map_or(Cow::Borrowed(&[]), |entry| StringValue::of(entry).whole(tx))
}

/// Bytes of a string; none if there is none.
pub fn length(entry: Option<&Entry>) -> u64 {
    entry.map_or(0, |entry| StringValue::of(entry).len())
}

/// What the payload of a chunked string says behind its id.
pub fn chunked_length(payload: &[u8]) -> Option<u64> {
    payload.try_into().ok().map(u64::from_be_bytes)
}

/// The position in the value where the chunk of this name begins.
pub fn start_of(index: &[u8]) -> u64 {
    let index: [u8; INDEX_BYTES] = index.try_into().expect("a chunk's index");
    u64::from(u32::from_be_bytes(index)) * CHUNK_BYTES as u64
}

/// The name of the chunk that holds a byte, and where in it.
fn place(offset: u64) -> ([u8; INDEX_BYTES], usize) {
    let index = (offset / CHUNK_BYTES as u64) as u32;
    (index.to_be_bytes(), (offset % CHUNK_BYTES as u64) as usize)
}

impl Keyspace<'_, '_> {
    /// Writes a string whole. A key that was there is replaced.
    pub fn put_string(&mut self, name: &[u8], header: Header, value: &[u8]) {
        if value.len() <= WHOLE_BYTES_MAX {
            return self.put(name, header, value);
        }
        self.put_chunks(name, header, value, value.len() as u64);
    }

    /// Writes `bytes` at `offset` of a string, which grows as needed, filled up with zeros. `old` is the key as it is, if there is one.
    pub fn patch_string(&mut self, name: &[u8], header: Header, old: Option<&Entry>, offset: u64, bytes: &[u8]) {
        let length = length(old);
        let new_length = length.max(offset + bytes.len() as u64);
        let elements = match old.map_or(Some(&b""[..]), |old| StringValue::of(old).packed()) {
            Some(value) if new_length <= PATCHED_BYTES_MAX as u64 => {
                let before = &value[..value.len().min(offset as usize)];
                let gap: SmallVec<[u8; 64]> = SmallVec::from_elem(0, offset as usize - before.len());
                let after = value.get(offset as usize + bytes.len()..).unwrap_or_default();
                return self.put_parts(name, header, &[before, &gap, bytes, after]);
            }
            Some(value) => self.put_chunks(name, header, value, new_length),
            None => {
                let elements = old.expect("what is not packed is there").elements();
                match new_length == length {
                    true => self.touch(name),
                    false => self.put_head(name, header, &elements, new_length),
                }
                elements
            }
        };
        write(self.tx, &elements, offset, bytes);
    }

    /// Gives a string a value that is its old one but for a few bytes, which alone are written if it is chunked and stays as long.
    pub fn overwrite_string(&mut self, name: &[u8], header: Header, old: Option<&Entry>, value: &[u8]) {
        let chunked = old.filter(|old| old.is_large() && length(Some(old)) == value.len() as u64);
        let Some(old) = chunked else {
            if value.len() <= PATCHED_BYTES_MAX {
                return self.put(name, header, value);
            }
            self.put_chunks(name, header, value, value.len() as u64);
            return;
        };
        for (index, chunk) in value.chunks(CHUNK_BYTES).enumerate() {
            let offset = (index * CHUNK_BYTES) as u64;
            let before = StringValue::of(old).part(self.tx, offset..offset + chunk.len() as u64);
            if let Some(differing) = difference(&before, chunk) {
                write(
                    self.tx,
                    &old.elements(),
                    offset + differing.start as u64,
                    &chunk[differing],
                );
            }
        }
        self.touch(name);
    }

    /// Puts the key as one of `length` bytes, of which `value` are the first.
    fn put_chunks(&mut self, name: &[u8], header: Header, value: &[u8], length: u64) -> Elements {
        let elements = self.new_elements();
        self.put_head(name, header, &elements, length);
        for (index, chunk) in value.chunks(CHUNK_BYTES).enumerate() {
            if chunk.iter().any(|&byte| byte != 0) {
                elements.set(self.tx, &(index as u32).to_be_bytes(), chunk);
            }
        }
        elements
    }

    fn put_head(&mut self, name: &[u8], header: Header, elements: &Elements, length: u64) {
        let header = header.flags(LARGE);
        self.put_parts(name, header, &[elements.id(), &length.to_be_bytes()]);
    }
}

/// Writes into as many chunks as the bytes reach into.
fn write(tx: &mut Transaction<'_>, elements: &Elements, mut offset: u64, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let (chunk, at) = place(offset);
        let (now, rest) = bytes.split_at(bytes.len().min(CHUNK_BYTES - at));
        match now.len() {
            CHUNK_BYTES => _ = elements.set(tx, &chunk, now),
            _ => elements.patch(tx, &chunk, at, now),
        }
        offset += now.len() as u64;
        bytes = rest;
    }
}

/// From the first byte that differs to the last, of two slices of one length.
fn difference(before: &[u8], after: &[u8]) -> Option<Range<usize>> {
    if before == after {
        return None;
    }
    let differs = |(before, after): (&u8, &u8)| before != after;
    let start = before.iter().zip(after).position(differs)?;
    let last = before.iter().zip(after).rposition(differs)?;
    Some(start..last + 1)
}
