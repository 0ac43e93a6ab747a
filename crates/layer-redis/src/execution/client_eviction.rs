//! Closing the connections that take most memory, when all of them together take too much.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::connections::clients::Client;
use crate::layer::Redis;

/// The connections that were closed and whose tasks have not ended yet, each with the bytes that
/// are freed when its task does.
#[derive(Default)]
pub struct ClientEviction {
    ending: Vec<(Weak<Client>, usize)>,
}

impl ClientEviction {
    /// Must be called often. Closes connections, those with the most memory first, until the rest
    /// are below the limit. `operators` is the layer whose `maxmemory-clients` applies, and whose
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
        let mut largest: Vec<(usize, &Redis, Arc<Client>)> = Vec::new();
        for layer in layers {
            let clients = layer.connections.clients.list().into_iter();
            let clients = clients
                .filter(|client| layer.access.admission_control.is_some() || !client.no_evict.load(Ordering::Relaxed));
            largest.extend(clients.map(|client| (client.buffers.total(), &**layer, client)));
        }
        largest.sort_by_key(|(bytes, _, client)| (Reverse(*bytes), client.id));
        for (bytes, layer, client) in largest {
            if bytes == 0 || memory.used().saturating_sub(ending_bytes) <= limit {
                break;
            }
            client.empty_mailbox();
            let own_bytes = client.buffers.total();
            ending_bytes += own_bytes;
            self.ending.push((Arc::downgrade(&client), own_bytes));
            // Counted first: an observer that misses the connection finds it counted.
            let evicted = &layer.observation.statistics.evicted_clients;
            evicted.fetch_add(1, Ordering::SeqCst);
            layer.connections.clients.kill(&client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::client_memory::Counted;
    use crate::testing::Fixture;

    /// With busy threads the task of a closed connection may end late. Until then its memory was
    /// counted, and each check closed another connection because of it.
    #[test]
    fn no_connection_is_closed_for_memory_about_to_be_freed() {
        let fixture = Fixture::new();
        let layer = &fixture.layer;
        let mut operator = fixture.connect();
        operator.check("CLIENT NO-EVICT on => OK");
        operator.check("CONFIG SET maxmemory-clients 500kb => OK");
        let [large, _small] = [1 << 20, 100 << 10].map(|bytes| {
            let mut connection = fixture.connect();
            connection.check("MULTI => OK");
            connection.run(&["SET", "key", &"x".repeat(bytes)]);
            (
                connection,
                Counted::new(layer.connections.clients.memory.clone(), bytes),
            )
        });
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
