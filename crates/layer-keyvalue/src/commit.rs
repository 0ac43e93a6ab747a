//! From the protocol's transaction to the engine's.

use quartet_engine::{CommitError, CommitRequest, Mutation, VERSIONSTAMP_BYTES};
use quartet_model::{KeyRange, Version};
use quartet_wire_keyvalue::{Commit, ErrorCode, MutationKind};

use crate::{Options, SYSTEM_KEYS_END, USER_KEYS_END};

const KEY_BYTES_MAX: usize = 10_000;
const SYSTEM_KEY_BYTES_MAX: usize = 30_000;
const VALUE_BYTES_MAX: usize = 100_000;
/// What each mutation and each conflict range counts beside its keys and values: judging and applying one takes time under the
/// partition's lock, however short it is. The original counts as much.
const ITEM_BYTES: usize = 24;
/// The offset behind a key or value that takes a versionstamp.
const OFFSET_BYTES: usize = 4;

/// The engine's request, or why the client could have known that it is none.
pub(crate) fn translated(commit: &Commit<'_>, options: &Options) -> Result<CommitRequest, ErrorCode> {
    let bytes = size(commit);
    if bytes > options.transaction_bytes_max {
        return Err(ErrorCode::TRANSACTION_TOO_LARGE);
    }
    let mutations = commit.mutations.iter().map(mutation);
    Ok(CommitRequest {
        read_version: Version(commit.read_version),
        read_conflicts: ranges(&commit.read_conflicts)?,
        write_conflicts: ranges(&commit.write_conflicts)?,
        mutations: mutations.collect::<Result<_, _>>()?,
        report_conflicts: commit.report_conflicts,
    })
}

pub(crate) fn code_of(error: &CommitError) -> ErrorCode {
    match error {
        CommitError::Conflict(_) => ErrorCode::NOT_COMMITTED,
        CommitError::TooOld => ErrorCode::TRANSACTION_TOO_OLD,
        CommitError::FutureVersion => ErrorCode::FUTURE_VERSION,
        // The server is short of something, and a client that waits and repeats the commit does right.
        CommitError::DiskFull => ErrorCode::COMMIT_PROXY_MEMORY_LIMIT,
        CommitError::Unreadable => ErrorCode::IO_ERROR,
        // It was certainly not committed, and another may be home by the time the client repeats it.
        CommitError::NotHome => ErrorCode::PROCESS_BEHIND,
        CommitError::TooLarge => ErrorCode::TRANSACTION_TOO_LARGE,
    }
}

/// It writes something that it does not only clear.
pub(crate) fn makes_larger(commit: &Commit<'_>) -> bool {
    let mut mutations = commit.mutations.iter();
    mutations.any(|mutation| !matches!(mutation.kind, MutationKind::Clear | MutationKind::ClearRange))
}

fn size(commit: &Commit<'_>) -> usize {
    let ranges = commit.read_conflicts.iter().chain(&commit.write_conflicts);
    let conflicts: usize = ranges.map(|(begin, end)| ITEM_BYTES + begin.len() + end.len()).sum();
    let mutations = commit.mutations.iter();
    conflicts
        + mutations
            .map(|mutation| ITEM_BYTES + mutation.key.len() + mutation.value.len())
            .sum::<usize>()
}

fn ranges(pairs: &[(&[u8], &[u8])]) -> Result<Vec<KeyRange>, ErrorCode> {
    let range = |&(begin, end): &(&[u8], &[u8])| {
        check_bound(begin)?;
        check_bound(end)?;
        Ok(KeyRange::new(begin, end))
    };
    pairs.iter().map(range).collect()
}

fn mutation(mutation: &quartet_wire_keyvalue::Mutation<'_>) -> Result<Mutation, ErrorCode> {
    let (key, value) = (mutation.key.to_vec(), mutation.value.to_vec());
    if mutation.kind == MutationKind::ClearRange {
        check_bound(&key)?;
        check_bound(&value)?;
        return Ok(Mutation::ClearRange {
            range: KeyRange::new(key, value),
        });
    }
    check_key(&key)?;
    if value.len() > VALUE_BYTES_MAX + OFFSET_BYTES {
        return Err(ErrorCode::VALUE_TOO_LARGE);
    }
    Ok(match mutation.kind {
        MutationKind::ClearRange => unreachable!("answered above"),
        MutationKind::Set => Mutation::Set { key, value },
        MutationKind::Clear => Mutation::Clear { key },
        MutationKind::Atomic(operation) => Mutation::Atomic {
            operation,
            key,
            operand: value,
        },
        MutationKind::SetVersionstampedKey => {
            let (key, offset) = stamped(key)?;
            Mutation::SetVersionstampedKey { key, offset, value }
        }
        MutationKind::SetVersionstampedValue => {
            let (value, offset) = stamped(value)?;
            Mutation::SetVersionstampedValue { key, value, offset }
        }
    })
}

/// Takes the offset off the end, and checks that the versionstamp fits there.
fn stamped(mut bytes: Vec<u8>) -> Result<(Vec<u8>, usize), ErrorCode> {
    let start = bytes
        .len()
        .checked_sub(OFFSET_BYTES)
        .ok_or(ErrorCode::CLIENT_INVALID_OPERATION)?;
    let offset = bytes.split_off(start);
    let offset = u32::from_le_bytes([offset[0], offset[1], offset[2], offset[3]]) as usize;
    if offset + VERSIONSTAMP_BYTES > bytes.len() {
        return Err(ErrorCode::CLIENT_INVALID_OPERATION);
    }
    Ok((bytes, offset))
}

fn check_key(key: &[u8]) -> Result<(), ErrorCode> {
    let bytes_max = match key.starts_with(USER_KEYS_END) {
        true => SYSTEM_KEY_BYTES_MAX,
        false => KEY_BYTES_MAX,
    };
    if key >= SYSTEM_KEYS_END {
        return Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE);
    }
    if key.len() > bytes_max + OFFSET_BYTES {
        return Err(ErrorCode::KEY_TOO_LARGE);
    }
    Ok(())
}

/// A bound may be one byte longer than a key, and lie at the end of all keys.
fn check_bound(bound: &[u8]) -> Result<(), ErrorCode> {
    if bound.len() > SYSTEM_KEY_BYTES_MAX + 1 {
        return Err(ErrorCode::KEY_TOO_LARGE);
    }
    if bound > SYSTEM_KEYS_END {
        return Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten million bytes of the shortest ranges were five million ranges to judge under the lock.
    #[test]
    fn short_ranges_and_mutations_count() {
        let commit = Commit {
            read_conflicts: vec![(b"a", b"b"); 100_000],
            ..Commit::default()
        };
        let check = |transaction_bytes_max, allowed| {
            let options = Options {
                transaction_bytes_max,
                ..Options::default()
            };
            assert_eq!(translated(&commit, &options).is_ok(), allowed);
        };
        check(2_600_000, true);
        check(2_599_999, false);
    }

    #[test]
    fn only_clears_are_taken_when_memory_is_short() {
        let mutation = |kind| quartet_wire_keyvalue::Mutation {
            kind,
            key: b"a".as_slice(),
            value: b"b".as_slice(),
        };
        let check = |kinds: &[MutationKind], larger| {
            let commit = Commit {
                mutations: kinds.iter().map(|kind| mutation(*kind)).collect(),
                ..Commit::default()
            };
            assert_eq!(makes_larger(&commit), larger, "{kinds:?}");
        };
        check(&[], false);
        check(&[MutationKind::Clear, MutationKind::ClearRange], false);
        check(&[MutationKind::Clear, MutationKind::Set], true);
    }
}
