//! FaunaDB's documents: a folder with a file for each collection, `NAME.json`, in which each line
//! is a document as `Get` shows it.
//!
//! ```text
//! {"ref": {"@ref": {"id": "1", "collection": {...}}}, "ts": 1700000000000000, "data": {...}}
//! ```
//!
//! Instead of `ref` a line may have `id`. Documents keep their ids and their moments: each is
//! inserted as an event of its history. An export reads everything as of one moment.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use base64::Engine;
use serde_json::{Map, Value, json};

use crate::error::{Error, Result, source, target};
use crate::http::{Answer, Http};
use crate::journal::Journal;
use crate::lines::{Lines, shown};
use crate::observer::{BEGUN_ANEW, Observer};
use crate::whole_file::WholeFile;

/// Documents of one query, and their bytes. A folder with this file holds part of an export: its
/// collections are of one moment only when all are there.
const UNFINISHED: &str = "export.unfinished";
const BATCH_DOCUMENTS: usize = 100;
const BATCH_BYTES: usize = 1 << 20;
const PAGE: u32 = 500;

pub struct Client {
    http: Http,
    authorization: String,
}

/// An error of the query, or of the way to it.
struct Refused {
    status: u16,
    text: String,
}

impl Client {
    pub fn new(url: &str, secret: &str) -> Client {
        let secret = base64::engine::general_purpose::STANDARD.encode(format!("{secret}:"));
        Client {
            http: Http::new(url),
            authorization: format!("Basic {secret}"),
        }
    }

    fn query(&self, expression: &Value) -> std::result::Result<Value, Refused> {
        let request = || {
            let headers = vec![
                ("authorization", self.authorization.clone()),
                ("content-type", "application/json; charset=utf-8".to_owned()),
                ("x-faunadb-api-version", "4".to_owned()),
            ];
            (headers, expression.to_string())
        };
        let wants_patience = |answer: &Answer| matches!(answer.status, 409 | 429 | 503);
        let answer = self.http.ask("", &request, &wants_patience);
        let answer = answer.map_err(|text| Refused { status: 0, text })?;
        let mut body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        match answer.status {
            200 | 201 => Ok(body["resource"].take()),
            status => Err(Refused {
                status,
                text: body["errors"].to_string(),
            }),
        }
    }

    fn ask(&self, expression: &Value, of: fn(String) -> Error) -> Result<Value> {
        self.query(expression).map_err(|refused| of(refused.text))
    }
}

/// The files of a folder, each with its collection.
fn files(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(|error| Error::Source(format!("{}: {error}", folder.display())))? {
        let path = entry.map_err(source)?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).map(str::to_owned);
        let is_file = matches!(
            path.extension().and_then(|end| end.to_str()),
            Some("json" | "jsonl" | "ndjson")
        );
        files.extend(name.filter(|_| is_file).map(|name| (name, path)));
    }
    files.sort();
    match files.is_empty() {
        true => Err(Error::Source(format!("{} holds no NAME.json", folder.display()))),
        false => Ok(files),
    }
}

/// Brings the documents of all files. `merges`: collections may hold documents already.
pub fn import(
    folder: &Path,
    client: &Client,
    merges: bool,
    journal: &mut Journal,
    observer: &mut dyn Observer,
) -> Result<()> {
    if folder.join(UNFINISHED).exists() {
        let folder = folder.display();
        let what = "its collections may be of different moments, or missing. Begin the export anew";
        return Err(Error::Source(format!(
            "the export in {folder} ended in the middle: {what}"
        )));
    }
    let files = files(folder)?;
    // A document may name any collection.
    for (name, _) in &files {
        prepare(client, name, merges || journal.goes_on())?;
    }
    for (name, path) in &files {
        observer.phase(&format!("copying {name}"), None);
        let file = File::open(path).map_err(|error| Error::Source(format!("{}: {error}", path.display())))?;
        let mut lines = Lines::new(file);
        // Two files may be of one collection: NAME.json and NAME.jsonl.
        let part = path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        lines.skip_to(journal.position(&part).and_then(Value::as_u64).unwrap_or(0))?;
        observer.advance(lines.count);
        let mut batch = Batch::default();
        loop {
            let line = lines.read()?;
            let is_end = line.is_none();
            if let Some(line) = line {
                match insertion(name, &line) {
                    Ok(insertion) => batch.add(line, insertion),
                    Err(reason) => observer.reject(&shown(&line), reason)?,
                }
            }
            if batch.is_full() || is_end {
                batch.bring(client, observer)?;
                journal.note(&part, lines.count.into())?;
                if observer.is_stopped() {
                    return Err(Error::Stopped);
                }
            }
            if is_end {
                break;
            }
        }
    }
    Ok(())
}

fn prepare(client: &Client, name: &str, merges: bool) -> Result<()> {
    let collection = json!({ "collection": name });
    let create = json!({ "create_collection": { "object": { "name": name } } });
    client.ask(
        &json!({ "if": { "exists": collection }, "then": Value::Null, "else": create }),
        Error::Target,
    )?;
    if merges {
        return Ok(());
    }
    let documents = json!({ "paginate": { "documents": collection }, "size": 1 });
    let found = client.ask(&documents, Error::Target)?;
    match found["data"].as_array().is_none_or(|data| data.is_empty()) {
        true => Ok(()),
        false => Err(Error::NotEmpty(format!(
            "the collection {name} holds documents; --merge copies beside them, and over those of the same id"
        ))),
    }
}

#[derive(Default)]
struct Batch {
    lines: Vec<Vec<u8>>,
    insertions: Vec<Value>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, line: Vec<u8>, insertion: Value) {
        self.bytes += line.len();
        self.lines.push(line);
        self.insertions.push(insertion);
    }

    fn is_full(&self) -> bool {
        self.insertions.len() >= BATCH_DOCUMENTS || self.bytes >= BATCH_BYTES
    }

    /// All in one transaction; if it is refused, each in its own, those that are refused left out.
    fn bring(&mut self, client: &Client, observer: &mut dyn Observer) -> Result<()> {
        let batch = std::mem::take(self);
        if batch.insertions.is_empty() {
            return Ok(());
        }
        let mut all = batch.insertions.clone();
        all.push(Value::Null);
        match client.query(&json!({ "do": all })) {
            Ok(_) => {}
            Err(refused) if is_of_documents(&refused) => {
                for (line, insertion) in batch.lines.iter().zip(&batch.insertions) {
                    match client.query(insertion) {
                        Ok(_) => {}
                        Err(refused) if is_of_documents(&refused) => observer.reject(&shown(line), &refused.text)?,
                        Err(refused) => return Err(target(refused.text)),
                    }
                }
            }
            Err(refused) => return Err(target(refused.text)),
        }
        observer.advance(batch.lines.len() as u64);
        Ok(())
    }
}

fn is_of_documents(refused: &Refused) -> bool {
    matches!(refused.status, 400 | 404 | 413)
}

/// The query that inserts the document of a line.
fn insertion(collection: &str, line: &[u8]) -> std::result::Result<Value, &'static str> {
    let mut document: Map<String, Value> = serde_json::from_slice(line).map_err(|_| "it is no JSON object")?;
    let reference = document.remove("ref").unwrap_or_default();
    let id = match (&reference["@ref"]["id"], document.remove("id")) {
        (Value::String(id), _) => id.clone(),
        (_, Some(Value::String(id))) => id,
        _ => return Err("it has neither ref nor id"),
    };
    let named = &reference["@ref"]["collection"]["@ref"]["id"];
    if named.as_str().is_some_and(|named| named != collection) {
        return Err("its ref is of another collection");
    }
    let ts = document.remove("ts").and_then(|ts| ts.as_i64()).ok_or("it has no ts")?;
    document.remove("coll");
    Ok(json!({
        "insert": { "ref": { "collection": collection }, "id": id },
        "ts": ts,
        "action": "create",
        "params": quoted(Value::Object(document)),
    }))
}

/// A value as a query writes it.
fn quoted(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(quoted).collect(),
        Value::Object(mut fields) => {
            let special = ["@ref", "@ts", "@date", "@bytes", "@uuid", "@set", "@query"];
            if fields.len() == 1 && special.iter().any(|name| fields.contains_key(*name)) {
                return Value::Object(fields);
            }
            // An object that looks like one of these, and is none, is wrapped where it is shown.
            if let (1, Some(inner)) = (fields.len(), fields.remove("@obj")) {
                return quoted_fields(inner);
            }
            quoted_fields(Value::Object(fields))
        }
        scalar => scalar,
    }
}

fn quoted_fields(value: Value) -> Value {
    let Value::Object(fields) = value else {
        return quoted(value);
    };
    let fields: Map<String, Value> = fields.into_iter().map(|(name, value)| (name, quoted(value))).collect();
    json!({ "object": fields })
}

/// Writes the documents of all collections, or of the named ones, as of one moment. Returns their
/// number.
pub fn export(client: &Client, folder: &Path, only: &[String], observer: &mut dyn Observer) -> Result<u64> {
    std::fs::create_dir_all(folder).map_err(|error| Error::Target(format!("{}: {error}", folder.display())))?;
    let moment = client.ask(&json!({ "now": Value::Null }), Error::Source)?;
    let page = |set: Value| json!({ "at": moment, "expr": set });
    let names = match only.is_empty() {
        true => collections(client, &page)?,
        false => only.iter().cloned().collect(),
    };
    let mark = folder.join(UNFINISHED);
    if mark.exists() {
        observer.phase(BEGUN_ANEW, None);
    }
    File::create(&mark)
        .and_then(|_| File::open(folder)?.sync_all())
        .map_err(target)?;
    let mut count = 0;
    for name in names {
        if name.contains('/') {
            return Err(Error::Source(format!("{name} is no name of a collection")));
        }
        observer.phase(&format!("exporting {name}"), None);
        let (mut file, _) = WholeFile::begin(&folder.join(format!("{name}.json"))).map_err(target)?;
        let mut output = BufWriter::new(file.file());
        let mut after = Value::Null;
        loop {
            let documents = json!({ "documents": { "collection": name } });
            let shown = json!({ "map": { "lambda": "ref", "expr": { "get": { "var": "ref" } } }, "collection": paged(documents, after) });
            let mut found = client.ask(&page(shown), Error::Source)?;
            let documents = found["data"].as_array().map(Vec::as_slice).unwrap_or_default();
            for document in documents {
                writeln!(output, "{document}").map_err(target)?;
            }
            count += documents.len() as u64;
            observer.advance(documents.len() as u64);
            after = found["after"].take();
            if after.is_null() {
                break;
            }
            if observer.is_stopped() {
                return Err(Error::ExportStopped);
            }
        }
        output.flush().map_err(target)?;
        drop(output);
        file.finish().map_err(target)?;
    }
    std::fs::remove_file(&mark).map_err(target)?;
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(target)?;
    Ok(count)
}

fn paged(set: Value, after: Value) -> Value {
    let mut page = json!({ "paginate": set, "size": PAGE });
    if !after.is_null() {
        page["after"] = after;
    }
    page
}

fn collections(client: &Client, at: &dyn Fn(Value) -> Value) -> Result<BTreeSet<String>> {
    let (mut names, mut after) = (BTreeSet::new(), Value::Null);
    loop {
        let mut found = client.ask(&at(paged(json!({ "collections": Value::Null }), after)), Error::Source)?;
        let references = found["data"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ids = references
            .iter()
            .filter_map(|reference| reference["@ref"]["id"].as_str());
        names.extend(ids.map(str::to_owned));
        after = found["after"].take();
        if after.is_null() {
            return Ok(names);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_keeps_its_id_its_moment_and_its_special_values() {
        let check = |line: &str| insertion("things", line.as_bytes()).map(|query| query.to_string());
        let line = r#"{"ref":{"@ref":{"id":"7","collection":{"@ref":{"id":"things"}}}},"ts":5,"data":{"a":[{"b":1}],"d":{"@date":"2020-01-01"},"o":{"@obj":{"@ts":"x"}}}}"#;
        let expected = json!({
            "insert": { "ref": { "collection": "things" }, "id": "7" }, "ts": 5, "action": "create",
            "params": { "object": { "data": { "object": {
                "a": [{ "object": { "b": 1 } }], "d": { "@date": "2020-01-01" }, "o": { "object": { "@ts": "x" } } } } } },
        });
        assert_eq!(check(line), Ok(expected.to_string()));
        assert!(check(r#"{"id":"7","ts":5}"#).is_ok());
        for (line, reason) in [
            ("[]", "it is no JSON object"),
            (r#"{"ts":5}"#, "it has neither ref nor id"),
            (r#"{"id":"7"}"#, "it has no ts"),
            (
                r#"{"ref":{"@ref":{"id":"7","collection":{"@ref":{"id":"o"}}}},"ts":5}"#,
                "its ref is of another collection",
            ),
        ] {
            assert_eq!(check(line), Err(reason), "{line}");
        }
    }
}
