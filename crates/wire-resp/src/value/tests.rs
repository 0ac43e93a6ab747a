use proptest::prelude::*;

use super::*;
use crate::{Protocol, Reply};

/// Decodes one reply, and holds `skip` to the same verdict, and every shorter input to "more must
/// arrive".
fn check(input: impl AsRef<[u8]>, expected: Result<Option<Value>, DecodeError>) {
    let input = input.as_ref();
    let decoded = decode(input);
    assert_eq!(
        decoded.clone().map(|item| item.map(|(_, consumed)| consumed)),
        skip(input)
    );
    if let Ok(Some((_, consumed))) = &decoded {
        for end in 0..*consumed {
            assert_eq!(skip(&input[..end]), Ok(None), "for {}", input[..end].escape_ascii());
        }
    }
    assert_eq!(
        decoded.map(|item| item.map(|(value, _)| value)),
        expected,
        "for {}",
        input.escape_ascii()
    );
}

fn bulk(text: &str) -> Value {
    Value::Bulk(text.into())
}

#[test]
fn scalars() {
    check("+OK\r\n", Ok(Some(Value::Simple(b"OK".to_vec()))));
    check("-ERR x\r\n", Ok(Some(Value::Error(b"ERR x".to_vec()))));
    check("!5\r\nERR x\r\n", Ok(Some(Value::Error(b"ERR x".to_vec()))));
    check(":-9223372036854775808\r\n", Ok(Some(Value::Integer(i64::MIN))));
    check("$0\r\n\r\n", Ok(Some(bulk(""))));
    check("$2\r\n\r\n\r\n", Ok(Some(bulk("\r\n"))));
    check("$-1\r\n", Ok(Some(Value::Null)));
    check("_\r\n", Ok(Some(Value::Null)));
    check("*-1\r\n", Ok(Some(Value::NullArray)));
    check("#t\r\n", Ok(Some(Value::Boolean(true))));
    check(",1.5e+300\r\n", Ok(Some(Value::Double(1.5e300))));
    check(",-inf\r\n", Ok(Some(Value::Double(f64::NEG_INFINITY))));
    check("(-123\r\n", Ok(Some(Value::BigNumber(b"-123".to_vec()))));
    check(
        "=6\r\ntxt:ab\r\n",
        Ok(Some(Value::Verbatim {
            format: *b"txt",
            text: b"ab".to_vec(),
        })),
    );
}

#[test]
fn collections() {
    check(
        "*2\r\n:1\r\n$1\r\na\r\n",
        Ok(Some(Value::Array(vec![Value::Integer(1), bulk("a")]))),
    );
    check(
        "%1\r\n$1\r\na\r\n:1\r\n",
        Ok(Some(Value::Map(vec![(bulk("a"), Value::Integer(1))]))),
    );
    check("~1\r\n$1\r\na\r\n", Ok(Some(Value::Set(vec![bulk("a")]))));
    check(">1\r\n*0\r\n", Ok(Some(Value::Push(vec![Value::Array(vec![])]))));
    let attribute = Value::Attribute {
        pairs: vec![(bulk("a"), Value::Null)],
        reply: Box::new(Value::Integer(7)),
    };
    check("|1\r\n$1\r\na\r\n_\r\n:7\r\n", Ok(Some(attribute)));
}

#[test]
fn refused() {
    check("?\r\n", Err(DecodeError::UnknownType(b'?')));
    for input in [
        "$-2\r\n",
        "$+1\r\n",
        "$ 1\r\n",
        "$?\r\n",
        "$\r\n",
        "$9223372036854775808\r\n",
        "$1\r\nab\r\n",
    ] {
        check(input, Err(DecodeError::Malformed(b'$')));
    }
    for input in [
        "+a\rb",
        ":\r\n",
        ":1.5\r\n",
        "#x\r\n",
        ",infinity\r\n",
        ",\r\n",
        "(\r\n",
        "(1x\r\n",
        "=3\r\ntxt\r\n",
    ] {
        check(input, Err(DecodeError::Malformed(input.as_bytes()[0])));
    }
    check("~-1\r\n", Err(DecodeError::Malformed(b'~')));
}

#[test]
fn announced_lengths_only_wait() {
    for kind in ["$", "*", "%", "~", ">", "|", "!", "="] {
        check(format!("{kind}9223372036854775807\r\n"), Ok(None));
    }
}

#[test]
fn nesting_is_bounded() {
    check(
        "*1\r\n".repeat(DEPTH_MAX) + ":1\r\n",
        Ok(Some(
            (0..DEPTH_MAX).fold(Value::Integer(1), |v, _| Value::Array(vec![v])),
        )),
    );
    check("*1\r\n".repeat(DEPTH_MAX + 1), Err(DecodeError::TooDeep));
    check("|0\r\n".repeat(DEPTH_MAX + 1), Err(DecodeError::TooDeep));
}

fn any_value() -> impl Strategy<Value = Value> {
    let line = "[ -~]{0,12}".prop_map(String::into_bytes);
    let bytes = prop::collection::vec(any::<u8>(), 0..20);
    let leaf = prop_oneof![
        line.clone().prop_map(Value::Simple),
        line.prop_map(Value::Error),
        any::<i64>().prop_map(Value::Integer),
        bytes.clone().prop_map(Value::Bulk),
        Just(Value::Null),
        any::<f64>()
            .prop_filter("nan is unequal to itself", |value| !value.is_nan())
            .prop_map(Value::Double),
        any::<bool>().prop_map(Value::Boolean),
        "-?[0-9]{1,30}".prop_map(|digits| Value::BigNumber(digits.into_bytes())),
        bytes.prop_map(|text| Value::Verbatim { format: *b"mkd", text }),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let elements = prop::collection::vec(inner.clone(), 0..5);
        let pairs = prop::collection::vec((inner.clone(), inner.clone()), 0..4);
        prop_oneof![
            elements.clone().prop_map(Value::Array),
            elements.clone().prop_map(Value::Set),
            elements.prop_map(Value::Push),
            pairs.clone().prop_map(Value::Map),
            (pairs, inner).prop_map(|(pairs, reply)| Value::Attribute {
                pairs,
                reply: Box::new(reply)
            }),
        ]
    })
}

fn write(value: &Value, reply: &mut Reply) {
    match value {
        Value::Simple(text) => reply.simple(std::str::from_utf8(text).unwrap()),
        Value::Error(text) => reply.error(text),
        Value::Integer(value) => reply.integer(*value),
        Value::Bulk(bytes) => reply.bulk(bytes),
        Value::Null => reply.null(),
        Value::NullArray => reply.null_array(),
        Value::Double(value) => reply.double(*value),
        Value::Boolean(value) => reply.boolean(*value),
        Value::BigNumber(digits) => reply.big_number(std::str::from_utf8(digits).unwrap()),
        Value::Verbatim { format, text } => reply.verbatim(format, text),
        Value::Array(elements) => {
            reply.array(elements.len());
            elements.iter().for_each(|element| write(element, reply));
        }
        Value::Set(elements) => {
            reply.set(elements.len());
            elements.iter().for_each(|element| write(element, reply));
        }
        Value::Push(elements) => {
            reply.push(elements.len());
            elements.iter().for_each(|element| write(element, reply));
        }
        Value::Map(pairs) => {
            reply.map(pairs.len());
            write_pairs(pairs, reply);
        }
        Value::Attribute { pairs, reply: inner } => {
            if reply.attribute(pairs.len()) {
                write_pairs(pairs, reply);
            }
            write(inner, reply);
        }
    }
}

fn write_pairs(pairs: &[(Value, Value)], reply: &mut Reply) {
    for (key, value) in pairs {
        write(key, reply);
        write(value, reply);
    }
}

proptest! {
    #[test]
    fn replies_decode_back(value in any_value()) {
        let mut out = Vec::new();
        write(&value, &mut Reply::new(&mut out, Protocol::Resp3));
        prop_assert_eq!(skip(&out), Ok(Some(out.len())));
        prop_assert_eq!(decode(&out), Ok(Some((value.clone(), out.len()))));

        let mut out = Vec::new();
        write(&value, &mut Reply::new(&mut out, Protocol::Resp2));
        prop_assert_eq!(skip(&out), Ok(Some(out.len())));
    }

    #[test]
    fn decode_and_skip_agree_on_random_bytes(
        bytes in prop::collection::vec(prop::sample::select(&b"+-:$*_#,(!=%~>|0123tf\r\n.e"[..]), 0..60),
    ) {
        prop_assert_eq!(decode(&bytes).map(|found| found.map(|(_, consumed)| consumed)), skip(&bytes));
    }
}
