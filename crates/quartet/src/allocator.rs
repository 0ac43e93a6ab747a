//! The allocator of the server: mimalloc, and the system itself for very large blocks.
//!
//! A block of [`LARGE`] bytes or more is a mapping of its own. It is returned to the system as soon
//! as it is freed, and it grows by moving its pages and not their bytes, so a buffer that doubles
//! on its way to 400 MB is never in memory twice. Smaller blocks are mimalloc's; [`purge`] returns
//! its unused memory.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::{NonNull, null_mut};

use mimalloc::MiMalloc;
use rustix::mm::{MapFlags, MremapFlags, ProtFlags};

/// Below this, mapping and the faults of fresh pages would cost more than they save.
const LARGE: usize = 16 << 20;

pub struct Allocator;

fn is_large(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE_BYTES_MIN
}

/// Returns whether a block has its alignment without requesting it: every block of mimalloc has an
/// address that is a multiple of 16, or of 8 if it has at most 8 bytes. Nearly every block is of
/// this kind, and the request costs more than the block.
#[inline]
fn is_aligned_anyway(size: usize, align: usize) -> bool {
    align <= size && align <= 16
}

/// Mappings start at multiples of a page, which no system makes smaller than this.
const PAGE_BYTES_MIN: usize = 4096;

// SAFETY: a block is the mapping's or mimalloc's by its layout only, which `dealloc` and `realloc`
// receive unchanged, so each block returns to its origin. Mappings are fresh, zeroed, at least as
// long as requested, and aligned to a page. Nothing here unwinds.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return map(layout.size());
        }
        if is_aligned_anyway(layout.size(), layout.align()) {
            // SAFETY: any size may be requested.
            return unsafe { libmimalloc_sys::mi_malloc(layout.size()).cast() };
        }
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { MiMalloc.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_large(layout) {
            return map(layout.size());
        }
        if is_aligned_anyway(layout.size(), layout.align()) {
            // SAFETY: as above.
            return unsafe { libmimalloc_sys::mi_zalloc(layout.size()).cast() };
        }
        // SAFETY: as above.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_large(layout) {
            // SAFETY: the block is a mapping of this length, and is no longer used.
            let unmapped = unsafe { rustix::mm::munmap(block.cast(), layout.size()) };
            debug_assert!(unmapped.is_ok());
            return;
        }
        // SAFETY: the block is mimalloc's, by its layout.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the new size does not overflow when rounded up to the
        // alignment.
        let new = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match (is_large(layout), is_large(new)) {
            // SAFETY: the block is mimalloc's and stays so.
            (false, false) if is_aligned_anyway(new_size, layout.align()) => unsafe {
                libmimalloc_sys::mi_realloc(block.cast(), new_size).cast()
            },
            // SAFETY: the block is mimalloc's and stays so.
            (false, false) => unsafe { MiMalloc.realloc(block, layout, new_size) },
            // SAFETY: the block is a mapping of the old length, without other users.
            (true, true) => unsafe {
                let flags = MremapFlags::MAYMOVE;
                rustix::mm::mremap(block.cast(), layout.size(), new_size, flags)
                    .map_or(null_mut(), |moved| moved.cast())
            },
            // SAFETY: both blocks are as long as their layouts say, and the new one has no other
            // user.
            _ => unsafe {
                let Some(moved) = NonNull::new(self.alloc(new)) else {
                    return null_mut();
                };
                moved
                    .as_ptr()
                    .copy_from_nonoverlapping(block, layout.size().min(new_size));
                self.dealloc(block, layout);
                moved.as_ptr()
            },
        }
    }
}

fn map(bytes: usize) -> *mut u8 {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: an anonymous mapping at an address that the system chooses affects no existing
    // memory.
    let mapped = unsafe { rustix::mm::mmap_anonymous(null_mut(), bytes, protection, MapFlags::PRIVATE) };
    mapped.map_or(null_mut(), |mapped| mapped.cast())
}

/// Gives the system back what mimalloc keeps for later.
pub fn purge() {
    // SAFETY: it may be called from any thread at any time.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All frequent sizes of a program, each with the alignments that a type of that size may
    /// require.
    #[test]
    fn small_blocks_are_aligned() {
        for align in [1, 2, 4, 8, 16, 32, 64] {
            for size in 1..=2048 {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the layouts are valid, none is empty, and each block is freed with the
                // layout that it has then.
                unsafe {
                    let blocks = [
                        Allocator.alloc(layout),
                        Allocator.alloc_zeroed(layout),
                        Allocator.alloc(layout),
                    ];
                    assert!((0..size).all(|at| *blocks[1].add(at) == 0), "{size} bytes of {align}");
                    let grown = blocks.map(|block| Allocator.realloc(block, layout, size + 40));
                    let mut all = blocks.iter().chain(&grown);
                    assert!(
                        all.all(|block| !block.is_null() && block.addr() % align == 0),
                        "{size} bytes of {align}"
                    );
                    let layout = Layout::from_size_align(size + 40, align).unwrap();
                    grown.into_iter().for_each(|block| Allocator.dealloc(block, layout));
                }
            }
        }
    }

    /// Every way over the border between the two, each byte where it was before.
    #[test]
    fn blocks_keep_their_bytes_while_they_grow_and_shrink() {
        let sizes = [
            1,
            LARGE - 1,
            LARGE,
            LARGE + 1,
            3 * LARGE,
            LARGE,
            100,
            2 * LARGE,
            LARGE - 1,
        ];
        let mut bytes: Vec<u8> = Vec::new();
        for size in sizes {
            bytes.truncate(size);
            bytes.shrink_to(size);
            bytes.reserve_exact(size - bytes.len());
            let length = bytes.len();
            assert!((0..length).step_by(4093).all(|index| bytes[index] == index as u8));
            bytes.extend((length..size).map(|index| index as u8));
        }
        assert!(vec![0u8; 2 * LARGE].iter().all(|byte| *byte == 0));
    }
}
