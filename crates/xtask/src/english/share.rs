//! Places counted against all that were examined.

use super::place::Place;

/// The places among `total` sentences, bindings or tests.
#[derive(Debug, Default)]
pub struct Share {
    pub places: Vec<Place>,
    pub total: usize,
}

impl Share {
    pub fn add(&mut self, other: Share) {
        self.places.extend(other.places);
        self.total += other.total;
    }

    /// The share in tenths of a percent, rounded up; 0 of nothing.
    pub fn permille(&self) -> usize {
        (self.places.len() * 1000).div_ceil(self.total.max(1))
    }
}
