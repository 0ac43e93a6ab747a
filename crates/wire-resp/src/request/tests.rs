use proptest::prelude::*;

use super::*;
use crate::encode_command;

/// Parses `input` as a stream of requests and describes the outcome, one line each.
fn outcome(input: &[u8], limits: &Limits) -> String {
    let (mut args, mut remaining, mut lines) = (Args::new(), input, Vec::new());
    loop {
        match parse(remaining, limits, &mut args) {
            Ok(Parsed::Request { consumed }) => {
                lines.push(format!("{:?}", args.of(remaining)));
                remaining = &remaining[consumed..];
            }
            Ok(Parsed::Nothing { consumed }) => {
                lines.push("nothing".to_owned());
                remaining = &remaining[consumed..];
            }
            Ok(Parsed::Incomplete { .. }) if remaining.is_empty() => return lines.join("\n"),
            Ok(Parsed::Incomplete { needed_hint }) => {
                lines.push(format!("incomplete {needed_hint}"));
                return lines.join("\n");
            }
            Err(error) => {
                lines.push(error.to_string());
                return lines.join("\n");
            }
        }
    }
}

fn check(input: impl AsRef<[u8]>, expected: &str) {
    let input = input.as_ref();
    assert_eq!(
        outcome(input, &Limits::default()),
        expected,
        "for {}",
        input.escape_ascii()
    );
}

/// The requests of a stream that arrives in the given pieces, through one `Parser`.
fn requests_in_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
    let (mut parser, mut buffer, mut requests) = (Parser::new(), Vec::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let mut start = 0;
        loop {
            match parser.parse(&buffer[start..], &Limits::default())? {
                Parsed::Request { consumed } => {
                    requests.push(parser.arguments(&buffer[start..]).iter().map(<[u8]>::to_vec).collect());
                    start += consumed;
                }
                Parsed::Nothing { consumed } => start += consumed,
                Parsed::Incomplete { needed_hint } => {
                    assert!(needed_hint > 0);
                    break;
                }
            }
        }
        buffer.drain(..start);
    }
    Ok(requests)
}

#[test]
fn arrays_of_bulk_strings() {
    check("*1\r\n$4\r\nPING\r\n", r#"["PING"]"#);
    check("*2\r\n$3\r\nGET\r\n$0\r\n\r\n", r#"["GET", ""]"#);
    check("*1\r\n$2\r\n\r\n\r\n*1\r\n$1\r\nx\r\n", "[\"\\\\r\\\\n\"]\n[\"x\"]");
    check("*0\r\n", "nothing");
    check("*-1\r\n*-12\r\n*1\r\n$1\r\nx\r\n", "nothing\nnothing\n[\"x\"]");
}

#[test]
fn hints_how_much_is_missing() {
    check("", "");
    check("*", "incomplete 1");
    check("*1\r", "incomplete 1");
    check("*1\r\n", "incomplete 1");
    check("*1\r\n$5\r\nab", "incomplete 5");
    check("*1\r\n$100000000\r\n", "incomplete 100000002");
    check("*1\r\n$5\r\nabcde\r", "incomplete 1");
    check("PING\r", "incomplete 1");
}

#[test]
fn counts_are_read_strictly() {
    for count in [
        "",
        " 1",
        "+1",
        "01",
        "00",
        "-0",
        "-",
        "1 ",
        "1x",
        "2147483648",
        "9223372036854775807",
    ] {
        check(format!("*{count}\r\n"), "Protocol error: invalid multibulk length");
    }
    for count in [
        "9223372036854775808",
        "18446744073709551616",
        "-9223372036854775809",
        "99999999999999999999999999",
    ] {
        check(format!("*{count}\r\n"), "Protocol error: invalid multibulk length");
    }
    check("*-9223372036854775808\r\n", "nothing");
    check("*2147483647\r\n", "incomplete 1");
}

#[test]
fn lengths_are_read_strictly() {
    for length in [
        "",
        " 5",
        "+5",
        "05",
        "-1",
        "-0",
        "5 ",
        "five",
        "536870913",
        "9223372036854775807",
    ] {
        check(
            format!("*1\r\n${length}\r\nhello\r\n"),
            "Protocol error: invalid bulk length",
        );
    }
    for length in [
        "9223372036854775808",
        "18446744073709551616",
        "-9223372036854775808",
        "4294967296",
    ] {
        check(
            format!("*1\r\n${length}\r\nhello\r\n"),
            "Protocol error: invalid bulk length",
        );
    }
    check("*1\r\n$536870912\r\n", "incomplete 536870914");
    check(
        "*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n",
        "Protocol error: expected '$', got 'f'",
    );
    check("*1\r\n\r\n", "Protocol error: expected '$', got '\r'");
}

#[test]
fn an_unlimited_limit_does_not_overflow() {
    let limits = Limits {
        bulk_bytes_max: usize::MAX,
        elements_max: usize::MAX,
        ..Limits::default()
    };
    let input = b"*9223372036854775807\r\n$9223372036854775807\r\nx";
    assert!(outcome(input, &limits).starts_with("incomplete"));
}

#[test]
fn endless_lines_are_refused() {
    let long = "1".repeat(64 * 1024);
    check(format!("*{long}"), "Protocol error: too big mbulk count string");
    check(format!("*1\r\n${long}"), "Protocol error: too big bulk count string");
    check(format!("{long}x"), "Protocol error: too big inline request");
    check(format!("{long}x\n"), "Protocol error: too big inline request");
    check(&long, "incomplete 1");
    check(format!("{long}\n"), &format!("[\"{long}\"]"));
    check(
        [b"\0".as_slice(), long.as_bytes()].concat(),
        "Protocol error: too big inline request",
    );
}

#[test]
fn unauthenticated_peers_get_little() {
    let check =
        |input: &str, expected: &str| assert_eq!(outcome(input.as_bytes(), &Limits::unauthenticated()), expected);
    check("*10\r\n", "incomplete 1");
    check("*11\r\n", "Protocol error: unauthenticated multibulk length");
    check("*2147483648\r\n", "Protocol error: invalid multibulk length");
    check("*1\r\n$16384\r\n", "incomplete 16386");
    check("*1\r\n$16385\r\n", "Protocol error: unauthenticated bulk length");
    check("*1\r\n$536870913\r\n", "Protocol error: invalid bulk length");
}

#[test]
fn inline_lines() {
    check("PING\r\n", r#"["PING"]"#);
    check("PING\n", r#"["PING"]"#);
    check("\r\n\n  \t\r\n", "nothing\nnothing\nnothing");
    check("  SET  k\tv \r\n", r#"["SET", "k", "v"]"#);
    check(
        "*1\r\n$4\r\nPING\r\nECHO x\r\n*1\r\n$4\r\nQUIT\r\n",
        "[\"PING\"]\n[\"ECHO\", \"x\"]\n[\"QUIT\"]",
    );
    check("a\x0bb \x0bc\n", r#"["a\\x0bb", "c"]"#);
    check("$4\r\n", r#"["$4"]"#);
}

#[test]
fn inline_quotes() {
    check(r#"ECHO "a b""#.to_owned() + "\r\n", r#"["ECHO", "a b"]"#);
    check(
        r#""\x41\n\r\t\b\a\\\"\q\xg1""#.to_owned() + "\n",
        r#"["A\\n\\r\\t\\x08\\x07\\\\\\\"qxg1"]"#,
    );
    check(r"'it\'s' '\n' ''".to_owned() + "\n", r#"["it\\'s", "\\\\n", ""]"#);
    check("pre\"fix\" \"\"\n", r#"["prefix", ""]"#);
    for line in [
        "\"",
        "'",
        "\"a",
        "'a",
        "\"a\"b",
        "'a'b",
        "\"a\\",
        "\"a\\\"",
        "a\"b\"\"c\"",
    ] {
        check(format!("{line}\r\n"), "Protocol error: unbalanced quotes in request");
    }
}

#[test]
fn every_split_gives_the_same_requests() {
    let stream =
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nva\r\nl\r\n*0\r\nPING\r\n\r\nECHO \"a\\x41 b\"\n*-1\r\n*2\r\n$12\r\n\
        0123456789ab\r\n$0\r\n\r\nGET k\n*1\r\n$4\r\nQUIT\r\n";
    let whole = requests_in_pieces([&stream[..]]).unwrap();
    assert_eq!(whole.len(), 6);
    for first in 0..stream.len() {
        for second in first..stream.len() {
            let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
            assert_eq!(
                requests_in_pieces(pieces).unwrap(),
                whole,
                "cut at {first} and {second}"
            );
        }
    }
    assert_eq!(requests_in_pieces(stream.chunks(1)).unwrap(), whole);
}

/// Work per piece must not grow with the bytes that arrived before. Otherwise the first of these
/// would take minutes.
#[test]
fn large_requests_in_small_pieces_are_linear() {
    let arguments = vec!["x"; 500_000];
    let mut stream = Vec::new();
    encode_command(&arguments, &mut stream);
    let requests = requests_in_pieces(stream.chunks(128)).unwrap();
    assert_eq!(requests[0].len(), 500_000);

    let mut stream = Vec::new();
    encode_command(&[vec![7u8; 20_000_000]], &mut stream);
    assert_eq!(requests_in_pieces(stream.chunks(1024)).unwrap()[0][0].len(), 20_000_000);
}

#[test]
fn an_announced_length_allocates_nothing() {
    let mut parser = Parser::new();
    parser.parse(b"*1048576\r\n$536870912\r\n", &Limits::default()).unwrap();
    assert!(!parser.args.spans.spilled());
    assert_eq!(parser.args.scratch.capacity(), 0);
}

#[test]
fn memory_of_a_large_request_is_given_back() {
    let (mut args, mut stream) = (Args::new(), Vec::new());
    encode_command(&vec!["x"; 5000], &mut stream);
    parse(&stream, &Limits::default(), &mut args).unwrap();
    parse(b"PING\r\n", &Limits::default(), &mut args).unwrap();
    assert!(!args.spans.spilled());
}

#[test]
fn arguments_index_and_tail() {
    let (input, mut args) = (b"a b c\n", Args::new());
    parse(input, &Limits::default(), &mut args).unwrap();
    let arguments = args.of(input);
    assert_eq!((&arguments[1], arguments.get(3), arguments.len()), (&b"b"[..], None, 3));
    assert_eq!(format!("{:?}", arguments.tail(1)), r#"["b", "c"]"#);
    assert!(arguments.tail(4).is_empty());
}

proptest! {
    #[test]
    fn encoded_commands_parse_back(
        commands in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..20), 1..8),
        piece_bytes in 1usize..64,
    ) {
        let mut stream = Vec::new();
        commands.iter().for_each(|command| encode_command(command, &mut stream));
        prop_assert_eq!(requests_in_pieces(stream.chunks(piece_bytes)).unwrap(), commands);
    }

    #[test]
    fn random_bytes_mean_the_same_in_any_pieces(
        bytes in prop::collection::vec(prop::sample::select(&b"*$0123-\r\n \"'\\xaP\0\xff"[..]), 0..60),
        piece_bytes in 1usize..8,
    ) {
        prop_assert_eq!(requests_in_pieces([&bytes[..]]), requests_in_pieces(bytes.chunks(piece_bytes)));
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        outcome(&bytes, &Limits::default());
        outcome(&[b"*1\r\n$".as_slice(), &bytes].concat(), &Limits::unauthenticated());
    }
}

/// A request of more than 1,048,576 words was refused, as by Redis before 7.0. The caller that
/// bounds the request sees the memory of its words, and an announced count by itself takes none.
#[test]
fn words_take_memory_as_they_arrive() {
    let mut parser = Parser::new();
    parser.parse(b"*2147483647\r\n$0\r\n\r\n", &Limits::default()).unwrap();
    assert_eq!(parser.words_bytes(), 0);
    let words = 1_100_000;
    let mut input = b"*1100000\r\n".to_vec();
    for _ in 0..words {
        input.extend_from_slice(b"$0\r\n\r\n");
    }
    let mut parser = Parser::new();
    let half = input.len() / 2;
    let limits = Limits::default();
    assert!(matches!(
        parser.parse(&input[..half], &limits),
        Ok(Parsed::Incomplete { .. })
    ));
    let arrived = words / 2;
    assert!((arrived * 16..arrived * 40).contains(&parser.words_bytes()));
    let consumed = input.len();
    assert_eq!(parser.parse(&input, &limits), Ok(Parsed::Request { consumed }));
    assert_eq!(parser.arguments(&input).len(), words);
}
