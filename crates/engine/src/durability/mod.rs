//! State of durability: gathering epochs, the room reserved for them, and the memory that they
//! hold. The flusher, which writes them to the log, is a layer above.

pub(crate) mod backlog;
pub(crate) mod deletions;
pub(crate) mod epochs;
pub(crate) mod job;
pub(crate) mod log_readers;
pub(crate) mod memory;
pub(crate) mod pressure;
pub(crate) mod request_memory;
pub(crate) mod retention;
pub(crate) mod room;
pub(crate) mod stored;
