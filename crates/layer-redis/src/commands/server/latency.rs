//! LATENCY: events that took long, and distributions of how long commands take.

use quartet_wire_resp::Arguments;

use crate::command::table::Table;
use crate::commands::help::help_command;
use crate::handler::context::Context;
use crate::handler::definition::*;

pub const COMMANDS: &[Definition] = &[container(
    "latency",
    Group::Server,
    "2.8.13",
    "Holds the commands about durations.",
    SUBCOMMANDS,
)];

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    row("latency|doctor", 2, "2.8.13", "Describes the events in words.", doctor),
    help_command("latency|help", Group::Server, "2.8.13"),
    row("latency|histogram", -2, "7.0.0", "Returns how long the calls of commands took.", histogram),
    row("latency|history", 3, "2.8.13", "Returns the samples of an event.", history),
    row("latency|latest", 2, "2.8.13", "Returns the latest sample of each event.", latest),
    row("latency|reset", -2, "2.8.13", "Forgets all events, or those given.", reset),
];

const fn row(
    name: &'static str,
    arity: i32,
    since: &'static str,
    summary: &'static str,
    handler: Answering,
) -> Definition {
    let flags = ADMIN | NOSCRIPT | LOADING | STALE;
    command(
        name,
        arity,
        flags,
        NO_KEYS,
        Group::Server,
        since,
        "O(1)",
        summary,
        handler,
    )
}

fn latest(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let events = context.observation().latency.lock();
    let reply = &mut context.reply;
    reply.array(events.all().len());
    for (name, event) in events.all() {
        let sample = event.samples.back().expect("an event has a sample");
        reply.array(4);
        reply.bulk(name.as_bytes());
        reply.integer(sample.at_seconds as i64);
        reply.integer(sample.milliseconds as i64);
        reply.integer(event.worst_ms as i64);
    }
    Ok(())
}

fn history(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let events = context.observation().latency.lock();
    let samples = events
        .find(&arguments[2])
        .map(|event| event.samples.clone())
        .unwrap_or_default();
    context.reply.array(samples.len());
    for sample in samples {
        context.reply.array(2);
        context.reply.integer(sample.at_seconds as i64);
        context.reply.integer(sample.milliseconds as i64);
    }
    Ok(())
}

fn reset(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mut events = context.observation().latency.lock();
    let forgotten = match arguments.len() {
        2 => events.forget_all(),
        _ => arguments.iter().skip(2).filter(|name| events.forget(name)).count(),
    };
    context.reply.integer(forgotten as i64);
    Ok(())
}

fn doctor(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let events = context.observation().latency.lock();
    let mut text = String::new();
    for (name, event) in events.all() {
        let count = event.samples.len();
        text += &format!("{name}: {count} samples, the worst {} milliseconds.\n", event.worst_ms);
    }
    if text.is_empty() {
        text = "No event has exceeded latency-monitor-threshold (0 turns the monitor off).\n".into();
    }
    context.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

/// Commands by name, each with its calls and how many of them ended within which number of
/// microseconds.
fn histogram(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let table = context.table();
    let chosen = chosen_commands(table, arguments);
    let counters = &context.observation().statistics.commands.0;
    let rows: Vec<_> = chosen
        .into_iter()
        .map(|index| (table.at(index).name, counters[index].durations.cumulative()))
        .filter(|(_, steps)| !steps.is_empty())
        .collect();
    let reply = &mut context.reply;
    reply.map(rows.len());
    for (name, steps) in rows {
        reply.bulk(name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(steps.last().map_or(0, |(_, calls)| *calls as i64));
        reply.bulk(b"histogram_usec");
        reply.map(steps.len());
        for (micros, calls) in steps {
            reply.integer(micros as i64);
            reply.integer(calls as i64);
        }
    }
    Ok(())
}

/// Numbers of the requested commands, with a container expanded to its subcommands; of all commands
/// by default.
fn chosen_commands(table: &Table, arguments: Arguments<'_>) -> Vec<usize> {
    if arguments.len() == 2 {
        return (0..table.size()).collect();
    }
    let mut chosen: Vec<usize> = Vec::new();
    for command in arguments.iter().skip(2).filter_map(|name| table.find(name)) {
        let named = std::iter::once(command).chain(table.subcommands(command).iter().copied());
        for index in named.map(|command| table.index(command)) {
            if !chosen.contains(&index) {
                chosen.push(index);
            }
        }
    }
    chosen
}
