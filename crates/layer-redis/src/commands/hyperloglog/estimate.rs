//! From elements to registers, and from registers to a count.
//!
//! The estimator is Otmar Ertl's, "New cardinality estimation algorithms for HyperLogLog sketches"
//! (2017), algorithm 6, which needs no correction for small or large counts. The hash is
//! MurmurHash64A with Redis' seed, so that both set the same registers for an element.

use super::representation::{INDEX_BITS, REGISTERS};

/// Bits of the hash that a register's value is taken from.
const VALUE_BITS: u32 = 64 - INDEX_BITS;
/// Values that six bits can say, more than a right one has.
pub const VALUES: usize = 64;
/// 1 / (2 ln 2), the estimator's constant for endless registers.
const ALPHA_INFINITE: f64 = 0.721_347_520_444_481_7;
const HASH_SEED: u64 = 0xadc8_3b19;

/// The register that `element` belongs to, and the value it raises it to: 1 to 51.
pub fn register_of(element: &[u8]) -> (usize, u8) {
    let hash = murmur_hash_64a(element);
    let index = hash as usize & (REGISTERS - 1);
    let suffix = hash >> INDEX_BITS | 1 << VALUE_BITS;
    (index, suffix.trailing_zeros() as u8 + 1)
}

fn murmur_hash_64a(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    let (words, tail) = bytes.as_chunks::<8>();
    let mut hash = HASH_SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    for &word in words {
        let word = u64::from_le_bytes(word).wrapping_mul(FACTOR);
        hash = (hash ^ (word ^ word >> 47).wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !tail.is_empty() {
        let mut word = [0; 8];
        word[..tail.len()].copy_from_slice(tail);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(FACTOR);
    hash ^ hash >> 47
}

/// The estimated count, from how many registers have each value.
pub fn count(registers_with: &[u32; VALUES]) -> u64 {
    let registers = REGISTERS as f64;
    let top = VALUE_BITS as usize;
    let mut sum = registers * tau((registers - f64::from(registers_with[top + 1])) / registers);
    for &with_value in registers_with[1..=top].iter().rev() {
        sum = (sum + f64::from(with_value)) * 0.5;
    }
    sum += registers * sigma(f64::from(registers_with[0]) / registers);
    (ALPHA_INFINITE * registers * registers / sum).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_approximate() {
        let mut registers = vec![0u8; REGISTERS];
        let mut added = 0u64;
        for goal in [1, 10, 100, 1000, 10_000, 100_000, 1_000_000] {
            while added < goal {
                let (index, value) = register_of(added.to_string().as_bytes());
                registers[index] = registers[index].max(value);
                added += 1;
            }
            let mut with = [0; VALUES];
            registers.iter().for_each(|&value| with[usize::from(value)] += 1);
            let error = count(&with).abs_diff(goal) as f64 / goal as f64;
            assert!(error < 0.03, "{goal}: {error}");
        }
    }

    #[test]
    fn an_empty_one_counts_nothing_and_any_registers_give_a_number() {
        let mut with = [0; VALUES];
        with[0] = REGISTERS as u32;
        assert_eq!(count(&with), 0);
        for value in 1..VALUES {
            let mut with = [0; VALUES];
            with[value] = REGISTERS as u32;
            count(&with);
        }
    }
}
