//! A database: the connection that its transactions share, and their defaults.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use quartet_wire_keyvalue::ErrorCode;
use tokio::runtime::Handle;

use crate::connection::Connection;
use crate::options::Options;
use crate::{Cluster, DatabaseOption, TlsSettings};

const WATCHES_MAX: usize = 10_000;

/// Clones share everything. The connection is closed when the last clone, and the last transaction,
/// is dropped.
#[derive(Clone)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub connection: Arc<Connection>,
    pub defaults: Mutex<Options>,
    pub watches: AtomicUsize,
    watches_max: AtomicUsize,
    /// The runtime of timers and commits.
    pub runtime: Handle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.connection.close();
    }
}

impl Database {
    /// Connects in the background, on the runtime of the caller. Panics outside of one.
    pub fn open(cluster: Cluster) -> Database {
        Database::open_on(cluster, TlsSettings::default(), Handle::current())
    }

    /// The same on a given runtime, with settings for TLS; the environment may add to them.
    pub fn open_on(cluster: Cluster, tls: TlsSettings, runtime: Handle) -> Database {
        let connection = Connection::new(cluster, tls, runtime.clone());
        runtime.spawn(connection.clone().drive());
        Database {
            inner: Arc::new(Inner {
                connection,
                defaults: Mutex::default(),
                watches: AtomicUsize::new(0),
                watches_max: AtomicUsize::new(WATCHES_MAX),
                runtime,
            }),
        }
    }

    /// Sets a default for transactions that are created or reset from now on.
    pub fn set_option(&self, option: DatabaseOption) {
        match option {
            DatabaseOption::Transaction(option) => self.inner.defaults.lock().set(option),
            DatabaseOption::MaxWatches(count) => self.inner.watches_max.store(count, Ordering::Relaxed),
        }
    }

    /// Returns the cluster that the database was opened with.
    pub fn cluster(&self) -> &Cluster {
        &self.inner.connection.cluster
    }

    /// How the server does, as JSON.
    pub async fn status(&self) -> Result<String, ErrorCode> {
        let body = self.inner.connection.ask(&quartet_wire_keyvalue::Request::Status).await;
        let body = body.map_err(|failure| failure.code)?;
        String::from_utf8(body).map_err(|_| ErrorCode::INTERNAL_ERROR)
    }

    /// Returns true if there is a connection at the moment.
    pub fn is_connected(&self) -> bool {
        self.inner.connection.is_connected()
    }

    /// Takes part in the number of watches.
    pub(crate) fn begin_watch(&self) -> Result<CountedWatch, ErrorCode> {
        let count = self.inner.watches.fetch_add(1, Ordering::Relaxed);
        let counted = CountedWatch(self.inner.clone());
        if count >= self.inner.watches_max.load(Ordering::Relaxed) {
            return Err(ErrorCode::TOO_MANY_WATCHES);
        }
        Ok(counted)
    }
}

pub(crate) struct CountedWatch(Arc<Inner>);

impl Drop for CountedWatch {
    fn drop(&mut self) {
        self.0.watches.fetch_sub(1, Ordering::Relaxed);
    }
}
