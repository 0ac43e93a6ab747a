//! Attribute values and items: reading them from JSON, writing them, their size.
//!
//! Sets and maps are kept sorted, so equal values are equal regardless of their order in the
//! request.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::wire::failure::Failure;
use crate::wire::json::{Json, json_text, write_string};
use crate::wire::kind::{ATTRIBUTES, Kind, Place};
use crate::wire::number::{Number, NumberError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    S(String),
    N(Number),
    B(Vec<u8>),
    Bool(bool),
    Null,
    M(Item),
    L(Vec<Value>),
    SS(BTreeSet<String>),
    NS(BTreeSet<Number>),
    BS(BTreeSet<Vec<u8>>),
}

/// Attribute names and values.
pub type Item = BTreeMap<String, Value>;

/// Levels of maps and lists within an item.
const NESTING_MAX: usize = 32;
pub const ITEM_BYTES_MAX: usize = 400 * 1024;
pub const NAME_BYTES_MAX: usize = 65535;

impl Value {
    /// Reads `{"S": "text"}` and its like.
    pub fn parse(json: &Json<'_>) -> Result<Value, Failure> {
        parse(json, 1)
    }

    pub fn type_name(&self) -> &'static str {
        match self {
            Value::S(_) => "S",
            Value::N(_) => "N",
            Value::B(_) => "B",
            Value::Bool(_) => "BOOL",
            Value::Null => "NULL",
            Value::M(_) => "M",
            Value::L(_) => "L",
            Value::SS(_) => "SS",
            Value::NS(_) => "NS",
            Value::BS(_) => "BS",
        }
    }

    /// Returns its size as the service counts it, without its name.
    pub fn size(&self) -> usize {
        match self {
            Value::S(text) => text.len(),
            Value::N(number) => number.size(),
            Value::B(bytes) => bytes.len(),
            Value::Bool(_) | Value::Null => 1,
            Value::M(members) => {
                3 + members
                    .iter()
                    .map(|(name, value)| name.len() + value.size() + 1)
                    .sum::<usize>()
            }
            Value::L(elements) => 3 + elements.iter().map(|value| value.size() + 1).sum::<usize>(),
            Value::SS(set) => set.iter().map(String::len).sum(),
            Value::NS(set) => set.iter().map(|number| number.size()).sum(),
            Value::BS(set) => set.iter().map(Vec::len).sum(),
        }
    }

    /// Appends it as JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"");
        out.extend_from_slice(self.type_name().as_bytes());
        out.extend_from_slice(b"\":");
        match self {
            Value::S(text) => write_string(out, text),
            Value::N(number) => write_number(out, *number),
            Value::B(bytes) => write_binary(out, bytes),
            Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Value::Null => out.extend_from_slice(b"true"),
            Value::M(members) => write_item(members, out),
            Value::L(elements) => write_list(out, elements, |out, value| value.write(out)),
            Value::SS(set) => write_list(out, set, |out, text| write_string(out, text)),
            Value::NS(set) => write_list(out, set, |out, number| write_number(out, *number)),
            Value::BS(set) => write_list(out, set, |out, bytes| write_binary(out, bytes)),
        }
        out.push(b'}');
    }

    pub fn to_json(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out);
        json_text(out)
    }
}

/// Appends an item, or any map, as JSON.
pub fn write_item(item: &Item, out: &mut Vec<u8>) {
    out.push(b'{');
    for (index, (name, value)) in item.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(out, name);
        out.push(b':');
        value.write(out);
    }
    out.push(b'}');
}

pub fn item_json(item: &Item) -> String {
    let mut out = Vec::new();
    write_item(item, &mut out);
    json_text(out)
}

/// Returns the size of a whole item as the service counts it.
pub fn item_size(item: &Item) -> usize {
    item.iter().map(|(name, value)| name.len() + value.size()).sum()
}

fn write_list<T>(out: &mut Vec<u8>, elements: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Vec<u8>, T)) {
    out.push(b'[');
    for (index, element) in elements.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, element);
    }
    out.push(b']');
}

pub fn write_number(out: &mut Vec<u8>, number: Number) {
    out.push(b'"');
    number.write(out);
    out.push(b'"');
}

pub fn write_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
    out.push(b'"');
}

/// Reads a map of attributes, such as an item or a key.
pub fn parse_item(json: &Json<'_>) -> Result<Item, Failure> {
    let Json::Object(_) = json else {
        return Err(ATTRIBUTES.failure(json, Place::Member));
    };
    parse_members(json, 1)
}

fn parse_members(json: &Json<'_>, level: usize) -> Result<Item, Failure> {
    let mut item = Item::new();
    for (name, value) in json.members() {
        check_attribute_name(name)?;
        item.insert(name.to_owned(), parse(value, level)?);
    }
    Ok(item)
}

pub fn check_attribute_name(name: &str) -> Result<(), Failure> {
    if name.is_empty() {
        return Err(Failure::of_data(
            "One or more parameter values were invalid: Empty attribute name",
        ));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Failure::of_data(format!(
            "One or more parameter values were invalid: Attribute name is too large, must be less than {} bytes",
            NAME_BYTES_MAX + 1
        )));
    }
    Ok(())
}

fn parse(json: &Json<'_>, level: usize) -> Result<Value, Failure> {
    let Json::Object(_) = json else {
        return Err(Kind::Structure("AttributeValue").failure(json, Place::Element));
    };
    let mut members = json.members().filter(|(name, _)| TYPE_NAMES.contains(name));
    let Some((kind, content)) = members.next() else {
        return Err(Failure::of_data(
            "Supplied AttributeValue is empty, must contain exactly one of the supported datatypes",
        ));
    };
    if let Some((other_kind, other)) = members.next() {
        // A fault in one of them precedes the complaint about two.
        parse_content(kind, content, level)?;
        parse_content(other_kind, other, level)?;
        return Err(Failure::of_data(
            "Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes",
        ));
    }
    parse_content(kind, content, level)
}

pub const TYPE_NAMES: [&str; 10] = ["S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"];

fn parse_content(kind: &str, content: &Json<'_>, level: usize) -> Result<Value, Failure> {
    Ok(match kind {
        "S" => Value::S(parse_text(content)?.to_owned()),
        "N" => Value::N(parse_number(parse_text(content)?)?),
        "B" => Value::B(parse_binary(content)?),
        "BOOL" => Value::Bool(parse_boolean(content)?),
        "NULL" if parse_boolean(content)? => Value::Null,
        "NULL" => {
            return Err(Failure::invalid(
                "Null attribute value types must have the value of true",
            ));
        }
        "M" => {
            let Json::Object(_) = content else {
                return Err(ATTRIBUTES.failure(content, Place::Member));
            };
            Value::M(parse_members(content, deeper(level)?)?)
        }
        "L" => {
            let level = deeper(level)?;
            let elements = parse_elements(content)?.iter().map(|element| parse(element, level));
            Value::L(elements.collect::<Result<_, _>>()?)
        }
        "SS" => Value::SS(parse_set(
            content,
            "string",
            |json| Ok(parse_text(json)?.to_owned()),
            duplicated_texts,
        )?),
        "NS" => Value::NS(parse_set(
            content,
            "number",
            |json| parse_number(parse_text(json)?),
            |_| duplicated_numbers(),
        )?),
        _ => Value::BS(parse_set(content, "binary", parse_binary, |values| {
            let texts: Vec<String> = values.iter().map(|bytes| STANDARD.encode(bytes)).collect();
            Failure::invalid(format!(
                "Input collection [{}]of type BS contains duplicates.",
                texts.join(", ")
            ))
        })?),
    })
}

pub fn duplicated_texts(texts: &[String]) -> Failure {
    Failure::invalid(format!("Input collection [{}] contains duplicates.", texts.join(", ")))
}

pub fn duplicated_numbers() -> Failure {
    Failure::validation("Input collection contains duplicates")
}

fn deeper(level: usize) -> Result<usize, Failure> {
    if level >= NESTING_MAX {
        Err(too_nested())
    } else {
        Ok(level + 1)
    }
}

fn too_nested() -> Failure {
    Failure::of_data(
        "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit",
    )
}

/// True for a set without elements.
pub fn is_empty_set(json: &Json<'_>) -> bool {
    let mut contents = ["SS", "NS", "BS"].into_iter().filter_map(|kind| json.get(kind));
    contents.any(|content| matches!(content, Json::List(elements) if elements.is_empty()))
}

/// Refuses an item that was put together from parts and became too deep.
pub fn check_nesting(item: &Item) -> Result<(), Failure> {
    let fits = item.values().all(|value| nests_within(value, NESTING_MAX - 1));
    if fits { Ok(()) } else { Err(too_nested()) }
}

fn nests_within(value: &Value, levels: usize) -> bool {
    match value {
        Value::M(members) => levels > 0 && members.values().all(|value| nests_within(value, levels - 1)),
        Value::L(elements) => levels > 0 && elements.iter().all(|value| nests_within(value, levels - 1)),
        _ => true,
    }
}

fn parse_elements<'j, 'a>(json: &'j Json<'a>) -> Result<&'j [Json<'a>], Failure> {
    match json {
        Json::List(elements) => Ok(elements),
        _ => Err(Kind::List.failure(json, Place::Member)),
    }
}

fn parse_set<T: Ord + Clone>(
    json: &Json<'_>,
    kind: &str,
    read: impl Fn(&Json<'_>) -> Result<T, Failure>,
    duplicates: impl Fn(&[T]) -> Failure,
) -> Result<BTreeSet<T>, Failure> {
    let elements: Vec<T> = parse_elements(json)?.iter().map(read).collect::<Result<_, _>>()?;
    if elements.is_empty() {
        return Err(Failure::invalid(match kind {
            "binary" => "Binary sets should not be empty".to_owned(),
            kind => format!("An {kind} set  may not be empty"),
        }));
    }
    let set: BTreeSet<T> = elements.iter().cloned().collect();
    if set.len() < elements.len() {
        return Err(duplicates(&elements));
    }
    Ok(set)
}

fn parse_text<'j>(json: &'j Json<'_>) -> Result<&'j str, Failure> {
    json.text()
        .ok_or_else(|| Kind::Scalar("String").failure(json, Place::Member))
}

fn parse_boolean(json: &Json<'_>) -> Result<bool, Failure> {
    json.boolean()
        .ok_or_else(|| Kind::Scalar("Boolean").failure(json, Place::Member))
}

fn parse_binary(json: &Json<'_>) -> Result<Vec<u8>, Failure> {
    let text = json.text().ok_or_else(|| Kind::Blob.failure(json, Place::Member))?;
    let decoded = STANDARD.decode(text);
    decoded.map_err(|_| {
        Failure::serialization(match text.len() % 4 {
            0 => "Invalid last non-pad Base64 character dectected".to_owned(),
            _ => format!(
                "Base64 encoded length is expected a multiple of 4 bytes but found: {}",
                text.len()
            ),
        })
    })
}

pub fn parse_number(text: &str) -> Result<Number, Failure> {
    Number::parse(text).map_err(|error| match error {
        NumberError::Syntax if text.is_empty() => {
            Failure::of_data("The parameter cannot be converted to a numeric value")
        }
        NumberError::Syntax => {
            Failure::of_data(format!("The parameter cannot be converted to a numeric value: {text}"))
        }
        other => number_failure(other),
    })
}

/// A number outside what can be stored.
pub fn number_failure(error: NumberError) -> Failure {
    Failure::of_data(match error {
        NumberError::Syntax => "The parameter cannot be converted to a numeric value",
        NumberError::TooManyDigits => "Attempting to store more than 38 significant digits in a Number",
        NumberError::Overflow => {
            "Number overflow. Attempting to store a number with magnitude larger than supported range"
        }
        NumberError::Underflow => {
            "Number underflow. Attempting to store a number with magnitude smaller than supported range"
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Value, Failure> {
        Value::parse(&Json::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn values_are_read_in_normal_form() {
        for (json, expected) in [
            (r#"{"S":""}"#, r#"{"S":""}"#),
            (r#"{"N":"1.0"}"#, r#"{"N":"1"}"#),
            (r#"{"B":"YQ=="}"#, r#"{"B":"YQ=="}"#),
            (r#"{"NULL":true}"#, r#"{"NULL":true}"#),
            (r#"{"SS":["b","a"]}"#, r#"{"SS":["a","b"]}"#),
            (r#"{"NS":["2","-1"]}"#, r#"{"NS":["-1","2"]}"#),
            (
                r#"{"L":[{"M":{"x":{"BOOL":false}}},{"L":[]}]}"#,
                r#"{"L":[{"M":{"x":{"BOOL":false}}},{"L":[]}]}"#,
            ),
        ] {
            assert_eq!(read(json).unwrap().to_json(), expected);
        }
    }

    #[test]
    fn bad_values_have_their_texts() {
        for (json, text) in [
            ("{}", "Supplied AttributeValue is empty"),
            (
                r#"{"S":"a","N":"1"}"#,
                "Supplied AttributeValue has more than one datatypes set",
            ),
            (
                r#"{"N":"abc"}"#,
                "The parameter cannot be converted to a numeric value: abc",
            ),
            (r#"{"N":1}"#, "NUMBER_VALUE cannot be converted to String"),
            (r#"{"S":[]}"#, "Unrecognized collection type class java.lang.String"),
            (r#"{"L":{}}"#, "Start of structure or map found where not expected"),
            (r#"{"B":"YQ"}"#, "Base64"),
            (
                r#"{"NULL":false}"#,
                "Null attribute value types must have the value of true",
            ),
            (r#"{"SS":[]}"#, "An string set  may not be empty"),
            (r#"{"SS":["a","a"]}"#, "Input collection [a, a] contains duplicates."),
            (r#"{"NS":["1","1.0"]}"#, "Input collection contains duplicates"),
            (
                r#"{"BS":["YQ==","YQ=="]}"#,
                "Input collection [YQ==, YQ==]of type BS contains duplicates.",
            ),
        ] {
            let failure = read(json).unwrap_err();
            assert!(failure.message.contains(text), "{json}: {}", failure.message);
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |levels: usize| r#"{"L":["#.repeat(levels) + r#"{"S":""}"# + &"]}".repeat(levels);
        assert!(read(&nested(31)).is_ok());
        assert!(read(&nested(32)).unwrap_err().message.starts_with("Nesting Levels"));
        let deepest = Item::from([("a".into(), read(&nested(31)).unwrap())]);
        assert_eq!(check_nesting(&deepest), Ok(()));
        let deeper = Item::from([("a".into(), Value::L(deepest.into_values().collect()))]);
        assert!(check_nesting(&deeper).is_err());
    }

    #[test]
    fn sizes_are_as_documented() {
        for (json, size) in [
            (r#"{"S":"abc"}"#, 3),
            // Numbers as recorded at the limit of an item's size, where the digits after the point
            // count separately.
            (r#"{"N":"0"}"#, 1),
            (r#"{"N":"1"}"#, 2),
            (r#"{"N":"123"}"#, 3),
            (r#"{"N":"-12"}"#, 3),
            (r#"{"N":"3.14159"}"#, 5),
            (r#"{"N":"-3.14159"}"#, 6),
            (r#"{"N":"1.5"}"#, 3),
            (r#"{"N":"100.001"}"#, 5),
            (r#"{"N":"0.001"}"#, 2),
            (r#"{"N":"1E125"}"#, 2),
            (r#"{"NS":["1.5","1"]}"#, 5),
            (r#"{"NULL":true}"#, 1),
            (r#"{"L":[{"S":"a"}]}"#, 5),
            (r#"{"M":{"k":{"S":"a"}}}"#, 6),
        ] {
            assert_eq!(read(json).unwrap().size(), size, "{json}");
        }
    }
}
