//! A command in the form for replicas: the command itself if its outcome depends only on the state
//! before it, its taken elements if those are its only effect, and otherwise the resulting keys.
//!
//! So nothing depends on the replica's clock, its random numbers or its luck: deadlines are
//! absolute, an entry of a stream has its ID, and a key or a field of a hash that a command met
//! although its time was over is removed before the command is sent. A command that an older Redis
//! does not know is sent as a key.

use std::collections::HashSet;

use quartet_engine::Transaction;
use quartet_wire_rdb::value;
use quartet_wire_resp::Arguments;

use crate::command::Command;
use crate::command::parse;
use crate::commands::serialization::value_of;
use crate::commands::{hashes, streams};
use crate::execution::taken::as_taken;
use crate::handler::context::Context;
use crate::keyspace::Kind;
use crate::keyspace::changes::{Change, ExpiredField, What};
use crate::layer::Redis;

/// Commands that are sent unchanged.
#[rustfmt::skip]
const AS_THEY_CAME: &[&str] = &[
    "append",
    "incr",
    "incrby",
    "decr",
    "decrby",
    "mset",
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
    "json.set",
    "json.mset",
    "json.merge",
    "json.del",
    "json.forget",
    "json.clear",
    "json.strappend",
    "json.toggle",
    "json.numincrby",
    "json.nummultby",
    "json.arrappend",
    "json.arrinsert",
    "json.arrpop",
    "json.arrtrim",
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
    "publish",
    "spublish",
];

/// Commands that waited, and what they did in the end to the only key that they changed.
const AWAITED: &[(&str, &str)] = &[
    ("blpop", "LPOP"),
    ("brpop", "RPOP"),
    ("bzpopmin", "ZPOPMIN"),
    ("bzpopmax", "ZPOPMAX"),
];

/// Blocking commands, and their counterparts with the same arguments except the last.
const AWAITED_MOVES: &[(&str, &str)] = &[("blmove", "LMOVE"), ("brpoplpush", "RPOPLPUSH")];

/// Gathers the command's effects, after keys that expired before. Its reply starts at
/// `answered_from`.
pub fn gather(
    layer: &Redis,
    context: &mut Context<'_, '_>,
    command: &Command,
    arguments: Arguments<'_>,
    changes: &[Change],
    answered_from: usize,
) {
    let modules = &layer.commands().modules;
    if OF_EVERYTHING.contains(&command.name) || modules.is_always_sent(command) {
        let words: Vec<&[u8]> = arguments.iter().collect();
        return layer.replication.gather(context.client.db, &words);
    }
    // A group's work among its consumers is noted as no change of the key.
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
    if command.name == "hdel" && context.keys().find(&arguments[1]).is_none() {
        // The fields that were left may have expired without having been removed one by one.
        return layer.replication.gather(db, &[b"DEL".as_slice(), &arguments[1]]);
    }
    if let Some(words) = modules.sent_instead(command, arguments, context.now_ms) {
        return layer.replication.gather(db, &words);
    }
    if AS_THEY_CAME.contains(&command.name) || modules.is_sent_as_it_came(command) {
        let words: Vec<&[u8]> = arguments.iter().collect();
        return layer.replication.gather(db, &words);
    }
    if let (Some((_, word)), [(db, name)]) = (
        AWAITED.iter().find(|(awaited, _)| *awaited == command.name),
        &changed[..],
    ) {
        return layer.replication.gather(*db, &[word.as_bytes(), name]);
    }
    if let Some((_, word)) = AWAITED_MOVES.iter().find(|(awaited, _)| *awaited == command.name) {
        let mut words: Vec<&[u8]> = arguments.iter().take(arguments.len() - 1).collect();
        words[0] = word.as_bytes();
        return layer.replication.gather(db, &words);
    }
    if let [(_, name)] = changed[..]
        && let Some(words) = taken(context, command, arguments, name, answered_from)
    {
        return layer.replication.gather(db, &words);
    }
    if let ([(_, name)], Some(fields)) = (&changed[..], named_fields(command.name, arguments)) {
        let sets_values = matches!(command.name, "hsetex" | "hincrbyfloat");
        return gather_fields(context, name, &fields, sets_values);
    }
    match (command.name, &changed[..]) {
        ("xadd", [(_, name)]) => gather_added(layer, context, name, arguments),
        ("xtrim", [(_, name)]) => gather_length(context, name),
        ("expire" | "pexpire" | "expireat" | "pexpireat" | "getex", _) => {
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

/// Returns the elements that a command has taken. `None` too if a command that may take many has
/// removed the key: that is shorter.
fn taken(
    context: &mut Context<'_, '_>,
    command: &Command,
    arguments: Arguments<'_>,
    name: &[u8],
    answered_from: usize,
) -> Option<Vec<Vec<u8>>> {
    let takes = ["lmpop", "blmpop", "zmpop", "bzmpop", "spop"].contains(&command.name);
    let is_cut = context.reply.is_full();
    let is_whole = command.name == "spop" && arguments.len() > 2 && context.keys().find(name).is_none();
    if !takes || is_cut || is_whole {
        return None;
    }
    as_taken(command.name, arguments, name, context.reply.since(answered_from))
}

/// The keys that are something else now, each once, in the order in which they were first changed.
fn changed_keys(changes: &[Change]) -> Vec<(u8, &[u8])> {
    let mut changed: Vec<(u8, &[u8])> = Vec::new();
    let mut seen = HashSet::new();
    for change in changes {
        let is_change = !change.what.is_end() && change.what != What::Missed;
        let key = (change.db, change.name.as_slice());
        if is_change && seen.insert(key) {
            changed.push(key);
        }
    }
    changed
}

/// The fields of a hash that the request names, if nothing else can have changed and its outcome is
/// a matter of clocks or rounding.
fn named_fields<'a>(command: &str, arguments: Arguments<'a>) -> Option<Vec<&'a [u8]>> {
    let step = match command {
        "hincrbyfloat" => return arguments.get(2).map(|field| vec![field]),
        "hsetex" => 2,
        "hexpire" | "hpexpire" | "hexpireat" | "hpexpireat" | "hpersist" | "hgetdel" | "hgetex" => 1,
        _ => return None,
    };
    // Between the key and the word there are numbers and other words of the command.
    let behind_key = arguments.tail(2);
    let at = behind_key.iter().position(|word| parse::is(word, "fields"))?;
    Some(behind_key.tail(at + 2).iter().step_by(step).collect())
}

/// The fields as they are now.
fn gather_fields(context: &mut Context<'_, '_>, name: &[u8], fields: &[&[u8]], sets_values: bool) {
    let (replication, db) = (context.replication(), context.client.db);
    let mut keys = context.keys();
    let Some(entry) = keys.find(name) else {
        return replication.gather(db, &[b"DEL".as_slice(), name]);
    };
    for field in fields {
        let Some(stored) = hashes::find(&mut keys, &entry, field) else {
            replication.gather(db, &[b"HDEL".as_slice(), name, field]);
            continue;
        };
        if sets_values {
            replication.gather(db, &[b"HSET".as_slice(), name, field, stored.value()]);
        }
        match stored.deadline_ms() {
            Some(deadline_ms) => {
                let deadline_ms = deadline_ms.to_string();
                let words = [
                    b"HPEXPIREAT".as_slice(),
                    name,
                    deadline_ms.as_bytes(),
                    b"FIELDS",
                    b"1",
                    field,
                ];
                replication.gather(db, &words);
            }
            None if sets_values => {}
            None => replication.gather(db, &[b"HPERSIST".as_slice(), name, b"FIELDS", b"1", field]),
        }
    }
}

/// The entry with the ID that it was given, and what the trimming left.
fn gather_added(layer: &Redis, context: &mut Context<'_, '_>, name: &[u8], arguments: Arguments<'_>) {
    let (db, now_ms) = (context.client.db, context.now_ms);
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

/// The position of XADD's ID, after its options.
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

/// Writes the entries that XREADGROUP has given a consumer: the group's position, and each entry
/// with its time.
fn gather_delivered(context: &mut Context<'_, '_>, name: &[u8], arguments: Arguments<'_>) {
    let (replication, db, now_ms) = (context.replication(), context.client.db, context.now_ms);
    let (group, consumer) = (&arguments[2], &arguments[3]);
    let mut keys = context.keys();
    let Some(entry) = keys.find(name).filter(|entry| entry.kind == Kind::Stream) else {
        return;
    };
    let Some(delivered) = streams::delivered(&mut keys, &entry, group, consumer, now_ms) else {
        return;
    };
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

/// Sends the new length of a stream after its oldest entries were trimmed.
fn gather_length(context: &mut Context<'_, '_>, name: &[u8]) {
    let (replication, db) = (context.replication(), context.client.db);
    if let Some(entry) = context.keys().find(name).filter(|entry| entry.kind == Kind::Stream) {
        let length = streams::length(&entry).to_string();
        replication.gather(db, &[b"XTRIM".as_slice(), name, b"MAXLEN", b"=", length.as_bytes()]);
    }
}

fn gather_deadline(context: &mut Context<'_, '_>, db: u8, name: &[u8]) {
    let replication = context.replication();
    match context.keys_of(db).find(name).map(|entry| entry.expiry_ms) {
        None => replication.gather(db, &[b"DEL".as_slice(), name]),
        Some(None) => replication.gather(db, &[b"PERSIST".as_slice(), name]),
        Some(Some(deadline_ms)) => {
            let deadline_ms = deadline_ms.to_string();
            replication.gather(db, &[b"PEXPIREAT".as_slice(), name, deadline_ms.as_bytes()]);
        }
    }
}

impl Redis {
    /// Sends keep-alives to replicas, and ends a stream without followers. Called about ten times a
    /// second.
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
        let modules = &self.commands().modules;
        let value = entry
            .as_ref()
            .and_then(|entry| value_of(&mut keys, modules, entry).ok());
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

    /// Gathers the keys and fields that expired or were evicted: later writes assumed their
    /// absence.
    pub(crate) fn gather_ended(&self, changes: &[Change], expired_fields: &[ExpiredField]) {
        for change in changes.iter().filter(|change| change.what.is_end()) {
            self.replication.gather(change.db, &[b"DEL".as_slice(), &change.name]);
        }
        for fields in expired_fields.chunk_by(|a, b| (a.db, &a.name) == (b.db, &b.name)) {
            let mut words = vec![b"HDEL".as_slice(), &fields[0].name];
            words.extend(fields.iter().map(|expired| expired.field.as_slice()));
            self.replication.gather(fields[0].db, &words);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quartet_wire_resp::{Limits, Parsed, Parser};

    use crate::replication::{Attachment, Given};
    use crate::testing::{Connection, Fixture};

    /// Returns the commands in the form for replicas, a line each, without the database.
    fn told(prepared: &[&str], commands: &[&str]) -> Vec<String> {
        told_after(prepared, 0, commands)
    }

    /// The same, with time passing in between.
    fn told_after(prepared: &[&str], milliseconds: u64, commands: &[&str]) -> Vec<String> {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        run(&mut connection, prepared);
        let replica = Attachment {
            client: 1,
            host: "h".into(),
            port: 1,
            now_micros: 0,
        };
        let attached = fixture.layer.replication.attach(replica, None, 1 << 20, 1 << 20);
        fixture.layer.decide_on_changes();
        fixture.advance_ms(milliseconds);
        run(&mut connection, commands);
        let (follower, _) = attached.expect("there is room");
        match fixture.layer.replication.give(&follower, Duration::ZERO) {
            Given::Bytes(bytes, _) => lines(&bytes),
            _ => Vec::new(),
        }
    }

    fn run(connection: &mut Connection, commands: &[&str]) {
        for command in commands {
            connection.run(&command.split(' ').collect::<Vec<_>>());
        }
    }

    fn lines(mut bytes: &[u8]) -> Vec<String> {
        let (mut parser, mut lines) = (Parser::new(), Vec::new());
        while let Ok(Parsed::Request { consumed }) = parser.parse(bytes, &Limits::unlimited()) {
            let words = parser.arguments(bytes).iter().map(String::from_utf8_lossy);
            lines.push(words.collect::<Vec<_>>().join(" "));
            bytes = &bytes[consumed..];
        }
        assert!(lines.is_empty() || lines.remove(0) == "SELECT 0");
        lines
    }

    #[test]
    fn taken_elements_are_sent_and_not_the_rest() {
        let prepared = [
            "RPUSH l a b c d e",
            "ZADD z 1 a 2 b 3 c 4 d 5 e",
            "SADD one a",
            "SADD two a",
        ];
        let commands = [
            "LMPOP 2 none l RIGHT COUNT 2",
            "BLMPOP 0 1 l LEFT",
            "ZMPOP 1 z MAX COUNT 2",
            "BZMPOP 0 2 none z MIN",
            "HELLO 3",
            "LMPOP 1 l LEFT COUNT 9",
            "ZMPOP 1 z min COUNT 9",
            "LMPOP 1 none LEFT",
            "SPOP one",
            "SPOP two 7",
            "SPOP two 7",
        ];
        let expected = [
            "RPOP l 2",
            "LPOP l 1",
            "ZPOPMAX z 2",
            "ZPOPMIN z 1",
            "LPOP l 2",
            "ZPOPMIN z 2",
            "SREM one a",
            "DEL two",
        ];
        assert_eq!(told(&prepared, &commands), expected);
    }

    /// HINCRBY of an expired field was sent unchanged, and added to the old field, which a replica
    /// still has: the two sides had different hashes.
    #[test]
    fn fields_found_expired_are_sent_first() {
        let prepared = ["HSET h old 1 live 1", "HPEXPIRE h 5 FIELDS 1 old"];
        let behind = |command: &str| ["MULTI", "HDEL h old", command, "EXEC"].map(str::to_owned);
        for command in ["HINCRBY h old 5", "HSETNX h old 2", "HSET h other 2", "HDEL h old"] {
            assert_eq!(told_after(&prepared, 5, &[command]), behind(command));
        }
        let last = ["MULTI", "HDEL h old", "DEL h", "EXEC"];
        assert_eq!(told_after(&prepared, 5, &["HDEL h live"]), last);
        assert!(told_after(&prepared, 5, &["HGET h old"]).is_empty());
    }

    /// A deadline in a hash of a million fields must not send them all.
    #[test]
    fn changed_fields_are_sent_without_the_others() {
        let prepared = [
            "HSET h a 1 b 2 c 3 d 4",
            "HSET fields a 1",
            "HPEXPIREAT h 1900000000000 FIELDS 1 d",
        ];
        let commands = [
            "HPEXPIREAT h 1800000000000 NX FIELDS 2 a b",
            "HEXPIREAT h 1 FIELDS 1 b",
            "HPERSIST h FIELDS 1 a",
            "HPEXPIREAT fields 1800000000000 FIELDS 1 a",
            "HINCRBYFLOAT h d 1.5",
            "HSETEX h PXAT 1850000000000 FIELDS 1 e 5",
            "HSETEX h FIELDS 1 e 6",
            "HGETEX h PXAT 1850000000000 FIELDS 1 e",
            "HGETDEL h FIELDS 3 a c e",
            "HGETDEL h FIELDS 1 d",
        ];
        let expected = [
            "MULTI",
            "HPEXPIREAT h 1800000000000 FIELDS 1 a",
            "HPEXPIREAT h 1800000000000 FIELDS 1 b",
            "EXEC",
            "HDEL h b",
            "HPERSIST h FIELDS 1 a",
            "HPEXPIREAT fields 1800000000000 FIELDS 1 a",
            "MULTI",
            "HSET h d 5.5",
            "HPEXPIREAT h 1900000000000 FIELDS 1 d",
            "EXEC",
            "MULTI",
            "HSET h e 5",
            "HPEXPIREAT h 1850000000000 FIELDS 1 e",
            "EXEC",
            "HSET h e 6",
            "HPEXPIREAT h 1850000000000 FIELDS 1 e",
            "MULTI",
            "HDEL h a",
            "HDEL h c",
            "HDEL h e",
            "EXEC",
            "DEL h",
        ];
        assert_eq!(told(&prepared, &commands), expected);
    }

    #[test]
    fn a_hash_without_unexpired_fields_is_sent_as_removed() {
        let prepared = ["HSET h f 1", "PEXPIRE h 1000", "HPEXPIRE h 5 FIELDS 1 f"];
        for command in ["HSET h g 1", "RPUSH h x", "HSETNX h f 1", "APPEND h x"] {
            assert_eq!(
                told_after(&prepared, 5, &[command]),
                ["MULTI", "DEL h", command, "EXEC"]
            );
        }
        assert_eq!(told_after(&prepared, 5, &["EXISTS h"])[..1], ["DEL h"]);
    }

    #[test]
    fn members_taken_by_chance_are_named() {
        let lines = told(
            &["SADD s a b c d"],
            &["SPOP s 2", "EVAL return(redis.call('SPOP','s')) 0"],
        );
        let named: Vec<&str> = lines.iter().flat_map(|line| line.split(' ').skip(2)).collect();
        assert!(lines.iter().all(|line| line.starts_with("SREM s ")), "{lines:?}");
        assert_eq!((lines.len(), named.len()), (2, 3));
    }

    #[test]
    fn commands_that_need_only_the_previous_state_are_sent_unchanged() {
        let prepared = ["SET n 1 EX 100", "RPUSH l a b", "SET v x EX 100"];
        let commands = [
            "INCR n",
            "DECRBY n 5",
            "MSET a 1 b 2",
            "BLMOVE l m LEFT RIGHT 0",
            "BRPOPLPUSH l m 0",
            "BLMOVE m m LEFT RIGHT 0",
            "GETEX v PERSIST",
            "GETEX v PXAT 1900000000000",
            "GETEX v",
            "GETEX v EXAT 1",
            "JSON.SET j $ [1]",
            "JSON.ARRAPPEND j $ 2",
            "PUBLISH news today",
            "SPUBLISH news today",
        ];
        let expected = [
            "INCR n",
            "DECRBY n 5",
            "MSET a 1 b 2",
            "LMOVE l m LEFT RIGHT",
            "RPOPLPUSH l m",
            "LMOVE m m LEFT RIGHT",
            "PERSIST v",
            "PEXPIREAT v 1900000000000",
            "DEL v",
            "JSON.SET j $ [1]",
            "JSON.ARRAPPEND j $ 2",
            "PUBLISH news today",
            "SPUBLISH news today",
        ];
        assert_eq!(told(&prepared, &commands), expected);
    }
}
