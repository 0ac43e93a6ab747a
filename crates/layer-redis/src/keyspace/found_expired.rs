//! Keys that a reader has found to be expired: they are removed directly after its command.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Keys whose rows a reader found although they had expired.
#[derive(Default)]
pub struct FoundExpired {
    any: AtomicBool,
    /// Database and name.
    keys: Mutex<Vec<(u8, Vec<u8>)>>,
}

/// Keys remembered for one command; the cycle removes the others.
const FOUND_MAX: usize = 1000;

impl FoundExpired {
    /// False if it was known, or nothing more can be remembered.
    pub fn note(&self, db: u8, name: &[u8]) -> bool {
        let mut keys = self.keys.lock();
        let is_new = keys.len() < FOUND_MAX
            && !keys
                .iter()
                .any(|(other, noted)| (*other, noted.as_slice()) == (db, name));
        if is_new {
            keys.push((db, name.to_vec()));
            self.any.store(true, Ordering::Relaxed);
        }
        is_new
    }

    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    pub fn take(&self) -> Vec<(u8, Vec<u8>)> {
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.keys.lock())
    }
}
