//! One row: key, value and the version that wrote it, as one pointer of eight bytes.
//!
//! A database of small rows is mostly row headers and pointers, so a row is one allocation, its
//! handle is thin, and the header has two forms:
//!
//! ```text
//! Row ──> short  | count 12 bits, version's top 4 | version, 48 bits | key bytes u8, not 0 | value bytes u8     | key | value
//!         long   | count u32 | value bytes u32    | 0 u8 | key bytes, 24 bits | version 2 x u32                 | key | value
//! ```
//!
//! A short header is 10 bytes. It serves keys and values of at most 255 bytes and versions below
//! 2^52, which the clock reaches in 2112; a long one is 20 bytes and serves the rest. The byte at
//! offset 8 distinguishes them. A short row counts its handles in few bits, which old versions of a
//! frequently written node would exhaust: beyond the limit, a clone of the row is a copy.
//!
//! The handle is never null, so `Option<Row>` is eight bytes too.
//!
//! Besides `prefetch.rs` this is the only file of the crate with unsafe code. Invariants: except
//! the count, the bytes are written once, before the first handle exists, and never change; the
//! allocation lives until the last handle is dropped; every handle's pointer may reach the whole
//! allocation.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::fmt;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use quartet_model::Version;

use crate::prefetch::prefetch;

/// A shared, immutable row. Cloning counts a reference and copies nothing, except for short rows
/// with thousands of handles.
pub struct Row {
    start: NonNull<u8>,
}

#[repr(C)]
struct Short {
    /// The count of handles, and in the upper bits the highest of the version.
    count: AtomicU16,
    /// From low to high.
    version: [u16; 3],
    /// Not 0: that is a long header.
    key_bytes: u8,
    value_bytes: u8,
}

#[repr(C)]
struct Long {
    count: AtomicU32,
    value_bytes: u32,
    /// 0 where a short header has the length of its key.
    form: u8,
    /// From low to high.
    key_bytes: [u8; 3],
    /// Low half, then high half.
    version: [u32; 2],
}

enum Header<'a> {
    Short(&'a Short),
    Long(&'a Long),
}

const FORM_OFFSET: usize = offset_of!(Short, key_bytes);
const _: () = assert!(FORM_OFFSET == offset_of!(Long, form));

const SHORT_BYTES: usize = size_of::<Short>();
const LONG_BYTES: usize = size_of::<Long>();

/// Versions of short rows are below.
const SHORT_VERSION_END: u64 = 1 << 52;
/// The bits of a short header's count that count.
const SHORT_COUNT: u16 = (1 << 12) - 1;
/// Number of handles of a short row beyond which a clone is a copy. The rest up to [`SHORT_COUNT`]
/// is for threads that reach this limit simultaneously, each of which briefly counts one.
const SHORT_SHARED_MAX: u16 = SHORT_COUNT / 2;
/// The same of a long row, where going beyond is given up: there is no room for as many handles.
const LONG_SHARED_MAX: u32 = u32::MAX / 2;
/// Keys of long rows are shorter.
const LONG_KEY_END: usize = 1 << 24;

/// Bytes of all rows of this process: rows of a store, rows of its snapshots, and rows about to be
/// freed.
static ALL_ROWS_BYTES: AtomicU64 = AtomicU64::new(0);

/// Returns the size of all rows of this process, the tree's pointers to them included.
pub fn all_rows_bytes() -> u64 {
    ALL_ROWS_BYTES.load(Ordering::Relaxed)
}

/// A small row that extends into a second cache line has this byte in it, counted from the row's
/// start.
const SMALL_ROW_END: usize = 47;

/// A cache line of most processors, in bytes.
const LINE_BYTES: usize = 64;

/// Largest prefetched part of a row, in bytes: reading more takes longer than the prefetch anyway.
const PREFETCHED_MAX: usize = 1024;

/// A page of most systems, in bytes.
const PAGE_BYTES: usize = 4096;

/// Size of a row's entry in the tree: its handle, and the first bytes of its key.
const TREE_BYTES: u64 = 16;

/// The allocator's block sizes are an eighth apart, the smallest ones 16 bytes apart: on average a
/// row takes this many bytes more, and this fraction of its own size.
const ALLOCATOR_BYTES: u64 = 8;
const ALLOCATOR_PART: u64 = 16;

/// Overhead of a row beside its key and value.
const STORED_BYTES: u64 = 36;

// SAFETY: the bytes of a row are never written after construction and the counter is atomic, so
// handles may be used and dropped on any thread.
unsafe impl Send for Row {}
// SAFETY: as above; `&Row` only reads.
unsafe impl Sync for Row {}

impl Row {
    /// A row of its own memory: one allocation. Panics as [`Row::from_parts`] does.
    pub fn new(key: &[u8], value: &[u8], version: Version) -> Row {
        Row::from_parts(&[], &[key], &[value], version)
    }

    /// Joins the given parts to a row's key and value, so that a caller with a prefix needs no
    /// buffer of its own.
    ///
    /// Panics if the key reaches 16 MiB or the value 4 GiB: the model's limits are far below.
    pub fn from_parts(prefix: &[u8], key: &[&[u8]], value: &[&[u8]], version: Version) -> Row {
        let (key_bytes, value_bytes) = (prefix.len() + joined_bytes(key), joined_bytes(value));
        let short = Short::new(key_bytes, value_bytes, version);
        let header_bytes = if short.is_some() { SHORT_BYTES } else { LONG_BYTES };
        let bytes = header_bytes + key_bytes + value_bytes;
        let start = allocate(bytes);
        ALL_ROWS_BYTES.fetch_add(bytes as u64 + TREE_BYTES, Ordering::Relaxed);
        // SAFETY: the allocation is aligned for either header and large enough for the chosen one
        // followed by all parts; it has no other owner, so it cannot overlap the parts.
        unsafe {
            match short {
                Some(short) => start.cast::<Short>().write(short),
                None => start.cast::<Long>().write(Long::new(key_bytes, value_bytes, version)),
            }
            let mut end = start.add(header_bytes);
            for part in std::iter::once(&prefix).chain(key).chain(value) {
                end.copy_from_nonoverlapping(NonNull::from(*part).cast(), part.len());
                end = end.add(part.len());
            }
        }
        Row { start }
    }

    /// Returns the row at `key` with `bytes` written at `offset` of its value, padded with zeros if
    /// the value ends before. Without an old row the value was empty. Copies the whole value.
    /// Panics as [`Row::from_parts`] does.
    pub fn patched(old: Option<&Row>, key: &[u8], offset: usize, bytes: &[u8], version: Version) -> Row {
        let value = old.map_or(&b""[..], Row::value);
        let before = &value[..offset.min(value.len())];
        let gap = vec![0; offset - before.len()];
        let after = value.get(offset + bytes.len()..).unwrap_or_default();
        Row::from_parts(&[], &[key], &[before, &gap, bytes, after], version)
    }

    /// The whole key, the prefix of its logical database included.
    #[inline]
    pub fn key(&self) -> &[u8] {
        let (start, key_bytes, _) = self.extent();
        self.bytes(start, key_bytes)
    }

    /// The value; may be empty.
    #[inline]
    pub fn value(&self) -> &[u8] {
        let (start, key_bytes, value_bytes) = self.extent();
        self.bytes(start + key_bytes, value_bytes)
    }

    /// The version of the transaction that wrote this row.
    #[inline]
    pub fn version(&self) -> Version {
        match self.header() {
            Header::Short(short) => short.version(),
            Header::Long(long) => long.version(),
        }
    }

    /// Returns the size that a row with such a key and value counts for in the sums of a database:
    /// the same for each form, engine and release, because trees on disk keep such sums. Its part
    /// of [`all_rows_bytes`] is up to ten less.
    pub fn stored_bytes_of(key_bytes: usize, value_bytes: usize) -> u64 {
        (key_bytes + value_bytes) as u64 + STORED_BYTES
    }

    /// The same of this row.
    #[inline]
    pub fn stored_bytes(&self) -> u64 {
        let (_, key_bytes, value_bytes) = self.extent();
        Row::stored_bytes_of(key_bytes, value_bytes)
    }

    /// The memory of the row itself, in bytes, including the allocator's rounding.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let (start, key_bytes, value_bytes) = self.extent();
        let bytes = (start + key_bytes + value_bytes) as u64;
        bytes + bytes / ALLOCATOR_PART + ALLOCATOR_BYTES
    }

    /// Prefetches the row, all of it if it is small.
    #[inline]
    pub(crate) fn prefetch(&self) {
        let start = self.start.as_ptr();
        prefetch(start);
        prefetch(start.wrapping_add(SMALL_ROW_END));
    }

    /// Prefetches the row's header and about this many bytes after it, at most a page.
    #[inline]
    pub fn prefetch_bytes(&self, bytes: usize) {
        let lines = (0..(LONG_BYTES + bytes).min(PAGE_BYTES)).step_by(LINE_BYTES);
        lines.for_each(|at| prefetch(self.start.as_ptr().wrapping_add(at)));
    }

    /// Prefetches a row after its first bytes, as far as is worthwhile. Reads the row's header,
    /// which should be in the cache.
    #[inline]
    pub fn prefetch_on(&self) {
        let (start, key_bytes, value_bytes) = self.extent();
        let end = (start + key_bytes + value_bytes).min(PREFETCHED_MAX);
        let lines = (SMALL_ROW_END..end).step_by(LINE_BYTES).skip(1);
        lines.for_each(|at| prefetch(self.start.as_ptr().wrapping_add(at)));
    }

    #[inline]
    fn header(&self) -> Header<'_> {
        // SAFETY: the handle holds a reference, so the header is alive; it is only ever shared, and
        // of the form that a byte says which both forms have at the same place and which never
        // changes.
        unsafe {
            match self.start.add(FORM_OFFSET).read() {
                0 => Header::Long(self.start.cast().as_ref()),
                _ => Header::Short(self.start.cast().as_ref()),
            }
        }
    }

    /// The offset of the key, its length and the value's.
    #[inline]
    fn extent(&self) -> (usize, usize, usize) {
        match self.header() {
            Header::Short(short) => (SHORT_BYTES, short.key_bytes.into(), short.value_bytes.into()),
            Header::Long(long) => (LONG_BYTES, long.key_bytes(), long.value_bytes as usize),
        }
    }

    /// `bytes` bytes at `offset`. The caller stays within key and value.
    #[inline]
    fn bytes(&self, offset: usize, bytes: usize) -> &[u8] {
        // SAFETY: key and value were written contiguously after the header, the callers' ranges are
        // inside them, and the pointer derives from the allocation itself, not from a reference to
        // the header.
        unsafe { std::slice::from_raw_parts(self.start.add(offset).as_ptr(), bytes) }
    }
}

impl Short {
    /// The header of a row with one handle; `None` if it needs a long header.
    fn new(key_bytes: usize, value_bytes: usize, Version(version): Version) -> Option<Short> {
        if key_bytes == 0 || version >= SHORT_VERSION_END {
            return None;
        }
        Some(Short {
            count: AtomicU16::new((version >> 48 << SHORT_COUNT.count_ones()) as u16 | 1),
            version: [version as u16, (version >> 16) as u16, (version >> 32) as u16],
            key_bytes: u8::try_from(key_bytes).ok()?,
            value_bytes: u8::try_from(value_bytes).ok()?,
        })
    }

    #[inline]
    fn version(&self) -> Version {
        let [low, middle, high] = self.version;
        let top = self.count.load(Ordering::Relaxed) >> SHORT_COUNT.count_ones();
        Version(u64::from(low) | u64::from(middle) << 16 | u64::from(high) << 32 | u64::from(top) << 48)
    }

    /// Counts a handle more, unless there are too many.
    #[inline]
    fn share(&self) -> bool {
        // Relaxed suffices: the new handle is cloned from a handle that keeps the row alive.
        let before = self.count.fetch_add(1, Ordering::Relaxed) & SHORT_COUNT;
        if before < SHORT_SHARED_MAX {
            return true;
        }
        self.take_back(before);
        false
    }

    #[cold]
    fn take_back(&self, before: u16) {
        if before > SHORT_COUNT / 4 * 3 {
            std::process::abort();
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a handle less. True if it was the last.
    #[inline]
    fn release(&self) -> bool {
        // A single handle stays single: only an existing handle can be cloned. Most are single, and
        // a load is cheaper than a subtraction.
        self.count.load(Ordering::Acquire) & SHORT_COUNT == 1
            || self.count.fetch_sub(1, Ordering::Release) & SHORT_COUNT == 1
    }
}

impl Long {
    fn new(key_bytes: usize, value_bytes: usize, Version(version): Version) -> Long {
        assert!(key_bytes < LONG_KEY_END, "a key below 16 MiB");
        Long {
            count: AtomicU32::new(1),
            value_bytes: u32::try_from(value_bytes).expect("a value below 4 GiB"),
            form: 0,
            key_bytes: [key_bytes as u8, (key_bytes >> 8) as u8, (key_bytes >> 16) as u8],
            version: [version as u32, (version >> 32) as u32],
        }
    }

    #[inline]
    fn key_bytes(&self) -> usize {
        let [low, middle, high] = self.key_bytes;
        usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16
    }

    #[inline]
    fn version(&self) -> Version {
        let [low, high] = self.version;
        Version(u64::from(high) << 32 | u64::from(low))
    }

    #[inline]
    fn share(&self) {
        // Relaxed suffices, as above.
        if self.count.fetch_add(1, Ordering::Relaxed) > LONG_SHARED_MAX {
            std::process::abort();
        }
    }

    #[inline]
    fn release(&self) -> bool {
        // As above.
        self.count.load(Ordering::Acquire) == 1 || self.count.fetch_sub(1, Ordering::Release) == 1
    }
}

impl Clone for Row {
    #[inline]
    fn clone(&self) -> Row {
        let is_shared = match self.header() {
            Header::Short(short) => short.share(),
            Header::Long(long) => {
                long.share();
                true
            }
        };
        if is_shared {
            Row { start: self.start }
        } else {
            Row::new(self.key(), self.value(), self.version())
        }
    }
}

impl Drop for Row {
    #[inline]
    fn drop(&mut self) {
        let is_last = match self.header() {
            Header::Short(short) => short.release(),
            Header::Long(long) => long.release(),
        };
        if is_last {
            self.free();
        }
    }
}

impl Row {
    /// Gives the memory back. This was the last handle.
    fn free(&mut self) {
        // Everything other threads did with their handles happened before.
        fence(Ordering::Acquire);
        let (header_bytes, key_bytes, value_bytes) = self.extent();
        let bytes = header_bytes + key_bytes + value_bytes;
        ALL_ROWS_BYTES.fetch_sub(bytes as u64 + TREE_BYTES, Ordering::Relaxed);
        // SAFETY: no other handle exists; the row was allocated with this size, because form and
        // lengths never change; a header needs no drop of its own.
        unsafe { free(self.start, bytes) }
    }
}

/// Sizes of small rows are multiples of this, like those of an allocator's small blocks.
const STEP_BYTES: usize = 16;
/// Number of sizes of small rows.
const SMALL_SIZES: usize = 16;
/// As many blocks of each size are kept.
const KEPT_BLOCKS: usize = 32;

/// Blocks of small rows that this thread has freed: the next rows of their sizes reuse them, the
/// last freed first. That block has just been used and is in the processor's cache, whereas an
/// allocator's next free block is as cold as the row it belonged to.
struct Kept {
    blocks: [[NonNull<u8>; KEPT_BLOCKS]; SMALL_SIZES],
    counts: [usize; SMALL_SIZES],
}

thread_local! {
    static KEPT: RefCell<Kept> = const {
        RefCell::new(Kept {
            blocks: [[NonNull::dangling(); KEPT_BLOCKS]; SMALL_SIZES],
            counts: [0; SMALL_SIZES],
        })
    };
}

impl Kept {
    #[inline]
    fn take(&mut self, size: usize) -> Option<NonNull<u8>> {
        let count = self.counts.get_mut(size)?;
        *count = count.checked_sub(1)?;
        Some(self.blocks[size][*count])
    }

    /// False if there is no room for it.
    #[inline]
    fn put(&mut self, size: usize, block: NonNull<u8>) -> bool {
        let Some(count) = self.counts.get_mut(size).filter(|count| **count < KEPT_BLOCKS) else {
            return false;
        };
        self.blocks[size][*count] = block;
        *count += 1;
        true
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        for size in 0..SMALL_SIZES {
            while let Some(block) = self.take(size) {
                // SAFETY: it was allocated with the layout of this size, and has no owner.
                unsafe { dealloc(block.as_ptr(), layout(size)) }
            }
        }
    }
}

/// Returns the size class of a row of `bytes`, in steps; large rows have one too.
fn size_of_row(bytes: usize) -> usize {
    bytes.div_ceil(STEP_BYTES)
}

/// Aligned for either header.
fn layout(size: usize) -> Layout {
    Layout::from_size_align(size * STEP_BYTES, align_of::<Long>()).expect("a row below the address space")
}

#[inline]
fn allocate(bytes: usize) -> NonNull<u8> {
    let size = size_of_row(bytes);
    // A thread that is ending keeps no blocks.
    let block = KEPT.try_with(|blocks| blocks.borrow_mut().take(size));
    block.ok().flatten().unwrap_or_else(|| {
        let layout = layout(size);
        // SAFETY: a row has at least a header, so its size is not zero.
        NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
    })
}

/// # Safety
///
/// The block was allocated for `bytes` and is not used again.
#[inline]
unsafe fn free(block: NonNull<u8>, bytes: usize) {
    let size = size_of_row(bytes);
    if KEPT.try_with(|blocks| blocks.borrow_mut().put(size, block)) != Ok(true) {
        // SAFETY: the caller's promise, and the size follows from the bytes as it did when it was
        // allocated.
        unsafe { dealloc(block.as_ptr(), layout(size)) }
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.version() == other.version() && self.key() == other.key() && self.value() == other.value()
    }
}

impl Eq for Row {}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (self.key().escape_ascii(), self.value().escape_ascii());
        write!(f, "{key}={value}@{}", self.version().0)
    }
}

fn joined_bytes(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_short(row: &Row) -> bool {
        matches!(row.header(), Header::Short(_))
    }

    fn handles(row: &Row) -> u32 {
        match row.header() {
            Header::Short(short) => u32::from(short.count.load(Ordering::Relaxed) & SHORT_COUNT),
            Header::Long(long) => long.count.load(Ordering::Relaxed),
        }
    }

    #[test]
    fn handles_are_thin_and_headers_packed() {
        assert_eq!((size_of::<Row>(), size_of::<Option<Row>>()), (8, 8));
        assert_eq!((SHORT_BYTES, LONG_BYTES), (10, 20));
    }

    #[test]
    fn small_rows_have_short_headers() {
        let now = 1_795_000_000_000_000;
        for (key_bytes, value_bytes, version, short) in [
            (0, 0, 0, false),
            (1, 0, 0, true),
            (255, 255, now, true),
            (256, 255, now, false),
            (255, 256, now, false),
            (16, 64, SHORT_VERSION_END - 1, true),
            (16, 64, SHORT_VERSION_END, false),
        ] {
            let row = Row::new(&vec![1; key_bytes], &vec![2; value_bytes], Version(version));
            assert_eq!(is_short(&row), short, "{key_bytes}, {value_bytes}, {version}");
        }
    }

    fn near(border: u64) -> impl Strategy<Value = u64> {
        border.saturating_sub(3)..=border.saturating_add(3)
    }

    proptest! {
        /// In either form, and for any history of the count.
        #[test]
        fn a_row_gives_back_what_it_was_made_of(
            key_bytes in prop_oneof![0..20_u64, near(255), near(65_536)],
            value_bytes in prop_oneof![0..300_u64, near(255), near(65_536)],
            version in prop_oneof![any::<u64>(), near(0), near(1 << 48), near(SHORT_VERSION_END), near(u64::MAX)],
            clones in prop_oneof![Just(0_u64), near(SHORT_SHARED_MAX.into()), near(5_000)],
        ) {
            let bytes = |seed: u64, count: u64| (0..count).map(|index| seed.wrapping_add(index * 7) as u8).collect::<Vec<u8>>();
            let (key, value) = (bytes(version, key_bytes), bytes(key_bytes, value_bytes));
            let row = Row::new(&key, &value, Version(version));
            let check = |row: &Row| {
                assert_eq!((row.key(), row.value(), row.version()), (&key[..], &value[..], Version(version)));
            };
            check(&row);
            let clones: Vec<Row> = (0..clones).map(|_| row.clone()).collect();
            clones.iter().for_each(check);
            prop_assert!(clones.iter().all(|clone| is_short(clone) == is_short(&row)));
            drop(row);
            clones.iter().rev().take(2).for_each(check);
        }
    }

    #[test]
    fn parts_are_joined() {
        let row = Row::from_parts(b"a", &[b"", b"bc"], &[b"12", b"3"], Version(1 << 40));
        assert_eq!(row, Row::new(b"abc", b"123", Version(1 << 40)));
        assert_ne!(row, Row::new(b"abc1", b"23", Version(1 << 40)));
        assert_eq!(Row::from_parts(b"", &[], &[], Version(0)).key(), b"");
    }

    #[test]
    fn the_last_handle_frees() {
        for row in [Row::new(b"k", b"v", Version(1)), Row::new(b"", b"v", Version(1))] {
            let other = row.clone();
            assert_eq!(handles(&row), 2);
            drop(row);
            assert_eq!(handles(&other), 1);
            assert_eq!(other.value(), b"v");
        }
    }

    /// The count is twelve bits, and the highest bits of the version are above it.
    #[test]
    fn a_short_row_with_too_many_handles_is_copied() {
        let row = Row::new(b"key", b"value", Version(SHORT_VERSION_END - 1));
        let mut clones: Vec<Row> = (0..20_000).map(|_| row.clone()).collect();
        assert_eq!(handles(&row), u32::from(SHORT_SHARED_MAX));
        assert!(clones.iter().all(|clone| *clone == row));
        let copies = clones.iter().filter(|clone| clone.start != row.start).count();
        assert_eq!(copies, 20_000 + 1 - usize::from(SHORT_SHARED_MAX));
        clones.retain(|clone| clone.start != row.start);
        assert_eq!(handles(&row), 1);
        assert_eq!(row.clone().start, row.start);
    }

    #[test]
    fn a_long_row_is_never_copied() {
        let row = Row::new(b"key", &[7; 1000], Version(1));
        let clones: Vec<Row> = (0..100_000).map(|_| row.clone()).collect();
        assert!(clones.iter().all(|clone| clone.start == row.start));
    }

    /// Other tests of this process have rows too, so this row outweighs all of theirs.
    #[test]
    fn all_rows_are_counted() {
        let value = vec![0; 64 << 20];
        let before = all_rows_bytes();
        let row = Row::new(b"k", &value, Version(1));
        assert!(all_rows_bytes() >= before + (32 << 20));
        drop(row);
        assert!(all_rows_bytes() < before + (32 << 20));
    }

    /// All kept blocks are reused, whether the next row of their size has the same length or not; a
    /// larger row takes another block.
    #[test]
    fn the_next_rows_reuse_the_blocks_of_freed_rows() {
        let rows = |value: &[u8]| {
            (0..KEPT_BLOCKS + 1)
                .map(|_| Row::new(b"key", value, Version(1)))
                .collect::<Vec<_>>()
        };
        let starts = |rows: &[Row]| rows.iter().map(|row| row.start).collect::<Vec<_>>();
        let first = rows(b"123");
        let mut freed = starts(&first);
        drop(first);
        freed.truncate(KEPT_BLOCKS);
        freed.reverse();
        let larger = rows(b"1234");
        assert!(starts(&larger).iter().all(|start| !freed.contains(start)));
        let next = rows(b"1");
        assert_eq!(starts(&next)[..KEPT_BLOCKS], freed);
        assert!(next.iter().all(|row| (row.key(), row.value()) == (b"key", b"1")));
    }

    #[test]
    fn handles_are_cloned_and_dropped_on_many_threads() {
        let row = Row::new(b"key", b"value", Version(1));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let row = row.clone();
                scope.spawn(move || {
                    let clones: Vec<Row> = (0..1_000).map(|_| row.clone()).collect();
                    assert!(clones.iter().all(|clone| clone.value() == b"value"));
                });
            }
        });
        assert_eq!(handles(&row), 1);
    }
}
