//! Calls of a running server's admin API by an operator's commands: over clear text or TLS.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use quartet_interchange::TrustedRoots;
use ureq::http::Request;

use crate::operator_key::OperatorKey;

/// The server to call, and the key to present.
#[derive(Args)]
pub struct Server {
    /// Address of the server's HTTP listener, or its URL with https:// for TLS
    #[arg(
        long = "server",
        env = "QUARTET_SERVER",
        default_value = "127.0.0.1:8080",
        global = true
    )]
    address: String,
    #[command(flatten)]
    trust: ServerRoots,
    #[command(flatten)]
    key: OperatorKey,
}

/// The certificates to verify a server over TLS with.
#[derive(Args)]
pub struct ServerRoots {
    /// PEM file of the certificates to trust in a server over TLS, instead of the public ones
    /// [default: that of SSL_CERT_FILE]
    #[arg(long, env = "QUARTET_SERVER_CA", value_name = "FILE", global = true)]
    server_ca: Option<PathBuf>,
}

/// The environment variable of OpenSSL for such a file.
const USUAL_VARIABLE: &str = "SSL_CERT_FILE";

impl ServerRoots {
    pub fn read(&self) -> Result<TrustedRoots> {
        let usual = std::env::var_os(USUAL_VARIABLE).filter(|path| !path.is_empty());
        let path = self.server_ca.clone().or_else(|| usual.map(PathBuf::from));
        Ok(path.map_or(Ok(TrustedRoots::Public), |path| TrustedRoots::in_file(&path))?)
    }
}

/// The longest that a server may take; it waits for its log, and for the disk.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Server {
    pub fn agent(&self) -> Result<ureq::Agent> {
        Ok(self.trust.read()?.agent(TIMEOUT))
    }

    pub fn key(&self) -> Result<String> {
        self.key.read()
    }

    /// The URL before a path.
    pub fn base(&self) -> Result<String> {
        base(&self.address)
    }
}

fn base(address: &str) -> Result<String> {
    let address = address.trim_end_matches('/');
    let Some((scheme, _)) = address.split_once("://") else {
        return Ok(match address.starts_with(':') {
            true => format!("http://127.0.0.1{address}"),
            false => format!("http://{address}"),
        });
    };
    ensure!(
        matches!(scheme, "http" | "https"),
        "the server is at an address, or at a URL of http or https, not of {scheme}"
    );
    Ok(address.to_owned())
}

/// Status and body.
pub fn exchange(server: &Server, method: &str, path: &str, body: &str) -> Result<(u16, String)> {
    let base = server.base()?;
    let request = Request::builder()
        .method(method)
        .uri(format!("{base}{path}"))
        .header("authorization", format!("Bearer {}", server.key()?));
    let agent = server.agent()?;
    let answer = match method {
        "POST" | "PATCH" => agent.run(request.body(body.to_owned())?),
        _ => agent.run(request.body(())?),
    };
    let mut answer = answer.with_context(|| format!("asking {base}"))?;
    let status = answer.status().as_u16();
    let body = answer.body_mut().read_to_string().context("reading the answer")?;
    Ok((status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_address_or_a_url() {
        for (address, expected) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            (":8080", "http://127.0.0.1:8080"),
            ("db.example:443", "http://db.example:443"),
            ("https://db.example/", "https://db.example"),
            ("http://[::1]:80", "http://[::1]:80"),
        ] {
            assert_eq!(base(address).unwrap(), expected);
        }
        assert!(base("redis://127.0.0.1").is_err());
    }
}
