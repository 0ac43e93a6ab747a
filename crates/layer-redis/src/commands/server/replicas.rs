//! PSYNC, SYNC and REPLCONF: a connection becomes a replica; ROLE and INFO: who is one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_wire_resp::Arguments;

use crate::context::Context;
use crate::definition::*;
use crate::layer::Redis;
use crate::replication::Follower;
use crate::{errors, parse};

/// Words that a replica may say of itself and that change nothing here.
const KNOWN: [&str; 7] = [
    "ip-address",
    "version",
    "set-rdb-client-id",
    "rdb-filter-only",
    "rdb-channel",
    "main-ch-client-id",
    "getack",
];

pub fn replconf(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), Failure> {
    if arguments.len().is_multiple_of(2) {
        return Err(errors::SYNTAX.into());
    }
    for position in (1..arguments.len()).step_by(2) {
        let (name, value) = (&arguments[position], &arguments[position + 1]);
        let replica = &mut context.client.replica;
        if parse::is(name, "capa") {
            replica.takes_mark |= parse::is(value, "eof");
        } else if parse::is(name, "rdb-only") {
            replica.only_records = parse::required_integer(value)? != 0;
        } else if parse::is(name, "listening-port") {
            let port = parse::required_integer(value)?;
            replica.port = u16::try_from(port).map_err(|_| errors::NOT_INTEGER)?;
        } else if parse::is(name, "ack") {
            // Of a connection that is no replica. As in Redis, nothing is answered, but nobody waits for it either.
        } else if !KNOWN.iter().any(|known| parse::is(name, known)) {
            let name = String::from_utf8_lossy(name).into_owned();
            return Err(format!("ERR Unrecognized REPLCONF option: {name}").into());
        }
    }
    context.reply.ok();
    Ok(())
}

pub fn psync(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), Failure> {
    let next = parse::required_integer(&arguments[2])?;
    let id = String::from_utf8_lossy(&arguments[1]).into_owned();
    begin(context, u64::try_from(next).ok().map(|next| (id, next)), false)
}

pub fn sync(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), Failure> {
    begin(context, None, true)
}

fn begin(context: &mut Context<'_, '_>, position: Option<(String, u64)>, is_old: bool) -> Result<(), Failure> {
    let mut request = std::mem::take(&mut context.client.replica);
    request.position = position;
    request.is_old = is_old;
    Err(Failure::Deferred(Deferred::Replicate(Box::new(request))))
}

/// How many replicas have everything up to `position`.
pub fn replicas_at(context: &Context<'_, '_>, position: u64) -> u64 {
    context.layer.replicas_at(position)
}

impl Redis {
    /// How many replicas have everything up to `position`.
    pub fn replicas_at(&self, position: u64) -> u64 {
        let followers = self.replication.followers();
        let has_it = |follower: &&Arc<Follower>| {
            follower.is_online.load(Ordering::Relaxed) && follower.acknowledged.load(Ordering::Relaxed) >= position
        };
        followers.iter().filter(has_it).count() as u64
    }
}

pub fn role(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), Failure> {
    let followers = context.layer.replication.followers();
    context.reply.array(3);
    context.reply.bulk(b"master");
    context.reply.integer(context.layer.replication.end() as i64);
    context.reply.array(followers.len());
    for follower in followers {
        context.reply.array(3);
        context.reply.bulk(follower.host.as_bytes());
        context.reply.bulk(follower.port.to_string().as_bytes());
        context
            .reply
            .bulk(follower.acknowledged.load(Ordering::Relaxed).to_string().as_bytes());
    }
    Ok(())
}

/// A line of INFO for each replica.
pub fn lines(layer: &Redis) -> Vec<String> {
    let now_micros = layer.engine.now_micros();
    let line = |follower: &Arc<Follower>| {
        let state = if follower.is_online.load(Ordering::Relaxed) {
            "online"
        } else {
            "send_bulk"
        };
        let heard_micros = follower.acknowledged_micros.load(Ordering::Relaxed);
        let lag_seconds = now_micros.saturating_sub(heard_micros) / 1_000_000;
        let offset = follower.acknowledged.load(Ordering::Relaxed);
        format!(
            "ip={},port={},state={state},offset={offset},lag={lag_seconds}",
            follower.host, follower.port
        )
    };
    layer.replication.followers().iter().map(line).collect()
}
