//! Vector indexes: the commands `VECTOR.*`, as `redis.vector` of `@upstash/redis` sends them.
//!
//! An index is a key of type `vector` with the rows of a vector set: the same graph, the
//! unquantized vectors, and a metric. Unlike a vector set it remains without vectors. Requests and
//! replies follow <https://upstash.com/docs/redis/commands/vector/overview> and what
//! `@upstash/redis` 1.39 sends and reads; `docs/vector-indexes.md` says what is served.

mod request;

#[cfg(test)]
mod tests;

use quartet_engine::Row;
use quartet_engine::Transaction;
use quartet_layer_redis::module_api::definition::*;
use quartet_layer_redis::module_api::{Context, Entry, Header, LARGE};
use quartet_search::vectors::set::codec::Quantization;
use quartet_search::vectors::set::{self, Head, Id, Neighbor, Query};
use quartet_wire_resp::{Arguments, Protocol};

use self::request::{CreateRequest, Profile, QueryRequest, check_dimensions, checked_id};
use super::vector_sets::{COMPARED_WITH_LOCK, Changed, head, head_and_mark, put, rows_to_read};
use crate::groups;
use crate::indexes::SetRows;
use crate::kinds::VECTOR_INDEX;

/// Target number of links of a node: a vector set's default.
const LINKS: usize = 16;

/// Candidates that the search for the neighbours of a new vector keeps.
const EFFORT_OF_ADD: usize = 200;

const ADD: &str = "O(log(N)) in the number of vectors";

const FAMILY: Family = Family::of(groups::VECTOR_INDEX).keys(ONE_KEY).since("8.2.0");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("vector.create", -6, WRITE | DENYOOM, "Makes a vector index.", Answers(create)),
    FAMILY.row("vector.add", -5, WRITE | DENYOOM, "Gives an ID of a vector index a vector.", Answers(add)).complexity(ADD),
    FAMILY.row("vector.get", 3, READONLY | FAST, "Returns the vector of an ID.", Answers(get)),
    FAMILY.row("vector.del", 3, WRITE, "Removes an ID with its vector.", Answers(delete)).complexity(ADD),
    FAMILY.row("vector.drop", 2, WRITE, "Removes a vector index.", Answers(drop_index)).complexity("O(1); its rows go as ranges"),
    FAMILY.row("vector.count", 2, READONLY | FAST, "Counts the vectors of a vector index.", Answers(count)),
    FAMILY.row("vector.info", 2, READONLY | FAST, "Returns the dimension and the metric of a vector index.", Answers(information)),
    FAMILY.row("vector.query", -6, READONLY, "Returns the IDs whose vectors are nearest to a vector.", Answers(query)).complexity(ADD),
];

/// An index as it was found.
struct Index {
    entry: Entry,
    head: Head,
    mark: Row,
}

impl Index {
    fn of(entry: Entry, tx: &mut Transaction<'_>) -> Index {
        let (head, mark) = head_and_mark(&entry, tx);
        Index { entry, head, mark }
    }

    /// One that a command reads.
    fn read(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Option<Index>, ErrorReply> {
        let entry = context.read_kind(name, VECTOR_INDEX)?;
        Ok(entry.map(|entry| Index::of(entry, context.tx)))
    }

    /// One that a command changes.
    fn to_change(context: &mut Context<'_, '_>, name: &[u8]) -> Result<Index, ErrorReply> {
        let entry = context.keys().find_kind(name, VECTOR_INDEX)?;
        let entry = entry.ok_or_else(|| not_found(name))?;
        context.note_change(name, Some(&entry));
        Ok(Index::of(entry, context.tx))
    }

    fn rows<'r, 't>(&self, context: &'r mut Context<'_, 't>) -> SetRows<'r, 't> {
        rows_to_read(context, &self.entry, &self.head, &self.mark)
    }

    fn find(&self, context: &mut Context<'_, '_>, id: &[u8]) -> Option<Id> {
        set::find(&mut self.rows(context), id)
    }
}

fn not_found(name: &[u8]) -> ErrorReply {
    format!("ERR Index {} is not found", String::from_utf8_lossy(name)).into()
}

fn create(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let request = CreateRequest::read(arguments.tail(2))?;
    if let Some(entry) = context.keys().find_kind(name, VECTOR_INDEX)? {
        let existing = head(&entry).expect("the row of a vector index");
        let name_shown = String::from_utf8_lossy(name);
        let is_same = (existing.dimensions, existing.quantization) == (request.dimensions, request.metric);
        return match (request.exists_ok, is_same) {
            (true, true) => {
                context.reply.integer(0);
                Ok(())
            }
            (true, false) => {
                Err(format!("ERR Index {name_shown} already exists with another dimension or metric").into())
            }
            (false, _) => Err(format!("ERR Index {name_shown} already exists").into()),
        };
    }
    let head = Head::new(request.metric, LINKS, request.dimensions);
    let header = Header::new(VECTOR_INDEX).flags(LARGE);
    let mut keys = context.keys();
    let elements = keys.new_elements();
    put(&mut keys, name, header, &elements, &head);
    context.reply.integer(1);
    Ok(())
}

fn add(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (name, id) = (&arguments[1], checked_id(&arguments[2])?);
    let (vector, behind) = request::vector(arguments.tail(3))?;
    if !behind.is_empty() {
        return Err("ERR syntax error".into());
    }
    let Index { entry, head, .. } = Index::to_change(context, name)?;
    check_dimensions(&vector, &head)?;
    let mut is_new = false;
    Changed::of(name, entry, context.tx).change(context.groups, &mut context.keys(), |rows, head| {
        is_new = set::add(rows, head, id, &vector, None, EFFORT_OF_ADD);
        true
    });
    context.reply.boolean(is_new);
    Ok(())
}

fn get(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (name, id) = (&arguments[1], checked_id(&arguments[2])?);
    let index = Index::read(context, name)?.ok_or_else(|| not_found(name))?;
    let Some(id) = index.find(context, id) else {
        context.reply.null_array();
        return Ok(());
    };
    let head = &index.head;
    let (coded, _) = set::vector_of(&mut index.rows(context), head, id);
    let vector = coded.decoded(head.quantization, head.dimensions);
    context.reply.array(vector.len());
    vector
        .iter()
        .for_each(|number| context.reply.double(f64::from(*number)));
    Ok(())
}

fn delete(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let (name, id) = (&arguments[1], checked_id(&arguments[2])?);
    let Index { entry, .. } = Index::to_change(context, name)?;
    let changed = Changed::of(name, entry, context.tx);
    let is_removed = changed.change(context.groups, &mut context.keys(), |rows, head| {
        set::remove(rows, head, id)
    });
    context.reply.boolean(is_removed);
    Ok(())
}

fn drop_index(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let is_there = context.keys().find_kind(name, VECTOR_INDEX)?.is_some();
    if is_there {
        context.keys().remove(name);
    }
    context.reply.boolean(is_there);
    Ok(())
}

fn count(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let count = Index::read(context, &arguments[1])?.map_or(0, |index| index.head.count);
    context.reply.integer(count as i64);
    Ok(())
}

fn information(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let Some(Index { head, .. }) = Index::read(context, &arguments[1])? else {
        context.reply.null_array();
        return Ok(());
    };
    context.reply.map(2);
    context.reply.bulk(b"dimension");
    context.reply.integer(head.dimensions as i64);
    context.reply.bulk(b"metric");
    context.reply.bulk(head.quantization.name().as_bytes());
    Ok(())
}

fn query(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let name = &arguments[1];
    let request = QueryRequest::read(arguments.tail(2))?;
    let index = Index::read(context, name)?.ok_or_else(|| not_found(name))?;
    check_dimensions(&request.vector, &index.head)?;
    let query = Query {
        vector: &request.vector,
        count: request.count,
        effort: effort(request.profile, request.count),
        filter: None,
        looked_at_max: 0,
        is_exact: false,
    };
    if query.compared(&index.head) > COMPARED_WITH_LOCK && context.must_end_before_long() {
        return Ok(());
    }
    let neighbors = set::search(&mut index.rows(context), &index.head, &query);
    context.reply.array(neighbors.len());
    for neighbor in neighbors {
        context.reply.array(2);
        context.reply.bulk(&neighbor.element);
        let score = score(index.head.quantization, &neighbor);
        match context.reply.protocol() {
            Protocol::Resp2 => context.reply.bulk(score.to_string().as_bytes()),
            Protocol::Resp3 => context.reply.double(score.into()),
        }
    }
    Ok(())
}

/// Candidates that a search keeps.
fn effort(profile: Profile, count: usize) -> usize {
    let (least, times) = match profile {
        Profile::Fast => (50, 1),
        Profile::Balanced => (150, 2),
        Profile::Precise => (500, 4),
    };
    least.max(count * times)
}

/// From 0 to 1, the greater the nearer. Upstash specifies nothing further. For DOT this is the
/// score of vectors of length 1, so longer vectors may all have the score 1: they are ordered by
/// their products.
fn score(metric: Quantization, neighbor: &Neighbor) -> f32 {
    match metric {
        Quantization::PlainEuclidean => 1.0 / (1.0 + neighbor.distance),
        Quantization::PlainProduct => ((1.0 - neighbor.distance) / 2.0).clamp(0.0, 1.0),
        _ => 1.0 - neighbor.distance / 2.0,
    }
}
