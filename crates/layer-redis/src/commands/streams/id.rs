//! IDs of stream entries, as commands name them: exact, with a part missing, as ends of a range.

use std::ops::RangeInclusive;

pub use quartet_wire_rdb::stream_id::{ID_BYTES, StreamId};
use quartet_wire_resp::Arguments;

use crate::command::error_reply::ErrorReply;
use crate::command::parse;

pub const INVALID: &str = "ERR Invalid stream ID specified as stream command argument";
/// Every ID that there can be.
pub const ALL_IDS: RangeInclusive<StreamId> = StreamId::ZERO..=StreamId::MAX;
/// Longer words are no IDs.
const WORD_BYTES_MAX: usize = 127;

/// The ID that XADD is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewId {
    /// `*`: from the time.
    Auto,
    /// `ms-*`: the next of that millisecond.
    Millisecond(u64),
    Given(StreamId),
}

/// Parses `ms-seq`, or only `ms` with the sequence number `missing_seq`.
pub fn exact(word: &[u8], missing_seq: u64) -> Result<StreamId, ErrorReply> {
    read(word, missing_seq).ok_or(ErrorReply::new(INVALID))
}

/// The same without the error, for words that may be something else.
pub fn read(word: &[u8], missing_seq: u64) -> Option<StreamId> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let (ms, seq) = split(parse::before_nul(word));
    let seq = seq.map_or(Some(missing_seq), number)?;
    Some(StreamId::new(number(ms)?, seq))
}

/// `ms-seq`, `ms-*` or `*`.
pub fn new_id(word: &[u8]) -> Result<NewId, ErrorReply> {
    if word.len() > WORD_BYTES_MAX {
        return Err(INVALID.into());
    }
    let word = parse::before_nul(word);
    if word == b"*" {
        return Ok(NewId::Auto);
    }
    match split(word) {
        (ms, Some(b"*")) => number(ms).map(NewId::Millisecond).ok_or(INVALID.into()),
        _ => exact(word, 0).map(NewId::Given),
    }
}

/// An ID, or `-` and `+` for the least and the greatest.
pub fn exact_or_end(word: &[u8], missing_seq: u64) -> Result<StreamId, ErrorReply> {
    match parse::before_nul(word) {
        b"-" => Ok(StreamId::ZERO),
        b"+" => Ok(StreamId::MAX),
        _ => exact(word, missing_seq),
    }
}

/// The start of a range: `-`, an ID, or `(` and an ID that is left out.
pub fn range_start(word: &[u8]) -> Result<StreamId, ErrorReply> {
    match excluded(word) {
        Some(word) => exact(word, 0)?
            .next()
            .ok_or("ERR invalid start ID for the interval".into()),
        None => exact_or_end(word, 0),
    }
}

/// The end of a range, which belongs to it. An ID without a sequence number means all of its
/// millisecond.
pub fn range_end(word: &[u8]) -> Result<StreamId, ErrorReply> {
    match excluded(word) {
        Some(word) => exact(word, u64::MAX)?
            .previous()
            .ok_or("ERR invalid end ID for the interval".into()),
        None => exact_or_end(word, u64::MAX),
    }
}

fn excluded(word: &[u8]) -> Option<&[u8]> {
    word.strip_prefix(b"(").filter(|word| !word.is_empty())
}

fn split(word: &[u8]) -> (&[u8], Option<&[u8]>) {
    match word.iter().position(|&byte| byte == b'-') {
        Some(dash) => (&word[..dash], Some(&word[dash + 1..])),
        None => (word, None),
    }
}

/// Unsigned digits as C's strtoull parses them: leading blanks, a plus and zeros are allowed.
fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits.trim_ascii_start()).ok()?.parse().ok()
}

/// IDs, all of which must be right before anything is done.
pub fn all(arguments: Arguments<'_>) -> Result<Vec<StreamId>, ErrorReply> {
    arguments.iter().map(|word| exact(word, 0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(id: StreamId) -> String {
        String::from_utf8(id.text().as_bytes().to_vec()).unwrap()
    }

    fn check(read: Result<StreamId, ErrorReply>, expected: &str) {
        let outcome = match read {
            Ok(id) => shown(id),
            Err(error) => error.text.into_owned(),
        };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn ids_are_read_and_shown() {
        check(exact(b"5-7", 0), "5-7");
        check(exact(b"5", 9), "5-9");
        check(exact(b"007-+1", 0), "7-1");
        check(exact(b"5-7\0x", 0), "5-7");
        check(exact(b"5\0-7", 9), "5-9");
        let greatest = "18446744073709551615-18446744073709551615";
        check(exact(greatest.as_bytes(), 0), greatest);
        check(exact_or_end(b"+", 0), greatest);
        for word in [
            "",
            "-",
            "+",
            "5-",
            "-5",
            "5-x",
            "5--3",
            "18446744073709551616",
            "1-2-3",
            "*",
        ] {
            check(exact(word.as_bytes(), 0), INVALID);
        }
        check(exact(&[b'1'; 128], 0), INVALID);
    }

    #[test]
    fn ranges_leave_out_what_is_marked() {
        check(range_start(b"-"), "0-0");
        check(range_start(b"(5"), "5-1");
        check(range_start(b"(5-18446744073709551615"), "6-0");
        check(range_end(b"5"), "5-18446744073709551615");
        check(range_end(b"(5"), "5-18446744073709551614");
        check(range_end(b"(5-0"), "4-18446744073709551615");
        check(range_end(b"(0-0"), "ERR invalid end ID for the interval");
        check(range_start(b"(+"), INVALID);
        check(range_start(b"("), INVALID);
    }
}
