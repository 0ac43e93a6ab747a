//! One request under the partition's lock: the command, and everything that is done before and
//! after it, in order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_engine::{Dependency, PartitionGuard};
use quartet_wire_resp::{Arguments, Reply};

use super::admission::Refusal;
use super::received::{Next, Received};
use super::{Session, Waiting};
use crate::command::error_reply::ErrorReply;
use crate::command::{Command, changes_subscriptions, errors};
use crate::commands::transactions;
use crate::connections::blocking::{Block, Blocking};
use crate::connections::clients::{KeptFor, ReplyMode};
use crate::execution::call::{Call, Ended, call};
use crate::handler::monitor::tell_monitors;
use crate::handler::outcome::{Deferred, Outcome};
use crate::layer::Redis;
use crate::session::after::After;

/// Up to this size a request is parsed so quickly that its command starts, to the microsecond, at
/// the end of the previous one.
const SHORT_REQUEST_BYTES: usize = 1024;
/// Bytes a transaction may queue before EXEC.
const QUEUE_BYTES_MAX: usize = 256 << 20;
/// Approximate overhead of a queued request besides its own bytes.
const QUEUED_BYTES: usize = 48;

/// One request, as it was sent.
pub(super) struct Request<'a> {
    pub arguments: Arguments<'a>,
    pub raw: &'a [u8],
}

/// The surroundings of one request.
pub(super) struct Turn<'a> {
    pub layer: &'a Redis,
    pub out: &'a mut Vec<u8>,
    pub received: &'a mut Received,
    /// The start of the reply in `out`.
    pub start: usize,
}

impl<'a> Turn<'a> {
    pub fn new(layer: &'a Redis, out: &'a mut Vec<u8>, received: &'a mut Received) -> Turn<'a> {
        let start = out.len();
        Turn {
            layer,
            out,
            received,
            start,
        }
    }

    pub fn waits_for(&mut self, dependency: Dependency) {
        self.received.dependency = self.received.dependency.max(dependency);
    }

    /// Removes the reply, and returns a new one instead.
    fn reply_anew(&mut self, session: &Session) -> Reply<'_> {
        self.out.truncate(self.start);
        Reply::new(self.out, session.client.protocol)
    }
}

impl Session {
    /// Runs one request with the exclusive lock held. Returns false if it must be received again.
    /// `admitted`: its command, if it was admitted already.
    pub(super) fn request(
        &mut self,
        partition: &mut PartitionGuard<'_>,
        mut turn: Turn<'_>,
        request: &Request<'_>,
        admitted: Option<&'static Command>,
    ) -> bool {
        turn.layer.trim_tracking();
        self.make_room(partition, &turn);
        self.deliver_own_mail(&mut turn);
        self.forget_time_of_long_request(turn.layer, request);
        turn.start = turn.out.len();
        let admitted = admitted.map_or_else(
            || self.admit(turn.layer, request.arguments, request.raw.len(), partition.now_micros()),
            Ok,
        );
        let ended = match admitted {
            Ok(command) => self.run_or_queue(partition, &mut turn, command, request),
            Err(Refusal::Error(error)) => self.refuse(partition, request.arguments, error),
            Err(Refusal::Later) => {
                turn.received.next = Next::Busy;
                return false;
            }
        };
        turn.waits_for(ended.dependency);
        match self.settle(partition, &mut turn, ended.outcome, request) {
            Settled::WithReply => {}
            Settled::ByOwner => return true,
            Settled::Unsettled => return false,
        }
        self.resumed_deadline_ms = None;
        self.sleep(&mut turn);
        self.hang_up(&mut turn);
        self.note_size(&turn, request);
        self.silence(&mut turn, request);
        self.client.forget_caching_behind(&request.arguments[0]);
        self.serve_others(partition, turn.layer);
        self.deliver_own_mail(&mut turn);
        true
    }

    /// Evicts keys if there is too little memory.
    fn make_room(&mut self, partition: &mut PartitionGuard<'_>, turn: &Turn<'_>) {
        if turn.layer.should_evict() {
            turn.layer.make_room(partition);
            turn.layer.send_outbox();
            self.client.started_micros = None;
        }
    }

    pub(super) fn deliver_own_mail(&mut self, turn: &mut Turn<'_>) {
        let dependency = self.append_own_mail(turn.out);
        turn.waits_for(dependency);
    }

    /// Work between two commands takes time that is not the second one's.
    pub(super) fn forget_time_of_long_request(&mut self, layer: &Redis, request: &Request<'_>) {
        let is_long = request.raw.len() > SHORT_REQUEST_BYTES;
        if is_long || layer.access.admission_control.is_some() || layer.connections.clients.has_monitors() {
            self.client.started_micros = None;
        }
    }

    fn run_or_queue(
        &mut self,
        partition: &mut PartitionGuard<'_>,
        turn: &mut Turn<'_>,
        command: &'static Command,
        request: &Request<'_>,
    ) -> Ended {
        if self.client.multi.is_some() && !transactions::runs_inside_multi(command) {
            let writes = self.may_write(turn.layer, Some(partition), command, request.arguments);
            let outcome = self.enqueue(turn, command, request, writes).map(|()| Outcome::Done);
            return Ended::without_effects(outcome);
        }
        let now_micros = partition.now_micros();
        let to_run = Call {
            command,
            arguments: request.arguments,
            retry_for: None,
        };
        self.client.takes_late_parts = true;
        let ended = call(partition, turn.layer, &mut self.client, &to_run, turn.out);
        self.client.takes_late_parts = false;
        self.reply_start = turn.start;
        if !matches!(ended.outcome, Ok(Outcome::Done)) {
            self.client.late_parts.clear();
        }
        // As in Redis 7, a command is shown when it has run: EXEC after the commands that it runs,
        // and RESET no longer to the connection that it made an ordinary one.
        tell_monitors(turn.layer, &self.client, command, now_micros, request.arguments);
        ended
    }

    pub(super) fn enqueue(
        &mut self,
        turn: &mut Turn<'_>,
        command: &'static Command,
        request: &Request<'_>,
        writes: bool,
    ) -> Result<(), ErrorReply> {
        let raw = request.raw;
        let queue = self.client.multi.as_mut().expect("called inside MULTI");
        if queue.bytes + raw.len() > QUEUE_BYTES_MAX {
            queue.refused = true;
            return Err("ERR the transaction's queue exceeds the maximum size".into());
        }
        queue.bytes += raw.len();
        let shared = &self.client.shared;
        shared
            .buffers
            .queue
            .fetch_add(raw.len() + QUEUED_BYTES, Ordering::Relaxed);
        queue.writes |= writes;
        queue.does_more_than_read |= !command.reads_keys();
        queue.may_need_memory |= command.grows();
        queue.requests.push(raw.to_vec());
        shared.multi.store(queue.requests.len() as u64 + 1, Ordering::Relaxed);
        shared.note_command(turn.layer.table.index(command));
        Reply::new(turn.out, self.client.protocol).simple("QUEUED");
        Ok(())
    }

    /// Acts on the outcome of a command.
    fn settle(
        &mut self,
        partition: &mut PartitionGuard<'_>,
        turn: &mut Turn<'_>,
        outcome: Result<Outcome, ErrorReply>,
        request: &Request<'_>,
    ) -> Settled {
        match outcome {
            Ok(Outcome::Done) => {}
            Err(error) => self.error(turn.layer, &error, turn.start, turn.out),
            Ok(Outcome::Wait(block)) => self.wait(partition, turn, *block, request),
            Ok(Outcome::After(deferred)) => {
                let brings_reply = self.answer_deferred(turn, &deferred);
                turn.received.next = Next::After(After::Deferred(deferred));
                if brings_reply {
                    return Settled::ByOwner;
                }
            }
            Ok(Outcome::RunLong) => {
                self.leave_to_long_run(turn, request);
                return Settled::ByOwner;
            }
            Ok(Outcome::Retry { after_micros }) => {
                turn.out.truncate(turn.start);
                self.hold_back(after_micros);
                return Settled::Unsettled;
            }
            Ok(Outcome::SwitchDatabase(database_login)) => {
                turn.out.truncate(turn.start);
                self.database_login = Some(*database_login);
                return Settled::Unsettled;
            }
        }
        Settled::WithReply
    }

    /// The request continues, or restarts, where it may take long.
    pub(super) fn leave_to_long_run(&mut self, turn: &mut Turn<'_>, request: &Request<'_>) {
        turn.out.truncate(turn.start);
        let run = self.long_run(request.raw);
        turn.received.next = Next::After(After::LongRun(Box::new(run)));
    }

    /// The command waits for its keys from now on.
    fn wait(
        &mut self,
        partition: &mut PartitionGuard<'_>,
        turn: &mut Turn<'_>,
        mut block: Block,
        request: &Request<'_>,
    ) {
        block.deadline_ms = self.resumed_deadline_ms.take().or(block.deadline_ms);
        let deadline_ms = block.deadline_ms;
        let again = block.ask_again.take();
        let again: Arc<[u8]> = again.map_or_else(|| request.raw.into(), Into::into);
        let bytes = Blocking::bytes_of(&again, &block);
        if !self.client.shared.keep(KeptFor::Wait, bytes) {
            let error = errors::CONNECTION_OUT_OF_MEMORY.into();
            return self.error(turn.layer, &error, turn.start, turn.out);
        }
        self.waiting = Waiting::ForKey { deadline_ms };
        let latest = self.client.shared.last_command_index();
        let command = turn.layer.table.find_of_after(latest, request.arguments);
        let command = command.expect("the command that has run");
        turn.layer.wait(partition, &self.client, command, again, block);
    }

    /// Writes the reply of a command whose work is done once the lock is released. True if the
    /// work writes it instead.
    fn answer_deferred(&mut self, turn: &mut Turn<'_>, deferred: &Deferred) -> bool {
        let mut reply = turn.reply_anew(self);
        match deferred {
            Deferred::Migrate(_) | Deferred::Replicate(_) | Deferred::AwaitReplicas(_) => return true,
            Deferred::SaveInBackground => reply.simple("Background saving started"),
            _ => reply.ok(),
        }
        false
    }

    /// DEBUG SLEEP keeps the connection waiting without the lock.
    fn sleep(&mut self, turn: &mut Turn<'_>) {
        if self.client.sleep_micros > 0 {
            let micros = std::mem::take(&mut self.client.sleep_micros);
            turn.received.next = Next::After(After::Sleep { micros });
        }
    }

    fn hang_up(&mut self, turn: &mut Turn<'_>) {
        if self.client.close_without_reply {
            self.client.late_parts.clear();
            turn.out.truncate(turn.start);
            turn.received.next = Next::Close;
        }
    }

    /// Large requests and replies are kept for COMMANDLOG.
    pub(super) fn note_size(&self, turn: &Turn<'_>, request: &Request<'_>) {
        let late_bytes: usize = self.client.late_parts.iter().map(|part| part.bytes).sum();
        let reply_bytes = turn.out.len().saturating_sub(turn.start) + late_bytes;
        turn.layer
            .note_size(&self.client, request.arguments, request.raw.len(), reply_bytes);
    }

    /// CLIENT REPLY, which leaves confirmations of subscriptions.
    pub(super) fn silence(&mut self, turn: &mut Turn<'_>, request: &Request<'_>) {
        let is_muted = self.client.reply_mode != ReplyMode::On;
        let keeps_pushes = is_muted
            && turn
                .layer
                .table
                .find_of(request.arguments)
                .is_ok_and(changes_subscriptions);
        self.mute(turn.start, keeps_pushes, turn.out);
    }

    /// Removes expired keys that the command found, sends its notices, and serves who waits for its
    /// keys.
    fn serve_others(&mut self, partition: &mut PartitionGuard<'_>, layer: &Redis) {
        if owes_others(layer) {
            layer.expire_found(partition);
            layer.send_outbox();
            layer.serve_blocked(partition);
            self.client.started_micros = None;
        }
    }
}

/// Returns true if finished commands have left work that requires the exclusive lock.
pub(super) fn owes_others(layer: &Redis) -> bool {
    layer.expiry.found.any() || layer.outbox.any() || layer.connections.blocking.has_work()
}

/// How the outcome of a command was settled.
enum Settled {
    /// Its reply is written; everything else that surrounds a command follows.
    WithReply,
    /// The connection's owner has work that brings the reply.
    ByOwner,
    /// The same request must be received again.
    Unsettled,
}
