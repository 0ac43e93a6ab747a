//! Values on their way between Redis' replies and Lua, as the manual of EVAL tables them.

use mlua::{Lua, LuaString, Table, Value};
use quartet_wire_resp::{Protocol, Reply};

use super::budget::Steps;
use super::stack::Stack;

/// Deepest nesting of a script's answer.
const DEPTH_MAX: usize = 200;

/// Names of the fields that give a table a meaning, made once.
pub struct Fields {
    pub err: LuaString,
    ok: LuaString,
    double: LuaString,
    big_number: LuaString,
    verbatim_string: LuaString,
    string: LuaString,
    format: LuaString,
    map: LuaString,
    set: LuaString,
    pub ignore_error_stats_update: LuaString,
}

impl Fields {
    pub fn new(lua: &Lua) -> mlua::Result<Fields> {
        Ok(Fields {
            err: lua.create_string("err")?,
            ok: lua.create_string("ok")?,
            double: lua.create_string("double")?,
            big_number: lua.create_string("big_number")?,
            verbatim_string: lua.create_string("verbatim_string")?,
            string: lua.create_string("string")?,
            format: lua.create_string("format")?,
            map: lua.create_string("map")?,
            set: lua.create_string("set")?,
            ignore_error_stats_update: lua.create_string("ignore_error_stats_update")?,
        })
    }
}

/// Reads a reply that this server has just written, and puts it on Lua's stack.
pub struct ReplyReader<'a> {
    pub stack: &'a Stack,
    pub bytes: &'a [u8],
}

impl<'a> ReplyReader<'a> {
    fn line(&mut self) -> (u8, &'a [u8]) {
        let end = self
            .bytes
            .iter()
            .position(|&byte| byte == b'\r')
            .expect("a whole reply");
        let (line, suffix) = self.bytes.split_at(end);
        self.bytes = &suffix[2..];
        (line[0], &line[1..])
    }

    fn text(&mut self, length: usize) -> &'a [u8] {
        let (text, suffix) = self.bytes.split_at(length);
        self.bytes = &suffix[2..];
        text
    }

    /// A table with one field, which `put` puts.
    fn table(&mut self, name: &str, put: impl FnOnce(&mut Self)) {
        self.stack.table(0);
        self.field(name, put);
    }

    fn field(&mut self, name: &str, put: impl FnOnce(&mut Self)) {
        self.stack.text(name.as_bytes());
        put(self);
        self.stack.set_field();
    }

    /// One value.
    pub fn value(&mut self) {
        let stack = self.stack;
        let (kind, line) = self.line();
        match kind {
            b':' => stack.number(number(line) as f64),
            b'$' => match number(line) {
                -1 => stack.boolean(false),
                length => stack.text(self.text(length as usize)),
            },
            b'*' | b'>' => match number(line) {
                -1 => stack.boolean(false),
                count => self.array(count as usize),
            },
            b'+' => self.table("ok", |_| stack.text(line)),
            b'-' => put_error(stack, line, true),
            b'_' => stack.nil(),
            b'#' => stack.boolean(line == b"t"),
            b',' => {
                let value = std::str::from_utf8(line).ok().and_then(|text| text.parse().ok());
                self.table("double", |_| stack.number(value.unwrap_or(f64::NAN)));
            }
            b'(' => self.table("big_number", |_| stack.text(line)),
            b'=' => {
                let text = self.text(number(line) as usize);
                self.table("verbatim_string", |reader| {
                    reader.table("format", |_| stack.text(&text[..3]));
                    reader.field("string", |_| stack.text(&text[4..]));
                });
            }
            b'%' => self.table("map", |reader| {
                stack.table(0);
                for _ in 0..number(line) {
                    reader.value();
                    reader.value();
                    stack.set_field();
                }
            }),
            b'~' => self.table("set", |reader| {
                stack.table(0);
                for _ in 0..number(line) {
                    reader.value();
                    stack.boolean(true);
                    stack.set_field();
                }
            }),
            b'|' => {
                for _ in 0..2 * number(line) {
                    self.value();
                    stack.drop_last();
                }
                self.value();
            }
            other => unreachable!("no reply begins with {other}"),
        }
    }

    fn array(&mut self, count: usize) {
        self.stack.table(count);
        for index in 1..=count {
            self.value();
            self.stack.set_element(index);
        }
    }
}

fn number(line: &[u8]) -> i64 {
    let text = std::str::from_utf8(line).expect("digits");
    text.parse().expect("a number that this server wrote")
}

/// Pushes the table that represents an error. `counted`: it is already in the statistics.
pub fn put_error(stack: &Stack, text: &[u8], counted: bool) {
    stack.table(0);
    stack.text(b"err");
    stack.text(text);
    stack.set_field();
    if counted {
        stack.text(b"ignore_error_stats_update");
        stack.boolean(true);
        stack.set_field();
    }
}

/// Why an answer was not written to its end.
pub enum Unwritten {
    /// It nests deeper than [`DEPTH_MAX`]: it may hold itself.
    TooDeep,
    /// It takes more bytes than the run may, or has more values than a script can have made.
    TooLarge,
    /// The run must end.
    Stopped,
    Failed(mlua::Error),
}

impl From<mlua::Error> for Unwritten {
    fn from(error: mlua::Error) -> Unwritten {
        Unwritten::Failed(error)
    }
}

/// Writes a script's answer as a reply. A table that it contains many times is written as often, so
/// depth, bytes and time are checked at every value.
pub struct AnswerWriter<'a, 'r> {
    pub fields: &'a Fields,
    /// The protocol that the script chose with `redis.setresp`: it decides the meaning of booleans.
    pub script_protocol: Protocol,
    pub reply: &'a mut Reply<'r>,
    /// Length of the reply's buffer beyond which the answer is too large.
    pub end: usize,
    /// Values that the answer may still have.
    pub values_left: usize,
    pub steps: Steps<'a>,
    /// Errors of the answer that are still to be counted.
    pub errors: Vec<Vec<u8>>,
}

impl AnswerWriter<'_, '_> {
    pub fn value(&mut self, value: &Value, depth: usize) -> Result<(), Unwritten> {
        if depth > DEPTH_MAX {
            return Err(Unwritten::TooDeep);
        }
        if self.reply.is_full() || self.reply.mark() > self.end || self.values_left == 0 {
            return Err(Unwritten::TooLarge);
        }
        self.values_left -= 1;
        if !self.steps.take() {
            return Err(Unwritten::Stopped);
        }
        match value {
            Value::String(text) => self.reply.bulk(&text.as_bytes()),
            Value::Boolean(value) if self.script_protocol == Protocol::Resp3 => self.reply.boolean(*value),
            Value::Boolean(true) => self.reply.integer(1),
            Value::Integer(value) => self.reply.integer(*value),
            Value::Number(value) => self.reply.integer(truncated(*value)),
            Value::Table(table) => self.table(table, depth)?,
            _ => self.reply.null(),
        }
        Ok(())
    }

    fn error(&mut self, text: &[u8], counted: bool) {
        let text: Vec<u8> = text
            .iter()
            .map(|&byte| if byte == b'\r' || byte == b'\n' { b' ' } else { byte })
            .collect();
        self.reply.error(&text);
        if !counted {
            self.errors.push(text);
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<(), Unwritten> {
        let fields = self.fields;
        if let Value::String(text) = table.raw_get(&fields.err)? {
            let counted = matches!(table.raw_get(&fields.ignore_error_stats_update)?, Value::Boolean(true));
            self.error(&text.as_bytes(), counted);
            return Ok(());
        }
        if let Value::String(text) = table.raw_get(&fields.ok)? {
            self.reply.simple(&one_line(&text));
            return Ok(());
        }
        let double = match table.raw_get(&fields.double)? {
            Value::Number(value) => Some(value),
            Value::Integer(value) => Some(value as f64),
            _ => None,
        };
        if let Some(value) = double {
            self.reply.double(value);
            return Ok(());
        }
        if let Value::String(digits) = table.raw_get(&fields.big_number)? {
            self.reply.big_number(&one_line(&digits));
            return Ok(());
        }
        if let Value::Table(inner) = table.raw_get(&fields.verbatim_string)?
            && let (Value::String(format), Value::String(text)) =
                (inner.raw_get(&fields.format)?, inner.raw_get(&fields.string)?)
        {
            let mut three = *b"   ";
            for (place, byte) in three.iter_mut().zip(format.as_bytes().iter()) {
                *place = *byte;
            }
            self.reply.verbatim(&three, &text.as_bytes());
            return Ok(());
        }
        if let Value::Table(inner) = table.raw_get(&fields.map)? {
            self.reply.map(inner.pairs::<Value, Value>().count());
            for pair in inner.pairs::<Value, Value>() {
                let (key, value) = pair?;
                self.value(&key, depth + 1)?;
                self.value(&value, depth + 1)?;
            }
            return Ok(());
        }
        if let Value::Table(inner) = table.raw_get(&fields.set)? {
            self.reply.set(inner.pairs::<Value, Value>().count());
            for pair in inner.pairs::<Value, Value>() {
                self.value(&pair?.0, depth + 1)?;
            }
            return Ok(());
        }
        // Counted first: Lua gives us places for a few thousand values only, so they are not
        // gathered.
        let mut count = 0;
        while !matches!(table.raw_get(count + 1)?, Value::Nil) {
            count += 1;
        }
        self.reply.array(count);
        (1..=count).try_for_each(|index| self.value(&table.raw_get(index)?, depth + 1))
    }
}

fn one_line(text: &LuaString) -> String {
    text.to_string_lossy().replace(['\r', '\n'], " ")
}

/// As C converts a double to a 64-bit integer on the machines that Redis runs on.
pub fn truncated(value: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}
