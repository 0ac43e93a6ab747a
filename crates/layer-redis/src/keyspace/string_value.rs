//! Values of strings: short values whole in the key's own row, long values in chunks, so that a
//! small change copies a small part.
//!
//! ```text
//! packed:  'K' db name        header, the value
//! chunked: 'K' db name        header with LARGE, id (10 bytes), length in bytes (8 bytes, big-endian)
//!          'E' id index       bytes of the value from index * CHUNK_BYTES on; index in 4 bytes, big-endian
//! ```
//!
//! An absent chunk, and the missing part of a shorter one, is zeros: a bit set far beyond the end
//! of a value costs one chunk. A chunk is changed by a patch ([`quartet_model::Effect::Patch`]), so
//! the log has only the new bytes.
//!
//! A value that is set whole is packed, because one row is the fastest to read and write whole and
//! is never copied on its way to the log. The first change in place of a value beyond
//! [`PATCHED_BYTES_MAX`] writes all of it in chunks; each later one costs what it changes. Readers
//! do not know which form a value has.
//!
//! Invariants: a chunk holds 1 to CHUNK_BYTES bytes and ends at or before the value's length.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use quartet_engine::{Reader, Transaction, Visit};
use smallvec::SmallVec;

use crate::keyspace::{Elements, Entry, Header, Keyspace, LARGE};

/// Bytes of a chunk. A patch copies at most one, which mostly is in none of the processor's caches.
/// With its key and header a chunk just fits into an allocator's size class of 1 KiB.
pub const CHUNK_BYTES: usize = 960;
/// A longer value is chunked when it is changed in place.
const PATCHED_BYTES_MAX: usize = 8 << 10;
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
    pub fn length(&self) -> u64 {
        match self {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Zeros(count) => *count,
        }
    }

    /// Appends its bytes.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match self {
            Piece::Bytes(bytes) => out.extend_from_slice(bytes),
            Piece::Zeros(count) => out.resize(out.len() + *count as usize, 0),
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
    pub fn length(self) -> u64 {
        match self.packed() {
            Some(value) => value.len() as u64,
            None => chunked_length(self.entry.large_payload()).expect("a chunked string has a length"),
        }
    }

    /// The value, if it is in the key's own row. A longer value is never a number, a word or a
    /// small image.
    pub fn packed(self) -> Option<&'e [u8]> {
        (!self.entry.is_large()).then(|| self.entry.payload())
    }

    /// All of it.
    pub fn whole(self, tx: &mut Transaction<'_>) -> ValueBytes<'e> {
        self.part(tx, 0..self.length())
    }

    /// The bytes of `range`, which is within the value.
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

    /// The byte at `index`; zero after the value's end.
    pub fn byte(self, tx: &mut Transaction<'_>, index: u64) -> u8 {
        if let Some(value) = self.packed() {
            return value.get(index as usize).copied().unwrap_or(0);
        }
        let (chunk, at) = place(index);
        let row = self.entry.elements().get(tx, &chunk);
        row.and_then(|row| row.value().get(at).copied()).unwrap_or(0)
    }

    /// Appends the bytes of `range`, which is within the value.
    pub fn append_to(self, tx: &mut Transaction<'_>, range: Range<u64>, out: &mut Vec<u8>) {
        self.each(tx, range, &mut |piece| {
            piece.append_to(out);
            ControlFlow::Continue(())
        });
    }

    /// Visits the bytes of `range`, which is within the value, in order until `visit` breaks.
    pub fn each(
        self,
        tx: &mut Transaction<'_>,
        range: Range<u64>,
        visit: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
    ) {
        self.each_piece(range, visit, |elements, first, behind, visit| {
            elements.scan(tx, first, Some(behind), false, visit);
        });
    }

    /// The same for an immutable state.
    pub fn each_of(self, state: &Reader, range: Range<u64>, visit: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>) {
        self.each_piece(range, visit, |elements, first, behind, visit| {
            elements.scan_of(state, first, behind, visit);
        });
    }

    /// `scan` visits the chunks between two names.
    fn each_piece(
        self,
        range: Range<u64>,
        visit: &mut dyn FnMut(Piece<'_>) -> ControlFlow<()>,
        scan: impl FnOnce(&Elements, &[u8], &[u8], Visit<'_>),
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
        scan(&self.entry.elements(), &first, &behind, &mut |index, chunk| {
            let start = start_of(index);
            let overlap = start.max(at)..(start + chunk.len() as u64).min(range.end);
            if overlap.is_empty() {
                return ControlFlow::Continue(());
            }
            let zeros = overlap.start - at;
            at = overlap.end;
            let bytes = &chunk[(overlap.start - start) as usize..(overlap.end - start) as usize];
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
    entry.map_or(0, |entry| StringValue::of(entry).length())
}

/// The value's length, from the payload of a chunked string after its id.
pub fn chunked_length(payload: &[u8]) -> Option<u64> {
    payload.try_into().ok().map(u64::from_be_bytes)
}

/// The offset in the value of the chunk with this name.
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
    /// Writes `bytes` at `offset` of a string, which grows as needed, filled up with zeros. `old`
    /// is the key as it is, if there is one.
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

    /// Sets a string's value that differs from the old one in a few bytes; only those are written
    /// if it is chunked and keeps its length.
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
        let (now, following) = bytes.split_at(bytes.len().min(CHUNK_BYTES - at));
        match now.len() {
            CHUNK_BYTES => _ = elements.set(tx, &chunk, now),
            _ => elements.patch(tx, &chunk, at, now),
        }
        offset += now.len() as u64;
        bytes = following;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::keyspace::Kind;
    use crate::testing::recording::logged_bytes;
    use crate::testing::{Fixture, show};

    /// A step of a string's life.
    #[derive(Clone, Debug)]
    enum Step {
        Put(Vec<u8>),
        Patch(usize, Vec<u8>),
        Overwrite(usize, u8),
        Rename,
        Remove,
        /// All of these, and then an error.
        Fail(Vec<Step>),
    }

    fn any_bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
        // Short values, values that fill chunks, and among both some that are zeros.
        let length = prop_oneof![0..40usize, CHUNK_BYTES - 3..=CHUNK_BYTES + 3, 0..=most];
        (length, 0..4u8).prop_map(|(length, byte)| vec![byte; length])
    }

    fn any_change() -> impl Strategy<Value = Step> {
        let near_a_bound =
            (0..20usize, -3..=3isize).prop_map(|(chunk, by)| (chunk * CHUNK_BYTES).saturating_add_signed(by));
        let offset = prop_oneof![near_a_bound, 0..90_000usize];
        prop_oneof![
            1 => any_bytes(18 * CHUNK_BYTES).prop_map(Step::Put),
            6 => (offset.clone(), any_bytes(10_000)).prop_map(|(offset, bytes)| Step::Patch(offset, bytes)),
            2 => (offset, 0..4u8).prop_map(|(at, byte)| Step::Overwrite(at, byte)),
            1 => Just(Step::Rename),
            1 => Just(Step::Remove),
        ]
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => any_change(),
            1 => prop::collection::vec(any_change(), 1..5).prop_map(Step::Fail),
        ]
    }

    /// Does it to the model and to the key `s`.
    fn apply(keys: &mut Keyspace<'_, '_>, model: &mut Option<Vec<u8>>, step: &Step) {
        let old = keys.find(b"s");
        let header = Header::patched(old.as_ref());
        match step {
            Step::Put(value) => {
                keys.put(b"s", Header::new(Kind::String), value);
                *model = Some(value.clone());
            }
            Step::Patch(offset, bytes) => {
                keys.patch_string(b"s", header, old.as_ref(), *offset as u64, bytes);
                let value = model.get_or_insert_default();
                value.resize(value.len().max(offset + bytes.len()), 0);
                value[*offset..][..bytes.len()].copy_from_slice(bytes);
            }
            Step::Overwrite(at, byte) => {
                let value = model.get_or_insert_default();
                let length = value.len().max(1);
                value.resize(length, 0);
                value[at % length] = *byte;
                keys.overwrite_string(b"s", header, old.as_ref(), value);
            }
            Step::Rename => {
                // As RENAME does: elements stay with their id.
                if let Some(old) = keys.take(b"s") {
                    keys.put(b"s", Header::of(&old), old.payload());
                }
            }
            Step::Remove => {
                keys.remove(b"s");
                *model = None;
            }
            Step::Fail(_) => unreachable!("no step of a step"),
        }
    }

    fn check(tx: &mut Transaction<'_>, entry: Option<&Entry>, model: Option<&Vec<u8>>) {
        assert_eq!(entry.is_some(), model.is_some());
        let (Some(entry), Some(model)) = (entry, model) else {
            return;
        };
        let value = StringValue::of(entry);
        assert_eq!(value.length(), model.len() as u64);
        assert!(*value.whole(tx) == **model);
        let length = model.len();
        for (start, end) in [
            (0, 1),
            (length / 2, length),
            (CHUNK_BYTES - 1, CHUNK_BYTES + 1),
            (length / 3, length / 3 + 5000),
            (2 * CHUNK_BYTES, 2 * CHUNK_BYTES),
        ] {
            let range = start.min(length)..end.min(length);
            assert!(*value.part(tx, range.start as u64..range.end as u64) == model[range.clone()]);
            assert_eq!(value.byte(tx, start as u64), model.get(start).copied().unwrap_or(0));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_string_is_what_a_vector_would_be(steps in prop::collection::vec(any_step(), 1..25)) {
            let fixture = Fixture::new();
            let mut model = None;
            for step in &steps {
                let before = model.clone();
                let done: Result<_, _> = fixture.layer.engine.partition().execute(fixture.layer.space, |tx| {
                    let changes = &fixture.layer.changes;
                    let mut keys = Keyspace { tx, db: 0, now_ms: 1, changes };
                    let (steps, fails) = match step {
                        Step::Fail(steps) => (steps.as_slice(), true),
                        step => (std::slice::from_ref(step), false),
                    };
                    for step in steps {
                        apply(&mut keys, &mut model, step);
                        let entry = keys.find(b"s");
                        check(keys.tx, entry.as_ref(), model.as_ref());
                    }
                    if fails { Err(()) } else { Ok(()) }
                });
                if done.is_err() {
                    model = before;
                }
            }
            let checked: Result<_, quartet_engine::ExecuteError<()>> =
                fixture.layer.engine.partition().execute(fixture.layer.space, |tx| {
                    let changes = &fixture.layer.changes;
                    let entry = Keyspace { tx: &mut *tx, db: 0, now_ms: 1, changes }.find(b"s");
                    check(tx, entry.as_ref(), model.as_ref());
                    Ok(())
                });
            checked.unwrap();
            prop_assert!(fixture.findings().kept.is_empty());
        }
    }

    /// SETBIT in a string of 12 MB wrote 12.7 MB to the log, and a hundred clients that each set a
    /// bit wrote a gigabyte.
    #[test]
    fn a_small_change_of_a_long_string_is_a_small_record() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        connection.run(&["SET", "bits", &"x".repeat(1 << 20)]);
        // The first change in place writes all of it in chunks.
        assert!(logged_bytes(&fixture, &["SETBIT", "bits", "0", "1"]) > 1 << 20);
        connection.run(&["SETBIT", "sparse", "4294967295", "1"]);
        for key in ["bits", "sparse"] {
            for number in 0..40 {
                let at = (number * 104_729 % (8 << 20)).to_string();
                let bytes = (number * 7919 % (1 << 20)).to_string();
                for words in [
                    &["SETBIT", key, &at, "1"][..],
                    &["SETBIT", key, &at, "0"],
                    &["APPEND", key, "sixteen new ones"],
                    &["SETRANGE", key, &bytes, "sixteen new ones"],
                    &[
                        "BITFIELD",
                        key,
                        "INCRBY",
                        "u8",
                        &format!("#{bytes}"),
                        "1",
                        "INCRBY",
                        "u16",
                        "7",
                        "1",
                    ],
                ] {
                    if key == "sparse" && words[0] == "APPEND" {
                        continue;
                    }
                    let bytes = logged_bytes(&fixture, words);
                    assert!(bytes <= 200, "{words:?}: {bytes}");
                }
            }
        }
        assert!(logged_bytes(&fixture, &["APPEND", "bits", "sixteen new ones"]) > 16);
        connection.check("PFADD h a => 1\nPFDEBUG TODENSE h => 1\nPFADD h b => 1\nPFCOUNT h => 2");
        assert!(logged_bytes(&fixture, &["PFADD", "h", "c"]) < 200);
        connection.check("PFCOUNT h => 3");
    }

    #[test]
    fn holes_take_no_room_and_read_as_zeros() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        connection.check(
            "SETRANGE s 536870911 x => 536870912
             STRLEN s => 536870912
             GETRANGE s 268435456 268435458 => \0\0\0
             BITCOUNT s => 4
             BITPOS s 1 => 4294967289
             BITPOS s 0 => 0
             OBJECT ENCODING s => raw
             COPY s t => 1
             STRLEN t => 536870912",
        );
        let stored = fixture.layer.engine.stored_bytes(fixture.layer.space.database);
        assert!(stored < 4 * CHUNK_BYTES as u64, "{stored}");
    }

    #[test]
    fn watches_and_idle_times_notice_a_patch() {
        let fixture = Fixture::new();
        let (mut watching, mut other) = (fixture.connect(), fixture.connect());
        other.run(&["SET", "s", &"x".repeat(100_000)]);
        watching.check("WATCH s => OK\nMULTI => OK\nSTRLEN s => QUEUED");
        fixture.advance_ms(60_000);
        other.check("OBJECT IDLETIME s => 60\nSETBIT s 9 0 => 1\nOBJECT IDLETIME s => 0");
        watching.check("EXEC => nil\nSTRLEN s => 100000");
    }

    #[test]
    fn a_long_value_is_no_number_and_equal_to_itself() {
        let long = "7".repeat(100_000);
        let mut connection = Fixture::new().connect();
        connection.run(&["SET", "a", &long]);
        connection.check(
            "INCR a => !ERR value is not an integer or out of range
             INCRBYFLOAT a 1 => !ERR value is not a valid float
             DELIFEQ a 7 => 0
             PFADD a x => !WRONGTYPE Key is not a valid HyperLogLog string value.
             LCS a a LEN => !ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len
             EXPIRE a 100 => 1
             RENAME a b => OK
             TTL b => 100
             STRLEN b => 100000",
        );
        assert_eq!(show(&connection.run(&["GETEX", "b", "PERSIST"])), long);
        assert_eq!(show(&connection.run(&["SET", "b", "short", "GET"])), long);
        assert_eq!(show(&connection.run(&["GETSET", "b", &long])), "short");
        assert_eq!(show(&connection.run(&["SET", "b", "x", "IFEQ", &long])), "OK");
        assert_eq!(show(&connection.run(&["GETSET", "b", &long])), "x");
        assert_eq!(show(&connection.run(&["DELIFEQ", "b", &long])), "1");
    }
}
