//! Accepts connections at a listener and deals them out to the I/O threads in turn.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::connections::handoff::{Arrival, Inbox};
use crate::connections::waker::ThreadWaker;
use crate::limits::connection_limit::{ACCEPT_RETRY, AcceptErrors};

/// The way in through a listener: what becomes of a connection that it has accepted.
pub trait Entrance: Send + Sync {
    /// Admits a connection of the client at `peer` that the thread of `thread_waker` will serve.
    /// The other end of the socket may be another node, which passes the client's bytes on. `None`:
    /// there is no place left.
    fn admit<'e>(&'e self, socket: TcpStream, peer: SocketAddr, thread_waker: &'e Arc<ThreadWaker>) -> Admitting<'e>;

    /// No new connections arrive any more.
    fn closed(&self) {}
}

/// Boxed, once for each connection, so that listeners of all protocols are of one kind.
pub type Admitting<'e> = Pin<Box<dyn Future<Output = io::Result<Option<Box<dyn Arrival>>>> + Send + 'e>>;

/// A listening socket and its entrance.
pub struct Listener {
    /// As in `--listen-NAME`.
    pub name: &'static str,
    pub socket: std::net::TcpListener,
    pub entrance: Arc<dyn Entrance>,
}

impl Listener {
    pub async fn accept(self, threads: Vec<Inbox>, mut stop: watch::Receiver<bool>) {
        let listener = match self
            .socket
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpListener::from_std(self.socket))
        {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "cannot accept connections"),
        };
        let (mut turn, mut errors) = (0, AcceptErrors::default());
        while !*stop.borrow() {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.changed() => continue,
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
        self.entrance.closed();
    }
}
