//! BF.*: scalable Bloom filters.

use crate::bloom::{Chain, NO_ROUNDING, NO_SCALING, Refused, WIDE_HASH};
use crate::{Space, dump::Head};

use super::groups::BLOOM;
use super::requests::*;
use super::stored::{self, Found, Looked};
use crate::TooLarge;
use quartet_layer_redis::module_api::WRONG_TYPE;
use quartet_layer_redis::module_api::definition::*;
use quartet_layer_redis::module_api::{Context, parse};
use quartet_wire_rdb::sketch::SketchKind;
use quartet_wire_resp::{Arguments, Protocol};

const FAMILY: Family = Family::of(BLOOM).keys(ONE_KEY).complexity(PER_ITEM);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("bf.reserve", -1, WRITE | DENYOOM, "Creates a new Bloom Filter.", Answers(reserve)).complexity("O(1)"),
    FAMILY.row("bf.add", -1, WRITE | DENYOOM, "Adds an item to a Bloom Filter.", Answers(add)),
    FAMILY.row("bf.madd", -1, WRITE | DENYOOM, "Adds items to a Bloom Filter.", Answers(add_many)),
    FAMILY.row("bf.insert", -1, WRITE | DENYOOM, "Adds items to a Bloom Filter, which is created if it is absent.", Answers(insert)),
    FAMILY.row("bf.exists", -1, READONLY | FAST, "Checks whether an item is in a Bloom Filter.", Answers(exists)),
    FAMILY.row("bf.mexists", -1, READONLY | FAST, "Checks which items are in a Bloom Filter.", Answers(exists_many)),
    FAMILY.row("bf.info", -1, READONLY | FAST, "Returns the figures of a Bloom Filter.", Answers(information)).complexity("O(1)"),
    FAMILY.row("bf.card", -1, READONLY | FAST, "Returns the number of items of a Bloom Filter.", Answers(cardinality)).complexity("O(1)"),
    FAMILY.row("bf.debug", -1, READONLY | FAST, "Describes each filter of a Bloom Filter.", Answers(debug)).complexity("O(n) in the number of its filters"),
    FAMILY.row("bf.scandump", -1, READONLY | FAST, "Returns a part of a Bloom Filter, to be loaded elsewhere.", Answers(scan_dump)).complexity("O(n) in the length of the part"),
    FAMILY.row("bf.loadchunk", -1, WRITE | DENYOOM, "Loads a part of a Bloom Filter.", Answers(load_chunk)).complexity("O(n) in the length of the part"),
];

const PER_ITEM: &str = "O(k * n): k hash functions, n items";

const CAPACITY: i64 = 100;
const ERROR_RATE: f64 = 0.01;
const EXPANSION: i64 = 2;
/// Longest part of a dump.
pub const DUMPED_AT_ONCE: u64 = 16 << 20;
const NOT_FOUND: &str = "ERR not found";
pub const BAD_DATA: &str = "ERR received bad data";
const NOT_CREATED: &str = "ERR could not create filter";
const NO_MEMORY: &str = "ERR Insufficient memory to create filter";

/// A filter that a command creates.
struct NewFilter {
    capacity: i64,
    error_rate: f64,
    expansion: i64,
    is_fixed: bool,
}

impl Default for NewFilter {
    fn default() -> NewFilter {
        NewFilter {
            capacity: CAPACITY,
            error_rate: ERROR_RATE,
            expansion: EXPANSION,
            is_fixed: false,
        }
    }
}

impl NewFilter {
    /// The numbers are in their ranges.
    fn create(&self, context: &mut Context<'_, '_>, name: &[u8]) -> Result<Found, ErrorReply> {
        let options = WIDE_HASH | NO_ROUNDING | if self.is_fixed { NO_SCALING } else { 0 };
        let chain = Chain::new(self.capacity as u64, self.error_rate, options, self.expansion as u32);
        let chain = chain.ok_or(NOT_CREATED)?;
        let is_too_large = chain.check_size().is_err() || check_budget(context, chain.space_bytes()).is_err();
        if is_too_large {
            return Err(NO_MEMORY.into());
        }
        Ok(stored::created(context, name, &Head::Bloom(chain)))
    }
}

fn chain(sketch: &mut Found) -> &mut Chain {
    match &mut sketch.head {
        Head::Bloom(chain) => chain,
        _ => unreachable!("the key was looked up by its kind"),
    }
}

fn find(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Found, ErrorReply> {
    stored::read(context, name, SketchKind::Bloom).required(NOT_FOUND)
}

fn reserve(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, (4..=7).contains(&arguments.len()))?;
    let error_rate = parse::float(&arguments[2]).ok_or("ERR bad error rate")?;
    if !(error_rate > 0.0 && error_rate < 1.0) {
        return Err("ERR (0 < error rate range < 1) ".into());
    }
    let capacity = parse::integer(&arguments[3]).ok_or("ERR bad capacity")?;
    if capacity <= 0 {
        return Err("ERR (capacity should be larger than 0)".into());
    }
    let is_fixed = position(arguments, "nonscaling").is_some();
    let mut expansion = EXPANSION;
    if let Some(at) = position(arguments, "expansion") {
        let argument = arguments.get(at + 1).ok_or("ERR no expansion")?;
        if is_fixed {
            return Err("Nonscaling filters cannot expand".into());
        }
        expansion = parse::integer(argument).ok_or("ERR bad expansion")?;
        if expansion < 1 {
            return Err("ERR expansion should be greater or equal to 1".into());
        }
    }
    match stored::to_change(context, &arguments[1], SketchKind::Bloom) {
        Looked::Absent => {}
        Looked::Found(_) => return Err("ERR item exists".into()),
        Looked::Other => return Err(WRONG_TYPE.into()),
    }
    let filter = NewFilter {
        capacity,
        error_rate,
        expansion,
        is_fixed,
    };
    filter.create(context, &arguments[1])?;
    context.reply.ok();
    Ok(())
}

fn add(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 3)?;
    add_items(context, arguments, 2, Some(NewFilter::default()), false)
}

fn add_many(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    add_items(context, arguments, 2, Some(NewFilter::default()), true)
}

/// The original looks at the first letters of options.
fn insert(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 4)?;
    let (mut filter, mut creates) = (NewFilter::default(), true);
    let mut at = 2;
    let items = loop {
        let Some(word) = arguments.get(at) else {
            return Err(wrong_arity(arguments));
        };
        let letter = |index: usize| word.get(index).copied().unwrap_or(0).to_ascii_lowercase();
        at += 1;
        match letter(0) {
            b'i' => break at,
            b'n' if letter(2) == b'c' => creates = false,
            b'n' => filter.is_fixed = true,
            first @ (b'e' | b'c') => {
                let argument = arguments.get(at).ok_or_else(|| wrong_arity(arguments))?;
                match first {
                    b'c' => filter.capacity = parse::integer(argument).ok_or("Bad capacity")?,
                    _ if letter(1) == b'r' => filter.error_rate = parse::float(argument).ok_or("Bad error rate")?,
                    _ => filter.expansion = parse::integer(argument).ok_or("Bad expansion")?,
                }
                at += 1;
            }
            _ => return Err("Unknown argument received".into()),
        }
    };
    check_arity(arguments, items < arguments.len())?;
    let is_in_range = filter.error_rate > 0.0 && filter.error_rate < 1.0 && filter.capacity > 0 && filter.expansion > 0;
    if !is_in_range {
        return Err("Bad argument received".into());
    }
    add_items(context, arguments, items, creates.then_some(filter), true)
}

/// `filter`: the filter that is created if there is none.
fn add_items(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
    from: usize,
    filter: Option<NewFilter>,
    is_list: bool,
) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let mut sketch = match (stored::to_change(context, name, SketchKind::Bloom), filter) {
        (Looked::Absent, Some(filter)) => filter.create(context, name)?,
        (looked, _) => looked.required(NOT_FOUND)?,
    };
    let mark = context.reply.mark();
    let (mut count, mut is_changed) = (0, false);
    for item in arguments.iter().skip(from) {
        let added = add_item(context, &mut sketch, item);
        is_changed |= added == Ok(true);
        count += 1;
        match added {
            Ok(is_new) => context.reply.boolean(is_new),
            Err(Refused::NextLink) => context.reply.error("ERR problem inserting into filter"),
            Err(Refused::Full) => {
                context.reply.error("ERR non scaling filter is full");
                break;
            }
        }
    }
    if is_list {
        context.reply.array_since(mark, count);
    }
    if is_changed {
        sketch.save(context, name);
    }
    Ok(())
}

fn add_item(context: &mut Context<'_, '_>, sketch: &mut Found, item: &[u8]) -> Result<bool, Refused> {
    let mut workspace = context.workspace();
    let mut rows = sketch.rows(context);
    let chain = chain(sketch);
    let bytes = chain.space_bytes();
    chain.add(&mut rows, item, &mut |link| {
        let bytes = bytes.saturating_add(link.bytes);
        usize::try_from(bytes).is_ok_and(|bytes| workspace.take(bytes).is_ok())
    })
}

fn exists(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 3)?;
    check_items(context, arguments)
}

fn exists_many(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    context.reply.array(arguments.len() - 2);
    check_items(context, arguments)
}

/// A key that holds no filter has no items.
fn check_items(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let mut sketch = match stored::read(context, &arguments[1], SketchKind::Bloom) {
        Looked::Found(sketch) => Some(sketch),
        Looked::Absent | Looked::Other => None,
    };
    for item in arguments.iter().skip(2) {
        let is_there = sketch.as_mut().is_some_and(|sketch| {
            let mut rows = sketch.rows(context);
            chain(sketch).contains(&mut rows, item)
        });
        context.reply.boolean(is_there);
    }
    Ok(())
}

fn information(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, (2..=3).contains(&arguments.len()))?;
    let mut sketch = find(context, &arguments[1])?;
    let chain = chain(&mut sketch);
    let figures = [
        ("capacity", "Capacity", Some(chain.capacity())),
        ("size", "Size", Some(chain.memory_bytes())),
        ("filters", "Number of filters", Some(chain.links.len() as u64)),
        ("items", "Number of items inserted", Some(chain.size)),
        (
            "expansion",
            "Expansion rate",
            (!chain.is_fixed()).then_some(chain.growth.into()),
        ),
    ];
    let shown = match arguments.get(2) {
        None => figures.as_slice(),
        Some(word) => {
            let figure = figures.iter().find(|(option, ..)| parse::is(word, option));
            std::slice::from_ref(figure.ok_or("Invalid information value")?)
        }
    };
    // One figure has its name in a map only.
    let is_named = arguments.len() == 2 || context.reply.protocol() == Protocol::Resp3;
    match is_named {
        true => context.reply.map(shown.len()),
        false => context.reply.array(1),
    }
    for (_, name, figure) in shown {
        if is_named {
            context.reply.simple(name);
        }
        match figure {
            Some(figure) => context.reply.integer(*figure as i64),
            None => context.reply.null(),
        }
    }
    Ok(())
}

fn cardinality(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 2)?;
    let size = match stored::read(context, &arguments[1], SketchKind::Bloom) {
        Looked::Absent => 0,
        looked => chain(&mut looked.required(NOT_FOUND)?).size,
    };
    context.reply.integer(size as i64);
    Ok(())
}

fn debug(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 2)?;
    let mut sketch = find(context, &arguments[1])?;
    let chain = chain(&mut sketch);
    let width = if chain.options & WIDE_HASH != 0 { 64 } else { 32 };
    context.reply.array(1 + chain.links.len());
    context.reply.bulk(format!("size:{}", chain.size).as_bytes());
    for link in &chain.links {
        let text = format!(
            "bytes:{} bits:{} hashes:{} hashwidth:{width} capacity:{} size:{} ratio:{}",
            link.bytes,
            link.bits,
            link.hashes,
            link.entries,
            link.size,
            six_digits(link.error)
        );
        context.reply.bulk(text.as_bytes());
    }
    Ok(())
}

/// A number of `0.0..1.0` as C's `%g` prints it.
fn six_digits(number: f64) -> String {
    let scientific = format!("{number:.5e}");
    let (digits, exponent) = scientific.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a whole exponent");
    match exponent < -4 {
        true => {
            let digits = digits.trim_end_matches('0').trim_end_matches('.');
            format!("{digits}e-{:02}", -exponent)
        }
        false => {
            let fixed = format!("{number:.*}", (5 - exponent) as usize);
            fixed.trim_end_matches('0').trim_end_matches('.').to_string()
        }
    }
}

fn scan_dump(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 3)?;
    let mut sketch = find(context, &arguments[1])?;
    let at = parse::integer(&arguments[2]).ok_or("Second argument must be numeric")?;
    let chain = chain(&mut sketch).clone();
    context.reply.array(2);
    if at == 0 {
        context.reply.integer(1);
        context.reply.bulk(&chain.to_header());
        return Ok(());
    }
    let offset = u64::try_from(at - 1).ok();
    let Some((offset, (link, within))) = offset.and_then(|offset| Some((offset, chain.link_at(offset)?))) else {
        context.reply.integer(0);
        context.reply.bulk(b"");
        return Ok(());
    };
    let count = (link.bytes - within).min(DUMPED_AT_ONCE) as usize;
    context.workspace().take(count)?;
    let mut part = vec![0; count];
    sketch.rows(context).read(offset, &mut part);
    context.reply.integer(at + count as i64);
    context.reply.bulk(&part);
    Ok(())
}

fn load_chunk(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 4)?;
    let at = parse::integer(&arguments[2]).ok_or("ERR Second argument must be numeric")?;
    let (name, part) = (&arguments[1], &arguments[3]);
    let mut sketch = match stored::to_change(context, name, SketchKind::Bloom) {
        Looked::Absent if at == 1 => {
            let chain = Chain::from_header(part).map_err(|_| BAD_DATA)?;
            check_budget(context, chain.space_bytes()).map_err(|TooLarge| BAD_DATA)?;
            stored::create(&mut context.keys(), name, &Head::Bloom(chain));
            context.reply.ok();
            return Ok(());
        }
        looked => looked.required(NOT_FOUND)?,
    };
    let length = part.len() as i64;
    if at <= 0 || at < length {
        return Err(BAD_DATA.into());
    }
    let offset = at - length - 1;
    let place = u64::try_from(offset)
        .ok()
        .and_then(|offset| chain(&mut sketch).link_at(offset));
    let (link, within) = place.ok_or("ERR invalid offset - no link found")?;
    if part.len() as u64 > link.bytes - within {
        return Err("ERR invalid chunk - Too big for current filter".into());
    }
    sketch.rows(context).write(offset as u64, part);
    sketch.save(context, name);
    context.reply.ok();
    Ok(())
}
