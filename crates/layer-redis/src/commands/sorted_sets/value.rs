//! How a sorted set is stored, read and changed.
//!
//! ```text
//! small:  one packed row of pairs: member, score (8 bytes), member, score ... in the set's order
//! large:  the key's payload          id (10 bytes)  count (8 bytes)
//!         position  member           -> score (8 bytes)     the member's score; its position as in `scan`
//!         zeros     score  member    -> nothing             the set's order; eight bytes of zeros are position 0
//! ```
//!
//! A score is stored as eight big-endian bytes that sort like the number, so an end of any range is
//! a byte string, a *bound*: a score, optionally followed by a member. The rank of a bound is the
//! number of pairs below it, which the store counts in logarithmic time; so every range of scores
//! or names becomes a range of ranks.
//!
//! Invariants: a large set has both rows of each member, and `count` members; a set that became
//! large stays so; the flag that represents Redis' skip list is never reset; no set is empty; minus
//! zero is stored as zero.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering;

use quartet_engine::Row;
use quartet_engine::Transaction;
use smallvec::SmallVec;

use crate::config::Config;
use crate::keyspace::{Elements, Entry, FLAG_A, Header, KeyBytes, Keyspace, Kind, LARGE};
use crate::{keyspace::packed, keyspace::scan};

/// A score as a number that sorts as the score does.
pub type Order = u64;

/// Pairs of a small set; beyond it the elements get rows of their own.
const PACKED_COUNT_MAX: usize = 128;
/// Bytes of a small set's pairs, lengths and scores included, a length counted as two bytes.
const PACKED_BYTES_MAX: usize = 4096;
const PAIR_OVERHEAD_BYTES: usize = 2 + 1 + 8;
/// The part of a large set's rows that keeps the set's order.
const INDEX: [u8; 8] = [0; 8];

pub fn order_of(score: f64) -> Order {
    let bits = if score == 0.0 { 0 } else { score.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

pub fn score_of(order: Order) -> f64 {
    f64::from_bits(if order >> 63 == 1 { order & !(1 << 63) } else { !order })
}

/// The bound just below the first pair of a score.
pub fn score_bound(order: Order) -> KeyBytes {
    KeyBytes::from_slice(&order.to_be_bytes())
}

/// The bound just below a pair.
pub fn pair_bound(order: Order, member: &[u8]) -> KeyBytes {
    let mut bound = score_bound(order);
    bound.extend_from_slice(member);
    bound
}

/// The score that a row or a small set keeps; `None` unless there are eight bytes.
pub fn score_of_bytes(bytes: &[u8]) -> Option<f64> {
    bytes.try_into().ok().map(|order| score_of(Order::from_be_bytes(order)))
}

/// The encoding that OBJECT ENCODING names.
pub fn encoding(entry: &Entry) -> &'static str {
    if entry.flags & FLAG_A != 0 {
        "skiplist"
    } else {
        "listpack"
    }
}

/// The members in the set's order.
pub fn members(keys: &mut Keyspace<'_, '_>, entry: &Entry) -> Vec<Vec<u8>> {
    let pairs = pairs(keys, entry);
    pairs.into_iter().map(|(member, _)| member).collect()
}

/// Members and scores in the set's order.
pub fn pairs(keys: &mut Keyspace<'_, '_>, entry: &Entry) -> Vec<(Vec<u8>, f64)> {
    let set = SortedSet::of(entry.clone());
    let mut pairs = Vec::with_capacity(set.len() as usize);
    set.visit(keys.tx, 0..set.len(), false, &mut |member, score| {
        pairs.push((member.to_vec(), score));
    });
    pairs
}

/// Replaces the value of `name` by a sorted set of these pairs; without pairs the key is removed.
/// Members must differ, in any order.
pub fn replace(keys: &mut Keyspace<'_, '_>, config: &Config, name: &[u8], pairs: &[(Vec<u8>, f64)]) {
    let mut editor = Editor::new(None, config);
    let mut remaining = pairs.iter();
    while matches!(editor.form, Form::Packed { .. })
        && let Some((member, score)) = remaining.next()
    {
        editor.put(keys, Found::new(member), order_of(*score));
    }
    editor.put_new_rows(keys, remaining.as_slice());
    editor.finish(keys, name);
}

/// A sorted set as it was found.
pub struct SortedSet {
    entry: Entry,
    len: u64,
}

impl SortedSet {
    pub fn of(entry: Entry) -> SortedSet {
        let len = if entry.is_large() {
            large_count(&entry)
        } else {
            packed_pairs(entry.payload()).count() as u64
        };
        SortedSet { entry, len }
    }

    /// At least 1.
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    pub fn score(&self, tx: &mut Transaction<'_>, member: &[u8]) -> Option<f64> {
        self.order(tx, member).map(score_of)
    }

    pub fn order(&self, tx: &mut Transaction<'_>, member: &[u8]) -> Option<Order> {
        if self.entry.is_large() {
            large_order(tx, &self.entry.elements(), member)
        } else {
            packed_pairs(self.entry.payload())
                .find(|&(_, other)| other == member)
                .map(|(order, _)| order)
        }
    }

    /// The number of pairs below `bound`.
    pub fn rank(&self, tx: &mut Transaction<'_>, bound: &[u8]) -> u64 {
        if self.entry.is_large() {
            self.entry.elements().count(tx, &INDEX, Some(&index_key(bound)))
        } else {
            packed_pairs(self.entry.payload())
                .take_while(|&(order, member)| is_below(order, member, bound))
                .count() as u64
        }
    }

    /// The lowest score's order.
    pub fn first_order(&self, tx: &mut Transaction<'_>) -> Order {
        let mut first = 0;
        self.visit(tx, 0..1, false, &mut |_, score| first = order_of(score));
        first
    }

    /// The highest score's order.
    pub fn last_order(&self, tx: &mut Transaction<'_>) -> Order {
        let mut last = 0;
        self.visit(tx, self.len - 1..self.len, true, &mut |_, score| last = order_of(score));
        last
    }

    /// Visits the pairs of these ranks, which the set has, from the lowest up or from the highest
    /// down.
    pub fn visit(&self, tx: &mut Transaction<'_>, ranks: Range<u64>, reverse: bool, visit: &mut dyn FnMut(&[u8], f64)) {
        if ranks.is_empty() {
            return;
        }
        if self.entry.is_large() {
            self.visit_rows(tx, ranks, reverse, visit);
        } else {
            visit_packed(self.entry.payload(), ranks, reverse, visit);
        }
    }

    /// Scans from the range's first pair. Ranges that start at an end of the set need no look-up of
    /// it.
    fn visit_rows(
        &self,
        tx: &mut Transaction<'_>,
        ranks: Range<u64>,
        reverse: bool,
        visit: &mut dyn FnMut(&[u8], f64),
    ) {
        let elements = self.entry.elements();
        let mut remaining = ranks.end - ranks.start;
        let mut start = KeyBytes::from_slice(&INDEX);
        let mut end = KeyBytes::from_slice(&scan::FIRST);
        if reverse && ranks.end < self.len {
            end = index_row(tx, &elements, ranks.end);
        } else if !reverse && ranks.start > 0 {
            start = index_row(tx, &elements, ranks.start);
        }
        elements.scan(tx, &start, Some(&end), reverse, &mut |key, _| {
            let (order, member) = index_pair(key);
            visit(member, score_of(order));
            remaining -= 1;
            if remaining > 0 {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
    }
}

fn visit_packed(payload: &[u8], ranks: Range<u64>, reverse: bool, visit: &mut dyn FnMut(&[u8], f64)) {
    let count = (ranks.end - ranks.start) as usize;
    let pairs = packed_pairs(payload).skip(ranks.start as usize).take(count);
    let mut call = |(order, member): (Order, &[u8])| visit(member, score_of(order));
    if reverse {
        let pairs: smallvec::SmallVec<[(Order, &[u8]); 32]> = pairs.collect();
        pairs.into_iter().rev().for_each(call);
    } else {
        pairs.for_each(&mut call);
    }
}

/// Removes the pairs of these ranks, and the key with its last pair.
pub fn remove_ranks(keys: &mut Keyspace<'_, '_>, config: &Config, name: &[u8], set: &SortedSet, ranks: Range<u64>) {
    if ranks.is_empty() {
        return;
    }
    if ranks == (0..set.len()) {
        keys.remove(name);
        return;
    }
    let mut victims = Names::default();
    set.visit(keys.tx, ranks.clone(), false, &mut |member, _| victims.push(member));
    remove_run(keys, config, name, set, ranks, victims.iter());
}

/// Names in one buffer, each after the previous.
#[derive(Default)]
struct Names {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Names {
    fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
    }

    fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let start = |index: usize| index.checked_sub(1).map_or(0, |before| self.ends[before]);
        let ends = self.ends.iter().enumerate();
        ends.map(move |(index, end)| &self.bytes[start(index)..*end])
    }
}

/// Removes the first pair, or the last, of a set that has others and whose pairs have rows. Returns
/// the pair's row.
pub fn take_end(keys: &mut Keyspace<'_, '_>, name: &[u8], set: &SortedSet, last: bool) -> Option<Row> {
    let elements = set.entry.elements();
    let row = elements.clear_end(keys.tx, &INDEX, Some(&scan::FIRST), last)?;
    scan::clear(&elements, keys.tx, pair_of(&row).0);
    let count = set.len - 1;
    keys.put_parts(name, Header::of(&set.entry), &[elements.id(), &count.to_be_bytes()]);
    Some(row)
}

/// Decodes the member and the score of a row of the set's order.
pub fn pair_of(row: &Row) -> (&[u8], f64) {
    let (order, member) = index_pair(Elements::name(row));
    (member, score_of(order))
}

/// Removes the pairs of these ranks, given their members; the key is removed with its last pair.
pub fn remove_run<'m>(
    keys: &mut Keyspace<'_, '_>,
    config: &Config,
    name: &[u8],
    set: &SortedSet,
    ranks: Range<u64>,
    members: impl ExactSizeIterator<Item = &'m [u8]>,
) {
    if ranks == (0..set.len()) {
        keys.remove(name);
        return;
    }
    let mut editor = Editor::new(Some(set.entry()), config);
    editor.take_run(keys, set, ranks, members);
    editor.finish(keys, name);
}

/// A sorted set that is being changed. Rows of elements are written at once, the key's own row by
/// [`Editor::finish`].
pub struct Editor<'a> {
    header: Header,
    form: Form<'a>,
    /// Most entries, and longest member, of Redis' listpack form.
    listpack_entries_max: u64,
    listpack_value_max: u64,
    /// The key's own row is no longer right.
    row_changed: bool,
    /// A score changed in a row of its own.
    element_changed: bool,
}

/// A member that was looked for.
pub struct Found<'a> {
    member: &'a [u8],
    /// Its score, if it is in the set.
    pub order: Option<Order>,
    /// Computed on demand: it takes a hash of the member.
    position: Option<scan::Position>,
}

impl<'a> Found<'a> {
    /// One that is not there.
    fn new(member: &'a [u8]) -> Found<'a> {
        Found {
            member,
            order: None,
            position: None,
        }
    }

    fn position(&mut self) -> &scan::Position {
        self.position.get_or_insert_with(|| scan::position(self.member))
    }
}

enum Form<'a> {
    Packed {
        /// In the set's order.
        pairs: Vec<(Order, &'a [u8])>,
        bytes: usize,
    },
    Rows {
        elements: Elements,
        count: u64,
    },
}

impl<'a> Editor<'a> {
    /// Edits the set of `entry`, or creates a set that replaces any value of the key.
    pub fn new(entry: Option<&'a Entry>, config: &Config) -> Editor<'a> {
        let limit = |value: i64| u64::try_from(value).unwrap_or(u64::MAX);
        Editor {
            header: entry.map_or(Header::new(Kind::SortedSet), Header::of),
            form: entry.map_or(Form::packed(Vec::new()), Form::of),
            listpack_entries_max: limit(config.zset_max_listpack_entries.load(Ordering::Relaxed)),
            listpack_value_max: limit(config.zset_max_listpack_value.load(Ordering::Relaxed)),
            row_changed: false,
            element_changed: false,
        }
    }

    pub fn len(&self) -> u64 {
        match &self.form {
            Form::Packed { pairs, .. } => pairs.len() as u64,
            Form::Rows { count, .. } => *count,
        }
    }

    pub fn find(&self, tx: &mut Transaction<'_>, member: &'a [u8]) -> Found<'a> {
        let mut stored = Found::new(member);
        match &self.form {
            Form::Packed { pairs, .. } => {
                let pair = pairs.iter().find(|(_, other)| *other == member);
                stored.order = pair.map(|&(order, _)| order);
            }
            Form::Rows { elements, .. } => {
                let row = tx.get_parts(&elements.row_key(stored.position(), [member, b""]));
                stored.order = row.map(|row| order_from(row.value()));
            }
        }
        stored
    }

    /// Gives the member a score.
    pub fn put(&mut self, keys: &mut Keyspace<'_, '_>, mut stored: Found<'a>, new: Order) {
        let (member, old) = (stored.member, stored.order);
        match &mut self.form {
            Form::Packed { pairs, bytes } => {
                if let Some(old) = old {
                    take_pair(pairs, old, member);
                } else {
                    *bytes += member.len() + PAIR_OVERHEAD_BYTES;
                }
                insert_pair(pairs, new, member);
                self.row_changed = true;
            }
            Form::Rows { elements, count } => {
                match old {
                    Some(old) => drop(clear_pair(keys.tx, elements, old, member)),
                    None => *count += 1,
                }
                write_rows(keys.tx, elements, new, &mut stored);
                self.row_changed |= old.is_none();
                self.element_changed = true;
            }
        }
        if old.is_none() {
            self.note_growth(member);
            self.unpack_if_large(keys);
        }
    }

    /// Adds members that are not there, to a set whose pairs have rows: the rows of the members in
    /// their order, then those of the set's order.
    fn put_new_rows(&mut self, keys: &mut Keyspace<'_, '_>, pairs: &[(Vec<u8>, f64)]) {
        let Form::Rows { elements, count } = &mut self.form else {
            return;
        };
        let orders: Vec<[u8; 8]> = pairs.iter().map(|(_, score)| order_of(*score).to_be_bytes()).collect();
        let named = pairs.iter().zip(&orders).map(|((member, _), order)| (member, order));
        let mut placed: Vec<_> = named
            .clone()
            .map(|(member, order)| (scan::position(member), member, order))
            .collect();
        placed.sort_unstable();
        for (position, member, order) in placed {
            keys.tx.set_parts(&elements.row_key(&position, [member, b""]), &[order]);
        }
        for (member, order) in named {
            keys.tx.set_parts(&elements.row_key(&INDEX, [order, member]), &[]);
        }
        *count += pairs.len() as u64;
        self.row_changed |= !pairs.is_empty();
        pairs.iter().for_each(|(member, _)| self.note_growth(member));
    }

    /// Removes the members that exist. Returns their number.
    pub fn remove(&mut self, keys: &mut Keyspace<'_, '_>, members: impl ExactSizeIterator<Item = &'a [u8]>) -> u64 {
        let before = self.len();
        match &mut self.form {
            Form::Packed { pairs, bytes } => {
                let mut gone: SmallVec<[&[u8]; 8]> = members.collect();
                gone.sort_unstable();
                pairs.retain(|(_, member)| gone.binary_search(member).is_err());
                *bytes = packed_bytes(pairs);
            }
            Form::Rows { elements, count } => {
                let mut gone: Vec<(Order, Row)> = Vec::new();
                scan::clear_many(elements, keys.tx, members, &mut |row| {
                    gone.push((order_from(row.value()), row.clone()));
                });
                *count -= gone.len() as u64;
                clear_pairs(keys.tx, elements, &mut gone);
            }
        }
        let removed = before - self.len();
        self.row_changed |= removed > 0;
        removed
    }

    /// Removes the pairs of these ranks, given their members.
    fn take_run<'m>(
        &mut self,
        keys: &mut Keyspace<'_, '_>,
        set: &SortedSet,
        ranks: Range<u64>,
        members: impl ExactSizeIterator<Item = &'m [u8]>,
    ) {
        match &mut self.form {
            Form::Packed { pairs, bytes } => {
                pairs.drain(ranks.start as usize..ranks.end as usize);
                *bytes = packed_bytes(pairs);
            }
            Form::Rows { elements, count } => {
                let start = match ranks.start {
                    0 => KeyBytes::from_slice(&INDEX),
                    rank => index_row(keys.tx, elements, rank),
                };
                let end = match ranks.end {
                    rank if rank == set.len() => KeyBytes::from_slice(&scan::FIRST),
                    rank => index_row(keys.tx, elements, rank),
                };
                elements.clear_range(keys.tx, &start, Some(&end));
                scan::clear_many(elements, keys.tx, members, &mut |_| {});
                *count -= ranks.end - ranks.start;
            }
        }
        self.row_changed = true;
    }

    /// Writes the key's row, or removes the key if nothing is left.
    pub fn finish(self, keys: &mut Keyspace<'_, '_>, name: &[u8]) {
        if self.len() == 0 {
            keys.remove(name);
        } else if self.row_changed {
            self.write_row(keys, name);
        } else if self.element_changed {
            keys.touch(name);
        }
    }

    fn write_row(&self, keys: &mut Keyspace<'_, '_>, name: &[u8]) {
        match &self.form {
            Form::Packed { pairs, bytes } => {
                let mut payload = Vec::with_capacity(*bytes);
                for (order, member) in pairs {
                    packed::push(&mut payload, member);
                    packed::push(&mut payload, &order.to_be_bytes());
                }
                keys.put(name, self.header, &payload);
            }
            Form::Rows { elements, count } => {
                keys.put_parts(name, self.header, &[elements.id(), &count.to_be_bytes()]);
            }
        }
    }

    /// Keeps the sticky flag of the encoding that Redis would have changed to by now.
    fn note_growth(&mut self, member: &[u8]) {
        if self.len() > self.listpack_entries_max || member.len() as u64 > self.listpack_value_max {
            self.header.flags |= FLAG_A;
        }
    }

    fn unpack_if_large(&mut self, keys: &mut Keyspace<'_, '_>) {
        let Form::Packed { pairs, bytes } = &self.form else {
            return;
        };
        if pairs.len() <= PACKED_COUNT_MAX && *bytes <= PACKED_BYTES_MAX {
            return;
        }
        let elements = keys.new_elements();
        for &(order, member) in pairs {
            write_rows(keys.tx, &elements, order, &mut Found::new(member));
        }
        self.header.flags |= LARGE;
        let count = pairs.len() as u64;
        self.form = Form::Rows { elements, count };
    }
}

impl<'a> Form<'a> {
    fn of(entry: &'a Entry) -> Form<'a> {
        if entry.is_large() {
            Form::Rows {
                elements: entry.elements(),
                count: large_count(entry),
            }
        } else {
            Form::packed(packed_pairs(entry.payload()).collect())
        }
    }

    fn packed(pairs: Vec<(Order, &'a [u8])>) -> Form<'a> {
        let bytes = packed_bytes(&pairs);
        Form::Packed { pairs, bytes }
    }
}

fn packed_bytes(pairs: &[(Order, &[u8])]) -> usize {
    pairs.iter().map(|(_, member)| member.len() + PAIR_OVERHEAD_BYTES).sum()
}

fn insert_pair<'a>(pairs: &mut Vec<(Order, &'a [u8])>, order: Order, member: &'a [u8]) {
    let index = pairs.partition_point(|&pair| pair < (order, member));
    pairs.insert(index, (order, member));
}

fn take_pair(pairs: &mut Vec<(Order, &[u8])>, order: Order, member: &[u8]) {
    let index = pairs.partition_point(|&pair| pair < (order, member));
    pairs.remove(index);
}

/// The pairs of a small set's payload, in the set's order.
fn packed_pairs(payload: &[u8]) -> impl Iterator<Item = (Order, &[u8])> {
    let mut parts = packed::iter(payload);
    std::iter::from_fn(move || {
        let member = parts.next()?;
        Some((order_from(parts.next()?), member))
    })
}

fn is_below(order: Order, member: &[u8], bound: &[u8]) -> bool {
    match bound.split_at_checked(8) {
        Some((score, name)) => (order, member) < (order_from(score), name),
        None => order.to_be_bytes().as_slice() < bound,
    }
}

fn order_from(bytes: &[u8]) -> Order {
    Order::from_be_bytes(bytes.try_into().expect("eight bytes of score"))
}

fn large_count(entry: &Entry) -> u64 {
    u64::from_be_bytes(entry.large_payload().try_into().expect("eight bytes of count"))
}

fn large_order(tx: &mut Transaction<'_>, elements: &Elements, member: &[u8]) -> Option<Order> {
    let row = scan::get(elements, tx, member)?;
    Some(order_from(row.value()))
}

fn write_rows(tx: &mut Transaction<'_>, elements: &Elements, order: Order, stored: &mut Found<'_>) {
    let (order, member) = (order.to_be_bytes(), stored.member);
    tx.set_parts(&elements.row_key(stored.position(), [member, b""]), &[&order]);
    tx.set_parts(&elements.row_key(&INDEX, [&order, member]), &[]);
}

/// Takes a pair out of the set's order.
fn clear_pair(tx: &mut Transaction<'_>, elements: &Elements, order: Order, member: &[u8]) -> Option<Row> {
    tx.clear_parts(&elements.row_key(&INDEX, [&order.to_be_bytes(), member]))
}

/// Takes the pairs of these members' rows out of the set's order.
fn clear_pairs(tx: &mut Transaction<'_>, elements: &Elements, removed: &mut [(Order, Row)]) {
    if removed.len() < scan::MANY {
        let pairs = removed.iter();
        return pairs.for_each(|(order, row)| drop(clear_pair(tx, elements, *order, member_of(row))));
    }
    removed.sort_unstable_by(|(first, one_row), (other, other_row)| {
        first
            .cmp(other)
            .then_with(|| member_of(one_row).cmp(member_of(other_row)))
    });
    let orders: Vec<[u8; 8]> = removed.iter().map(|(order, _)| order.to_be_bytes()).collect();
    let keys = removed
        .iter()
        .zip(&orders)
        .map(|((_, row), order)| elements.row_key(&INDEX, [order, member_of(row)]));
    elements.clear_many(tx, keys, &mut |_| {});
}

fn member_of(row: &Row) -> &[u8] {
    scan::element_of(Elements::name(row))
}

/// The score that a member's row holds.
pub fn row_score(value: &[u8]) -> f64 {
    score_of(order_from(value))
}

fn index_key(bound: &[u8]) -> KeyBytes {
    let mut key = KeyBytes::from_slice(&INDEX);
    key.extend_from_slice(bound);
    key
}

fn index_pair(key: &[u8]) -> (Order, &[u8]) {
    (order_from(&key[8..16]), &key[16..])
}

fn index_row(tx: &mut Transaction<'_>, elements: &Elements, rank: u64) -> KeyBytes {
    let row = elements.nth(tx, &INDEX, rank).expect("a rank below the set's count");
    KeyBytes::from_slice(Elements::name(&row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_sort_as_scores_and_decode() {
        let scores = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -5e-324,
            0.0,
            5e-324,
            1.0,
            f64::MAX,
            f64::INFINITY,
        ];
        assert!(scores.map(order_of).is_sorted());
        assert_eq!(scores.map(order_of).map(score_of), scores);
        assert_eq!(order_of(-0.0), order_of(0.0));
        assert!(score_of(order_of(-0.0)).is_sign_positive());
    }
}
