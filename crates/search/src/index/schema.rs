//! The fields of an index and how each is searched.

use crate::error::SearchError;
use crate::index::vector_kind::VectorKind;
use crate::text::analysis::{Language, Phonetics, StopWords, Synonyms};
use crate::text::shapes::System;

/// Most fields of an index.
pub const FIELDS_MAX: usize = 1024;

/// Most TEXT fields of an index: each is a bit of a mask.
pub const TEXT_FIELDS_MAX: usize = 128;

/// The TEXT fields that contain a word, or that are searched for it: one bit each.
pub type FieldMask = u128;

/// Every TEXT field, including fields that are added later.
pub const ALL_FIELDS: FieldMask = FieldMask::MAX;

/// How a field is searched.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// Words with their positions.
    Text {
        /// The weight of a word here, at least 1 in the count of a document's tokens.
        weight: f64,
        /// Stems of its words are not indexed.
        no_stem: bool,
    },
    /// Whole values.
    Tag {
        /// The byte between two values in one field; nothing if the whole is one value.
        separator: Option<u8>,
        /// Upper and lower case differ.
        case_sensitive: bool,
    },
    /// Numbers, in ranges.
    Numeric,
    /// Places, in circles.
    Geo,
    /// Points and polygons, by their relation to another shape.
    Shape(System),
    /// Vectors, by nearness.
    Vector(VectorKind),
}

impl FieldKind {
    /// The word for it in a schema.
    pub fn name(&self) -> &'static str {
        match self {
            FieldKind::Text { .. } => "TEXT",
            FieldKind::Tag { .. } => "TAG",
            FieldKind::Numeric => "NUMERIC",
            FieldKind::Geo => "GEO",
            FieldKind::Shape(_) => "GEOSHAPE",
            FieldKind::Vector(_) => "VECTOR",
        }
    }
}

/// A field of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The path of its value in a key: the name of a hash's field.
    pub path: String,
    /// Its name in queries.
    pub name: String,
    /// How it is searched.
    pub kind: FieldKind,
    /// Its value is kept with the document, for sorting and aggregation.
    pub sortable: bool,
    /// The value kept for sorting retains its case.
    pub keeps_case: bool,
    /// Kept for sorting, not searched.
    pub no_index: bool,
    /// Queries can match documents without the field.
    pub index_missing: bool,
    /// Empty values of TAG and TEXT are indexed.
    pub index_empty: bool,
    /// Words of a TEXT field are found by how they sound, too.
    pub phonetics: Option<Phonetics>,
}

impl Field {
    /// A field with the same path and name, without options.
    pub fn new(name: &str, kind: FieldKind) -> Field {
        Field {
            path: name.into(),
            name: name.into(),
            kind,
            sortable: false,
            keeps_case: false,
            no_index: false,
            index_missing: false,
            index_empty: false,
            phonetics: None,
        }
    }

    /// A TEXT field with this weight.
    pub fn text(name: &str, weight: f64) -> Field {
        let no_stem = false;
        Field::new(name, FieldKind::Text { weight, no_stem })
    }

    /// A TAG field with the separator of hashes.
    pub fn tag(name: &str) -> Field {
        let (separator, case_sensitive) = (Some(b','), false);
        Field::new(
            name,
            FieldKind::Tag {
                separator,
                case_sensitive,
            },
        )
    }

    /// A NUMERIC field.
    pub fn numeric(name: &str) -> Field {
        Field::new(name, FieldKind::Numeric)
    }
}

/// The fields of an index and what holds for all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    fields: Vec<Field>,
    /// The language of documents and queries.
    pub language: Language,
    /// Words that are no terms.
    pub stop_words: StopWords,
    /// Words that mean the same.
    pub synonyms: Synonyms,
}

impl Schema {
    /// Builds a schema of these fields, in their order. Refuses repeated names, and more fields
    /// than the limit.
    pub fn new(fields: Vec<Field>) -> Result<Schema, SearchError> {
        let mut schema = Schema::default();
        schema.add(fields)?;
        Ok(schema)
    }

    /// Appends fields. On an error the schema is unchanged.
    pub fn add(&mut self, fields: Vec<Field>) -> Result<(), SearchError> {
        let mut all = self.fields.clone();
        for field in fields {
            if all.iter().any(|other| other.name == field.name) {
                let text = format!("Duplicate field in schema - {}", field.name);
                return Err(SearchError::Arguments(text));
            }
            all.push(field);
        }
        let texts = all.iter().filter(|field| matches!(field.kind, FieldKind::Text { .. }));
        if texts.count() > TEXT_FIELDS_MAX {
            let text = format!("Schema is limited to {TEXT_FIELDS_MAX} TEXT fields");
            return Err(SearchError::Limit(text));
        }
        if all.len() > FIELDS_MAX {
            return Err(SearchError::Limit(format!("Schema is limited to {FIELDS_MAX} fields")));
        }
        self.fields = all;
        Ok(())
    }

    /// The fields, each with its position.
    pub fn fields(&self) -> impl Iterator<Item = (u16, &Field)> {
        (0..).zip(&self.fields)
    }

    /// The field at a position that the schema gave.
    pub fn field(&self, position: u16) -> &Field {
        &self.fields[usize::from(position)]
    }

    /// The field of this name.
    pub fn find(&self, name: &[u8]) -> Option<(u16, &Field)> {
        self.fields().find(|(_, field)| field.name.as_bytes() == name)
    }

    /// The bit of the TEXT field at a position.
    pub fn bit(&self, position: u16) -> FieldMask {
        let before = self.fields[..usize::from(position)].iter();
        let texts = before
            .filter(|field| matches!(field.kind, FieldKind::Text { .. }))
            .count();
        1 << texts
    }

    /// The TEXT fields with their bits.
    pub fn texts(&self) -> impl Iterator<Item = (FieldMask, &Field)> {
        let texts = self
            .fields
            .iter()
            .filter(|field| matches!(field.kind, FieldKind::Text { .. }));
        (0..).map(|bit: u32| 1 << bit).zip(texts)
    }

    /// The bits of TEXT fields whose words have stems.
    pub fn stemmed(&self) -> FieldMask {
        let stemmed = self
            .texts()
            .filter(|(_, field)| !matches!(field.kind, FieldKind::Text { no_stem: true, .. }));
        stemmed.fold(0, |mask, (bit, _)| mask | bit)
    }

    /// The bits of TEXT fields whose words are found by how they sound.
    pub fn phonetic(&self) -> FieldMask {
        let phonetic = self.texts().filter(|(_, field)| field.phonetics.is_some());
        phonetic.fold(0, |mask, (bit, _)| mask | bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_text_fields() {
        let fields = vec![Field::text("a", 1.0), Field::tag("b"), Field::text("c", 1.0)];
        let mut schema = Schema::new(fields).unwrap();
        assert_eq!((schema.bit(0), schema.bit(2)), (1, 2));
        let refused = schema.add(vec![Field::numeric("b")]).unwrap_err();
        assert_eq!(refused.text(), "SEARCH_PARSE_ARGS Duplicate field in schema - b");
    }

    #[test]
    fn a_schema_is_bounded() {
        let texts = |count| (0..count).map(|at| Field::text(&at.to_string(), 1.0)).collect();
        assert!(Schema::new(texts(TEXT_FIELDS_MAX)).is_ok());
        assert!(Schema::new(texts(TEXT_FIELDS_MAX + 1)).is_err());
        let numbers = (0..=FIELDS_MAX).map(|at| Field::numeric(&at.to_string())).collect();
        assert!(Schema::new(numbers).is_err());
    }
}
