//! How large a transaction is: as it is told to those who ask, and as it will be sent.
//!
//! What is told are FoundationDB's numbers (`ReadYourWritesTransaction` of release 7.3.79), which grow with each call and count
//! the structures that its client keeps: a write of a key, for its mutation and again for its write conflict; a range that was
//! read, once for each piece of it between the transaction's own writes. What is sent counts as the server counts it.

use quartet_wire_keyvalue::{ErrorCode, Mutation, MutationKind};

use super::{State, Transaction};

/// What a mutation and a conflict range count for beside their bytes when they are told.
const TOLD_MUTATION_BYTES: usize = 44;
pub(crate) const TOLD_RANGE_BYTES: usize = 24;
/// What each of them counts for when it is sent.
const SENT_ITEM_BYTES: usize = 24;

/// What a transaction's calls count for, without what it has read.
#[derive(Default)]
pub(super) struct Size(usize);

impl Size {
    /// `conflicts`: others must take it as written.
    pub fn add_mutation(&mut self, mutation: &Mutation<'_>, conflicts: bool) {
        let Mutation { kind, key, value } = *mutation;
        let point = 2 * key.len() + 1;
        let (written, conflict) = match kind {
            MutationKind::Clear => (TOLD_RANGE_BYTES + point, point),
            MutationKind::ClearRange => return self.add_clear_range(key, value, conflicts),
            _ => (TOLD_MUTATION_BYTES + key.len() + value.len(), point),
        };
        self.0 += written;
        if conflicts && kind != MutationKind::SetVersionstampedKey {
            self.0 += TOLD_RANGE_BYTES + conflict;
        }
    }

    pub fn add_clear_range(&mut self, begin: &[u8], end: &[u8], conflicts: bool) {
        self.0 += TOLD_MUTATION_BYTES + begin.len() + end.len();
        if conflicts {
            self.add_conflict_range(begin, end);
        }
    }

    pub fn add_conflict_range(&mut self, begin: &[u8], end: &[u8]) {
        self.0 += TOLD_RANGE_BYTES + begin.len() + end.len();
    }
}

impl State {
    /// Without read-your-writes the original counts neither what is read nor keys that are cleared.
    fn told_size(&self) -> usize {
        match self.options.read_your_writes_disabled {
            true => self.size.0,
            false => self.size.0 + self.attempt.with_read_conflicts(|read| read.told_bytes()),
        }
    }

    /// As the server counts what is sent.
    pub fn sent_bytes(&self) -> usize {
        let range = |(begin, end): (&[u8], &[u8])| SENT_ITEM_BYTES + begin.len() + end.len();
        let written: usize = self.write_conflicts.iter().map(range).sum();
        let read = |read: &mut crate::conflicts::ReadConflicts| read.ranges().into_iter().map(range).sum::<usize>();
        let mutations = self.mutations.bytes() + SENT_ITEM_BYTES * self.mutations.len();
        mutations + written + self.attempt.with_read_conflicts(read)
    }
}

impl Transaction {
    /// About how large the transaction is. Of one that was cancelled or has come to its end, too.
    pub fn approximate_size(&self) -> impl Future<Output = Result<i64, ErrorCode>> + Send + use<> {
        let state = self.state();
        let size = i64::try_from(state.told_size()).unwrap_or(i64::MAX);
        std::future::ready(state.failed.map_or(Ok(size), Err))
    }
}
