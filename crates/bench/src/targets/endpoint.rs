//! Where a target is, and whom it is believed to be.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// Which certificates are believed: those below a file's roots, or below the public ones.
pub struct Trust(Arc<RootCertStore>);

impl Trust {
    /// # Errors
    ///
    /// The file cannot be read, or holds what is no certificate.
    pub fn new(roots: Option<&Path>) -> anyhow::Result<Trust> {
        let store = match roots {
            None => quartet_tls::public_roots(),
            Some(path) => quartet_tls::roots_in(path)?,
        };
        Ok(Trust(Arc::new(store)))
    }
}

#[derive(Clone)]
pub struct Endpoint {
    pub address: SocketAddr,
    pub tls: Option<TlsClient>,
}

/// The TLS connector, and the name that the certificate must have.
#[derive(Clone)]
pub struct TlsClient {
    pub connector: TlsConnector,
    pub name: ServerName<'static>,
}

impl Endpoint {
    /// The first address that the host resolves to.
    pub fn resolve(host: &str, port: u16, is_tls: bool, trust: &Trust) -> anyhow::Result<Endpoint> {
        let mut addresses = (host, port).to_socket_addrs().context("cannot resolve the host")?;
        Ok(Endpoint {
            address: addresses.next().context("the host has no address")?,
            tls: is_tls.then(|| tls_client(host, trust)).transpose()?,
        })
    }

    /// The same for `HOST:PORT`; the host may be an IPv6 address in brackets.
    pub fn of_authority(authority: &str, is_tls: bool, trust: &Trust) -> anyhow::Result<Endpoint> {
        let (host, port) = authority.rsplit_once(':').context("the port is missing")?;
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        Endpoint::resolve(
            host,
            port.parse().context("the port is a number below 65536")?,
            is_tls,
            trust,
        )
    }

    pub fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }
}

fn tls_client(host: &str, trust: &Trust) -> anyhow::Result<TlsClient> {
    let provider = quartet_tls::provider();
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(trust.0.clone())
        .with_no_client_auth();
    // A function that just started has no session to resume.
    config.resumption = Resumption::disabled();
    Ok(TlsClient {
        connector: TlsConnector::from(Arc::new(config)),
        name: ServerName::try_from(host.to_owned()).context("no name or address for a certificate")?,
    })
}
