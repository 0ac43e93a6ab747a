//! ExportTableToPointInTime, DescribeExport and ListExports: the whole table at one version, as compressed lines in a bucket.
//!
//! ```text
//! PREFIX/AWSDynamoDB/EXPORT/_started                 empty
//!                          /data/NAME.json.gz        lines of {"Item":…}; .ion.gz
//!                          /manifest-files.json      a line for each of them: key, items, MD5
//!                          /manifest-files.md5, manifest-summary.json, manifest-summary.md5
//! ```
//!
//! The state is pinned, and read a page at a time. A file is written before the row that counts it, the summary last: what a
//! kill leaves is written over, and an export without a summary is none.

use std::io::{self, Write};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use md5::{Digest, Md5};
use quartet_engine::Transaction;
use quartet_model::Version;
use serde::{Deserialize, Serialize};

use crate::backups::micros_of;
use crate::catalog::{check_is_there, table_name};
use crate::failure::{Exception, Failure};
use crate::json::{Json, Writer};
use crate::restore::recoverable_version;
use crate::settings::backed_up_table;
use crate::streams::label;
use crate::table::Table;
use crate::tables::write_seconds;
use crate::transfers::{Status, Transfer, arn, check_bucket, enqueue, kept_text, named, new_id, of_token, page, store};
use crate::{DynamoDb, Outcome, history, ion, key, stored};

/// A file ends with the page that makes it as long as this, compressed or not.
const FILE_BYTES: usize = 8 << 20;
const FILE_BYTES_BEFORE: u64 = 128 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Wanted {
    table_arn: String,
    /// `None`: now.
    micros: Option<u64>,
    token: Option<String>,
    bucket: String,
    bucket_owner: Option<String>,
    prefix: Option<String>,
    encryption: Option<String>,
    encryption_key: Option<String>,
    is_ion: bool,
}

/// An export, as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Export {
    id: String,
    table: Table,
    version: u64,
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

/// A file that is written, as a line of the manifest.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    item_count: u64,
    md5_checksum: String,
    etag: String,
    data_file_s3_key: String,
}

impl Transfer for Export {
    const LETTER: u8 = b'W';
    const KIND: &'static str = "export";

    fn id(&self) -> &str {
        &self.id
    }

    fn table(&self) -> &str {
        &self.table.name
    }

    fn token(&self) -> Option<&str> {
        self.wanted.token.as_deref()
    }
}

impl Export {
    fn folder(&self) -> String {
        let prefix = self.wanted.prefix.as_deref().unwrap_or_default().trim_matches('/');
        match prefix {
            "" => format!("AWSDynamoDB/{}", self.id),
            prefix => format!("{prefix}/AWSDynamoDB/{}", self.id),
        }
    }

    fn format(&self) -> &'static str {
        match self.wanted.is_ion {
            true => "ION",
            false => "DYNAMODB_JSON",
        }
    }

    fn time_micros(&self) -> u64 {
        self.wanted.micros.unwrap_or(self.version)
    }
}

fn parse(request: &Json<'_>) -> Result<Wanted, Failure> {
    let text = |member| kept_text(request, member);
    if text("ExportType").as_deref() == Some("INCREMENTAL_EXPORT") {
        return Err(Failure::validation(
            "Incremental exports are not supported at this endpoint",
        ));
    }
    let bucket = text("S3Bucket").unwrap_or_default();
    Ok(Wanted {
        table_arn: text("TableArn").unwrap_or_default(),
        micros: micros_of(request, "ExportTime"),
        token: text("ClientToken"),
        bucket,
        bucket_owner: text("S3BucketOwner"),
        prefix: text("S3Prefix"),
        encryption: text("S3SseAlgorithm"),
        encryption_key: text("S3SseKmsKeyId"),
        is_ion: text("ExportFormat").as_deref() == Some("ION"),
    })
}

pub fn begin(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let execute = |transaction: &mut Transaction<'_>, wanted: &Wanted| {
        if let Some(present) = of_token::<Export>(layer, transaction, wanted.token.as_deref()) {
            return match present.wanted == *wanted {
                true => Ok(present),
                false => Err(Failure::new(
                    Exception::ExportConflict,
                    "The client token was used for another export",
                )),
            };
        }
        let mut table = Table::clone(&*backed_up_table(layer, transaction, &wanted.table_arn)?);
        check_is_there(&table, Exception::Validation)?;
        let version = recoverable_version(transaction, &table, wanted.micros)?.ok_or_else(|| {
            let text = "The specified ExportTime is outside of the point in time recovery window.";
            Failure::new(Exception::InvalidExportTime, text)
        })?;
        check_bucket(layer, &wanted.bucket)?;
        enqueue(layer, transaction, |transaction, number| {
            history::pin(transaction, &mut table, version, number);
            layer.store_table(transaction, &table);
            Ok(Export {
                id: new_id(transaction),
                table,
                version: version.0,
                wanted: wanted.clone(),
                status: Status::InProgress,
                started_micros: transaction.now_micros(),
                ended_micros: 0,
                items: 0,
                bytes: 0,
                files: 0,
                after: Vec::new(),
            })
        })
    };
    layer.respond(parse(request), execute, |_, export| description(layer, &export))
}

pub fn describe(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let asked = request.get("ExportArn").and_then(Json::text).unwrap_or_default();
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        let not_found = || Failure::new(Exception::ExportNotFound, format!("Export not found: {asked}"));
        named::<Export>(layer, transaction, asked).ok_or_else(not_found)
    };
    layer.respond(Ok(()), execute, |(), export| description(layer, &export))
}

pub fn list(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let text = |member| request.get(member).and_then(Json::text);
    let (table, limit) = (
        text("TableArn").map(table_name),
        request.get("MaxResults").and_then(Json::integer),
    );
    let execute = |transaction: &mut Transaction<'_>, (): &()| {
        Ok(page::<Export>(layer, transaction, table, limit, text("NextToken")))
    };
    layer.respond(Ok(()), execute, |(), (exports, next)| {
        Writer::object(|writer| {
            writer.list("ExportSummaries", &exports, |writer, export| {
                writer.open(b'{');
                writer.member("ExportArn", &arn(layer, export));
                writer.member("ExportStatus", export.status.name());
                writer.member("ExportType", "FULL_EXPORT");
                writer.close(b'}');
            });
            if let Some(next) = &next {
                writer.member("NextToken", next);
            }
        })
    })
}

fn description(layer: &DynamoDb, export: &Export) -> Vec<u8> {
    let wanted = &export.wanted;
    Writer::object(|writer| {
        writer.nested("ExportDescription", |writer| {
            writer.member("ExportArn", &arn(layer, export));
            export.status.write(writer, "ExportStatus");
            write_seconds(writer, "StartTime", export.started_micros);
            if export.status != Status::InProgress {
                write_seconds(writer, "EndTime", export.ended_micros);
            }
            if export.status == Status::Completed {
                writer.member("ExportManifest", &format!("{}/manifest-summary.json", export.folder()));
                writer.name("BilledSizeBytes").raw(export.bytes);
                writer.name("ItemCount").raw(export.items);
            }
            writer.member("TableArn", &layer.table_arn(&export.table.name));
            writer.member("TableId", &export.table.uuid);
            write_seconds(writer, "ExportTime", export.time_micros());
            writer.member("S3Bucket", &wanted.bucket);
            for (member, text) in [
                ("ClientToken", &wanted.token),
                ("S3BucketOwner", &wanted.bucket_owner),
                ("S3Prefix", &wanted.prefix),
                ("S3SseKmsKeyId", &wanted.encryption_key),
            ] {
                if let Some(text) = text {
                    writer.member(member, text);
                }
            }
            writer.member("S3SseAlgorithm", wanted.encryption.as_deref().unwrap_or("AES256"));
            writer.member("ExportFormat", export.format());
            writer.member("ExportType", "FULL_EXPORT");
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
        export.status = status.clone();
        export.ended_micros = transaction.now_micros();
        export.after.clear();
        store(transaction, row_key, &export);
        transaction.clear(&key::queued(number));
        let files = key::export_files(number);
        transaction.clear_range(&files.start, &files.end);
        history::unpin(layer, transaction, &export.table, Version(export.version), number);
    })
}

/// True if all is written.
fn write(
    layer: &DynamoDb,
    export: &mut Export,
    number: u32,
    row_key: &[u8],
    may_go_on: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let folder = export.folder();
    if export.files == 0 {
        let path = format!("{folder}/_started");
        layer.buckets.put(&export.wanted.bucket, &path, Vec::new())?;
    }
    loop {
        if export.files > 0 && export.after.is_empty() {
            break;
        }
        let Some(data) = Data::read(layer, export, may_go_on)? else {
            return Ok(false);
        };
        let ending = if export.wanted.is_ion { "ion" } else { "json" };
        let name = format!(
            "{:016x}",
            xxhash_rust::xxh3::xxh3_64(format!("{}/{}", export.id, export.files).as_bytes())
        );
        let path = format!("{folder}/data/{name}.{ending}.gz");
        let file = File {
            item_count: data.items,
            md5_checksum: BASE64_STANDARD.encode(Md5::digest(&data.compressed)),
            etag: hexadecimal_md5(&data.compressed),
            data_file_s3_key: path.clone(),
        };
        layer.buckets.put(&export.wanted.bucket, &path, data.compressed)?;
        let index = export.files;
        export.files += 1;
        export.items += data.items;
        export.bytes += data.bytes;
        export.after = data.last.unwrap_or_default();
        layer.settle(|transaction| {
            let line = serde_json::to_vec(&file).expect("JSON");
            transaction.set(&key::export_file(number, index), &line);
            store(transaction, row_key, export);
        })?;
    }
    write_manifests(layer, export, number)?;
    Ok(true)
}

fn hexadecimal_md5(bytes: &[u8]) -> String {
    Md5::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What one file holds.
struct Data {
    compressed: Vec<u8>,
    items: u64,
    bytes: u64,
    /// The last place that was looked at; `None`: there are no more.
    last: Option<Vec<u8>>,
}

impl Data {
    /// `None`: it was told to end.
    fn read(layer: &DynamoDb, export: &Export, may_go_on: &dyn Fn() -> bool) -> io::Result<Option<Data>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        let (mut items, mut bytes) = (0, 0);
        let mut after = export.after.clone();
        let mut line = Vec::new();
        loop {
            if !may_go_on() {
                return Ok(None);
            }
            let version = Version(export.version);
            let page = layer.settle(|transaction| history::page(transaction, export.table.id, version, &after))?;
            for item in page.items.values() {
                line.clear();
                write_line(export.wanted.is_ion, item, &mut line);
                encoder.write_all(&line)?;
                items += 1;
                bytes += stored::size(item) as u64;
            }
            let is_full = encoder.get_ref().len() >= FILE_BYTES || bytes >= FILE_BYTES_BEFORE;
            match page.last {
                Some(last) if !is_full => after = last,
                last => {
                    let compressed = encoder.finish()?;
                    return Ok(Some(Data {
                        compressed,
                        items,
                        bytes,
                        last,
                    }));
                }
            }
        }
    }
}

fn write_line(is_ion: bool, item: &[u8], line: &mut Vec<u8>) {
    if is_ion {
        return ion::write_line(&stored::decode(item), line);
    }
    line.extend_from_slice(br#"{"Item":"#);
    stored::write_json(item, line);
    line.extend_from_slice(b"}\n");
}

fn write_manifests(layer: &DynamoDb, export: &Export, number: u32) -> io::Result<()> {
    let folder = export.folder();
    let lines = layer.settle(|transaction| {
        let mut lines = Vec::new();
        let files = key::export_files(number);
        transaction.scan(&files.start, &files.end, false, &mut |row| {
            lines.extend_from_slice(row.value());
            lines.push(b'\n');
            std::ops::ControlFlow::Continue(())
        });
        lines
    })?;
    let put = |name: &str, bytes: Vec<u8>| {
        let sum = BASE64_STANDARD.encode(Md5::digest(&bytes));
        let bucket = &export.wanted.bucket;
        layer
            .buckets
            .put(bucket, &format!("{folder}/{name}.md5"), sum.into_bytes())?;
        layer.buckets.put(bucket, &format!("{folder}/{name}.json"), bytes)
    };
    put("manifest-files", lines)?;
    put("manifest-summary", summary(layer, export))
}

fn summary(layer: &DynamoDb, export: &Export) -> Vec<u8> {
    let wanted = &export.wanted;
    let time = |micros| format!("{}Z", label(micros));
    Writer::object(|writer| {
        writer.member("version", "2020-06-30");
        writer.member("exportArn", &arn(layer, export));
        writer.member("startTime", &time(export.started_micros));
        writer.member("endTime", &time(layer.engine.now_micros()));
        writer.member("tableArn", &layer.table_arn(&export.table.name));
        writer.member("tableId", &export.table.uuid);
        writer.member("exportTime", &time(export.time_micros()));
        writer.member("s3Bucket", &wanted.bucket);
        for (member, text) in [("s3Prefix", &wanted.prefix), ("s3SseKmsKeyId", &wanted.encryption_key)] {
            match text {
                Some(text) => writer.member(member, text),
                None => writer.name(member).raw("null"),
            }
        }
        writer.member("s3SseAlgorithm", wanted.encryption.as_deref().unwrap_or("AES256"));
        writer.member(
            "manifestFilesS3Key",
            &format!("{}/manifest-files.json", export.folder()),
        );
        writer.name("billedSizeBytes").raw(export.bytes);
        writer.name("itemCount").raw(export.items);
        writer.member("outputFormat", export.format());
        writer.member("exportType", "FULL_EXPORT");
    })
}
