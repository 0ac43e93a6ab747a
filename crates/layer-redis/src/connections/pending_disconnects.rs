//! Registrations that connections gave up while the lock was not to be had.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;

use crate::connections::clients::Client;
use crate::connections::subscriptions::Subscriptions;

/// Registrations that connections gave up while the lock was not to be had, and that are still
/// there.
#[derive(Default)]
pub struct PendingDisconnects {
    pub any: AtomicBool,
    pub of_clients: Mutex<Vec<Abandoned>>,
}

/// Waits and subscriptions that a connection gave up: because it is closed, or because it said so.
pub struct Abandoned {
    pub client: Arc<Client>,
    /// It does not wait in a blocking command any more.
    pub has_waited: bool,
    pub subscriptions: Subscriptions,
}
