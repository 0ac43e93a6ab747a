//! A sketch as rows, so that a change of it logs what it touches.
//!
//! ```text
//! 'K' db name             header with LARGE, id (10 bytes), family (1 byte)
//! 'E' id 'h'              the head
//! 'E' id 'b' index        bytes of the space from index * BLOCK_BYTES on; index: 4 bytes, big-endian
//! 'E' id 'i' number       an item of a Top-K list; number in 4 bytes, big-endian
//! ```
//!
//! An absent block, and the missing part of a shorter one, is zeros. Head and blocks are changed by
//! patches of the bytes that differ; the key's own row stays as it is.

use crate::dump::{Head, Restored};
use crate::top_k::Items;
use crate::{Space, parts_of};
use quartet_engine::Row;
use quartet_engine::Transaction;
use quartet_wire_rdb::sketch::SketchKind;
use smallvec::SmallVec;

use quartet_layer_redis::module_api::{
    Context, Elements, Entry, ErrorReply, Header, Keyspace, Kind, LARGE, WRONG_TYPE,
};

/// Bytes of a block. A patch copies one, and eight patches are one item of a usual Bloom filter, so
/// blocks are shorter than those of strings; each row has some forty bytes of its own.
const BLOCK_BYTES: usize = 480;
pub const HEAD: &[u8] = b"h";
/// The kind of keys with a sketch.
pub const SKETCH: Kind = Kind::Module(11);
/// Equal bytes between two changes of a head that cost less than another patch.
const GAP_BYTES: usize = 8;

/// The families by their numbers in keys.
const FAMILIES: [SketchKind; 5] = [
    SketchKind::Bloom,
    SketchKind::Cuckoo,
    SketchKind::CountMin,
    SketchKind::TopK,
    SketchKind::TDigest,
];

/// The family of a key's sketch; `None` if no version has written the key.
pub fn family(entry: &Entry) -> Option<SketchKind> {
    let number = match entry.is_large().then(|| entry.large_payload())? {
        [number] => *number,
        _ => return None,
    };
    FAMILIES.get(usize::from(number)).copied()
}

fn number_of(family: SketchKind) -> u8 {
    let number = FAMILIES.iter().position(|listed| *listed == family);
    number.expect("every family is listed") as u8
}

/// Returns true if the key is a sketch of this family.
fn is_of(entry: &Entry, kind: SketchKind) -> bool {
    entry.kind == SKETCH && family(entry) == Some(kind)
}

/// The rows below a key.
pub struct Rows<'k, 't> {
    pub tx: &'k mut Transaction<'t>,
    elements: Elements,
}

/// The name of a row with a number.
fn numbered(tag: u8, number: u32) -> [u8; 5] {
    let mut name = [tag; 5];
    name[1..].copy_from_slice(&number.to_be_bytes());
    name
}

/// The block with the byte at an offset, and its place there.
fn place(at: u64) -> (u32, usize) {
    ((at / BLOCK_BYTES as u64) as u32, (at % BLOCK_BYTES as u64) as usize)
}

/// Copies the bytes of a block from `start` on.
fn copy_part(row: Option<&Row>, start: usize, part: &mut [u8]) {
    let stored = row.and_then(|row| row.value().get(start..)).unwrap_or_default();
    let copied = stored.len().min(part.len());
    part[..copied].copy_from_slice(&stored[..copied]);
    part[copied..].fill(0);
}

impl Space for Rows<'_, '_> {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        let (mut index, mut start) = place(at);
        let mut remaining = into;
        while !remaining.is_empty() {
            let count = remaining.len().min(BLOCK_BYTES - start);
            let (part, next) = remaining.split_at_mut(count);
            let row = self.elements.get(self.tx, &numbered(b'b', index));
            copy_part(row.as_ref(), start, part);
            (remaining, index, start) = (next, index + 1, 0);
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let (mut index, mut start) = place(at);
        let mut remaining = bytes;
        while !remaining.is_empty() {
            let (part, next) = remaining.split_at(remaining.len().min(BLOCK_BYTES - start));
            let name = numbered(b'b', index);
            if part.len() < BLOCK_BYTES {
                self.elements.patch(self.tx, &name, start, part);
            } else if part.iter().all(|byte| *byte == 0) {
                self.elements.clear(self.tx, &name);
            } else {
                self.elements.set(self.tx, &name, part);
            }
            (remaining, index, start) = (next, index + 1, 0);
        }
    }

    fn parts_at(&mut self, offsets: &[u64], into: &mut [u8]) {
        let names = offsets.iter().map(|at| numbered(b'b', place(*at).0));
        let rows = self.elements.get_each(self.tx, names);
        for ((at, part), row) in offsets.iter().zip(parts_of(into, offsets.len())).zip(&rows) {
            let start = place(*at).1;
            match start + part.len() <= BLOCK_BYTES {
                true => copy_part(row.as_ref(), start, part),
                false => self.read(*at, part),
            }
        }
    }
}

/// Copies of blocks, for a request with many items that read the same blocks.
pub struct BlockCopies {
    /// Block `index` is in slot `index % slots.len()`.
    slots: Vec<Option<(u32, Box<[u8; BLOCK_BYTES]>)>>,
}

impl BlockCopies {
    const SLOTS_MAX: usize = 2048;
    /// Items from which on a copy is read again often enough.
    const ITEMS_MIN: usize = 64;

    /// Room for a request of `items` items.
    pub fn of_items(items: usize) -> BlockCopies {
        let slots = if items < BlockCopies::ITEMS_MIN {
            0
        } else {
            items.min(BlockCopies::SLOTS_MAX)
        };
        BlockCopies {
            slots: std::iter::repeat_with(|| None).take(slots).collect(),
        }
    }

    /// Bytes that the copies may take.
    pub fn bytes_max(&self) -> usize {
        self.slots.len() * (BLOCK_BYTES + size_of::<Option<(u32, Box<()>)>>())
    }
}

/// Rows that are read from copies of their blocks.
pub struct CopiedRows<'c, 'k, 't> {
    pub rows: Rows<'k, 't>,
    pub copies: &'c mut BlockCopies,
}

impl Space for CopiedRows<'_, '_, '_> {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        let slots = self.copies.slots.len();
        let (index, start) = place(at);
        if slots == 0 || start + into.len() > BLOCK_BYTES {
            return self.rows.read(at, into);
        }
        let slot = &mut self.copies.slots[index as usize % slots];
        if slot.as_ref().is_none_or(|(copied, _)| *copied != index) {
            let mut block = Box::new([0; BLOCK_BYTES]);
            self.rows.read(at - start as u64, &mut block[..]);
            *slot = Some((index, block));
        }
        if let Some((_, block)) = slot {
            into.copy_from_slice(&block[start..start + into.len()]);
        }
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.rows.write(at, bytes);
        let slots = self.copies.slots.len();
        if slots == 0 {
            return;
        }
        let (first, last) = (place(at).0, place(at + bytes.len() as u64).0);
        for index in first..=last {
            let slot = &mut self.copies.slots[index as usize % slots];
            if slot.as_ref().is_some_and(|(copied, _)| *copied == index) {
                *slot = None;
            }
        }
    }
}

impl Items for Rows<'_, '_> {
    fn item(&mut self, number: u32) -> Vec<u8> {
        let row = self.elements.get(self.tx, &numbered(b'i', number));
        row.map_or(Vec::new(), |row| row.value().to_vec())
    }

    fn set_item(&mut self, number: u32, item: &[u8]) {
        self.elements.set(self.tx, &numbered(b'i', number), item);
    }
}

impl Rows<'_, '_> {
    /// Removes all blocks.
    pub fn clear(&mut self) {
        self.elements.clear_range(self.tx, b"b", Some(b"c"));
    }

    fn write_head(&mut self, before: &[u8], after: &[u8]) {
        if before.len() > after.len() {
            self.elements.set(self.tx, HEAD, after);
            return;
        }
        for (start, end) in differences(before, after) {
            self.elements.patch(self.tx, HEAD, start, &after[start..end]);
        }
    }
}

/// The ranges that differ of `after`, which is at least as long as `before`.
fn differences(before: &[u8], after: &[u8]) -> SmallVec<[(usize, usize); 4]> {
    let mut ranges: SmallVec<[(usize, usize); 4]> = SmallVec::new();
    for (at, byte) in after.iter().enumerate() {
        if before.get(at) == Some(byte) {
            continue;
        }
        match ranges.last_mut() {
            Some((_, end)) if at - *end < GAP_BYTES => *end = at + 1,
            _ => ranges.push((at, at + 1)),
        }
    }
    ranges
}

/// Returns true if a row below the key could be one of a sketch.
pub fn is_sound_row(family: SketchKind, name: &[u8], value: &[u8]) -> bool {
    match name.split_first() {
        Some((b'h', [])) => Head::from_bytes(family, value).is_ok(),
        Some((b'b', index)) => index.len() == 4 && (1..=BLOCK_BYTES).contains(&value.len()),
        Some((b'i', number)) => family == SketchKind::TopK && number.len() == 4,
        _ => false,
    }
}

/// The head and the rows of a key with a sketch.
pub fn open<'k, 't>(keys: &'k mut Keyspace<'_, 't>, entry: &Entry) -> (Head, Rows<'k, 't>) {
    let mut rows = Rows {
        tx: keys.tx,
        elements: entry.elements(),
    };
    let head = read_head(&mut rows, entry).1;
    (head, rows)
}

fn read_head(rows: &mut Rows<'_, '_>, entry: &Entry) -> (Row, Head) {
    let row = rows.elements.get(rows.tx, HEAD).expect("a sketch has a head");
    let family = family(entry).expect("the row of a sketch");
    let head = Head::from_bytes(family, row.value()).expect("the head of a sketch");
    (row, head)
}

/// A sketch as a command found it.
pub struct Found {
    entry: Entry,
    row: Row,
    pub head: Head,
}

impl Found {
    fn of(context: &mut Context<'_, '_>, entry: Entry) -> Found {
        let mut rows = Rows {
            tx: context.tx,
            elements: entry.elements(),
        };
        let (row, head) = read_head(&mut rows, &entry);
        Found { entry, row, head }
    }

    pub fn rows<'k, 't>(&self, context: &'k mut Context<'_, 't>) -> Rows<'k, 't> {
        Rows {
            tx: context.tx,
            elements: self.entry.elements(),
        }
    }

    /// Writes the changed head, and notes that the key was changed.
    pub fn save(&self, context: &mut Context<'_, '_>, name: &[u8]) {
        let after = self.head.to_bytes();
        self.rows(context).write_head(self.row.value(), &after);
        context.note_change(name, Some(&self.entry));
        context.keys().touch(name);
    }
}

/// The state of a key, for commands of one family.
pub enum Looked {
    Absent,
    Found(Found),
    /// It holds something else.
    Other,
}

impl Looked {
    fn of(context: &mut Context<'_, '_>, entry: Option<Entry>, family: SketchKind) -> Looked {
        match entry {
            None => Looked::Absent,
            Some(entry) if is_of(&entry, family) => Looked::Found(Found::of(context, entry)),
            Some(_) => Looked::Other,
        }
    }

    /// The sketch; `absent` is the error if there is no key.
    pub fn required(self, absent: &'static str) -> Result<Found, ErrorReply> {
        match self {
            Looked::Found(sketch) => Ok(sketch),
            Looked::Absent => Err(absent.into()),
            Looked::Other => Err(WRONG_TYPE.into()),
        }
    }
}

/// A key that a command reads.
pub fn read(context: &mut Context<'_, '_>, name: &[u8], family: SketchKind) -> Looked {
    let entry = context.read(name);
    Looked::of(context, entry, family)
}

/// A key that a command changes.
pub fn to_change(context: &mut Context<'_, '_>, name: &[u8], family: SketchKind) -> Looked {
    let entry = context.keys().find(name);
    Looked::of(context, entry, family)
}

/// Creates or replaces a key with an empty sketch.
pub fn create(keys: &mut Keyspace<'_, '_>, name: &[u8], head: &Head) {
    let elements = keys.new_elements();
    elements.set(keys.tx, HEAD, &head.to_bytes());
    let header = Header::new(SKETCH).flags(LARGE);
    keys.put_parts(name, header, &[elements.id(), &[number_of(head.kind())]]);
}

/// Creates a key with an empty sketch, and finds it.
pub fn created(context: &mut Context<'_, '_>, name: &[u8], head: &Head) -> Found {
    create(&mut context.keys(), name, head);
    let entry = context.keys().find(name).expect("the key was just made");
    Found::of(context, entry)
}

/// Creates or replaces a key with a sketch of a dump.
pub fn restore(keys: &mut Keyspace<'_, '_>, name: &[u8], restored: &Restored) {
    create(keys, name, &restored.head);
    let entry = keys.find(name).expect("the key was just made");
    let (_, mut rows) = open(keys, &entry);
    for (at, piece) in &restored.pieces {
        write_piece(&mut rows, *at, piece);
    }
    for (number, item) in &restored.items {
        rows.set_item(*number, item);
    }
}

/// Writes bytes into an empty space: parts of zeros are left out.
fn write_piece(rows: &mut Rows<'_, '_>, at: u64, piece: &[u8]) {
    let mut at = at;
    let mut remaining = piece;
    while !remaining.is_empty() {
        let (part, next) = remaining.split_at(remaining.len().min(BLOCK_BYTES - place(at).1));
        if part.iter().any(|byte| *byte != 0) {
            rows.write(at, part);
        }
        at += part.len() as u64;
        remaining = next;
    }
}
