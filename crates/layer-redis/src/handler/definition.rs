//! The entries of a family's part of the table of commands: each command, and the function that
//! runs it.

use quartet_wire_resp::Arguments;

pub use crate::command::error_reply::ErrorReply;
pub use crate::command::*;
use crate::handler::context::Context;
pub use crate::handler::outcome::{Deferred, Disks, Outcome, ReplicaWait};
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

/// The columns in which the rows of one table agree: [`Family::row`] makes all of them. A row that
/// differs says so behind it: `FAMILY.row("get", 2, READONLY, "...", Answers(get)).since("1.0.0")`.
#[derive(Clone, Copy)]
pub struct Family {
    group: Group,
    keys: Keys,
    since: &'static str,
    complexity: &'static str,
}

impl Family {
    /// Commands of the first version that take constant time and name no key.
    pub const fn of(group: Group) -> Family {
        Family {
            group,
            keys: NO_KEYS,
            since: "1.0.0",
            complexity: "O(1)",
        }
    }

    pub const fn keys(self, keys: Keys) -> Family {
        Family { keys, ..self }
    }

    pub const fn since(self, since: &'static str) -> Family {
        Family { since, ..self }
    }

    pub const fn complexity(self, complexity: &'static str) -> Family {
        Family { complexity, ..self }
    }

    /// A row of the table.
    pub const fn row(
        self,
        name: &'static str,
        arity: i32,
        flags: u32,
        summary: &'static str,
        handler: Handler,
    ) -> Definition {
        Definition {
            command: Command {
                name,
                arity,
                flags,
                keys: self.keys,
                group: self.group,
                since: self.since,
                complexity: self.complexity,
                summary,
                subcommand_count: 0,
            },
            handler,
            subcommands: &[],
        }
    }
}

/// Columns where a row differs from its family.
impl Definition {
    pub const fn group(self, group: Group) -> Definition {
        let command = Command { group, ..self.command };
        Definition { command, ..self }
    }

    pub const fn keys(self, keys: Keys) -> Definition {
        let command = Command { keys, ..self.command };
        Definition { command, ..self }
    }

    pub const fn since(self, since: &'static str) -> Definition {
        let command = Command { since, ..self.command };
        Definition { command, ..self }
    }

    pub const fn complexity(self, complexity: &'static str) -> Definition {
        let command = Command {
            complexity,
            ..self.command
        };
        Definition { command, ..self }
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
