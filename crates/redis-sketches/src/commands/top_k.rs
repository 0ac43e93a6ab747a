//! TOPK.*: the most frequent items of a stream.

use crate::dump::Head;
use crate::top_k::TopK;

use super::groups::TOP_K;
use super::requests::*;
use super::stored::{self, Found};
use crate::TooLarge;
use quartet_layer_redis::module_api::definition::*;
use quartet_layer_redis::module_api::{Context, parse};
use quartet_wire_rdb::sketch::SketchKind;
use quartet_wire_resp::Arguments;

const FAMILY: Family = Family::of(TOP_K).keys(ONE_KEY);

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("topk.reserve", -1, WRITE | DENYOOM, "Creates a Top-K sketch.", Answers(reserve)),
    FAMILY.row("topk.add", -1, WRITE | DENYOOM, "Counts items, and returns those that leave the list.", Answers(add)).complexity(ADD),
    FAMILY.row("topk.incrby", -1, WRITE | DENYOOM, "Increases the counts of items, and returns those that leave the list.", Answers(increase)).complexity(ADD),
    FAMILY.row("topk.query", -1, READONLY, "Checks which items are in the list.", Answers(query)).complexity("O(n) in the number of items"),
    FAMILY.row("topk.count", -1, READONLY, "Returns the counts of items.", Answers(count)).complexity("O(n) in the number of items"),
    FAMILY.row("topk.list", -1, READONLY, "Returns the list.", Answers(list)).complexity("O(k * log(k)) in the size of the list"),
    FAMILY.row("topk.info", -1, READONLY, "Returns the parameters of a Top-K sketch.", Answers(information)),
];

const ADD: &str = "O(n * k): n items, k depth";

const WIDTH: u32 = 8;
const DEPTH: u32 = 7;
const DECAY: f64 = 0.9;
const INCREMENT_MAX: i64 = 100_000;
/// The blanks are the original's.
const BAD_INCREMENT: &str = "TopK: increment must be an integer greater or equal to 0    \
                        \u{20}                       and smaller or equal to 100,000";
/// Numbers that a chance is drawn of.
const CHANCES: u64 = 1 << 31;

fn top_k(sketch: &Found) -> TopK {
    match &sketch.head {
        Head::TopK(list) => *list,
        _ => unreachable!("the key was looked up by its kind"),
    }
}

fn find(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Found, ErrorReply> {
    stored::read(context, name, SketchKind::TopK).required(ABSENT)
}

const ABSENT: &str = "TopK: key does not exist";

fn reserve(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, matches!(arguments.len(), 3 | 6))?;
    if context.keys().find(&arguments[1]).is_some() {
        return Err("TopK: key already exists".into());
    }
    let number = |at: usize, error: &'static str| {
        let number = parse::integer(&arguments[at]).and_then(|number| u32::try_from(number).ok());
        number.filter(|number| *number > 0).ok_or(ErrorReply::new(error))
    };
    let k = number(2, "TopK: invalid k")?;
    let (mut width, mut depth, mut decay) = (WIDTH, DEPTH, DECAY);
    if arguments.len() == 6 {
        width = number(3, "TopK: invalid width")?;
        depth = number(4, "TopK: invalid depth")?;
        let argument = parse::float(&arguments[5]).filter(|decay| *decay > 0.0 && *decay <= 1.0);
        decay = argument.ok_or("TopK: invalid decay value. must be '<= 1' & '> 0'")?;
    }
    let list = TopK::new(k, width, depth, decay);
    let list = list.and_then(|list| check_budget(context, list.space_bytes()).map(|()| list));
    let list = list.map_err(|TooLarge| "ERR Insufficient memory to create topk data structure")?;
    stored::create(&mut context.keys(), &arguments[1], &Head::TopK(list));
    context.reply.ok();
    Ok(())
}

/// Counts one item and replies the item that left the list.
fn count_item(context: &mut Context<'_, '_>, sketch: &Found, item: &[u8], increment: u32) -> Result<(), ErrorReply> {
    let list = top_k(sketch);
    context.workspace().take(list.space_bytes() as usize)?;
    let random = context.random();
    let mut chance = || random.below(CHANCES) as f64 / (CHANCES - 1) as f64;
    let expelled = list.add(&mut sketch.rows(context), item, increment, &mut chance);
    match expelled {
        Some(item) => context.reply.bulk(&item),
        None => context.reply.null(),
    }
    Ok(())
}

fn add(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    let sketch = stored::to_change(context, &arguments[1], SketchKind::TopK).required(ABSENT)?;
    context.reply.array(arguments.len() - 2);
    for item in arguments.iter().skip(2) {
        count_item(context, &sketch, item, 1)?;
    }
    sketch.save(context, &arguments[1]);
    Ok(())
}

/// The original stops at a wrong increment in the middle of its reply; here nothing is done then.
fn increase(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 4 && arguments.len().is_multiple_of(2))?;
    let sketch = stored::to_change(context, &arguments[1], SketchKind::TopK).required(ABSENT)?;
    let increment = |at: usize| {
        let increment = parse::integer(&arguments[at]);
        increment.filter(|increment| (0..=INCREMENT_MAX).contains(increment))
    };
    if (3..arguments.len()).step_by(2).any(|at| increment(at).is_none()) {
        return Err(BAD_INCREMENT.into());
    }
    context.reply.array(arguments.len() / 2 - 1);
    for at in (2..arguments.len()).step_by(2) {
        let increment = increment(at + 1).unwrap_or_default() as u32;
        count_item(context, &sketch, &arguments[at], increment)?;
    }
    sketch.save(context, &arguments[1]);
    Ok(())
}

fn query(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    let sketch = find(context, &arguments[1])?;
    context.workspace().take(top_k(&sketch).space_bytes() as usize)?;
    context.reply.array(arguments.len() - 2);
    for item in arguments.iter().skip(2) {
        let is_listed = top_k(&sketch).contains(&mut sketch.rows(context), item);
        context.reply.boolean(is_listed);
    }
    Ok(())
}

fn count(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() >= 3)?;
    let sketch = find(context, &arguments[1])?;
    context.workspace().take(top_k(&sketch).space_bytes() as usize)?;
    context.reply.array(arguments.len() - 2);
    for item in arguments.iter().skip(2) {
        let count = top_k(&sketch).count(&mut sketch.rows(context), item);
        context.reply.integer(count.into());
    }
    Ok(())
}

fn list(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, matches!(arguments.len(), 2 | 3))?;
    // The original compares as many letters as are given.
    let has_counts = match arguments.get(2) {
        None => false,
        Some(word) => {
            let expected = b"WITHCOUNT".get(..word.len());
            let is_expected = expected.is_some_and(|expected| word.eq_ignore_ascii_case(expected));
            match is_expected {
                true => true,
                false => return Err("WITHCOUNT keyword expected".into()),
            }
        }
    };
    let sketch = find(context, &arguments[1])?;
    let mut workspace = context.workspace();
    workspace.take(top_k(&sketch).space_bytes() as usize)?;
    let items = top_k(&sketch).list(&mut sketch.rows(context));
    context.reply.array(items.len() * if has_counts { 2 } else { 1 });
    for (item, count) in items {
        context.reply.bulk(&item);
        if has_counts {
            context.reply.integer(count.into());
        }
    }
    Ok(())
}

fn information(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, arguments.len() == 2)?;
    let list = top_k(&find(context, &arguments[1])?);
    context.reply.map(4);
    for (name, number) in [("k", list.k), ("width", list.width), ("depth", list.depth)] {
        context.reply.simple(name);
        context.reply.integer(number.into());
    }
    context.reply.simple("decay");
    context.reply.double(list.decay);
    Ok(())
}
