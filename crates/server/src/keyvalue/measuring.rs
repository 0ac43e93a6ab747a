//! Durations of requests, and the log entries of slow requests: never a key or a value.

use quartet_tenancy::Database;
use quartet_wire_keyvalue::{Commit, RangeRequest, Request};

use crate::layers::parts::Parts;

/// The requests of the protocol that have an answer: the operations whose durations are measured.
pub const OPERATIONS: [&str; 9] = [
    "read_version",
    "get",
    "get_key",
    "get_range",
    "commit",
    "watch",
    "estimated_bytes",
    "split_points",
    "status",
];

/// A request of this database was executed.
pub fn note(parts: &Parts, database: Option<&Database>, request: &Request<'_>, micros: u64) {
    if let Some(operation) = operation(request) {
        parts.note_request("keyvalue", operation, database, micros, || shape(request));
    }
}

/// Its place among the operations that are measured.
fn operation(request: &Request<'_>) -> Option<usize> {
    Some(match request {
        Request::Hello(_) | Request::Release { .. } | Request::Cancel { .. } => return None,
        Request::ReadVersion | Request::OpenVersion { .. } => 0,
        Request::Get { .. } => 1,
        Request::GetKey { .. } => 2,
        Request::GetRange(_) => 3,
        Request::Commit(_) => 4,
        Request::Watch { .. } => 5,
        Request::EstimatedBytes { .. } => 6,
        Request::SplitPoints { .. } => 7,
        Request::Status => 8,
    })
}

fn shape(request: &Request<'_>) -> String {
    match request {
        Request::Get { key, .. } | Request::Watch { key, .. } => format!("a key of {} bytes", key.len()),
        Request::GetKey { selector, .. } => format!("offset {}", selector.offset),
        Request::GetRange(RangeRequest {
            rows_max,
            bytes_max,
            reverse,
            ..
        }) => format!("rows_max {rows_max}, bytes_max {bytes_max}, reverse {reverse}"),
        Request::Commit(commit) => shape_of_commit(commit),
        Request::SplitPoints { piece_bytes, limit, .. } => format!("piece_bytes {piece_bytes}, limit {limit}"),
        _ => String::new(),
    }
}

fn shape_of_commit(commit: &Commit<'_>) -> String {
    let mutations = commit.mutations.iter();
    let bytes: usize = mutations
        .map(|mutation| mutation.key.len() + mutation.value.len())
        .sum();
    format!(
        "{} mutations of {bytes} bytes, {} read conflicts, {} write conflicts",
        commit.mutations.len(),
        commit.read_conflicts.len(),
        commit.write_conflicts.len()
    )
}

#[cfg(test)]
mod tests {
    use quartet_wire_keyvalue::{Mutation, MutationKind};

    use super::*;

    #[test]
    fn a_shape_counts_and_names_no_key_or_value() {
        let commit = Commit {
            mutations: vec![Mutation {
                kind: MutationKind::Set,
                key: b"hidden",
                value: b"hidden too",
            }],
            read_conflicts: vec![(b"a", b"b"), (b"c", b"d")],
            ..Commit::default()
        };
        let request = Request::Commit(commit);
        assert_eq!(
            shape(&request),
            "1 mutations of 16 bytes, 2 read conflicts, 0 write conflicts"
        );
        assert_eq!(operation(&request).map(|index| OPERATIONS[index]), Some("commit"));
        assert_eq!(operation(&Request::Cancel { id: 1 }), None);
        let last = operation(&Request::Status);
        assert_eq!(last, Some(OPERATIONS.len() - 1));
    }
}
