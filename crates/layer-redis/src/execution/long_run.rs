//! A request that takes too long for a thread that serves connections, run on one that may take
//! long.
//!
//! The request was started, and rolled back, before: no client has seen any of it. The connection's
//! state is moved here and returned with the reply. A script, a transaction or a write of many
//! elements holds the partition's lock while it runs. Others wait for it, or get the error that a
//! script keeps the server busy; unless it is a script, others who only read continue at the state
//! before it. A read-only command that may visit much, such as a search, holds no lock: it reads
//! the state at its start, and ends when its client has disconnected.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_engine::{Busy, Dependency, MustWrite, PartitionGuard, ReadGuard};
use quartet_wire_resp::{Arguments, Limits, Parsed, Parser, Reply};

use crate::command::{Command, Group, KNOWS_SIZE};
use crate::commands::transactions::{self, each_request};
use crate::connections::clients::ClientState;
use crate::connections::pending_disconnects::Abandoned;
use crate::execution::call::{Call, Ended, Reading, answer_error, call, call_reading};
use crate::handler::allowance::WITH_LOCK_MICROS;
use crate::handler::caching::remember;
use crate::handler::groups::Groups;
use crate::handler::outcome::Outcome;
use crate::handler::subscriptions::leave_all;
use crate::layer::Redis;
use crate::scripting::long_scripts::Bounds;

pub struct LongRun {
    layer: Arc<Redis>,
    client: ClientState,
    request: Vec<u8>,
    reply: Vec<u8>,
    dependency: Dependency,
}

impl LongRun {
    pub fn new(layer: Arc<Redis>, client: ClientState, request: Vec<u8>) -> LongRun {
        LongRun {
            layer,
            client,
            request,
            reply: Vec::new(),
            dependency: Dependency::ZERO,
        }
    }

    /// Runs the request to its end. Blocks the calling thread as long as it takes.
    pub fn run(&mut self) {
        let request = std::mem::take(&mut self.request);
        let mut parser = Parser::new();
        let Ok(Parsed::Request { .. }) = parser.parse(&request, &Limits::unlimited()) else {
            unreachable!("a request that parsed once");
        };
        let arguments = parser.arguments(&request);
        self.client.may_take_long = true;
        match self.layer.table.find_of(arguments) {
            Ok(command) if self.client.may_look_at_much(command) => {
                self.layer.prepare_long_run(&self.client.user, command, arguments);
                if let Err(MustWrite) = self.read(command, arguments) {
                    self.reply.clear();
                    self.run_alone(command, arguments);
                }
            }
            Ok(command) => {
                self.layer.prepare_long_run(&self.client.user, command, arguments);
                self.run_alone(command, arguments);
            }
            Err(error) => self.end(Ended::without_effects(Err(error))),
        }
        self.client.may_take_long = false;
        self.client.parsed = None;
    }

    /// Runs a command that only reads at the state as it is now.
    fn read(&mut self, command: &'static Command, arguments: Arguments<'_>) -> Result<(), MustWrite> {
        let layer = self.layer.clone();
        let started_micros = layer.engine.now_micros();
        let partition = layer.engine.read();
        // Before the first change that the command does not see. The notice of one waits for the
        // reply, as the connection's owner does.
        remember(Groups::of(&layer), &self.client, command, arguments);
        if let Some(queue) = &self.client.multi {
            each_request(&queue.requests, &mut |arguments| {
                if let Ok(command) = layer.table.find_of(arguments) {
                    remember(Groups::of(&layer), &self.client, command, arguments);
                }
                ControlFlow::Continue(())
            });
        }
        let mut frozen = partition.freeze(layer.space);
        drop(partition);
        let reading = Reading::Frozen(&mut frozen);
        let ended = call_reading(reading, &layer, &mut self.client, command, arguments, &mut self.reply)?;
        let micros = layer.engine.now_micros().saturating_sub(started_micros);
        if !command.has(KNOWS_SIZE) {
            self.client.expects_long = micros >= WITH_LOCK_MICROS;
        }
        self.end(ended);
        Ok(())
    }

    fn run_alone(&mut self, command: &'static Command, arguments: Arguments<'_>) {
        let layer = self.layer.clone();
        let mut partition = layer.engine.partition_for_long();
        // Scripts write anywhere, and would copy a node of the tree at most of their writes.
        if command.group != Group::Scripting {
            partition.show_state();
        }
        let request = Call {
            command,
            arguments,
            retry_for: None,
        };
        let ended = call(&mut partition, &layer, &mut self.client, &request, &mut self.reply);
        // The server stops: a transaction that ran here does not run again.
        if command.name == "exec" {
            transactions::forget(&mut partition, &mut self.client);
        }
        self.end(ended);
        layer.expire_found(&mut partition);
        layer.send_outbox();
        layer.serve_blocked(&mut partition);
        layer.clear_left_behind(&mut partition);
    }

    fn end(&mut self, ended: Ended) {
        self.dependency = ended.dependency;
        let error = match ended.outcome {
            Ok(Outcome::Done) => return,
            Ok(_) => "ERR the script was ended because the server stops".into(),
            Err(error) => error,
        };
        self.reply.clear();
        let mut reply = Reply::new(&mut self.reply, self.client.protocol);
        answer_error(&self.layer, &error, &mut reply);
    }

    /// The connection's state, the reply, and the version that the reply must wait for.
    pub fn into_parts(self) -> (ClientState, Vec<u8>, Dependency) {
        (self.client, self.reply, self.dependency)
    }
}

impl Redis {
    /// Time limits of a long script or transaction.
    pub fn long_bounds(&self) -> Bounds {
        let threshold_ms = self.config.busy_reply_threshold.load(Ordering::Relaxed);
        Bounds {
            busy_micros: (threshold_ms > 0).then_some(threshold_ms as u64 * 1000),
            micros_max: self
                .access
                .admission_control
                .as_ref()
                .map(|admission_control| admission_control.script_micros_max()),
        }
    }

    /// Takes the partition's lock, unless it is held for longer than the calling thread may wait,
    /// or a script has held it for longer than `busy-reply-threshold`.
    pub fn partition_in_time(&self) -> Result<PartitionGuard<'_>, Busy> {
        if self.scripting.long_scripts.is_busy() || self.replica.is_some() {
            return Err(Busy);
        }
        let mut partition = self.engine.partition_in_time()?;
        self.clear_left_behind(&mut partition);
        Ok(partition)
    }

    /// The same beside others who only read.
    pub fn read_in_time(&self) -> Result<ReadGuard<'_>, Busy> {
        match self.scripting.long_scripts.is_busy() {
            true => Err(Busy),
            false => match self.replica {
                None => self.engine.read_in_time(),
                Some(period) => self.engine.read_replica_in_time(period),
            },
        }
    }

    /// Unregisters what a connection no longer wants: now, or once the lock is free.
    pub fn leave_behind(&self, abandoned: Abandoned) {
        self.connections.pending_disconnects.of_clients.lock().push(abandoned);
        self.connections.pending_disconnects.any.store(true, Ordering::SeqCst);
        drop(self.partition_in_time());
    }

    fn clear_left_behind(&self, partition: &mut PartitionGuard<'_>) {
        let any = &self.connections.pending_disconnects.any;
        if !(any.load(Ordering::SeqCst) && any.swap(false, Ordering::SeqCst)) {
            return;
        }
        for mut abandoned in std::mem::take(&mut *self.connections.pending_disconnects.of_clients.lock()) {
            if abandoned.has_waited {
                self.connections.blocking.forget(partition, abandoned.client.id);
            }
            leave_all(Groups::of(self), &mut abandoned.subscriptions, &abandoned.client);
        }
    }
}
