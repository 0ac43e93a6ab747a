//! What each command does to its keys, as COMMAND INFO and COMMAND GETKEYSANDFLAGS say it; observed of Redis 7.0.15.

use crate::command::{Command, READONLY};

/// Flags of the command's key at `index`, separated by blanks. Keys behind the last one listed are like that one.
pub fn key_flags(command: &Command, index: usize) -> &'static str {
    let listed = FLAGS
        .iter()
        .find(|(_, names)| names.split(' ').any(|name| name == command.name));
    match listed {
        Some((flags, _)) => flags[index.min(flags.len() - 1)],
        None if command.has(READONLY) => "RO access",
        None => "RW access update",
    }
}

/// Flags of the first and the following keys, with the commands that have them. Left out: "RO access" of readers and
/// "RW access update" of writers.
#[rustfmt::skip]
const FLAGS: &[(&[&str], &str)] = &[
    (&["RW update"], "expire expireat geoadd hmset hset lset persist pexpire pexpireat setrange zadd"),
    (&["RW access update variable_flags"], "set bitfield"),
    (&["RW access delete"], "blmpop blpop brpop bzmpop bzpopmax bzpopmin getdel lmpop lpop rpop spop zmpop zpopmax zpopmin"),
    (&["RW access delete", "RW insert"], "blmove brpoplpush lmove rpoplpush smove"),
    (&["RW access delete", "OW insert"], "renamenx"),
    (&["RW access delete", "OW update"], "rename"),
    (&["RW insert"], "append hsetnx linsert lpush lpushx pfadd rpush rpushx sadd"),
    (&["OW update", "RO access"], "bitop geosearchstore sdiffstore sunionstore zdiffstore zinterstore zrangestore zunionstore"),
    (&["RW update", "RO access"], "sinterstore"),
    (&["RO access", "OW update"], "sort copy"),
    (&["RW delete"], "hdel lrem ltrim srem zrem zremrangebylex zremrangebyrank zremrangebyscore"),
    (&["RO"], "exists hexists hlen hstrlen llen memory|usage object|encoding object|freq object|idletime object|refcount scard sismember strlen touch type watch zcard"),
    (&["RW access insert", "RO access"], "pfmerge"),
    (&["OW update"], "mset psetex restore setex"),
    (&["OW insert"], "msetnx setnx"),
    (&["RM delete"], "del unlink"),
    (&["RW access"], "pfcount pfdebug"),
];
