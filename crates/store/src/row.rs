//! One row: key, value and the version that wrote it, behind a pointer of eight bytes.
//!
//! A database of small rows is mostly row headers and pointers, so a row is one allocation and its handle is thin:
//!
//! ```text
//! Row ──> | references u32 | key length u32 | value length u32 | version 2 x u32 | key bytes | value bytes |
//! ```
//!
//! The header is 20 bytes: the version is kept as two halves so that four-byte alignment suffices and nothing is lost
//! to padding. The handle is never null, so `Option<Row>` is eight bytes too.
//!
//! This is the only file of the crate with unsafe code. Invariants: the bytes are written once, before the first handle
//! exists, and never change; the allocation lives until the last handle is dropped; every handle's pointer may reach
//! the whole allocation.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use quartet_model::Version;

/// A shared, immutable row. Cloning counts a reference and copies nothing.
pub struct Row {
    header: NonNull<Header>,
}

#[repr(C)]
struct Header {
    references: AtomicU32,
    key_bytes: u32,
    value_bytes: u32,
    /// Low half, then high half.
    version: [u32; 2],
}

/// Bytes of all rows of this process: those of a store, of its snapshots, and those that are about to be freed.
static ALL_ROWS_BYTES: AtomicU64 = AtomicU64::new(0);

/// What the rows of this process take together, the tree's pointers to them included.
pub fn all_rows_bytes() -> u64 {
    ALL_ROWS_BYTES.load(Ordering::Relaxed)
}

/// What the tree holds for each row: its handle, and the first bytes of its key.
const TREE_BYTES: u64 = 16;

const HEADER_BYTES: usize = size_of::<Header>();
/// More handles than any tree can hold; beyond it the counter could wrap and free a row in use.
const REFERENCES_MAX: u32 = u32::MAX / 2;

// SAFETY: the bytes behind a handle are never written after construction and the counter is atomic, so handles may be
// used and dropped on any thread.
unsafe impl Send for Row {}
// SAFETY: as above; `&Row` only reads.
unsafe impl Sync for Row {}

impl Row {
    /// A row of its own memory: one allocation. Panics as [`Row::from_parts`] does.
    pub fn new(key: &[u8], value: &[u8], version: Version) -> Row {
        Row::from_parts(&[key], &[value], version)
    }

    /// A row whose key and value are the given parts joined, so that a caller with a prefix needs no buffer of its own.
    ///
    /// Panics if key or value reach 4 GiB: the model's limits are far below.
    pub fn from_parts(key: &[&[u8]], value: &[&[u8]], version: Version) -> Row {
        let key_bytes = joined_bytes(key);
        let value_bytes = joined_bytes(value);
        let header = Header {
            references: AtomicU32::new(1),
            key_bytes,
            value_bytes,
            version: [version.0 as u32, (version.0 >> 32) as u32],
        };
        let layout = layout(key_bytes, value_bytes);
        // SAFETY: the layout holds at least a header, so its size is not zero.
        let Some(pointer) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        ALL_ROWS_BYTES.fetch_add(layout.size() as u64 + TREE_BYTES, Ordering::Relaxed);
        // SAFETY: the allocation is aligned for a header and large enough for it followed by all parts; it is ours
        // alone, so it cannot overlap the parts.
        unsafe {
            pointer.cast::<Header>().write(header);
            let mut end = pointer.add(HEADER_BYTES);
            for part in key.iter().chain(value) {
                end.copy_from_nonoverlapping(NonNull::from(*part).cast(), part.len());
                end = end.add(part.len());
            }
        }
        Row { header: pointer.cast() }
    }

    /// The whole key, the prefix of its logical database included.
    pub fn key(&self) -> &[u8] {
        self.bytes(0, self.header().key_bytes as usize)
    }

    /// The value; may be empty.
    pub fn value(&self) -> &[u8] {
        self.bytes(self.header().key_bytes as usize, self.header().value_bytes as usize)
    }

    /// The version of the transaction that wrote this row.
    pub fn version(&self) -> Version {
        let [low, high] = self.header().version;
        Version(u64::from(high) << 32 | u64::from(low))
    }

    /// Reads the count of handles, and no more: for its effect on the processor's caches. Of counts that are changed one after the
    /// other each is waited for, because changing one is a barrier; of those that are read many are fetched at a time.
    pub(crate) fn fetch(&self) -> u32 {
        self.header().references.load(Ordering::Relaxed)
    }

    fn header(&self) -> &Header {
        // SAFETY: the handle holds a reference, so the header is alive; it is only ever shared.
        unsafe { self.header.as_ref() }
    }

    /// `bytes` bytes at `offset` behind the header. The caller stays within key and value.
    fn bytes(&self, offset: usize, bytes: usize) -> &[u8] {
        // SAFETY: key and value were written contiguously behind the header, the callers' ranges lie inside them, and
        // the pointer derives from the allocation itself, not from a reference to the header.
        unsafe {
            let start = self.header.add(1).cast::<u8>().add(offset);
            std::slice::from_raw_parts(start.as_ptr(), bytes)
        }
    }
}

impl Clone for Row {
    fn clone(&self) -> Row {
        // Relaxed suffices: the new handle comes from one that keeps the row alive.
        let before = self.header().references.fetch_add(1, Ordering::Relaxed);
        if before > REFERENCES_MAX {
            std::process::abort();
        }
        Row { header: self.header }
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        if self.header().references.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        // Everything other threads did with their handles happened before the memory is given back.
        fence(Ordering::Acquire);
        let layout = layout(self.header().key_bytes, self.header().value_bytes);
        ALL_ROWS_BYTES.fetch_sub(layout.size() as u64 + TREE_BYTES, Ordering::Relaxed);
        // SAFETY: this was the last handle; the layout is the one the row was allocated with, because lengths never
        // change; a header needs no drop of its own.
        unsafe { dealloc(self.header.as_ptr().cast(), layout) }
    }
}

impl Row {
    /// What this row takes in memory, the tree's pointer to it included: its part of [`all_rows_bytes`].
    pub fn memory_bytes(&self) -> u64 {
        let header = self.header();
        Row::memory_bytes_of(header.key_bytes as usize, header.value_bytes as usize)
    }

    /// The same of a row with a key and a value of so many bytes.
    pub(crate) fn memory_bytes_of(key_bytes: usize, value_bytes: usize) -> u64 {
        (HEADER_BYTES + key_bytes + value_bytes) as u64 + TREE_BYTES
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

fn joined_bytes(parts: &[&[u8]]) -> u32 {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    u32::try_from(bytes).expect("a key or value below 4 GiB")
}

fn layout(key_bytes: u32, value_bytes: u32) -> Layout {
    let bytes = HEADER_BYTES + key_bytes as usize + value_bytes as usize;
    Layout::from_size_align(bytes, align_of::<Header>()).expect("a row below the address space")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_thin_and_the_header_is_packed() {
        assert_eq!(size_of::<Row>(), 8);
        assert_eq!(size_of::<Option<Row>>(), 8);
        assert_eq!(HEADER_BYTES, 20);
    }

    #[test]
    fn a_row_gives_back_what_it_was_made_of() {
        for (key, value) in [("", ""), ("k", ""), ("", "v"), ("key", "a longer value")] {
            let row = Row::new(key.as_bytes(), value.as_bytes(), Version(u64::MAX - 7));
            assert_eq!((row.key(), row.value()), (key.as_bytes(), value.as_bytes()));
            assert_eq!(row.version(), Version(u64::MAX - 7));
        }
    }

    #[test]
    fn parts_are_joined() {
        let row = Row::from_parts(&[b"a", b"", b"bc"], &[b"12", b"3"], Version(1 << 40));
        assert_eq!(row, Row::new(b"abc", b"123", Version(1 << 40)));
        assert_ne!(row, Row::new(b"abc1", b"23", Version(1 << 40)));
        assert_eq!(Row::from_parts(&[], &[], Version(0)).key(), b"");
    }

    #[test]
    fn the_last_handle_frees() {
        let row = Row::new(b"k", b"v", Version(1));
        let other = row.clone();
        assert_eq!(row.header().references.load(Ordering::Relaxed), 2);
        drop(row);
        assert_eq!(other.header().references.load(Ordering::Relaxed), 1);
        assert_eq!(other.value(), b"v");
    }

    /// Other tests of this process have rows too, so the row is one that no other would outweigh.
    #[test]
    fn all_rows_are_counted() {
        let value = vec![0; 64 << 20];
        let before = all_rows_bytes();
        let row = Row::new(b"k", &value, Version(1));
        assert!(all_rows_bytes() >= before + (32 << 20));
        drop(row);
        assert!(all_rows_bytes() < before + (32 << 20));
    }

    #[test]
    fn handles_are_cloned_and_dropped_on_many_threads() {
        let row = Row::new(b"key", b"value", Version(1));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let row = row.clone();
                scope.spawn(move || (0..100).for_each(|_| assert_eq!(row.clone().value(), b"value")));
            }
        });
        assert_eq!(row.header().references.load(Ordering::Relaxed), 1);
    }
}
