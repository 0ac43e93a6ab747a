//! HSCAN, SSCAN and their like over a collection: options, cursors, and the order of a large
//! collection's elements.
//!
//! ```text
//! element key of a large collection:   position (8 bytes, big-endian)  element
//! position = xxh3(element), never 0;   cursor = top 53 bits of the position to go on from, 0 = the start and the end
//! ```
//!
//! Elements are rows in key order, but an element does not fit into a 64-bit cursor; its hash does.
//! So a large collection is stored in the order of its elements' hashes: still one point look-up
//! for each, and a cursor that needs no memory on the server, survives a restart and is correct
//! under concurrent writes. An element's position never changes, so an element that exists during a
//! whole iteration is returned exactly once. Elements with equal cursors are returned together,
//! because a cursor cannot point between them. It has 53 bits because clients, of JavaScript in
//! particular, keep it in a float. Keys with position 0 are not elements; a family may keep an
//! index of its own there. A collection packed in one row is returned whole, with cursor 0.
//!
//! Follows <https://redis.io/docs/latest/commands/scan/>.

use std::ops::ControlFlow;

use quartet_engine::Row;
use quartet_engine::Transaction;
use quartet_wire_resp::{Arguments, Reply};
use xxhash_rust::xxh3::xxh3_64;

use crate::command::error_reply::ErrorReply;
use crate::keyspace::Elements;
use crate::{command::errors, command::glob, command::parse};

/// The scan command, for the options that only some of them have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// SCAN: knows TYPE, and WITHTYPE as Upstash's does.
    Keys,
    /// HSCAN: knows NOVALUES.
    Hash,
    /// SSCAN.
    Members,
    /// ZSCAN: knows NOSCORES, as Valkey's does.
    SortedSet,
}

/// The elements after the cursor.
#[derive(Debug, PartialEq, Eq)]
pub struct Options<'a> {
    /// About how many elements a page shall have; at least 1.
    pub count: u64,
    /// `None`: everything matches.
    pub pattern: Option<&'a [u8]>,
    /// TYPE of SCAN, unchecked.
    pub kind: Option<&'a [u8]>,
    /// NOVALUES or NOSCORES: only the elements.
    pub no_values: bool,
    /// WITHTYPE of SCAN: each name is followed by its type.
    pub with_type: bool,
}

impl Options<'_> {
    pub fn matches(&self, element: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, element))
    }
}

/// The cursor argument.
pub fn cursor(text: &[u8]) -> Result<u64, ErrorReply> {
    let text = std::str::from_utf8(text).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or(ErrorReply::new("ERR invalid cursor"))
}

/// The options, given the arguments after the cursor.
pub fn options<'a>(arguments: Arguments<'a>, scan: Scan) -> Result<Options<'a>, ErrorReply> {
    let mut options = Options {
        count: 10,
        pattern: None,
        kind: None,
        no_values: false,
        with_type: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if parse::is(word, "novalues") {
            if scan != Scan::Hash {
                return Err("ERR NOVALUES option can only be used in HSCAN".into());
            }
            options.no_values = true;
            continue;
        }
        if parse::is(word, "noscores") {
            if scan != Scan::SortedSet {
                return Err("ERR NOSCORES option can only be used in ZSCAN".into());
            }
            options.no_values = true;
            continue;
        }
        if scan == Scan::Keys && parse::is(word, "withtype") {
            options.with_type = true;
            continue;
        }
        let value = words.next().ok_or(ErrorReply::new(errors::SYNTAX))?;
        if parse::is(word, "count") {
            let count = parse::required_integer(value)?;
            options.count = u64::try_from(count)
                .ok()
                .filter(|&count| count > 0)
                .ok_or(ErrorReply::new(errors::SYNTAX))?;
        } else if parse::is(word, "match") {
            options.pattern = (value != b"*").then_some(value);
        } else if parse::is(word, "type") && scan == Scan::Keys {
            options.kind = Some(value);
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    Ok(options)
}

/// The position of an element in a large collection.
pub type Position = [u8; POSITION_BYTES];

pub fn position(element: &[u8]) -> Position {
    xxh3_64(element).max(1).to_be_bytes()
}

/// The row of an element of a large collection, with the element's position and name as its key.
pub fn get(elements: &Elements, tx: &mut Transaction<'_>, element: &[u8]) -> Option<Row> {
    tx.get_parts(&elements.row_key(&position(element), [element, b""]))
}

/// Returns the row that was replaced.
pub fn set<'t>(elements: &Elements, tx: &'t mut Transaction<'_>, element: &[u8], value: &[u8]) -> Option<&'t Row> {
    tx.set_parts(&elements.row_key(&position(element), [element, b""]), &[value])
}

/// Returns the previous row.
pub fn clear(elements: &Elements, tx: &mut Transaction<'_>, element: &[u8]) -> Option<Row> {
    tx.clear_parts(&elements.row_key(&position(element), [element, b""]))
}

/// Elements from which they are removed in the order of their rows.
pub const MANY: usize = 64;

/// Removes the elements. Shows the rows that were there: in their order if they are many, which
/// costs a third of removing each by itself.
pub fn clear_many<'m>(
    elements: &Elements,
    tx: &mut Transaction<'_>,
    members: impl ExactSizeIterator<Item = &'m [u8]>,
    visit: &mut dyn FnMut(&Row),
) {
    if members.len() < MANY {
        let rows = members.filter_map(|member| clear(elements, tx, member));
        rows.for_each(|row| visit(&row));
        return;
    }
    let mut placed: Vec<(Position, &[u8])> = members.map(|member| (position(member), member)).collect();
    placed.sort_unstable();
    let keys = placed
        .iter()
        .map(|(position, member)| elements.row_key(position, [*member, b""]));
    elements.clear_many(tx, keys, visit);
}

/// The element that an element key stands for.
pub fn element_of(key: &[u8]) -> &[u8] {
    &key[POSITION_BYTES..]
}

/// The least element key, after the family's rows at position 0.
pub const FIRST: [u8; POSITION_BYTES] = 1_u64.to_be_bytes();
const POSITION_BYTES: usize = 8;
/// A cursor is the position without its lowest eleven bits.
const POSITIONS_PER_CURSOR: u64 = 1 << 11;

/// Visits about `count` elements of a large collection, from where `cursor` says. Returns the next
/// page's cursor, 0 after the last.
pub fn page(
    elements: &Elements,
    tx: &mut Transaction<'_>,
    cursor: u64,
    count: u64,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) -> u64 {
    let (mut visited, mut last, mut next) = (0, 0, 0);
    let Some(start) = cursor.checked_mul(POSITIONS_PER_CURSOR) else {
        return 0;
    };
    let start = start.max(1).to_be_bytes();
    elements.scan(tx, &start, None, false, &mut |key, value| {
        let position = u64::from_be_bytes(key[..POSITION_BYTES].try_into().expect("eight bytes of position"));
        let cursor = position / POSITIONS_PER_CURSOR;
        if visited >= count && cursor != last {
            next = cursor;
            return ControlFlow::Break(());
        }
        visit(element_of(key), value);
        visited += 1;
        last = cursor;
        ControlFlow::Continue(())
    });
    next
}

/// A page as any of these commands answers it: the next cursor, then what was found.
pub fn write_page(reply: &mut Reply<'_>, next: u64, elements: &[Vec<u8>]) {
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(elements.len());
    elements.iter().for_each(|bytes| reply.bulk(bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use quartet_wire_resp::{Limits, Parsed, Parser, encode_command};

    fn check(words: &[&str], scan: Scan, expected: Result<(u64, Option<&[u8]>, bool), &str>) {
        let (mut request, mut parser) = (Vec::new(), Parser::new());
        encode_command(words, &mut request);
        let parsed = parser.parse(&request, &Limits::default());
        assert!(matches!(parsed, Ok(Parsed::Request { .. })));
        let outcome = options(parser.arguments(&request), scan);
        let outcome = outcome.map(|options| (options.count, options.pattern, options.no_values));
        match (outcome, expected) {
            (Ok(options), Ok(expected)) => assert_eq!(options, expected, "{words:?}"),
            (Err(error), Err(expected)) => assert_eq!(error.text, expected, "{words:?}"),
            (outcome, _) => panic!("{words:?} gave {outcome:?}"),
        }
    }

    #[test]
    fn options_are_read() {
        check(
            &["COUNT", "5", "match", "a*"],
            Scan::Members,
            Ok((5, Some(b"a*"), false)),
        );
        check(&["match", "*", "novalues"], Scan::Hash, Ok((10, None, true)));
        check(&["type", "set"], Scan::Keys, Ok((10, None, false)));
        check(&["type", "set"], Scan::Members, Err(errors::SYNTAX));
        check(&["withtype", "count", "5"], Scan::Keys, Ok((5, None, false)));
        check(&["withtype"], Scan::Members, Err(errors::SYNTAX));
        check(&["count"], Scan::Members, Err(errors::SYNTAX));
        check(&["count", "0"], Scan::Members, Err(errors::SYNTAX));
        check(&["count", "-9223372036854775808"], Scan::Members, Err(errors::SYNTAX));
        check(&["count", "x"], Scan::Members, Err(errors::NOT_INTEGER));
        check(
            &["novalues"],
            Scan::Members,
            Err("ERR NOVALUES option can only be used in HSCAN"),
        );
    }

    #[test]
    fn cursors_are_unsigned() {
        assert_eq!(cursor(b"18446744073709551615").ok(), Some(u64::MAX));
        for text in ["18446744073709551616", "-1", "", "x", " 1"] {
            assert_eq!(cursor(text.as_bytes()), Err(ErrorReply::new("ERR invalid cursor")));
        }
    }
}
