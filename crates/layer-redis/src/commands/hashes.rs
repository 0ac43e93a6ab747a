//! Hashes.

use crate::command::*;
use crate::keyspace::Keyspace;

pub const COMMANDS: &[Command] = &[];

/// Removes the fields of `name` that have expired; `deadline_ms` is what the index said. Returns how many there were.
pub fn expire_fields(_: &mut Keyspace<'_, '_>, _name: &[u8], _deadline_ms: u64) -> u64 {
    0
}
