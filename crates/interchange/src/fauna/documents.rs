//! Documents as files have them, to queries that insert them into their histories.
//!
//! A line is a document as `Get` shows it, `{"ref": {"@ref": ...}, "ts": 1700000000000000, "data":
//! {...}}`, with `"id": "1"` for `ref` or without; or a line of the service's export, with the
//! fields next to the id: `{"id": "1", "coll": {"@mod": "people"}, "ts": {"@time": "2023-..."},
//! "name": "Ann"}`. A line with an unknown field is refused.

use std::collections::BTreeSet;

use super::json::Json;
use super::values::{Form, Reader, schema_reference};

/// Fields of the service's documents that are not their data.
const METADATA: [&str; 4] = ["id", "coll", "ts", "ttl"];

pub struct Lines<'a> {
    pub collection: &'a str,
    /// All that the export holds.
    pub collections: &'a BTreeSet<String>,
    /// The form of the values, if the export says it; else each line shows it.
    pub form: Option<Form>,
}

type Read<T> = Result<T, String>;

impl Lines<'_> {
    /// Returns the query that inserts the document of a line.
    pub fn insertion(&self, line: &[u8]) -> Read<Json> {
        let document = object(line)?;
        match self.form_of(&document) {
            Form::Wire => self.of_wire(&document, &["ref", "id", "ts", "data", "ttl"]),
            form => self.of_service(&document, form),
        }
    }

    /// Returns the query that inserts an earlier version, or a deletion.
    pub fn former(&self, line: &[u8]) -> Read<Json> {
        self.of_wire(&object(line)?, &["ref", "ts", "action", "data", "ttl"])
    }

    /// Returns the query that gives a document the password it had at the service.
    pub fn credentials(&self, line: &[u8]) -> Read<Json> {
        let line = object(line)?;
        let reader = self.reader(self.form_of(&line));
        let id = id(&line).ok_or("it has no id")?;
        let document = line.field("document").ok_or("it names no document")?;
        let instance = reader.expression(document)?;
        if instance.field("@ref").is_none() {
            return Err("its document is no ref".into());
        }
        let hash = line.field("hashed_password").ok_or("it has no hashed_password")?;
        let mut fields = vec![
            ("instance".to_owned(), instance),
            ("hashed_password".to_owned(), hash.clone()),
        ];
        if let Some(data) = line.field("data") {
            fields.push(("data".to_owned(), reader.expression(data)?));
        }
        Ok(created_or_updated("credentials", &id, fields))
    }

    fn reader(&self, form: Form) -> Reader<'_> {
        Reader {
            form,
            collections: self.collections,
        }
    }

    fn form_of(&self, document: &Json) -> Form {
        if let Some(form) = self.form {
            return form;
        }
        match (document.field("ref"), document.field("coll"), document.field("ts")) {
            (Some(_), ..) => Form::Wire,
            (_, Some(Json::Object(_)), _) | (_, None, Some(Json::Object(_))) => Form::Tagged,
            (_, Some(_), _) | (_, None, Some(Json::Text(_))) => Form::Simple,
            _ => Form::Wire,
        }
    }

    fn of_wire(&self, document: &Json, members: &[&str]) -> Read<Json> {
        let reference = document.at(&["ref", "@ref"]);
        let id = match reference.and_then(|reference| reference.field("id")?.as_text()) {
            Some(id) => id.to_owned(),
            None => id(document).ok_or("it has neither ref nor id")?,
        };
        let named = reference.and_then(|reference| reference.at(&["collection", "@ref", "id"])?.as_text());
        if named.is_some_and(|named| named != self.collection) {
            return Err("its ref is of another collection".into());
        }
        let ts = document.field("ts").and_then(micros).ok_or("it has no ts")?;
        let Json::Object(fields) = document else {
            return Err("it is no JSON object".into());
        };
        if let Some((name, _)) = fields.iter().find(|(name, _)| !members.contains(&name.as_str())) {
            return Err(format!(
                "it has the field {name}: what a document holds stands in its data (or beside its coll, as the service \
                 exports it)"
            ));
        }
        let reader = self.reader(Form::Wire);
        let mut params = Vec::new();
        for name in ["data", "ttl"] {
            if let Some(value) = document.field(name) {
                let value = match name {
                    "data" => data_of_wire(&reader, value)?,
                    _ => reader.expression(value)?,
                };
                params.push((name.to_owned(), value));
            }
        }
        let action = document.field("action").cloned();
        Ok(self.inserted(&id, ts, action.unwrap_or_else(|| Json::text("create")), params))
    }

    fn of_service(&self, document: &Json, form: Form) -> Read<Json> {
        let id = id(document).ok_or("it has no id")?;
        let collection = document.field("coll");
        let named = collection.and_then(|named| named.as_text().or_else(|| named.field("@mod")?.as_text()));
        if collection.is_some() && named != Some(self.collection) {
            return Err("its coll is another collection".into());
        }
        let ts = document.field("ts").ok_or("it has no ts")?;
        let ts = micros(ts).or_else(|| time(ts)).ok_or("its ts is no time")?;
        let reader = self.reader(form);
        let mut params = Vec::new();
        let mut data: Vec<(String, Json)> = Vec::new();
        let Json::Object(fields) = document else {
            return Err("it is no JSON object".into());
        };
        for (name, value) in fields {
            match name.as_str() {
                "ttl" => params.push(("ttl".to_owned(), time(value).ok_or("its ttl is no time")?)),
                name if METADATA.contains(&name) => {}
                // It contains the data's fields with reserved names.
                "data" => match value {
                    Json::Object(reserved) => data.extend(reserved.iter().cloned()),
                    _ => return Err("its data is no object".into()),
                },
                _ => data.push((name.clone(), value.clone())),
            }
        }
        // All of its fields are those of an object, under any name.
        params.insert(0, ("data".to_owned(), reader.literal(&Json::Object(data))?));
        Ok(self.inserted(&id, ts, Json::text("create"), params))
    }

    fn inserted(&self, id: &str, ts: Json, action: Json, params: Vec<(String, Json)>) -> Json {
        // The database itself refuses an invalid id.
        let collection = Json::object([("collection", Json::text(self.collection))]);
        Json::object([
            ("insert", Json::object([("ref", collection), ("id", Json::text(id))])),
            ("ts", ts),
            ("action", action),
            ("params", Json::object([("object", Json::Object(params))])),
        ])
    }
}

/// Creates a schema object under its original number, or updates the existing object with these
/// fields.
pub fn created_or_updated(kind: &str, id: &str, fields: Vec<(String, Json)>) -> Json {
    let reference = schema_reference(kind, id);
    let params = Json::object([("object", Json::Object(fields))]);
    Json::object([
        ("if", Json::object([("exists", reference.clone())])),
        (
            "then",
            Json::object([("update", reference.clone()), ("params", params.clone())]),
        ),
        ("else", Json::object([("create", reference), ("params", params)])),
    ])
}

/// Fields may have names like those of special values, inside `@obj`; a set for all of the data is
/// a special value.
fn data_of_wire(reader: &Reader<'_>, data: &Json) -> Read<Json> {
    match data.only_field() {
        Some(("@obj", inner)) => reader.literal(inner),
        _ => reader.expression(data),
    }
}

fn object(line: &[u8]) -> Read<Json> {
    let document = Json::parse(line).ok_or("it is no JSON object")?;
    match document {
        // The service wraps a document that has a field with such a name.
        Json::Object(mut fields) if fields.len() == 1 && fields[0].0 == "@object" => Ok(fields.remove(0).1),
        Json::Object(_) => Ok(document),
        _ => Err("it is no JSON object".into()),
    }
}

fn id(document: &Json) -> Option<String> {
    match document.field("id")? {
        Json::Text(id) => Some(id.clone()),
        Json::Plain(number) if number.parse::<i64>().is_ok() => Some(number.clone()),
        _ => None,
    }
}

/// A whole number, in any form.
fn micros(ts: &Json) -> Option<Json> {
    let text = match ts {
        Json::Plain(number) => number,
        _ => match ts.only_field()? {
            ("@int" | "@long", number) => number.as_text()?,
            _ => return None,
        },
    };
    text.parse::<i64>().ok().map(Json::from)
}

fn time(value: &Json) -> Option<Json> {
    let text = match value {
        Json::Text(text) => text,
        _ => match value.only_field()? {
            ("@time" | "@ts", text) => text.as_text()?,
            _ => return None,
        },
    };
    Some(Json::object([("@ts", Json::text(text))]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fauna::values::document_reference;

    fn check(line: &str) -> Result<String, String> {
        let collections = BTreeSet::from(["things".to_owned()]);
        let lines = Lines {
            collection: "things",
            collections: &collections,
            form: None,
        };
        let query = lines.insertion(line.as_bytes());
        query.map(|query| query.to_string())
    }

    fn inserted(ts: &str, params: &str) -> Result<String, String> {
        Ok(format!(
            r#"{{"insert":{{"ref":{{"collection":"things"}},"id":"7"}},"ts":{ts},"action":"create","params":{{"object":{{{params}}}}}}}"#
        ))
    }

    #[test]
    fn a_document_keeps_its_id_its_moment_its_order_and_its_special_values() {
        let line = r#"{"ref":{"@ref":{"id":"7","collection":{"@ref":{"id":"things"}}}},"ts":5,"data":{"z":[{"b":1}],"d":{"@date":"2020-01-01"},"o":{"@obj":{"@ts":"x"}}},"ttl":{"@ts":"t"}}"#;
        let data = r#""data":{"object":{"z":[{"object":{"b":1}}],"d":{"@date":"2020-01-01"},"o":{"to_object":[["@ts","x"]]}}},"ttl":{"@ts":"t"}"#;
        assert_eq!(check(line), inserted("5", data));
        assert_eq!(check(r#"{"id":"7","ts":5}"#), inserted("5", ""));
        assert_eq!(
            check(r#"{"id":7,"ts":5,"data":{}}"#),
            inserted("5", r#""data":{"object":{}}"#)
        );
    }

    #[test]
    fn a_document_of_the_service_is_its_fields() {
        let moment = r#"{"@ts":"2025-05-01T10:00:00.5Z"}"#;
        let data = r#""data":{"object":{"z":1,"a":{"@ts":"t"},"id":2}},"ttl":{"@ts":"u"}"#;
        let tagged = r#"{"id":"7","coll":{"@mod":"things"},"ts":{"@time":"2025-05-01T10:00:00.5Z"},"ttl":{"@time":"u"},"z":{"@int":"1"},"a":{"@time":"t"},"data":{"id":{"@int":"2"}}}"#;
        assert_eq!(check(tagged), inserted(moment, data));
        let data = r#""data":{"object":{"z":1,"a":"t"}}"#;
        let simple = r#"{"id":"7","coll":"things","ts":"2025-05-01T10:00:00.5Z","z":1,"a":"t"}"#;
        assert_eq!(check(simple), inserted(moment, data));
        // A moment may be a number too.
        assert_eq!(
            check(r#"{"id":"7","coll":"things","ts":5,"z":1,"a":"t"}"#),
            inserted("5", data)
        );
    }

    /// A line with its fields next to `id` and `ts` was stored without them, and counted as
    /// imported: they went to the database as parameters, and unknown parameters are ignored.
    #[test]
    fn what_cannot_be_kept_is_refused() {
        for (line, reason) in [
            ("[]", "it is no JSON object"),
            (r#"{"ts":5}"#, "it has neither ref nor id"),
            (r#"{"id":"7"}"#, "it has no ts"),
            (r#"{"id":"7","ts":5,"data":{},"name":"Ann"}"#, "it has the field name"),
            (r#"{"id":"7","ts":5,"credentials":{}}"#, "it has the field credentials"),
            (
                r#"{"ref":{"@ref":{"id":"7","collection":{"@ref":{"id":"o"}}}},"ts":5}"#,
                "its ref is of another collection",
            ),
            (r#"{"id":"7","coll":"other","ts":5}"#, "its coll is another collection"),
            (
                r#"{"id":"7","coll":{"@mod":"things"},"ts":{"@int":"x"}}"#,
                "its ts is no time",
            ),
            (
                r#"{"id":"7","coll":{"@mod":"things"},"ts":{"@time":"t"},"a":{"@later":1}}"#,
                "no value",
            ),
            (
                r#"{"id":"7","coll":"things","ts":"t","data":5}"#,
                "its data is no object",
            ),
        ] {
            let refused = check(line).unwrap_err();
            assert!(refused.starts_with(reason), "{line}: {refused}");
        }
    }

    #[test]
    fn a_password_of_the_service_keeps_its_number() {
        let collections = BTreeSet::from(["things".to_owned()]);
        let lines = Lines {
            collection: "Credential",
            collections: &collections,
            form: None,
        };
        let tagged = br#"{"id":"9","coll":{"@mod":"Credential"},"ts":{"@time":"t"},"document":{"@ref":{"id":"7","coll":{"@mod":"things"}}},"hashed_password":"$2a$"}"#;
        let simple = br#"{"id":"9","coll":"Credential","ts":"t","document":{"id":"7","coll":"things"},"hashed_password":"$2a$"}"#;
        let query = lines.credentials(tagged).unwrap();
        assert_eq!(lines.credentials(simple).unwrap(), query);
        let instance = query.at(&["else", "params", "object", "instance"]).unwrap();
        assert_eq!(*instance, document_reference("things", "7"));
        assert!(lines.credentials(br#"{"id":"9","ts":{"@time":"t"}}"#).is_err());
    }
}
