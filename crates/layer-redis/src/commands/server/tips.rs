//! The tips of COMMAND INFO for proxies and cluster clients, beyond a command's flags; observed of
//! Redis 8.2.3.

use crate::command::Command;

/// A command's tips, separated by blanks; empty for most.
pub fn tips(command: &Command) -> &'static str {
    let listed = TIPS
        .iter()
        .find(|(_, names)| names.split_ascii_whitespace().any(|name| name == command.name));
    listed.map_or("", |(tips, _)| tips)
}

#[rustfmt::skip]
const TIPS: &[(&str, &str)] = &[
    ("nondeterministic_output", "client|info client|list cluster|bumpepoch cluster|count-failure-reports cluster|getkeysinslot cluster|info cluster|links cluster|myshardid cluster|nodes cluster|replicas cluster|shards cluster|slaves cluster|slots dump hpttl hrandfield hscan httl lastsave migrate object|encoding object|freq object|idletime object|refcount pttl spop srandmember sscan time ttl xadd xautoclaim xclaim xinfo|consumers xpending xtrim zrandmember zscan"),
    ("nondeterministic_output request_policy:all_nodes response_policy:special", "latency|doctor latency|graph latency|histogram latency|history latency|latest"),
    ("nondeterministic_output request_policy:all_shards response_policy:special", "function|stats info memory|doctor memory|malloc-stats memory|stats"),
    ("nondeterministic_output request_policy:all_shards", "cluster|slot-stats"),
    ("nondeterministic_output request_policy:special response_policy:special", "scan"),
    ("nondeterministic_output_order", "command command|docs command|info command|list function|list hgetall hkeys hvals module|list sdiff sinter smembers sunion"),
    ("request_policy:all_nodes nondeterministic_output", "slowlog|get"),
    ("request_policy:all_nodes response_policy:agg_sum nondeterministic_output", "slowlog|len"),
    ("request_policy:all_nodes response_policy:all_succeeded", "acl|deluser acl|save acl|setuser client|setinfo client|setname config|resetstat config|rewrite config|set script|flush script|load slowlog|reset"),
    ("request_policy:all_nodes response_policy:agg_sum", "latency|reset"),
    ("request_policy:all_shards response_policy:special nondeterministic_output", "randomkey"),
    ("request_policy:all_shards nondeterministic_output_order", "keys"),
    ("request_policy:all_shards response_policy:agg_logical_and", "script|exists"),
    ("request_policy:all_shards response_policy:agg_min", "wait waitaof"),
    ("request_policy:all_shards response_policy:agg_sum", "dbsize"),
    ("request_policy:all_shards response_policy:all_succeeded", "flushall flushdb function|delete function|flush function|load function|restore memory|purge ping"),
    ("request_policy:all_shards response_policy:one_succeeded", "function|kill script|kill"),
    ("request_policy:multi_shard", "mget"),
    ("request_policy:multi_shard response_policy:agg_sum", "del exists touch unlink"),
    ("request_policy:multi_shard response_policy:all_succeeded", "mset"),
];
