//! What a transaction tells other connections: messages, and the keys that it changed.
//!
//! Gathered while the transaction runs, under the partition's lock, and sent once it has committed, after its own reply,
//! with the hold of the transaction. So nobody hears of what is taken back, nor of what a crash could take back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::Mutex;
use quartet_engine::Hold;

use crate::Redis;
use crate::channels::Message;
use crate::clients::{Client, Delivery};
use crate::tracking;

/// Something to be told.
pub enum Item {
    Message(Message),
    /// A connection that caches is told to forget a key; `None`: all keys.
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
    /// Of the transaction that runs.
    gathered: Vec<Item>,
    /// Of transactions that have committed.
    committed: Vec<(Item, Hold)>,
}

impl Outbox {
    pub fn add(&self, item: Item) {
        self.items.lock().gathered.push(item);
        self.any.store(true, Ordering::Relaxed);
    }

    /// The transaction has committed: what it gathered may be sent once `hold` is durable.
    #[inline]
    pub fn commit(&self, hold: Hold) {
        if self.any.load(Ordering::Relaxed) {
            let items = &mut *self.items.lock();
            items
                .committed
                .extend(items.gathered.drain(..).map(|item| (item, hold)));
        }
    }

    /// The transaction was taken back. Its messages go with it; what was to be forgotten is forgotten all the same, because the
    /// tracking table no longer knows who remembers it.
    #[inline]
    pub fn discard(&self, hold: Hold) {
        if self.any.load(Ordering::Relaxed) {
            let is_message = |item: &mut Item| matches!(item, Item::Message(_));
            self.items.lock().gathered.retain_mut(|item| !is_message(item));
            self.commit(hold);
        }
    }

    fn take(&self) -> Vec<(Item, Hold)> {
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.items.lock().committed)
    }
}

impl Redis {
    /// Sends what committed transactions have to tell. Called with the lock held, after the replies of their commands.
    #[inline]
    pub fn send_outbox(&self) {
        if self.outbox.any.load(Ordering::Relaxed) {
            self.send_items(self.outbox.take());
        }
    }

    fn send_items(&self, items: Vec<(Item, Hold)>) {
        let mut delivery = self.delivery(Hold::ZERO);
        let mut broadcasts = false;
        for (item, hold) in items {
            delivery.hold = delivery.hold.max(hold);
            match item {
                Item::Message(message) => message.send(&self.clients.memory, &delivery),
                Item::Invalidation { client, name } => {
                    let names = name.map(|name| [name]);
                    tracking::send(self, &client, names.as_ref().map(<[_; 1]>::as_slice), &delivery);
                }
                Item::Broadcasts => broadcasts = true,
            }
        }
        if broadcasts {
            self.tracking.send_broadcasts(self, &delivery);
        }
    }

    /// Closes listeners that have been over their soft limit for too long. Called about once a second.
    pub fn enforce_soft_limits(&self) {
        self.clients.enforce_soft_limits(&self.delivery(Hold::ZERO));
    }

    /// How pushes are left that wait for `hold`.
    fn delivery(&self, hold: Hold) -> Delivery {
        let number = |field: &AtomicI64| field.load(Ordering::Relaxed);
        Delivery {
            hold,
            now_micros: self.engine.now_micros(),
            bytes_hard: number(&self.config.pubsub_bytes_hard) as usize,
            bytes_soft: number(&self.config.pubsub_bytes_soft) as usize,
            soft_micros: number(&self.config.pubsub_soft_seconds) as u64 * 1_000_000,
        }
    }
}
