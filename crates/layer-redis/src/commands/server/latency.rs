//! LATENCY: events that took long, and distributions of how long commands take.

use std::ops::RangeInclusive;

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

const FAMILY: Family = Family::of(Group::Server).since("2.8.13");

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    FAMILY.row("latency|doctor", 2, ADMIN | NOSCRIPT | LOADING | STALE, "Describes the events in words.", Answers(doctor)),
    FAMILY.row("latency|graph", 3, ADMIN | NOSCRIPT | LOADING | STALE, "Draws the samples of an event.", Answers(graph)),
    help_command("latency|help", Group::Server, "2.8.13"),
    FAMILY.row("latency|histogram", -2, ADMIN | NOSCRIPT | LOADING | STALE, "Returns how long the calls of commands took.", Answers(histogram)).since("7.0.0"),
    FAMILY.row("latency|history", 3, ADMIN | NOSCRIPT | LOADING | STALE, "Returns the samples of an event.", Answers(history)),
    FAMILY.row("latency|latest", 2, ADMIN | NOSCRIPT | LOADING | STALE, "Returns the latest sample of each event.", Answers(latest)),
    FAMILY.row("latency|reset", -2, ADMIN | NOSCRIPT | LOADING | STALE, "Forgets all events, or those given.", Answers(reset)),
];

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

/// Draws a column for each sample of the event, oldest first, with its age below.
fn graph(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let now_seconds = context.now_ms / 1000;
    let events = context.observation().latency.lock();
    let name = String::from_utf8_lossy(&arguments[2]);
    let event = events.find(&arguments[2]);
    let event = event.ok_or_else(|| format!("ERR No samples available for event '{name}'"))?;
    let heights: Vec<u64> = event.samples.iter().map(|sample| sample.milliseconds).collect();
    let (high, low) = (heights.iter().max().unwrap_or(&0), heights.iter().min().unwrap_or(&0));
    let mut text = format!(
        "{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        event.worst_ms,
        "-".repeat(80)
    );
    for from_bottom in (0..GRAPH_ROWS).rev() {
        let cells = heights.iter().map(|height| cell(*height, *low..=*high, from_bottom));
        text += cells.collect::<String>().trim_end();
        text.push('\n');
    }
    let ages: Vec<String> = event
        .samples
        .iter()
        .map(|sample| age(now_seconds.saturating_sub(sample.at_seconds)))
        .collect();
    text.push('\n');
    for row in 0..ages.iter().map(String::len).max().unwrap_or(0) {
        let letters = ages.iter().map(|age| age.chars().nth(row).unwrap_or(' '));
        text += letters.collect::<String>().trim_end();
        text.push('\n');
    }
    drop(events);
    context.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

const GRAPH_ROWS: u64 = 4;

/// The column of a sample in one row of the graph: its top is drawn in one of three heights.
fn cell(height: u64, heights: RangeInclusive<u64>, from_bottom: u64) -> char {
    const TOPS: [char; 3] = ['_', 'o', '#'];
    let (low, high) = heights.into_inner();
    let steps = GRAPH_ROWS * TOPS.len() as u64 - 1;
    let step = (height - low) * steps / (high - low).max(1);
    match step.checked_sub(from_bottom * TOPS.len() as u64) {
        None => ' ',
        Some(above) => TOPS.get(above as usize).copied().unwrap_or('|'),
    }
}

/// A duration in its largest unit.
fn age(seconds: u64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
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
