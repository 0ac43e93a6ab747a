//! A large list in blocks: its ends are in the key's own row, the elements between them in rows of
//! several elements each.
//!
//! ```text
//! payload: id (10 bytes) | count u64 | first i64 | head: count u16, bytes u16 | tail: count u16 | shifts | head | tail     big-endian
//!          head and tail are elements, packed; the outermost is the first of either
//! shifts:  with FLAG_B: how many u8 | from i64, by i64 | from, by | ...
//! block row: its place, order-preserving -> its elements, packed, first to last
//! ```
//!
//! The element at an index has the position `first` + index. Head, blocks and tail follow each
//! other without a gap, and the place of a block is the position of its first element. So the block
//! of an index is found by one descent, and a push or a pop writes only the key's row. A full end
//! becomes a block, and an empty end absorbs the neighbouring block, or the other end if there are
//! no blocks. So about every [`BLOCK_BYTES_MAX`] bytes a second row is written. An element longer
//! than [`SHORT_BYTES_MAX`] is a block by itself: no push copies it again.
//!
//! The contents of both ends are copied and logged with each push or pop. So when one end becomes a
//! block, or takes one in, the other follows: a list that is only pushed to at one end carries
//! nothing of the other.
//!
//! A change in the middle rewrites the affected blocks and leaves all others in place. The
//! positions of the later blocks change then, so a shift records that from a position on a block's
//! place is its position plus `by`. Inserted elements may not fit before the next occupied place:
//! then the blocks from there to the nearer end move, further than needed. If there are more than
//! [`SHIFTS_MAX`] shifts, two are merged by moving the blocks between them. Blocks of a fixed
//! number of elements, with references to long ones, would need no shifts; but a range of long
//! elements would cost a descent for each of them.
//!
//! Invariants: ends, and blocks of several elements, hold only short elements; no block is empty;
//! `count` is the total number of elements; shifts ascend, and each starts at a block, which is not
//! the first.

use std::ops::{ControlFlow, RangeInclusive};

use quartet_engine::Row;
use smallvec::SmallVec;

use crate::keyspace::fixed::Fixed;
use crate::keyspace::packed;
use crate::keyspace::{Elements, Entry, FLAG_B, Header, Keyspace, LARGE};

/// Size limit of the packed elements of an end or a block; elements that LSET has made longer may
/// exceed it. Each push or pop logs both ends.
const BLOCK_BYTES_MAX: usize = 128;
/// Longer elements have a block of their own: fewer than three would share one. Below 128, so that
/// a packed length is one byte.
const SHORT_BYTES_MAX: usize = 40;
const ID_BYTES: usize = 10;
const NUMBERS_BYTES: usize = 8 + 8 + 2 + 2 + 2;
const SHIFT_BYTES: usize = 16;
/// Each push or pop logs them.
const SHIFTS_MAX: usize = 8;
/// Most blocks that are rewritten to make room for an insertion after them.
const NEAR_MAX: usize = 256;
/// Places that are left free where blocks have moved: this many elements can be inserted before any
/// move again.
const ROOM: i64 = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Left,
    Right,
}

impl End {
    fn other(self) -> End {
        match self {
            End::Left => End::Right,
            End::Right => End::Left,
        }
    }
}

/// The bytes of one element that was removed.
pub type Popped = SmallVec<[u8; 64]>;

/// Elements of one block or end.
type Several<'a> = SmallVec<[&'a [u8]; 64]>;

pub fn position_key(position: i64) -> [u8; 8] {
    (position as u64 ^ 1 << 63).to_be_bytes()
}

pub fn position_of(key: &[u8]) -> Option<i64> {
    let bytes = key.try_into().ok()?;
    Some((u64::from_be_bytes(bytes) ^ 1 << 63) as i64)
}

/// The elements of an end, the outermost first.
#[derive(Default)]
struct Side<'e> {
    count: u64,
    /// Elements that were added since the row was read: they are not in `kept`.
    added: SmallVec<[u8; 64]>,
    kept: &'e [u8],
}

impl<'e> Side<'e> {
    fn read(count: u16, retained: &'e [u8]) -> Side<'e> {
        Side {
            count: count.into(),
            kept: retained,
            ..Side::default()
        }
    }

    fn bytes(&self) -> usize {
        self.added.len() + self.kept.len()
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        packed::iter(&self.added).chain(packed::iter(self.kept))
    }

    fn put(&mut self, value: &[u8]) {
        self.added.insert_from_slice(0, value);
        self.added.insert(0, value.len() as u8);
        self.count += 1;
    }

    fn take(&mut self) -> Option<Popped> {
        let popped;
        if self.added.is_empty() {
            let mut elements = packed::iter(self.kept);
            popped = Popped::from_slice(elements.next()?);
            self.kept = elements.as_bytes();
        } else {
            let mut elements = packed::iter(&self.added);
            popped = Popped::from_slice(elements.next()?);
            let left_bytes = elements.as_bytes().len();
            self.added.drain(..self.added.len() - left_bytes);
        }
        self.count -= 1;
        Some(popped)
    }

    /// Replaces its elements by `elements`.
    fn hold(&mut self, elements: &[&[u8]]) {
        let bytes = pack(elements.iter().copied());
        *self = Side {
            count: elements.len() as u64,
            added: bytes.into(),
            kept: b"",
        };
    }
}

/// From a position on, the places of blocks are their positions and this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shift {
    from: i64,
    by: i64,
}

/// Most lists have none, and so no memory for them.
type Shifts = Vec<Shift>;

/// A block that was read.
struct Block {
    position: i64,
    place: i64,
    row: Row,
}

/// A change of elements in blocks.
enum Edit<'v> {
    /// Before the one at the lowest position.
    Insert(&'v [u8]),
    /// Removes the elements at positions that match.
    Remove(&'v dyn Fn(i64) -> bool),
    /// The one at the lowest position.
    Replace(&'v [u8]),
    /// The present blocks are written without a shift in them.
    Join,
}

impl<'a> Edit<'a> {
    /// Changes the elements of one block, the first of which has the position `at`.
    fn change(&self, elements: &mut Several<'a>, at: i64, lowest: i64) {
        match self {
            Edit::Insert(value) => elements.insert((lowest - at) as usize, value),
            Edit::Replace(value) => {
                if let Some(element) = elements.get_mut((lowest - at) as usize) {
                    *element = value;
                }
            }
            Edit::Remove(goes) => {
                let mut positions = at..;
                elements.retain(|_| !positions.next().is_some_and(goes));
            }
            Edit::Join => {}
        }
    }
}

/// An edit and the positions it is about.
struct Edited<'v> {
    positions: RangeInclusive<i64>,
    edit: &'v Edit<'v>,
}

/// The first block of a part.
#[derive(Clone, Copy)]
struct Origin {
    position: i64,
    place: i64,
}

/// The new blocks that replace a range of old blocks.
#[derive(Default)]
struct Part {
    run: Run,
    /// The number of elements in the old blocks.
    count_before: i64,
    /// The place of the block after them, if there is one.
    next: Option<i64>,
    /// Returns true if the new blocks fit in the range of the old blocks.
    has_room: bool,
}

/// Blocks that follow each other.
#[derive(Default)]
struct Run {
    /// Each with the number of its elements.
    blocks: Vec<(i64, Vec<u8>)>,
    count: i64,
}

impl Run {
    fn push(&mut self, count: i64, block: Vec<u8>) {
        self.blocks.push((count, block));
        self.count += count;
    }

    /// Packs elements, evenly if they do not fit into one block.
    fn pack(&mut self, elements: &[&[u8]]) {
        let bytes: usize = elements.iter().map(|element| 1 + element.len()).sum();
        let bytes_max = match bytes <= BLOCK_BYTES_MAX {
            true => BLOCK_BYTES_MAX,
            false => BLOCK_BYTES_MAX.min(bytes / 2 + SHORT_BYTES_MAX / 2),
        };
        let mut is_open = false;
        for element in elements {
            let is_short = element.len() <= SHORT_BYTES_MAX;
            self.count += 1;
            match self.blocks.last_mut() {
                Some((count, block)) if is_open && is_short && block.len() + 1 + element.len() <= bytes_max => {
                    packed::push(block, element);
                    *count += 1;
                }
                _ => self.blocks.push((1, pack(std::iter::once(*element)))),
            }
            is_open = is_short;
        }
    }

    /// Returns true if the blocks, written from `place` on, leave the place `next` to another.
    fn ends_before(&self, next: i64, place: i64) -> bool {
        self.blocks
            .last()
            .is_none_or(|(last, _)| place + self.count - last < next)
    }
}

fn pack<'a>(elements: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    elements.for_each(|element| packed::push(&mut bytes, element));
    bytes
}

/// A large list as described by its key's row.
pub struct Blocks<'e> {
    elements: Elements,
    pub count: u64,
    first: i64,
    head: Side<'e>,
    tail: Side<'e>,
    shifts: Shifts,
    /// Blocks to be written after the key's row, with their places, so that readers of the log know
    /// their key. The list is not read meanwhile.
    full: Vec<(i64, Vec<u8>)>,
}

impl Blocks<'static> {
    pub fn new(elements: Elements) -> Blocks<'static> {
        Blocks {
            elements,
            count: 0,
            first: 0,
            head: Side::default(),
            tail: Side::default(),
            shifts: Shifts::new(),
            full: Vec::new(),
        }
    }
}

impl<'e> Blocks<'e> {
    /// `entry` is a list in blocks.
    pub fn of(entry: &'e Entry) -> Blocks<'e> {
        Blocks::read(entry).expect("a list in blocks has its numbers")
    }

    fn read(entry: &'e Entry) -> Option<Blocks<'e>> {
        let (count, input) = entry.large_payload().split_first_chunk()?;
        let (first, input) = input.split_first_chunk()?;
        let (head_count, input) = input.split_first_chunk()?;
        let (head_bytes, input) = input.split_first_chunk()?;
        let (tail_count, input) = input.split_first_chunk()?;
        let (shifts, input) = read_shifts(entry.flags, input)?;
        let (head, tail) = input.split_at_checked(u16::from_be_bytes(*head_bytes).into())?;
        Some(Blocks {
            elements: entry.elements(),
            count: u64::from_be_bytes(*count),
            first: i64::from_be_bytes(*first),
            head: Side::read(u16::from_be_bytes(*head_count), head),
            tail: Side::read(u16::from_be_bytes(*tail_count), tail),
            shifts,
            full: Vec::new(),
        })
    }

    /// Writes the key's row and what has become blocks; removes a list that has become empty.
    pub fn write(&mut self, keys: &mut Keyspace<'_, '_>, name: &[u8], header: Header) {
        if self.count == 0 {
            keys.remove(name);
            return;
        }
        let mut start = Fixed::<{ ID_BYTES + NUMBERS_BYTES }>::new();
        start.put(*self.elements.id());
        start.put(self.count.to_be_bytes());
        start.put(self.first.to_be_bytes());
        start.put((self.head.count as u16).to_be_bytes());
        start.put((self.head.bytes() as u16).to_be_bytes());
        start.put((self.tail.count as u16).to_be_bytes());
        let (head, tail) = (&self.head, &self.tail);
        let (flags, shifts) = written_shifts(&self.shifts);
        let parts = [
            start.as_bytes(),
            &shifts,
            &head.added,
            head.kept,
            &tail.added,
            tail.kept,
        ];
        keys.put_parts(name, header.flags(LARGE | flags), &parts);
        for (place, block) in self.full.drain(..) {
            self.elements.set(keys.tx, &position_key(place), &block);
        }
    }

    fn side(&mut self, end: End) -> &mut Side<'e> {
        match end {
            End::Left => &mut self.head,
            End::Right => &mut self.tail,
        }
    }

    /// The range of positions of elements in blocks, the end exclusive.
    fn between(&self) -> (i64, i64) {
        let start = self.first + self.head.count as i64;
        (start, self.first + (self.count - self.tail.count) as i64)
    }

    /// The place of a block that starts at this position.
    fn place_of(&self, position: i64) -> i64 {
        place_of(&self.shifts, position).expect("an element of this list has the position")
    }

    /// The bounds of the places of all blocks.
    fn places(&self) -> ([u8; 8], [u8; 8]) {
        let (start, behind) = self.between();
        (
            position_key(self.place_of(start)),
            position_key(self.place_of(behind - 1) + 1),
        )
    }

    /// Removes shifts after the last block, and merges a shift at the first block into `first`.
    fn settle(&mut self) {
        let (start, behind) = self.between();
        while self.shifts.last().is_some_and(|shift| shift.from >= behind) {
            self.shifts.pop();
        }
        let reached = self.shifts.partition_point(|shift| shift.from <= start);
        let first = self.shifts.drain(..reached).next_back();
        if let Some(Shift { by, .. }) = first {
            self.first += by;
            for shift in &mut self.shifts {
                shift.from += by;
                shift.by -= by;
            }
        }
    }

    /// Removes elements from an end.
    fn shrink(&mut self, end: End, count: u64) {
        self.count -= count;
        if end == End::Left {
            self.first += count as i64;
        }
    }

    /// Adds an element at an end.
    pub fn push(&mut self, end: End, value: &[u8]) {
        let is_short = value.len() <= SHORT_BYTES_MAX;
        if !is_short {
            self.become_block(end);
        } else if self.side(end).bytes() + 1 + value.len() > BLOCK_BYTES_MAX {
            self.become_block(end);
            self.become_block(end.other());
        }
        self.count += 1;
        if end == End::Left {
            self.first -= 1;
        }
        if is_short {
            self.side(end).put(value);
        } else {
            let (start, behind) = self.between();
            let position = if end == End::Left { start } else { behind - 1 };
            self.full.push((self.place_of(position), pack(std::iter::once(value))));
        }
    }

    /// Turns the elements of an end into a block beside it.
    fn become_block(&mut self, end: End) {
        let side = std::mem::take(self.side(end));
        if side.count == 0 {
            return;
        }
        let mut elements: Several<'_> = side.iter().collect();
        let mut position = self.first;
        if end == End::Right {
            elements.reverse();
            position += (self.count - side.count) as i64;
        }
        self.full.push((self.place_of(position), pack(elements.into_iter())));
    }

    /// Removes the element at an end. `None` if it could not be read.
    pub fn pop(&mut self, keys: &mut Keyspace<'_, '_>, end: End) -> Option<Popped> {
        let popped = match self.side(end).take() {
            Some(popped) => popped,
            None => self.pop_beside(keys, end)?,
        };
        self.shrink(end, 1);
        self.settle();
        Some(popped)
    }

    /// Refills an empty end from its neighbour, except the outermost element, which is returned.
    fn pop_beside(&mut self, keys: &mut Keyspace<'_, '_>, end: End) -> Option<Popped> {
        let (start, behind) = self.between();
        let (row, other);
        let mut is_turned = true;
        let mut elements: Several<'_> = if start < behind {
            let (start, behind) = self.places();
            is_turned = end == End::Right;
            row = self.elements.clear_end(keys.tx, &start, Some(&behind), is_turned)?;
            packed::iter(row.value()).collect()
        } else {
            other = std::mem::take(self.side(end.other()));
            other.iter().collect()
        };
        if is_turned {
            elements.reverse();
        }
        let (outermost, inner) = elements.split_first()?;
        self.side(end).hold(inner);
        // A smaller end stays; otherwise pops of a short queue would leave ever smaller blocks,
        // each of which ends in such a pop.
        if self.side(end.other()).bytes() > BLOCK_BYTES_MAX / 2 {
            self.become_block(end.other());
        }
        Some(Popped::from_slice(outermost))
    }

    /// Removes `count` elements from an end, which must have that number.
    pub fn cut(&mut self, keys: &mut Keyspace<'_, '_>, end: End, count: u64) {
        let own = self.side(end).count;
        if count < own {
            let side = std::mem::take(self.side(end));
            let retained: Several<'_> = side.iter().skip(count as usize).collect();
            self.side(end).hold(&retained);
            return self.shrink(end, count);
        }
        *self.side(end) = Side::default();
        self.shrink(end, own);
        let (start, behind) = self.between();
        let (count, in_blocks) = (count - own, (behind - start) as u64);
        if count < in_blocks {
            self.cut_blocks(keys, end, count);
            return self.settle();
        }
        if start < behind {
            let (start, behind) = self.places();
            self.elements.clear_range(keys.tx, &start, Some(&behind));
        }
        self.shrink(end, in_blocks);
        self.settle();
        let other = std::mem::take(self.side(end.other()));
        let retained: Several<'_> = other
            .iter()
            .take((other.count - (count - in_blocks)) as usize)
            .collect();
        self.side(end.other()).hold(&retained);
        self.shrink(end, count - in_blocks);
    }

    /// Removes fewer elements than there are in blocks. The end, which is empty, takes what is left
    /// of the last block that was cut.
    fn cut_blocks(&mut self, keys: &mut Keyspace<'_, '_>, end: End, count: u64) {
        if count == 0 {
            return;
        }
        let (start, behind) = self.between();
        let border = match end {
            End::Left => start + count as i64,
            End::Right => behind - count as i64,
        };
        let Some(block) = self.block_of(keys, border - 1) else {
            return;
        };
        let elements: Several<'_> = packed::iter(block.row.value()).collect();
        let (left, right) = elements.split_at(elements.len().min((border - block.position) as usize));
        let is_split = !right.is_empty();
        let (start, behind) = self.places();
        let (own, next) = (position_key(block.place), position_key(block.place + 1));
        let (start, behind) = match end {
            End::Left => (start, next),
            End::Right => (if is_split { own } else { next }, behind),
        };
        self.elements.clear_range(keys.tx, &start, Some(&behind));
        self.shrink(end, count);
        match end {
            _ if !is_split => {}
            End::Left => self.head.hold(right),
            End::Right => self.tail.hold(&left.iter().rev().copied().collect::<Several<'_>>()),
        }
    }

    /// The block that holds a position between the ends.
    fn block_of(&self, keys: &mut Keyspace<'_, '_>, position: i64) -> Option<Block> {
        let behind = self.shifts.partition_point(|shift| shift.from <= position);
        let by = self.place_of(position) - position;
        // The inserted elements reach over places that the next blocks have.
        let end = match self.shifts.get(behind) {
            Some(next) => (position + by + 1).min(next.from + next.by),
            None => position + by + 1,
        };
        let (start, _) = self.places();
        let row = self.elements.last(keys.tx, &start, Some(&position_key(end)))?;
        let place = position_of(Elements::name(&row))?;
        let position = place - by;
        Some(Block { position, place, row })
    }

    /// Visits the elements from an end, skipping the first `skip`, until `visit` breaks.
    pub fn scan(
        &self,
        keys: &mut Keyspace<'_, '_>,
        from: End,
        skip: u64,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (near, far) = match from {
            End::Left => (&self.head, &self.tail),
            End::Right => (&self.tail, &self.head),
        };
        near.iter().skip(skip as usize).try_for_each(&mut *visit)?;
        let skip = skip.saturating_sub(near.count);
        let (start, behind) = self.between();
        let in_blocks = (behind - start) as u64;
        if skip < in_blocks {
            match from {
                End::Left => self.scan_blocks(keys, start + skip as i64, visit)?,
                End::Right => self.scan_blocks_back(keys, behind - skip as i64, visit)?,
            }
        }
        let skip = skip.saturating_sub(in_blocks);
        let far: Several<'_> = far.iter().collect();
        far.into_iter().rev().skip(skip as usize).try_for_each(visit)
    }

    /// From a position on.
    fn scan_blocks(
        &self,
        keys: &mut Keyspace<'_, '_>,
        from: i64,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (mut start, behind) = self.places();
        let mut skip = 0;
        if self.between().0 < from {
            let Some(block) = self.block_of(keys, from) else {
                return ControlFlow::Continue(());
            };
            start = position_key(block.place);
            skip = (from - block.position) as usize;
        }
        let mut flow = ControlFlow::Continue(());
        self.elements
            .scan(keys.tx, &start, Some(&behind), false, &mut |_, block| {
                let mut elements = packed::iter(block);
                if let Some(last) = std::mem::take(&mut skip).checked_sub(1) {
                    elements.nth(last);
                }
                flow = elements.try_for_each(&mut *visit);
                flow
            });
        flow
    }

    /// From before a position on, backwards.
    fn scan_blocks_back(
        &self,
        keys: &mut Keyspace<'_, '_>,
        before: i64,
        visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some(last) = self.block_of(keys, before - 1) else {
            return ControlFlow::Continue(());
        };
        let mut flow = ControlFlow::Continue(());
        let (start, end) = (self.places().0, position_key(last.place + 1));
        let mut count = Some((before - last.position) as usize);
        self.elements.scan(keys.tx, &start, Some(&end), true, &mut |_, block| {
            let count = count.take().unwrap_or(usize::MAX);
            let elements: Several<'_> = packed::iter(block).take(count).collect();
            flow = elements.into_iter().rev().try_for_each(&mut *visit);
            flow
        });
        flow
    }

    /// The end in the key's row that contains an element, and the number of elements outside of it.
    /// `None`: the element is in a block.
    fn end_of(&self, index: u64) -> Option<(End, u64)> {
        if index < self.head.count {
            Some((End::Left, index))
        } else if self.count - index <= self.tail.count {
            Some((End::Right, self.count - 1 - index))
        } else {
            None
        }
    }

    /// Replaces the element at `index`. True if the key's row is as it was.
    pub fn set(&mut self, keys: &mut Keyspace<'_, '_>, index: u64, value: &[u8]) -> bool {
        if let Some((end, depth)) = self.end_of(index) {
            self.rewrite(keys, end, depth + 1, |elements| {
                if let Some(innermost) = elements.last_mut() {
                    *innermost = value.to_vec();
                }
            });
            return false;
        }
        let position = self.first + index as i64;
        let Some(block) = self.block_of(keys, position) else {
            return true;
        };
        let mut elements: Several<'_> = packed::iter(block.row.value()).collect();
        // Changed lengths stay in their block, except a long element among others.
        if value.len() > SHORT_BYTES_MAX && elements.len() > 1 {
            self.edit_blocks(keys, position, position, &Edit::Replace(value));
            return false;
        }
        Edit::Replace(value).change(&mut elements, block.position, position);
        self.elements
            .set(keys.tx, &position_key(block.place), &pack(elements.into_iter()));
        true
    }

    /// Inserts an element so that `index` is its own.
    pub fn insert(&mut self, keys: &mut Keyspace<'_, '_>, index: u64, value: &[u8]) {
        if index <= self.head.count {
            return self.rewrite(keys, End::Left, index, |elements| elements.push(value.to_vec()));
        }
        if self.count - index <= self.tail.count {
            let depth = self.count - index;
            return self.rewrite(keys, End::Right, depth, |elements| elements.push(value.to_vec()));
        }
        let position = self.first + index as i64;
        self.edit_blocks(keys, position, position, &Edit::Insert(value));
    }

    /// Removes the elements at `indexes`, which ascend.
    pub fn remove(&mut self, keys: &mut Keyspace<'_, '_>, indexes: &[u64]) {
        let (head, tail_indexes) = indexes.split_at(indexes.partition_point(|index| *index < self.head.count));
        let (within, tail) = tail_indexes.split_at(tail_indexes.partition_point(|index| self.end_of(*index).is_none()));
        let count = self.count;
        for (end, indexes) in [(End::Left, head), (End::Right, tail)] {
            let side = std::mem::take(self.side(end));
            let mut retained = Several::new();
            for (depth, element) in (0..).zip(side.iter()) {
                let index = if end == End::Left { depth } else { count - 1 - depth };
                if indexes.binary_search(&index).is_err() {
                    retained.push(element);
                }
            }
            self.side(end).hold(&retained);
            self.shrink(end, indexes.len() as u64);
        }
        if let (Some(&lowest), Some(&highest)) = (within.first(), within.last()) {
            let first = self.first - head.len() as i64;
            let goes = |position: i64| within.binary_search(&((position - first) as u64)).is_ok();
            let (lowest, highest) = (first + lowest as i64, first + highest as i64);
            self.edit_blocks(keys, lowest, highest, &Edit::Remove(&goes));
        }
    }

    /// Changes the blocks that hold the positions from `lowest` to `highest`, which are between the
    /// ends.
    fn edit_blocks(&mut self, keys: &mut Keyspace<'_, '_>, lowest: i64, highest: i64, edit: &Edit<'_>) {
        let Some(begin) = self.block_of(keys, lowest) else {
            return;
        };
        let edited = Edited {
            positions: lowest..=highest,
            edit,
        };
        let origin = Origin {
            position: begin.position,
            place: begin.place,
        };
        let near = self.part(keys, origin, &edited, NEAR_MAX);
        if near.has_room {
            self.replace(keys, origin, origin.place, &near);
        } else {
            self.make_room(keys, origin, &edited);
        }
        self.settle();
        self.limit_shifts(keys);
    }

    /// Moves the blocks between an edited part, which starts `origin`, and the nearer end.
    fn make_room(&mut self, keys: &mut Keyspace<'_, '_>, origin: Origin, edited: &Edited<'_>) {
        let (start, behind) = self.between();
        if edited.positions.end() - start < behind - origin.position {
            let all = Origin {
                position: start,
                place: self.place_of(start),
            };
            let part = self.part(keys, all, edited, 0);
            let next = part.next.unwrap_or(all.place);
            self.replace(keys, all, next - part.run.count - ROOM, &part);
            return;
        }
        let part = self.part(keys, origin, edited, 0);
        if let Some(next) = part.next {
            let remainder = Origin {
                position: origin.position + part.count_before,
                place: next,
            };
            let joined = Edited {
                positions: remainder.position..=behind,
                edit: &Edit::Join,
            };
            let moved = self.part(keys, remainder, &joined, 0);
            self.replace(keys, remainder, next + part.run.count + ROOM, &moved);
        }
        let part = self.part(keys, origin, edited, 0);
        self.replace(keys, origin, origin.place, &part);
    }

    /// Reads the blocks from `origin` on up to the last changed by an edit, and applies it. Reads
    /// up to `near_max` more of them, until all fit before the next block.
    fn part(&self, keys: &mut Keyspace<'_, '_>, origin: Origin, edited: &Edited<'_>, near_max: usize) -> Part {
        let Edited { positions, edit } = edited;
        let mut part = Part::default();
        let mut near = 0;
        let bounds = (position_key(origin.place), self.places().1);
        self.elements
            .scan(keys.tx, &bounds.0, Some(&bounds.1), false, &mut |key, block| {
                let at = origin.position + part.count_before;
                if at > *positions.end() {
                    part.next = position_of(key);
                    part.has_room = part.next.is_some_and(|next| part.run.ends_before(next, origin.place));
                    if part.has_room || near == near_max {
                        return ControlFlow::Break(());
                    }
                    near += 1;
                }
                let mut elements: Several<'_> = packed::iter(block).collect();
                let count = elements.len() as i64;
                part.count_before += count;
                if matches!(edit, Edit::Join) || at > *positions.end() || at + count <= *positions.start() {
                    part.run.push(count, block.to_vec());
                } else {
                    edit.change(&mut elements, at, *positions.start());
                    part.run.pack(&elements);
                }
                part.next = None;
                ControlFlow::Continue(())
            });
        part.has_room |= part.next.is_none();
        part
    }

    /// Replaces a part, which starts at `origin`, by its new blocks at `place`.
    fn replace(&mut self, keys: &mut Keyspace<'_, '_>, origin: Origin, place: i64, part: &Part) {
        let end = part.next.map_or(self.places().1, position_key);
        self.elements
            .clear_range(keys.tx, &position_key(origin.place), Some(&end));
        let mut at = place;
        for (count, block) in &part.run.blocks {
            self.elements.set(keys.tx, &position_key(at), block);
            at += count;
        }
        let grown = part.run.count - part.count_before;
        let behind = self
            .shifts
            .partition_point(|shift| shift.from <= origin.position + part.count_before);
        let following: Shifts = self.shifts.drain(behind..).collect();
        self.shifts.retain(|shift| shift.from < origin.position);
        if part.run.count > 0 {
            self.stands_at(origin.position, place);
        }
        if let Some(next) = part.next {
            self.stands_at(origin.position + part.run.count, next);
        }
        self.shifts.extend(following.iter().map(|shift| Shift {
            from: shift.from + grown,
            by: shift.by - grown,
        }));
        self.count = self.count.saturating_add_signed(grown);
    }

    /// Records the place of the blocks from a position on; no later shift exists yet.
    fn stands_at(&mut self, position: i64, place: i64) {
        if self.place_of(position) != place {
            self.shifts.push(Shift {
                from: position,
                by: place - position,
            });
        }
    }

    /// Merges the two shifts that are closest to each other by moving the blocks between them.
    fn limit_shifts(&mut self, keys: &mut Keyspace<'_, '_>) {
        if self.shifts.len() <= SHIFTS_MAX {
            return;
        }
        let ends = self.shifts.iter().skip(1).map(|shift| shift.from);
        let pieces = self.shifts.iter().zip(ends.chain([self.between().1]));
        let shortest = pieces.min_by_key(|(shift, end)| end - shift.from);
        if let Some((from, end)) = shortest.map(|(shift, end)| (shift.from, end)) {
            self.edit_blocks(keys, from - 1, end - 1, &Edit::Join);
        }
    }

    /// Takes `depth` elements from an end, lets `edit` change them, the outermost being the first,
    /// and puts them back.
    fn rewrite(&mut self, keys: &mut Keyspace<'_, '_>, end: End, depth: u64, edit: impl FnOnce(&mut Vec<Vec<u8>>)) {
        let mut elements = self.outermost(keys, end, depth);
        edit(&mut elements);
        self.cut(keys, end, depth);
        elements.iter().rev().for_each(|element| self.push(end, element));
    }

    /// `count` elements from an end, the outermost first.
    pub fn outermost(&self, keys: &mut Keyspace<'_, '_>, end: End, count: u64) -> Vec<Vec<u8>> {
        let mut elements = Vec::new();
        if count > 0 {
            let _ = self.scan(keys, end, 0, &mut |element| {
                elements.push(element.to_vec());
                match (elements.len() as u64) < count {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
        }
        elements
    }
}

/// Reads the shifts at the start of `input`, and returns the remaining bytes.
fn read_shifts(flags: u8, input: &[u8]) -> Option<(Shifts, &[u8])> {
    if flags & FLAG_B == 0 {
        return Some((Shifts::new(), input));
    }
    let (count, input) = input.split_first()?;
    let (shifts, input) = input.split_at_checked(usize::from(*count) * SHIFT_BYTES)?;
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, i64::from_be_bytes);
    let shifts = shifts.chunks_exact(SHIFT_BYTES).map(|shift| Shift {
        from: number(&shift[..8]),
        by: number(&shift[8..]),
    });
    Some((shifts.collect(), input))
}

/// The flag for the presence of shifts, and their bytes.
fn written_shifts(shifts: &[Shift]) -> (u8, Vec<u8>) {
    let mut bytes = Vec::new();
    if shifts.is_empty() {
        return (0, bytes);
    }
    bytes.push(shifts.len() as u8);
    for Shift { from, by } in shifts {
        bytes.extend_from_slice(&from.to_be_bytes());
        bytes.extend_from_slice(&by.to_be_bytes());
    }
    (FLAG_B, bytes)
}

/// The contents of the key's row of a list in blocks besides the count.
pub struct Ends<'e> {
    /// First to last, as is the tail.
    pub head: Vec<&'e [u8]>,
    pub tail: Vec<&'e [u8]>,
    /// The position of the first element in a block.
    pub blocks_start: i64,
    shifts: Shifts,
}

impl<'e> Ends<'e> {
    /// `None` if no version has written such a row.
    pub fn of(entry: &'e Entry) -> Option<Ends<'e>> {
        let list = Blocks::read(entry)?;
        let elements = |side: &Side<'e>| {
            let all: Vec<&[u8]> = packed::iter(side.kept).collect();
            (packed::is_whole(side.kept) && all.len() as u64 == side.count).then_some(all)
        };
        let mut tail = elements(&list.tail)?;
        tail.reverse();
        list.shifts
            .is_sorted_by(|current, next| current.from < next.from)
            .then_some(())?;
        Some(Ends {
            head: elements(&list.head)?,
            tail,
            blocks_start: list.first.checked_add(list.head.count as i64)?,
            shifts: list.shifts,
        })
    }

    /// The place of a block that starts at this position.
    pub fn place_of(&self, position: i64) -> Option<i64> {
        place_of(&self.shifts, position)
    }
}

/// The row's value of a list's key as it is without shifts.
pub fn without_shifts(entry: &Entry, value: &[u8]) -> Vec<u8> {
    let mut value = value.to_vec();
    if entry.flags & FLAG_B != 0 {
        let at = entry.header_bytes() + ID_BYTES + NUMBERS_BYTES;
        let count = usize::from(value[at]);
        value.drain(at..at + 1 + count * SHIFT_BYTES);
        value[0] &= !FLAG_B;
    }
    value
}

/// The place of the block whose first element has this position, according to the shifts. `None`:
/// no such place exists.
fn place_of(shifts: &[Shift], position: i64) -> Option<i64> {
    let shift = shifts.iter().rev().find(|shift| shift.from <= position);
    position.checked_add(shift.map_or(0, |shift| shift.by))
}
