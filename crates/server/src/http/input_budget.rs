//! The memory that one HTTP connection, or one request of it, holds for received or unread input.
//!
//! All of it counts in the process's budget of memory; the input of unauthenticated peers also
//! counts in a smaller budget of its own.

use std::sync::Arc;

use quartet_engine::{Memory, Reserved};

use crate::limits::unauthenticated_input::StrangerInput;

/// Smaller amounts are not counted, so that a small request costs nothing.
const UNCOUNTED_BYTES: usize = 16 << 10;

pub struct KeptInput {
    of_stranger: StrangerInput,
    reserved: Reserved,
}

impl KeptInput {
    pub fn new(stranger_input: StrangerInput, memory: Arc<Memory>) -> KeptInput {
        KeptInput {
            of_stranger: stranger_input,
            reserved: Reserved::new(memory),
        }
    }

    /// Sets the kept bytes to `bytes`. False: there is no room for them, and their request must
    /// end.
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
        let (mut authenticated, mut other, mut stranger) = (input(), input(), input());
        assert!(authenticated.set(UNCOUNTED_BYTES, false) && memory.reserved_bytes() == 0);
        assert!(authenticated.set(2 * MUCH, false) && other.set(MUCH, false));
        assert!(!other.set(3 * MUCH, false), "the process has no room");
        assert_eq!(memory.reserved_bytes(), 3 * MUCH as u64);
        assert!(!stranger.set(100_001, true) && stranger.set(100_000, true));
        authenticated.shrink_to(3 * MUCH);
        assert_eq!(memory.reserved_bytes(), 3 * MUCH as u64 + 100_000);
        authenticated.shrink_to(UNCOUNTED_BYTES);
        assert_eq!(memory.reserved_bytes(), MUCH as u64 + 100_000);
        drop((authenticated, other, stranger));
        assert_eq!(memory.reserved_bytes(), 0);
    }
}
