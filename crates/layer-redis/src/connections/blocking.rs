//! Commands that wait for a key: BLPOP and similar.
//!
//! A waiting command is in the queue of each of its keys. When a transaction commits that changed
//! such a key, the engine's watch puts the key on the ready list, and the session that committed,
//! still holding the partition's lock, calls the waiting commands again, oldest first. So they are
//! served in order, after the whole transaction, before any other client.
//!
//! Invariants: changed only under the partition's lock, so a waiter is answered exactly once: by
//! being served, by its timeout, or by CLIENT UNBLOCK; a disconnected client's waiter is removed
//! before its connection.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use quartet_engine::{PartitionGuard, Space, WatchId};
use quartet_wire_resp::Protocol;

use crate::access::acl::Users;
use crate::command::Command;
use crate::connections::clients::{Client, ClientState, KeptFor};
use crate::keyspace::key_row;
use crate::listed::Listed;

/// A command that waits for one of its keys.
#[derive(Debug)]
pub struct Block {
    pub keys: Vec<Vec<u8>>,
    /// `None`: indefinitely. Milliseconds since the Unix epoch.
    pub deadline_ms: Option<u64>,
    /// Its answer inside EXEC, where it cannot wait. A wait that ends without an element answers a
    /// null array.
    pub in_exec: EmptyReply,
    /// The request for later executions, if words of the original mean the time of its arrival.
    pub ask_again: Option<Vec<u8>>,
    /// The command is also executed again when a key is removed or gets another kind, and its error
    /// ends the wait.
    pub even_if_gone: bool,
    /// The command is also executed again after a change that belongs to a key but not to its own
    /// row ([`Blocking::changed_below`]).
    pub even_below: bool,
    /// The command is also executed again at this time, without any change of a key, in
    /// milliseconds since the Unix epoch.
    pub again_at_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyReply {
    Null,
    NullArray,
}

/// Work for waiting clients.
#[derive(Default)]
struct Ready {
    work: Mutex<Work>,
    /// True if the list is not empty. Changed together with it: an end may be requested without the
    /// partition's lock.
    any: AtomicBool,
}

#[derive(Default)]
struct Work {
    /// Watched rows that changed, in the order of their commits.
    rows: Listed<Arc<[u8]>>,
    /// Waits that CLIENT UNBLOCK ends, or REPLICAOF all of them, with the error to answer.
    ends: Vec<(u64, Option<&'static str>)>,
}

/// Memory for a key that a client waits for beside its name, about.
const WAIT_BYTES: usize = 700;

#[derive(Default)]
pub struct Blocking {
    ready: Arc<Ready>,
    queues: Mutex<Queues>,
}

#[derive(Default)]
struct Queues {
    /// By client id: a client waits for one command at a time.
    waiters: HashMap<u64, Waiter>,
    keys: HashMap<Vec<u8>, KeyQueue>,
    /// The scheduled times of waiters, with their clients.
    due: BTreeSet<(u64, u64)>,
    next_turn: u64,
}

struct KeyQueue {
    watch: WatchId,
    /// By turn: in the order of arrival.
    clients: BTreeMap<u64, Place>,
    /// The number of clients with `even_if_gone`.
    if_gone_count: usize,
    /// The number of clients with `even_below`.
    below_count: usize,
}

/// A client in a queue.
#[derive(Clone, Copy)]
struct Place {
    client_id: u64,
    /// The client must also be called when the changed key was removed or has another kind.
    even_if_gone: bool,
    even_below: bool,
}

pub struct Waiter {
    pub client: Arc<Client>,
    pub command: &'static Command,
    request: Arc<[u8]>,
    pub protocol: Protocol,
    db: u8,
    /// The choice of CLIENT CACHING for the command.
    caching: Option<bool>,
    rows: Vec<Vec<u8>>,
    turn: u64,
    again_at_ms: Option<u64>,
}

/// A waiting command to execute again.
pub struct Asked {
    pub turn: u64,
    pub even_if_gone: bool,
    pub command: &'static Command,
    pub request: Arc<[u8]>,
    /// The connection that it saw.
    pub client: ClientState,
}

/// The figures about waiting clients that INFO shows.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub clients: usize,
    pub keys: usize,
    /// Keys with a client that is notified of their removal.
    pub keys_if_gone: usize,
}

impl Blocking {
    pub fn counts(&self) -> Counts {
        let queues = self.queues.lock();
        let is_told = |queue: &&KeyQueue| queue.if_gone_count > 0;
        Counts {
            clients: queues.waiters.len(),
            keys: queues.keys.len(),
            keys_if_gone: queues.keys.values().filter(is_told).count(),
        }
    }

    /// Memory for such a wait, about: each name is stored several times.
    pub fn bytes_of(request: &[u8], block: &Block) -> usize {
        let names: usize = block.keys.iter().map(|name| 4 * name.len() + WAIT_BYTES).sum();
        request.len() + names
    }

    /// The client waits from now on. `request` is its command for the next attempt.
    pub fn add(
        &self,
        partition: &mut PartitionGuard<'_>,
        space: Space,
        client: &ClientState,
        command: &'static Command,
        request: Arc<[u8]>,
        block: Block,
    ) {
        let mut queues = self.queues.lock();
        queues.next_turn += 1;
        let turn = queues.next_turn;
        let mut rows: Vec<Vec<u8>> = block
            .keys
            .iter()
            .map(|name| key_row(client.db, name).to_vec())
            .collect();
        rows.sort();
        rows.dedup();
        let place = Place {
            client_id: client.shared.id,
            even_if_gone: block.even_if_gone,
            even_below: block.even_below,
        };
        for row in &rows {
            let queue = queues.keys.entry(row.clone()).or_insert_with(|| {
                let ready = self.ready.clone();
                let callback = Arc::new(move |full_key: &[u8]| ready.push(PartitionGuard::layer_key(full_key)));
                KeyQueue {
                    watch: partition.watch_key(space, row, callback),
                    clients: BTreeMap::new(),
                    if_gone_count: 0,
                    below_count: 0,
                }
            });
            queue.if_gone_count += usize::from(place.even_if_gone);
            queue.below_count += usize::from(place.even_below);
            queue.clients.insert(turn, place);
        }
        client.shared.blocked.store(true, Ordering::SeqCst);
        let waiter = Waiter {
            client: client.shared.clone(),
            command,
            request,
            protocol: client.protocol,
            db: client.db,
            caching: client.caching,
            rows,
            turn,
            again_at_ms: None,
        };
        queues.waiters.insert(client.shared.id, waiter);
        drop(queues);
        self.ask_again(client.shared.id, block.again_at_ms);
    }

    /// Schedules the client's next call for this time, unless an earlier call is already scheduled.
    pub fn ask_again(&self, client_id: u64, at_ms: Option<u64>) {
        let Some(at_ms) = at_ms else {
            return;
        };
        let queues = &mut *self.queues.lock();
        let Some(waiter) = queues.waiters.get_mut(&client_id) else {
            return;
        };
        if waiter.again_at_ms.is_none_or(|known_ms| at_ms < known_ms) {
            if let Some(known_ms) = waiter.again_at_ms.replace(at_ms) {
                queues.due.remove(&(known_ms, client_id));
            }
            queues.due.insert((at_ms, client_id));
        }
    }

    /// Makes the rows ready of all clients with a scheduled time at or before `now_ms`.
    pub fn ask_due(&self, now_ms: u64) {
        let queues = &mut *self.queues.lock();
        while let Some(&(at_ms, client_id)) = queues.due.first()
            && at_ms <= now_ms
        {
            queues.due.pop_first();
            let waiter = queues.waiters.get_mut(&client_id).expect("a client that waits");
            waiter.again_at_ms = None;
            waiter.rows.iter().for_each(|row| self.ready.push(row));
        }
    }

    /// Notes a change below the key of this row, without a change of the row itself.
    pub fn changed_below(&self, row: &[u8]) {
        let queues = self.queues.lock();
        if queues.keys.get(row).is_some_and(|queue| queue.below_count > 0) {
            self.ready.push(row);
        }
    }

    /// Returns true if a client may be served, or a wait must be ended.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.ready.any.load(Ordering::Relaxed)
    }

    /// Waits that must be ended, each with its error.
    pub fn take_ends(&self) -> Vec<(u64, Option<&'static str>)> {
        self.ready.change(|work| std::mem::take(&mut work.ends))
    }

    /// The row that changed first among the rows that were not taken since.
    pub fn next_row(&self) -> Option<Arc<[u8]>> {
        self.ready.change(|work| work.rows.take_first())
    }

    /// Returns true if a client waits for the row; `if_gone`: one that wants to be asked even if it
    /// is gone.
    pub fn has_waiter(&self, row: &[u8], if_gone: bool) -> bool {
        let queues = self.queues.lock();
        let queue = queues.keys.get(row);
        queue.is_some_and(|queue| !if_gone || queue.if_gone_count > 0)
    }

    /// Returns the client that has waited longest for the row, after `turn`; `if_gone`: among
    /// clients that are also called after its removal.
    pub fn next_waiting(&self, users: &Users, row: &[u8], turn: u64, if_gone: bool) -> Option<Asked> {
        let queues = self.queues.lock();
        let queue = queues.keys.get(row)?;
        if if_gone && queue.if_gone_count == 0 {
            return None;
        }
        let behind = queue.clients.range(turn + 1..);
        let mut candidates = behind.filter(|(_, place)| place.even_if_gone || !if_gone);
        candidates.find_map(|(&turn, place)| {
            let waiter = queues.waiters.get(&place.client_id)?;
            // A killed connection is given nothing, even while it is still being closed.
            if waiter.client.killed.load(Ordering::SeqCst) {
                return None;
            }
            let mut client = ClientState::new(waiter.client.clone(), true, waiter.client.user(users));
            client.db = waiter.db;
            client.protocol = waiter.protocol;
            client.caching = waiter.caching;
            Some(Asked {
                turn,
                even_if_gone: place.even_if_gone,
                command: waiter.command,
                request: waiter.request.clone(),
                client,
            })
        })
    }

    /// Whatever has happened to the row, everybody who wants to know of it does.
    pub fn is_done_with(&self, row: &[u8]) {
        self.ready.change(|work| work.rows.remove(&row.into()));
    }

    /// The request of a waiting client, for its next execution.
    pub fn request_of(&self, client_id: u64) -> Option<Arc<[u8]>> {
        let queues = self.queues.lock();
        queues.waiters.get(&client_id).map(|waiter| waiter.request.clone())
    }

    /// Takes the client out of every queue. False if it no longer waits: it was answered.
    pub fn remove(&self, partition: &mut PartitionGuard<'_>, client_id: u64) -> Option<Waiter> {
        let mut queues = self.queues.lock();
        let waiter = queues.waiters.remove(&client_id)?;
        if let Some(at_ms) = waiter.again_at_ms {
            queues.due.remove(&(at_ms, client_id));
        }
        for row in &waiter.rows {
            if let Some(queue) = queues.keys.get_mut(row) {
                let place = queue.clients.remove(&waiter.turn);
                queue.if_gone_count -= usize::from(place.is_some_and(|place| place.even_if_gone));
                queue.below_count -= usize::from(place.is_some_and(|place| place.even_below));
                if queue.clients.is_empty() {
                    let queue = queues.keys.remove(row).expect("the queue that was just found");
                    partition.unwatch(queue.watch);
                }
            }
        }
        waiter.client.blocked.store(false, Ordering::SeqCst);
        waiter.client.keep_nothing(KeptFor::Wait);
        Some(waiter)
    }

    /// Ends the wait once the transaction that asks for it is over. False if the client does not
    /// wait.
    pub fn end_soon(&self, client_id: u64, error: Option<&'static str>) -> bool {
        if !self.queues.lock().waiters.contains_key(&client_id) {
            return false;
        }
        self.ready.change(|work| work.ends.push((client_id, error)));
        true
    }

    /// The same for all waiting clients.
    pub fn end_all_soon(&self, error: &'static str) {
        let waiting: Vec<u64> = self.queues.lock().waiters.keys().copied().collect();
        for client_id in waiting {
            self.end_soon(client_id, Some(error));
        }
    }

    /// The connection was closed: it must not be served.
    pub fn forget(&self, partition: &mut PartitionGuard<'_>, client_id: u64) {
        self.remove(partition, client_id);
    }
}

impl Ready {
    fn push(&self, row: &[u8]) {
        self.change(|work| work.rows.add(row.into(), ()));
    }

    fn change<T>(&self, change: impl FnOnce(&mut Work) -> T) -> T {
        let mut work = self.work.lock();
        let result = change(&mut work);
        let any = !work.rows.is_empty() || !work.ends.is_empty();
        self.any.store(any, Ordering::Relaxed);
        result
    }
}
