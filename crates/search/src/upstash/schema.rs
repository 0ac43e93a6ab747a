//! The fields of an index and their types.

use crate::text::analysis::Language;

/// Most fields of an index.
pub const FIELDS_MAX: usize = 1024;

/// The type of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// Words, reduced to their stems unless `no_stem`; with `no_tokenize` the whole value is one
    /// term.
    Text {
        /// The value is one term, as it is.
        no_tokenize: bool,
        /// Words are terms as they are.
        no_stem: bool,
    },
    /// Whole numbers from 0.
    U64,
    /// Whole numbers.
    I64,
    /// Finite numbers.
    F64,
    /// Truths.
    Bool,
    /// Points in time, to the microsecond.
    Date,
    /// Texts that are compared as a whole.
    Keyword,
    /// Paths, found by each of their beginnings.
    Facet,
}

impl FieldType {
    /// The type of this name, in any case.
    pub fn of_name(name: &str) -> Option<FieldType> {
        Some(match name.to_ascii_uppercase().as_str() {
            "TEXT" => FieldType::Text {
                no_tokenize: false,
                no_stem: false,
            },
            "U64" => FieldType::U64,
            "I64" => FieldType::I64,
            "F64" => FieldType::F64,
            "BOOL" => FieldType::Bool,
            "DATE" => FieldType::Date,
            "KEYWORD" => FieldType::Keyword,
            "FACET" => FieldType::Facet,
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FieldType::Text { .. } => "TEXT",
            FieldType::U64 => "U64",
            FieldType::I64 => "I64",
            FieldType::F64 => "F64",
            FieldType::Bool => "BOOL",
            FieldType::Date => "DATE",
            FieldType::Keyword => "KEYWORD",
            FieldType::Facet => "FACET",
        }
    }

    /// Returns true if values are numbers.
    pub fn is_numeric(self) -> bool {
        matches!(self, FieldType::U64 | FieldType::I64 | FieldType::F64)
    }

    pub(super) fn is_text(self) -> bool {
        matches!(self, FieldType::Text { .. })
    }
}

/// A field of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedField {
    /// Its name in filters, dotted where it is a path.
    pub name: String,
    /// The type of its values.
    pub kind: FieldType,
    /// It may order results and be aggregated. KEYWORD and FACET fields always may be aggregated.
    pub fast: bool,
    /// The source of the values in a document, if it differs from the name.
    pub from: Option<String>,
}

impl TypedField {
    /// The source of the values in a document: a hash's field, or JSON members joined by dots.
    pub fn source(&self) -> &str {
        self.from.as_deref().unwrap_or(&self.name)
    }
}

/// The fields of an index, and the language of its words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    fields: Vec<TypedField>,
    /// The language of documents and filters.
    pub language: Language,
}

impl Schema {
    /// Builds a schema of these fields. Refuses an empty list, too many fields, and names that are
    /// empty or repeated.
    pub fn new(fields: Vec<TypedField>, language: Language) -> Result<Schema, String> {
        if fields.is_empty() {
            return Err("A schema has at least one field".into());
        }
        if fields.len() > FIELDS_MAX {
            return Err(format!("A schema has at most {FIELDS_MAX} fields"));
        }
        for (at, field) in fields.iter().enumerate() {
            if field.name.is_empty() || field.name.starts_with('$') {
                return Err(format!("Invalid field name: '{}'", field.name));
            }
            if fields[..at].iter().any(|other| other.name == field.name) {
                return Err(format!("Duplicate field: {}", field.name));
            }
        }
        Ok(Schema { fields, language })
    }

    /// The fields, each with its number.
    pub fn fields(&self) -> impl Iterator<Item = (u16, &TypedField)> {
        (0..).zip(&self.fields)
    }

    /// The field of a number that the schema gave.
    pub fn field(&self, number: u16) -> &TypedField {
        &self.fields[usize::from(number)]
    }

    /// The field of this name.
    pub fn find(&self, name: &str) -> Option<(u16, &TypedField)> {
        self.fields().find(|(_, field)| field.name == name)
    }
}
