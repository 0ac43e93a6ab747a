//! A large list in blocks: its ends stand in the key's own row, what lies between them in rows of several elements each.
//!
//! ```text
//! payload: id (10 bytes) | count u64 | first i64 | head: count u16, bytes u16 | tail: count u16 | head | tail     big-endian
//!          head and tail are elements, packed; the outermost is the first of either
//! block row: the position of its first element, order-preserving -> its elements, packed, first to last
//! ```
//!
//! The element at an index has the position `first` + index. Head, blocks and tail follow each other without a gap, so the block of
//! an index is found by one descent, and a push or a pop writes the key's row alone. An end that has no room becomes a block, and an
//! empty one takes in the block beside it, or the other end if there is none. So about every [`BLOCK_BYTES_MAX`] a second row is written.
//! An element longer than [`SHORT_BYTES_MAX`] is a block by itself: no push copies it again.
//!
//! What both ends hold is copied and logged with each push or pop. So when one end becomes a block, or takes one in, the other follows: a
//! list that is only pushed to at one end carries nothing of the other.
//!
//! What changes the number of elements in the middle moves the blocks between there and the nearer end, as they are; LINSERT and LREM have
//! searched from an end by then. Blocks of a fixed number of elements, with long ones behind references, would be less to move; but a
//! range of long elements would be a descent for each of them.
//!
//! Invariants: ends, and blocks of several elements, hold short elements only; no block is empty; `count` is that of all elements.

use std::ops::ControlFlow;

use quartet_store::Row;
use smallvec::SmallVec;

use crate::keyspace::{Elements, Entry, FLAG_A, Header, Keyspace, LARGE};
use crate::packed;

/// Of the packed elements of an end or a block; those that LSET has made longer may take more. Each push or pop logs both ends.
const BLOCK_BYTES_MAX: usize = 128;
/// Longer elements stand alone: fewer than three would share a block. Below 128, so that a packed length is one byte.
const SHORT_BYTES_MAX: usize = 40;
const ID_BYTES: usize = 10;
const NUMBERS_BYTES: usize = 8 + 8 + 2 + 2 + 2;

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

/// What an end holds, the outermost element first.
#[derive(Default)]
struct Side<'e> {
    count: u64,
    /// What has come there since the row was read: it lies outside of `kept`.
    added: SmallVec<[u8; 64]>,
    kept: &'e [u8],
}

impl<'e> Side<'e> {
    fn read(count: u16, kept: &'e [u8]) -> Side<'e> {
        Side {
            count: count.into(),
            kept,
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
            let mut rest = packed::iter(self.kept);
            popped = Popped::from_slice(rest.next()?);
            self.kept = rest.as_bytes();
        } else {
            let mut rest = packed::iter(&self.added);
            popped = Popped::from_slice(rest.next()?);
            let left_bytes = rest.as_bytes().len();
            self.added.drain(..self.added.len() - left_bytes);
        }
        self.count -= 1;
        Some(popped)
    }

    /// Holds `elements` instead of what it held.
    fn hold(&mut self, elements: &[&[u8]]) {
        let bytes = pack(elements.iter().copied());
        *self = Side {
            count: elements.len() as u64,
            added: bytes.into(),
            kept: b"",
        };
    }
}

/// A change of how many elements stand in blocks.
enum Edit<'v> {
    /// At the lowest position.
    Insert(&'v [u8]),
    /// Those whose position is so.
    Remove(&'v dyn Fn(i64) -> bool),
}

/// Elements as blocks, each with their number.
fn blocks(elements: &[&[u8]]) -> Vec<(usize, Vec<u8>)> {
    let mut blocks: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut is_open = false;
    for element in elements {
        let is_short = element.len() <= SHORT_BYTES_MAX;
        match blocks.last_mut() {
            Some((count, block)) if is_open && is_short && block.len() + 1 + element.len() <= BLOCK_BYTES_MAX => {
                packed::push(block, element);
                *count += 1;
            }
            _ => blocks.push((1, pack(std::iter::once(*element)))),
        }
        is_open = is_short;
    }
    blocks
}

fn pack<'a>(elements: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    elements.for_each(|element| packed::push(&mut bytes, element));
    bytes
}

/// A large list as its key's row tells it.
pub struct Blocks<'e> {
    elements: Elements,
    pub count: u64,
    first: i64,
    head: Side<'e>,
    tail: Side<'e>,
    /// Blocks to be written behind the key's row, so that who follows the log knows whose they are. Nothing reads the list meanwhile.
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
        let (count, rest) = entry.large_payload().split_first_chunk()?;
        let (first, rest) = rest.split_first_chunk()?;
        let (head_count, rest) = rest.split_first_chunk()?;
        let (head_bytes, rest) = rest.split_first_chunk()?;
        let (tail_count, rest) = rest.split_first_chunk()?;
        let (head, tail) = rest.split_at_checked(u16::from_be_bytes(*head_bytes).into())?;
        Some(Blocks {
            elements: entry.elements(),
            count: u64::from_be_bytes(*count),
            first: i64::from_be_bytes(*first),
            head: Side::read(u16::from_be_bytes(*head_count), head),
            tail: Side::read(u16::from_be_bytes(*tail_count), tail),
            full: Vec::new(),
        })
    }

    /// Writes the key's row and what has become blocks; removes a list that has become empty.
    pub fn write(&mut self, keys: &mut Keyspace<'_, '_>, name: &[u8], header: Header) {
        if self.count == 0 {
            keys.remove(name);
            return;
        }
        let mut start = [0; ID_BYTES + NUMBERS_BYTES];
        start[..10].copy_from_slice(self.elements.id());
        start[10..18].copy_from_slice(&self.count.to_be_bytes());
        start[18..26].copy_from_slice(&self.first.to_be_bytes());
        start[26..28].copy_from_slice(&(self.head.count as u16).to_be_bytes());
        start[28..30].copy_from_slice(&(self.head.bytes() as u16).to_be_bytes());
        start[30..].copy_from_slice(&(self.tail.count as u16).to_be_bytes());
        let (head, tail) = (&self.head, &self.tail);
        let parts = [&start, &*head.added, head.kept, &tail.added, tail.kept];
        keys.put_parts(name, header.flags(LARGE | FLAG_A), &parts);
        for (position, block) in self.full.drain(..) {
            self.elements.set(keys.tx, &position_key(position), &block);
        }
    }

    fn side(&mut self, end: End) -> &mut Side<'e> {
        match end {
            End::Left => &mut self.head,
            End::Right => &mut self.tail,
        }
    }

    /// The positions of what stands in blocks: the first, and that behind the last.
    fn between(&self) -> (i64, i64) {
        let start = self.first + self.head.count as i64;
        (start, self.first + (self.count - self.tail.count) as i64)
    }

    /// So many elements are gone from an end.
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
            self.full.push((position, pack(std::iter::once(value))));
        }
    }

    /// What an end holds becomes a block beside it.
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
        self.full.push((position, pack(elements.into_iter())));
    }

    /// Removes the element at an end. `None` if it could not be read.
    pub fn pop(&mut self, keys: &mut Keyspace<'_, '_>, end: End) -> Option<Popped> {
        let popped = match self.side(end).take() {
            Some(popped) => popped,
            None => self.pop_beside(keys, end)?,
        };
        self.shrink(end, 1);
        Some(popped)
    }

    /// The end is empty: takes in what is next to it, all but the outermost element, which is answered.
    fn pop_beside(&mut self, keys: &mut Keyspace<'_, '_>, end: End) -> Option<Popped> {
        let (start, behind) = self.between();
        let (row, other);
        let mut is_turned = true;
        let mut elements: Several<'_> = if start < behind {
            let (start, behind) = (position_key(start), position_key(behind));
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
        let (outermost, rest) = elements.split_first()?;
        self.side(end).hold(rest);
        // Smaller ones stay, or pops of a short queue would leave ever smaller blocks, each of which ends in such a pop.
        if self.side(end.other()).bytes() > BLOCK_BYTES_MAX / 2 {
            self.become_block(end.other());
        }
        Some(Popped::from_slice(outermost))
    }

    /// Removes `count` elements from an end, of which there must be so many.
    pub fn cut(&mut self, keys: &mut Keyspace<'_, '_>, end: End, count: u64) {
        let own = self.side(end).count;
        if count < own {
            let side = std::mem::take(self.side(end));
            let kept: Several<'_> = side.iter().skip(count as usize).collect();
            self.side(end).hold(&kept);
            return self.shrink(end, count);
        }
        *self.side(end) = Side::default();
        self.shrink(end, own);
        let (start, behind) = self.between();
        let (count, in_blocks) = (count - own, (behind - start) as u64);
        if count < in_blocks {
            return self.cut_blocks(keys, end, count);
        }
        self.clear(keys, start, behind);
        self.shrink(end, in_blocks);
        let other = std::mem::take(self.side(end.other()));
        let kept: Several<'_> = other
            .iter()
            .take((other.count - (count - in_blocks)) as usize)
            .collect();
        self.side(end.other()).hold(&kept);
        self.shrink(end, count - in_blocks);
    }

    /// Removes fewer elements than there are in blocks. The end, which is empty, takes what is left of the last block that was cut.
    fn cut_blocks(&mut self, keys: &mut Keyspace<'_, '_>, end: End, count: u64) {
        if count == 0 {
            return;
        }
        let (start, behind) = self.between();
        let border = match end {
            End::Left => start + count as i64,
            End::Right => behind - count as i64,
        };
        let Some((position, row)) = self.block_of(keys, border - 1) else {
            return;
        };
        let elements: Several<'_> = packed::iter(row.value()).collect();
        let (left, right) = elements.split_at(elements.len().min((border - position) as usize));
        let is_split = !right.is_empty();
        match end {
            End::Left => self.clear(keys, start, if is_split { position + 1 } else { border }),
            End::Right => self.clear(keys, if is_split { position } else { border }, behind),
        }
        self.shrink(end, count);
        match end {
            _ if !is_split => {}
            End::Left => self.head.hold(right),
            End::Right => self.tail.hold(&left.iter().rev().copied().collect::<Several<'_>>()),
        }
    }

    fn clear(&self, keys: &mut Keyspace<'_, '_>, start: i64, end: i64) {
        if start < end {
            let (start, end) = (position_key(start), position_key(end));
            self.elements.clear_range(keys.tx, &start, Some(&end));
        }
    }

    /// The block that holds a position between the ends, and where it begins.
    fn block_of(&self, keys: &mut Keyspace<'_, '_>, position: i64) -> Option<(i64, Row)> {
        let (start, _) = self.between();
        let end = position_key(position + 1);
        let row = self.elements.last(keys.tx, &position_key(start), Some(&end))?;
        Some((position_of(Elements::name(&row))?, row))
    }

    /// Visits the elements from an end, but for the first `skip`, until `visit` breaks.
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
        let (mut start, behind) = self.between();
        if start < from {
            start = self.block_of(keys, from).map_or(from, |(position, _)| position);
        }
        let mut flow = ControlFlow::Continue(());
        let mut skip = (from - start) as usize;
        let (start, behind) = (position_key(start), position_key(behind));
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
        let (start, _) = self.between();
        let mut flow = ControlFlow::Continue(());
        let (start, end) = (position_key(start), position_key(before));
        self.elements
            .scan(keys.tx, &start, Some(&end), true, &mut |key, block| {
                let count = position_of(key).map_or(0, |position| (before - position) as usize);
                let elements: Several<'_> = packed::iter(block).take(count).collect();
                flow = elements.into_iter().rev().try_for_each(&mut *visit);
                flow
            });
        flow
    }

    /// The end in whose part of the key's row an element stands, and how many are outside of it. `None`: it stands in a block.
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
        let Some((at, row)) = self.block_of(keys, position) else {
            return true;
        };
        let mut elements: Several<'_> = packed::iter(row.value()).collect();
        if let Some(element) = elements.get_mut((position - at) as usize) {
            *element = value;
        }
        // Lengths that change stay in their block, but for a long element among others.
        let blocks = match value.len() <= SHORT_BYTES_MAX || elements.len() == 1 {
            true => vec![(elements.len(), pack(elements.into_iter()))],
            false => blocks(&elements),
        };
        self.write_blocks(keys, at, blocks);
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
        let (head, rest) = indexes.split_at(indexes.partition_point(|index| *index < self.head.count));
        let (within, tail) = rest.split_at(rest.partition_point(|index| self.end_of(*index).is_none()));
        let count = self.count;
        for (end, indexes) in [(End::Left, head), (End::Right, tail)] {
            let side = std::mem::take(self.side(end));
            let mut kept = Several::new();
            for (depth, element) in (0..).zip(side.iter()) {
                let index = if end == End::Left { depth } else { count - 1 - depth };
                if indexes.binary_search(&index).is_err() {
                    kept.push(element);
                }
            }
            self.side(end).hold(&kept);
            self.shrink(end, indexes.len() as u64);
        }
        if let (Some(&lowest), Some(&highest)) = (within.first(), within.last()) {
            let first = self.first - head.len() as i64;
            let goes = |position: i64| within.binary_search(&((position - first) as u64)).is_ok();
            let (lowest, highest) = (first + lowest as i64, first + highest as i64);
            self.edit_blocks(keys, lowest, highest, &Edit::Remove(&goes));
        }
    }

    /// Changes the blocks that hold the positions from `lowest` to `highest`. Those between them and the nearer end move.
    fn edit_blocks(&mut self, keys: &mut Keyspace<'_, '_>, lowest: i64, highest: i64, edit: &Edit<'_>) {
        let (start, behind) = self.between();
        let Some((inner, _)) = self.block_of(keys, lowest) else {
            return;
        };
        let end = if highest - start < behind - inner {
            End::Left
        } else {
            End::Right
        };
        let (from, to) = if end == End::Left {
            (start, highest + 1)
        } else {
            (inner, behind)
        };
        let mut edited = Vec::new();
        let (mut count_before, mut count) = (0, 0);
        let bounds = (position_key(from), position_key(to));
        self.elements
            .scan(keys.tx, &bounds.0, Some(&bounds.1), false, &mut |key, block| {
                let mut elements: Several<'_> = packed::iter(block).collect();
                let at = from + count_before;
                count_before += elements.len() as i64;
                if at <= highest && lowest < from + count_before {
                    match edit {
                        Edit::Insert(value) => elements.insert((lowest - at) as usize, value),
                        Edit::Remove(goes) => {
                            let mut positions = at..;
                            elements.retain(|_| !positions.next().is_some_and(goes));
                        }
                    }
                    edited.extend(blocks(&elements));
                } else {
                    edited.push((elements.len(), block.to_vec()));
                }
                debug_assert_eq!(position_of(key), Some(at));
                count += elements.len() as i64;
                ControlFlow::Continue(())
            });
        self.clear(keys, from, to);
        let grown = count - count_before;
        self.count = self.count.saturating_add_signed(grown);
        let mut at = from;
        if end == End::Left {
            self.first -= grown;
            at -= grown;
        }
        self.write_blocks(keys, at, edited);
    }

    /// Writes blocks that follow each other.
    fn write_blocks(&self, keys: &mut Keyspace<'_, '_>, mut at: i64, blocks: Vec<(usize, Vec<u8>)>) {
        for (count, block) in blocks {
            self.elements.set(keys.tx, &position_key(at), &block);
            at += count as i64;
        }
    }

    /// Takes `depth` elements from an end, lets `edit` change them, the outermost being the first, and puts them back.
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

/// What the key's row of a list in blocks says besides the count.
pub struct Ends<'e> {
    /// First to last, as is the tail.
    pub head: Vec<&'e [u8]>,
    pub tail: Vec<&'e [u8]>,
    /// The position of the first element that stands in a block.
    pub blocks_start: i64,
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
        Some(Ends {
            head: elements(&list.head)?,
            tail,
            blocks_start: list.first.checked_add(list.head.count as i64)?,
        })
    }
}
