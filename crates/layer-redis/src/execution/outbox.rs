//! Sends the notices of committed transactions to other connections.

use crate::connections::clients::Delivery;
use crate::connections::outbox::Item;
use crate::handler::caching;
use crate::layer::Redis;
use quartet_engine::Dependency;
use std::sync::atomic::{AtomicI64, Ordering};

impl Redis {
    /// Sends the notices of committed transactions. Called with the lock held, after the replies of
    /// their commands.
    #[inline]
    pub fn send_outbox(&self) {
        if self.outbox.any() {
            self.send_items(self.outbox.take());
        }
    }

    fn send_items(&self, items: Vec<(Item, Dependency)>) {
        let mut delivery = self.delivery(Dependency::ZERO);
        let mut broadcasts = false;
        for (item, dependency) in items {
            delivery.dependency = delivery.dependency.max(dependency);
            match item {
                Item::Message(message) => message.send(&self.connections.clients.memory, &delivery),
                Item::Invalidation { client, name } => {
                    let names = name.map(|name| [name]);
                    caching::send(self, &client, names.as_ref().map(<[_; 1]>::as_slice), &delivery);
                }
                Item::Broadcasts => broadcasts = true,
            }
        }
        if broadcasts {
            caching::send_broadcasts(self, &delivery);
        }
    }

    /// Closes listeners that have exceeded their soft limit for too long. Called about once a
    /// second.
    pub fn enforce_soft_limits(&self) {
        self.connections
            .clients
            .enforce_soft_limits(&self.delivery(Dependency::ZERO));
    }

    /// How pushes are left that wait for `dependency`.
    fn delivery(&self, dependency: Dependency) -> Delivery {
        let number = |field: &AtomicI64| field.load(Ordering::Relaxed);
        Delivery {
            dependency,
            now_micros: self.engine.now_micros(),
            bytes_hard: number(&self.config.pubsub_bytes_hard) as usize,
            bytes_soft: number(&self.config.pubsub_bytes_soft) as usize,
            soft_micros: number(&self.config.pubsub_soft_seconds) as u64 * 1_000_000,
        }
    }
}
