//! Work that a request multiplies by naming the same key again and again.
//!
//! A union of a thousand keys costs what the keys hold, which somebody had to store. A union of one
//! key a hundred thousand times is a request of 400 KB that keeps everybody waiting for minutes;
//! nobody needs it. So what a key holds may be met several times, but all of it together no more
//! than a few times what there is.

use rustc_hash::FxHashSet;

use crate::command::error_reply::ErrorReply;

/// Units, elements or bytes, that may be met again whatever there is.
const FREE: u64 = 64 << 20;
/// How many times what there is may be met.
const TIMES_MAX: u64 = 8;

/// Adds up what one command meets.
#[derive(Default)]
pub struct Repetition<'a> {
    names: FxHashSet<&'a [u8]>,
    distinct: u64,
    total: u64,
}

impl<'a> Repetition<'a> {
    /// The command meets `size` units under this name. An error if it has met the same too often.
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
