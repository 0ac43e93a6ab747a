//! Values of fields that are no words. Their bytes sort as they do, so that a range of values is a
//! range of rows.

use crate::upstash::dates;
use crate::upstash::schema::FieldType;

/// A value as a field has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A value of U64.
    U64(u64),
    /// A value of I64.
    I64(i64),
    /// A value of F64; finite.
    F64(f64),
    /// A value of BOOL.
    Bool(bool),
    /// A value of DATE: microseconds since 1970.
    Date(i64),
    /// A value of KEYWORD or FACET.
    Text(String),
}

impl Value {
    /// Reads a hash's text as a field of this type does. Nothing if it does not fit.
    pub fn of_text(kind: FieldType, text: &str) -> Option<Value> {
        Some(match kind {
            FieldType::U64 => Value::U64(text.parse().ok()?),
            FieldType::I64 => Value::I64(text.parse().ok()?),
            FieldType::F64 => Value::F64(text.parse().ok().filter(|number: &f64| number.is_finite())?),
            FieldType::Bool => Value::Bool(match text {
                "true" | "1" => true,
                "false" | "0" => false,
                _ => return None,
            }),
            FieldType::Date => Value::Date(dates::parse(text)?),
            FieldType::Keyword => Value::Text(text.to_owned()),
            FieldType::Facet => Value::Text(facet(text)?),
            FieldType::Text { .. } => return None,
        })
    }

    /// The bytes in a row.
    pub fn sorted(&self) -> Vec<u8> {
        match self {
            Value::U64(number) => number.to_be_bytes().into(),
            Value::I64(number) | Value::Date(number) => sorted_integer(*number).into(),
            Value::F64(number) => sorted_float(*number).into(),
            Value::Bool(truth) => vec![u8::from(*truth)],
            Value::Text(text) => text.as_bytes().into(),
        }
    }

    /// The value of bytes that [`Value::sorted`] gave.
    pub fn of_sorted(kind: FieldType, sorted: &[u8]) -> Value {
        let number = || u64::from_be_bytes(sorted.try_into().expect("a number has eight bytes"));
        match kind {
            FieldType::U64 => Value::U64(number()),
            FieldType::I64 => Value::I64((number() ^ (1 << 63)) as i64),
            FieldType::Date => Value::Date((number() ^ (1 << 63)) as i64),
            FieldType::F64 => Value::F64(float_of(number())),
            FieldType::Bool => Value::Bool(sorted == [1]),
            FieldType::Keyword | FieldType::Facet | FieldType::Text { .. } => {
                Value::Text(String::from_utf8_lossy(sorted).into_owned())
            }
        }
    }

    /// As a number: of a date its milliseconds. Texts are none.
    pub fn number(&self) -> Option<f64> {
        Some(match self {
            Value::U64(number) => *number as f64,
            Value::I64(number) => *number as f64,
            Value::F64(number) => *number,
            Value::Bool(truth) => f64::from(u8::from(*truth)),
            Value::Date(micros) => *micros as f64 / 1000.0,
            Value::Text(_) => return None,
        })
    }
}

/// A facet's path without anything after its last part.
pub fn facet(text: &str) -> Option<String> {
    let path = text.strip_prefix('/')?;
    let parts = path.split('/').filter(|part| !part.is_empty());
    Some(parts.fold(String::new(), |path, part| path + "/" + part))
}

/// The path and its beginnings, the shortest first, without the root.
pub fn beginnings(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
    ends.chain([path.len()])
        .map(|end| &path[..end])
        .filter(|path| !path.is_empty())
}

fn sorted_integer(number: i64) -> [u8; 8] {
    (number as u64 ^ (1 << 63)).to_be_bytes()
}

fn sorted_float(number: f64) -> [u8; 8] {
    let bits = (number + 0.0).to_bits();
    let sorted = if bits >> 63 == 0 { bits ^ (1 << 63) } else { !bits };
    sorted.to_be_bytes()
}

fn float_of(sorted: u64) -> f64 {
    f64::from_bits(if sorted >> 63 == 1 { sorted ^ (1 << 63) } else { !sorted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_sort_as_values_do_and_decode() {
        let lists: [(FieldType, &[Value]); 4] = [
            (FieldType::U64, &[Value::U64(0), Value::U64(9), Value::U64(u64::MAX)]),
            (
                FieldType::I64,
                &[
                    Value::I64(i64::MIN),
                    Value::I64(-1),
                    Value::I64(0),
                    Value::I64(i64::MAX),
                ],
            ),
            (
                FieldType::F64,
                &[Value::F64(-1e300), Value::F64(-0.5), Value::F64(0.0), Value::F64(2.0)],
            ),
            (FieldType::Date, &[Value::Date(-1), Value::Date(0), Value::Date(1)]),
        ];
        for (kind, values) in lists {
            let sorted: Vec<_> = values.iter().map(Value::sorted).collect();
            assert!(sorted.is_sorted());
            for (value, sorted) in values.iter().zip(&sorted) {
                assert_eq!(&Value::of_sorted(kind, sorted), value);
            }
        }
    }

    #[test]
    fn facets_have_beginnings() {
        assert_eq!(facet("/a//b/"), Some("/a/b".into()));
        assert_eq!(facet("a/b"), None);
        assert!(beginnings("/a/b").eq(["/a", "/a/b"]));
        assert_eq!(beginnings(&facet("/").unwrap()).count(), 0);
    }
}
