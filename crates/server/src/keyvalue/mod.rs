//! The key-value protocol: who may come in, and the listener.
//!
//! | file         | what it is                                             |
//! |--------------|--------------------------------------------------------|
//! | `connection` | the loop between a socket and its session              |

mod connection;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use quartet_layer_keyvalue::KeyValue;
use quartet_tenancy::{Access, Database};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, watch};

pub use self::connection::{KeyValueAccepted, serve};
use crate::arrival::Arrival;
use crate::connection::ACCEPT_RETRY;
use crate::connection_limit::{AcceptErrors, ConnectionLimit, Place};
use crate::settings::Credentials;
use crate::tenants::Tenants;
use crate::tls::Tls;

/// Opens logical databases to those who show a credential.
pub struct KeyValueDoor {
    layer: Arc<KeyValue>,
    tenants: Arc<Tenants>,
    credentials: Credentials,
    authentication_timeout: Duration,
    output_stall_timeout: Duration,
}

/// What a credential opens.
struct Opened {
    layer: Arc<KeyValue>,
    /// `None`: the default one.
    database: Option<Arc<Database>>,
    may_write: bool,
}

impl KeyValueDoor {
    pub fn new(tenants: Arc<Tenants>) -> KeyValueDoor {
        let settings = &tenants.maker.settings;
        KeyValueDoor {
            layer: Arc::new(tenants.maker.default_keyvalue()),
            credentials: settings.credentials.clone(),
            authentication_timeout: settings.authentication_timeout,
            output_stall_timeout: settings.output_stall_timeout,
            tenants,
        }
    }

    pub fn maintain(&self) {
        self.layer.maintain();
    }

    /// The root key opens the default database, a database's tokens open that one. With `--dev` anybody else comes into the
    /// default one.
    fn open(&self, token: &[u8]) -> Option<Opened> {
        if let Some((database, access)) = self.tenants.catalogue.by_secret(token) {
            let may_write = match access {
                Access::Full => true,
                Access::ReadOnly => false,
                Access::Fauna => return None,
            };
            let layer = self.tenants.enter(&database)?.keyvalue(&self.tenants.maker).clone();
            return Some(Opened {
                layer,
                database: Some(database),
                may_write,
            });
        }
        let is_right = match &self.credentials {
            Credentials::None => true,
            Credentials::Key { sha256 } => &quartet_layer_redis::acl::password_hash(token) == sha256,
        };
        is_right.then(|| Opened {
            layer: self.layer.clone(),
            database: None,
            may_write: true,
        })
    }
}

/// Accepts connections and deals them out to the I/O threads in turn.
pub struct Dealer {
    pub door: Arc<KeyValueDoor>,
    pub tls: Option<Tls>,
    pub limit: Arc<ConnectionLimit>,
    pub threads: Vec<mpsc::UnboundedSender<Arrival>>,
}

impl Dealer {
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
                Ok((socket, _)) => self.admit(socket).await,
                Err(error) => Err(error),
            };
            match admitted {
                // A thread that is gone is one that was stopped.
                Ok(Some(accepted)) => drop(turns.next().map(|thread| thread.send(Arrival::KeyValue(accepted)))),
                Ok(None) => {}
                Err(error) => {
                    errors.note(&error);
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    /// `None`: there is no place left.
    async fn admit(&self, socket: TcpStream) -> io::Result<Option<KeyValueAccepted>> {
        let Some(permit) = self.limit.admit(Place::Any).await else {
            return Ok(None);
        };
        socket.set_nodelay(true)?;
        let evicted = Arc::new(Notify::new());
        let notified = evicted.clone();
        permit.is_of_stranger(move || notified.notify_one());
        Ok(Some(KeyValueAccepted {
            socket: socket.into_std()?,
            tls: self.tls.clone(),
            permit,
            door: self.door.clone(),
            evicted,
        }))
    }
}
