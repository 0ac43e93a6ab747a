//! Arguments of functions that scripts call, checked and worded as Lua's own library does.

use mlua::{IntoLuaMulti, Lua, LuaString, MultiValue, Value};

/// The arguments of one call of the function `name`.
pub struct Arguments<'a> {
    pub name: &'static str,
    pub lua: &'a Lua,
    pub values: MultiValue,
}

impl Arguments<'_> {
    pub fn get(&self, index: usize) -> &Value {
        self.values.get(index).unwrap_or(&Value::Nil)
    }

    pub fn bad(&self, index: usize, why: &str) -> String {
        format!("bad argument #{} to '{}' ({why})", index + 1, self.name)
    }

    fn expected(&self, index: usize, kind: &str) -> String {
        let got = match self.values.get(index) {
            Some(value) => type_name(value),
            None => "no value",
        };
        self.bad(index, &format!("{kind} expected, got {got}"))
    }

    pub fn string(&self, index: usize) -> Result<LuaString, String> {
        match self.get(index) {
            Value::String(text) => Ok(text.clone()),
            number @ (Value::Integer(_) | Value::Number(_)) => {
                let text = self.lua.coerce_string(number.clone()).ok().flatten();
                text.ok_or_else(|| self.expected(index, "string"))
            }
            _ => Err(self.expected(index, "string")),
        }
    }

    pub fn number(&self, index: usize) -> Result<f64, String> {
        match self.get(index) {
            Value::Integer(value) => Ok(*value as f64),
            Value::Number(value) => Ok(*value),
            Value::String(text) => {
                let number = self.lua.coerce_number(Value::String(text.clone())).ok().flatten();
                number.ok_or_else(|| self.expected(index, "number"))
            }
            _ => Err(self.expected(index, "number")),
        }
    }

    /// A number, truncated as C does.
    pub fn integer(&self, index: usize) -> Result<i64, String> {
        Ok(self.number(index)? as i64)
    }

    pub fn integer_or(&self, index: usize, default: i64) -> Result<i64, String> {
        match self.get(index) {
            Value::Nil => Ok(default),
            _ => self.integer(index),
        }
    }
}

pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        Value::LightUserData(_) => "userdata",
        other => other.type_name(),
    }
}

/// A message to be prefixed with the position in the script that caused it, like those of Lua's own
/// library.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Located(pub String);

/// Makes an error of a message.
pub fn located<T>(outcome: Result<T, String>) -> mlua::Result<T> {
    outcome.map_err(|message| mlua::Error::external(Located(message)))
}

/// Puts a function into a library. `body` returns its values or the message of an error.
pub fn define<T: IntoLuaMulti>(
    lua: &Lua,
    library: &mlua::Table,
    name: &'static str,
    body: impl Fn(&Lua, Arguments<'_>) -> Result<T, String> + 'static,
) -> mlua::Result<()> {
    let function =
        lua.create_function(move |lua, values: MultiValue| located(body(lua, Arguments { name, lua, values })))?;
    library.raw_set(name, function)
}
