//! ImportTable, DescribeImport and ListImports: a new table from files in a bucket.
//!
//! The request creates the table, empty and CREATING, so that no request reads or changes it. Items
//! are added in batches, each in a transaction with the import's progress: after a restart it
//! continues after the last stored record. A record that is not an item of the table is counted and
//! left out; a failed import deletes its table.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use quartet_engine::{Admission, Transaction};
use serde::{Deserialize, Serialize};

use crate::operations::backups;
use crate::operations::items::check_item_size;
use crate::operations::tables::{Creation, add, parse_creation};
use crate::operations::transfers::{
    self, Names, Status, Transfer, arn, check_bucket, enqueue, kept_text, new_id, of_token, store,
};
use crate::storage::found::Found;
use crate::storage::key::kept_name;
use crate::storage::key::{self, KeyType};
use crate::storage::streams::Author;
use crate::storage::table::Table;
use crate::storage::write::replace;
use crate::wire::expansion::expand;
use crate::wire::failure::{Exception, Failure};
use crate::wire::ion;
use crate::wire::json::{Json, Writer, write_seconds};
use crate::wire::value::{Item, Value, item_size, parse_item, parse_number};
use crate::{DynamoDb, Outcome};

/// Number of wrong records up to which an import continues.
const ERRORS_MAX: u64 = 10_000;
/// A batch ends with the record that makes it as large as this.
const BATCH_RECORDS: usize = 200;
const BATCH_BYTES: usize = 1 << 20;
/// An item as JSON, each of its bytes escaped.
const RECORD_BYTES_MAX: usize = 4 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Wanted {
    bucket: String,
    bucket_owner: Option<String>,
    prefix: Option<String>,
    format: String,
    compression: String,
    delimiter: Option<String>,
    headers: Option<Vec<String>>,
    /// TableCreationParameters, as they were sent.
    table: String,
    token: Option<String>,
}

/// An import, as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Import {
    id: String,
    table: Table,
    wanted: Wanted,
    status: Status,
    started_micros: u64,
    ended_micros: u64,
    bytes: u64,
    processed: u64,
    errors: u64,
    /// The file that is being read, and how many of its records have been.
    file: String,
    records: u64,
}

impl Transfer for Import {
    const LETTER: u8 = b'M';
    const KIND: &'static str = "import";
    const NAMES: Names = Names {
        kind: "Import",
        arn: "ImportArn",
        status: "ImportStatus",
        page_size: "PageSize",
        list: "ImportSummaryList",
        not_found: Exception::ImportNotFound,
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

fn parse(layer: &DynamoDb, request: &Json<'_>) -> Result<(Wanted, Creation), Failure> {
    let source = request.get("S3BucketSource").unwrap_or(&Json::Null);
    let csv = request.get("InputFormatOptions").and_then(|options| options.get("Csv"));
    let parameters = request.get("TableCreationParameters").unwrap_or(&Json::Null);
    let headers = csv.and_then(|csv| csv.get("HeaderList"));
    let mut table = Vec::new();
    parameters.write(&mut table);
    let settings = Wanted {
        bucket: kept_text(source, "S3Bucket").unwrap_or_default(),
        bucket_owner: kept_text(source, "S3BucketOwner"),
        prefix: kept_text(source, "S3KeyPrefix"),
        format: kept_text(request, "InputFormat").unwrap_or_default(),
        compression: kept_text(request, "InputCompressionType").unwrap_or_else(|| "NONE".into()),
        delimiter: csv.and_then(|csv| kept_text(csv, "Delimiter")),
        headers: headers.map(|list| {
            list.elements()
                .iter()
                .filter_map(Json::text)
                .map(str::to_owned)
                .collect()
        }),
        table: crate::wire::json::json_text(table),
        token: kept_text(request, "ClientToken"),
    };
    check_bucket(layer, &settings.bucket)?;
    if csv.is_some() && settings.format != "CSV" {
        return Err(Failure::invalid("Csv options are only for InputFormat CSV"));
    }
    if settings
        .delimiter
        .as_deref()
        .is_some_and(|delimiter| !",;:|\t ".contains(delimiter))
    {
        return Err(Failure::invalid(
            "Delimiter is one of comma, semicolon, colon, pipe, tab and space",
        ));
    }
    let mut creation = parse_creation(layer, parameters)?;
    creation.table.importing = true;
    Ok((settings, creation))
}

pub fn begin(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    let execute = |transaction: &mut Transaction<'_>, (settings, creation): &(Wanted, Creation)| {
        if let Some(present) = of_token::<Import>(layer, transaction, settings.token.as_deref()) {
            return match present.wanted == *settings {
                true => Ok(present),
                false => Err(Failure::new(
                    Exception::ImportConflict,
                    "The client token was used for another import",
                )),
            };
        }
        let table = add(layer, transaction, creation)?;
        enqueue(layer, transaction, |transaction, _| {
            Ok(Import {
                id: new_id(transaction),
                table,
                wanted: settings.clone(),
                status: Status::InProgress,
                started_micros: transaction.now_micros(),
                ended_micros: 0,
                bytes: 0,
                processed: 0,
                errors: 0,
                file: String::new(),
                records: 0,
            })
        })
    };
    layer.respond(parse(layer, request), execute, |_, import| description(layer, &import))
}

pub fn describe(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    transfers::describe(layer, request, description)
}

pub fn list(layer: &DynamoDb, request: &Json<'_>) -> Outcome {
    transfers::list(layer, request, |import, writer| write_source(layer, import, writer))
}

fn write_source(layer: &DynamoDb, import: &Import, writer: &mut Writer) {
    writer.member("TableArn", &layer.table_arn(&import.table.name));
    writer.nested("S3BucketSource", |writer| {
        writer.member("S3Bucket", &import.wanted.bucket);
        for (member, text) in [
            ("S3BucketOwner", &import.wanted.bucket_owner),
            ("S3KeyPrefix", &import.wanted.prefix),
        ] {
            if let Some(text) = text {
                writer.member(member, text);
            }
        }
    });
    writer.member("InputFormat", &import.wanted.format);
    write_seconds(writer, "StartTime", import.started_micros);
    if import.status != Status::InProgress {
        write_seconds(writer, "EndTime", import.ended_micros);
    }
}

fn description(layer: &DynamoDb, import: &Import) -> Vec<u8> {
    let settings = &import.wanted;
    Writer::object(|writer| {
        writer.nested("ImportTableDescription", |writer| {
            writer.member("ImportArn", &arn(layer, import));
            import.status.write(writer, "ImportStatus");
            write_source(layer, import, writer);
            writer.member("TableId", &import.table.uuid);
            if let Some(token) = &settings.token {
                writer.member("ClientToken", token);
            }
            writer.name("ErrorCount").raw(import.errors);
            if settings.format == "CSV" {
                writer.nested("InputFormatOptions", |writer| {
                    writer.nested("Csv", |writer| write_csv_options(settings, writer));
                });
            }
            writer.member("InputCompressionType", &settings.compression);
            writer.name("TableCreationParameters").raw(&settings.table);
            writer.name("ProcessedSizeBytes").raw(import.bytes);
            writer.name("ProcessedItemCount").raw(import.processed);
            writer.name("ImportedItemCount").raw(import.processed - import.errors);
        });
    })
}

fn write_csv_options(settings: &Wanted, writer: &mut Writer) {
    writer.member("Delimiter", settings.delimiter.as_deref().unwrap_or(","));
    if let Some(headers) = &settings.headers {
        writer.list("HeaderList", headers, |writer, header| writer.string(header));
    }
}

// ---- doing it

/// Reads what is still missing of an import.
pub fn run(layer: &DynamoDb, number: u32, row_key: &[u8], may_go_on: &dyn Fn() -> bool) -> io::Result<()> {
    let Some(mut import) = layer.transfer_at::<Import>(row_key)? else {
        return layer.settle(|transaction| drop(transaction.clear(&key::queued(number))));
    };
    let status = match read_files(layer, &mut import, row_key, may_go_on) {
        Ok(()) => Status::Completed,
        // It continues when the server restarts.
        Err(_) if !may_go_on() => return Ok(()),
        Err(error) => Status::of_bucket(&error),
    };
    layer.settle(|transaction| {
        import.ended_micros = transaction.now_micros();
        import.status = status;
        store(transaction, row_key, &import);
        transaction.clear(&key::queued(number));
        let Some(mut table) = own_table(layer, transaction, &import) else {
            return;
        };
        if import.status == Status::Completed {
            table.importing = false;
            layer.store_table(transaction, &table);
        } else {
            backups::keep_or_clear(transaction, &table);
            layer.forget_table(transaction, &table);
        }
    })
}

fn own_table(layer: &DynamoDb, transaction: &mut Transaction<'_>, import: &Import) -> Option<Table> {
    let name = kept_name(import.table.region.as_deref(), &import.table.name);
    let table = layer.find_kept_table(transaction, &name)?;
    (table.id == import.table.id).then(|| Table::clone(&table))
}

fn read_files(layer: &DynamoDb, import: &mut Import, row_key: &[u8], may_go_on: &dyn Fn() -> bool) -> io::Result<()> {
    let settings = import.wanted.clone();
    let prefix = settings.prefix.as_deref().unwrap_or_default();
    let files = layer.buckets.list(&settings.bucket, prefix)?;
    if files.is_empty() {
        let text = "No object of the bucket has the prefix";
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    for file in files.iter().filter(|file| !is_about_data(file)) {
        if file.as_str() < import.file.as_str() {
            continue;
        }
        if *file != import.file {
            import.file.clone_from(file);
            import.records = 0;
        }
        let file = layer.buckets.open(&settings.bucket, file)?;
        let content = expand(file, &settings.compression, may_go_on);
        let mut records = Records::of(&settings, &import.table, content)?;
        for _ in 0..import.records {
            records.next()?;
        }
        while !read_batch(layer, import, row_key, &mut records)? {
            if !may_go_on() {
                return Err(io::Error::other("The import was interrupted"));
            }
        }
    }
    Ok(())
}

/// Returns true for the files that an export writes beside its data.
fn is_about_data(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name == "_started" || (name.starts_with("manifest-") && path.contains("AWSDynamoDB/"))
}

/// Returns true if it was the last of the file.
fn read_batch(layer: &DynamoDb, import: &mut Import, row_key: &[u8], records: &mut Records<'_>) -> io::Result<bool> {
    if layer.engine.wait_for_room() != Admission::Now {
        return Err(io::Error::other("The server is out of memory"));
    }
    let (mut items, mut bytes, mut is_last) = (Vec::new(), 0, false);
    while items.len() < BATCH_RECORDS && bytes < BATCH_BYTES {
        let Some(record) = records.next()? else {
            is_last = true;
            break;
        };
        import.records += 1;
        import.processed += 1;
        match record.and_then(|item| checked(&import.table, item)) {
            Some(item) => {
                bytes += item_size(&item);
                items.push(item);
            }
            None => import.errors += 1,
        }
        if import.errors > ERRORS_MAX {
            let text = format!("More than {ERRORS_MAX} records are no items of the table");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    }
    import.bytes += bytes as u64;
    layer.settle(|transaction| {
        let Some(table) = own_table(layer, transaction, import) else {
            return;
        };
        for item in &items {
            let item_key = table.item_key(item);
            let old = Found::read(transaction, &item_key);
            replace(transaction, &table, &item_key, &old, Some(item), Author::Client);
        }
        store(transaction, row_key, import);
    })?;
    Ok(is_last)
}

fn checked(table: &Table, item: Item) -> Option<Item> {
    let check = || {
        check_item_size(&item)?;
        table.check_item_keys(&item)?;
        table.check_index_keys(&item)?;
        table.check_vectors(&item, None)
    };
    check().is_ok().then_some(item)
}

// ---- records

/// The records of one file.
enum Records<'w> {
    Lines {
        reader: BufReader<Box<dyn Read + 'w>>,
        item_of: fn(&[u8]) -> Option<Item>,
    },
    Csv {
        reader: csv::Reader<Bounded<'w>>,
        left: Rc<Cell<usize>>,
        headers: Vec<String>,
        table: Box<Table>,
    },
}

/// Ends in an error where one record is longer than any may be.
struct Bounded<'w> {
    inner: Box<dyn Read + 'w>,
    left: Rc<Cell<usize>>,
}

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let remaining = self.left.get().checked_sub(count).ok_or_else(too_long)?;
        self.left.set(remaining);
        Ok(count)
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "A record is longer than any item can be")
}

fn not_csv(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        kind => io::Error::new(io::ErrorKind::InvalidData, format!("{kind:?}")),
    }
}

impl<'w> Records<'w> {
    fn of(settings: &Wanted, table: &Table, content: Box<dyn Read + 'w>) -> io::Result<Records<'w>> {
        let item_of = match settings.format.as_str() {
            "CSV" => return Records::csv(settings, table, content),
            "ION" => ion::read_line,
            _ => json_item,
        };
        Ok(Records::Lines {
            reader: BufReader::new(content),
            item_of,
        })
    }

    fn csv(settings: &Wanted, table: &Table, inner: Box<dyn Read + 'w>) -> io::Result<Records<'w>> {
        let left = Rc::new(Cell::new(RECORD_BYTES_MAX));
        let delimiter = settings.delimiter.as_ref().map_or(b',', |text| text.as_bytes()[0]);
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .has_headers(settings.headers.is_none())
            .flexible(true)
            .from_reader(Bounded {
                inner,
                left: left.clone(),
            });
        let headers = match &settings.headers {
            Some(headers) => headers.clone(),
            None => {
                let headers = reader.headers().map_err(not_csv)?;
                headers.iter().map(str::to_owned).collect()
            }
        };
        Ok(Records::Csv {
            reader,
            left,
            headers,
            table: Box::new(table.clone()),
        })
    }

    /// The next record; within it nothing, if it is none. `None`: there are no more.
    fn next(&mut self) -> io::Result<Option<Option<Item>>> {
        match self {
            Records::Lines { reader, item_of } => Ok(next_line(reader)?.map(|line| item_of(line.trim_ascii()))),
            Records::Csv {
                reader,
                left,
                headers,
                table,
            } => {
                left.set(RECORD_BYTES_MAX);
                let mut record = csv::StringRecord::new();
                match reader.read_record(&mut record) {
                    Ok(false) => Ok(None),
                    Ok(true) => Ok(Some(csv_item(headers, table, &record))),
                    Err(error) if matches!(error.kind(), csv::ErrorKind::Utf8 { .. }) => Ok(Some(None)),
                    Err(error) => Err(not_csv(error)),
                }
            }
        }
    }
}

/// The next line that is not blank.
fn next_line(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let (mut line, mut remaining) = (Vec::new(), RECORD_BYTES_MAX);
    loop {
        line.clear();
        let read = reader.by_ref().take(remaining as u64).read_until(b'\n', &mut line)?;
        remaining -= read;
        match line.trim_ascii() {
            _ if remaining == 0 => return Err(too_long()),
            [] if read == 0 => return Ok(None),
            [] => {}
            _ => return Ok(Some(line)),
        }
    }
}

fn json_item(line: &[u8]) -> Option<Item> {
    let json = Json::parse(line).ok()?;
    parse_item(json.get("Item")?).ok()
}

/// Keys have their types, all other columns are text.
fn csv_item(headers: &[String], table: &Table, record: &csv::StringRecord) -> Option<Item> {
    if record.len() > headers.len() {
        return None;
    }
    let mut item = Item::new();
    for (name, text) in headers.iter().zip(record) {
        let definition = table.definitions.iter().find(|part| part.name == *name);
        let value = match definition.map_or(KeyType::S, |part| part.kind) {
            KeyType::S => Value::S(text.to_owned()),
            KeyType::N => Value::N(parse_number(text).ok()?),
            KeyType::B => Value::parse(&Json::Object(vec![("B".into(), Json::Text(text.into()))])).ok()?,
        };
        item.insert(name.clone(), value);
    }
    Some(item)
}
