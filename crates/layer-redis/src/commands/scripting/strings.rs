//! The pattern functions of Lua's string library: what `prelude.lua` builds find, match, gmatch and
//! gsub from.

use std::rc::Rc;

use mlua::{IntoLua, Lua, MultiValue, Table, Value};

use super::arguments::{Arguments, define, located};
use super::budget::Budget;
use super::patterns::{Capture, Fault, Match, search};

/// Longest string that `string.rep` and `string.gsub` make.
pub const STRING_BYTES_MAX: usize = 128 << 20;

type Answer = mlua::Result<Result<MultiValue, String>>;

pub fn define_strings(lua: &Lua, native: &Table, budget: &Rc<Budget>) -> mlua::Result<()> {
    native.raw_set("string_bytes_max", STRING_BYTES_MAX)?;
    define(lua, native, "check_strings", |_, arguments| check_strings(&arguments))?;
    for (name, body) in [
        ("find", find as fn(&Arguments<'_>, &Budget) -> Answer),
        ("match", match_),
        ("step", step),
        ("search", search_from),
        ("gsub", gsub),
    ] {
        let budget = budget.clone();
        let function = lua.create_function(move |lua, values: MultiValue| {
            let outcome = body(&Arguments { name, lua, values }, &budget)?;
            located(outcome)
        })?;
        native.raw_set(name, function)?;
    }
    Ok(())
}

/// `check_strings(name, s, pattern)`: the first two arguments of the function `name`.
fn check_strings(arguments: &Arguments<'_>) -> Result<(), String> {
    let name = if arguments.string(0)?.as_bytes() == b"gsub" {
        "gsub"
    } else {
        "gmatch"
    };
    let values = arguments.values.iter().skip(1).cloned().collect();
    let lua = arguments.lua;
    let arguments = Arguments { name, lua, values };
    arguments.string(0)?;
    arguments.string(1)?;
    Ok(())
}

/// A search that ends with the budget. The outer error ends the script.
fn look(
    text: &[u8],
    pattern: &[u8],
    from: usize,
    anchors: bool,
    budget: &Budget,
) -> mlua::Result<Result<Option<Match>, String>> {
    match search(text, pattern, from, anchors, &mut || budget.may_go_on()) {
        Ok(matched) => Ok(Ok(matched)),
        Err(Fault::Malformed(message)) => Ok(Err(message.into())),
        Err(Fault::Stopped) => Err(mlua::Error::runtime("stopped")),
    }
}

/// Captures as values; the whole match if there are none.
fn captures(lua: &Lua, text: &[u8], matched: &Match) -> mlua::Result<Vec<Value>> {
    if matched.captures.is_empty() {
        return Ok(vec![
            lua.create_string(&text[matched.start..matched.end])?.into_lua(lua)?,
        ]);
    }
    let values = matched.captures.iter().map(|capture| match *capture {
        Capture::Position(at) => Ok(Value::Number((at + 1) as f64)),
        Capture::Span(start, end) => lua.create_string(&text[start..end])?.into_lua(lua),
    });
    values.collect()
}

/// The start of a search: `init` counts from 1, or from the end if negative.
fn start(arguments: &Arguments<'_>, length: usize) -> Result<usize, String> {
    let init = arguments.integer_or(2, 1)?;
    let from = if init < 0 {
        (length as i64).saturating_add(init)
    } else {
        init - 1
    };
    Ok(from.clamp(0, length as i64) as usize)
}

macro_rules! checked {
    ($outcome:expr) => {
        match $outcome {
            Ok(value) => value,
            Err(message) => return Ok(Err(message)),
        }
    };
}

fn find(arguments: &Arguments<'_>, budget: &Budget) -> Answer {
    let (text, pattern) = (checked!(arguments.string(0)), checked!(arguments.string(1)));
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let from = checked!(start(arguments, text.len()));
    let plain = !matches!(arguments.get(3), Value::Nil | Value::Boolean(false));
    let is_plain = plain || !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte));
    if is_plain {
        let matched = position(&text[from..], &pattern).map(|offset| from + offset);
        return Ok(Ok(match matched {
            Some(at) => numbers(&[at + 1, at + pattern.len()]),
            None => MultiValue::from_iter([Value::Nil]),
        }));
    }
    let Some(matched) = checked!(look(&text, &pattern, from, true, budget)?) else {
        return Ok(Ok(MultiValue::from_iter([Value::Nil])));
    };
    let mut values = numbers(&[matched.start + 1, matched.end]);
    if !matched.captures.is_empty() {
        values.extend(captures(arguments.lua, &text, &matched)?);
    }
    Ok(Ok(values))
}

fn match_(arguments: &Arguments<'_>, budget: &Budget) -> Answer {
    let (text, pattern) = (checked!(arguments.string(0)), checked!(arguments.string(1)));
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let from = checked!(start(arguments, text.len()));
    Ok(Ok(match checked!(look(&text, &pattern, from, true, budget)?) {
        Some(matched) => MultiValue::from_iter(captures(arguments.lua, &text, &matched)?),
        None => MultiValue::from_iter([Value::Nil]),
    }))
}

/// `step(s, pattern, position)`: the next position of gmatch, and the captures; nothing if there is
/// no further match.
fn step(arguments: &Arguments<'_>, budget: &Budget) -> Answer {
    let (text, pattern) = (checked!(arguments.string(0)), checked!(arguments.string(1)));
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let from = checked!(arguments.integer_or(2, 1)) as usize - 1;
    if from > text.len() {
        return Ok(Ok(MultiValue::from_iter([Value::Nil])));
    }
    let Some(matched) = checked!(look(&text, &pattern, from, false, budget)?) else {
        return Ok(Ok(MultiValue::from_iter([Value::Nil])));
    };
    let after = matched.end + usize::from(matched.end == matched.start);
    let mut values = numbers(&[after + 1]);
    values.extend(captures(arguments.lua, &text, &matched)?);
    Ok(Ok(values))
}

/// `search(s, pattern, position)`: start, end and captures (the whole match if there are none), for
/// gsub.
fn search_from(arguments: &Arguments<'_>, budget: &Budget) -> Answer {
    let (text, pattern) = (checked!(arguments.string(0)), checked!(arguments.string(1)));
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let from = checked!(arguments.integer_or(2, 1)) as usize - 1;
    let Some(matched) = checked!(look(&text, &pattern, from.min(text.len()), true, budget)?) else {
        return Ok(Ok(MultiValue::from_iter([Value::Nil])));
    };
    let mut values = numbers(&[matched.start + 1, matched.end]);
    values.extend(captures(arguments.lua, &text, &matched)?);
    Ok(Ok(values))
}

/// `gsub(s, pattern, replacement, most)` with a string as the replacement.
fn gsub(arguments: &Arguments<'_>, budget: &Budget) -> Answer {
    let (text, pattern) = (checked!(arguments.string(0)), checked!(arguments.string(1)));
    let replacement = checked!(arguments.string(2));
    let most = checked!(arguments.integer_or(3, i64::MAX));
    let (text, pattern, replacement) = (text.as_bytes(), pattern.as_bytes(), replacement.as_bytes());
    let anchored = pattern.first() == Some(&b'^');
    let (mut out, mut at, mut count) = (Vec::new(), 0, 0);
    while count < most && at <= text.len() {
        let Some(matched) = checked!(look(&text, &pattern, at, true, budget)?) else {
            break;
        };
        count += 1;
        out.extend_from_slice(&text[at..matched.start]);
        checked!(expand(&text, &replacement, &matched, &mut out));
        if out.len() > STRING_BYTES_MAX {
            return Ok(Err("resulting string too large".into()));
        }
        at = matched.end;
        if matched.end == matched.start {
            out.extend(text.get(at));
            at += 1;
        }
        if anchored {
            break;
        }
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    let mut values = MultiValue::from_iter([arguments.lua.create_string(&out)?.into_lua(arguments.lua)?]);
    values.push_back(Value::Number(count as f64));
    Ok(Ok(values))
}

/// Appends the replacement with its `%0` to `%9` filled in.
fn expand(text: &[u8], replacement: &[u8], matched: &Match, out: &mut Vec<u8>) -> Result<(), String> {
    let mut bytes = replacement.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'0') => out.extend_from_slice(&text[matched.start..matched.end]),
            Some(digit) if digit.is_ascii_digit() => {
                let index = usize::from(digit - b'1');
                match matched.captures.get(index) {
                    Some(&Capture::Span(start, end)) => out.extend_from_slice(&text[start..end]),
                    Some(Capture::Position(at)) => out.extend_from_slice((at + 1).to_string().as_bytes()),
                    None if index == 0 => out.extend_from_slice(&text[matched.start..matched.end]),
                    None => return Err("invalid capture index".into()),
                }
            }
            Some(&other) => out.push(other),
            None => out.push(0),
        }
    }
    Ok(())
}

fn numbers(values: &[usize]) -> MultiValue {
    values.iter().map(|&value| Value::Number(value as f64)).collect()
}

fn position(text: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() {
        return Some(0);
    }
    let first = needle[0];
    let mut from = 0;
    while let Some(offset) = text[from..].iter().position(|&byte| byte == first) {
        let at = from + offset;
        if text[at..].starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}
