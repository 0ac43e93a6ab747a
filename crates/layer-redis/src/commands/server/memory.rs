//! MEMORY: how much keys and the process take.

use std::ops::ControlFlow;

use quartet_wire_resp::Arguments;

use crate::commands::help::help_command;
use crate::facts::DATABASES;
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::keyspace::{Elements, Entry};
use crate::module::DataType;
use crate::{command::errors, command::parse};

pub const COMMANDS: &[Definition] = &[container(
    "memory",
    Group::Server,
    "4.0.0",
    "Holds the commands about memory.",
    SUBCOMMANDS,
)];

const USAGE_KEY: Keys = Keys::Range {
    first: 2,
    last: 2,
    step: 1,
};

const FAMILY: Family = Family::of(Group::Server)
    .since("4.0.0")
    .complexity("O(N) in the number of samples");

#[rustfmt::skip]
const SUBCOMMANDS: &[Definition] = &[
    FAMILY.row("memory|doctor", 2, 0, "Describes how memory is used, in words.", Answers(doctor)),
    help_command("memory|help", Group::Server, "4.0.0"),
    FAMILY.row("memory|malloc-stats", 2, 0, "Returns what is known of the allocator.", Answers(allocator)),
    FAMILY.row("memory|purge", 2, 0, "Gives memory that the allocator keeps back to the system.", Answers(purge)),
    FAMILY.row("memory|stats", 2, 0, "Returns figures about memory.", Answers(stats)),
    FAMILY.row("memory|usage", -3, READONLY, "Estimates the bytes that a key takes.", Answers(usage)).keys(USAGE_KEY),
];

/// Bytes that the tree takes for a row besides key and value: an estimate.
const ROW_OVERHEAD_BYTES: u64 = 48;
/// Least samples of a key that has rows of several kinds.
const MIXED_SAMPLES: u64 = 32;

fn usage(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let samples = match (arguments.len(), arguments.get(3)) {
        (3, _) => 5,
        (5, Some(option)) if parse::is(option, "samples") => parse::required_integer(&arguments[4])?,
        _ => return Err(errors::SYNTAX.into()),
    };
    let samples = u64::try_from(samples).map_err(|_| errors::SYNTAX)?;
    match context.keys().find(&arguments[2]) {
        Some(entry) => {
            let bytes = key_bytes(context, &entry, samples);
            context.reply.integer(bytes as i64);
        }
        None => context.reply.null(),
    }
    Ok(())
}

/// The bytes of a key's rows, those of the elements estimated from `samples` of them; 0 samples
/// all.
pub fn key_bytes(context: &mut Context<'_, '_>, entry: &Entry, samples: u64) -> u64 {
    entry.row_bytes() as u64 + ROW_OVERHEAD_BYTES + element_bytes(context, entry, samples)
}

/// The elements' bytes, estimated from the first `samples` of them; 0 samples all. If it has
/// rows of several kinds in sequence, the samples are spread over them.
fn element_bytes(context: &mut Context<'_, '_>, entry: &Entry, samples: u64) -> u64 {
    if !entry.is_large() {
        return 0;
    }
    let elements = entry.elements();
    let count = elements.count(context.tx, b"", None);
    let (mut seen, mut bytes) = (0, 0);
    let data_type = context.modules().data_type(entry.kind);
    if data_type.is_some_and(DataType::has_mixed_rows) && (1..count).contains(&samples) {
        let samples = samples.max(MIXED_SAMPLES).min(count);
        for sample in 0..samples {
            let row = elements.nth(context.tx, b"", sample * count / samples);
            bytes += row.map_or(0, |row| {
                (Elements::name(&row).len() + row.value().len()) as u64 + ROW_OVERHEAD_BYTES
            });
        }
        return bytes.saturating_mul(count) / samples;
    }
    elements.scan(context.tx, b"", None, false, &mut |key, value| {
        seen += 1;
        bytes += (key.len() + value.len()) as u64 + ROW_OVERHEAD_BYTES;
        if seen == samples {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    bytes.saturating_mul(count) / seen.max(1)
}

fn stats(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let resources = context.resources();
    let keys: u64 = (0..DATABASES).map(|db| context.keys_of(db).key_count()).sum();
    let used = context.used_bytes();
    let startup = context.process().identity.startup_bytes;
    let client_bytes = context.client_bytes();
    let figures = [
        ("peak.allocated", context.observation().statistics.used_peak(used)),
        ("total.allocated", used),
        ("startup.allocated", startup),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", client_bytes),
        ("aof.buffer", 0),
        ("overhead.total", startup + client_bytes),
        ("keys.count", keys),
        ("keys.bytes-per-key", used.saturating_sub(startup) / keys.max(1)),
        ("dataset.bytes", used - startup),
        ("allocator.resident", resources.rss_bytes),
    ];
    context.reply.map(figures.len());
    for (name, value) in figures {
        context.reply.bulk(name.as_bytes());
        context.reply.integer(value as i64);
    }
    Ok(())
}

fn doctor(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let resources = context.resources();
    let text = format!(
        "{} bytes are in use and {} bytes are resident. No problem is known.\n",
        context.used_bytes(),
        resources.rss_bytes
    );
    context.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn allocator(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    context
        .reply
        .verbatim(b"txt", b"Statistics of the allocator are not available.\n");
    Ok(())
}

fn purge(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    // Memory freed by one of several databases is no reason to delay the others.
    if !context.is_one_of_several() {
        (context.process().purge)();
    }
    context.reply.ok();
    Ok(())
}
