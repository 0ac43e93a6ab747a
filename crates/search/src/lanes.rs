//! Runs loops over components with wider instructions than every processor has.
//!
//! The order of a sum of floats is that of the source on every processor, and sums of integers are
//! exact in every order, so what comes out does not depend on which instructions there are.

// Instructions that a processor may lack are out of reach of safe code.
#![allow(unsafe_code)]

/// Returns what `work` does, compiled for the instructions that this processor has.
#[inline]
pub(crate) fn widely<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the processor has the instructions that the function is compiled for.
            return unsafe { with_avx512(work) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { with_avx2(work) };
        }
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512bw,avx512vl")]
fn with_avx512<R>(work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// Sums that are kept beside each other, so that a processor can do them at once.
const LANES: usize = 16;

/// Returns the sum of what `of_pair` makes of each two little-endian floats, as many as the shorter
/// slice has.
#[inline]
pub(crate) fn sum_over_floats(one: &[u8], other: &[u8], of_pair: impl Fn(f32, f32) -> f32) -> f32 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") {
            // SAFETY: the processor has the instructions that the function is compiled for.
            return unsafe { sum_with_avx512(one, other, of_pair) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { sum_with_avx2(one, other, of_pair) };
        }
    }
    sum_in_lanes(one, other, of_pair)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512bw,avx512vl")]
fn sum_with_avx512(one: &[u8], other: &[u8], of_pair: impl Fn(f32, f32) -> f32) -> f32 {
    sum_in_lanes(one, other, of_pair)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_with_avx2(one: &[u8], other: &[u8], of_pair: impl Fn(f32, f32) -> f32) -> f32 {
    sum_in_lanes(one, other, of_pair)
}

/// A part of each caller, or it would not have the instructions that the caller is compiled for.
#[inline(always)]
fn sum_in_lanes(one: &[u8], other: &[u8], of_pair: impl Fn(f32, f32) -> f32) -> f32 {
    let (one, other) = (one.as_chunks::<4>().0, other.as_chunks::<4>().0);
    let (one_rows, one_rest) = one.as_chunks::<LANES>();
    let (other_rows, other_rest) = other.as_chunks::<LANES>();
    let mut lanes = [0.0f32; LANES];
    for (one, other) in one_rows.iter().zip(other_rows) {
        for lane in 0..LANES {
            lanes[lane] += of_pair(f32::from_le_bytes(one[lane]), f32::from_le_bytes(other[lane]));
        }
    }
    for (lane, (one, other)) in one_rest.iter().zip(other_rest).enumerate() {
        lanes[lane] += of_pair(f32::from_le_bytes(*one), f32::from_le_bytes(*other));
    }
    lanes.iter().sum()
}

/// Returns the sum of the products of signed bytes, as many as the shorter slice has, modulo 2^32.
#[inline]
pub(crate) fn product_of_bytes(one: &[u8], other: &[u8]) -> i32 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the processor has the instructions that the function is compiled for.
            return unsafe { product_by_fours(one, other) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { product_by_pairs(one, other) };
        }
    }
    product_one_by_one(one, other)
}

#[inline]
fn product_one_by_one(one: &[u8], other: &[u8]) -> i32 {
    let product = |(one, other): (&u8, &u8)| i32::from(*one as i8) * i32::from(*other as i8);
    one.iter().zip(other).map(product).fold(0, i32::wrapping_add)
}

/// Products of unsigned with signed bytes are summed by fours. A signed byte is an unsigned one
/// from which 128 is taken again.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn product_by_fours(one: &[u8], other: &[u8]) -> i32 {
    use std::arch::x86_64::*;
    let bytes = one.len().min(other.len());
    let (ones, one_rest) = one[..bytes].as_chunks::<64>();
    let (others, other_rest) = other[..bytes].as_chunks::<64>();
    let high = _mm512_set1_epi8(-128);
    let (mut raised, mut excess) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for (one, other) in ones.iter().zip(others) {
        // SAFETY: a chunk has the 64 bytes that are read.
        let (one, other) = unsafe {
            (
                _mm512_loadu_epi8(one.as_ptr().cast()),
                _mm512_loadu_epi8(other.as_ptr().cast()),
            )
        };
        raised = _mm512_dpbusd_epi32(raised, _mm512_xor_si512(one, high), other);
        excess = _mm512_dpbusd_epi32(excess, high, other);
    }
    let sum = _mm512_reduce_add_epi32(_mm512_sub_epi32(raised, excess));
    sum.wrapping_add(product_one_by_one(one_rest, other_rest))
}

/// Products of words are summed by pairs.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn product_by_pairs(one: &[u8], other: &[u8]) -> i32 {
    use std::arch::x86_64::*;
    let bytes = one.len().min(other.len());
    let (ones, one_rest) = one[..bytes].as_chunks::<16>();
    let (others, other_rest) = other[..bytes].as_chunks::<16>();
    let mut sums = _mm256_setzero_si256();
    for (one, other) in ones.iter().zip(others) {
        // SAFETY: a chunk has the 16 bytes that are read.
        let (one, other) = unsafe {
            (
                _mm_loadu_si128(one.as_ptr().cast()),
                _mm_loadu_si128(other.as_ptr().cast()),
            )
        };
        let products = _mm256_madd_epi16(_mm256_cvtepi8_epi16(one), _mm256_cvtepi8_epi16(other));
        sums = _mm256_add_epi32(sums, products);
    }
    let mut lanes = [0i32; 8];
    // SAFETY: the array has the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sums) };
    let sum = lanes.into_iter().fold(0, i32::wrapping_add);
    sum.wrapping_add(product_one_by_one(one_rest, other_rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_alike_with_all_instructions() {
        for bytes in [0, 1, 15, 16, 63, 64, 65, 384, 1000, 65_536] {
            let pattern = |step: usize| (0..bytes).map(|at| (at * step) as u8).collect::<Vec<_>>();
            let cases = [
                (pattern(7), pattern(11)),
                (vec![128; bytes], vec![128; bytes]),
                (vec![127; bytes], vec![128; bytes]),
            ];
            for (one, other) in cases {
                let expected = product_one_by_one(&one, &other);
                assert_eq!(product_of_bytes(&one, &other), expected, "{bytes}");
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has the instructions that the function is compiled for.
                    assert_eq!(unsafe { product_by_pairs(&one, &other) }, expected, "{bytes}");
                }
            }
        }
    }
}
