//! How much one HTTP connection, or one request of it, keeps of what its peer has sent, or has yet
//! to read.
//!
//! All of it counts in the process's budget of memory; what strangers have sent counts in their
//! own, smaller one as well.

use std::sync::Arc;

use quartet_engine::{Memory, Reserved};

use crate::limits::unauthenticated_input::StrangerInput;

/// Below this much the count is left alone, so that a small request costs nothing.
const UNCOUNTED_BYTES: usize = 16 << 10;

pub struct KeptInput {
    of_stranger: StrangerInput,
    reserved: Reserved,
}

impl KeptInput {
    pub fn new(of_stranger: StrangerInput, memory: Arc<Memory>) -> KeptInput {
        KeptInput {
            of_stranger,
            reserved: Reserved::new(memory),
        }
    }

    /// From now on `bytes` are kept. False: there is no room for them, and their request is to end.
    #[must_use]
    pub fn set(&mut self, bytes: usize, is_stranger: bool) -> bool {
        let counted = counted(bytes);
        let has_room = counted == self.reserved.bytes() || self.reserved.try_set(counted);
        has_room && self.of_stranger.set(if is_stranger { bytes } else { 0 })
    }

    /// No more than `bytes` are kept any longer. Costs nothing after a small request.
    pub fn shrink_to(&mut self, bytes: usize) {
        if self.reserved.bytes() > bytes as u64 {
            self.reserved.set(counted(bytes));
        }
    }
}

/// Reserves the size of an answer that its peer has yet to read.
pub fn unsent(bytes: usize, memory: &Arc<Memory>) -> Reserved {
    let mut unsent = Reserved::new(memory.clone());
    unsent.set(counted(bytes));
    unsent
}

fn counted(bytes: usize) -> u64 {
    if bytes > UNCOUNTED_BYTES { bytes as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::unauthenticated_input::StrangerBytes;
    use std::net::IpAddr;

    /// Other tests of this process count rows at the same time; this is far more than they do.
    const MUCH: usize = 1 << 40;

    #[test]
    fn all_peers_share_the_budget_of_the_process_and_unauthenticated_peers_theirs() {
        let memory = Arc::new(Memory::default());
        memory.set_budget(Some(4 * MUCH as u64));
        let strangers = StrangerBytes::with_limits(100_000, 100_000);
        let input = || KeptInput::new(strangers.input(IpAddr::from([10, 0, 0, 1])), memory.clone());
        let (mut known, mut other, mut stranger) = (input(), input(), input());
        assert!(known.set(UNCOUNTED_BYTES, false) && memory.reserved_bytes() == 0);
        assert!(known.set(2 * MUCH, false) && other.set(MUCH, false));
        assert!(!other.set(3 * MUCH, false), "the process has no room");
        assert_eq!(memory.reserved_bytes(), 3 * MUCH as u64);
        assert!(!stranger.set(100_001, true) && stranger.set(100_000, true));
        known.shrink_to(3 * MUCH);
        assert_eq!(memory.reserved_bytes(), 3 * MUCH as u64 + 100_000);
        known.shrink_to(UNCOUNTED_BYTES);
        assert_eq!(memory.reserved_bytes(), MUCH as u64 + 100_000);
        drop((known, other, stranger));
        assert_eq!(memory.reserved_bytes(), 0);
    }
}
