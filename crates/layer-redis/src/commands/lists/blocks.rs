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
//! What changes the number of elements in the middle moves all between there and the nearer end, which is rewritten. That LINSERT and
//! LREM search from an end anyway; LSET does it only where a long element comes among short ones. Blocks of a fixed number of elements,
//! with long ones behind references, would move less; but a range of long elements would be a descent for each of them.
//!
//! Invariants: ends, and blocks of several elements, hold short elements only; no block is empty; `count` is that of all elements.

use std::ops::ControlFlow;

use quartet_store::Row;
use smallvec::SmallVec;

use crate::keyspace::{Elements, Entry, FLAG_A, Header, Keyspace, LARGE};
use crate::packed;

/// Of the packed elements of an end or a block; those that LSET has made longer may take more.
const BLOCK_BYTES_MAX: usize = 256;
/// Longer elements stand alone. Below 128, so that a packed length is one byte.
const SHORT_BYTES_MAX: usize = 64;
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
    added: SmallVec<[u8; 96]>,
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
        if !is_short || self.side(end).bytes() + 1 + value.len() > BLOCK_BYTES_MAX {
            self.become_block(end);
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

    /// Replaces the element at `index`. True if the key's row is as it was.
    pub fn set(&mut self, keys: &mut Keyspace<'_, '_>, index: u64, value: &[u8]) -> bool {
        let is_short = value.len() <= SHORT_BYTES_MAX;
        let (end, depth) = match index < self.count / 2 {
            true => (End::Left, index),
            false => (End::Right, self.count - 1 - index),
        };
        if depth >= self.side(end).count && self.set_in_block(keys, index, value, is_short) {
            return true;
        }
        self.rewrite(keys, end, depth + 1, |elements| {
            if let Some(innermost) = elements.last_mut() {
                *innermost = value.to_vec();
            }
        });
        false
    }

    /// True if the element stands in a block that may hold `value` in its place; then it does.
    fn set_in_block(&self, keys: &mut Keyspace<'_, '_>, index: u64, value: &[u8], is_short: bool) -> bool {
        let position = self.first + index as i64;
        let (start, behind) = self.between();
        let found = (start..behind)
            .contains(&position)
            .then(|| self.block_of(keys, position));
        let Some((at, row)) = found.flatten() else {
            return false;
        };
        let mut elements: Several<'_> = packed::iter(row.value()).collect();
        let count = elements.len();
        match elements.get_mut((position - at) as usize) {
            Some(element) if is_short || count == 1 => *element = value,
            _ => return false,
        }
        self.elements
            .set(keys.tx, &position_key(at), &pack(elements.into_iter()));
        true
    }

    /// Inserts an element so that `index` is its own.
    pub fn insert(&mut self, keys: &mut Keyspace<'_, '_>, index: u64, value: &[u8]) {
        let (end, depth) = match index <= self.count / 2 {
            true => (End::Left, index),
            false => (End::Right, self.count - index),
        };
        self.rewrite(keys, end, depth, |elements| elements.push(value.to_vec()));
    }

    /// Removes the elements at `indexes`, which ascend.
    pub fn remove(&mut self, keys: &mut Keyspace<'_, '_>, indexes: &[u64]) {
        let (Some(&first), Some(&last)) = (indexes.first(), indexes.last()) else {
            return;
        };
        let count = self.count;
        let (end, depth) = match last < count - first {
            true => (End::Left, last + 1),
            false => (End::Right, count - first),
        };
        self.rewrite(keys, end, depth, |elements| {
            let mut depth = 0;
            elements.retain(|_| {
                let index = if end == End::Left { depth } else { count - 1 - depth };
                depth += 1;
                indexes.binary_search(&index).is_err()
            });
        });
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
