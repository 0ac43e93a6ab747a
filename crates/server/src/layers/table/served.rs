//! The row of a layer in the table.

use anyhow::Result;
use quartet_engine::{ChangeDecoder, Invariants};

use super::assembly::Assembly;
use crate::layers::database_layer::LayerKind;

/// A layer as the server serves it.
pub struct ServedLayer {
    pub kind: LayerKind,
    /// Listens as the settings say, and serves the default database there. Does nothing if they say
    /// `off`.
    pub listen: fn(&mut Assembly<'_>) -> Result<()>,
    /// Its invariants about its rows.
    pub invariants: fn() -> Box<dyn Invariants>,
    /// Says what its rows mean.
    pub changes: fn() -> Box<dyn ChangeDecoder>,
}
