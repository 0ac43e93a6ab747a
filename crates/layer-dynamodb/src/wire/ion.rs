//! Items as Amazon Ion text, in the forms of the service's exports: written, and read for imports.
//!
//! Everything that such lines can contain is read: structures, lists, strings, symbols, numbers,
//! booleans, null, blobs and the annotations of sets. Other parts of Ion, such as timestamps,
//! symbolic expressions and long strings, are refused. A line becomes the JSON of the same item, so
//! an item's contents are checked in one place.
//!
//! ```text
//! S "text"   N 12.5 or 125d-1   B {{base64}}   BOOL true   NULL null   M {name:…}   L […]
//! SS $dynamodb_SS::["a"]        NS $dynamodb_NS::[1.]      BS $dynamodb_BS::[{{…}}]
//! ```
//!
//! Source: the Amazon Ion specification, and the DynamoDB developer guide, "DynamoDB table export
//! output format".

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::wire::json::{Json, write_string};
use crate::wire::number::Number;
use crate::wire::value::{Item, Value, parse_item};

/// Appends a line of an export: the item, in a structure of its own.
pub fn write_line(item: &Item, out: &mut Vec<u8>) {
    out.extend_from_slice(b"$ion_1_0 {Item:");
    write_members(item, out);
    out.extend_from_slice(b"}\n");
}

/// Appends a line of an incremental export.
pub fn write_change<'i>(
    micros: u64,
    keys: &'i Item,
    images: impl Iterator<Item = (&'i str, &'i Item)>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(format!("$ion_1_0 {{Record:{{Metadata:{{WriteTimestampMicros:{micros}.}},Keys:").as_bytes());
    write_members(keys, out);
    for (name, image) in images {
        out.extend_from_slice(format!(",{name}:").as_bytes());
        write_members(image, out);
    }
    out.extend_from_slice(b"}}\n");
}

fn write_members(item: &Item, out: &mut Vec<u8>) {
    out.push(b'{');
    for (position, (name, value)) in item.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_string(out, name);
        out.push(b':');
        write_value(value, out);
    }
    out.push(b'}');
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::S(text) => write_string(out, text),
        Value::N(number) => write_number(*number, out),
        Value::B(bytes) => write_blob(bytes, out),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Null => out.extend_from_slice(b"null"),
        Value::M(members) => write_members(members, out),
        Value::L(elements) => write_list(elements, out, write_value),
        Value::SS(set) => {
            out.extend_from_slice(b"$dynamodb_SS::");
            write_list(set, out, |text, out| write_string(out, text));
        }
        Value::NS(set) => {
            out.extend_from_slice(b"$dynamodb_NS::");
            write_list(set, out, |number, out| write_number(*number, out));
        }
        Value::BS(set) => {
            out.extend_from_slice(b"$dynamodb_BS::");
            write_list(set, out, |bytes, out| write_blob(bytes, out));
        }
    }
}

fn write_list<'v, T: 'v>(
    elements: impl IntoIterator<Item = &'v T>,
    out: &mut Vec<u8>,
    write: impl Fn(&T, &mut Vec<u8>),
) {
    out.push(b'[');
    for (position, element) in elements.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write(element, out);
    }
    out.push(b']');
}

/// As a decimal, which is what a number with a point or with `d` before its exponent is.
fn write_number(number: Number, out: &mut Vec<u8>) {
    let (negative, exponent, coefficient) = number.parts();
    if negative {
        out.push(b'-');
    }
    out.extend_from_slice(coefficient.to_string().as_bytes());
    match exponent {
        0 => out.push(b'.'),
        exponent => out.extend_from_slice(format!("d{exponent}").as_bytes()),
    }
}

fn write_blob(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{{");
    out.extend_from_slice(BASE64_STANDARD.encode(bytes).as_bytes());
    out.extend_from_slice(b"}}");
}

// ---- reading

/// How deep a line may nest, which is deeper than an item may.
const NESTING_MAX: usize = 40;

/// The item of a line of an export; `None` if it is none.
pub fn read_line(line: &[u8]) -> Option<Item> {
    let line = std::str::from_utf8(line).ok()?.trim();
    let mut reader = Reader {
        rest: line.strip_prefix("$ion_1_0").unwrap_or(line),
    };
    let record = reader.value(0)?;
    let is_whole = reader.rest.trim_start().is_empty();
    let item = record.get("M")?.get("Item")?.get("M")?;
    is_whole.then(|| parse_item(item).ok()).flatten()
}

fn typed(kind: &'static str, content: Json<'static>) -> Json<'static> {
    Json::Object(vec![(kind.into(), content)])
}

fn text(text: String) -> Json<'static> {
    Json::Text(text.into())
}

/// Each method takes its element from the start of the rest, and returns `None` if something else
/// is next.
struct Reader<'l> {
    rest: &'l str,
}

impl<'l> Reader<'l> {
    fn value(&mut self, level: usize) -> Option<Json<'static>> {
        if level > NESTING_MAX {
            return None;
        }
        self.rest = self.rest.trim_start();
        match self.rest.as_bytes() {
            [b'{', b'{', ..] => self.blob(),
            [b'{', ..] => self.structure(level),
            [b'[', ..] => Some(typed("L", Json::List(self.list(level)?))),
            [b'"', ..] => Some(typed("S", text(self.quoted('"')?))),
            [b'-' | b'0'..=b'9', ..] => self.number(),
            _ => self.word(level),
        }
    }

    fn take(&mut self, mark: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(mark)?;
        Some(())
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'l str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (text, remaining) = self.rest.split_at(end);
        self.rest = remaining;
        text
    }

    /// Parses parts between two marks, separated by commas, with an optional trailing one.
    fn parts<T>(&mut self, start: &str, end: &str, mut part: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        self.take(start)?;
        let mut parts = Vec::new();
        while self.take(end).is_none() {
            parts.push(part(self)?);
            if self.take(",").is_none() {
                self.take(end)?;
                break;
            }
        }
        Some(parts)
    }

    fn structure(&mut self, level: usize) -> Option<Json<'static>> {
        let members = self.parts("{", "}", |reader| {
            let name = reader.name()?;
            reader.take(":")?;
            Some((name.into(), reader.value(level + 1)?))
        })?;
        Some(typed("M", Json::Object(members)))
    }

    fn list(&mut self, level: usize) -> Option<Vec<Json<'static>>> {
        self.parts("[", "]", |reader| reader.value(level + 1))
    }

    fn blob(&mut self) -> Option<Json<'static>> {
        self.take("{{")?;
        let digits = self.take_while(|c| c != '}').split_whitespace().collect();
        self.take("}}")?;
        Some(typed("B", text(digits)))
    }

    fn number(&mut self) -> Option<Json<'static>> {
        let literal = self.take_while(|c| c.is_ascii_digit() || "+-._dDeE".contains(c));
        let literal = literal.replace('_', "").replace(['d', 'D', 'e'], "E");
        let (coefficient, exponent) = literal.split_once('E').unwrap_or((literal.as_str(), "0"));
        let coefficient = coefficient.strip_suffix('.').unwrap_or(coefficient);
        Some(typed("N", text(format!("{coefficient}E{exponent}"))))
    }

    /// true, false, null, or the annotation of a set and the set.
    fn word(&mut self, level: usize) -> Option<Json<'static>> {
        let is_symbol = self.rest.starts_with('\'');
        let word = self.name()?;
        let kind = match word.as_str() {
            "true" | "false" | "null" if is_symbol => return None,
            "true" | "false" => return Some(typed("BOOL", Json::Bool(word == "true"))),
            "null" => return Some(typed("NULL", Json::Bool(true))),
            "$dynamodb_SS" => ("SS", "S"),
            "$dynamodb_NS" => ("NS", "N"),
            "$dynamodb_BS" => ("BS", "B"),
            _ => return None,
        };
        self.take("::")?;
        let elements = self.list(level)?;
        let elements = elements.iter().map(|element| element.get(kind.1).cloned());
        Some(typed(kind.0, Json::List(elements.collect::<Option<_>>()?)))
    }

    /// A symbol, or a string where a structure has names.
    fn name(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next()? {
            quote @ ('"' | '\'') => self.quoted(quote),
            _ => {
                let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
                (!name.is_empty()).then(|| name.to_owned())
            }
        }
    }

    fn quoted(&mut self, quote: char) -> Option<String> {
        let mut characters = self.rest.char_indices();
        characters.next().filter(|(_, first)| *first == quote)?;
        let mut text = String::new();
        loop {
            match characters.next()? {
                (end, c) if c == quote => {
                    self.rest = &self.rest[end + 1..];
                    return Some(text);
                }
                (_, '\\') => text.push(escaped(&mut characters.by_ref().map(|(_, c)| c))?),
                (_, c) => text.push(c),
            }
        }
    }
}

/// The character of an escape, after its backslash.
fn escaped(characters: &mut impl Iterator<Item = char>) -> Option<char> {
    let digits = match characters.next()? {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        'a' => return Some('\x07'),
        'b' => return Some('\x08'),
        't' => return Some('\t'),
        'n' => return Some('\n'),
        'v' => return Some('\x0b'),
        'f' => return Some('\x0c'),
        'r' => return Some('\r'),
        '0' => return Some('\0'),
        itself @ ('"' | '\'' | '\\' | '/' | '?') => return Some(itself),
        _ => return None,
    };
    let mut number = 0_u32;
    for _ in 0..digits {
        number = number.checked_mul(16)? + characters.next()?.to_digit(16)?;
    }
    char::from_u32(number)
}

#[cfg(test)]
mod tests {
    use super::{NESTING_MAX, read_line, write_line};
    use crate::wire::json::Json;
    use crate::wire::value::{item_json, parse_item};

    fn check(line: &str, expected: Option<&str>) {
        let item = read_line(line.as_bytes());
        assert_eq!(item.as_ref().map(item_json).as_deref(), expected, "{line}");
    }

    #[test]
    fn a_written_item_is_read() {
        let json = r#"{"b":{"B":"AP8="},"bs":{"BS":["","AA=="]},"l":{"L":[{"S":"a\"\\\n\u0001é"},{"NULL":true},{"L":[]}]},
            "m":{"M":{"a b":{"BOOL":false}}},"n":{"N":"-12.5"},"ns":{"NS":["1","2E+100","-0.003"]},"s":{"S":""},
            "ss":{"SS":["a","]}"]},"t":{"BOOL":true},"z":{"N":"0"}}"#;
        let item = parse_item(&Json::parse(json.as_bytes()).unwrap()).unwrap();
        let mut line = Vec::new();
        write_line(&item, &mut line);
        assert_eq!(read_line(&line), Some(item));
    }

    #[test]
    fn lines_of_the_service_are_read() {
        check(
            r#"$ion_1_0 {Item:{Authors:$dynamodb_SS::["B","A"],Id:103.,InPublication:false,PageCount:6d2,Price:-2.5e1,'a b':null}}"#,
            Some(
                r#"{"Authors":{"SS":["A","B"]},"Id":{"N":"103"},"InPublication":{"BOOL":false},"PageCount":{"N":"600"},"Price":{"N":"-25"},"a b":{"NULL":true}}"#,
            ),
        );
        check(
            r#" { Item : { '$dynamodb_NS' : '$dynamodb_NS' :: [ 1 ] , b : {{ AP8= }} , s : "\x41\u00e9\U0001F600" , l : [ 1 , ] , } } "#,
            Some(r#"{"$dynamodb_NS":{"NS":["1"]},"b":{"B":"AP8="},"l":{"L":[{"N":"1"}]},"s":{"S":"Aé😀"}}"#),
        );
    }

    #[test]
    fn a_malformed_item_is_none() {
        let deep = format!("{{Item:{{a:{}{}}}}}", "[".repeat(NESTING_MAX), "]".repeat(NESTING_MAX));
        for line in [
            "",
            "$ion_1_0",
            "{",
            "{}",
            "{Item:1}",
            "{Item:{}} x",
            "{Item:{a:}}",
            "{Item:{a:b}}",
            "{Item:{a:2007-01-01}}",
            "{Item:{a:null.string}}",
            "{Item:{a:'true'}}",
            "{Item:{a:'null'}}",
            "{Item:{a:$dynamodb_SS::[1]}}",
            "{Item:{a:$dynamodb_SS::[]}}",
            "{Item:{a:{{é}}}}",
            "{Item:{a:\"}}",
            "{Item:{a:\"\\q\"}}",
            "{Item:{a:\"\\uD83D\"}}",
            "{Item:{a:1 b:2}}",
            "{Other:{a:1}}",
            &deep,
        ] {
            check(line, None);
        }
        let bottomless = format!("{{Item:{{a:{}", "[".repeat(1_000_000));
        check(&bottomless, None);
        check("{Item:{}}", Some("{}"));
    }
}
