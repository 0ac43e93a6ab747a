//! HELP of every command that has subcommands, derived from the table.

use quartet_wire_resp::Arguments;

use crate::handler::context::Context;
use crate::handler::definition::*;

/// The row of a container's HELP subcommand.
pub const fn help_command(name: &'static str, group: Group, since: &'static str) -> Definition {
    let family = Family::of(group).since(since);
    family.row(name, 2, LOADING | STALE, "Lists the subcommands.", Answers(help))
}

/// Replies the help of the called container.
pub fn help(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let table = context.table();
    let container = table.find(&arguments[0]).expect("the container that was called");
    let rows = table.subcommands(container).iter().map(|subcommand| {
        let (_, word) = subcommand.name.split_once('|').expect("a subcommand's full name");
        (word.to_uppercase(), subcommand.summary)
    });
    write(context, &container.name.to_uppercase(), &rows.collect::<Vec<_>>());
    Ok(())
}

/// Writes the help of a container: subcommands with their descriptions.
pub fn write(context: &mut Context<'_, '_>, container: &str, rows: &[(String, &str)]) {
    context.reply.array(1 + 2 * rows.len());
    let head = format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    context.reply.simple(&head);
    for (usage, summary) in rows {
        context.reply.simple(usage);
        context.reply.simple(&format!("    {summary}"));
    }
}
