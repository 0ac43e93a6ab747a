//! SORT.

use crate::command::*;

pub const COMMANDS: &[Command] = &[];
