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

/// The sum of the products of pairs, as far as 32 bits hold it.
#[inline]
pub(crate) fn product(these: &[i16], those: &[i8]) -> i32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: as above.
        return unsafe { product_with_avx2(these, those) };
    }
    product_of_any(these, those)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn product_with_avx2(these: &[i16], those: &[i8]) -> i32 {
    product_of_any(these, those)
}

/// A function, and no closure, for [`widely`]: it has to be compiled for the instructions of those
/// that call it.
#[inline(always)]
fn product_of_any(these: &[i16], those: &[i8]) -> i32 {
    let count = these.len().min(those.len());
    let (these, those) = (&these[..count], &those[..count]);
    let mut sum = 0i32;
    for at in 0..count {
        sum = sum.wrapping_add(i32::from(these[at]).wrapping_mul(i32::from(those[at])));
    }
    sum
}
