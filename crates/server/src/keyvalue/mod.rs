//! The key-value protocol: authentication, and the listener.
//!
//! | file         | what it is                                             |
//! |--------------|--------------------------------------------------------|
//! | `connection` | the loop between a socket and its session              |
//! | `measuring`  | how long requests take, and the shape of one           |
//! | `carried_credential` | a credential as a cluster file carries it      |
//! | `takeover`   | one connection at a time for each client's session     |

mod carried_credential;
mod connection;
mod measuring;
mod takeover;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quartet_engine::{Busy, PartitionId};
use quartet_layer_keyvalue::KeyValue;
use quartet_layer_redis::access::login_guard::LoginGuard;
use quartet_model::LayerId;
use quartet_tenancy::{Access, Database};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

pub use self::carried_credential::carried;
use self::connection::{KeyValueAccepted, serve};
pub use self::measuring::OPERATIONS;
use self::takeover::Takeovers;
use crate::connections::accept::{Admitting, Entrance};
use crate::connections::handoff::{Arrival, IoThread};
use crate::connections::tls::{Speaks, Tls};
use crate::connections::waker::ThreadWaker;
use crate::layers::parts::WayOut;
use crate::limits::connection_limit::{ConnectionLimit, Place};
use crate::settings::Credentials;
use crate::tenants::Tenants;

/// Opens logical databases to clients with a credential.
pub struct KeyValueEndpoint {
    layer: Arc<KeyValue>,
    pub tenants: Arc<Tenants>,
    credentials: Credentials,
    login_guard: Arc<LoginGuard>,
    takeovers: Arc<Takeovers>,
    authentication_timeout: Duration,
    output_stall_timeout: Duration,
}

/// The database that a credential opens.
pub struct Opened {
    pub layer: Arc<KeyValue>,
    /// The count of its moves, and the database; `None`: the default database.
    pub database: Option<(u64, Arc<Database>)>,
    pub may_write: bool,
}

impl KeyValueEndpoint {
    /// `layer` is the default database's layer.
    pub fn new(layer: KeyValue, tenants: Arc<Tenants>) -> KeyValueEndpoint {
        let settings = &tenants.parts.settings;
        KeyValueEndpoint {
            layer: Arc::new(layer),
            credentials: settings.credentials.clone(),
            login_guard: tenants.parts.login_guard.clone(),
            takeovers: Arc::default(),
            authentication_timeout: settings.connections.authentication_timeout,
            output_stall_timeout: settings.connections.output_stall_timeout,
            tenants,
        }
    }

    pub fn maintain(&self) {
        self.layer.maintain();
    }

    /// The partition of the credential's database, if another node is its home and checks the
    /// credential.
    fn elsewhere(&self, token: &[u8]) -> Option<PartitionId> {
        if !self.tenants.is_apart() {
            return None;
        }
        let (database, _) = self.tenants.catalogue.by_secret(token)?;
        self.tenants.elsewhere(&database)
    }

    /// The root key opens the default database, and a database's tokens open that database. With
    /// `--dev` any other credential opens the default database.
    pub fn open(&self, token: &[u8]) -> Result<Option<Opened>, Busy> {
        if let Some((database, access)) = self.tenants.catalogue.by_secret(token) {
            let may_write = match access {
                Access::Full => true,
                Access::ReadOnly => false,
                Access::Fauna => return Ok(None),
            };
            let Some(entered) = self.tenants.enter(&database)? else {
                return Ok(None);
            };
            let layer = self.tenants.layer(&entered, LayerId::KeyValue)?;
            let moves = database.moves();
            return Ok(Some(Opened {
                layer,
                database: Some((moves, database)),
                may_write,
            }));
        }
        let hash_of = quartet_layer_redis::access::acl::password_hash;
        let is_right = self.credentials.root_key().is_none_or(|hash| {
            hash_of(token) == hash || carried_credential::decoded(token).is_some_and(|key| hash_of(&key) == hash)
        });
        Ok(is_right.then(|| Opened {
            layer: self.layer.clone(),
            database: None,
            may_write: true,
        }))
    }
}

const LISTENER: &str = "keyvalue";

/// The way into the key-value layer.
pub struct KeyValueEntrance {
    pub database_login: Arc<KeyValueEndpoint>,
    pub tls: Arc<Tls>,
    pub limit: Arc<ConnectionLimit>,
    pub way_out: WayOut,
}

impl Entrance for KeyValueEntrance {
    fn admit<'e>(&'e self, socket: TcpStream, peer: SocketAddr, thread_waker: &'e Arc<ThreadWaker>) -> Admitting<'e> {
        self.admit_carried(socket, peer, thread_waker, Vec::new())
    }

    fn admit_carried<'e>(
        &'e self,
        socket: TcpStream,
        peer: SocketAddr,
        _thread_waker: &'e Arc<ThreadWaker>,
        state: Vec<u8>,
    ) -> Admitting<'e> {
        Box::pin(async move {
            let Some(permit) = self.limit.admit(Place::Any).await else {
                return Ok(None);
            };
            socket.set_nodelay(true)?;
            let evicted = Arc::new(Notify::new());
            let notified = evicted.clone();
            permit.is_of_stranger(move || notified.notify_one());
            let accepted = KeyValueAccepted {
                from: socket.peer_addr()?,
                is_carried: !state.is_empty(),
                way_out: self.way_out.clone(),
                socket: socket.into_std()?,
                peer,
                tls: self.tls.entrance(Speaks::Other, peer.ip()),
                permit,
                database_login: self.database_login.clone(),
                evicted,
            };
            Ok(Some(Box::new(accepted) as Box<dyn Arrival>))
        })
    }
}

impl Arrival for KeyValueAccepted {
    fn start(self: Box<Self>, thread: &IoThread, tasks: &mut JoinSet<()>) {
        let serving = serve(*self, thread.waiters.clone(), thread.stop.clone());
        tasks.spawn(thread.turns.with(serving));
    }
}
