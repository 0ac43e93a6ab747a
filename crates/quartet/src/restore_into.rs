//! `quartet restore --into`: a database of a backup becomes another database of a running server,
//! through its admin API.
//!
//! The backup is verified and restored into a folder of its own first, so that only rows of one
//! whole state are sent. The server admits no client to the database before all of them are
//! durable. Where it ends meanwhile, or another node of a cluster becomes home, nothing of the
//! database is left, and all rows are sent again.

use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use quartet_backup::Restored;
use quartet_engine::StoreKind;
use quartet_env::{Runtime, SystemRuntime};
use quartet_server::read_database;
use serde_json::{Value, json};

use crate::admin_api;
use crate::backup::bar;

const DATABASES: &str = "/admin/v1/databases";
const RESTORES: &str = "/admin/v1/restores";
/// Time for which rows are sent again to a server that does not take them. A cluster has a home
/// again sooner.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The part of a backup that becomes a database, and the server that receives it.
pub struct Source<'a> {
    pub server: &'a admin_api::Server,
    /// The name of the database in the backup.
    pub database: &'a str,
    /// Restores only this database, into a folder.
    pub restore_folder: &'a dyn Fn(&Path) -> Result<Vec<Restored>>,
}

/// Why rows did not arrive.
enum Failure {
    /// The server is away, or has lost what was sent.
    Passing(anyhow::Error),
    Lasting(anyhow::Error),
}

/// A running server.
struct Receiver {
    agent: ureq::Agent,
    base: String,
    key: String,
}

pub fn restore_into(source: &Source<'_>, name: &str) -> Result<()> {
    // The server, if it is on this machine, and its clients have priority.
    SystemRuntime::default().make_way();
    let receiver = Receiver::new(source.server)?;
    // It is cheaper to learn now, and the server decides again.
    if receiver.has(name) {
        bail!(
            "there is a database {name} on {}: choose another name, or delete it first",
            receiver.base
        );
    }
    let scratch = tempfile::Builder::new().prefix("quartet-restore-").tempdir()?;
    let data = scratch.path().join("restored");
    let restored = (source.restore_folder)(&data)?;
    let (created, rows) = receiver.send_until_received(name, &data)?;
    let version = restored
        .iter()
        .map(|restored| restored.version.0)
        .max()
        .unwrap_or_default();
    eprintln!("{name}: {} as of version {version}, {rows} rows", source.database);
    println!("{created:#}");
    Ok(())
}

impl Receiver {
    fn new(server: &admin_api::Server) -> Result<Receiver> {
        Ok(Receiver {
            agent: server.agent()?,
            base: server.base()?,
            key: format!("Bearer {}", server.key()?),
        })
    }

    fn has(&self, name: &str) -> bool {
        let url = format!("{}{DATABASES}/{name}", self.base);
        let answer = self.agent.get(&url).header("authorization", &self.key).call();
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// Returns the database and how many rows it has.
    fn send_until_received(&self, name: &str, data: &Path) -> Result<(Value, u64)> {
        let until = Instant::now() + RETRY_TIMEOUT;
        loop {
            match self.send_all(name, data) {
                Ok(received) => return Ok(received),
                Err(Failure::Passing(error)) if Instant::now() < until => {
                    eprintln!("sending all of it again: {error:#}");
                    std::thread::sleep(RETRY_INTERVAL);
                }
                Err(Failure::Passing(error) | Failure::Lasting(error)) => return Err(error),
            }
        }
    }

    fn send_all(&self, name: &str, data: &Path) -> Result<(Value, u64), Failure> {
        let created = self.post("", json!({ "name": name }).to_string().as_bytes())?;
        self.send_rows(name, data)
            .inspect_err(|_| self.cancel(name))
            .map(|rows| (created, rows))
    }

    fn send_rows(&self, name: &str, data: &Path) -> Result<u64, Failure> {
        let (bar, mut failure) = (bar(), None);
        let sent = read_database(data, StoreKind::Ssd, &mut |piece| {
            bar.inc(piece.frames.len() as u64);
            let answer = self.post(&format!("/{name}/rows"), &piece.frames);
            answer.map(drop).map_err(|error| {
                failure = Some(error);
                anyhow!("the server did not take rows")
            })
        });
        bar.finish_and_clear();
        let rows = match failure {
            Some(failure) => return Err(failure),
            None => sent.map_err(Failure::Lasting)?,
        };
        match self.post(
            &format!("/{name}/finish"),
            json!({ "rows": rows }).to_string().as_bytes(),
        ) {
            // Its answer may be lost.
            Err(Failure::Passing(_)) if self.has(name) => Ok(rows),
            answer => answer.map(|_| rows),
        }
    }

    fn post(&self, path: &str, body: &[u8]) -> Result<Value, Failure> {
        let url = format!("{}{RESTORES}{path}", self.base);
        let sent = self.agent.post(&url).header("authorization", &self.key).send(body);
        let passing = |error: &dyn Display| Failure::Passing(anyhow!("asking {}: {error}", self.base));
        let mut answer = sent.map_err(|error| passing(&error))?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().read_to_string().map_err(|error| passing(&error))?;
        let error = || anyhow!("the server answers {status}: {}", text.trim());
        match status {
            200..300 if text.is_empty() => Ok(Value::Null),
            200..300 => serde_json::from_str(&text)
                .context("reading the answer")
                .map_err(Failure::Lasting),
            // Another home has none of the sent rows.
            404 if !path.is_empty() => Err(Failure::Passing(error())),
            502..=504 => Err(Failure::Passing(error())),
            _ => Err(Failure::Lasting(error())),
        }
    }

    /// If this does not arrive, the server ends it by itself.
    fn cancel(&self, name: &str) {
        let url = format!("{}{RESTORES}/{name}", self.base);
        let _ = self.agent.delete(&url).header("authorization", &self.key).call();
    }
}
