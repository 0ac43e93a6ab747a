//! `quartet healthcheck`: exits with 0 if the server on this machine is ready, for images that have
//! no shell and no `curl`.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use quartet_server::Listen;

use crate::cluster_file::reachable;

const STATUS_LINE_BYTES_MAX: u64 = 256;

#[derive(Args)]
pub struct HealthcheckArguments {
    /// Address of the server's HTTP listener
    #[arg(long, env = "QUARTET_LISTEN_HTTP", default_value = "127.0.0.1:8080")]
    listen_http: Listen,
    /// Seconds to wait for the answer
    #[arg(long, default_value = "2")]
    seconds: u64,
}

pub fn healthcheck(arguments: &HealthcheckArguments) -> Result<()> {
    let listening = arguments.listen_http.address().context("the HTTP listener is off")?;
    let address = reachable(listening);
    let timeout = Duration::from_secs(arguments.seconds.max(1));
    let status = match status_line(address, timeout) {
        Ok(status) if status.is_empty() => status_over_tls(address, timeout),
        Err(error) if is_closed(&error) => status_over_tls(address, timeout),
        status => status,
    };
    let status = status.with_context(|| format!("no answer from {address}"))?;
    // The words after the code may be missing, as they are in replies of a node that forwards.
    ensure!(status.split(' ').nth(1) == Some("200"), "not ready: {status}");
    Ok(())
}

/// A server that refuses clear text closes the connection.
fn is_closed(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(kind, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe))
}

/// Asks over TLS. Whose certificate it is does not matter: nothing secret is sent, and the address
/// is this machine's.
fn status_over_tls(address: SocketAddr, timeout: Duration) -> Result<String> {
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .proxy(None)
        .tls_config(ureq::tls::TlsConfig::builder().disable_verification(true).build())
        .build();
    let answer = ureq::Agent::from(config)
        .get(format!("https://{address}/readyz"))
        .call()?;
    Ok(format!("HTTP {} ", answer.status()))
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
