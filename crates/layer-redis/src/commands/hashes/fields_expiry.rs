//! The commands on deadlines of fields: the HEXPIRE family of Redis 7.4, and HGETDEL, HGETEX and
//! HSETEX of 8.0.
//!
//! Replies and errors follow <https://redis.io/docs/latest/commands/hexpire/> and its neighbours. A
//! deadline that has passed already removes the field at once.

use std::collections::HashMap;

use quartet_engine::Row;
use quartet_wire_resp::Arguments;

use super::edits::{Change, Deadline, Edits};
use super::fields::{add_pairs, apply, remove_rows, reply_value};
use super::value::{self, decode_row};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::{Elements, Entry, Kind, scan};
use crate::{command::errors, command::parse};

/// Latest deadline that Redis accepts, in milliseconds since the Unix epoch: 46 bits.
const DEADLINE_MS_MAX: i64 = (1 << 46) - 1;

const FIELDS_MISSING: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
const FIELDS_MISMATCH: &str = "ERR The `numfields` parameter must match the number of arguments";
const FIELDS_NOT_POSITIVE: &str = "ERR Number of fields must be a positive integer";

/// The unit and origin of a time argument.
#[derive(Clone, Copy)]
struct Unit {
    milliseconds: i64,
    /// From now on, not from the Unix epoch.
    is_relative: bool,
}

const EX: Unit = Unit {
    milliseconds: 1000,
    is_relative: true,
};
const PX: Unit = Unit {
    milliseconds: 1,
    is_relative: true,
};
const EXAT: Unit = Unit {
    milliseconds: 1000,
    is_relative: false,
};
const PXAT: Unit = Unit {
    milliseconds: 1,
    is_relative: false,
};

impl Unit {
    fn deadline_ms(self, text: &[u8], now_ms: u64, command: &str) -> Result<u64, ErrorReply> {
        let time = parse::required_integer(text)?;
        if time < 0 {
            return Err("ERR invalid expire time, must be >= 0".into());
        }
        let base_ms = if self.is_relative { now_ms as i64 } else { 0 };
        time.checked_mul(self.milliseconds)
            .and_then(|milliseconds| milliseconds.checked_add(base_ms))
            .filter(|&deadline_ms| deadline_ms <= DEADLINE_MS_MAX)
            .map(|deadline_ms| deadline_ms as u64)
            .ok_or_else(|| format!("ERR invalid expire time in '{command}' command").into())
    }
}

/// Returns the fields after `FIELDS numfields` at position `at`; their number must match exactly.
fn field_list<'a>(
    arguments: Arguments<'a>,
    at: usize,
    not_positive: &'static str,
) -> Result<Arguments<'a>, ErrorReply> {
    let word = arguments.get(at).unwrap_or_default();
    if !parse::is(word, "fields") {
        return Err(FIELDS_MISSING.into());
    }
    let count = arguments.get(at + 1).and_then(parse::integer);
    let count = count.filter(|&count| count >= 1).ok_or(ErrorReply::new(not_positive))?;
    let fields = arguments.tail(at + 2);
    if fields.len() as i64 != count {
        return Err(FIELDS_MISMATCH.into());
    }
    Ok(fields)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Always,
    IfNone,
    IfSome,
    IfLater,
    IfEarlier,
}

impl Condition {
    fn parse(word: &[u8]) -> Option<Condition> {
        let words = [
            ("nx", Condition::IfNone),
            ("xx", Condition::IfSome),
            ("gt", Condition::IfLater),
            ("lt", Condition::IfEarlier),
        ];
        words
            .into_iter()
            .find(|(name, _)| parse::is(word, name))
            .map(|(_, condition)| condition)
    }

    /// No deadline counts as the latest of all.
    fn holds(self, old: Option<u64>, new: u64) -> bool {
        match self {
            Condition::Always => true,
            Condition::IfNone => old.is_none(),
            Condition::IfSome => old.is_some(),
            Condition::IfLater => old.is_some_and(|old| new > old),
            Condition::IfEarlier => old.is_none_or(|old| new < old),
        }
    }
}

pub fn hexpire(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    expire(context, arguments, EX, "hexpire")
}

pub fn hpexpire(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    expire(context, arguments, PX, "hpexpire")
}

pub fn hexpireat(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    expire(context, arguments, EXAT, "hexpireat")
}

pub fn hpexpireat(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    expire(context, arguments, PXAT, "hpexpireat")
}

fn expire(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    unit: Unit,
    command: &str,
) -> Result<(), ErrorReply> {
    let entry = context.keys().find_kind(&arguments[1], Kind::Hash)?;
    let deadline_ms = unit.deadline_ms(&arguments[2], context.now_ms, command)?;
    let condition = Condition::parse(&arguments[3]);
    let at = if condition.is_some() { 4 } else { 3 };
    let fields = field_list(arguments, at, "ERR Parameter `numFields` should be greater than 0")?;
    let condition = condition.unwrap_or(Condition::Always);
    let mut edits = Edits::default();
    context.reply.array(fields.len());
    for field in fields.iter() {
        let answer = match current(context, entry.as_ref(), &edits, field) {
            None => -2,
            Some(old) if !condition.holds(old, deadline_ms) => 0,
            Some(_) => {
                let change = expiring(deadline_ms, context.expires_up_to_ms());
                edits.set(field, change);
                if change == Change::Remove { 2 } else { 1 }
            }
        };
        context.reply.integer(answer);
    }
    write(context, &arguments[1], entry.as_ref(), edits);
    Ok(())
}

fn expiring<'a>(deadline_ms: u64, now_ms: u64) -> Change<'a> {
    if deadline_ms <= now_ms {
        Change::Remove
    } else {
        Change::Expire(Deadline::At(deadline_ms))
    }
}

/// The field's deadline after the edits gathered before; `None` if the field is then absent.
fn current(
    context: &mut Context<'_, '_>,
    entry: Option<&Entry>,
    edits: &Edits<'_>,
    field: &[u8],
) -> Option<Option<u64>> {
    let stored = value::find(&mut context.keys(), entry?, field)?;
    match edits.change(field) {
        Some(Change::Remove) => None,
        Some(Change::Expire(Deadline::At(deadline_ms))) => Some(Some(deadline_ms)),
        Some(Change::Expire(Deadline::Never)) => Some(None),
        _ => Some(stored.deadline_ms()),
    }
}

fn write(context: &mut Context<'_, '_>, name: &[u8], entry: Option<&Entry>, edits: Edits<'_>) {
    if !edits.is_empty() {
        apply(context, name, entry, edits);
    }
}

pub fn httl(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    time_left(context, arguments, EX)
}

pub fn hpttl(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    time_left(context, arguments, PX)
}

pub fn hexpiretime(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    time_left(context, arguments, EXAT)
}

pub fn hpexpiretime(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    time_left(context, arguments, PXAT)
}

/// Times are rounded up, as Redis does.
fn time_left(context: &mut Context<'_, '_>, arguments: Arguments<'_>, unit: Unit) -> Result<(), ErrorReply> {
    let entry = context.read_kind(&arguments[1], Kind::Hash)?;
    let fields = field_list(arguments, 2, FIELDS_NOT_POSITIVE)?;
    let base_ms = if unit.is_relative { context.now_ms } else { 0 };
    context.reply.array(fields.len());
    for field in fields.iter() {
        let answer = match current(context, entry.as_ref(), &Edits::default(), field) {
            None => -2,
            Some(None) => -1,
            Some(Some(deadline_ms)) => (deadline_ms - base_ms).div_ceil(unit.milliseconds as u64) as i64,
        };
        context.reply.integer(answer);
    }
    Ok(())
}

pub fn hpersist(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.keys().find_kind(&arguments[1], Kind::Hash)?;
    let fields = field_list(arguments, 2, FIELDS_NOT_POSITIVE)?;
    let mut edits = Edits::default();
    context.reply.array(fields.len());
    for field in fields.iter() {
        let answer = match current(context, entry.as_ref(), &edits, field) {
            None => -2,
            Some(None) => -1,
            Some(Some(_)) => {
                edits.set(field, Change::Expire(Deadline::Never));
                1
            }
        };
        context.reply.integer(answer);
    }
    write(context, &arguments[1], entry.as_ref(), edits);
    Ok(())
}

pub fn hgetdel(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.keys().find_kind(&arguments[1], Kind::Hash)?;
    let fields = field_list(arguments, 2, FIELDS_NOT_POSITIVE)?;
    match entry {
        Some(entry) if entry.is_large() => take(context, &arguments[1], &entry, fields),
        entry => read_and_change(context, &arguments[1], entry.as_ref(), fields, Some(Change::Remove)),
    }
    Ok(())
}

/// Removes the fields of a large hash, and replies the value of each where it is named first. A
/// field is looked up once, with all others in the order of their rows.
fn take(context: &mut Context<'_, '_>, name: &[u8], entry: &Entry, fields: Arguments<'_>) {
    let rows = remove_rows(context, name, entry, fields.iter());
    let by_name = rows.iter().map(|row| (scan::element_of(Elements::name(row)), row));
    let mut by_name: HashMap<&[u8], &Row> = by_name.collect();
    let now_ms = context.keys().now_ms;
    context.reply.array(fields.len());
    for field in fields.iter() {
        let removed = by_name.remove(field).map(|row| decode_row(row.value()));
        match removed.filter(|(_, deadline_ms)| deadline_ms.is_none_or(|deadline_ms| deadline_ms > now_ms)) {
            Some((value, _)) => context.reply.bulk(value),
            None => context.reply.null(),
        }
    }
}

/// Replies the values of the fields, and applies the change to the existing ones.
fn read_and_change<'a>(
    context: &mut Context<'_, '_>,
    name: &[u8],
    entry: Option<&Entry>,
    fields: Arguments<'a>,
    change: Option<Change<'a>>,
) {
    let mut edits = Edits::default();
    context.reply.array(fields.len());
    for field in fields.iter() {
        if current(context, entry, &edits, field).is_none() {
            context.reply.null();
            continue;
        }
        reply_value(context, entry, field);
        if let Some(change) = change {
            edits.set(field, change);
        }
    }
    write(context, name, entry, edits);
}

/// The options between the key and the fields of HGETEX and HSETEX.
#[derive(Default)]
struct Options<'a> {
    /// `Some(Keep)`: KEEPTTL; `Some(Never)`: PERSIST.
    deadline: Option<Deadline>,
    /// Whether all fields must exist (FXX) or none (FNX).
    must_exist: Option<bool>,
    /// The arguments after `FIELDS numfields`.
    fields: Option<Arguments<'a>>,
}

impl<'a> Options<'a> {
    fn set_deadline(&mut self, deadline: Deadline, only_one: &'static str) -> Result<(), ErrorReply> {
        if self.deadline.replace(deadline).is_some() {
            return Err(only_one.into());
        }
        Ok(())
    }

    /// FIELDS is the last option; each of its fields takes `words_each` arguments.
    fn set_fields(&mut self, arguments: Arguments<'a>, at: usize, words_each: usize) -> Result<(), ErrorReply> {
        let count = arguments.get(at + 1).and_then(parse::integer);
        let count = count
            .and_then(|count| usize::try_from(count).ok())
            .filter(|&count| count > 0)
            .ok_or(ErrorReply::new("ERR invalid number of fields"))?;
        let pairs = arguments.tail(at + 2);
        if count.checked_mul(words_each) != Some(pairs.len()) {
            return Err(FIELDS_MISMATCH.into());
        }
        self.fields = Some(pairs);
        Ok(())
    }
}

fn unit(word: &[u8]) -> Option<Unit> {
    let units = [("ex", EX), ("px", PX), ("exat", EXAT), ("pxat", PXAT)];
    units
        .into_iter()
        .find(|(name, _)| parse::is(word, name))
        .map(|(_, unit)| unit)
}

/// Reads the options of HGETEX, or with `is_set` those of HSETEX.
fn options<'a>(arguments: Arguments<'a>, now_ms: u64, is_set: bool) -> Result<Options<'a>, ErrorReply> {
    let (command, only_one) = if is_set {
        (
            "hsetex",
            "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        )
    } else {
        (
            "hgetex",
            "ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified",
        )
    };
    let mut options = Options::default();
    let mut at = 2;
    while let Some(word) = arguments.get(at) {
        if let Some(unit) = unit(word) {
            at += 1;
            let text = arguments.get(at).ok_or(ErrorReply::new("ERR missing expire time"))?;
            options.set_deadline(Deadline::At(unit.deadline_ms(text, now_ms, command)?), only_one)?;
        } else if is_set && parse::is(word, "keepttl") {
            options.set_deadline(Deadline::Keep, only_one)?;
        } else if !is_set && parse::is(word, "persist") {
            options.set_deadline(Deadline::Never, only_one)?;
        } else if is_set && (parse::is(word, "fxx") || parse::is(word, "fnx")) {
            if options.must_exist.replace(parse::is(word, "fxx")).is_some() {
                return Err("ERR Only one of FXX or FNX arguments can be specified".into());
            }
        } else if parse::is(word, "fields") {
            options.set_fields(arguments, at, if is_set { 2 } else { 1 })?;
            return Ok(options);
        } else {
            let word = String::from_utf8_lossy(&word[..word.len().min(128)]);
            return Err(format!("ERR unknown argument: {word}").into());
        }
        at += 1;
    }
    Err("ERR missing FIELDS argument".into())
}

pub fn hgetex(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let entry = context.keys().find_kind(&arguments[1], Kind::Hash)?;
    let options = options(arguments, context.now_ms, false)?;
    let fields = options.fields.ok_or(ErrorReply::new(errors::SYNTAX))?;
    let change = options.deadline.map(|deadline| match deadline {
        Deadline::At(deadline_ms) => expiring(deadline_ms, context.now_ms),
        deadline => Change::Expire(deadline),
    });
    read_and_change(context, &arguments[1], entry.as_ref(), fields, change);
    Ok(())
}

pub fn hsetex(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let entry = context.keys().find_kind(name, Kind::Hash)?;
    let options = options(arguments, context.now_ms, true)?;
    let pairs = options.fields.ok_or(ErrorReply::new(errors::SYNTAX))?;
    if let Some(must_exist) = options.must_exist
        && !all(context, entry.as_ref(), pairs, must_exist)
    {
        context.reply.integer(0);
        return Ok(());
    }
    let mut edits = Edits::default();
    match options.deadline.unwrap_or(Deadline::Never) {
        Deadline::At(deadline_ms) if deadline_ms <= context.now_ms => {
            let fields = pairs.iter().step_by(2);
            fields.for_each(|field| edits.set(field, Change::Remove));
            if entry.is_none() {
                edits = Edits::default();
            }
        }
        deadline => add_pairs(&mut edits, pairs, deadline)?,
    }
    write(context, name, entry.as_ref(), edits);
    context.reply.integer(1);
    Ok(())
}

/// Returns true if every field of the pairs exists, or with `must_exist` false if every one is
/// absent.
fn all(context: &mut Context<'_, '_>, entry: Option<&Entry>, pairs: Arguments<'_>, must_exist: bool) -> bool {
    pairs
        .iter()
        .step_by(2)
        .all(|field| current(context, entry, &Edits::default(), field).is_some() == must_exist)
}
