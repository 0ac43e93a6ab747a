//! Accepts connections at a listener and deals them out to the I/O threads in turn.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::connections::handoff::{Arrival, Inbox};
use crate::connections::sockets::{LISTEN_BACKLOG, Listening};
use crate::connections::waker::ThreadWaker;
use crate::limits::connection_limit::{ACCEPT_RETRY, AcceptErrors};

/// The way in through a listener: what becomes of a connection that it has accepted.
pub trait Entrance: Send + Sync {
    /// Admits a connection of the client at `peer` that the thread of `thread_waker` will serve.
    /// The other end of the socket may be another node, which passes the client's bytes on. `None`:
    /// there is no place left.
    fn admit<'e>(&'e self, socket: TcpStream, peer: SocketAddr, thread_waker: &'e Arc<ThreadWaker>) -> Admitting<'e>;

    /// Admits a connection that has left another home. `_state` is the state of its session, which
    /// is empty for a new session or a protocol without sessions.
    fn admit_carried<'e>(
        &'e self,
        socket: TcpStream,
        peer: SocketAddr,
        thread_waker: &'e Arc<ThreadWaker>,
        _state: Vec<u8>,
    ) -> Admitting<'e> {
        self.admit(socket, peer, thread_waker)
    }

    /// No new connections arrive any more.
    fn closed(&self) {}
}

/// Boxed, once for each connection, so that listeners of all protocols are of one kind.
pub type Admitting<'e> = Pin<Box<dyn Future<Output = io::Result<Option<Box<dyn Arrival>>>> + Send + 'e>>;

/// A listening socket and its entrance.
pub struct Listener {
    /// As in `--listen-NAME`.
    pub name: &'static str,
    pub socket: Listening,
    pub entrance: Arc<dyn Entrance>,
}

impl Listener {
    pub async fn accept(self, threads: Vec<Inbox>, mut stop: watch::Receiver<bool>) {
        let listener = match self.socket.socket.try_clone().and_then(in_runtime) {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "cannot accept connections"),
        };
        let (mut turn, mut errors, mut waiting_max) = (0, AcceptErrors::default(), LISTEN_BACKLOG);
        loop {
            let is_stopped = *stop.borrow();
            let accepted = match is_stopped {
                // A connection that waits when the socket is closed is reset, perhaps while its
                // client sends: some clients take no notice of that.
                true if self.socket.is_last() && waiting_max > 0 => match self.socket.socket.accept() {
                    Ok((socket, peer)) => {
                        waiting_max -= 1;
                        connection_in_runtime(socket).map(|socket| (socket, peer))
                    }
                    Err(_) => break,
                },
                // The next service accepts them.
                true => break,
                false => tokio::select! {
                    accepted = listener.accept() => accepted,
                    _ = stop.changed() => continue,
                },
            };
            let thread = &threads[turn % threads.len()];
            let admitted = match accepted {
                Ok((socket, peer)) => self.entrance.admit(socket, peer, &thread.thread_waker).await,
                Err(error) => Err(error),
            };
            match admitted {
                Ok(Some(arrival)) => {
                    turn += 1;
                    // The thread of a closed channel was stopped.
                    let _ = thread.arrivals.send(arrival);
                }
                Ok(None) => {}
                Err(error) => {
                    errors.note(&error);
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
        // At once: no connection is to arrive between the last look and the end of the socket.
        drop((listener, self.socket));
        self.entrance.closed();
    }
}

fn in_runtime(socket: std::net::TcpListener) -> io::Result<tokio::net::TcpListener> {
    socket.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(socket)
}

fn connection_in_runtime(socket: std::net::TcpStream) -> io::Result<TcpStream> {
    socket.set_nonblocking(true)?;
    TcpStream::from_std(socket)
}
