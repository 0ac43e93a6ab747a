//! Accepts connections at a listener and deals them out to the I/O threads in turn.

use std::io;
use std::net::IpAddr;

use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use crate::connection_limit::{ACCEPT_RETRY, AcceptErrors};

/// What becomes of a connection that a listener has accepted.
pub trait Entrance {
    type Accepted;

    /// `None`: there is no place left.
    fn admit(
        &self,
        socket: TcpStream,
        address: IpAddr,
    ) -> impl Future<Output = io::Result<Option<Self::Accepted>>> + Send;
}

pub struct Dealer<E, A> {
    pub entrance: E,
    pub threads: Vec<mpsc::UnboundedSender<A>>,
}

impl<E: Entrance, A: From<E::Accepted>> Dealer<E, A> {
    pub async fn accept(self, listener: std::net::TcpListener, mut stop: watch::Receiver<bool>) {
        let listener = match listener
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpListener::from_std(listener))
        {
            Ok(listener) => listener,
            Err(error) => return tracing::error!(%error, "cannot accept connections"),
        };
        let mut turns = self.threads.iter().cycle();
        let mut errors = AcceptErrors::default();
        while !*stop.borrow() {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.changed() => continue,
            };
            let admitted = match accepted {
                Ok((socket, address)) => self.entrance.admit(socket, address.ip()).await,
                Err(error) => Err(error),
            };
            match admitted {
                // A thread that is gone is one that was stopped.
                Ok(Some(accepted)) => drop(turns.next().map(|thread| thread.send(accepted.into()))),
                Ok(None) => {}
                Err(error) => {
                    errors.note(&error);
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}
