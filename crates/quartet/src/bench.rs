//! The server that `quartet bench` starts when it is given no target: this very program, as a child, on a free port.
//!
//! A child so that its CPU time can be told from the load generator's.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};
use quartet_bench::{EmbeddedServer, Protocol};
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
