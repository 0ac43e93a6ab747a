//! From the protocol's transaction to the engine's.

use quartet_engine::{CommitError, CommitRequest, Mutation, VERSIONSTAMP_BYTES};
use quartet_model::{KeyRange, Version};
use quartet_wire_keyvalue::{Commit, ErrorCode, MutationKind};

use crate::{METADATA_VERSION_KEY, Options, USER_KEYS_END, check_bound, keys_end};

const KEY_BYTES_MAX: usize = 10_000;
const SYSTEM_KEY_BYTES_MAX: usize = 30_000;
const VALUE_BYTES_MAX: usize = 100_000;
/// Cost of each mutation and each conflict range in addition to its keys and values: certifying and
/// applying one takes time under the partition's lock, however short it is. The original counts as
/// much.
const ITEM_BYTES: usize = 24;
/// The offset that follows a key or value with a versionstamp.
const OFFSET_BYTES: usize = 4;
/// A value that becomes a versionstamp and nothing else.
const STAMP_ALONE: [u8; VERSIONSTAMP_BYTES + OFFSET_BYTES] = [0; VERSIONSTAMP_BYTES + OFFSET_BYTES];

/// The engine's request, or why a client's library would not have sent it.
pub(crate) fn translated(commit: &Commit<'_>, options: &Options) -> Result<CommitRequest, ErrorCode> {
    let bytes = size(commit);
    if bytes > options.transaction_bytes_max {
        return Err(ErrorCode::TRANSACTION_TOO_LARGE);
    }
    let mutations = commit.mutations.iter();
    let mutations = mutations.map(|change| mutation(change, commit.system));
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
        // The server is short of something, and a client that waits and repeats the commit does
        // right.
        CommitError::DiskFull => ErrorCode::COMMIT_PROXY_MEMORY_LIMIT,
        CommitError::Unreadable => ErrorCode::IO_ERROR,
        // It was certainly not committed, and another may be home by the time the client repeats
        // it.
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
    let range = |&(begin, end): &(&[u8], &[u8])| checked_range(begin, end, true);
    pairs.iter().map(range).collect()
}

/// Both bounds may be one byte longer than a key, and at the end of the key space.
fn checked_range(begin: &[u8], end: &[u8], system: bool) -> Result<KeyRange, ErrorCode> {
    for bound in [begin, end] {
        if bound.len() > SYSTEM_KEY_BYTES_MAX + 1 {
            return Err(ErrorCode::KEY_TOO_LARGE);
        }
        check_bound(bound, system)?;
    }
    if begin > end {
        return Err(ErrorCode::INVERTED_RANGE);
    }
    Ok(KeyRange::new(begin, end))
}

fn mutation(mutation: &quartet_wire_keyvalue::Mutation<'_>, system: bool) -> Result<Mutation, ErrorCode> {
    if mutation.kind == MutationKind::ClearRange {
        let range = checked_range(mutation.key, mutation.value, system)?;
        return Ok(Mutation::ClearRange { range });
    }
    check_written_key(mutation, system)?;
    check_value_length(mutation.value)?;
    let (key, value) = (mutation.key.to_vec(), mutation.value.to_vec());
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

/// Checks the length of a key, including an offset that may follow it. The metadata's version needs
/// no access to system keys, and accepts only a stamp; with that access it can be cleared.
fn check_written_key(mutation: &quartet_wire_keyvalue::Mutation<'_>, system: bool) -> Result<(), ErrorCode> {
    let key = mutation.key;
    if key == METADATA_VERSION_KEY && mutation.kind != MutationKind::Clear {
        let is_stamp = mutation.kind == MutationKind::SetVersionstampedValue && mutation.value == STAMP_ALONE;
        return is_stamp.then_some(()).ok_or(ErrorCode::CLIENT_INVALID_OPERATION);
    }
    if key >= keys_end(system) {
        return Err(ErrorCode::KEY_OUTSIDE_LEGAL_RANGE);
    }
    check_key_length(key)
}

pub(crate) fn check_key_length(key: &[u8]) -> Result<(), ErrorCode> {
    let bytes_max = match key.starts_with(USER_KEYS_END) {
        true => SYSTEM_KEY_BYTES_MAX,
        false => KEY_BYTES_MAX,
    };
    if key.len() > bytes_max {
        return Err(ErrorCode::KEY_TOO_LARGE);
    }
    Ok(())
}

pub(crate) fn check_value_length(value: &[u8]) -> Result<(), ErrorCode> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(ErrorCode::VALUE_TOO_LARGE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use quartet_model::AtomicOperation;

    use super::*;

    /// The layer accepted commits that clients' libraries refuse: writes of system keys, regardless
    /// of the transaction's options.
    #[test]
    fn a_commit_that_a_library_refuses_is_refused() {
        use AtomicOperation::Add;
        use MutationKind::{Atomic, Clear, ClearRange, Set, SetVersionstampedKey, SetVersionstampedValue};
        let check = |kind, key: &[u8], value: &[u8], expected: [u16; 2]| {
            for (system, expected) in [false, true].into_iter().zip(expected) {
                let commit = Commit {
                    system,
                    mutations: vec![quartet_wire_keyvalue::Mutation { kind, key, value }],
                    ..Commit::default()
                };
                let code = translated(&commit, &Options::default()).err().map_or(0, |code| code.0);
                assert_eq!(code, expected, "{kind:?} {:?} {system}", key.escape_ascii().to_string());
            }
        };
        let (stamp, long) = ([0; 14], vec![b'k'; 10_001]);
        let system_long = [&b"\xff"[..], &[b'k'; 30_000]].concat();
        check(Set, b"\xfe\xff", b"v", [0, 0]);
        for kind in [Set, Clear, Atomic(Add), SetVersionstampedValue] {
            check(kind, b"\xff", &stamp, [2004, 0]);
            check(kind, b"\xff/conf/x", &stamp, [2004, 0]);
            check(kind, b"\xff\xff", &stamp, [2004, 2004]);
            check(kind, &long, &stamp, [2102, 2102]);
            check(kind, &system_long, &stamp, [2004, 2102]);
        }
        check(SetVersionstampedKey, b"\xff0123456789\x01\0\0\0", b"", [2004, 0]);
        check(Set, b"k", &[0; 100_001], [2103, 2103]);
        check(ClearRange, b"a", b"\xff", [0, 0]);
        check(ClearRange, b"a", b"\xff\0", [2004, 0]);
        check(ClearRange, b"\xff\xff", b"\xff\xff", [2004, 0]);
        check(ClearRange, b"a", b"\xff\xff\0", [2004, 2004]);
        check(ClearRange, b"b", b"a", [2005, 2005]);
        check(SetVersionstampedValue, METADATA_VERSION_KEY, &stamp, [0, 0]);
        check(SetVersionstampedValue, METADATA_VERSION_KEY, &[1; 14], [2000, 2000]);
        check(Atomic(Add), METADATA_VERSION_KEY, b"1", [2000, 2000]);
        check(Set, METADATA_VERSION_KEY, b"1", [2000, 2000]);
        check(Clear, METADATA_VERSION_KEY, b"", [2004, 0]);
    }

    /// Ten million bytes of the shortest ranges were five million ranges to certify under the lock.
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
