//! The server that `quartet bench` starts when it is given no target: this very program, as a
//! child, on a free port.
//!
//! A child process, so that its CPU time can be separated from the load generator's. And, only for
//! the key-value benchmark, an engine in this process, called directly by its loop.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use quartet_bench::{EmbeddedServer, InProcess, Protocol, Wanted};
use quartet_engine::{CommitRequest, Durability, Engine, EngineOptions, Mutation, Space};
use quartet_env::{RealDisk, SystemClock};
use quartet_model::{DatabaseId, LayerId, Version};
use tempfile::TempDir;

/// Ends the child and removes its data.
struct Running {
    child: Child,
    _data: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; either way it has ended afterwards.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn start_embedded(requirements: Wanted) -> Result<EmbeddedServer> {
    let data = TempDir::with_prefix("quartet-bench-")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve");
    for listener in ["redis", "http", "fauna", "dynamodb", "keyvalue"] {
        command.args([format!("--listen-{listener}"), "127.0.0.1:0".to_owned()]);
    }
    match requirements.is_guarded {
        true => command
            .env("QUARTET_ROOT_KEY", PASSWORD)
            .env("QUARTET_DYNAMODB_ACCESS_KEYS", format!("bench:{PASSWORD}"))
            // The benchmark measures the server and not its tables' units.
            .args(["--dynamodb-throttling", "off"]),
        false => command.arg("--dev"),
    };
    let roots = requirements
        .is_tls
        .then(|| make_certificate(data.path(), &mut command))
        .transpose()?;
    let mut child = command
        .arg("--data")
        .arg(data.path().join("data"))
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the embedded server")?;
    let output = BufReader::new(child.stdout.take().context("the child's output")?);
    let pid = child.id();
    let running = Running { child, _data: data };
    let mut url = None;
    for line in output.lines() {
        let line = line?;
        if let Some((name, address)) = line.split_once(' ')
            && name == listener(requirements.protocol)
        {
            url = Some(target(requirements, address.trim())?);
        }
        if line == "ready" {
            let url =
                url.with_context(|| format!("the embedded server does not listen for {:?}", requirements.protocol))?;
            let server = EmbeddedServer::new(url, Some(pid), running);
            return Ok(match roots {
                Some(roots) => server.trusted_by(roots),
                None => server,
            });
        }
    }
    bail!("the embedded server ended before it was ready")
}

/// The root key of a server that lives as long as a benchmark on loopback.
const PASSWORD: &str = "bench-of-this-run";

/// The word before the address that the server prints.
fn listener(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Redis => "redis",
        Protocol::Rest => "http",
        Protocol::DynamoDb => "dynamodb",
        Protocol::Fauna => "fauna",
        Protocol::KeyValue => "keyvalue",
    }
}

/// The benchmark's URL from the server's output; for the key-value protocol it is the line itself.
fn target(requirements: Wanted, address: &str) -> Result<String> {
    let (scheme, credentials) = match requirements.protocol {
        Protocol::Redis => ("redis", format!(":{PASSWORD}@")),
        Protocol::Rest => ("rest", format!("{PASSWORD}@")),
        Protocol::DynamoDb => ("dynamodb", format!("bench:{PASSWORD}@")),
        Protocol::Fauna => ("fauna", format!("{PASSWORD}@")),
        Protocol::KeyValue => return Ok(address.to_owned()),
    };
    let (_, port) = address.rsplit_once(':').context("an address has a port")?;
    let credentials = if requirements.is_guarded { &credentials } else { "" };
    let secured = if requirements.is_tls { "s" } else { "" };
    Ok(format!("{scheme}{secured}://{credentials}127.0.0.1:{port}"))
}

/// A certificate for loopback that is its own root. Returns its path.
fn make_certificate(folder: &Path, command: &mut Command) -> Result<PathBuf> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem())?;
    std::fs::write(&key, made.signing_key.serialize_pem())?;
    command
        .arg("--tls-certificate")
        .arg(&certificate)
        .arg("--tls-key")
        .arg(key);
    Ok(certificate)
}

/// An engine with its data directory.
struct OpenEngine {
    engine: Engine,
    _data: TempDir,
}

const SPACE: Space = Space {
    database: DatabaseId(0),
    layer: LayerId::KeyValue,
    durability: Durability::Always,
};

pub fn open_in_process() -> Result<Box<dyn InProcess>> {
    let data = TempDir::with_prefix("quartet-bench-")?;
    let disk = Arc::new(RealDisk::open(data.path())?);
    let failed = Box::new(|error: &quartet_log::LogError| tracing::error!(%error, "the log failed"));
    let options = EngineOptions::default();
    let engine = Engine::open(disk, Arc::new(SystemClock), options, failed, &mut |_| {})?;
    Ok(Box::new(OpenEngine { engine, _data: data }))
}

impl InProcess for OpenEngine {
    fn read(&self, keys: &[[u8; 16]]) -> usize {
        let reader = self.engine.read_version(SPACE);
        keys.iter().filter(|key| reader.get_row(*key).is_some()).count()
    }

    fn write(&self, rows: &[([u8; 16], Vec<u8>)]) -> Result<u64> {
        let set = |(key, value): &([u8; 16], Vec<u8>)| Mutation::Set {
            key: key.to_vec(),
            value: value.clone(),
        };
        let request = CommitRequest {
            mutations: rows.iter().map(set).collect(),
            ..CommitRequest::default()
        };
        let committed = self.engine.commit(SPACE, &request);
        let (_, dependency) = committed.map_err(|error| anyhow::anyhow!("the engine refused: {error:?}"))?;
        Ok(dependency.0)
    }

    fn is_durable(&self, commit: u64) -> bool {
        self.engine.is_durable(Version(commit))
    }

    fn wait_durable(&self, commit: u64) -> Result<()> {
        if !self.engine.wait_durable(Version(commit)) {
            bail!("the log failed");
        }
        Ok(())
    }
}
