//! The approximate size of a transaction, as the API reports it.
//!
//! It follows FoundationDB's client (`ReadYourWritesTransaction` of release 7.3.79). It grows with
//! each call and counts the structures that this client keeps: a write of a key for its mutation
//! and again for its write conflict, and a range that was read once for each piece of it between
//! the transaction's own writes.

use quartet_wire_keyvalue::{Mutation, MutationKind};

use crate::conflicts::REPORTED_RANGE_BYTES;

/// Bytes that a mutation and a conflict range count for in the reported size, beside their keys and
/// values.
const REPORTED_MUTATION_BYTES: usize = 44;

/// The reported size, in bytes, without reads.
#[derive(Default)]
pub(super) struct Size(usize);

impl Size {
    pub fn bytes(&self) -> usize {
        self.0
    }

    /// Adds a mutation, and its write conflict if it has one.
    pub fn add_mutation(&mut self, mutation: &Mutation<'_>, conflicts: bool) {
        let Mutation { kind, key, value } = *mutation;
        let point = 2 * key.len() + 1;
        let (written, conflict) = match kind {
            MutationKind::Clear => (REPORTED_RANGE_BYTES + point, point),
            MutationKind::ClearRange => return self.add_clear_range(key, value, conflicts),
            _ => (REPORTED_MUTATION_BYTES + key.len() + value.len(), point),
        };
        self.0 += written;
        if conflicts && kind != MutationKind::SetVersionstampedKey {
            self.0 += REPORTED_RANGE_BYTES + conflict;
        }
    }

    pub fn add_clear_range(&mut self, begin: &[u8], end: &[u8], conflicts: bool) {
        self.0 += REPORTED_MUTATION_BYTES + begin.len() + end.len();
        if conflicts {
            self.add_conflict_range(begin, end);
        }
    }

    pub fn add_conflict_range(&mut self, begin: &[u8], end: &[u8]) {
        self.0 += REPORTED_RANGE_BYTES + begin.len() + end.len();
    }
}
