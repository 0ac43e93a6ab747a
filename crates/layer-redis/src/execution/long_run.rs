//! A request that takes too long for a thread that serves connections, run on one that may take
//! long.
//!
//! The request was begun, and all of it taken back, before: nobody has seen anything of it. The
//! connection's state comes along and goes back with the reply. While it runs it holds the
//! partition's lock; the others wait for it, or get the error that a script keeps the server busy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_engine::{Busy, Dependency, PartitionGuard, ReadGuard};
use quartet_wire_resp::{Limits, Parsed, Parser, Reply};

use crate::commands::search::administration;
use crate::connections::clients::ClientState;
use crate::connections::pending_disconnects::Abandoned;
use crate::execution::call::{Call, Ended, answer_error, call};
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
        let layer = self.layer.clone();
        layer.await_filled_indexes();
        self.remove_keys_of_index();
        let mut partition = layer.engine.partition_for_long();
        self.client.may_take_long = true;
        let ended = self.call(&mut partition);
        self.client.may_take_long = false;
        self.dependency = ended.dependency;
        let error = match ended.outcome {
            Ok(Outcome::Done) => None,
            Ok(_) => Some("ERR the script was ended because the server stops".into()),
            Err(error) => Some(error),
        };
        if let Some(error) = error {
            self.reply.clear();
            answer_error(&layer, &error, &mut Reply::new(&mut self.reply, self.client.protocol));
        }
        layer.expire_found(&mut partition);
        layer.send_outbox();
        layer.serve_blocked(&mut partition);
        layer.clear_left_behind(&mut partition);
    }

    /// FT.DROPINDEX DD finds few keys left when it runs.
    fn remove_keys_of_index(&mut self) {
        let mut parser = Parser::new();
        if let Ok(Parsed::Request { .. }) = parser.parse(&self.request, &Limits::unlimited())
            && let Some(index) = administration::dropped_with_keys(parser.arguments(&self.request))
        {
            self.layer.remove_keys_of_index(&index, &self.client.user);
        }
    }

    fn call(&mut self, partition: &mut PartitionGuard<'_>) -> Ended {
        let mut parser = Parser::new();
        let Ok(Parsed::Request { .. }) = parser.parse(&self.request, &Limits::unlimited()) else {
            unreachable!("a request that parsed once");
        };
        let arguments = parser.arguments(&self.request);
        let command = match self.layer.table.find_of(arguments) {
            Ok(command) => command,
            Err(error) => return Ended::without_effects(Err(error)),
        };
        let request = Call {
            command,
            arguments,
            retry_for: None,
        };
        call(partition, &self.layer, &mut self.client, &request, &mut self.reply)
    }

    /// The connection's state, the reply, and the version that the reply must wait for.
    pub fn into_parts(self) -> (ClientState, Vec<u8>, Dependency) {
        (self.client, self.reply, self.dependency)
    }
}

impl Redis {
    /// How long a script or a transaction may take that runs for long.
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

    /// Takes the partition's lock, unless somebody keeps it for longer than the calling thread may
    /// wait, or a script has kept it for longer than `busy-reply-threshold`.
    pub fn partition_in_time(&self) -> Result<PartitionGuard<'_>, Busy> {
        if self.scripting.long_scripts.is_busy() {
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
            false => self.engine.read_in_time(),
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
