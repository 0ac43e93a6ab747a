//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! Queued requests run in one engine transaction. As in Redis an error of one command does not take the others back; each
//! command validates before it writes, so its own effects are all or none. WATCH registers with the engine's change
//! notification; a key touched since, or expired since, makes EXEC answer null.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quartet_engine::{Home, WatchId};
use quartet_wire_resp::Arguments;

use crate::clients::{ClientState, Queue, Watched};
use crate::command::*;
use crate::context::Context;
use crate::keyspace::key_row;
use crate::{commands, session};

pub const COMMANDS: &[Command] = &[
    command(
        "multi",
        1,
        NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY,
        NO_KEYS,
        Group::Transactions,
        "1.2.0",
        "O(1)",
        "Starts a transaction: the commands that follow are queued.",
        multi,
    ),
    command(
        "exec",
        1,
        NOSCRIPT | LOADING | STALE | SKIP_SLOWLOG,
        NO_KEYS,
        Group::Transactions,
        "1.2.0",
        "Depends on the queued commands.",
        "Runs the queued commands as one transaction.",
        exec,
    ),
    command(
        "discard",
        1,
        NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY,
        NO_KEYS,
        Group::Transactions,
        "2.0.0",
        "O(N) in the number of queued commands",
        "Forgets the queued commands.",
        discard,
    ),
    command(
        "watch",
        -2,
        NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY,
        ALL_KEYS,
        Group::Transactions,
        "2.2.0",
        "O(1) for each key",
        "Makes the next EXEC depend on the keys staying untouched.",
        watch,
    ),
    command(
        "unwatch",
        1,
        NOSCRIPT | LOADING | STALE | FAST | ALLOW_BUSY,
        NO_KEYS,
        Group::Transactions,
        "2.2.0",
        "O(1)",
        "Forgets all watched keys.",
        unwatch,
    ),
];

/// Commands that are not queued after MULTI.
pub fn runs_inside_multi(command: &Command) -> bool {
    matches!(command.name, "multi" | "exec" | "discard" | "watch" | "quit" | "reset")
}

/// What CLIENT PAUSE WRITE holds back: writes, and the commands that may cause effects without being writes by flag.
pub fn writes_or_publishes(command: &Command) -> bool {
    command.has(WRITE)
        || matches!(
            command.name,
            "pfcount" | "publish" | "spublish" | "eval" | "evalsha" | "fcall"
        )
}

fn multi(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), Failure> {
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

fn exec(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), Failure> {
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
        return Ok(());
    }
    // The connection is shown behind EXEC, not in the last command that it ran.
    let exec_index = context.client.shared.last_command_index();
    let outcome = run_queue(context, &queue);
    // Whoever has to run it again needs the queue and the watches once more.
    if outcome.is_err() {
        context.client.multi = Some(queue);
        return Err(Failure::Overrun);
    }
    abandon(context);
    context.client.shared.note_command(exec_index);
    Ok(())
}

fn run_queue(context: &mut Context<'_, '_>, queue: &Queue) -> Result<(), session::Overrun> {
    context.in_exec = true;
    context.reply.array(queue.requests.len());
    let mut outcome = Ok(());
    session::each_request(&queue.requests, &mut |arguments| {
        let command = commands::find(arguments).expect("a queued command was found once");
        outcome = session::call_queued(context, command, arguments);
        match outcome {
            // The whole transaction will be refused.
            Ok(()) if context.reply.is_full() || context.tx.is_too_large() => ControlFlow::Break(()),
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    context.in_exec = false;
    outcome
}

fn discard(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), Failure> {
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
pub fn forget(home: &mut Home<'_>, client: &mut ClientState) {
    end(client);
    take_watches(client).into_iter().for_each(|watch| home.unwatch(watch));
}

fn watch(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), Failure> {
    if context.client.multi.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    let db = context.client.db;
    for name in arguments.iter().skip(1) {
        if context
            .client
            .watched
            .iter()
            .any(|watched| watched.db == db && watched.name == name)
        {
            continue;
        }
        let row = key_row(db, name);
        let was_expired = context.tx.get(&row).is_some() && context.keys().find(name).is_none();
        let touched = Arc::new(AtomicBool::new(false));
        let flag = touched.clone();
        let id = context
            .tx
            .watch_key(&row, Arc::new(move |_: &[u8]| flag.store(true, Ordering::Relaxed)));
        context.client.watched.push(Watched {
            db,
            name: name.to_vec(),
            id,
            touched,
            was_expired,
        });
    }
    context
        .client
        .shared
        .watch_count
        .store(context.client.watched.len() as u64, Ordering::Relaxed);
    context.reply.ok();
    Ok(())
}

fn unwatch(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), Failure> {
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
    client.shared.watch_count.store(0, Ordering::Relaxed);
    client.watched.drain(..).map(|watched| watched.id).collect()
}

/// WATCH while nobody can look at the keys: the next EXEC finds them touched, and the client tries again.
pub fn watch_blindly(client: &mut ClientState) -> Result<(), Failure> {
    if client.multi.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    client.watched_blindly = true;
    Ok(())
}

/// A watched key was written, or has expired since it was watched. One that had expired before, and whose rows have only been
/// removed since, does not count.
fn is_touched(context: &mut Context<'_, '_>) -> bool {
    let watched = std::mem::take(&mut context.client.watched);
    let touched = watched.iter().any(|watched| {
        let mut keys = context.keys_of(watched.db);
        let is_there = keys.find(&watched.name).is_some();
        let row_is_there = keys.tx.get(&key_row(watched.db, &watched.name)).is_some();
        if watched.was_expired {
            return is_there;
        }
        watched.touched.load(Ordering::Relaxed) || row_is_there && !is_there
    });
    context.client.watched = watched;
    touched
}
