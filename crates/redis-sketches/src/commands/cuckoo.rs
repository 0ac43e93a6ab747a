//! CF.*: cuckoo filters.

use crate::cuckoo::{Cuckoo, FILTERS_MAX, HEADER_BYTES, Refused};
use crate::{Space, dump::Head};

use super::bloom::DUMPED_AT_ONCE;
use super::groups::CUCKOO;
use super::requests::*;
use super::stored::{self, BlockCopies, CopiedRows, Found, Looked};
use crate::TooLarge;
use quartet_layer_redis::module_api::WRONG_TYPE;
use quartet_layer_redis::module_api::definition::*;
use quartet_layer_redis::module_api::{Context, parse};
use quartet_wire_rdb::sketch::SketchKind;
use quartet_wire_resp::{Arguments, Protocol};

const FAMILY: Family = Family::of(CUCKOO).keys(ONE_KEY).complexity(ADD);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("cf.reserve", -1, WRITE | DENYOOM, "Creates a new Cuckoo Filter.", Answers(reserve)).complexity("O(1)"),
    FAMILY.row("cf.add", -1, WRITE | DENYOOM, "Adds an item to a Cuckoo Filter.", Answers(add)),
    FAMILY.row("cf.addnx", -1, WRITE | DENYOOM, "Adds an item to a Cuckoo Filter if it is not there.", Answers(add_unique)),
    FAMILY.row("cf.insert", -1, WRITE | DENYOOM, "Adds items to a Cuckoo Filter, which is created if it is absent.", Answers(insert)),
    FAMILY.row("cf.insertnx", -1, WRITE | DENYOOM, "Adds items that are not there to a Cuckoo Filter.", Answers(insert_unique)),
    FAMILY.row("cf.exists", -1, READONLY | FAST, "Checks whether an item is in a Cuckoo Filter.", Answers(exists)).complexity(CHECK),
    FAMILY.row("cf.mexists", -1, READONLY | FAST, "Checks which items are in a Cuckoo Filter.", Answers(exists_many)).complexity(CHECK),
    FAMILY.row("cf.count", -1, READONLY | FAST, "Returns how often an item may have been added.", Answers(count)).complexity(CHECK),
    FAMILY.row("cf.del", -1, WRITE | FAST, "Removes an item once.", Answers(delete)).complexity(CHECK),
    FAMILY.row("cf.compact", -1, WRITE | FAST, "Moves items to older filters.", Answers(compact)).complexity("O(n) in the size of the filter"),
    FAMILY.row("cf.info", -1, READONLY | FAST, "Returns the figures of a Cuckoo Filter.", Answers(information)).complexity("O(1)"),
    FAMILY.row("cf.debug", -1, READONLY | FAST, "Describes a Cuckoo Filter.", Answers(debug)).complexity("O(1)"),
    FAMILY.row("cf.scandump", -1, READONLY | FAST, "Returns a part of a Cuckoo Filter, to be loaded elsewhere.", Answers(scan_dump)).complexity("O(n) in the length of the part"),
    FAMILY.row("cf.loadchunk", -1, WRITE | DENYOOM, "Loads a part of a Cuckoo Filter.", Answers(load_chunk)).complexity("O(n) in the length of the part"),
];

const ADD: &str = "O(n * (k + i)): n items, k filters, i iterations";
const CHECK: &str = "O(n * k): n items, k filters";

const CAPACITY: i64 = 1024;
const BUCKET_SIZE: i64 = 2;
const BUCKET_SIZE_MAX: i64 = 255;
const ITERATIONS: i64 = 20;
const ITERATIONS_MAX: i64 = 65_535;
const EXPANSION: i64 = 1;
const EXPANSION_MAX: i64 = 32_768;
const NOT_FOUND: &str = "ERR not found";
const CAPACITY_TOO_SMALL: &str = "Capacity must be at least (BucketSize * 2)";
const NO_MEMORY: &str = "ERR Insufficient memory to create filter";

fn cuckoo(sketch: &mut Found) -> &mut Cuckoo {
    match &mut sketch.head {
        Head::Cuckoo(cuckoo) => cuckoo,
        _ => unreachable!("the key was looked up by its kind"),
    }
}

/// A filter with these parameters, if there is memory for it.
fn new_filter(
    context: &Context<'_, '_>,
    capacity: i64,
    [bucket_size, iterations, expansion]: [i64; 3],
) -> Result<Head, ErrorReply> {
    let made = Cuckoo::new(capacity as u64, bucket_size as u16, iterations as u16, expansion as u16);
    let made = made.and_then(|cuckoo| check_budget(context, cuckoo.space_bytes()).map(|()| cuckoo));
    Ok(Head::Cuckoo(made.map_err(|TooLarge| NO_MEMORY)?))
}

fn reserve(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3 && !arguments.len().is_multiple_of(2))?;
    let capacity = parse::integer(&arguments[2]).ok_or("Bad capacity")?;
    let option = |word: &str, default: i64, least: i64, most: i64| {
        let Some(at) = position(arguments, word) else {
            return Ok(default);
        };
        let argument = arguments.get(at + 1).and_then(parse::integer);
        let argument = argument.ok_or_else(|| ErrorReply::from(format!("Couldn't parse {word}")))?;
        match (least..=most).contains(&argument) {
            true => Ok(argument),
            false => {
                let text = format!("{word}: value must be an integer between {least} and {most}, inclusive.");
                Err(ErrorReply::from(text))
            }
        }
    };
    let iterations = option("MAXITERATIONS", ITERATIONS, 1, ITERATIONS_MAX)?;
    let bucket_size = option("BUCKETSIZE", BUCKET_SIZE, 1, BUCKET_SIZE_MAX)?;
    let expansion = option("EXPANSION", EXPANSION, 0, EXPANSION_MAX)?;
    if bucket_size * 2 > capacity {
        return Err(CAPACITY_TOO_SMALL.into());
    }
    match stored::to_change(context, &arguments[1], SketchKind::Cuckoo) {
        Looked::Absent => {}
        Looked::Found(_) => return Err("ERR item exists".into()),
        Looked::Other => return Err(WRONG_TYPE.into()),
    }
    let head = new_filter(context, capacity, [bucket_size, iterations, expansion])?;
    stored::create(&mut context.keys(), &arguments[1], &head);
    context.reply.ok();
    Ok(())
}

fn add(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 3)?;
    add_items(context, arguments, Added::one(false))
}

fn add_unique(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 3)?;
    add_items(context, arguments, Added::one(true))
}

fn insert(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    add_items(context, arguments, Added::read(arguments, false)?)
}

fn insert_unique(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    add_items(context, arguments, Added::read(arguments, true)?)
}

/// A request that adds items.
struct Added {
    /// Position of the first item.
    from: usize,
    is_unique: bool,
    is_list: bool,
    creates: bool,
    capacity: i64,
}

impl Added {
    fn one(is_unique: bool) -> Added {
        Added {
            from: 2,
            is_unique,
            is_list: false,
            creates: true,
            capacity: CAPACITY,
        }
    }

    /// The original looks at the first letters of options.
    fn read(arguments: Arguments<'_>, is_unique: bool) -> Result<Added, ErrorReply> {
        check_arity(arguments, arguments.len() >= 4)?;
        let mut added = Added {
            is_list: true,
            ..Added::one(is_unique)
        };
        let mut at = 2;
        loop {
            let word = arguments.get(at).ok_or_else(|| wrong_arity(arguments))?;
            at += 1;
            match word.first().map(u8::to_ascii_lowercase) {
                Some(b'i') => break,
                Some(b'n') => added.creates = false,
                Some(b'c') => {
                    let argument = arguments.get(at).ok_or_else(|| wrong_arity(arguments))?;
                    added.capacity = parse::integer(argument).ok_or("Bad capacity")?;
                    if added.capacity < 2 * BUCKET_SIZE {
                        return Err(CAPACITY_TOO_SMALL.into());
                    }
                    at += 1;
                }
                _ => return Err("Unknown argument received".into()),
            }
        }
        check_arity(arguments, at < arguments.len())?;
        added.from = at;
        Ok(added)
    }
}

fn add_items(context: &mut Context<'_, '_>, arguments: Arguments<'_>, added: Added) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let mut sketch = match stored::to_change(context, name, SketchKind::Cuckoo) {
        Looked::Absent if added.creates => {
            let head = new_filter(context, added.capacity, [BUCKET_SIZE, ITERATIONS, EXPANSION])?;
            stored::created(context, name, &head)
        }
        looked => looked.required(NOT_FOUND)?,
    };
    if cuckoo(&mut sketch).filters.len() >= FILTERS_MAX {
        return Err("Maximum expansions reached".into());
    }
    let mut copies = BlockCopies::of_items(arguments.len() - added.from);
    let mut workspace = context.workspace();
    workspace.take(copies.bytes_max())?;
    if added.is_list {
        context.reply.array(arguments.len() - added.from);
    }
    let answers_numbers = added.is_list && added.is_unique;
    for item in arguments.iter().skip(added.from) {
        let outcome = add_item(context, &mut sketch, &mut copies, item, added.is_unique);
        match (outcome, added.is_list) {
            (Ok(()), _) if answers_numbers => context.reply.integer(1),
            (Ok(()), _) => context.reply.boolean(true),
            (Err(Refused::Exists), _) if answers_numbers => context.reply.integer(0),
            (Err(Refused::Exists), _) => context.reply.boolean(false),
            (Err(Refused::Full), false) => return Err("Filter is full".into()),
            (Err(Refused::TooLarge), false) => return Err("ERR Insufficient memory".into()),
            // A client of RESP3 receives only whether the item was added.
            (Err(Refused::Full | Refused::TooLarge), true) => match context.reply.protocol() {
                Protocol::Resp3 if !added.is_unique => context.reply.boolean(false),
                _ => context.reply.integer(-1),
            },
        }
    }
    sketch.save(context, name);
    Ok(())
}

fn add_item(
    context: &mut Context<'_, '_>,
    sketch: &mut Found,
    copies: &mut BlockCopies,
    item: &[u8],
    is_unique: bool,
) -> Result<(), Refused> {
    let mut workspace = context.workspace();
    let rows = sketch.rows(context);
    let mut rows = CopiedRows { rows, copies };
    let cuckoo = cuckoo(sketch);
    let bytes = cuckoo.space_bytes();
    cuckoo.add(&mut rows, item, is_unique, &mut |more| {
        let bytes = bytes.saturating_add(more);
        usize::try_from(bytes).is_ok_and(|bytes| workspace.take(bytes).is_ok())
    })
}

fn exists(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 3)?;
    check_items(context, arguments);
    Ok(())
}

fn exists_many(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    context.reply.array(arguments.len() - 2);
    check_items(context, arguments);
    Ok(())
}

/// A key that holds no filter has no items.
fn read(context: &mut Context<'_, '_>, name: &[u8]) -> Option<Found> {
    match stored::read(context, name, SketchKind::Cuckoo) {
        Looked::Found(sketch) => Some(sketch),
        Looked::Absent | Looked::Other => None,
    }
}

fn check_items(context: &mut Context<'_, '_>, arguments: Arguments<'_>) {
    let mut sketch = read(context, &arguments[1]);
    for item in arguments.iter().skip(2) {
        let is_there = sketch.as_mut().is_some_and(|sketch| {
            let mut rows = sketch.rows(context);
            cuckoo(sketch).contains(&mut rows, item)
        });
        context.reply.boolean(is_there);
    }
}

fn count(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 3)?;
    let count = read(context, &arguments[1]).map_or(0, |mut sketch| {
        let mut rows = sketch.rows(context);
        cuckoo(&mut sketch).count(&mut rows, &arguments[2])
    });
    context.reply.integer(count as i64);
    Ok(())
}

fn delete(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 3)?;
    let Looked::Found(mut sketch) = stored::to_change(context, &arguments[1], SketchKind::Cuckoo) else {
        return Err("Not found".into());
    };
    let mut rows = sketch.rows(context);
    let is_deleted = cuckoo(&mut sketch).delete(&mut rows, &arguments[2]);
    if is_deleted {
        sketch.save(context, &arguments[1]);
    }
    context.reply.boolean(is_deleted);
    Ok(())
}

fn compact(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 2)?;
    let Looked::Found(mut sketch) = stored::to_change(context, &arguments[1], SketchKind::Cuckoo) else {
        return Err("Cuckoo filter was not found".into());
    };
    let mut rows = sketch.rows(context);
    cuckoo(&mut sketch).compact(&mut rows, true);
    sketch.save(context, &arguments[1]);
    context.reply.ok();
    Ok(())
}

fn find(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Cuckoo, ErrorReply> {
    let mut sketch = stored::read(context, name, SketchKind::Cuckoo).required(NOT_FOUND)?;
    Ok(cuckoo(&mut sketch).clone())
}

fn information(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 2)?;
    let cuckoo = find(context, &arguments[1])?;
    let figures = [
        ("Size", cuckoo.memory_bytes()),
        ("Number of buckets", cuckoo.buckets),
        ("Number of filters", cuckoo.filters.len() as u64),
        ("Number of items inserted", cuckoo.items),
        ("Number of items deleted", cuckoo.deletes),
        ("Bucket size", cuckoo.bucket_size.into()),
        ("Expansion rate", cuckoo.expansion.into()),
        ("Max iterations", cuckoo.iterations_max.into()),
    ];
    reply_figures(context, &figures.map(|(name, figure)| (name, figure as i64)));
    Ok(())
}

fn debug(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 2)?;
    let cuckoo = find(context, &arguments[1])?;
    let text = format!(
        "bktsize:{} buckets:{} items:{} deletes:{} filters:{} max_iterations:{} expansion:{}",
        cuckoo.bucket_size,
        cuckoo.buckets,
        cuckoo.items,
        cuckoo.deletes,
        cuckoo.filters.len(),
        cuckoo.iterations_max,
        cuckoo.expansion
    );
    context.reply.bulk(text.as_bytes());
    Ok(())
}

fn scan_dump(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 3)?;
    let at = parse::integer(&arguments[2]).and_then(|at| u64::try_from(at).ok());
    let at = at.ok_or("Invalid position")?;
    let mut sketch = stored::read(context, &arguments[1], SketchKind::Cuckoo).required(NOT_FOUND)?;
    let cuckoo = cuckoo(&mut sketch).clone();
    if at == 0 && cuckoo.items > 0 {
        context.reply.array(2);
        context.reply.integer(1);
        context.reply.bulk(&cuckoo.to_header());
        return Ok(());
    }
    let place = at.checked_sub(1).filter(|_| cuckoo.items > 0);
    let Some((filter, within)) = place.and_then(|offset| cuckoo.filter_of(offset)) else {
        context.reply.array(2);
        context.reply.integer(0);
        context.reply.null();
        return Ok(());
    };
    // A filter that fits into one part is sent whole, from any position in it.
    let bytes = cuckoo.filter_bytes(filter);
    let (from, count) = match bytes <= DUMPED_AT_ONCE {
        true => (0, bytes),
        false => (within, (bytes - within).min(DUMPED_AT_ONCE)),
    };
    context.workspace().take(count as usize)?;
    let mut part = vec![0; count as usize];
    sketch.rows(context).read(cuckoo.filter_start(filter) + from, &mut part);
    context.reply.array(2);
    context.reply.integer((at + count) as i64);
    context.reply.bulk(&part);
    Ok(())
}

fn load_chunk(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 4)?;
    let (name, part) = (&arguments[1], &arguments[3]);
    let looked = stored::to_change(context, name, SketchKind::Cuckoo);
    let at = parse::integer(&arguments[2])
        .filter(|at| *at != 0)
        .ok_or("Invalid position")?;
    if at == 1 {
        match looked {
            Looked::Absent => {}
            Looked::Found(_) => return Err("ERR item exists".into()),
            Looked::Other => return Err(WRONG_TYPE.into()),
        }
        if part.len() != HEADER_BYTES {
            return Err("Invalid header".into());
        }
        let cuckoo = Cuckoo::from_header(part).map_err(|_| "Couldn't create filter!")?;
        check_budget(context, cuckoo.space_bytes()).map_err(|TooLarge| "Couldn't create filter!")?;
        stored::create(&mut context.keys(), name, &Head::Cuckoo(cuckoo));
        context.reply.ok();
        return Ok(());
    }
    let mut sketch = looked.required(NOT_FOUND)?;
    let offset = at
        .checked_sub(1 + part.len() as i64)
        .and_then(|offset| u64::try_from(offset).ok());
    let place = offset.filter(|_| !part.is_empty());
    let place = place.and_then(|offset| Some((offset, cuckoo(&mut sketch).filter_of(offset)?)));
    let Some((offset, (filter, within))) = place else {
        return Err("Couldn't load chunk!".into());
    };
    if within + part.len() as u64 > cuckoo(&mut sketch).filter_bytes(filter) {
        return Err("Couldn't load chunk!".into());
    }
    sketch.rows(context).write(offset, part);
    sketch.save(context, name);
    context.reply.ok();
    Ok(())
}
