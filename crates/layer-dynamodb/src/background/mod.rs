//! Work that continues after the reply: expiry, filling of indexes, transfers to buckets.

pub(crate) mod maintenance;
pub(crate) mod transfer_queue;
