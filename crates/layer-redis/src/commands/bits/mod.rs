//! Bits of strings. Bit 0 is the highest bit of the first byte.

mod combine;
mod fields;
mod search;
mod single;

use crate::command::parse;
use crate::handler::definition::*;

/// Keys of BITOP, whose first argument is the operation.
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

pub const COMMANDS: &[Definition] = &[
    command(
        "setbit",
        4,
        WRITE | DENYOOM,
        ONE_KEY,
        Group::Bitmap,
        "2.2.0",
        "O(1)",
        "Sets or clears one bit of a string value, which grows as needed.",
        single::setbit,
    ),
    command(
        "getbit",
        3,
        READONLY | FAST,
        ONE_KEY,
        Group::Bitmap,
        "2.2.0",
        "O(1)",
        "Returns one bit of a string value.",
        single::getbit,
    ),
    command(
        "bitcount",
        -2,
        READONLY,
        ONE_KEY,
        Group::Bitmap,
        "2.6.0",
        "O(N) in the length of the range",
        "Counts the set bits of a string value or a part of it.",
        search::bitcount,
    ),
    command(
        "bitpos",
        -3,
        READONLY,
        ONE_KEY,
        Group::Bitmap,
        "2.8.7",
        "O(N) in the length of the range",
        "Finds the first set or clear bit of a string value or a part of it.",
        search::bitpos,
    ),
    command(
        "bitop",
        -4,
        WRITE | DENYOOM,
        TARGET_AND_SOURCES,
        Group::Bitmap,
        "2.6.0",
        "O(N) in the lengths of the values together",
        "Combines string values bit by bit and stores the result.",
        combine::bitop,
    ),
    command(
        "bitfield",
        -2,
        WRITE | DENYOOM,
        ONE_KEY,
        Group::Bitmap,
        "3.2.0",
        "O(1) for each operation",
        "Reads and changes integers of any width inside a string value.",
        fields::bitfield,
    ),
    command(
        "bitfield_ro",
        -2,
        READONLY | FAST,
        ONE_KEY,
        Group::Bitmap,
        "6.0.0",
        "O(1) for each operation",
        "Reads integers of any width inside a string value.",
        fields::bitfield_ro,
    ),
];
