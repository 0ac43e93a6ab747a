//! The way from a running script to the commands: `redis.call`, `redis.setresp`,
//! `redis.acl_check_cmd`.
//!
//! A command of a script runs inside the script's own transaction, as one of EXEC does. Its
//! refusals are checked here, in Redis' order and words (`scriptCall`, Redis 7).

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mlua::Lua;
use quartet_engine::Transaction;
use quartet_wire_resp::reply::{counted_bytes, grow};
use quartet_wire_resp::{Args, Arguments, Protocol, Reply, ReplyMemory};
use smallvec::SmallVec;

use super::budget::Budget;
use super::conversion::{ReplyReader, put_error, truncated};
use super::interpreter::limit_memory;
use super::numbers::general;
use super::stack::{Argument, Stack};
use crate::command::errors;
use crate::command::{Command, Group, NOSCRIPT, WRITE};
use crate::commands::transactions::writes_or_publishes;
use crate::connections::clients::ClientState;
use crate::handler::allowance::Allowance;
use crate::handler::caching::remember_declared;
use crate::handler::context::Context;
use crate::handler::definition::Nested;
use crate::handler::groups::Groups;
use crate::keyspace::{NAME_BYTES_MAX, has_long_key};
use crate::scripting::long_scripts::LongScripts;

/// Marks an internal call: the next argument selects it. Scripts cannot obtain this value.
pub const MARK: mlua::LightUserData = mlua::LightUserData(std::ptr::without_provenance_mut(1));
const PROTOCOL: f64 = 2.0;
const NO_LIMIT: usize = 0;
/// A larger buffer of a reply is not kept for the next run.
const REPLY_BYTES_KEPT_MAX: usize = 64 << 10;
/// Longer arrays as answers go the way of all others.
const ELEMENTS_MAX: usize = 128;

/// An error that a script may catch.
pub enum Raised {
    /// It becomes a table with the field `err`.
    Table {
        text: String,
        /// The statistics know of it already.
        counted: bool,
    },
    OutOfMemory,
    /// The run must end: the prelude catches nothing any more.
    Stopped,
}

fn raised(text: &str) -> Raised {
    let text = text.to_owned();
    Raised::Table { text, counted: false }
}

/// Calls of the present run.
pub struct Bridge<'a, 't, 'l> {
    pub tx: &'a mut Transaction<'t>,
    pub groups: Groups<'l>,
    pub nested: Nested<'l>,
    /// The script's commands see it as their connection.
    pub client: ClientState,
    pub now_ms: u64,
    pub read_only: bool,
    /// Memory was short at the start of the script, and it has no flag to run all the same.
    pub out_of_memory: bool,
    pub has_written: bool,
    /// Called at the first write, if the script may be killed.
    pub long: Option<Arc<LongScripts>>,
    /// The keys that the script was given.
    pub keys: &'l [&'l [u8]],
    /// Its other arguments.
    pub values: &'l [&'l [u8]],
    pub buffers: Buffers,
    /// The script's answer, if it is plain.
    pub answer: Option<Answer>,
    pub lua: Lua,
    /// Memory at which the interpreter ends, while it runs the code of others.
    pub bytes_max: Rc<Cell<usize>>,
    /// How long the run may take: looked at before and after each command, as a loop of few
    /// instructions may hold many of them, and by commands that look at much.
    pub budget: Rc<Budget>,
}

/// A plain answer of a script: one element, or an array of them.
#[derive(Default)]
pub struct Answer {
    is_array: bool,
    elements: SmallVec<[Element; 4]>,
}

enum Element {
    Integer(i64),
    /// The bytes in the buffer of the reply.
    Text(Range<usize>),
}

impl Answer {
    pub fn write(&self, buffers: &Buffers, reply: &mut Reply<'_>) {
        if self.is_array {
            reply.array(self.elements.len());
        }
        for element in &self.elements {
            match element {
                Element::Integer(value) => reply.integer(*value),
                Element::Text(place) => reply.bulk(&buffers.reply[place.clone()]),
            }
        }
    }
}

/// A command of a script, and its reply; then its answer's texts.
#[derive(Default)]
pub struct Buffers {
    request: Args,
    reply: Vec<u8>,
}

impl Buffers {
    /// The next run's buffers: the memory of an unusually large reply is given back.
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
    /// `redis.call`, or the prelude's internal call after a mark. Pushes one result.
    pub fn call(&mut self, stack: &Stack) -> Result<(), Raised> {
        let is_marked = stack.arguments() > 0 && matches!(stack.argument(0), Argument::Pointer(mark) if mark == MARK.0);
        if is_marked && matches!(stack.argument(1), Argument::Number(operation) if operation == PROTOCOL) {
            self.client.protocol = match stack.argument(2) {
                Argument::Number(3.0) => Protocol::Resp3,
                _ => Protocol::Resp2,
            };
            stack.nil();
            return Ok(());
        }
        let first = if is_marked { 2 } else { 0 };
        let mut all_words = true;
        let mut request = std::mem::take(&mut self.buffers.request);
        request.gather((first..stack.arguments()).map(|index| {
            let word = Word::of(stack.argument(index));
            all_words &= word.is_some();
            word.unwrap_or(Word::Text(b""))
        }));
        let answer = match first < stack.arguments() {
            false => Err(raised(
                "ERR Please specify at least one argument for this redis lib call",
            )),
            true if !all_words => Err(raised(
                "ERR Lua redis lib command arguments must be strings or integers",
            )),
            true if is_marked => self.check_permission(stack, request.of(b"")),
            true => self.command(stack, request.of(b"")),
        };
        self.buffers.request = request;
        answer
    }

    /// Takes over the answer of the script, the only argument, if it is a text, a number or a short
    /// array of those.
    pub fn take_answer(&mut self, stack: &Stack) -> bool {
        let (bytes, memory) = (&mut self.buffers.reply, self.groups.memory());
        bytes.clear();
        let mut answer = Answer::default();
        let mut add = |argument: Argument<'_>| {
            answer.elements.push(match argument {
                Argument::Text(text) => {
                    if memory.is_some_and(|memory| !grow(bytes, text.len(), memory)) {
                        return false;
                    }
                    let start = bytes.len();
                    bytes.extend_from_slice(text);
                    Element::Text(start..bytes.len())
                }
                Argument::Number(number) => Element::Integer(truncated(number)),
                _ => return false,
            });
            true
        };
        let (is_array, is_taken) = match stack.argument(0) {
            Argument::Table => (true, stack.elements(0, ELEMENTS_MAX, &mut add)),
            other => (false, add(other)),
        };
        answer.is_array = is_array;
        self.answer = is_taken.then_some(answer);
        is_taken
    }

    /// Puts the keys and the other arguments of the script, as two tables.
    pub fn give_words(&self, stack: &Stack) {
        for words in [self.keys, self.values] {
            stack.table(words.len());
            for (index, word) in words.iter().enumerate() {
                stack.text(word);
                stack.set_element(index + 1);
            }
        }
    }

    pub fn put_error(&self, stack: &Stack, raised: Raised) {
        match raised {
            Raised::Table { text, counted } => put_error(stack, text.as_bytes(), counted),
            Raised::OutOfMemory => stack.text(b"not enough memory"),
            Raised::Stopped => stack.text(b"stopped"),
        }
    }

    pub fn lift_memory_limit(&self) {
        limit_memory(&self.lua, NO_LIMIT);
    }

    pub fn restore_memory_limit(&self) {
        limit_memory(&self.lua, self.bytes_max.get());
    }

    /// A refusal, counted as an error reply already.
    fn refusal(&self, text: &str) -> Raised {
        self.groups.observation().statistics.error_sent(text.as_bytes());
        let text = text.to_owned();
        Raised::Table { text, counted: true }
    }

    fn command(&mut self, stack: &Stack, arguments: Arguments<'_>) -> Result<(), Raised> {
        let command = match self.groups.table().find_of(arguments) {
            Ok(command) => command,
            // A container without its subcommand.
            Err(_) if arguments.len() == 1 && self.groups.table().find(&arguments[0]).is_some() => {
                return Err(self.refusal("ERR Wrong number of args calling Redis command from script"));
            }
            Err(_) => return Err(self.refusal("ERR Unknown Redis command called from script")),
        };
        if let Some(refused) = self.refused(command, arguments) {
            let index = self.groups.table().index(command);
            self.groups.observation().statistics.count_rejected(index);
            return Err(self.refusal(refused));
        }
        if !self.may_go_on() {
            return Err(Raised::Stopped);
        }
        if command.has(WRITE) && !self.has_written {
            self.has_written = true;
            if let Some(long) = &self.long {
                long.note_write();
            }
        }
        self.buffers.reply.clear();
        let allowance = Allowance::within(&*self.budget);
        let mut reply = Reply::new(&mut self.buffers.reply, Protocol::Resp2).limited(self.groups.reply_bytes_max());
        if let Some(memory) = self.groups.memory() {
            reply = reply.with_memory(memory);
        }
        let mut context = Context {
            tx: &mut *self.tx,
            client: &mut self.client,
            groups: self.groups.allowed(Some(&allowance)),
            reply,
            now_ms: self.now_ms,
            in_exec: true,
            retry_for: None,
        };
        context.reply.set_protocol(context.client.protocol);
        let nested = self.nested;
        let has_ended = nested.run(&mut context, command, arguments).is_ok();
        assert!(has_ended || self.budget.is_stopped(), "no script runs inside a script");
        if !has_ended || !self.may_go_on() {
            return Err(Raised::Stopped);
        }
        remember_declared(self.groups, &self.client, command, self.keys);
        self.answer(stack)
    }

    /// Looks at how long the run has gone on: until its last command ended, which needs no look at
    /// the clock.
    fn may_go_on(&self) -> bool {
        let now_micros = self.client.shared.last_active_micros.load(Ordering::Relaxed);
        self.budget.may_go_on_at(now_micros)
    }

    fn answer(&mut self, stack: &Stack) -> Result<(), Raised> {
        if let Some(error) = self.buffers.reply.strip_prefix(b"-") {
            let text = String::from_utf8_lossy(error).trim_end().to_owned();
            return Err(Raised::Table { text, counted: true });
        }
        if self.lua.used_memory() + self.bytes_in_lua() > self.bytes_max.get() {
            self.drop_reply();
            return Err(Raised::OutOfMemory);
        }
        let bytes = &self.buffers.reply;
        ReplyReader { stack, bytes }.value();
        Ok(())
    }

    /// Gives the memory of a large reply back.
    fn drop_reply(&mut self) {
        let bytes = counted_bytes(std::mem::take(&mut self.buffers.reply).capacity());
        if let Some(memory) = self.groups.memory() {
            memory.give_back(bytes);
        }
    }

    /// Upper bound on the size of the reply as a value of Lua: the shortest element of an array has
    /// four bytes and takes sixteen.
    fn bytes_in_lua(&self) -> usize {
        let is_one_string = self.buffers.reply.starts_with(b"$");
        self.buffers.reply.len() * if is_one_string { 1 } else { 4 }
    }

    /// `redis.acl_check_cmd`: may the user who runs the script run this?
    fn check_permission(&self, stack: &Stack, arguments: Arguments<'_>) -> Result<(), Raised> {
        let command = self.groups.table().find_of(arguments);
        let command = command.map_err(|_| raised("ERR Invalid command passed to redis.acl_check_cmd()"))?;
        stack.boolean(self.client.user.check(command, arguments).is_ok());
        Ok(())
    }

    fn refused(&self, command: &Command, arguments: Arguments<'_>) -> Option<&'static str> {
        if !command.accepts(arguments.len()) {
            return Some("ERR Wrong number of args calling Redis command from script");
        }
        let may_call_all =
            self.groups.scripting().scripts_call_all.load(Ordering::Relaxed) && command.group != Group::Scripting;
        if command.has(NOSCRIPT) && !may_call_all {
            return Some("ERR This Redis command is not allowed from script");
        }
        if self.read_only && writes_or_publishes(command) {
            return Some("ERR Write commands are not allowed from read-only scripts.");
        }
        if command.has(WRITE) && self.groups.replication().is_replica() && !self.client.is_upstream {
            return Some(errors::READ_ONLY_REPLICA);
        }
        if command.has(WRITE) && !self.has_written && self.groups.lacks_replicas() {
            return Some("NOREPLICAS Not enough good replicas to write.");
        }
        if command.grows() && !self.has_written && self.out_of_memory {
            return Some(errors::OUT_OF_MEMORY);
        }
        let longest = arguments.iter().map(<[u8]>::len).max().unwrap_or(0);
        if longest > NAME_BYTES_MAX && has_long_key(command, arguments) {
            return Some(errors::KEY_TOO_LARGE);
        }
        None
    }
}

/// One argument of a command.
enum Word<'s> {
    Text(&'s [u8]),
    Number(String),
}

impl Word<'_> {
    fn of(argument: Argument<'_>) -> Option<Word<'_>> {
        match argument {
            Argument::Text(text) => Some(Word::Text(text)),
            Argument::Number(number) => Some(Word::Number(written(number))),
            Argument::Pointer(_) | Argument::Table | Argument::Other => None,
        }
    }
}

impl AsRef<[u8]> for Word<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Word::Text(text) => text,
            Word::Number(text) => text.as_bytes(),
        }
    }
}

fn written(number: f64) -> String {
    let integer = number as i64;
    let is_integer = (integer as f64).to_bits() == number.to_bits();
    if is_integer && integer.unsigned_abs() < 100_000_000_000_000_000 {
        integer.to_string()
    } else {
        general(number, 17)
    }
}
