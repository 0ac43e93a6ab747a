//! The way of a client's connection into the server: its place among the others, or a refusal.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quartet_layer_redis::Redis;
use tokio::net::TcpStream;

use super::connection::Accepted;
use super::{Conversations, NO_PLACE, Takes};
use crate::connections::accept::{Admitting, Entrance};
use crate::connections::handoff::Arrival;
use crate::connections::tls::{Speaks, Tls};
use crate::connections::waker::{ConnectionWaker, ThreadWaker};
use crate::layers::parts::WayOut;
use crate::limits::connection_limit::{ConnectionLimit, Permit, Place};
use crate::limits::unauthenticated_input::StrangerBytes;
use crate::settings::Settings;
use crate::tenants::Tenants;

/// The way into Redis' layer.
pub struct RespEntrance {
    /// For the default database.
    pub layer: Arc<Redis>,
    pub conversations: Arc<Conversations>,
    pub tenants: Arc<Tenants>,
    pub settings: Arc<Settings>,
    pub limit: Arc<ConnectionLimit>,
    pub stranger_bytes: Arc<StrangerBytes>,
    pub tls: Arc<Tls>,
    pub takes: Takes,
    pub way_out: WayOut,
}

impl Entrance for RespEntrance {
    fn admit<'e>(&'e self, socket: TcpStream, peer: SocketAddr, thread_waker: &'e Arc<ThreadWaker>) -> Admitting<'e> {
        self.admit_carried(socket, peer, thread_waker, Vec::new())
    }

    fn admit_carried<'e>(
        &'e self,
        socket: TcpStream,
        peer: SocketAddr,
        thread_waker: &'e Arc<ThreadWaker>,
        state: Vec<u8>,
    ) -> Admitting<'e> {
        Box::pin(async move {
            let Some(permit) = self.permit().await else {
                self.refuse(&socket);
                return Ok(None);
            };
            let accepted = self.accepted(socket, peer, permit, thread_waker.clone())?;
            let accepted = Accepted { state, ..accepted };
            Ok(Some(Box::new(accepted) as Box<dyn Arrival>))
        })
    }

    /// All connections check `stop` when woken.
    fn closed(&self) {
        self.layer.connections.clients.wake_all();
        self.tenants.wake_all();
    }
}

impl RespEntrance {
    async fn permit(&self) -> Option<Permit> {
        let connections = self.layer.connections.clients.count() + self.tenants.redis_connections();
        let connections_max = self.layer.config.maxclients.load(Ordering::Relaxed) as usize;
        match connections < connections_max {
            true => self.limit.admit(Place::Any).await,
            false => None,
        }
    }

    fn refuse(&self, socket: &TcpStream) {
        let statistics = &self.layer.observation.statistics;
        statistics.connections_rejected.fetch_add(1, Ordering::Relaxed);
        if self.takes == Takes::Both {
            // The peer may not be reading; it gets the error if its socket takes it at once.
            let _ = socket.try_write(NO_PLACE);
        }
    }

    fn accepted(
        &self,
        socket: TcpStream,
        peer: SocketAddr,
        permit: Permit,
        thread_waker: Arc<ThreadWaker>,
    ) -> io::Result<Accepted> {
        socket.set_nodelay(true)?;
        let (address, local) = (peer.to_string(), socket.local_addr()?.to_string());
        let connection_waker = Arc::new(ConnectionWaker::of(thread_waker));
        let waker = connection_waker.clone();
        let now_micros = self.layer.engine.now_micros();
        let clients = &self.layer.connections.clients;
        let client = clients.connect(address, local, now_micros, Arc::new(move || waker.signal()));
        if !self.layer.access.users.are_all_welcome() {
            let client = client.clone();
            permit.is_of_stranger(move || client.kill());
        }
        Ok(Accepted {
            peer,
            from: socket.peer_addr()?,
            state: Vec::new(),
            way_out: self.way_out.clone(),
            socket: socket.into_std()?,
            client,
            connection_waker,
            permit,
            stranger_input: self.stranger_bytes.input(peer.ip()),
            tls: self.tls.entrance(Speaks::Other, peer.ip()),
            takes: self.takes,
            layer: self.layer.clone(),
            conversations: self.conversations.clone(),
            tenants: self.tenants.clone(),
            settings: self.settings.clone(),
        })
    }
}
