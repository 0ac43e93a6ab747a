//! Prefetches memory that will be read soon. Unlike a read, a prefetch is not waited for; many can
//! be in flight.

#![allow(unsafe_code)]

/// Prefetches the cache line of this address.
#[inline]
pub(crate) fn prefetch<T>(address: *const T) {
    // SAFETY: a prefetch changes nothing and cannot fail, for any address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
