//! MurmurHash2 of 32 and of 64 bits, as Austin Appleby published them.

const MULTIPLIER_32: u32 = 0x5bd1_e995;
const MULTIPLIER_64: u64 = 0xc6a4_a793_5bd1_e995;

/// The hash of 32 bits.
pub fn murmur_32(bytes: &[u8], seed: u32) -> u32 {
    let mix = |word: u32| {
        let word = word.wrapping_mul(MULTIPLIER_32);
        (word ^ word >> 24).wrapping_mul(MULTIPLIER_32)
    };
    let (words, tail) = bytes.as_chunks::<4>();
    let mut hash = words.iter().fold(seed ^ bytes.len() as u32, |hash, word| {
        hash.wrapping_mul(MULTIPLIER_32) ^ mix(u32::from_le_bytes(*word))
    });
    if !tail.is_empty() {
        let mut last = [0; 4];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(MULTIPLIER_32);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(MULTIPLIER_32);
    hash ^ hash >> 15
}

/// The hash of 64 bits, of the variant for processors of 64 bits.
pub fn murmur_64(bytes: &[u8], seed: u64) -> u64 {
    let mix = |word: u64| {
        let word = word.wrapping_mul(MULTIPLIER_64);
        (word ^ word >> 47).wrapping_mul(MULTIPLIER_64)
    };
    let (words, tail) = bytes.as_chunks::<8>();
    let start = seed ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER_64);
    let mut hash = words.iter().fold(start, |hash, word| {
        (hash ^ mix(u64::from_le_bytes(*word))).wrapping_mul(MULTIPLIER_64)
    });
    if !tail.is_empty() {
        let mut last = [0; 8];
        last[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(MULTIPLIER_64);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(MULTIPLIER_64);
    hash ^ hash >> 47
}
