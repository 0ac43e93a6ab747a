//! CLUSTER and its companions.
//!
//! By default there is no cluster: clients that support clusters query it, and continue without one
//! after that answer. A server that emulates one (`--redis-cluster-mode emulated`) answers as a
//! cluster of one shard that has every slot, so that clients which require a cluster connect: the
//! home of a cluster is its master, the other nodes are its replicas and pass requests on. It
//! refuses no request because of its keys' slots, because all of them are here.

use std::net::SocketAddr;
use std::ops::ControlFlow;

use quartet_model::hexadecimal;
use quartet_wire_resp::Arguments;

use crate::command::{errors, parse};
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::scripting::scripts::sha1;

const FAMILY: Family = Family::of(Group::Cluster).since("3.0.0");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("asking", 1, FAST | CONNECTION_CATEGORY, ACCEPTED, Answers(accept)),
    container("cluster", Group::Cluster, "3.0.0", "Holds the commands about the cluster.", SUBCOMMANDS),
    FAMILY.row("readonly", 1, FAST | CONNECTION_CATEGORY | LOADING | STALE, ACCEPTED, Answers(accept)),
    FAMILY.row("readwrite", 1, FAST | CONNECTION_CATEGORY | LOADING | STALE, ACCEPTED, Answers(accept)),
];

const ACCEPTED: &str = "Accepted, without effect, where a cluster is emulated.";
const REFUSES: &str = "Refused: there are no other nodes.";
const ADMIN_FLAGS: u32 = ADMIN | STALE;
const CHANGE: u32 = ADMIN_FLAGS | NO_ASYNC_LOADING;

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    FAMILY.row("cluster|addslots", -3, CHANGE, REFUSES, Answers(refuse)),
    FAMILY.row("cluster|addslotsrange", -4, CHANGE, REFUSES, Answers(refuse)).since("7.0.0"),
    FAMILY.row("cluster|bumpepoch", 2, CHANGE, REFUSES, Answers(refuse)),
    FAMILY.row("cluster|count-failure-reports", 3, ADMIN_FLAGS, REFUSES, Answers(refuse)),
    FAMILY.row("cluster|countkeysinslot", 3, STALE, "Returns how many keys are in a slot.", Answers(count_keys_in_slot)),
    FAMILY.row("cluster|delslots", -3, CHANGE, REFUSES, Answers(refuse)),
    FAMILY.row("cluster|delslotsrange", -4, CHANGE, REFUSES, Answers(refuse)).since("7.0.0"),
    FAMILY.row("cluster|failover", -2, CHANGE, REFUSES, Answers(refuse)),
    FAMILY.row("cluster|flushslots", 2, CHANGE, REFUSES, Answers(refuse)),
    FAMILY.row("cluster|forget", 3, CHANGE, REFUSES, Answers(refuse)),
    FAMILY.row("cluster|getkeysinslot", 4, STALE, "Returns keys in a slot.", Answers(keys_in_slot)),
    FAMILY.row("cluster|help", 2, LOADING | STALE, REFUSES, Answers(refuse)).since("5.0.0"),
    FAMILY.row("cluster|info", 2, STALE, "Returns facts about the cluster.", Answers(info)),
    FAMILY.row("cluster|keyslot", 3, STALE, "Returns the slot of a key.", Answers(key_slot)),
    FAMILY.row("cluster|links", 2, STALE, "Returns the connections between nodes: none.", Answers(none)).since("7.0.0"),
    FAMILY.row("cluster|meet", -4, CHANGE, REFUSES, Answers(refuse)),
    FAMILY.row("cluster|myid", 2, STALE, "Returns the name of this node.", Answers(my_id)),
    FAMILY.row("cluster|myshardid", 2, STALE, "Returns the name of this node's shard.", Answers(my_shard_id)).since("7.2.0"),
    FAMILY.row("cluster|nodes", 2, STALE, "Returns the nodes, a line each.", Answers(nodes)),
    FAMILY.row("cluster|replicas", 3, ADMIN_FLAGS, "Returns the replicas of a node.", Answers(replicas)).since("5.0.0"),
    FAMILY.row("cluster|replicate", 3, CHANGE, REFUSES, Answers(refuse)),
    FAMILY.row("cluster|reset", -2, ADMIN_FLAGS | NOSCRIPT, REFUSES, Answers(refuse)),
    FAMILY.row("cluster|saveconfig", 2, CHANGE, REFUSES, Answers(refuse)),
    FAMILY.row("cluster|set-config-epoch", 3, CHANGE, REFUSES, Answers(refuse)),
    FAMILY.row("cluster|setslot", -4, CHANGE, REFUSES, Answers(refuse)),
    FAMILY.row("cluster|shards", 2, LOADING | STALE, "Returns slots and nodes, by shard.", Answers(shards)).since("7.0.0"),
    FAMILY.row("cluster|slaves", 3, ADMIN_FLAGS, "Returns the replicas of a node.", Answers(replicas)),
    FAMILY.row("cluster|slot-stats", -4, LOADING | STALE, "Returns how many keys slots have.", Answers(slot_stats)).since("8.2.0"),
    FAMILY.row("cluster|slots", 2, LOADING | STALE, "Returns which node has which slots.", Answers(slots)),
];

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
    let local: Option<SocketAddr> = context.client.shared.local_address.parse().ok();
    let configured = context.process().identity.emulated_cluster.clone().unwrap_or_default();
    let config = context.config();
    let set = |name| Some(config.text_of(name)).filter(|text| !text.is_empty() && text != "0");
    let reached_by_tls_port = local.is_some_and(|local| config.text_of("tls-port") == local.port().to_string());
    let port = match reached_by_tls_port {
        true => set("cluster-announce-tls-port").or_else(|| set("cluster-announce-port")),
        false => set("cluster-announce-port"),
    };
    Announced {
        host: set("cluster-announce-hostname")
            .or_else(|| set("cluster-announce-ip"))
            .or(configured.host)
            .or(local.map(|local| local.ip().to_string()))
            .unwrap_or_default(),
        port: port
            .and_then(|port| port.parse().ok())
            .or(configured.port)
            .or(local.map(|local| local.port()))
            .unwrap_or(context.process().identity.tcp_port),
    }
}

/// A node that is reported to clients.
struct Shown {
    id: String,
    host: String,
    port: u16,
    is_master: bool,
    offset: u64,
}

/// The master, then the other nodes of the cluster that it is home of, as its replicas.
fn shown_nodes(context: &Context<'_, '_>) -> Vec<Shown> {
    let replication = &context.replication();
    let Some((host, port)) = replication.own_address() else {
        let Announced { host, port } = announced(context);
        return vec![Shown {
            id: context.process().identity.run_id.clone(),
            host,
            port,
            is_master: true,
            offset: replication.shown_end(),
        }];
    };
    // A node keeps its name when it becomes home, and over restarts.
    let listed = |host: String, port: u16, is_master, offset| Shown {
        id: hexadecimal(&sha1(format!("{host}:{port}").as_bytes())),
        host,
        port,
        is_master,
        offset,
    };
    let nodes = replication.nodes().into_iter();
    let mut replicas: Vec<Shown> = nodes
        .map(|(node, offset)| listed(node.host, node.port, false, offset))
        .collect();
    replicas.sort_by(|first, other| (&first.host, first.port).cmp(&(&other.host, other.port)));
    let master = listed(host, port, true, replication.shown_end());
    std::iter::once(master).chain(replicas).collect()
}

fn master_id(context: &Context<'_, '_>) -> String {
    shown_nodes(context).swap_remove(0).id
}

fn my_id(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let id = master_id(context);
    context.reply.bulk(id.as_bytes());
    Ok(())
}

/// The one shard has a name of its own, which stays as long as the node's: that with its digits
/// turned round.
fn my_shard_id(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let id: String = master_id(context).chars().rev().collect();
    context.reply.bulk(id.as_bytes());
    Ok(())
}

fn slots(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let nodes = shown_nodes(context);
    let reply = &mut context.reply;
    reply.array(1);
    reply.array(2 + nodes.len());
    reply.integer(0);
    reply.integer(i64::from(SLOTS - 1));
    for node in nodes {
        reply.array(4);
        reply.bulk(node.host.as_bytes());
        reply.integer(node.port.into());
        reply.bulk(node.id.as_bytes());
        reply.map(0);
    }
    Ok(())
}

fn shards(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let nodes = shown_nodes(context);
    let reply = &mut context.reply;
    reply.array(1);
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(2);
    reply.integer(0);
    reply.integer(i64::from(SLOTS - 1));
    reply.bulk(b"nodes");
    reply.array(nodes.len());
    for node in nodes {
        reply.map(7);
        reply.bulk(b"id");
        reply.bulk(node.id.as_bytes());
        reply.bulk(b"port");
        reply.integer(node.port.into());
        for name in ["ip", "endpoint"] {
            reply.bulk(name.as_bytes());
            reply.bulk(node.host.as_bytes());
        }
        reply.bulk(b"role");
        reply.bulk(if node.is_master { b"master" } else { b"replica" });
        reply.bulk(b"replication-offset");
        reply.integer(i64::try_from(node.offset).unwrap_or(i64::MAX));
        reply.bulk(b"health");
        reply.bulk(b"online");
    }
    Ok(())
}

/// A line of CLUSTER NODES.
fn line(node: &Shown, master: &str) -> String {
    let Shown { id, host, port, .. } = node;
    match node.is_master {
        true => format!("{id} {host}:{port}@0 myself,master - 0 0 1 connected 0-{}", SLOTS - 1),
        false => format!("{id} {host}:{port}@0 slave {master} 0 0 1 connected"),
    }
}

fn nodes(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let nodes = shown_nodes(context);
    let lines = nodes.iter().map(|node| line(node, &nodes[0].id) + "\n");
    let text: String = lines.collect();
    context.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn replicas(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let nodes = shown_nodes(context);
    let of = nodes.iter().find(|node| node.id.as_bytes() == &arguments[2]);
    let of = of.ok_or_else(|| format!("ERR Unknown node {}", String::from_utf8_lossy(&arguments[2])))?;
    if !of.is_master {
        return Err("ERR The specified node is not a master".into());
    }
    let lines: Vec<String> = nodes[1..].iter().map(|node| line(node, &of.id)).collect();
    context.reply.array(lines.len());
    lines.iter().for_each(|line| context.reply.bulk(line.as_bytes()));
    Ok(())
}

fn info(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let node_count = shown_nodes(context).len();
    let text = format!(
        "cluster_state:ok\r\ncluster_slots_assigned:{SLOTS}\r\ncluster_slots_ok:{SLOTS}\r\ncluster_slots_pfail:0\r\n\
         cluster_slots_fail:0\r\ncluster_known_nodes:{node_count}\r\ncluster_size:1\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n\
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
    let slot_number = slot_argument(&arguments[2])?;
    let mut count = 0;
    context.keys().scan_keys(&mut |name, _| {
        count += i64::from(slot(name) == slot_number);
        ControlFlow::Continue(())
    });
    context.reply.integer(count);
    Ok(())
}

/// CLUSTER SLOT-STATS SLOTSRANGE start end | ORDERBY KEY-COUNT [LIMIT count] [ASC|DESC]
///
/// Keys are counted; there are no other statistics, as where `cluster-slot-stats-enabled` is `no`.
/// Replies equal the recorded replies of Redis 8.2.3.
fn slot_stats(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let asked = SlotStats::read(arguments)?;
    let mut counts = vec![0_i64; usize::from(SLOTS)];
    context.keys().scan_keys(&mut |name, _| {
        counts[usize::from(slot(name))] += 1;
        ControlFlow::Continue(())
    });
    let mut slots: Vec<u16> = match asked {
        SlotStats::Range(first, last) => (first..=last).collect(),
        SlotStats::ByCount { .. } => (0..SLOTS).collect(),
    };
    if let SlotStats::ByCount { limit, ascending } = asked {
        let count = |slot: &u16| counts[usize::from(*slot)];
        match ascending {
            true => slots.sort_by_key(count),
            false => slots.sort_by_key(|slot| std::cmp::Reverse(count(slot))),
        }
        slots.truncate(limit);
    }
    context.reply.array(slots.len());
    for slot in slots {
        context.reply.array(2);
        context.reply.integer(slot.into());
        context.reply.map(1);
        context.reply.bulk(b"key-count");
        context.reply.integer(counts[usize::from(slot)]);
    }
    Ok(())
}

/// The slots that CLUSTER SLOT-STATS reports.
#[derive(Clone, Copy)]
enum SlotStats {
    /// Both ends included.
    Range(u16, u16),
    ByCount {
        limit: usize,
        ascending: bool,
    },
}

impl SlotStats {
    fn read(arguments: Arguments<'_>) -> Result<SlotStats, ErrorReply> {
        if parse::is(&arguments[2], "slotsrange") && arguments.len() == 5 {
            let (first, last) = (slot_argument(&arguments[3])?, slot_argument(&arguments[4])?);
            if first > last {
                return Err(format!("ERR Start slot number {first} is greater than end slot number {last}").into());
            }
            return Ok(SlotStats::Range(first, last));
        }
        if !parse::is(&arguments[2], "orderby") {
            let text = "ERR unknown subcommand or wrong number of arguments for 'SLOT-STATS'. Try CLUSTER HELP.";
            return Err(text.into());
        }
        if !parse::is(&arguments[3], "key-count") {
            return Err("ERR Unrecognized sort metric for ORDERBY.".into());
        }
        let (mut limit, mut ascending) = (None, None);
        let mut words = arguments.iter().skip(4);
        while let Some(word) = words.next() {
            let is_order = parse::is(word, "asc") || parse::is(word, "desc");
            if is_order && ascending.is_none() {
                ascending = Some(parse::is(word, "asc"));
            } else if parse::is(word, "limit") && limit.is_none() {
                let number = parse::integer(words.next().ok_or(errors::SYNTAX)?);
                let number = number.filter(|number| (1..=i64::from(SLOTS)).contains(number));
                let text = "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).";
                limit = Some(number.ok_or(text)? as usize);
            } else if is_order || parse::is(word, "limit") {
                return Err("ERR Multiple filters of the same type are disallowed.".into());
            } else {
                return Err(errors::SYNTAX.into());
            }
        }
        Ok(SlotStats::ByCount {
            limit: limit.unwrap_or(usize::from(SLOTS)),
            ascending: ascending.unwrap_or(false),
        })
    }
}

fn keys_in_slot(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    must_be_emulated(context)?;
    let slot_number = slot_argument(&arguments[2])?;
    let most = parse::integer(&arguments[3]).and_then(|number| usize::try_from(number).ok());
    let most = most.ok_or("ERR Invalid number of keys")?;
    let mut names = Vec::new();
    context.keys().scan_keys(&mut |name, _| {
        if names.len() == most {
            return ControlFlow::Break(());
        }
        if slot(name) == slot_number {
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
        let suffix = &key[open + 1..];
        let close = suffix.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &suffix[..close])
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
