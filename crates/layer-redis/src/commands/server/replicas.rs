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
            // For a connection that is not a replica. As in Redis, it gets no reply and expects no
            // reply.
        } else if !KNOWN.iter().any(|option| parse::is(name, option)) {
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

/// FAILOVER, which no replica here can follow: checks the request as Redis does and refuses it.
pub fn failover(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mut words = arguments.iter().skip(1);
    let (mut has_target, mut has_timeout, mut is_forced, mut aborts) = (false, false, false, false);
    while let Some(word) = words.next() {
        if parse::is(word, "timeout") && !has_timeout {
            let milliseconds = parse::required_integer(words.next().ok_or(errors::SYNTAX)?)?;
            if milliseconds <= 0 {
                return Err("ERR FAILOVER timeout must be greater than 0".into());
            }
            has_timeout = true;
        } else if parse::is(word, "abort") && arguments.len() == 2 {
            aborts = true;
        } else if parse::is(word, "to") && !has_target {
            words.next().ok_or(errors::SYNTAX)?;
            parse::required_integer(words.next().ok_or(errors::SYNTAX)?)?;
            has_target = true;
        } else if parse::is(word, "force") && !is_forced {
            is_forced = true;
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    Err(match () {
        () if aborts => "ERR No failover in progress.",
        () if context.replication().is_replica() => "ERR FAILOVER is not valid when server is a replica.",
        () if lines(context.groups).is_empty() => "ERR FAILOVER requires connected replicas.",
        () if is_forced && !(has_timeout && has_target) => {
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP to be specified"
        }
        () => "ERR FAILOVER is not served: send REPLICAOF NO ONE to the replica that is to take over",
    }
    .into())
}

/// The row of a replica's source and progress, which exists while the server is a replica. The copy
/// defines its text.
pub(crate) const STANDING_ROW: &[u8] = b"R";

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

impl Redis {
    /// A replica's record of its copy; `None`: this server is no replica.
    pub fn standing(&self) -> Option<Vec<u8>> {
        let read = |tx: &mut Transaction<'_>| -> Result<Option<Vec<u8>>, ()> {
            Ok(tx.get(STANDING_ROW).map(|row| row.value().to_vec()))
        };
        self.engine.partition().execute(self.space, read).ok()?.0
    }

    /// The number of replicas that have everything up to `position`, or have it on their disks.
    pub fn replicas_at(&self, position: u64, on_disk: bool) -> u64 {
        let followers = self.replication.followers();
        let has_it = |follower: &&Arc<Follower>| {
            let reached = if on_disk {
                &follower.on_disk
            } else {
                &follower.acknowledged
            };
            follower.is_online.load(Ordering::Relaxed) && reached.load(Ordering::Relaxed) >= position
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
    let write_follower = |follower: &Arc<Follower>| {
        let acknowledged = follower.acknowledged.load(Ordering::Relaxed);
        (follower.host.clone(), follower.port, acknowledged)
    };
    let nodes = nodes.into_iter().map(|(node, offset)| (node.host, node.port, offset));
    for (host, port, offset) in followers.iter().map(write_follower).chain(nodes) {
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
