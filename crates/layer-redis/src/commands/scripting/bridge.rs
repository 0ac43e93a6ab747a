//! The way from a running script to the commands: `redis.call`, `redis.setresp`, `redis.acl_check_cmd`.
//!
//! A command of a script runs inside the script's own transaction, as one of EXEC does. What it is refused for is checked
//! here, in Redis' order and words (`scriptCall`, Redis 7).

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mlua::{Lua, LuaString, MultiValue, Value};
use quartet_engine::Transaction;
use quartet_wire_resp::{Args, Arguments, Protocol, Reply};
use smallvec::SmallVec;

use super::conversion::{Fields, ReplyReader};
use super::numbers::general;
use crate::clients::ClientState;
use crate::command::{Command, DENYOOM, Group, NOSCRIPT, WRITE};
use crate::commands::transactions::writes_or_publishes;
use crate::context::Context;
use crate::execution::caching::remember_declared;
use crate::keyspace::NAME_BYTES_MAX;
use crate::layer::Redis;
use crate::long_scripts::LongScripts;
use crate::{errors, execution};

/// Marks a call that is no command: what follows says which. No script can lay hands on this value.
pub const MARK: mlua::LightUserData = mlua::LightUserData(std::ptr::without_provenance_mut(1));
const PROTOCOL: i64 = 2;
/// A larger buffer of a reply is not kept for the next run.
const REPLY_BYTES_KEPT_MAX: usize = 64 << 10;
/// Commands of more words need memory of their own on the way.
const WORDS_INLINE: usize = 8;

/// An error that a script may catch: it becomes a table with the field `err`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Raised {
    pub text: String,
    /// The statistics know of it already.
    pub counted: bool,
}

fn raise<T>(text: &str) -> mlua::Result<T> {
    let text = text.to_owned();
    Err(mlua::Error::external(Raised { text, counted: false }))
}

/// Calls of the present run.
pub struct Bridge<'a, 't, 'l> {
    pub tx: &'a mut Transaction<'t>,
    pub layer: &'l Redis,
    /// What the script's commands see as their connection.
    pub client: ClientState,
    pub now_ms: u64,
    pub read_only: bool,
    /// Memory was short when the script began, and it did not say that it may run all the same.
    pub out_of_memory: bool,
    pub has_written: bool,
    /// Told of the first write, if the script may be killed.
    pub long: Option<Arc<LongScripts>>,
    pub fields: Rc<Fields>,
    /// The keys that the script was given.
    pub declared: &'l [&'l [u8]],
    pub buffers: Buffers,
}

/// A command of a script, and its reply.
#[derive(Default)]
pub struct Buffers {
    request: Args,
    reply: Vec<u8>,
}

impl Buffers {
    /// What the next run gets: what an unusually large reply took is given back.
    pub fn kept(self) -> Buffers {
        match self.reply.capacity() > REPLY_BYTES_KEPT_MAX {
            true => Buffers {
                reply: Vec::new(),
                ..self
            },
            false => self,
        }
    }
}

impl Bridge<'_, '_, '_> {
    /// `redis.call`, or what the prelude asks for behind a mark. The interpreter may grow to `bytes_max`.
    pub fn call(&mut self, lua: &Lua, mut values: MultiValue, bytes_max: usize) -> mlua::Result<Value> {
        let is_marked = matches!(values.front(), Some(Value::LightUserData(mark)) if mark.0 == MARK.0);
        if is_marked {
            values.pop_front();
            let operation = values.pop_front().and_then(|value| value.as_integer());
            if operation == Some(PROTOCOL) {
                self.set_protocol(values.front());
                return Ok(Value::Nil);
            }
        }
        let mut words: SmallVec<[Word; WORDS_INLINE]> = SmallVec::with_capacity(values.len());
        for value in values {
            match Word::of(value) {
                Some(word) => words.push(word),
                None => return raise("ERR Lua redis lib command arguments must be strings or integers"),
            }
        }
        if words.is_empty() {
            return raise("ERR Please specify at least one argument for this redis lib call");
        }
        let mut request = std::mem::take(&mut self.buffers.request);
        request.gather(words.iter().map(Word::bytes));
        let arguments = request.of(b"");
        let answer = if is_marked {
            self.check_permission(arguments)
        } else {
            self.command(lua, arguments, bytes_max)
        };
        self.buffers.request = request;
        answer
    }

    fn set_protocol(&mut self, version: Option<&Value>) {
        self.client.protocol = match version.and_then(Value::as_integer) {
            Some(3) => Protocol::Resp3,
            _ => Protocol::Resp2,
        };
    }

    /// A refusal, counted as an error reply already.
    fn refusal(&self, text: &str) -> mlua::Result<Value> {
        self.layer.observation.statistics.error_sent(text.as_bytes());
        let text = text.to_owned();
        Err(mlua::Error::external(Raised { text, counted: true }))
    }

    fn command(&mut self, lua: &Lua, arguments: Arguments<'_>, bytes_max: usize) -> mlua::Result<Value> {
        let command = match self.layer.table.find_of(arguments) {
            Ok(command) => command,
            // A container without its subcommand.
            Err(_) if arguments.len() == 1 && self.layer.table.find(&arguments[0]).is_some() => {
                return self.refusal("ERR Wrong number of args calling Redis command from script");
            }
            Err(_) => return self.refusal("ERR Unknown Redis command called from script"),
        };
        if let Some(refused) = self.refused(command, arguments) {
            execution::call::count_rejected(self.layer, command);
            return self.refusal(refused);
        }
        if command.has(WRITE) && !self.has_written {
            self.has_written = true;
            if let Some(long) = &self.long {
                long.note_write();
            }
        }
        self.buffers.reply.clear();
        let mut context = Context {
            tx: &mut *self.tx,
            client: &mut self.client,
            layer: self.layer,
            reply: Reply::new(&mut self.buffers.reply, Protocol::Resp2).limited(self.layer.reply_bytes_max()),
            now_ms: self.now_ms,
            in_exec: true,
            retry_for: None,
        };
        context.reply.set_protocol(context.client.protocol);
        execution::call::call_queued(&mut context, command, arguments).expect("no script runs inside a script");
        remember_declared(&context, command, self.declared);
        self.answer(lua, bytes_max)
    }

    fn answer(&mut self, lua: &Lua, bytes_max: usize) -> mlua::Result<Value> {
        if let Some(error) = self.buffers.reply.strip_prefix(b"-") {
            let text = String::from_utf8_lossy(error).trim_end().to_owned();
            return Err(mlua::Error::external(Raised { text, counted: true }));
        }
        if lua.used_memory() + self.bytes_in_lua() > bytes_max {
            self.buffers.reply = Vec::new();
            return Err(mlua::Error::MemoryError("not enough memory".into()));
        }
        let fields = &self.fields;
        let bytes = &self.buffers.reply;
        ReplyReader { lua, fields, bytes }.value()
    }

    /// What the reply takes as a value of Lua, at most: the shortest element of an array has four bytes and takes sixteen.
    fn bytes_in_lua(&self) -> usize {
        let is_one_string = self.buffers.reply.starts_with(b"$");
        self.buffers.reply.len() * if is_one_string { 1 } else { 4 }
    }

    /// `redis.acl_check_cmd`: may the user who runs the script run this?
    fn check_permission(&self, arguments: Arguments<'_>) -> mlua::Result<Value> {
        match self.layer.table.find_of(arguments) {
            Ok(command) => Ok(Value::Boolean(self.client.user.check(command, arguments).is_ok())),
            Err(_) => raise("ERR Invalid command passed to redis.acl_check_cmd()"),
        }
    }

    fn refused(&self, command: &Command, arguments: Arguments<'_>) -> Option<&'static str> {
        if !command.accepts(arguments.len()) {
            return Some("ERR Wrong number of args calling Redis command from script");
        }
        let may_call_all =
            self.layer.scripting.scripts_call_all.load(Ordering::Relaxed) && command.group != Group::Scripting;
        if command.has(NOSCRIPT) && !may_call_all {
            return Some("ERR This Redis command is not allowed from script");
        }
        if self.read_only && writes_or_publishes(command) {
            return Some("ERR Write commands are not allowed from read-only scripts.");
        }
        if command.has(WRITE) && self.layer.replication.is_replica() && !self.client.is_upstream {
            return Some(errors::READ_ONLY_REPLICA);
        }
        if command.has(WRITE) && !self.has_written && self.layer.lacks_replicas() {
            return Some("NOREPLICAS Not enough good replicas to write.");
        }
        if command.has(DENYOOM) && !self.has_written && self.out_of_memory {
            return Some(errors::OUT_OF_MEMORY);
        }
        let longest = arguments.iter().map(<[u8]>::len).max().unwrap_or(0);
        if longest > NAME_BYTES_MAX && execution::call::has_long_key(command, arguments) {
            return Some(errors::KEY_TOO_LARGE);
        }
        None
    }
}

/// One argument of a command.
enum Word {
    Text(LuaString),
    Number(String),
}

impl Word {
    fn of(value: Value) -> Option<Word> {
        match value {
            Value::String(text) => Some(Word::Text(text)),
            Value::Integer(number) if number.unsigned_abs() < 100_000_000_000_000_000 => {
                Some(Word::Number(number.to_string()))
            }
            Value::Integer(number) => Some(Word::Number(general(number as f64, 17))),
            Value::Number(number) => Some(Word::Number(general(number, 17))),
            _ => None,
        }
    }

    fn bytes(&self) -> WordBytes<'_> {
        match self {
            Word::Text(text) => WordBytes::Text(text.as_bytes()),
            Word::Number(text) => WordBytes::Number(text.as_bytes()),
        }
    }
}

enum WordBytes<'a> {
    Text(mlua::BorrowedBytes),
    Number(&'a [u8]),
}

impl AsRef<[u8]> for WordBytes<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            WordBytes::Text(text) => text,
            WordBytes::Number(text) => text,
        }
    }
}
