//! The commands that show what a set holds.

use std::ops::ControlFlow;

use quartet_layer_redis::module_api::{Context, Elements, ErrorReply, PickCount, parse};
use quartet_search::vectors::set::{self, MEMBERS_RANGE, member_row};
use quartet_wire_resp::Arguments;

use super::key::{Set, check_arity, wrong_arity};

pub fn dimensions(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, 2, "VDIM")?;
    let set = Set::read(context, &arguments[1])?.ok_or("ERR key does not exist")?;
    context.reply.integer(set.head.dimensions as i64);
    Ok(())
}

pub fn count(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, 2, "VCARD")?;
    let count = Set::read(context, &arguments[1])?.map_or(0, |set| set.head.count);
    context.reply.integer(count as i64);
    Ok(())
}

pub fn is_member(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, 3, "VISMEMBER")?;
    let set = Set::read(context, &arguments[1])?;
    let is_member = set.is_some_and(|set| set.element(context, &arguments[2]).is_some());
    context.reply.boolean(is_member);
    Ok(())
}

/// The set and the element's number that a request names; none if there are none such.
fn element(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<Option<(Set, set::Id)>, ErrorReply> {
    let Some(set) = Set::read(context, &arguments[1])? else {
        return Ok(None);
    };
    let id = set.element(context, &arguments[2]);
    Ok(id.map(|id| (set, id)))
}

pub fn embedding(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.len() < 3 {
        return Err(wrong_arity("VEMB"));
    }
    let options = arguments.tail(3);
    if !options.iter().all(|word| parse::is(word, "raw")) {
        return Err("ERR invalid option".into());
    }
    let Some((set, id)) = element(context, arguments)? else {
        context.reply.null();
        return Ok(());
    };
    let head = &set.head;
    let (coded, _) = set::vector_of(&mut set.rows(context), head, id);
    let reply = &mut context.reply;
    if !options.is_empty() {
        let has_range = head.quantization == set::codec::Quantization::Bytes;
        reply.array(3 + usize::from(has_range));
        reply.simple(head.quantization.name());
        reply.bulk(&coded.code);
        reply.double(f64::from(coded.length));
        if has_range {
            reply.double(f64::from(coded.range));
        }
    } else {
        let vector = coded.decoded(head.quantization, head.dimensions);
        reply.array(vector.len());
        vector.iter().for_each(|number| reply.double(f64::from(*number)));
    }
    Ok(())
}

pub fn links(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let with_scores = arguments.get(3).map(|word| parse::is(word, "withscores"));
    if !(3..=4).contains(&arguments.len()) || with_scores == Some(false) {
        return Err(wrong_arity("VLINKS"));
    }
    let Some((set, id)) = element(context, arguments)? else {
        context.reply.null();
        return Ok(());
    };
    if set.head.waits(id) && context.must_end_before_long() {
        return Ok(());
    }
    let levels = set::links_of(&mut set.rows(context), &set.head, id);
    let reply = &mut context.reply;
    reply.array(levels.len());
    for links in levels {
        match with_scores {
            Some(_) => reply.map(links.len()),
            None => reply.array(links.len()),
        }
        for (element, distance) in links {
            reply.bulk(&element);
            if with_scores.is_some() {
                reply.double(f64::from((1.0 - f64::from(distance) / 2.0) as f32));
            }
        }
    }
    Ok(())
}

pub fn information(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, 2, "VINFO")?;
    let Some(set) = Set::read(context, &arguments[1])? else {
        context.reply.null_array();
        return Ok(());
    };
    let head = &set.head;
    let highest_level = set::highest_level(&mut set.rows(context), head);
    // Another set, or a copy, has another id; it fits into what clients read as a number.
    let [uid @ .., _, _] = *set.entry.elements().id();
    let uid = u64::from_be_bytes(uid) & i64::MAX as u64;
    let numbers = [
        ("hnsw-m", head.links as u64),
        ("vector-dim", head.dimensions as u64),
        ("projection-input-dim", head.projected_from as u64),
        ("size", head.count),
        ("max-level", highest_level as u64),
        ("attributes-count", head.with_attributes),
        ("vset-uid", uid),
        ("hnsw-max-node-uid", head.last_id),
    ];
    let reply = &mut context.reply;
    reply.map(1 + numbers.len());
    reply.simple("quant-type");
    reply.simple(head.quantization.name());
    for (name, number) in numbers {
        reply.simple(name);
        reply.integer(number as i64);
    }
    Ok(())
}

pub fn attributes(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    check_arity(arguments, 3, "VGETATTR")?;
    let place = element(context, arguments)?;
    let attributes = place.and_then(|(set, id)| set::attributes_of(&mut set.rows(context), id));
    match attributes {
        Some(attributes) => context.reply.bulk(&attributes),
        None => context.reply.null(),
    }
    Ok(())
}

pub fn random_members(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let count = match arguments.len() {
        2 => None,
        3 => {
            let is_integer = parse::integer(&arguments[2]).is_some();
            let count = is_integer.then(|| PickCount::parse(&arguments[2]));
            Some(count.ok_or("ERR COUNT value is not an integer")??)
        }
        _ => return Err(wrong_arity("VRANDMEMBER")),
    };
    let set = Set::read(context, &arguments[1])?;
    let size = set.as_ref().map_or(0, |set| set.head.count);
    let mut workspace = context.workspace();
    workspace.take(count.map_or(0, |count| count.bytes(size)))?;
    let positions = match count {
        Some(count) => count.positions(context.random(), size)?,
        None if size > 0 => vec![context.random().below(size)],
        None => Vec::new(),
    };
    if count.is_some() {
        context.reply.array(positions.len());
    } else if positions.is_empty() {
        context.reply.null();
    }
    let Some(set) = set else { return Ok(()) };
    let elements = set.entry.elements();
    for position in positions {
        let row = elements.nth(context.tx, MEMBERS_RANGE[0], position);
        let row = row.expect("as many names as elements");
        context.reply.bulk(&Elements::name(&row)[1..]);
    }
    Ok(())
}

const NOT_A_RANGE: &str = "ERR invalid range: use - and +, or names behind [ or (";

/// The first key of a range, or its exclusive end.
fn bound(text: &[u8], is_start: bool) -> Result<Vec<u8>, ErrorReply> {
    let (first, name) = text.split_first().ok_or(NOT_A_RANGE)?;
    let behind = |name: &[u8]| [&member_row(name), [0].as_slice()].concat();
    match (first, name) {
        (b'-', []) if is_start => Ok(MEMBERS_RANGE[0].to_vec()),
        (b'+', []) if !is_start => Ok(MEMBERS_RANGE[1].to_vec()),
        (b'-' | b'+', []) => Err("ERR '-' can only be used as first argument, '+' only as second".into()),
        (b'[', name) if is_start => Ok(member_row(name)),
        (b'[', name) => Ok(behind(name)),
        (b'(', name) if is_start => Ok(behind(name)),
        (b'(', name) => Ok(member_row(name)),
        _ => Err(NOT_A_RANGE.into()),
    }
}

pub fn range(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if !(4..=5).contains(&arguments.len()) {
        return Err(wrong_arity("VRANGE"));
    }
    let (start, end) = (bound(&arguments[2], true)?, bound(&arguments[3], false)?);
    let count = arguments.get(4).map_or(Ok(-1), parse::required_integer)?;
    let mut remaining = u64::try_from(count).unwrap_or(u64::MAX);
    let mut names = context.gathered_list();
    if let Some(set) = Set::read(context, &arguments[1])?
        && start < end
        && remaining > 0
    {
        let elements = set.entry.elements();
        elements.scan(context.tx, &start, Some(&end), false, &mut |key, _| {
            names.push(&key[1..]);
            remaining -= 1;
            if remaining > 0 && !names.is_refused() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
    }
    let names = names.all()?;
    context.reply.array(names.len());
    names.iter().for_each(|name| context.reply.bulk(name));
    Ok(())
}
