//! A layer over one logical database, as the server keeps it: built when a client connects, dropped
//! when all clients have left.
//!
//! The server's protocol-independent interface to every layer. Requests do not use it: a protocol's
//! own connections know their layer by its type.

use std::any::Any;
use std::sync::Arc;

use quartet_engine::{Busy, ChangeDecoder, Invariants};
use quartet_layer_redis::Directory;
use quartet_model::LayerId;
use quartet_tenancy::Database;

use crate::layers::parts::Parts;

/// The server's interface to a layer over a database that is one of several.
pub trait DatabaseLayer: Any + Send + Sync {
    /// Work in the background, a little at a time; called about ten times a second. Returns true if
    /// the database must remain open because of this work.
    fn maintain(&self, database: &Database) -> bool;

    /// Gives back what idle connections hold. Called about once a second.
    fn tidy(&self) {}

    /// Applies a change of the database's settings.
    fn configure(&self, _database: &Database) {}

    /// Connections that are in the database now, if the protocol keeps them.
    fn connections(&self) -> usize {
        0
    }

    /// Wakes connections, whose waits may have ended.
    fn wake_connections(&self) {}

    /// Holds all requests until the database is in another partition, or until the hold is
    /// released. For a layer that is used without being entered.
    fn hold(&self, _is_held: bool) {}

    /// The database is in another partition, and its layers there are others.
    fn leave(&self) {}

    /// Forces all connections to enter again.
    fn close_connections(&self) {}

    /// Returns true if a holder of the layer may write at any time, and not only while a request is
    /// answered.
    fn is_written_by_holders(&self) -> bool {
        false
    }

    /// Writes down what is not in the engine: the server stops.
    fn save(&self) {}
}

/// The parts that a layer is made from.
pub struct Opening<'o> {
    pub parts: &'o Parts,
    pub database: &'o Arc<Database>,
    /// Which password opens which database.
    pub directory: &'o dyn Fn() -> Box<dyn Directory>,
}

/// A kind of layer: its word in options, metrics and feeds, where its rows are, how it is opened
/// over a database, and what its rows mean.
#[derive(Clone, Copy)]
pub struct LayerKind {
    pub name: &'static str,
    pub id: LayerId,
    /// Waits briefly for the partition's lock at most.
    pub open: fn(&Opening<'_>) -> Result<Arc<dyn DatabaseLayer>, Busy>,
    /// Its invariants about its rows.
    pub invariants: fn() -> Box<dyn Invariants>,
    /// Says what its rows mean.
    pub changes: fn() -> Box<dyn ChangeDecoder>,
}
