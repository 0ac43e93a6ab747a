//! The access of each command to its keys, as COMMAND INFO and COMMAND GETKEYSANDFLAGS show it;
//! observed of Redis 7.0.15, and of 8.2.3 for newer commands.

use quartet_wire_resp::Arguments;

use crate::command::parse;
use crate::command::{Command, READONLY};

/// Flags of the command's key at `index`, separated by blanks. Keys after the last listed one have
/// its flags.
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

/// The same for a request: what SET and BITFIELD do depends on their options.
pub fn request_key_flags(command: &Command, arguments: Arguments<'_>, index: usize) -> &'static str {
    match command.name {
        "set" if arguments.iter().skip(3).any(|word| parse::is(word, "get")) => "RW access update",
        "set" => "OW update",
        "bitfield" if only_gets(arguments) => "RO access",
        "bitfield" => "RW access update",
        _ => key_flags(command, index),
    }
}

/// Returns true for BITFIELD with only GETs.
fn only_gets(arguments: Arguments<'_>) -> bool {
    let words: Vec<&[u8]> = arguments.iter().skip(2).collect();
    words
        .chunks(3)
        .all(|words| parse::is(words[0], "get") && words.len() == 3)
}

/// The access that a command needs to a key's value, and that a rule gives. Neither: it looks at
/// the key from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub reads: bool,
    pub writes: bool,
}

impl Access {
    pub const BOTH: Access = Access {
        reads: true,
        writes: true,
    };

    /// `R`, `W` or `RW`.
    pub fn parse(letters: &[u8]) -> Option<Access> {
        let has = |letter: u8| letters.iter().any(|byte| byte.eq_ignore_ascii_case(&letter));
        let is_known = !letters.is_empty() && letters.iter().all(|byte| b"RWrw".contains(byte));
        is_known.then(|| Access {
            reads: has(b'R'),
            writes: has(b'W'),
        })
    }

    pub fn includes(self, access: Access) -> bool {
        (self.reads || !access.reads) && (self.writes || !access.writes)
    }

    pub fn with(self, other: Access) -> Access {
        Access {
            reads: self.reads || other.reads,
            writes: self.writes || other.writes,
        }
    }

    /// The prefix of a rule with this access.
    pub fn prefix(self) -> &'static str {
        match (self.reads, self.writes) {
            (true, false) => "%R~",
            (false, true) => "%W~",
            _ => "~",
        }
    }
}

/// Returns the access that the request needs to its key at `index`.
pub fn access(command: &Command, arguments: Arguments<'_>, index: usize) -> Access {
    let flags = request_key_flags(command, arguments, index);
    let has = |word: &str| flags.split(' ').any(|flag| flag == word);
    Access {
        reads: has("access"),
        writes: has("insert") || has("delete") || has("update"),
    }
}

/// Flags of the first and the following keys, with the commands that have them. Left out: "RO
/// access" of readers and "RW access update" of writers.
#[rustfmt::skip]
const FLAGS: &[(&[&str], &str)] = &[
    (&["RW update"], "expire expireat geoadd hexpire hexpireat hmset hpersist hpexpire hpexpireat hset hsetex lset persist pexpire pexpireat setrange xack xadd xclaim xgroup|setid xsetid zadd"),
    (&["RW access update variable_flags"], "set bitfield"),
    (&["RW access delete"], "blmpop blpop brpop bzmpop bzpopmax bzpopmin getdel hgetdel lmpop migrate lpop rpop spop zmpop zpopmax zpopmin"),
    (&["RW access delete", "RW insert"], "blmove brpoplpush lmove rpoplpush smove"),
    (&["RW access delete", "OW insert"], "renamenx"),
    (&["RW access delete", "OW update"], "rename"),
    (&["RW insert"], "append hsetnx linsert lpush lpushx pfadd rpush rpushx sadd xgroup|create xgroup|createconsumer"),
    (&["OW update", "RO access"], "bitop geosearchstore sdiffstore sunionstore zdiffstore zinterstore zrangestore zunionstore"),
    (&["RW update", "RO access"], "sinterstore"),
    (&["RO access", "OW update"], "copy georadius georadiusbymember sort"),
    (&["RO access"], "xreadgroup"),
    (&["RW delete update"], "xackdel"),
    (&["RW delete"], "delifeq hdel lrem ltrim srem xautoclaim xdel xdelex xgroup|delconsumer xgroup|destroy xtrim zrem zremrangebylex zremrangebyrank zremrangebyscore"),
    (&["RO"], "exists hexists hlen hstrlen llen memory|usage object|encoding object|freq object|idletime object|refcount scard sismember strlen touch type watch xlen zcard"),
    (&["RW access insert", "RO access"], "pfmerge"),
    (&["OW update"], "mset msetex psetex restore restore-asking setex"),
    (&["OW insert"], "msetnx setnx"),
    (&["RM delete"], "del unlink"),
    (&["RW access"], "pfcount pfdebug"),
];
