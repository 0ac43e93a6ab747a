//! Options of the connections of all listeners: threads, bounds, TLS.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use quartet_server::{ClientCertificates, ConnectionSettings, TlsFiles};
use serde::{Deserialize, Serialize};

use super::values::{ByteCount, absolute, one_of};

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct ConnectionOptions {
    /// Threads that serve connections [default: one for every two cores]
    #[arg(long, env = "QUARTET_IO_THREADS")]
    io_threads: Option<usize>,
    /// Most open connections, of all listeners together; fewer if the limit on open files is lower
    /// [default: 10000]
    #[arg(long, env = "QUARTET_CONNECTIONS_MAX")]
    connections_max: Option<usize>,
    /// Most bytes of one request [default: 1073741824]
    #[arg(long, env = "QUARTET_REQUEST_BYTES_MAX")]
    request_bytes_max: Option<ByteCount>,
    /// Seconds that a peer may take nothing of a reply before it is cut off [default: 60]
    #[arg(long, env = "QUARTET_OUTPUT_STALL_SECONDS")]
    output_stall_seconds: Option<u64>,
    /// Seconds that a new connection may take to authenticate [default: 5]
    #[arg(long, env = "QUARTET_AUTHENTICATION_SECONDS")]
    authentication_seconds: Option<u64>,
    /// PEM file: the certificate of all listeners, with those above it; they take TLS then, beside
    /// clear text
    #[arg(long, env = "QUARTET_TLS_CERTIFICATE")]
    tls_certificate: Option<PathBuf>,
    /// PEM file: the key of that certificate
    #[arg(long, env = "QUARTET_TLS_KEY")]
    tls_key: Option<PathBuf>,
    /// PEM file: the roots of the certificates that clients show
    #[arg(long, env = "QUARTET_TLS_CLIENT_ROOTS")]
    tls_client_roots: Option<PathBuf>,
    /// Whether clients must present a certificate over TLS: no, optional, yes [default: yes with
    /// --tls-client-roots, otherwise no]
    #[arg(long, env = "QUARTET_TLS_CLIENTS", value_parser = ["no", "optional", "yes"])]
    tls_clients: Option<String>,
    /// Refuses clear text on every listener
    #[arg(long, env = "QUARTET_TLS_ONLY")]
    tls_only: bool,
}

impl ConnectionOptions {
    pub fn validated(&self) -> Result<ConnectionSettings> {
        Ok(ConnectionSettings {
            io_threads: self.io_threads,
            connections_max: self.connections_max.unwrap_or(10_000),
            request_bytes_max: self.request_bytes_max.map_or(1 << 30, |bytes| bytes.0 as usize),
            output_stall_timeout: Duration::from_secs(self.output_stall_seconds.unwrap_or(60)),
            authentication_timeout: Duration::from_secs(self.authentication_seconds.unwrap_or(5)),
            tls: self.tls_files()?,
            tls_only: self.tls_only,
        })
    }

    pub fn tls_files(&self) -> Result<TlsFiles> {
        anyhow::ensure!(
            self.tls_certificate.is_some() == self.tls_key.is_some(),
            "tls-certificate and tls-key go together"
        );
        anyhow::ensure!(
            !self.tls_only || self.tls_certificate.is_some(),
            "tls-only needs tls-certificate and tls-key"
        );
        one_of("tls-clients", &self.tls_clients, &["no", "optional", "yes"])?;
        let path = |file: &Option<PathBuf>| file.as_deref().map(absolute).unwrap_or_default();
        let usual = if self.tls_client_roots.is_some() { "yes" } else { "no" };
        let clients = self.tls_clients.as_deref().unwrap_or(usual);
        Ok(TlsFiles {
            certificate: path(&self.tls_certificate),
            key: path(&self.tls_key),
            client_roots: path(&self.tls_client_roots),
            clients: ClientCertificates::parse(clients).expect("one of the words"),
        })
    }
}
