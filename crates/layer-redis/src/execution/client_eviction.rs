//! Closing the connections that take most memory, when all of them together take too much.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::connections::clients::Client;
use crate::layer::Redis;

/// Closed connections with tasks that still run, each with the bytes that its task frees at its
/// end.
#[derive(Default)]
pub struct ClientEviction {
    ending: Vec<(Weak<Client>, usize)>,
}

impl ClientEviction {
    /// Must be called often. Closes connections until the rest are below the limit, each time the
    /// one with the most memory of the database whose connections have the most. A connection is
    /// ranked by what the total counts of it, so that none is closed for what another takes.
    /// `operators` is the layer whose `maxmemory-clients` applies, and whose
    /// clients may be exempt by CLIENT NO-EVICT; it is the first of `layers`.
    pub fn run(&mut self, operators: &Redis, layers: &[Arc<Redis>]) {
        self.ending.retain(|(client, _)| client.strong_count() > 0);
        let memory = &operators.connections.clients.memory;
        let limit = operators.config.client_bytes_max();
        let limit = limit.unwrap_or(memory.process_limit);
        let mut ending_bytes: usize = self.ending.iter().map(|(_, bytes)| bytes).sum();
        if memory.used().saturating_sub(ending_bytes) <= limit {
            return;
        }
        let mut databases: Vec<Candidates<'_>> = layers.iter().map(|layer| Candidates::of(layer)).collect();
        while memory.used().saturating_sub(ending_bytes) > limit {
            let largest = databases
                .iter_mut()
                .filter(|database| !database.largest_last.is_empty());
            let Some(database) = largest.max_by_key(|database| database.bytes) else {
                break;
            };
            let Some((bytes, client)) = database.largest_last.pop().filter(|(bytes, _)| *bytes > 0) else {
                // The rest of this database's memory cannot be given back.
                database.largest_last.clear();
                continue;
            };
            database.bytes = database.bytes.saturating_sub(bytes);
            client.empty_mailbox();
            let own_bytes = client.buffers.counted();
            ending_bytes += own_bytes;
            self.ending.push((Arc::downgrade(&client), own_bytes));
            // Counted first: an observer that misses the connection finds it counted.
            let evicted = &database.layer.observation.statistics.evicted_clients;
            evicted.fetch_add(1, Ordering::SeqCst);
            database.layer.connections.clients.kill(&client);
        }
    }
}

/// The connections of a database that may be closed.
struct Candidates<'l> {
    layer: &'l Redis,
    /// Memory of all connections of the database, in bytes. A message with many receivers counts
    /// once.
    bytes: usize,
    /// Each connection with its own counted bytes and those of the messages that it keeps from
    /// being given back.
    largest_last: Vec<(usize, Arc<Client>)>,
}

impl Candidates<'_> {
    fn of(layer: &Redis) -> Candidates<'_> {
        let clients = layer.connections.clients.list();
        let counted = clients.iter().map(|client| client.buffers.counted());
        let shared = clients.iter().map(|client| client.buffers.shared_mail());
        let bytes = counted.sum::<usize>() + shared.max().unwrap_or(0);
        let is_tenant = layer.access.admission_control.is_some();
        let closable = clients
            .into_iter()
            .filter(|client| is_tenant || !client.no_evict.load(Ordering::Relaxed));
        let mut largest_last: Vec<_> = closable
            .map(|client| (client.buffers.counted() + client.buffers.shared_mail(), client))
            .collect();
        largest_last.sort_by_key(|(bytes, client)| (*bytes, Reverse(client.id)));
        Candidates {
            layer,
            bytes,
            largest_last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::client_memory::Counted;
    use crate::testing::{Connection, Fixture};

    /// A connection with buffers of a given size, as its owner counts it.
    struct Taking {
        connection: Connection,
        _counted: Counted,
    }

    impl Taking {
        fn new(layer: &Arc<Redis>, bytes: usize) -> Taking {
            let connection = Connection::to(layer);
            let owned = &connection.session.client().buffers.owned;
            owned.store(bytes, Ordering::Relaxed);
            Taking {
                _counted: Counted::new(layer.connections.clients.memory.clone(), bytes),
                connection,
            }
        }

        fn is_closed(&self) -> bool {
            self.connection.session.client().killed.load(Ordering::SeqCst)
        }
    }

    /// Subscriptions and spare room in buffers were counted for all, but no connection was ranked
    /// by them: a tenant's connection with many subscriptions was closed, then all idle connections
    /// of the other databases, which gave nothing back.
    #[test]
    fn the_largest_connection_of_the_largest_database_is_closed_first() {
        let fixtures = [Fixture::new(), Fixture::new(), Fixture::new()];
        let memory = fixtures[0].layer.connections.clients.memory.clone();
        let layers = fixtures.map(|mut fixture| {
            let layer = Arc::get_mut(&mut fixture.layer).expect("nobody else has it yet");
            layer.connections.clients.memory = memory.clone();
            fixture.layer
        });
        let mut operator = Connection::to(&layers[0]);
        operator.check("CLIENT NO-EVICT on => OK");
        // A few large connections in one database, many small in the next, idle connections in the
        // third.
        let large = Taking::new(&layers[0], 900 << 10);
        let small: Vec<_> = (0..20).map(|_| Taking::new(&layers[1], 100 << 10)).collect();
        let mut idle: Vec<_> = (0..20).map(|_| Connection::to(&layers[2])).collect();
        let mut listening = Connection::to(&layers[1]);
        for first in (0..1000).step_by(100) {
            let names = (first..first + 100).map(|name| format!("channel:{name}"));
            let words: Vec<String> = ["SUBSCRIBE".to_owned()].into_iter().chain(names).collect();
            listening.run(&words.iter().map(String::as_str).collect::<Vec<_>>());
        }
        let counted = listening.session.client().buffers.counted();
        assert!(counted > 300_000, "{counted}");
        assert!(memory.used() >= (2900 << 10) + counted);
        operator.check("CONFIG SET maxmemory-clients 2600kb => OK");
        let mut eviction = ClientEviction::default();
        eviction.run(&layers[0], &layers);
        assert!(listening.session.client().killed.load(Ordering::SeqCst));
        assert!(!large.is_closed());
        let closed = small.iter().filter(|connection| connection.is_closed()).count();
        assert!((1..=5).contains(&closed), "{closed}");
        assert!(
            idle.iter()
                .all(|idle| !idle.session.client().killed.load(Ordering::SeqCst))
        );
        idle[0].check("PING => PONG");
        // The memory of a connection is given back with it.
        drop((large, small, listening));
        assert!(memory.used() < 100 << 10, "{}", memory.used());
    }

    /// With busy threads the task of a closed connection may end late. Its memory was counted
    /// until its end, and each check closed another connection because of it.
    #[test]
    fn no_connection_is_closed_for_memory_about_to_be_freed() {
        let fixture = Fixture::new();
        let layer = &fixture.layer;
        let mut operator = fixture.connect();
        operator.check("CLIENT NO-EVICT on => OK");
        operator.check("CONFIG SET maxmemory-clients 500kb => OK");
        let [large, _small] = [1 << 20, 100 << 10].map(|bytes| Taking::new(layer, bytes));
        let mut eviction = ClientEviction::default();
        let mut evicted = || {
            eviction.run(layer, std::slice::from_ref(layer));
            layer.observation.statistics.evicted_clients.load(Ordering::SeqCst)
        };
        assert_eq!([evicted(), evicted()], [1, 1]);
        drop(large);
        assert_eq!(evicted(), 1);
        operator.check("CONFIG SET maxmemory-clients 50kb => OK");
        assert_eq!([evicted(), evicted()], [2, 2]);
    }
}
