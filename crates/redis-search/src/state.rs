//! The module's state in one layer, and the way to it.

use quartet_layer_redis::module_api::{Groups, Redis};

use crate::indexes::{Cursors, Indexes};

/// The state in memory for one layer.
pub struct SearchState {
    /// Search indexes, as far as they are known in memory.
    pub indexes: Indexes,
    pub cursors: Cursors,
}

/// A layer with the module's state in it.
#[derive(Clone, Copy)]
pub struct Search<'l> {
    pub layer: &'l Redis,
    pub indexes: &'l Indexes,
    pub cursors: &'l Cursors,
}

impl<'l> Search<'l> {
    /// Panics if the layer was made without the module.
    pub fn of(layer: &'l Redis) -> Search<'l> {
        let SearchState { indexes, cursors } = layer.state();
        Search {
            layer,
            indexes,
            cursors,
        }
    }
}

/// Lends a command the module's state.
pub trait SearchGroups<'c> {
    fn indexes(self) -> &'c Indexes;
    fn cursors(self) -> &'c Cursors;
}

impl<'c> SearchGroups<'c> for Groups<'c> {
    fn indexes(self) -> &'c Indexes {
        &self.state::<SearchState>().indexes
    }

    fn cursors(self) -> &'c Cursors {
        &self.state::<SearchState>().cursors
    }
}
