//! The server's commands through whole sessions.

use std::sync::Arc;

use quartet_wire_resp::Value;

use crate::layer::Resources;
use crate::testing::{Connection, Fixture, show};

fn run(connection: &mut Connection, words: &[&str]) -> String {
    show(&connection.run(words))
}

/// Arity, first key, last key, step, and flags as Redis 7.0.15 answers them.
#[test]
fn well_known_commands_look_as_in_redis() {
    let mut connection = Fixture::new().connect();
    for (name, expected) in [
        ("get", "2 1 1 1 fast readonly"),
        ("set", "-3 1 1 1 denyoom write"),
        ("ping", "-1 0 0 0 fast"),
        ("select", "2 0 0 0 fast loading stale"),
        ("auth", "-2 0 0 0 allow_busy fast loading no_auth noscript stale"),
        ("hello", "-1 0 0 0 allow_busy fast loading no_auth noscript stale"),
        ("client", "-2 0 0 0 "),
        ("client|id", "2 0 0 0 loading noscript stale"),
        ("client|kill", "-3 0 0 0 admin loading noscript stale"),
        ("config|set", "-4 0 0 0 admin loading noscript stale"),
        ("command", "-1 0 0 0 loading stale"),
        ("info", "-1 0 0 0 loading stale"),
        ("memory|usage", "-3 2 2 1 readonly"),
        ("save", "1 0 0 0 admin no_async_loading no_multi noscript"),
        ("shutdown", "-1 0 0 0 admin allow_busy loading no_multi noscript stale"),
        ("debug", "-2 0 0 0 admin loading noscript stale"),
        ("slowlog|get", "-2 0 0 0 admin loading stale"),
        ("wait", "3 0 0 0 blocking"),
    ] {
        let Value::Array(replies) = connection.run(&["COMMAND", "INFO", name]) else {
            panic!("{name}")
        };
        let Value::Array(fields) = &replies[0] else {
            panic!("{name}")
        };
        let Value::Array(flags) = &fields[2] else {
            panic!("{name}")
        };
        let mut flags: Vec<String> = flags.iter().map(show).collect();
        flags.sort();
        let numbers: Vec<String> = [1, 3, 4, 5].iter().map(|index| show(&fields[*index])).collect();
        assert_eq!(format!("{} {}", numbers.join(" "), flags.join(" ")), expected, "{name}");
    }
}

#[test]
fn commands_are_listed_and_documented() {
    let mut connection = Fixture::new().connect();
    connection.check(
        "COMMAND INFO nosuch get|key config|get|key => [nil nil nil]
         COMMAND LIST bad => !ERR syntax error
         COMMAND LIST FILTERBY PATTERN get => [get]
         COMMAND LIST FILTERBY PATTERN config|*re* => [config|resetstat config|rewrite]
         COMMAND LIST FILTERBY MODULE foo => []
         COMMAND LIST FILTERBY ACLCAT nosuch => []
         COMMAND LIST FILTERBY nosuch foo => !ERR syntax error
         COMMAND GETKEYS GET key => [key]
         COMMAND GETKEYS MEMORY USAGE key => [key]
         COMMAND GETKEYS nosuch key => !ERR Invalid command specified
         COMMAND GETKEYS ECHO key => !ERR The command has no key arguments
         COMMAND GETKEYSANDFLAGS SET k1 v1 => [[k1 [OW update]]]
         COMMAND GETKEYSANDFLAGS SET k1 v1 GET => [[k1 [RW access update]]]
         COMMAND DOCS nosuch => []
         COMMAND nosuch => !ERR unknown subcommand 'nosuch'. Try COMMAND HELP.",
    );
    assert!(run(&mut connection, &["COMMAND"]).contains("client|getname"));
    assert!(run(&mut connection, &["COMMAND", "DOCS"]).contains("subcommands"));
    for container in [
        "client", "config", "slowlog", "latency", "memory", "module", "acl", "command", "debug",
    ] {
        let help = run(&mut connection, &[container, "HELP"]);
        assert!(help.contains("Subcommands are:"), "{help}");
    }
}

#[test]
fn parameters_are_checked_and_set_together() {
    let mut connection = Fixture::new().connect();
    connection.check(
        "CONFIG GET databases => [databases 16]
         CONFIG SET foo bar => !ERR Unknown option or number of arguments for CONFIG SET - 'foo'
         CONFIG SET hz => !ERR wrong number of arguments for 'config|set' command
         CONFIG SET maxmemory abc => !ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value
         CONFIG SET maxmemory 10mb => OK
         CONFIG GET maxmemory => [maxmemory 10485760]
         CONFIG SET maxmemory 1 maxmemory-clients 200% => !ERR CONFIG SET failed (possibly related to argument 'maxmemory-clients') - percentage argument must be less or equal to 100
         CONFIG GET maxmemory => [maxmemory 10485760]
         CONFIG SET maxmemory 1 maxmemory 2 => !ERR CONFIG SET failed (possibly related to argument 'maxmemory') - duplicate parameter
         CONFIG SET hz a => !ERR CONFIG SET failed (possibly related to argument 'hz') - argument couldn't be parsed into an integer
         CONFIG SET hz 99999999999 => !ERR CONFIG SET failed (possibly related to argument 'hz') - argument must be between 0 and 2147483647 inclusive
         CONFIG SET slowlog-max-len -9223372036854775808 => !ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument must be between 0 and 9223372036854775807 inclusive
         CONFIG SET appendonly foo => !ERR CONFIG SET failed (possibly related to argument 'appendonly') - argument must be 'yes' or 'no'
         CONFIG SET databases 3 => !ERR CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config
         CONFIG SET dir x => !ERR CONFIG SET failed (possibly related to argument 'dir') - can't set protected config
         CONFIG SET hash-max-ziplist-entries 7 => OK
         CONFIG GET hash-max-listpack-entries hash-max-ziplist-entries => [hash-max-listpack-entries 7 hash-max-ziplist-entries 7]
         CONFIG SET notify-keyspace-events KEA => OK
         CONFIG GET notify-keyspace-events => [notify-keyspace-events AKE]
         CONFIG SET slowlog-max-len 9223372036854775807 slowlog-log-slower-than -1 => OK
         CONFIG GET key-load-delay => [key-load-delay 0]
         CONFIG GET key-load-d* => []
         CONFIG REWRITE => !ERR The server is running without a config file
         CONFIG RESETSTAT => OK",
    );
    assert_eq!(
        run(&mut connection, &["CONFIG", "SET", "save", "3000 5", "hz", "20"]),
        "OK"
    );
    connection.check("CONFIG GET save hz => [hz 20 save 3000 5]");
}

#[test]
fn every_parameter_takes_its_own_value() {
    use crate::config::table::{Access, PARAMETERS};
    let mut connection = Fixture::new().connect();
    for parameter in PARAMETERS {
        let Value::Array(pair) = connection.run(&["CONFIG", "GET", parameter.name]) else {
            panic!()
        };
        let value = show(&pair[pair.iter().position(|name| show(name) == parameter.name).unwrap() + 1]);
        let outcome = run(&mut connection, &["CONFIG", "SET", parameter.name, &value]);
        let is_modifiable = matches!(parameter.access, Access::Modifiable | Access::Hidden);
        assert_eq!(outcome == "OK", is_modifiable, "{}: {outcome}", parameter.name);
    }
}

#[test]
fn facts_by_section() {
    let mut connection = Fixture::new().connect();
    connection.check("SET a 1 => OK\nNOSUCH => !ERR unknown command 'NOSUCH', with args beginning with: ");
    let all = run(&mut connection, &["INFO", "everything"]);
    for text in [
        "# Server\r\nredis_version:8.2.3\r\n",
        "quartet_durability:none",
        "maxmemory_policy:noeviction",
        "used_memory_human:",
        "used_cpu_user:",
        "role:master",
        "loading:0",
        "rdb_bgsave_in_progress:0",
        "cmdstat_set:calls=1,",
        "rejected_calls=0",
        "errorstat_ERR:count=1",
        "latency_percentiles_usec_set:p50=1.000,p99=1.000,p99.9=1.000",
        "cluster_enabled:0",
        "db0:keys=1,expires=0,avg_ttl=0,subexpiry=0",
    ] {
        assert!(all.contains(text), "{text} in {all}");
    }
    connection.check("HSET h f v g w => 2\nHPEXPIRE h 100 FIELDS 1 f => [1]\nEXPIRE a 10 => 1");
    assert!(
        run(&mut connection, &["INFO", "keyspace"]).contains("db0:keys=2,expires=1,avg_ttl=10000,subexpiry=1"),
        "INFO said subexpiry=0 whatever hashes there were"
    );
    assert!(!run(&mut connection, &["INFO"]).contains("rejected_calls"));
    assert_eq!(run(&mut connection, &["INFO", "sentinel"]), "");
    let some = run(&mut connection, &["INFO", "CPU", "modules"]);
    assert!(
        some.contains("used_cpu_user") && !some.contains("used_memory"),
        "{some}"
    );
}

#[test]
fn small_commands() {
    Fixture::new().connect().check(
        "TIME => [1700000000 0]
         ROLE => [master 0 []]
         REPLICAOF NO ONE => OK
         REPLICAOF a b => !ERR Invalid master port
         WAIT 0 0 => 0
         WAIT a 0 => !ERR value is not an integer or out of range
         WAIT 0 -1 => !ERR timeout is negative
         WAIT -9223372036854775808 9223372036854775807 => 0
         WAITAOF 0 0 0 => [0 0]
         WAITAOF 2 x 0 => !ERR value is out of range, value must between 0 and 1
         WAITAOF 0 1.5 0 => !ERR value is out of range, must be positive
         SHUTDOWN foo => !ERR syntax error
         SHUTDOWN ABORT => !ERR No shutdown in progress.
         BGSAVE foo => !ERR syntax error
         SLOWLOG GET -2 => !ERR count should be greater than or equal to -1
         SLOWLOG GET 9223372036854775807 => []
         SLOWLOG LEN => 0
         LATENCY LATEST => []
         LATENCY RESET => 0
         LATENCY HISTORY command => []
         LATENCY HISTOGRAM nosuch => []
         MEMORY USAGE a => nil
         MEMORY USAGE a SAMPLES -1 => !ERR syntax error
         MEMORY USAGE a SAMPLES -9223372036854775808 => !ERR syntax error
         MEMORY PURGE => OK
         MODULE LIST => [[name ReJSON ver 20800 path  args []]]
         ACL WHOAMI => default
         ACL USERS => [default]
         ACL LIST => [user default on nopass ~* &* +@all]
         ACL GETUSER nosuch => nil
         ACL CAT nosuch => !ERR Unknown category 'nosuch'
         ACL SETUSER a => OK
         ACL USERS => [a default]",
    );
}

#[test]
fn samples_are_drawn_as_columns_over_their_age() {
    let mut connection = Fixture::new().connect();
    connection.check(
        "CONFIG SET latency-monitor-threshold 100 => OK
         DEBUG SLEEP 0.2 => OK
         LATENCY GRAPH nosuch => !ERR No samples available for event 'nosuch'",
    );
    let drawn = run(&mut connection, &["LATENCY", "GRAPH", "command"]);
    let lines: Vec<&str> = drawn.lines().collect();
    assert_eq!(lines[0], "command - high 200 ms, low 200 ms (all time high 200 ms)");
    assert_eq!(lines[1], "-".repeat(80));
    assert_eq!(lines[2..], ["", "", "", "_", "", "0", "s"]);
}

/// A sleep happens after the lock was released; it is still the command's own time.
#[test]
fn a_sleep_counts_as_slow() {
    let mut connection = Fixture::new().connect();
    connection.check(
        "CONFIG SET latency-monitor-threshold 100 => OK
         CONFIG SET slowlog-log-slower-than 100000 => OK
         DEBUG SLEEP 0.2 => OK
         LATENCY HISTORY command => [[1700000000 200]]
         LATENCY RESET command => 1
         SLOWLOG LEN => 1",
    );
    let slowest = run(&mut connection, &["SLOWLOG", "GET", "1"]);
    assert!(
        slowest.starts_with("[[0 1700000000 200000 [DEBUG SLEEP 0.2] 127.0.0.1:1"),
        "{slowest}"
    );
    let statistics = run(&mut connection, &["INFO", "commandstats"]);
    assert!(
        statistics.contains("cmdstat_debug:calls=1,usec=200000,"),
        "{statistics}"
    );
    assert!(!statistics.contains("failed_calls=1"), "{statistics}");
}

/// DEBUG SLEEP was refused inside EXEC, where suites use it to make one slow command of several.
#[test]
fn a_queued_sleep_is_logged_for_itself() {
    let mut connection = Fixture::new().connect();
    connection.check(
        "CONFIG SET slowlog-log-slower-than 100000 => OK
         MULTI => OK
         PING => QUEUED
         DEBUG SLEEP 0.2 => QUEUED
         EXEC => [PONG OK]
         SLOWLOG LEN => 1",
    );
    let slowest = run(&mut connection, &["SLOWLOG", "GET"]);
    assert!(slowest.contains("[DEBUG SLEEP 0.2]"), "{slowest}");
}

#[test]
fn debug_object_describes_a_key() {
    let mut connection = Fixture::new().connect();
    connection.check("SET a 1 => OK\nDEBUG OBJECT b => !ERR no such key");
    let line = run(&mut connection, &["DEBUG", "OBJECT", "a"]);
    assert!(
        line.starts_with("Value at:0x0 refcount:2147483647 encoding:int serializedlength:"),
        "{line}"
    );
    assert!(
        line.contains(" lru:") && line.ends_with(" lru_seconds_idle:0"),
        "{line}"
    );
}

#[test]
fn debug_subcommands() {
    let mut connection = Fixture::new().connect();
    connection.check(
        "DEBUG nosuch => !ERR unknown subcommand or wrong number of arguments for 'nosuch'. Try DEBUG HELP.
         DEBUG SLEEP => !ERR unknown subcommand or wrong number of arguments for 'SLEEP'. Try DEBUG HELP.
         DEBUG SET-ACTIVE-EXPIRE 0 => OK
         DEBUG STRINGMATCH-LEN 1000 a*a => 1
         DEBUG STRINGMATCH-LEN 9223372036854775807 a => !ERR value is not an integer or out of range
         DEBUG PROTOCOL foo => !ERR Wrong protocol type name. Please use one of the following: string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false
         DEBUG PROTOCOL map => [0 0 1 1 2 0]
         DEBUG PROTOCOL push => !ERR RESP2 is not supported by this command
         DEBUG DIGEST => 0000000000000000000000000000000000000000
         DEBUG DIGEST-VALUE a => [0000000000000000000000000000000000000000]
         DEBUG RELOAD => OK",
    );
    connection.check("SET a 1 => OK\nSET b 2 => OK");
    let digest = run(&mut connection, &["DEBUG", "DIGEST"]);
    assert!(run(&mut Fixture::new().connect(), &["DEBUG", "DIGEST"]) != digest);
    connection.check("SET b 3 => OK\nSET b 2 => OK");
    assert_eq!(run(&mut connection, &["DEBUG", "DIGEST"]), digest);
}

#[test]
fn this_server_is_no_cluster() {
    Fixture::new().connect().check(
        "CLUSTER SLOTS => !ERR This instance has cluster support disabled
         CLUSTER HELP => !ERR This instance has cluster support disabled
         CLUSTER MEET => !ERR wrong number of arguments for 'cluster|meet' command
         CLUSTER nosuch => !ERR unknown subcommand 'nosuch'. Try CLUSTER HELP.
         READONLY => !ERR This instance has cluster support disabled
         CLUSTER MYSHARDID => !ERR This instance has cluster support disabled
         COMMAND LIST FILTERBY PATTERN cl*help => [client|help cluster|help]",
    );
}

/// In the words of Redis 8.2 for a server that has no replica.
#[test]
fn a_failover_is_refused_and_the_cluster_form_of_restore_restores() {
    let mut connection = Fixture::new().connect();
    connection.check(
        "FAILOVER => !ERR FAILOVER requires connected replicas.
         FAILOVER TO 127.0.0.1 1 FORCE TIMEOUT 1 => !ERR FAILOVER requires connected replicas.
         FAILOVER ABORT => !ERR No failover in progress.
         FAILOVER TIMEOUT 0 => !ERR FAILOVER timeout must be greater than 0
         FAILOVER TO 127.0.0.1 => !ERR syntax error
         FAILOVER ABORT TIMEOUT 1 => !ERR syntax error
         SET k v => OK
         RESTORE-ASKING k 0 x => !BUSYKEY Target key name already exists.
         RESTORE-ASKING other 0 x => !ERR DUMP payload version or checksum are wrong",
    );
}

/// A wait that ended without an element was in no statistics.
#[test]
fn ended_waits_are_counted() {
    let fixture = Fixture::new();
    let (mut waiting, mut admin) = (fixture.connect(), fixture.connect());
    let id = waiting.session.client().id.to_string();
    assert!(waiting.bytes(&["BLPOP", "l", "0"]).is_empty());
    assert_eq!(run(&mut admin, &["CLIENT", "UNBLOCK", &id, "ERROR"]), "1");
    assert!(waiting.mail().starts_with(b"-UNBLOCKED "));
    assert!(waiting.bytes(&["BLPOP", "l", "1"]).is_empty());
    waiting.session.time_out();
    assert_eq!(waiting.mail(), b"*-1\r\n");
    let statistics = run(&mut admin, &["INFO", "commandstats"]);
    assert!(
        statistics.contains("cmdstat_blpop:calls=2,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1"),
        "{statistics}"
    );
    assert!(run(&mut admin, &["INFO", "errorstats"]).contains("errorstat_UNBLOCKED:count=1"));
}

/// A large value's memory is given back by the flusher, and INFO said that nothing was pending
/// before it was.
#[test]
fn memory_in_use_follows_the_data() {
    let mut connection = Fixture::new().connect();
    let figure = |connection: &mut Connection, name: &str| -> u64 {
        let text = run(connection, &["INFO", "memory"]);
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().parse().unwrap()
    };
    let before = figure(&mut connection, "used_memory:");
    let value = "x".repeat(64 << 20);
    connection.run(&["SET", "a", &value]);
    assert!(figure(&mut connection, "used_memory:") >= before + (32 << 20));
    connection.check("UNLINK a => 1");
    // The log drops a large value once it has written it.
    let timeout = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while figure(&mut connection, "lazyfree_pending_objects:") > 0
        || figure(&mut connection, "used_memory:") >= before + (32 << 20)
    {
        assert!(std::time::Instant::now() < timeout, "the value still takes memory");
        std::thread::yield_now();
    }
}

/// A database that is one of several was shown the memory and the time of the whole process, and
/// could make the log of slow commands as long as it liked.
#[test]
fn one_of_several_databases_sees_and_sets_what_is_its_own() {
    let mut fixture = Fixture::of_several();
    let layer = Arc::get_mut(&mut fixture.layer).expect("nobody else has it yet");
    layer.process.resources = Box::new(|| Resources {
        rss_bytes: 987_654_321,
        machine_bytes: 987_654_321,
        budget_source: "the machine",
        cpu_system_micros: 987_654_321,
        cpu_user_micros: 987_654_321,
    });
    let mut connection = fixture.connect();
    connection.run(&["SET", "key", "value"]);
    for words in [&["INFO", "everything"][..], &["MEMORY", "DOCTOR"], &["MEMORY", "STATS"]] {
        let reply = show(&connection.run(words));
        assert!(!reply.contains("987"), "{words:?}: {reply}");
        assert!(!reply.contains("quartet_transactions"), "{words:?}: {reply}");
    }
    connection.check(
        "MEMORY PURGE => OK
         CONFIG SET slowlog-max-len 1000 => OK
         CONFIG SET slowlog-max-len 2000000000 => !ERR CONFIG SET failed (possibly related to argument 'slowlog-max-len') - argument must be between 0 and 1000 inclusive",
    );
}
