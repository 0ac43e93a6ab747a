//! A point of the partition's history.

use quartet_model::{LogSequence, Version};

/// What point of the partition's history a checkpoint or a store on disk holds: everything up to and including both.
/// The default is before everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub version: Version,
    pub sequence: LogSequence,
}
