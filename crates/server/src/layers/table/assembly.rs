//! The context of a layer that begins to listen, and its additions to it.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use anyhow::Result;
use quartet_layer_redis::Redis;
use quartet_model::LayerId;
use tokio::sync::watch;

use crate::connections::accept::{Entrance, Listener};
use crate::connections::sockets::Sockets;
use crate::http::{HttpEntrance, HttpLayer};
use crate::keyvalue::KeyValueEndpoint;
use crate::limits::connection_limit::ConnectionLimit;
use crate::limits::unauthenticated_input::StrangerBytes;
use crate::settings::{Listen, Settings};
use crate::tenants::Tenants;

/// Ends when what it is given becomes true.
pub type Waiting = Box<dyn FnOnce(&watch::Receiver<bool>) + Send>;

/// A server that is being put together.
pub struct Assembly<'a> {
    pub tenants: &'a Arc<Tenants>,
    pub settings: &'a Arc<Settings>,
    pub limit: &'a Arc<ConnectionLimit>,
    pub stranger_bytes: &'a Arc<StrangerBytes>,
    /// Becomes true when the server stops.
    pub stopped: &'a watch::Receiver<bool>,
    /// The default database's layer of Redis, which metrics and REST ask whether Redis listens or
    /// not.
    pub redis: &'a Arc<Redis>,
    pub sockets: &'a Sockets,
    pub listeners: Vec<Listener>,
    /// Name and connection string of each listener, for people.
    pub endpoints: Vec<(&'static str, String)>,
    /// The layers of the default database that are behind HTTP.
    pub http_layers: Vec<(LayerId, Arc<dyn HttpLayer>)>,
    /// Work in the background for the default database, ten times a second.
    pub maintained: Vec<Box<dyn Fn() + Send>>,
    /// Work that waits for files or for other servers, each on a thread of that name, until the
    /// server stops.
    pub deferred_tasks: Vec<(&'static str, Waiting)>,
    /// The key-value protocol's way into databases, if it is served, and where it is spoken.
    pub keyvalue: Option<Arc<KeyValueEndpoint>>,
    pub keyvalue_address: Option<SocketAddr>,
}

impl Assembly<'_> {
    /// Binds the listener of `--listen-NAME`; `None`: it is off.
    pub fn bind(&self, listens: Listen, name: &'static str) -> Result<Option<(TcpListener, SocketAddr)>> {
        self.sockets.bind(listens, name)
    }

    pub fn tell(&mut self, name: &'static str, address: String) {
        self.endpoints.push((name, address));
    }

    /// Lets clients in at the listener of `--listen-NAME`.
    pub fn add(&mut self, name: &'static str, socket: TcpListener, entrance: impl Entrance + 'static) {
        self.listeners.push(Listener {
            name,
            socket,
            entrance: Arc::new(entrance),
        });
    }

    /// Serves a layer of the default database over HTTP.
    pub fn add_http(&mut self, name: &'static str, socket: TcpListener, layer: Arc<dyn HttpLayer>) {
        let entrance = HttpEntrance {
            layer: layer.clone(),
            tls: self.tenants.maker.tls.clone(),
            limit: self.limit.clone(),
            stranger_bytes: self.stranger_bytes.clone(),
            memory: self.tenants.maker.engine.memory().clone(),
            login_guard: self.tenants.maker.login_guard.clone(),
            spans: self.tenants.maker.spans.clone(),
        };
        self.add(name, socket, entrance);
        self.maintained.push(Box::new(move || layer.maintain()));
    }

    /// The layer of the default database that is behind HTTP, if it is served.
    pub fn http_layer(&self, id: LayerId) -> Option<Arc<dyn HttpLayer>> {
        let known = self.http_layers.iter().find(|(known, _)| *known == id);
        known.map(|(_, layer)| layer.clone())
    }
}
