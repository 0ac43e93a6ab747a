//! Consumer groups as rows of their stream.
//!
//! ```text
//! g name                    -> group's number (4), last delivered ID (16), entries read (8), next consumer's number (4)
//! c group name              -> consumer's number (4), seen (8), active (8); milliseconds, 0 = never
//! d group consumer          -> the consumer's name
//! p group ID                -> pending: consumer (4), delivered at (8), deliveries (8)
//! o group consumer ID       -> nothing; what the consumer owns of the above
//! ```
//!
//! Names are replaced by numbers in the frequent rows, and numbers are never reused: a group or
//! consumer that is created again under its name has another. The store counts rows, so no counts
//! are kept here. A command costs the rows that it touches: delivering an entry writes two rows,
//! acknowledging clears them.
//!
//! Invariants: a `p` row has exactly one `o` row, of the consumer that it names, and an `o` row its
//! `p` row; both kinds belong to a consumer that has its `c` and `d` rows. A pending entry may have
//! been deleted from the stream.

use std::ops::{ControlFlow, RangeInclusive};

use quartet_engine::Transaction;

use super::id::{ALL_IDS, StreamId};
use super::stream::Stream;
use crate::keyspace::changes::What;
use crate::keyspace::{Elements, KeyBytes};

const GROUP: u8 = b'g';
const CONSUMER: u8 = b'c';
const NAME: u8 = b'd';
const PENDING: u8 = b'p';
const OWNED: u8 = b'o';
const NUMBER_BYTES: usize = 4;
/// Pending entries looked up at a time.
const PAGE: usize = 128;

/// A group as read, or as it will be written.
#[derive(Clone, Debug)]
pub struct Group {
    elements: Elements,
    pub name: Vec<u8>,
    number: u32,
    pub last: StreamId,
    /// The number of the stream's delivered entries; `None` if unknown.
    pub entries_read: Option<u64>,
    next_consumer: u32,
}

#[derive(Clone, Debug)]
pub struct Consumer {
    pub name: Vec<u8>,
    pub number: u32,
    /// Time of its last request.
    pub seen_ms: u64,
    /// The time of its last delivery; 0 if there was none.
    pub active_ms: u64,
}

/// A delivery that waits to be acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The consumer's number.
    pub owner: u32,
    pub delivered_ms: u64,
    pub deliveries: u64,
}

impl Stream {
    pub fn group(&self, tx: &mut Transaction<'_>, name: &[u8]) -> Option<Group> {
        let row = self.elements.get(tx, &[&[GROUP], name].concat())?;
        Some(Group::read(self.elements, name, row.value()))
    }

    /// In the order of their names.
    pub fn groups(&self, tx: &mut Transaction<'_>) -> Vec<Group> {
        let mut groups = Vec::new();
        self.elements
            .scan(tx, &[GROUP], Some(&[GROUP + 1]), false, &mut |key, value| {
                groups.push(Group::read(self.elements, &key[1..], value));
                ControlFlow::Continue(())
            });
        groups
    }

    pub fn group_count(&self, tx: &mut Transaction<'_>) -> u64 {
        self.elements.count(tx, &[GROUP], Some(&[GROUP + 1]))
    }

    /// A group whose name no other has. The caller writes it, and the stream, which has given a
    /// number away.
    pub fn new_group(&mut self, name: &[u8], last: StreamId, entries_read: Option<u64>) -> Group {
        let number = self.next_group;
        self.next_group += 1;
        Group {
            elements: self.elements,
            name: name.to_vec(),
            number,
            last,
            entries_read,
            next_consumer: 0,
        }
    }

    /// Records the delivery of the entry `id`, after all entries delivered before.
    pub fn deliver(&self, group: &mut Group, id: StreamId) {
        group.entries_read = match group.entries_read {
            Some(read) if !self.has_gap_from(id) => Some(read.wrapping_add(1)),
            read if self.entries_added == 0 => read,
            _ => self.added_up_to(id),
        };
        group.last = id;
    }

    /// The number of undelivered entries; `None` if unknown. All entries if the group's last ID is
    /// before the first one and none is missing after it, regardless of the group's counter: since
    /// 7.4.
    pub fn lag(&self, group: &Group) -> Option<i64> {
        if self.length > 0 && group.last < self.first && self.max_deleted < self.first {
            return Some(self.length as i64);
        }
        let read = match group.entries_read {
            _ if self.entries_added == 0 => Some(0),
            Some(read) if !self.has_gap_from(group.last) => Some(read),
            _ => self.added_up_to(group.last),
        };
        read.map(|read| self.entries_added.wrapping_sub(read) as i64)
    }
}

impl Group {
    fn read(elements: Elements, name: &[u8], value: &[u8]) -> Group {
        Group {
            elements,
            name: name.to_vec(),
            number: short(value, 0),
            last: StreamId::from_bytes(&value[4..20]),
            entries_read: Some(number(value, 20)).filter(|&read| read != u64::MAX),
            next_consumer: short(value, 28),
        }
    }

    pub fn write(&self, tx: &mut Transaction<'_>) {
        let mut value = Vec::with_capacity(32);
        value.extend_from_slice(&self.number.to_be_bytes());
        value.extend_from_slice(&self.last.to_bytes());
        value.extend_from_slice(&self.entries_read.unwrap_or(u64::MAX).to_be_bytes());
        value.extend_from_slice(&self.next_consumer.to_be_bytes());
        self.elements
            .set(tx, &[&[GROUP], self.name.as_slice()].concat(), &value);
    }

    /// Removes the group with all that is its own.
    pub fn remove(&self, tx: &mut Transaction<'_>) {
        self.elements.clear(tx, &[&[GROUP], self.name.as_slice()].concat());
        for tag in [CONSUMER, NAME, PENDING, OWNED] {
            let (start, end) = (self.row(tag, &[]), self.end(tag));
            self.elements.clear_range(tx, &start, Some(&end));
        }
    }

    /// The key of a row that is the group's own.
    fn row(&self, tag: u8, suffix: &[&[u8]]) -> KeyBytes {
        let mut key = KeyBytes::new();
        key.push(tag);
        key.extend_from_slice(&self.number.to_be_bytes());
        suffix.iter().for_each(|part| key.extend_from_slice(part));
        key
    }

    /// The upper bound of the group's rows with a tag.
    fn end(&self, tag: u8) -> KeyBytes {
        let mut key = KeyBytes::from_slice(&[tag]);
        match self.number.checked_add(1) {
            Some(next) => key.extend_from_slice(&next.to_be_bytes()),
            None => key[0] += 1,
        }
        key
    }

    fn pending_row(&self, id: StreamId) -> KeyBytes {
        self.row(PENDING, &[&id.to_bytes()])
    }

    fn owned_row(&self, owner: u32, id: StreamId) -> KeyBytes {
        self.row(OWNED, &[&owner.to_be_bytes(), &id.to_bytes()])
    }

    pub fn consumer(&self, tx: &mut Transaction<'_>, name: &[u8]) -> Option<Consumer> {
        let row = self.elements.get(tx, &self.row(CONSUMER, &[name]))?;
        Some(Consumer::read(name, row.value()))
    }

    /// Returns the consumer, which makes a request now; it is created, and its creation is
    /// returned, if it does not exist.
    pub fn consumer_seen(&mut self, tx: &mut Transaction<'_>, name: &[u8], now_ms: u64) -> (Consumer, Option<What>) {
        match self.consumer(tx, name) {
            Some(consumer) => (
                Consumer {
                    seen_ms: now_ms,
                    ..consumer
                },
                None,
            ),
            None => (self.add_consumer(tx, name, now_ms), Some(What::ConsumerAdded)),
        }
    }

    /// Creates a consumer with an unused name. The caller writes it after its operation, and the
    /// group is written here.
    pub fn add_consumer(&mut self, tx: &mut Transaction<'_>, name: &[u8], now_ms: u64) -> Consumer {
        let number = self.next_consumer;
        self.next_consumer += 1;
        self.write(tx);
        self.elements.set(tx, &self.row(NAME, &[&number.to_be_bytes()]), name);
        Consumer {
            name: name.to_vec(),
            number,
            seen_ms: now_ms,
            active_ms: 0,
        }
    }

    pub fn write_consumer(&self, tx: &mut Transaction<'_>, consumer: &Consumer) {
        let mut value = [0; 20];
        value[..4].copy_from_slice(&consumer.number.to_be_bytes());
        value[4..12].copy_from_slice(&consumer.seen_ms.to_be_bytes());
        value[12..].copy_from_slice(&consumer.active_ms.to_be_bytes());
        self.elements.set(tx, &self.row(CONSUMER, &[&consumer.name]), &value);
    }

    /// Removes the consumer and what is pending for it. Returns how much that was.
    pub fn remove_consumer(&self, tx: &mut Transaction<'_>, consumer: &Consumer) -> u64 {
        let mut owned = Vec::new();
        self.scan_owned(tx, consumer.number, ALL_IDS, &mut |id| {
            owned.push(id);
            ControlFlow::Continue(())
        });
        for id in &owned {
            self.settle(tx, *id);
        }
        let number = consumer.number.to_be_bytes();
        self.elements.clear(tx, &self.row(NAME, &[&number]));
        self.elements.clear(tx, &self.row(CONSUMER, &[&consumer.name]));
        owned.len() as u64
    }

    /// In the order of their names.
    pub fn consumers(&self, tx: &mut Transaction<'_>) -> Vec<Consumer> {
        let (start, end) = (self.row(CONSUMER, &[]), self.end(CONSUMER));
        let mut consumers = Vec::new();
        self.elements.scan(tx, &start, Some(&end), false, &mut |key, value| {
            consumers.push(Consumer::read(&key[1 + NUMBER_BYTES..], value));
            ControlFlow::Continue(())
        });
        consumers
    }

    pub fn consumer_count(&self, tx: &mut Transaction<'_>) -> u64 {
        let (start, end) = (self.row(CONSUMER, &[]), self.end(CONSUMER));
        self.elements.count(tx, &start, Some(&end))
    }

    /// The name of the consumer that a pending entry is with.
    pub fn owner_name(&self, tx: &mut Transaction<'_>, number: u32) -> Vec<u8> {
        let row = self.elements.get(tx, &self.row(NAME, &[&number.to_be_bytes()]));
        row.expect("the owner of a pending entry").value().to_vec()
    }

    pub fn pending(&self, tx: &mut Transaction<'_>, id: StreamId) -> Option<Pending> {
        let row = self.elements.get(tx, &self.pending_row(id))?;
        Some(Pending::read(row.value()))
    }

    /// The entry is pending this way from now on, and was with whomever it was before.
    pub fn assign(&self, tx: &mut Transaction<'_>, id: StreamId, pending: Pending) {
        let mut value = [0; 20];
        value[..4].copy_from_slice(&pending.owner.to_be_bytes());
        value[4..12].copy_from_slice(&pending.delivered_ms.to_be_bytes());
        value[12..].copy_from_slice(&pending.deliveries.to_be_bytes());
        let old = self.elements.set(tx, &self.pending_row(id), &value);
        let old_owner = old.map(|row| Pending::read(row.value()).owner);
        if old_owner == Some(pending.owner) {
            return;
        }
        if let Some(owner) = old_owner {
            self.elements.clear(tx, &self.owned_row(owner, id));
        }
        self.elements.set(tx, &self.owned_row(pending.owner, id), b"");
    }

    /// The entry is pending no more. False if it was not.
    pub fn settle(&self, tx: &mut Transaction<'_>, id: StreamId) -> bool {
        let Some(row) = self.elements.clear(tx, &self.pending_row(id)) else {
            return false;
        };
        let owner = Pending::read(row.value()).owner;
        self.elements.clear(tx, &self.owned_row(owner, id));
        true
    }

    /// The number of pending entries, of a consumer or of all.
    pub fn pending_count(&self, tx: &mut Transaction<'_>, owner: Option<u32>) -> u64 {
        let (start, end) = match owner {
            Some(owner) => self.owned_range(owner, ALL_IDS),
            None => (self.row(PENDING, &[]), self.end(PENDING)),
        };
        self.elements.count(tx, &start, Some(&end))
    }

    /// The first pending entry, or the last.
    pub fn pending_edge(&self, tx: &mut Transaction<'_>, reverse: bool) -> Option<StreamId> {
        let (start, end) = (self.row(PENDING, &[]), self.end(PENDING));
        let mut edge = None;
        self.elements.scan(tx, &start, Some(&end), reverse, &mut |key, _| {
            edge = Some(StreamId::from_bytes(&key[1 + NUMBER_BYTES..]));
            ControlFlow::Break(())
        });
        edge
    }

    /// Visits what is pending of a range, for a consumer or for all, until `visit` breaks, which
    /// may change what it is shown.
    pub fn each_pending(
        &self,
        tx: &mut Transaction<'_>,
        owner: Option<u32>,
        range: RangeInclusive<StreamId>,
        visit: &mut dyn FnMut(&mut Transaction<'_>, StreamId, Pending) -> ControlFlow<()>,
    ) {
        let (start, end) = range.into_inner();
        let mut next = Some(start);
        while let Some(start) = next.filter(|start| *start <= end) {
            let page = self.pending_page(tx, owner, start..=end);
            next = page.last().filter(|_| page.len() == PAGE).and_then(|(id, _)| id.next());
            for (id, pending) in page {
                if visit(tx, id, pending).is_break() {
                    return;
                }
            }
        }
    }

    fn pending_page(
        &self,
        tx: &mut Transaction<'_>,
        owner: Option<u32>,
        range: RangeInclusive<StreamId>,
    ) -> Vec<(StreamId, Pending)> {
        let Some(owner) = owner else {
            return self.pending_page_of_all(tx, range);
        };
        let mut ids = Vec::new();
        self.scan_owned(tx, owner, range, &mut |id| {
            ids.push(id);
            more_if(ids.len() < PAGE)
        });
        let look_up = |id| (id, self.pending(tx, id).expect("the row of an owned entry"));
        ids.into_iter().map(look_up).collect()
    }

    fn pending_page_of_all(
        &self,
        tx: &mut Transaction<'_>,
        range: RangeInclusive<StreamId>,
    ) -> Vec<(StreamId, Pending)> {
        let start = self.pending_row(*range.start());
        let behind = range.end().next();
        let end = behind.map_or(self.end(PENDING), |behind| self.pending_row(behind));
        let mut page = Vec::new();
        self.elements.scan(tx, &start, Some(&end), false, &mut |key, value| {
            page.push((StreamId::from_bytes(&key[1 + NUMBER_BYTES..]), Pending::read(value)));
            more_if(page.len() < PAGE)
        });
        page
    }

    fn scan_owned(
        &self,
        tx: &mut Transaction<'_>,
        owner: u32,
        range: RangeInclusive<StreamId>,
        visit: &mut dyn FnMut(StreamId) -> ControlFlow<()>,
    ) {
        let (start, end) = self.owned_range(owner, range);
        self.elements.scan(tx, &start, Some(&end), false, &mut |key, _| {
            visit(StreamId::from_bytes(&key[1 + 2 * NUMBER_BYTES..]))
        });
    }

    /// Bounds of the rows that a consumer owns of a range.
    fn owned_range(&self, owner: u32, range: RangeInclusive<StreamId>) -> (KeyBytes, KeyBytes) {
        let mut bound = self.owned_row(owner, *range.end());
        // After the last ID, rather than before the next: there may be no next.
        bound.push(0);
        (self.owned_row(owner, *range.start()), bound)
    }
}

impl Consumer {
    fn read(name: &[u8], value: &[u8]) -> Consumer {
        Consumer {
            name: name.to_vec(),
            number: short(value, 0),
            seen_ms: number(value, 4),
            active_ms: number(value, 12),
        }
    }
}

impl Pending {
    fn read(value: &[u8]) -> Pending {
        Pending {
            owner: short(value, 0),
            delivered_ms: number(value, 4),
            deliveries: number(value, 12),
        }
    }

    pub fn idle_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.delivered_ms)
    }
}

fn short(value: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(value[at..at + 4].try_into().expect("four bytes"))
}

fn number(value: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(value[at..at + 8].try_into().expect("eight bytes"))
}

fn more_if(more: bool) -> ControlFlow<()> {
    if more {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}
