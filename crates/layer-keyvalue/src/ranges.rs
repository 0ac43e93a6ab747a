//! Reading a range within limits.

use std::ops::ControlFlow;

use quartet_engine::Reader;
use quartet_wire_keyvalue::{RangeReply, RangeRequest};

use crate::keys_end;
use crate::selectors::bound;

/// Most bytes of rows in one reply, regardless of the client's limits.
const REPLY_BYTES_MAX: usize = 1 << 20;
/// Overhead of a row beside its key and value, as the original's servers count it.
const ROW_BYTES: usize = 24;

/// Appends the rows to `body`. True if a limit ended it.
pub(crate) fn read(reader: &Reader, request: &RangeRequest<'_>, body: &mut Vec<u8>) -> bool {
    let end_of_keys = keys_end(request.system);
    let begin = bound(reader, &request.begin, end_of_keys);
    let end = bound(reader, &request.end, end_of_keys);
    if begin >= end {
        return false;
    }
    let rows_max = if request.rows_max == 0 {
        u32::MAX
    } else {
        request.rows_max
    };
    let bytes_max = match request.bytes_max as usize {
        0 => REPLY_BYTES_MAX,
        bytes => bytes.min(REPLY_BYTES_MAX),
    };
    let (mut rows, mut bytes, mut limited) = (0, 0, false);
    reader.scan(&begin, &end, request.reverse, &mut |key, value| {
        RangeReply::put_row(body, key, value);
        rows += 1;
        bytes += key.len() + value.len() + ROW_BYTES;
        limited = rows >= rows_max || bytes >= bytes_max;
        if limited {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    limited
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use quartet_engine::{CommitRequest, Mutation};
    use quartet_wire_keyvalue::Selector;

    use super::*;

    /// Returns the key that a selector names, by its definition.
    fn named(keys: &BTreeSet<Vec<u8>>, selector: &Selector<'_>) -> Vec<u8> {
        let before = keys.iter().filter(|key| match selector.or_equal {
            true => key.as_slice() <= selector.key,
            false => key.as_slice() < selector.key,
        });
        match before.count() as i32 + selector.offset {
            place if place < 1 => Vec::new(),
            place => keys
                .iter()
                .nth(place as usize - 1)
                .map_or_else(|| keys_end(false).to_vec(), Vec::clone),
        }
    }

    #[test]
    fn ranges_hold_the_rows_between_their_selectors() {
        let (engine, space) = crate::test_engine();
        let keys: BTreeSet<Vec<u8>> = [&b"a"[..], b"b", b"b\0", b"bb", b"c", b"\xfe"]
            .map(<[u8]>::to_vec)
            .into();
        let set = |key: &Vec<u8>| Mutation::Set {
            key: key.clone(),
            value: key.clone(),
        };
        let request = CommitRequest {
            mutations: keys.iter().map(set).collect(),
            ..CommitRequest::default()
        };
        engine.commit(space, &request).unwrap();
        let reader = engine.read_version(space);
        let bases: [&[u8]; 8] = [b"", b"a", b"a\0", b"b", b"bb", b"d", b"\xfe", b"\xff"];
        let selectors: Vec<Selector<'_>> = bases
            .iter()
            .flat_map(|key| [false, true].map(|or_equal| (*key, or_equal)))
            .flat_map(|(key, or_equal)| (-1..=3).map(move |offset| Selector { key, or_equal, offset }))
            .collect();
        for begin in &selectors {
            for end in &selectors {
                let (from, to) = (named(&keys, begin), named(&keys, end));
                let expected = keys.iter().filter(|key| from <= **key && **key < to).cloned();
                let mut expected: Vec<Vec<u8>> = expected.collect();
                for reverse in [false, true] {
                    let request = RangeRequest {
                        version: 1,
                        begin: *begin,
                        end: *end,
                        rows_max: 0,
                        bytes_max: 0,
                        reverse,
                        system: false,
                    };
                    let mut reply = Vec::new();
                    quartet_wire_keyvalue::Reply::put_range(&mut reply, 1, |body| read(&reader, &request, body));
                    let frame = quartet_wire_keyvalue::next_frame(&reply, 1 << 20).unwrap().unwrap();
                    let range = RangeReply::parse(frame.body).unwrap();
                    let keys: Vec<Vec<u8>> = range.rows().map(|(key, _)| key.to_vec()).collect();
                    assert_eq!(keys, expected, "{begin:?} {end:?} {reverse}");
                    expected.reverse();
                }
            }
        }
    }
}
