//! The words of durability: epochs that gather, the room they have, and what they hold in memory.
//! The flusher, which takes them to the log, stands above.

pub(crate) mod backlog;
pub(crate) mod epochs;
pub(crate) mod job;
pub(crate) mod log_readers;
pub(crate) mod memory;
pub(crate) mod pressure;
pub(crate) mod retention;
pub(crate) mod room;
pub(crate) mod stored;
