//! The ways of a connection to another home: the session leaves when this one ends, and a client of
//! another database is forwarded.

use std::future::poll_fn;
use std::io;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::task::Poll;

use quartet_engine::Durability;
use quartet_layer_redis::{DatabaseLogin, Left};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::socket::Socket;
use super::{Connection, Step};
use crate::connections::stream::{clear_socket, exchange};
use crate::layers::parts::Leaving;
use crate::limits::connection_limit::Permit;
use crate::redis::LISTENER;

/// The answer to a client of a database that currently has no home; clients retry.
const NO_HOME: &[u8] = b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n";

impl Connection {
    /// The layer ends. Executed requests are answered; then the connection continues at the next
    /// home, or ends.
    pub(super) async fn leave(mut self, mut socket: impl Socket, unfinished: Option<Vec<u8>>) -> io::Result<()> {
        let Some(nodes) = self.way_out.open() else {
            return Ok(());
        };
        while !self.output.is_empty() || self.session.client().has_mail() {
            self.collect_mail();
            self.send(&mut socket).await?;
        }
        let Some(Left { state, request }) = self.session.leave() else {
            return Ok(());
        };
        let mut input = unfinished.unwrap_or(request);
        input.extend_from_slice(&self.input[self.consumed..]);
        let Some(socket) = clear_socket(socket) else {
            return Ok(());
        };
        nodes.carry(Leaving {
            listener: self.way_out.listener,
            peer: self.peer,
            from: self.from,
            socket,
            state,
            input,
            is_new: false,
        });
        Ok(())
    }

    /// Forwards the connection to the home of another database's partition, which checks the
    /// credentials in the next request. If it refuses them, the request is answered and the
    /// connection remains; otherwise the connection has ended.
    pub(super) async fn go_elsewhere(
        &mut self,
        socket: &mut impl Socket,
        database_login: &DatabaseLogin,
        request_bytes: usize,
    ) -> io::Result<Step> {
        while !self.output.is_empty() || self.session.client().has_mail() {
            self.collect_mail();
            self.send(socket).await?;
        }
        // Subscriptions and the like cannot go along.
        if self.session.client().is_bound() {
            return Ok(Step::Close);
        }
        let tenants = self.scheduler_handle.tenants();
        let database = tenants.catalogue.numbered(database_login.database);
        let partition = database.and_then(|database| tenants.elsewhere(&database));
        let nodes = tenants.parts.nodes.as_ref().and_then(Weak::upgrade);
        let peer = self.session.client().address.parse();
        let (Some(partition), Some(nodes), Ok(peer)) = (partition, nodes, peer) else {
            return Ok(Step::Close);
        };
        // Another home of the catalogue may have newer information about the database's partition:
        // a refusal is sent only if this node is still home, at any durability.
        let arrival = self.waiters.arrival(Durability::Always);
        let (request, following) = self.input[self.consumed..].split_at(request_bytes);
        let sent = Forwarded {
            introduction: self.session.introduction(database_login),
            request,
            following,
            permit: &self.permit,
        };
        let forwarding = async {
            match nodes.call(partition, LISTENER, peer).await {
                Ok(home) => forward(socket, home, sent).await,
                Err(_) => socket.write_all(NO_HOME).await.map(|()| None),
            }
        };
        let (connection_waker, client, mut stop) = (&self.connection_waker, self.session.client(), self.stop.clone());
        let killed = poll_fn(|context| {
            while connection_waker.poll_signalled(context).is_ready() {
                if client.killed.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        });
        let refusal = tokio::select! {
            forwarded = forwarding => forwarded?,
            () = killed => None,
            _ = stop.wait_for(|stops| *stops) => None,
        };
        let Some(mut refusal) = refusal else {
            return Ok(Step::Close);
        };
        if self.waiters.shown_home(arrival).await.is_err() {
            return Ok(Step::Close);
        }
        self.output.append(&mut refusal);
        self.consumed += request_bytes;
        Ok(Step::Continue)
    }
}

/// The bytes for another home, which serves a client from now on.
struct Forwarded<'c> {
    /// The protocol and the name that were agreed with the client; empty if they are the defaults.
    introduction: Vec<u8>,
    /// The request with the credentials.
    request: &'c [u8],
    /// The input after it.
    following: &'c [u8],
    permit: &'c Permit,
}

/// Forwards a client to a home until either side closes. Returns the home's reply if it refuses
/// the client's credentials.
async fn forward(
    socket: &mut impl Socket,
    mut home: impl AsyncRead + AsyncWrite + Unpin,
    sent: Forwarded<'_>,
) -> io::Result<Option<Vec<u8>>> {
    let mut replies = Vec::new();
    if !sent.introduction.is_empty() {
        home.write_all(&sent.introduction).await?;
        home.flush().await?;
        let bytes = first_reply(&mut home, &mut replies).await?;
        replies.drain(..bytes);
    }
    home.write_all(sent.request).await?;
    home.flush().await?;
    first_reply(&mut home, &mut replies).await?;
    if replies.starts_with(b"-") {
        return Ok(Some(replies));
    }
    sent.permit.authenticated();
    socket.write_all(&replies).await?;
    socket.flush().await?;
    home.write_all(sent.following).await?;
    home.flush().await?;
    exchange(socket, home).await?;
    Ok(None)
}

/// Reads until the first reply of a home is whole. Returns its length.
async fn first_reply(home: &mut (impl AsyncRead + Unpin), replies: &mut Vec<u8>) -> io::Result<usize> {
    loop {
        match quartet_wire_resp::skip(replies) {
            Ok(Some(bytes)) => return Ok(bytes),
            Ok(None) => {}
            Err(_) => return Err(io::ErrorKind::InvalidData.into()),
        }
        if home.read_buf(replies).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}
