//! DynamoDB's tables: from an export as ExportTableToPointInTime lays it out, from a live table by
//! a parallel Scan, and back into such a layout.

mod client;
mod export;
mod settings;

use std::sync::Mutex;

use serde_json::{Value, json};

pub use self::client::Client;
use self::client::{BATCH_ITEMS, Refused, like};
use self::export::name_of;
pub use self::export::{Export, export};
use crate::error::{Error, Result, source, target};
use crate::journal::Journal;
use crate::lines::{Lines, shown};
use crate::observer::Observer;
pub use quartet_sigv4::Credential;

/// The journal's entry of a table that the copy has made.
const MADE: &str = "the table";
/// Items between two entries of the journal.
const JOURNAL_EVERY: usize = 20 * BATCH_ITEMS;

/// The source of items.
pub enum From<'f> {
    Export(&'f Export),
    /// A table of a server, read by several readers at once.
    Table {
        client: &'f Client,
        name: &'f str,
        segments: u32,
    },
}

/// The target of items.
pub struct To<'t> {
    pub client: &'t Client,
    pub name: &'t str,
    /// The table may hold items already.
    pub merges: bool,
}

/// Copies all items. `schema` describes the table to be made if it is not there; a live table
/// describes itself.
pub fn import(
    from: &From<'_>,
    to: &To<'_>,
    schema: Option<&Value>,
    journal: &mut Journal,
    observer: &mut (dyn Observer + Send),
) -> Result<()> {
    let (described, settings) = match from {
        From::Table { client, name, .. } => {
            let table = client.describe(name).map_err(source)?;
            let table = table.ok_or_else(|| Error::Source(format!("there is no table {name}")))?;
            let settings = settings::read(client, &table, observer)?;
            (Some(table), Some(settings))
        }
        From::Export(export) => (export.schema()?, export.settings()?),
    };
    prepare(to, schema.or(described.as_ref()), journal)?;
    copy(from, to, described.as_ref(), journal, observer)?;
    match settings {
        // An existing table keeps its own.
        Some(settings) if journal.position(MADE).is_some() => {
            let is_own = matches!(from, From::Export(_));
            settings::apply(to.client, to.name, &settings, is_own, observer)
        }
        _ => Ok(()),
    }
}

fn copy(
    from: &From<'_>,
    to: &To<'_>,
    described: Option<&Value>,
    journal: &mut Journal,
    observer: &mut (dyn Observer + Send),
) -> Result<()> {
    match from {
        From::Export(export) => import_export(export, to, journal, observer),
        From::Table { client, name, segments } => {
            let count = described.and_then(|table| table["ItemCount"].as_u64());
            observer.phase(&format!("copying {name}"), count.filter(|count| *count > 0));
            let shared = Mutex::new((journal, observer));
            let scan = |segment| {
                Segment {
                    client,
                    name,
                    segment,
                    segments: *segments,
                }
                .copy(to, &shared)
            };
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..*segments)
                    .map(|segment| scope.spawn(move || scan(segment)))
                    .collect();
                let ended = threads
                    .into_iter()
                    .map(|thread| thread.join().expect("it does not panic"));
                // All have ended before the first error is reported.
                ended.collect::<Vec<Result<()>>>().into_iter().collect()
            })
        }
    }
}

/// The table must exist and be empty, or is created; or an earlier run of this copy has started it.
fn prepare(to: &To<'_>, schema: Option<&Value>, journal: &mut Journal) -> Result<()> {
    let name = to.name;
    if to.client.describe(name).map_err(target)?.is_none() {
        let schema = schema.ok_or_else(|| {
            Error::Target(format!(
                "there is no table {name}: make it, or let --schema name a file with the answer of DescribeTable"
            ))
        })?;
        journal.note(MADE, true.into())?;
        return to.client.create(&like(schema, name)).map_err(target);
    }
    if to.merges || journal.goes_on() {
        return Ok(());
    }
    let scan = to
        .client
        .ask("Scan", &json!({ "TableName": name, "Limit": 1 }))
        .map_err(target)?;
    match scan["Count"].as_u64() {
        Some(0) => Ok(()),
        _ => Err(Error::NotEmpty(format!(
            "the table {name} holds items; --merge copies beside them, and over those of the same key"
        ))),
    }
}

fn import_export(export: &Export, to: &To<'_>, journal: &mut Journal, observer: &mut dyn Observer) -> Result<()> {
    let files = export.files()?;
    observer.phase("copying", Some(files.iter().map(|file| file.item_count).sum()));
    for file in &files {
        let name = name_of(file);
        let at = journal.position(name).and_then(Value::as_u64).unwrap_or(0);
        let bytes = export.read(file)?;
        let mut lines = Lines::new(flate2::bufread::MultiGzDecoder::new(bytes.as_slice()));
        lines.skip_to(at)?;
        observer.advance(lines.count);
        let (mut batch, mut since) = (Vec::new(), 0);
        loop {
            let line = lines
                .read()
                .map_err(|error| Error::Source(format!("{name}: {error}")))?;
            let is_end = line.is_none();
            match line.as_deref().map(item_of) {
                Some(Some(item)) => batch.push(item),
                Some(None) => observer.reject(&shown(&line.unwrap_or_default()), "it is no {\"Item\": {...}}")?,
                None => {}
            }
            if batch.len() == BATCH_ITEMS || is_end && !batch.is_empty() {
                since += batch.len();
                put(to, &std::mem::take(&mut batch), observer)?;
            }
            if is_end && lines.count < file.item_count {
                return Err(Error::Source(format!("{name} has fewer items than its manifest says")));
            }
            if batch.is_empty() && (since >= JOURNAL_EVERY || is_end) {
                since = 0;
                journal.note(name, lines.count.into())?;
            }
            if is_end {
                break;
            }
            if batch.is_empty() && observer.is_stopped() {
                journal.note(name, lines.count.into())?;
                return Err(Error::Stopped);
            }
        }
    }
    Ok(())
}

fn item_of(line: &[u8]) -> Option<Value> {
    let mut record: Value = serde_json::from_slice(line).ok()?;
    Some(record["Item"].take()).filter(Value::is_object)
}

/// Puts all of these items, except refused items.
fn put(to: &To<'_>, items: &[Value], observer: &mut dyn Observer) -> Result<()> {
    let is_of_items = |refused: &Refused| refused.kind == "ValidationException";
    match to.client.put(to.name, items) {
        Err(refused) if is_of_items(&refused) => {
            // Some of them, or two of the same key: one at a time, the later over the earlier.
            for item in items {
                match to.client.ask("PutItem", &json!({ "TableName": to.name, "Item": item })) {
                    Err(refused) if is_of_items(&refused) => {
                        observer.reject(&shown(item.to_string().as_bytes()), &refused.to_string())?;
                    }
                    put => drop(put.map_err(target)?),
                }
            }
        }
        put => put.map_err(target)?,
    }
    observer.advance(items.len() as u64);
    Ok(())
}

/// One of the readers of a live table.
struct Segment<'s> {
    client: &'s Client,
    name: &'s str,
    segment: u32,
    segments: u32,
}

type Shared<'j, 'o> = Mutex<(&'j mut Journal, &'o mut (dyn Observer + Send + 'o))>;

impl Segment<'_> {
    fn copy(&self, to: &To<'_>, shared: &Shared<'_, '_>) -> Result<()> {
        let part = format!("segment {} of {}", self.segment, self.segments);
        let lock = || shared.lock().expect("nobody panics with it");
        let mut start = lock().0.position(&part).cloned().unwrap_or_default();
        // Null means the end as well as the start, so the end has a word.
        while start != "end" {
            let mut request = json!({
                "TableName": self.name, "Segment": self.segment, "TotalSegments": self.segments, "ConsistentRead": true,
            });
            if start.is_object() {
                request["ExclusiveStartKey"] = start;
            }
            let mut page = self.client.ask("Scan", &request).map_err(source)?;
            let items = page["Items"].as_array().map(Vec::as_slice).unwrap_or_default();
            for items in items.chunks(BATCH_ITEMS) {
                let mut rejected = Gathered::default();
                put(to, items, &mut rejected)?;
                let observer = &mut *lock();
                observer.1.advance(items.len() as u64);
                for (description, reason) in rejected.rejected {
                    observer.1.reject(&description, &reason)?;
                }
            }
            start = match page["LastEvaluatedKey"].take() {
                Value::Null => "end".into(),
                key => key,
            };
            let observer = &mut *lock();
            observer.0.note(&part, start.clone())?;
            if observer.1.is_stopped() {
                return Err(Error::Stopped);
            }
        }
        Ok(())
    }
}

/// The output of one reader, until it is its turn.
#[derive(Default)]
struct Gathered {
    rejected: Vec<(String, String)>,
}

impl Observer for Gathered {
    fn phase(&mut self, _: &str, _: Option<u64>) {}

    fn advance(&mut self, _: u64) {}

    fn reject(&mut self, description: &str, reason: &str) -> Result<()> {
        self.rejected.push((description.into(), reason.into()));
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        false
    }
}
