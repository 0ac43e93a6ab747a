//! A document's row in the index: everything needed to find the document, and to remove it again.
//!
//! ```text
//! row:     tokens, highest frequency, a byte: form of the words (2 bits), then 1 if the score is not one
//!          (1 bit); the score if it is not (8 bytes), key, parts (their bytes), words
//! parts:   the lengths of fields that have their own, each: 'f', field, length
//!          the rows beside it, each: tag of its key, field, value (a vector's or shape's stands in its own row
//!          only; 'N' is a number without a fraction, as a varint)
//!          sortable values, each: 's', field, value
//! words:   form 0: each: term, occurrences
//!          form 1: fingerprint (16 bytes), then the numbers of the terms, ascending, each as the distance to
//!          that before
//!          form 2: fingerprint (16 bytes), each: term
//! occurrences:  a byte: form (2 bits), fields (6 bits; 63: they follow)
//!          form 0: frequency, positions (their bytes; each is the distance to the last)
//!          form 1: one position; the frequency is one
//!          form 2: positions (their bytes), as many as the frequency says
//! ```
//!
//! The row holds the document's words before they are settled into postings. After that it names
//! the postings to remove together with the document: by the numbers of its terms, which take a
//! fifth of the bytes of its words, or, if the terms are few or long, by the terms themselves. The
//! row that a removed document leaves names them in the same way: a deletion writes it to the log,
//! which may have little room left on the disk.
//! The fingerprint represents the words: a sum of hashes, one for each term with its occurrences.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_128;

use crate::encoding::{Cursor, push_bytes, push_number};
use crate::error::IndexingFailure;
use crate::index::layout::{
    TERM_BYTES_MAX as KEY_TERM_BYTES_MAX, bounded, missing_row, number_row, place_row, shape_row, tag_row, vector_row,
};
use crate::index::schema::{Field, FieldKind, FieldMask, Schema};
use crate::index::term_dictionary::{TERM_BYTES_MAX, TermNumber};
use crate::index::values::Values;
pub use crate::index::values::{Json, Sortable};
use crate::rows::DocumentId;
use crate::text::analysis::{Phonetics, STEM_PREFIX, STEMMED_BYTES_MIN, Stemmer, folded, tokens};
use crate::text::geo::{Cell, Place};
use crate::text::shapes::Shape;

/// The gap in positions between two values of one field, which no phrase spans.
pub(crate) const POSITIONS_BETWEEN_VALUES: u32 = 99;

/// The occurrences of a term in a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occurrences {
    /// How often, counted by the weights of the fields.
    pub frequency: u32,
    /// The fields that contain it.
    pub fields: FieldMask,
    /// Positions of its words among all of the document, ascending, the first is 1.
    pub positions: Vec<u32>,
}

/// A value with a row of its own, beside the document's words.
#[derive(Clone, Debug, PartialEq)]
enum Beside {
    Tag(u16, Vec<u8>),
    Number(u16, f64),
    Place(u16, Cell),
    Shape(u16, Vec<u8>),
    Missing(u16),
    Vector {
        field: u16,
        vectors: Vec<u8>,
        has_graph: bool,
    },
}

/// A TEXT field, as its words are indexed.
struct TextField<'t> {
    /// Its bit in masks of fields.
    bit: FieldMask,
    weight: f64,
    /// `None`: stems are not indexed.
    stemmer: Option<&'t Stemmer>,
    /// `None`: sounds are not indexed.
    sounds: Option<Phonetics>,
}

/// A key's contents as the index has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The key.
    pub key: Vec<u8>,
    /// Its weight among documents, from 0 to 1.
    pub score: f64,
    /// Bytes of the values that it was made of, if that was counted.
    pub bytes: usize,
    /// How many tokens it has, counted by the weights of the fields.
    pub length: u32,
    /// The frequency of its most frequent term.
    pub frequency_max: u32,
    terms: BTreeMap<Vec<u8>, Occurrences>,
    /// The lengths of fields with a count of their own.
    field_lengths: Vec<(u16, u32)>,
    beside: Vec<Beside>,
    sortables: Vec<(u16, Sortable)>,
}

impl Document {
    /// Analyses what `value` gives for each field of the schema, as a hash holds it. A value that
    /// does not fit its field refuses the whole document, as the original does.
    pub fn new(
        schema: &Schema,
        key: &[u8],
        mut value: impl FnMut(&Field) -> Option<Vec<u8>>,
    ) -> Result<Document, IndexingFailure> {
        Document::of_values(schema, key, |field| {
            value(field).map(|value| Values::of_bytes(field, value)).transpose()
        })
    }

    /// The same for what JSON paths lead to: nothing, one value or several.
    pub fn of_json(
        schema: &Schema,
        key: &[u8],
        mut values_of: impl FnMut(&Field) -> Vec<Json>,
    ) -> Result<Document, IndexingFailure> {
        Document::of_values(schema, key, |field| {
            let values = Some(values_of(field)).filter(|values| !values.is_empty());
            values.map(|values| Values::of_json(field, values)).transpose()
        })
    }

    fn of_values(
        schema: &Schema,
        key: &[u8],
        mut values: impl FnMut(&Field) -> Result<Option<Values>, String>,
    ) -> Result<Document, IndexingFailure> {
        let mut document = Document {
            key: key.to_vec(),
            score: 1.0,
            ..Document::default()
        };
        let stemmer = Stemmer::new(schema.language);
        let mut position = 0;
        for (at, field) in schema.fields() {
            let failure = |reason| IndexingFailure { field: at, reason };
            match values(field).map_err(failure)? {
                Some(values) => document.add(schema, &stemmer, &mut position, at, field, values)?,
                None if field.index_missing => document.beside.push(Beside::Missing(at)),
                None => {}
            }
        }
        Ok(document)
    }

    fn add(
        &mut self,
        schema: &Schema,
        stemmer: &Stemmer,
        position: &mut u32,
        at: u16,
        field: &Field,
        values: Values,
    ) -> Result<(), IndexingFailure> {
        if field.sortable {
            self.sortables.extend(values.sortable(field).map(|value| (at, value)));
        }
        if field.no_index {
            return Ok(());
        }
        match (&field.kind, values) {
            (FieldKind::Text { weight, no_stem }, Values::Texts(texts)) => {
                let text_field = TextField {
                    bit: schema.bit(at),
                    weight: *weight,
                    stemmer: (!no_stem).then_some(stemmer),
                    sounds: field.phonetics,
                };
                for (number, text) in texts.iter().enumerate() {
                    if number > 0 {
                        *position = position.saturating_add(POSITIONS_BETWEEN_VALUES);
                    }
                    self.add_text(schema, &text_field, position, text);
                    if text.is_empty() && field.index_empty {
                        self.add_word(b"", 0, text_field.bit, 1);
                    }
                }
            }
            (FieldKind::Tag { .. }, Values::Texts(texts)) => {
                let values = distinct(texts.iter().flat_map(|text| tags(field, text)));
                self.beside
                    .extend(values.into_iter().map(|value| Beside::Tag(at, value)));
            }
            (FieldKind::Geo, Values::Texts(texts)) => {
                let cells: Result<Vec<Cell>, String> = texts.iter().map(|text| cell_of_text(text)).collect();
                let cells = cells.map_err(|reason| IndexingFailure { field: at, reason })?;
                self.beside
                    .extend(distinct(cells).into_iter().map(|cell| Beside::Place(at, cell)));
            }
            (FieldKind::Shape(system), Values::Texts(texts)) => {
                for text in texts {
                    let shape = Shape::parse(&text, *system).map_err(|reason| IndexingFailure {
                        field: at,
                        reason: format!("Error indexing geoshape: {reason}"),
                    })?;
                    self.beside.push(Beside::Shape(at, shape.to_row()));
                }
            }
            (_, Values::Numbers(mut numbers)) => {
                numbers.sort_by(f64::total_cmp);
                numbers.dedup();
                self.beside
                    .extend(numbers.into_iter().map(|number| Beside::Number(at, number)));
            }
            (FieldKind::Vector(kind), Values::Vectors(vectors)) if !vectors.is_empty() => {
                self.beside.push(Beside::Vector {
                    field: at,
                    vectors,
                    has_graph: kind.graph().is_some(),
                })
            }
            _ => {}
        }
        Ok(())
    }

    fn add_text(&mut self, schema: &Schema, field: &TextField<'_>, position: &mut u32, text: &[u8]) {
        let TextField { bit, weight, .. } = *field;
        let counts = |weight: f64| (weight as u32).max(1);
        for word in tokens(text).filter(|word| !schema.stop_words.contains(word)) {
            *position = position.saturating_add(1);
            self.length = self.length.saturating_add(counts(weight));
            self.add_word(&word, *position, bit, counts(weight));
            for term in schema.synonyms.of(&word) {
                self.add_word(&term, *position, bit, counts(weight));
            }
            if let Some(term) = field.sounds.and_then(|sounds| sounds.of_word(&word)) {
                self.add_word(&term, *position, bit, counts(weight));
            }
            let Some(stemmer) = field.stemmer.filter(|_| word.len() >= STEMMED_BYTES_MIN) else {
                continue;
            };
            let stem = stemmer.stem(&word);
            if stem != word {
                let term = [&[STEM_PREFIX], &stem[..]].concat();
                self.add_word(&term, *position, bit, counts(weight / 5.0));
            }
        }
    }

    fn add_word(&mut self, term: &[u8], position: u32, field: FieldMask, counts: u32) {
        let occurrences = match self.terms.get_mut(term) {
            Some(occurrences) => occurrences,
            None => self.terms.entry(term.to_vec()).or_default(),
        };
        occurrences.frequency = occurrences.frequency.saturating_add(counts);
        occurrences.fields |= field;
        occurrences.positions.push(position);
        self.frequency_max = self.frequency_max.max(occurrences.frequency);
    }

    /// Adds a term with these positions, ascending, in a field of its own.
    pub(crate) fn add_term(&mut self, term: Vec<u8>, positions: Vec<u32>) {
        let frequency = positions.len() as u32;
        self.frequency_max = self.frequency_max.max(frequency);
        let occurrences = Occurrences {
            frequency,
            fields: 1,
            positions,
        };
        self.terms.insert(term, occurrences);
    }

    /// Adds a value of a field, as bytes that sort as the values do.
    pub(crate) fn add_value(&mut self, field: u16, value: Vec<u8>) {
        self.beside.push(Beside::Tag(field, value));
    }

    /// Sets the number of words or values of a field that is scored by only its own length.
    pub(crate) fn add_field_length(&mut self, field: u16, length: u32) {
        if length > 0 {
            self.length = self.length.saturating_add(length);
            self.field_lengths.push((field, length));
        }
    }

    /// The lengths of fields that have their own.
    pub(crate) fn field_lengths(&self) -> &[(u16, u32)] {
        &self.field_lengths
    }

    /// The row of the document.
    pub(crate) fn to_row(&self) -> Vec<u8> {
        let mut row = Vec::with_capacity(64 + self.terms.len() * 12);
        push_number(&mut row, self.length.into());
        push_number(&mut row, self.frequency_max.into());
        push_score(&mut row, WITH_OCCURRENCES, self.score);
        push_bytes(&mut row, &self.key);
        push_bytes(&mut row, &self.parts());
        for (term, occurrences) in &self.terms {
            push_bytes(&mut row, term);
            push_occurrences(&mut row, occurrences);
        }
        row
    }

    /// All that the row holds beside the words.
    fn parts(&self) -> Vec<u8> {
        let mut parts = Vec::new();
        for (field, length) in &self.field_lengths {
            parts.push(b'f');
            push_number(&mut parts, (*field).into());
            push_number(&mut parts, (*length).into());
        }
        self.beside.iter().for_each(|beside| beside.push(&mut parts));
        self.sortables
            .iter()
            .for_each(|(field, value)| push_sortable(&mut parts, *field, value));
        parts
    }

    /// The vectors of fields without a graph.
    pub(crate) fn vectors_without_graph(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.beside.iter().filter_map(|beside| match beside {
            Beside::Vector {
                field,
                vectors,
                has_graph: false,
            } => Some((*field, vectors.as_slice())),
            _ => None,
        })
    }

    /// The rows beside the document's own, with their values.
    pub(crate) fn rows_beside(&self, id: DocumentId) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
        self.beside.iter().map(move |beside| (beside.row(id), beside.value()))
    }
}

/// The different values, ascending.
fn distinct<T: Ord>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort();
    values.dedup();
    values
}

/// The cell of the grid at a text's place.
fn cell_of_text(text: &[u8]) -> Result<Cell, String> {
    let place = Place::parse(text).ok_or_else(|| "Invalid geo string".to_owned());
    place.and_then(|place| place.cell())
}

/// The values of a TAG field in one text.
fn tags<'t>(field: &'t Field, text: &'t [u8]) -> impl Iterator<Item = Vec<u8>> + 't {
    let FieldKind::Tag {
        separator,
        case_sensitive,
    } = field.kind
    else {
        unreachable!("only TAG fields have tags");
    };
    let values = text.split(move |byte| Some(*byte) == separator).map(<[u8]>::trim_ascii);
    let values = values.filter(|value| !value.is_empty() || field.index_empty);
    values.map(move |value| if case_sensitive { value.to_vec() } else { folded(value) })
}

impl Beside {
    fn row(&self, id: DocumentId) -> Vec<u8> {
        match self {
            Beside::Tag(field, value) => tag_row(*field, value, id),
            Beside::Number(field, number) => number_row(*field, *number, id),
            Beside::Place(field, cell) => place_row(*field, *cell, id),
            Beside::Shape(field, _) => shape_row(*field, id),
            Beside::Missing(field) => missing_row(*field, id),
            Beside::Vector { field, .. } => vector_row(*field, id),
        }
    }

    fn value(&self) -> &[u8] {
        match self {
            Beside::Vector { vectors, .. } => vectors,
            Beside::Shape(_, value) => value,
            _ => b"",
        }
    }

    /// Only the own row of a vector or shape holds it.
    fn push(&self, row: &mut Vec<u8>) {
        let (tag, field) = match self {
            Beside::Tag(field, _) => (b'g', *field),
            Beside::Number(field, number) if integer_of(*number).is_some() => (b'N', *field),
            Beside::Number(field, _) => (b'n', *field),
            Beside::Place(field, _) => (b'l', *field),
            Beside::Shape(field, _) => (b'o', *field),
            Beside::Missing(field) => (b'i', *field),
            Beside::Vector { field, .. } => (b'v', *field),
        };
        row.push(tag);
        push_number(row, field.into());
        match self {
            Beside::Tag(_, value) => push_bytes(row, value),
            Beside::Number(_, number) => match integer_of(*number) {
                Some(integer) => push_number(row, integer.into()),
                None => row.extend(number.to_be_bytes()),
            },
            Beside::Place(_, cell) => row.extend(cell.0.to_be_bytes()),
            Beside::Missing(_) | Beside::Shape(..) | Beside::Vector { .. } => {}
        }
    }
}

/// A number that is written as a varint: one of up to 53 bits, without a sign and a fraction.
fn integer_of(number: f64) -> Option<u64> {
    let integer = number as u64;
    (integer < 1 << 53 && (integer as f64).to_bits() == number.to_bits()).then_some(integer)
}

fn push_sortable(row: &mut Vec<u8>, field: u16, value: &Sortable) {
    row.push(b's');
    push_number(row, field.into());
    match value {
        Sortable::Number(number) => {
            row.push(1);
            row.extend(number.to_be_bytes());
        }
        Sortable::Text(text) => {
            row.push(0);
            push_bytes(row, text);
        }
    }
}

/// Appends the occurrences of a term in one document. Postings have the same format.
fn push_occurrences(out: &mut Vec<u8>, occurrences: &Occurrences) {
    let mut positions = Vec::with_capacity(occurrences.positions.len());
    let mut last = 0;
    for &position in &occurrences.positions {
        push_number(&mut positions, u128::from(position - last));
        last = position;
    }
    let row = OccurrencesRow {
        frequency: occurrences.frequency,
        fields: occurrences.fields,
        positions: &positions,
    };
    row.push(out);
}

/// The bits of an occurrence's first byte that hold its form.
const FORM_BITS: u32 = 2;
/// First byte of a mask in the bytes after it.
const FIELDS_APART: u8 = u8::MAX >> FORM_BITS;

/// The form of an occurrence. Forms are interchangeable, as far as the fields of the term allow.
const WHOLE: u8 = 0;
const ONE_POSITION: u8 = 1;
const COUNTED_BY_POSITIONS: u8 = 2;

/// The count of numbers in `bytes`.
fn number_count(bytes: &[u8]) -> u32 {
    bytes.iter().filter(|byte| **byte < 0x80).count() as u32
}

#[cfg(test)]
impl Occurrences {
    /// As a row has them.
    pub(crate) fn to_row(&self) -> Vec<u8> {
        let mut row = Vec::new();
        push_occurrences(&mut row, self);
        row
    }
}

/// The occurrences of a term in one document, as bytes that are decoded on demand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OccurrencesRow<'a> {
    pub frequency: u32,
    pub fields: FieldMask,
    /// As they are stored.
    pub positions: &'a [u8],
}

impl<'a> OccurrencesRow<'a> {
    #[inline]
    pub fn read(cursor: &mut Cursor<'a>) -> OccurrencesRow<'a> {
        let first = cursor.take(1)[0];
        let fields = match first >> FORM_BITS {
            FIELDS_APART => cursor.number(),
            fields => fields.into(),
        };
        let form = first & !(u8::MAX << FORM_BITS);
        if form == ONE_POSITION {
            let positions = cursor.number_bytes();
            return OccurrencesRow {
                frequency: 1,
                fields,
                positions,
            };
        }
        let written = (form == WHOLE).then(|| cursor.number() as u32);
        let positions = cursor.bytes();
        OccurrencesRow {
            frequency: written.unwrap_or_else(|| number_count(positions)),
            fields,
            positions,
        }
    }

    /// Appends it as it is stored.
    pub fn push(&self, out: &mut Vec<u8>) {
        let form = match number_count(self.positions) == self.frequency {
            true if self.frequency == 1 => ONE_POSITION,
            true => COUNTED_BY_POSITIONS,
            false => WHOLE,
        };
        match u8::try_from(self.fields).ok().filter(|fields| *fields < FIELDS_APART) {
            Some(fields) => out.push(fields << FORM_BITS | form),
            None => {
                out.push(FIELDS_APART << FORM_BITS | form);
                push_number(out, self.fields);
            }
        }
        if form == WHOLE {
            push_number(out, self.frequency.into());
        }
        match form {
            ONE_POSITION => out.extend(self.positions),
            _ => push_bytes(out, self.positions),
        }
    }

    pub fn positions(&self) -> Vec<u32> {
        let mut positions = Vec::new();
        self.add_positions(&mut positions);
        positions
    }

    pub fn add_positions(&self, positions: &mut Vec<u32>) {
        let (mut cursor, mut last) = (Cursor(self.positions), 0);
        while !cursor.is_at_end() {
            last += cursor.number() as u32;
            positions.push(last);
        }
    }

    pub fn to_owned(self) -> Occurrences {
        Occurrences {
            frequency: self.frequency,
            fields: self.fields,
            positions: self.positions(),
        }
    }
}

/// The form of the words in a row.
const WITH_OCCURRENCES: u8 = 0;
const NUMBERS: u8 = 1;
const TERMS_ALONE: u8 = 2;
const WORDS_BITS: u8 = 3;
/// Set beside that if there is a score.
const HAS_SCORE: u8 = 4;

fn push_score(row: &mut Vec<u8>, form: u8, score: f64) {
    match score == 1.0 {
        true => row.push(form),
        false => {
            row.push(form | HAS_SCORE);
            row.extend(score.to_be_bytes());
        }
    }
}

/// Documents of fewer terms keep their words when they are settled.
const NUMBERED_TERMS_MIN: usize = 4;

/// Represents the words of a document in the memory of two numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    pub terms: u64,
    /// The sum of [`posting_hash`].
    pub hashes: u128,
}

/// The hash of a term, as in keys, and of its occurrences in a document.
pub(crate) fn posting_hash(bounded: &[u8], at: OccurrencesRow<'_>) -> u128 {
    let mut bytes = Vec::with_capacity(32 + bounded.len());
    push_number(&mut bytes, at.frequency.into());
    push_number(&mut bytes, at.fields);
    push_bytes(&mut bytes, at.positions);
    bytes.extend(bounded);
    xxh3_128(&bytes)
}

/// A document's row, read part by part.
pub(crate) struct DocumentRow<'a> {
    pub length: u32,
    pub frequency_max: u32,
    pub score: f64,
    pub key: &'a [u8],
    parts: Cursor<'a>,
    /// The form of the words.
    form: u8,
    /// Zeros if the row has the words themselves.
    hashes: u128,
    words: &'a [u8],
}

impl<'a> DocumentRow<'a> {
    pub fn read(row: &'a [u8]) -> DocumentRow<'a> {
        let mut cursor = Cursor(row);
        let (length, frequency_max) = (cursor.number() as u32, cursor.number() as u32);
        let flags = cursor.take(1)[0];
        let score = if flags & HAS_SCORE == 0 { 1.0 } else { cursor.float() };
        let (key, parts) = (cursor.bytes(), Cursor(cursor.bytes()));
        let form = flags & WORDS_BITS;
        let hashes = match form {
            WITH_OCCURRENCES => 0,
            _ => u128::from_be_bytes(cursor.take(16).try_into().expect("sixteen bytes")),
        };
        DocumentRow {
            length,
            frequency_max,
            score,
            key,
            parts,
            form,
            hashes,
            words: cursor.0,
        }
    }

    /// The row with its words in another form.
    fn with_words(&self, form: u8, parts: &[u8], words: &[u8]) -> Vec<u8> {
        let mut row = Vec::with_capacity(64 + self.key.len() + parts.len() + words.len());
        push_number(&mut row, self.length.into());
        push_number(&mut row, self.frequency_max.into());
        push_score(&mut row, form, self.score);
        push_bytes(&mut row, self.key);
        push_bytes(&mut row, parts);
        row.extend(self.fingerprint().hashes.to_be_bytes());
        row.extend(words);
        row
    }

    /// Returns true if the row gets the numbers of its terms in place of its words when it is
    /// settled.
    pub fn takes_numbers(&self) -> bool {
        let (mut count, mut is_long) = (0, false);
        self.terms(|term, _| {
            count += 1;
            is_long |= term.len() > TERM_BYTES_MAX;
        });
        count >= NUMBERED_TERMS_MIN && !is_long
    }

    /// The row of the document once it is settled; the numbers are those of its terms.
    pub fn settled(&self, mut numbers: Vec<TermNumber>) -> Vec<u8> {
        numbers.sort_unstable();
        let (mut words, mut last) = (Vec::with_capacity(2 * numbers.len()), 0);
        for number in numbers {
            push_number(&mut words, (number - last).into());
            last = number;
        }
        self.with_words(NUMBERS, self.parts.0, &words)
    }

    /// The row that a removed document leaves; None if that is its own.
    pub fn left_behind(&self) -> Option<Vec<u8>> {
        (self.form == NUMBERS).then(|| self.with_words(NUMBERS, &[], self.words))
    }

    /// The same with its terms; `terms` are the terms of its numbers.
    pub fn with_terms(&self, mut terms: Vec<Vec<u8>>) -> Vec<u8> {
        terms.sort_unstable();
        let mut words = Vec::with_capacity(8 * terms.len());
        terms.iter().for_each(|term| push_bytes(&mut words, term));
        self.with_words(TERMS_ALONE, &[], &words)
    }

    /// The numbers of its terms, ascending; None if the row has the terms themselves.
    pub fn numbers(&self) -> Option<Vec<TermNumber>> {
        if self.form != NUMBERS {
            return None;
        }
        let (mut words, mut numbers, mut last) = (Cursor(self.words), Vec::new(), 0);
        while !words.is_at_end() {
            last += words.number() as TermNumber;
            numbers.push(last);
        }
        Some(numbers)
    }

    /// Computes the fingerprint of its words.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut fingerprint = Fingerprint {
            terms: 0,
            hashes: self.hashes,
        };
        if self.form == NUMBERS {
            fingerprint.terms = number_count(self.words).into();
            return fingerprint;
        }
        self.terms(|term, at| {
            fingerprint.terms += 1;
            if self.form == WITH_OCCURRENCES {
                let hash = match term.len() <= KEY_TERM_BYTES_MAX {
                    true => posting_hash(term, at),
                    false => posting_hash(&bounded(term), at),
                };
                fingerprint.hashes = fingerprint.hashes.wrapping_add(hash);
            }
        });
        fingerprint
    }

    /// Whether both are rows of one document, settled or not.
    pub fn is_same(&self, other: &DocumentRow<'_>) -> bool {
        let head = |row: &DocumentRow<'_>| (row.length, row.frequency_max, row.score.to_bits());
        let are_words_same = || match self.form == other.form {
            true => (self.hashes, self.words) == (other.hashes, other.words),
            false => self.fingerprint() == other.fingerprint(),
        };
        head(self) == head(other) && self.key == other.key && self.parts.0 == other.parts.0 && are_words_same()
    }

    /// Visits the terms in byte order with their occurrences, which are empty for a row that has
    /// only terms. Not for a row that has only numbers.
    pub fn terms(&self, mut visit: impl FnMut(&'a [u8], OccurrencesRow<'a>)) {
        self.words().for_each(|(term, at)| visit(term, at));
    }

    fn words(&self) -> WordsRow<'a> {
        assert!(self.form != NUMBERS, "a settled document is asked for its words");
        WordsRow {
            cursor: Cursor(self.words),
            has_occurrences: self.form == WITH_OCCURRENCES,
        }
    }

    /// Visits the occurrences of these terms that the document contains; both are in byte order.
    pub fn find<'t>(&self, terms: impl Iterator<Item = &'t [u8]>, mut visit: impl FnMut(usize, OccurrencesRow<'a>)) {
        let mut terms = terms.enumerate().peekable();
        for (term, at) in self.words() {
            while terms.next_if(|(_, sought)| *sought < term).is_some() {}
            match terms.peek() {
                Some((number, sought)) if *sought == term => visit(*number, at),
                Some(_) => {}
                None => return,
            }
        }
    }

    /// The lengths of fields that have their own. Call it before all that follows them.
    pub fn field_lengths(&mut self, mut visit: impl FnMut(u16, u32)) {
        while let Some(remainder) = self.parts.0.strip_prefix(b"f") {
            self.parts = Cursor(remainder);
            let field = self.parts.number() as u16;
            visit(field, self.parts.number() as u32);
        }
    }

    /// The TAG values. Call it after `field_lengths`.
    pub fn values(&mut self, mut visit: impl FnMut(u16, &'a [u8])) {
        while let Some(remainder) = self.parts.0.strip_prefix(b"g") {
            self.parts = Cursor(remainder);
            let field = self.parts.number() as u16;
            visit(field, self.parts.bytes());
        }
    }

    /// The keys of the rows beside it. Call it after `field_lengths`.
    pub fn rows_beside(&mut self, id: DocumentId, mut visit: impl FnMut(Vec<u8>)) {
        while !self.parts.is_at_end() {
            let tag = self.parts.take(1)[0];
            let field = self.parts.number() as u16;
            match tag {
                b'g' => visit(tag_row(field, self.parts.bytes(), id)),
                b'n' => visit(number_row(field, self.parts.float(), id)),
                b'N' => visit(number_row(field, self.parts.number() as f64, id)),
                b'l' => visit(place_row(field, Cell(self.parts.fixed()), id)),
                b'o' => visit(shape_row(field, id)),
                b'i' => visit(missing_row(field, id)),
                b'v' => visit(vector_row(field, id)),
                _ => _ = read_sortable(&mut self.parts),
            }
        }
    }

    /// The value of a SORTABLE field, of a document that keeps no lengths of fields.
    pub fn sortable(&mut self, field_number: u16) -> Option<Sortable> {
        while !self.parts.is_at_end() {
            let tag = self.parts.take(1)[0];
            let field = self.parts.number() as u16;
            match tag {
                b'g' => _ = self.parts.bytes(),
                b'n' | b'l' => _ = self.parts.take(8),
                b'N' => _ = self.parts.number(),
                b'i' | b'o' | b'v' => {}
                _ => {
                    let value = read_sortable(&mut self.parts);
                    if field == field_number {
                        return Some(value);
                    }
                }
            }
        }
        None
    }
}

/// Reads the terms of a row.
struct WordsRow<'a> {
    cursor: Cursor<'a>,
    has_occurrences: bool,
}

impl<'a> Iterator for WordsRow<'a> {
    type Item = (&'a [u8], OccurrencesRow<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_at_end() {
            return None;
        }
        let term = self.cursor.bytes();
        let at = match self.has_occurrences {
            true => OccurrencesRow::read(&mut self.cursor),
            false => OccurrencesRow::default(),
        };
        Some((term, at))
    }
}

fn read_sortable(cursor: &mut Cursor<'_>) -> Sortable {
    match cursor.take(1)[0] {
        1 => Sortable::Number(cursor.float()),
        _ => Sortable::Text(cursor.bytes().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Schema {
        let mut color = Field::tag("color");
        color.index_missing = true;
        let mut price = Field::numeric("price");
        price.sortable = true;
        Schema::new(vec![Field::text("title", 1.0), Field::text("body", 3.0), color, price]).unwrap()
    }

    fn document(values: &[(&str, &str)]) -> Result<Document, IndexingFailure> {
        Document::new(&schema(), b"doc", |field| {
            let pair = values.iter().find(|(name, _)| *name == field.path);
            pair.map(|(_, value)| value.as_bytes().to_vec())
        })
    }

    #[test]
    fn words_count_by_the_weights_of_their_fields() {
        let document = document(&[("title", "hello world running runs"), ("body", "foo hello")]).unwrap();
        assert_eq!((document.length, document.frequency_max), (10, 4));
        let hello = &document.terms[&b"hello"[..]];
        assert_eq!(
            (hello.frequency, hello.fields, &hello.positions[..]),
            (4, 0b11, &[1, 6][..])
        );
        let run = &document.terms[&b"+run"[..]];
        assert_eq!((run.frequency, run.fields, &run.positions[..]), (2, 0b01, &[3, 4][..]));
    }

    #[test]
    fn a_row_gives_back_what_was_written() {
        let document = document(&[
            ("title", "the quick quick fox"),
            ("color", "Red, blue,,red"),
            ("price", "-2.5"),
        ])
        .unwrap();
        let row = document.to_row();
        let mut read = DocumentRow::read(&row);
        assert_eq!((read.key, read.score, read.length), (&b"doc"[..], 1.0, 3));
        let mut terms = Vec::new();
        read.terms(|term, occurrences| terms.push((term.to_vec(), occurrences.to_owned())));
        assert!(
            terms
                .iter()
                .map(|(term, occurrences)| (term, occurrences))
                .eq(&document.terms)
        );
        let mut beside = Vec::new();
        read.rows_beside(5, |key| beside.push(key));
        assert!(
            beside
                .iter()
                .eq(document.rows_beside(5).map(|(key, _)| key).collect::<Vec<_>>().iter())
        );
        assert_eq!(
            beside,
            [tag_row(2, b"blue", 5), tag_row(2, b"red", 5), number_row(3, -2.5, 5)]
        );
        let mut read = DocumentRow::read(&row);
        assert_eq!(read.sortable(3), Some(Sortable::Number(-2.5)));
    }

    #[test]
    fn a_settled_row_is_equal_for_equal_words() {
        let row = document(&[("title", "red green blue pink pink"), ("price", "3")])
            .unwrap()
            .to_row();
        let other = document(&[("title", "red red green blue pink"), ("price", "3")])
            .unwrap()
            .to_row();
        let (row, other) = (DocumentRow::read(&row), DocumentRow::read(&other));
        assert!(row.takes_numbers() && row.is_same(&row) && !row.is_same(&other));
        let settled = row.settled(vec![300, 7, 2, 1]);
        let settled = DocumentRow::read(&settled);
        assert!(settled.is_same(&row) && row.is_same(&settled) && !settled.is_same(&other));
        assert_eq!(settled.numbers().unwrap(), [1, 2, 7, 300]);
        assert_eq!(settled.fingerprint(), row.fingerprint());
        let remaining = settled.left_behind().unwrap();
        let remaining = DocumentRow::read(&remaining);
        assert_eq!(remaining.numbers().unwrap(), [1, 2, 7, 300]);
        let remaining = remaining.with_terms(vec![b"quick".to_vec(), b"fox".to_vec(), b"a".to_vec(), b"b".to_vec()]);
        let remaining = DocumentRow::read(&remaining);
        assert_eq!(remaining.fingerprint(), row.fingerprint());
        let mut terms = Vec::new();
        remaining.terms(|term, _| terms.push(term));
        assert_eq!(terms, [&b"a"[..], b"b", b"fox", b"quick"]);
    }

    #[test]
    fn a_value_that_does_not_fit_refuses_the_document() {
        for wrong in ["", "one", "nan", "1x"] {
            let failure = document(&[("title", "hello"), ("price", wrong)]).unwrap_err();
            assert_eq!(
                (failure.field, failure.reason),
                (3, format!("Invalid numeric value: '{wrong}'"))
            );
        }
    }

    #[test]
    fn an_absent_field_is_recorded_if_the_schema_requires_it() {
        let rows: Vec<_> = document(&[]).unwrap().rows_beside(1).map(|(key, _)| key).collect();
        assert_eq!(rows, [missing_row(2, 1)]);
    }
}
