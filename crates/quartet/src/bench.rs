//! The server that `quartet bench` starts when it is given no target: this very program, as a child, on a free port.
//!
//! A child so that its CPU time can be told from the load generator's. And, for the key-value benchmark alone, an engine in
//! this process, with nothing between it and the loop that calls it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use quartet_bench::{EmbeddedServer, InProcess, Protocol};
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
        // It may have ended by itself; either way it is gone afterwards.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn start_embedded(protocol: Protocol) -> Result<EmbeddedServer> {
    let data = TempDir::with_prefix("quartet-bench-")?;
    let mut child = Command::new(std::env::current_exe()?)
        .args([
            "serve",
            "--dev",
            "--listen-redis",
            "127.0.0.1:0",
            "--listen-http",
            "off",
            "--listen-fauna",
            "127.0.0.1:0",
            "--listen-dynamodb",
            "127.0.0.1:0",
            "--listen-keyvalue",
            "127.0.0.1:0",
            "--data",
        ])
        .arg(data.path())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting the embedded server")?;
    let output = BufReader::new(child.stdout.take().context("the child's output")?);
    let pid = child.id();
    let running = Running { child, _data: data };
    let mut url = None;
    for line in output.lines() {
        let line = line?;
        match (protocol, line.split_once(' ')) {
            (Protocol::Redis, Some(("redis", address))) => url = Some(address.trim().to_owned()),
            (Protocol::Fauna, Some(("fauna", address))) => url = Some(address.trim().replace("http://", "fauna://")),
            (Protocol::KeyValue, Some(("keyvalue", line))) => url = Some(line.trim().to_owned()),
            _ => {}
        }
        if line == "ready" {
            let url = url.with_context(|| format!("the embedded server does not listen for {protocol:?}"))?;
            return Ok(EmbeddedServer::new(url, Some(pid), running));
        }
    }
    bail!("the embedded server ended before it was ready")
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
        let (_, hold) = committed.map_err(|error| anyhow::anyhow!("the engine refused: {error:?}"))?;
        Ok(hold.0)
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
