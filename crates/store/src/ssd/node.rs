//! Nodes of the tree on disk, byte by byte, and where they lie.
//!
//! ```text
//! leaf    1 u8 | row count u32 | rows, each
//!             version u64 | key bytes u32 | value bytes u32 | apart u8 | key | value, or its place if it lies apart
//! inner   3 u8 | height u8 | child count u32 | children, each
//!             key bytes u32 | place | rows u64 | row bytes u64 | newest version u64 | has values apart u8 | key
//!         2 u8 | the same without the newest version: not written any more
//! place   file u32 | offset u32 | bytes u32 | checksum u64
//! ```
//!
//! All numbers are little-endian. A checksum is XXH3-64 of the bytes at the place; it stands with whoever points there, so that
//! a write that was lost or went astray shows as well. A child's key is its low end: its rows, and those of its right
//! neighbours, are at or above it. Neither a leaf nor an inner node is ever empty.

use quartet_model::Version;
use xxhash_rust::xxh3::xxh3_64;

use crate::row::Row;

/// Where a node or a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub file: u32,
    pub offset: u32,
    pub bytes: u32,
    pub checksum: u64,
}

pub(super) const PLACE_BYTES: usize = 20;
const ROW_BYTES: usize = 17;
const TAG_LEAF: u8 = 1;
/// Children that do not tell their newest version.
const TAG_INNER_UNDATED: u8 = 2;
const TAG_INNER: u8 = 3;

pub(super) enum Node {
    Leaf(Leaf),
    Inner(Inner),
}

/// Rows where they were read, and where each begins.
pub(super) struct Leaf {
    bytes: Vec<u8>,
    starts: Vec<u32>,
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
}

/// A subtree, as its parent knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Child {
    pub low: Box<[u8]>,
    pub place: Place,
    pub rows: u64,
    /// What the rows take in memory ([`Row::memory_bytes`]).
    pub row_bytes: u64,
    /// No row is newer.
    pub newest: Version,
    pub has_values_apart: bool,
}

/// Stands where the newest version is not told.
const UNKNOWN: Version = Version(u64::MAX);

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
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
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
}

impl Node {
    /// `None` for what cannot have been written as a node.
    pub fn parse(bytes: Vec<u8>) -> Option<Node> {
        match *bytes.first()? {
            TAG_LEAF => Leaf::parse(bytes).map(Node::Leaf),
            TAG_INNER => Inner::parse(&bytes, Child::take).map(Node::Inner),
            TAG_INNER_UNDATED => Inner::parse(&bytes, Child::take_undated).map(Node::Inner),
            _ => None,
        }
    }

    /// About what it takes in memory.
    pub fn memory_bytes(&self) -> u64 {
        let bytes = match self {
            Node::Leaf(leaf) => leaf.bytes.capacity() + leaf.starts.capacity() * 4,
            Node::Inner(inner) => {
                let keys: usize = inner.children.iter().map(|child| child.low.len()).sum();
                keys + inner.children.capacity() * size_of::<Child>()
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
        let is_whole = input.0.is_empty() && count > 0;
        is_whole.then_some(Leaf { bytes, starts })
    }

    /// The keys that a leaf's bytes name, whether they are what was written or not, up to where they make no sense.
    pub fn keys_unverified(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut input = Input(bytes.get(5..).unwrap_or_default());
        std::iter::from_fn(move || take_entry(&mut input).map(|entry| entry.key))
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    pub fn entry(&self, index: usize) -> Entry<'_> {
        let mut input = Input(&self.bytes[self.starts[index] as usize..]);
        take_entry(&mut input).expect("a leaf was parsed whole")
    }

    pub fn key(&self, index: usize) -> &[u8] {
        self.entry(index).key
    }

    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.len()).map(|index| self.entry(index))
    }

    /// The number of rows below `key`.
    pub fn rank(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.key(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Adds a leaf of these entries to `output`.
    pub fn put<'a>(entries: impl ExactSizeIterator<Item = Entry<'a>>, output: &mut Vec<u8>) {
        output.push(TAG_LEAF);
        output.extend_from_slice(&(entries.len() as u32).to_le_bytes());
        for entry in entries {
            entry.put(output);
        }
    }

    /// Says how many rows the leaf has that these bytes begin.
    pub fn set_len(bytes: &mut [u8], rows: u32) {
        bytes[1..5].copy_from_slice(&rows.to_le_bytes());
    }
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

    /// What it takes in a leaf.
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

    /// What it takes as a row.
    pub fn row_bytes(&self) -> u64 {
        Row::memory_bytes_of(self.key.len(), self.value_bytes())
    }

    /// Adds it to `output`. Where its key begins there.
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
    fn parse(bytes: &[u8], take: fn(&mut Input<'_>) -> Option<Child>) -> Option<Inner> {
        let mut input = Input(&bytes[1..]);
        let (height, count) = (input.u8()?, input.u32()?);
        let mut children = Vec::new();
        for _ in 0..count {
            children.push(take(&mut input)?);
        }
        let is_whole = input.0.is_empty() && count > 0 && height > 0;
        is_whole.then_some(Inner { height, children })
    }

    /// The child to which `key` belongs.
    pub fn child_of(&self, key: &[u8]) -> usize {
        let behind = self.children.partition_point(|child| &*child.low <= key);
        behind.saturating_sub(1)
    }

    /// Adds an inner node to `output`.
    pub fn put(height: u8, children: &[Child], output: &mut Vec<u8>) {
        output.push(TAG_INNER);
        output.push(height);
        output.extend_from_slice(&(children.len() as u32).to_le_bytes());
        for child in children {
            child.put(output);
        }
    }
}

impl Child {
    pub fn put(&self, output: &mut Vec<u8>) {
        output.extend_from_slice(&(self.low.len() as u32).to_le_bytes());
        self.place.put(output);
        output.extend_from_slice(&self.rows.to_le_bytes());
        output.extend_from_slice(&self.row_bytes.to_le_bytes());
        output.extend_from_slice(&self.newest.0.to_le_bytes());
        output.push(u8::from(self.has_values_apart));
        output.extend_from_slice(&self.low);
    }

    pub fn take(input: &mut Input<'_>) -> Option<Child> {
        Child::take_with(input, |input| input.u64().map(Version))
    }

    /// One that does not tell its newest version.
    pub fn take_undated(input: &mut Input<'_>) -> Option<Child> {
        Child::take_with(input, |_| Some(UNKNOWN))
    }

    fn take_with(input: &mut Input<'_>, newest: fn(&mut Input<'_>) -> Option<Version>) -> Option<Child> {
        let low_bytes = input.u32()?;
        Some(Child {
            place: Place::take(input)?,
            rows: input.u64()?,
            row_bytes: input.u64()?,
            newest: newest(input)?,
            has_values_apart: input.u8()? == 1,
            low: input.bytes(low_bytes as usize)?.into(),
        })
    }
}
