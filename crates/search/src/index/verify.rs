//! Whether an index's rows agree with a document, and with each other. For `quartet check`.
//!
//! Postings and lengths are compared with the documents by sums of hashes, so that the check of an
//! index of any size needs the memory of one row. Rows that no version has written cause a panic.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use xxhash_rust::xxh3::xxh3_128;

use crate::index::document::{Document, DocumentRow, posting_hash};
use crate::index::field_index::FieldIndex;
use crate::index::layout::{after, bounded, document_row, id_of_value, key_row};
use crate::index::schema::{FieldKind, Schema};
use crate::index::term_dictionary::{self, TermNumber};
use crate::index::{SeveralNumbers, State, field_norms, postings};
use crate::rows::{DocumentId, Rows, id_of};

/// How an index has a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Not at all.
    Absent,
    /// With other words or values.
    Different,
    /// As it is.
    Same,
}

/// Compares a document with what the index has under its key.
pub fn presence(rows: &mut dyn Rows, document: &Document) -> Presence {
    let Some(id) = crate::index::id_of_key(rows, &document.key) else {
        return Presence::Absent;
    };
    let (row, mut is_same) = (document.to_row(), false);
    rows.show(&document_row(id), &mut |stored| {
        is_same = DocumentRow::read(stored).is_same(&DocumentRow::read(&row));
    });
    let is_same = is_same
        && document
            .rows_beside(id)
            .all(|(key, value)| rows.get(&key).as_deref() == Some(value));
    if is_same { Presence::Same } else { Presence::Different }
}

/// Rows that are read at once while others are looked up.
const PAGE_ROWS: usize = 256;

/// Takes a key and its value, and may read other rows.
type Visit<'v> = &'v mut dyn FnMut(&mut dyn Rows, &[u8], &[u8]);

/// Visits rows in key order.
fn each(rows: &mut dyn Rows, start: &[u8], end: &[u8], visit: Visit<'_>) {
    let mut start = start.to_vec();
    loop {
        let mut page = Vec::new();
        rows.scan(&start, end, &mut |key, value| {
            page.push((key.to_vec(), value.to_vec()));
            match page.len() < PAGE_ROWS {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        for (key, value) in &page {
            visit(rows, key, value);
        }
        match page.pop() {
            Some((last, _)) if page.len() + 1 == PAGE_ROWS => start = [&last[..], &[0]].concat(),
            _ => return,
        }
    }
}

/// Visits the keys of the documents.
pub fn each_key(rows: &mut dyn Rows, visit: &mut dyn FnMut(&[u8])) {
    each(rows, &key_row(b""), &after(&key_row(b"")), &mut |_, key, _| {
        visit(&key[1..])
    });
}

/// A sum that is equal for equal sets, in any order of their items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    hashes: u128,
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        self.count += 1;
        self.hashes = self.hashes.wrapping_add(xxh3_128(bytes));
    }

    /// Adds the hashes of a document's items, each bound to its id.
    fn add_of(&mut self, id: DocumentId, count: u64, hashes: u128) {
        let id_hash = xxh3_128(&id.to_be_bytes()) | 1;
        self.count += count;
        self.hashes = self.hashes.wrapping_add(hashes.wrapping_mul(id_hash));
    }

    fn add_length(&mut self, id: DocumentId, entry: u32) {
        self.add(&[&id.to_be_bytes()[..], &entry.to_be_bytes()].concat());
    }
}

/// Sums over the documents, which all other rows have to agree with.
#[derive(Default)]
struct Promised {
    documents: u64,
    tokens: u64,
    of_fields: BTreeMap<u16, u64>,
    several: BTreeMap<u16, u64>,
    /// Terms with their occurrences.
    postings: Sum,
    /// Only terms.
    terms: Sum,
    lengths: Sum,
    /// Rows beside documents, by tag.
    beside: BTreeMap<u8, u64>,
    wrong: Option<&'static str>,
}

impl Promised {
    fn demand(&mut self, holds: bool, otherwise: &'static str) {
        if !holds {
            self.wrong.get_or_insert(otherwise);
        }
    }

    fn add_document(&mut self, rows: &mut dyn Rows, state: &State, id: DocumentId, row: &[u8]) {
        self.demand(id <= state.last_id, "has a document with an id that was not given out");
        if id <= state.settled {
            self.add_settled(rows, id, row);
        }
        let mut document = DocumentRow::read(row);
        let document_id = rows.get(&key_row(document.key)).map(|id| id_of_value(&id));
        self.demand(document_id == Some(id), "has a document to which no key leads");
        self.documents += 1;
        self.tokens += u64::from(document.length);
        document.field_lengths(|field, length| *self.of_fields.entry(field).or_default() += u64::from(length));
        let mut several = SeveralNumbers::default();
        let mut beside = Vec::new();
        document.rows_beside(id, |key| {
            several.note(&key);
            beside.push(key);
        });
        several
            .fields()
            .for_each(|field| *self.several.entry(field).or_default() += 1);
        beside.sort();
        beside.dedup();
        for key in beside {
            let is_there = rows.show(&key, &mut |_| {});
            self.demand(is_there, "lacks a value of a document");
            *self.beside.entry(key[0]).or_default() += 1;
        }
    }

    /// Adds what is promised by a document that is in postings.
    fn add_settled(&mut self, rows: &mut dyn Rows, id: DocumentId, row: &[u8]) {
        let document = DocumentRow::read(row);
        self.lengths.add_length(id, field_norms::entry_of(&document));
        let words = document.fingerprint();
        self.postings.add_of(id, words.terms, words.hashes);
        let mut add_term = |term: &[u8]| self.terms.add_of(id, 1, xxh3_128(&bounded(term)));
        match document.numbers() {
            None => document.terms(|term, _| add_term(term)),
            Some(numbers) => match term_dictionary::terms(rows, &numbers) {
                Some(terms) => terms.iter().for_each(|term| add_term(term)),
                None => self.demand(false, "has a document with the number of no term"),
            },
        }
    }
}

/// Checks the rows of an index against each other; `schema` is that of an index which may have
/// vectors. Returns a fault as the end of a sentence whose subject is the index, or None if all
/// rows agree.
pub fn verify(rows: &mut dyn Rows, schema: Option<&Schema>, fields: &dyn FieldIndex) -> Option<&'static str> {
    let state = State::read(rows);
    let mut promised = Promised::default();
    promised.demand(
        state.settled <= state.last_id,
        "says that more is settled than there was",
    );
    each(rows, b"d", b"e", &mut |rows, key, row| {
        promised.add_document(rows, &state, id_of(key), row);
    });
    each(rows, b"x", b"y", &mut |rows, key, row| {
        let id = id_of(key);
        let is_gone = id <= state.settled && !rows.show(&document_row(id), &mut |_| {});
        promised.demand(is_gone, "has a document that is gone and is not");
        promised.add_settled(rows, id, row);
    });
    let gone_vectors = rows.count(b"y", b"z");
    *promised.beside.entry(b'v').or_default() += gone_vectors;
    let Promised { documents, tokens, .. } = promised;
    promised.demand(
        documents == state.documents,
        "says that it has another number of documents",
    );
    promised.demand(
        tokens == state.tokens,
        "says that its documents have another number of words",
    );
    promised.demand(rows.count(b"k", b"l") == documents, "has keys without documents");
    for tag in *b"gnloiv" {
        let count = promised.beside.get(&tag).copied().unwrap_or_default();
        promised.demand(
            rows.count(&[tag], &[tag + 1]) == count,
            "has values that no document has",
        );
    }
    let fields_match = numbers(rows, b'f') == promised.of_fields;
    promised.demand(fields_match, "says that a field has another number of words");
    let several = numbers(rows, b'q') == promised.several;
    promised.demand(several, "says that other documents have several numbers");
    let postings = verify_postings(rows, state.last_term);
    promised.demand(
        postings == Some((promised.postings, promised.terms)),
        "has postings that are not those of its documents",
    );
    let mut lengths = Sum::default();
    field_norms::each(rows, &mut |id, entry| lengths.add_length(id, entry));
    promised.demand(
        lengths == promised.lengths,
        "has lengths that are not those of its documents",
    );
    let mut marks = 0;
    for (field, field_definition) in schema.into_iter().flat_map(Schema::fields) {
        let FieldKind::Vector(kind) = &field_definition.kind else {
            continue;
        };
        match fields.verify(rows, field, kind, state.last_id) {
            Ok(count) => marks += count,
            Err(fault) => promised.demand(false, fault),
        }
    }
    let tags: u64 = b"defghiklmnopqtuvwxy"
        .iter()
        .map(|tag| rows.count(&[*tag], &[tag + 1]))
        .sum();
    promised.demand(rows.count(b"", &[u8::MAX]) == tags + marks, "has rows of no kind");
    promised.wrong
}

/// The numbers of all fields in the rows with a tag.
fn numbers(rows: &mut dyn Rows, tag: u8) -> BTreeMap<u16, u64> {
    let mut numbers = BTreeMap::new();
    rows.scan(&[tag], &[tag + 1], &mut |key, row| {
        let field = key[1..].try_into().expect("two bytes of field");
        numbers.insert(u16::from_be_bytes(field), id_of(row));
        ControlFlow::Continue(())
    });
    numbers
}

/// The sums of all postings, with and without occurrences; None if a term's rows disagree, or if a
/// number is not that of its term.
fn verify_postings(rows: &mut dyn Rows, last_term: TermNumber) -> Option<(Sum, Sum)> {
    let (mut postings, mut terms, mut are_sound) = (Sum::default(), Sum::default(), true);
    let (mut older_rows, mut numbered) = (0, 0);
    each(rows, b"w", b"x", &mut |rows, key, row| {
        let (term, number) = (&key[1..], postings::number_of(row));
        let term_hash = xxh3_128(term);
        let (mut count, mut last) = (0, 0);
        older_rows += postings::each(rows, term, row, &mut |id, at| {
            are_sound &= id > last;
            (count, last) = (count + 1, id);
            postings.add_of(id, 1, posting_hash(term, at));
            terms.add_of(id, 1, term_hash);
        });
        are_sound &= count == postings::documents_of(row);
        if number != 0 {
            numbered += 1;
            let stored_terms = term_dictionary::terms(rows, &[number]);
            are_sound &= number <= last_term && stored_terms.is_some_and(|stored_terms| stored_terms[0] == term);
        }
    });
    are_sound &= older_rows == rows.count(b"p", b"q") && numbered == term_dictionary::count(rows);
    are_sound.then_some((postings, terms))
}
