//! A stream as RDB has it: nodes of entries, each a listpack, and the consumer groups.
//!
//! ```text
//! number of nodes; for each its first ID (16 bytes, as a string) and its listpack (as a string)
//! number of entries; last ID; from 7.0: first ID, greatest deleted ID, entries ever added      IDs: two lengths
//! number of groups; for each name, last ID, from 7.0 entries read, then
//!   number of pending entries; for each ID (16 bytes), delivered at (8 bytes, milliseconds), deliveries
//!   number of consumers; for each name, seen at, from 7.2 active at (8 bytes each), number of pending entries, their IDs
//!
//! listpack: entries, deleted, number of fields, the fields, 0; then for each entry
//!   flags (1 deleted, 2 the node's fields), milliseconds and sequence above the node's ID,
//!   (number of fields, field, value, ...) or, if the fields are the node's, (value, ...), number of these elements
//! ```
//!
//! The form of 7.0 is written; the forms of 5.0, 7.0 and 7.2 are read.

use std::collections::{HashMap, HashSet};

use quartet_wire_resp::number;

use crate::compact::{listpack, write_listpack};
use crate::primitives::{Malformed, Reader, write_length, write_string};
use crate::stream_id::StreamId;

pub(crate) const LISTPACKS: u8 = 15;
pub(crate) const LISTPACKS_2: u8 = 19;
pub(crate) const LISTPACKS_3: u8 = 21;
pub(crate) const KINDS: [u8; 3] = [LISTPACKS, LISTPACKS_2, LISTPACKS_3];

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// A stream: its entries and its consumer groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stream {
    /// The entries in ascending order of their IDs, a node at a time. No node is empty.
    pub nodes: Vec<Vec<Entry>>,
    /// The greatest ID ever added.
    pub last: StreamId,
    /// The greatest ID ever deleted; zero if none was.
    pub max_deleted: StreamId,
    /// `None`: written before 7.0, which counted neither deleted entries nor a group's reads.
    pub entries_added: Option<u64>,
    /// The consumer groups; their names differ.
    pub groups: Vec<Group>,
}

/// One entry of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The entry's ID.
    pub id: StreamId,
    /// Fields and values in turn, at least one of each.
    pub words: Vec<Vec<u8>>,
}

/// A consumer group.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The group's name.
    pub name: Vec<u8>,
    /// The ID of the last entry delivered to the group.
    pub last: StreamId,
    /// The number of entries read by the group; `None` if it is not known.
    pub entries_read: Option<u64>,
    /// The consumers; their names differ.
    pub consumers: Vec<Consumer>,
}

/// A consumer of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumer {
    /// The consumer's name.
    pub name: Vec<u8>,
    /// The time of its last attempt to read, in milliseconds since the Unix epoch.
    pub seen_ms: u64,
    /// The time of its last successful read, in milliseconds since the Unix epoch.
    pub active_ms: u64,
    /// The entries delivered to it and not yet acknowledged.
    pub pending: Vec<Pending>,
}

/// An entry that was delivered and not yet acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// The entry's ID.
    pub id: StreamId,
    /// The time of the last delivery, in milliseconds since the Unix epoch.
    pub delivered_ms: u64,
    /// The number of deliveries.
    pub deliveries: u64,
}

impl Stream {
    /// Iterates over the entries of all nodes, in ascending order of their IDs.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.nodes.iter().flatten()
    }

    fn entry_count(&self) -> usize {
        self.nodes.iter().map(Vec::len).sum()
    }
}

/// Appends the stream in the form of 7.0.
pub(crate) fn write(stream: &Stream, out: &mut Vec<u8>) {
    write_length(stream.nodes.len(), out);
    for node in &stream.nodes {
        let master = &node[0];
        write_string(&master.id.to_bytes(), out);
        write_string(&write_listpack(&elements(node)), out);
    }
    write_length(stream.entry_count(), out);
    write_id(stream.last, out);
    write_id(stream.entries().next().map_or(StreamId::ZERO, |entry| entry.id), out);
    write_id(stream.max_deleted, out);
    write_length(
        stream.entries_added.unwrap_or(stream.entry_count() as u64) as usize,
        out,
    );
    write_length(stream.groups.len(), out);
    stream.groups.iter().for_each(|group| write_group(group, out));
}

fn write_id(id: StreamId, out: &mut Vec<u8>) {
    write_length(id.ms() as usize, out);
    write_length(id.seq() as usize, out);
}

fn write_group(group: &Group, out: &mut Vec<u8>) {
    write_string(&group.name, out);
    write_id(group.last, out);
    write_length(group.entries_read.unwrap_or(u64::MAX) as usize, out);
    let mut pending: Vec<&Pending> = group.consumers.iter().flat_map(|consumer| &consumer.pending).collect();
    pending.sort_by_key(|pending| pending.id);
    write_length(pending.len(), out);
    for pending in pending {
        out.extend_from_slice(&pending.id.to_bytes());
        out.extend_from_slice(&pending.delivered_ms.to_le_bytes());
        write_length(pending.deliveries as usize, out);
    }
    write_length(group.consumers.len(), out);
    for consumer in &group.consumers {
        write_string(&consumer.name, out);
        out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
        write_length(consumer.pending.len(), out);
        for pending in &consumer.pending {
            out.extend_from_slice(&pending.id.to_bytes());
        }
    }
}

/// The elements of a node's listpack. Its fields are those of its first entry.
fn elements(node: &[Entry]) -> Vec<Vec<u8>> {
    let number = |number: i64| number.to_string().into_bytes();
    let master = &node[0];
    let fields = || master.words.iter().step_by(2);
    let mut elements = vec![number(node.len() as i64), number(0), number(fields().len() as i64)];
    elements.extend(fields().cloned());
    elements.push(number(0));
    for entry in node {
        let start = elements.len();
        let is_same = entry.words.iter().step_by(2).eq(fields());
        elements.push(number(if is_same { SAME_FIELDS } else { 0 }));
        elements.push(number(entry.id.ms().wrapping_sub(master.id.ms()) as i64));
        elements.push(number(entry.id.seq().wrapping_sub(master.id.seq()) as i64));
        if is_same {
            elements.extend(entry.words.iter().skip(1).step_by(2).cloned());
        } else {
            elements.push(number(entry.words.len() as i64 / 2));
            elements.extend(entry.words.iter().cloned());
        }
        elements.push(number((elements.len() - start) as i64));
    }
    elements
}

/// Reads the stream after its kind. Values announced twice must agree.
pub(crate) fn read(kind: u8, reader: &mut Reader<'_>) -> Result<Stream, Malformed> {
    let mut nodes = Vec::new();
    for _ in 0..reader.count()? {
        let entries = read_node(reader)?;
        // All of its entries may have been deleted: a node is never written without any, but may be
        // read so.
        if !entries.is_empty() {
            nodes.push(entries);
        }
    }
    let mut stream = Stream {
        nodes,
        ..Stream::default()
    };
    // Early versions of Redis 5 wrote streams with another number of entries than they hold, and
    // Redis takes them; the entries are counted.
    reader.length()?;
    stream.last = read_id(reader)?;
    if kind != LISTPACKS {
        read_id(reader)?;
        stream.max_deleted = read_id(reader)?;
        stream.entries_added = Some(reader.length()?);
    }
    check_entries(&stream)?;
    for _ in 0..reader.count()? {
        stream.groups.push(read_group(kind, reader)?);
    }
    are_different(stream.groups.iter().map(|group| &group.name))?;
    Ok(stream)
}

fn check_entries(stream: &Stream) -> Result<(), Malformed> {
    let ascend = stream.entries().is_sorted_by(|a, b| a.id < b.id);
    let latest = stream.nodes.last().and_then(|node| node.last());
    let is_last = latest.is_none_or(|latest| latest.id <= stream.last);
    if ascend && is_last {
        return Ok(());
    }
    Err(Malformed)
}

fn are_different<'a>(names: impl ExactSizeIterator<Item = &'a Vec<u8>>) -> Result<(), Malformed> {
    let count = names.len();
    let different: HashSet<_> = names.collect();
    if different.len() == count {
        Ok(())
    } else {
        Err(Malformed)
    }
}

fn read_id(reader: &mut Reader<'_>) -> Result<StreamId, Malformed> {
    Ok(StreamId::new(reader.length()?, reader.length()?))
}

fn raw_id(reader: &mut Reader<'_>) -> Result<StreamId, Malformed> {
    Ok(StreamId::from_bytes(&reader.array::<16>()?))
}

fn milliseconds(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    let milliseconds = i64::from_le_bytes(reader.array()?);
    // Never is -1.
    Ok(u64::try_from(milliseconds).unwrap_or(0))
}

/// The elements of a listpack, taken one by one.
struct Elements(std::vec::IntoIter<Vec<u8>>);

impl Elements {
    fn text(&mut self) -> Result<Vec<u8>, Malformed> {
        self.0.next().ok_or(Malformed)
    }

    fn number(&mut self) -> Result<i64, Malformed> {
        number::integer(&self.text()?).ok_or(Malformed)
    }

    /// Reads a count of items, each at least one element.
    fn count(&mut self) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| Malformed)?;
        if count > self.0.len() {
            return Err(Malformed);
        }
        Ok(count)
    }

    fn texts(&mut self, count: usize) -> Result<Vec<Vec<u8>>, Malformed> {
        (0..count).map(|_| self.text()).collect()
    }
}

fn read_node(reader: &mut Reader<'_>) -> Result<Vec<Entry>, Malformed> {
    let master: [u8; 16] = reader.string()?.try_into().map_err(|_| Malformed)?;
    let master = StreamId::from_bytes(&master);
    let mut elements = Elements(listpack(&reader.string()?)?.into_iter());
    let (live, deleted) = (elements.count()?, elements.count()?);
    let field_count = elements.count()?;
    let fields = elements.texts(field_count)?;
    if elements.number()? != 0 {
        return Err(Malformed);
    }
    let mut entries = Vec::new();
    for _ in 0..live + deleted {
        entries.extend(read_entry(&mut elements, master, &fields)?);
    }
    if entries.len() != live || elements.0.len() > 0 {
        return Err(Malformed);
    }
    Ok(entries)
}

/// An entry; none if it was deleted.
fn read_entry(elements: &mut Elements, master: StreamId, fields: &[Vec<u8>]) -> Result<Option<Entry>, Malformed> {
    let before = elements.0.len();
    let flags = elements.number()?;
    let ms = master.ms().wrapping_add(elements.number()? as u64);
    let seq = master.seq().wrapping_add(elements.number()? as u64);
    let words = if flags & SAME_FIELDS != 0 {
        let values = elements.texts(fields.len())?;
        fields
            .iter()
            .cloned()
            .zip(values)
            .flat_map(|(field, value)| [field, value])
            .collect()
    } else {
        let count = elements.count()?;
        elements.texts(2 * count)?
    };
    let count = before - elements.0.len();
    if elements.number()? != count as i64 || words.is_empty() {
        return Err(Malformed);
    }
    let id = StreamId::new(ms, seq);
    Ok((flags & DELETED == 0).then_some(Entry { id, words }))
}

fn read_group(kind: u8, reader: &mut Reader<'_>) -> Result<Group, Malformed> {
    let name = reader.string()?;
    let last = read_id(reader)?;
    let entries_read = match kind {
        LISTPACKS => None,
        _ => Some(reader.length()?).filter(|&read| i64::try_from(read).is_ok()),
    };
    let mut pending = read_pending(reader)?;
    let mut consumers = Vec::new();
    for _ in 0..reader.count()? {
        consumers.push(read_consumer(kind, reader, &mut pending)?);
    }
    are_different(consumers.iter().map(|consumer| &consumer.name))?;
    // Every pending entry must belong to a consumer.
    if !pending.is_empty() {
        return Err(Malformed);
    }
    Ok(Group {
        name,
        last,
        entries_read,
        consumers,
    })
}

type PendingById = HashMap<[u8; 16], Pending>;

fn read_pending(reader: &mut Reader<'_>) -> Result<PendingById, Malformed> {
    let mut pending = PendingById::new();
    for _ in 0..reader.count()? {
        let id = raw_id(reader)?;
        let entry = Pending {
            id,
            delivered_ms: milliseconds(reader)?,
            deliveries: reader.length()?,
        };
        if pending.insert(id.to_bytes(), entry).is_some() {
            return Err(Malformed);
        }
    }
    Ok(pending)
}

/// Reads a consumer, and removes its entries from `pending`.
fn read_consumer(kind: u8, reader: &mut Reader<'_>, pending: &mut PendingById) -> Result<Consumer, Malformed> {
    let name = reader.string()?;
    let seen_ms = milliseconds(reader)?;
    let active_ms = match kind {
        LISTPACKS_3 => milliseconds(reader)?,
        _ => seen_ms,
    };
    let mut own = Vec::new();
    for _ in 0..reader.count()? {
        own.push(pending.remove(&reader.array::<16>()?).ok_or(Malformed)?);
    }
    Ok(Consumer {
        name,
        seen_ms,
        active_ms,
        pending: own,
    })
}
