//! Nodes of the tree on disk, byte by byte, and their places.
//!
//! ```text
//! leaf    1 u8 | row count u32 | rows, each
//!             version u64 | key bytes u32 | value bytes u32 | apart u8 | key | value, or its place if it lies apart
//! inner   2 u8 | height u8 | child count u8 | newest version u64 | children, each
//!             as many first bytes of the key as the child before has too | how many follow | those
//!             file | offset | bytes | checksum u64 | rows, twice, and one more if values lie apart | row bytes
//!             how much older its newest version is
//! place   file u32 | offset u32 | bytes u32 | checksum u64
//! ```
//!
//! All numbers are little-endian; those without a width are varints, seven bits a byte, the lowest
//! first. So a child takes about 30 bytes: every flush rewrites inner nodes, since each change
//! below reaches them. A checksum is XXH3-64 of the bytes at the place; it is stored with the
//! reference to the place, so that a lost or misdirected write is detected as well. A child's key
//! is its low end: its rows, and those of its right neighbours, are at or above it. Neither a leaf
//! nor an inner node is ever empty.

use std::ops::Range;

use quartet_model::Version;
use xxhash_rust::xxh3::xxh3_64;

use super::heads::{Heads, partition};
use crate::prefetch::prefetch;
use crate::row::Row;

/// The location of a node or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub file: u32,
    pub offset: u32,
    pub bytes: u32,
    pub checksum: u64,
}

pub(super) const PLACE_BYTES: usize = 20;
const ROW_BYTES: usize = 17;
/// Lines of a row that are prefetched without knowing its length.
const ENTRY_LINES: usize = 3;
const TAG_LEAF: u8 = 1;
const TAG_INNER: u8 = 2;

pub(super) enum Node {
    Leaf(Leaf),
    Inner(Inner),
}

/// The bytes of a leaf as read, and the offset of each row.
pub(super) struct Leaf {
    bytes: Vec<u8>,
    starts: Vec<u32>,
    heads: Heads,
}

/// A row of a leaf.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    pub key: &'a [u8],
    pub version: Version,
    pub value: Value<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    Inline(&'a [u8]),
    Apart(Place),
}

pub(super) struct Inner {
    pub height: u8,
    pub children: Vec<Child>,
    /// Heads of the children but the first: every key below the second belongs to the first.
    heads: Heads,
}

/// A subtree, as described by its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub low: Box<[u8]>,
    pub place: Place,
    pub rows: u64,
    /// Sum of the rows' [`Row::stored_bytes`].
    pub row_bytes: u64,
    /// No row is newer.
    pub newest: Version,
    pub has_values_apart: bool,
}

impl Place {
    pub fn of(file: u32, offset: u32, content: &[u8]) -> Place {
        Place {
            file,
            offset,
            bytes: content.len() as u32,
            checksum: xxh3_64(content),
        }
    }

    pub fn holds(&self, content: &[u8]) -> bool {
        content.len() == self.bytes as usize && xxh3_64(content) == self.checksum
    }

    pub fn put(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(&self.file.to_le_bytes());
        output.extend_from_slice(&self.offset.to_le_bytes());
        output.extend_from_slice(&self.bytes.to_le_bytes());
        output.extend_from_slice(&self.checksum.to_le_bytes());
    }

    pub fn take(input: &mut Input<'_>) -> Option<Place> {
        Some(Place {
            file: input.u32()?,
            offset: input.u32()?,
            bytes: input.u32()?,
            checksum: input.u64()?,
        })
    }
}

/// Bytes that are taken apart from the front. Running short is an answer.
pub(super) struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, remaining) = self.0.split_at_checked(count)?;
        self.0 = remaining;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn varint_u32(&mut self) -> Option<u32> {
        self.varint()?.try_into().ok()
    }
}

fn put_varint(mut value: u64, output: &mut Vec<u8>) {
    while value >= 0x80 {
        output.push(value as u8 | 0x80);
        value >>= 7;
    }
    output.push(value as u8);
}

impl Node {
    /// Parses a node; `None` if the bytes cannot have been written as one.
    pub fn parse(bytes: Vec<u8>) -> Option<Node> {
        match *bytes.first()? {
            TAG_LEAF => Leaf::parse(bytes).map(Node::Leaf),
            TAG_INNER => Inner::parse(&bytes).map(Node::Inner),
            _ => None,
        }
    }

    /// Its approximate size in memory.
    pub fn memory_bytes(&self) -> u64 {
        let bytes = match self {
            Node::Leaf(leaf) => leaf.bytes.capacity() + leaf.starts.capacity() * 4 + leaf.heads.memory_bytes(),
            Node::Inner(inner) => {
                let keys: usize = inner.children.iter().map(|child| child.low.len()).sum();
                keys + inner.children.capacity() * size_of::<Child>() + inner.heads.memory_bytes()
            }
        };
        bytes as u64 + 64
    }
}

impl Leaf {
    fn parse(bytes: Vec<u8>) -> Option<Leaf> {
        let mut input = Input(&bytes[1..]);
        let count = input.u32()?;
        let mut starts = Vec::new();
        for _ in 0..count {
            starts.push((bytes.len() - input.0.len()) as u32);
            take_entry(&mut input)?;
        }
        starts.shrink_to_fit();
        if !input.0.is_empty() || count == 0 {
            return None;
        }
        let heads = Heads::of(starts.iter().map(|start| entry_at(&bytes, *start).key));
        Some(Leaf { bytes, starts, heads })
    }

    /// The keys that a leaf's bytes name, whether they are what was written or not, up to where
    /// they make no sense.
    pub fn keys_unverified(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut input = Input(bytes.get(5..).unwrap_or_default());
        std::iter::from_fn(move || take_entry(&mut input).map(|entry| entry.key))
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn entry(&self, index: usize) -> Entry<'_> {
        entry_at(&self.bytes, self.starts[index])
    }

    /// The row under `key`.
    pub fn find(&self, key: &[u8]) -> Option<Entry<'_>> {
        self.find_sought(self.seek(key), key)
    }

    /// Prefetches the lines that a search looks at first.
    pub fn prefetch(&self) {
        self.heads.prefetch();
        self.starts.chunks(16).for_each(|line| prefetch(line.as_ptr()));
    }

    /// The range of rows that contains the row under `key`, if it exists. Prefetches the first of
    /// them.
    pub fn seek(&self, key: &[u8]) -> Range<usize> {
        let sought = self.heads.like(key);
        if let Some(start) = self.starts.get(sought.start) {
            let entry = self.bytes.as_ptr().wrapping_add(*start as usize);
            (0..ENTRY_LINES).for_each(|line| prefetch(entry.wrapping_add(line * 64)));
        }
        sought
    }

    /// The row under `key`, within the range that [`Leaf::seek`] returned for it.
    pub fn find_sought(&self, sought: Range<usize>, key: &[u8]) -> Option<Entry<'_>> {
        let rank = partition(sought.len(), |index| self.key(sought.start + index) < key);
        let index = sought.start + rank;
        let entry = (index < sought.end).then(|| self.entry(index));
        entry.filter(|entry| entry.key == key)
    }

    pub fn key(&self, index: usize) -> &[u8] {
        self.entry(index).key
    }

    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.len()).map(|index| self.entry(index))
    }

    /// The number of rows below `key`.
    pub fn rank(&self, key: &[u8]) -> usize {
        self.heads.partition(key, |index| self.key(index) < key)
    }

    /// Adds a leaf of these entries to `output`.
    pub fn put<'a>(entries: impl ExactSizeIterator<Item = Entry<'a>>, output: &mut Vec<u8>) {
        output.push(TAG_LEAF);
        output.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        for entry in entries {
            entry.put(output);
        }
    }

    /// Sets the row count of the leaf whose first bytes are given.
    pub fn set_len(bytes: &mut [u8], rows: u32) {
        bytes[1..5].copy_from_slice(&rows.to_le_bytes());
    }
}

/// The row at `start`, in a parsed leaf.
fn entry_at(bytes: &[u8], start: u32) -> Entry<'_> {
    take_entry(&mut Input(&bytes[start as usize..])).expect("a leaf was parsed whole")
}

fn take_entry<'a>(input: &mut Input<'a>) -> Option<Entry<'a>> {
    let version = Version(input.u64()?);
    let (key_bytes, value_bytes) = (input.u32()?, input.u32()?);
    let apart = input.u8()?;
    let key = input.bytes(key_bytes as usize)?;
    let value = match apart {
        0 => Value::Inline(input.bytes(value_bytes as usize)?),
        1 => Value::Apart(Place::take(input).filter(|place| place.bytes == value_bytes)?),
        _ => return None,
    };
    Some(Entry { key, version, value })
}

impl<'a> Entry<'a> {
    pub fn inline(row: &'a Row) -> Entry<'a> {
        Entry {
            key: row.key(),
            version: row.version(),
            value: Value::Inline(row.value()),
        }
    }

    /// Returns its size in a leaf.
    pub fn bytes(&self) -> usize {
        let value = match self.value {
            Value::Inline(value) => value.len(),
            Value::Apart(_) => PLACE_BYTES,
        };
        ROW_BYTES + self.key.len() + value
    }

    pub fn value_bytes(&self) -> usize {
        match self.value {
            Value::Inline(value) => value.len(),
            Value::Apart(place) => place.bytes as usize,
        }
    }

    /// Returns its size as a row.
    pub fn row_bytes(&self) -> u64 {
        Row::stored_bytes_of(self.key.len(), self.value_bytes())
    }

    /// Appends it to `output`. Returns the offset of its key there.
    pub fn put(&self, output: &mut Vec<u8>) -> usize {
        output.extend_from_slice(&self.version.0.to_le_bytes());
        output.extend_from_slice(&(self.key.len() as u32).to_le_bytes());
        output.extend_from_slice(&(self.value_bytes() as u32).to_le_bytes());
        output.push(u8::from(matches!(self.value, Value::Apart(_))));
        let key_start = output.len();
        output.extend_from_slice(self.key);
        match self.value {
            Value::Inline(value) => output.extend_from_slice(value),
            Value::Apart(place) => place.put(output),
        }
        key_start
    }
}

impl Inner {
    fn new(height: u8, children: Vec<Child>) -> Option<Inner> {
        if height == 0 {
            return None;
        }
        let heads = Heads::of(children.get(1..)?.iter().map(|child| &*child.low));
        Some(Inner {
            height,
            children,
            heads,
        })
    }

    fn parse(bytes: &[u8]) -> Option<Inner> {
        let mut input = Input(&bytes[1..]);
        let (height, count, newest) = (input.u8()?, input.u8()?, Version(input.u64()?));
        let (mut children, mut low): (Vec<Child>, Vec<u8>) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let child = Child::take_after(&mut low, newest, &mut input)?;
            children.push(child);
        }
        Inner::new(height, children).filter(|_| input.0.is_empty())
    }

    /// The index of the child that contains `key`.
    pub fn child_of(&self, key: &[u8]) -> usize {
        self.heads.partition(key, |index| *self.children[index + 1].low <= *key)
    }

    /// Adds an inner node to `output`, of at most 255 children.
    pub fn put(height: u8, children: &[Child], output: &mut Vec<u8>) {
        output.push(TAG_INNER);
        output.push(height);
        output.push(u8::try_from(children.len()).expect("an inner node has few children"));
        let newest = children.iter().map(|child| child.newest).max().unwrap_or_default();
        output.extend_from_slice(&newest.0.to_le_bytes());
        let mut low: &[u8] = b"";
        for child in children {
            child.put_after(low, newest, output);
            low = &child.low;
        }
    }
}

impl Child {
    /// Appends it after a child with that low end, in a node with that newest version.
    fn put_after(&self, low: &[u8], newest: Version, output: &mut Vec<u8>) {
        let shared = low.iter().zip(&*self.low).take_while(|(a, b)| a == b).count();
        let own = &self.low[shared..];
        put_varint(shared as u64, output);
        put_varint(own.len() as u64, output);
        output.extend_from_slice(own);
        put_varint(self.place.file.into(), output);
        put_varint(self.place.offset.into(), output);
        put_varint(self.place.bytes.into(), output);
        output.extend_from_slice(&self.place.checksum.to_le_bytes());
        put_varint(self.rows << 1 | u64::from(self.has_values_apart), output);
        put_varint(self.row_bytes, output);
        put_varint(newest.0 - self.newest.0, output);
    }

    /// Reads an entry that [`Child::put_after`] has written; `low` becomes its lower key.
    fn take_after(low: &mut Vec<u8>, newest: Version, input: &mut Input<'_>) -> Option<Child> {
        let (shared, own) = (input.varint_u32()?, input.varint_u32()?);
        let own = input.bytes(own as usize)?;
        if shared as usize > low.len() {
            return None;
        }
        low.truncate(shared as usize);
        low.extend_from_slice(own);
        let place = Place {
            file: input.varint_u32()?,
            offset: input.varint_u32()?,
            bytes: input.varint_u32()?,
            checksum: input.u64()?,
        };
        let rows = input.varint()?;
        Some(Child {
            low: low.as_slice().into(),
            place,
            rows: rows >> 1,
            row_bytes: input.varint()?,
            newest: Version(newest.0.checked_sub(input.varint()?)?),
            has_values_apart: rows & 1 == 1,
        })
    }

    /// Appends it to `output` in the form of the file `base`, without a preceding child.
    pub fn put(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(&(self.low.len() as u32).to_le_bytes());
        self.place.put(output);
        output.extend_from_slice(&self.rows.to_le_bytes());
        output.extend_from_slice(&self.row_bytes.to_le_bytes());
        output.extend_from_slice(&self.newest.0.to_le_bytes());
        output.push(u8::from(self.has_values_apart));
        output.extend_from_slice(&self.low);
    }

    /// Reads what [`Child::put`] has written.
    pub fn take(input: &mut Input<'_>) -> Option<Child> {
        let low_bytes = input.u32()?;
        Some(Child {
            place: Place::take(input)?,
            rows: input.u64()?,
            row_bytes: input.u64()?,
            newest: Version(input.u64()?),
            has_values_apart: input.u8()? == 1,
            low: input.bytes(low_bytes as usize)?.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn child() -> impl Strategy<Value = Child> {
        let low = vec(prop_oneof![Just(b'a'), any::<u8>()], 0..40);
        let place = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u64>());
        (low, place, 0..u64::MAX / 2, any::<u64>(), any::<u64>(), any::<bool>()).prop_map(
            |(low, (file, offset, bytes, checksum), rows, row_bytes, newest, has_values_apart)| Child {
                low: low.into(),
                place: Place {
                    file,
                    offset,
                    bytes,
                    checksum,
                },
                rows,
                row_bytes,
                newest: Version(newest),
                has_values_apart,
            },
        )
    }

    fn inner(content: Vec<u8>) -> Option<Inner> {
        match Node::parse(content)? {
            Node::Inner(inner) => Some(inner),
            Node::Leaf(_) => None,
        }
    }

    proptest! {
        #[test]
        fn inner_nodes_are_read_as_they_were_written(children in vec(child(), 1..255), height in 1..9_u8) {
            let mut content = Vec::new();
            Inner::put(height, &children, &mut content);
            let read = inner(content.clone()).unwrap();
            prop_assert_eq!((read.height, &read.children), (height, &children));
            content.pop();
            prop_assert!(inner(content).is_none());
        }

        #[test]
        fn a_root_is_read_as_it_was_written(child in child()) {
            let mut content = Vec::new();
            child.put(&mut content);
            prop_assert_eq!(Child::take(&mut Input(&content)), Some(child));
            content.pop();
            prop_assert_eq!(Child::take(&mut Input(&content)), None);
        }

        #[test]
        fn no_bytes_are_too_much(tag in 1..4_u8, bytes in vec(any::<u8>(), 0..300)) {
            let _ = Node::parse([&[tag][..], &bytes].concat());
        }
    }

    /// It was 90 bytes, and every flush writes nearly all inner nodes.
    #[test]
    fn a_child_takes_little_room() {
        let children: Vec<Child> = (0..128_u32)
            .map(|number| Child {
                low: format!("\0\x01\x01Kproduct:{:08}", 10_000_000 + number * 311)
                    .into_bytes()
                    .into(),
                place: Place::of(300, number * 4000 + (30 << 20), &[number as u8; 3900]),
                rows: 42,
                row_bytes: 4500,
                newest: Version(90_000_000 + u64::from(number) * 70_000),
                has_values_apart: false,
            })
            .collect();
        let mut content = Vec::new();
        Inner::put(1, &children, &mut content);
        assert!(content.len() < 128 * 34, "{} bytes", content.len());
    }
}
