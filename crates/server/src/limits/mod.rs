//! Bounds on what peers may hold, send and take.

pub(crate) mod connection_limit;
pub(crate) mod memory;
pub(crate) mod transfer_deadline;
pub(crate) mod unauthenticated_input;
