//! Hashes.

use crate::command::*;
use crate::keyspace::Keyspace;

pub const COMMANDS: &[Command] = &[];

/// Removes the fields of `name` that have expired; `deadline_ms` is what the index said. Returns how many there were.
pub fn expire_fields(keys: &mut Keyspace<'_, '_>, name: &[u8], deadline_ms: u64) -> u64 {
    keys.move_field_expiry(name, Some(deadline_ms), None);
    0
}
