//! A key's values as the index has them.

use std::collections::BTreeMap;

use crate::index::document::Document;
use crate::upstash::analysis::Analyzer;
use crate::upstash::request::Clause;
use crate::upstash::schema::{FieldType, Schema, TypedField};
use crate::upstash::value::{Value, beginnings, facet};

/// A value that a key holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Given<'g> {
    /// A hash's value, which a field reads as its type does.
    Raw(&'g str),
    /// A string of a document.
    Text(&'g str),
    /// A truth.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Another number.
    Double(f64),
}

/// Analyses what `values` gives for each field. Values that do not fit their field are passed over,
/// as Upstash does.
pub fn document<'g>(schema: &Schema, key: &[u8], mut values: impl FnMut(&TypedField) -> Vec<Given<'g>>) -> Document {
    let analyzer = Analyzer::new(schema.language);
    let mut document = Document::default();
    document.key = key.to_vec();
    document.score = 1.0;
    for (number, field) in schema.fields() {
        let field_values = values(field);
        let count = match field.kind {
            FieldType::Text { .. } => add_texts(&mut document, &analyzer, number, field.kind, &field_values),
            kind => add_values(&mut document, number, kind, &field_values),
        };
        document.add_field_length(number, count);
    }
    document
}

/// Words of a value follow those of the value before, with one position between them.
fn add_texts(document: &mut Document, analyzer: &Analyzer, number: u16, kind: FieldType, values: &[Given<'_>]) -> u32 {
    let (mut next, mut count) = (0_u32, 0_u32);
    let mut places: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for value in values {
        let (Given::Raw(text) | Given::Text(text)) = value else {
            continue;
        };
        let mut end = next;
        for token in analyzer.tokens(kind, text) {
            let position = next.saturating_add(token.position);
            end = end.max(position.saturating_add(1));
            count = count.saturating_add(1);
            places.entry(token.term).or_default().push(position);
        }
        next = end.saturating_add(1);
    }
    for (term, positions) in places {
        document.add_term(Clause::term(number, &term), positions);
    }
    count
}

/// Returns how many values there are; of a facet its path, its beginnings and the root.
fn add_values(document: &mut Document, number: u16, kind: FieldType, values: &[Given<'_>]) -> u32 {
    let mut count = 0_u32;
    for value in values.iter().filter_map(|value| fitting(kind, value)) {
        match &value {
            Value::Text(path) if kind == FieldType::Facet => {
                for beginning in beginnings(path) {
                    document.add_value(number, beginning.as_bytes().to_vec());
                    count = count.saturating_add(1);
                }
            }
            value => document.add_value(number, value.sorted()),
        }
        count = count.saturating_add(1);
    }
    count
}

/// The value as one of this type; nothing if it does not fit.
fn fitting(kind: FieldType, value: &Given<'_>) -> Option<Value> {
    Some(match (kind, value) {
        (_, Given::Raw(text)) => return Value::of_text(kind, text),
        (FieldType::U64, Given::Integer(number)) => Value::U64(u64::try_from(*number).ok()?),
        (FieldType::U64, Given::Double(number))
            if number.fract() == 0.0 && (0.0..18_446_744_073_709_551_616.0).contains(number) =>
        {
            Value::U64(*number as u64)
        }
        (FieldType::I64, Given::Integer(number)) => Value::I64(*number),
        (FieldType::I64, Given::Double(number))
            if number.fract() == 0.0 && number.abs() < 9_223_372_036_854_775_808.0 =>
        {
            Value::I64(*number as i64)
        }
        (FieldType::F64, Given::Integer(number)) => Value::F64(*number as f64),
        (FieldType::F64, Given::Double(number)) if number.is_finite() => Value::F64(*number),
        (FieldType::Bool, Given::Bool(truth)) => Value::Bool(*truth),
        (FieldType::Date, Given::Text(text)) => return Value::of_text(kind, text),
        (FieldType::Keyword, Given::Text(text)) => Value::Text((*text).to_owned()),
        (FieldType::Facet, Given::Text(text)) => Value::Text(facet(text)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::document::DocumentRow;
    use crate::text::analysis::Language;

    fn schema(kinds: &[&str]) -> Schema {
        let fields = kinds.iter().enumerate().map(|(at, kind)| TypedField {
            name: format!("f{at}"),
            kind: FieldType::of_name(kind).unwrap(),
            fast: true,
            from: None,
        });
        Schema::new(fields.collect(), Language::English).unwrap()
    }

    fn values(row: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let mut read = DocumentRow::read(row);
        read.field_lengths(|_, _| {});
        let mut terms = Vec::new();
        read.values(|field, value| terms.push((field, value.to_vec())));
        terms
    }

    #[test]
    fn words_and_values_have_their_fields() {
        let schema = schema(&["TEXT", "I64", "FACET"]);
        let document = document(&schema, b"k", |field| match field.name.as_str() {
            "f0" => vec![Given::Text("Red fox"), Given::Integer(4), Given::Text("fox")],
            "f1" => vec![
                Given::Integer(-3),
                Given::Text("5"),
                Given::Double(2.5),
                Given::Double(7.0),
            ],
            _ => vec![Given::Text("/a/b"), Given::Text("none")],
        });
        let row = document.to_row();
        let mut read = DocumentRow::read(&row);
        let mut terms = Vec::new();
        read.terms(|term, at| terms.push((term.to_vec(), at.positions())));
        assert_eq!(
            terms,
            [(Clause::term(0, "fox"), vec![1, 3]), (Clause::term(0, "red"), vec![0])]
        );
        let mut lengths = Vec::new();
        read.field_lengths(|field, length| lengths.push((field, length)));
        assert_eq!(lengths, [(0, 3), (1, 2), (2, 3)]);
        let sorted = |number| Value::I64(number).sorted();
        assert_eq!(
            values(&row),
            [
                (1, sorted(-3)),
                (1, sorted(7)),
                (2, b"/a".to_vec()),
                (2, b"/a/b".to_vec())
            ]
        );
    }

    #[test]
    fn a_hash_holds_texts_that_are_read() {
        let schema = schema(&["U64", "F64", "BOOL", "DATE", "KEYWORD"]);
        for (text, expected) in [
            ("1", 4),
            ("2.5", 2),
            ("true", 2),
            ("2024-01-01", 2),
            ("-", 1),
            ("inf", 1),
        ] {
            let document = document(&schema, b"k", |_| vec![Given::Raw(text)]);
            assert_eq!(values(&document.to_row()).len(), expected, "{text}");
        }
    }
}
