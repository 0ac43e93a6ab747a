//! Values as files have them, to values as a query writes them.
//!
//! | form   | written by                                        | a time                  | a whole number |
//! | ------ | ------------------------------------------------- | ----------------------- | -------------- |
//! | wire   | FQL v4 (`Get`), so `quartet export fauna`         | `{"@ts": "2020-..."}`   | `42`           |
//! | tagged | the service's snapshot export                     | `{"@time": "2020-..."}` | `{"@int": "42"}` |
//! | simple | the service's snapshot export, on request         | `"2020-..."`            | `42`           |
//!
//! The simple form says no types: what was a time, a date, bytes or a UUID arrives as text.

use std::collections::BTreeSet;

use super::json::Json;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Wire,
    Tagged,
    Simple,
}

/// Reads the values of one form. Its errors are reasons of rejection.
pub struct Reader<'a> {
    pub form: Form,
    /// Collections that the export holds: in the simple form an object of an id and one of these is
    /// a ref.
    pub collections: &'a BTreeSet<String>,
}

/// Objects that the wire's form gives a meaning.
const SPECIAL: [&str; 7] = ["@ref", "@ts", "@date", "@bytes", "@uuid", "@set", "@query"];

/// Names of FQL v10 for what holds schema objects, and those of FQL v4.
const NATIVE: [(&str, &str); 9] = [
    ("Collection", "collections"),
    ("Database", "databases"),
    ("Index", "indexes"),
    ("Function", "functions"),
    ("Role", "roles"),
    ("AccessProvider", "access_providers"),
    ("Key", "keys"),
    ("Token", "tokens"),
    ("Credential", "credentials"),
];

impl Reader<'_> {
    /// Returns the expression that has this value.
    pub fn expression(&self, value: &Json) -> Result<Json, String> {
        match (value, self.form) {
            (Json::Array(items), _) => {
                let items = items.iter().map(|item| self.expression(item));
                Ok(Json::Array(items.collect::<Result<_, _>>()?))
            }
            (Json::Object(_), Form::Wire) => self.of_wire(value),
            (Json::Object(_), Form::Tagged) => self.of_tagged(value),
            (Json::Object(_), Form::Simple) => match self.simple_reference(value) {
                Some(reference) => Ok(reference),
                None => self.literal(value),
            },
            (scalar, _) => Ok(scalar.clone()),
        }
    }

    /// Returns the expression of an object that has no meaning but its fields.
    pub fn literal(&self, value: &Json) -> Result<Json, String> {
        let Json::Object(fields) = value else {
            return self.expression(value);
        };
        let fields = fields
            .iter()
            .map(|(name, value)| Ok((name.clone(), self.expression(value)?)));
        let fields: Vec<(String, Json)> = fields.collect::<Result<_, String>>()?;
        // Even within `object` a query gives meaning to names such as these.
        if fields.iter().any(|(name, _)| name.starts_with('@')) {
            let pairs = fields
                .into_iter()
                .map(|(name, value)| Json::Array(vec![Json::Text(name), value]));
            return Ok(Json::object([("to_object", Json::Array(pairs.collect()))]));
        }
        Ok(Json::object([("object", Json::Object(fields))]))
    }

    /// An object that looks like a special value, and is none, is wrapped in `@obj`.
    fn of_wire(&self, value: &Json) -> Result<Json, String> {
        match value.only_field() {
            Some((name, _)) if SPECIAL.contains(&name) => Ok(value.clone()),
            Some(("@obj", inner)) => self.literal(inner),
            _ => self.literal(value),
        }
    }

    fn of_tagged(&self, value: &Json) -> Result<Json, String> {
        let Some((tag, inner)) = value.only_field().filter(|(name, _)| name.starts_with('@')) else {
            return match value {
                Json::Object(fields) if fields.iter().any(|(name, _)| name.starts_with('@')) => Err(unknown(value)),
                _ => self.literal(value),
            };
        };
        let text = inner.as_text();
        let renamed = |name: &str| text.map(|text| Json::object([(name, Json::text(text))]));
        let read = match tag {
            "@int" | "@long" => text.and_then(|text| text.parse::<i64>().ok()).map(Json::from),
            "@double" => text.and_then(double),
            "@time" => renamed("@ts"),
            "@date" | "@bytes" | "@uuid" => renamed(tag),
            "@mod" => text.map(|name| schema_reference("collections", name)),
            "@ref" => reference(inner),
            "@object" => return self.literal(inner),
            _ => None,
        };
        read.ok_or_else(|| unknown(value))
    }

    fn simple_reference(&self, value: &Json) -> Option<Json> {
        let Json::Object(fields) = value else { return None };
        let collection = value.field("coll")?.as_text()?;
        let is_known = match value.field("id") {
            Some(_) => self.collections.contains(collection),
            None => native(collection).is_some(),
        };
        (fields.len() == 2 && is_known).then(|| reference(value)).flatten()
    }
}

fn unknown(value: &Json) -> String {
    format!("no value of FaunaDB is written as {value}")
}

/// Doubles without a spelling in JSON are made by the query itself.
fn double(text: &str) -> Option<Json> {
    let special = match text {
        "NaN" => Some("NaN"),
        "Infinity" => Some("\u{221e}"),
        "-Infinity" => Some("-\u{221e}"),
        _ => None,
    };
    if let Some(special) = special {
        return Some(Json::object([("to_double", Json::text(special))]));
    }
    let number: f64 = text.parse().ok()?;
    let spelled = serde_json::Number::from_f64(number)?.to_string();
    Some(Json::Plain(spelled))
}

/// A ref of FQL v10: an id or a name, and a collection, which is a module in the tagged form.
fn reference(value: &Json) -> Option<Json> {
    let collection = value.field("coll")?;
    let collection = collection.as_text().or_else(|| collection.field("@mod")?.as_text())?;
    let id = value.field("id").or_else(|| value.field("name"))?.as_text()?;
    match native(collection) {
        Some(kind) => Some(schema_reference(kind, id)),
        None if id.parse::<i64>().is_ok() => Some(document_reference(collection, id)),
        None => None,
    }
}

fn native(name: &str) -> Option<&'static str> {
    let row = NATIVE.iter().find(|(word, _)| *word == name);
    row.map(|(_, kind)| *kind)
}

/// The ref of a schema object of a kind, such as `collections`.
pub fn schema_reference(kind: &str, id: &str) -> Json {
    let kind = Json::object([("@ref", Json::object([("id", Json::text(kind))]))]);
    Json::object([("@ref", Json::object([("id", Json::text(id)), ("collection", kind)]))])
}

pub fn document_reference(collection: &str, id: &str) -> Json {
    let collection = schema_reference("collections", collection);
    let parts = [("id", Json::text(id)), ("collection", collection)];
    Json::object([("@ref", Json::object(parts))])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(form: Form, value: &str) -> Result<String, String> {
        let collections = BTreeSet::from(["things".to_owned()]);
        let reader = Reader {
            form,
            collections: &collections,
        };
        let expression = reader.expression(&Json::parse(value.as_bytes()).unwrap());
        expression.map(|expression| expression.to_string())
    }

    fn thing(id: &str) -> String {
        document_reference("things", id).to_string()
    }

    #[test]
    fn every_value_of_the_wire_is_written_as_a_query_has_it() {
        for (value, expected) in [
            (r#"[1,2.0,1e300,true,null,"x"]"#, r#"[1,2.0,1e300,true,null,"x"]"#),
            (r#"{"z":1,"a":{}}"#, r#"{"object":{"z":1,"a":{"object":{}}}}"#),
            (r#"{"@ts":"x"}"#, r#"{"@ts":"x"}"#),
            (r#"{"@obj":{"@ts":"x"}}"#, r#"{"to_object":[["@ts","x"]]}"#),
            (
                r#"{"@obj":{"@set":{"match":{"@ref":{}}}}}"#,
                r#"{"to_object":[["@set",{"object":{"match":{"@ref":{}}}}]]}"#,
            ),
            (
                r#"{"@obj":{"@a":{"@b":1}}}"#,
                r#"{"to_object":[["@a",{"to_object":[["@b",1]]}]]}"#,
            ),
        ] {
            assert_eq!(check(Form::Wire, value).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn every_tag_of_the_service_has_its_value() {
        let named = schema_reference("roles", "boss").to_string();
        let module = schema_reference("collections", "things").to_string();
        for (value, expected) in [
            (r#"{"@int":"5"}"#, "5"),
            (r#"{"@long":"-9007199254740993"}"#, "-9007199254740993"),
            (r#"{"@double":"61.5"}"#, "61.5"),
            (r#"{"@double":"6.0E10"}"#, "60000000000.0"),
            (r#"{"@double":"NaN"}"#, r#"{"to_double":"NaN"}"#),
            (r#"{"@double":"-Infinity"}"#, "{\"to_double\":\"-\u{221e}\"}"),
            (r#"{"@time":"x"}"#, r#"{"@ts":"x"}"#),
            (r#"{"@date":"x"}"#, r#"{"@date":"x"}"#),
            (r#"{"@bytes":"AQ=="}"#, r#"{"@bytes":"AQ=="}"#),
            (r#"{"@uuid":"x"}"#, r#"{"@uuid":"x"}"#),
            (r#"{"@mod":"things"}"#, &module),
            (r#"{"@ref":{"id":"7","coll":{"@mod":"things"}}}"#, &thing("7")),
            (
                r#"{"@ref":{"id":"7","coll":{"@mod":"things"},"exists":false,"cause":"not found"}}"#,
                &thing("7"),
            ),
            (r#"{"@ref":{"name":"boss","coll":{"@mod":"Role"}}}"#, &named),
            (r#"{"@object":{"@x":{"@int":"1"}}}"#, r#"{"to_object":[["@x",1]]}"#),
            (r#"{"b":[{"@int":"1"}],"a":null}"#, r#"{"object":{"b":[1],"a":null}}"#),
        ] {
            assert_eq!(check(Form::Tagged, value).as_deref(), Ok(expected), "{value}");
        }
        for value in [
            r#"{"@int":5}"#,
            r#"{"@int":"five"}"#,
            r#"{"@double":"x"}"#,
            r#"{"@set":"cursor"}"#,
            r#"{"@ref":{"id":"x","coll":{"@mod":"things"}}}"#,
            r#"{"@later":"x"}"#,
            r#"{"@a":1,"@b":2}"#,
        ] {
            assert!(check(Form::Tagged, value).is_err(), "{value}");
        }
    }

    #[test]
    fn the_simple_form_has_refs_and_no_types() {
        for (value, expected) in [
            (r#"{"id":"7","coll":"things"}"#, thing("7").as_str()),
            (r#"{"id":"7","coll":"else"}"#, r#"{"object":{"id":"7","coll":"else"}}"#),
            (r#"{"@x":"2020-01-01"}"#, r#"{"to_object":[["@x","2020-01-01"]]}"#),
            ("22.2", "22.2"),
        ] {
            assert_eq!(check(Form::Simple, value).as_deref(), Ok(expected));
        }
    }
}
