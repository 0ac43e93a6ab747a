//! Durability: epochs gather, the flusher appends them to the log, and what they hold is bounded.

pub(crate) mod admission;
pub(crate) mod backlog;
pub(crate) mod epochs;
pub(crate) mod flusher;
pub(crate) mod job;
pub(crate) mod log_reader;
pub(crate) mod log_readers;
pub(crate) mod memory;
pub(crate) mod pressure;
pub(crate) mod retention;
pub(crate) mod room;
pub(crate) mod shared;
pub(crate) mod stored;
