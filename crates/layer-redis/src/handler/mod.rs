//! The parts that a command's handler gets.

pub mod context;
pub mod definition;
