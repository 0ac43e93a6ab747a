//! Commands that put elements into a list: LPUSH, RPUSH and their X twins, LINSERT, LSET.

use quartet_wire_resp::Arguments;

use super::rows::{self, End};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::Kind;
use crate::{command::errors, command::parse};

pub fn lpush(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    push(context, arguments, End::Left, false)
}

pub fn rpush(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    push(context, arguments, End::Right, false)
}

pub fn lpushx(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    push(context, arguments, End::Left, true)
}

pub fn rpushx(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    push(context, arguments, End::Right, true)
}

fn push(context: &mut Context<'_, '_>, arguments: Arguments<'_>, end: End, must_exist: bool) -> Result<(), ErrorReply> {
    let mut keys = context.keys();
    let entry = keys.find_kind(&arguments[1], Kind::List)?;
    let mut length = 0;
    if entry.is_some() || !must_exist {
        let values = arguments.tail(2).iter();
        length = rows::push(&mut keys, &arguments[1], entry.as_ref(), end, values);
    }
    context.reply.integer(length as i64);
    Ok(())
}

pub fn linsert(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let side = if parse::is(&arguments[2], "before") {
        End::Left
    } else if parse::is(&arguments[2], "after") {
        End::Right
    } else {
        return Err(errors::SYNTAX.into());
    };
    let mut keys = context.keys();
    let reply = match keys.find_kind(&arguments[1], Kind::List)? {
        None => 0,
        Some(entry) => rows::insert(&mut keys, &arguments[1], &entry, side, &arguments[3], &arguments[4])
            .map_or(-1, |length| length as i64),
    };
    context.reply.integer(reply);
    Ok(())
}

pub fn lset(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mut keys = context.keys();
    let Some(entry) = keys.find_kind(&arguments[1], Kind::List)? else {
        return Err(errors::NO_SUCH_KEY.into());
    };
    let index = parse::required_integer(&arguments[2])?;
    let index = super::read::index_in(index, rows::length(&entry)).ok_or(errors::INDEX_OUT_OF_RANGE)?;
    rows::set(&mut keys, &arguments[1], &entry, index, &arguments[3]);
    context.note_change(&arguments[1], Some(&entry));
    context.reply.ok();
    Ok(())
}
