//! TLS to a source or a target, as Redis' clients have it.
//!
//! A caller that names the roots trusts all certificates they have signed, whatever their names, as
//! Redis does between servers: such roots are one's own. Without roots of one's own the public ones
//! count, and the certificate must bear the host's name.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// How the other side is trusted, and what it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM of the roots that count instead of the public ones.
    pub roots: Option<PathBuf>,
    /// PEM of a certificate, with those that lead to its root, and of its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// A handshake is over, and bytes come and go in records.
pub struct Secured {
    session: ClientConnection,
}

impl Tls {
    /// Shakes hands over a socket that waits. Errors: files that cannot be used, a side that is not
    /// trusted.
    pub fn secure(&self, socket: &mut TcpStream, host: &str) -> io::Result<Secured> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let mut session = ClientConnection::new(Arc::new(self.config()?), name).map_err(io::Error::other)?;
        while session.is_handshaking() {
            match session.complete_io(socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => drop(done?),
            }
        }
        Ok(Secured { session })
    }

    fn config(&self) -> io::Result<ClientConfig> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let builder = match &self.roots {
            Some(path) => {
                let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots_in(path)?), provider);
                let verifier = verifier.build().map_err(io::Error::other)?;
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(AcceptAnyName(verifier)))
            }
            None => builder.with_root_certificates(RootCertStore {
                roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
            }),
        };
        match &self.own {
            Some((certificate, key)) => {
                let chain = certificates_in(certificate)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
                builder.with_client_auth_cert(chain, key).map_err(io::Error::other)
            }
            None => Ok(builder.with_no_client_auth()),
        }
    }
}

fn certificates_in(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found: Vec<_> = found.map_err(|error| unusable(path, &error))?;
    match found.is_empty() {
        true => Err(unusable(path, &"it holds no certificate")),
        false => Ok(found),
    }
}

fn roots_in(path: &Path) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for root in certificates_in(path)? {
        roots.add(root).map_err(|error| unusable(path, &error))?;
    }
    Ok(roots)
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {why}", path.display()))
}

impl Secured {
    /// Decrypts received bytes; waits for more as the socket does.
    pub fn read(&mut self, socket: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.send_some(socket)?;
            match self.session.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if self.session.read_tls(socket)? == 0 {
                return Ok(0);
            }
            self.session.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// As much as has room. The socket does not wait.
    pub fn write(&mut self, socket: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
        self.send_pending(socket)?;
        let taken = self.session.writer().write(bytes)?;
        match self.send_pending(socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// True if records wait for room in the socket.
    pub fn has_pending(&self) -> bool {
        self.session.wants_write()
    }

    /// Sends what the socket has room for: it does not wait meanwhile, because its peer may wait
    /// for us to read.
    fn send_some(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        if !self.has_pending() {
            return Ok(());
        }
        socket.set_nonblocking(true)?;
        let sent = self.send_pending(socket);
        socket.set_nonblocking(false)?;
        match sent {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    fn send_pending(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(socket) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                sent => drop(sent?),
            }
        }
        Ok(())
    }
}

/// Trusts what the roots have signed, for whichever name.
#[derive(Debug)]
struct AcceptAnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AcceptAnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        stapled: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self
            .0
            .verify_server_cert(certificate, intermediates, name, stapled, now);
        match verified {
            // The last that is looked at: the roots have signed it.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
