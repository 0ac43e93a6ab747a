//! State that connections share: clients, their memory and mail, channels, tracking, blocking.

pub(crate) mod blocking;
pub(crate) mod channels;
pub(crate) mod client_memory;
pub(crate) mod clients;
pub(crate) mod mailbox;
pub(crate) mod outbox;
pub(crate) mod pause;
pub(crate) mod pending_disconnects;
pub(crate) mod subscriptions;
pub(crate) mod tracking;
