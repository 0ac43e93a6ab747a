//! No way around the rules: every command, every argument that is a key, every kind of pattern.

use std::collections::BTreeSet;

use quartet_wire_resp::{Limits, Parsed, Parser, encode_command};

use super::{Denial, Users, rules::Rules};
use crate::command::key_flags::{Access, access};
use crate::command::{Command, Keys};
use crate::testing::{Connection, Fixture, show};

/// Requests with real arguments; the part after the arrow is not used here.
const REQUESTS: &str = include_str!("../../../../../tests/redis/testdata/notifications.events");

/// For commands whose keys' places depend on the other arguments.
const MORE_REQUESTS: &str = "\
XREAD COUNT 1 STREAMS a b 0 0
XREADGROUP GROUP g c STREAMS a b > >
MSETEX 2 a 1 b 2 EX 10
";

fn requests() -> Vec<Vec<String>> {
    let lines = REQUESTS.lines().chain(MORE_REQUESTS.lines());
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '@']));
    let commands = lines.map(|line| line.split(" =>").next().unwrap_or_default());
    commands
        .map(|command| {
            command
                .split_whitespace()
                .map(|word| word.trim_matches('"').to_owned())
                .collect()
        })
        .filter(|words: &Vec<String>| !["MULTI", "EXEC"].contains(&words[0].as_str()))
        .collect()
}

/// The rules' view of a request: its command, the positions of its keys, and the access it needs of
/// each.
fn keys_of(words: &[String]) -> (&'static Command, Vec<(usize, Access)>) {
    with_arguments(words, |command, arguments| {
        let positions = command.keys.positions(arguments).into_iter().enumerate();
        let keys = positions.map(|(index, position)| (position, access(command, arguments, index)));
        (command, keys.collect())
    })
}

fn with_arguments<R>(
    words: &[String],
    body: impl FnOnce(&'static Command, quartet_wire_resp::Arguments<'_>) -> R,
) -> R {
    let mut request = Vec::new();
    encode_command(words, &mut request);
    let mut parser = Parser::new();
    let parsed = parser.parse(&request, &Limits::unlimited()).unwrap();
    assert!(matches!(parsed, Parsed::Request { .. }));
    let arguments = parser.arguments(&request);
    body(
        crate::commands::table()
            .find_of(arguments)
            .unwrap_or_else(|_| panic!("{words:?}")),
        arguments,
    )
}

fn check(rules: &[&str], words: &[String]) -> Result<(), Denial> {
    let modifiers: Vec<&[u8]> = rules.iter().map(|rule| rule.as_bytes()).collect();
    let rules = Rules::new(crate::commands::table(), false)
        .changed(&modifiers, false)
        .unwrap();
    with_arguments(words, |command, arguments| rules.check(command, arguments))
}

/// A request of every command with keys: each argument a name of its own, counts and other numbers
/// as the keys' rule wants.
fn request_of(command: &Command) -> Vec<String> {
    let mut words: Vec<String> = command.name.split('|').map(str::to_owned).collect();
    let wanted = command.arity.unsigned_abs() as usize + usize::from(command.arity < 0) * 2;
    while words.len() < wanted {
        words.push(format!("key{}", words.len()));
    }
    if let Keys::Counted { count, .. } = command.keys {
        words.truncate(count.max(words.len().min(count)));
        while words.len() < count {
            words.push(format!("key{}", words.len()));
        }
        words.extend(["2".into(), "first".into(), "second".into(), "MIN".into()]);
    }
    words
}

#[test]
fn every_key_of_every_command_is_checked() {
    let commands = (0..crate::commands::table().size()).map(|index| crate::commands::table().at(index));
    let generated = commands
        .filter(|command| !matches!(command.keys, Keys::None | Keys::Channels { .. }))
        .map(request_of);
    let mut judged = BTreeSet::new();
    for words in generated.chain(requests()) {
        let (command, keys) = keys_of(&words);
        for (position, needed) in &keys {
            judged.insert(command.name);
            let pattern = |at: usize| format!("~{}", words[at]);
            let all: Vec<String> = keys.iter().map(|(at, _)| pattern(*at)).collect();
            let other_keys: Vec<String> = all
                .iter()
                .filter(|other| **other != pattern(*position))
                .cloned()
                .collect();
            let with = |patterns: &[String], more: &[&str]| {
                let mut rules: Vec<&str> = vec!["+@all"];
                rules.extend(patterns.iter().map(String::as_str));
                rules.extend(more);
                check(&rules, &words)
            };
            assert_eq!(with(&all, &[]), Ok(()), "{words:?}");
            assert!(
                matches!(with(&other_keys, &[]), Err(Denial::Key(_))),
                "{words:?} {position}"
            );
            let reads = with(&other_keys, &[&format!("%R~{}", words[*position])]);
            let writes = with(&other_keys, &[&format!("%W~{}", words[*position])]);
            let same = keys.iter().filter(|(at, _)| words[*at] == words[*position]);
            let needed = same.fold(*needed, |needed, (_, other)| needed.with(*other));
            assert_eq!(reads.is_ok(), !needed.writes, "{words:?} {position}");
            assert_eq!(writes.is_ok(), !needed.reads, "{words:?} {position}");
        }
    }
    let with_keys = crate::commands::table()
        .commands()
        .filter(|command| !matches!(command.keys, Keys::None | Keys::Channels { .. }));
    for command in with_keys {
        assert!(judged.contains(command.name), "{} has no request", command.name);
    }
}

fn run(connection: &mut Connection, words: &[String]) -> String {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let bytes = connection.bytes(&words);
    match quartet_wire_resp::decode(&bytes).unwrap() {
        Some((value, _)) => show(&value),
        None => "(waits)".into(),
    }
}

/// A command that wrote a key which its row in the table does not name would be a way around.
#[test]
fn written_keys_are_among_the_commands_keys() {
    let fixture = Fixture::new();
    let mut connection = fixture.connect();
    let tables = ["FLUSHALL", "FLUSHDB", "SWAPDB"];
    for words in requests().iter().filter(|words| !tables.contains(&words[0].as_str())) {
        let (_, keys) = keys_of(words);
        let names: BTreeSet<&[u8]> = keys.iter().map(|(position, _)| words[*position].as_bytes()).collect();
        for change in changes_of(&fixture, &mut connection, words) {
            assert!(
                names.contains(change.as_slice()),
                "{words:?} wrote {:?}",
                String::from_utf8_lossy(&change)
            );
        }
    }
}

/// The names that a request changes, as a connection that tracks everything sees them.
fn changes_of(fixture: &Fixture, connection: &mut Connection, words: &[String]) -> Vec<Vec<u8>> {
    let mut tracker = fixture.connect();
    tracker.session.speak_resp3();
    tracker.check("CLIENT TRACKING ON BCAST => OK");
    run(connection, words);
    let bytes = tracker.mail();
    tracker.session.close();
    let Some((quartet_wire_resp::Value::Push(parts), _)) = quartet_wire_resp::decode(&bytes).unwrap() else {
        return Vec::new();
    };
    match &parts[1] {
        quartet_wire_resp::Value::Array(names) => names.iter().map(|name| show(name).into_bytes()).collect(),
        _ => Vec::new(),
    }
}

/// The rules apply to the request itself, inside EXEC, and when a blocking command is called again.
#[test]
fn the_rules_hold_in_every_context_of_a_command() {
    let fixture = Fixture::new();
    let (mut admin, mut user) = (fixture.connect(), fixture.connect());
    admin.check("ACL SETUSER u on nopass ~k* +@all => OK");
    user.check(
        "AUTH u x => OK
         SET x 1 => !NOPERM this user has no permissions to access one of the keys used as arguments
         MULTI => OK
         SET k 1 => QUEUED",
    );
    admin.check("ACL SETUSER u resetkeys ~list => OK");
    let reply = run(&mut user, &["EXEC".into()]);
    assert!(reply.starts_with("[!NOPERM ACLs rules changed"), "{reply}");
    assert_eq!(run(&mut user, &["BLPOP".into(), "list".into(), "0".into()]), "(waits)");
    admin.check("ACL SETUSER u resetkeys => OK\nRPUSH list 1 => 1\nLLEN list => 1");
    let mail = String::from_utf8(user.mail()).unwrap();
    assert!(mail.starts_with("-NOPERM"), "{mail}");
}

/// The rules of these words, which a file gives back the same.
fn saved(words: &[&str]) -> Rules {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let rules = Rules::new(crate::commands::table(), false)
        .changed(&words, false)
        .unwrap();
    let line = String::from_utf8(rules.line(b"u")).unwrap();
    let mut read = super::parse_file(crate::commands::table(), &line, true).unwrap();
    assert_eq!(read.remove(b"u".as_slice()).as_ref(), Some(&rules), "{line}");
    assert!(read.is_empty(), "{line}");
    rules
}

#[test]
fn a_saved_user_is_the_same_when_read() {
    let modifiers = "on >a >b ~x* %R~y %W~z &c* +@all -@dangerous +client|id +select|0 (+get ~q) (+@read %R~*)";
    saved(&modifiers.split(' ').collect::<Vec<_>>());
    assert!(super::parse_file(crate::commands::table(), "user a on\nuser a on", false).is_err());
    assert!(super::parse_file(crate::commands::table(), "nonsense", false).is_err());
}

/// A line of the file was split at every Unicode white space, and first arguments were not checked:
/// a pattern became two rules, and a first argument with a line end a user of its own. A selector
/// ended at a pattern's parenthesis, and `%RW~*` was read as every key, after which further
/// patterns are refused.
#[test]
fn no_word_of_a_saved_user_is_taken_for_another() {
    saved(&["~a\u{a0}+@all", "~b\u{b}+@all", "&c\u{2028}on", "+select|A"]);
    saved(&["+select|1", "+select|0", "+select|1"]);
    saved(&["+@read", "-get", "+@read"]);
    saved(&["%R~*", "%W~*", "~further"]);
    let refused = |word: &[u8]| {
        Rules::new(crate::commands::table(), false)
            .changed(&[word], false)
            .is_err()
    };
    for word in [
        b"+select|0\nuser evil on nopass +@all".as_slice(),
        b"+select|0 +@all",
        b"+select|\xff",
        b"(~a))",
        b"(~a) +get)",
    ] {
        assert!(refused(word), "{word:?}");
    }
}

/// First arguments outlived a category that took their command away, and were shown nowhere.
#[test]
fn a_category_takes_first_arguments_away_too() {
    let select: Vec<String> = ["select", "0"].map(str::to_owned).to_vec();
    assert_eq!(check(&["+select|0"], &select), Ok(()));
    assert_eq!(check(&["+select|0", "-@connection"], &select), Err(Denial::Command));
    assert_eq!(
        check(&["+@all", "+select|0", "-@connection"], &select),
        Err(Denial::Command)
    );
    saved(&["+@all", "+select|0", "-@connection"]);
}

/// A tenant with a megabyte made 26,000 users of ten patterns: they counted nowhere.
#[test]
fn users_count_by_what_they_hold() {
    let users = Users::new(crate::commands::table());
    let rules = |pattern: &str| {
        let none = Rules::new(crate::commands::table(), false);
        none.changed(&[pattern.as_bytes()], false).unwrap()
    };
    let long = format!("~{}", "p".repeat(10_000));
    users.set(b"first", rules(&long));
    let single_bytes = users.bytes();
    assert!((10_000..13_000).contains(&single_bytes), "{single_bytes}");
    users.set(b"second", rules(&long));
    assert!(users.bytes() > 2 * single_bytes - 500, "{}", users.bytes());
    users.set(b"second", rules("~p"));
    assert!(users.bytes() < single_bytes + 3_000, "{}", users.bytes());
    users.remove(b"first");
    users.remove(b"second");
    assert!(users.bytes() < 3_000, "{}", users.bytes());
}
