//! A point of the partition's history.

use quartet_model::{LogSequence, Version};

/// The point of the partition's history that a checkpoint or a store on disk holds: everything up
/// to and including both. The default is before everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The newest commit version that is held.
    pub version: Version,
    /// The last epoch that is held: opening applies the log from the next epoch on.
    pub sequence: LogSequence,
}
