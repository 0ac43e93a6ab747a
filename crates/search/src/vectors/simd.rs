//! Loops over components with wider instructions than every processor has.
//!
//! Sums of floats have the order of the source on every processor, and sums of integers are exact
//! in every order, so results do not depend on the available instructions.

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

/// Sums that are kept beside each other, so that a processor can do them at once.
const LANES: usize = 16;

/// Sixteen floats, little-endian.
type LaneBytes = [u8; 4 * LANES];

/// The term that is summed over pairs of floats.
#[derive(Clone, Copy)]
pub(crate) enum OfPair {
    Product,
    SquareOfDifference,
}

impl OfPair {
    #[inline]
    fn apply(self, first: f32, other: f32) -> f32 {
        match self {
            OfPair::Product => first * other,
            OfPair::SquareOfDifference => (first - other) * (first - other),
        }
    }
}

/// Returns the sum over pairs of little-endian floats, up to the end of the shorter slice. Each
/// lane has its own sum, and the lanes are added in order.
#[inline]
pub(crate) fn sum_over_floats(first: &[u8], other: &[u8], term: OfPair) -> f32 {
    let bytes = first.len().min(other.len());
    let (ones, one_rest) = first[..bytes].as_chunks::<{ 4 * LANES }>();
    let (other_lanes, other_rest) = other[..bytes].as_chunks::<{ 4 * LANES }>();
    let mut lanes = sums(ones, other_lanes, term);
    add_to_lanes(&mut lanes, one_rest, other_rest, term);
    lanes.iter().sum()
}

fn add_to_lanes(lanes: &mut [f32; LANES], first: &[u8], other: &[u8], term: OfPair) {
    let pairs = first.as_chunks::<4>().0.iter().zip(other.as_chunks::<4>().0);
    for (lane, (first, other)) in lanes.iter_mut().zip(pairs) {
        *lane += term.apply(f32::from_le_bytes(*first), f32::from_le_bytes(*other));
    }
}

#[inline]
fn sums(ones: &[LaneBytes], other_lanes: &[LaneBytes], term: OfPair) -> [f32; LANES] {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the instructions that the function is compiled for.
            return unsafe { sums_with_avx512(ones, other_lanes, term) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { sums_with_avx2(ones, other_lanes, term) };
        }
    }
    sums_in_turn(ones, other_lanes, term)
}

fn sums_in_turn(ones: &[LaneBytes], other_lanes: &[LaneBytes], term: OfPair) -> [f32; LANES] {
    let mut lanes = [0.0; LANES];
    for (first, other) in ones.iter().zip(other_lanes) {
        add_to_lanes(&mut lanes, first, other, term);
    }
    lanes
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sums_with_avx512(ones: &[LaneBytes], other_lanes: &[LaneBytes], term: OfPair) -> [f32; LANES] {
    use std::arch::x86_64::*;
    let mut sums = _mm512_setzero_ps();
    for (first, other) in ones.iter().zip(other_lanes) {
        // SAFETY: there are the 64 bytes that are read.
        let (first, other) = unsafe {
            (
                _mm512_loadu_ps(first.as_ptr().cast()),
                _mm512_loadu_ps(other.as_ptr().cast()),
            )
        };
        let terms = match term {
            OfPair::Product => _mm512_mul_ps(first, other),
            OfPair::SquareOfDifference => _mm512_mul_ps(_mm512_sub_ps(first, other), _mm512_sub_ps(first, other)),
        };
        sums = _mm512_add_ps(sums, terms);
    }
    let mut lanes = [0.0; LANES];
    // SAFETY: there is room for the 64 bytes that are written.
    unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), sums) };
    lanes
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sums_with_avx2(ones: &[LaneBytes], other_lanes: &[LaneBytes], term: OfPair) -> [f32; LANES] {
    use std::arch::x86_64::*;
    let mut sums = [_mm256_setzero_ps(); 2];
    for (first, other) in ones.iter().zip(other_lanes) {
        let halves = first.as_chunks::<32>().0.iter().zip(other.as_chunks::<32>().0);
        for (sums, (first, other)) in sums.iter_mut().zip(halves) {
            // SAFETY: there are the 32 bytes that are read.
            let (first, other) = unsafe {
                (
                    _mm256_loadu_ps(first.as_ptr().cast()),
                    _mm256_loadu_ps(other.as_ptr().cast()),
                )
            };
            let terms = match term {
                OfPair::Product => _mm256_mul_ps(first, other),
                OfPair::SquareOfDifference => _mm256_mul_ps(_mm256_sub_ps(first, other), _mm256_sub_ps(first, other)),
            };
            *sums = _mm256_add_ps(*sums, terms);
        }
    }
    let mut lanes = [0.0; LANES];
    for (lanes, sums) in lanes.as_chunks_mut::<8>().0.iter_mut().zip(sums) {
        // SAFETY: there is room for the 32 bytes that are written.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sums) };
    }
    lanes
}

/// Returns the sum of the products of signed bytes, up to the end of the shorter slice, modulo
/// 2^32.
#[inline]
pub(crate) fn product_of_bytes(first: &[u8], other: &[u8]) -> i32 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the processor has the instructions that the function is compiled for.
            return unsafe { product_by_fours(first, other) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { product_by_pairs(first, other) };
        }
    }
    product_one_by_one(first, other)
}

#[inline]
fn product_one_by_one(first: &[u8], other: &[u8]) -> i32 {
    let product = |(first, other): (&u8, &u8)| i32::from(*first as i8) * i32::from(*other as i8);
    first.iter().zip(other).map(product).fold(0, i32::wrapping_add)
}

/// Products of unsigned with signed bytes are summed by fours. A signed byte is an unsigned one
/// from which 128 is taken again.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn product_by_fours(first: &[u8], other: &[u8]) -> i32 {
    use std::arch::x86_64::*;
    let bytes = first.len().min(other.len());
    let (ones, one_rest) = first[..bytes].as_chunks::<64>();
    let (other_lanes, other_rest) = other[..bytes].as_chunks::<64>();
    let high = _mm512_set1_epi8(-128);
    let (mut raised, mut excess) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for (first, other) in ones.iter().zip(other_lanes) {
        // SAFETY: a chunk has the 64 bytes that are read.
        let (first, other) = unsafe {
            (
                _mm512_loadu_epi8(first.as_ptr().cast()),
                _mm512_loadu_epi8(other.as_ptr().cast()),
            )
        };
        raised = _mm512_dpbusd_epi32(raised, _mm512_xor_si512(first, high), other);
        excess = _mm512_dpbusd_epi32(excess, high, other);
    }
    let sum = _mm512_reduce_add_epi32(_mm512_sub_epi32(raised, excess));
    sum.wrapping_add(product_one_by_one(one_rest, other_rest))
}

/// Products of words are summed by pairs.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn product_by_pairs(first: &[u8], other: &[u8]) -> i32 {
    use std::arch::x86_64::*;
    let bytes = first.len().min(other.len());
    let (ones, one_rest) = first[..bytes].as_chunks::<16>();
    let (other_lanes, other_rest) = other[..bytes].as_chunks::<16>();
    let mut sums = _mm256_setzero_si256();
    for (first, other) in ones.iter().zip(other_lanes) {
        // SAFETY: a chunk has the 16 bytes that are read.
        let (first, other) = unsafe {
            (
                _mm_loadu_si128(first.as_ptr().cast()),
                _mm_loadu_si128(other.as_ptr().cast()),
            )
        };
        let products = _mm256_madd_epi16(_mm256_cvtepi8_epi16(first), _mm256_cvtepi8_epi16(other));
        sums = _mm256_add_epi32(sums, products);
    }
    let mut lanes = [0i32; 8];
    // SAFETY: the array has the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), sums) };
    let sum = lanes.into_iter().fold(0, i32::wrapping_add);
    sum.wrapping_add(product_one_by_one(one_rest, other_rest))
}

/// Prefetches bytes that will be read soon. Affects only the time of their arrival.
#[inline]
pub(crate) fn prefetch<T>(items: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..size_of_val(items)).step_by(CACHE_LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program could see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(items.as_ptr().cast::<i8>().wrapping_add(at)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = items;
}

#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// The sum of the products of pairs, as far as 32 bits hold it.
#[inline]
pub(crate) fn product(these: &[i16], codes: &[i8]) -> i32 {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the processor has the instructions that the function is compiled for.
            return unsafe { product_with_avx512(these, codes) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { product_with_avx2(these, codes) };
        }
    }
    product_of_any(these, codes)
}

/// Two sums beside each other, as each addition waits for the one before.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn product_with_avx512(these: &[i16], codes: &[i8]) -> i32 {
    use std::arch::x86_64::*;
    let count = these.len().min(codes.len());
    let (pairs, these_rest) = these[..count].as_chunks::<64>();
    let (code_lanes, those_rest) = codes[..count].as_chunks::<64>();
    let mut sums = [_mm512_setzero_si512(); 2];
    for (these, codes) in pairs.iter().zip(code_lanes) {
        for (half, sum) in sums.iter_mut().enumerate() {
            // SAFETY: there are the 64 and the 32 bytes that are read.
            let (these, codes) = unsafe {
                (
                    _mm512_loadu_epi16(these[32 * half..].as_ptr()),
                    _mm256_loadu_si256(codes[32 * half..].as_ptr().cast()),
                )
            };
            *sum = _mm512_dpwssd_epi32(*sum, these, _mm512_cvtepi8_epi16(codes));
        }
    }
    let sum = _mm512_reduce_add_epi32(_mm512_add_epi32(sums[0], sums[1]));
    sum.wrapping_add(product_of_any(these_rest, those_rest))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn product_with_avx2(these: &[i16], codes: &[i8]) -> i32 {
    product_of_any(these, codes)
}

/// A function rather than a closure, for [`widely`]: it must be compiled for the instructions of
/// its callers.
#[inline(always)]
fn product_of_any(these: &[i16], codes: &[i8]) -> i32 {
    let count = these.len().min(codes.len());
    let (these, codes) = (&these[..count], &codes[..count]);
    let mut sum = 0i32;
    for at in 0..count {
        sum = sum.wrapping_add(i32::from(these[at]).wrapping_mul(i32::from(codes[at])));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_floats_are_the_same_to_the_bit() {
        for count in [0, 1, 15, 16, 17, 100, 384, 1000] {
            let floats = |step: f32| -> Vec<u8> {
                let floats = (0..count).map(|at| (at as f32 * step).sin() / 3.0);
                floats.flat_map(f32::to_le_bytes).collect()
            };
            let (first, other) = (floats(0.7), floats(1.3));
            for term in [OfPair::Product, OfPair::SquareOfDifference] {
                let (ones, one_rest) = first.as_chunks();
                let (other_lanes, other_rest) = other.as_chunks();
                let lanes = sums_in_turn(ones, other_lanes, term);
                assert_eq!(sums(ones, other_lanes, term), lanes, "{count}");
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has the instructions that the function is compiled for.
                    assert_eq!(unsafe { sums_with_avx2(ones, other_lanes, term) }, lanes, "{count}");
                }
                let mut lanes = lanes;
                add_to_lanes(&mut lanes, one_rest, other_rest, term);
                assert_eq!(
                    sum_over_floats(&first, &other, term),
                    lanes.iter().sum::<f32>(),
                    "{count}"
                );
            }
        }
    }

    #[test]
    fn products_of_words_with_bytes_are_alike_with_all_instructions() {
        for count in [0, 1, 31, 32, 63, 64, 100, 384, 1000] {
            let words = |step: usize| (0..count).map(|at| (at * step) as i16 / 4).collect::<Vec<_>>();
            let bytes = |step: usize| (0..count).map(|at| (at * step) as i8).collect::<Vec<_>>();
            let cases = [(words(7919), bytes(11)), (vec![-16_000; count], vec![-127; count])];
            for (these, codes) in cases {
                assert_eq!(product(&these, &codes), product_of_any(&these, &codes), "{count}");
            }
        }
    }

    #[test]
    fn products_are_alike_with_all_instructions() {
        for bytes in [0, 1, 15, 16, 63, 64, 65, 384, 1000, 65_536] {
            let pattern = |step: usize| (0..bytes).map(|at| (at * step) as u8).collect::<Vec<_>>();
            let cases = [
                (pattern(7), pattern(11)),
                (vec![128; bytes], vec![128; bytes]),
                (vec![127; bytes], vec![128; bytes]),
            ];
            for (first, other) in cases {
                let expected = product_one_by_one(&first, &other);
                assert_eq!(product_of_bytes(&first, &other), expected, "{bytes}");
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has the instructions that the function is compiled for.
                    assert_eq!(unsafe { product_by_pairs(&first, &other) }, expected, "{bytes}");
                }
            }
        }
    }
}
