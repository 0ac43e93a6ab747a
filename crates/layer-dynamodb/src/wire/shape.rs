//! Shapes of requests: the members of an operation, their kinds and their bounds.
//!
//! First every member's kind is checked (`SerializationException`), then every bound
//! (`ValidationException`, up to ten complaints at once), as the service's framework does. Unknown
//! members are ignored.

use std::fmt;

use crate::wire::failure::{Exception, Failure};
use crate::wire::json::Json;
use crate::wire::kind::{ATTRIBUTES, Kind, MODEL, Place};
use crate::wire::value::Value;

/// The kind of a member and its bounds.
pub enum Shape {
    /// Name of a table, or its ARN.
    TableName,
    /// The same in operations on the table itself, which check it by rules of their own.
    OwnTableName,
    /// Length in characters, ends included.
    Text {
        min: usize,
        max: usize,
    },
    /// Length in characters, ends included, and only letters, digits, `_`, `.` and `-`.
    Name {
        min: usize,
        max: usize,
    },
    /// One of some words, in the order in which messages list them.
    Choice(&'static [&'static str]),
    Integer {
        min: i64,
        max: i64,
    },
    /// The same, of another class.
    Long {
        min: i64,
        max: i64,
    },
    Boolean,
    /// An attribute value; it is checked when it is read.
    Value,
    /// The name of its class, and its members.
    Structure(&'static str, &'static [Member]),
    List {
        of: &'static Shape,
        min: usize,
        max: usize,
    },
    /// A map of names.
    Map {
        of: &'static Shape,
        min: usize,
        max: usize,
    },
    /// Such a map whose names are those of tables.
    OfTables(&'static Shape),
    /// It would promise something that is not here, which the text names.
    Refused(&'static str),
    /// It means nothing here.
    PassedOver,
}

pub struct Member {
    pub name: &'static str,
    pub required: bool,
    pub shape: Shape,
}

pub const fn required(name: &'static str, shape: Shape) -> Member {
    Member {
        name,
        required: true,
        shape,
    }
}

pub const fn optional(name: &'static str, shape: Shape) -> Member {
    Member {
        name,
        required: false,
        shape,
    }
}

pub const ANY_TEXT: Shape = Shape::Text {
    min: 0,
    max: usize::MAX,
};
const COMPLAINTS_MAX: usize = 10;
/// Least length of a table's name; operations on items leave it to the look-up to find that there
/// is no table of a shorter name.
const TABLE_NAME_CHARACTERS_MIN: usize = 3;
const TABLE_NAME_CHARACTERS_MAX: usize = 255;
const ARN_CHARACTERS_MAX: usize = 1024;
/// The longest value that a complaint repeats.
const SHOWN_BYTES_MAX: usize = 64 << 10;
const NAME_PATTERN: &str = "[a-zA-Z0-9_.-]+";

/// Checks a whole request.
pub fn check(members: &[Member], request: &Json<'_>) -> Result<(), Failure> {
    check_kinds(members, request)?;
    check_table_names(members, request)?;
    let mut complaints = Vec::new();
    complain_structure(members, request, &Path::Request, &mut complaints);
    if complaints.is_empty() {
        return refuse_members(members, request);
    }
    check_values(members, request)?;
    complaints.truncate(COMPLAINTS_MAX);
    Err(detected(&complaints))
}

/// Refuses members that cannot be served, by name. An empty list requests nothing.
fn refuse_members(members: &[Member], json: &Json<'_>) -> Result<(), Failure> {
    members
        .iter()
        .try_for_each(|member| match (&member.shape, json.get(member.name)) {
            (Shape::Refused(_), Some(Json::List(elements))) if elements.is_empty() => Ok(()),
            (Shape::Refused(reason), Some(_)) => {
                let text = format!("{} is not supported by this endpoint: {reason}", member.name);
                Err(Failure::validation(text))
            }
            (Shape::Structure(_, members), Some(value)) => refuse_members(members, value),
            (
                Shape::List {
                    of: Shape::Structure(_, members),
                    ..
                },
                Some(value),
            ) => {
                let mut elements = value.elements().iter();
                elements.try_for_each(|element| refuse_members(members, element))
            }
            _ => Ok(()),
        })
}

/// Attribute values are checked when they are read, but a wrong kind in one comes before any
/// complaint.
fn check_values(members: &[Member], json: &Json<'_>) -> Result<(), Failure> {
    let mut values = members
        .iter()
        .filter_map(|member| Some((&member.shape, json.get(member.name)?)));
    values.try_for_each(|(shape, value)| check_values_of(shape, value))
}

fn check_values_of(shape: &Shape, json: &Json<'_>) -> Result<(), Failure> {
    match shape {
        Shape::Value => match Value::parse(json) {
            Err(failure) if failure.exception == Exception::Serialization => Err(failure),
            _ => Ok(()),
        },
        Shape::Structure(_, members) => check_values(members, json),
        Shape::List { of, .. } => {
            let mut elements = json.elements().iter();
            elements.try_for_each(|element| check_values_of(of, element))
        }
        Shape::Map { of, .. } => json.members().try_for_each(|(_, value)| check_values_of(of, value)),
        Shape::OfTables(map) => check_values_of(map, json),
        _ => Ok(()),
    }
}

/// The operations on a table itself check its name before anything else.
fn check_table_names(members: &[Member], request: &Json<'_>) -> Result<(), Failure> {
    for member in members
        .iter()
        .filter(|member| matches!(member.shape, Shape::OwnTableName))
    {
        let Some(name) = request.get(member.name).and_then(Json::text) else {
            return Err(Failure::validation(format!(
                "The parameter '{}' is required but was not present in the request",
                member.name
            )));
        };
        // A complaint about the name excludes all others.
        let mut complaints = Vec::new();
        if !is_arn(name) {
            let path = Path::Member(&Path::Request, member.name);
            complain_text(
                name,
                TABLE_NAME_CHARACTERS_MIN,
                TABLE_NAME_CHARACTERS_MAX,
                &path,
                &mut complaints,
            );
            complain_pattern(name, &path, &mut complaints);
        }
        if let Some(complaint) = complaints.first() {
            return Err(detected(std::slice::from_ref(complaint)));
        }
    }
    Ok(())
}

fn detected(complaints: &[String]) -> Failure {
    let count = complaints.len();
    let plural = if count == 1 { "" } else { "s" };
    Failure::validation(format!(
        "{count} validation error{plural} detected: {}",
        complaints.join("; ")
    ))
}

fn is_arn(name: &str) -> bool {
    name.starts_with("arn:")
}

fn check_kinds(members: &[Member], json: &Json<'_>) -> Result<(), Failure> {
    for member in members {
        if let Some(value) = json.get(member.name) {
            check_kind(&member.shape, value, Place::Member)?;
        }
    }
    Ok(())
}

fn check_kind(shape: &Shape, json: &Json<'_>, place: Place) -> Result<(), Failure> {
    let fits = match shape {
        Shape::TableName | Shape::OwnTableName | Shape::Text { .. } | Shape::Name { .. } | Shape::Choice(_) => {
            json.text().is_some()
        }
        Shape::Integer { .. } | Shape::Long { .. } => json.integer().is_some(),
        Shape::Boolean => json.boolean().is_some(),
        Shape::Value | Shape::Structure(..) | Shape::Map { .. } => matches!(json, Json::Object(_)),
        Shape::OfTables(map) => return check_kind(map, json, place),
        Shape::Refused(_) | Shape::PassedOver => true,
        Shape::List { .. } => matches!(json, Json::List(_)),
    };
    if !fits {
        return Err(wrong_kind(shape, json, place));
    }
    match shape {
        Shape::Structure(_, members) => check_kinds(members, json),
        Shape::List { of, .. } => {
            let mut elements = json.elements().iter();
            elements.try_for_each(|element| check_kind(of, element, Place::Element))
        }
        Shape::Map { of, .. } => json
            .members()
            .try_for_each(|(_, value)| check_kind(of, value, Place::Element)),
        _ => Ok(()),
    }
}

fn wrong_kind(shape: &Shape, json: &Json<'_>, place: Place) -> Failure {
    match shape {
        Shape::Map { of: Shape::Value, .. } => ATTRIBUTES.failure(json, place),
        Shape::Map { of, .. } => Kind::Map(&class(of)).failure(json, place),
        Shape::Structure(name, _) => Kind::Structure(name).failure(json, place),
        Shape::Value => Kind::Structure("AttributeValue").failure(json, place),
        Shape::List { .. } => Kind::List.failure(json, place),
        Shape::Integer { .. } => Kind::Scalar("Integer").failure(json, place),
        Shape::Long { .. } => Kind::Scalar("Long").failure(json, place),
        Shape::Boolean => Kind::Scalar("Boolean").failure(json, place),
        _ => Kind::Scalar("String").failure(json, place),
    }
}

/// The class of a shape in the name of a map.
fn class(shape: &Shape) -> String {
    match shape {
        Shape::Structure(name, _) => format!("{MODEL}{name}"),
        Shape::Value => format!("{MODEL}AttributeValue"),
        Shape::List { of, .. } => format!("java.util.List<{}>", class(of)),
        _ => "java.lang.String".to_owned(),
    }
}

fn complain_structure(members: &[Member], json: &Json<'_>, path: &Path<'_>, complaints: &mut Vec<String>) {
    for member in members {
        let value = json.get(member.name);
        if value.is_none() && !member.required {
            continue;
        }
        let path = Path::Member(path, member.name);
        match value {
            Some(value) => complain(&member.shape, value, &path, complaints),
            None => complaints.push(format!(
                "Value null at '{path}' failed to satisfy constraint: Member must not be null"
            )),
        }
    }
}

fn complain(shape: &Shape, json: &Json<'_>, path: &Path<'_>, complaints: &mut Vec<String>) {
    match shape {
        Shape::TableName | Shape::OwnTableName => complain_table_name(json, path, complaints),
        Shape::Text { min, max } => complain_text(json.text().unwrap_or_default(), *min, *max, path, complaints),
        Shape::Name { min, max } => {
            let text = json.text().unwrap_or_default();
            complain_text(text, *min, *max, path, complaints);
            complain_pattern(text, path, complaints);
        }
        Shape::Choice(choices) => {
            let text = json.text().unwrap_or_default();
            if !choices.contains(&text) {
                complaints.push(format!(
                    "Value '{text}' at '{path}' failed to satisfy constraint: Member must satisfy enum value set: [{}]",
                    choices.join(", ")
                ));
            }
        }
        Shape::Integer { min, max } | Shape::Long { min, max } => {
            let value = json.integer().unwrap_or_default();
            complain_bounds(
                &value,
                *min,
                *max,
                "value",
                || format!("Value '{value}'"),
                path,
                complaints,
            );
        }
        Shape::Boolean | Shape::Value | Shape::Refused(_) | Shape::PassedOver => {}
        Shape::OfTables(map) => {
            complain_keys(json, path, complaints);
            complain(map, json, path, complaints);
        }
        Shape::Structure(_, members) => complain_structure(members, json, path, complaints),
        Shape::List { of, min, max } => {
            let elements = json.elements();
            let text = || shown_value(shape, json);
            complain_bounds(&elements.len(), *min, *max, "length", text, path, complaints);
            for (index, element) in elements.iter().enumerate() {
                complain(of, element, &Path::Element(path, index + 1), complaints);
            }
        }
        Shape::Map { of, min, max } => {
            let count = json.members().count();
            let text = || shown_value(shape, json);
            complain_bounds(&count, *min, *max, "length", text, path, complaints);
            // A value has no bounds of its own.
            if !matches!(of, Shape::Value) {
                for (name, value) in json.members() {
                    complain(of, value, &Path::Entry(path, name), complaints);
                }
            }
        }
    }
}

/// Names of tables that none can have are a fault of the map, which is repeated as it was sent.
fn complain_keys(json: &Json<'_>, path: &Path<'_>, complaints: &mut Vec<String>) {
    let is_name = |name: &str| {
        (TABLE_NAME_CHARACTERS_MIN..=TABLE_NAME_CHARACTERS_MAX).contains(&name.len()) && name.bytes().all(is_name_byte)
    };
    if json.members().all(|(name, _)| is_arn(name) || is_name(name)) {
        return;
    }
    let mut sent = Vec::new();
    json.write(&mut sent);
    let value_text = match sent.len() > SHOWN_BYTES_MAX {
        true => "Value".to_owned(),
        false => format!("Value '{}'", String::from_utf8_lossy(&sent)),
    };
    complaints.push(format!(
        "{value_text} at '{path}' failed to satisfy constraint: Map keys must satisfy constraint: \
         [Member must have length less than or equal to {TABLE_NAME_CHARACTERS_MAX}, \
         Member must have length greater than or equal to {TABLE_NAME_CHARACTERS_MIN}, \
         Member must satisfy regular expression pattern: {NAME_PATTERN}]"
    ));
}

/// A list or a map as complaints repeat it; without its value, if that is long.
pub fn shown_value(shape: &Shape, json: &Json<'_>) -> String {
    let mut text = String::new();
    match show(shape, json, &mut text) {
        Ok(()) => format!("Value '{text}'"),
        Err(TooLong) => "Value".into(),
    }
}

struct TooLong;

/// Appends a value in the form in which the service's classes describe themselves.
fn show(shape: &Shape, json: &Json<'_>, out: &mut String) -> Result<(), TooLong> {
    match (shape, json) {
        (Shape::OfTables(map), _) => show(map, json, out),
        (Shape::Structure(name, members), _) => {
            let present = members
                .iter()
                .filter_map(|member| Some((member, json.get(member.name)?)));
            out.push_str(name);
            show_all(out, ['(', ')'], present, |out, (member, value)| {
                out.push_str(&lower_first(member.name));
                out.push('=');
                show(&member.shape, value, out)
            })
        }
        (Shape::List { of, .. }, Json::List(elements)) => {
            show_all(out, ['[', ']'], elements, |out, element| show(of, element, out))
        }
        (Shape::Map { of, .. }, Json::Object(_)) => show_all(out, ['{', '}'], json.members(), |out, (name, value)| {
            out.push_str(name);
            out.push('=');
            show(of, value, out)
        }),
        (Shape::Value, _) => {
            out.push_str("AttributeValue");
            show_all(out, ['(', ')'], json.members(), |out, (name, content)| {
                out.push_str(&name.to_ascii_lowercase());
                out.push('=');
                out.push_str(content.text().unwrap_or("..."));
                Ok(())
            })
        }
        (_, scalar) => {
            match (scalar.text(), scalar.integer(), scalar.boolean()) {
                (Some(text), ..) => out.push_str(text),
                (_, Some(number), _) => out.push_str(&number.to_string()),
                (.., flag) => out.push_str(if flag == Some(true) { "true" } else { "false" }),
            }
            Ok(())
        }
    }
}

fn show_all<T>(
    out: &mut String,
    [open, close]: [char; 2],
    parts: impl IntoIterator<Item = T>,
    mut show: impl FnMut(&mut String, T) -> Result<(), TooLong>,
) -> Result<(), TooLong> {
    out.push(open);
    for (index, part) in parts.into_iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        show(out, part)?;
        if out.len() > SHOWN_BYTES_MAX {
            return Err(TooLong);
        }
    }
    out.push(close);
    Ok(())
}

fn complain_table_name(json: &Json<'_>, path: &Path<'_>, complaints: &mut Vec<String>) {
    let text = json.text().unwrap_or_default();
    if is_arn(text) {
        complain_text(text, 1, ARN_CHARACTERS_MAX, path, complaints);
    } else {
        complain_text(text, 1, TABLE_NAME_CHARACTERS_MAX, path, complaints);
        complain_pattern(text, path, complaints);
    }
}

fn complain_text(text: &str, min: usize, max: usize, path: &Path<'_>, complaints: &mut Vec<String>) {
    // Most texts are far from their bounds, and counting bytes is free.
    if text.len() / 4 >= min && text.len() <= max {
        return;
    }
    let length = text.chars().count();
    complain_bounds(
        &length,
        min,
        max,
        "length",
        || format!("Value '{text}'"),
        path,
        complaints,
    );
}

fn complain_pattern(text: &str, path: &Path<'_>, complaints: &mut Vec<String>) {
    if !text.is_empty() && !text.bytes().all(is_name_byte) {
        complaints.push(format!(
            "Value '{text}' at '{path}' failed to satisfy constraint: \
             Member must satisfy regular expression pattern: {NAME_PATTERN}"
        ));
    }
}

/// True for what names of tables and indexes are made of.
pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

fn complain_bounds<T: PartialOrd + std::fmt::Display>(
    value: &T,
    min: T,
    max: T,
    property: &str,
    text: impl FnOnce() -> String,
    path: &Path<'_>,
    complaints: &mut Vec<String>,
) {
    let (relation, bound) = match value {
        value if *value < min => ("greater", min),
        value if *value > max => ("less", max),
        _ => return,
    };
    complaints.push(format!(
        "{} at '{path}' failed to satisfy constraint: Member must have {property} {relation} than or equal to {bound}",
        text()
    ));
}

/// The position of a member in the request; written only if there is a complaint about it.
enum Path<'p> {
    Request,
    Member(&'p Path<'p>, &'static str),
    /// Counted from one.
    Element(&'p Path<'p>, usize),
    Entry(&'p Path<'p>, &'p str),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Request => Ok(()),
            Path::Member(Path::Request, name) => write!(f, "{}", lower_first(name)),
            Path::Member(parent, name) => write!(f, "{parent}.{}", lower_first(name)),
            Path::Element(parent, number) => write!(f, "{parent}.{number}.member"),
            Path::Entry(parent, name) => write!(f, "{parent}.{name}.member"),
        }
    }
}

fn lower_first(name: &str) -> String {
    let mut characters = name.chars();
    let first = characters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(characters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: &[Member] = &[
        required("TableName", Shape::TableName),
        optional("Limit", Shape::Integer { min: 1, max: 100 }),
        optional("Select", Shape::Choice(&["A", "B"])),
        optional("Flag", Shape::Boolean),
        optional(
            "Keys",
            Shape::List {
                of: &Shape::Structure("Key", &[required("Name", Shape::Name { min: 2, max: 5 })]),
                min: 1,
                max: 2,
            },
        ),
    ];

    fn check_text(request: &str, expected: &str) {
        let failure = check(MEMBERS, &Json::parse(request.as_bytes()).unwrap()).unwrap_err();
        assert_eq!(failure.message, expected, "{request}");
    }

    #[test]
    fn kinds_are_first() {
        check_text(r#"{"TableName":3}"#, "NUMBER_VALUE cannot be converted to String");
        check_text(r#"{"Limit":"x"}"#, "STRING_VALUE cannot be converted to Integer");
        check_text(r#"{"Flag":"x"}"#, "Unexpected token received from parser");
        check_text(r#"{"Keys":{}}"#, "Start of structure or map found where not expected");
        check_text(r#"{"Keys":"x"}"#, "Unexpected field type");
        check_text(r#"{"Keys":["x"]}"#, "Unexpected value type in payload");
        check_text(
            r#"{"Keys":[[]]}"#,
            "Unrecognized collection type class com.amazonaws.dynamodb.v20120810.Key",
        );
    }

    #[test]
    fn bounds_are_listed() {
        check_text(
            r#"{"Limit":0,"Select":"C"}"#,
            "3 validation errors detected: Value null at 'tableName' failed to satisfy constraint: Member must not be null; \
             Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1; \
             Value 'C' at 'select' failed to satisfy constraint: Member must satisfy enum value set: [A, B]",
        );
        check_text(
            r#"{"TableName":"t","Keys":[{"Name":"a b c d"}]}"#,
            "2 validation errors detected: Value 'a b c d' at 'keys.1.member.name' failed to satisfy constraint: Member must \
             have length less than or equal to 5; Value 'a b c d' at 'keys.1.member.name' failed to satisfy constraint: Member \
             must satisfy regular expression pattern: [a-zA-Z0-9_.-]+",
        );
        check_text(
            r#"{"TableName":"t","Keys":[]}"#,
            "1 validation error detected: Value '[]' at 'keys' failed to satisfy constraint: \
             Member must have length greater than or equal to 1",
        );
    }
}
