//! COMMAND: the table of commands as clients see it. Everything is derived from the table; the
//! flags of keys are in `key_flags`, Redis' other descriptions of commands in `tips` and
//! `deprecations`, and their arguments in `arguments`.

use quartet_wire_resp::{Arguments, Reply};

use super::deprecations::{deprecation, doc_flag};
use super::tips::tips;
use crate::command::key_flags::{key_flags, request_key_flags};
use crate::command::table::Table;
use crate::commands::help::help;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::{command::errors, command::glob, command::parse};

const CONTAINER: Definition = container(
    "command",
    Group::Server,
    "2.8.13",
    "Describes all commands.",
    SUBCOMMANDS,
);

/// It also answers by itself.
pub const COMMANDS: &[Definition] = &[Definition {
    command: Command {
        arity: -1,
        flags: LOADING | STALE | CONNECTION_CATEGORY,
        ..CONTAINER.command
    },
    handler: Answers(all),
    ..CONTAINER
}];

const FAMILY: Family = Family::of(Group::Server)
    .since("2.8.13")
    .complexity("O(N) in the number of commands");

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    FAMILY.row("command|count", 2, LOADING | STALE | CONNECTION_CATEGORY, "Returns how many commands there are.", Answers(count)),
    FAMILY.row("command|docs", -2, LOADING | STALE | CONNECTION_CATEGORY, "Documents all commands, or those given.", Answers(docs)).since("7.0.0"),
    FAMILY.row("command|getkeys", -3, LOADING | STALE | CONNECTION_CATEGORY, "Returns the keys in a request.", Answers(get_keys)),
    FAMILY.row("command|getkeysandflags", -3, LOADING | STALE | CONNECTION_CATEGORY, "Returns the keys in a request, with what happens to them.", Answers(get_keys_and_flags)).since("7.0.0"),
    FAMILY.row("command|help", 2, LOADING | STALE | CONNECTION_CATEGORY, "Lists the subcommands.", Answers(help)).since("5.0.0"),
    FAMILY.row("command|info", -2, LOADING | STALE | CONNECTION_CATEGORY, "Describes all commands, or those given.", Answers(info)),
    FAMILY.row("command|list", -2, LOADING | STALE | CONNECTION_CATEGORY, "Lists the names of commands.", Answers(list)).since("7.0.0"),
];

fn all(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let table = context.table();
    context.reply.array(table.commands().count());
    table.commands().for_each(|command| describe(context, command));
    Ok(())
}

fn count(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    context.reply.integer(context.table().commands().count() as i64);
    Ok(())
}

fn info(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.len() == 2 {
        return all(context, arguments);
    }
    context.reply.array(arguments.len() - 2);
    for name in arguments.iter().skip(2) {
        match context.table().find(name) {
            Some(command) => describe(context, command),
            None => context.reply.null(),
        }
    }
    Ok(())
}

/// The ten elements that describe a command.
fn describe(context: &mut Context<'_, '_>, command: &'static Command) {
    let (first, last, step) = simple_keys(command);
    let flags: Vec<_> = FLAG_NAMES.iter().filter(|(flag, _)| command.has(*flag)).collect();
    let categories = command.categories();
    let reply = &mut context.reply;
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(command.arity.into());
    reply.set(flags.len());
    flags.iter().for_each(|(_, name)| reply.simple(name));
    reply.integer(first.into());
    reply.integer(last.into());
    reply.integer(step.into());
    reply.set(categories.len());
    categories.iter().for_each(|name| reply.simple(&format!("@{name}")));
    let tips = tips(command).split_ascii_whitespace();
    reply.array(tips.clone().count());
    tips.for_each(|tip| reply.bulk(tip.as_bytes()));
    describe_keys(context, command);
    let subcommands = context.table().subcommands(command);
    context.reply.array(subcommands.len());
    subcommands.iter().for_each(|subcommand| describe(context, subcommand));
}

/// First key, last key and step, as old clients read them; zeros if that does not say where the
/// first keys are.
fn simple_keys(command: &Command) -> (i32, i32, i32) {
    match command.keys {
        Keys::Range { first, last, step } => (first, last, step),
        Keys::Channels { last } => (1, last, 1),
        Keys::Counted { also, .. } if also > 0 => (also as i32, also as i32, 1),
        Keys::Computed(_, [first, ..]) => match (first.begin, first.find) {
            (Begin::Index(index), Find::Range { step, .. }) => (index, index, step),
            _ => (0, 0, 0),
        },
        Keys::None | Keys::Counted { .. } | Keys::Computed(_, []) => (0, 0, 0),
    }
}

/// The command's key specifications. One is made of a range of keys, or two if its first key is
/// used otherwise than the rest.
fn specifications(command: &Command) -> Vec<Specification> {
    let single =
        |at: usize, position: i32, find: Find| Specification::new(key_flags(command, at), Begin::Index(position), find);
    match command.keys {
        Keys::None => Vec::new(),
        Keys::Channels { last } => {
            let find = if last < 0 { Find::REST } else { Find::ONE };
            vec![Specification::new("not_key", Begin::Index(1), find)]
        }
        Keys::Range { first, last, step } => {
            let range = |from: i32| Find::Range {
                last: if last < 0 { last } else { last - from },
                step,
                limit: 0,
            };
            match key_flags(command, 0) == key_flags(command, 1) {
                true => vec![single(0, first, range(first))],
                false => vec![single(0, first, Find::ONE), single(1, first + 1, range(first + 1))],
            }
        }
        Keys::Counted { count, also: 0 } => vec![single(0, count as i32, Find::Counted { step: 1 })],
        Keys::Counted { count, also } => vec![
            single(0, also as i32, Find::ONE),
            single(1, count as i32, Find::Counted { step: 1 }),
        ],
        Keys::Computed(_, specifications) => specifications.to_vec(),
    }
}

fn describe_keys(context: &mut Context<'_, '_>, command: &'static Command) {
    let specifications = specifications(command);
    context.reply.array(specifications.len());
    for specification in &specifications {
        describe_specification(context, specification);
    }
}

fn describe_specification(context: &mut Context<'_, '_>, specification: &Specification) {
    let reply = &mut context.reply;
    let flags = specification.flags.split(' ');
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(flags.clone().count());
    flags.for_each(|flag| reply.simple(flag));
    reply.bulk(b"begin_search");
    match specification.begin {
        Begin::Index(index) => describe_search(reply, "index", None, &[("index", index)]),
        Begin::Keyword(word, from) => describe_search(reply, "keyword", Some(word), &[("startfrom", from)]),
        Begin::Unknown => describe_search(reply, "unknown", None, &[]),
    }
    reply.bulk(b"find_keys");
    match specification.find {
        Find::Range { last, step, limit } => {
            describe_search(
                reply,
                "range",
                None,
                &[("lastkey", last), ("keystep", step), ("limit", limit)],
            );
        }
        Find::Counted { step } => {
            describe_search(
                reply,
                "keynum",
                None,
                &[("keynumidx", 0), ("firstkey", 1), ("keystep", step)],
            );
        }
        Find::Unknown => describe_search(reply, "unknown", None, &[]),
    }
}

fn describe_search(reply: &mut Reply<'_>, kind: &str, keyword: Option<&str>, numbers: &[(&str, i32)]) {
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(kind.as_bytes());
    reply.bulk(b"spec");
    reply.map(numbers.len() + usize::from(keyword.is_some()));
    if let Some(word) = keyword {
        reply.bulk(b"keyword");
        reply.bulk(word.as_bytes());
    }
    for (field, value) in numbers {
        reply.bulk(field.as_bytes());
        reply.integer((*value).into());
    }
}

fn docs(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let table = context.table();
    let commands: Vec<&'static Command> = match arguments.len() {
        2 => table.commands().collect(),
        _ => arguments.iter().skip(2).filter_map(|name| table.find(name)).collect(),
    };
    context.reply.map(commands.len());
    commands.into_iter().for_each(|command| document(context, command));
    Ok(())
}

fn document(context: &mut Context<'_, '_>, command: &'static Command) {
    let commands = context.commands();
    let reply = &mut context.reply;
    reply.bulk(command.name.as_bytes());
    let arguments = commands.arguments_of(command);
    let flag = doc_flag(command.name);
    let deprecation = deprecation(command.name);
    let parts = [!arguments.is_empty(), command.subcommand_count > 0, flag.is_some()];
    reply.map(4 + parts.iter().filter(|is_there| **is_there).count() + deprecation.map_or(0, |_| 2));
    for (name, text) in [
        ("summary", command.summary),
        ("since", command.since),
        ("group", command.group.name()),
        ("complexity", command.complexity),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    }
    if let Some(flag) = flag {
        reply.bulk(b"doc_flags");
        reply.set(1);
        reply.simple(flag);
    }
    if let Some((since, instead)) = deprecation {
        reply.bulk(b"deprecated_since");
        reply.bulk(since.as_bytes());
        reply.bulk(b"replaced_by");
        reply.bulk(instead.as_bytes());
    }
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        reply.array(arguments.len());
        arguments.iter().for_each(|argument| argument.write(reply));
    }
    if command.subcommand_count > 0 {
        reply.bulk(b"subcommands");
        reply.map(command.subcommand_count);
        let table = context.table();
        table
            .subcommands(command)
            .iter()
            .for_each(|subcommand| document(context, subcommand));
    }
}

fn list(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let is_filter = arguments.len() == 5 && parse::is(&arguments[2], "filterby");
    if arguments.len() != 2 && !is_filter {
        return Err(errors::SYNTAX.into());
    }
    let all = context.table().all();
    let names: Vec<&str> = match arguments.get(3) {
        None => all.map(|command| command.name).collect(),
        Some(filter) => {
            let matches = filter_of(filter, &arguments[4])?;
            all.filter(|command| matches(command))
                .map(|command| command.name)
                .collect()
        }
    };
    context.reply.array(names.len());
    names.iter().for_each(|name| context.reply.bulk(name.as_bytes()));
    Ok(())
}

type Filter<'a> = Box<dyn Fn(&Command) -> bool + 'a>;

/// Commands of a family that is a module at the original belong to the module of its name.
fn filter_of<'a>(filter: &[u8], value: &'a [u8]) -> Result<Filter<'a>, ErrorReply> {
    match String::from_utf8_lossy(filter).to_ascii_lowercase().as_str() {
        "module" => Ok(Box::new(move |command| {
            module_of(command).is_some_and(|name| name.as_bytes() == value)
        })),
        "aclcat" => Ok(Box::new(|command| {
            command
                .categories()
                .iter()
                .any(|name| value.eq_ignore_ascii_case(name.as_bytes()))
        })),
        "pattern" => Ok(Box::new(|command| {
            glob::matches_case(value, command.name.as_bytes(), true)
        })),
        _ => Err(errors::SYNTAX.into()),
    }
}

fn module_of(command: &Command) -> Option<&'static str> {
    match command.group {
        Group::Json => Some("ReJSON"),
        Group::Module(group) => group.module,
        _ => None,
    }
}

/// A request inside a request: its command and the positions of its keys.
fn keys_in(table: &Table, request: Arguments<'_>) -> Result<(&'static Command, Vec<usize>), ErrorReply> {
    let command = table
        .find_of(request)
        .map_err(|_| ErrorReply::from("ERR Invalid command specified"))?;
    if !command.accepts(request.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    if matches!(command.keys, Keys::None | Keys::Channels { .. }) {
        return Err("ERR The command has no key arguments".into());
    }
    let positions = command.keys.positions(request);
    if positions.is_empty() && !command.has(NO_MANDATORY_KEYS) {
        return Err("ERR Invalid arguments specified for command".into());
    }
    Ok((command, positions))
}

fn get_keys(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let request = arguments.tail(2);
    let (_, positions) = keys_in(context.table(), request)?;
    context.reply.array(positions.len());
    positions
        .iter()
        .for_each(|position| context.reply.bulk(&request[*position]));
    Ok(())
}

fn get_keys_and_flags(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let request = arguments.tail(2);
    let (command, positions) = keys_in(context.table(), request)?;
    let reply = &mut context.reply;
    reply.array(positions.len());
    for (index, position) in positions.into_iter().enumerate() {
        let flags = request_key_flags(command, request, index);
        let flags: Vec<&str> = flags.split(' ').collect();
        reply.array(2);
        reply.bulk(&request[position]);
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    Ok(())
}
