//! A connection's subscriptions, and the commands that change them.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use crate::command::{Command, changes_subscriptions};
use crate::connections::channels::Scope;
use crate::connections::clients::Client;

/// A connection's subscriptions.
#[derive(Default)]
pub struct Subscriptions {
    channels: BTreeSet<Vec<u8>>,
    patterns: BTreeSet<Vec<u8>>,
    shards: BTreeSet<Vec<u8>>,
}

impl Subscriptions {
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty() && self.shards.is_empty()
    }

    pub fn of(&self, scope: Scope) -> &BTreeSet<Vec<u8>> {
        match scope {
            Scope::Channel => &self.channels,
            Scope::Pattern => &self.patterns,
            Scope::Shard => &self.shards,
        }
    }

    pub fn of_mut(&mut self, scope: Scope) -> &mut BTreeSet<Vec<u8>> {
        match scope {
            Scope::Channel => &mut self.channels,
            Scope::Pattern => &mut self.patterns,
            Scope::Shard => &mut self.shards,
        }
    }

    /// The number in a confirmation: channels and patterns count together, a shard's channels
    /// separately.
    pub fn count(&self, scope: Scope) -> usize {
        match scope {
            Scope::Channel | Scope::Pattern => self.channels.len() + self.patterns.len(),
            Scope::Shard => self.shards.len(),
        }
    }

    pub fn tell(&self, client: &Client) {
        let counts = &client.subscriptions;
        counts.channels.store(self.channels.len(), Ordering::Relaxed);
        counts.patterns.store(self.patterns.len(), Ordering::Relaxed);
        counts.shards.store(self.shards.len(), Ordering::Relaxed);
    }
}

/// Commands that RESP2 allows a connection that listens.
pub fn is_allowed_while_subscribed(command: &Command) -> bool {
    let words = ["ping", "quit", "reset"];
    words.contains(&command.name) || changes_subscriptions(command)
}
