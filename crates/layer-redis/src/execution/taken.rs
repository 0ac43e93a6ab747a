//! Commands that take elements from a key, in the form for replicas: the taken elements, which the
//! reply names, regardless of the remaining ones.

use quartet_wire_resp::{Arguments, Value, decode};

use crate::command::parse;

/// The command that does to `name` what `command` did. `None` if the reply does not say it.
pub fn as_taken(command: &str, arguments: Arguments<'_>, name: &[u8], reply: &[u8]) -> Option<Vec<Vec<u8>>> {
    let reply = decode(reply).ok()??.0;
    match command {
        "lmpop" | "zmpop" => counted(arguments.tail(1), name, reply),
        "blmpop" | "bzmpop" => counted(arguments.tail(2), name, reply),
        "spop" => removal(name, reply),
        _ => None,
    }
}

/// `arguments` start with the number of keys; the reply is a key, and its taken elements.
fn counted(arguments: Arguments<'_>, name: &[u8], reply: Value) -> Option<Vec<Vec<u8>>> {
    let keys = usize::try_from(parse::integer(arguments.get(0)?)?).ok()?;
    let side = arguments.get(keys.checked_add(1)?)?;
    let sides = [
        ("left", "LPOP"),
        ("right", "RPOP"),
        ("min", "ZPOPMIN"),
        ("max", "ZPOPMAX"),
    ];
    let (_, word) = sides.iter().find(|(end, _)| parse::is(side, end))?;
    match reply {
        Value::Array(parts) => match &parts[..] {
            [_, Value::Array(popped)] => Some(vec![
                word.as_bytes().into(),
                name.into(),
                popped.len().to_string().into(),
            ]),
            _ => None,
        },
        _ => None,
    }
}

fn removal(name: &[u8], reply: Value) -> Option<Vec<Vec<u8>>> {
    let members = match reply {
        Value::Array(members) | Value::Set(members) => members,
        member => vec![member],
    };
    let mut words: Vec<Vec<u8>> = vec![b"SREM".into(), name.into()];
    for member in members {
        match member {
            Value::Bulk(member) => words.push(member),
            _ => return None,
        }
    }
    Some(words)
}
