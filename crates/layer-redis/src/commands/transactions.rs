//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! Queued requests run in one engine transaction. As in Redis an error of one command does not take
//! the others back; each command validates before it writes, so its own effects are all or none.
//! WATCH registers with the engine's change notification; a key touched since, or expired since,
//! makes EXEC answer null.
//!
//! A queue that takes long is taken back and run again where it may, as a script that takes long
//! is.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quartet_engine::{PartitionGuard, WatchId};
use quartet_wire_resp::{Arguments, Limits, Parsed, Parser, Protocol};

use crate::access::acl::User;
use crate::command::errors;
use crate::commands::scripting::libraries;
use crate::connections::clients::{ClientState, KeptFor, Queue, Watched};
use crate::handler::allowance;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::keyspace::key_row;
use crate::layer::Redis;
use crate::scripting::long_scripts::{Bounds, LongScripts, RunningScript, SHORT_MICROS, Stop};

const FAMILY: Family = Family::of(Group::Transactions).since("1.2.0");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("multi", 1, NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY, "Starts a transaction: the commands that follow are queued.", Answers(multi)),
    FAMILY.row("exec", 1, NOSCRIPT | LOADING | STALE | SKIP_SLOWLOG, "Runs the queued commands as one transaction.", Nests(exec)).complexity("Depends on the queued commands."),
    FAMILY.row("discard", 1, NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY, "Forgets the queued commands.", Answers(discard)).since("2.0.0").complexity("O(N) in the number of queued commands"),
    FAMILY.row("watch", -2, NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY, "Makes the next EXEC depend on the keys staying untouched.", Answers(watch)).keys(ALL_KEYS).since("2.2.0").complexity("O(1) for each key"),
    FAMILY.row("unwatch", 1, NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY, "Forgets all watched keys.", Answers(unwatch)).since("2.2.0"),
];

/// Commands that are not queued after MULTI.
pub fn runs_inside_multi(command: &Command) -> bool {
    matches!(command.name, "multi" | "exec" | "discard" | "watch" | "quit" | "reset")
}

/// Returns true for requests that CLIENT PAUSE WRITE holds back: writes, and the commands that may
/// cause effects without being writes by flag.
pub fn writes_or_publishes(command: &Command) -> bool {
    command.has(WRITE)
        || matches!(
            command.name,
            "pfcount" | "publish" | "spublish" | "eval" | "evalsha" | "fcall"
        )
}

fn multi(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    if context.client.multi.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    begin(context.client);
    context.reply.ok();
    Ok(())
}

/// The connection is in MULTI from now on.
pub fn begin(client: &mut ClientState) {
    client.multi = Some(Queue::default());
    client.shared.multi.store(1, Ordering::Relaxed);
}

/// The connection is no longer in MULTI.
pub fn end(client: &mut ClientState) {
    client.multi = None;
    client.shared.multi.store(0, Ordering::Relaxed);
    client.shared.buffers.queue.store(0, Ordering::Relaxed);
}

fn exec(context: &mut Context<'_, '_>, _: Arguments<'_>, nested: Nested<'_>) -> Result<Outcome, ErrorReply> {
    let Some(queue) = context.client.multi.take() else {
        return Err("ERR EXEC without MULTI".into());
    };
    let touched = context.client.watched_blindly || is_touched(context);
    if queue.refused {
        abandon(context);
        return Err("EXECABORT Transaction discarded because of previous errors.".into());
    }
    if touched {
        abandon(context);
        context.reply.null_array();
        return Ok(Outcome::Done);
    }
    // The connection is shown after EXEC, not in its last executed command.
    let exec_index = context.client.shared.last_command_index();
    let before = Before::of(context.client);
    let stopped = run_queue(context, &queue, nested);
    // A second run needs the queue, the watches and the connection as they were.
    if stopped == Some(Stop::LongRunning) {
        context.client.multi = Some(queue);
        before.restore(context.client);
        return Ok(Outcome::RunLong);
    }
    abandon(context);
    context.client.shared.note_command(exec_index);
    match stopped {
        None => Ok(Outcome::Done),
        Some(Stop::Killed) => Err("EXECABORT Transaction discarded because of: it was ended by SCRIPT KILL".into()),
        Some(_) => Err("EXECABORT Transaction discarded because of: max transaction duration exceeded".into()),
    }
}

/// The parts of its connection that a queued command may change, and that the transaction does not
/// roll back.
struct Before {
    db: u8,
    protocol: Protocol,
    authenticated: bool,
    user: Arc<User>,
    caching: Option<bool>,
    sleep_micros: u64,
}

impl Before {
    fn of(client: &ClientState) -> Before {
        Before {
            db: client.db,
            protocol: client.protocol,
            authenticated: client.authenticated,
            user: client.user.clone(),
            caching: client.caching,
            sleep_micros: client.sleep_micros,
        }
    }

    fn restore(self, client: &mut ClientState) {
        client.select(self.db);
        client.speak(self.protocol);
        client.authenticated = self.authenticated;
        client.become_user(self.user);
        client.caching = self.caching;
        client.sleep_micros = self.sleep_micros;
    }
}

/// Repeats `step` for each request in `requests` until it breaks.
pub fn each_request(requests: &[Vec<u8>], step: &mut dyn FnMut(Arguments<'_>) -> ControlFlow<()>) {
    let mut parser = Parser::new();
    for request in requests {
        match parser.parse(request, &Limits::unlimited()) {
            Ok(Parsed::Request { .. }) => {
                if step(parser.arguments(request)).is_break() {
                    return;
                }
            }
            other => unreachable!("a queued request parsed once and now gives {other:?}"),
        }
    }
}

/// Runs the queue, on the connection's own thread for a short time only. Returns why it did not
/// end.
fn run_queue(context: &mut Context<'_, '_>, queue: &Queue, nested: Nested<'_>) -> Option<Stop> {
    let groups = context.groups;
    let stop = |has_ended: bool| (!has_ended).then(|| groups.stopped().unwrap_or(Stop::LongRunning));
    if groups.beside().is_some() || !context.client.may_take_long {
        return stop(run_each(context, queue, nested));
    }
    let outer = groups.scripting().long_scripts.begin(RunningScript {
        database: groups.space().database,
        name: "exec".to_owned(),
        is_function: false,
        command: vec![b"exec".to_vec()],
        started_micros: groups.engine().now_micros(),
        library_counts: libraries::count(context.tx),
    });
    let stopped = stop(run_each(context, queue, nested));
    groups.scripting().long_scripts.end(outer);
    stopped
}

/// How long EXEC may take that holds the lock, seen by the commands that it runs.
pub struct QueueRun<'l> {
    /// The time of the first look: the queue's first command is not counted.
    first_look_micros: Cell<Option<u64>>,
    /// `None`: it is on the connection's own thread.
    long: Option<(&'l LongScripts, Bounds)>,
    stop: Cell<Option<Stop>>,
}

impl<'l> QueueRun<'l> {
    pub fn new(layer: &'l Redis, may_take_long: bool) -> QueueRun<'l> {
        QueueRun {
            first_look_micros: Cell::new(None),
            long: may_take_long.then(|| (&*layer.scripting.long_scripts, layer.long_bounds())),
            stop: Cell::new(None),
        }
    }
}

impl allowance::Run for QueueRun<'_> {
    fn must_end(&self, now_micros: u64) -> bool {
        if self.stop.get().is_none() {
            let first_micros = self.first_look_micros.get().unwrap_or(now_micros);
            self.first_look_micros.set(Some(first_micros));
            let micros = now_micros.saturating_sub(first_micros);
            self.stop.set(match &self.long {
                None => (micros >= SHORT_MICROS).then_some(Stop::LongRunning),
                Some((scripts, bounds)) => scripts.look(micros, bounds),
            });
        }
        self.stop.get().is_some()
    }

    fn must_end_before_long(&self) -> bool {
        let is_short = self.long.is_none();
        if is_short {
            self.stop.set(Some(Stop::LongRunning));
        }
        is_short
    }

    fn stopped(&self) -> Option<Stop> {
        self.stop.get()
    }
}

/// Runs the queue until it must end. False: it had to, and something of it is left. Looks at how
/// long it has gone on when a command is done, which needs no look at the clock.
fn run_each(context: &mut Context<'_, '_>, queue: &Queue, nested: Nested<'_>) -> bool {
    context.in_exec = true;
    context.reply.array(queue.requests.len());
    let mut remaining = queue.requests.len();
    let mut has_ended = true;
    each_request(&queue.requests, &mut |arguments| {
        let command = context
            .table()
            .find_of(arguments)
            .expect("a queued command was found once");
        if nested.run(context, command, arguments).is_err() {
            has_ended = false;
            return ControlFlow::Break(());
        }
        // The whole transaction will be refused.
        if context.reply.is_full() || context.tx.is_too_large() {
            return ControlFlow::Break(());
        }
        remaining -= 1;
        let done_micros = context.client.shared.last_active_micros.load(Ordering::Relaxed);
        has_ended = remaining == 0 || !context.groups.must_end(done_micros);
        match has_ended {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    context.in_exec = false;
    has_ended
}

fn discard(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    if context.client.multi.is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    abandon(context);
    context.reply.ok();
    Ok(())
}

/// Leaves MULTI and forgets the watches: DISCARD, RESET.
pub fn abandon(context: &mut Context<'_, '_>) {
    end(context.client);
    forget_watches(context);
}

/// The same outside a command: EXEC itself was refused.
pub fn forget(partition: &mut PartitionGuard<'_>, client: &mut ClientState) {
    end(client);
    take_watches(client)
        .into_iter()
        .for_each(|watch| partition.unwatch(watch));
}

/// The answer of a refused EXEC.
pub fn discarded_because_of(text: &str) -> ErrorReply {
    let reason = text.strip_prefix("ERR ").unwrap_or(text);
    format!("EXECABORT Transaction discarded because of: {reason}").into()
}

/// Runs a command on the connection's transaction where no transaction of the partition can run:
/// this node is not home. Without MULTI the commands of a pipeline would run one by one once it is
/// home again. `None`: the command needs the partition. After `Ok` of DISCARD and UNWATCH the
/// caller calls [`forget`].
pub fn run_without_home(client: &mut ClientState, command: &Command) -> Option<Result<(), ErrorReply>> {
    let is_queueing = client.multi.is_some();
    Some(match command.name {
        "multi" if is_queueing => Err("ERR MULTI calls can not be nested".into()),
        "multi" => {
            begin(client);
            Ok(())
        }
        "exec" if is_queueing => Err(discarded_because_of(errors::NOT_HOME)),
        "exec" => Err("ERR EXEC without MULTI".into()),
        "discard" if is_queueing => Ok(()),
        "discard" => Err("ERR DISCARD without MULTI".into()),
        "watch" => watch_blindly(client),
        "unwatch" => Ok(()),
        _ => return None,
    })
}

/// Memory for a key under WATCH beside its name, about.
const WATCH_BYTES: usize = 400;

fn watch(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if context.client.multi.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let db = context.client.db;
    for name in arguments.iter().skip(1) {
        let key: (u8, Arc<[u8]>) = (db, name.into());
        if context.client.watched.contains_key(&key) {
            continue;
        }
        if !context
            .client
            .shared
            .keep_more(KeptFor::Watches, 4 * name.len() + WATCH_BYTES)
        {
            return Err(errors::CONNECTION_OUT_OF_MEMORY.into());
        }
        let row = key_row(db, name);
        let was_expired = context.tx.get(&row).is_some() && context.keys().find(name).is_none();
        let touched = Arc::new(AtomicBool::new(false));
        let flag = touched.clone();
        let id = context
            .tx
            .watch_key(&row, Arc::new(move |_: &[u8]| flag.store(true, Ordering::Relaxed)));
        context.client.shared.watched_keys.lock().push(key.clone());
        let watched = Watched {
            id,
            touched,
            was_expired,
        };
        context.client.watched.insert(key, watched);
    }
    context.reply.ok();
    Ok(())
}

fn unwatch(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    forget_watches(context);
    context.reply.ok();
    Ok(())
}

fn forget_watches(context: &mut Context<'_, '_>) {
    for watch in take_watches(context.client) {
        context.tx.unwatch(watch);
    }
}

/// The connection watches nothing any more; what is returned is still to be unregistered.
pub fn take_watches(client: &mut ClientState) -> Vec<WatchId> {
    client.watched_blindly = false;
    if client.watched.is_empty() {
        return Vec::new();
    }
    client.shared.watched_keys.lock().clear();
    client.shared.keep_nothing(KeptFor::Watches);
    let watched = std::mem::take(&mut client.watched);
    watched.into_values().map(|watched| watched.id).collect()
}

/// WATCH while no client can read the keys: the next EXEC finds them touched, and the client tries
/// again.
pub fn watch_blindly(client: &mut ClientState) -> Result<(), ErrorReply> {
    if client.multi.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    client.watched_blindly = true;
    Ok(())
}

/// A watched key was written, or has expired since it was watched. One that had expired before, and
/// whose rows have only been removed since, does not count.
fn is_touched(context: &mut Context<'_, '_>) -> bool {
    let watched = std::mem::take(&mut context.client.watched);
    let touched = watched.iter().any(|((db, name), watched)| {
        let mut keys = context.keys_of(*db);
        let is_there = keys.find(name).is_some();
        let row_is_there = keys.tx.get(&key_row(*db, name)).is_some();
        if watched.was_expired {
            return is_there;
        }
        watched.touched.load(Ordering::Relaxed) || row_is_there && !is_there
    });
    context.client.watched = watched;
    touched
}

#[cfg(test)]
mod tests;
