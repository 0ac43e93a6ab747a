//! The values that a key holds for a field, as the field takes them.

use std::cmp::Ordering;

use crate::index::schema::{Field, FieldKind};
use crate::index::vector_kind::VectorKind;

/// A value at a JSON path.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`: no value, and not an absent one.
    Null,
    /// `true` and `false`.
    Bool(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(Vec<u8>),
    /// An array.
    List(Vec<Json>),
    /// An object. No field takes what is in it.
    Object,
}

/// A value by which documents are sorted and grouped without looking at their keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Sortable {
    /// The value of a NUMERIC field.
    Number(f64),
    /// The value of any other field, in lower case.
    Text(Vec<u8>),
}

impl Sortable {
    /// Numbers come before texts.
    pub(crate) fn compare(&self, other: &Sortable) -> Ordering {
        match (self, other) {
            (Sortable::Number(a), Sortable::Number(b)) => a.total_cmp(b),
            (Sortable::Text(a), Sortable::Text(b)) => a.cmp(b),
            (Sortable::Number(_), Sortable::Text(_)) => Ordering::Less,
            (Sortable::Text(_), Sortable::Number(_)) => Ordering::Greater,
        }
    }
}

/// A field's values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    /// Those of TEXT, TAG, GEO and GEOSHAPE.
    Texts(Vec<Vec<u8>>),
    Numbers(Vec<f64>),
    /// Vectors one after the other.
    Vectors(Vec<u8>),
}

impl Values {
    /// A hash holds one value.
    pub fn of_bytes(field: &Field, value: Vec<u8>) -> Result<Values, String> {
        Ok(match &field.kind {
            FieldKind::Text { .. } | FieldKind::Tag { .. } | FieldKind::Geo | FieldKind::Shape(_) => {
                Values::Texts(vec![value])
            }
            FieldKind::Numeric => Values::Numbers(vec![number(&value)?]),
            FieldKind::Vector(kind) => {
                if value.len() != kind.bytes() {
                    let (is, expected) = (value.len(), kind.bytes());
                    return Err(format!(
                        "Could not add vector with blob size {is} (expected size {expected})"
                    ));
                }
                Values::Vectors(kind.stored(&value))
            }
        })
    }

    /// A JSON path leads to one value or more. Several count like one array of them.
    pub fn of_json(field: &Field, mut elements: Vec<Json>) -> Result<Values, String> {
        if let FieldKind::Vector(kind) = &field.kind {
            return vectors(kind, elements);
        }
        if matches!(field.kind, FieldKind::Shape(_)) {
            return shape(elements);
        }
        if elements.len() > 1 {
            return list(field, elements);
        }
        match (&field.kind, elements.pop()) {
            (_, None | Some(Json::Null)) => list(field, Vec::new()),
            (_, Some(Json::List(values))) => list(field, values),
            (FieldKind::Tag { .. }, Some(Json::Bool(truth))) => Ok(Values::Texts(vec![truth.to_string().into()])),
            (FieldKind::Numeric, Some(Json::Number(number))) => Ok(Values::Numbers(vec![number])),
            (kind, Some(Json::Text(text))) if *kind != FieldKind::Numeric => Ok(Values::Texts(vec![text])),
            (_, Some(other)) => Err(of_wrong_type(&other)),
        }
    }

    /// The value by which documents are sorted: the first.
    pub fn sortable(&self, field: &Field) -> Option<Sortable> {
        match self {
            Values::Texts(texts) if field.keeps_case => texts.first().map(|text| Sortable::Text(text.clone())),
            Values::Texts(texts) => texts
                .first()
                .map(|text| Sortable::Text(crate::text::analysis::folded(text))),
            Values::Numbers(numbers) => numbers.first().map(|number| Sortable::Number(*number)),
            Values::Vectors(_) => None,
        }
    }
}

fn of_wrong_type(value: &Json) -> String {
    let text = match value {
        Json::Bool(_) => "Boolean type can be represent only TAG field",
        Json::Number(_) => "Numeric type can represent only NUMERIC field",
        Json::Text(_) => "String type can represent only TEXT, TAG, GEO or GEOMETRY field",
        Json::Object => "Object type can represent only GEOMETRY fields",
        Json::List(_) | Json::Null => "Array type can represent only TEXT, TAG, NUMERIC, GEO or VECTOR fields",
    };
    format!("Invalid JSON type: {text}")
}

/// A document has one shape a field.
fn shape(mut values: Vec<Json>) -> Result<Values, String> {
    match (values.pop(), values.is_empty()) {
        (None | Some(Json::Null), true) => Ok(Values::Texts(Vec::new())),
        (Some(Json::Text(text)), true) => Ok(Values::Texts(vec![text])),
        (Some(other), true) if !matches!(other, Json::List(_)) => Err(of_wrong_type(&other)),
        (_, _) => Err("Invalid JSON type: Array type cannot represent GEOMETRY field".into()),
    }
}

/// Nulls in an array are passed over.
fn list(field: &Field, values: Vec<Json>) -> Result<Values, String> {
    let present = values.into_iter().filter(|value| *value != Json::Null);
    if field.kind == FieldKind::Numeric {
        let numbers = present.map(|value| match value {
            Json::Number(number) => Ok(number),
            _ => Err("NUMERIC fields can only contain numeric or nulls".to_owned()),
        });
        return numbers.collect::<Result<_, _>>().map(Values::Numbers);
    }
    let texts = present.map(|value| match value {
        Json::Text(text) => Ok(text),
        _ => Err("TEXT/TAG fields can only contain strings or nulls".to_owned()),
    });
    texts.collect::<Result<_, _>>().map(Values::Texts)
}

/// One array of numbers is a vector; several values are a vector each.
fn vectors(kind: &VectorKind, values: Vec<Json>) -> Result<Values, String> {
    let is_many = values.len() > 1;
    let mut vectors = Vec::new();
    for value in values {
        match value {
            Json::Null => {}
            Json::List(components) => vectors.extend(kind.stored(&vector(kind, &components)?)),
            other if is_many => return Err(format!("Invalid vector: {}", of_wrong_type(&other))),
            other => return Err(of_wrong_type(&other)),
        }
    }
    Ok(Values::Vectors(vectors))
}

fn vector(kind: &VectorKind, components: &[Json]) -> Result<Vec<u8>, String> {
    let (is, expected) = (components.len(), kind.dimensions());
    if components.is_empty() {
        return Err("Empty array for vector field on JSON document".into());
    }
    if is != expected {
        return Err(format!("Invalid vector length. Expected {expected}, got {is}"));
    }
    let mut blob = Vec::with_capacity(kind.bytes());
    for (at, component) in components.iter().enumerate() {
        let wrong = || format!("Invalid vector element at index {at}");
        let Json::Number(number) = component else {
            return Err(wrong());
        };
        kind.push(*number, &mut blob).ok_or_else(wrong)?;
    }
    Ok(blob)
}

/// Reads a number as a NUMERIC field does. Infinities are numbers, `nan` is not.
fn number(value: &[u8]) -> Result<f64, String> {
    let text = std::str::from_utf8(value).ok().map(str::trim_ascii_start);
    let number = text.and_then(|text| text.parse::<f64>().ok());
    let refused = || format!("Invalid numeric value: '{}'", String::from_utf8_lossy(value));
    number.filter(|number| !number.is_nan()).ok_or_else(refused)
}
