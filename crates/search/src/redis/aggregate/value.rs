//! Values of an aggregation, and the records that hold them.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::hits::Explanation;

/// A property's value.
#[derive(Clone, Debug)]
pub enum Value {
    /// There is none.
    Null,
    /// A number.
    Number(f64),
    /// Bytes.
    Text(Vec<u8>),
    /// Several values.
    List(Vec<Value>),
    /// Values with names.
    Map(Vec<(String, Value)>),
    /// The values that a path leads to.
    Path(Box<PathValues>),
}

/// The values of a path from dialect 3 on.
#[derive(Clone, Debug)]
pub struct PathValues {
    /// The value that steps compute with, and group and sort by.
    pub first: Value,
    /// All values, as an answer shows them.
    pub shown: Vec<u8>,
}

impl Value {
    /// A value of text.
    pub fn text(text: impl Into<Vec<u8>>) -> Value {
        Value::Text(text.into())
    }

    /// The value that steps compute with.
    pub fn first(&self) -> &Value {
        match self {
            Value::Path(values) => values.first.first(),
            other => other,
        }
    }

    pub(super) fn into_first(self) -> Value {
        match self {
            Value::Path(values) => values.first,
            other => other,
        }
    }

    /// The value as a number. Text is parsed: leading white space is skipped, and empty text is
    /// zero.
    pub fn number(&self) -> Option<f64> {
        match self.first() {
            Value::Number(number) => Some(*number),
            Value::Text(text) if text.is_empty() => Some(0.0),
            Value::Text(text) => std::str::from_utf8(text.trim_ascii_start()).ok()?.parse().ok(),
            Value::Null | Value::List(_) | Value::Map(_) | Value::Path(_) => None,
        }
    }

    /// The value as a client gets it: a number with at most twelve digits, or all if it is whole.
    pub fn bytes(&self) -> Vec<u8> {
        match self.first() {
            Value::Text(text) => text.clone(),
            other => other.to_string().into_bytes(),
        }
    }

    /// Bytes that it takes beside itself, about.
    pub fn size(&self) -> usize {
        match self {
            Value::Null | Value::Number(_) => size_of::<f64>(),
            Value::Text(text) => text.len(),
            Value::List(values) => values.iter().map(|value| size_of::<Value>() + value.size()).sum(),
            Value::Map(pairs) => size_of_pairs(pairs),
            Value::Path(values) => size_of::<PathValues>() + values.first.size() + values.shown.len(),
        }
    }

    /// Becomes a copy of another value, in the memory that it has.
    pub(super) fn become_like(&mut self, other: &Value) {
        match (self, other) {
            (Value::Text(own), Value::Text(other)) => own.clone_from(other),
            (own, other) => *own = other.clone(),
        }
    }

    /// Zero, nothing and empty text are false.
    pub fn is_true(&self) -> bool {
        match self.first() {
            Value::Null | Value::Path(_) => false,
            Value::Number(number) => *number != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::List(values) => !values.is_empty(),
            Value::Map(pairs) => !pairs.is_empty(),
        }
    }

    /// Numbers by their size, a number and text by size if the text is a number, else by bytes.
    pub fn compare(&self, other: &Value) -> Ordering {
        match (self.first(), other.first()) {
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::List(a), Value::List(b)) => a.cmp(b),
            (Value::Number(_) | Value::Text(_), Value::Number(_) | Value::Text(_)) => {
                match (self.number(), other.number()) {
                    (Some(a), Some(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
                    _ => self.bytes().cmp(&other.bytes()),
                }
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self.first() {
            Value::Null | Value::Path(_) => 0,
            Value::Number(_) => 1,
            Value::Text(_) => 2,
            Value::List(_) => 3,
            Value::Map(_) => 4,
        }
    }
}

/// The order of groups. It does not mix values of different kinds.
impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        match (self.first(), other.first()) {
            (Value::Number(a), Value::Number(b)) => (a + 0.0).total_cmp(&(b + 0.0)),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::List(a), Value::List(b)) => a.cmp(b),
            (Value::Map(a), Value::Map(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self.first() {
            Value::Null | Value::Path(_) => {}
            Value::Number(number) => (number + 0.0).to_bits().hash(state),
            Value::Text(text) => text.hash(state),
            Value::List(values) => values.hash(state),
            Value::Map(pairs) => pairs.hash(state),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first() {
            Value::Null | Value::Path(_) => Ok(()),
            Value::Number(number) => write_number(*number, out),
            Value::Text(text) => write!(out, "{}", String::from_utf8_lossy(text)),
            Value::List(values) => {
                let texts: Vec<_> = values.iter().map(Value::to_string).collect();
                write!(out, "{}", texts.join(","))
            }
            Value::Map(pairs) => {
                let texts: Vec<_> = pairs.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                write!(out, "{{{}}}", texts.join(", "))
            }
        }
    }
}

/// Puts records without a value last in both directions.
pub(super) fn in_order(a: &Value, b: &Value, ascends: bool) -> Ordering {
    match (a, b) {
        (Value::Null, _) | (_, Value::Null) => (*a == Value::Null).cmp(&(*b == Value::Null)),
        _ if ascends => a.compare(b),
        _ => b.compare(a),
    }
}

/// Returns the result of a computation with `operands`. The sign of NaN is that of the first NaN
/// operand, else negative, as on the machines where the original was observed; so that it is the
/// same on all.
pub(super) fn settled(result: f64, operands: &[f64]) -> f64 {
    match result.is_nan() {
        true => operands
            .iter()
            .copied()
            .find(|operand| operand.is_nan())
            .unwrap_or(-f64::NAN),
        false => result,
    }
}

/// Bytes that values with names take, about.
pub(super) fn size_of_pairs(pairs: &[(String, Value)]) -> usize {
    let sizes = pairs.iter().map(|(name, value)| name.len() + value.size());
    size_of_val(pairs) + sizes.sum::<usize>()
}

/// Digits of a number that is not whole.
const DIGITS: i32 = 12;

/// Digits of a number that hits were sorted by.
const SORT_KEY_DIGITS: i32 = 17;

fn write_number(number: f64, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    match number == number.trunc() && number.abs() < 9.2e18 {
        true => write!(out, "{}", number as i64),
        false => write!(out, "{}", with_digits(number, DIGITS)),
    }
}

/// A number by which hits were sorted, as WITHSORTKEYS shows it: with all of its digits.
pub fn sort_key(number: f64) -> String {
    with_digits(number, SORT_KEY_DIGITS)
}

/// As C's `%.{count}g`: an exponent outside of 1e-4 to 1e`count`, and no zeros at the end.
fn with_digits(number: f64, count: i32) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{number:.*e}", count as usize - 1);
    let (digits, exponent) = scientific.split_once('e').expect("the form has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    if (-4..count).contains(&exponent) {
        let fixed = format!("{number:.*}", (count - 1 - exponent) as usize);
        return without_zeros(&fixed).into();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(digits), exponent.abs())
}

fn without_zeros(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

/// Bytes that a record takes beside its names and values, about.
const RECORD_BYTES: usize = 64;
/// Properties of a record from which they are found by hash.
const SEARCHED_MAX: usize = 64;

/// Properties of one document or group, in the order of their addition.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    properties: Vec<(String, Value)>,
    /// The position of each property, once they are many.
    places: Option<HashMap<String, usize>>,
    /// The terms by which the document was found.
    matched: Vec<Vec<u8>>,
    score: f64,
    /// Documents alone have these two, where they are asked for.
    payload: Option<Vec<u8>>,
    explanation: Option<Box<Explanation>>,
    is_of_filter: bool,
}

impl Record {
    /// A record for an index's FILTER, where a comparison with an absent property is false and not
    /// an error.
    pub fn of_filter() -> Record {
        Record {
            is_of_filter: true,
            ..Record::default()
        }
    }

    pub(super) fn is_of_filter(&self) -> bool {
        self.is_of_filter
    }

    /// The value of a property; null if it has none.
    pub fn get(&self, name: &str) -> &Value {
        self.place(name).map_or(&Value::Null, |at| &self.properties[at].1)
    }

    fn place(&self, name: &str) -> Option<usize> {
        match &self.places {
            Some(places) => places.get(name).copied(),
            None => self.properties.iter().position(|(property, _)| property == name),
        }
    }

    /// Notes the positions of the properties, if they are too many for a search.
    fn note_places(&mut self) {
        self.places = (self.properties.len() > SEARCHED_MAX).then(|| {
            let named = self.properties.iter().enumerate().rev();
            named.map(|(at, (name, _))| (name.clone(), at)).collect()
        });
    }

    /// Whether something gave the property a value, be it null.
    pub fn has(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    /// Gives a property a value.
    pub fn set(&mut self, name: &str, value: Value) {
        if let Some(at) = self.place(name) {
            self.properties[at].1 = value;
            return;
        }
        self.properties.push((name.to_owned(), value));
        match &mut self.places {
            Some(places) => drop(places.insert(name.to_owned(), self.properties.len() - 1)),
            None if self.properties.len() > SEARCHED_MAX => self.note_places(),
            None => {}
        }
    }

    /// Removes the properties with names that do not fit.
    pub fn retain(&mut self, fits: impl Fn(&str) -> bool) {
        self.properties.retain(|(name, _)| fits(name));
        self.note_places();
    }

    /// Takes all properties out.
    pub fn clear(&mut self) {
        self.properties.clear();
        self.places = None;
        self.matched.clear();
        self.score = 0.0;
        (self.payload, self.explanation) = (None, None);
    }

    /// The document's score if it was set; zero for a group.
    pub fn score(&self) -> f64 {
        self.score
    }

    /// Sets the document's score.
    pub fn set_score(&mut self, score: f64) {
        self.score = score;
    }

    /// The document's payload if it was set.
    pub fn payload(&self) -> Option<&[u8]> {
        self.payload.as_deref()
    }

    /// Sets the document's payload.
    pub fn set_payload(&mut self, payload: Option<Vec<u8>>) {
        self.payload = payload;
    }

    /// Why the document has its score, if that was set.
    pub fn explanation(&self) -> Option<&Explanation> {
        self.explanation.as_deref()
    }

    /// Sets why the document has its score.
    pub fn set_explanation(&mut self, explanation: Option<Explanation>) {
        self.explanation = explanation.map(Box::new);
    }

    /// Bytes that it takes, about.
    pub fn size(&self) -> usize {
        let pairs = self.iter().map(|(name, value)| name.len() + value.size());
        let payload_bytes = self.payload.as_ref().map_or(0, Vec::len);
        let explanation_bytes = self.explanation.as_ref().map_or(0, |explanation| explanation.size());
        RECORD_BYTES + payload_bytes + explanation_bytes + pairs.sum::<usize>()
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.properties.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The terms by which the document was found, which `matched_terms` gives.
    pub fn set_matched(&mut self, terms: Vec<Vec<u8>>) {
        self.matched = terms;
    }

    /// Those terms.
    pub fn matched(&self) -> &[Vec<u8>] {
        &self.matched
    }
}

impl FromIterator<(String, Value)> for Record {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(pairs: I) -> Record {
        let mut record = Record {
            properties: pairs.into_iter().collect(),
            ..Record::default()
        };
        record.note_places();
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the original printed them.
    #[test]
    fn numbers_are_printed_as_the_original_does() {
        let check = |number: f64, expected: &str| assert_eq!(Value::Number(number).to_string(), expected);
        check(1.0 / 3.0, "0.333333333333");
        check(0.1 + 0.2, "0.3");
        check(12345678.9, "12345678.9");
        check(0.00001, "1e-05");
        check(123456789012.0, "123456789012");
        check(1e20, "1e+20");
        check(8f64.ln(), "2.07944154168");
        check(-2.5, "-2.5");
        check(f64::NEG_INFINITY, "-inf");
        assert_eq!(sort_key(0.1), "0.10000000000000001");
        assert_eq!((sort_key(2.5), sort_key(1e17)), ("2.5".into(), "1e+17".into()));
    }

    #[test]
    fn numbers_and_text_compare_by_size_where_they_can() {
        assert_eq!(Value::text("10").compare(&Value::Number(9.0)), Ordering::Greater);
        assert_eq!(Value::text("10").compare(&Value::text("9")), Ordering::Less);
        assert_eq!(Value::text("x").compare(&Value::Number(9.0)), Ordering::Greater);
    }
}
