//! Sorted sets.

use crate::command::*;

pub const COMMANDS: &[Command] = &[];
