//! The arguments of `redis.register_function`, in both of its forms, worded as Redis 7 does.

use mlua::{Function, MultiValue, Table, Value};

use crate::scripting::scripts;

/// A function that a library registers.
pub struct Registration {
    pub name: String,
    pub description: Option<String>,
    pub flags: u32,
    pub callback: Function,
}

/// Reads the arguments and checks the name against those registered before.
pub fn read(count: usize, values: MultiValue, registered: &[Registration]) -> Result<Registration, String> {
    let values: Vec<Value> = values.into_iter().collect();
    let registration = match (count, values.as_slice()) {
        (1, [Value::Table(named)]) => read_named(named)?,
        (1, _) => {
            return Err(
                "calling redis.register_function with a single argument is only applicable to Lua table \
                        (representing named arguments)."
                    .into(),
            );
        }
        (2, [name, callback]) => {
            let name = text(name).ok_or("first argument to redis.register_function must be a string")?;
            let Value::Function(callback) = callback else {
                return Err("second argument to redis.register_function must be a function".into());
            };
            Registration {
                name,
                description: None,
                flags: 0,
                callback: callback.clone(),
            }
        }
        _ => return Err("wrong number of arguments to redis.register_function".into()),
    };
    if !is_name(registration.name.as_bytes()) {
        return Err(BAD_NAME.into());
    }
    if registered.iter().any(|function| function.name == registration.name) {
        return Err("Function already exists in the library".into());
    }
    Ok(registration)
}

pub const BAD_NAME: &str =
    "Library names can only contain letters, numbers, or underscores(_) and must be at least one character long";

/// Names of libraries and functions.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn read_named(named: &Table) -> Result<Registration, String> {
    let (mut name, mut description, mut callback, mut flags) = (None, None, None, 0);
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|error| error.to_string())?;
        let key = text(&key).ok_or("named argument key given to redis.register_function is not a string")?;
        match key.to_ascii_lowercase().as_str() {
            "function_name" => {
                let value = text(&value);
                name = Some(value.ok_or("function_name argument given to redis.register_function must be a string")?);
            }
            "description" => {
                let value = text(&value);
                description =
                    Some(value.ok_or("description argument given to redis.register_function must be a string")?);
            }
            "callback" => match value {
                Value::Function(function) => callback = Some(function),
                _ => return Err("callback argument given to redis.register_function must be a function".into()),
            },
            "flags" => match value {
                Value::Table(names) => flags = read_flags(&names).ok_or("unknown flag given")?,
                _ => {
                    return Err(
                        "flags argument to redis.register_function must be a table representing function flags".into(),
                    );
                }
            },
            _ => return Err("unknown argument given to redis.register_function".into()),
        }
    }
    let name = name.ok_or("redis.register_function must get a function name argument")?;
    let callback = callback.ok_or("redis.register_function must get a callback argument")?;
    Ok(Registration {
        name,
        description,
        flags,
        callback,
    })
}

fn read_flags(names: &Table) -> Option<u32> {
    let mut flags = 0;
    for index in 1.. {
        match names.raw_get(index).ok()? {
            Value::Nil => break,
            name => flags |= scripts::flag(&text(&name)?.to_ascii_lowercase())?,
        }
    }
    Some(flags)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string_lossy()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Number(number) => Some(super::numbers::general(*number, 14)),
        _ => None,
    }
}
