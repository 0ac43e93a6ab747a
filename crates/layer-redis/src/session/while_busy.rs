//! Requests that arrive while a script holds the lock: requests without a need for the lock are
//! answered, all others get an error.

use super::Session;
use super::admission::Refusal;
use super::received::{Next, Received};
use crate::command::error_reply::ErrorReply;
use crate::command::{ALLOW_BUSY, Command};
use crate::commands::connection;
use crate::commands::{scripting, transactions};
use crate::handler::groups::Groups;
use crate::handler::outcome::{Deferred, Outcome};
use crate::layer::Redis;
use crate::session::after::After;
use quartet_wire_resp::{Arguments, Reply};

impl Session {
    /// A script has held the lock for too long: a request that needs no lock is answered, any other
    /// refused. Returns false if the request must be received again.
    pub(super) fn request_while_busy(
        &mut self,
        layer: &Redis,
        arguments: Arguments<'_>,
        request_bytes: usize,
        out: &mut Vec<u8>,
        received: &mut Received,
    ) -> bool {
        let start = out.len();
        let admitted = self.admissible(layer, arguments, request_bytes).and_then(|command| {
            layer.pass_gate(command, request_bytes, layer.engine.now_micros())?;
            Ok(command)
        });
        let answered = match admitted {
            Ok(command) => self.answer_while_busy(layer, command, arguments, out, received),
            Err(Refusal::Error(error)) => Err(error),
            Err(Refusal::Later) => {
                received.next = Next::Busy;
                return false;
            }
        };
        match answered {
            Ok(Outcome::Done) => {}
            Ok(Outcome::SwitchDatabase(database_login)) => {
                out.truncate(start);
                self.database_login = Some(*database_login);
                return false;
            }
            Ok(Outcome::Retry { after_micros }) => {
                out.truncate(start);
                self.hold_back(after_micros);
                return false;
            }
            Ok(Outcome::After(deferred)) => received.next = Next::After(After::Deferred(deferred)),
            Ok(outcome @ (Outcome::Wait(_) | Outcome::RunLong)) => unreachable!("{outcome:?} needs the lock"),
            Err(error) => self.refuse_while_busy(layer, error, arguments, start, out),
        }
        self.mute(start, false, out);
        true
    }

    fn refuse_while_busy(
        &mut self,
        layer: &Redis,
        mut error: ErrorReply,
        arguments: Arguments<'_>,
        start: usize,
        out: &mut Vec<u8>,
    ) {
        if arguments[0].eq_ignore_ascii_case(b"exec") {
            self.forget_transaction();
            error = transactions::discarded_because_of(&error.text);
        }
        if let Some(queue) = &mut self.client.multi {
            queue.refused = true;
        }
        self.error(layer, &error, start, out);
    }

    /// Leaves MULTI without the lock.
    pub(super) fn forget_transaction(&mut self) {
        transactions::end(&mut self.client);
        self.forget_watches();
    }

    pub(super) fn answer_while_busy(
        &mut self,
        layer: &Redis,
        command: &Command,
        arguments: Arguments<'_>,
        out: &mut Vec<u8>,
        received: &mut Received,
    ) -> Result<Outcome, ErrorReply> {
        let is_queued = self.client.multi.is_some() && !transactions::runs_inside_multi(command);
        if !command.has(ALLOW_BUSY) || is_queued {
            return Err(scripting::busy(Groups::of(layer)).into());
        }
        let mut reply = Reply::new(out, self.client.protocol);
        match command.name {
            "script|kill" => scripting::kill(Groups::of(layer), false)?,
            "function|kill" => scripting::kill(Groups::of(layer), true)?,
            "function|stats" => {
                scripting::functions::write_stats_of_running(Groups::of(layer), &mut reply)?;
                return Ok(Outcome::Done);
            }
            "auth" => return connection::log_in(Groups::of(layer), &mut self.client, &mut reply, arguments),
            "hello" => return connection::greet(Groups::of(layer), &mut self.client, &mut reply, arguments),
            "reset" => {
                self.forget_transaction();
                self.leave_behind();
                connection::begin_anew(Groups::of(layer), &mut self.client, &mut reply);
                return Ok(Outcome::Done);
            }
            "multi" if self.client.multi.is_none() => transactions::begin(&mut self.client),
            "discard" if self.client.multi.is_some() => self.forget_transaction(),
            "watch" => transactions::watch_blindly(&mut self.client)?,
            "unwatch" => self.forget_watches(),
            "quit" => received.next = Next::Close,
            "shutdown" if arguments.iter().any(|word| word.eq_ignore_ascii_case(b"nosave")) => {
                layer.scripting.long_scripts.abandon();
                reply.ok();
                return Ok(Outcome::After(Deferred::Shutdown));
            }
            _ => return Err(scripting::busy(Groups::of(layer)).into()),
        }
        reply.ok();
        Ok(Outcome::Done)
    }
}
