//! What a replica is told of a command: the command itself if its outcome needs nothing but the state before it, and otherwise
//! the keys as they are afterwards.
//!
//! So nothing depends on the replica's clock, its random numbers or its luck: deadlines are absolute, an entry of a stream has its
//! ID, and a key whose time was over is removed before anything is written in its place. What an older Redis does not know as a
//! command it is told as a key. JSON documents have no form that it knows: for it they are absent.

use quartet_engine::Transaction;
use quartet_wire_resp::Arguments;

use crate::changes::{Change, What};
use crate::command::Command;
use crate::commands::serialization::value_of;
use crate::commands::streams;
use crate::context::Context;
use crate::keyspace::Kind;
use crate::layer::Redis;
use crate::parse;
use crate::rdb::value;

/// Commands that are told as they came.
#[rustfmt::skip]
const AS_THEY_CAME: &[&str] = &[
    "append",
    "setrange",
    "setbit",
    "bitfield",
    "pfadd",
    "pfmerge",
    "lpush",
    "rpush",
    "lpushx",
    "rpushx",
    "linsert",
    "lset",
    "lpop",
    "rpop",
    "ltrim",
    "lrem",
    "lmove",
    "rpoplpush",
    "sadd",
    "srem",
    "smove",
    "zadd",
    "zincrby",
    "zrem",
    "zremrangebyrank",
    "zremrangebyscore",
    "zremrangebylex",
    "zpopmin",
    "zpopmax",
    "hset",
    "hmset",
    "hsetnx",
    "hdel",
    "hincrby",
    "xdel",
    "xsetid",
    "del",
    "unlink",
    "rename",
    "renamenx",
    "persist",
    "copy",
    "move",
];

/// Commands that concern more than keys that are noted.
const OF_EVERYTHING: &[&str] = &[
    "flushall",
    "flushdb",
    "swapdb",
    "function|load",
    "function|delete",
    "function|flush",
    "function|restore",
];

/// Commands that waited, and what they did in the end.
const AWAITED: &[(&str, &str)] = &[
    ("blpop", "LPOP"),
    ("brpop", "RPOP"),
    ("bzpopmin", "ZPOPMIN"),
    ("bzpopmax", "ZPOPMAX"),
];

/// Gathers what the command amounts to.
pub fn gather(context: &mut Context<'_, '_>, command: &Command, arguments: Arguments<'_>, changes: &[Change]) {
    let layer = context.layer;
    if OF_EVERYTHING.contains(&command.name) {
        let words: Vec<&[u8]> = arguments.iter().collect();
        return layer.replication.gather(context.client.db, &words);
    }
    gather_expired(layer, changes);
    // What a group does among its consumers is noted as no change of the key.
    match command.name {
        "xack"
        | "xgroup|create"
        | "xgroup|setid"
        | "xgroup|destroy"
        | "xgroup|createconsumer"
        | "xgroup|delconsumer" => {
            let words: Vec<&[u8]> = arguments.iter().collect();
            return layer.replication.gather(context.client.db, &words);
        }
        "xreadgroup" => {
            for position in command.keys.positions(arguments) {
                gather_delivered(context, &arguments[position], arguments);
            }
            return;
        }
        "xclaim" | "xautoclaim" => {
            let (db, now_ms) = (context.client.db, context.now_ms);
            return layer.gather_key(context.tx, db, &arguments[1], now_ms);
        }
        _ => {}
    }
    let changed = changed_keys(changes);
    if changed.is_empty() {
        return;
    }
    let db = context.client.db;
    let has_json = changed.iter().any(|(db, name)| {
        let entry = context.keys_of(*db).find(name);
        entry.is_some_and(|entry| entry.kind == Kind::Json)
    });
    if AS_THEY_CAME.contains(&command.name) && !has_json {
        let words: Vec<&[u8]> = arguments.iter().collect();
        return layer.replication.gather(db, &words);
    }
    if let (Some((_, word)), [(db, name)]) = (
        AWAITED.iter().find(|(awaited, _)| *awaited == command.name),
        &changed[..],
    ) {
        return layer.replication.gather(*db, &[word.as_bytes(), name]);
    }
    match (command.name, &changed[..]) {
        ("xadd", [(_, name)]) => gather_added(context, name, arguments),
        ("xtrim", [(_, name)]) => gather_length(context, name),
        ("expire" | "pexpire" | "expireat" | "pexpireat", _) => {
            for (db, name) in changed {
                gather_deadline(context, db, name);
            }
        }
        _ => {
            let now_ms = context.now_ms;
            for (db, name) in changed {
                layer.gather_key(context.tx, db, name, now_ms);
            }
        }
    }
}

/// Keys whose time was over go before anything is written in their place.
fn gather_expired(layer: &Redis, changes: &[Change]) {
    for change in changes {
        if matches!(change.what, What::Expired | What::Evicted) {
            layer.replication.gather(change.db, &[b"DEL".as_slice(), &change.name]);
        }
    }
}

/// The keys that are something else now, each once, in the order in which they were first changed.
fn changed_keys(changes: &[Change]) -> Vec<(u8, &[u8])> {
    let mut changed: Vec<(u8, &[u8])> = Vec::new();
    for change in changes {
        let is_change = !matches!(change.what, What::Expired | What::Evicted | What::Missed);
        let key = (change.db, change.name.as_slice());
        if is_change && !changed.contains(&key) {
            changed.push(key);
        }
    }
    changed
}

/// The entry with the ID that it was given, and what the trimming left.
fn gather_added(context: &mut Context<'_, '_>, name: &[u8], arguments: Arguments<'_>) {
    let (layer, db, now_ms) = (context.layer, context.client.db, context.now_ms);
    let last = context.keys().find(name).filter(|entry| entry.kind == Kind::Stream);
    let (Some(entry), Some(id_at)) = (last, id_position(arguments)) else {
        return layer.gather_key(context.tx, db, name, now_ms);
    };
    let id = streams::last_id(&entry).text();
    let mut words: Vec<&[u8]> = vec![b"XADD", name, id.as_bytes()];
    words.extend(arguments.iter().skip(id_at + 1));
    layer.replication.gather(db, &words);
    if id_at > 2 {
        gather_length(context, name);
    }
}

/// Where XADD's ID stands, behind its options.
fn id_position(arguments: Arguments<'_>) -> Option<usize> {
    let mut position = 2;
    loop {
        let word = arguments.get(position)?;
        let is = |name: &str| parse::is(word, name);
        if is("nomkstream") || is("keepref") || is("delref") || is("acked") {
            position += 1;
        } else if is("maxlen") || is("minid") {
            let exactness = arguments.get(position + 1)?;
            position += if matches!(exactness, b"~" | b"=") { 3 } else { 2 };
        } else if is("limit") {
            position += 2;
        } else {
            return Some(position);
        }
    }
}

/// What XREADGROUP has given a consumer: how far the group is, and each entry with its time.
fn gather_delivered(context: &mut Context<'_, '_>, name: &[u8], arguments: Arguments<'_>) {
    let (layer, db, now_ms) = (context.layer, context.client.db, context.now_ms);
    let (group, consumer) = (&arguments[2], &arguments[3]);
    let mut keys = context.keys();
    let Some(entry) = keys.find(name).filter(|entry| entry.kind == Kind::Stream) else {
        return;
    };
    let Some(delivered) = streams::delivered(&mut keys, &entry, (group, consumer), now_ms) else {
        return;
    };
    let replication = &layer.replication;
    replication.gather(db, &[b"XGROUP".as_slice(), b"CREATECONSUMER", name, group, consumer]);
    let last = delivered.group_last.text();
    let read = delivered.entries_read.map(|read| read.to_string());
    let mut words: Vec<&[u8]> = vec![b"XGROUP", b"SETID", name, group, last.as_bytes()];
    if let Some(read) = &read {
        words.extend([b"ENTRIESREAD".as_slice(), read.as_bytes()]);
    }
    replication.gather(db, &words);
    let time_ms = now_ms.to_string();
    for (id, deliveries) in &delivered.entries {
        let (id, deliveries) = (id.text(), deliveries.to_string());
        let mut words: Vec<&[u8]> = vec![b"XCLAIM", name, group, consumer, b"0", id.as_bytes()];
        words.extend([
            b"TIME".as_slice(),
            time_ms.as_bytes(),
            b"RETRYCOUNT",
            deliveries.as_bytes(),
            b"FORCE",
            b"JUSTID",
        ]);
        replication.gather(db, &words);
    }
}

/// A stream is as long as this now, the oldest entries gone.
fn gather_length(context: &mut Context<'_, '_>, name: &[u8]) {
    let (layer, db) = (context.layer, context.client.db);
    if let Some(entry) = context.keys().find(name).filter(|entry| entry.kind == Kind::Stream) {
        let length = streams::length(&entry).to_string();
        layer
            .replication
            .gather(db, &[b"XTRIM".as_slice(), name, b"MAXLEN", b"=", length.as_bytes()]);
    }
}

fn gather_deadline(context: &mut Context<'_, '_>, db: u8, name: &[u8]) {
    let layer = context.layer;
    match context.keys_of(db).find(name).map(|entry| entry.expiry_ms) {
        None => layer.replication.gather(db, &[b"DEL".as_slice(), name]),
        Some(None) => layer.replication.gather(db, &[b"PERSIST".as_slice(), name]),
        Some(Some(deadline_ms)) => {
            let deadline_ms = deadline_ms.to_string();
            layer
                .replication
                .gather(db, &[b"PEXPIREAT".as_slice(), name, deadline_ms.as_bytes()]);
        }
    }
}

impl Redis {
    /// Lets replicas know that we live, and ends the stream that nobody follows. Called about ten times a second.
    pub(crate) fn keep_replicas(&self, now_micros: u64) {
        if self.replication.is_on() {
            let seconds: u64 = self.config.text_of("repl-ping-replica-period").parse().unwrap_or(10);
            self.replication.ping(now_micros, seconds * 1_000_000);
            if let Ok(_home) = self.partition_in_time()
                && self.replication.rest(now_micros)
            {
                self.decide_on_changes();
            }
        }
    }

    /// Gathers a key as it is now.
    pub(crate) fn gather_key(&self, tx: &mut Transaction<'_>, db: u8, name: &[u8], now_ms: u64) {
        let mut keys = self.keyspace(tx, db, now_ms);
        let entry = keys.find(name);
        let value = entry.as_ref().and_then(|entry| value_of(&mut keys, entry));
        let deadline_ms = entry.and_then(|entry| entry.expiry_ms);
        match (value, deadline_ms) {
            (None, _) => self.replication.gather(db, &[b"DEL".as_slice(), name]),
            (Some(value::Value::String(text)), None) => self.replication.gather(db, &[b"SET".as_slice(), name, &text]),
            (Some(value::Value::String(text)), Some(deadline_ms)) => {
                let deadline_ms = deadline_ms.to_string();
                let words = [b"SET".as_slice(), name, &text, b"PXAT", deadline_ms.as_bytes()];
                self.replication.gather(db, &words);
            }
            (Some(value), deadline_ms) => {
                let (payload, deadline_ms) = (value::dump(&value), deadline_ms.unwrap_or(0).to_string());
                let words = [
                    b"RESTORE".as_slice(),
                    name,
                    deadline_ms.as_bytes(),
                    &payload,
                    b"REPLACE",
                    b"ABSTTL",
                ];
                self.replication.gather(db, &words);
            }
        }
    }

    /// Gathers what the expiry cycle, or the want of memory, has removed.
    pub(crate) fn gather_removed(&self, changes: &[Change]) {
        if self.replication.is_on() {
            for (db, name) in removed(changes) {
                self.replication.gather(db, &[b"DEL".as_slice(), name]);
            }
        }
    }
}

fn removed(changes: &[Change]) -> Vec<(u8, &[u8])> {
    let mut removed: Vec<(u8, &[u8])> = Vec::new();
    for change in changes.iter().filter(|change| change.what != What::Missed) {
        let key = (change.db, change.name.as_slice());
        if removed.last() != Some(&key) {
            removed.push(key);
        }
    }
    removed
}
