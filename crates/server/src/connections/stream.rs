//! A connection's bytes, over any transport.

use std::any::Any;
use std::io;
use std::pin::Pin;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use crate::connections::tls::{Encrypted, EncryptedStream};

const BUFFER_BYTES: usize = 16 << 10;

/// Bytes both ways.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// The socket, for a thread of another runtime; `None` if what it carries is encrypted.
pub fn clear_socket<S: AsyncRead + 'static>(stream: S) -> Option<std::net::TcpStream> {
    let stream: Box<dyn Any> = Box::new(stream);
    stream.downcast::<TcpStream>().ok()?.into_std().ok()
}

/// Makes the end of a connection a reset, also where the process ends.
pub fn end_by_reset<S: 'static>(stream: &S) {
    // A closed connection needs no reset.
    let _ = socket_of(stream).map(TcpStream::set_zero_linger);
}

/// Takes [`end_by_reset`] back.
pub fn end_as_usual<S: 'static>(stream: &S) {
    let _ = socket_of(stream).map(|socket| rustix::net::sockopt::set_socket_linger(socket, None));
}

/// The socket below a stream; `None` for a pipe in memory.
fn socket_of<S: 'static>(stream: &S) -> Option<&TcpStream> {
    let stream: &dyn Any = stream;
    let boxed = stream.downcast_ref::<Encrypted>().map(|boxed| &**boxed);
    let encrypted = boxed.or_else(|| stream.downcast_ref::<EncryptedStream>());
    match encrypted {
        Some(encrypted) => Some(encrypted.get_ref().0.socket()),
        None => stream.downcast_ref(),
    }
}

/// Returns true if nothing was received unexpectedly, not even the end: an idle connection can be
/// reused.
pub async fn is_silent(stream: &mut dyn Stream) -> bool {
    let mut stream = Pin::new(stream);
    let look = std::future::poll_fn(|context| {
        let mut byte = [0];
        let read = stream.as_mut().poll_read(context, &mut ReadBuf::new(&mut byte));
        Poll::Ready(read.is_pending())
    });
    look.await
}

/// Passes bytes both ways until the server's side ends, which it does as a whole. A client may end
/// its own before it has read everything.
pub async fn exchange(client: impl AsyncRead + AsyncWrite, server: impl AsyncRead + AsyncWrite) -> io::Result<()> {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_server, mut to_server) = tokio::io::split(server);
    let asking = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let count = from_client.read(&mut buffer).await?;
            if count == 0 {
                return to_server.shutdown().await;
            }
            if to_server.write_all(&buffer[..count]).await.is_err() || to_server.flush().await.is_err() {
                // The bytes that it sent before are still to be read.
                return Ok(());
            }
        }
    };
    let answering = async {
        tokio::io::copy(&mut from_server, &mut to_client).await?;
        to_client.shutdown().await
    };
    let (mut asking, mut answering) = (std::pin::pin!(asking), std::pin::pin!(answering));
    tokio::select! {
        answered = &mut answering => answered,
        asked = &mut asking => match asked {
            Ok(()) => answering.await,
            Err(error) => Err(error),
        },
    }
}
