//! Commands that wait for a key: BLPOP and its kin.
//!
//! A waiting command stands in the queue of each of its keys. When a transaction commits that changed such a key, the
//! engine's watch puts the key on the ready list, and the session that committed, still holding the partition's lock, asks the
//! waiting commands again, oldest first. So they are served in order, after the whole transaction, before any other client.
//!
//! Invariants: changed only under the partition's lock, so a waiter is answered exactly once: by being served, by its
//! timeout, or by CLIENT UNBLOCK; a disconnected client's waiter is gone before its connection is.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use quartet_engine::{Home, WatchId};
use quartet_wire_resp::{Limits, Parsed, Parser, Protocol, Reply};

use crate::Redis;
use crate::acl::Users;
use crate::clients::{Client, ClientState};
use crate::command::{Block, Command, Failure};
use crate::errors;
use crate::keyspace::{Keyspace, key_row};
use crate::session;

/// Watched rows that changed, in the order of their commits.
#[derive(Default)]
struct Ready {
    rows: Mutex<VecDeque<Vec<u8>>>,
    any: AtomicBool,
}

#[derive(Default)]
pub struct Blocking {
    ready: Arc<Ready>,
    queues: Mutex<Queues>,
    /// Waits that CLIENT UNBLOCK ends, with the error to answer.
    ends: Mutex<Vec<(u64, Option<&'static str>)>>,
}

#[derive(Default)]
struct Queues {
    /// By client id: a client waits for one command at a time.
    waiters: HashMap<u64, Waiter>,
    keys: HashMap<Vec<u8>, KeyQueue>,
    next_turn: u64,
}

struct KeyQueue {
    watch: WatchId,
    /// By turn: first come, first served.
    clients: BTreeMap<u64, Place>,
}

/// A client in a queue.
#[derive(Clone, Copy)]
struct Place {
    client_id: u64,
    /// It wants to be asked even if the key that changed is gone or holds another kind.
    even_if_gone: bool,
}

struct Waiter {
    client: Arc<Client>,
    command: &'static Command,
    request: Vec<u8>,
    protocol: Protocol,
    db: u8,
    /// What CLIENT CACHING said of the command.
    caching: Option<bool>,
    rows: Vec<Vec<u8>>,
    turn: u64,
}

/// What INFO shows of those who wait.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub clients: usize,
    pub keys: usize,
    /// Keys with a client that is told when they are gone.
    pub keys_if_gone: usize,
}

impl Blocking {
    pub fn counts(&self) -> Counts {
        let queues = self.queues.lock();
        let is_told = |queue: &&KeyQueue| queue.clients.values().any(|place| place.even_if_gone);
        Counts {
            clients: queues.waiters.len(),
            keys: queues.keys.len(),
            keys_if_gone: queues.keys.values().filter(is_told).count(),
        }
    }

    /// The client waits from now on. `request` is its command as it is to be asked again.
    pub fn add(
        &self,
        home: &mut Home<'_>,
        layer: &Redis,
        client: &ClientState,
        command: &'static Command,
        request: Vec<u8>,
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
        };
        for row in &rows {
            let queue = queues.keys.entry(row.clone()).or_insert_with(|| {
                let ready = self.ready.clone();
                let callback = Arc::new(move |full_key: &[u8]| ready.push(Home::layer_key(full_key)));
                KeyQueue {
                    watch: home.watch_key(layer.space, row, callback),
                    clients: BTreeMap::new(),
                }
            });
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
        };
        queues.waiters.insert(client.shared.id, waiter);
    }

    /// Takes the client out of every queue. False if it no longer waits: somebody has answered it.
    fn remove(&self, home: &mut Home<'_>, client_id: u64) -> Option<Waiter> {
        let mut queues = self.queues.lock();
        let waiter = queues.waiters.remove(&client_id)?;
        for row in &waiter.rows {
            if let Some(queue) = queues.keys.get_mut(row) {
                queue.clients.remove(&waiter.turn);
                if queue.clients.is_empty() {
                    let queue = queues.keys.remove(row).expect("the queue that was just found");
                    home.unwatch(queue.watch);
                }
            }
        }
        waiter.client.blocked.store(false, Ordering::SeqCst);
        Some(waiter)
    }

    /// Ends the wait without an element, at its deadline or by CLIENT UNBLOCK. False if the client does not wait.
    pub fn end(&self, home: &mut Home<'_>, layer: &Redis, client_id: u64, error: Option<&str>) -> bool {
        let Some(waiter) = self.remove(home, client_id) else {
            return false;
        };
        let mut bytes = Vec::new();
        let mut reply = Reply::new(&mut bytes, waiter.protocol);
        match error {
            Some(error) => reply.error(error),
            None => reply.null_array(),
        }
        layer.statistics.wait_ended(waiter.command, error);
        // That there was nothing to take may rest on what is not durable yet.
        waiter.client.post(&bytes, home.latest_hold(layer.space), true);
        true
    }

    /// Ends the wait once the transaction that asks for it is over. False if the client does not wait.
    pub fn end_soon(&self, client_id: u64, error: Option<&'static str>) -> bool {
        if !self.queues.lock().waiters.contains_key(&client_id) {
            return false;
        }
        self.ends.lock().push((client_id, error));
        self.ready.any.store(true, Ordering::Relaxed);
        true
    }

    /// The connection is gone: nothing is to be given to it.
    pub fn forget(&self, home: &mut Home<'_>, client_id: u64) {
        self.remove(home, client_id);
    }

    /// Serves whoever waits for keys that changed since the last call. Called with the lock held, after each transaction.
    #[inline]
    pub fn serve(&self, home: &mut Home<'_>, layer: &Redis) {
        while self.ready.any.load(Ordering::Relaxed) {
            for (client_id, error) in std::mem::take(&mut *self.ends.lock()) {
                self.end(home, layer, client_id, error);
            }
            let Some(row) = self.ready.pop() else { return };
            self.serve_key(home, layer, &row);
        }
    }

    fn serve_key(&self, home: &mut Home<'_>, layer: &Redis, row: &[u8]) {
        let places: Vec<Place> = match self.queues.lock().keys.get(row) {
            Some(queue) => queue.clients.values().copied().collect(),
            None => return,
        };
        let mut is_there = true;
        for Place {
            client_id,
            even_if_gone,
        } in places
        {
            is_there = is_there && exists(home, layer, row);
            if !is_there && !even_if_gone {
                continue;
            }
            let Some((command, request, client)) = self.waiting(&layer.users, client_id) else {
                continue;
            };
            let mut bytes = Vec::new();
            let changed = (&row[2..], even_if_gone);
            if let Some(hold) = retry(home, layer, command, &request, changed, client, &mut bytes)
                && let Some(waiter) = self.remove(home, client_id)
            {
                waiter.client.post(&bytes, hold, true);
                layer.send_outbox();
            }
        }
    }

    fn waiting(&self, users: &Users, client_id: u64) -> Option<(&'static Command, Vec<u8>, ClientState)> {
        let queues = self.queues.lock();
        // A killed connection is given nothing, even while it is still being closed.
        let waiter = queues.waiters.get(&client_id)?;
        if waiter.client.killed.load(Ordering::SeqCst) {
            return None;
        }
        let mut client = ClientState::new(waiter.client.clone(), true, users.of(&waiter.client));
        client.db = waiter.db;
        client.protocol = waiter.protocol;
        client.caching = waiter.caching;
        Some((waiter.command, waiter.request.clone(), client))
    }
}

/// Asks a waiting command again, because the key `changed`. `None`: it goes on waiting, as most commands do while the key is of
/// another kind.
fn retry(
    home: &mut Home<'_>,
    layer: &Redis,
    command: &'static Command,
    request: &[u8],
    (changed, even_if_gone): (&[u8], bool),
    mut client: ClientState,
    bytes: &mut Vec<u8>,
) -> Option<quartet_engine::Hold> {
    let mut parser = Parser::new();
    let Ok(Parsed::Request { .. }) = parser.parse(request, &Limits::unlimited()) else {
        return None;
    };
    let arguments = parser.arguments(request);
    // The rules may have changed while it waited.
    if let Err(denial) = client.user.check(command, arguments) {
        let text = denial.text(command);
        layer.statistics.error_sent(text.as_bytes());
        Reply::new(bytes, client.protocol).error(&text);
        return Some(quartet_engine::Hold::ZERO);
    }
    let text = match session::call(home, layer, &mut client, command, arguments, Some(changed), bytes) {
        Ok(hold) => return Some(hold),
        Err(
            Failure::Block(_)
            | Failure::After(_)
            | Failure::Elsewhere(_)
            | Failure::TooSoon { .. }
            | Failure::Kept { .. }
            | Failure::Overrun,
        ) => return None,
        Err(Failure::Error(errors::WRONG_TYPE)) if !even_if_gone => return None,
        Err(Failure::Error(text)) => text.to_owned(),
        Err(Failure::Message(text)) => text,
    };
    layer.statistics.error_sent(text.as_bytes());
    Reply::new(bytes, client.protocol).error(&text);
    Some(client.failure_hold)
}

fn exists(home: &mut Home<'_>, layer: &Redis, row: &[u8]) -> bool {
    let now_ms = home.now_micros() / 1000;
    let found = home.execute(layer.space, |tx| -> Result<bool, ()> {
        let (db, changes) = (row[1], &layer.changes);
        Ok(Keyspace {
            tx,
            db,
            now_ms,
            changes,
        }
        .find(&row[2..])
        .is_some())
    });
    found.is_ok_and(|(found, _)| found)
}

impl Ready {
    fn push(&self, row: &[u8]) {
        let mut rows = self.rows.lock();
        if !rows.iter().any(|other| other == row) {
            rows.push_back(row.to_vec());
        }
        self.any.store(true, Ordering::Relaxed);
    }

    fn pop(&self) -> Option<Vec<u8>> {
        let mut rows = self.rows.lock();
        let row = rows.pop_front();
        self.any.store(!rows.is_empty(), Ordering::Relaxed);
        row
    }
}
