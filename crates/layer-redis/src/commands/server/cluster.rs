//! CLUSTER and its companions, as a Redis that is no cluster answers them. Clients that could speak to a cluster ask, and go on
//! by themselves when they are told that there is none.

use quartet_wire_resp::Arguments;

use crate::context::Context;
use crate::definition::*;

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    command("asking", 1, FAST, NO_KEYS, Group::Connection, "3.0.0", "O(1)", REFUSES, refuse),
    container("cluster", Group::Cluster, "3.0.0", "Holds the commands about the cluster, of which this server is none.", SUBCOMMANDS),
    command("readonly", 1, FAST | LOADING | STALE, NO_KEYS, Group::Connection, "3.0.0", "O(1)", REFUSES, refuse),
    command("readwrite", 1, FAST | LOADING | STALE, NO_KEYS, Group::Connection, "3.0.0", "O(1)", REFUSES, refuse),
];

const REFUSES: &str = "Refused: this server is no cluster.";
const ADMIN_FLAGS: u32 = ADMIN | STALE;
const CHANGE: u32 = ADMIN_FLAGS | NO_ASYNC_LOADING;

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    row("cluster|addslots", -3, CHANGE, "3.0.0"),
    row("cluster|addslotsrange", -4, CHANGE, "7.0.0"),
    row("cluster|bumpepoch", 2, CHANGE, "3.0.0"),
    row("cluster|count-failure-reports", 3, ADMIN_FLAGS, "3.0.0"),
    row("cluster|countkeysinslot", 3, STALE, "3.0.0"),
    row("cluster|delslots", -3, CHANGE, "3.0.0"),
    row("cluster|delslotsrange", -4, CHANGE, "7.0.0"),
    row("cluster|failover", -2, CHANGE, "3.0.0"),
    row("cluster|flushslots", 2, CHANGE, "3.0.0"),
    row("cluster|forget", 3, CHANGE, "3.0.0"),
    row("cluster|getkeysinslot", 4, STALE, "3.0.0"),
    row("cluster|help", 2, LOADING | STALE, "5.0.0"),
    row("cluster|info", 2, STALE, "3.0.0"),
    row("cluster|keyslot", 3, STALE, "3.0.0"),
    row("cluster|links", 2, STALE, "7.0.0"),
    row("cluster|meet", -4, CHANGE, "3.0.0"),
    row("cluster|myid", 2, STALE, "3.0.0"),
    row("cluster|nodes", 2, STALE, "3.0.0"),
    row("cluster|replicas", 3, ADMIN_FLAGS, "5.0.0"),
    row("cluster|replicate", 3, CHANGE, "3.0.0"),
    row("cluster|reset", -2, ADMIN_FLAGS | NOSCRIPT, "3.0.0"),
    row("cluster|saveconfig", 2, CHANGE, "3.0.0"),
    row("cluster|set-config-epoch", 3, CHANGE, "3.0.0"),
    row("cluster|setslot", -4, CHANGE, "3.0.0"),
    row("cluster|shards", 2, STALE, "7.0.0"),
    row("cluster|slaves", 3, ADMIN_FLAGS, "3.0.0"),
    row("cluster|slots", 2, STALE, "3.0.0"),
];

const fn row(name: &'static str, arity: i32, flags: u32, since: &'static str) -> Definition {
    command(
        name,
        arity,
        flags,
        NO_KEYS,
        Group::Cluster,
        since,
        "O(1)",
        REFUSES,
        refuse,
    )
}

fn refuse(_: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), Failure> {
    Err("ERR This instance has cluster support disabled".into())
}
