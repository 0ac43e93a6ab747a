//! Keyspace notifications: the events of a command for the keys that it changed, and their
//! channels.
//!
//! Handlers know nothing of this. The keyspace notes what happened to each key
//! ([`crate::keyspace::changes`]); the table here says what a command calls it. Names, classes and
//! order follow <https://redis.io/docs/latest/develop/use/keyspace-notifications/> and what Redis
//! 7.0.15 was seen to send (fields of hashes: 7.4; `overwritten` and `type_changed`: 8.2.3).

use std::sync::LazyLock;

use quartet_wire_resp::Arguments;
use rustc_hash::FxHashMap;

use crate::command::Command;
use crate::command::parse;
use crate::commands::strings::values::msetex_keys;
use crate::connections::channels::Scope;
use crate::connections::outbox::Item;
use crate::keyspace::changes::{Change, Kinds, What};
use crate::keyspace::event_classes::*;
use crate::layer::Redis;
use crate::module::Events;

/// A command's final effect on one key.
struct Effect<'a> {
    db: u8,
    name: &'a [u8],
    /// It was absent before.
    created: bool,
    /// It is there now.
    exists: bool,
    /// Its kind before and after, as [`Change::kinds`] has them.
    kinds: Kinds,
}

/// How a command's events follow from its effects.
#[derive(Clone, Copy)]
enum Rule {
    /// The event for each changed key, followed by `del` if that emptied the key.
    Each(u32, &'static str),
    /// The same for commands that replace a value as a whole.
    Replaced(u32, &'static str),
    /// The event for a key that was stored; `del` if there was nothing to store.
    Stored(u32, &'static str),
    /// `del` for each key that went, nothing else.
    Removed,
    /// Worked out from the request.
    Computed(fn(&EventPublisher<'_>, &[Effect<'_>], Arguments<'_>)),
}

#[rustfmt::skip]
const RULES: &[(&str, Rule)] = &[
    ("setnx getset mset msetnx", Rule::Replaced(STRING, "set")),
    ("set", Rule::Computed(set)),
    ("setex psetex", Rule::Computed(set_with_deadline)),
    ("msetex", Rule::Computed(msetex)),
    ("getex", Rule::Computed(getex)),
    ("append", Rule::Each(STRING, "append")),
    ("setrange", Rule::Each(STRING, "setrange")),
    ("incr decr incrby decrby", Rule::Each(STRING, "incrby")),
    ("incrbyfloat", Rule::Each(STRING, "incrbyfloat")),
    ("setbit bitfield", Rule::Each(STRING, "setbit")),
    ("bitop", Rule::Stored(STRING, "set")),
    ("pfadd pfmerge", Rule::Each(STRING, "pfadd")),
    ("del unlink getdel delex delifeq migrate", Rule::Removed),
    ("expire pexpire expireat pexpireat", Rule::Computed(expire)),
    ("persist", Rule::Each(GENERIC, "persist")),
    ("rename renamenx", Rule::Computed(rename)),
    ("copy", Rule::Computed(copy)),
    ("move", Rule::Computed(move_key)),
    ("restore restore-asking", Rule::Computed(restore)),
    ("sort", Rule::Stored(LIST, "sortstore")),
    ("lpush lpushx", Rule::Each(LIST, "lpush")),
    ("rpush rpushx", Rule::Each(LIST, "rpush")),
    ("linsert", Rule::Each(LIST, "linsert")),
    ("lset", Rule::Each(LIST, "lset")),
    ("lpop blpop", Rule::Each(LIST, "lpop")),
    ("rpop brpop", Rule::Each(LIST, "rpop")),
    ("ltrim", Rule::Each(LIST, "ltrim")),
    ("lrem", Rule::Each(LIST, "lrem")),
    ("lmpop blmpop", Rule::Computed(lmpop)),
    ("lmove blmove rpoplpush brpoplpush", Rule::Computed(lmove)),
    ("sadd", Rule::Each(SET, "sadd")),
    ("srem", Rule::Each(SET, "srem")),
    ("spop", Rule::Each(SET, "spop")),
    ("smove", Rule::Computed(smove)),
    ("sinterstore", Rule::Stored(SET, "sinterstore")),
    ("sunionstore", Rule::Stored(SET, "sunionstore")),
    ("sdiffstore", Rule::Stored(SET, "sdiffstore")),
    ("zadd", Rule::Computed(zadd)),
    ("zincrby", Rule::Each(SORTED_SET, "zincr")),
    ("zrem", Rule::Each(SORTED_SET, "zrem")),
    ("zremrangebyrank", Rule::Each(SORTED_SET, "zremrangebyrank")),
    ("zremrangebyscore", Rule::Each(SORTED_SET, "zremrangebyscore")),
    ("zremrangebylex", Rule::Each(SORTED_SET, "zremrangebylex")),
    ("zunionstore", Rule::Stored(SORTED_SET, "zunionstore")),
    ("zinterstore", Rule::Stored(SORTED_SET, "zinterstore")),
    ("zdiffstore", Rule::Stored(SORTED_SET, "zdiffstore")),
    ("zrangestore", Rule::Stored(SORTED_SET, "zrangestore")),
    ("zpopmin bzpopmin", Rule::Each(SORTED_SET, "zpopmin")),
    ("zpopmax bzpopmax", Rule::Each(SORTED_SET, "zpopmax")),
    ("zmpop bzmpop", Rule::Computed(zmpop)),
    ("geoadd", Rule::Each(SORTED_SET, "zadd")),
    ("georadius georadiusbymember", Rule::Stored(SORTED_SET, "georadiusstore")),
    ("geosearchstore", Rule::Stored(SORTED_SET, "geosearchstore")),
    ("hset hmset hsetnx", Rule::Each(HASH, "hset")),
    ("hincrby", Rule::Each(HASH, "hincrby")),
    ("hincrbyfloat", Rule::Each(HASH, "hincrbyfloat")),
    ("hdel hgetdel", Rule::Each(HASH, "hdel")),
    ("hpersist", Rule::Each(HASH, "hpersist")),
    ("hexpire hpexpire", Rule::Computed(hexpire)),
    ("hexpireat hpexpireat", Rule::Each(HASH, "hexpire")),
    ("hgetex", Rule::Computed(hgetex)),
    ("hsetex", Rule::Computed(hsetex)),
    ("xadd", Rule::Each(STREAM, "xadd")),
    ("xtrim", Rule::Each(STREAM, "xtrim")),
    ("xdel", Rule::Each(STREAM, "xdel")),
    ("xdelex", Rule::Each(STREAM, "xdel")),
    ("xackdel", Rule::Each(STREAM, "xdel")),
    ("xsetid", Rule::Each(STREAM, "xsetid")),
    ("xgroup|create", Rule::Each(STREAM, "xgroup-create")),
    ("xgroup|destroy", Rule::Each(STREAM, "xgroup-destroy")),
    ("json.set", Rule::Each(MODULE, "json.set")),
    ("json.mset", Rule::Each(MODULE, "json.mset")),
    ("json.merge", Rule::Each(MODULE, "json.merge")),
    ("json.del json.forget", Rule::Computed(json_removed)),
    ("json.clear", Rule::Each(MODULE, "json.clear")),
    ("json.strappend", Rule::Each(MODULE, "json.strappend")),
    ("json.toggle", Rule::Each(MODULE, "json.toggle")),
    ("json.numincrby", Rule::Each(MODULE, "json.numincrby")),
    ("json.nummultby", Rule::Each(MODULE, "json.nummultby")),
    ("json.numpowby", Rule::Each(MODULE, "json.numpowby")),
    ("json.arrappend", Rule::Each(MODULE, "json.arrappend")),
    ("json.arrinsert", Rule::Each(MODULE, "json.arrinsert")),
    ("json.arrpop", Rule::Each(MODULE, "json.arrpop")),
    ("json.arrtrim", Rule::Each(MODULE, "json.arrtrim")),
];

static BY_COMMAND: LazyLock<FxHashMap<&'static str, &'static Rule>> = LazyLock::new(|| {
    let of_row = |(names, rule): &'static (&'static str, Rule)| names.split(' ').map(move |name| (name, rule));
    RULES.iter().flat_map(of_row).collect()
});

fn rule_of(command: &Command) -> Option<&'static Rule> {
    BY_COMMAND.get(command.name).copied()
}

/// Publishes events of the enabled classes.
struct EventPublisher<'a> {
    layer: &'a Redis,
    classes: u32,
}

impl Redis {
    /// Keys that were looked for in vain may have to be announced.
    #[inline]
    pub fn tells_of_misses(&self) -> bool {
        self.config
            .notify_keyspace_events
            .load(std::sync::atomic::Ordering::Relaxed) as u32
            & MISSED
            != 0
    }

    /// Publishes the events of a command, or of the expiry cycle (`None`), that has made these
    /// changes.
    pub fn notify(&self, by: Option<(&'static Command, Arguments<'_>)>, changes: &[Change]) {
        let classes = self
            .config
            .notify_keyspace_events
            .load(std::sync::atomic::Ordering::Relaxed) as u32;
        if classes == 0 || changes.is_empty() {
            return;
        }
        let publisher = EventPublisher { layer: self, classes };
        for change in changes {
            match change.what {
                What::Expired => publisher.tell(EXPIRED, "expired", change.db, &change.name),
                What::FieldsExpired => publisher.fields_expired(change),
                What::Evicted => publisher.tell(EVICTED, "evicted", change.db, &change.name),
                What::Missed => publisher.tell(MISSED, "keymiss", change.db, &change.name),
                What::GroupMoved => publisher.tell(STREAM, "xgroup-setid", change.db, &change.name),
                What::ConsumerAdded => publisher.tell(STREAM, "xgroup-createconsumer", change.db, &change.name),
                What::ConsumerRemoved => publisher.tell(STREAM, "xgroup-delconsumer", change.db, &change.name),
                What::Created | What::Written | What::Removed | What::Trimmed => {}
            }
        }
        if let Some((command, arguments)) = by
            && let Some(rule) = rule_of(command).copied().or_else(|| self.rule_of_module(command))
        {
            publisher.apply(&rule, &effects(changes), arguments);
        }
        for change in changes.iter().filter(|change| change.what == What::Trimmed) {
            publisher.tell(STREAM, "xtrim", change.db, &change.name);
        }
    }

    fn rule_of_module(&self, command: &Command) -> Option<Rule> {
        Some(match self.commands().modules.events_of(command)? {
            Events::Created => Rule::Computed(created),
            Events::Removed => Rule::Removed,
            Events::Each(event) => Rule::Each(MODULE, event),
            Events::OfHash(event) => Rule::Each(HASH, event),
        })
    }

    /// The expiry cycle has removed fields of a hash.
    pub fn notify_expired_fields(&self, changes: &[Change]) {
        let classes = self
            .config
            .notify_keyspace_events
            .load(std::sync::atomic::Ordering::Relaxed) as u32;
        if classes != 0 {
            let publisher = EventPublisher { layer: self, classes };
            publisher.each(&effects(changes), HASH, "hexpired");
            let ended = changes.iter().filter(|change| change.what == What::FieldsExpired);
            ended.for_each(|change| publisher.fields_expired(change));
        }
    }
}

/// The changes by key, in the order in which the keys were first changed.
fn effects(changes: &[Change]) -> Vec<Effect<'_>> {
    let mut effects: Vec<Effect<'_>> = Vec::new();
    let mut positions: FxHashMap<(u8, &[u8]), usize> = FxHashMap::default();
    for change in changes {
        if !matches!(change.what, What::Created | What::Written | What::Removed) {
            continue;
        }
        let created = change.what == What::Created;
        let exists = change.what != What::Removed;
        match positions.get(&(change.db, change.name.as_slice())) {
            Some(&index) => {
                effects[index].exists = exists;
                let kinds = &mut effects[index].kinds;
                kinds.after = change.kinds.after.or(kinds.after);
            }
            None => {
                positions.insert((change.db, &change.name), effects.len());
                let (db, name) = (change.db, change.name.as_slice());
                effects.push(Effect {
                    db,
                    name,
                    created,
                    exists,
                    kinds: change.kinds,
                });
            }
        }
    }
    effects
}

impl EventPublisher<'_> {
    fn tell(&self, class: u32, event: &str, db: u8, name: &[u8]) {
        if self.classes & class == 0 {
            return;
        }
        if self.classes & KEYSPACE != 0 {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), name].concat();
            self.publish(&channel, event.as_bytes());
        }
        if self.classes & KEYEVENT != 0 {
            self.publish(format!("__keyevent@{db}__:{event}").as_bytes(), name);
        }
    }

    fn publish(&self, channel: &[u8], payload: &[u8]) {
        let (message, _) = self
            .layer
            .connections
            .channels
            .message(Scope::Channel, channel, payload);
        if message.has_receivers() {
            self.layer.outbox.add(Item::Message(message));
        }
    }

    fn apply(&self, rule: &Rule, effects: &[Effect<'_>], arguments: Arguments<'_>) {
        match rule {
            Rule::Each(class, event) => self.each(effects, *class, event),
            Rule::Replaced(class, event) => self.each_replaced(effects, *class, event),
            Rule::Stored(class, event) => effects.iter().for_each(|effect| {
                self.created(effect);
                self.replaced(effect);
                match effect.exists {
                    true => self.tell(*class, event, effect.db, effect.name),
                    false => self.deleted(effect),
                }
            }),
            Rule::Removed => effects.iter().for_each(|effect| self.deleted(effect)),
            Rule::Computed(compute) => compute(self, effects, arguments),
        }
    }

    fn each(&self, effects: &[Effect<'_>], class: u32, event: &str) {
        for effect in effects {
            self.created(effect);
            self.tell(class, event, effect.db, effect.name);
            self.deleted(effect);
        }
    }

    fn each_replaced(&self, effects: &[Effect<'_>], class: u32, event: &str) {
        for effect in effects {
            self.created(effect);
            self.replaced(effect);
            self.tell(class, event, effect.db, effect.name);
            self.deleted(effect);
        }
    }

    /// A value took another's place, of the same kind or not.
    fn replaced(&self, effect: &Effect<'_>) {
        let Kinds { before, after } = effect.kinds;
        let (Some(before), Some(after), true) = (before, after, effect.exists) else {
            return;
        };
        self.tell(OVERWRITTEN, "overwritten", effect.db, effect.name);
        if before != after {
            self.tell(TYPE_CHANGED, "type_changed", effect.db, effect.name);
        }
    }

    /// A hash was removed with its last field.
    fn fields_expired(&self, change: &Change) {
        self.tell(HASH, "hexpired", change.db, &change.name);
        self.tell(GENERIC, "del", change.db, &change.name);
    }

    fn created(&self, effect: &Effect<'_>) {
        if effect.created {
            self.tell(NEW, "new", effect.db, effect.name);
        }
    }

    fn deleted(&self, effect: &Effect<'_>) {
        if !effect.exists {
            self.tell(GENERIC, "del", effect.db, effect.name);
        }
    }
}

fn effect_on<'e, 'a>(effects: &'e [Effect<'a>], name: &[u8]) -> Option<&'e Effect<'a>> {
    effects.iter().find(|effect| effect.name == name)
}

fn has_word(arguments: Arguments<'_>, from: usize, words: &[&str]) -> bool {
    let mut given = arguments.iter().skip(from);
    given.any(|argument| words.iter().any(|word| parse::is(argument, word)))
}

fn created(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], _: Arguments<'_>) {
    effects.iter().for_each(|effect| publisher.created(effect));
}

/// A document that is removed whole has no other event, as at the original.
fn json_removed(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], _: Arguments<'_>) {
    effects
        .iter()
        .for_each(|effect| publisher.tell(MODULE, "json.del", effect.db, effect.name));
}

fn set(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], arguments: Arguments<'_>) {
    publisher.each_replaced(effects, STRING, "set");
    if has_word(arguments, 3, &["ex", "px", "exat", "pxat"]) {
        expire(publisher, effects, arguments);
    }
}

fn set_with_deadline(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], arguments: Arguments<'_>) {
    publisher.each_replaced(effects, STRING, "set");
    expire(publisher, effects, arguments);
}

fn msetex(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], arguments: Arguments<'_>) {
    let options = msetex_keys(arguments).last().map_or(0, |last| last + 2);
    publisher.each_replaced(effects, STRING, "set");
    if has_word(arguments, options, &["ex", "px", "exat", "pxat"]) {
        expire(publisher, effects, arguments);
    }
}

fn expire(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], _: Arguments<'_>) {
    for effect in effects {
        match effect.exists {
            true => publisher.tell(GENERIC, "expire", effect.db, effect.name),
            false => publisher.deleted(effect),
        }
    }
}

fn getex(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], arguments: Arguments<'_>) {
    match has_word(arguments, 2, &["persist"]) {
        true => publisher.each(effects, GENERIC, "persist"),
        false => expire(publisher, effects, arguments),
    }
}

/// The key under its new name is always new: a previous value is removed first, without an event.
fn rename(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], arguments: Arguments<'_>) {
    let Some(target) = effect_on(effects, &arguments[2]) else {
        return;
    };
    publisher.tell(NEW, "new", target.db, target.name);
    publisher.tell(GENERIC, "rename_from", target.db, &arguments[1]);
    publisher.tell(GENERIC, "rename_to", target.db, target.name);
    publisher.replaced(target);
}

fn copy(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], _: Arguments<'_>) {
    for effect in effects {
        publisher.tell(NEW, "new", effect.db, effect.name);
        publisher.tell(GENERIC, "copy_to", effect.db, effect.name);
        publisher.replaced(effect);
    }
}

fn move_key(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], _: Arguments<'_>) {
    let from = effects.iter().find(|effect| !effect.exists);
    let Some((from, to)) = from.zip(effects.iter().find(|effect| effect.exists)) else {
        return;
    };
    publisher.tell(NEW, "new", to.db, to.name);
    publisher.tell(GENERIC, "move_from", from.db, from.name);
    publisher.tell(GENERIC, "move_to", to.db, to.name);
}

fn restore(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], _: Arguments<'_>) {
    for effect in effects.iter().filter(|effect| effect.exists) {
        publisher.tell(NEW, "new", effect.db, effect.name);
        publisher.tell(GENERIC, "restore", effect.db, effect.name);
        publisher.replaced(effect);
    }
}

/// LMPOP numkeys key... LEFT|RIGHT; BLMPOP has a timeout in front. The first of the two words is
/// the option: a key may have that name too, but is before it, within the announced number.
fn lmpop(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], arguments: Arguments<'_>) {
    let event = if is_first_end(arguments, "left") {
        "lpop"
    } else {
        "rpop"
    };
    publisher.each(effects, LIST, event);
}

fn zmpop(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], arguments: Arguments<'_>) {
    let event = if is_first_end(arguments, "min") {
        "zpopmin"
    } else {
        "zpopmax"
    };
    publisher.each(effects, SORTED_SET, event);
}

/// The word after the counted keys of LMPOP and similar.
fn is_first_end(arguments: Arguments<'_>, word: &str) -> bool {
    let blocks = arguments[0]
        .first()
        .is_some_and(|letter| letter.eq_ignore_ascii_case(&b'b'));
    let count_at = if blocks { 2 } else { 1 };
    let count = arguments.get(count_at).and_then(parse::unsigned).unwrap_or(0) as usize;
    arguments
        .get(count_at + 1 + count)
        .is_some_and(|end| parse::is(end, word))
}

/// The element arrives before it leaves.
fn lmove(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], arguments: Arguments<'_>) {
    let (Some(from), Some(to)) = (effect_on(effects, &arguments[1]), effect_on(effects, &arguments[2])) else {
        return;
    };
    let says_ends = arguments[0].to_ascii_lowercase().ends_with(b"lmove");
    let at_left = |position: usize, default: bool| match arguments.get(position) {
        Some(end) if says_ends => parse::is(end, "left"),
        _ => default,
    };
    publisher.created(to);
    publisher.tell(LIST, if at_left(4, true) { "lpush" } else { "rpush" }, to.db, to.name);
    publisher.tell(
        LIST,
        if at_left(3, false) { "lpop" } else { "rpop" },
        from.db,
        from.name,
    );
    publisher.deleted(from);
}

fn smove(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], arguments: Arguments<'_>) {
    if let Some(from) = effect_on(effects, &arguments[1]) {
        publisher.tell(SET, "srem", from.db, from.name);
        publisher.deleted(from);
    }
    if let Some(to) = effect_on(effects, &arguments[2]) {
        publisher.created(to);
        publisher.tell(SET, "sadd", to.db, to.name);
    }
}

fn zadd(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], arguments: Arguments<'_>) {
    let mut options = arguments.iter().skip(2).take_while(|word| parse::float(word).is_none());
    let increments = options.any(|word| parse::is(word, "incr"));
    publisher.each(effects, SORTED_SET, if increments { "zincr" } else { "zadd" });
}

/// A deadline that has passed removes the fields.
fn hexpire(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], arguments: Arguments<'_>) {
    let removes = arguments.get(2) == Some(b"0");
    publisher.each(effects, HASH, if removes { "hdel" } else { "hexpire" });
}

fn hgetex(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], arguments: Arguments<'_>) {
    let persists = arguments.get(2).is_some_and(|word| parse::is(word, "persist"));
    publisher.each(effects, HASH, if persists { "hpersist" } else { "hexpire" });
}

fn hsetex(publisher: &EventPublisher<'_>, effects: &[Effect<'_>], arguments: Arguments<'_>) {
    publisher.each(effects, HASH, "hset");
    if has_word(arguments, 2, &["ex", "px", "exat", "pxat"]) {
        let live = effects.iter().filter(|effect| effect.exists);
        live.for_each(|effect| publisher.tell(HASH, "hexpire", effect.db, effect.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writers without events: their effect on keys is no change of a value, or Redis is silent
    /// too. (Redis publishes a consumer that XREADGROUP, XCLAIM or XAUTOCLAIM makes; that is not
    /// published here.)
    const SILENT: &[&str] = &[
        "flushdb",
        "flushall",
        "swapdb",
        "pfcount",
        "pfdebug",
        "sort_ro",
        "xreadgroup",
        "xack",
        "xclaim",
        "xautoclaim",
    ];

    #[test]
    fn every_writer_has_a_rule() {
        let writers = crate::commands::table()
            .commands()
            .filter(|command| command.has(crate::command::WRITE));
        let without = writers.filter(|command| !SILENT.contains(&command.name) && rule_of(command).is_none());
        let names: Vec<&str> = without.map(|command| command.name).collect();
        assert!(names.is_empty(), "{names:?}");
    }
}
