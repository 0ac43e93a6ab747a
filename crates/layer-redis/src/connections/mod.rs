//! State that connections share: clients, their memory and mail, channels, tracking, blocking.

pub mod blocking;
pub mod channels;
pub mod client_memory;
pub mod clients;
pub mod mailbox;
pub mod outbox;
pub mod pause;
pub mod pending_disconnects;
pub mod subscriptions;
pub mod tracking;
