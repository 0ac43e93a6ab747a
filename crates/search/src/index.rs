//! An index's rows as documents are added, changed and removed.
//!
//! A document is written as one row that holds all its words, a row for its key and one for each
//! TAG value, number and vector. Its words are *settled* later, many documents at a time, into one
//! list of postings a term ([`settle`]): a posting for each word in the document's own transaction
//! would write several times the text's length. A search reads both, the postings and the few
//! documents that are not settled yet, so what it finds does not depend on how far settling is.
//!
//! A document that is settled keeps the numbers of its terms instead of its words. One that goes
//! before it is settled leaves nothing. One that goes after leaves its terms, under another tag,
//! until its postings are removed.
//!
//! `docs/decisions/28-search-postings.md` has what this costs, and what was refused.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::document::{DocumentRow, OccurrencesRow};
pub use crate::layout::DocumentId;
use crate::layout::{
    Cursor, INDEX, after, document_row, field_of_number, field_of_vector, field_prefix, id_of, id_of_value, id_value,
    key_row, push_number, removed_row, removed_rows, several_row, tag_of, tokens_row,
};
use crate::lengths;
use crate::postings::{self, Added};
use crate::rows::{Rows, WriteRows};
use crate::term_numbers::{self, TermNumber};
use crate::{Document, SearchError};
use crate::{codes, graph};

/// More documents than these are not left unsettled: each search reads them all.
pub const UNSETTLED_MAX: u64 = 256;

/// Values that are listed between two looks at the time.
const VALUES_BETWEEN_CHECKS: usize = 256;

/// The counts of an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The last id that was given out.
    pub last_id: DocumentId,
    /// The words of every document up to this id are in postings.
    pub settled: DocumentId,
    /// The number of documents.
    pub documents: u64,
    /// The number of their tokens.
    pub tokens: u64,
    /// The last number that was given to a term.
    pub last_term: u64,
}

impl State {
    /// Reads the state of an index; an empty one has no row.
    pub fn read(rows: &mut dyn Rows) -> State {
        let Some(row) = rows.get(INDEX) else {
            return State::default();
        };
        let mut cursor = Cursor(&row);
        let mut next = || cursor.number() as u64;
        State {
            last_id: next(),
            settled: next(),
            documents: next(),
            tokens: next(),
            last_term: next(),
        }
    }

    fn write(self, rows: &mut dyn WriteRows) {
        let numbers = [self.last_id, self.settled, self.documents, self.tokens, self.last_term];
        let mut row = Vec::with_capacity(numbers.len() * size_of::<u64>());
        numbers
            .iter()
            .for_each(|number| push_number(&mut row, (*number).into()));
        rows.set(INDEX, &row);
    }

    /// The number of unsettled ids, of present and of removed documents.
    pub fn unsettled(&self) -> u64 {
        self.last_id - self.settled
    }

    /// The average number of tokens of a document; zero if there is none.
    pub fn average_length(&self) -> f64 {
        match self.documents {
            0 => 0.0,
            documents => self.tokens as f64 / documents as f64,
        }
    }
}

/// Puts a document into the index instead of the one with its key. Returns its id. Writes nothing
/// if it is there as it is.
pub fn put(rows: &mut dyn WriteRows, document: &Document) -> DocumentId {
    let row = document.to_row();
    let known = id_of_key(rows, &document.key);
    if let Some(id) = known
        && is_same(rows, id, document, &row)
    {
        return id;
    }
    let mut state = State::read(rows);
    if let Some(id) = known {
        take_out(rows, &mut state, &document.key, id);
    }
    state.last_id += 1;
    let id = state.last_id;
    rows.set(&key_row(&document.key), &id_value(id));
    rows.set(&document_row(id), &row);
    let mut several = SeveralNumbers::default();
    for (key, value) in document.rows_beside(id) {
        rows.set(&key, value);
        several.note(&key);
    }
    several.change(rows, |count| count + 1);
    for (field, vectors) in document.vectors_without_graph() {
        codes::come(rows, field, id, vectors);
    }
    for (field, length) in document.field_lengths() {
        count_tokens(rows, *field, i64::from(*length));
    }
    state.documents += 1;
    state.tokens += u64::from(document.length);
    state.write(rows);
    id
}

/// The total tokens of a field that counts its own, over all documents.
pub fn tokens_of_field(rows: &mut dyn Rows, field: u16) -> u64 {
    let row = rows.get(&tokens_row(field));
    row.map_or(0, |row| {
        u64::from_be_bytes(row.try_into().expect("a count has eight bytes"))
    })
}

fn count_tokens(rows: &mut dyn WriteRows, field: u16, change: i64) {
    match tokens_of_field(rows, field).saturating_add_signed(change) {
        0 => rows.clear(&tokens_row(field)),
        tokens => rows.set(&tokens_row(field), &tokens.to_be_bytes()),
    }
}

/// The index has the document of this id with this row and with its vectors.
fn is_same(rows: &mut dyn WriteRows, id: DocumentId, document: &Document, row: &[u8]) -> bool {
    let mut is_same = false;
    rows.show(&document_row(id), &mut |known| {
        is_same = DocumentRow::read(known).is_same(&DocumentRow::read(row));
    });
    is_same
        && document
            .rows_beside(id)
            .all(|(key, value)| value.is_empty() || rows.get(&key).as_deref() == Some(value))
}

/// Takes the document with this key out of the index. Returns true if there was one.
pub fn remove(rows: &mut dyn WriteRows, key: &[u8]) -> bool {
    let Some(id) = id_of_key(rows, key) else {
        return false;
    };
    let mut state = State::read(rows);
    take_out(rows, &mut state, key, id);
    state.write(rows);
    true
}

fn take_out(rows: &mut dyn WriteRows, state: &mut State, key: &[u8], id: DocumentId) {
    let row = rows.get(&document_row(id)).expect("a key leads to its document");
    let mut document = DocumentRow::read(&row);
    state.documents -= 1;
    state.tokens -= u64::from(document.length);
    let mut several = SeveralNumbers::default();
    document.field_lengths(|field, length| count_tokens(rows, field, -i64::from(length)));
    document.rows_beside(id, |key| {
        several.note(&key);
        let field = field_of_vector(&key);
        let is_in_graph = field.is_some_and(|field| graph::leave(rows, field, id));
        if !is_in_graph {
            if let Some(field) = field {
                codes::go(rows, field, id);
            }
            rows.clear(&key);
        }
    });
    several.change(rows, |count| count - 1);
    rows.clear(&key_row(key));
    rows.clear(&document_row(id));
    if id <= state.settled {
        let left = document.numbers().map(|numbers| {
            let terms = term_numbers::terms(rows, &numbers).expect("a document's numbers are terms'");
            document.left_behind(terms)
        });
        rows.set(&removed_row(id), &left.unwrap_or(row.clone()));
    }
}

/// The fields in which a document has several numbers.
#[derive(Default)]
pub(crate) struct SeveralNumbers {
    last: Option<u16>,
    fields: BTreeSet<u16>,
}

impl SeveralNumbers {
    /// A row beside the document; those of a field follow each other.
    pub fn note(&mut self, key: &[u8]) {
        let field = field_of_number(key);
        if self.last == field {
            self.fields.extend(field);
        }
        self.last = field;
    }

    pub fn fields(&self) -> impl Iterator<Item = u16> {
        self.fields.iter().copied()
    }

    /// Counts the document in each of the fields.
    fn change(&self, rows: &mut dyn WriteRows, changed: impl Fn(u64) -> u64) {
        for field in &self.fields {
            let key = several_row(*field);
            let count = rows.get(&key).map_or(0, |row| id_of(&row));
            match changed(count) {
                0 => rows.clear(&key),
                count => rows.set(&key, &count.to_be_bytes()),
            }
        }
    }
}

/// The number of documents that wait to be settled: new documents, and removed documents whose
/// postings remain. Each search reads them all.
pub fn waiting(rows: &mut dyn Rows) -> u64 {
    let (start, end) = removed_rows();
    State::read(rows).unsettled() + rows.count(&start, &end)
}

/// The number of the settled documents' terms.
pub fn term_count(rows: &mut dyn Rows) -> u64 {
    rows.count(b"w", b"x")
}

/// The tags of rows that lead from terms and values to documents.
pub const INVERTED_TAGS: &[u8] = b"wptgnli";
/// The tags of rows of vectors.
pub const VECTOR_TAGS: &[u8] = b"bhuvy";
/// The tags of rows of shapes.
pub const SHAPE_TAGS: &[u8] = b"o";
/// The tags of rows of documents.
pub const DOCUMENT_TAGS: &[u8] = b"d";
/// The tags of rows of keys.
pub const KEY_TAGS: &[u8] = b"k";

/// Pairs of a document and what leads to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RecordCounts {
    /// Pairs with a term, in settled documents. Estimated where there are many terms.
    pub of_terms: u64,
    /// Pairs with a TAG value, a number or a place.
    pub of_values: u64,
}

/// Counts the pairs of documents and what leads to them. Looks at no more than `terms_max` terms.
pub fn record_counts(rows: &mut dyn Rows, terms_max: u64) -> RecordCounts {
    let of_values = b"gnl".iter().map(|tag| rows.count(&[*tag], &[*tag + 1])).sum();
    let (mut seen, mut documents) = (0, 0);
    rows.scan(b"w", b"x", &mut |_, row| {
        if seen == terms_max {
            return ControlFlow::Break(());
        }
        seen += 1;
        documents += u64::from(postings::documents_of(row));
        ControlFlow::Continue(())
    });
    let of_terms = match seen {
        0 => 0,
        seen => (u128::from(documents) * u128::from(term_count(rows)) / u128::from(seen)) as u64,
    };
    RecordCounts { of_terms, of_values }
}

/// The number of documents with a number in this range of a field's rows; None if some have
/// several, so that there are more numbers than documents.
pub(crate) fn count_of_numbers(rows: &mut dyn Rows, field: u16, (start, end): (&[u8], &[u8])) -> Option<u64> {
    let is_one_each = !rows.show(&several_row(field), &mut |_| {});
    is_one_each.then(|| rows.count(start, end))
}

/// The different values of the TAG field at a position, in byte order; at most `count_max`. The
/// time depends on the number of values, not of documents. Polls `is_over` for its deadline.
pub fn tag_values(
    rows: &mut dyn Rows,
    field: u16,
    count_max: usize,
    is_over: &dyn Fn() -> bool,
) -> Result<Vec<Vec<u8>>, SearchError> {
    let prefix = field_prefix(b'g', field);
    let (mut start, end) = (prefix.clone(), after(&prefix));
    let mut values = Vec::new();
    while values.len() < count_max {
        if values.len() % VALUES_BETWEEN_CHECKS == VALUES_BETWEEN_CHECKS - 1 && is_over() {
            return Err(SearchError::Timeout);
        }
        let mut found = None;
        rows.scan(&start, &end, &mut |key, _| {
            found = Some(key.to_vec());
            ControlFlow::Break(())
        });
        let Some(key) = found else { break };
        start = after(&key[..key.len() - 8]);
        values.push(tag_of(&key));
    }
    Ok(values)
}

/// The keys of documents, the first in byte order, at most `count_max`.
pub fn keys(rows: &mut dyn Rows, count_max: usize) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    rows.scan(&key_row(b""), &after(&key_row(b"")), &mut |key, _| {
        if keys.len() == count_max {
            return ControlFlow::Break(());
        }
        keys.push(key[1..].to_vec());
        ControlFlow::Continue(())
    });
    keys
}

/// The id of the document with this key.
pub fn id_of_key(rows: &mut dyn Rows, key: &[u8]) -> Option<DocumentId> {
    rows.get(&key_row(key)).map(|id| id_of_value(&id))
}

/// A posting to add, with the occurrences and the index of its new document, or a posting to
/// remove.
type Change<'a> = (&'a [u8], DocumentId, Option<(usize, OccurrencesRow<'a>)>);

/// Writes the words of the oldest unsettled documents into postings, and removes the postings of
/// removed documents: at most `documents_max` of both. The results of searches stay the same.
/// Returns true if more remain.
pub fn settle(rows: &mut dyn WriteRows, documents_max: usize) -> bool {
    let mut state = State::read(rows);
    let (added, reached) = unsettled(rows, &state, documents_max);
    let removed = gone(rows, documents_max - added.len());
    if reached == state.settled && removed.is_empty() {
        return false;
    }
    let documents: Vec<DocumentRow<'_>> = added.iter().map(|(_, row)| DocumentRow::read(row)).collect();
    let mut numbers: Vec<Option<Vec<TermNumber>>> = documents
        .iter()
        .map(|document| document.takes_numbers().then(Vec::new))
        .collect();
    let mut changes: Vec<Change<'_>> = Vec::new();
    for (at, (document, (id, _))) in documents.iter().zip(&added).enumerate() {
        document.terms(|term, stands| changes.push((term, *id, Some((at, stands)))));
    }
    for (id, row) in &removed {
        DocumentRow::read(row).terms(|term, _| changes.push((term, *id, None)));
    }
    changes.sort_unstable_by_key(|(term, id, _)| (*term, *id));
    let mut new_terms = Vec::new();
    for of_term in changes.chunk_by(|(a, ..), (b, ..)| a == b) {
        let come = of_term.iter().filter_map(|(_, id, at)| Some((*id, (*at)?.1)));
        let go = of_term.iter().filter(|(.., at)| at.is_none()).map(|(_, id, _)| *id);
        let (come, go): (Vec<Added<'_>>, BTreeSet<_>) = (come.collect(), go.collect());
        let with_it = || of_term.iter().filter_map(|(.., at)| at.map(|(at, _)| at));
        let next = state.last_term + new_terms.len() as TermNumber + 1;
        let fresh = with_it().any(|at| numbers[at].is_some()).then_some(next);
        let number = postings::change(rows, of_term[0].0, &come, &go, fresh);
        if number == next {
            new_terms.push(of_term[0].0);
        }
        for at in with_it() {
            numbers[at].iter_mut().for_each(|numbers| numbers.push(number));
        }
    }
    term_numbers::add(rows, state.last_term, &new_terms);
    state.last_term += new_terms.len() as TermNumber;
    for ((document, (id, _)), numbers) in documents.iter().zip(&added).zip(numbers) {
        if let Some(numbers) = numbers {
            rows.set(&document_row(*id), &document.settled(numbers));
        }
    }
    let entries = documents
        .iter()
        .zip(&added)
        .map(|(document, (id, _))| (*id, lengths::entry_of(document)));
    lengths::write(rows, &entries.collect::<Vec<_>>());
    lengths::write(rows, &removed.iter().map(|(id, _)| (*id, 0)).collect::<Vec<_>>());
    removed.iter().for_each(|(id, _)| rows.clear(&removed_row(*id)));
    state.settled = reached;
    state.write(rows);
    added.len() + removed.len() == documents_max
}

/// Documents with their ids, ascending.
pub(crate) type DocumentRows = Vec<(DocumentId, Vec<u8>)>;

/// The oldest documents that are not settled, and up to where that is all of them.
fn unsettled(rows: &mut dyn Rows, state: &State, count_max: usize) -> (DocumentRows, DocumentId) {
    let found = unsettled_documents(rows, state, count_max);
    let is_all = found.len() < count_max;
    let reached = match found.last() {
        Some((id, _)) if !is_all => *id,
        None if !is_all => state.settled,
        _ => state.last_id,
    };
    (found, reached)
}

/// The rows of documents that are not settled.
pub(crate) fn unsettled_documents(rows: &mut dyn Rows, state: &State, count_max: usize) -> DocumentRows {
    let (start, end) = (document_row(state.settled + 1), document_row(state.last_id + 1));
    rows_between(rows, &start, &end, count_max)
}

/// The rows of removed documents whose postings remain.
pub(crate) fn gone(rows: &mut dyn Rows, count_max: usize) -> DocumentRows {
    let (start, end) = removed_rows();
    rows_between(rows, &start, &end, count_max)
}

fn rows_between(rows: &mut dyn Rows, start: &[u8], end: &[u8], count_max: usize) -> DocumentRows {
    let mut found = Vec::new();
    if count_max == 0 {
        return found;
    }
    rows.scan(start, end, &mut |key, row| {
        found.push((id_of(key), row.to_vec()));
        match found.len() < count_max {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::term_row;
    use crate::vectors::{Component, Metric, VectorKind};
    use crate::{Field, FieldKind, MemoryRows, Schema};

    fn document(key: &str, text: &str) -> Document {
        let mut tag = Field::tag("tag");
        tag.path = "text".into();
        let schema = Schema::new(vec![Field::text("text", 1.0), tag]).unwrap();
        Document::new(&schema, key.as_bytes(), |_| Some(text.into())).unwrap()
    }

    fn settle_all(rows: &mut MemoryRows) {
        while settle(rows, 2) {}
    }

    #[test]
    fn an_index_of_no_documents_is_one_row() {
        let mut rows = MemoryRows::default();
        for key in ["a", "b", "c"] {
            put(&mut rows, &document(key, "some words here"));
        }
        settle_all(&mut rows);
        put(&mut rows, &document("b", "other words"));
        for key in ["a", "b", "c"] {
            assert!(remove(&mut rows, key.as_bytes()));
            assert!(!remove(&mut rows, key.as_bytes()));
        }
        settle_all(&mut rows);
        assert_eq!(rows.len(), 1);
        let state = State::read(&mut rows);
        assert_eq!(
            state,
            State {
                last_id: 4,
                settled: 4,
                documents: 0,
                tokens: 0,
                last_term: 4
            }
        );
    }

    #[test]
    fn documents_of_many_words_are_settled_and_taken_out_by_numbers() {
        let long = "x".repeat(300);
        let texts = [
            "one two three four five",
            "three four five six seven",
            "two words",
            &long,
        ];
        let mut rows = MemoryRows::default();
        let put_all = |rows: &mut MemoryRows| {
            for (at, text) in texts.iter().enumerate() {
                put(
                    rows,
                    &document(&at.to_string(), &format!("{text} {}", "and so on".repeat(at))),
                );
            }
        };
        put_all(&mut rows);
        settle_all(&mut rows);
        let before = rows.clone();
        put_all(&mut rows);
        assert_eq!(rows, before, "they are there as they are");
        put(&mut rows, &document("0", "five four three two one"));
        assert_eq!(State::read(&mut rows).last_id, 5, "the words stand elsewhere");
        assert_eq!(crate::judge::judge(&mut rows, None), None);
        settle_all(&mut rows);
        assert_eq!(crate::judge::judge(&mut rows, None), None);
        for at in 0..texts.len() {
            assert!(remove(&mut rows, at.to_string().as_bytes()));
            assert_eq!(crate::judge::judge(&mut rows, None), None);
        }
        settle_all(&mut rows);
        assert_eq!(crate::judge::judge(&mut rows, None), None);
        assert_eq!(rows.len(), 1);
    }

    #[test]
    fn a_document_that_goes_before_it_is_settled_leaves_nothing_to_settle() {
        let mut rows = MemoryRows::default();
        put(&mut rows, &document("a", "one"));
        put(&mut rows, &document("a", "two"));
        settle_all(&mut rows);
        assert_eq!(rows.get(&term_row(b"one")), None);
        let two = rows.get(&term_row(b"two")).unwrap();
        assert_eq!(postings::documents_of(&two), 1);
    }

    #[test]
    fn a_document_that_is_there_as_it_is_is_not_written_again() {
        let mut vector = Field::new(
            "v",
            FieldKind::Vector(VectorKind::new(Component::Float32, 1, Metric::L2).unwrap()),
        );
        vector.path = "v".into();
        let schema = Schema::new(vec![Field::text("t", 1.0), vector]).unwrap();
        let document = |vector: &[u8]| {
            let value = |field: &Field| {
                Some(if field.name == "v" {
                    vector.to_vec()
                } else {
                    b"word".to_vec()
                })
            };
            Document::new(&schema, b"a", value).unwrap()
        };
        let mut rows = MemoryRows::default();
        assert_eq!(put(&mut rows, &document(&[0; 4])), 1);
        let before = rows.clone();
        assert_eq!(put(&mut rows, &document(&[0; 4])), 1);
        assert_eq!(rows, before);
        assert_eq!(put(&mut rows, &document(&[1; 4])), 2);
    }

    #[test]
    fn values_of_tags_are_listed_once() {
        let mut rows = MemoryRows::default();
        for (key, text) in [("a", "Red,blue"), ("b", "red"), ("c", "green")] {
            put(&mut rows, &document(key, text));
        }
        assert_eq!(
            tag_values(&mut rows, 1, 100, &|| false).unwrap(),
            [&b"blue"[..], b"green", b"red"]
        );
        assert_eq!(tag_values(&mut rows, 1, 2, &|| false).unwrap().len(), 2);
        assert_eq!((waiting(&mut rows), term_count(&mut rows)), (3, 0));
        settle_all(&mut rows);
        remove(&mut rows, b"c");
        assert_eq!((waiting(&mut rows), term_count(&mut rows)), (1, 3));
    }

    #[test]
    fn settling_continues_after_a_stop_and_ends() {
        let mut rows = MemoryRows::default();
        (0..10).for_each(|at| _ = put(&mut rows, &document(&at.to_string(), "word")));
        remove(&mut rows, b"9");
        let mut steps = 1;
        while settle(&mut rows, 4) {
            steps += 1;
        }
        assert_eq!(steps, 3);
        let word = rows.get(&term_row(b"word")).unwrap();
        assert_eq!(postings::documents_of(&word), 9);
        let before = rows.clone();
        assert!(!settle(&mut rows, 4));
        assert_eq!(rows, before);
    }
}
