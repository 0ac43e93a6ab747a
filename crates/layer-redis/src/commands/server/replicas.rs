//! PSYNC, SYNC and REPLCONF: a connection becomes a replica; REPLICAOF: the server does; ROLE and
//! INFO: who is one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_engine::Transaction;
use quartet_wire_resp::Arguments;

use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::handler::groups::Groups;
use crate::layer::Redis;
use crate::replication::{ClusterNode, Follower, LinkState};
use crate::{command::errors, command::parse};

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

pub fn replconf(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.len().is_multiple_of(2) {
        return Err(errors::SYNTAX.into());
    }
    for position in (1..arguments.len()).step_by(2) {
        let (name, value) = (&arguments[position], &arguments[position + 1]);
        if note_standing(context, name, value) {
            continue;
        }
        let replica = &mut context.client.replica;
        if parse::is(name, "capa") {
            replica.takes_mark |= parse::is(value, "eof");
        } else if parse::is(name, "rdb-only") {
            replica.only_records = parse::required_integer(value)? != 0;
        } else if parse::is(name, "listening-port") {
            let port = parse::required_integer(value)?;
            replica.port = u16::try_from(port).map_err(|_| errors::NOT_INTEGER)?;
        } else if parse::is(name, "ack") {
            // For a connection that is not a replica. As in Redis, there is no reply, but none is
            // expected either.
        } else if !KNOWN.iter().any(|known| parse::is(name, known)) {
            let name = String::from_utf8_lossy(name).into_owned();
            return Err(format!("ERR Unrecognized REPLCONF option: {name}").into());
        }
    }
    context.reply.ok();
    Ok(())
}

pub fn psync(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    let next = parse::required_integer(&arguments[2])?;
    let id = String::from_utf8_lossy(&arguments[1]).into_owned();
    begin(context, u64::try_from(next).ok().map(|next| (id, next)), false)
}

pub fn sync(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    begin(context, None, true)
}

fn begin(context: &mut Context<'_, '_>, position: Option<(String, u64)>, is_old: bool) -> Result<Outcome, ErrorReply> {
    // Nor can a server be its own replica, or two be each other's.
    let upstream = context.replication().upstream();
    if upstream.is_some_and(|upstream| upstream.link != LinkState::Up) {
        return Err("NOMASTERLINK Can't SYNC while not connected with my master".into());
    }
    let mut request = std::mem::take(&mut context.client.replica);
    request.position = position;
    request.is_old = is_old;
    Ok(Outcome::After(Deferred::Replicate(Box::new(request))))
}

pub fn replica_of(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Outcome, ErrorReply> {
    if parse::is(&arguments[1], "no") && parse::is(&arguments[2], "one") {
        return Ok(Outcome::After(Deferred::ReplicaOf(None)));
    }
    let port = parse::integer(&arguments[2]).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or("ERR Invalid master port")?;
    let host = std::str::from_utf8(&arguments[1]).map_err(|_| "ERR Invalid master host")?;
    // A user with this right would otherwise make the server connect anywhere in its own network.
    context.process().migration_targets.check("REPLICAOF", host, port)?;
    let present = context.replication().upstream();
    if present.is_some_and(|upstream| upstream.host == host && upstream.port == port) {
        context.reply.simple("OK Already connected to specified master");
        return Ok(Outcome::Done);
    }
    Ok(Outcome::After(Deferred::ReplicaOf(Some((host.into(), port)))))
}

/// The row in which a replica keeps its source and its progress, while it is one. Its text is the
/// copy's own.
const STANDING_ROW: &[u8] = b"R";

/// The copy's own words within its transactions: how far it is with them, and whether that is a
/// whole.
fn note_standing(context: &mut Context<'_, '_>, name: &[u8], text: &[u8]) -> bool {
    if !context.client.is_upstream {
        return false;
    }
    if parse::is(name, "quartet-none") {
        context.tx.clear(STANDING_ROW);
        return true;
    }
    let is_partial = parse::is(name, "quartet-part");
    if !is_partial && !parse::is(name, "quartet-whole") {
        return false;
    }
    context.tx.set(STANDING_ROW, text);
    context.replication().hold_part(is_partial);
    true
}

/// The number of replicas that have everything up to `position`.
pub fn replicas_at(context: &Context<'_, '_>, position: u64) -> u64 {
    context.replicas_at(position)
}

impl Redis {
    /// A replica's record of its copy; `None`: this server is no replica.
    pub fn standing(&self) -> Option<Vec<u8>> {
        let read = |tx: &mut Transaction<'_>| -> Result<Option<Vec<u8>>, ()> {
            Ok(tx.get(STANDING_ROW).map(|row| row.value().to_vec()))
        };
        self.engine.partition().execute(self.space, read).ok()?.0
    }

    /// The number of replicas that have everything up to `position`.
    pub fn replicas_at(&self, position: u64) -> u64 {
        let followers = self.replication.followers();
        let has_it = |follower: &&Arc<Follower>| {
            follower.is_online.load(Ordering::Relaxed) && follower.acknowledged.load(Ordering::Relaxed) >= position
        };
        followers.iter().filter(has_it).count() as u64
    }
}

pub fn role(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    if let Some(upstream) = context.replication().upstream() {
        context.reply.array(5);
        context.reply.bulk(b"slave");
        context.reply.bulk(upstream.host.as_bytes());
        context.reply.integer(i64::from(upstream.port));
        context.reply.bulk(match upstream.link {
            LinkState::Down => b"connect",
            LinkState::Copying => b"sync",
            LinkState::Up => b"connected",
        });
        context.reply.integer(upstream.offset as i64);
        return Ok(());
    }
    let (followers, nodes) = (context.replication().followers(), context.replication().nodes());
    let end = context.replication().shown_end();
    context.reply.array(3);
    context.reply.bulk(b"master");
    context.reply.integer(end as i64);
    context.reply.array(followers.len() + nodes.len());
    let of_follower = |follower: &Arc<Follower>| {
        let acknowledged = follower.acknowledged.load(Ordering::Relaxed);
        (follower.host.clone(), follower.port, acknowledged)
    };
    let nodes = nodes.into_iter().map(|(node, offset)| (node.host, node.port, offset));
    for (host, port, offset) in followers.iter().map(of_follower).chain(nodes) {
        context.reply.array(3);
        context.reply.bulk(host.as_bytes());
        context.reply.bulk(port.to_string().as_bytes());
        context.reply.bulk(offset.to_string().as_bytes());
    }
    Ok(())
}

/// A line of INFO for each replica, and for each other node of the cluster.
pub fn lines(groups: Groups<'_>) -> Vec<String> {
    let now_micros = groups.engine().now_micros();
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
    let line_of_node = |(node, offset): &(ClusterNode, u64)| {
        format!(
            "ip={},port={},state=online,offset={offset},lag={}",
            node.host, node.port, node.lag_seconds
        )
    };
    let (followers, nodes) = (groups.replication().followers(), groups.replication().nodes());
    followers
        .iter()
        .map(line)
        .chain(nodes.iter().map(line_of_node))
        .collect()
}
