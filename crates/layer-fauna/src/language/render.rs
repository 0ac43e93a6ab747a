//! Values as the JSON of the protocol.

use std::collections::HashSet;
use std::sync::Arc;

use base64::Engine as _;
use quartet_model::hexadecimal;

use crate::language::api_version::ApiVersion;
use crate::language::codec::{Decoder, Part, set_parts};
use crate::language::error::{Error, Errors, Step};
use crate::language::json::{self, Json, write_string};
use crate::language::number::write_double;
use crate::language::value::{Closure, Contents, Document, Native, Ref, Set, Target, Timestamp, Value};

/// Writes values; what the commit decides is known by now.
pub struct Renderer {
    pub out: String,
    /// Replaces every value that is the time of this transaction.
    transaction_micros: u64,
    /// Refs and lambdas look otherwise in old versions of the API.
    version: ApiVersion,
    /// The bytes of texts that errors may still repeat.
    quoted_bytes_left: usize,
}

/// Largest total of the names and descriptions of one error reply, in bytes. Both may repeat a text
/// of the query, and each of many errors may.
const QUOTED_BYTES_MAX: usize = 64 << 10;

/// The value as text, for comparing and hashing.
pub fn compact(value: &Value) -> String {
    render(value, 0)
}

pub fn render(value: &Value, transaction_micros: u64) -> String {
    let mut renderer = Renderer::new(transaction_micros, ApiVersion::V4);
    renderer.value(value);
    renderer.out
}

/// The value as a version of the API shows it.
pub fn in_version(value: &Value, version: ApiVersion) -> String {
    let mut renderer = Renderer::new(0, version);
    renderer.value(value);
    renderer.out
}

/// The body of a good reply.
pub fn resource(value: &Value, transaction_micros: u64, version: ApiVersion) -> String {
    let mut renderer = Renderer::new(transaction_micros, version);
    // Refs, times and escapes take more than a value's size says; growing would copy the whole.
    let bytes = value.size().bytes;
    let expected = bytes.saturating_add(bytes / 4).saturating_add(256);
    renderer.out.reserve(expected.min(BODY_BYTES_RESERVED) as usize);
    renderer.out.push_str("{\"resource\":");
    renderer.value(value);
    renderer.out.push('}');
    renderer.out
}

/// A body grows to more than this as it is written.
const BODY_BYTES_RESERVED: u64 = 64 << 10;

impl Renderer {
    pub fn new(transaction_micros: u64, version: ApiVersion) -> Renderer {
        Renderer {
            out: String::new(),
            transaction_micros,
            version,
            quoted_bytes_left: QUOTED_BYTES_MAX,
        }
    }

    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Value::Int(value) => json::write_integer(*value, &mut self.out),
            Value::Double(value) if value.is_finite() => write_double(*value, &mut self.out),
            Value::Double(value) => write_string(&crate::language::number::java_double(*value), &mut self.out),
            Value::String(text) => write_string(text, &mut self.out),
            Value::Bytes(bytes) => {
                self.escaped("@bytes", &base64::engine::general_purpose::STANDARD.encode(bytes));
            }
            Value::Array(items) => self.array(&items.values),
            Value::Object(fields) => self.object(&fields.entries),
            Value::Page(page) => {
                let cursors = [("before", &page.before), ("after", &page.after)];
                let cursors = cursors
                    .into_iter()
                    .filter_map(|(key, cursor)| Some((key, cursor.as_ref()?)));
                self.out.push('{');
                for (key, cursor) in cursors {
                    self.key(key);
                    self.value(cursor);
                }
                self.key("data");
                self.array(&page.data.values);
                self.out.push('}');
            }
            Value::Ref(reference) => self.reference(reference),
            Value::Set(set) => {
                self.out.push_str("{\"@set\":");
                self.set(set);
                self.out.push('}');
            }
            Value::Time(time) => self.escaped("@ts", &time.to_string()),
            Value::Date(date) => self.escaped("@date", &date.to_string()),
            Value::Uuid(uuid) => self.escaped("@uuid", &hyphenated(uuid)),
            Value::Query(closure) => self.query(closure),
            Value::Document(document) => self.document(document),
            Value::TransactionTime => self.micros(self.transaction_micros),
        }
    }

    /// Lambdas are rendered without `query` in a set, and the set of a history without `@set`.
    fn set(&mut self, set: &Set) {
        self.out.push('{');
        for (key, value) in set_parts(set) {
            self.key(&key);
            match (&value, set) {
                (Value::Query(closure), _) => self.lambda(closure),
                (Value::Set(of), Set::Events(_)) => self.set(of),
                (Value::Array(parts), Set::Union(_) | Set::Intersection(_) | Set::Difference(_))
                    if parts.values.len() == 1 =>
                {
                    self.value(&parts.values[0]);
                }
                _ => self.value(&value),
            }
        }
        self.out.push('}');
    }

    fn micros(&mut self, micros: u64) {
        json::write_integer(micros as i64, &mut self.out);
    }

    fn escaped(&mut self, key: &str, text: &str) {
        self.out.push_str("{\"");
        self.out.push_str(key);
        self.out.push_str("\":");
        write_string(text, &mut self.out);
        self.out.push('}');
    }

    /// A key of an object, with the comma before it.
    fn key(&mut self, key: &str) {
        if !self.out.ends_with('{') {
            self.out.push(',');
        }
        write_string(key, &mut self.out);
        self.out.push(':');
    }

    fn array(&mut self, values: &[Value]) {
        self.out.push('[');
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.value(value);
        }
        self.out.push(']');
    }

    fn object(&mut self, entries: &[(Arc<str>, Value)]) {
        if entries.iter().any(|(key, _)| key.starts_with('@')) {
            self.out.push_str("{\"@obj\":");
            self.plain_object(entries);
            self.out.push('}');
        } else {
            self.plain_object(entries);
        }
    }

    fn plain_object(&mut self, entries: &[(Arc<str>, Value)]) {
        self.out.push('{');
        for (index, (key, value)) in entries.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            write_string(key, &mut self.out);
            self.out.push(':');
            self.value(value);
        }
        self.out.push('}');
    }

    fn document(&mut self, document: &Document) {
        self.out.push('{');
        self.key("ref");
        self.reference(&document.reference);
        if self.version == ApiVersion::V2_0
            && let Some(class) = document.reference.collection()
        {
            self.key("class");
            self.reference(&class);
        }
        self.key("ts");
        match document.ts {
            Timestamp::PENDING => self.micros(self.transaction_micros),
            Timestamp(micros) => self.micros(micros),
        }
        match &document.contents {
            contents if document.reference.names(Native::Indexes) => {
                for (key, value) in &contents.fields().entries {
                    self.key(key);
                    match &**key {
                        "source" => self.source(value),
                        _ => self.value(value),
                    }
                }
            }
            Contents::Known(fields) => {
                for (key, value) in &fields.entries {
                    self.out.push(',');
                    write_string(key, &mut self.out);
                    self.out.push(':');
                    self.value(value);
                }
            }
            Contents::Stored(stored) => self.stored_fields(&mut Decoder::new(stored.bytes(), stored.names())),
        }
        self.out.push('}');
    }

    /// The source of an index: its collections have the version's name.
    fn source(&mut self, source: &Value) {
        let word = if self.version < ApiVersion::V2_7 {
            "class"
        } else {
            "collection"
        };
        match source {
            Value::Array(sources) => {
                self.out.push('[');
                for (index, source) in sources.values.iter().enumerate() {
                    if index > 0 {
                        self.out.push(',');
                    }
                    self.source(source);
                }
                self.out.push(']');
            }
            Value::Object(fields) => {
                self.out.push('{');
                for (key, value) in &fields.entries {
                    self.key(if matches!(&**key, "class" | "collection") {
                        word
                    } else {
                        key
                    });
                    self.value(value);
                }
                self.out.push('}');
            }
            other => self.value(other),
        }
    }

    /// The fields of a document, from its row.
    fn stored_fields(&mut self, row: &mut Decoder<'_>) {
        let Some(Part::Object(count)) = row.next_part() else {
            return;
        };
        for _ in 0..count {
            self.out.push(',');
            self.stored_field(row);
        }
    }

    /// Writes a key and its value; returns true if the key starts with `@`.
    fn stored_field(&mut self, row: &mut Decoder<'_>) -> bool {
        let key = row.key().unwrap_or_default();
        write_string(key, &mut self.out);
        self.out.push(':');
        self.stored_value(row);
        key.starts_with('@')
    }

    fn stored_value(&mut self, row: &mut Decoder<'_>) {
        match row.next_part() {
            Some(Part::Text(text)) => write_string(text, &mut self.out),
            Some(Part::Whole(value)) => self.value(&value),
            Some(Part::Array(count)) => {
                self.out.push('[');
                for index in 0..count {
                    if index > 0 {
                        self.out.push(',');
                    }
                    self.stored_value(row);
                }
                self.out.push(']');
            }
            Some(Part::Object(count)) => self.stored_object(count, row),
            None => self.out.push_str("null"),
        }
    }

    fn stored_object(&mut self, count: usize, row: &mut Decoder<'_>) {
        let start = self.out.len();
        let mut has_marked = false;
        self.out.push('{');
        for index in 0..count {
            if index > 0 {
                self.out.push(',');
            }
            has_marked |= self.stored_field(row);
        }
        self.out.push('}');
        if has_marked {
            self.out.insert_str(start, "{\"@obj\":");
            self.out.push('}');
        }
    }

    fn reference(&mut self, reference: &Ref) {
        if self.version == ApiVersion::V2_0 {
            return self.escaped("@ref", &path_of(reference));
        }
        self.out.push_str("{\"@ref\":{\"id\":");
        match reference.target {
            Target::Native(Native::Collections) => write_string(self.word_for_collections(), &mut self.out),
            _ => write_string(&reference.id(), &mut self.out),
        }
        // A ref with a number shows its database on its collection, a ref with a name on itself.
        let is_named = matches!(reference.target, Target::Native(_) | Target::Named(..));
        if !matches!(reference.target, Target::Native(_))
            && let Some(collection) = reference.collection()
        {
            let key = if self.version < ApiVersion::V2_7 {
                "class"
            } else {
                "collection"
            };
            self.key(key);
            self.reference(&if is_named {
                collection.with_scope(crate::language::value::no_scope())
            } else {
                collection
            });
        }
        if is_named && let Some(database) = reference.database() {
            self.key("database");
            self.reference(&database);
        }
        self.out.push_str("}}");
    }

    fn word_for_collections(&self) -> &'static str {
        match self.version < ApiVersion::V2_7 {
            true => "classes",
            false => "collections",
        }
    }

    fn query(&mut self, closure: &Closure) {
        self.out.push_str("{\"@query\":");
        self.lambda(closure);
        self.out.push('}');
    }

    fn lambda(&mut self, closure: &Closure) {
        let source = lambda_source(closure);
        self.out.push('{');
        if closure.api_version.max(self.version) > ApiVersion::LAMBDA_DEFAULT {
            self.key("api_version");
            write_string(closure.api_version.name(), &mut self.out);
        }
        for key in ["lambda", "expr"] {
            self.key(key);
            json::write(source.field(key).unwrap_or(&Json::Null), &mut self.out);
        }
        self.out.push('}');
    }
}

pub fn hyphenated(uuid: &[u8; 16]) -> String {
    let mut text = hexadecimal(uuid);
    for place in [20, 16, 12, 8] {
        text.insert(place, '-');
    }
    text
}

/// A ref as the oldest version of the API shows it.
fn path_of(reference: &Ref) -> String {
    match &reference.target {
        Target::Native(Native::Collections) => "classes".to_owned(),
        Target::Native(native) => native.name().to_owned(),
        _ => {
            let collection = reference.collection().as_ref().map(path_of).unwrap_or_default();
            format!("{collection}/{}", reference.id())
        }
    }
}

/// A lambda as it was written; the variables it took from outside are bound in front of its body.
pub fn lambda_source(closure: &Closure) -> Json {
    let source = &closure.lambda.source;
    let free = closure.lambda.free.iter();
    let bindings = free.filter_map(|(name, slot)| Some((name.clone(), expression_of(closure.variables.get(*slot)?))));
    let bindings: Vec<(Arc<str>, Json)> = bindings.collect();
    let part = |key| source.field(key).cloned().unwrap_or(Json::Null);
    let body = canonical(&part("expr"));
    let body = match bindings.is_empty() {
        true => body,
        false => Json::object([("let", Json::Object(Arc::new(bindings))), ("in", body)]),
    };
    Json::object([("lambda", part("lambda")), ("expr", body)])
}

/// The expression with bindings as one object where their names differ, as the original shows them.
fn canonical(json: &Json) -> Json {
    let each = |fields: &[(Arc<str>, Json)]| {
        let fields = fields.iter().map(|(key, value)| (key.clone(), canonical(value)));
        Json::Object(Arc::new(fields.collect()))
    };
    match json {
        Json::Array(items) => Json::Array(Arc::new(items.iter().map(canonical).collect())),
        Json::Object(fields) => match fields.as_slice() {
            [(key, _)] if &**key == "quote" => json.clone(),
            [(key, Json::Object(literal))] if &**key == "object" => Json::object([("object", each(literal))]),
            [(key, operand)] if matches!(&**key, "and" | "or") && !matches!(operand, Json::Array(_)) => {
                let operands = Json::Array(Arc::new(vec![canonical(operand)]));
                Json::Object(Arc::new(vec![(key.clone(), operands)]))
            }
            fields => match (json.field("let").and_then(merged), json.field("in")) {
                (Some(bindings), Some(body)) if fields.len() == 2 => {
                    Json::object([("let", each(&bindings)), ("in", canonical(body))])
                }
                // The original shows whether all are meant before the default.
                _ if json.field("select").is_some() => {
                    let place = |key: &str| {
                        ["select", "from", "all", "default"]
                            .iter()
                            .position(|listed| *listed == key)
                    };
                    let mut fields = fields.to_vec();
                    fields.sort_by_key(|(key, _)| place(key));
                    each(&fields)
                }
                _ => each(fields),
            },
        },
        other => other.clone(),
    }
}

/// An array of single bindings with different names as one list.
fn merged(bindings: &Json) -> Option<Vec<(Arc<str>, Json)>> {
    let Json::Array(items) = bindings else { return None };
    let mut merged: Vec<(Arc<str>, Json)> = Vec::new();
    let mut names = HashSet::new();
    for item in items.iter() {
        match item {
            Json::Object(fields) if fields.len() == 1 && names.insert(fields[0].0.clone()) => {
                merged.push(fields[0].clone());
            }
            _ => return None,
        }
    }
    Some(merged)
}

/// An expression that evaluates to the value.
fn expression_of(value: &Value) -> Json {
    match value {
        Value::Array(items) => Json::Array(Arc::new(items.values.iter().map(expression_of).collect())),
        Value::Object(fields) => {
            let entries = fields
                .entries
                .iter()
                .map(|(key, value)| (key.clone(), expression_of(value)));
            Json::object([("object", Json::Object(Arc::new(entries.collect())))])
        }
        Value::Document(document) => expression_of(&document.as_object()),
        other => json::parse(compact(other).as_bytes()).unwrap_or(Json::Null),
    }
}

/// The body of an error reply.
pub fn errors(errors: &Errors, transaction_micros: u64, version: ApiVersion) -> String {
    let mut renderer = Renderer::new(transaction_micros, version);
    renderer.out.push_str("{\"errors\":");
    renderer.errors(&errors.0);
    renderer.out.push('}');
    renderer.out
}

/// Words about documents and collections in descriptions, and those before version 2.7.
const OLD_WORDS: [(&str, &str); 12] = [
    (
        "Valid native collection name expected, ",
        "Valid native class name expected, ",
    ),
    ("Document not found.", "Instance not found."),
    ("Collection not found.", "Class not found."),
    ("Document already exists.", "Instance already exists."),
    ("Collection already exists.", "Class already exists."),
    ("document data is not valid.", "instance data is not valid."),
    ("document is not unique.", "instance is not unique."),
    ("The document was not found or", "The instance was not found or"),
    ("Ref refers to undefined collection ", "Ref refers to undefined class "),
    (
        "Cannot create a schema meta collection.",
        "Cannot create a schema meta class.",
    ),
    (
        "Cannot update a schema meta collection.",
        "Cannot update a schema meta class.",
    ),
    (
        "Cannot delete a schema meta collection.",
        "Cannot delete a schema meta class.",
    ),
];

impl Renderer {
    fn description(&mut self, description: &str) {
        let old = OLD_WORDS.iter().find(|(new, _)| description.starts_with(new));
        match old.filter(|_| self.version < ApiVersion::V2_7) {
            Some((new, old)) => self.quote(&format!("{old}{}", &description[new.len()..])),
            None => self.quote(description),
        }
    }

    /// Writes a text, or as much of it as an error reply may still repeat.
    fn quote(&mut self, text: &str) {
        let end = text.floor_char_boundary(self.quoted_bytes_left);
        self.quoted_bytes_left -= end;
        match end < text.len() {
            true => write_string(&format!("{}...", &text[..end]), &mut self.out),
            false => write_string(text, &mut self.out),
        }
    }

    fn errors(&mut self, errors: &[Error]) {
        self.out.push('[');
        for (index, error) in errors.iter().enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            self.error(error);
        }
        self.out.push(']');
    }

    fn error(&mut self, error: &Error) {
        self.out.push('{');
        if let Some(position) = &error.position {
            self.key("position");
            self.steps(position.iter().rev());
        }
        self.key("code");
        write_string(error.code.wire().0, &mut self.out);
        self.key("description");
        self.description(&error.description);
        if !error.failures.is_empty() {
            self.key("failures");
            self.out.push('[');
            for (index, failure) in error.failures.iter().enumerate() {
                self.out
                    .push_str(if index > 0 { ",{\"field\":" } else { "{\"field\":" });
                self.field(&failure.field);
                self.key("code");
                write_string(failure.code, &mut self.out);
                self.key("description");
                self.quote(&failure.description);
                self.out.push('}');
            }
            self.out.push(']');
        }
        if !error.cause.is_empty() {
            self.key("cause");
            self.errors(&error.cause);
        }
        self.out.push('}');
    }

    /// A path with indexes as texts.
    fn field(&mut self, steps: &[Step]) {
        let steps: Vec<Step> = steps
            .iter()
            .map(|step| match step {
                Step::Index(index) => Step::Name(index.to_string().into()),
                other => other.clone(),
            })
            .collect();
        self.steps(steps.iter());
    }

    fn steps<'s>(&mut self, steps: impl Iterator<Item = &'s Step>) {
        self.out.push('[');
        for (index, step) in steps.enumerate() {
            if index > 0 {
                self.out.push(',');
            }
            match step {
                Step::Key(key) => write_string(key, &mut self.out),
                Step::Name(name) => self.quote(name),
                Step::Index(index) => json::write_integer(*index as i64, &mut self.out),
            }
        }
        self.out.push(']');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::codec::Encoder;
    use crate::language::parse;
    use crate::language::value::Fields;
    use crate::language::value::NoNames;

    /// Fields are shown alike from their row and decoded, and are of the same size.
    fn check(query: &str) {
        let json = json::parse(query.as_bytes()).unwrap();
        let fields = Arc::new(Fields::new(vec![
            ("data".into(), parse::quoted(&json)),
            ("ttl".into(), Value::TransactionTime),
        ]));
        let mut encoded = Encoder::default();
        encoded.fields(&fields, &NoNames);
        let decoder = || Decoder::new(&encoded.bytes, &NoNames);
        let (size, value) = decoder().survey("ttl").unwrap();
        let decoded = decoder().fields().unwrap();
        assert_eq!(
            (size.depth, size.bytes),
            (decoded.size().depth, decoded.size().bytes),
            "{query}"
        );
        assert!(matches!(value, Some(Value::TransactionTime)), "{query}");
        let mut renderer = Renderer::new(7, ApiVersion::V4);
        renderer.stored_fields(&mut decoder());
        let expected = render(&Value::Object(Arc::new(decoded)), 7);
        assert_eq!(format!("{{{}}}", &renderer.out[1..]), expected);
    }

    #[test]
    fn rows_are_shown_as_what_they_hold() {
        for query in [
            "{}",
            "[]",
            r#"{"a":1,"b":-2.5,"c":[true,false,null,"x\"y\n\u0001é",{"d":{}}]}"#,
            r#"{"@ref":{"id":"7","collection":{"@ref":{"id":"things","collection":{"@ref":{"id":"collections"}}}}}}"#,
            r#"{"@ref":{"id":"no such function","collection":{"@ref":{"id":"functions"}}}}"#,
            r#"[{"@ts":"2020-01-01T00:00:00.5Z"},{"@date":"2020-01-01"}]"#,
            r#"{"@odd":1,"other":{"@set":{"plain":[{"@odd":{"@odder":[]}}]}}}"#,
        ] {
            check(query);
        }
    }

    /// An index's name of a megabyte was in its error, and a hundred of these in one reply.
    #[test]
    fn errors_repeat_a_bounded_part_of_a_query() {
        let long = Errors::invalid_ref("index", &"é".repeat(500_000)).within(Step::Name("n".repeat(500_000).into()));
        let many = Errors((0..100).flat_map(|_| long.0.clone()).collect());
        let short = Errors::argument("short");
        let body = errors(&Errors([short.0, many.0].concat()), 0, ApiVersion::V4);
        assert!(body.len() < QUOTED_BYTES_MAX + 100 * 120, "{}", body.len());
        assert!(body.starts_with(r#"{"errors":[{"position":[],"code":"invalid argument","description":"short"},"#));
        assert!(body.ends_with(r#"{"position":["..."],"code":"invalid ref","description":"..."}]}"#));
    }

    #[test]
    fn a_lambda_is_of_the_size_it_has_decoded() {
        let source = json::parse(br#"{"lambda":"x","expr":{"add":[1,{"var":"x"}]}}"#).unwrap();
        let closure = Closure {
            lambda: parse::lambda(&source, ApiVersion::V4).unwrap(),
            variables: Arc::from([]),
            api_version: ApiVersion::V4,
        };
        let fields = Fields::new(vec![("body".into(), Value::Query(Arc::new(closure)))]);
        let mut encoded = Encoder::default();
        encoded.fields(&fields, &NoNames);
        let (size, _) = Decoder::new(&encoded.bytes, &NoNames).survey("ttl").unwrap();
        assert_eq!((size.depth, size.bytes), (fields.size().depth, fields.size().bytes));
    }

    #[test]
    fn a_broken_row_is_seen_before_it_is_shown() {
        let fields = Fields::new(vec![(
            "data".into(),
            Value::array(vec![Value::string("text"), Value::Int(1)]),
        )]);
        let mut encoded = Encoder::default();
        encoded.fields(&fields, &NoNames);
        for end in 0..encoded.bytes.len() {
            assert!(Decoder::new(&encoded.bytes[..end], &NoNames).survey("ttl").is_none());
        }
    }
}
