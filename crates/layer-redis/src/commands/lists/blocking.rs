//! Commands that wait for a list: BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH.
//!
//! Each executes its non-blocking counterpart, and is registered to be called again if no element
//! was available. The timeout is checked first, so a bad one is an error even if an element exists.

use quartet_wire_resp::Arguments;

use super::end;
use super::pop::{Move, MultiPop, first_list, move_one, multi_pop};
use super::rows::{self, End};
use crate::command::error_reply::ErrorReply;
use crate::command::parse;
use crate::connections::blocking::EmptyReply;
use crate::handler::context::Context;
use crate::handler::outcome::Outcome;

pub fn blpop(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    pop(context, arguments, End::Left)
}

pub fn brpop(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    pop(context, arguments, End::Right)
}

fn pop(context: &mut Context<'_, '_>, arguments: Arguments<'_>, end: End) -> Result<Outcome, ErrorReply> {
    let last = arguments.len() - 1;
    let timeout = &arguments[last];
    parse::deadline_ms(timeout, context.now_ms)?;
    let names = || arguments.iter().take(last).skip(1);
    let Some((name, entry)) = first_list(context, names())? else {
        let names = names().map(<[u8]>::to_vec).collect();
        return context.block_on(names, timeout, EmptyReply::NullArray);
    };
    let popped = rows::pop_one(&mut context.keys(), name, &entry, end);
    context.reply.array(2);
    context.reply.bulk(name);
    context.reply.bulk(&popped);
    Ok(Outcome::Done)
}

pub fn blmpop(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let timeout = &arguments[1];
    let request = MultiPop::parse(arguments, 2)?;
    parse::deadline_ms(timeout, context.now_ms)?;
    if multi_pop(context, &request)? {
        return Ok(Outcome::Done);
    }
    let names = request.names.iter().map(|name| name.to_vec()).collect();
    context.block_on(names, timeout, EmptyReply::NullArray)
}

pub fn blmove(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let request = Move {
        source: &arguments[1],
        target: &arguments[2],
        from: end(&arguments[3])?,
        to: end(&arguments[4])?,
    };
    move_or_wait(context, &request, &arguments[5])
}

pub fn brpoplpush(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let request = Move {
        source: &arguments[1],
        target: &arguments[2],
        from: End::Right,
        to: End::Left,
    };
    move_or_wait(context, &request, &arguments[3])
}

fn move_or_wait(context: &mut Context<'_, '_>, request: &Move<'_>, timeout: &[u8]) -> Result<Outcome, ErrorReply> {
    parse::deadline_ms(timeout, context.now_ms)?;
    if move_one(context, request)? {
        return Ok(Outcome::Done);
    }
    context.block_on(vec![request.source.to_vec()], timeout, EmptyReply::Null)
}
