//! Whether a request may run now: what is looked at before a command sees it.

use super::Session;
use crate::command::error_reply::ErrorReply;
use crate::command::errors;
use crate::command::{Command, LOADING, NO_AUTH, NO_MULTI, STALE, WRITE};
use crate::commands::{scripting, transactions};
use crate::connections::subscriptions::is_allowed_while_subscribed;
use crate::execution::call::Ended;
use crate::handler::groups::Groups;
use crate::keyspace::{NAME_BYTES_MAX, has_long_key};
use crate::layer::Redis;
use crate::replication::LinkState;
use quartet_engine::{Admission, PartitionGuard};
use quartet_wire_resp::{Arguments, Protocol};

/// Why a request does not run now.
pub(super) enum Refusal {
    Error(ErrorReply),
    /// Earlier writes are not on disk yet: receive it again.
    Later,
}

impl<T: Into<ErrorReply>> From<T> for Refusal {
    fn from(error: T) -> Refusal {
        Refusal::Error(error.into())
    }
}

impl Session {
    /// Holds the request back if CLIENT PAUSE says so. One that will be refused is refused at once.
    pub(super) fn pause(
        &mut self,
        layer: &Redis,
        partition: Option<&mut PartitionGuard<'_>>,
        arguments: Arguments<'_>,
        request_bytes: usize,
    ) -> bool {
        let Ok(command) = self.admissible(layer, arguments, request_bytes) else {
            return false;
        };
        let writes = self.may_write(layer, partition, command, arguments);
        let now_ms = layer.engine.now_micros() / 1000;
        let until_ms = layer.connections.pause.holds_back(writes, now_ms);
        if let Some(until_ms) = until_ms {
            self.wait_for_pause(until_ms);
        }
        until_ms.is_some()
    }

    /// Without the lock (`partition`), while a script holds it, a function's flags are unknown.
    pub(super) fn may_write(
        &self,
        layer: &Redis,
        partition: Option<&mut PartitionGuard<'_>>,
        command: &Command,
        arguments: Arguments<'_>,
    ) -> bool {
        let writes = transactions::writes_or_publishes(command);
        writes && !scripting::declares_no_writes(Groups::of(layer), partition, command, arguments)
            || self.executes_writes(command)
    }

    /// The command is EXEC, and something in its queue may write.
    pub(super) fn executes_writes(&self, command: &Command) -> bool {
        let queue = self.client.multi.as_ref();
        command.name == "exec" && queue.is_some_and(|queue| queue.writes)
    }

    /// A connection that was made before a password was set, or that gave it, needs none; nor does
    /// any while there is none.
    pub(super) fn may_run_unauthenticated(&self, command: &Command) -> bool {
        self.client.authenticated || command.has(NO_AUTH) || self.layer.access.users.are_all_welcome()
    }

    /// A refused command marks the transaction that it would have joined as failed; a refused EXEC
    /// ends it, with an error of its own.
    pub(super) fn refuse(
        &mut self,
        partition: &mut PartitionGuard<'_>,
        arguments: Arguments<'_>,
        refused: ErrorReply,
    ) -> Ended {
        if is_http(&arguments[0]) {
            self.client.close_without_reply = true;
        }
        if arguments[0].eq_ignore_ascii_case(b"exec") {
            transactions::forget(partition, &mut self.client);
            return Ended::without_effects(Err(transactions::discarded_because_of(&refused.text)));
        }
        if let Some(queue) = &mut self.client.multi {
            queue.refused = true;
        }
        Ended::without_effects(Err(refused))
    }

    /// Returns the command if it may run now: checks everything that needs no key's value, and
    /// calls admission control. A refusal is counted.
    pub(super) fn admit(
        &self,
        layer: &Redis,
        arguments: Arguments<'_>,
        request_bytes: usize,
        now_micros: u64,
    ) -> Result<&'static Command, Refusal> {
        let admitted = self.admissible(layer, arguments, request_bytes);
        if let Err(Refusal::Error(error)) = &admitted
            && let Ok(command) = layer.table.find_of(arguments)
        {
            layer.observation.statistics.count_rejected(layer.table.index(command));
            if error.text.starts_with("NOPERM") {
                self.log_denial(layer, command, arguments);
            }
        }
        let command = admitted?;
        layer.pass_gate(command, request_bytes, now_micros)?;
        Ok(command)
    }

    pub(super) fn log_denial(&self, layer: &Redis, command: &'static Command, arguments: Arguments<'_>) {
        if let Err(denial) = self.client.user.check(command, arguments) {
            let place = if self.client.multi.is_some() {
                "multi"
            } else {
                "toplevel"
            };
            self.client.shared.note_command(layer.table.index(command));
            layer.log_denial(&self.client, &denial, command, arguments, place);
        }
    }

    /// Finds the command and checks everything that needs no key's value.
    pub(super) fn admissible(
        &self,
        layer: &Redis,
        arguments: Arguments<'_>,
        request_bytes: usize,
    ) -> Result<&'static Command, Refusal> {
        let latest = self.client.shared.last_command_index();
        let command = layer.table.find_of_after(latest, arguments)?;
        if !command.accepts(arguments.len()) {
            return Err(format!("ERR wrong number of arguments for '{}' command", command.name).into());
        }
        if !self.may_run_unauthenticated(command) {
            return Err("NOAUTH Authentication required.".into());
        }
        if self.is_listening() && !is_allowed_while_subscribed(command) {
            return Err(only_pubsub(command).into());
        }
        if self.client.multi.is_some() && command.has(NO_MULTI) {
            return Err("ERR Command not allowed inside a transaction".into());
        }
        if let Err(denial) = self.client.user.check(command, arguments) {
            return Err(denial.text(command).into());
        }
        // In this order: the check of memory may end a checkpoint.
        if self.may_need_memory(command) && layer.is_out_of_memory() {
            return Err(errors::OUT_OF_MEMORY.into());
        }
        let may_grow = self.may_need_memory(command) || matches!(command.name, "eval" | "evalsha" | "fcall");
        if may_grow && layer.engine.admission() == Admission::Later {
            return Err(Refusal::Later);
        }
        if layer.replication.is_replica() && !self.client.is_upstream {
            self.admit_on_replica(layer, command)?;
        }
        if layer.lacks_replicas() && !self.client.is_upstream && (command.has(WRITE) || self.executes_writes(command)) {
            return Err("NOREPLICAS Not enough good replicas to write.".into());
        }
        if request_bytes > NAME_BYTES_MAX && has_long_key(command, arguments) {
            return Err(errors::KEY_TOO_LARGE.into());
        }
        Ok(command)
    }

    /// A replica shows what is whole, and what it holds is its source's. As in Redis; REPLICAOF is
    /// the way out of both.
    fn admit_on_replica(&self, layer: &Redis, command: &Command) -> Result<(), ErrorReply> {
        let is_queue = command.name == "exec" && self.client.multi.is_some();
        let leaves = matches!(command.name, "replicaof" | "slaveof");
        if layer.replication.is_partial() && (is_queue || !command.has(LOADING)) && !leaves {
            return Err(errors::LOADING.into());
        }
        let text_of = |name| layer.config.text_of(name);
        let is_up = || {
            layer
                .replication
                .upstream()
                .is_some_and(|upstream| upstream.link == LinkState::Up)
        };
        if (is_queue || !command.has(STALE)) && text_of("replica-serve-stale-data") == "no" && !is_up() {
            return Err(errors::NOT_HOME.into());
        }
        let writes = command.has(WRITE) || self.executes_writes(command);
        match writes && text_of("replica-read-only") == "yes" {
            true => Err(errors::READ_ONLY_REPLICA.into()),
            false => Ok(()),
        }
    }

    /// With RESP2 a client cannot distinguish a reply from a message, so a listening connection is
    /// restricted.
    pub(super) fn is_listening(&self) -> bool {
        self.client.protocol == Protocol::Resp2 && !self.client.subscriptions.is_empty()
    }

    /// EXEC needs the memory of its commands. Reads and removals are queued and executed without
    /// memory, as since Redis 8.
    pub(super) fn may_need_memory(&self, command: &Command) -> bool {
        match &self.client.multi {
            Some(queue) if command.name == "exec" => queue.may_need_memory,
            _ => command.grows(),
        }
    }
}

fn only_pubsub(command: &Command) -> ErrorReply {
    let name = command.name;
    format!(
        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
    )
    .into()
}

/// The start of an HTTP request or of its second line: a browser was made to talk to this port.
/// Redis hangs up as well.
fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}
