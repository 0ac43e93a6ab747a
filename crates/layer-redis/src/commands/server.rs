//! The server.

use crate::command::*;

pub const COMMANDS: &[Command] = &[];
