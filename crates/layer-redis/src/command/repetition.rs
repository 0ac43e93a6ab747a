//! Work that a request multiplies by naming the same key again and again.
//!
//! A union of a thousand keys costs in proportion to their content, which was stored at a cost. A
//! union of one key a hundred thousand times is a request of 400 KB that blocks all other clients
//! for minutes, without any use. So a key's content may be visited several times, but in total at
//! most a few times the distinct content.

use rustc_hash::FxHashSet;

use crate::command::error_reply::ErrorReply;

/// Units, elements or bytes, that may be visited again in any case.
const FREE: u64 = 64 << 20;
/// The greatest quotient of visited units and distinct units.
const TIMES_MAX: u64 = 8;

/// Adds up the units that one command visits.
#[derive(Default)]
pub struct Repetition<'a> {
    names: FxHashSet<&'a [u8]>,
    distinct: u64,
    total: u64,
}

impl<'a> Repetition<'a> {
    /// The command visits `size` units under this name. Returns an error if it has visited too much
    /// repeatedly.
    pub fn add(&mut self, name: &'a [u8], size: u64) -> Result<(), ErrorReply> {
        self.total = self.total.saturating_add(size);
        if self.names.insert(name) {
            self.distinct = self.distinct.saturating_add(size);
        }
        if self.total > FREE.saturating_add(self.distinct.saturating_mul(TIMES_MAX)) {
            return Err("ERR the request names the same large key too often".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_repetition_is_refused() {
        let mut repetition = Repetition::default();
        let names: Vec<Vec<u8>> = (0..1000u32).map(|number| number.to_be_bytes().to_vec()).collect();
        assert!(names.iter().all(|name| repetition.add(name, 1 << 30).is_ok()));
        let mut repetition = Repetition::default();
        let met = (0..100).take_while(|_| repetition.add(b"k", 1 << 30).is_ok()).count();
        assert_eq!(met, 8);
        let mut repetition = Repetition::default();
        assert!((0..100_000).all(|_| repetition.add(b"small", 100).is_ok()));
    }
}
