//! The size of a transaction: the one that programs ask for, and the one that is sent.
//!
//! The reported size follows FoundationDB's client (`ReadYourWritesTransaction` of release 7.3.79).
//! It grows with each call and counts the structures that this client keeps: a write of a key for
//! its mutation and again for its write conflict, and a range that was read once for each piece of
//! it between the transaction's own writes. The size that is sent is counted as the server counts
//! it.

use quartet_wire_keyvalue::{ErrorCode, Mutation, MutationKind};

use super::{State, Transaction};

/// Bytes that a mutation and a conflict range count for in the reported size, beside their keys and
/// values.
const REPORTED_MUTATION_BYTES: usize = 44;
pub(crate) const REPORTED_RANGE_BYTES: usize = 24;
/// The same in the size that is sent.
const SENT_ITEM_BYTES: usize = 24;

/// The reported size, in bytes, without what was read.
#[derive(Default)]
pub(super) struct Size(usize);

impl Size {
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

impl State {
    /// Without read-your-writes the original counts neither what is read nor keys that are cleared.
    fn reported_size(&self) -> usize {
        match self.options.read_your_writes_disabled {
            true => self.size.0,
            false => self.size.0 + self.attempt.with_read_conflicts(|read| read.reported_bytes()),
        }
    }

    /// Returns the size of the commit as the server counts it.
    pub fn sent_bytes(&self) -> usize {
        let range = |(begin, end): (&[u8], &[u8])| SENT_ITEM_BYTES + begin.len() + end.len();
        let written: usize = self.write_conflicts.iter().map(range).sum();
        let read = |read: &mut crate::conflicts::ReadConflicts| read.ranges().into_iter().map(range).sum::<usize>();
        let mutations = self.mutations.bytes() + SENT_ITEM_BYTES * self.mutations.len();
        mutations + written + self.attempt.with_read_conflicts(read)
    }
}

impl Transaction {
    /// Returns about how large the transaction is, in bytes, also when it was cancelled or has
    /// committed.
    pub fn approximate_size(&self) -> impl Future<Output = Result<i64, ErrorCode>> + Send + use<> {
        let state = self.state();
        let size = i64::try_from(state.reported_size()).unwrap_or(i64::MAX);
        std::future::ready(state.failed.map_or(Ok(size), Err))
    }
}
