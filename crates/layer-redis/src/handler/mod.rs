//! What a command's handler is given.

pub mod context;
pub mod definition;
