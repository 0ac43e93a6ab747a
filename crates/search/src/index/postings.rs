//! The postings of one term among settled documents: which have it, how often and where.
//!
//! ```text
//! 'w' term           the number of the term or 0, the newest postings, counts, the length of these (a byte)
//! counts:            twice the documents, and one more if there are older postings; the last id (varints)
//! 'p' term id        older postings, full rows of about TAIL_BYTES, the last at most this id
//! a posting:         distance of its id to that before it (the first of a row: its id), then the occurrences
//! ```
//!
//! A row is named by an upper bound of its ids, so the row of an id is the first at or after it.
//! New postings are appended to the newest row, as a patch that logs the new postings and the
//! counts after them; the removal of a posting rewrites its row.

use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};

use crate::encoding::{Cursor, push_number};
use crate::index::document::{Occurrences, OccurrencesRow};
use crate::index::layout::{after, bounded_postings_prefix, postings_prefix, postings_row, term_row, with_id};
use crate::index::schema::FieldMask;
use crate::index::term_dictionary::{self, TermNumber};
use crate::rows::{DocumentId, Rows, WriteRows, id_of};

/// Size above which the newest postings of a term become a row of their own.
const TAIL_BYTES: usize = 2048;

/// A document that has the term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Posting {
    pub id: DocumentId,
    pub occurrences: Occurrences,
}

/// Reads the postings of one row, in the order of their ids.
struct Postings<'a> {
    cursor: Cursor<'a>,
    last: DocumentId,
}

impl<'a> Postings<'a> {
    fn of(row: &'a [u8]) -> Postings<'a> {
        Postings {
            cursor: Cursor(row),
            last: 0,
        }
    }
}

impl<'a> Iterator for Postings<'a> {
    type Item = (DocumentId, OccurrencesRow<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_at_end() {
            return None;
        }
        self.last += self.cursor.number() as DocumentId;
        Some((self.last, OccurrencesRow::read(&mut self.cursor)))
    }
}

fn push(row: &mut Vec<u8>, distance: DocumentId, occurrences: &OccurrencesRow<'_>) {
    push_number(row, distance.into());
    occurrences.push(row);
}

/// A document to add to a term's postings.
pub(crate) type Added<'a> = (DocumentId, OccurrencesRow<'a>);

/// The row of a term: how many have it, and its newest postings.
struct Term {
    number: TermNumber,
    documents: u32,
    last: DocumentId,
    has_older: bool,
    /// The newest postings.
    postings: Vec<u8>,
    /// Set if the row only grows: its first `stored` bytes of postings remain.
    is_extended: bool,
    stored: usize,
}

impl Term {
    fn read(rows: &mut dyn Rows, term: &[u8]) -> Term {
        let row = rows.get(&term_row(term)).unwrap_or_default();
        let parts = TermRow::read(&row);
        Term {
            number: parts.number,
            documents: parts.documents,
            last: parts.last,
            has_older: parts.has_older,
            is_extended: !row.is_empty(),
            stored: parts.postings.len(),
            postings: parts.postings.to_vec(),
        }
    }

    fn add(&mut self, rows: &mut dyn WriteRows, term: &[u8], (id, occurrences): &Added<'_>) {
        if self.postings.len() > TAIL_BYTES {
            rows.set(&postings_row(term, self.last), &self.postings);
            self.postings.clear();
            self.is_extended = false;
            self.has_older = true;
        }
        let before = if self.postings.is_empty() { 0 } else { self.last };
        push(&mut self.postings, id - before, occurrences);
        self.documents += 1;
        self.last = *id;
    }

    /// Removes the postings of `ids` from the newest.
    fn remove(&mut self, ids: &BTreeSet<DocumentId>) {
        let (remaining, removed) = without(&self.postings, ids);
        if removed > 0 {
            self.postings = remaining;
            self.documents -= removed;
            // The next posting is written as a distance to the last remaining posting.
            self.last = Postings::of(&self.postings).last().map_or(self.last, |(id, _)| id);
        }
    }

    fn write(self, rows: &mut dyn WriteRows, term: &[u8]) {
        let key = term_row(term);
        if self.documents == 0 {
            if self.number != 0 {
                term_dictionary::remove(rows, self.number);
            }
            return rows.clear(&key);
        }
        let mut row = Vec::with_capacity(self.postings.len() + 32);
        push_number(&mut row, self.number.into());
        let stored = row.len() + self.stored;
        row.extend(&self.postings);
        push_counts(&mut row, self.documents, self.has_older, self.last);
        match self.is_extended {
            true => rows.patch(&key, stored, &row[stored..]),
            false => rows.set(&key, &row),
        }
    }
}

/// The row of a term, read.
#[derive(Default)]
struct TermRow<'a> {
    number: TermNumber,
    documents: u32,
    has_older: bool,
    last: DocumentId,
    postings: &'a [u8],
    /// Length of the part before the counts.
    stored: usize,
}

impl<'a> TermRow<'a> {
    /// An empty row is that of a term that nothing has.
    fn read(row: &'a [u8]) -> TermRow<'a> {
        let Some((length, before)) = row.split_last() else {
            return TermRow::default();
        };
        let stored = before.len() - usize::from(*length);
        let (mut number, mut counts) = (Cursor(&row[..stored]), Cursor(&before[stored..]));
        let documents = counts.number() as u64;
        TermRow {
            number: number.number() as TermNumber,
            documents: (documents >> 1) as u32,
            has_older: documents & 1 != 0,
            last: counts.number() as DocumentId,
            postings: number.0,
            stored,
        }
    }
}

fn push_counts(row: &mut Vec<u8>, documents: u32, has_older: bool, last: DocumentId) {
    let start = row.len();
    push_number(row, u128::from(documents) << 1 | u128::from(has_older));
    push_number(row, last.into());
    row.push((row.len() - start) as u8);
}

/// The number of settled documents with the term of this row.
pub(crate) fn documents_of(row: &[u8]) -> u32 {
    TermRow::read(row).documents
}

/// The number of the term of this row; 0 if it has none.
pub(crate) fn number_of(row: &[u8]) -> TermNumber {
    TermRow::read(row).number
}

/// Visits all postings of a term, whose row this is. Returns the number of rows of older postings.
pub(crate) fn each(
    rows: &mut dyn Rows,
    bounded: &[u8],
    row: &[u8],
    visit: &mut dyn FnMut(DocumentId, OccurrencesRow<'_>),
) -> u64 {
    let head = TermRow::read(row);
    let mut older = 0;
    if head.has_older {
        let prefix = bounded_postings_prefix(bounded);
        rows.scan(&prefix, &after(&prefix), &mut |_, row| {
            older += 1;
            Postings::of(row).for_each(|(id, at)| visit(id, at));
            ControlFlow::Continue(())
        });
    }
    Postings::of(head.postings).for_each(|(id, at)| visit(id, at));
    older
}

/// The postings of a row without some, and how many of these there were.
fn without(row: &[u8], ids: &BTreeSet<DocumentId>) -> (Vec<u8>, u32) {
    let (mut remaining, mut removed, mut last) = (Vec::with_capacity(row.len()), 0, 0);
    for (id, occurrences) in Postings::of(row) {
        if ids.contains(&id) {
            removed += 1;
            continue;
        }
        push(&mut remaining, id - last, &occurrences);
        last = id;
    }
    (remaining, removed)
}

/// Changes the postings of a term. The added ids ascend, and are above all existing ids. `fresh` is
/// the number for a term that needs one and has none. Returns its number, or 0.
pub(crate) fn change(
    rows: &mut dyn WriteRows,
    term: &[u8],
    added: &[Added<'_>],
    removed: &BTreeSet<DocumentId>,
    fresh: Option<TermNumber>,
) -> TermNumber {
    if removed.is_empty()
        && let Some(number) = append(rows, term, added, fresh)
    {
        return number;
    }
    let mut term_state = Term::read(rows, term);
    if !removed.is_empty() {
        if term_state.has_older {
            term_state.documents -= remove_older(rows, term, removed);
        }
        term_state.remove(removed);
        // Counts of fewer documents may be shorter, and a patch keeps any bytes after it.
        term_state.is_extended = false;
    }
    if term_state.number == 0
        && let Some(fresh) = fresh
    {
        term_state.number = fresh;
        term_state.is_extended = false;
    }
    for posting in added {
        term_state.add(rows, term, posting);
    }
    let number = term_state.number;
    term_state.write(rows, term);
    number
}

/// Adds to the newest postings without reading them, and returns the number of the term or 0.
/// Returns nothing if the row has to be read, and changes nothing then.
fn append(rows: &mut dyn WriteRows, term: &[u8], added: &[Added<'_>], fresh: Option<TermNumber>) -> Option<TermNumber> {
    let (key, mut last_head) = (term_row(term), None);
    rows.show(&key, &mut |row| {
        let head = TermRow::read(row);
        last_head = Some(TermRow { postings: &[], ..head }).filter(|_| !head.postings.is_empty());
    });
    let mut head = last_head.filter(|head| head.number != 0 || fresh.is_none())?;
    let mut postings = Vec::new();
    for (id, occurrences) in added {
        if head.stored + postings.len() > TAIL_BYTES {
            return None;
        }
        push(&mut postings, id - head.last, occurrences);
        head.documents += 1;
        head.last = *id;
    }
    push_counts(&mut postings, head.documents, head.has_older, head.last);
    rows.patch(&key, head.stored, &postings);
    Some(head.number)
}

/// Removes postings from the full rows of a term. Returns how many there were.
fn remove_older(rows: &mut dyn WriteRows, term: &[u8], ids: &BTreeSet<DocumentId>) -> u32 {
    let mut removed = 0;
    let mut from = ids.first().copied();
    while let Some(id) = from {
        let Some((key, row)) = first_from(rows, term, id) else {
            return removed;
        };
        let (remaining, removed_from_row) = without(&row, ids);
        match remaining.is_empty() {
            _ if removed_from_row == 0 => {}
            true => rows.clear(&key),
            false => rows.set(&key, &remaining),
        }
        removed += removed_from_row;
        from = ids.range(id_of(&key) + 1..).next().copied();
    }
    removed
}

fn first_from(rows: &mut dyn Rows, term: &[u8], id: DocumentId) -> Option<(Vec<u8>, Vec<u8>)> {
    let prefix = postings_prefix(term);
    let mut first = None;
    rows.scan(&with_id(prefix.clone(), id), &after(&prefix), &mut |key, row| {
        first = Some((key.to_vec(), row.to_vec()));
        ControlFlow::Break(())
    });
    first
}

/// Walks the postings of a term by rows, without reading rows after the sought ids.
pub(crate) struct Walk {
    term: Vec<u8>,
    /// The newest postings, until it is their turn.
    newest: Vec<u8>,
    /// The postings of the present row, which are read one by one.
    row: Vec<u8>,
    /// The start of the row's next posting.
    at: usize,
    present: Option<Present>,
    /// No id that is still to be read is below; nothing if only the newest are.
    next: Option<DocumentId>,
}

struct Present {
    id: DocumentId,
    frequency: u32,
    fields: FieldMask,
    /// The range of its positions in the row.
    positions: Range<usize>,
}

impl Walk {
    /// Starts with the row of the term; empty for an absent term.
    pub fn new(term: &[u8], mut newest: Vec<u8>) -> Walk {
        let head = TermRow::read(&newest);
        let next = head.has_older.then_some(0);
        let (start, end) = (head.stored - head.postings.len(), head.stored);
        newest.truncate(end);
        newest.drain(..start);
        Walk {
            term: term.to_vec(),
            newest,
            row: Vec::new(),
            at: 0,
            present: None,
            next,
        }
    }

    /// Moves to the first posting at or after `id`. The sought ids ascend.
    pub fn seek(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<DocumentId> {
        loop {
            if let Some(present) = &self.present
                && present.id >= id
            {
                return Some(present.id);
            }
            match self.at < self.row.len() {
                true => self.read_postings(id),
                false => self.read_row(rows, id)?,
            }
        }
    }

    /// The occurrences of the term in the found document.
    pub fn found(&self) -> OccurrencesRow<'_> {
        let present = self.present.as_ref().expect("a posting was found");
        OccurrencesRow {
            frequency: present.frequency,
            fields: present.fields,
            positions: &self.row[present.positions.clone()],
        }
    }

    /// Reads on to the first posting at or after `id`, or to the end of the row.
    fn read_postings(&mut self, id: DocumentId) {
        let mut last = self.present.as_ref().map_or(0, |present| present.id);
        let mut cursor = Cursor(&self.row[self.at..]);
        while !cursor.is_at_end() {
            last += cursor.number() as DocumentId;
            let read = OccurrencesRow::read(&mut cursor);
            if last >= id {
                let end = self.row.len() - cursor.0.len();
                self.present = Some(Present {
                    id: last,
                    frequency: read.frequency,
                    fields: read.fields,
                    positions: end - read.positions.len()..end,
                });
                break;
            }
        }
        self.at = self.row.len() - cursor.0.len();
    }

    fn read_row(&mut self, rows: &mut dyn Rows, id: DocumentId) -> Option<()> {
        // The ids of a row are distances to that before; the first's is its own.
        self.present = None;
        if let Some(next) = self.next {
            match first_from(rows, &self.term, next.max(id)) {
                Some((key, row)) => {
                    self.next = Some(id_of(&key) + 1);
                    (self.row, self.at) = (row, 0);
                    return Some(());
                }
                None => self.next = None,
            }
        }
        (self.row, self.at) = (std::mem::take(&mut self.newest), 0);
        (!self.row.is_empty()).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::rows::MemoryRows;

    fn posting(id: DocumentId, frequency: u32) -> Posting {
        let positions = (1..=frequency).map(|position| position * 100).collect();
        Posting {
            id,
            occurrences: Occurrences {
                frequency,
                fields: 1,
                positions,
            },
        }
    }

    fn change(rows: &mut MemoryRows, added: &[Posting], removed: &BTreeSet<DocumentId>) {
        let stored: Vec<Vec<u8>> = added.iter().map(|posting| posting.occurrences.to_row()).collect();
        let added: Vec<Added<'_>> = added
            .iter()
            .zip(&stored)
            .map(|(posting, row)| (posting.id, OccurrencesRow::read(&mut Cursor(row))))
            .collect();
        super::change(rows, b"term", &added, removed, None);
    }

    fn walk(rows: &mut MemoryRows) -> Walk {
        Walk::new(b"term", rows.get(&term_row(b"term")).unwrap_or_default())
    }

    fn all(rows: &mut MemoryRows) -> Vec<Posting> {
        let mut walk = walk(rows);
        let (mut ids, mut from) = (Vec::new(), 0);
        while let Some(id) = walk.seek(rows, from) {
            from = id + 1;
            let occurrences = walk.found().to_owned();
            ids.push(Posting { id, occurrences });
        }
        ids
    }

    #[test]
    fn a_term_that_nothing_has_any_more_leaves_no_row() {
        let mut rows = MemoryRows::default();
        let many: Vec<_> = (1..=1000).map(|id| posting(id, 3)).collect();
        change(&mut rows, &many, &BTreeSet::new());
        assert!(rows.len() > 2);
        assert_eq!(all(&mut rows), many);
        change(&mut rows, &[], &(1..=1000).collect());
        assert!(rows.is_empty());
    }

    #[test]
    fn postings_are_found_from_any_id() {
        let mut rows = MemoryRows::default();
        let many: Vec<_> = (1..=2000).map(|id| posting(id * 3, 1)).collect();
        change(&mut rows, &many, &BTreeSet::new());
        for from in [0, 1, 3, 2999, 3000, 3001, 6000] {
            let reached = walk(&mut rows).seek(&mut rows, from);
            assert_eq!(reached, Some((from.max(1)).div_ceil(3) * 3));
        }
        assert_eq!(walk(&mut rows).seek(&mut rows, 6001), None);
    }

    proptest! {
        /// Batches of additions and removals, beside a map.
        #[test]
        fn postings_are_those_of_a_map(batches in prop::collection::vec((0usize..400, 0u64..7), 1..8)) {
            let (mut rows, mut model, mut next) = (MemoryRows::default(), BTreeMap::new(), 1);
            for (count, step) in batches {
                let added: Vec<_> = (next..).take(count).map(|id| posting(id, (id % 5) as u32 + 1)).collect();
                let removed: BTreeSet<_> = model.keys().copied().filter(|id| step > 0 && id % step == 1 % step).collect();
                next += count as u64;
                change(&mut rows, &added, &removed);
                model.extend(added.into_iter().map(|posting| (posting.id, posting)));
                model.retain(|id, _| !removed.contains(id));
                prop_assert_eq!(all(&mut rows), model.values().cloned().collect::<Vec<_>>());
                let documents = rows.get(&term_row(b"term")).map_or(0, |row| documents_of(&row));
                prop_assert_eq!(documents as usize, model.len());
            }
        }
    }
}
