//! From an accepted socket to a connection on its I/O thread.

pub(crate) mod accept;
pub(crate) mod durability;
pub(crate) mod handoff;
mod port_owner;
pub(crate) mod sockets;
pub(crate) mod stream;
pub(crate) mod tls;
pub(crate) mod turns;
pub(crate) mod waker;
