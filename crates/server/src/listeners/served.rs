//! The rows of the table: layers, and listeners that belong to none.

use anyhow::Result;

use super::assembly::Assembly;
use crate::layers::kind::LayerKind;
use crate::observability::durations::Measured;
use crate::settings::{Listening, Settings};

/// A layer as the server serves it.
pub struct ServedLayer {
    pub kind: LayerKind,
    /// The listener of the default database.
    pub listener: ServedListener,
}

/// A listener, or the few that belong together.
pub struct ServedListener {
    /// Its addresses, of its struct of the settings.
    pub listening: fn(&Settings) -> Vec<Listening>,
    /// The operations whose durations metrics show; `None`: Redis' layer measures its commands by
    /// itself.
    pub measured: Option<Measured>,
    /// Listens as the settings say. Does nothing if they say `off`.
    pub listen: fn(&mut Assembly<'_>) -> Result<()>,
}
