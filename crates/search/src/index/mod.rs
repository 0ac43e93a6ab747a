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

pub(crate) mod doc_sets;
pub mod document;
pub mod field_index;
pub(crate) mod field_norms;
pub(crate) mod layout;
pub(crate) mod postings;
pub mod schema;
pub(crate) mod term_dictionary;
pub mod values;
pub mod vector_kind;
pub mod verify;

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::encoding::{Cursor, push_number};
use crate::error::SearchError;
use crate::index::document::{Document, DocumentRow, OccurrencesRow};
use crate::index::field_index::FieldIndex;
use crate::index::layout::{
    INDEX, after, document_row, field_of_number, field_of_vector, field_prefix, id_of_value, id_value, key_row,
    removed_row, removed_rows, several_row, tag_of, tokens_row,
};
use crate::index::postings::Added;
use crate::index::term_dictionary::TermNumber;
use crate::rows::{DocumentId, KeyRange, Rows, WriteRows, id_of};

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
pub fn put(rows: &mut dyn WriteRows, document: &Document, fields: &dyn FieldIndex) -> DocumentId {
    let row = document.to_row();
    let previous = id_of_key(rows, &document.key);
    if let Some(id) = previous
        && is_same(rows, id, document, &row)
    {
        return id;
    }
    let mut state = State::read(rows);
    if let Some(id) = previous {
        take_out(rows, &mut state, &document.key, id, fields);
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
        fields.added(rows, field, id, vectors);
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
    rows.show(&document_row(id), &mut |stored| {
        is_same = DocumentRow::read(stored).is_same(&DocumentRow::read(row));
    });
    is_same
        && document
            .rows_beside(id)
            .all(|(key, value)| value.is_empty() || rows.get(&key).as_deref() == Some(value))
}

/// Takes the document with this key out of the index. Returns true if there was one.
pub fn remove(rows: &mut dyn WriteRows, key: &[u8], fields: &dyn FieldIndex) -> bool {
    let Some(id) = id_of_key(rows, key) else {
        return false;
    };
    let mut state = State::read(rows);
    take_out(rows, &mut state, key, id, fields);
    state.write(rows);
    true
}

fn take_out(rows: &mut dyn WriteRows, state: &mut State, key: &[u8], id: DocumentId, fields: &dyn FieldIndex) {
    let row = rows.get(&document_row(id)).expect("a key leads to its document");
    let mut document = DocumentRow::read(&row);
    state.documents -= 1;
    state.tokens -= u64::from(document.length);
    let mut several = SeveralNumbers::default();
    document.field_lengths(|field, length| count_tokens(rows, field, -i64::from(length)));
    document.rows_beside(id, |key| {
        several.note(&key);
        let field = field_of_vector(&key);
        let is_retained = field.is_some_and(|field| fields.removed(rows, field, id));
        if !is_retained {
            rows.clear(&key);
        }
    });
    several.change(rows, |count| count - 1);
    rows.clear(&key_row(key));
    rows.clear(&document_row(id));
    if id <= state.settled {
        rows.set(&removed_row(id), document.left_behind().as_ref().unwrap_or(&row));
    }
}

/// The fields with several numbers of one document.
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
    let value_rows = b"gnl".iter().map(|tag| rows.count(&[*tag], &[*tag + 1])).sum();
    let (mut seen, mut documents) = (0, 0);
    rows.scan(b"w", b"x", &mut |_, row| {
        if seen == terms_max {
            return ControlFlow::Break(());
        }
        seen += 1;
        documents += u64::from(postings::documents_of(row));
        ControlFlow::Continue(())
    });
    let term_rows = match seen {
        0 => 0,
        seen => (u128::from(documents) * u128::from(term_count(rows)) / u128::from(seen)) as u64,
    };
    RecordCounts {
        of_terms: term_rows,
        of_values: value_rows,
    }
}

/// The number of documents with a number in this range of a field's rows; None if some have
/// several, so that there are more numbers than documents.
pub(crate) fn count_of_numbers(rows: &mut dyn Rows, field: u16, keys: KeyRange<'_>) -> Option<u64> {
    let is_one_each = !rows.show(&several_row(field), &mut |_| {});
    is_one_each.then(|| rows.count(keys.start, keys.end))
}

/// Visits the different values of the TAG field at a position, in byte order, until `visit` breaks;
/// at most `count_max`. The time depends on the number of values, not of documents. Polls `is_over`
/// for its deadline.
pub fn tag_values(
    rows: &mut dyn Rows,
    field: u16,
    count_max: usize,
    is_over: &dyn Fn() -> bool,
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<(), SearchError> {
    let prefix = field_prefix(b'g', field);
    let (mut start, end) = (prefix.clone(), after(&prefix));
    for count in 0..count_max {
        if count % VALUES_BETWEEN_CHECKS == VALUES_BETWEEN_CHECKS - 1 && is_over() {
            return Err(SearchError::Timeout);
        }
        let mut key_found = None;
        rows.scan(&start, &end, &mut |key, _| {
            key_found = Some(key.to_vec());
            ControlFlow::Break(())
        });
        let Some(key) = key_found else { break };
        start = after(&key[..key.len() - 8]);
        if visit(&tag_of(&key)).is_break() {
            break;
        }
    }
    Ok(())
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
    let removed = gone_with_terms(rows, documents_max - added.len());
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
    for changes_of_term in changes.chunk_by(|(a, ..), (b, ..)| a == b) {
        let come = changes_of_term.iter().filter_map(|(_, id, at)| Some((*id, (*at)?.1)));
        let go = changes_of_term
            .iter()
            .filter(|(.., at)| at.is_none())
            .map(|(_, id, _)| *id);
        let (come, go): (Vec<Added<'_>>, BTreeSet<_>) = (come.collect(), go.collect());
        let with_it = || changes_of_term.iter().filter_map(|(.., at)| at.map(|(at, _)| at));
        let next = state.last_term + new_terms.len() as TermNumber + 1;
        let fresh = with_it().any(|at| numbers[at].is_some()).then_some(next);
        let number = postings::change(rows, changes_of_term[0].0, &come, &go, fresh);
        if number == next {
            new_terms.push(changes_of_term[0].0);
        }
        for at in with_it() {
            numbers[at].iter_mut().for_each(|numbers| numbers.push(number));
        }
    }
    term_dictionary::add(rows, state.last_term, &new_terms);
    state.last_term += new_terms.len() as TermNumber;
    for ((document, (id, _)), numbers) in documents.iter().zip(&added).zip(numbers) {
        if let Some(numbers) = numbers {
            rows.set(&document_row(*id), &document.settled(numbers));
        }
    }
    let entries = documents
        .iter()
        .zip(&added)
        .map(|(document, (id, _))| (*id, field_norms::entry_of(document)));
    field_norms::write(rows, &entries.collect::<Vec<_>>());
    field_norms::write(rows, &removed.iter().map(|(id, _)| (*id, 0)).collect::<Vec<_>>());
    removed.iter().for_each(|(id, _)| rows.clear(&removed_row(*id)));
    state.settled = reached;
    state.write(rows);
    added.len() + removed.len() == documents_max
}

/// Documents with their ids, ascending.
pub(crate) type DocumentRows = Vec<(DocumentId, Vec<u8>)>;

/// The oldest documents that are not settled, and up to where that is all of them.
fn unsettled(rows: &mut dyn Rows, state: &State, count_max: usize) -> (DocumentRows, DocumentId) {
    let documents = unsettled_documents(rows, state, count_max);
    let is_all = documents.len() < count_max;
    let reached = match documents.last() {
        Some((id, _)) if !is_all => *id,
        None if !is_all => state.settled,
        _ => state.last_id,
    };
    (documents, reached)
}

/// The rows of documents that are not settled.
pub(crate) fn unsettled_documents(rows: &mut dyn Rows, state: &State, count_max: usize) -> DocumentRows {
    let (start, end) = (document_row(state.settled + 1), document_row(state.last_id + 1));
    rows_between(rows, &start, &end, count_max)
}

/// The rows of removed documents with remaining postings, and their terms.
pub(crate) fn gone_with_terms(rows: &mut dyn Rows, count_max: usize) -> DocumentRows {
    let mut documents = gone(rows, count_max);
    let numbers_of = |row: &[u8]| DocumentRow::read(row).numbers();
    let mut numbers: Vec<TermNumber> = documents
        .iter()
        .filter_map(|(_, row)| numbers_of(row))
        .flatten()
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let terms = term_dictionary::terms(rows, &numbers).expect("a document's numbers are terms'");
    let term_of = |number: &TermNumber| terms[numbers.partition_point(|other| other < number)].clone();
    for (_, row) in &mut documents {
        if let Some(numbers) = numbers_of(row) {
            *row = DocumentRow::read(row).with_terms(numbers.iter().map(term_of).collect());
        }
    }
    documents
}

/// The rows of removed documents with remaining postings. They may have only the numbers of their
/// terms.
pub(crate) fn gone(rows: &mut dyn Rows, count_max: usize) -> DocumentRows {
    let (start, end) = removed_rows();
    rows_between(rows, &start, &end, count_max)
}

fn rows_between(rows: &mut dyn Rows, start: &[u8], end: &[u8], count_max: usize) -> DocumentRows {
    let mut documents = Vec::new();
    if count_max == 0 {
        return documents;
    }
    rows.scan(start, end, &mut |key, row| {
        documents.push((id_of(key), row.to_vec()));
        match documents.len() < count_max {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    documents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::layout::term_row;
    use crate::index::schema::{Field, FieldKind, Schema};
    use crate::index::vector_kind::{Component, Metric, VectorKind};
    use crate::rows::MemoryRows;
    use crate::vectors::fields::VectorFields;

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
            put(&mut rows, &document(key, "some words here"), &VectorFields);
        }
        settle_all(&mut rows);
        put(&mut rows, &document("b", "other words"), &VectorFields);
        for key in ["a", "b", "c"] {
            assert!(remove(&mut rows, key.as_bytes(), &VectorFields));
            assert!(!remove(&mut rows, key.as_bytes(), &VectorFields));
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
                    &VectorFields,
                );
            }
        };
        put_all(&mut rows);
        settle_all(&mut rows);
        let before = rows.clone();
        put_all(&mut rows);
        assert_eq!(rows, before, "they are there as they are");
        put(&mut rows, &document("0", "five four three two one"), &VectorFields);
        assert_eq!(State::read(&mut rows).last_id, 5, "the words stand elsewhere");
        assert_eq!(crate::index::verify::verify(&mut rows, None, &VectorFields), None);
        settle_all(&mut rows);
        assert_eq!(crate::index::verify::verify(&mut rows, None, &VectorFields), None);
        for at in 0..texts.len() {
            assert!(remove(&mut rows, at.to_string().as_bytes(), &VectorFields));
            assert_eq!(crate::index::verify::verify(&mut rows, None, &VectorFields), None);
        }
        settle_all(&mut rows);
        assert_eq!(crate::index::verify::verify(&mut rows, None, &VectorFields), None);
        assert_eq!(rows.len(), 1);
    }

    #[test]
    fn a_document_that_goes_before_it_is_settled_leaves_nothing_to_settle() {
        let mut rows = MemoryRows::default();
        put(&mut rows, &document("a", "one"), &VectorFields);
        put(&mut rows, &document("a", "two"), &VectorFields);
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
        assert_eq!(put(&mut rows, &document(&[0; 4]), &VectorFields), 1);
        let before = rows.clone();
        assert_eq!(put(&mut rows, &document(&[0; 4]), &VectorFields), 1);
        assert_eq!(rows, before);
        assert_eq!(put(&mut rows, &document(&[1; 4]), &VectorFields), 2);
    }

    #[test]
    fn values_of_tags_are_listed_once() {
        let mut rows = MemoryRows::default();
        for (key, text) in [("a", "Red,blue"), ("b", "red"), ("c", "green")] {
            put(&mut rows, &document(key, text), &VectorFields);
        }
        let mut values_of = |count_max| {
            let mut values = Vec::new();
            let mut visit = |value: &[u8]| {
                values.push(value.to_vec());
                ControlFlow::Continue(())
            };
            tag_values(&mut rows, 1, count_max, &|| false, &mut visit).unwrap();
            values
        };
        assert_eq!(values_of(100), [&b"blue"[..], b"green", b"red"]);
        assert_eq!(values_of(2).len(), 2);
        assert_eq!((waiting(&mut rows), term_count(&mut rows)), (3, 0));
        settle_all(&mut rows);
        remove(&mut rows, b"c", &VectorFields);
        assert_eq!((waiting(&mut rows), term_count(&mut rows)), (1, 3));
    }

    #[test]
    fn settling_continues_after_a_stop_and_ends() {
        let mut rows = MemoryRows::default();
        (0..10).for_each(|at| _ = put(&mut rows, &document(&at.to_string(), "word"), &VectorFields));
        remove(&mut rows, b"9", &VectorFields);
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
