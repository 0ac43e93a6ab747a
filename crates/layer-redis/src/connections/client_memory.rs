//! The memory that connections take, counted for the whole process, and what happens when it is too
//! much.
//!
//! Every connection may hold requests, replies, a transaction's queue and messages that its peer
//! does not read. Each has limits of its own, but a thousand connections within theirs can still
//! take everything. So all of it is counted in one place, which the layers of all logical databases
//! share. Beyond the limit the connections that take most are closed first, as Redis does it
//! ("Client eviction", redis.io): `maxmemory-clients`, or, if that is 0, a limit of the process.
//!
//! It counts in the process's budget too (`quartet_engine::Memory`), so that data and connections
//! share one limit.
//!
//! A message to many connections is one allocation. Here it counts once, until it has been sent to
//! all of them. A connection's own limits count it in full, as Redis does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use quartet_engine::Memory;

/// The counted memory of all connections of the process.
pub struct ClientMemory {
    used: AtomicUsize,
    /// The limit if `maxmemory-clients` is 0.
    pub process_limit: usize,
    /// For the whole process.
    memory: Arc<Memory>,
}

impl Default for ClientMemory {
    fn default() -> ClientMemory {
        ClientMemory::new(usize::MAX, Arc::default())
    }
}

impl ClientMemory {
    pub fn new(process_limit: usize, memory: Arc<Memory>) -> ClientMemory {
        ClientMemory {
            used: AtomicUsize::new(0),
            process_limit,
            memory,
        }
    }

    fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.memory.reserve(bytes as u64);
    }

    /// The same if the process has room for it.
    fn try_take(&self, bytes: usize) -> bool {
        let is_taken = self.memory.try_reserve(bytes as u64);
        if is_taken {
            self.used.fetch_add(bytes, Ordering::Relaxed);
        }
        is_taken
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.memory.release(bytes as u64);
    }

    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// Number of connections, each as large as one may be, that reach the limit of all of them.
const CONNECTIONS_THAT_KEEP_MOST: usize = 4;

/// A part of the counted bytes. Dropping it subtracts it.
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
            self.memory.take(bytes - self.bytes);
        } else if bytes < self.bytes {
            self.memory.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// The same if the process has room for more than now. False: nothing has changed.
    #[must_use]
    pub fn try_set(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes && !self.memory.try_take(bytes - self.bytes) {
            return false;
        }
        self.bytes = self.bytes.max(bytes);
        self.set(bytes);
        true
    }

    /// The most that one connection may ask to be kept for it, in bytes.
    pub fn most_of_one(&self) -> usize {
        self.memory.process_limit / CONNECTIONS_THAT_KEEP_MOST
    }

    /// Returns the bytes that are counted.
    pub fn bytes(&self) -> usize {
        self.bytes
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_and_what_is_shared_counts_once() {
        let process = Arc::new(Memory::default());
        let memory = Arc::new(ClientMemory::new(usize::MAX, process.clone()));
        let mut buffer = Counted::new(memory.clone(), 60_000);
        let message = SharedBytes::new(&memory, vec![0; 30_000]);
        buffer.set_roughly(60_001);
        assert_eq!(memory.used(), 90_000);
        let other = message.clone();
        assert_eq!(memory.used(), 90_000);
        buffer.set_roughly(80_000);
        buffer.set(90_000);
        drop(message);
        assert_eq!((memory.used(), process.reserved_bytes()), (120_000, 120_000));
        drop(other);
        assert_eq!(memory.used(), 90_000);
        drop(buffer);
        assert_eq!((memory.used(), process.reserved_bytes()), (0, 0));
    }
}
