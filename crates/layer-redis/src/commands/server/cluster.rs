//! CLUSTER and its companions.
//!
//! By default there is no cluster: clients that support clusters query it, and continue without one
//! after that answer. A server that emulates one (`--redis-cluster-mode emulated`) answers as a
//! cluster of one node that has every slot, so that clients which require a cluster connect. It
//! refuses no request because of its keys' slots, because all of them are here.

use std::net::SocketAddr;
use std::ops::ControlFlow;

use quartet_wire_resp::Arguments;

use crate::command::parse;
use crate::handler::context::Context;
use crate::handler::definition::*;

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    command("asking", 1, FAST | CONNECTION_CATEGORY, NO_KEYS, Group::Cluster, "3.0.0", "O(1)", ACCEPTED, accept),
    container("cluster", Group::Cluster, "3.0.0", "Holds the commands about the cluster.", SUBCOMMANDS),
    command("readonly", 1, FAST | CONNECTION_CATEGORY | LOADING | STALE, NO_KEYS, Group::Cluster, "3.0.0", "O(1)", ACCEPTED, accept),
    command("readwrite", 1, FAST | CONNECTION_CATEGORY | LOADING | STALE, NO_KEYS, Group::Cluster, "3.0.0", "O(1)", ACCEPTED, accept),
];

const ACCEPTED: &str = "Accepted, without effect, where a cluster is emulated.";
const REFUSES: &str = "Refused: there are no other nodes.";
const ADMIN_FLAGS: u32 = ADMIN | STALE;
const CHANGE: u32 = ADMIN_FLAGS | NO_ASYNC_LOADING;

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    row("cluster|addslots", -3, CHANGE, "3.0.0", REFUSES, refuse),
    row("cluster|addslotsrange", -4, CHANGE, "7.0.0", REFUSES, refuse),
    row("cluster|bumpepoch", 2, CHANGE, "3.0.0", REFUSES, refuse),
    row("cluster|count-failure-reports", 3, ADMIN_FLAGS, "3.0.0", REFUSES, refuse),
    row("cluster|countkeysinslot", 3, STALE, "3.0.0", "Returns how many keys are in a slot.", count_keys_in_slot),
    row("cluster|delslots", -3, CHANGE, "3.0.0", REFUSES, refuse),
    row("cluster|delslotsrange", -4, CHANGE, "7.0.0", REFUSES, refuse),
    row("cluster|failover", -2, CHANGE, "3.0.0", REFUSES, refuse),
    row("cluster|flushslots", 2, CHANGE, "3.0.0", REFUSES, refuse),
    row("cluster|forget", 3, CHANGE, "3.0.0", REFUSES, refuse),
    row("cluster|getkeysinslot", 4, STALE, "3.0.0", "Returns keys in a slot.", keys_in_slot),
    row("cluster|help", 2, LOADING | STALE, "5.0.0", REFUSES, refuse),
    row("cluster|info", 2, STALE, "3.0.0", "Returns facts about the cluster.", info),
    row("cluster|keyslot", 3, STALE, "3.0.0", "Returns the slot of a key.", key_slot),
    row("cluster|links", 2, STALE, "7.0.0", "Returns the connections between nodes: none.", none),
    row("cluster|meet", -4, CHANGE, "3.0.0", REFUSES, refuse),
    row("cluster|myid", 2, STALE, "3.0.0", "Returns the name of this node.", my_id),
    row("cluster|nodes", 2, STALE, "3.0.0", "Returns the nodes, a line each.", nodes),
    row("cluster|replicas", 3, ADMIN_FLAGS, "5.0.0", "Returns the replicas of a node: none.", none),
    row("cluster|replicate", 3, CHANGE, "3.0.0", REFUSES, refuse),
    row("cluster|reset", -2, ADMIN_FLAGS | NOSCRIPT, "3.0.0", REFUSES, refuse),
    row("cluster|saveconfig", 2, CHANGE, "3.0.0", REFUSES, refuse),
    row("cluster|set-config-epoch", 3, CHANGE, "3.0.0", REFUSES, refuse),
    row("cluster|setslot", -4, CHANGE, "3.0.0", REFUSES, refuse),
    row("cluster|shards", 2, STALE, "7.0.0", "Returns slots and nodes, by shard.", shards),
    row("cluster|slaves", 3, ADMIN_FLAGS, "3.0.0", "Returns the replicas of a node: none.", none),
    row("cluster|slots", 2, STALE, "3.0.0", "Returns which node has which slots.", slots),
];

const fn row(
    name: &'static str,
    arity: i32,
    flags: u32,
    since: &'static str,
    summary: &'static str,
    handler: Answering,
) -> Definition {
    command(
        name,
        arity,
        flags,
        NO_KEYS,
        Group::Cluster,
        since,
        "O(1)",
        summary,
        handler,
    )
}

const DISABLED: &str = "ERR This instance has cluster support disabled";
const EMULATED: &str = "ERR This cluster is emulated by one node: there is nothing to change about it";
const SLOTS: u16 = 16384;

fn must_be_emulated(context: &Context<'_, '_>) -> Result<(), ErrorReply> {
    match context.process().identity.emulated_cluster {
        Some(_) => Ok(()),
        None => Err(DISABLED.into()),
    }
}

fn refuse(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    Err(EMULATED.into())
}

fn accept(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    context.reply.ok();
    Ok(())
}

fn none(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    context.reply.array(0);
    Ok(())
}

/// The address that clients get. By default it is the address at which this client has reached the
/// server.
struct Announced {
    host: String,
    port: u16,
}

fn announced(context: &Context<'_, '_>) -> Announced {
    let here: Option<SocketAddr> = context.client.shared.local_address.parse().ok();
    let given = context.process().identity.emulated_cluster.clone().unwrap_or_default();
    let config = context.config();
    let set = |name| Some(config.text_of(name)).filter(|text| !text.is_empty() && text != "0");
    let reached_by_tls_port = here.is_some_and(|here| config.text_of("tls-port") == here.port().to_string());
    let port = match reached_by_tls_port {
        true => set("cluster-announce-tls-port").or_else(|| set("cluster-announce-port")),
        false => set("cluster-announce-port"),
    };
    Announced {
        host: set("cluster-announce-hostname")
            .or_else(|| set("cluster-announce-ip"))
            .or(given.host)
            .or(here.map(|here| here.ip().to_string()))
            .unwrap_or_default(),
        port: port
            .and_then(|port| port.parse().ok())
            .or(given.port)
            .or(here.map(|here| here.port()))
            .unwrap_or(context.process().identity.tcp_port),
    }
}

fn my_id(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let id = &context.process().identity.run_id;
    context.reply.bulk(id.as_bytes());
    Ok(())
}

fn slots(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let node = announced(context);
    let id = &context.process().identity.run_id;
    let reply = &mut context.reply;
    reply.array(1);
    reply.array(3);
    reply.integer(0);
    reply.integer(i64::from(SLOTS - 1));
    reply.array(4);
    reply.bulk(node.host.as_bytes());
    reply.integer(node.port.into());
    reply.bulk(id.as_bytes());
    reply.map(0);
    Ok(())
}

fn shards(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let node = announced(context);
    let id = &context.process().identity.run_id;
    let reply = &mut context.reply;
    reply.array(1);
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(2);
    reply.integer(0);
    reply.integer(i64::from(SLOTS - 1));
    reply.bulk(b"nodes");
    reply.array(1);
    reply.map(7);
    reply.bulk(b"id");
    reply.bulk(id.as_bytes());
    reply.bulk(b"port");
    reply.integer(node.port.into());
    for name in ["ip", "endpoint"] {
        reply.bulk(name.as_bytes());
        reply.bulk(node.host.as_bytes());
    }
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"replication-offset");
    reply.integer(0);
    reply.bulk(b"health");
    reply.bulk(b"online");
    Ok(())
}

fn nodes(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let Announced { host, port } = announced(context);
    let id = &context.process().identity.run_id;
    let line = format!("{id} {host}:{port}@0 myself,master - 0 0 1 connected 0-{}\n", SLOTS - 1);
    context.reply.verbatim(b"txt", line.as_bytes());
    Ok(())
}

fn info(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let text = format!(
        "cluster_state:ok\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_slots_ok:{SLOTS}\r\ncluster_slots_pfail:0\r\n\
         cluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n\
         cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n\
         total_cluster_links_buffer_limit_exceeded:0\r\n"
    );
    context.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn key_slot(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    context.reply.integer(slot(&arguments[2]).into());
    Ok(())
}

fn count_keys_in_slot(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let wanted = slot_argument(&arguments[2])?;
    let mut count = 0;
    context.keys().scan_keys(&mut |name, _| {
        count += i64::from(slot(name) == wanted);
        ControlFlow::Continue(())
    });
    context.reply.integer(count);
    Ok(())
}

fn keys_in_slot(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let wanted = slot_argument(&arguments[2])?;
    let most = parse::integer(&arguments[3]).and_then(|number| usize::try_from(number).ok());
    let most = most.ok_or("ERR Invalid number of keys")?;
    let mut names = Vec::new();
    context.keys().scan_keys(&mut |name, _| {
        if names.len() == most {
            return ControlFlow::Break(());
        }
        if slot(name) == wanted {
            names.push(name.to_vec());
        }
        ControlFlow::Continue(())
    });
    context.reply.array(names.len());
    names.iter().for_each(|name| context.reply.bulk(name));
    Ok(())
}

fn slot_argument(text: &[u8]) -> Result<u16, ErrorReply> {
    let number = parse::integer(text).and_then(|number| u16::try_from(number).ok());
    let slot = number.filter(|slot| *slot < SLOTS);
    slot.ok_or_else(|| "ERR Invalid or out of range slot".into())
}

/// The slot of a key: of the text between the first brace and the next closing one, if it is not
/// empty, and otherwise of the whole key
/// (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>).
fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16 with the polynomial 0x1021 and nothing before or after it (XMODEM).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc: u16, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => crc << 1 ^ 0x1021,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check value of XMODEM, and the examples of the specification of clusters.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"foo"), 12182);
    }
}
