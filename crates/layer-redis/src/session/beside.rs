//! One request that only reads, under the partition's lock beside others that do.

use quartet_engine::{MustWrite, PartitionGuard, ReadGuard};
use quartet_wire_resp::Arguments;

use super::Session;
use super::admission::Refusal;
use super::turn::{Request, Turn, owes_others};
use crate::command::{BLOCKING, Command, Group, READONLY};
use crate::execution::call::{Ended, call_beside};
use crate::handler::monitor::tell_monitors;
use crate::layer::Redis;

/// The partition's lock, as a batch of requests holds it.
pub(super) enum Hold<'p> {
    Alone(PartitionGuard<'p>),
    /// Beside others who read.
    Beside(ReadGuard<'p>),
}

/// The end of a request that was run beside others.
pub(super) enum RunBeside {
    Answered,
    /// It is to be received again.
    Again,
    /// Nothing has happened but that it was admitted: it is to run with the lock alone.
    NotHere(&'static Command),
}

impl Session {
    /// The request may run beside others: it reads keys, and there is nothing else to do now that
    /// needs the lock alone. EXEC takes it alone, whatever its queue holds, because it ends watches.
    pub(super) fn may_run_beside(&self, layer: &Redis, arguments: Arguments<'_>) -> bool {
        let latest = self.client.shared.last_command_index();
        let reads = |command: &Command| {
            let is_of_keys = !matches!(
                command.group,
                Group::Search
                    | Group::Scripting
                    | Group::Transactions
                    | Group::Connection
                    | Group::PubSub
                    | Group::Server
                    | Group::Cluster
            );
            command.has(READONLY) && !command.has(BLOCKING) && is_of_keys
        };
        let finds = layer.table.find_of_after(latest, arguments);
        finds.is_ok_and(reads)
            && self.client.multi.is_none()
            && !self.client.is_upstream
            && !layer.connections.pause.is_set()
            && !owes_others(layer)
            && !layer.should_evict()
    }

    pub(super) fn request_beside(
        &mut self,
        partition: &mut ReadGuard<'_>,
        mut turn: Turn<'_>,
        request: &Request<'_>,
    ) -> RunBeside {
        turn.layer.trim_tracking();
        self.deliver_own_mail(&mut turn);
        self.forget_time_of_long_request(turn.layer, request);
        turn.start = turn.out.len();
        let now_micros = partition.now_micros();
        let admitted = self.admit(turn.layer, request.arguments, request.raw.len(), now_micros);
        let ended = match admitted {
            Ok(command) => match self.run_beside(partition, &mut turn, command, request) {
                Ok(ended) => {
                    tell_monitors(turn.layer, &self.client, command, now_micros, request.arguments);
                    ended
                }
                Err(MustWrite) => return RunBeside::NotHere(command),
            },
            Err(Refusal::Error(error)) => Ended::without_effects(Err(error)),
            Err(Refusal::Later) => {
                turn.received.is_busy = true;
                return RunBeside::Again;
            }
        };
        turn.waits_for(ended.dependency);
        if let Err(error) = ended.outcome {
            self.error(turn.layer, &error, turn.start, turn.out);
        }
        self.note_size(&turn, request);
        self.silence(&mut turn, request);
        self.client.forget_caching_behind(&request.arguments[0]);
        self.deliver_own_mail(&mut turn);
        RunBeside::Answered
    }

    fn run_beside(
        &mut self,
        partition: &mut ReadGuard<'_>,
        turn: &mut Turn<'_>,
        command: &'static Command,
        request: &Request<'_>,
    ) -> Result<Ended, MustWrite> {
        self.client.takes_late_parts = true;
        let ended = call_beside(
            partition,
            turn.layer,
            &mut self.client,
            command,
            request.arguments,
            turn.out,
        );
        self.client.takes_late_parts = false;
        self.reply_start = turn.start;
        let is_whole = matches!(&ended, Ok(ended) if ended.outcome.is_ok());
        if !is_whole {
            self.client.late_parts.clear();
        }
        if ended.is_err() {
            turn.out.truncate(turn.start);
        }
        ended
    }
}
