//! The transport of a connection: a socket in clear text, or TLS.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::connections::tls::Encrypted;

/// The transport of a connection.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Completes when there may be something to read; takes no buffer for it.
    fn arrival(&self) -> impl Future<Output = io::Result<()>>;

    /// Writes what can be written at once.
    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// The socket once more, for a thread of its own; none if what it carries is encrypted.
    fn again(&self) -> io::Result<Option<OwnedFd>>;
}

impl Socket for TcpStream {
    #[inline]
    fn arrival(&self) -> impl Future<Output = io::Result<()>> {
        self.readable()
    }

    #[inline]
    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }

    fn again(&self) -> io::Result<Option<OwnedFd>> {
        self.as_fd().try_clone_to_owned().map(Some)
    }
}

impl Socket for Encrypted {
    fn arrival(&self) -> impl Future<Output = io::Result<()>> {
        // Called when a read has found nothing, so nothing that has arrived is waiting to be
        // decrypted.
        self.get_ref().0.socket().readable()
    }

    /// Encrypted bytes have to be flushed, which may have to wait.
    fn write_now(&mut self, _: &[u8]) -> io::Result<usize> {
        Ok(0)
    }

    fn again(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }
}
