//! The sketches of Redis: Bloom and cuckoo filters, count-min sketches, Top-K and t-digests.
//!
//! Each has the layout, the hashes and the growth of RedisBloom 2.8, so that a filter filled there
//! gives the same answers here, dumps travel both ways, and the figures of `INFO` agree.
//!
//! A sketch is a *head*, which its users hold, and a *space*: bytes that are zero until they are
//! written. The space belongs to the caller ([`Space`]), who reads and writes parts of it, so a
//! change costs what it touches and a large empty sketch costs nothing. Nothing here knows about
//! rows, keys or replies.
//!
//! ```text
//! bloom      head: the header of BF.SCANDUMP          space: the bits of each link, in turn
//! cuckoo     head: the header of CF.SCANDUMP, and     space: the buckets of each filter, in turn
//!                  the buckets of each filter
//! count_min  head: width, depth, count                space: rows of counters of 4 bytes
//! top_k      head: k, width, depth, decay             space: buckets, heap; items beside it
//! t_digest   head: what TDIGEST.INFO shows            space: nodes of 16 bytes
//! ```
//!
//! Heads and dumps are read from bytes of peers: a malformed one is an error, and nothing is
//! allocated by an announced size. Callers compare [`BYTES_MAX`] and their own budget with the size
//! that a head states before they store it.

pub mod bloom;
mod commands;
pub mod count_min;
pub mod cuckoo;
pub mod dump;
pub mod hash;
pub mod t_digest;
pub mod top_k;

pub use commands::SketchModule;

/// Largest space of one link, filter, matrix or heap, in bytes. It is the largest string of a dump.
pub const BYTES_MAX: u64 = 512 << 20;

/// The bytes of a sketch. Offsets that were never written read as zeros.
pub trait Space {
    /// Reads `into.len()` bytes from `at` on.
    fn read(&mut self, at: u64, into: &mut [u8]);

    /// Writes the bytes from `at` on.
    fn write(&mut self, at: u64, bytes: &[u8]);

    /// Reads parts of equal length at several offsets, in their order. A space that finds several
    /// at once implements it.
    fn parts_at(&mut self, offsets: &[u64], into: &mut [u8]) {
        for (at, part) in offsets.iter().zip(parts_of(into, offsets.len())) {
            self.read(*at, part);
        }
    }
}

impl Space for Vec<u8> {
    fn read(&mut self, at: u64, into: &mut [u8]) {
        let stored = self.get(at as usize..).unwrap_or_default();
        let count = stored.len().min(into.len());
        into[..count].copy_from_slice(&stored[..count]);
        into[count..].fill(0);
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        let end = at as usize + bytes.len();
        if self.len() < end {
            self.resize(end, 0);
        }
        self[at as usize..end].copy_from_slice(bytes);
    }
}

/// The dump or the stored head is none that this family writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A sketch would take more memory than there is for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Reads little-endian numbers from the front of bytes.
struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, remaining) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = remaining;
        Ok(*first)
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    fn f64(&mut self) -> Result<f64, Malformed> {
        self.array().map(f64::from_le_bytes)
    }

    fn end(&self) -> Result<(), Malformed> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Malformed),
        }
    }
}

/// `count` parts of equal length.
fn parts_of(bytes: &mut [u8], count: usize) -> std::slice::ChunksExactMut<'_, u8> {
    let part_bytes = bytes.len() / count.max(1);
    bytes.chunks_exact_mut(part_bytes.max(1))
}

/// Writes the bytes that differ, from the first one to the last.
fn write_changed(space: &mut (impl Space + ?Sized), at: u64, before: &[u8], after: &[u8]) {
    let differs = |(before, after): (&u8, &u8)| before != after;
    let first = before.iter().zip(after).position(differs);
    let last = before.iter().zip(after).rposition(differs);
    if let (Some(first), Some(last)) = (first, last) {
        space.write(at + first as u64, &after[first..=last]);
    }
}

/// Visits the bytes of `0..length` in pieces, with the offset of each.
fn each_piece(space: &mut dyn Space, start: u64, length: u64, visit: &mut dyn FnMut(u64, &[u8])) {
    let mut piece = [0; 4096];
    let mut at = 0;
    while at < length {
        let count = (length - at).min(piece.len() as u64) as usize;
        space.read(start + at, &mut piece[..count]);
        visit(at, &piece[..count]);
        at += count as u64;
    }
}
