//! The listeners of each channel.
//!
//! Changed only under the partition's lock, like all effects of commands, so that a message has the
//! listeners at its position in the order of transactions. A list of listeners is shared with the
//! messages in flight to it and copied on a change: publishing to many costs one count, not one
//! copy of the list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use quartet_wire_resp::{Protocol, Reply};
use rustc_hash::FxHashMap;

use crate::command::glob;
use crate::connections::client_memory::{ClientMemory, SharedBytes};
use crate::connections::clients::{Client, Content, Delivery};
use crate::connections::mailbox::SHARED_BYTES_MIN;

/// The three kinds of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// SUBSCRIBE: one channel.
    Channel,
    /// PSUBSCRIBE: all channels that match.
    Pattern,
    /// SSUBSCRIBE: one channel of a space of its own.
    Shard,
}

/// In the order of their subscriptions.
type Listeners = Arc<Vec<Arc<Client>>>;

#[derive(Default)]
struct Index {
    channels: FxHashMap<Vec<u8>, Listeners>,
    patterns: BTreeMap<Vec<u8>, Listeners>,
    shards: FxHashMap<Vec<u8>, Listeners>,
}

#[derive(Default)]
pub struct Channels {
    index: Mutex<Index>,
    /// Number of all subscriptions. While it is zero, nothing else is checked.
    count: AtomicUsize,
}

/// A message with the connections it goes to.
pub struct Message {
    /// Queues a message for its receivers: once for the channel, and once for each pattern that
    /// matches.
    copies: Vec<(Vec<u8>, Listeners)>,
}

impl Channels {
    pub fn subscribe(&self, scope: Scope, name: &[u8], client: &Arc<Client>) {
        let mut index = self.index.lock();
        let listeners = match scope {
            Scope::Channel => index.channels.entry(name.to_vec()).or_default(),
            Scope::Pattern => index.patterns.entry(name.to_vec()).or_default(),
            Scope::Shard => index.shards.entry(name.to_vec()).or_default(),
        };
        Arc::make_mut(listeners).push(client.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub fn unsubscribe(&self, scope: Scope, name: &[u8], client_id: u64) {
        let mut index = self.index.lock();
        let Some(listeners) = index.listeners_mut(scope, name) else {
            return;
        };
        Arc::make_mut(listeners).retain(|client| client.id != client_id);
        if listeners.is_empty() {
            index.forget(scope, name);
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Builds a message for the current listeners, and returns their number.
    pub fn message(&self, scope: Scope, channel: &[u8], payload: &[u8]) -> (Message, usize) {
        let mut copies: Vec<(Vec<u8>, Listeners)> = Vec::new();
        if self.count.load(Ordering::Relaxed) == 0 {
            return (Message { copies }, 0);
        }
        let index = self.index.lock();
        if let Some(listeners) = index.listeners(scope, channel) {
            let kind: &[u8] = if scope == Scope::Shard { b"smessage" } else { b"message" };
            copies.push((push(&[kind, channel, payload]), listeners.clone()));
        }
        if scope == Scope::Channel {
            let matching = index
                .patterns
                .iter()
                .filter(|(pattern, _)| glob::matches(pattern, channel));
            copies.extend(
                matching
                    .map(|(pattern, listeners)| (push(&[b"pmessage", pattern, channel, payload]), listeners.clone())),
            );
        }
        let receivers = copies.iter().map(|(_, listeners)| listeners.len()).sum();
        (Message { copies }, receivers)
    }

    /// Everything that a connection listens to.
    pub fn subscriptions_of(&self, client_id: u64) -> Vec<(Scope, Vec<u8>)> {
        let index = self.index.lock();
        let channels = index
            .channels
            .iter()
            .map(|(name, listeners)| (Scope::Channel, name, listeners));
        let patterns = index
            .patterns
            .iter()
            .map(|(name, listeners)| (Scope::Pattern, name, listeners));
        let shards = index
            .shards
            .iter()
            .map(|(name, listeners)| (Scope::Shard, name, listeners));
        let all = channels.chain(patterns).chain(shards);
        let own = all.filter(|(_, _, listeners)| listeners.iter().any(|client| client.id == client_id));
        own.map(|(scope, name, _)| (scope, name.clone())).collect()
    }

    pub fn count(&self, scope: Scope) -> usize {
        let index = self.index.lock();
        match scope {
            Scope::Channel => index.channels.len(),
            Scope::Pattern => index.patterns.len(),
            Scope::Shard => index.shards.len(),
        }
    }

    pub fn listener_count(&self, scope: Scope, name: &[u8]) -> usize {
        self.index
            .lock()
            .listeners(scope, name)
            .map_or(0, |listeners| listeners.len())
    }

    /// The channels with a listener that match, in byte order.
    pub fn names(&self, scope: Scope, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let index = self.index.lock();
        let channels = if scope == Scope::Shard {
            &index.shards
        } else {
            &index.channels
        };
        let is_wanted = |name: &&Vec<u8>| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        let mut names: Vec<Vec<u8>> = channels.keys().filter(is_wanted).cloned().collect();
        names.sort();
        names
    }
}

impl Index {
    fn listeners(&self, scope: Scope, name: &[u8]) -> Option<&Listeners> {
        match scope {
            Scope::Channel => self.channels.get(name),
            Scope::Pattern => self.patterns.get(name),
            Scope::Shard => self.shards.get(name),
        }
    }

    fn listeners_mut(&mut self, scope: Scope, name: &[u8]) -> Option<&mut Listeners> {
        match scope {
            Scope::Channel => self.channels.get_mut(name),
            Scope::Pattern => self.patterns.get_mut(name),
            Scope::Shard => self.shards.get_mut(name),
        }
    }

    fn forget(&mut self, scope: Scope, name: &[u8]) {
        match scope {
            Scope::Channel => self.channels.remove(name),
            Scope::Pattern => self.patterns.remove(name),
            Scope::Shard => self.shards.remove(name),
        };
    }
}

impl Message {
    pub fn has_receivers(&self) -> bool {
        !self.copies.is_empty()
    }

    /// Delivers the message to all its listeners' mailboxes.
    pub fn send(self, memory: &Arc<ClientMemory>, delivery: &Delivery) {
        for (bytes, listeners) in self.copies {
            if listeners.len() > 1 && bytes.len() >= SHARED_BYTES_MIN {
                let shared = Content::Shared(SharedBytes::new(memory, bytes));
                listeners.iter().for_each(|client| client.push(&shared, delivery));
            } else {
                let own = Content::Own(&bytes);
                listeners.iter().for_each(|client| client.push(&own, delivery));
            }
        }
    }
}

/// A push of these words, as RESP3 has it.
fn push(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32 + words.iter().map(|word| word.len() + 16).sum::<usize>());
    let mut reply = Reply::new(&mut bytes, Protocol::Resp3);
    reply.push(words.len());
    words.iter().for_each(|word| reply.bulk(word));
    bytes
}
