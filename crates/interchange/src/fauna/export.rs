//! Writes a database as of one moment: documents, and what `definitions` writes.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::folder::{DEFINITIONS, HISTORY, UNFINISHED};
use super::json::Json;
use super::{Client, create_folder, cursor, definitions};
use crate::error::{Error, Result, target};
use crate::observer::{BEGUN_ANEW, Observer};
use crate::whole_file::WholeFile;

/// Maximum number of documents in a query of versions, and of versions of one document.
const HISTORIES: u32 = 20;
const VERSIONS: u32 = 64;
const DAY_MICROS: i64 = 86_400_000_000;
/// The end of a history is cut while it is read.
const MARGIN_MICROS: i64 = 600_000_000;

/// Writes the documents of all collections, with the database's definitions and histories, or only
/// the documents of the named collections. Returns the number of documents.
pub fn export(client: &Client, folder: &Path, only: &[String], observer: &mut dyn Observer) -> Result<u64> {
    create_folder(folder)?;
    let moment = client.ask(&json!({ "to_micros": { "now": null } }), Error::Source)?;
    let moment = moment.to_string().parse();
    let moment: i64 = moment.map_err(|_| Error::Source("it does not tell the time".into()))?;
    let mark = folder.join(UNFINISHED);
    if mark.exists() {
        observer.phase(BEGUN_ANEW, None);
    }
    File::create(&mark)
        .and_then(|_| File::open(folder)?.sync_all())
        .map_err(target)?;
    let mut count = 0;
    if only.is_empty() {
        let collections = definitions::export(client, &folder.join(DEFINITIONS), moment, observer)?;
        for (name, days) in collections {
            count += documents(client, folder, &name, moment, observer)?;
            if days != Some(0) {
                let floor = days.map_or(0, |days| moment - days.saturating_mul(DAY_MICROS) + MARGIN_MICROS);
                let folder = folder.join(HISTORY);
                create_folder(&folder)?;
                History {
                    client,
                    name: &name,
                    moment,
                    floor,
                }
                .export(&folder, observer)?;
            }
        }
    }
    for name in only {
        if name.contains('/') {
            return Err(Error::Source(format!("{name} is no name of a collection")));
        }
        count += documents(client, folder, name, moment, observer)?;
    }
    std::fs::remove_file(&mark).map_err(target)?;
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(target)?;
    Ok(count)
}

fn documents(client: &Client, folder: &Path, name: &str, moment: i64, observer: &mut dyn Observer) -> Result<u64> {
    observer.phase(&format!("exporting {name}"), None);
    let (mut file, _) = WholeFile::begin(&folder.join(format!("{name}.json"))).map_err(target)?;
    let mut output = BufWriter::new(file.file());
    let set = json!({ "documents": { "collection": name } });
    let count = client.each_of(&set, moment, &mut |document| {
        writeln!(output, "{document}").map_err(target)?;
        observer.advance(1);
        match observer.is_stopped() {
            true => Err(Error::ExportStopped),
            false => Ok(()),
        }
    })?;
    output.flush().map_err(target)?;
    drop(output);
    file.finish().map_err(target)?;
    Ok(count)
}

/// The earlier versions of a collection's documents, and the deleted documents: `{"ref", "ts",
/// "data"}`, or `{"ref", "ts", "action": "delete"}`.
struct History<'a> {
    client: &'a Client,
    name: &'a str,
    /// Read as of this moment, in microseconds.
    moment: i64,
    /// Nothing can be read as of an earlier one.
    floor: i64,
}

impl History<'_> {
    fn export(&self, folder: &Path, observer: &mut dyn Observer) -> Result<()> {
        let name = self.name;
        observer.phase(&format!("exporting the history of {name}"), None);
        let (mut file, _) = WholeFile::begin(&folder.join(format!("{name}.json"))).map_err(target)?;
        let mut output = BufWriter::new(file.file());
        let documents = json!({ "documents": { "collection": name } });
        let expression = json!({ "map": self.shown_from(&Value::Null) });
        self.client.pages(
            &documents,
            &json!({ "size": HISTORIES }),
            self.moment,
            &expression,
            &mut |document| {
                // A document with one version is whole already.
                if document.field("after").is_none_or(Json::is_null)
                    && let Some([only]) = document.at(&["versions"]).map(Json::items)
                    && only.field("action").is_none()
                {
                    return Ok(());
                }
                self.write(document, &mut output)
            },
        )?;
        for id in self.deleted()? {
            let reference = json!({ "ref": { "collection": name }, "id": id });
            let expression = json!({ "let": { "ref": reference }, "in": self.shown_from(&Value::Null)["expr"] });
            let expression = json!({ "at": self.moment, "expr": expression });
            self.write(&self.client.ask(&expression, Error::Source)?, &mut output)?;
        }
        output.flush().map_err(target)?;
        drop(output);
        file.finish().map_err(target)
    }

    /// The function that shows versions of the document `ref`, and the position after them.
    fn shown_from(&self, after: &Value) -> Value {
        let mut page = json!({ "paginate": { "var": "ref" }, "events": true, "size": VERSIONS });
        if !after.is_null() {
            page["after"] = after.clone();
        }
        let event_field = |name: &str| json!({ "select": name, "from": { "var": "event" } });
        let get = |ts: Value| json!({ "get": { "var": "ref" }, "ts": ts });
        let deleted = json!({ "object": { "ref": { "var": "ref" }, "ts": event_field("ts"), "action": "delete" } });
        let is_deletion = json!({ "equals": [event_field("action"), "delete"] });
        let version = json!({ "if": is_deletion, "then": deleted, "else": get(event_field("ts")) });
        let is_readable = json!({ "gt": [event_field("ts"), self.floor] });
        let events = json!({ "select": "data", "from": { "var": "page" } });
        let events = json!({ "filter": { "lambda": "event", "expr": is_readable }, "collection": events });
        let versions = json!({ "map": { "lambda": "event", "expr": version }, "collection": events });
        // The version in force at the end of the history, whenever it was written.
        let has_floor = json!({ "and": [after.is_null() && self.floor > 0,
            { "exists": { "var": "ref" }, "ts": self.floor.max(1) }] });
        let floor = match after.is_null() && self.floor > 0 {
            true => json!({ "if": has_floor, "then": [get(json!(self.floor))], "else": [] }),
            false => json!([]),
        };
        let next = json!({ "select": "after", "from": { "var": "page" }, "default": null });
        let document = json!({ "object": { "ref": { "var": "ref" }, "after": next,
            "versions": { "append": versions, "collection": floor } } });
        json!({ "lambda": "ref", "expr": { "let": { "page": page }, "in": document } })
    }

    /// Writes a document's versions, which may take more queries.
    fn write(&self, document: &Json, output: &mut impl Write) -> Result<()> {
        let mut document = document.clone();
        loop {
            for version in document.field("versions").map(Json::items).unwrap_or_default() {
                writeln!(output, "{version}").map_err(target)?;
            }
            let (Some(reference), Some(after)) = (document.field("ref"), document.field("after")) else {
                return Ok(());
            };
            if after.is_null() {
                return Ok(());
            }
            let after = cursor(after)?;
            let reference: Value = serde_json::from_str(&reference.to_string()).map_err(target)?;
            let query = json!({ "let": { "ref": reference }, "in": self.shown_from(&after)["expr"] });
            let query = json!({ "at": self.moment, "expr": query });
            document = self.client.ask(&query, Error::Source)?;
        }
    }

    /// Documents that are not there any more, and were.
    fn deleted(&self) -> Result<BTreeSet<String>> {
        let mut ids = BTreeSet::new();
        let set = json!({ "documents": { "collection": self.name } });
        let options = json!({ "events": true, "size": super::PAGE });
        let is_gone = json!({ "not": { "exists": { "select": "document", "from": { "var": "event" } } } });
        let removals = json!({ "filter": { "lambda": "event", "expr": is_gone } });
        self.client
            .pages(&set, &options, self.moment, &removals, &mut |event| {
                let id = event.at(&["document", "@ref", "id"]).and_then(Json::as_text);
                ids.extend(id.map(str::to_owned));
                Ok(())
            })?;
        Ok(ids)
    }
}
