//! Requests that arrived together, whose rows are prefetched together: several descents in parallel
//! take little longer than one.

use quartet_engine::Reader;
use quartet_engine::Walk;
use quartet_wire_keyvalue::{Commit, Frame, Malformed, MutationKind, RangeRequest, Request, next_frame};
use smallvec::SmallVec;

/// Requests that are looked at together.
const TOGETHER_MAX: usize = 16;
/// Larger requests are looked at by themselves.
const FRAME_BYTES_MAX: usize = 4 << 10;
/// Smallest number of mutations for which the rows of commits are prefetched together.
const MUTATIONS_ENOUGH: usize = 24;
/// Rows of a range that are prefetched, if it is not known to have fewer.
const RANGE_ROWS_MAX: usize = 16;

/// Requests that arrived together, in their order.
pub type Together<'a> = SmallVec<[(Frame<'a>, Request<'a>); TOGETHER_MAX]>;

/// Returns the first request of `input`, and the following requests that are worth batching with
/// it; empty if the first request is incomplete.
pub fn first_requests(input: &[u8], frame_bytes_max: usize) -> Result<Together<'_>, Malformed> {
    let mut together = Together::new();
    let Some(first) = next_frame(input, frame_bytes_max)? else {
        return Ok(together);
    };
    together.push((first, Request::parse(&first)?));
    let mut bytes = first.bytes;
    // Incomplete or malformed frames are handled when they reach the front.
    while wants_more(&together)
        && let Ok(Some(frame)) = next_frame(&input[bytes..], frame_bytes_max)
        && frame.code == first.code
        && frame.bytes <= FRAME_BYTES_MAX
        && let Ok(request) = Request::parse(&frame)
        && batches_with(&together[0].1, &request)
    {
        bytes += frame.bytes;
        together.push((frame, request));
    }
    Ok(together)
}

fn wants_more(together: &[(Frame<'_>, Request<'_>)]) -> bool {
    let mutations = |request: &Request<'_>| match request {
        Request::Commit(commit) => commit.mutations.len(),
        _ => 0,
    };
    together.len() < TOGETHER_MAX
        && together.iter().map(|(_, request)| mutations(request)).sum::<usize>() < MUTATIONS_ENOUGH
}

/// Returns true for two requests of one kind. The rows that ranges read at different versions are
/// mostly at the same addresses.
fn batches_with(first: &Request<'_>, next: &Request<'_>) -> bool {
    match (first, next) {
        (Request::Get { version, .. }, Request::Get { version: other, .. }) => version == other,
        (Request::GetRange(_), Request::GetRange(_)) | (Request::Commit(_), Request::Commit(_)) => true,
        _ => false,
    }
}

/// The keys of the requests that read single keys.
pub(crate) fn keys_read<'a>(together: &[(Frame<'a>, Request<'a>)]) -> SmallVec<[&'a [u8]; TOGETHER_MAX]> {
    let keys = together.iter().filter_map(|(_, request)| match request {
        Request::Get { key, .. } => Some(*key),
        _ => None,
    });
    keys.collect()
}

/// Prefetches the first rows of the ranges.
pub(crate) fn fetch_ranges(reader: &Reader, together: &[(Frame<'_>, Request<'_>)]) {
    let walks = together.iter().filter_map(|(_, request)| match request {
        Request::GetRange(range) => Some(walk(range)),
        _ => None,
    });
    reader.fetch_walks(&walks.collect::<SmallVec<[_; TOGETHER_MAX]>>());
}

fn walk<'a>(range: &RangeRequest<'a>) -> Walk<'a> {
    let from = if range.reverse { &range.end } else { &range.begin };
    let rows = match range.rows_max as usize {
        0 => RANGE_ROWS_MAX,
        rows => rows.min(RANGE_ROWS_MAX),
    };
    Walk {
        from: from.key,
        reverse: range.reverse,
        rows,
    }
}

/// The keys that commits write, as far as they are known beforehand.
pub(crate) fn keys_written<'t>(together: &'t [(Frame<'_>, Request<'_>)]) -> impl Iterator<Item = &'t [u8]> {
    let commits = together.iter().filter_map(|(_, request)| match request {
        Request::Commit(commit) => Some(commit),
        _ => None,
    });
    commits.flat_map(|commit: &Commit<'_>| {
        let mutations = commit.mutations.iter();
        mutations
            .filter(|mutation| {
                !matches!(
                    mutation.kind,
                    MutationKind::ClearRange | MutationKind::SetVersionstampedKey
                )
            })
            .map(|mutation| mutation.key)
    })
}

#[cfg(test)]
mod tests {
    use quartet_wire_keyvalue::Selector;

    use super::*;

    const GET: Request<'_> = Request::Get {
        version: 7,
        system: false,
        key: b"k",
    };

    fn check(input: &[u8], requests: usize) {
        let together = first_requests(input, quartet_wire_keyvalue::FRAME_BYTES_MAX).unwrap();
        assert_eq!(together.len(), requests);
    }

    fn put(requests: &[Request<'_>]) -> Vec<u8> {
        let mut input = Vec::new();
        requests.iter().for_each(|request| request.put(1, &mut input));
        input
    }

    #[test]
    fn requests_of_a_kind_are_taken_together() {
        let at_8 = Request::Get {
            version: 8,
            system: false,
            key: b"k",
        };
        let bound = Selector {
            key: b"k",
            or_equal: false,
            offset: 1,
        };
        let range = |version| {
            Request::GetRange(RangeRequest {
                version,
                begin: bound,
                end: bound,
                rows_max: 0,
                bytes_max: 0,
                reverse: false,
                system: false,
            })
        };
        check(b"", 0);
        check(&put(&[GET]), 1);
        check(&put(&[GET, GET]), 2);
        check(&put(&[GET, GET, at_8]), 2);
        check(&put(&[GET, Request::ReadVersion, GET]), 1);
        check(&put(&[Request::ReadVersion, Request::ReadVersion]), 1);
        check(&put(&[range(7), range(8), GET]), 2);
        check(&put(&vec![GET; 100]), TOGETHER_MAX);
    }

    #[test]
    fn absent_or_unreadable_requests_are_left_for_later() {
        let mut input = put(&[GET, GET]);
        check(&input[..input.len() - 1], 1);
        check(&input[..input.len() / 2 - 1], 0);
        input.extend_from_slice(b"\xff\xff\xff\xff and no frame");
        check(&input, 2);
        assert!(first_requests(b"\xff\xff\xff\xff and no frame", 100).is_err());
        assert!(first_requests(b"\x05\0\0\0\x01\0\0\0\xff", 100).is_err());
    }

    #[test]
    fn commits_are_taken_together_until_they_write_enough() {
        let commit = |mutations| {
            let set = quartet_wire_keyvalue::Mutation {
                kind: MutationKind::Set,
                key: b"k",
                value: b"v",
            };
            Request::Commit(Commit {
                mutations: vec![set; mutations],
                ..Commit::default()
            })
        };
        check(&put(&vec![commit(10); 5]), 3);
        check(&put(&[commit(MUTATIONS_ENOUGH), commit(1)]), 1);
        check(&put(&[commit(1), commit(FRAME_BYTES_MAX)]), 1);
        let written = [commit(2), commit(1)].map(|request| {
            let frame = Frame {
                id: 1,
                code: 0,
                body: b"",
                bytes: 0,
            };
            (frame, request)
        });
        assert_eq!(keys_written(&written).count(), 3);
    }
}
