//! A TCP socket of the load generator, in clear text or over TLS, on the event loop of the thread
//! that opened it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::endpoint::{Endpoint, TlsClient};

/// A server that is silent for this long is considered lost.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub enum Socket {
    Clear(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A source of reply bytes.
pub trait Source {
    /// Waits for more; at least one byte.
    async fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
}

impl Socket {
    pub async fn open(endpoint: &Endpoint) -> io::Result<Socket> {
        let stream = in_time(CONNECT_TIMEOUT, TcpStream::connect(endpoint.address)).await?;
        stream.set_nodelay(true)?;
        let Some(TlsClient { connector, name }) = &endpoint.tls else {
            return Ok(Socket::Clear(stream));
        };
        let handshake = connector.connect(name.clone(), stream);
        Ok(Socket::Tls(Box::new(in_time(CONNECT_TIMEOUT, handshake).await?)))
    }

    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = match self {
            Socket::Clear(stream) => stream,
            Socket::Tls(stream) => {
                return in_time(REPLY_TIMEOUT, async {
                    stream.write_all(bytes).await?;
                    stream.flush().await
                })
                .await;
            }
        };
        // A request nearly always goes in one write, and no clock is needed.
        let sent = poll_fn(|context| match Pin::new(&mut *stream).poll_write(context, bytes) {
            Poll::Pending => Poll::Ready(Ok(0)),
            sent => sent,
        });
        let sent = sent.await?;
        if sent == bytes.len() {
            return Ok(());
        }
        in_time(REPLY_TIMEOUT, stream.write_all(&bytes[sent..])).await
    }
}

impl Source for Socket {
    async fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        let arrival = poll_fn(|context| match self {
            Socket::Clear(stream) => Pin::new(stream).poll_read(context, &mut buffer),
            Socket::Tls(stream) => Pin::new(stream).poll_read(context, &mut buffer),
        });
        in_time(REPLY_TIMEOUT, arrival).await?;
        match buffer.filled().len() {
            0 => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the server closed the connection",
            )),
            count => Ok(count),
        }
    }
}

async fn in_time<T>(limit: Duration, awaited: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(limit, awaited)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}
