//! Values on their way between Redis' replies and Lua, as the manual of EVAL tables them.

use mlua::{Lua, LuaString, Table, Value};
use quartet_wire_resp::{Protocol, Reply};

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

/// Reads a reply that this server has just written.
pub struct ReplyReader<'a> {
    pub lua: &'a Lua,
    pub fields: &'a Fields,
    pub bytes: &'a [u8],
}

impl ReplyReader<'_> {
    fn line(&mut self) -> (u8, &[u8]) {
        let end = self
            .bytes
            .iter()
            .position(|&byte| byte == b'\r')
            .expect("a whole reply");
        let (line, rest) = self.bytes.split_at(end);
        self.bytes = &rest[2..];
        (line[0], &line[1..])
    }

    fn text(&mut self, length: usize) -> &[u8] {
        let (text, rest) = self.bytes.split_at(length);
        self.bytes = &rest[2..];
        text
    }

    fn table(&self, name: &LuaString, value: Value) -> mlua::Result<Value> {
        let table = self.lua.create_table()?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    pub fn value(&mut self) -> mlua::Result<Value> {
        let lua = self.lua;
        let fields = self.fields;
        let (kind, line) = self.line();
        match kind {
            b':' => Ok(Value::Number(number(line) as f64)),
            b'$' => match number(line) {
                -1 => Ok(Value::Boolean(false)),
                length => Ok(Value::String(lua.create_string(self.text(length as usize))?)),
            },
            b'*' | b'>' => match number(line) {
                -1 => Ok(Value::Boolean(false)),
                count => self.array(count as usize),
            },
            b'+' => {
                let text = Value::String(lua.create_string(line)?);
                self.table(&fields.ok, text)
            }
            b'-' => {
                let text = lua.create_string(line)?;
                error_table(lua, fields, text, true).map(Value::Table)
            }
            b'_' => Ok(Value::Nil),
            b'#' => Ok(Value::Boolean(line == b"t")),
            b',' => {
                let value = std::str::from_utf8(line).ok().and_then(|text| text.parse().ok());
                self.table(&fields.double, Value::Number(value.unwrap_or(f64::NAN)))
            }
            b'(' => {
                let digits = Value::String(lua.create_string(line)?);
                self.table(&fields.big_number, digits)
            }
            b'=' => {
                let length = number(line) as usize;
                let text = self.text(length);
                let inner = lua.create_table()?;
                inner.raw_set(&fields.format, lua.create_string(&text[..3])?)?;
                inner.raw_set(&fields.string, lua.create_string(&text[4..])?)?;
                self.table(&fields.verbatim_string, Value::Table(inner))
            }
            b'%' => {
                let inner = lua.create_table()?;
                for _ in 0..number(line) {
                    let key = self.value()?;
                    inner.raw_set(key, self.value()?)?;
                }
                self.table(&fields.map, Value::Table(inner))
            }
            b'~' => {
                let inner = lua.create_table()?;
                for _ in 0..number(line) {
                    inner.raw_set(self.value()?, true)?;
                }
                self.table(&fields.set, Value::Table(inner))
            }
            b'|' => {
                for _ in 0..2 * number(line) {
                    self.value()?;
                }
                self.value()
            }
            other => unreachable!("no reply begins with {other}"),
        }
    }

    fn array(&mut self, count: usize) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(count, 0)?;
        for index in 1..=count {
            let value = self.value()?;
            table.raw_seti(index, value)?;
        }
        Ok(Value::Table(table))
    }
}

fn number(line: &[u8]) -> i64 {
    let text = std::str::from_utf8(line).expect("digits");
    text.parse().expect("a number that this server wrote")
}

/// The table that stands for an error. `counted`: the statistics know of it already.
pub fn error_table(lua: &Lua, fields: &Fields, text: LuaString, counted: bool) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set(&fields.err, text)?;
    if counted {
        table.raw_set(&fields.ignore_error_stats_update, true)?;
    }
    Ok(table)
}

/// Writes a script's answer as a reply.
pub struct AnswerWriter<'a, 'r> {
    pub fields: &'a Fields,
    /// The protocol that the script chose with `redis.setresp`: only it tells how booleans are meant.
    pub script_protocol: Protocol,
    pub reply: &'a mut Reply<'r>,
    /// Errors of the answer that are still to be counted.
    pub errors: Vec<Vec<u8>>,
}

impl AnswerWriter<'_, '_> {
    pub fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<()> {
        if depth > DEPTH_MAX {
            self.error(b"ERR reached lua stack limit", false);
            return Ok(());
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

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<()> {
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
        // Counted first: Lua gives us places for a few thousand values only, so they are not gathered.
        let mut count = 0;
        while !matches!(table.raw_get(count + 1)?, Value::Nil) {
            count += 1;
        }
        self.array(table, count, depth)
    }

    /// The first `count` elements, which are there.
    pub fn array(&mut self, table: &Table, count: usize, depth: usize) -> mlua::Result<()> {
        self.reply.array(count);
        (1..=count).try_for_each(|index| self.value(&table.raw_get(index)?, depth + 1))
    }
}

fn one_line(text: &LuaString) -> String {
    text.to_string_lossy().replace(['\r', '\n'], " ")
}

/// As C converts a double to a 64-bit integer on the machines that Redis runs on.
fn truncated(value: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}
