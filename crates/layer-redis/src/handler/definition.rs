//! The entries of a family's part of the table of commands: each command, and the function that
//! runs it.

use quartet_wire_resp::Arguments;

pub use crate::command::error_reply::ErrorReply;
pub use crate::command::*;
use crate::handler::context::Context;
pub use crate::handler::outcome::{Deferred, Outcome};
use crate::layer::Redis;

/// Runs a command. It validates everything before its first write, so an error never leaves partial
/// effects.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Answers at once, as nearly all do.
    Answers(Answering),
    /// May leave something else to be done than to send its reply.
    Decides(Deciding),
    /// Runs other commands inside its own transaction: EXEC and scripts.
    Nests(Nesting),
}

pub use Handler::{Answers, Decides, Nests};

pub type Answering = fn(&mut Context<'_, '_>, Arguments<'_>) -> Result<(), ErrorReply>;
pub type Deciding = fn(&mut Context<'_, '_>, Arguments<'_>) -> Result<Outcome, ErrorReply>;

pub type Nesting = fn(&mut Context<'_, '_>, Arguments<'_>, Nested<'_>) -> Result<Outcome, ErrorReply>;
/// Runs one queued command, or one of a script, inside the present transaction. Its errors become
/// its reply.
pub type RunNested = fn(&Redis, &mut Context<'_, '_>, &'static Command, Arguments<'_>) -> Result<(), LongRunning>;

/// Lets EXEC and scripts run other commands inside their own transaction.
#[derive(Clone, Copy)]
pub struct Nested<'c> {
    layer: &'c Redis,
    run: RunNested,
}

impl<'c> Nested<'c> {
    pub fn new(layer: &'c Redis, run: RunNested) -> Nested<'c> {
        Nested { layer, run }
    }

    pub fn run(
        self,
        context: &mut Context<'_, '_>,
        command: &'static Command,
        arguments: Arguments<'_>,
    ) -> Result<(), LongRunning> {
        (self.run)(self.layer, context, command, arguments)
    }
}

/// The command takes too long for this thread, or the script or the transaction that it is of must
/// end: what it has answered is none.
#[derive(Debug)]
pub struct LongRunning;

impl Handler {
    #[inline]
    pub fn run(
        self,
        context: &mut Context<'_, '_>,
        arguments: Arguments<'_>,
        nested: Nested<'_>,
    ) -> Result<Outcome, ErrorReply> {
        match self {
            Answers(handler) => handler(context, arguments).map(|()| Outcome::Done),
            Decides(handler) => handler(context, arguments),
            Nests(handler) => handler(context, arguments, nested),
        }
    }
}

/// A command with what runs it, and with its subcommands.
pub struct Definition {
    pub command: Command,
    pub handler: Handler,
    pub subcommands: &'static [Definition],
}

impl Definition {
    /// The same entry, for a command that was introduced later than its neighbours.
    pub const fn since(self, since: &'static str) -> Definition {
        Definition {
            command: Command { since, ..self.command },
            ..self
        }
    }

    /// The same entry, with other keys than its neighbours.
    pub const fn keys(self, keys: Keys) -> Definition {
        Definition {
            command: Command { keys, ..self.command },
            ..self
        }
    }
}

/// One entry of the table. A `const fn` with named positions keeps a family's table one line a
/// command.
#[allow(
    clippy::too_many_arguments,
    reason = "one entry of a table; a builder would hide its columns"
)]
pub const fn command(
    name: &'static str,
    arity: i32,
    flags: u32,
    keys: Keys,
    group: Group,
    since: &'static str,
    complexity: &'static str,
    summary: &'static str,
    handler: Answering,
) -> Definition {
    let handler = Answers(handler);
    entry(name, arity, flags, keys, group, since, complexity, summary, handler)
}

/// The same for a handler of any kind.
#[allow(clippy::too_many_arguments, reason = "the columns of `command`")]
pub const fn entry(
    name: &'static str,
    arity: i32,
    flags: u32,
    keys: Keys,
    group: Group,
    since: &'static str,
    complexity: &'static str,
    summary: &'static str,
    handler: Handler,
) -> Definition {
    Definition {
        command: Command {
            name,
            arity,
            flags,
            keys,
            group,
            since,
            complexity,
            summary,
            subcommand_count: 0,
        },
        handler,
        subcommands: &[],
    }
}

/// A command that only contains subcommands. It replies an error itself for an absent or unknown
/// subcommand.
pub const fn container(
    name: &'static str,
    group: Group,
    since: &'static str,
    summary: &'static str,
    subcommands: &'static [Definition],
) -> Definition {
    Definition {
        command: Command {
            name,
            arity: -2,
            flags: 0,
            keys: NO_KEYS,
            group,
            since,
            complexity: "Depends on the subcommand.",
            summary,
            subcommand_count: subcommands.len(),
        },
        handler: Answers(|_, _| Err(ErrorReply::new("ERR internal: a container was called"))),
        subcommands,
    }
}
