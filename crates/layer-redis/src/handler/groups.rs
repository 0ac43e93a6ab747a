//! The groups of the layer's state, lent one by one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_engine::{Engine, Reserved, Space};
use quartet_wire_resp::Arguments;

use crate::command::error_reply::ErrorReply;
use crate::command::errors;
use crate::command::table::Table;
use crate::config::Config;
use crate::connections::clients::ClientState;
use crate::connections::outbox::Outbox;
use crate::handler::allowance::{Allowance, WITH_LOCK_ELEMENTS};
use crate::handler::beside::Beside;
use crate::handler::command_memory::{CommandMemory, GatheredList, Workspace};
use crate::keyspace::changes::Changes;
use crate::keyspace::eviction_policy::Policy;
use crate::keyspace::random::Random;
use crate::layer::{Access, Connections, Eviction, Expiry, Observation, Process, Redis, Resources, Scripting};
use crate::replication::Replication;
use crate::scripting::long_scripts::{Bounds, Stop};

/// Lends the groups of the layer's state to a command, each by its name.
#[derive(Clone, Copy)]
pub struct Groups<'c> {
    pub(crate) layer: &'c Redis,
    /// For a command that runs beside others.
    beside: Option<&'c Beside>,
    /// For a command that may look at much, or that is one of EXEC or of a script.
    allowance: Option<&'c Allowance<'c>>,
    /// `None` where no client is answered.
    memory: Option<&'c CommandMemory<'c>>,
}

impl<'c> Groups<'c> {
    pub fn of(layer: &'c Redis) -> Groups<'c> {
        Groups {
            layer,
            beside: None,
            allowance: None,
            memory: None,
        }
    }

    /// For a command that only reads, concurrently with others: its own notes are in `beside`.
    pub fn with_notes(layer: &'c Redis, beside: &'c Beside) -> Groups<'c> {
        let beside = Some(beside);
        Groups {
            beside,
            ..Groups::of(layer)
        }
    }

    /// For a command that runs within this allowance.
    pub fn allowed(self, allowance: Option<&'c Allowance<'c>>) -> Groups<'c> {
        Groups { allowance, ..self }
    }

    /// For a command that takes memory from there.
    pub fn with_memory(self, memory: &'c CommandMemory<'c>) -> Groups<'c> {
        let memory = Some(memory);
        Groups { memory, ..self }
    }

    /// The memory for a reply.
    pub fn memory(self) -> Option<&'c CommandMemory<'c>> {
        self.memory
    }

    /// Memory for what the command gathers before it writes its reply.
    pub fn workspace(self) -> Workspace<'c> {
        Workspace::new(self.memory)
    }

    /// A list that is gathered in such memory.
    pub fn gathered_list(self) -> GatheredList<'c> {
        GatheredList::new(self.workspace())
    }

    /// Memory for output made after the command has ended, but before its reply is whole.
    pub fn reserve(self, bytes: u64) -> Result<Reserved, ErrorReply> {
        let mut reserved = Reserved::new(self.engine().memory().clone());
        let fits = bytes <= self.layer.reply_memory_max();
        match fits && reserved.try_set(bytes) {
            true => Ok(reserved),
            false => Err(errors::REPLY_OUT_OF_MEMORY.into()),
        }
    }

    /// The error for a reply that could not be written to its end.
    pub fn reply_is_full(self) -> ErrorReply {
        match self.is_refused_memory() {
            true => errors::REPLY_OUT_OF_MEMORY.into(),
            false => errors::REPLY_TOO_LARGE.into(),
        }
    }

    /// The command was refused memory, and must end.
    pub fn is_refused_memory(self) -> bool {
        self.memory.is_some_and(|memory| memory.request.is_refused())
    }

    /// A command that looks at much checks from time to time whether it has to end here. Its
    /// answer is dropped then.
    pub fn must_end(self, now_micros: u64) -> bool {
        self.allowance.is_some_and(|allowance| allowance.ends(now_micros))
    }

    /// The command runs beside others.
    #[inline]
    pub fn beside(self) -> Option<&'c Beside> {
        self.beside
    }

    /// As [`Groups::must_end`], for a command that knows before it starts that it takes long.
    pub fn must_end_before_long(self) -> bool {
        self.allowance.is_some_and(Allowance::ends_before_long)
    }

    /// As [`Groups::must_end_before_long`], for a command that visits this many elements.
    pub fn must_end_before(self, elements: u64) -> bool {
        elements > WITH_LOCK_ELEMENTS && self.must_end_before_long()
    }

    /// Why the transaction that the command is of must end, if it must.
    pub fn stopped(self) -> Option<Stop> {
        self.allowance.and_then(Allowance::stopped)
    }

    /// It had to end.
    pub fn has_used_up_allowance(self) -> bool {
        self.allowance.is_some_and(Allowance::is_used_up)
    }

    pub fn engine(self) -> &'c Arc<Engine> {
        &self.layer.engine
    }

    pub fn space(self) -> Space {
        self.layer.space
    }

    pub fn table(self) -> &'static Table {
        self.layer.table
    }

    #[inline]
    pub fn config(self) -> &'c Config {
        &self.layer.config
    }

    #[inline]
    pub fn changes(self) -> &'c Changes {
        self.beside.map_or(&self.layer.changes, Beside::changes)
    }

    /// See [`Redis::state`].
    pub fn state<S: 'static>(self) -> &'c S {
        self.layer.state()
    }

    pub fn outbox(self) -> &'c Outbox {
        &self.layer.outbox
    }

    pub fn replication(self) -> &'c Replication {
        &self.layer.replication
    }

    pub fn random(self) -> &'c Random {
        &self.layer.random
    }

    pub fn expiry(self) -> &'c Expiry {
        &self.layer.expiry
    }

    #[inline]
    pub fn eviction(self) -> &'c Eviction {
        &self.layer.eviction
    }

    pub fn connections(self) -> &'c Connections {
        &self.layer.connections
    }

    pub fn access(self) -> &'c Access {
        &self.layer.access
    }

    #[inline]
    pub fn observation(self) -> &'c Observation {
        &self.layer.observation
    }

    pub fn scripting(self) -> &'c Scripting {
        &self.layer.scripting
    }

    pub fn process(self) -> &'c Process {
        &self.layer.process
    }

    /// Longest reply of one command or transaction, in bytes.
    #[inline]
    pub fn reply_bytes_max(self) -> usize {
        self.layer.reply_bytes_max()
    }

    pub fn set_reply_bytes_max(self, bytes: usize) {
        self.layer.reply_bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// See [`Redis::used_bytes`].
    pub fn used_bytes(self) -> u64 {
        self.layer.used_bytes()
    }

    /// See [`Redis::resources`].
    pub fn resources(self) -> Resources {
        self.layer.resources()
    }

    /// The database is one of several.
    pub fn is_one_of_several(self) -> bool {
        self.layer.access.admission_control.is_some()
    }

    /// See [`Redis::client_bytes`].
    pub fn client_bytes(self) -> u64 {
        self.layer.client_bytes()
    }

    /// See [`Redis::is_out_of_memory`].
    pub fn is_out_of_memory(self) -> bool {
        self.layer.is_out_of_memory()
    }

    /// See [`Redis::lacks_replicas`].
    pub fn lacks_replicas(self) -> bool {
        self.layer.lacks_replicas()
    }

    /// See [`Redis::replicas_at`].
    pub fn replicas_at(self, position: u64, on_disk: bool) -> u64 {
        self.layer.replicas_at(position, on_disk)
    }

    pub fn eviction_policy(self) -> Policy {
        self.layer.eviction_policy()
    }

    /// See [`Redis::frequency`].
    pub fn frequency(self, db: u8, name: &[u8], now_ms: u64) -> u8 {
        self.layer.frequency(db, name, now_ms)
    }

    /// See [`Redis::decide_on_changes`].
    pub fn decide_on_changes(self) {
        self.layer.decide_on_changes();
    }

    /// See [`Redis::last_save_seconds`].
    pub fn last_save_seconds(self) -> u64 {
        self.layer.last_save_seconds()
    }

    /// See [`Redis::log_failed_authentication`].
    pub fn log_failed_authentication(self, client: &ClientState, user: &[u8], arguments: Arguments<'_>) {
        self.layer.log_failed_authentication(client, user, arguments);
    }

    /// See [`Redis::long_bounds`].
    pub fn long_bounds(self) -> Bounds {
        self.layer.long_bounds()
    }
}
