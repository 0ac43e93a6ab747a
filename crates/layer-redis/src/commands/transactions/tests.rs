//! MULTI and WATCH after every end of EXEC.
//!
//! EXEC at a deposed home left its queue: the client received a reply that nothing was executed and
//! sent the transaction again, and both were executed together. MULTI was refused there, so the
//! commands after it ran one by one. Now the rule is at the end of a command: any reply to EXEC
//! ends MULTI and WATCH, unless EXEC runs again.

use std::sync::atomic::Ordering;

use quartet_model::DatabaseId;

use crate::testing::{Connection, Fixture, show};

const DATABASE: DatabaseId = DatabaseId(1);
const NO_HOME: &str = "!EXECABORT Transaction discarded because of: MASTERDOWN Link with MASTER is down and \
                       replica-serve-stale-data is set to 'no'.";

/// One way in which EXEC ends.
struct End {
    name: &'static str,
    /// Requests between WATCH and EXEC; the other client's begin with `*`.
    before: &'static str,
    exec: &'static str,
    expected: &'static str,
    /// The node is home when EXEC arrives.
    is_home: bool,
}

const fn end(name: &'static str, before: &'static str, expected: &'static str) -> End {
    End {
        name,
        before,
        exec: "EXEC",
        expected,
        is_home: true,
    }
}

const ENDS: &[End] = &[
    end("executed", "MULTI\nSET a 1\nINCR a", "[OK 2]"),
    end("executed without a command", "MULTI", "[]"),
    end("executed reads alone", "UNWATCH\nMULTI\nGET none", "[nil]"),
    end(
        "a command's own error",
        "MULTI\nSET a x\nINCR a",
        "[OK !ERR value is not an integer or out of range]",
    ),
    end("a watched key was written", "*SET k other\nMULTI\nSET a 1", "nil"),
    end(
        "a command was refused",
        "MULTI\nNOSUCH",
        "!EXECABORT Transaction discarded because of previous errors.",
    ),
    end(
        "both, which the refusal answers",
        "*SET k other\nMULTI\nSET a",
        "!EXECABORT Transaction discarded because of previous errors.",
    ),
    End {
        exec: "EXEC now",
        ..end(
            "a wrong number of words",
            "MULTI\nSET a 1",
            "!EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command",
        )
    },
    End {
        is_home: false,
        ..end("no longer home", "MULTI\nSET a 1", NO_HOME)
    },
    End {
        is_home: false,
        ..end("no longer home, of reads", "UNWATCH\nMULTI\nGET a", NO_HOME)
    },
    End {
        is_home: false,
        ..end("no longer home, and refused", "MULTI\nNOSUCH", NO_HOME)
    },
    end(
        "without the right any more",
        "MULTI\nSET a 1\n*ACL SETUSER default -set",
        "[!NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
         is no longer allowed for the following reason: no permission to execute the command or subcommand]",
    ),
];

/// The reply to a line, or none if it only blocks.
fn ask(connection: &mut Connection, line: &str) -> String {
    show(&connection.run(&line.split(' ').collect::<Vec<_>>()))
}

fn check(end: &End) {
    let fixture = Fixture::new();
    let (mut connection, mut other) = (fixture.connect(), fixture.connect());
    connection.check("WATCH k w => OK");
    for line in end.before.lines() {
        match line.strip_prefix('*') {
            Some(line) => ask(&mut other, line),
            None => ask(&mut connection, line),
        };
    }
    let engine = &fixture.layer.engine;
    if !end.is_home {
        engine.fence(DATABASE).unwrap();
    }
    assert_eq!(ask(&mut connection, end.exec), end.expected, "{}", end.name);
    check_it_is_over(&mut connection, end.name);
    engine.unfence(DATABASE);
    ask(&mut other, "ACL SETUSER default +@all");
    // A second EXEC has nothing to execute; a key that was watched may be written.
    assert_eq!(ask(&mut connection, "EXEC"), "!ERR EXEC without MULTI", "{}", end.name);
    for (by, line, expected) in [
        (true, "DEL w a b", None),
        (true, "SET w 1", Some("OK")),
        (false, "MULTI", Some("OK")),
        (false, "SET b 1", Some("QUEUED")),
        (false, "EXEC", Some("[OK]")),
        (false, "EXISTS a", Some("0")),
    ] {
        let reply = ask(if by { &mut other } else { &mut connection }, line);
        assert!(
            expected.is_none_or(|expected| reply == expected),
            "{}: {line}: {reply}",
            end.name
        );
    }
}

/// As other connections see it.
fn check_it_is_over(connection: &mut Connection, name: &str) {
    let shared = connection.session.client();
    assert_eq!(shared.multi.load(Ordering::Relaxed), 0, "{name}");
    assert_eq!(shared.buffers.queue.load(Ordering::Relaxed), 0, "{name}");
    assert!(shared.watched_keys.lock().is_empty(), "{name}");
}

#[test]
fn every_end_of_exec_ends_multi_and_watch() {
    for end in ENDS {
        check(end);
    }
}

/// EXEC without MULTI, and MULTI or WATCH within it, end nothing.
#[test]
fn an_exec_that_was_none_leaves_the_watches() {
    let fixture = Fixture::new();
    let (mut connection, mut other) = (fixture.connect(), fixture.connect());
    connection.check(
        "WATCH k => OK
         EXEC => !ERR EXEC without MULTI
         DISCARD => !ERR DISCARD without MULTI",
    );
    other.check("SET k 1 => OK");
    connection.check(
        "MULTI => OK
         MULTI => !ERR MULTI calls can not be nested
         WATCH k => !ERR WATCH inside MULTI is not allowed
         SET a 1 => QUEUED
         EXEC => nil",
    );
}

/// The commands of a pipeline between MULTI and EXEC stay together where no transaction can run.
#[test]
fn multi_starts_and_discard_ends_where_no_node_is_home() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    connection.check("SET k 1 => OK\nWATCH k => OK");
    let engine = fixture.layer.engine.clone();
    engine.fence(DATABASE).unwrap();
    connection.check(
        "MULTI => OK
         MULTI => !ERR MULTI calls can not be nested
         SET a 1 => QUEUED
         DISCARD => OK
         DISCARD => !ERR DISCARD without MULTI
         EXEC => !ERR EXEC without MULTI
         MULTI => OK
         SET a 1 => QUEUED",
    );
    engine.unfence(DATABASE);
    connection.check("EXEC => [OK]\nDEL a => 1");
    // A key that is watched meanwhile counts as changed; UNWATCH forgets it.
    engine.fence(DATABASE).unwrap();
    connection.check("WATCH k => OK");
    engine.unfence(DATABASE);
    connection.check("MULTI => OK\nSET a 1 => QUEUED\nEXEC => nil\nEXISTS a => 0");
    engine.fence(DATABASE).unwrap();
    connection.check("WATCH k => OK\nUNWATCH => OK");
    engine.unfence(DATABASE);
    connection.check("MULTI => OK\nSET a 1 => QUEUED\nEXEC => [OK]");
}
