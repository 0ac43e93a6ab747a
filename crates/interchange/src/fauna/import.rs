//! Brings the contents of a folder: definitions, then documents, their earlier versions, and what
//! proves callers.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use super::documents::Lines;
use super::folder::{DataFile, Folder};
use super::json::Json;
use super::records::Records;
use super::{Client, definitions};
use crate::error::{Error, Result, target};
use crate::journal::Journal;
use crate::lines::shown;
use crate::observer::Observer;

/// Documents of one query, and their bytes.
const BATCH_DOCUMENTS: usize = 100;
const BATCH_BYTES: usize = 1 << 20;

/// Kind of a file's lines. Only documents are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Documents,
    FormerVersions,
    Credentials,
}

/// Brings a folder. `merges`: collections may hold documents already.
pub fn import(
    root: &Path,
    client: &Client,
    merges: bool,
    journal: &mut Journal,
    observer: &mut dyn Observer,
) -> Result<()> {
    let folder = Folder::open(root)?;
    let collections = folder.collections();
    for name in &collections {
        check_empty(client, name, merges || journal.goes_on())?;
    }
    if let Some(definitions) = &folder.definitions {
        definitions::import_named(definitions, client, observer)?;
    }
    // A document may name any collection.
    for name in &collections {
        let collection = json!({ "collection": name });
        let create = json!({ "create_collection": { "object": { "name": name } } });
        let make = json!({ "if": { "exists": collection }, "then": Value::Null, "else": create });
        client.ask(&make, Error::Target)?;
    }
    let mut parts = Parts {
        client,
        folder: &folder,
        collections,
        journal,
        observer,
    };
    for file in &folder.documents {
        parts.bring(file, Content::Documents)?;
    }
    for file in &folder.history {
        parts.bring(file, Content::FormerVersions)?;
    }
    for file in &folder.credentials {
        parts.bring(file, Content::Credentials)?;
    }
    if let Some(definitions) = &folder.definitions {
        definitions::import_numbered(definitions, client, observer)?;
    }
    Ok(())
}

fn check_empty(client: &Client, name: &str, may_hold: bool) -> Result<()> {
    if may_hold {
        return Ok(());
    }
    let collection = json!({ "collection": name });
    let documents = json!({ "paginate": { "documents": collection }, "size": 1 });
    let page = json!({ "if": { "exists": collection }, "then": documents, "else": { "object": {} } });
    let page = client.ask(&page, Error::Target)?;
    match page.field("data").is_none_or(|data| data.items().is_empty()) {
        true => Ok(()),
        false => Err(Error::NotEmpty(format!(
            "the collection {name} holds documents; --merge copies beside them, and over those of the same id"
        ))),
    }
}

/// The files of a folder on their way.
struct Parts<'a> {
    client: &'a Client,
    folder: &'a Folder,
    collections: BTreeSet<String>,
    journal: &'a mut Journal,
    observer: &'a mut dyn Observer,
}

impl Parts<'_> {
    /// Brings what an earlier run has not.
    fn bring(&mut self, file: &DataFile, content: Content) -> Result<()> {
        self.observer.phase(&format!("copying {}", file.name), None);
        let lines = Lines {
            collection: &file.collection,
            collections: &self.collections,
            form: self.folder.form,
        };
        let mut records = Records::open(&file.path)?;
        // Two files may be of one collection: NAME.json and NAME.jsonl.
        let position = self.journal.position(&file.name).cloned().unwrap_or_default();
        let (begun_at, stored) = match position {
            Value::Array(parts) => (parts[0].as_u64().unwrap_or(0), parts[1].as_u64().unwrap_or(0)),
            _ => (0, 0),
        };
        records.skip_to(begun_at)?;
        let counts = content == Content::Documents;
        if counts {
            self.observer.advance(stored);
        }
        let (mut batch, mut stored) = (Batch::default(), stored);
        loop {
            let line = records.read()?;
            let is_end = line.is_none();
            if let Some(line) = line {
                let query = match content {
                    Content::Documents => lines.insertion(&line),
                    Content::FormerVersions => lines.former(&line),
                    Content::Credentials => lines.credentials(&line),
                };
                match query {
                    Ok(query) => batch.add(line, query),
                    Err(reason) => self.observer.reject(&shown(&line), &reason)?,
                }
            }
            if batch.is_full() || is_end {
                let brought = batch.bring(self.client, self.observer)?;
                stored += brought;
                if counts {
                    self.observer.advance(brought);
                }
                self.journal.note(&file.name, json!([records.count(), stored]))?;
                if self.observer.is_stopped() {
                    return Err(Error::Stopped);
                }
            }
            if is_end {
                return Ok(());
            }
        }
    }
}

#[derive(Default)]
struct Batch {
    lines: Vec<Vec<u8>>,
    queries: Vec<Json>,
    bytes: usize,
}

impl Batch {
    fn add(&mut self, line: Vec<u8>, query: Json) {
        self.bytes += line.len();
        self.lines.push(line);
        self.queries.push(query);
    }

    fn is_full(&self) -> bool {
        self.queries.len() >= BATCH_DOCUMENTS || self.bytes >= BATCH_BYTES
    }

    /// Imports all lines in one transaction; if it is refused, each line in its own transaction,
    /// without refused lines.
    /// Returns the number of imported lines.
    fn bring(&mut self, client: &Client, observer: &mut dyn Observer) -> Result<u64> {
        let mut batch = std::mem::take(self);
        if batch.queries.is_empty() {
            return Ok(0);
        }
        let count = batch.queries.len() as u64;
        batch.queries.push(Json::NULL);
        let all = Json::object([("do", Json::Array(batch.queries))]);
        match client.query(&all) {
            Ok(_) => return Ok(count),
            Err(refused) if refused.is_of_content() => {}
            Err(refused) => return Err(target(refused.text)),
        }
        let mut stored = 0;
        let queries = all.field("do").map(Json::items).unwrap_or_default();
        for (line, query) in batch.lines.iter().zip(queries) {
            match client.query(query) {
                Ok(_) => stored += 1,
                Err(refused) if refused.is_of_content() => observer.reject(&shown(line), &refused.text)?,
                Err(refused) => return Err(target(refused.text)),
            }
        }
        Ok(stored)
    }
}
