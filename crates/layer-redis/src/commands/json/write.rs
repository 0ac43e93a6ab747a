//! Commands that put, merge and remove values.

use quartet_search::vectors::Component;
use quartet_wire_resp::Arguments;
use rustc_hash::{FxHashMap, FxHashSet};

use super::document::{Json, Location};
use super::path::Path;
use super::rows::Place;
use super::{NO_DOCUMENT, NOT_AT_ROOT, find_document, inner_first, path_at, put_at, put_document};
use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::Kind;
use crate::{command::errors, command::parse};

/// Which values JSON.SET may write.
#[derive(Clone, Copy, PartialEq)]
enum Only {
    Always,
    /// NX
    IfAbsent,
    /// XX
    IfThere,
}

/// The types of FPHA, which says in how many bits the numbers of arrays are kept.
const FRACTIONS: [(&str, Component); 4] = [
    ("BF16", Component::BFloat16),
    ("FP16", Component::Float16),
    ("FP32", Component::Float32),
    ("FP64", Component::Float64),
];

/// JSON.SET key path value [NX | XX] [FPHA BF16 | FP16 | FP32 | FP64]
pub fn set(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (mut only, mut fractions) = (Only::Always, None);
    let mut words = arguments.iter().skip(4);
    while let Some(word) = words.next() {
        if parse::is(word, "nx") && only == Only::Always {
            only = Only::IfAbsent;
        } else if parse::is(word, "xx") && only == Only::Always {
            only = Only::IfThere;
        } else if parse::is(word, "fpha") && fractions.is_none() {
            let kind = words.next().ok_or(errors::SYNTAX)?;
            let known = FRACTIONS.iter().find(|(name, _)| parse::is(kind, name));
            fractions = Some(*known.ok_or(errors::SYNTAX)?);
        } else if parse::is(word, "format") {
            return Err("ERR FORMAT is not supported".into());
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    let [name, path, text] = [&arguments[1], &arguments[2], &arguments[3]];
    let path = Path::parse(path)?;
    let mut value = Json::parse(text)?;
    if let Some((kind, component)) = fractions {
        round(&mut value, component).ok_or_else(|| format!("ERR value out of range for {kind}"))?;
    }
    match set_one(context, name, &path, &value, only)? {
        true => context.reply.ok(),
        false => context.reply.null(),
    }
    Ok(())
}

/// JSON.MSET key path value [key path value ...]
pub fn mset(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    if arguments.len() % 3 != 1 {
        return Err("ERR wrong number of arguments for 'json.mset' command".into());
    }
    let before = named_again(context, arguments)?;
    for start in (1..arguments.len()).step_by(3) {
        // The rest would be done in vain.
        if context.tx.is_too_large() {
            break;
        }
        let path = Path::parse(&arguments[start + 1])?;
        let value = Json::parse(&arguments[start + 2])?;
        let name = &arguments[start];
        match before.get(name) {
            None => _ = set_one(context, name, &path, &value, Only::Always)?,
            Some(document) => set_again(context, name, document.as_ref(), &path, &value)?,
        }
    }
    context.reply.ok();
    Ok(())
}

/// The documents, as they are, of keys that the request names more than once.
fn named_again<'a>(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'a>,
) -> Result<FxHashMap<&'a [u8], Option<Json>>, ErrorReply> {
    let (mut once, mut again) = (FxHashSet::default(), FxHashMap::default());
    for name in (1..arguments.len()).step_by(3).map(|start| arguments.get(start)) {
        let name = name.unwrap_or_default();
        if !once.insert(name) && !again.contains_key(name) {
            let document = find_document(context, name)?;
            again.insert(name, document.map(|(_, document)| document));
        }
    }
    Ok(again)
}

/// One of several values of JSON.MSET for a key. As at the original, the document as it was before
/// the command says what each path means: what was there is replaced if it still is, and a member
/// that was missing is added unless it came meanwhile.
fn set_again(
    context: &mut Context<'_, '_>,
    name: &[u8],
    before: Option<&Json>,
    path: &Path,
    value: &Json,
) -> Result<(), ErrorReply> {
    let was_there = match before {
        None if path.is_root() => true,
        None => return Err(NOT_AT_ROOT.into()),
        Some(document) => !path.select(document)?.is_empty(),
    };
    if let (Some(document), false) = (before, was_there) {
        path.to_be_created(document)?;
    }
    let only = match (path.is_root(), was_there) {
        (true, _) => Only::Always,
        (false, true) => Only::IfThere,
        (false, false) => Only::IfAbsent,
    };
    set_one(context, name, path, value, only).map(drop)
}

/// Arrays of numbers become arrays of the type's nearest fractions. Returns `None` if a number is
/// beyond these.
fn round(value: &mut Json, component: Component) -> Option<()> {
    match value {
        Json::Array(elements) if elements.iter().all(|element| element.number().is_some()) => {
            for element in elements {
                *element = Json::Double(component.rounded(element.number()?)?);
            }
        }
        Json::Array(elements) => elements.iter_mut().try_for_each(|element| round(element, component))?,
        Json::Object(members) => members.iter_mut().try_for_each(|(_, value)| round(value, component))?,
        _ => {}
    }
    Some(())
}

/// False if nothing was written, because of the condition or because there is nowhere to write to.
fn set_one(
    context: &mut Context<'_, '_>,
    name: &[u8],
    path: &Path,
    value: &Json,
    only: Only,
) -> Result<bool, ErrorReply> {
    if only != Only::IfAbsent
        && let Some(entry) = context.keys().find_kind(name, Kind::Json)?
        && let Some(place) = Place::find(context.tx, &entry, path)
        && put_at(context, name, &entry, place, value)
    {
        return Ok(true);
    }
    let Some((entry, mut document)) = find_document(context, name)? else {
        if only == Only::IfThere {
            return Ok(false);
        }
        if !path.is_root() {
            return Err(NOT_AT_ROOT.into());
        }
        put_document(context, name, None, value)?;
        return Ok(true);
    };
    let locations = path.select(&document)?;
    let (is_there, may_replace) = (!locations.is_empty(), only != Only::IfAbsent);
    if is_there && !may_replace || !is_there && only == Only::IfThere {
        return Ok(false);
    }
    let has_written = match is_there {
        true => replace(&mut document, locations, value)?,
        false => create(&mut document, path, value)?,
    };
    if has_written {
        put_document(context, name, Some(&entry), &document)?;
    }
    Ok(has_written)
}

fn replace(document: &mut Json, locations: Vec<Location>, value: &Json) -> Result<bool, ErrorReply> {
    document.check_additions(locations.len(), value.memory_bytes())?;
    for location in inner_first(locations) {
        *document.at_mut(&location).expect("a location that was found") = value.clone();
    }
    Ok(true)
}

/// Adds the member named by the path's last step. Returns false if no object receives it.
fn create(document: &mut Json, path: &Path, value: &Json) -> Result<bool, ErrorReply> {
    let (parents, name) = path.to_be_created(document)?;
    let mut has_written = false;
    for parent in parents {
        let object = document.at_mut(&parent).expect("a location that was found");
        has_written |= object.set_member(name, value.clone());
    }
    Ok(has_written)
}

/// JSON.MERGE key path value: null, and nothing is done, if there is nothing at the path and no
/// object that could get it.
pub fn merge(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = Path::parse(&arguments[2])?;
    let patch = Json::parse(&arguments[3])?;
    let name = &arguments[1];
    let Some((entry, mut document)) = find_document(context, name)? else {
        if !path.is_root() {
            return Err(NOT_AT_ROOT.into());
        }
        put_document(context, name, None, &patch)?;
        context.reply.ok();
        return Ok(());
    };
    let locations = path.select(&document)?;
    if locations.is_empty() {
        if !create(&mut document, &path, &patch)? {
            context.reply.null();
            return Ok(());
        }
    } else {
        document.check_additions(locations.len(), patch.memory_bytes())?;
        for location in inner_first(locations) {
            let value = document.at_mut(&location).expect("a location that was found");
            value.merge(&patch);
        }
    }
    put_document(context, name, Some(&entry), &document)?;
    context.reply.ok();
    Ok(())
}

/// JSON.DEL key [path], JSON.FORGET
pub fn del(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = path_at(arguments, 2)?;
    let name = &arguments[1];
    let Some((entry, mut document)) = find_document(context, name)? else {
        context.reply.integer(0);
        return Ok(());
    };
    if path.is_root() {
        context.keys().remove(name);
        context.reply.integer(1);
        return Ok(());
    }
    let removed = document.remove(path.select(&document)?);
    if removed > 0 {
        put_document(context, name, Some(&entry), &document)?;
    }
    context.reply.integer(removed as i64);
    Ok(())
}

/// JSON.CLEAR key [path]: how many values became empty, or zero.
pub fn clear(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = path_at(arguments, 2)?;
    let name = &arguments[1];
    let (entry, mut document) = find_document(context, name)?.ok_or(NO_DOCUMENT)?;
    let mut cleared = 0;
    let mut locations = path.select(&document)?;
    locations.sort();
    // What stands in a container that is emptied goes with it.
    locations.dedup_by(|later, earlier| later.starts_with(earlier));
    for location in locations {
        let value = document.at_mut(&location).expect("a location that was found");
        cleared += i64::from(empty(value));
    }
    if cleared > 0 {
        put_document(context, name, Some(&entry), &document)?;
    }
    context.reply.integer(cleared);
    Ok(())
}

/// False if there was nothing to empty.
fn empty(value: &mut Json) -> bool {
    let emptied = match value {
        Json::Array(elements) if !elements.is_empty() => Json::Array(Vec::new()),
        Json::Object(members) if !members.is_empty() => Json::Object(Vec::new()),
        Json::Integer(number) if *number != 0 => Json::Integer(0),
        Json::Double(number) if *number != 0.0 => Json::Integer(0),
        _ => return false,
    };
    *value = emptied;
    true
}
