//! One table of layers, and one of the listeners that belong to none: all that the server knows of
//! each by its name.
//!
//! | file       | content                                                                |
//! |------------|------------------------------------------------------------------------|
//! | `assembly` | the context of a row at the start of its listener, and its additions   |
//! | `served`   | the rows of the two tables                                             |
//! | the others | a row each, and the server's interface to its layer                    |

mod assembly;
pub mod dynamodb;
#[cfg(test)]
mod echo;
pub mod fauna;
mod keyvalue;
mod pages;
pub mod redis;
mod sentinel;
mod served;
#[cfg(test)]
mod tests;

use quartet_engine::Invariants;
use quartet_model::LayerId;
use quartet_tenancy::CatalogueInvariants;

pub use self::assembly::{Added, Assembly, Endpoint, MAINTENANCE_CYCLE, Waiting};
pub use self::served::{ServedLayer, ServedListener};
use crate::settings::{Listening, Settings};

/// Every layer, in the order in which their listeners start.
pub static LAYERS: [ServedLayer; 4] = [redis::LAYER, dynamodb::LAYER, fauna::LAYER, keyvalue::LAYER];

/// The listeners without a layer. They start last, because the console leads to the layers.
static OTHERS: [ServedListener; 2] = [sentinel::LISTENER, pages::LISTENER];

/// All listeners of a server with these layers, in the order of their start.
pub fn all(layers: &[ServedLayer]) -> impl Iterator<Item = &ServedListener> {
    layers.iter().map(|layer| &layer.listener).chain(&OTHERS)
}

/// Every address at which a server with these layers may listen.
pub fn listening(settings: &Settings, layers: &[ServedLayer]) -> Vec<Listening> {
    all(layers).flat_map(|row| (row.listening)(settings)).collect()
}

/// The invariants of every layer about its rows, and of the catalogue of databases about its own.
pub fn invariants() -> Vec<Box<dyn Invariants>> {
    let mut all: Vec<Box<dyn Invariants>> = vec![Box::<CatalogueInvariants>::default()];
    all.extend(LAYERS.iter().map(|layer| (layer.kind.invariants)()));
    all
}

/// The word for a layer; `system` is the server's own rows.
pub fn layer_name(id: LayerId) -> &'static str {
    let known = LAYERS.iter().find(|layer| layer.kind.id == id);
    known.map_or("system", |layer| layer.kind.name)
}
