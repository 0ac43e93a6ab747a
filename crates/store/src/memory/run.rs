//! A short sorted run of rows, the body of every node of the tree: the rows of a leaf, the
//! separators of an inner node.
//!
//! Following row pointers dominates the cost of a search, so next to each row the run keeps its
//! *head*: eight bytes of its key as a big-endian number. Heads order as keys do, except that
//! different keys may have equal heads; only then are rows followed. Eight bytes distinguish little
//! when all keys share a prefix, so heads start after `skip` bytes:
//!
//! ```text
//! keys    user:1047  user:1051  user:1998      skip = 6
//! heads     047·····   051·····   998·····
//! ```
//!
//! A searched key must start with the skipped bytes as well. Mostly that needs no test: the
//! separators left and right of a node (its *fences*) share a prefix of `assured` bytes, hence so
//! does every key routed to it. Where the rows share enough beyond the fences that all heads would
//! be equal (at the edges of the tree, at the border of two tables), `skip > assured` and a search
//! compares the skipped bytes with the first row's.
//!
//! Invariants: rows strictly ascend by key; all share the same first `skip` bytes; `heads[i]` is
//! the head of `rows[i]` after `skip`; `assured` is the length of the fences' common prefix; an
//! empty run has `skip <= assured`.

use std::cmp::Ordering;
use std::ops::{Deref, DerefMut, Range};

use crate::interface::number_of;
use crate::prefetch::prefetch;
use crate::row::Row;

/// Laid out in the order of a search: the reference counts of the enclosing `Arc`, these fields and
/// the landmarks share a cache line.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct Run<const N: usize> {
    len: u16,
    assured: u32,
    skip: u32,
    heads: Heads<N>,
    /// The first `len` are present.
    rows: Rows<N>,
}

/// The heads, one in use per row. Those after the first fill cache lines of their own; the first
/// head of each such line is a landmark, so that a search visits the line of the landmarks and the
/// line that they select.
#[derive(Clone)]
#[repr(C)]
struct Heads<const N: usize> {
    /// The landmark of an unused line is the greatest number.
    landmarks: [u64; LINES],
    heads: [u64; N],
}

/// A cache line of most processors has eight words.
const HEADS_A_LINE: usize = 8;
/// Lines of heads beyond the first head.
const LINES: usize = 4;

impl<const N: usize> Heads<N> {
    const EMPTY: Heads<N> = {
        assert!(N <= 1 + LINES * HEADS_A_LINE);
        Heads {
            landmarks: [u64::MAX; LINES],
            heads: [0; N],
        }
    };

    /// To be called after each change.
    #[inline]
    fn mark(&mut self, len: usize) {
        for (line, landmark) in self.landmarks.iter_mut().enumerate() {
            *landmark = self.heads[..len].get(line_start(line)).copied().unwrap_or(u64::MAX);
        }
    }

    /// The start of the line that contains the first head not below `head`, or that precedes it.
    #[inline]
    fn line_of(&self, head: u64) -> usize {
        let below: usize = self
            .landmarks
            .iter()
            .map(|landmark| usize::from(*landmark < head))
            .sum();
        below.checked_sub(1).map_or(0, line_start)
    }

    /// The first of `len` heads that is not below `head`, given the line.
    #[inline]
    fn first_from(&self, start: usize, head: u64, len: usize) -> usize {
        let line = &self.heads[start..len.min(start + HEADS_A_LINE)];
        start + line.iter().map(|other| usize::from(*other < head)).sum::<usize>()
    }
}

/// The state of a search in a run.
#[derive(Clone, Copy)]
pub(crate) struct Lookup {
    head: u64,
    /// The start of the line of heads to be searched.
    line: usize,
}

#[inline]
fn line_start(line: usize) -> usize {
    1 + line * HEADS_A_LINE
}

impl<const N: usize> Deref for Heads<N> {
    type Target = [u64; N];

    fn deref(&self) -> &[u64; N] {
        &self.heads
    }
}

impl<const N: usize> DerefMut for Heads<N> {
    fn deref_mut(&mut self) -> &mut [u64; N] {
        &mut self.heads
    }
}

/// Handles of rows at arbitrary addresses. Copying and dropping them changes the count in each row,
/// so all rows are prefetched first.
struct Rows<const N: usize>([Option<Row>; N]);

impl<const N: usize> Rows<N> {
    const EMPTY: Rows<N> = Rows([const { None }; N]);

    fn fetch(&self) {
        self.0.iter().flatten().for_each(Row::prefetch);
    }
}

impl<const N: usize> Clone for Rows<N> {
    fn clone(&self) -> Rows<N> {
        self.fetch();
        Rows(self.0.clone())
    }
}

impl<const N: usize> Drop for Rows<N> {
    fn drop(&mut self) {
        self.fetch();
    }
}

impl<const N: usize> Deref for Rows<N> {
    type Target = [Option<Row>; N];

    fn deref(&self) -> &[Option<Row>; N] {
        &self.0
    }
}

impl<const N: usize> DerefMut for Rows<N> {
    fn deref_mut(&mut self) -> &mut [Option<Row>; N] {
        &mut self.0
    }
}

/// The separators around a node: its keys are at least `low` and below `high`. `None` is the edge
/// of the tree.
#[derive(Clone, Copy)]
pub(crate) struct Fences<'a> {
    pub low: Option<&'a Row>,
    pub high: Option<&'a Row>,
}

impl Fences<'_> {
    pub const OPEN: Fences<'static> = Fences { low: None, high: None };

    /// The length of the prefix that every key between the fences shares.
    fn assured(&self) -> u32 {
        match (self.low, self.high) {
            (Some(low), Some(high)) => common_prefix(low.key(), high.key()) as u32,
            _ => 0,
        }
    }
}

impl<const N: usize> Run<N> {
    pub fn empty() -> Run<N> {
        Run {
            len: 0,
            assured: 0,
            skip: 0,
            heads: Heads::EMPTY,
            rows: Rows::EMPTY,
        }
    }

    /// At most `N` rows in ascending order of their keys, all between the fences.
    pub fn new(rows: impl Iterator<Item = Row>, fences: Fences<'_>) -> Run<N> {
        let mut run = Run::empty();
        for (slot, row) in run.rows.iter_mut().zip(rows) {
            *slot = Some(row);
            run.len += 1;
        }
        run.assured = fences.assured();
        run.skip = run.skip_wanted();
        run.follow_rows();
        run
    }

    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// All rows; each is present.
    pub fn rows(&self) -> &[Option<Row>] {
        &self.rows[..self.len()]
    }

    /// The slots of all rows that fit. Accesses no memory of the run.
    pub fn slots(&self) -> &[Option<Row>; N] {
        &self.rows
    }

    pub fn row(&self, index: usize) -> &Row {
        self.rows()[index].as_ref().expect("a row below the length is present")
    }

    pub fn last(&self) -> &Row {
        self.row(self.len() - 1)
    }

    /// Starts a search for a key between the fences: visits the first line of the run, and
    /// prefetches the line that the search visits next. Returns `None` where the rest of the search
    /// depends on more than heads.
    #[inline]
    pub fn seek(&self, key: &[u8]) -> Option<Lookup> {
        if self.skip > self.assured {
            return None;
        }
        let head = head(key, self.skip as usize);
        let line = self.heads.line_of(head);
        prefetch(self.heads.as_ptr().wrapping_add(line));
        Some(Lookup { head, line })
    }

    /// Continues a search: the index of the row that, by the heads only, is at the key or follows
    /// it.
    #[inline]
    pub fn index_near(&self, sought: Lookup) -> usize {
        self.heads.first_from(sought.line, sought.head, self.len())
    }

    /// The same, and the place of its handle.
    #[inline]
    pub fn slot_near(&self, sought: Lookup) -> Option<&Option<Row>> {
        self.rows.get(self.index_near(sought))
    }

    /// The index of the single row that, by the heads only, may be at the key.
    #[inline]
    pub fn index_at(&self, sought: Lookup) -> Option<usize> {
        let index = self.index_near(sought);
        let mut heads = self.heads[index..self.len()].iter();
        let is_alone = heads.next() == Some(&sought.head) && heads.next() != Some(&sought.head);
        is_alone.then_some(index)
    }

    /// The index of `key`, or its place of insertion. The key is between the fences.
    pub fn find(&self, key: &[u8]) -> Result<usize, usize> {
        if self.skip > self.assured {
            match self.beside_prefix(key) {
                Ordering::Less => return Err(0),
                Ordering::Greater => return Err(self.len()),
                Ordering::Equal => {}
            }
        }
        let head = head(key, self.skip as usize);
        let line = self.heads.line_of(head);
        self.find_sought(Lookup { head, line }, key)
    }

    /// Completes a search started by [`Run::seek`].
    #[inline]
    pub fn find_sought(&self, sought: Lookup, key: &[u8]) -> Result<usize, usize> {
        let first = self.heads.first_from(sought.line, sought.head, self.len());
        let heads = &self.heads[..self.len()];
        if heads.get(first) != Some(&sought.head) {
            return Err(first);
        }
        let skip = self.skip as usize;
        let equal = heads[first..].iter().take_while(|other| **other == sought.head).count();
        let tail = &key[skip..];
        // Keys in ascending order, such as a stream's, sometimes have the same head as their
        // predecessors.
        if equal > 1 && first + equal == heads.len() && rest_of(&self.rows[heads.len() - 1], skip) < tail {
            return Err(heads.len());
        }
        let alike = &self.rows[first..first + equal];
        let found = match equal {
            1 => alike.binary_search_by(|row| rest_of(row, skip).cmp(tail)),
            _ => search_by_next_head(alike, skip, tail),
        };
        match found {
            Ok(index) => Ok(first + index),
            Err(index) => Err(first + index),
        }
    }

    /// The number of rows below `key`.
    pub fn rank(&self, key: &[u8]) -> usize {
        self.find(key).unwrap_or_else(|index| index)
    }

    /// Reads the last eight bytes of keys as big-endian numbers, for a range of rows with keys of
    /// `key_bytes` bytes. Follows all rows only where the heads do not hold the ends of the keys.
    pub fn read_numbers(&self, rows: Range<usize>, key_bytes: usize, numbers: &mut [u64]) {
        let Some(Some(first)) = self.rows[rows.clone()].first() else {
            return;
        };
        let Some(skipped) = (self.skip as usize + size_of::<u64>()).checked_sub(key_bytes) else {
            let rows = self.rows[rows].iter().flatten();
            rows.clone().for_each(Row::prefetch);
            numbers
                .iter_mut()
                .zip(rows)
                .for_each(|(number, row)| *number = number_of(row.key()));
            return;
        };
        let bits = 8 * skipped as u32;
        let alike = number_of(first.key()) & !u64::MAX.checked_shr(bits).unwrap_or(0);
        for (number, head) in numbers.iter_mut().zip(&self.heads[rows]) {
            *number = alike | head.checked_shr(bits).unwrap_or(0);
        }
    }

    /// Inserts where `find` said, into a run that is not full.
    pub fn insert(&mut self, index: usize, row: Row) {
        let len = self.len();
        if self.skip > self.assured && self.beside_prefix(row.key()).is_ne() {
            // It sorts before or after all others, which share a longer prefix with each other than
            // with it.
            let alike = common_prefix(row.key(), self.row(0).key()) as u32;
            self.move_heads(self.worthwhile(alike));
        }
        self.heads.copy_within(index..len, index + 1);
        self.heads[index] = head(row.key(), self.skip as usize);
        self.rows[index..=len].rotate_right(1);
        self.rows[index] = Some(row);
        self.len += 1;
        self.heads.mark(len + 1);
    }

    /// Replaces the row with the same key and returns the old row.
    pub fn replace(&mut self, index: usize, row: Row) -> Row {
        self.rows[index]
            .replace(row)
            .expect("a row below the length is present")
    }

    pub fn remove(&mut self, index: usize) -> Row {
        let row = self.rows[index].take().expect("a row below the length is present");
        self.close(index, index + 1);
        row
    }

    /// Moves the rows from `from` up to, not including, `to` into a run of their own.
    pub fn take(&mut self, from: usize, to: usize) -> Run<N> {
        let mut run = Run {
            len: (to - from) as u16,
            assured: self.assured,
            skip: self.skip,
            ..Run::empty()
        };
        run.heads[..to - from].copy_from_slice(&self.heads[from..to]);
        run.heads.mark(to - from);
        run.rows[..to - from].swap_with_slice(&mut self.rows[from..to]);
        run.settle();
        self.close(from, to);
        run
    }

    /// Appends the rows of the right neighbour, which fit; `fences` are those around both.
    pub fn append(&mut self, mut right: Run<N>, fences: Fences<'_>) {
        self.assured = fences.assured();
        let skip = match (self.len, right.len) {
            (0, _) => right.skip.min(self.assured),
            (_, 0) => self.skip.min(self.assured),
            _ => self.worthwhile(common_prefix(self.row(0).key(), right.last().key()) as u32),
        };
        self.move_heads(skip);
        right.move_heads(skip);
        let (len, more) = (self.len(), right.len());
        self.heads[len..len + more].copy_from_slice(&right.heads[..more]);
        self.heads.mark(len + more);
        self.rows[len..len + more].swap_with_slice(&mut right.rows[..more]);
        self.len += right.len;
    }

    /// Adapts to new fences. Heads that still distinguish keys are kept, because computing new ones
    /// follows every row.
    pub fn fit(&mut self, fences: Fences<'_>) {
        self.assured = fences.assured();
        let tell_apart = self.heads_tell_apart();
        if self.skip > self.assured || !tell_apart {
            let skip = self.skip_wanted();
            if skip < self.skip || !tell_apart {
                self.move_heads(skip);
            }
        }
    }

    fn heads_tell_apart(&self) -> bool {
        let Some(last) = self.len().checked_sub(1) else {
            return true;
        };
        (self.heads[0] ^ self.heads[last]).leading_zeros() < 32
    }

    /// Drops the emptied slots `from..to`.
    fn close(&mut self, from: usize, to: usize) {
        let len = self.len();
        self.heads.copy_within(to..len, from);
        self.rows[from..len].rotate_left(to - from);
        self.len -= (to - from) as u16;
        self.heads.mark(self.len());
        self.settle();
    }

    /// Without a first row there is nothing to compare skipped bytes with.
    fn settle(&mut self) {
        if self.len == 0 {
            self.skip = self.skip.min(self.assured);
        }
    }

    /// Returns the bytes to skip, given the rows and the fences.
    fn skip_wanted(&self) -> u32 {
        match self.len {
            0 => self.assured,
            _ => self.worthwhile(common_prefix(self.row(0).key(), self.last().key()) as u32),
        }
    }

    /// Returns the bytes to skip if `alike` bytes are equal in all rows: more than the fences
    /// assure only where a head would be wasted otherwise.
    fn worthwhile(&self, alike: u32) -> u32 {
        if alike >= self.assured + 8 { alike } else { self.assured }
    }

    /// Recomputes the heads after `skip` bytes, in which all rows agree. If `skip` decreases, one
    /// row is followed and not all of them: the bytes that enter the heads at the front are equal
    /// in all rows, too.
    fn move_heads(&mut self, skip: u32) {
        let before = std::mem::replace(&mut self.skip, skip);
        if skip > before {
            self.follow_rows();
        } else if skip < before && self.len > 0 {
            let first = head(self.row(0).key(), skip as usize);
            let bits = 8 * (before - skip);
            let mask = u64::MAX.checked_shr(bits).unwrap_or(0);
            for slot in &mut self.heads[..usize::from(self.len)] {
                *slot = first & !mask | slot.checked_shr(bits).unwrap_or(0);
            }
            self.heads.mark(self.len());
        }
    }

    fn follow_rows(&mut self) {
        let skip = self.skip as usize;
        for (slot, row) in self.heads.iter_mut().zip(self.rows.iter().flatten()) {
            *slot = head(row.key(), skip);
        }
        self.heads.mark(self.len());
    }

    /// Compares the first bytes of `key` with the bytes that all rows skip.
    fn beside_prefix(&self, key: &[u8]) -> Ordering {
        let skip = self.skip as usize;
        key[..key.len().min(skip)].cmp(&self.row(0).key()[..skip])
    }

    /// No two rows have the same head.
    #[cfg(test)]
    pub fn heads_differ(&self) -> bool {
        self.heads[..self.len()].windows(2).all(|pair| pair[0] != pair[1])
    }

    /// Panics unless every invariant holds; for tests.
    #[cfg(test)]
    pub fn check(&self, fences: Fences<'_>) {
        assert_eq!(self.assured, fences.assured());
        assert!(self.len > 0 || self.skip <= self.assured);
        assert!(self.rows[self.len()..].iter().all(Option::is_none));
        for index in 0..self.len() {
            let key = self.row(index).key();
            assert!(fences.low.is_none_or(|low| low.key() <= key) && fences.high.is_none_or(|high| key < high.key()));
            assert!(index == 0 || self.row(index - 1).key() < key);
            assert_eq!(self.row(0).key()[..self.skip as usize], key[..self.skip as usize]);
            assert_eq!(self.heads[index], head(key, self.skip as usize));
        }
        for (line, landmark) in self.heads.landmarks.iter().enumerate() {
            let heads = &self.heads[..self.len()];
            assert_eq!(*landmark, heads.get(line_start(line)).copied().unwrap_or(u64::MAX));
        }
    }
}

/// A key that separates two neighbours: above `left`, at most `right`, and no longer than needed,
/// so that separators stay small and fences keep no value alive.
pub(crate) fn separator(left: &Row, right: &Row) -> Row {
    let shared = common_prefix(left.key(), right.key());
    Row::new(&right.key()[..=shared], b"", quartet_model::Version::ZERO)
}

/// Searches rows with equal heads by the eight bytes after them. At the border of two tables, and
/// at the edges of the tree, the fences assure so little that all separators of a table have one
/// head; comparing whole keys there was a twentieth of a request's instructions.
fn search_by_next_head(rows: &[Option<Row>], skip: usize, tail: &[u8]) -> Result<usize, usize> {
    let sought = next_head(tail);
    rows.binary_search_by(|row| {
        let row_tail = rest_of(row, skip);
        next_head(row_tail).cmp(&sought).then_with(|| row_tail.cmp(tail))
    })
}

/// The second eight bytes of `tail`, as [`head`] has the first; without a copy, since the ends of
/// separators are mostly shorter.
fn next_head(tail: &[u8]) -> u64 {
    const BYTES: usize = size_of::<u64>();
    match (tail.len().saturating_sub(BYTES), tail.last_chunk()) {
        (0, _) | (_, None) => 0,
        (count @ 1..BYTES, Some(last)) => u64::from_be_bytes(*last) << (8 * (BYTES - count)),
        _ => head(tail, BYTES),
    }
}

/// Eight bytes of `key` after `skip`, as a number with the same order; a shorter rest is padded
/// with zeros.
fn head(key: &[u8], skip: usize) -> u64 {
    let tail = &key[skip..];
    if let Some(bytes) = tail.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..tail.len()].copy_from_slice(tail);
    u64::from_be_bytes(bytes)
}

fn rest_of(row: &Option<Row>, skip: usize) -> &[u8] {
    &row.as_ref().expect("a row below the length is present").key()[skip..]
}

/// The length of the common prefix.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
