//! TLS to a source or a target, as Redis' clients have it.
//!
//! A caller that names the roots trusts all certificates signed by them, regardless of their names,
//! like Redis between servers: such roots are private. Without private roots the public ones apply,
//! and the certificate must have the host's name.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use quartet_tls::AcceptAnyName;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// How the other side is trusted, and what it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM of the roots that count instead of the public ones.
    pub roots: Option<PathBuf>,
    /// PEM of the own certificate, with its chain, and of its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// A connection after its handshake, which transfers bytes in records.
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
        let provider = quartet_tls::provider();
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let builder = match &self.roots {
            Some(path) => {
                let verifier = AcceptAnyName::new(quartet_tls::roots_in(path)?, provider)?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
            }
            None => builder.with_root_certificates(quartet_tls::public_roots()),
        };
        match &self.own {
            Some((certificate, key)) => {
                let chain = quartet_tls::certificates_in(certificate)?;
                let key = quartet_tls::private_key_in(key)?;
                builder.with_client_auth_cert(chain, key).map_err(io::Error::other)
            }
            None => Ok(builder.with_no_client_auth()),
        }
    }
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

    /// Writes the bytes that have room. The socket does not block.
    pub fn write(&mut self, socket: &mut TcpStream, bytes: &[u8]) -> io::Result<usize> {
        self.send_pending(socket)?;
        let count = self.session.writer().write(bytes)?;
        match self.send_pending(socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(count),
        }
    }

    /// Returns true if records wait for room in the socket.
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
