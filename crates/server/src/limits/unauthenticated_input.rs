//! Input that the server buffers for unauthenticated peers: one budget for all of them, and a
//! smaller budget for each peer.
//!
//! Heads that never end and bodies without a credential cost memory for as long as their deadlines
//! last. Beyond a budget such a connection is turned away; connections that have authenticated are
//! not counted here.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use quartet_layer_redis::access::login_guard::network_of;

/// Upper bound on the bytes buffered for all unauthenticated peers.
const TOTAL_BYTES_MAX: usize = 128 << 20;
/// Upper bound for one peer: more than one body of DynamoDB, whose signature can be verified only
/// once it is whole.
const PEER_BYTES_MAX: usize = 24 << 20;

pub struct StrangerBytes {
    total_max: usize,
    peer_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    total: usize,
    /// Without peers that have no buffered bytes.
    by_peer: HashMap<IpAddr, usize>,
}

/// The bytes of one connection, or one request of it. Dropping it gives them back.
pub struct StrangerInput {
    budget: Arc<StrangerBytes>,
    peer: IpAddr,
    bytes: usize,
}

impl StrangerBytes {
    pub fn with_limits(total_max: usize, peer_max: usize) -> Arc<StrangerBytes> {
        Arc::new(StrangerBytes {
            total_max,
            peer_max,
            kept: Mutex::default(),
        })
    }

    pub fn new() -> Arc<StrangerBytes> {
        StrangerBytes::with_limits(TOTAL_BYTES_MAX, PEER_BYTES_MAX)
    }

    pub fn input(self: &Arc<Self>, peer: IpAddr) -> StrangerInput {
        StrangerInput {
            budget: self.clone(),
            peer: network_of(peer),
            bytes: 0,
        }
    }
}

impl StrangerInput {
    /// Sets the bytes kept from now on. Returns false if they are more than allowed; then the count
    /// stays.
    #[must_use]
    pub fn set(&mut self, bytes: usize) -> bool {
        if bytes == self.bytes {
            return true;
        }
        let mut input_bytes = self.budget.kept.lock();
        let total = input_bytes.total - self.bytes + bytes;
        let peer_bytes = input_bytes.by_peer.get(&self.peer).copied().unwrap_or(0) - self.bytes + bytes;
        if bytes > self.bytes && (total > self.budget.total_max || peer_bytes > self.budget.peer_max) {
            return false;
        }
        input_bytes.total = total;
        match peer_bytes {
            0 => drop(input_bytes.by_peer.remove(&self.peer)),
            _ => drop(input_bytes.by_peer.insert(self.peer, peer_bytes)),
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for StrangerInput {
    fn drop(&mut self) {
        let is_less = self.set(0);
        debug_assert!(is_less);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_and_all_of_them_are_bounded_and_what_is_dropped_is_given_back() {
        let budget = StrangerBytes::with_limits(100, 60);
        let peer = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut first = budget.input(peer("10.0.0.1"));
        let mut second = budget.input(peer("10.0.0.1"));
        let mut other = budget.input(peer("10.0.0.2"));
        assert!(first.set(40) && second.set(20));
        assert!(!second.set(21));
        assert!(other.set(40));
        assert!(!other.set(41));
        assert!(first.set(30));
        assert!(other.set(50) && second.set(20));
        drop((first, second, other));
        let input_bytes = budget.kept.lock();
        assert_eq!((input_bytes.total, input_bytes.by_peer.len()), (0, 0));
    }
}
