//! Closing the connections that take most memory, when all of them together take too much.

use crate::connections::clients::Client;
use crate::layer::Redis;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// To be called often. Closes connections until the rest take no more than the limit, those that
/// take most first. `operators` is the layer whose `maxmemory-clients` counts, and whose clients
/// may be exempt by CLIENT NO-EVICT; it is the first of `layers`.
pub fn evict(operators: &Redis, layers: &[Arc<Redis>]) {
    let memory = &operators.connections.clients.memory;
    let limit = operators.config.client_bytes_max();
    let limit = limit.unwrap_or(memory.process_limit);
    if memory.used() <= limit {
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
    // Memory of a connection's own task is freed when the task ends.
    let mut ending_bytes = 0;
    for (bytes, layer, client) in largest {
        if bytes == 0 || memory.used().saturating_sub(ending_bytes) <= limit {
            break;
        }
        client.empty_mailbox();
        ending_bytes += client.buffers.total();
        // Counted first: an observer that misses the connection finds it counted.
        let evicted = &layer.observation.statistics.evicted_clients;
        evicted.fetch_add(1, Ordering::SeqCst);
        layer.connections.clients.kill(&client);
    }
}
