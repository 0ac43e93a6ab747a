//! Walks through documents in the order of their ids: those of a term, those named by rows, and
//! those shared by several walks.
//!
//! A walk moves to the first document at or after an id, and never back: the sought ids ascend.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::rc::Rc;

use crate::index::layout::{after, document_row, with_id};
use crate::index::postings::{Posting, Walk};
use crate::index::schema::FieldMask;
use crate::rows::{DocumentId, KeyRange, Rows};

/// Documents in the order of their ids, visited one after the other.
pub(crate) trait DocSet {
    /// The current document: the one of the last seek, `None` before the first and after the last.
    fn doc(&self) -> Option<DocumentId>;

    /// Moves to the first document at or after `id`, and never back.
    fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId>;
}

/// Number of ids in the first read, and in the first read after a seek beyond the read ids: bounds
/// the wasted reads.
const IDS_READ_FIRST: usize = 128;

/// Most ids in one read.
const IDS_READ_MAX: usize = 4096;

/// Words of a bitmap, for each id, up to which ids are sorted by it.
const WORDS_OF_ID: u64 = 2;

/// The place, from `next` on, of the first item that is not before what is looked for. It is mostly
/// near.
pub(crate) fn first_from<T>(items: &[T], next: usize, is_before: impl Fn(&T) -> bool) -> usize {
    let (mut start, mut step) = (next, 1);
    while items.get(start + step - 1).is_some_and(&is_before) {
        start += step;
        step *= 2;
    }
    let end = items.len().min(start + step - 1);
    start + items[start..end].partition_point(is_before)
}

/// The documents of one term, settled or not.
pub(crate) struct TermWalk {
    settled: Walk,
    is_settled: bool,
    /// Shared by the walks of one term: a phrase may repeat a word hundreds of times.
    unsettled: Rc<Vec<Posting>>,
    next: usize,
    gone: Rc<BTreeSet<DocumentId>>,
    at: Option<DocumentId>,
}

impl TermWalk {
    /// Walks the settled documents that were not removed, then the unsettled documents.
    pub fn new(settled: Walk, removed: Rc<BTreeSet<DocumentId>>, unsettled: Rc<Vec<Posting>>) -> TermWalk {
        TermWalk {
            settled,
            is_settled: true,
            unsettled,
            next: 0,
            gone: removed,
            at: None,
        }
    }

    /// The frequency of the term in the present document.
    pub fn frequency(&self) -> u32 {
        match self.is_settled {
            true => self.settled.found().frequency,
            false => self.unsettled[self.next].occurrences.frequency,
        }
    }

    /// The fields of the current document that have the term.
    pub fn fields(&self) -> FieldMask {
        match self.is_settled {
            true => self.settled.found().fields,
            false => self.unsettled[self.next].occurrences.fields,
        }
    }

    /// Adds where the present document has the term, ascending.
    pub fn add_positions(&self, positions: &mut Vec<u32>) {
        match self.is_settled {
            true => self.settled.found().add_positions(positions),
            false => positions.extend(&self.unsettled[self.next].occurrences.positions),
        }
    }
}

impl DocSet for TermWalk {
    fn doc(&self) -> Option<DocumentId> {
        self.at
    }

    fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        let mut from = id;
        while self.is_settled {
            match self.settled.seek(rows, from) {
                Some(settled) if self.gone.contains(&settled) => from = settled + 1,
                Some(settled) => {
                    self.at = Some(settled);
                    return self.at;
                }
                None => self.is_settled = false,
            }
        }
        self.next = first_from(&self.unsettled, self.next, |posting| posting.id < id);
        self.at = self.unsettled.get(self.next).map(|posting| posting.id);
        self.at
    }
}

/// Walks rows by the ids at the ends of their keys.
pub(crate) struct IdRows {
    prefix: Vec<u8>,
    ids: Vec<DocumentId>,
    next: usize,
    /// The size of the read.
    wanted: usize,
    is_read: bool,
}

impl IdRows {
    pub fn new(prefix: Vec<u8>) -> IdRows {
        IdRows {
            prefix,
            ids: Vec::new(),
            next: 0,
            wanted: 0,
            is_read: false,
        }
    }

    pub fn of_documents() -> IdRows {
        IdRows::new(document_row(0)[..1].to_vec())
    }

    /// As if these ids, which ascend, had been read and there were no others.
    pub fn of_ids(ids: Vec<DocumentId>) -> IdRows {
        IdRows {
            prefix: Vec::new(),
            ids,
            next: 0,
            wanted: 0,
            is_read: true,
        }
    }

    pub fn pass(&mut self) {
        self.next += 1;
    }

    /// Takes all ids from an unstarted walk.
    pub fn take_all(&mut self, rows: &mut dyn Rows) -> Vec<DocumentId> {
        if !self.is_read {
            self.wanted = usize::MAX;
            self.read(rows, 0);
        }
        std::mem::take(&mut self.ids)
    }

    fn read(&mut self, rows: &mut dyn Rows, from: DocumentId) {
        self.ids.clear();
        self.next = 0;
        self.is_read = true;
        let start = with_id(self.prefix.clone(), from);
        let keys = KeyRange {
            start: &start,
            end: &after(&self.prefix),
        };
        rows.scan_ids(keys, start.len(), &mut |ids| {
            self.ids.extend_from_slice(ids);
            self.is_read = self.ids.len() < self.wanted;
            match self.is_read {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
    }
}

impl DocSet for IdRows {
    fn doc(&self) -> Option<DocumentId> {
        self.ids.get(self.next).copied()
    }

    fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        loop {
            self.next = first_from(&self.ids, self.next, |other| *other < id);
            if self.doc().is_some() || self.is_read {
                return self.doc();
            }
            let next = self.ids.last().map_or(id, |last| last + 1);
            self.wanted = match id <= next {
                true => IDS_READ_MAX.min(self.wanted * 2).max(IDS_READ_FIRST),
                false => IDS_READ_FIRST,
            };
            self.read(rows, id.max(next));
        }
    }
}

/// Ids that are known, ascending.
pub(crate) struct Ids {
    ids: Vec<DocumentId>,
    next: usize,
}

impl Ids {
    /// Ids in any order.
    pub fn new(ids: Vec<DocumentId>) -> Ids {
        Ids {
            ids: sorted(ids),
            next: 0,
        }
    }

    /// Takes all ids from an unstarted walk.
    pub fn take_all(&mut self) -> Vec<DocumentId> {
        std::mem::take(&mut self.ids)
    }

    pub fn count(&self) -> usize {
        self.ids.len()
    }
}

impl DocSet for Ids {
    fn doc(&self) -> Option<DocumentId> {
        self.ids.get(self.next).copied()
    }

    fn seek(&mut self, _rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        self.next = first_from(&self.ids, self.next, |other| *other < id);
        self.doc()
    }
}

/// Those of the ids that are in the other list as well; both ascend.
pub(crate) fn common(mut ids: Vec<DocumentId>, other_ids: &[DocumentId]) -> Vec<DocumentId> {
    let mut other_ids = other_ids.iter().copied().peekable();
    ids.retain(|id| {
        while other_ids.next_if(|other| other < id).is_some() {}
        other_ids.peek() == Some(id)
    });
    ids
}

/// Sorts and deduplicates ids. For dense ids, a bitmap of the range is several times faster than
/// comparing them.
fn sorted(mut ids: Vec<DocumentId>) -> Vec<DocumentId> {
    let (Some(first), Some(last)) = (ids.iter().min().copied(), ids.iter().max().copied()) else {
        return ids;
    };
    let words = (last - first) / 64 + 1;
    if words > ids.len() as u64 * WORDS_OF_ID {
        ids.sort_unstable();
        ids.dedup();
        return ids;
    }
    let mut bits = vec![0_u64; words as usize];
    for id in &ids {
        bits[((id - first) / 64) as usize] |= 1 << ((id - first) % 64);
    }
    ids.clear();
    for (word, mut remaining_bits) in (0..).zip(bits) {
        while remaining_bits != 0 {
            ids.push(first + 64 * word + u64::from(remaining_bits.trailing_zeros()));
            remaining_bits &= remaining_bits - 1;
        }
    }
    ids
}

/// The first document at or after `id` that is common to all of `count` walks; `count` is at least
/// one. `seek` moves the walk with a number.
pub(crate) fn agreed(
    count: usize,
    id: DocumentId,
    mut seek: impl FnMut(usize, DocumentId) -> Option<DocumentId>,
) -> Option<DocumentId> {
    let mut candidate = id;
    'wanted: loop {
        for number in 0..count {
            let reached = seek(number, candidate)?;
            if reached > candidate {
                candidate = reached;
                if number > 0 {
                    continue 'wanted;
                }
            }
        }
        return Some(candidate);
    }
}

/// The current document of a set if it is at or after `id`, and otherwise the first match there.
/// `candidate` returns the first candidate at or after an id, and true if it is a match.
pub(crate) fn first_match(
    current: Option<DocumentId>,
    id: DocumentId,
    mut candidate: impl FnMut(DocumentId) -> Option<(DocumentId, bool)>,
) -> Option<DocumentId> {
    if current.is_some_and(|current| current >= id) {
        return current;
    }
    let mut from = id;
    loop {
        let (document, is_match) = candidate(from)?;
        if is_match {
            return Some(document);
        }
        from = document + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_common_are_those_of_both_lists() {
        let multiples = |of: u64| (0..500).map(|at| at * of).collect::<Vec<_>>();
        for (step, other) in [(2, 3), (3, 2), (1, 7), (5, 5)] {
            let (ids, other_ids) = (multiples(step), multiples(other));
            let expected = ids.iter().copied().filter(|id| other_ids.contains(id));
            let expected: Vec<u64> = expected.collect();
            assert_eq!(common(ids, &other_ids), expected, "{step} {other}");
        }
        assert!(common(multiples(2), &[]).is_empty());
        assert!(common(Vec::new(), &[1]).is_empty());
    }

    #[test]
    fn ids_are_sorted_from_any_range() {
        for (step, count) in [(1, 0), (1, 1), (7, 300), (97, 1000), (9973, 500), (1 << 40, 100)] {
            for first in [0, 1, 63, 64, 1000] {
                let ids: Vec<u64> = (0..count).map(|at| first + at * 31 % 211 * step).collect();
                let expected: BTreeSet<u64> = ids.iter().copied().collect();
                assert_eq!(
                    sorted(ids),
                    expected.into_iter().collect::<Vec<_>>(),
                    "{step} {count} {first}"
                );
            }
        }
        assert_eq!(sorted(vec![u64::MAX, u64::MAX - 64]), [u64::MAX - 64, u64::MAX]);
    }

    #[test]
    fn the_first_from_a_place_is_that_of_a_look_at_each() {
        for count in 0..40u64 {
            let items: Vec<u64> = (0..count).map(|at| at * at / 3).collect();
            for next in 0..=items.len() {
                for bound in 0..600 {
                    let first = first_from(&items, next, |item| *item < bound);
                    let expected = (next..items.len()).find(|at| items[*at] >= bound);
                    assert_eq!(first, expected.unwrap_or(items.len()), "{count} {next} {bound}");
                }
            }
        }
    }
}
