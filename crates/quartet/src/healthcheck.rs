//! `quartet healthcheck`: exits with 0 if the server on this machine is ready, for images that have
//! no shell and no `curl`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::cluster_file::reachable;

const STATUS_LINE_BYTES_MAX: u64 = 256;

#[derive(Args)]
pub struct HealthcheckArguments {
    /// Address of the server's HTTP listener
    #[arg(long, env = "QUARTET_LISTEN_HTTP", default_value = "127.0.0.1:8080")]
    listen_http: SocketAddr,
    /// Seconds to wait for the answer
    #[arg(long, default_value = "2")]
    seconds: u64,
}

pub fn healthcheck(arguments: &HealthcheckArguments) -> Result<()> {
    let address = reachable(arguments.listen_http);
    let timeout = Duration::from_secs(arguments.seconds.max(1));
    let status = status_line(address, timeout).with_context(|| format!("no answer from {address}"))?;
    // The words behind the code may be missing, as they are in answers of a node that passes on.
    ensure!(status.split(' ').nth(1) == Some("200"), "not ready: {status}");
    Ok(())
}

fn status_line(address: SocketAddr, timeout: Duration) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    write!(
        stream,
        "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut line = String::new();
    BufReader::new(stream.take(STATUS_LINE_BYTES_MAX)).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}
