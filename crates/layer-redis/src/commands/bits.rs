//! Bits of strings.

use crate::command::*;

pub const COMMANDS: &[Command] = &[];
