//! The parts that a command's handler gets, and the ways to notify other connections of a command.

pub(crate) mod allowance;
pub(crate) mod beside;
pub(crate) mod caching;
pub(crate) mod command_memory;
pub(crate) mod context;
pub mod definition;
pub(crate) mod description;
pub(crate) mod groups;
pub(crate) mod monitor;
pub(crate) mod outcome;
pub(crate) mod subscriptions;
