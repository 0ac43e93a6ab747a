//! ExportTableToPointInTime, DescribeExport and ListExports: a table as it was, or what changed in
//! it, into a bucket.
//!
//! The request pins the state, as backups do, so that items that change meanwhile are exported
//! unchanged. Files are written one after another, and the list of those in the bucket is a row, so
//! an interrupted export continues after its last whole file. The manifests are last. An
//! incremental export compares the states of two versions.
//!
//! The layout is the service's (`quartet_dynamodb_export`).

use std::io;
use std::ops::ControlFlow;

use quartet_dynamodb_export::{DataFile, FILES, FULL_VERSION, INCREMENTAL_VERSION, SUMMARY, Summary, checksum};
use quartet_engine::Transaction;
use quartet_model::Version;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::operations::backups::micros_of;
use crate::operations::export_filters::ExportFilter;
use crate::operations::restore::recoverable_version;
use crate::operations::settings::backed_up_table;
use crate::operations::transfers::{
    self, Names, Status, Transfer, arn, check_bucket, enqueue, kept_text, new_id, of_token, store,
};
use crate::storage::catalog::check_is_there;
use crate::storage::history::Change;
use crate::storage::streams::label;
use crate::storage::table::Table;
use crate::wire::failure::{Exception, Failure};
use crate::wire::json::{Json, Writer, json_text, write_seconds};
use crate::wire::value::{Item, write_item};
use crate::{DynamoDb, Outcome, storage::history, storage::key, storage::stored, wire::ion};

/// The longest period of an incremental export.
const PERIOD_MICROS_MAX: u64 = 24 * 3600 * 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Wanted {
    table_arn: String,
    /// `None`: now.
    micros: Option<u64>,
    increment: Option<Increment>,
    token: Option<String>,
    bucket: String,
    bucket_owner: Option<String>,
    prefix: Option<String>,
    encryption: Option<String>,
    encryption_key: Option<String>,
    is_ion: bool,
    /// The FilterSpecification, as it was sent.
    filter: Option<String>,
}

impl Wanted {
    fn filter(&self) -> Result<Option<ExportFilter>, Failure> {
        let Some(text) = &self.filter else { return Ok(None) };
        let specification = Json::parse(text.as_bytes()).unwrap_or(Json::Null);
        ExportFilter::parse(&specification).map(Some)
    }
}

/// The span of an incremental export: `from_micros` is included, `to_micros` is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Increment {
    from_micros: u64,
    /// `None`: now.
    to_micros: Option<u64>,
    with_old_images: bool,
}

/// An export, as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Export {
    id: String,
    table: Table,
    version: u64,
    /// For an incremental export: the version to compare the state of `version` with.
    from_version: Option<u64>,
    wanted: Wanted,
    status: Status,
    started_micros: u64,
    ended_micros: u64,
    items: u64,
    bytes: u64,
    /// Files that are written, and the place of the last item in them.
    files: u32,
    after: Vec<u8>,
}

impl Transfer for Export {
    const LETTER: u8 = b'W';
    const KIND: &'static str = "export";
    const NAMES: Names = Names {
        kind: "Export",
        arn: "ExportArn",
        status: "ExportStatus",
        page_size: "MaxResults",
        list: "ExportSummaries",
        not_found: Exception::ExportNotFound,
    };

    fn id(&self) -> &str {
        &self.id
    }

    fn table(&self) -> &Table {
        &self.table
    }

    fn token(&self) -> Option<&str> {
        self.wanted.token.as_deref()
    }

    fn status(&self) -> &Status {
        &self.status
    }
}

impl Increment {
    fn view(&self) -> &'static str {
        match self.with_old_images {
            true => "NEW_AND_OLD_IMAGES",
            false => "NEW_IMAGE",
        }
    }
}

impl Export {
    /// The folder of all exports with the same prefix.
    fn around(&self) -> String {
        let prefix = self.wanted.prefix.as_deref().unwrap_or_default().trim_matches('/');
        match prefix {
            "" => "AWSDynamoDB".to_owned(),
            prefix => format!("{prefix}/AWSDynamoDB"),
        }
    }

    fn folder(&self) -> String {
        format!("{}/{}", self.around(), self.id)
    }

    /// The key of a file, by its position. Incremental exports share a folder.
    fn file_key(&self, index: u32) -> String {
        let folder = match self.wanted.increment {
            Some(_) => self.around(),
            None => self.folder(),
        };
        let name = xxh3_64(format!("{}/{index}", self.id).as_bytes());
        let ending = if self.wanted.is_ion { "ion" } else { "json" };
        format!("{folder}/data/{name:016x}.{ending}.gz")
    }

    fn format(&self) -> &'static str {
        match self.wanted.is_ion {
            true => "ION",
            false => "DYNAMODB_JSON",
        }
    }

    fn kind(&self) -> &'static str {
        match self.wanted.increment {
            Some(_) => "INCREMENTAL_EXPORT",
            None => "FULL_EXPORT",
        }
    }

    fn time_micros(&self) -> u64 {
        self.wanted.micros.unwrap_or(self.version)
    }

    /// The end of an incremental export's period.
    fn to_micros(&self, increment: &Increment) -> u64 {
        increment.to_micros.unwrap_or(self.version + 1)
    }

    /// The versions that it needs the states of.
    fn pinned(&self) -> impl Iterator<Item = Version> + use<> {
        [Some(self.version), self.from_version]
            .into_iter()
            .flatten()
            .map(Version)
    }
}

// ---- parameters

fn parse(request: &Json<'_>) -> Result<Wanted, Failure> {
    let text = |member| kept_text(request, member);
    let filter = request.get("FilterSpecification").map(|specification| {
        let mut text = Vec::new();
        specification.write(&mut text);
        json_text(text)
    });
    Ok(Wanted {
        filter,
        table_arn: text("TableArn").unwrap_or_default(),
        micros: micros_of(request, "ExportTime"),
        increment: parse_increment(request)?,
        token: text("ClientToken"),
        bucket: text("S3Bucket").unwrap_or_default(),
        bucket_owner: text("S3BucketOwner"),
        prefix: text("S3Prefix"),
        encryption: text("S3SseAlgorithm"),
        encryption_key: text("S3SseKmsKeyId"),
        is_ion: text("ExportFormat").as_deref() == Some("ION"),
    })
}

fn parse_increment(request: &Json<'_>) -> Result<Option<Increment>, Failure> {
    let is_incremental = request.get("ExportType").and_then(Json::text) == Some("INCREMENTAL_EXPORT");
    let specification = match (is_incremental, request.get("IncrementalExportSpecification")) {
        (false, None) => return Ok(None),
        (true, Some(specification)) if request.get("ExportTime").is_none() => specification,
        (true, Some(_)) => return Err(Failure::invalid("ExportTime is only for ExportType FULL_EXPORT")),
        (true, None) => {
            return Err(Failure::invalid(
                "IncrementalExportSpecification is required for ExportType INCREMENTAL_EXPORT",
            ));
        }
        (false, Some(_)) => {
            return Err(Failure::invalid(
                "IncrementalExportSpecification is only for ExportType INCREMENTAL_EXPORT",
            ));
        }
    };
    let from_micros = micros_of(specification, "ExportFromTime")
        .ok_or_else(|| Failure::invalid("ExportFromTime is required for ExportType INCREMENTAL_EXPORT"))?;
    Ok(Some(Increment {
        from_micros,
        to_micros: micros_of(specification, "ExportToTime"),
        with_old_images: specification.get("ExportViewType").and_then(Json::text) != Some("NEW_IMAGE"),
    }))
}

pub fn begin(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let execute = |transaction: &mut Transaction<'_>, settings: &Wanted| {
        if let Some(present) = of_token::<Export>(layer, transaction, settings.token.as_deref()) {
            return match present.wanted == *settings {
                true => Ok(present),
                false => Err(Failure::new(
                    Exception::ExportConflict,
                    "The client token was used for another export",
                )),
            };
        }
        let table = Table::clone(&*backed_up_table(layer, transaction, &settings.table_arn)?);
        check_is_there(&table, Exception::Validation)?;
        if let Some(filter) = settings.filter()? {
            filter.check(&table)?;
        }
        let (from_version, version) = asked_versions(transaction, &table, settings)?;
        check_bucket(layer, &settings.bucket)?;
        enqueue(layer, transaction, |transaction, number| {
            let mut export = Export {
                id: new_id(transaction),
                table,
                version: version.0,
                from_version: from_version.map(|version| version.0),
                wanted: settings.clone(),
                status: Status::InProgress,
                started_micros: transaction.now_micros(),
                ended_micros: 0,
                items: 0,
                bytes: 0,
                files: 0,
                after: Vec::new(),
            };
            for version in export.pinned() {
                history::pin(transaction, &mut export.table, version, number);
            }
            layer.store_table(transaction, &export.table);
            Ok(export)
        })
    };
    layer.respond(parse(request), execute, |_, export| description(layer, &export))
}

/// Returns the versions of the compared states, or the exported version.
fn asked_versions(
    transaction: &mut Transaction<'_>,
    table: &Table,
    settings: &Wanted,
) -> Result<(Option<Version>, Version), Failure> {
    let outside = |member| {
        let text = format!("The specified {member} is outside of the point in time recovery window.");
        Failure::new(Exception::InvalidExportTime, text)
    };
    let Some(increment) = &settings.increment else {
        let version = recoverable_version(transaction, table, settings.micros)?;
        return Ok((None, version.ok_or_else(|| outside("ExportTime"))?));
    };
    let from = recoverable_version(transaction, table, Some(increment.from_micros))?;
    let from = from.ok_or_else(|| outside("ExportFromTime"))?;
    let to = recoverable_version(transaction, table, increment.to_micros)?.ok_or_else(|| outside("ExportToTime"))?;
    if to <= from {
        return Err(Failure::invalid("ExportToTime must be later than ExportFromTime"));
    }
    if to.0 - from.0 > PERIOD_MICROS_MAX {
        return Err(Failure::invalid(
            "The period of an incremental export must not be longer than 24 hours",
        ));
    }
    // Recovery has no state before its own start.
    let now = transaction.now_micros();
    let earliest = table
        .recovery
        .as_ref()
        .map_or(0, |recovery| recovery.earliest_micros(now));
    Ok((Some(Version(earliest.max(from.0 - 1))), Version(to.0 - 1)))
}

pub fn describe(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    transfers::describe(layer, request, description)
}

pub fn list(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    transfers::list::<Export>(layer, request, |export, writer| {
        writer.member("ExportType", export.kind());
    })
}

fn description(layer: &DynamoDb, export: &Export) -> Vec<u8> {
    let settings = &export.wanted;
    Writer::object(|writer| {
        writer.nested("ExportDescription", |writer| {
            writer.member("ExportArn", &arn(layer, export));
            export.status.write(writer, "ExportStatus");
            write_seconds(writer, "StartTime", export.started_micros);
            if export.status != Status::InProgress {
                write_seconds(writer, "EndTime", export.ended_micros);
            }
            if export.status == Status::Completed {
                writer.member("ExportManifest", &format!("{}/{SUMMARY}", export.folder()));
                writer.name("BilledSizeBytes").raw(export.bytes);
                writer.name("ItemCount").raw(export.items);
            }
            writer.member("TableArn", &layer.table_arn(&export.table.name));
            writer.member("TableId", &export.table.uuid);
            writer.member("S3Bucket", &settings.bucket);
            for (member, text) in [
                ("ClientToken", &settings.token),
                ("S3BucketOwner", &settings.bucket_owner),
                ("S3Prefix", &settings.prefix),
                ("S3SseKmsKeyId", &settings.encryption_key),
            ] {
                if let Some(text) = text {
                    writer.member(member, text);
                }
            }
            writer.member("S3SseAlgorithm", settings.encryption.as_deref().unwrap_or("AES256"));
            writer.member("ExportFormat", export.format());
            writer.member("ExportType", export.kind());
            if let Some(filter) = &settings.filter {
                writer.name("FilterSpecification").raw(filter);
            }
            let Some(increment) = &settings.increment else {
                write_seconds(writer, "ExportTime", export.time_micros());
                return;
            };
            writer.nested("IncrementalExportSpecification", |writer| {
                write_seconds(writer, "ExportFromTime", increment.from_micros);
                write_seconds(writer, "ExportToTime", export.to_micros(increment));
                writer.member("ExportViewType", increment.view());
            });
        });
    })
}

// ---- writing it

/// Writes what is still missing of an export.
pub fn run(layer: &DynamoDb, number: u32, row_key: &[u8], may_go_on: &dyn Fn() -> bool) -> io::Result<()> {
    let Some(mut export) = layer.transfer_at::<Export>(row_key)? else {
        return layer.settle(|transaction| drop(transaction.clear(&key::queued(number))));
    };
    let status = match write(layer, &mut export, number, row_key, may_go_on) {
        Ok(false) => return Ok(()),
        Ok(true) => Status::Completed,
        Err(error) => Status::of_bucket(&error),
    };
    layer.settle(|transaction| {
        export.status = status;
        export.ended_micros = transaction.now_micros();
        export.after.clear();
        store(transaction, row_key, &export);
        transaction.clear(&key::queued(number));
        let files = key::export_files(number);
        transaction.clear_range(&files.start, &files.end);
        for version in export.pinned() {
            history::unpin(layer, transaction, &export.table, version, number);
        }
    })
}

/// Returns true if all is written.
fn write(
    layer: &DynamoDb,
    export: &mut Export,
    number: u32,
    row_key: &[u8],
    may_go_on: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let bucket = export.wanted.bucket.clone();
    let filter = export.wanted.filter();
    let filter = filter.map_err(|failure| io::Error::other(failure.message))?;
    if export.files == 0 {
        let path = format!("{}/_started", export.folder());
        layer.buckets.put(&bucket, &path, Vec::new())?;
    }
    while export.files == 0 || !export.after.is_empty() {
        let Some(filled) = Filled::read(layer, export, filter.as_ref(), may_go_on)? else {
            return Ok(false);
        };
        let index = export.files;
        let (bytes, line) = filled.file.finish(export.file_key(index))?;
        layer.buckets.put(&bucket, &line.data_file_s3_key, bytes)?;
        export.files += 1;
        export.items += line.item_count;
        export.bytes += filled.bytes;
        export.after = filled.last.unwrap_or_default();
        layer.settle(|transaction| {
            let line = serde_json::to_vec(&line).expect("JSON");
            transaction.set(&key::export_file(number, index), &line);
            store(transaction, row_key, export);
        })?;
    }
    write_manifests(layer, export, number)?;
    Ok(true)
}

/// A file with all that fits into it.
struct Filled {
    file: DataFile,
    /// Size of the items as the service counts them.
    bytes: u64,
    /// The last place that was looked at; `None`: there are no more.
    last: Option<Vec<u8>>,
}

impl Filled {
    /// Returns `None` if it was requested to end.
    fn read(
        layer: &DynamoDb,
        export: &Export,
        filter: Option<&ExportFilter>,
        may_go_on: &dyn Fn() -> bool,
    ) -> io::Result<Option<Filled>> {
        let mut filled = Filled {
            file: DataFile::default(),
            bytes: 0,
            last: Some(export.after.clone()),
        };
        while let Some(after) = filled.last.take() {
            if !may_go_on() {
                return Ok(None);
            }
            filled.last = filled.add_page(layer, export, filter, &after)?;
            if filled.file.is_full() {
                break;
            }
        }
        Ok(Some(filled))
    }

    /// Adds the items after the place `after`; answers the place of the last that was looked at,
    /// if there are more.
    fn add_page(
        &mut self,
        layer: &DynamoDb,
        export: &Export,
        filter: Option<&ExportFilter>,
        after: &[u8],
    ) -> io::Result<Option<Vec<u8>>> {
        let (id, version) = (export.table.id, Version(export.version));
        let mut line = Vec::new();
        let Some((from, increment)) = export.from_version.zip(export.wanted.increment.as_ref()) else {
            let page = layer.settle(|transaction| history::page(transaction, id, version, after))?;
            for item in page.items.values() {
                line.clear();
                if !write_line(export.wanted.is_ion, filter, item, &mut line) {
                    continue;
                }
                self.file.add(&line)?;
                self.bytes += stored::size(item) as u64;
            }
            return Ok(page.last);
        };
        let (changes, last) =
            layer.settle(|transaction| history::changes(transaction, id, Version(from), version, after))?;
        for change in &changes {
            line.clear();
            if !write_change(export, filter, change, increment.with_old_images, &mut line) {
                continue;
            }
            self.file.add(&line)?;
            self.bytes += line.len() as u64;
        }
        Ok(last)
    }
}

/// Writes an item as it is stored. False if it is not exported.
fn write_line(is_ion: bool, filter: Option<&ExportFilter>, row: &[u8], line: &mut Vec<u8>) -> bool {
    if filter.is_none() && !is_ion {
        line.extend_from_slice(br#"{"Item":"#);
        stored::write_json(row, line);
        line.extend_from_slice(b"}\n");
        return true;
    }
    let item = stored::decode(row);
    if filter.is_some_and(|filter| !filter.admits(&item)) {
        return false;
    }
    let item = shown(filter, item);
    if is_ion {
        ion::write_line(&item, line);
        return true;
    }
    line.extend_from_slice(br#"{"Item":"#);
    write_item(&item, line);
    line.extend_from_slice(b"}\n");
    true
}

fn shown(filter: Option<&ExportFilter>, item: Item) -> Item {
    match filter {
        Some(filter) => filter.shown(item),
        None => item,
    }
}

/// Writes a change. False if it is not exported.
fn write_change(
    export: &Export,
    filter: Option<&ExportFilter>,
    change: &Change,
    with_old_images: bool,
    line: &mut Vec<u8>,
) -> bool {
    let (new, old) = (
        change.new.as_deref().map(stored::decode),
        change.old.as_deref().map(stored::decode),
    );
    let newest = new.as_ref().or(old.as_ref()).expect("a change of an item");
    if filter.is_some_and(|filter| !filter.admits(newest)) {
        return false;
    }
    let keys = export.table.key_of(newest);
    let images = [("NewImage", new), ("OldImage", old.filter(|_| with_old_images))];
    let images = images.map(|(name, image)| (name, image.map(|image| shown(filter, image))));
    let images = images.iter().filter_map(|(name, image)| Some((*name, image.as_ref()?)));
    if export.wanted.is_ion {
        ion::write_change(change.version.0, &keys, images, line);
        return true;
    }
    let micros = change.version.0;
    line.extend_from_slice(format!(r#"{{"Metadata":{{"WriteTimestampMicros":{{"N":"{micros}"}}}},"Keys":"#).as_bytes());
    write_item(&keys, line);
    for (name, image) in images {
        line.extend_from_slice(format!(r#","{name}":"#).as_bytes());
        write_item(image, line);
    }
    line.extend_from_slice(b"}\n");
    true
}

fn write_manifests(layer: &DynamoDb, export: &Export, number: u32) -> io::Result<()> {
    let lines = layer.settle(|transaction| {
        let mut lines = Vec::new();
        let files = key::export_files(number);
        transaction.scan(&files.start, &files.end, false, &mut |row| {
            lines.extend_from_slice(row.value());
            lines.push(b'\n');
            ControlFlow::Continue(())
        });
        lines
    })?;
    let region = export.table.region.as_deref().unwrap_or(&layer.region);
    let summary = layer.in_region(region, |layer| summary(layer, export));
    let summary = serde_json::to_vec(&summary).expect("JSON");
    for (name, bytes) in [(FILES, lines), (SUMMARY, summary)] {
        let (bucket, folder) = (&export.wanted.bucket, export.folder());
        let sum = format!("{folder}/{}.md5", name.trim_end_matches(".json"));
        layer.buckets.put(bucket, &sum, checksum(&bytes).into_bytes())?;
        layer.buckets.put(bucket, &format!("{folder}/{name}"), bytes)?;
    }
    Ok(())
}

fn summary(layer: &DynamoDb, export: &Export) -> Summary {
    let settings = &export.wanted;
    let increment = settings.increment.as_ref();
    let time = |micros| format!("{}Z", label(micros));
    Summary {
        version: increment.map_or(FULL_VERSION, |_| INCREMENTAL_VERSION).to_owned(),
        export_arn: Some(arn(layer, export)),
        start_time: Some(time(export.started_micros)),
        end_time: Some(time(layer.engine.now_micros())),
        table_arn: layer.table_arn(&export.table.name),
        table_id: Some(export.table.uuid.clone()),
        export_time: increment.is_none().then(|| time(export.time_micros())),
        export_from_time: increment.map(|increment| time(increment.from_micros)),
        export_to_time: increment.map(|increment| time(export.to_micros(increment))),
        s3_bucket: Some(settings.bucket.clone()),
        s3_prefix: settings.prefix.clone(),
        s3_sse_algorithm: Some(settings.encryption.clone().unwrap_or_else(|| "AES256".to_owned())),
        s3_sse_kms_key_id: settings.encryption_key.clone(),
        manifest_files_s3_key: format!("{}/{FILES}", export.folder()),
        billed_size_bytes: export.bytes,
        item_count: export.items,
        output_format: Some(export.format().to_owned()),
        output_view: increment.map(|increment| increment.view().to_owned()),
        export_type: Some(export.kind().to_owned()),
    }
}
