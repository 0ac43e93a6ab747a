//! Notifies caching clients of changed keys, and records which client has read which key
//! ([`crate::connections::tracking`]).

use crate::command::{Command, Group, PUBSUB, READONLY};
use crate::connections::clients::{Client, ClientState, Content, Delivery};
use crate::connections::outbox::Item;
use crate::connections::tracking::CHANNEL;
use crate::handler::groups::Groups;
use crate::keyspace::changes::Change;
use crate::layer::Redis;
use quartet_engine::Dependency;
use quartet_wire_resp::{Arguments, Protocol, Reply};
use rustc_hash::FxHashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Gathers the receivers of `writer`'s change of the key.
pub fn changed(layer: &Redis, name: &[u8], writer: Option<u64>) {
    let mut table = layer.connections.tracking.table.lock();
    table.each_broadcast_of(name, |broadcast| {
        broadcast.changed.insert(name.to_vec(), writer);
        layer.outbox.add(Item::Broadcasts);
    });
    if let Some(clients) = table.forget(name) {
        drop(table);
        tell(layer, clients, name, writer);
    }
}

/// After all keys were deleted: every tracking connection is notified.
pub fn flushed(groups: Groups<'_>) {
    let layer = groups.layer;
    let mut table = layer.connections.tracking.table.lock();
    table.keys.clear();
    table.item_count = 0;
    drop(table);
    if !layer.connections.tracking.is_on() {
        return;
    }
    for client in layer.connections.clients.list() {
        if client.tracking.lock().is_some() {
            layer.outbox.add(Item::Invalidation { client, name: None });
        }
    }
}

/// Makes the table as small as it has to be.
fn trim(layer: &Redis) {
    let keys_max = layer.config.tracking_table_max_keys.load(Ordering::Relaxed) as usize;
    loop {
        let mut table = layer.connections.tracking.table.lock();
        let over = keys_max > 0 && table.keys.len() > keys_max;
        let Some(name) = over.then(|| table.keys.keys().next().cloned()).flatten() else {
            return;
        };
        let clients = table.forget(&name).unwrap_or_default();
        drop(table);
        tell(layer, clients, &name, None);
    }
}

/// Tells the broadcast changes: one message for each prefix and connection, with the names of keys
/// that its user may read.
pub fn send_broadcasts(layer: &Redis, delivery: &Delivery) {
    let mut table = layer.connections.tracking.table.lock();
    let mut broadcasts: Vec<(Arc<Client>, Vec<Vec<u8>>)> = Vec::new();
    for broadcast in table.prefixes.values_mut() {
        let changed = std::mem::take(&mut broadcast.changed);
        let clients = broadcast.clients.iter().filter(|_| !changed.is_empty());
        for client in clients.filter_map(|id| layer.connections.clients.find(*id)) {
            let no_loop = does_not_loop(&client);
            let user = client.user(&layer.access.users);
            let is_told = |(name, writer): &(&Vec<u8>, &Option<u64>)| {
                !(no_loop && **writer == Some(client.id)) && user.may_read(name)
            };
            let names = changed.iter().filter(is_told).map(|(name, _)| name.clone());
            broadcasts.push((client.clone(), names.collect()));
        }
    }
    drop(table);
    for (client, names) in broadcasts.into_iter().filter(|(_, names)| !names.is_empty()) {
        send(layer, &client, Some(&names), delivery);
    }
}

impl Redis {
    /// Gathers the receivers of these changes, made by the connection `writer` or by time.
    pub fn invalidate(&self, writer: Option<u64>, changes: &[Change]) {
        if self.connections.tracking.is_on() {
            let changes = changes.iter().filter(|change| change.what.changes_key());
            changes.for_each(|change| changed(self, &change.name, writer));
        }
    }

    /// Drops, before a command and in the expiry cycle, keys that no longer fit into the table, and
    /// notifies their caching clients. Called with the lock held.
    #[inline]
    pub fn trim_tracking(&self) {
        if self.connections.tracking.is_on() {
            trim(self);
            self.outbox.commit(Dependency::ZERO);
            self.send_outbox();
        }
    }

    /// Enables the recording of changes while it has a consumer.
    pub fn decide_on_changes(&self) {
        let notifies = self.config.notify_keyspace_events.load(Ordering::Relaxed) != 0;
        let is_heard = notifies || self.connections.tracking.is_on() || self.replication.is_on();
        self.changes.want(is_heard);
    }
}

fn does_not_loop(client: &Client) -> bool {
    client.tracking.lock().as_ref().is_some_and(|mode| mode.no_loop)
}

/// Gathers an invalidation for each of the connections that still tracks.
fn tell(layer: &Redis, clients: FxHashSet<u64>, name: &[u8], writer: Option<u64>) {
    let mut clients: Vec<u64> = clients.into_iter().collect();
    clients.sort_unstable();
    for client in clients.into_iter().filter_map(|id| layer.connections.clients.find(id)) {
        let is_told = match &*client.tracking.lock() {
            Some(mode) => !(mode.broadcast || mode.no_loop && writer == Some(client.id)),
            None => false,
        };
        if is_told {
            let name = Some(name.to_vec());
            layer.outbox.add(Item::Invalidation { client, name });
        }
    }
}

/// After a command of a connection that tracks: remembers the keys that it has read.
pub fn remember(groups: Groups<'_>, client: &ClientState, command: &Command, arguments: Arguments<'_>) {
    if remembers(groups, client, command) {
        for position in command.keys.positions(arguments) {
            let name = &arguments[position];
            groups.connections().tracking.remember(client.shared.id, name);
        }
    }
}

/// After a command of a script: who caches what the script answers knows it by the keys that the
/// script was given, as Redis 7.0 does. Redis 7.2 remembers only the keys that the command has
/// read; they are remembered too.
pub fn remember_declared(groups: Groups<'_>, client: &ClientState, command: &Command, declared: &[&[u8]]) {
    if remembers(groups, client, command) {
        for name in declared {
            groups.connections().tracking.remember(client.shared.id, name);
        }
    }
}

/// Tracks the keys that this command reads for the connection. A script reads by its commands.
fn remembers(groups: Groups<'_>, client: &ClientState, command: &Command) -> bool {
    let reads = command.has(READONLY) && !command.has(PUBSUB) && command.group != Group::Scripting;
    if !groups.connections().tracking.is_on() || !reads {
        return false;
    }
    match &*client.shared.tracking.lock() {
        None => false,
        Some(mode) if mode.broadcast => false,
        Some(mode) if mode.opt_in => client.caching == Some(true),
        Some(mode) if mode.opt_out => client.caching != Some(false),
        Some(_) => true,
    }
}

/// Leaves the message that the names are no longer what they were (`None`: no name is), where the
/// connection wants it.
pub fn send(layer: &Redis, client: &Arc<Client>, names: Option<&[Vec<u8>]>, delivery: &Delivery) {
    let redirect = client.tracking.lock().as_ref().and_then(|mode| mode.redirect);
    let target = match redirect {
        None => client.clone(),
        Some(id) => match layer.connections.clients.find(id) {
            Some(target) => target,
            None => return redirect_is_broken(client, id, delivery),
        },
    };
    let mut bytes = Vec::new();
    let mut reply = Reply::new(&mut bytes, Protocol::Resp3);
    if target.resp.load(Ordering::Relaxed) == 3 {
        reply.push(2);
        reply.bulk(b"invalidate");
    } else if redirect.is_some() && target.subscriptions.any() {
        reply.push(3);
        reply.bulk(b"message");
        reply.bulk(CHANNEL);
        reply.set_protocol(Protocol::Resp2);
    } else {
        return;
    }
    match names {
        None => reply.null(),
        Some(names) => {
            reply.array(names.len());
            names.iter().for_each(|name| reply.bulk(name));
        }
    }
    target.push(&Content::Own(&bytes), delivery);
}

/// Notifies the connection itself, if possible, that its redirection has no receiver.
fn redirect_is_broken(client: &Client, target: u64, delivery: &Delivery) {
    if let Some(mode) = client.tracking.lock().as_mut() {
        mode.is_redirect_broken = true;
    }
    if client.resp.load(Ordering::Relaxed) == 3 {
        let mut bytes = Vec::new();
        let mut reply = Reply::new(&mut bytes, Protocol::Resp3);
        reply.push(2);
        reply.bulk(b"tracking-redir-broken");
        reply.integer(target as i64);
        client.push(&Content::Own(&bytes), delivery);
    }
}
