//! A stream as rows: its entries, and which of them Redis would keep in one node.
//!
//! ```text
//! payload = id (10 bytes), length, last ID, first ID, greatest deleted ID, entries ever added, next group's number,
//!           entries and bytes ever added to the last node, entries in the first, the last node's first ID and names;
//!           numbers are big-endian. Before the last two were there, a payload ended without them
//! e ID                      -> the fields and values, packed
//! n ID                      -> nothing; a node begins here. The first node begins nowhere
//! g ... o                   -> consumer groups, see `groups`
//! ```
//!
//! Each entry is a row, so XADD writes two rows and XDEL clears one. Redis packs some hundred
//! entries into a node, and trimming with `~` removes whole nodes; to leave the same entries as
//! Redis, a row marks the start of each node except the first. A node always has an entry.
//!
//! Invariants: `length` is the number of entry rows; `first` is the first of them, or zero; `last`
//! is never below any of them and decreases only by XSETID; no node row is at or before the first
//! entry.

use std::ops::{ControlFlow, RangeInclusive};
use std::sync::atomic::Ordering;

use quartet_engine::Transaction;
use quartet_wire_resp::{Arguments, Reply};
use smallvec::SmallVec;

use super::id::{ALL_IDS, ID_BYTES, StreamId};
use super::node::Node;
use crate::command::error_reply::ErrorReply;
use crate::config::Config;
use crate::keyspace::fixed::Fixed;
use crate::keyspace::packed;
use crate::keyspace::{Elements, Entry, Header, KeyBytes, Keyspace, Kind, LARGE};

const ENTRY: u8 = b'e';
const NODE: u8 = b'n';
const PAYLOAD_BYTES: usize = 10 + 8 + 3 * ID_BYTES + 8 + 4 * 4 + ID_BYTES + 8;
/// Overhead of a word in a row besides its bytes, mostly.
const WORD_OVERHEAD_BYTES: usize = 2;

/// A stream as read, or as it will be written.
pub struct Stream {
    pub elements: Elements,
    header: Header,
    pub length: u64,
    pub last: StreamId,
    /// ID of the first entry there is; zero if there are none.
    pub first: StreamId,
    pub max_deleted: StreamId,
    pub entries_added: u64,
    /// Numbers of groups, each given once.
    pub next_group: u32,
    /// The last node.
    node: Node,
    /// Zero: not known, or the first node is the last.
    first_node_entries: u32,
    /// Entries that were added or deleted one by one.
    touched: SmallVec<[StreamId; 1]>,
}

/// The entries that XTRIM, and XADD after its entry, removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    pub keep: Keep,
    /// Only whole nodes go.
    pub approximate: bool,
    /// Upper bound on the entries removed, if nodes go.
    pub limit: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Keeps at most this many of the latest entries.
    Length(u64),
    /// Those from this ID on.
    From(StreamId),
}

impl Stream {
    /// A stream without entries, not written yet.
    pub fn new(keys: &mut Keyspace<'_, '_>) -> Stream {
        Stream {
            elements: keys.new_elements(),
            header: Header::new(Kind::Stream),
            length: 0,
            last: StreamId::ZERO,
            first: StreamId::ZERO,
            max_deleted: StreamId::ZERO,
            entries_added: 0,
            next_group: 0,
            node: Node::default(),
            first_node_entries: 0,
            touched: SmallVec::new(),
        }
    }

    pub fn of(entry: &Entry) -> Stream {
        let mut fields = Fields(entry.large_payload());
        let mut stream = Stream {
            elements: entry.elements(),
            header: Header::of(entry),
            length: fields.number(),
            last: fields.id(),
            first: fields.id(),
            max_deleted: fields.id(),
            entries_added: fields.number(),
            next_group: fields.short(),
            node: Node {
                entries: fields.short(),
                bytes: fields.short(),
                ..Node::default()
            },
            first_node_entries: fields.short(),
            touched: SmallVec::new(),
        };
        if !fields.0.is_empty() {
            (stream.node.first, stream.node.names) = (fields.id(), fields.number());
        }
        stream
    }

    /// The stream that a writer finds; an error if the key holds something else.
    pub fn find(keys: &mut Keyspace<'_, '_>, name: &[u8]) -> Result<Option<Stream>, ErrorReply> {
        let entry = keys.find_kind(name, Kind::Stream)?;
        Ok(entry.as_ref().map(Stream::of))
    }

    /// Writes the key's row, which wakes the clients that wait for the stream.
    pub fn write(&self, keys: &mut Keyspace<'_, '_>, name: &[u8]) {
        let mut payload = Fixed::<PAYLOAD_BYTES>::new();
        payload.put(*self.elements.id());
        payload.put(self.length.to_be_bytes());
        for id in [self.last, self.first, self.max_deleted] {
            payload.put(id.to_bytes());
        }
        payload.put(self.entries_added.to_be_bytes());
        for number in [
            self.next_group,
            self.node.entries,
            self.node.bytes,
            self.first_node_entries,
        ] {
            payload.put(number.to_be_bytes());
        }
        payload.put(self.node.first.to_bytes());
        payload.put(self.node.names.to_be_bytes());
        keys.put(name, self.header.flags(LARGE), payload.as_bytes());
        keys.changes.note_entries(keys.db, self.elements.id(), &self.touched);
    }

    /// Adds an entry. Its ID must be above `last`.
    pub fn append(&mut self, tx: &mut Transaction<'_>, config: &Config, id: StreamId, words: Arguments<'_>) {
        let words_bytes: usize = words.iter().map(<[u8]>::len).sum();
        let mut fields = Vec::with_capacity(words_bytes + WORD_OVERHEAD_BYTES * words.len());
        words.iter().for_each(|word| packed::push(&mut fields, word));
        self.choose_node(tx, config, id, words_bytes);
        self.node.add(id, words.iter());
        self.elements.set(tx, &row_key(ENTRY, id), &fields);
        self.touched.push(id);
        self.length += 1;
        self.entries_added += 1;
        self.last = id;
        if self.length == 1 {
            self.first = id;
        }
    }

    /// The entries by node, as Redis would keep them.
    pub fn nodes(&self, tx: &mut Transaction<'_>) -> Vec<Vec<(StreamId, Vec<Vec<u8>>)>> {
        let mut begin = Vec::new();
        self.elements
            .scan(tx, &[NODE], Some(&[NODE + 1]), false, &mut |key, _| {
                begin.push(StreamId::from_bytes(&key[1..]));
                ControlFlow::Continue(())
            });
        let mut begin = begin.into_iter().peekable();
        let mut nodes: Vec<Vec<_>> = Vec::new();
        self.scan(tx, ALL_IDS, false, &mut |id, fields| {
            let begins = begin.next_if(|first| *first <= id).is_some();
            if begins || nodes.is_empty() {
                nodes.push(Vec::new());
            }
            let words = packed::iter(fields).map(<[u8]>::to_vec).collect();
            nodes.last_mut().expect("pushed").push((id, words));
            ControlFlow::Continue(())
        });
        nodes
    }

    /// Adds a node from another representation. Its entries' IDs must ascend above `last`, which
    /// follows them; they do not count as added.
    pub fn append_node<'a>(
        &mut self,
        tx: &mut Transaction<'_>,
        entries: impl Iterator<Item = (StreamId, &'a [Vec<u8>])>,
    ) {
        self.node = Node::default();
        for (id, words) in entries {
            if self.length == 0 {
                self.first = id;
            } else if self.node.entries == 0 {
                self.elements.set(tx, &row_key(NODE, id), b"");
            }
            let mut fields = Vec::new();
            words.iter().for_each(|word| packed::push(&mut fields, word));
            self.elements.set(tx, &row_key(ENTRY, id), &fields);
            self.node.add(id, words.iter().map(Vec::as_slice));
            self.length += 1;
            self.last = id;
        }
    }

    /// Starts another node if the last has no room.
    fn choose_node(&mut self, tx: &mut Transaction<'_>, config: &Config, id: StreamId, words_bytes: usize) {
        let limit = |value: i64| u64::try_from(value).ok().filter(|&limit| limit > 0).unwrap_or(u64::MAX);
        let entries_max = limit(config.stream_node_max_entries.load(Ordering::Relaxed));
        let bytes_max = limit(config.stream_node_max_bytes.load(Ordering::Relaxed));
        if self.node.is_full_for(words_bytes, entries_max, bytes_max) {
            self.elements.set(tx, &row_key(NODE, id), b"");
            self.node = Node::default();
        }
    }

    /// The fields and values of an entry, packed.
    pub fn fields(&self, tx: &mut Transaction<'_>, id: StreamId) -> Option<Vec<u8>> {
        let row = self.elements.get(tx, &row_key(ENTRY, id))?;
        Some(row.value().to_vec())
    }

    /// Visits the entries of a range, or backwards, until `visit` breaks.
    pub fn scan(
        &self,
        tx: &mut Transaction<'_>,
        range: RangeInclusive<StreamId>,
        reverse: bool,
        visit: &mut dyn FnMut(StreamId, &[u8]) -> ControlFlow<()>,
    ) {
        if range.is_empty() {
            return;
        }
        let (start, end) = (row_key(ENTRY, *range.start()), row_end(ENTRY, *range.end()));
        self.elements.scan(tx, &start, Some(&end), reverse, &mut |key, fields| {
            visit(StreamId::from_bytes(&key[1..]), fields)
        });
    }

    /// The number of entries of a range.
    pub fn count(&self, tx: &mut Transaction<'_>, range: RangeInclusive<StreamId>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let (start, end) = (row_key(ENTRY, *range.start()), row_end(ENTRY, *range.end()));
        self.elements.count(tx, &start, Some(&end))
    }

    /// The number of entries up to this ID, inclusive.
    pub fn count_to(&self, tx: &mut Transaction<'_>, id: StreamId) -> u64 {
        self.elements.count(tx, &[ENTRY], Some(&row_end(ENTRY, id)))
    }

    /// The first entry of a range, or its last.
    pub fn edge(&self, tx: &mut Transaction<'_>, range: RangeInclusive<StreamId>, reverse: bool) -> Option<StreamId> {
        let mut edge_id = None;
        self.scan(tx, range, reverse, &mut |id, _| {
            edge_id = Some(id);
            ControlFlow::Break(())
        });
        edge_id
    }

    /// The latest entry there is. `last` may be above it: that of one deleted since.
    pub fn latest(&self, tx: &mut Transaction<'_>) -> Option<StreamId> {
        if self.length == 0 {
            return None;
        }
        self.edge(tx, ALL_IDS, true)
    }

    /// Removes one entry. False if there is none.
    pub fn delete(&mut self, tx: &mut Transaction<'_>, id: StreamId) -> bool {
        if self.elements.clear(tx, &row_key(ENTRY, id)).is_none() {
            return false;
        }
        self.touched.push(id);
        self.length -= 1;
        self.max_deleted = self.max_deleted.max(id);
        self.first_node_entries = 0;
        self.close_node(tx, id);
        if id == self.first {
            self.find_first(tx);
        }
        true
    }

    /// Removes the node that `id` was in if nothing is left in it. The node before it takes its
    /// place.
    fn close_node(&mut self, tx: &mut Transaction<'_>, id: StreamId) {
        if self.length == 0 {
            return self.clear_nodes_to(tx, StreamId::MAX);
        }
        let start = self.node_row(tx, StreamId::ZERO..=id, true);
        let next = id
            .next()
            .and_then(|above| self.node_row(tx, above..=StreamId::MAX, false));
        let last_of_node = next.map_or(StreamId::MAX, |next| {
            next.previous().expect("a node does not begin at zero")
        });
        let is_empty = self.edge(tx, start.unwrap_or_default()..=last_of_node, false).is_none();
        if !is_empty {
            return;
        }
        if next.is_none() {
            // The node before it was closed because it was full.
            self.node = Node::FULL;
        }
        if let Some(begins) = start.or(next) {
            self.elements.clear(tx, &row_key(NODE, begins));
        }
    }

    /// The start of the first or the last node of `range`.
    fn node_row(&self, tx: &mut Transaction<'_>, range: RangeInclusive<StreamId>, reverse: bool) -> Option<StreamId> {
        let (start, end) = (row_key(NODE, *range.start()), row_end(NODE, *range.end()));
        let mut row = None;
        self.elements.scan(tx, &start, Some(&end), reverse, &mut |key, _| {
            row = Some(StreamId::from_bytes(&key[1..]));
            ControlFlow::Break(())
        });
        row
    }

    /// The number of nodes that Redis would have.
    pub fn node_count(&self, tx: &mut Transaction<'_>) -> u64 {
        if self.length == 0 {
            return 0;
        }
        1 + self.elements.count(tx, &[NODE], Some(&[NODE + 1]))
    }

    /// Removes old entries. Returns how many.
    pub fn trim(&mut self, tx: &mut Transaction<'_>, trim: &Trim) -> u64 {
        let before = self.length;
        if trim.approximate {
            self.trim_nodes(tx, trim);
        } else {
            self.trim_entries(tx, trim.keep);
        }
        if self.length < before {
            self.find_first(tx);
        }
        before - self.length
    }

    /// Removes all that is not to be kept.
    fn trim_entries(&mut self, tx: &mut Transaction<'_>, keep: Keep) {
        let count = match keep {
            Keep::Length(length) => self.length.saturating_sub(length),
            Keep::From(id) if id <= self.first => 0,
            Keep::From(id) => self.elements.count(tx, &[ENTRY], Some(&row_key(ENTRY, id))),
        };
        if count == 0 {
            return;
        }
        if count == self.length {
            self.elements.clear_range(tx, &[ENTRY], Some(&[ENTRY + 1]));
            self.length = 0;
            return self.clear_nodes_to(tx, StreamId::MAX);
        }
        let retained = self
            .elements
            .nth(tx, &[ENTRY], count)
            .expect("fewer entries than there are");
        let retained = StreamId::from_bytes(&Elements::name(&retained)[1..]);
        if count == 1 {
            self.elements.clear(tx, &row_key(ENTRY, self.first));
        } else {
            self.elements.clear_range(tx, &[ENTRY], Some(&row_key(ENTRY, retained)));
        }
        self.length -= count;
        self.clear_nodes_to(tx, retained);
    }

    /// Removes nodes from the front while each goes as a whole.
    fn trim_nodes(&mut self, tx: &mut Transaction<'_>, trim: &Trim) {
        let mut remaining = trim.limit.unwrap_or(u64::MAX);
        while self.length > 0 && !self.keeps_first_node(trim.keep) {
            let next = self.node_row(tx, ALL_IDS, false);
            let end = next.map_or(row_end(ENTRY, StreamId::MAX), |next| row_key(ENTRY, next));
            let entries = next.map_or(self.length, |_| self.elements.count(tx, &[ENTRY], Some(&end)));
            self.first_node_entries = next.map_or(0, |_| u32::try_from(entries).unwrap_or(0));
            let goes = match trim.keep {
                Keep::Length(length) => self.length - entries >= length,
                Keep::From(id) => self.last_before(tx, next) < Some(id),
            };
            if !goes || entries > remaining {
                return;
            }
            self.elements.clear_range(tx, &[ENTRY], Some(&end));
            self.length -= entries;
            remaining -= entries;
            self.clear_nodes_to(tx, next.unwrap_or(StreamId::MAX));
        }
    }

    /// Returns true if that is plain without a look: an XADD with MAXLEN ~ mostly removes nothing.
    fn keeps_first_node(&self, keep: Keep) -> bool {
        let Keep::Length(length) = keep else {
            return false;
        };
        self.length.saturating_sub(u64::from(self.first_node_entries)) < length || self.length <= length
    }

    /// The last entry before `next`, or of all.
    fn last_before(&self, tx: &mut Transaction<'_>, next: Option<StreamId>) -> Option<StreamId> {
        let end = next.map_or(Some(StreamId::MAX), StreamId::previous)?;
        self.edge(tx, StreamId::ZERO..=end, true)
    }

    /// Removes the node rows up to `retained`, whose entries were deleted: `retained` is in the
    /// first node now.
    fn clear_nodes_to(&mut self, tx: &mut Transaction<'_>, retained: StreamId) {
        self.elements.clear_range(tx, &[NODE], Some(&row_end(NODE, retained)));
        self.first_node_entries = 0;
        if self.length == 0 {
            self.node = Node::default();
        }
    }

    fn find_first(&mut self, tx: &mut Transaction<'_>) {
        self.first = match self.length {
            0 => StreamId::ZERO,
            _ => self
                .edge(tx, ALL_IDS, false)
                .expect("a stream with a length has a first entry"),
        };
    }

    /// Returns true if an entry was deleted from the middle, at or after `start`.
    pub fn has_gap_from(&self, start: StreamId) -> bool {
        let may_have = self.length > 0 && self.max_deleted != StreamId::ZERO && self.first <= self.max_deleted;
        may_have && start <= self.max_deleted
    }

    /// The number of entries ever added up to `id`, which need not be an entry's; `None` if
    /// unknown.
    pub fn added_up_to(&self, id: StreamId) -> Option<u64> {
        if self.entries_added == 0 || self.length == 0 && id <= self.last || id == self.last {
            return Some(self.entries_added);
        }
        let unbroken = self.max_deleted == StreamId::ZERO || self.max_deleted < self.first;
        if id > self.last || !unbroken || id > self.first {
            return None;
        }
        let before = self.entries_added.wrapping_sub(self.length);
        Some(before.wrapping_add(u64::from(id == self.first)))
    }
}

/// The numbers of a payload, one after another.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, further) = self
            .0
            .split_first_chunk()
            .expect("a stream's payload has all its numbers");
        self.0 = further;
        *field
    }

    fn number(&mut self) -> u64 {
        u64::from_be_bytes(self.take())
    }

    fn short(&mut self) -> u32 {
        u32::from_be_bytes(self.take())
    }

    fn id(&mut self) -> StreamId {
        StreamId::from_bytes(&self.take::<ID_BYTES>())
    }
}

fn row_key(tag: u8, id: StreamId) -> KeyBytes {
    let mut key = KeyBytes::new();
    key.push(tag);
    key.extend_from_slice(&id.to_bytes());
    key
}

/// The upper bound of the row of an ID.
fn row_end(tag: u8, id: StreamId) -> KeyBytes {
    match id.next() {
        Some(above) => row_key(tag, above),
        None => KeyBytes::from_slice(&[tag + 1]),
    }
}

/// An entry as every command answers it: its ID, then its fields and values.
pub fn write_entry(reply: &mut Reply<'_>, id: StreamId, fields: &[u8]) {
    reply.array(2);
    write_id(reply, id);
    write_fields(reply, fields);
}

/// An entry with the milliseconds since its latest delivery, and how often it was delivered before:
/// XREADGROUP with CLAIM.
pub fn write_entry_delivered(reply: &mut Reply<'_>, id: StreamId, fields: &[u8], idle_ms: u64, deliveries: u64) {
    reply.array(4);
    write_id(reply, id);
    write_fields(reply, fields);
    reply.integer(idle_ms as i64);
    reply.integer(deliveries as i64);
}

fn write_fields(reply: &mut Reply<'_>, fields: &[u8]) {
    reply.array(packed::count(fields));
    packed::iter(fields).for_each(|word| reply.bulk(word));
}

pub fn write_id(reply: &mut Reply<'_>, id: StreamId) {
    reply.bulk(id.text().as_bytes());
}
