//! An export in DynamoDB's layout (`quartet_dynamodb_export`), in a folder or a bucket. Next to the
//! manifests there are two files of our own: `table.json`, the table's description, with which it
//! can be created again, and `settings.json`, its other settings.

use quartet_backup::{Target, open_target};
use quartet_dynamodb_export::{DataFile, FILES, FULL_VERSION, FileLine, SUMMARY, Summary};
use serde_json::{Value, json};

use super::{Client, settings};
use crate::error::{Error, Result, source, target};
use crate::observer::{BEGUN_ANEW, Observer};

const TABLE: &str = "table.json";
const SETTINGS: &str = "settings.json";

pub struct Export {
    manifests: Box<dyn Target>,
    data: Box<dyn Target>,
}

impl Export {
    /// Opens an existing export: the folder, or s3://BUCKET/PREFIX, that holds
    /// manifest-summary.json.
    pub fn open(address: &str) -> Result<Export> {
        let export = Export::at(address, false)?;
        let summary = export.summary()?;
        match (summary.output_format.as_deref(), summary.export_type.as_deref()) {
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

    fn manifest(&self, name: &str) -> Result<Vec<u8>> {
        let bytes = self.manifests.get(name);
        bytes.map_err(|error| Error::Source(format!("{name}: {error}")))
    }

    fn summary(&self) -> Result<Summary> {
        let summary = serde_json::from_slice(&self.manifest(SUMMARY)?);
        summary.map_err(|error| Error::Source(format!("{SUMMARY}: {error}")))
    }

    /// The description of the table, if we wrote the export.
    pub fn schema(&self) -> Result<Option<Value>> {
        self.own(TABLE)
    }

    /// The settings of the table, if we wrote the export.
    pub fn settings(&self) -> Result<Option<Value>> {
        self.own(SETTINGS)
    }

    /// A file that only our own exports have.
    fn own(&self, name: &str) -> Result<Option<Value>> {
        let names = self.manifests.list().map_err(source)?;
        if !names.iter().any(|other| other == name) {
            return Ok(None);
        }
        let value = serde_json::from_slice(&self.manifest(name)?);
        value
            .map(Some)
            .map_err(|error| Error::Source(format!("{name}: {error}")))
    }

    pub fn files(&self) -> Result<Vec<FileLine>> {
        let bytes = self.manifest(FILES)?;
        let lines = bytes
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty());
        let lines = lines.map(serde_json::from_slice);
        lines
            .collect::<std::result::Result<_, _>>()
            .map_err(|error| Error::Source(format!("{FILES}: {error}")))
    }

    /// The whole file, as its manifest has it.
    pub fn read(&self, file: &FileLine) -> Result<Vec<u8>> {
        let name = name_of(file);
        let bytes = self.data.get(name);
        let bytes = bytes.map_err(|error| Error::Source(format!("{name}: {error}")))?;
        match file.describes(&bytes) {
            true => Ok(bytes),
            false => Err(Error::Source(format!(
                "{name} is damaged: its MD5 is not its manifest's"
            ))),
        }
    }
}

/// The key starts with the original place in the bucket; the export may have been moved since.
pub fn name_of(file: &FileLine) -> &str {
    let key = file.data_file_s3_key.as_str();
    key.rsplit('/').next().unwrap_or(key)
}

/// Writes all items of a table into a folder or bucket that holds no export. Returns their number.
pub fn export(client: &Client, table: &str, address: &str, observer: &mut dyn Observer) -> Result<u64> {
    let description = client.describe(table).map_err(source)?;
    let description = description.ok_or_else(|| Error::Source(format!("there is no table {table}")))?;
    let settings = settings::read(client, &description, observer)?;
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
    writing.finish(&description, &settings)
}

/// True for the name of a file that an export writes, whole or not.
fn is_data(name: &str) -> bool {
    let number = name.split_once(".json.gz").map(|(number, _)| number);
    number.is_some_and(|number| number.len() == 8 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

struct Writing<'e> {
    export: &'e Export,
    file: DataFile,
    lines: Vec<FileLine>,
    bytes: u64,
}

impl<'e> Writing<'e> {
    fn new(export: &'e Export) -> Writing<'e> {
        Writing {
            export,
            file: DataFile::default(),
            lines: Vec::new(),
            bytes: 0,
        }
    }

    fn add(&mut self, item: &Value) -> Result<()> {
        let line = format!("{}\n", json!({ "Item": item }));
        self.file.add(line.as_bytes()).map_err(target)?;
        match self.file.is_full() {
            true => self.end_file(),
            false => Ok(()),
        }
    }

    fn end_file(&mut self) -> Result<()> {
        let name = format!("{:08}.json.gz", self.lines.len());
        let file = std::mem::take(&mut self.file);
        let (bytes, line) = file.finish(format!("data/{name}")).map_err(target)?;
        self.bytes += bytes.len() as u64;
        self.export.data.put(&name, bytes).map_err(target)?;
        self.lines.push(line);
        Ok(())
    }

    /// The summary is written last: an export that was broken off has none.
    fn finish(mut self, description: &Value, settings: &Value) -> Result<u64> {
        self.end_file()?;
        let put = |name: &str, bytes: Vec<u8>| self.export.manifests.put(name, bytes).map_err(target);
        put(TABLE, description.to_string().into_bytes())?;
        put(SETTINGS, settings.to_string().into_bytes())?;
        let mut lines = Vec::new();
        for line in &self.lines {
            serde_json::to_writer(&mut lines, line).map_err(target)?;
            lines.push(b'\n');
        }
        put(FILES, lines)?;
        let items = self.lines.iter().map(|line| line.item_count).sum();
        let summary = Summary {
            version: FULL_VERSION.to_owned(),
            table_arn: description["TableArn"].as_str().unwrap_or_default().to_owned(),
            manifest_files_s3_key: FILES.to_owned(),
            billed_size_bytes: self.bytes,
            item_count: items,
            output_format: Some("DYNAMODB_JSON".to_owned()),
            export_type: Some("FULL_EXPORT".to_owned()),
            ..Summary::default()
        };
        put(SUMMARY, serde_json::to_vec(&summary).map_err(target)?)?;
        Ok(items)
    }
}
