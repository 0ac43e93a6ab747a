//! A key's value as a payload: what DUMP writes and RESTORE reads.
//!
//! The plain forms are written, which every Redis since 4.0 reads and converts as it needs
//! (streams: that of 7.0); read are all forms that Redis 7.0 writes, the older forms that it still
//! reads, and the sets, streams and hashes of 7.2, 7.4 and Valkey 9. Vector sets, JSON documents,
//! suggestions, sketches and time series are modules' values; no other is known.

use std::collections::HashSet;

use quartet_wire_resp::number;

use crate::compact::{intset, listpack, ziplist, zipmap};
use crate::json;
use crate::module;
use crate::primitives::{Malformed, Reader, write_length, write_string};
use crate::series::{self, Series};
use crate::sketch::{self, Sketch};
use crate::stream::{self, Stream};
use crate::suggestions::{self, Suggestion};
use crate::vector_set::{self, VectorSet};
use crate::{FIRST_VALKEY_VERSION, VERSION, VERSION_OF_DEADLINES, open, seal_as};

pub(crate) const STRING: u8 = 0;
pub(crate) const LIST: u8 = 1;
pub(crate) const SET: u8 = 2;
pub(crate) const ZSET: u8 = 3;
pub(crate) const HASH: u8 = 4;
pub(crate) const ZSET_2: u8 = 5;
/// A module's value, its parts with their kinds.
pub(crate) const MODULE: u8 = 7;
pub(crate) const HASH_ZIPMAP: u8 = 9;
pub(crate) const LIST_ZIPLIST: u8 = 10;
pub(crate) const SET_INTSET: u8 = 11;
pub(crate) const ZSET_ZIPLIST: u8 = 12;
pub(crate) const HASH_ZIPLIST: u8 = 13;
pub(crate) const LIST_QUICKLIST: u8 = 14;
pub(crate) const HASH_LISTPACK: u8 = 16;
pub(crate) const ZSET_LISTPACK: u8 = 17;
pub(crate) const LIST_QUICKLIST_2: u8 = 18;
pub(crate) const SET_LISTPACK: u8 = 20;
/// Valkey's hash with deadlines of fields. (Release candidates of Redis 7.4 had another form under
/// this number.)
pub(crate) const HASH_2: u8 = 22;
pub(crate) const HASH_METADATA: u8 = 24;
pub(crate) const HASH_LISTPACK_EX: u8 = 25;

/// A value of any kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    String(Vec<u8>),
    /// A list, from head to tail.
    List(Vec<Vec<u8>>),
    /// A set, in no order.
    Set(Vec<Vec<u8>>),
    /// A sorted set: members with their scores, in no order.
    SortedSet(Vec<(Vec<u8>, f64)>),
    /// A hash, in no order.
    Hash(Vec<Field>),
    /// A stream.
    Stream(Stream),
    /// A vector set. Its links are not verified to form a graph.
    VectorSet(VectorSet),
    /// A vector index, which no Redis reads. Its links are not verified to form a graph.
    VectorIndex(VectorSet),
    /// The text of a JSON document, not verified to be JSON.
    Json(Vec<u8>),
    /// Suggestions, in no order.
    Suggestions(Vec<Suggestion>),
    /// A sketch, not verified to be one.
    Sketch(Sketch),
    /// A time series, not verified to be one.
    Series(Series),
}

/// A field of a hash.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The field's name.
    pub name: Vec<u8>,
    /// The field's value.
    pub value: Vec<u8>,
    /// The time at which the field expires, in milliseconds since the Unix epoch; `None`: never.
    pub deadline_ms: Option<u64>,
}

/// Returns the payload of a value, version and checksum included.
pub fn dump(value: &Value) -> Vec<u8> {
    let mut out = vec![0];
    out[0] = write_body(value, &mut out);
    let version = if out[0] == HASH_METADATA {
        VERSION_OF_DEADLINES
    } else {
        VERSION
    };
    seal_as(out, version)
}

/// Appends the value without its kind, and returns that.
pub(crate) fn write_body(value: &Value, out: &mut Vec<u8>) -> u8 {
    match value {
        Value::String(text) => {
            write_string(text, out);
            STRING
        }
        Value::List(elements) => {
            write_strings(elements, out);
            LIST
        }
        Value::Set(members) => {
            write_strings(members, out);
            SET
        }
        Value::SortedSet(pairs) => {
            write_length(pairs.len(), out);
            for (member, score) in pairs {
                write_string(member, out);
                out.extend_from_slice(&score.to_le_bytes());
            }
            ZSET_2
        }
        Value::Stream(stream) => {
            stream::write(stream, out);
            stream::LISTPACKS_2
        }
        Value::VectorSet(set) => {
            vector_set::write(vector_set::MODULE, set, out);
            MODULE
        }
        Value::VectorIndex(set) => {
            vector_set::write(vector_set::MODULE_OF_INDEXES, set, out);
            MODULE
        }
        Value::Json(document) => {
            json::write(document, out);
            MODULE
        }
        Value::Suggestions(suggestions) => {
            suggestions::write(suggestions, out);
            MODULE
        }
        Value::Sketch(sketch) => {
            sketch::write(sketch, out);
            MODULE
        }
        Value::Series(series) => {
            series::write(series, out);
            MODULE
        }
        Value::Hash(fields) => match fields.iter().filter_map(|field| field.deadline_ms).min() {
            Some(first_ms) => {
                write_with_deadlines(fields, first_ms, out);
                HASH_METADATA
            }
            None => {
                write_length(fields.len(), out);
                for field in fields {
                    write_string(&field.name, out);
                    write_string(&field.value, out);
                }
                HASH
            }
        },
    }
}

fn write_strings(strings: &[Vec<u8>], out: &mut Vec<u8>) {
    write_length(strings.len(), out);
    strings.iter().for_each(|string| write_string(string, out));
}

/// Deadlines are stored as one more than their distance to the first; zero is none.
fn write_with_deadlines(fields: &[Field], first_ms: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&first_ms.to_le_bytes());
    write_length(fields.len(), out);
    for field in fields {
        let distance = field.deadline_ms.map_or(0, |deadline_ms| deadline_ms - first_ms + 1);
        write_length(distance as usize, out);
        write_string(&field.name, out);
        write_string(&field.value, out);
    }
}

/// Why a payload gives no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Version or checksum are wrong.
    Trailer,
    /// The bytes say nothing that could be a value.
    Body,
}

impl From<Malformed> for Refused {
    fn from(_: Malformed) -> Refused {
        Refused::Body
    }
}

/// Returns the value of a payload. No collection in it is empty, and the members of each differ.
pub fn restore(payload: &[u8]) -> Result<Value, Refused> {
    let body = open(payload).ok_or(Refused::Trailer)?;
    let version = u16::from_le_bytes([payload[body.len()], payload[body.len() + 1]]);
    if body.first() == Some(&HASH_2) && version < FIRST_VALKEY_VERSION {
        return Err(Refused::Body);
    }
    let mut reader = Reader::new(body);
    let value = read(&mut reader)?;
    if !reader.is_done() || !is_sound(&value) {
        return Err(Refused::Body);
    }
    Ok(value)
}

fn read(reader: &mut Reader<'_>) -> Result<Value, Malformed> {
    let kind = reader.byte()?;
    Ok(match kind {
        STRING => Value::String(reader.string()?),
        LIST => Value::List(strings(reader, 1)?),
        SET => Value::Set(strings(reader, 1)?),
        HASH => Value::Hash(fields(strings(reader, 2)?)?),
        ZSET => Value::SortedSet(scored(reader, old_score)?),
        ZSET_2 => Value::SortedSet(scored(reader, |reader| Ok(f64::from_le_bytes(reader.array()?)))?),
        HASH_ZIPMAP => Value::Hash(fields(zipmap(&reader.string()?)?)?),
        LIST_ZIPLIST => Value::List(ziplist(&reader.string()?)?),
        SET_INTSET => Value::Set(intset(&reader.string()?)?),
        ZSET_ZIPLIST => Value::SortedSet(pairs(ziplist(&reader.string()?)?)?),
        HASH_ZIPLIST => Value::Hash(fields(ziplist(&reader.string()?)?)?),
        HASH_LISTPACK => Value::Hash(fields(listpack(&reader.string()?)?)?),
        ZSET_LISTPACK => Value::SortedSet(pairs(listpack(&reader.string()?)?)?),
        SET_LISTPACK => Value::Set(listpack(&reader.string()?)?),
        LIST_QUICKLIST => Value::List(nodes(reader, |reader| ziplist(&reader.string()?))?),
        LIST_QUICKLIST_2 => Value::List(nodes(reader, node)?),
        HASH_2 => Value::Hash(fields_with_absolute_deadlines(reader)?),
        HASH_METADATA => Value::Hash(fields_with_deadlines(reader)?),
        HASH_LISTPACK_EX => {
            reader.array::<8>()?;
            Value::Hash(triples(listpack(&reader.string()?)?)?)
        }
        MODULE => of_module(reader)?,
        stream::LISTPACKS | stream::LISTPACKS_2 | stream::LISTPACKS_3 => Value::Stream(stream::read(kind, reader)?),
        _ => return Err(Malformed),
    })
}

fn of_module(reader: &mut Reader<'_>) -> Result<Value, Malformed> {
    Ok(match module::split(reader.length()?) {
        (vector_set::MODULE, 0) => Value::VectorSet(vector_set::read(reader)?),
        (vector_set::MODULE_OF_INDEXES, 0) => Value::VectorIndex(vector_set::read(reader)?),
        (json::MODULE, version) => Value::Json(json::read(version, reader)?),
        (suggestions::MODULE, version) => Value::Suggestions(suggestions::read(version, reader)?),
        (series::MODULE, version) => Value::Series(series::read(version, reader)?),
        (module, version) => Value::Sketch(sketch::read(module, version, reader)?),
    })
}

/// Returns true if values of the module with this number are read here.
pub(crate) fn is_known_module(number: u64) -> bool {
    match module::split(number) {
        (vector_set::MODULE, version) => version == 0,
        (json::MODULE, version) => json::is_known(version),
        (suggestions::MODULE, version) => suggestions::is_known(version),
        (series::MODULE, version) => series::is_known(version),
        (module, version) => sketch::is_known(module, version),
    }
}

/// Reads a number of strings for each of a number of things.
fn strings(reader: &mut Reader<'_>, each: usize) -> Result<Vec<Vec<u8>>, Malformed> {
    let count = reader.count()?.checked_mul(each).ok_or(Malformed)?;
    (0..count).map(|_| reader.string()).collect()
}

fn scored(
    reader: &mut Reader<'_>,
    score: fn(&mut Reader<'_>) -> Result<f64, Malformed>,
) -> Result<Vec<(Vec<u8>, f64)>, Malformed> {
    let count = reader.count()?;
    (0..count).map(|_| Ok((reader.string()?, score(reader)?))).collect()
}

/// A score as text, its length before it.
fn old_score(reader: &mut Reader<'_>) -> Result<f64, Malformed> {
    match reader.byte()? {
        255 => Ok(f64::NEG_INFINITY),
        254 => Ok(f64::INFINITY),
        253 => Ok(f64::NAN),
        length => number(reader.bytes(usize::from(length))?),
    }
}

fn number(text: &[u8]) -> Result<f64, Malformed> {
    number::float(text).ok_or(Malformed)
}

/// The concatenated elements of a quicklist's nodes.
fn nodes(
    reader: &mut Reader<'_>,
    node: fn(&mut Reader<'_>) -> Result<Vec<Vec<u8>>, Malformed>,
) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut elements = Vec::new();
    for _ in 0..reader.count()? {
        elements.extend(node(reader)?);
    }
    Ok(elements)
}

/// A node is one large element, or a listpack.
fn node(reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, Malformed> {
    match reader.length()? {
        1 => Ok(vec![reader.string()?]),
        2 => listpack(&reader.string()?),
        _ => Err(Malformed),
    }
}

fn fields(elements: Vec<Vec<u8>>) -> Result<Vec<Field>, Malformed> {
    let mut elements = elements.into_iter();
    let mut fields = Vec::new();
    while let Some(name) = elements.next() {
        fields.push(Field {
            name,
            value: elements.next().ok_or(Malformed)?,
            deadline_ms: None,
        });
    }
    Ok(fields)
}

fn pairs(elements: Vec<Vec<u8>>) -> Result<Vec<(Vec<u8>, f64)>, Malformed> {
    let mut elements = elements.into_iter();
    let mut pairs = Vec::new();
    while let Some(member) = elements.next() {
        pairs.push((member, number(&elements.next().ok_or(Malformed)?)?));
    }
    Ok(pairs)
}

fn fields_with_deadlines(reader: &mut Reader<'_>) -> Result<Vec<Field>, Malformed> {
    let first_ms = u64::from_le_bytes(reader.array()?);
    let count = reader.count()?;
    let field = |_| {
        let deadline_ms = match reader.length()? {
            0 => None,
            distance => Some(first_ms.checked_add(distance - 1).ok_or(Malformed)?),
        };
        let (name, value) = (reader.string()?, reader.string()?);
        Ok(Field {
            name,
            value,
            deadline_ms,
        })
    };
    (0..count).map(field).collect()
}

/// Reads fields with deadlines after their values; a negative deadline means none.
fn fields_with_absolute_deadlines(reader: &mut Reader<'_>) -> Result<Vec<Field>, Malformed> {
    let count = reader.count()?;
    let field = |_| {
        Ok(Field {
            name: reader.string()?,
            value: reader.string()?,
            deadline_ms: u64::try_from(i64::from_le_bytes(reader.array()?)).ok(),
        })
    };
    (0..count).map(field).collect()
}

/// Field, value and deadline in turn; zero is none.
fn triples(elements: Vec<Vec<u8>>) -> Result<Vec<Field>, Malformed> {
    let mut elements = elements.into_iter();
    let mut fields = Vec::new();
    while let Some(name) = elements.next() {
        let value = elements.next().ok_or(Malformed)?;
        let deadline = elements.next().ok_or(Malformed)?;
        let deadline_ms = number::unsigned(&deadline).ok_or(Malformed)?;
        fields.push(Field {
            name,
            value,
            deadline_ms: Some(deadline_ms).filter(|&deadline_ms| deadline_ms > 0),
        });
    }
    Ok(fields)
}

/// Returns true if no collection is empty, no member is repeated, and no score is NaN.
fn is_sound(value: &Value) -> bool {
    match value {
        // A stream may be empty, and the layer verifies sketches and series; the rest was looked at
        // when it was read.
        Value::String(_) | Value::Stream(_) | Value::Sketch(_) | Value::Series(_) => true,
        Value::Json(document) => !document.is_empty(),
        Value::Suggestions(suggestions) => {
            let is_sound = |suggestion: &Suggestion| !suggestion.text.is_empty() && suggestion.score.is_finite();
            suggestions.iter().all(is_sound) && are_different(suggestions.iter().map(|suggestion| &suggestion.text))
        }
        Value::VectorSet(set) => are_different(set.elements.iter().map(|element| &element.name)),
        // The last vector may go before the index does.
        Value::VectorIndex(set) => {
            set.elements.is_empty() || are_different(set.elements.iter().map(|element| &element.name))
        }
        Value::List(elements) => !elements.is_empty(),
        Value::Set(members) => are_different(members.iter()),
        Value::Hash(fields) => are_different(fields.iter().map(|field| &field.name)),
        Value::SortedSet(pairs) => {
            are_different(pairs.iter().map(|(member, _)| member)) && pairs.iter().all(|(_, score)| !score.is_nan())
        }
    }
}

/// Returns true if there are members, all different.
fn are_different<'a>(members: impl ExactSizeIterator<Item = &'a Vec<u8>>) -> bool {
    let count = members.len();
    let different: HashSet<_> = members.collect();
    count > 0 && different.len() == count
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn values_survive_a_round_trip() {
        let field = |name: &str, deadline_ms| Field {
            name: name.into(),
            value: b"v".to_vec(),
            deadline_ms,
        };
        for value in [
            Value::String(b"".to_vec()),
            Value::String(b"12345".to_vec()),
            Value::String(vec![b'x'; 100_000]),
            Value::List(texts(&["a", "a", "1"])),
            Value::Set(texts(&["a", "b"])),
            Value::SortedSet(vec![(b"a".to_vec(), 1.5), (b"b".to_vec(), f64::INFINITY)]),
            Value::Hash(vec![field("f", None), field("g", None)]),
            Value::Hash(vec![
                field("f", Some(2_000_000_000_000)),
                field("g", None),
                field("h", Some(2_000_000_000_007)),
            ]),
        ] {
            assert_eq!(restore(&dump(&value)), Ok(value));
        }
    }

    #[test]
    fn unsound_values_are_refused() {
        for value in [
            Value::List(vec![]),
            Value::Set(texts(&["a", "a"])),
            Value::SortedSet(vec![(b"a".to_vec(), f64::NAN)]),
        ] {
            assert_eq!(restore(&dump(&value)), Err(Refused::Body));
        }
        assert_eq!(restore(b""), Err(Refused::Trailer));
        let seal = crate::seal;
        assert_eq!(restore(&seal(vec![99])), Err(Refused::Body));
        assert_eq!(restore(&seal(b"\x02\x80\xff\xff\xff\xff".to_vec())), Err(Refused::Body));
    }

    proptest! {
        #[test]
        fn any_payload_ends(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = restore(&crate::seal(body));
        }
    }
}
