//! Slows down password guessing.
//!
//! After a wrong password, the next attempts of the same peer for the same user are delayed, a
//! little longer each time; attempts of other peers, and for other users, are not. The delay
//! precedes the check of the password: a peer that disconnects instead of waiting has learned
//! nothing, and many connections of one peer wait together. A recently correct password is checked
//! without delay, so that a client that shares its address with an attacker, through a proxy, can
//! still log in.
//!
//! Everything is remembered in tables of bounded size, which forget the oldest first.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use parking_lot::Mutex;

/// Wrong passwords that count as honest mistakes.
const FREE_FAILURES: u32 = 8;
const DELAY_MICROS_MIN: u64 = 10_000;
const DELAY_MICROS_MAX: u64 = 2_000_000;
/// One failure is forgotten after so long.
const FORGET_MICROS: u64 = 5_000_000;
/// Entries of each table: twice as many are kept at most.
const ENTRIES: usize = 16_384;

#[derive(Default)]
pub struct LoginGuard {
    /// Seeded randomly, so that clients cannot cause collisions.
    hasher: RandomState,
    tables: Mutex<Tables>,
}

#[derive(Default)]
struct Tables {
    /// By peer and user.
    failing: Recent<Failing>,
    /// By peer, user and password: what was right.
    right: Recent<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Failing {
    count: u32,
    last_micros: u64,
    not_before_micros: u64,
}

/// A map that drops its older half when it is full.
struct Recent<V> {
    present: HashMap<u64, V>,
    previous: HashMap<u64, V>,
}

impl<V> Default for Recent<V> {
    fn default() -> Recent<V> {
        Recent {
            present: HashMap::new(),
            previous: HashMap::new(),
        }
    }
}

impl<V: Copy> Recent<V> {
    fn get(&self, key: u64) -> Option<V> {
        self.present.get(&key).or_else(|| self.previous.get(&key)).copied()
    }

    fn put(&mut self, key: u64, value: V) {
        if self.present.len() >= ENTRIES {
            self.previous = std::mem::take(&mut self.present);
        }
        self.present.insert(key, value);
    }
}

impl LoginGuard {
    /// The wait of an attempt before the password is checked; `None`: no wait.
    pub fn wait_micros(&self, peer: IpAddr, user: &[u8], password: &[u8], now_micros: u64) -> Option<u64> {
        let tables = self.tables.lock();
        let failing = tables.failing.get(self.key(peer, user, None))?;
        let wait_micros = failing.not_before_micros.saturating_sub(now_micros);
        // The clock may have been set back.
        let wait_micros = wait_micros.min(DELAY_MICROS_MAX);
        let is_known = || tables.right.get(self.key(peer, user, Some(password))).is_some();
        (wait_micros > 0 && !is_known()).then_some(wait_micros)
    }

    pub fn succeeded(&self, peer: IpAddr, user: &[u8], password: &[u8]) {
        let key = self.key(peer, user, Some(password));
        let mut tables = self.tables.lock();
        if !tables.right.present.contains_key(&key) {
            tables.right.put(key, ());
        }
    }

    /// Notes a wrong password. Returns how long the next attempt will wait.
    pub fn failed(&self, peer: IpAddr, user: &[u8], now_micros: u64) -> u64 {
        let key = self.key(peer, user, None);
        let mut tables = self.tables.lock();
        let mut failing = tables.failing.get(key).unwrap_or_default();
        let forgotten = now_micros.saturating_sub(failing.last_micros) / FORGET_MICROS;
        failing.count = failing
            .count
            .saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX))
            .saturating_add(1);
        let delay_micros = delay_micros(failing.count);
        failing.last_micros = now_micros;
        failing.not_before_micros = now_micros + delay_micros;
        tables.failing.put(key, failing);
        delay_micros
    }

    fn key(&self, peer: IpAddr, user: &[u8], password: Option<&[u8]>) -> u64 {
        self.hasher.hash_one(Attempt {
            peer: network_of(peer),
            user,
            password,
        })
    }
}

#[derive(Hash)]
struct Attempt<'a> {
    peer: IpAddr,
    user: &'a [u8],
    password: Option<&'a [u8]>,
}

/// Doubles with each failure after the free failures.
fn delay_micros(failures: u32) -> u64 {
    match failures.checked_sub(FREE_FAILURES + 1) {
        None => 0,
        Some(doublings) => (DELAY_MICROS_MIN << doublings.min(20)).min(DELAY_MICROS_MAX),
    }
}

/// The peer of an address and port, as connections are listed.
pub fn peer_of(address: &str) -> IpAddr {
    let address = address.parse::<SocketAddr>();
    address.map_or(IpAddr::from([0, 0, 0, 0]), |address| address.ip())
}

/// One subscriber of IPv6 has a whole network of 64 bits.
pub fn network_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, number])
    }

    #[test]
    fn the_delay_grows_for_one_peer_and_user_only() {
        let guard = LoginGuard::default();
        let delays: Vec<u64> = (0..20).map(|_| guard.failed(peer(1), b"alice", 1_000)).collect();
        assert_eq!(delays[..8], [0; 8]);
        assert!(
            delays[8..].is_sorted() && delays[8] == 10_000 && delays[19] == DELAY_MICROS_MAX,
            "{delays:?}"
        );
        let wait = |peer, user: &[u8], now_micros| guard.wait_micros(peer, user, b"x", now_micros);
        assert_eq!(wait(peer(1), b"alice", 1_000), Some(DELAY_MICROS_MAX));
        assert_eq!(wait(peer(1), b"bob", 1_000), None);
        assert_eq!(wait(peer(2), b"alice", 1_000), None);
        assert_eq!(wait(peer(1), b"alice", 1_000 + DELAY_MICROS_MAX), None);
    }

    #[test]
    fn a_known_password_does_not_wait_and_a_right_one_forgives_nothing() {
        let guard = LoginGuard::default();
        guard.succeeded(peer(1), b"default", b"right");
        for _ in 0..12 {
            guard.failed(peer(1), b"default", 0);
            guard.succeeded(peer(1), b"default", b"own");
        }
        let wait = |peer, password: &[u8]| guard.wait_micros(peer, b"default", password, 0);
        assert_eq!(wait(peer(1), b"right"), None);
        assert_eq!(wait(peer(1), b"own"), None);
        assert_eq!(wait(peer(1), b"guess"), Some(80_000));
        assert_eq!(wait(peer(2), b"right"), None);
    }

    #[test]
    fn failures_are_forgotten_one_after_the_other() {
        let guard = LoginGuard::default();
        for _ in 0..12 {
            guard.failed(peer(1), b"u", 0);
        }
        assert_eq!(guard.failed(peer(1), b"u", 2 * FORGET_MICROS), delay_micros(11));
        assert_eq!(guard.failed(peer(1), b"u", 1_000 * FORGET_MICROS), 0);
    }

    #[test]
    fn tables_are_bounded() {
        let guard = LoginGuard::default();
        for number in 0..3 * ENTRIES {
            let user = number.to_string();
            guard.failed(peer(1), user.as_bytes(), 0);
            guard.succeeded(peer(1), user.as_bytes(), b"p");
        }
        let tables = guard.tables.lock();
        assert!(tables.failing.present.len() + tables.failing.previous.len() <= 2 * ENTRIES);
        assert!(tables.right.present.len() + tables.right.previous.len() <= 2 * ENTRIES);
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let of = |text: &str| network_of(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2:3::4"), of("2001:db8:1:2:ffff::"));
        assert_ne!(of("2001:db8:1:2::"), of("2001:db8:1:3::"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_eq!(peer_of("[::ffff:10.0.0.1]:99").to_canonical(), of("10.0.0.1"));
    }
}
