//! The context of a row at the start of its listener, and its additions to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use quartet_model::LayerId;
use tokio::sync::watch;

use crate::connections::accept::{Entrance, Listener};
use crate::connections::sockets::{Listening, Sockets};
use crate::http::{HttpEntrance, HttpLayer};
use crate::layers::by_type::ByType;
use crate::layers::parts::WayOut;
use crate::limits::connection_limit::ConnectionLimit;
use crate::limits::unauthenticated_input::StrangerBytes;
use crate::process::cycles::Cycle;
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
    pub sockets: &'a Sockets,
    /// Becomes true when the server stops.
    pub stopped: &'a watch::Receiver<bool>,
    pub added: Added,
}

/// The additions of the rows.
#[derive(Default)]
pub struct Added {
    pub listeners: Vec<Listener>,
    /// Ways in that have no socket, for clients that are passed on.
    pub entrances: Vec<(&'static str, Arc<dyn Entrance>)>,
    pub endpoints: Vec<Endpoint>,
    /// The HTTP layers of the default database.
    pub http_layers: Vec<(LayerId, Arc<dyn HttpLayer>)>,
    /// Work that is repeated, in short turns on one thread.
    pub cycles: Vec<Cycle>,
    /// Work that waits for files or for other servers, each on a thread of that name, until the
    /// server stops.
    pub deferred_tasks: Vec<(&'static str, Waiting)>,
    /// Called when the server stops, before it waits for its threads.
    pub at_stop: Vec<Box<dyn FnOnce() + Send>>,
    /// Values that a row lends to those after it.
    pub lent: ByType,
}

/// The address of a protocol.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub name: &'static str,
    /// The text that people paste into a client.
    pub text: String,
    pub address: SocketAddr,
}

impl Assembly<'_> {
    /// Binds the listener of `--listen-NAME`; `None`: it is off.
    pub fn bind(&self, listens: Listen, name: &'static str) -> Result<Option<(Listening, SocketAddr)>> {
        self.sockets.bind(listens.address(), name)
    }

    /// Names an address to people: when the server starts, and at the console.
    pub fn tell(&mut self, name: &'static str, address: SocketAddr, text: String) {
        self.added.endpoints.push(Endpoint { name, text, address });
    }

    /// Lets clients in at the listener of `--listen-NAME`.
    pub fn add(&mut self, name: &'static str, socket: Listening, entrance: impl Entrance + 'static) {
        self.added.listeners.push(Listener {
            name,
            socket,
            entrance: Arc::new(entrance),
        });
    }

    /// Serves a layer of the default database over HTTP.
    pub fn add_http(&mut self, name: &'static str, socket: Listening, layer: Arc<dyn HttpLayer>) {
        let parts = &self.tenants.parts;
        let entrance = HttpEntrance {
            layer: layer.clone(),
            tls: parts.tls.clone(),
            limit: self.limit.clone(),
            stranger_bytes: self.stranger_bytes.clone(),
            memory: parts.engine.memory().clone(),
            login_guard: parts.login_guard.clone(),
            spans: parts.spans.clone(),
            way_out: WayOut {
                nodes: parts.nodes.clone(),
                listener: name,
            },
        };
        self.add(name, socket, entrance);
        self.maintain(move || layer.maintain());
    }

    /// Adds work in the background for the default database, done ten times a second.
    pub fn maintain(&mut self, turn: impl FnMut() + Send + 'static) {
        let cycle = Cycle::new("maintenance", MAINTENANCE_CYCLE, turn);
        self.added.cycles.push(cycle);
    }

    /// The default database's layer for HTTP, if it is served.
    pub fn http_layer(&self, id: LayerId) -> Option<Arc<dyn HttpLayer>> {
        let existing = self.added.http_layers.iter().find(|(existing, _)| *existing == id);
        existing.map(|(_, layer)| layer.clone())
    }
}

/// Interval of the removal of expired keys, and of other background work.
pub const MAINTENANCE_CYCLE: Duration = Duration::from_millis(100);
