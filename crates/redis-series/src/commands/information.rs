//! TS.INFO.

use quartet_layer_redis::module_api::definition::*;
use quartet_layer_redis::module_api::{Context, Keyspace, parse};
use quartet_wire_resp::{Arguments, Protocol};

use super::definition::{Rule, labels_of};
use super::gatherings;
use super::groups::SERIES;
use super::replies::{self, ShownLabels};
use super::requests::check_arity;
use super::rows::{Blocks, TimeRange};
use super::series::{ChunkFigures, Series, each_chunk};
use crate::Encoding;

const FAMILY: Family = Family::of(SERIES)
    .keys(ONE_KEY)
    .complexity("O(N) in the number of chunks");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("ts.info", -1, READONLY, "Returns the settings and figures of a time series.", Answers(information)),
];

/// Bytes of a chunk and of a series beside their data, about.
const CHUNK_OVERHEAD_BYTES: u64 = 120;
const SERIES_OVERHEAD_BYTES: u64 = 200;

fn information(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, matches!(arguments.len(), 2 | 3))?;
    let series = Series::read(context, &arguments[1])?;
    let shows_chunks = arguments.get(2).is_some_and(|word| parse::is(word, "DEBUG"));
    let mut workspace = context.workspace();
    let mut chunks: Vec<ChunkFigures> = Vec::new();
    let mut reserved = Ok(());
    each_chunk(&mut context.keys(), &series, &mut |chunk| {
        if reserved.is_ok() {
            reserved = workspace.take(size_of::<ChunkFigures>());
            chunks.push(chunk);
        }
    });
    reserved?;
    context.reply.map(if shows_chunks { 16 } else { 14 });
    figures(context, &series, &chunks)?;
    settings(context, &series);
    if shows_chunks {
        context.reply.simple("keySelfName");
        context.reply.bulk(&series.name);
        context.reply.simple("Chunks");
        context.reply.array(chunks.len().max(1));
        chunks.iter().for_each(|chunk| describe(context, Some(chunk), 0));
        if chunks.is_empty() {
            describe(context, None, series.definition.chunk_bytes);
        }
    }
    Ok(())
}

fn number(context: &mut Context<'_, '_>, name: &str, number: i64) {
    context.reply.simple(name);
    context.reply.integer(number);
}

fn figures(context: &mut Context<'_, '_>, series: &Series, chunks: &[ChunkFigures]) -> Result<(), ErrorReply> {
    let last = chunks.last().map_or(0, |chunk| chunk.last);
    let oldest = series.oldest_kept(last);
    let all: u64 = chunks.iter().map(|chunk| chunk.count).sum();
    let (hidden, first) = first_kept(context, series, chunks, oldest)?;
    let bytes: u64 = chunks
        .iter()
        .map(|chunk| u64::from(chunk.size) + CHUNK_OVERHEAD_BYTES)
        .sum();
    let bytes = bytes + series.entry.row_bytes() as u64 + SERIES_OVERHEAD_BYTES;
    let definition = &series.definition;
    number(context, "totalSamples", (all - hidden) as i64);
    number(context, "memoryUsage", bytes as i64);
    number(context, "firstTimestamp", first as i64);
    number(context, "lastTimestamp", last as i64);
    number(context, "retentionTime", definition.retention_ms as i64);
    number(context, "chunkCount", chunks.len().max(1) as i64);
    number(context, "chunkSize", definition.chunk_bytes.into());
    Ok(())
}

/// The number of samples that are older than the retention, and the first timestamp after them.
fn first_kept(
    context: &mut Context<'_, '_>,
    series: &Series,
    chunks: &[ChunkFigures],
    oldest: u64,
) -> Result<(u64, u64), ErrorReply> {
    let Some(at) = chunks.iter().position(|chunk| chunk.last >= oldest) else {
        return Ok((0, 0));
    };
    let hidden: u64 = chunks[..at].iter().map(|chunk| chunk.count).sum();
    let chunk = &chunks[at];
    if chunk.first >= oldest {
        return Ok((hidden, chunk.first));
    }
    let workspace = context.workspace();
    let mut blocks = Blocks::new(
        TimeRange {
            from: oldest,
            to: chunk.last,
        },
        false,
        workspace,
    );
    let first_block = blocks.next(&mut series.rows(&mut context.keys()))?.unwrap_or_default();
    let first = first_block.first().map_or(0, |sample| sample.timestamp);
    Ok((hidden + chunk.count - first_block.len() as u64, first))
}

fn settings(context: &mut Context<'_, '_>, series: &Series) {
    let definition = &series.definition;
    let sources = gatherings::source(&mut context.keys(), series).map(|(source, _)| source.name);
    let rules = live_rules(&mut context.keys(), series);
    let reply = &mut context.reply;
    reply.simple("chunkType");
    reply.simple(match definition.encoding {
        Encoding::Compressed => "compressed",
        Encoding::Uncompressed => "uncompressed",
    });
    reply.simple("duplicatePolicy");
    match definition.policy {
        Some(policy) => reply.simple(policy.name()),
        None => reply.null(),
    }
    reply.simple("labels");
    replies::labels(reply, &labels_of(&series.entry), &ShownLabels::All);
    reply.simple("sourceKey");
    match sources {
        Some(name) => reply.bulk(&name),
        None => reply.null(),
    }
    reply.simple("rules");
    replies::pairs(reply, rules.len());
    for (name, rule) in rules {
        let is_map = reply.protocol() == Protocol::Resp3;
        if !is_map {
            reply.array(4);
        }
        reply.bulk(&name);
        if is_map {
            reply.array(3);
        }
        reply.integer(rule.bucket_ms as i64);
        reply.simple(&rule.aggregator.name().to_uppercase());
        reply.integer(rule.alignment as i64);
    }
    reply.simple("ignoreMaxTimeDiff");
    reply.integer(definition.ignored_ms as i64);
    reply.simple("ignoreMaxValDiff");
    reply.double(definition.ignored_difference);
}

/// The rules with the present names of their destinations.
fn live_rules(keys: &mut Keyspace<'_, '_>, series: &Series) -> Vec<(Vec<u8>, Rule)> {
    let rules = series.definition.rules.iter();
    let named = rules.filter_map(|rule| {
        let destination = gatherings::destination(keys, series, rule)?;
        Some((destination.name, *rule))
    });
    named.collect()
}

fn describe(context: &mut Context<'_, '_>, chunk: Option<&ChunkFigures>, empty_bytes: u32) {
    context.reply.map(5);
    number(context, "startTimestamp", chunk.map_or(-1, |chunk| chunk.first as i64));
    number(context, "endTimestamp", chunk.map_or(-1, |chunk| chunk.last as i64));
    number(context, "samples", chunk.map_or(0, |chunk| chunk.count as i64));
    number(context, "size", chunk.map_or(empty_bytes, |chunk| chunk.size).into());
    context.reply.simple("bytesPerSample");
    // The original divides in single precision.
    let each = chunk.map_or(0.0, |chunk| chunk.size as f32 / chunk.count as f32);
    context.reply.double(each.into());
}
