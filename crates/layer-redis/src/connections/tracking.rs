//! Client-side caching: which connections cache which keys, and their notification when a key
//! changes.
//!
//! A connection in the ordinary mode is notified once of a change to a key that it has read since
//! its last notice; the table remembers names, without their database, as Redis does. A connection
//! in broadcast mode is notified of every change below its prefixes. Keys that no longer fit into
//! the table (`tracking-table-max-keys`) are reported as changed: forgetting silently would leave a
//! stale copy in a client's cache.
//!
//! The receivers are decided at the place of the change in the order of commands, under the
//! partition's lock; the outbox notifies them after the commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::connections::clients::Client;

/// The channel on which RESP2 listens for invalidations.
pub const CHANNEL: &[u8] = b"__redis__:invalidate";

/// How a connection has turned tracking on.
#[derive(Clone, Debug, Default)]
pub struct Mode {
    /// The connection that is notified instead.
    pub redirect: Option<u64>,
    /// That connection was closed when it should have been notified.
    pub is_redirect_broken: bool,
    pub broadcast: bool,
    pub prefixes: BTreeSet<Vec<u8>>,
    pub opt_in: bool,
    pub opt_out: bool,
    pub no_loop: bool,
}

#[derive(Default)]
pub struct Tracking {
    pub table: Mutex<Table>,
    /// Connections with tracking on.
    clients: AtomicUsize,
}

#[derive(Default)]
pub struct Table {
    /// Names that were read, with the connections that remember them.
    pub keys: FxHashMap<Vec<u8>, FxHashSet<u64>>,
    /// Pairs of name and connection.
    pub item_count: usize,
    pub prefixes: BTreeMap<Vec<u8>, Broadcast>,
}

#[derive(Default)]
pub struct Broadcast {
    pub clients: BTreeSet<u64>,
    /// Names that changed since the last notice, with the connections that changed them.
    pub changed: BTreeMap<Vec<u8>, Option<u64>>,
}

/// The figures that INFO shows.
pub struct Counts {
    pub clients: usize,
    pub keys: usize,
    pub items: usize,
    pub prefixes: usize,
}

impl Tracking {
    /// Turns tracking on, or changes how it is done. `mode.prefixes` joins those there are.
    pub fn enable(&self, client: &Client, mut mode: Mode) {
        let mut own = client.tracking.lock();
        let mut table = self.table.lock();
        for prefix in &mode.prefixes {
            table
                .prefixes
                .entry(prefix.clone())
                .or_default()
                .clients
                .insert(client.id);
        }
        match own.take() {
            Some(old) => mode.prefixes.extend(old.prefixes),
            None => drop(self.clients.fetch_add(1, Ordering::Relaxed)),
        }
        *own = Some(mode);
    }

    /// The connection's keys stay in the table until they change, and then cause no notification.
    pub fn disable(&self, client: &Client) {
        let Some(mode) = client.tracking.lock().take() else {
            return;
        };
        self.clients.fetch_sub(1, Ordering::Relaxed);
        let mut table = self.table.lock();
        for prefix in &mode.prefixes {
            if let Some(broadcast) = table.prefixes.get_mut(prefix) {
                broadcast.clients.remove(&client.id);
                if broadcast.clients.is_empty() {
                    table.prefixes.remove(prefix);
                }
            }
        }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.clients.load(Ordering::Relaxed) > 0
    }

    pub fn counts(&self) -> Counts {
        let table = self.table.lock();
        Counts {
            clients: self.clients.load(Ordering::Relaxed),
            keys: table.keys.len(),
            items: table.item_count,
            prefixes: table.prefixes.len(),
        }
    }

    pub fn remember(&self, client_id: u64, name: &[u8]) {
        let mut table = self.table.lock();
        let is_new = match table.keys.get_mut(name) {
            Some(clients) => clients.insert(client_id),
            None => {
                table.keys.insert(name.to_vec(), FxHashSet::from_iter([client_id]));
                true
            }
        };
        table.item_count += usize::from(is_new);
    }
}

impl Table {
    /// Visits the prefixes that `name` begins with: all of them are passed by if they are few,
    /// otherwise only those that can be found by a beginning of the name.
    pub fn each_broadcast_of(&mut self, name: &[u8], mut visit: impl FnMut(&mut Broadcast)) {
        if self.prefixes.len() <= name.len() {
            let fitting = self.prefixes.iter_mut().filter(|(prefix, _)| name.starts_with(prefix));
            return fitting.for_each(|(_, broadcast)| visit(broadcast));
        }
        for length in 0..=name.len() {
            if let Some(broadcast) = self.prefixes.get_mut(&name[..length]) {
                visit(broadcast);
            }
        }
    }

    pub fn forget(&mut self, name: &[u8]) -> Option<FxHashSet<u64>> {
        let clients = self.keys.remove(name)?;
        self.item_count -= clients.len();
        Some(clients)
    }
}
