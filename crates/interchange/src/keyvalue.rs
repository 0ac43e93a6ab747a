//! Keys and values: a file of lines `{"key": "...", "value": "..."}`, both in
//! base64, in the order of the keys.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use quartet_client::{Cluster, Database, ErrorCode, RangeOptions, Selector};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::error::{Error, Result, source, target};
use crate::journal::Journal;
use crate::lines::{Lines, shown};
use crate::observer::{BEGUN_ANEW, Observer};
use crate::whole_file::WholeFile;

/// Limits of one transaction that writes, and of one that reads.
const BATCH_KEYS: usize = 2000;
const BATCH_BYTES: usize = 1 << 20;
/// The first key that is the server's own.
const END: &[u8] = b"\xff";
const KEY_BYTES_MAX: usize = 10_000;
const VALUE_BYTES_MAX: usize = 100_000;
const PART: &str = "keys";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

type KeyWithValue = (Vec<u8>, Vec<u8>);

#[derive(Serialize, Deserialize)]
struct Row {
    key: String,
    value: String,
}

/// A server, and the runtime that its requests run in.
pub struct Client {
    runtime: Runtime,
    database: Database,
}

impl Client {
    /// `path`: the cluster file; without a path the file named by the environment, or the first of
    /// the default places.
    pub fn open(path: Option<&Path>) -> Result<Client> {
        let cluster = Cluster::read(path).map_err(|code| told(&code))?;
        check_reachable(&cluster)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(target)?;
        let database = Database::open_on(cluster, Default::default(), runtime.handle().clone());
        Ok(Client { runtime, database })
    }

    /// The journal's name for the server: it never has the credential.
    pub fn name(&self) -> String {
        format!("keyvalue {}", self.database.cluster().addresses.join(","))
    }

    fn rows_behind(&self, start: &[u8], rows_max: usize) -> Result<(Vec<KeyWithValue>, bool)> {
        let read = self.database.run(async |transaction| {
            let options = RangeOptions {
                rows_max,
                bytes_max: BATCH_BYTES,
                reverse: false,
            };
            let (begin, end) = (
                Selector::first_greater_or_equal(start),
                Selector::first_greater_or_equal(END),
            );
            transaction.get_range(&begin, &end, options, true).await
        });
        let range = self.runtime.block_on(read).map_err(|code| told(&code))?;
        Ok((range.rows, range.more))
    }
}

/// A client of the protocol waits for its server, however long; a copy reports one that is not
/// there.
fn check_reachable(cluster: &Cluster) -> Result<()> {
    let mut last = String::new();
    for address in &cluster.addresses {
        let places = address.to_socket_addrs().map(|mut places| places.next());
        let connected = places.and_then(|place| {
            let place = place.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name leads nowhere"))?;
            TcpStream::connect_timeout(&place, CONNECT_TIMEOUT)
        });
        match connected {
            Ok(_) => return Ok(()),
            Err(error) => last = format!("{address} cannot be reached: {error}"),
        }
    }
    Err(Error::Target(last))
}

fn told(code: &ErrorCode) -> Error {
    let text = match *code {
        ErrorCode::NO_CLUSTER_FILE => "there is no cluster file: --cluster-file names one".to_owned(),
        ErrorCode::CONNECTION_STRING_INVALID => "the cluster file is none: quartet:CREDENTIAL@HOST:PORT".to_owned(),
        ErrorCode(number) => format!("the key-value layer answers error {number} of FoundationDB"),
    };
    Error::Target(text)
}

/// Writes all keys of the file. `merges`: the database may hold keys already.
pub fn import(
    file: &Path,
    client: &Client,
    merges: bool,
    journal: &mut Journal,
    observer: &mut dyn Observer,
) -> Result<()> {
    if !merges && !journal.goes_on() && !client.rows_behind(b"", 1)?.0.is_empty() {
        let text = "the database holds keys; --merge copies beside them, and over those of the same name";
        return Err(Error::NotEmpty(text.into()));
    }
    observer.phase("copying", None);
    let opened = File::open(file).map_err(|error| Error::Source(format!("{}: {error}", file.display())))?;
    let mut lines = Lines::new(opened);
    lines.skip_to(journal.position(PART).and_then(Value::as_u64).unwrap_or(0))?;
    observer.advance(lines.count);
    let (mut batch, mut bytes) = (Vec::new(), 0);
    loop {
        let line = lines.read()?;
        let is_end = line.is_none();
        if let Some(line) = line {
            match row_of(&line) {
                Ok((key, value)) => {
                    bytes += key.len() + value.len();
                    batch.push((key, value));
                }
                Err(reason) => observer.reject(&shown(&line), reason)?,
            }
        }
        if batch.len() >= BATCH_KEYS || bytes >= BATCH_BYTES || is_end {
            write(client, &batch)?;
            observer.advance(batch.len() as u64);
            journal.note(PART, lines.count.into())?;
            (batch, bytes) = (Vec::new(), 0);
            if observer.is_stopped() && !is_end {
                return Err(Error::Stopped);
            }
        }
        if is_end {
            return Ok(());
        }
    }
}

fn row_of(line: &[u8]) -> std::result::Result<(Vec<u8>, Vec<u8>), &'static str> {
    let row: Row = serde_json::from_slice(line).map_err(|_| "it is no {\"key\": ..., \"value\": ...}")?;
    let decoded = |text: &str| STANDARD.decode(text).map_err(|_| "it is no base64");
    let (key, value) = (decoded(&row.key)?, decoded(&row.value)?);
    if key.starts_with(END) {
        return Err("keys from FF on are the server's own");
    }
    if key.len() > KEY_BYTES_MAX {
        return Err("a key has at most 10,000 bytes");
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err("a value has at most 100,000 bytes");
    }
    Ok((key, value))
}

fn write(client: &Client, batch: &[(Vec<u8>, Vec<u8>)]) -> Result<()> {
    let written = client.database.run(async |transaction| {
        for (key, value) in batch {
            transaction.set(key, value);
        }
        Ok(())
    });
    client.runtime.block_on(written).map_err(|code| told(&code))
}

/// Writes all keys to a file, which appears when it is whole. Each part is read at a version of its
/// own. Returns their number.
pub fn export(client: &Client, file: &Path, observer: &mut dyn Observer) -> Result<u64> {
    let (mut written, was_begun) = WholeFile::begin(file).map_err(target)?;
    if was_begun {
        observer.phase(BEGUN_ANEW, None);
    }
    observer.phase("exporting", None);
    let mut output = BufWriter::new(written.file());
    let (mut start, mut count) = (Vec::new(), 0);
    loop {
        let (rows, more) = client.rows_behind(&start, BATCH_KEYS)?;
        for (key, value) in &rows {
            let row = Row {
                key: STANDARD.encode(key),
                value: STANDARD.encode(value),
            };
            let line = serde_json::to_string(&row).map_err(source)?;
            writeln!(output, "{line}").map_err(target)?;
        }
        count += rows.len() as u64;
        observer.advance(rows.len() as u64);
        match rows.last() {
            Some((last, _)) if more => start = [last.as_slice(), &[0]].concat(),
            _ => break,
        }
        if observer.is_stopped() {
            return Err(Error::ExportStopped);
        }
    }
    output.flush().map_err(target)?;
    drop(output);
    written.finish().map_err(target)?;
    Ok(count)
}
