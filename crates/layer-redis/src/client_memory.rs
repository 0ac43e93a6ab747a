//! The memory that connections take, counted for the whole process, and what happens when it is too much.
//!
//! Every connection may hold requests, replies, a transaction's queue and messages that its peer does not read. Each has limits
//! of its own, but a thousand connections within theirs can still take everything. So all of it is counted in one place, which
//! the layers of all logical databases share. Beyond the limit the connections that take most are closed first, as Redis does
//! it ("Client eviction", redis.io): `maxmemory-clients`, or, if that is 0, a limit of the process.
//!
//! A message to many connections is one allocation. Here it counts once, for as long as somebody has yet to be sent it. A
//! connection's own limits count it in full, as Redis counts it.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Redis;
use crate::clients::Client;

/// What is counted, of all connections of the process.
pub struct ClientMemory {
    used: AtomicUsize,
    /// The limit if `maxmemory-clients` is 0.
    process_limit: usize,
}

impl Default for ClientMemory {
    fn default() -> ClientMemory {
        ClientMemory::new(usize::MAX)
    }
}

impl ClientMemory {
    pub fn new(process_limit: usize) -> ClientMemory {
        ClientMemory {
            used: AtomicUsize::new(0),
            process_limit,
        }
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// A part of what is counted. Dropping it takes it off.
pub struct Counted {
    memory: Arc<ClientMemory>,
    bytes: usize,
}

impl Counted {
    pub fn new(memory: Arc<ClientMemory>, bytes: usize) -> Counted {
        let mut counted = Counted { memory, bytes: 0 };
        counted.set(bytes);
        counted
    }

    #[inline]
    pub fn set(&mut self, bytes: usize) {
        if bytes > self.bytes {
            self.memory.used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            self.memory.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// The same for what changes with every request: small differences are left for later.
    #[inline]
    pub fn set_roughly(&mut self, bytes: usize) {
        if bytes.abs_diff(self.bytes) >= ROUGHLY_BYTES || bytes == 0 {
            self.set(bytes);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.set(0);
    }
}

const ROUGHLY_BYTES: usize = 16 << 10;

/// Bytes for many connections.
pub struct SharedBytes {
    bytes: Vec<u8>,
    _counted: Counted,
}

impl SharedBytes {
    pub fn new(memory: &Arc<ClientMemory>, bytes: Vec<u8>) -> Arc<SharedBytes> {
        let counted = Counted::new(memory.clone(), bytes.capacity());
        Arc::new(SharedBytes {
            bytes,
            _counted: counted,
        })
    }
}

impl std::ops::Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// To be called often. Closes connections until the rest take no more than the limit, those that take most first. `operators` is the layer whose
/// `maxmemory-clients` counts, and whose clients may be exempt by CLIENT NO-EVICT; it is the first of `layers`.
pub fn evict(operators: &Redis, layers: &[Arc<Redis>]) {
    let memory = &operators.clients.memory;
    let limit = operators.config.client_bytes_max();
    let limit = limit.unwrap_or(memory.process_limit);
    if memory.used() <= limit {
        return;
    }
    let mut largest: Vec<(usize, &Redis, Arc<Client>)> = Vec::new();
    for layer in layers {
        let clients = layer.clients.list().into_iter();
        let clients = clients.filter(|client| layer.gate.is_some() || !client.no_evict.load(Ordering::Relaxed));
        largest.extend(clients.map(|client| (client.buffers.total(), &**layer, client)));
    }
    largest.sort_by_key(|(bytes, _, client)| (Reverse(*bytes), client.id));
    // What a connection's own task holds is given back when the task ends.
    let mut ending_bytes = 0;
    for (bytes, layer, client) in largest {
        if bytes == 0 || memory.used().saturating_sub(ending_bytes) <= limit {
            break;
        }
        client.empty_mailbox();
        ending_bytes += client.buffers.total();
        layer.clients.kill(&client);
        layer.statistics.evicted_clients.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_what_is_shared_counts_once() {
        let memory = Arc::new(ClientMemory::default());
        let mut buffer = Counted::new(memory.clone(), 60_000);
        let message = SharedBytes::new(&memory, vec![0; 30_000]);
        buffer.set_roughly(60_001);
        assert_eq!(memory.used(), 90_000);
        let other = message.clone();
        assert_eq!(memory.used(), 90_000);
        buffer.set_roughly(80_000);
        buffer.set(90_000);
        drop(message);
        assert_eq!(memory.used(), 120_000);
        drop(other);
        assert_eq!(memory.used(), 90_000);
        drop(buffer);
        assert_eq!(memory.used(), 0);
    }
}
