//! HyperLogLog: how many distinct elements were added, within a percent, in at most 12 kB. The
//! value is a string.

mod estimate;
mod representation;

use std::sync::atomic::Ordering;

use quartet_wire_resp::Arguments;
use rustc_hash::FxHashSet;

use crate::command::{errors, parse};
use crate::handler::context::Context;
use crate::handler::definition::*;
use crate::keyspace::string_value::StringValue;
use crate::keyspace::{Entry, Header, Kind};
use estimate::VALUES;
use representation::{Corrupted, HEADER_BYTES, HyperLogLog, REGISTERS, cached_count, each_run, is_plausible};

const NOT_A_HYPERLOGLOG: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";
const CORRUPTED: &str = "INVALIDOBJ Corrupted HLL object detected";

const SECOND_ARGUMENT: Keys = Keys::Range {
    first: 2,
    last: 2,
    step: 1,
};

const FAMILY: Family = Family::of(Group::HyperLogLog)
    .keys(ALL_KEYS)
    .since("2.8.9")
    .complexity("O(1) for each element");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("pfadd", -2, WRITE | DENYOOM | FAST, "Adds elements to a HyperLogLog; creates the key if it is absent.", Answers(pfadd)).keys(ONE_KEY),
    FAMILY.row("pfcount", -2, READONLY | KNOWS_SIZE, "Estimates how many distinct elements one or more HyperLogLogs have seen.", Answers(pfcount)).complexity("O(1) for one key whose count is cached, O(N) in the number of keys otherwise"),
    FAMILY.row("pfmerge", -2, WRITE | DENYOOM, "Merges HyperLogLogs into the first one.", Answers(pfmerge)).complexity("O(N) in the number of keys"),
    FAMILY.row("pfdebug", 3, WRITE | DENYOOM | ADMIN, "Shows or changes how a HyperLogLog is represented.", Answers(pfdebug)).keys(SECOND_ARGUMENT).complexity("Depends on the subcommand."),
    FAMILY.row("pfselftest", 1, ADMIN, "Checks the representations of HyperLogLogs against each other.", Answers(pfselftest)).keys(NO_KEYS).complexity("O(1)"),
];

impl From<Corrupted> for ErrorReply {
    fn from(_: Corrupted) -> ErrorReply {
        ErrorReply::new(CORRUPTED)
    }
}

/// A key that holds a HyperLogLog.
struct Found {
    entry: Entry,
    value: HyperLogLog,
}

/// The key, if it exists; an error if it cannot be a HyperLogLog.
fn find(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Option<Found>, ErrorReply> {
    let entry = context.keys().find_kind(name, Kind::String)?;
    plausible(context, entry)
}

/// The same, counted as a read.
fn read(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Option<Found>, ErrorReply> {
    let entry = context.read_kind(name, Kind::String)?;
    plausible(context, entry)
}

fn plausible(context: &mut Context<'_, '_>, found: Option<Entry>) -> Result<Option<Found>, ErrorReply> {
    let Some(entry) = found else { return Ok(None) };
    let string = StringValue::of(&entry);
    let beginning = string.part(context.tx, 0..string.length().min(HEADER_BYTES as u64));
    if !is_plausible(&beginning, string.length()) {
        return Err(NOT_A_HYPERLOGLOG.into());
    }
    let value = HyperLogLog::from_bytes(string.whole(context.tx));
    Ok(Some(Found { entry, value }))
}

fn put(context: &mut Context<'_, '_>, name: &[u8], old: Option<&Entry>, value: &HyperLogLog) {
    let mut keys = context.keys();
    keys.overwrite_string(name, Header::patched(old), old, value.bytes());
}

/// The key's entry, if there is one, and its value or an empty one.
fn found_or_new(existing: Option<Found>) -> (Option<Entry>, HyperLogLog) {
    match existing {
        Some(Found { entry, value }) => (Some(entry), value),
        None => (None, HyperLogLog::default()),
    }
}

fn sparse_bytes_max(context: &Context<'_, '_>) -> usize {
    let bytes_max = context.config().hll_sparse_max_bytes.load(Ordering::Relaxed);
    bytes_max.clamp(0, i64::from(u32::MAX)) as usize
}

fn pfadd(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let bytes_max = sparse_bytes_max(context);
    let (old, mut value) = found_or_new(find(context, name)?);
    let mut changed = old.is_none();
    for element in arguments.iter().skip(2) {
        let (index, to) = estimate::register_of(element);
        changed |= value.raise(index, to, bytes_max)?;
    }
    if changed {
        value.forget_count();
        put(context, name, old.as_ref(), &value);
    }
    context.reply.integer(i64::from(changed));
    Ok(())
}

/// For one key the count is remembered in the value, so the command writes although it only reads,
/// as it does in Redis.
fn pfcount(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.len() > 2 {
        let (registers, _) = merged(context, arguments)?;
        let mut with = [0; VALUES];
        registers.iter().for_each(|&value| with[usize::from(value)] += 1);
        context.reply.integer(estimate::count(&with) as i64);
        return Ok(());
    }
    let name = &arguments[1];
    let count = match read(context, name)? {
        None => 0,
        Some(stored) => match cached_count(stored.value.bytes()) {
            Some(count) => count,
            None => count_and_cache(context, name, stored)?,
        },
    };
    context.reply.integer(count as i64);
    Ok(())
}

fn count_and_cache(context: &mut Context<'_, '_>, name: &[u8], mut stored: Found) -> Result<u64, ErrorReply> {
    let mut with = [0; VALUES];
    each_run(stored.value.bytes(), &mut |_, value, length| {
        with[usize::from(value)] += length as u32;
    })?;
    let count = estimate::count(&with);
    stored.value.cache_count(count);
    put(context, name, Some(&stored.entry), &stored.value);
    Ok(count)
}

/// A walk of all registers takes about as long as visiting these elements of a collection.
const ELEMENTS_A_SKETCH: u64 = 32;

/// The highest value of each register among all keys, and whether one of them is dense.
fn merged(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(Vec<u8>, bool), ErrorReply> {
    if context.must_end_before(arguments.len() as u64 * ELEMENTS_A_SKETCH) {
        return Err(errors::ENDED.into());
    }
    let mut registers = vec![0; REGISTERS];
    let mut any_dense = false;
    let mut met: FxHashSet<&[u8]> = FxHashSet::default();
    for name in arguments.iter().skip(1).filter(|name| met.insert(*name)) {
        let Some(source) = read(context, name)? else { continue };
        any_dense |= !source.value.is_sparse();
        each_run(source.value.bytes(), &mut |start, value, length| {
            if value > 0 {
                let run = &mut registers[start..start + length];
                run.iter_mut().for_each(|register| *register = value.max(*register));
            }
        })?;
    }
    Ok((registers, any_dense))
}

fn pfmerge(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let bytes_max = sparse_bytes_max(context);
    let (registers, any_dense) = merged(context, arguments)?;
    let (old, mut value) = found_or_new(find(context, name)?);
    if any_dense {
        value.make_dense()?;
    }
    for (index, &register) in registers.iter().enumerate().filter(|(_, register)| **register > 0) {
        value.raise(index, register, bytes_max)?;
    }
    value.forget_count();
    put(context, name, old.as_ref(), &value);
    context.reply.ok();
    Ok(())
}

fn pfdebug(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (word, name) = (&arguments[1], &arguments[2]);
    let stored = find(context, name)?.ok_or("ERR The specified key does not exist")?;
    let Found { entry, mut value } = stored;
    if parse::is(word, "ENCODING") {
        context.reply.simple(if value.is_sparse() { "sparse" } else { "dense" });
    } else if parse::is(word, "TODENSE") || parse::is(word, "GETREG") {
        // GETREG converts the stored value to the dense form, as in Redis.
        let changed = value.make_dense()?;
        if changed {
            put(context, name, Some(&entry), &value);
        }
        if parse::is(word, "TODENSE") {
            context.reply.integer(i64::from(changed));
        } else {
            context.reply.array(REGISTERS);
            each_run(value.bytes(), &mut |_, register, _| {
                context.reply.integer(i64::from(register))
            })?;
        }
    } else if parse::is(word, "DECODE") {
        if !value.is_sparse() {
            return Err("ERR HLL encoding is not sparse".into());
        }
        context.reply.bulk(decoded(&value).as_bytes());
    } else {
        let word = String::from_utf8_lossy(word);
        return Err(format!("ERR Unknown PFDEBUG subcommand '{word}'").into());
    }
    Ok(())
}

/// The runs of a sparse one: `z:` short and `Z:` long runs of zeros, `v:value,length` others.
fn decoded(value: &HyperLogLog) -> String {
    let runs = representation::runs(value.bytes()).map(|run| match (run.value, run.bytes) {
        (0, 1) => format!("z:{}", run.length),
        (0, _) => format!("Z:{}", run.length),
        (value, _) => format!("v:{value},{}", run.length),
    });
    runs.collect::<Vec<_>>().join(" ")
}

/// Elements that PFSELFTEST adds.
const SELF_TEST_ELEMENTS: u64 = 50_000;

/// Adds elements to a sparse and a dense one: both must agree after each step, and the count must
/// be accurate.
fn pfselftest(context: &mut Context<'_, '_>, _: Arguments<'_>) -> Result<(), ErrorReply> {
    let bytes_max = sparse_bytes_max(context);
    let (mut sparse, mut dense) = (HyperLogLog::default(), HyperLogLog::default());
    dense.make_dense()?;
    for element in 0..SELF_TEST_ELEMENTS {
        let (index, value) = estimate::register_of(&element.to_le_bytes());
        if sparse.raise(index, value, bytes_max)? != dense.raise(index, value, bytes_max)? {
            return Err("ERR TESTFAILED dense/sparse disagree".into());
        }
    }
    let mut with = [0; VALUES];
    each_run(sparse.bytes(), &mut |_, value, length| {
        with[usize::from(value)] += length as u32
    })?;
    let count = estimate::count(&with);
    if count.abs_diff(SELF_TEST_ELEMENTS) > SELF_TEST_ELEMENTS / 25 {
        return Err(format!("ERR TESTFAILED Too big error: {count} for {SELF_TEST_ELEMENTS} elements").into());
    }
    context.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::testing::{Connection, Fixture};

    fn with_three_elements() -> Connection {
        let mut connection = Fixture::new().connect();
        connection.check("PFADD h a b c => 1");
        connection
    }

    #[test]
    fn elements_are_counted() {
        Fixture::new().connect().check(
            "PFADD h => 1
             PFADD h => 0
             PFCOUNT h => 0
             PFADD h a b c => 1
             PFADD h a b c => 0
             PFADD h \"\" => 1
             PFCOUNT h => 4
             PFADD i c d => 1
             PFCOUNT h i nosuch => 5
             PFCOUNT nosuch => 0
             PFMERGE m h i nosuch => OK
             PFCOUNT m => 5
             PFMERGE m => OK
             PFCOUNT m => 5
             PFDEBUG ENCODING m => sparse
             PFDEBUG TODENSE m => 1
             PFDEBUG TODENSE m => 0
             PFDEBUG encoding m => dense
             PFCOUNT m => 5
             PFMERGE h m => OK
             PFDEBUG ENCODING h => dense
             PFDEBUG DECODE h => !ERR HLL encoding is not sparse
             PFDEBUG ENCODING nosuch => !ERR The specified key does not exist
             PFDEBUG NOSUCH h => !ERR Unknown PFDEBUG subcommand 'NOSUCH'
             PFSELFTEST => OK",
        );
    }

    #[test]
    fn the_runs_are_those_of_redis() {
        with_three_elements().check(DECODED_BY_REDIS);
    }

    /// Answers of redis-server 7.0.15.
    const DECODED_BY_REDIS: &str = "PFDEBUG DECODE h => Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603";

    #[test]
    fn the_cached_count_is_used_and_forgotten() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        let mut byte_15 = |words: &[&str]| {
            connection.run(words);
            connection.bytes(&["GETRANGE", "h", "15", "15"])[4]
        };
        assert_eq!(byte_15(&["PFADD", "h", "a"]), 0x80);
        assert_eq!(byte_15(&["PFCOUNT", "h"]), 0);
        assert_eq!(byte_15(&["PFADD", "h", "a"]), 0);
        assert_eq!(byte_15(&["PFADD", "h", "b"]), 0x80);
    }

    #[test]
    fn foreign_and_damaged_values_are_refused() {
        let not_one = "!WRONGTYPE Key is not a valid HyperLogLog string value.";
        let damaged = "!INVALIDOBJ Corrupted HLL object detected";
        with_three_elements().check(&format!(
            "APPEND h hello => 32
             PFCOUNT h => {damaged}
             PFMERGE x h => {damaged}
             PFDEBUG GETREG h => {damaged}
             PFADD g a => 1
             SETRANGE g 0 0123 => 21
             PFCOUNT g => {not_one}
             PFADD f a => 1
             SETRANGE f 4 x => 21
             PFADD f a => {not_one}
             SET e bar => OK
             PFADD e 1 => {not_one}
             PFMERGE e h => {not_one}
             PFMERGE new e => {not_one}"
        ));
    }

    #[test]
    fn many_elements_make_it_dense() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        let names: Vec<String> = (0..20_000).map(|number| format!("element-{number}")).collect();
        let mut add = |names: &[String]| {
            let words = ["PFADD", "h"].into_iter().chain(names.iter().map(String::as_str));
            connection.run(&words.collect::<Vec<_>>());
        };
        add(&names[..900]);
        add(&names[900..]);
        connection.check("PFDEBUG ENCODING h => dense");
    }
}
