//! The functions of expressions.
//!
//! One table; each takes values and gives one. A value of a wrong type gives nothing or not a
//! number, as at the original, unless it refuses.

use crate::error::SearchError;
use crate::redis::aggregate::times::{DAY_SECONDS, Date};
use crate::redis::aggregate::value::settled;
use crate::redis::aggregate::{Value, times};
use crate::text::geo::Place;

/// A function, by what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Whether a property has a value. The only one that gets the property and not its value.
    Exists,
    /// The terms by which the document was found. Gets the record.
    MatchedTerms,
    /// Selects between two values. Only the selected value must be present.
    Case,
    /// Any other function, by its position in the table.
    Other(u8),
}

type Call = fn(&[Value]) -> Result<Value, SearchError>;

/// Name, least and most arguments, and what it does.
const TABLE: &[(&str, usize, usize, Call)] = &[
    ("abs", 1, 1, |values| math(values, f64::abs)),
    ("ceil", 1, 1, |values| math(values, f64::ceil)),
    ("floor", 1, 1, |values| math(values, f64::floor)),
    ("sqrt", 1, 1, |values| math(values, f64::sqrt)),
    ("log", 1, 1, |values| math(values, f64::ln)),
    ("log2", 1, 1, |values| math(values, f64::log2)),
    ("exp", 1, 1, |values| math(values, f64::exp)),
    ("lower", 1, 1, |values| {
        of_text(&values[0], |text| Value::Text(text.to_ascii_lowercase()))
    }),
    ("upper", 1, 1, |values| {
        of_text(&values[0], |text| Value::Text(text.to_ascii_uppercase()))
    }),
    ("strlen", 1, 1, strlen),
    ("substr", 3, 3, substr),
    ("startswith", 2, 2, |values| {
        of_two(values, "startswith", |text, start| {
            f64::from(u8::from(text.starts_with(start)))
        })
    }),
    ("contains", 2, 2, |values| of_two(values, "contains", occurrences)),
    ("format", 1, usize::MAX, format),
    ("split", 1, 3, split),
    ("to_number", 1, 1, to_number),
    ("to_str", 1, 1, |values| Ok(Value::Text(text_of(&values[0])))),
    ("geodistance", 2, 4, geodistance),
    ("timefmt", 1, 2, time_text),
    ("parsetime", 2, 2, text_time),
    ("minute", 1, 1, |values| {
        time(values, |seconds| (seconds - seconds % 60) as f64)
    }),
    ("hour", 1, 1, |values| {
        time(values, |seconds| (seconds - seconds % 3600) as f64)
    }),
    ("day", 1, 1, |values| {
        time(values, |seconds| (seconds - seconds % DAY_SECONDS) as f64)
    }),
    ("month", 1, 1, |values| {
        time(values, |seconds| Date::of(seconds).month_seconds())
    }),
    ("monthofyear", 1, 1, |values| {
        time(values, |seconds| (Date::of(seconds).month - 1) as f64)
    }),
    ("year", 1, 1, |values| {
        time(values, |seconds| Date::of(seconds).year as f64)
    }),
    ("dayofmonth", 1, 1, |values| {
        time(values, |seconds| Date::of(seconds).day as f64)
    }),
    ("dayofweek", 1, 1, |values| {
        time(values, |seconds| ((seconds / DAY_SECONDS + 4) % 7) as f64)
    }),
    ("dayofyear", 1, 1, |values| {
        time(values, |seconds| Date::of(seconds).day_of_year())
    }),
];

impl Function {
    /// The function of this name.
    pub fn of_name(name: &str) -> Option<Function> {
        match name {
            "exists" => return Some(Function::Exists),
            "matched_terms" => return Some(Function::MatchedTerms),
            "case" => return Some(Function::Case),
            _ => {}
        }
        let position = TABLE.iter().position(|(function_name, ..)| *function_name == name);
        position.map(|at| Function::Other(at as u8))
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    fn row(self) -> (&'static str, usize, usize, Call) {
        match self {
            Function::Exists => ("exists", 1, 1, |_| unreachable!("answered without its value")),
            Function::MatchedTerms => ("matched_terms", 0, usize::MAX, |_| {
                unreachable!("answered by the record")
            }),
            Function::Case => ("case", 3, 3, |_| unreachable!("answered from the branch that is taken")),
            Function::Other(at) => TABLE[usize::from(at)],
        }
    }

    /// Refuses a number of arguments that it does not take.
    pub fn check(self, arguments: usize) -> Result<(), SearchError> {
        let (name, least, most, _) = self.row();
        match (least..=most).contains(&arguments) {
            true => Ok(()),
            false if least == most => Err(refused(format!(
                "Function '{name}' expects {least} arguments, but got {arguments}"
            ))),
            false => Err(refused(format!(
                "Function '{name}' expects between {least} and {most} arguments, but got {arguments}"
            ))),
        }
    }

    /// Its value.
    pub fn call(self, values: &[Value]) -> Result<Value, SearchError> {
        self.row().3(values)
    }
}

fn refused(text: String) -> SearchError {
    SearchError::Expression(text)
}

/// The message has the original's number for a type, followed by the argument's type.
fn wrong_type(value: &Value, at: usize, function: &str) -> SearchError {
    let kind = match value {
        Value::Number(_) => 1,
        Value::Text(_) => 2,
        Value::Null => 3,
        Value::List(_) => 5,
        Value::Map(_) | Value::Path(_) => 9,
    };
    refused(format!(
        "Invalid type ({kind}) for argument {at} in function '{function}'"
    ))
}

/// Several values together are no text.
fn text_of(value: &Value) -> Vec<u8> {
    match value {
        Value::List(_) => Vec::new(),
        other => other.bytes(),
    }
}

fn math(values: &[Value], function: fn(f64) -> f64) -> Result<Value, SearchError> {
    let number = values[0].number().unwrap_or(f64::NAN);
    let result = match function(number) {
        // Their sign is the operand's, or lost on purpose.
        result if number.is_nan() => result,
        result => settled(result, &[]),
    };
    Ok(Value::Number(result))
}

fn of_text(value: &Value, function: impl FnOnce(&[u8]) -> Value) -> Result<Value, SearchError> {
    match value {
        Value::Text(text) => Ok(function(text)),
        _ => Ok(Value::Null),
    }
}

fn of_two(values: &[Value], name: &str, function: impl FnOnce(&[u8], &[u8]) -> f64) -> Result<Value, SearchError> {
    let (text, other) = (text_at(values, 0, name)?, text_at(values, 1, name)?);
    Ok(Value::Number(function(text, other)))
}

fn strlen(values: &[Value]) -> Result<Value, SearchError> {
    Ok(Value::Number(text_at(values, 0, "strlen")?.len() as f64))
}

/// An argument that has to be text.
fn text_at<'v>(values: &'v [Value], at: usize, function: &str) -> Result<&'v [u8], SearchError> {
    match values[at].first() {
        Value::Text(text) => Ok(text),
        other => Err(refused(format!(
            "{}. VALIDATE_ARG__STRING(v, 0) was false.",
            wrong_type(other, at, function)
        ))),
    }
}

/// Counts the occurrences of the part in the text. An empty part occurs before each byte and at the
/// end.
fn occurrences(text: &[u8], part: &[u8]) -> f64 {
    if part.is_empty() {
        return text.len() as f64 + 1.0;
    }
    text.windows(part.len()).filter(|window| *window == part).count() as f64
}

/// A negative start counts from the end; before the first byte the text is empty. A negative length
/// ends that many bytes before the end.
fn substr(values: &[Value]) -> Result<Value, SearchError> {
    let Value::Text(text) = values[0].first() else {
        return Err(refused("Invalid type for substr. Expected string".into()));
    };
    let number = |at: usize| match &values[at] {
        Value::Number(number) => Ok(*number),
        other => Err(wrong_type(other, at, "substr")),
    };
    let (start, length) = (number(1)?, number(2)?);
    let size = text.len() as i64;
    let from_end = |offset: i64| {
        if offset < 0 {
            size.saturating_add(offset).max(0)
        } else {
            offset.min(size)
        }
    };
    if (start as i64) < -size {
        return Ok(Value::text(""));
    }
    let start = from_end(start as i64);
    let end = match length as i64 {
        length if length < 0 => from_end(length),
        length => start.saturating_add(length).min(size),
    };
    Ok(Value::Text(text[start as usize..end.max(start) as usize].to_vec()))
}

fn format(values: &[Value]) -> Result<Value, SearchError> {
    let pattern = text_at(values, 0, "format")?;
    let mut arguments = values[1..].iter();
    let (mut out, mut bytes) = (Vec::new(), pattern.iter());
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'%') => out.push(b'%'),
            Some(b's') => {
                let missing = || refused("Not enough arguments for format".into());
                match arguments.next().ok_or_else(missing)? {
                    Value::Null => out.extend(b"(null)"),
                    value => out.extend(text_of(value)),
                }
            }
            None => return Err(refused("Bad format string!".into())),
            Some(_) => return Err(refused("Unknown format specifier passed".into())),
        }
    }
    Ok(Value::Text(out))
}

/// Splits at any of the separators, strips the given characters from both ends of each part, and
/// leaves out empty parts.
fn split(values: &[Value]) -> Result<Value, SearchError> {
    let text_or = |at: usize, otherwise: &'static [u8]| match values.len() > at {
        true => text_at(values, at, "split"),
        false => Ok(otherwise),
    };
    let text = text_at(values, 0, "split")?;
    let (separators, stripped) = (text_or(1, b",")?, text_or(2, b" ")?);
    let parts = text.split(|byte| separators.contains(byte)).map(|part| {
        let start = part
            .iter()
            .position(|byte| !stripped.contains(byte))
            .unwrap_or(part.len());
        let end = part
            .iter()
            .rposition(|byte| !stripped.contains(byte))
            .map_or(start, |last| last + 1);
        &part[start..end]
    });
    let parts = parts.filter(|part| !part.is_empty());
    Ok(Value::List(parts.map(Value::text).collect()))
}

fn to_number(values: &[Value]) -> Result<Value, SearchError> {
    let text = values[0].to_string();
    let missing = || refused(format!("to_number: cannot convert string '{text}'"));
    values[0].number().map(Value::Number).ok_or_else(missing)
}

/// In metres, to the centimetre. Each place is one text, or two numbers.
fn geodistance(values: &[Value]) -> Result<Value, SearchError> {
    let refused = || refused("Invalid geo string".into());
    let place_of_text = |value: &Value| Place::parse(&value.bytes()).ok_or_else(refused);
    let place_of_numbers = |longitude: &Value, latitude: &Value| {
        let (longitude, latitude) = (longitude.number(), latitude.number());
        let pair = longitude.zip(latitude);
        pair.map(|(longitude, latitude)| Place { longitude, latitude })
            .ok_or_else(refused)
    };
    let (from, to) = match values {
        [from, to] => (place_of_text(from)?, place_of_text(to)?),
        [Value::Text(_), longitude, latitude] => (place_of_text(&values[0])?, place_of_numbers(longitude, latitude)?),
        [longitude, latitude, to] => (place_of_numbers(longitude, latitude)?, place_of_text(to)?),
        [longitude, latitude, to_longitude, to_latitude] => (
            place_of_numbers(longitude, latitude)?,
            place_of_numbers(to_longitude, to_latitude)?,
        ),
        _ => return Err(refused()),
    };
    Ok(Value::Number((from.meters_to(&to) * 100.0).round() / 100.0))
}

/// A time in the form that is named; nothing if it has no text or is none.
fn time_text(values: &[Value]) -> Result<Value, SearchError> {
    let form = match values.get(1) {
        None => b"%FT%TZ".to_vec(),
        Some(Value::Text(form)) => form.clone(),
        Some(_) => return Err(refused("Invalid type for argument 1 in function 'time'".into())),
    };
    let seconds = values[0].number().filter(|seconds| seconds.abs() <= SECONDS_MAX);
    let text = seconds.map(|seconds| times::text(seconds as i64, &form));
    Ok(match text {
        Some(text) if !text.is_empty() => Value::Text(text),
        _ => Value::Null,
    })
}

fn text_time(values: &[Value]) -> Result<Value, SearchError> {
    let (text, form) = (text_at(values, 0, "parsetime")?, text_at(values, 1, "parsetime")?);
    Ok(times::parse(text, form).map_or(Value::Null, |seconds| Value::Number(seconds as f64)))
}

/// Latest time that functions of time take, in seconds since the Unix epoch: the year 9999.
const SECONDS_MAX: f64 = 253_402_300_799.0;

fn time(values: &[Value], function: impl FnOnce(i64) -> f64) -> Result<Value, SearchError> {
    let seconds = values[0]
        .number()
        .filter(|seconds| (0.0..=SECONDS_MAX).contains(seconds));
    Ok(seconds.map_or(Value::Null, |seconds| Value::Number(function(seconds as i64))))
}
