//! Runs loops over components with wider instructions than every processor has.
//!
//! The order of a sum is that of the source on every processor, so what comes out does not depend
//! on which instructions there are.

// Instructions that a processor may lack are out of reach of safe code.
#![allow(unsafe_code)]

/// Returns what `work` does, compiled for the instructions that this processor has.
#[inline]
pub(crate) fn widely<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the instructions that the function is compiled for.
        return unsafe { with_avx2(work) };
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
