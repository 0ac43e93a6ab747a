//! A transaction's notices to other connections: messages, and the keys that it changed.
//!
//! Messages are gathered while the transaction runs, under the partition's lock, and sent after its
//! commit, after its own reply, with the dependency of the transaction. So clients receive no
//! effects that are rolled back, or that a crash could undo.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use quartet_engine::Dependency;

use crate::connections::channels::Message;
use crate::connections::clients::Client;

/// A notice.
pub enum Item {
    Message(Message),
    /// A connection that caches must forget a key; `None`: all keys.
    Invalidation {
        client: Arc<Client>,
        name: Option<Vec<u8>>,
    },
    /// Keys below the prefix of a broadcast have changed.
    Broadcasts,
}

#[derive(Default)]
pub struct Outbox {
    any: AtomicBool,
    items: Mutex<Items>,
}

#[derive(Default)]
struct Items {
    /// Notices of the transaction that runs.
    gathered: Vec<Item>,
    /// Notices of transactions that have committed.
    committed: Vec<(Item, Dependency)>,
}

impl Outbox {
    pub fn add(&self, item: Item) {
        self.items.lock().gathered.push(item);
        self.any.store(true, Ordering::Relaxed);
    }

    /// The transaction has committed: what it gathered may be sent once `dependency` is durable.
    #[inline]
    pub fn commit(&self, dependency: Dependency) {
        if self.any.load(Ordering::Relaxed) {
            let items = &mut *self.items.lock();
            items
                .committed
                .extend(items.gathered.drain(..).map(|item| (item, dependency)));
        }
    }

    /// The transaction was rolled back. Its messages are dropped; invalidations are sent all the
    /// same, because the tracking table no longer knows the caching clients.
    #[inline]
    pub fn discard(&self, dependency: Dependency) {
        if self.any.load(Ordering::Relaxed) {
            let is_message = |item: &mut Item| matches!(item, Item::Message(_));
            self.items.lock().gathered.retain_mut(|item| !is_message(item));
            self.commit(dependency);
        }
    }

    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    pub fn take(&self) -> Vec<(Item, Dependency)> {
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.items.lock().committed)
    }
}
