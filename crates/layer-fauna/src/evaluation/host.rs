//! An evaluation's needs of the server around it.
//!
//! Time arrives with the transaction, ids and randomness from here: so an evaluation names neither
//! the service nor its engine.

use std::sync::Arc;

use crate::storage::rows::{DatabaseNumber, View};
use crate::storage::schema::Schema;

pub trait Host {
    /// The compiled schema of a database, as the view sees it.
    fn schema(&self, view: &mut View<'_>, database: DatabaseNumber) -> Arc<Schema>;

    /// The number that the secrets made here carry.
    fn elsewhere(&self) -> Option<u16>;

    fn random(&self) -> [u8; 20];

    /// Returns an id that was never used.
    fn new_id(&self, now_micros: u64) -> u64;

    /// The present time, rather than the transaction's: for the duration of the evaluation.
    fn now_micros(&self) -> u64;

    /// Reports pending background work.
    fn work_is_left(&self);

    /// Returns whether a JWT can be verified now.
    fn keys_are_ready(&self, view: &mut View<'_>, secret: &str) -> bool;

    /// Fetches the keys that verify a JWT, if they are due.
    fn make_keys_ready(&self, view: &mut View<'_>, secret: &str);

    /// The database that a secret opens.
    fn database_of(&self, view: &mut View<'_>, secret: &str) -> Option<DatabaseNumber>;
}
