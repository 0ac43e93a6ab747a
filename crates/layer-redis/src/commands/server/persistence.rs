//! SAVE, BGSAVE and related commands: Redis' save is a checkpoint here. No data depends on it: the
//! log has everything.

use std::sync::atomic::Ordering;

use quartet_wire_resp::Arguments;

use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::layer::Redis;
use crate::{command::errors, command::parse};

const BACKGROUND: u32 = ADMIN | NOSCRIPT | NO_ASYNC_LOADING;

const FAMILY: Family = Family::of(Group::Server).complexity("O(N) in the number of rows");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("save", 1, BACKGROUND | NO_MULTI, "Writes a checkpoint and answers when it is on disk.", Decides(save)),
    FAMILY.row("bgsave", -1, BACKGROUND, "Starts writing a checkpoint.", Decides(background_save)),
    FAMILY.row("bgrewriteaof", 1, BACKGROUND, "Starts writing a checkpoint, after which the log is trimmed.", Answers(background_rewrite)),
    FAMILY.row("lastsave", 1, LOADING | STALE | FAST | ADMIN_CATEGORY, "Returns the time of the newest checkpoint.", Answers(last_save)),
    FAMILY.row("shutdown", -1, ADMIN | NOSCRIPT | LOADING | STALE | NO_MULTI | ALLOW_BUSY, "Stops the server; nothing acknowledged is lost.", Decides(shutdown)),
];

fn save(_: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    Ok(Outcome::After(Deferred::Checkpoint))
}

fn background_save(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let is_valid = match arguments.get(1) {
        None => true,
        Some(word) => arguments.len() == 2 && parse::is(word, "schedule"),
    };
    if !is_valid {
        return Err(errors::SYNTAX.into());
    }
    if context.process().rdb_file.is_some() {
        return Ok(Outcome::After(Deferred::SaveInBackground));
    }
    context.engine().checkpoint_in_background();
    context.reply.simple("Background saving started");
    Ok(Outcome::Done)
}

fn background_rewrite(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    context.engine().checkpoint_in_background();
    context.reply.simple("Background append only file rewriting started");
    Ok(())
}

fn last_save(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    context.reply.integer(context.last_save_seconds() as i64);
    Ok(())
}

impl Redis {
    /// The time of the newest checkpoint, in seconds; of the start if there is none.
    pub fn last_save_seconds(&self) -> u64 {
        let written = self.process.rdb_file.as_ref().map(|file| file.written_micros());
        if let Some(micros @ 1..) = written {
            return micros / 1_000_000;
        }
        let written = self.engine.statistics().checkpoint_last_micros.load(Ordering::Relaxed);
        let micros = if written == 0 {
            self.process.identity.started_micros
        } else {
            written
        };
        micros / 1_000_000
    }
}

/// SAVE, NOSAVE, NOW and FORCE change nothing: the log is flushed in any case. ABORT finds nothing
/// to abort.
fn shutdown(_: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let has = |word: &str| arguments.iter().skip(1).any(|argument| parse::is(argument, word));
    let options = ["nosave", "save", "now", "force", "abort"];
    let is_known = |argument: &[u8]| options.iter().any(|word| parse::is(argument, word));
    let contradicts = has("nosave") && has("save") || has("abort") && arguments.len() > 2;
    if contradicts || !arguments.iter().skip(1).all(is_known) {
        return Err(errors::SYNTAX.into());
    }
    if has("abort") {
        return Err("ERR No shutdown in progress.".into());
    }
    Ok(Outcome::After(Deferred::Shutdown))
}
