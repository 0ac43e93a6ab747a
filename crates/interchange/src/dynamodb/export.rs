//! An export as DynamoDB lays it out, in a folder or a bucket.
//!
//! ```text
//! manifest-summary.json    what was exported; written last
//! manifest-files.json      a line for each file: its name, its items, the MD5 of its bytes
//! data/NAME.json.gz        lines of {"Item": {...}}
//! table.json               our own: the table's description, so that it can be made again
//! ```
//!
//! Source: the DynamoDB developer guide, "DynamoDB table export output format".

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use md5::{Digest, Md5};
use quartet_backup::{Target, open_target};
use serde_json::{Value, json};

use super::Client;
use crate::error::{Error, Result, source, target};
use crate::observer::{BEGUN_ANEW, Observer};

const SUMMARY: &str = "manifest-summary.json";
const FILES: &str = "manifest-files.json";
const TABLE: &str = "table.json";
/// Bytes of JSON in one file.
const FILE_BYTES: usize = 64 << 20;

pub struct Export {
    manifests: Box<dyn Target>,
    data: Box<dyn Target>,
}

/// A file of items.
pub struct DataFile {
    pub name: String,
    pub items: u64,
    /// Of its bytes, in base64, if the manifest has it.
    md5: Option<String>,
}

impl Export {
    /// An export that is there: the folder, or s3://BUCKET/PREFIX, that holds manifest-summary.json.
    pub fn open(address: &str) -> Result<Export> {
        let export = Export::at(address, false)?;
        let summary = export.json(SUMMARY)?;
        match (summary["outputFormat"].as_str(), summary["exportType"].as_str()) {
            (Some("DYNAMODB_JSON") | None, Some("FULL_EXPORT") | None) => Ok(export),
            (format, kind) => Err(Error::Source(format!(
                "{address} is {} of {}: only a FULL_EXPORT of DYNAMODB_JSON can be read",
                kind.unwrap_or("an export"),
                format.unwrap_or("an unknown format")
            ))),
        }
    }

    fn at(address: &str, create: bool) -> Result<Export> {
        let address = address.trim_end_matches('/');
        Ok(Export {
            manifests: open_target(address, create).map_err(source)?,
            data: open_target(&format!("{address}/data"), create).map_err(source)?,
        })
    }

    fn json(&self, name: &str) -> Result<Value> {
        let bytes = self
            .manifests
            .get(name)
            .map_err(|error| Error::Source(format!("{name}: {error}")))?;
        serde_json::from_slice(&bytes).map_err(|error| Error::Source(format!("{name}: {error}")))
    }

    /// What describes the table, if we wrote the export.
    pub fn schema(&self) -> Result<Option<Value>> {
        let names = self.manifests.list().map_err(source)?;
        match names.iter().any(|name| name == TABLE) {
            true => self.json(TABLE).map(Some),
            false => Ok(None),
        }
    }

    pub fn files(&self) -> Result<Vec<DataFile>> {
        let bytes = self
            .manifests
            .get(FILES)
            .map_err(|error| Error::Source(format!("{FILES}: {error}")))?;
        let lines = bytes
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty());
        lines
            .map(|line| DataFile::parse(line).ok_or_else(|| Error::Source(format!("{FILES} cannot be read"))))
            .collect()
    }

    /// The whole file, as its manifest has it.
    pub fn read(&self, file: &DataFile) -> Result<Vec<u8>> {
        let bytes = self.data.get(&file.name);
        let bytes = bytes.map_err(|error| Error::Source(format!("{}: {error}", file.name)))?;
        let found = STANDARD.encode(Md5::digest(&bytes));
        match file.md5.as_ref().is_none_or(|expected| *expected == found) {
            true => Ok(bytes),
            false => Err(Error::Source(format!(
                "{} is damaged: its MD5 is not its manifest's",
                file.name
            ))),
        }
    }
}

impl DataFile {
    fn parse(line: &[u8]) -> Option<DataFile> {
        let line: Value = serde_json::from_slice(line).ok()?;
        // The key begins with the place in the bucket where the export was made; it may lie elsewhere now.
        let name = line["dataFileS3Key"].as_str()?.rsplit('/').next()?;
        Some(DataFile {
            name: name.to_owned(),
            items: line["itemCount"].as_u64()?,
            md5: line["md5Checksum"].as_str().map(str::to_owned),
        })
    }
}

/// Writes all items of a table into a folder or bucket that holds no export. Returns their number.
pub fn export(client: &Client, table: &str, address: &str, observer: &mut dyn Observer) -> Result<u64> {
    let description = client.describe(table).map_err(source)?;
    let description = description.ok_or_else(|| Error::Source(format!("there is no table {table}")))?;
    let export = Export::at(address, true)?;
    if export
        .manifests
        .list()
        .map_err(target)?
        .iter()
        .any(|name| name == SUMMARY)
    {
        return Err(Error::NotEmpty(format!("{address} holds an export already")));
    }
    let mut is_left = false;
    for name in export.data.list().map_err(target)?.iter().filter(|name| is_data(name)) {
        export.data.remove(name).map_err(target)?;
        is_left = true;
    }
    if is_left {
        observer.phase(BEGUN_ANEW, None);
    }
    observer.phase(
        &format!("exporting {table}"),
        description["ItemCount"].as_u64().filter(|count| *count > 0),
    );
    let mut writing = Writing::new(&export);
    let mut start = Value::Null;
    loop {
        let mut request = json!({ "TableName": table, "ConsistentRead": true });
        if start.is_object() {
            request["ExclusiveStartKey"] = start;
        }
        let mut page = client.ask("Scan", &request).map_err(source)?;
        let items = page["Items"].as_array().map(Vec::as_slice).unwrap_or_default();
        for item in items {
            writing.add(item)?;
        }
        observer.advance(items.len() as u64);
        start = page["LastEvaluatedKey"].take();
        if start.is_null() {
            break;
        }
        if observer.is_stopped() {
            return Err(Error::ExportStopped);
        }
    }
    writing.finish(&description)
}

/// True for the name of a file that an export writes, whole or not.
fn is_data(name: &str) -> bool {
    let number = name.split_once(".json.gz").map(|(number, _)| number);
    number.is_some_and(|number| number.len() == 8 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

struct Writing<'e> {
    export: &'e Export,
    file: GzEncoder<Vec<u8>>,
    file_items: u64,
    file_bytes: usize,
    manifest: Vec<u8>,
    files: u64,
    items: u64,
    bytes: u64,
}

impl<'e> Writing<'e> {
    fn new(export: &'e Export) -> Writing<'e> {
        Writing {
            export,
            file: fresh(),
            file_items: 0,
            file_bytes: 0,
            manifest: Vec::new(),
            files: 0,
            items: 0,
            bytes: 0,
        }
    }

    fn add(&mut self, item: &Value) -> Result<()> {
        let line = format!("{}\n", json!({ "Item": item }));
        self.file.write_all(line.as_bytes()).map_err(target)?;
        self.file_items += 1;
        self.file_bytes += line.len();
        match self.file_bytes >= FILE_BYTES {
            true => self.end_file(),
            false => Ok(()),
        }
    }

    fn end_file(&mut self) -> Result<()> {
        let bytes = std::mem::replace(&mut self.file, fresh()).finish().map_err(target)?;
        let name = format!("{:08}.json.gz", self.files);
        let line = json!({
            "itemCount": self.file_items,
            "md5Checksum": STANDARD.encode(Md5::digest(&bytes)),
            "dataFileS3Key": format!("data/{name}"),
        });
        self.manifest.extend_from_slice(format!("{line}\n").as_bytes());
        self.bytes += bytes.len() as u64;
        self.export.data.put(&name, bytes).map_err(target)?;
        self.files += 1;
        self.items += self.file_items;
        (self.file_items, self.file_bytes) = (0, 0);
        Ok(())
    }

    /// The summary is written last: an export that was broken off has none.
    fn finish(mut self, description: &Value) -> Result<u64> {
        self.end_file()?;
        let put = |name: &str, bytes: Vec<u8>| self.export.manifests.put(name, bytes).map_err(target);
        put(TABLE, description.to_string().into_bytes())?;
        put(FILES, self.manifest.clone())?;
        let summary = json!({
            "version": "2020-06-30",
            "tableArn": description["TableArn"],
            "manifestFilesS3Key": FILES,
            "billedSizeBytes": self.bytes,
            "itemCount": self.items,
            "outputFormat": "DYNAMODB_JSON",
            "exportType": "FULL_EXPORT",
        });
        put(SUMMARY, summary.to_string().into_bytes())?;
        Ok(self.items)
    }
}

fn fresh() -> GzEncoder<Vec<u8>> {
    GzEncoder::new(Vec::new(), Compression::default())
}
