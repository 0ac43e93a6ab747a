//! Modules: families of commands in crates of their own, over the layer's facade
//! ([`module_api`](crate::module_api)), as Redis loads modules of commands and of data types.
//!
//! ```text
//!   server::redis::modules --commands::with([module, ..])--> one table of commands, the data types by number
//!   Redis --keys_changed, rolled_back, tick, ..--> module --state(of the layer)--> its indexes, caches
//! ```
//!
//! A module is a value without state; its state in memory belongs to a layer, which opens it
//! ([`Module::open`]) and lends it by its type ([`Redis::state`]). The layer calls modules only
//! through [`Module`] and [`DataType`], and names none.

use std::any::Any;
use std::time::Duration;

use quartet_engine::{Transaction, Verification};
use quartet_wire_rdb::file::Writer;
use quartet_wire_rdb::value::Value;
use quartet_wire_resp::Arguments;

use crate::access::acl::User;
use crate::command::Command;
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::handler::definition::Definition;
use crate::keyspace::changes::Unindexed;
use crate::keyspace::stored_key::StoredKey;
use crate::keyspace::{Entry, Keyspace, Kind};
use crate::layer::Redis;
use crate::module_states::{ModuleStates, TransactionEnds};

/// A family of commands, with its data types and its state beside the rows. Every method but the
/// first two has a default that does nothing.
pub trait Module: Send + Sync {
    /// The modules of Redis with these commands, for MODULE LIST, HELLO and INFO: their names
    /// and the versions that are followed.
    fn names(&self) -> &'static [(&'static str, i64)];

    /// The rows of the table of commands, in the table's order.
    fn commands(&self) -> &'static [&'static [Definition]];

    /// The arguments of the commands for COMMAND DOCS, in the notation of
    /// `command/arguments.rs`, a line each.
    fn arguments(&self) -> &'static str {
        ""
    }

    /// The keyspace events of commands, by their names.
    fn events(&self) -> &'static [(&'static [&'static str], Events)] {
        &[]
    }

    /// The names of commands that replicas receive unchanged if they changed a key. Replicas
    /// receive the resulting keys of all other commands.
    fn sent_as_they_came(&self) -> &'static [&'static str] {
        &[]
    }

    /// The names of commands that replicas always receive unchanged, because they change more than
    /// keys.
    fn always_sent(&self) -> &'static [&'static str] {
        &[]
    }

    /// The request that replicas receive instead of one of [`Module::sent_as_they_came`] whose
    /// outcome depends on the time of its arrival.
    fn sent_instead(&self, _command: &Command, _arguments: Arguments<'_>, _now_ms: u64) -> Option<Vec<Vec<u8>>> {
        None
    }

    /// The kinds of keys that the module brings.
    fn data_types(&self) -> &'static [&'static dyn DataType] {
        &[]
    }

    /// Opens the module's state in one layer; [`Redis::state`] lends it by its type.
    fn open(&self, _ends: TransactionEnds) -> Box<dyn Any + Send + Sync> {
        Box::new(())
    }

    /// Follows the keys of database 0 that the transaction has changed since the last call. The
    /// error refuses the transaction and is the reply of its command.
    fn keys_changed(
        &self,
        _layer: &Redis,
        _tx: &mut Transaction<'_>,
        _changed: &Unindexed,
        _now_ms: u64,
    ) -> Result<(), &'static str> {
        Ok(())
    }

    /// The transaction was committed. Called only after [`TransactionEnds::await_next`].
    fn committed(&self, _layer: &Redis) {}

    /// The transaction was rolled back, with all that the module has written in it.
    fn rolled_back(&self, _layer: &Redis) {}

    /// Runs about ten times a second.
    fn tick(&self, _layer: &Redis) {}

    /// Removes expired rows. Runs with the cycle that expires keys.
    fn expire(&self, _layer: &Redis) {}

    /// Does a part of the work that commands have left, mostly without the lock. Returns the pause
    /// before the next part; `None` if there is no more.
    fn work(&self, _layer: &Redis) -> Option<Duration> {
        None
    }

    /// Prepares a request that is about to run where it may take long, without the lock.
    fn before_long_run(&self, _layer: &Redis, _user: &User, _command: &'static Command, _arguments: Arguments<'_>) {}

    /// Removes the module's rows outside of keys: database 0 was emptied.
    fn clear(&self, _tx: &mut Transaction<'_>) {}

    /// Writes to an RDB file the parts that precede its keys.
    fn save_before_keys(&self, _tx: &mut Transaction<'_>, _writer: &mut Writer, _out: &mut Vec<u8>) {}

    /// Writes to an RDB file the parts that follow its keys.
    fn save_after_keys(&self, _tx: &mut Transaction<'_>, _writer: &mut Writer, _out: &mut Vec<u8>) {}

    /// Verifies the module's rows outside of its keys.
    fn verify(&self, _modules: &Modules, _verification: &mut Verification<'_>) {}
}

/// The keyspace events of a module's command.
#[derive(Clone, Copy, Debug)]
pub enum Events {
    /// `new` for each key that was absent before, nothing else.
    Created,
    /// `del` for each removed key, nothing else.
    Removed,
    /// This event, of the class of modules, for each changed key, followed by `del` if that emptied
    /// the key.
    Each(&'static str),
    /// The same for an event of the class of hashes.
    OfHash(&'static str),
}

/// A kind of keys that a module brings: the counterpart of the type methods of Redis' modules.
///
/// TYPE, SCAN, EXPIRE, RENAME, COPY, MOVE, eviction and MEMORY USAGE work on the rows of a key of
/// any kind; the methods supply the rest.
pub trait DataType: Send + Sync {
    /// The number in the headers of its keys (`docs/formats.md`), the same in every version.
    fn number(&self) -> u8;

    /// The word that TYPE replies.
    fn name(&self, entry: &Entry) -> &'static str;

    /// The value as DUMP replies it and as RDB files have it.
    fn value(&self, keys: &mut Keyspace<'_, '_>, entry: &Entry) -> Result<Value, ErrorReply>;

    /// Returns true if [`DataType::value`] takes long for this key.
    fn takes_long(&self, _keys: &mut Keyspace<'_, '_>, _entry: &Entry) -> bool {
        false
    }

    /// Bytes that [`DataType::value`] takes beyond those of the key's rows.
    fn bytes_beyond_rows(&self, _keys: &mut Keyspace<'_, '_>, _entry: &Entry) -> u64 {
        0
    }

    /// Checks a value that RESTORE was given; `None` if it is one of another type.
    fn check(&self, value: &Value) -> Option<Result<(), ErrorReply>>;

    /// Stores a value that was checked under a name without a key.
    fn store(&self, keys: &mut Keyspace<'_, '_>, name: &[u8], value: &Value) -> Result<(), ErrorReply>;

    /// Writes the key to an RDB file.
    fn save(&self, keys: &mut Keyspace<'_, '_>, name: &[u8], entry: &Entry, writer: &mut Writer, out: &mut Vec<u8>) {
        if let Ok(value) = self.value(keys, entry) {
            writer.key(name, entry.expiry_ms, &value, out);
        }
    }

    /// Visits the elements for DEBUG DIGEST, in any order, each as its parts.
    fn digest(&self, keys: &mut Keyspace<'_, '_>, entry: &Entry, add: &mut dyn FnMut(&[&[u8]]));

    /// Returns true if the key's own row is one that a version has written.
    fn is_whole(&self, entry: &Entry) -> bool;

    /// Verifies the elements of a large key against its own row.
    fn verify(&self, verification: &mut Verification<'_>, key: &StoredKey<'_>, value: &[u8]);

    /// A key was copied with its elements.
    fn copied(&self, _context: &mut Context<'_, '_>, _copy: &Entry) {}

    /// The error of RENAME, MOVE and COPY for keys that only their own commands create and remove.
    /// They are not evicted either.
    fn stays(&self) -> Option<&'static str> {
        None
    }

    /// Returns true if a large key has rows of several kinds in sequence: MEMORY USAGE spreads its
    /// samples over them.
    fn has_mixed_rows(&self) -> bool {
        false
    }

    /// Returns true if the change feed has this element of a large key.
    fn is_shown(&self, _element: &[u8]) -> bool {
        true
    }
}

/// The kinds of keys that there can be.
const KINDS: usize = u8::MAX as usize + 1;

/// The modules of a table of commands, and their data types by number.
pub struct Modules {
    all: &'static [&'static dyn Module],
    data_types: [Option<&'static dyn DataType>; KINDS],
}

impl Modules {
    /// Opens the state of each module for a layer.
    pub fn open(&self) -> ModuleStates {
        let ends = TransactionEnds::default();
        let states = self.all.iter().map(|module| module.open(ends.clone()));
        ModuleStates::new(states.collect(), ends)
    }

    /// Panics if two modules bring a data type of the same number.
    pub fn new(all: &'static [&'static dyn Module]) -> Modules {
        let mut data_types = [None; KINDS];
        for data_type in all.iter().flat_map(|module| module.data_types()) {
            let other = data_types[usize::from(data_type.number())].replace(*data_type);
            assert!(other.is_none(), "two data types have the number {}", data_type.number());
        }
        Modules { all, data_types }
    }

    pub fn all(&self) -> &'static [&'static dyn Module] {
        self.all
    }

    pub fn data_types(&self) -> impl Iterator<Item = &'static dyn DataType> {
        self.data_types.iter().copied().flatten()
    }

    /// The data type of a kind; `None` if the layer has it itself. Panics if no module has it: no
    /// version has written such a key.
    pub fn data_type(&self, kind: Kind) -> Option<&'static dyn DataType> {
        match kind {
            Kind::Module(number) => match self.data_types[usize::from(number)] {
                None => panic!("a key of kind {number}, which no version has written"),
                data_type => data_type,
            },
            _ => None,
        }
    }

    /// The word that TYPE replies for a key.
    pub fn type_name(&self, entry: &Entry) -> &'static str {
        match self.data_type(entry.kind) {
            Some(data_type) => data_type.name(entry),
            None => entry.kind.name(),
        }
    }

    /// The keyspace events of a module's command.
    pub fn events_of(&self, command: &Command) -> Option<Events> {
        let mut rules = self.all.iter().flat_map(|module| module.events());
        let (_, events) = rules.find(|(names, _)| names.contains(&command.name))?;
        Some(*events)
    }

    /// See [`Module::sent_as_they_came`].
    pub fn is_sent_as_it_came(&self, command: &Command) -> bool {
        let mut lists = self.all.iter().map(|module| module.sent_as_they_came());
        lists.any(|names| names.contains(&command.name))
    }

    /// See [`Module::sent_instead`].
    pub fn sent_instead(&self, command: &Command, arguments: Arguments<'_>, now_ms: u64) -> Option<Vec<Vec<u8>>> {
        let mut modules = self.all.iter();
        modules.find_map(|module| module.sent_instead(command, arguments, now_ms))
    }

    /// See [`Module::always_sent`].
    pub fn is_always_sent(&self, command: &Command) -> bool {
        let mut lists = self.all.iter().map(|module| module.always_sent());
        lists.any(|names| names.contains(&command.name))
    }

    /// The error for a key that RENAME, MOVE and COPY may not touch; it is not evicted either.
    pub fn stays(&self, kind: Kind) -> Option<&'static str> {
        self.data_type(kind)?.stays()
    }
}

impl Redis {
    /// The state of the module that keeps one of this type. Panics if none does.
    pub fn state<S: 'static>(&self) -> &S {
        self.module_states.of()
    }

    fn modules(&self) -> &'static [&'static dyn Module] {
        self.commands().modules.all
    }

    /// Lets modules follow the keys that changed. Call it before the end of every transaction that
    /// changes keys, and of every command in a longer one. A module may refuse the transaction.
    #[inline]
    pub fn follow_changes(&self, tx: &mut Transaction<'_>, now_ms: u64) {
        if self.changes.has_unindexed() {
            self.follow_in_modules(tx, now_ms);
        }
    }

    fn follow_in_modules(&self, tx: &mut Transaction<'_>, now_ms: u64) {
        let changed = self.changes.take_unindexed();
        if changed.names.is_empty() {
            return;
        }
        if self.modules().is_empty() {
            self.changes.index(false);
        }
        for module in self.modules() {
            if let Err(refusal) = module.keys_changed(self, tx, &changed, now_ms) {
                *self.module_states.refusal.lock() = Some(refusal);
                return tx.refuse_as_too_large();
            }
        }
    }

    /// The transaction was committed.
    #[inline]
    pub fn commit_modules(&self) {
        if self.module_states.ends.take() {
            self.modules().iter().for_each(|module| module.committed(self));
        }
    }

    /// The transaction was rolled back.
    pub fn roll_modules_back(&self) {
        self.changes.take_unindexed();
        self.changes.index(true);
        self.module_states.ends.take();
        self.module_states.take_refusal();
        self.modules().iter().for_each(|module| module.rolled_back(self));
    }

    /// See [`Module::tick`].
    pub(crate) fn tick_modules(&self) {
        self.modules().iter().for_each(|module| module.tick(self));
    }

    /// See [`Module::expire`].
    pub(crate) fn expire_in_modules(&self) {
        self.modules().iter().for_each(|module| module.expire(self));
    }

    /// Lets modules do a part of the work that commands have left. Returns the pause before the
    /// next call; `None` if there is no more work.
    pub fn work_of_modules(&self) -> Option<Duration> {
        self.modules().iter().filter_map(|module| module.work(self)).min()
    }

    /// See [`Module::before_long_run`].
    pub(crate) fn prepare_long_run(&self, user: &User, command: &'static Command, arguments: Arguments<'_>) {
        let modules = self.modules().iter();
        modules.for_each(|module| module.before_long_run(self, user, command, arguments));
    }
}
