//! DUMP and RESTORE: a key's value as bytes that Redis understands.

use quartet_wire_rdb::value::{self, Field, Refused, Value};
use quartet_wire_resp::{Arguments, Reply};

use super::hashes::{Change, Deadline, Edits};
use super::json::Json;
use super::{hashes, json, lists, sets, sorted_sets, streams};
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::keyspace::late_part::{HeldString, Made};
use crate::keyspace::string_value::StringValue;
use crate::keyspace::{Entry, Header, Keyspace, Kind};
use crate::module::{DataType, Modules};
use crate::{command::errors, command::parse};

const FAMILY: Family = Family::of(Group::Generic)
    .keys(ONE_KEY)
    .since("2.6.0")
    .complexity("O(N) in the size of the value");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("dump", 2, READONLY, "Serializes the value of a key.", Answers(dump)),
    FAMILY.row("restore", -4, WRITE | DENYOOM | DANGEROUS, "Creates a key from a serialized value.", Answers(restore)),
    FAMILY.row("restore-asking", -4, WRITE | DENYOOM | DANGEROUS | KEYSPACE_CATEGORY, "RESTORE, as a cluster sends it to the node that a slot moves to.", Answers(restore)).group(Group::Server).since("3.0.0"),
];

fn dump(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let Some(entry) = context.read(&arguments[1]) else {
        context.reply.null();
        return Ok(());
    };
    let bytes = match entry.kind {
        Kind::String => StringValue::of(&entry).length(),
        _ => 0,
    };
    if context.makes_late(bytes) {
        let (string, protocol) = (HeldString::new(context.tx, &entry), context.reply.protocol());
        let (mut remaining, mut text) = (0..bytes, Vec::new());
        // The text, the payload that is made of it, and its place in the reply.
        let reserved = context.groups.reserve(3 * bytes)?;
        context.make_late(context.reply.mark(), bytes as usize, move |out| {
            let _reserved = &reserved;
            let made = string.append_step(&mut remaining, &mut text);
            if made == Made::Wholly {
                let payload = value::dump(&Value::String(std::mem::take(&mut text)));
                Reply::new(out, protocol).bulk(&payload);
            }
            made
        });
        return Ok(());
    }
    let data_type = context.modules().data_type(entry.kind);
    let takes_long = data_type.is_some_and(|data_type| data_type.takes_long(&mut context.keys(), &entry));
    if takes_long && context.must_end_before_long() {
        return Ok(());
    }
    let mut workspace = context.workspace();
    if entry.kind == Kind::String {
        workspace.take(2 * bytes as usize)?;
    } else {
        // The elements, and the payload that is made of them.
        context.takes_elements(&mut workspace, [&entry, &entry])?;
        let beyond = data_type.map_or(0, |data_type| data_type.bytes_beyond_rows(&mut context.keys(), &entry));
        workspace.take((2 * beyond) as usize)?;
    }
    let payload = payload(context, &entry)?;
    context.reply.bulk(&payload);
    Ok(())
}

/// A key's value as DUMP answers it.
pub fn payload(context: &mut Context<'_, '_>, entry: &Entry) -> Result<Vec<u8>, ErrorReply> {
    let modules = context.modules();
    Ok(value::dump(&value_of(&mut context.keys(), modules, entry)?))
}

/// A key's value. The error is that of a module's key without a form.
pub fn value_of(keys: &mut Keyspace<'_, '_>, modules: &Modules, entry: &Entry) -> Result<Value, ErrorReply> {
    if let Some(data_type) = modules.data_type(entry.kind) {
        return data_type.value(keys, entry);
    }
    Ok(match entry.kind {
        Kind::String => Value::String(StringValue::of(entry).whole(keys.tx).into_owned()),
        Kind::List => Value::List(lists::elements(keys, entry)),
        Kind::Set => Value::Set(sets::members(keys, entry)),
        Kind::SortedSet => Value::SortedSet(sorted_sets::pairs(keys, entry)),
        Kind::Hash => {
            let mut fields = Vec::new();
            hashes::each(keys, entry, &mut |field| {
                fields.push(Field {
                    name: field.name.to_vec(),
                    value: field.value.to_vec(),
                    deadline_ms: field.deadline_ms,
                });
            });
            Value::Hash(fields)
        }
        Kind::Json => Value::Json(json::text(keys.tx, entry)),
        Kind::Stream => Value::Stream(streams::value(keys, entry)),
        Kind::Module(_) => unreachable!("the module has the value"),
    })
}

struct Options {
    replace: bool,
    /// The expiry of the key, in milliseconds since the Unix epoch.
    expiry_ms: Option<u64>,
    /// The value of OBJECT FREQ.
    frequency: Option<u8>,
}

impl Options {
    fn read(arguments: Arguments<'_>, now_ms: u64) -> Result<Options, ErrorReply> {
        let (mut replace, mut is_absolute) = (false, false);
        // An idle time is checked and dropped: it is counted from the latest write, which is the
        // present one.
        let (mut has_idle_time, mut given_frequency) = (false, None);
        let mut words = arguments.iter().skip(4);
        while let Some(word) = words.next() {
            if parse::is(word, "replace") {
                replace = true;
            } else if parse::is(word, "absttl") {
                is_absolute = true;
            } else if parse::is(word, "idletime") && given_frequency.is_none() {
                let seconds = parse::required_integer(words.next().ok_or(errors::SYNTAX)?)?;
                if seconds < 0 {
                    return Err("ERR Invalid IDLETIME value, must be >= 0".into());
                }
                has_idle_time = true;
            } else if parse::is(word, "freq") && !has_idle_time {
                let frequency = parse::required_integer(words.next().ok_or(errors::SYNTAX)?)?;
                let frequency =
                    u8::try_from(frequency).map_err(|_| "ERR Invalid FREQ value, must be >= 0 and <= 255")?;
                given_frequency = Some(frequency);
            } else {
                return Err(errors::SYNTAX.into());
            }
        }
        let ttl_ms = parse::required_integer(&arguments[2])?;
        let ttl_ms = u64::try_from(ttl_ms).map_err(|_| "ERR Invalid TTL value, must be >= 0")?;
        let start_ms = if is_absolute { 0 } else { now_ms };
        Ok(Options {
            replace,
            expiry_ms: (ttl_ms > 0).then(|| start_ms.saturating_add(ttl_ms)),
            frequency: given_frequency,
        })
    }
}

/// Bytes of a payload that take about as long as a change of an element.
const PAYLOAD_BYTES_AN_ELEMENT: u64 = 32;

fn restore(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let options = Options::read(arguments, context.now_ms)?;
    let name = &arguments[1];
    if !options.replace && context.keys().find(name).is_some() {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    if context.must_end_before(arguments[3].len() as u64 / PAYLOAD_BYTES_AN_ELEMENT) {
        return Ok(());
    }
    let value = value::restore(&arguments[3]).map_err(|refused| match refused {
        Refused::Trailer => "ERR DUMP payload version or checksum are wrong",
        Refused::Body => BAD_FORMAT,
    })?;
    let data_type = module_type(context.modules(), &value)?;
    if data_type.is_none() {
        check_lengths(&value)?;
    }
    context.keys().remove(name);
    let has_expired = options.expiry_ms.is_some_and(|expiry_ms| context.is_over(expiry_ms));
    if !has_expired {
        match data_type {
            Some(data_type) => data_type.store(&mut context.keys(), name, &value)?,
            None => store(context, name, &value)?,
        }
        let mut keys = context.keys();
        if let Some(entry) = keys.find(name).filter(|_| options.expiry_ms.is_some()) {
            keys.set_expiry(name, &entry, options.expiry_ms);
        }
    }
    if let Some(frequency) = options
        .frequency
        .filter(|_| context.eviction_policy().counts_frequency())
    {
        let recency = &context.eviction().recency;
        recency.set_frequency(context.client.db, name, context.now_ms, frequency);
    }
    context.reply.ok();
    Ok(())
}

/// The error for a value that RESTORE cannot take.
pub const BAD_FORMAT: &str = "ERR Bad data format";

/// The error for a value with a member that no row's key can have.
pub const LONG_MEMBER: &str = "ERR member exceeds the maximum size of 65000 bytes";

/// Longest member or field, for its row's key must fit into the store.
pub const MEMBER_BYTES_MAX: usize = hashes::FIELD_BYTES_MAX;

/// The module's type that a value is of, once it has checked the value.
fn module_type(modules: &Modules, value: &Value) -> Result<Option<&'static dyn DataType>, ErrorReply> {
    for data_type in modules.data_types() {
        if let Some(checked) = data_type.check(value) {
            return checked.map(|()| Some(data_type));
        }
    }
    Ok(None)
}

fn check_lengths(value: &Value) -> Result<(), ErrorReply> {
    let longest = match value {
        Value::String(_) | Value::List(_) | Value::Json(_) => 0,
        Value::Set(members) => members.iter().map(Vec::len).max().unwrap_or(0),
        Value::SortedSet(pairs) => pairs.iter().map(|(member, _)| member.len()).max().unwrap_or(0),
        Value::Hash(fields) => fields.iter().map(|field| field.name.len()).max().unwrap_or(0),
        Value::Stream(stream) => streams::longest_name(stream),
        // No module here has it.
        _ => return Err(BAD_FORMAT.into()),
    };
    if longest > MEMBER_BYTES_MAX {
        return Err(LONG_MEMBER.into());
    }
    Ok(())
}

/// Writes the value. Fields that have expired meanwhile are left out, and with the last one the
/// key.
fn store(context: &mut Context<'_, '_>, name: &[u8], value: &Value) -> Result<(), ErrorReply> {
    let config = context.config();
    let keys = &mut context.keys();
    match value {
        Value::String(text) => keys.put(name, Header::new(Kind::String), text),
        Value::List(elements) => lists::store(keys, name, elements),
        Value::Set(members) => {
            sets::store(keys, sets::integers_max(config), name, members);
        }
        Value::SortedSet(pairs) => sorted_sets::replace(keys, config, name, pairs),
        Value::Hash(fields) => {
            let mut edits = Edits::default();
            for field in fields {
                let deadline = field.deadline_ms.map_or(Deadline::Never, Deadline::At);
                let value = &field.value;
                edits.set(&field.name, Change::Set { value, deadline });
            }
            hashes::apply(context, name, None, edits);
        }
        Value::Stream(stream) => streams::store(keys, name, stream),
        Value::Json(text) => {
            let document = Json::parse(text).map_err(|_| BAD_FORMAT)?;
            json::put(keys, name, Header::new(Kind::Json), &document)?;
        }
        _ => return Err(BAD_FORMAT.into()),
    }
    Ok(())
}
