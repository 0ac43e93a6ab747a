//! Count-min sketches: `depth` rows of `width` counters; an item's count is the smallest of its
//! counters, one a row.
//!
//! Cormode and Muthukrishnan, *An Improved Data Stream Summary* (2005).

use smallvec::SmallVec;

use crate::hash::murmur_32;
use crate::{BYTES_MAX, Malformed, Numbers, Space, TooLarge, write_changed};

/// Bytes of a counter.
const COUNTER_BYTES: u64 = 4;
/// Counters of an item that are read at once.
const ROWS_AT_ONCE: usize = 8;
/// Counters that are merged at once.
const MERGED_AT_ONCE: usize = 1024;

/// The head of a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Counters of a row; at least 1.
    pub width: u64,
    /// Rows; at least 1.
    pub depth: u64,
    /// The sum of all increments.
    pub count: u64,
}

/// A merged counter or count is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

/// The width and the depth for an error and its probability, both between 0 and 1.
pub fn dimensions(error: f64, probability: f64) -> (u64, u64) {
    let width = (2.0 / error).ceil();
    // The original takes this logarithm with 32 bits.
    let depth = (f64::from((probability as f32).log10()) / f64::from(0.5f32.log10())).ceil();
    (width as u64, depth as u64)
}

impl Matrix {
    /// An empty sketch.
    pub fn new(width: u64, depth: u64) -> Result<Matrix, TooLarge> {
        let bytes = width
            .checked_mul(depth)
            .and_then(|counters| counters.checked_mul(COUNTER_BYTES));
        match bytes.is_some_and(|bytes| bytes <= BYTES_MAX) {
            true => Ok(Matrix { width, depth, count: 0 }),
            false => Err(TooLarge),
        }
    }

    /// Bytes of the space.
    pub fn space_bytes(&self) -> u64 {
        self.width * self.depth * COUNTER_BYTES
    }

    fn place(&self, item: &[u8], row: u64) -> u64 {
        let column = u64::from(murmur_32(item, row as u32)) % self.width;
        (row * self.width + column) * COUNTER_BYTES
    }

    /// Adds to an item's counters and returns its count. A counter that would wrap stays at its
    /// largest.
    pub fn add(&mut self, space: &mut dyn Space, item: &[u8], increment: u64) -> u64 {
        let mut least = u64::MAX;
        self.each_counter(space, item, &mut |space, at, counter| {
            // The original adds with 32 bits, and then compares with all bits of the increment.
            let sum = counter.wrapping_add(increment as u32);
            let sum = if u64::from(sum) < increment { u32::MAX } else { sum };
            write_changed(space, at, &counter.to_le_bytes(), &sum.to_le_bytes());
            least = least.min(sum.into());
        });
        self.count = self.count.wrapping_add(increment);
        least
    }

    /// An item's count.
    pub fn query(&self, space: &mut dyn Space, item: &[u8]) -> u64 {
        let mut least = u64::MAX;
        self.each_counter(space, item, &mut |_, _, counter| least = least.min(counter.into()));
        least
    }

    /// Visits an item's counters with their offsets. Several are read at once.
    fn each_counter(&self, space: &mut dyn Space, item: &[u8], visit: &mut dyn FnMut(&mut dyn Space, u64, u32)) {
        for first in (0..self.depth).step_by(ROWS_AT_ONCE) {
            let rows = first..self.depth.min(first + ROWS_AT_ONCE as u64);
            let places: SmallVec<[u64; ROWS_AT_ONCE]> = rows.map(|row| self.place(item, row)).collect();
            let mut bytes = [0; ROWS_AT_ONCE * COUNTER_BYTES as usize];
            let bytes = &mut bytes[..places.len() * COUNTER_BYTES as usize];
            space.parts_at(&places, bytes);
            for (at, counter) in places.iter().zip(bytes.chunks_exact(COUNTER_BYTES as usize)) {
                visit(space, *at, u32::from_le_bytes(counter.try_into().expect("four bytes")));
            }
        }
    }

    /// The count of a merged sketch.
    pub fn merged_count(sources: &[(Matrix, i64)]) -> Result<u64, Overflow> {
        let product = |(matrix, weight): &(Matrix, i64)| (matrix.count as i64).checked_mul(*weight);
        let sum = sources
            .iter()
            .try_fold(0i64, |sum, source| product(source)?.checked_add(sum));
        sum.and_then(|sum| u64::try_from(sum).ok()).ok_or(Overflow)
    }

    /// Calls `merge` with the offsets at which counters are merged, in parts.
    pub fn each_part(&self, mut merge: impl FnMut(u64, usize) -> Result<(), Overflow>) -> Result<(), Overflow> {
        let counters = self.width * self.depth;
        let mut from = 0;
        while from < counters {
            let count = (counters - from).min(MERGED_AT_ONCE as u64);
            merge(from * COUNTER_BYTES, (count * COUNTER_BYTES) as usize)?;
            from += count;
        }
        Ok(())
    }

    /// The stored head.
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.width, self.depth, self.count]
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect()
    }

    /// Reads a stored head.
    pub fn from_bytes(bytes: &[u8]) -> Result<Matrix, Malformed> {
        let mut numbers = Numbers(bytes);
        let (width, depth, count) = (numbers.u64()?, numbers.u64()?, numbers.u64()?);
        numbers.end()?;
        Matrix { width, depth, count }.checked()
    }

    /// The sketch, if it has counters.
    pub fn checked(self) -> Result<Matrix, Malformed> {
        let sized = Matrix::new(self.width, self.depth);
        match self.width > 0 && self.depth > 0 && sized.is_ok() {
            true => Ok(self),
            false => Err(Malformed),
        }
    }
}

/// Weighted sums of the counters of sketches, in one part of their space.
#[derive(Default)]
pub struct Sums(Vec<i64>);

impl Sums {
    /// Starts a part of `bytes` bytes.
    pub fn begin(&mut self, bytes: usize) {
        self.0.clear();
        self.0.resize(bytes / COUNTER_BYTES as usize, 0);
    }

    /// Adds a source's counters as their bytes.
    pub fn add(&mut self, source: &[u8], weight: i64) -> Result<(), Overflow> {
        for (sum, bytes) in self.0.iter_mut().zip(source.chunks_exact(COUNTER_BYTES as usize)) {
            let counter = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
            let product = i64::from(counter).checked_mul(weight);
            *sum = product.and_then(|product| sum.checked_add(product)).ok_or(Overflow)?;
        }
        Ok(())
    }

    /// The counters of the merged sketch as bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Overflow> {
        let mut merged = Vec::with_capacity(self.0.len() * COUNTER_BYTES as usize);
        for sum in &self.0 {
            merged.extend_from_slice(&u32::try_from(*sum).map_err(|_| Overflow)?.to_le_bytes());
        }
        Ok(merged)
    }
}
