//! The connection's commands through whole sessions.

use crate::session::received::Next;
use crate::testing::{Connection, Fixture, show};

fn run(connection: &mut Connection, words: &[&str]) -> String {
    show(&connection.run(words))
}

#[test]
fn greeting_and_selection() {
    Fixture::new().connect().check(
        "PING => PONG
         PING redis => redis
         PING a b => !ERR wrong number of arguments for 'ping' command
         ECHO a => a
         SELECT 15 => OK
         SELECT 16 => !ERR DB index is out of range
         SELECT -1 => !ERR DB index is out of range
         SELECT x => !ERR value is not an integer or out of range
         SELECT 9223372036854775807 => !ERR value is out of range, value must between -2147483648 and 2147483647
         HELLO 4 => !NOPROTO unsupported protocol version
         HELLO x => !ERR Protocol version is not an integer or out of range
         HELLO 2 auth a => !ERR Syntax error in HELLO option 'auth'
         HELLO 2 foo => !ERR Syntax error in HELLO option 'foo'
         HELLO 3 SETNAME n => {server: redis, version: 8.2.3, proto: 3, id: 1, mode: standalone, role: master, modules: [{name: ReJSON, ver: 20800, path: , args: []}]}
         CLIENT GETNAME => n
         RESET => RESET
         CLIENT GETNAME => nil
         QUIT => OK",
    );
}

#[test]
fn a_password_is_required_and_never_shown() {
    let fixture = Fixture::new();
    let mut admin = fixture.connect();
    let mut monitor = fixture.connect();
    monitor.check("MONITOR => OK");
    admin.check(
        "AUTH x => !ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
         CONFIG SET slowlog-log-slower-than 0 => OK
         CONFIG SET requirepass secret1 => OK
         CONFIG GET requirepass => [requirepass ]
         SET a 1 => OK",
    );
    let mut user = fixture.connect();
    user.check(
        "GET a => !NOAUTH Authentication required.
         AUTH wrong1 => !WRONGPASS invalid username-password pair or user is disabled.
         AUTH nobody secret1 => !WRONGPASS invalid username-password pair or user is disabled.
         HELLO 3 AUTH default wrong2 => !WRONGPASS invalid username-password pair or user is disabled.
         AUTH default secret1 => OK
         GET a => 1",
    );
    let slowlog = run(&mut admin, &["SLOWLOG", "GET", "-1"]);
    let monitored = String::from_utf8(monitor.mail()).unwrap();
    for text in [&slowlog, &monitored] {
        assert!(!text.contains("secret") && !text.contains("wrong"), "{text}");
        assert!(text.contains("(redacted)"), "{text}");
    }
    admin.check("CONFIG SET requirepass \"\" => OK");
    fixture.connect().check("GET a => 1");
}

#[test]
fn client_list_and_kill() {
    let fixture = Fixture::new();
    let mut first = fixture.connect();
    let second = fixture.connect();
    let line = run(&mut first, &["CLIENT", "LIST", "ID", "1"]);
    assert!(
        line.starts_with("id=1 addr=127.0.0.1:1 laddr=127.0.0.1:2 fd=1 name= age="),
        "{line}"
    );
    assert!(
        line.contains(" flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf="),
        "{line}"
    );
    assert!(
        line.contains(" cmd=client|list user=default redir=-1 resp=2 "),
        "{line}"
    );
    let line = run(&mut first, &["client", "info"]);
    assert!(line.contains(" qbuf=26 "), "{line}");
    first.check(
        "CLIENT KILL => !ERR wrong number of arguments for 'client|kill' command
         CLIENT KILL 1.1.1.1:1 => !ERR No such client
         CLIENT KILL ID 10 x => !ERR syntax error
         CLIENT KILL ID 0 => !ERR client-id should be greater than 0
         CLIENT KILL ID -9223372036854775808 => !ERR client-id should be greater than 0
         CLIENT KILL TYPE foo => !ERR Unknown client type 'foo'
         CLIENT KILL USER foo => !ERR No such user 'foo'
         CLIENT KILL SKIPME maybe => !ERR syntax error
         CLIENT KILL MAXAGE 9223372036854775807 => 0
         CLIENT KILL ID 2 TYPE normal => 1
         CLIENT LIST ID 2 =>",
    );
    assert!(second.session.client().killed.load(std::sync::atomic::Ordering::SeqCst));
    let mut out = Vec::new();
    let received = first.session.receive(b"CLIENT KILL SKIPME no\r\n", &mut out);
    assert_eq!(out, b":1\r\n");
    assert!(matches!(received.next, Next::Close));
}

#[test]
fn names_and_switches() {
    Fixture::new().connect().check(
        "CLIENT SETNAME a\u{1} => !ERR Client names cannot contain spaces, newlines or special characters.
         CLIENT SETINFO lib-name redis-py => OK
         CLIENT SETINFO lib-name a\u{1} => !ERR lib-name cannot contain spaces, newlines or special characters.
         CLIENT SETINFO foo bar => !ERR Unrecognized option 'foo'
         CLIENT NO-EVICT on => OK
         CLIENT NO-EVICT x => !ERR syntax error
         CLIENT NO-TOUCH off => OK
         CLIENT MAINT_NOTIFICATIONS ON => !ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.
         CLIENT TRACKING ON => OK
         CLIENT REPLY x => !ERR syntax error
         CLIENT UNBLOCK 1 => 0
         CLIENT UNBLOCK -9223372036854775808 => 0
         CLIENT UNBLOCK x => !ERR value is not an integer or out of range
         CLIENT UNBLOCK 1 foo => !ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR
         CLIENT PAUSE x => !ERR timeout is not an integer or out of range
         CLIENT PAUSE -1 => !ERR timeout is negative
         CLIENT PAUSE 9223372036854775807 => !ERR timeout is out of range
         CLIENT PAUSE 1 foo => !ERR CLIENT PAUSE mode must be WRITE or ALL",
    );
}

#[test]
fn replies_are_turned_off_and_on() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    assert!(connection.bytes(&["CLIENT", "REPLY", "OFF"]).is_empty());
    assert!(connection.bytes(&["PING"]).is_empty());
    connection.check("CLIENT REPLY ON => OK");
    assert!(connection.bytes(&["CLIENT", "REPLY", "SKIP"]).is_empty());
    assert!(connection.bytes(&["PING"]).is_empty());
    connection.check("PING => PONG");
}

#[test]
fn a_pause_holds_writes_back() {
    let fixture = Fixture::new();
    let mut admin = fixture.connect();
    let mut writer = fixture.connect();
    admin.check("CLIENT PAUSE 1000 WRITE => OK");
    writer.check("GET a => nil");
    assert!(writer.bytes(&["SET", "a", "1"]).is_empty());
    assert!(writer.session.is_blocked());
    assert!(run(&mut admin, &["INFO", "clients"]).contains("blocked_clients:1"));
    admin.check("CLIENT UNPAUSE => OK");
    writer.mail();
    assert!(!writer.session.is_blocked());
    writer.check("SET a 1 => OK");
    admin.check("CLIENT PAUSE 1000 => OK");
    assert!(writer.bytes(&["GET", "a"]).is_empty());
    // A second pause extends the first, also for commands that already wait.
    let end_ms = writer.session.deadline_ms().unwrap();
    fixture.layer.connections.pause.start(end_ms + 500, true, end_ms - 1);
    fixture.advance_ms(1000);
    writer.session.time_out();
    assert_eq!(writer.session.deadline_ms(), Some(end_ms + 500));
    fixture.advance_ms(500);
    writer.session.time_out();
    assert!(!writer.session.is_blocked());
    writer.check("GET a => 1");
}

/// FCALL of a function with the flag no-writes was held back with the writes, both by itself and in
/// a transaction.
#[test]
fn a_pause_of_writes_uses_the_flags_of_functions() {
    let fixture = Fixture::new();
    let (mut admin, mut caller) = (fixture.connect(), fixture.connect());
    let library = "#!lua name=l
        redis.register_function{function_name='reads', callback=function() return 'r' end, flags={'no-writes'}}
        redis.register_function('writes', function() return 'w' end)";
    assert_eq!(run(&mut admin, &["FUNCTION", "LOAD", library]), "l");
    caller.check("MULTI => OK\nFCALL reads 0 => QUEUED");
    admin.check("CLIENT PAUSE 1000 WRITE => OK");
    caller.check("EXEC => [r]\nFCALL reads 0 => r");
    assert!(caller.bytes(&["FCALL", "writes", "0"]).is_empty());
    assert!(caller.session.is_blocked());
}

#[test]
fn a_long_key_is_refused_and_a_long_value_is_not() {
    let long = "x".repeat(65_001);
    let mut connection = Fixture::new().connect();
    assert_eq!(
        run(&mut connection, &["SET", &long, "1"]),
        format!("!{}", crate::command::errors::KEY_TOO_LARGE)
    );
    assert_eq!(run(&mut connection, &["SET", "a", &long]), "OK");
}

/// Requests after QUIT in the same packet used to be executed.
#[test]
fn nothing_is_executed_after_quit() {
    let fixture = Fixture::new();
    let mut out = Vec::new();
    let received = fixture.connect().session.receive(b"QUIT\r\nSET a 1\r\n", &mut out);
    assert_eq!(out, b"+OK\r\n");
    assert!(matches!(received.next, Next::Close));
    fixture.connect().check("GET a => nil");
}

/// CONFIG accepted proto-max-bulk-len, but longer strings were still accepted. A request queued
/// before the limit was lowered runs.
#[test]
fn the_longest_bulk_string_is_configured() {
    let fixture = Fixture::new();
    let (mut other, mut connection) = (fixture.connect(), fixture.connect());
    let long = "x".repeat((1 << 20) + 1);
    connection.check("MULTI => OK");
    assert_eq!(run(&mut connection, &["SET", "a", &long]), "QUEUED");
    other.check("CONFIG SET proto-max-bulk-len 1mb => OK");
    connection.check(
        "EXEC => [OK]
         STRLEN a => 1048577
         APPEND a x => !ERR string exceeds maximum allowed size (proto-max-bulk-len)
         SETRANGE b 1048576 x => !ERR string exceeds maximum allowed size (proto-max-bulk-len)
         SETBIT b 8388608 1 => !ERR string exceeds maximum allowed size (proto-max-bulk-len)
         SETBIT b 8388607 1 => 0",
    );
    assert_eq!(
        run(&mut connection, &["SET", "a", &long]),
        "!ERR Protocol error: invalid bulk length"
    );
}

/// maxmemory used to be accepted and ignored.
#[test]
fn commands_that_need_memory_are_refused_beyond_maxmemory() {
    let fixture = Fixture::new();
    let (mut admin, mut connection) = (fixture.connect(), fixture.connect());
    connection.check("SET a 1 => OK\nMULTI => OK\nGET a => QUEUED");
    admin.check(
        "CONFIG SET maxmemory 1 => OK
         SET a 2 => !OOM command not allowed when used memory > 'maxmemory'.
         GET a => 1
         DEL b => 0
         MULTI => OK
         GET a => QUEUED
         DEL b => QUEUED
         EXEC => [1 0]
         MULTI => OK
         GET a => QUEUED
         SET a 2 => !OOM command not allowed when used memory > 'maxmemory'.
         EXEC => !EXECABORT Transaction discarded because of previous errors.",
    );
    connection.check("EXEC => [1]");
    admin.check("CONFIG SET maxmemory 0 => OK");
    connection.check("MULTI => OK\nSET a 3 => QUEUED");
    admin.check("CONFIG SET maxmemory 1 => OK");
    connection.check(
        "EXEC => !EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.
         CONFIG SET maxmemory 0 => OK
         GET a => 1",
    );
}

/// A request that will be refused used to wait for the end of the pause before it was.
#[test]
fn a_pause_does_not_hold_refusals_back() {
    Fixture::new().connect().check(
        "CLIENT PAUSE 1000 WRITE => OK
         SET a => !ERR wrong number of arguments for 'set' command
         NOSUCH => !ERR unknown command 'NOSUCH', with args beginning with: ",
    );
}

#[test]
fn writes_are_refused_when_replicas_are_demanded() {
    Fixture::new().connect().check(
        "CONFIG SET min-replicas-to-write 1 => OK
         SET a 1 => !NOREPLICAS Not enough good replicas to write.
         GET a => nil
         CONFIG SET min-replicas-to-write 0 => OK
         SET a 1 => OK",
    );
}

#[test]
fn a_pipeline_of_large_replies_is_cut_into_several_turns() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    let elements = vec!["element"; 10_000];
    connection.run(&[&["RPUSH", "list"], &elements[..]].concat());
    let input = "LRANGE list 0 -1\r\n".repeat(60);
    let (mut consumed, mut turns, mut out) = (0, 0, Vec::new());
    while consumed < input.len() {
        let before = out.len();
        consumed += connection
            .session
            .receive(&input.as_bytes()[consumed..], &mut out)
            .consumed;
        turns += 1;
        assert!(out.len() - before < 512 << 10);
    }
    // Three of 130 KB reach the limit.
    assert!((20..=60).contains(&turns), "{turns}");
    assert_eq!(out.windows(8).filter(|bytes| bytes == b"*10000\r\n").count(), 60);
}

/// Returns whether `reader` is notified of `writer`'s change of `key`.
fn is_told(reader: &mut Connection, writer: &mut Connection, key: &str) -> bool {
    writer.run(&["SET", key, "new"]);
    let mail = String::from_utf8(reader.mail()).unwrap();
    assert!(
        mail.is_empty() || mail.contains("invalidate") && mail.contains(key),
        "{mail}"
    );
    !mail.is_empty()
}

/// MULTI ended the effect of CLIENT CACHING, so a client's reads inside stayed in its cache
/// indefinitely: OPTIN with YES tracked nothing, OPTOUT with NO everything.
#[test]
fn caching_is_wished_for_a_command_or_a_whole_transaction() {
    for (mode, wish, is_wished) in [("OPTIN", "YES", true), ("OPTOUT", "NO", false)] {
        let fixture = Fixture::new();
        let (mut reader, mut writer) = (fixture.connect(), fixture.connect());
        reader.session.speak_resp3();
        reader.check(&format!(
            "CLIENT TRACKING ON {mode} => OK
             CLIENT CACHING {wish} => OK
             CLIENT ID => 1
             GET one => nil
             GET two => nil
             CLIENT CACHING {wish} => OK
             MULTI => OK
             GET three => QUEUED
             GET four => QUEUED
             EXEC => [nil nil]
             GET five => nil
             MULTI => OK
             GET six => QUEUED
             CLIENT CACHING {wish} => QUEUED
             GET seven => QUEUED
             EXEC => [nil OK nil]
             GET eight => nil
             CLIENT CACHING {wish} => OK
             INCRBY x y => !ERR value is not an integer or out of range
             GET nine => nil"
        ));
        let wished = ["one", "three", "four", "seven"];
        for key in ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"] {
            let expected = wished.contains(&key) == is_wished;
            assert_eq!(is_told(&mut reader, &mut writer, key), expected, "{mode} {key}");
        }
    }
}

/// The replies of Redis 7.0.15 to options that do not go together, or not with those in force. One
/// prefix given twice was accepted, and a second BCAST without a prefix was refused.
#[test]
fn options_of_tracking_are_refused_as_redis_does() {
    let overlap = |prefix: &str, origin: &str, other: &str| {
        format!(
            "!ERR Prefix '{prefix}' overlaps with {origin} '{other}'. Prefixes for a single client must not overlap."
        )
    };
    let with_given = |prefix: &str, other: &str| overlap(prefix, "another provided prefix", other);
    let with_existing = |prefix: &str, other: &str| overlap(prefix, "an existing prefix", other);
    let ok = || "OK".to_owned();
    for (before, options, expected) in [
        ("OFF", "ON BCAST PREFIX a PREFIX ab", with_given("a", "ab")),
        ("OFF", "ON BCAST PREFIX ab PREFIX a", with_given("ab", "a")),
        ("OFF", "ON BCAST PREFIX a PREFIX a", with_given("a", "a")),
        ("OFF", "ON BCAST PREFIX a PREFIX b", ok()),
        ("ON BCAST PREFIX a", "ON BCAST PREFIX a", with_existing("a", "a")),
        ("ON BCAST PREFIX a", "ON BCAST PREFIX ab", with_existing("ab", "a")),
        (
            "ON BCAST PREFIX a",
            "ON BCAST PREFIX a PREFIX ab",
            with_existing("a", "a"),
        ),
        ("ON BCAST PREFIX a", "ON BCAST PREFIX \"\"", with_existing("", "a")),
        ("ON BCAST PREFIX a", "ON BCAST PREFIX b", ok()),
        ("ON BCAST PREFIX a", "ON BCAST", ok()),
        ("ON BCAST", "ON BCAST", ok()),
        ("ON BCAST", "ON BCAST PREFIX a", with_existing("a", "")),
        ("OFF", "OFF PREFIX a", ok()),
        (
            "OFF",
            "ON PREFIX a",
            "!ERR PREFIX option requires BCAST mode to be enabled".into(),
        ),
        (
            "OFF",
            "ON OPTIN OPTOUT",
            "!ERR You can't specify both OPTIN mode and OPTOUT mode".into(),
        ),
        (
            "OFF",
            "ON BCAST OPTIN OPTOUT",
            "!ERR OPTIN and OPTOUT are not compatible with BCAST".into(),
        ),
        (
            "ON OPTIN",
            "ON BCAST OPTOUT",
            "!ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling \
             it with a different mode."
                .into(),
        ),
        (
            "ON OPTIN",
            "ON OPTOUT",
            "!ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling \
             it with a different mode."
                .into(),
        ),
        ("ON OPTIN", "ON OPTIN NOLOOP", ok()),
    ] {
        let mut connection = Fixture::new().connect();
        connection.check(&format!("CLIENT TRACKING {before} => OK"));
        connection.check(&format!("CLIENT TRACKING {options} => {expected}"));
    }
}

#[test]
fn a_blocked_command_keeps_its_caching_flag() {
    let fixture = Fixture::new();
    let (mut reader, mut writer) = (fixture.connect(), fixture.connect());
    reader.session.speak_resp3();
    reader.check(
        "CLIENT TRACKING ON OPTIN => OK
         CLIENT CACHING YES => OK",
    );
    assert_eq!(reader.bytes(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]), b"");
    writer.check("XADD s 1 a 1 => 1-0");
    assert!(!reader.mail().is_empty());
    writer.check("XADD s 2 a 1 => 2-0");
    assert!(String::from_utf8(reader.mail()).unwrap().contains("invalidate"));
}

#[test]
fn a_connection_is_shown_after_exec() {
    let fixture = Fixture::new();
    let (mut connection, mut other) = (fixture.connect(), fixture.connect());
    connection.check(
        "MULTI => OK
         GET a => QUEUED
         INCR a => QUEUED
         EXEC => [nil 1]",
    );
    let list = run(&mut other, &["CLIENT", "LIST", "ID", "1"]);
    assert!(list.contains(" cmd=exec "), "{list}");
    other.check(
        "CLIENT KILL MAXAGE 0 => !ERR maxage should be greater than 0
         CLIENT KILL MAXAGE x => !ERR maxage is not an integer or out of range",
    );
}

fn info_of(connection: &mut Connection, section: &str, name: &str) -> String {
    let info = run(connection, &["INFO", section]);
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name} in {info}")).to_owned()
}

#[test]
fn info_counts_who_waits_watches_and_was_denied() {
    let fixture = Fixture::new();
    let mut admin = fixture.connect();
    let mut other_clients: Vec<Connection> = (0..5).map(|_| fixture.connect()).collect();
    admin.check(
        "XGROUP CREATE s g $ MKSTREAM => OK
         ACL SETUSER limited on >secret ~mine &mine +get +set +publish => OK",
    );
    other_clients[0].bytes(&["BLPOP", "other", "0"]);
    other_clients[1].bytes(&["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"]);
    other_clients[2].check("WATCH a b => OK");
    other_clients[4].check("WATCH b c => OK");
    other_clients[3].check(
        "AUTH limited wrong => !WRONGPASS invalid username-password pair or user is disabled.
         AUTH limited secret => OK",
    );
    for words in [
        &["DEL", "mine"][..],
        &["GET", "yours"],
        &["SET", "yours", "1"],
        &["PUBLISH", "yours", "1"],
    ] {
        assert!(run(&mut other_clients[3], words).starts_with("!NOPERM"));
    }
    for (section, name, expected) in [
        ("clients", "blocked_clients", "2"),
        ("clients", "watching_clients", "2"),
        ("clients", "total_watched_keys", "3"),
        ("clients", "pubsub_clients", "0"),
        ("clients", "total_blocking_keys", "2"),
        ("clients", "total_blocking_keys_on_nokey", "1"),
        ("stats", "acl_access_denied_auth", "1"),
        ("stats", "acl_access_denied_cmd", "1"),
        ("stats", "acl_access_denied_key", "2"),
        ("stats", "acl_access_denied_channel", "1"),
    ] {
        assert_eq!(info_of(&mut admin, section, name), expected, "{name}");
    }
    admin.check("CONFIG RESETSTAT => OK");
    assert_eq!(info_of(&mut admin, "stats", "acl_access_denied_key"), "0");
}

#[test]
fn lists_of_connections_are_filtered() {
    let fixture = Fixture::new();
    let (mut admin, mut other, mut listener) = (fixture.connect(), fixture.connect(), fixture.connect());
    admin.check("ACL SETUSER somebody on >secret +@all => OK");
    other.check(
        "AUTH somebody secret => OK
         SELECT 3 => OK
         CLIENT SETNAME worker => OK
         CLIENT SETINFO lib-name library => OK
         CLIENT CAPA redirect unknown => OK
         MULTI => OK",
    );
    listener.bytes(&["SUBSCRIBE", "channel"]);
    fixture.advance_ms(10_000);
    admin.check("PING => PONG");
    let mut ids = |words: &str| -> String {
        let words: Vec<&str> = ["CLIENT", "LIST"].into_iter().chain(words.split_whitespace()).collect();
        let list = run(&mut admin, &words);
        if list.starts_with('!') {
            return list;
        }
        let ids = list.lines().map(|line| line["id=".len()..].split(' ').next().unwrap());
        ids.collect::<Vec<_>>().join(" ")
    };
    for (words, expected) in [
        ("", "1 2 3"),
        ("SKIPME yes", "2 3"),
        ("USER somebody", "2"),
        ("NOT-USER somebody", "1 3"),
        ("DB 3", "2"),
        ("NAME worker LIB-NAME library", "2"),
        ("NAME worker LIB-NAME another", ""),
        ("CAPA r", "2"),
        ("FLAGS x", "2"),
        ("TYPE pubsub", "3"),
        ("NOT-TYPE pubsub NOT-ID 1", "2"),
        ("ID 1 3 NOT-FLAGS P", "1"),
        ("ID 3 1 3", "3 1 3"),
        ("IDLE 5", "2 3"),
        ("IP 127.0.0.1 LADDR 127.0.0.1:2", "1 2 3"),
        ("ADDR 127.0.0.1:9", ""),
        ("ID", "!ERR syntax error"),
        ("ID x", "!ERR Invalid client ID"),
        ("TYPE none", "!ERR Unknown client type 'none'"),
        ("SKIPME maybe", "!ERR syntax error"),
        ("DB 16", "!ERR DB number should be between 0 and 15"),
    ] {
        assert_eq!(ids(words), expected, "{words}");
    }
    admin.check("CLIENT KILL ID 2 3 NOT-TYPE pubsub => 1");
}
