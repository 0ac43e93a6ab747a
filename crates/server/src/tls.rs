//! TLS on a port that also speaks clear text: the first byte tells which.
//!
//! A TLS connection begins with a handshake record, 0x16, which begins no request of HTTP. HTTP/1.1 and HTTP/2 are agreed upon
//! in the handshake (ALPN). Without a certificate everything is taken for clear text, and a handshake is then a bad request.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The first byte of a handshake.
const HANDSHAKE: u8 = 0x16;
/// Longest time until the first byte, and then for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a certificate, with those that lead to its root, and its key lie; both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What a listener needs to answer handshakes.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
}

impl Tls {
    pub fn load(files: &TlsFiles) -> Result<Tls> {
        let reading = |path: &Path| format!("reading {}", path.display());
        let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.certificate)
            .and_then(Iterator::collect)
            .with_context(|| reading(&files.certificate))?;
        let key = PrivateKeyDer::from_pem_file(&files.key).with_context(|| reading(&files.key))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .context("the certificate and its key")?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls {
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }
}

/// A connection of either kind.
pub enum Transport {
    Clear(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Transport {
    /// Finds out which it is, and shakes hands if asked to.
    pub async fn open(socket: TcpStream, tls: Option<&Tls>) -> io::Result<Transport> {
        let Some(tls) = tls else {
            return Ok(Transport::Clear(socket));
        };
        let mut first = [0];
        within(socket.peek(&mut first)).await?;
        match first {
            [HANDSHAKE] => {
                let encrypted = within(tls.acceptor.accept(socket)).await?;
                Ok(Transport::Encrypted(Box::new(encrypted)))
            }
            _ => Ok(Transport::Clear(socket)),
        }
    }
}

async fn within<T>(step: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, step).await {
        Ok(done) => done,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;
    use tokio::time::{Instant, sleep};

    /// The clock stands still but for those who wait for it, so this takes no time.
    #[tokio::test(start_paused = true)]
    async fn a_handshake_that_drips_is_given_up() {
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::server::ResolvesServerCertUsingSni::new()));
        let tls = Tls {
            acceptor: TlsAcceptor::from(Arc::new(config)),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let dripping = tokio::spawn(async move {
            let mut client = TcpStream::connect(address).await.unwrap();
            // A record of 512 bytes is announced.
            let _ = client.write_all(&[HANDSHAKE, 3, 1, 2, 0]).await;
            while client.write_all(&[0]).await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let (socket, _) = listener.accept().await.unwrap();
        let started = Instant::now();
        let opened = Transport::open(socket, Some(&tls)).await;
        assert_eq!(opened.err().unwrap().kind(), io::ErrorKind::TimedOut);
        assert!(started.elapsed() <= 2 * HANDSHAKE_TIMEOUT);
        dripping.abort();
    }
}
