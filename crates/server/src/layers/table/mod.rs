//! One table of layers: all that the server knows of a layer by its name.
//!
//! | file       | what it is                                                             |
//! |------------|------------------------------------------------------------------------|
//! | `assembly` | what is given to a layer that begins to listen, and what it adds to it |
//! | the others | a layer each: its row, and what the server asks of it                  |

mod assembly;
mod dynamodb;
mod fauna;
mod keyvalue;
mod redis;
#[cfg(test)]
mod tests;

use anyhow::Result;
use quartet_engine::{ChangeDecoder, Invariants};
use quartet_model::LayerId;
use quartet_tenancy::CatalogueInvariants;

pub use self::assembly::{Assembly, listen};
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

/// Every layer, in the order in which they begin to listen.
pub static LAYERS: [ServedLayer; 4] = [redis::LAYER, dynamodb::LAYER, fauna::LAYER, keyvalue::LAYER];

/// The invariants of every layer about its rows, and of the catalogue of databases about its own.
pub fn invariants() -> Vec<Box<dyn Invariants>> {
    let mut all: Vec<Box<dyn Invariants>> = vec![Box::new(CatalogueInvariants)];
    all.extend(LAYERS.iter().map(|layer| (layer.invariants)()));
    all
}

/// The word for a layer; `system` is the server's own rows.
pub fn layer_name(id: LayerId) -> &'static str {
    let known = LAYERS.iter().find(|layer| layer.kind.id == id);
    known.map_or("system", |layer| layer.kind.name)
}
