//! Keys of any kind.

use crate::command::*;

pub const COMMANDS: &[Command] = &[];
