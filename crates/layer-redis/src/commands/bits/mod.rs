//! Bits of strings. Bit 0 is the highest bit of the first byte.

mod combine;
mod fields;
mod search;
mod single;

use crate::command::parse;
use crate::handler::definition::*;

/// Keys of BITOP. Its first argument is the operation.
const TARGET_AND_SOURCES: Keys = Keys::Range {
    first: 2,
    last: -1,
    step: 1,
};

/// Bits that can be addressed, of values that can be stored or not: 512 MB.
const BITS_MAX: i64 = (512 << 20) * 8;

/// A bit's position.
fn offset(text: &[u8]) -> Result<u64, ErrorReply> {
    checked_offset(parse::integer(text))
}

fn checked_offset(offset: Option<i64>) -> Result<u64, ErrorReply> {
    offset
        .filter(|offset| (0..BITS_MAX).contains(offset))
        .map(|offset| offset as u64)
        .ok_or_else(|| "ERR bit offset is not an integer or out of range".into())
}

const FAMILY: Family = Family::of(Group::Bitmap).keys(ONE_KEY).since("2.2.0");

#[rustfmt::skip]
pub const COMMANDS: &[Definition] = &[
    FAMILY.row("setbit", 4, WRITE | DENYOOM, "Sets or clears one bit of a string value, which grows as needed.", Answers(single::setbit)),
    FAMILY.row("getbit", 3, READONLY | FAST, "Returns one bit of a string value.", Answers(single::getbit)),
    FAMILY.row("bitcount", -2, READONLY, "Counts the set bits of a string value or a part of it.", Answers(search::bitcount)).since("2.6.0").complexity("O(N) in the length of the range"),
    FAMILY.row("bitpos", -3, READONLY, "Finds the first set or clear bit of a string value or a part of it.", Answers(search::bitpos)).since("2.8.7").complexity("O(N) in the length of the range"),
    FAMILY.row("bitop", -4, WRITE | DENYOOM, "Combines string values bit by bit and stores the result.", Answers(combine::bitop)).keys(TARGET_AND_SOURCES).since("2.6.0").complexity("O(N) in the lengths of the values together"),
    FAMILY.row("bitfield", -2, WRITE | DENYOOM, "Reads and changes integers of any width inside a string value.", Answers(fields::bitfield)).since("3.2.0").complexity("O(1) for each operation"),
    FAMILY.row("bitfield_ro", -2, READONLY | FAST, "Reads integers of any width inside a string value.", Answers(fields::bitfield_ro)).since("6.0.0").complexity("O(1) for each operation"),
];
