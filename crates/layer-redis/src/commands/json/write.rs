//! Commands that put, merge and remove values.

use quartet_model::half_floats::{bfloat16, float16, nearest_bfloat16, nearest_float16};
use quartet_wire_resp::Arguments;
use rustc_hash::{FxHashMap, FxHashSet};

use super::answers::{NO_DOCUMENT, NOT_AT_ROOT, inner_first, path_at, put_document, take_values};
use super::document::{Json, Location};
use super::path::Path;
use super::rows::{self, Place, Shape, Stored};
use crate::command::error_reply::ErrorReply;
use crate::handler::command_memory::Workspace;
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

/// A longer patch of JSON.MERGE is merged in the whole document: its members are then looked up by
/// name at once.
const MERGED_BYTES_MAX: usize = 64 << 10;

/// The types of FPHA, which says in how many bits the numbers of arrays are kept.
const FRACTIONS: [(&str, Nearest); 4] = [
    ("BF16", |number| bfloat16(nearest_bfloat16(number as f32))),
    ("FP16", |number| float16(nearest_float16(number as f32))),
    ("FP32", |number| f64::from(number as f32)),
    ("FP64", |number| number),
];

/// Returns the nearest number of a type; an infinite one if a number is beyond them.
type Nearest = fn(f64) -> f64;

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
            let fraction = FRACTIONS.iter().find(|(name, _)| parse::is(kind, name));
            fractions = Some(*fraction.ok_or(errors::SYNTAX)?);
        } else if parse::is(word, "format") {
            return Err("ERR FORMAT is not supported".into());
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    let [name, path, text] = [&arguments[1], &arguments[2], &arguments[3]];
    let path = Path::parse(path)?;
    let _values = take_values(context, arguments)?;
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
    let _values = take_values(context, arguments)?;
    let mut planned = planned(context, arguments)?;
    for start in (1..arguments.len()).step_by(3) {
        // The rest would be done in vain.
        if context.tx.is_too_large() {
            break;
        }
        let path = Path::parse(&arguments[start + 1])?;
        let value = Json::parse(&arguments[start + 2])?;
        let only = planned.remove(&start).unwrap_or(Ok(Only::Always))?;
        set_one(context, &arguments[start], &path, &value, only)?;
    }
    context.reply.ok();
    Ok(())
}

/// For each of several values of JSON.MSET for one key, by its position among the arguments: when
/// it must be written. As in the original, each path refers to the document before the command: an
/// existing value is replaced if it still exists, and a missing member is added unless it was added
/// meanwhile.
fn planned(
    context: &mut Context<'_, '_>,
    arguments: Arguments<'_>,
) -> Result<FxHashMap<usize, Result<Only, ErrorReply>>, ErrorReply> {
    let (mut once, mut again) = (FxHashSet::default(), FxHashMap::default());
    let starts = || (1..arguments.len()).step_by(3);
    for start in starts() {
        let name = &arguments[start];
        if !once.insert(name) && !again.contains_key(name) {
            let entry = context.keys().find_kind(name, Kind::Json)?;
            again.insert(name, entry.map(|entry| Stored::of(entry, context.groups.workspace())));
        }
    }
    let mut planned = FxHashMap::default();
    for start in starts() {
        // A path that is wrong is refused in its turn.
        if let Some(document) = again.get(&arguments[start])
            && let Ok(path) = Path::parse(&arguments[start + 1])
        {
            planned.insert(start, plan(context, document.as_ref(), &path));
        }
    }
    Ok(planned)
}

fn plan(context: &mut Context<'_, '_>, before: Option<&Stored<'_>>, path: &Path) -> Result<Only, ErrorReply> {
    if path.is_root() {
        return Ok(Only::Always);
    }
    let document = before.ok_or(NOT_AT_ROOT)?;
    if document.shapes(context.tx, path)?.is_empty() {
        path.missing_member()?;
        return Ok(Only::IfAbsent);
    }
    Ok(Only::IfThere)
}

/// Arrays of numbers become arrays of the type's nearest fractions. Returns `None` if a number is
/// beyond these.
fn round(value: &mut Json, nearest: Nearest) -> Option<()> {
    match value {
        Json::Array(elements) if elements.iter().all(|element| element.number().is_some()) => {
            for element in elements {
                let near = nearest(element.number()?);
                *element = Json::Double(near.is_finite().then_some(near)?);
            }
        }
        Json::Array(elements) => elements.iter_mut().try_for_each(|element| round(element, nearest))?,
        Json::Object(members) => members.iter_mut().try_for_each(|(_, value)| round(value, nearest))?,
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
    let entry = context.keys().find_kind(name, Kind::Json)?;
    if let Some(entry) = &entry
        && let Some(place) = Place::of(name, entry, path)
    {
        return set_at(context, &place, path, value, only);
    }
    let Some(entry) = entry else {
        if only == Only::IfThere {
            return Ok(false);
        }
        if !path.is_root() {
            return Err(NOT_AT_ROOT.into());
        }
        put_document(context, name, None, value)?;
        return Ok(true);
    };
    let mut workspace = context.groups.workspace();
    rows::take_document(context.groups, &entry, &mut workspace)?;
    let mut document = rows::document(context.tx, &entry);
    let locations = path.select(&document, &mut workspace)?;
    let (is_there, may_replace) = (!locations.is_empty(), only != Only::IfAbsent);
    if is_there && !may_replace || !is_there && only == Only::IfThere {
        return Ok(false);
    }
    let has_written = match is_there {
        true => replace(&mut document, locations, value, &mut workspace)?,
        false => create(&mut document, path, value, &mut workspace)?,
    };
    if has_written {
        put_document(context, name, Some(&entry), &document)?;
    }
    Ok(has_written)
}

/// The same at one place of a document in pieces.
fn set_at(
    context: &mut Context<'_, '_>,
    place: &Place<'_, '_>,
    path: &Path,
    value: &Json,
    only: Only,
) -> Result<bool, ErrorReply> {
    let is_there = place.shape(context.tx).is_some();
    if is_there {
        if only == Only::IfAbsent {
            return Ok(false);
        }
        context.note_use(place.name);
        place.replace(&mut context.keys(), value)?;
        return Ok(true);
    }
    Ok(only != Only::IfThere && create_at(context, place, path, value)?)
}

/// Adds the member that the path's last step names. Returns false if no object receives it.
fn create_at(
    context: &mut Context<'_, '_>,
    place: &Place<'_, '_>,
    path: &Path,
    value: &Json,
) -> Result<bool, ErrorReply> {
    let member = path.missing_member()?;
    let Some(Shape::Object(_)) = place.shape_around(context.tx) else {
        return Ok(false);
    };
    context.note_use(place.name);
    place.create(&mut context.keys(), member, value)?;
    Ok(true)
}

fn replace(
    document: &mut Json,
    locations: Vec<Location>,
    value: &Json,
    workspace: &mut Workspace<'_>,
) -> Result<bool, ErrorReply> {
    document.take_additions(locations.len(), value.memory_bytes(), workspace)?;
    for location in inner_first(locations, workspace)? {
        *document.at_mut(&location).expect("a location that was found") = value.clone();
    }
    Ok(true)
}

/// Adds the member named by the path's last step. Returns false if no object receives it.
fn create(document: &mut Json, path: &Path, value: &Json, workspace: &mut Workspace<'_>) -> Result<bool, ErrorReply> {
    let (parents, name) = path.to_be_created(document, workspace)?;
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
    let _values = take_values(context, arguments)?;
    let patch = Json::parse(&arguments[3])?;
    let name = &arguments[1];
    let Some(entry) = context.keys().find_kind(name, Kind::Json)? else {
        if !path.is_root() {
            return Err(NOT_AT_ROOT.into());
        }
        put_document(context, name, None, &patch)?;
        context.reply.ok();
        return Ok(());
    };
    let place = Place::of(name, &entry, &path).filter(|_| arguments[3].len() <= MERGED_BYTES_MAX);
    if let Some(place) = place {
        match merge_at(context, &place, &path, &patch)? {
            true => context.reply.ok(),
            false => context.reply.null(),
        }
        return Ok(());
    }
    let mut workspace = context.groups.workspace();
    rows::take_document(context.groups, &entry, &mut workspace)?;
    let mut document = rows::document(context.tx, &entry);
    let locations = path.select(&document, &mut workspace)?;
    if locations.is_empty() {
        if !create(&mut document, &path, &patch, &mut workspace)? {
            context.reply.null();
            return Ok(());
        }
    } else {
        let merged_bytes = patch.memory_bytes().saturating_mul(locations.len());
        if context.must_end_before(merged_bytes as u64 / MERGED_BYTES_AN_ELEMENT) {
            return Ok(());
        }
        document.take_additions(locations.len(), patch.memory_bytes(), &mut workspace)?;
        for location in inner_first(locations, &mut workspace)? {
            let value = document.at_mut(&location).expect("a location that was found");
            value.merge(&patch);
        }
    }
    put_document(context, name, Some(&entry), &document)?;
    context.reply.ok();
    Ok(())
}

/// Bytes of merged values that take about as long as a change of an element.
const MERGED_BYTES_AN_ELEMENT: u64 = 64;

/// The same at one place of a document in pieces. False if nothing was done.
fn merge_at(
    context: &mut Context<'_, '_>,
    place: &Place<'_, '_>,
    path: &Path,
    patch: &Json,
) -> Result<bool, ErrorReply> {
    match place.shape(context.tx) {
        None => create_at(context, place, path, patch),
        // The whole document becomes another.
        Some(shape) if place.steps.is_empty() && !matches!((shape, patch), (Shape::Object(_), Json::Object(_))) => {
            let mut value = Json::Null;
            value.merge(patch);
            place.replace(&mut context.keys(), &value)?;
            Ok(true)
        }
        Some(_) => {
            context.note_use(place.name);
            place.merge(&mut context.keys(), patch)?;
            Ok(true)
        }
    }
}

/// JSON.DEL key [path], JSON.FORGET
pub fn del(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let path = path_at(arguments, 2)?;
    let name = &arguments[1];
    let Some(entry) = context.keys().find_kind(name, Kind::Json)? else {
        context.reply.integer(0);
        return Ok(());
    };
    if path.is_root() {
        context.keys().remove(name);
        context.reply.integer(1);
        return Ok(());
    }
    if let Some(place) = Place::of(name, &entry, &path) {
        let is_there = place.shape(context.tx).is_some();
        if is_there {
            context.note_use(name);
            place.remove(&mut context.keys())?;
        }
        context.reply.integer(i64::from(is_there));
        return Ok(());
    }
    let mut workspace = context.groups.workspace();
    rows::take_document(context.groups, &entry, &mut workspace)?;
    let mut document = rows::document(context.tx, &entry);
    let removed = document.remove(path.select(&document, &mut workspace)?);
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
    let entry = context.keys().find_kind(name, Kind::Json)?.ok_or(NO_DOCUMENT)?;
    if let Some(place) = Place::of(name, &entry, &path) {
        let emptied = match place.shape(context.tx) {
            Some(Shape::Array(1..)) => Some(Json::Array(Vec::new())),
            Some(Shape::Object(1..)) => Some(Json::Object(Vec::new())),
            Some(Shape::Integer | Shape::Double) => {
                let number = place.scalar(context.tx).flatten();
                number.and_then(|mut number| empty(&mut number).then_some(number))
            }
            _ => None,
        };
        if let Some(emptied) = &emptied {
            context.note_use(name);
            place.replace(&mut context.keys(), emptied)?;
        }
        context.reply.integer(i64::from(emptied.is_some()));
        return Ok(());
    }
    let mut workspace = context.groups.workspace();
    rows::take_document(context.groups, &entry, &mut workspace)?;
    let mut document = rows::document(context.tx, &entry);
    let mut cleared = 0;
    let mut locations = path.select(&document, &mut workspace)?;
    locations.sort();
    // The contents of an emptied container are removed with it.
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
