//! BITCOUNT and BITPOS.

use std::ops::{ControlFlow, Range};

use quartet_wire_resp::{Arguments, Reply};

use crate::command::error_reply::ErrorReply;
use crate::handler::context::Context;
use crate::keyspace::late_part::{HeldString, Made, STEP_BYTES};
use crate::keyspace::string_value::{Piece, StringValue, length};
use crate::keyspace::{Entry, Kind};
use crate::{command::errors, command::parse};

/// A part of a value: both ends included, counted from the end if negative, in bytes or bits.
#[derive(Clone, Copy)]
struct Part {
    start: i64,
    end: Option<i64>,
    in_bits: bool,
}

impl Part {
    /// Reads `[start [end [BYTE|BIT]]]`; at most three words.
    fn parse(words: Arguments<'_>) -> Result<Option<Part>, ErrorReply> {
        let Some(start) = words.get(0) else {
            return Ok(None);
        };
        let start = parse::required_integer(start)?;
        let end = words.get(1).map(parse::required_integer).transpose()?;
        let in_bits = match words.get(2) {
            None => false,
            Some(unit) if parse::is(unit, "BYTE") => false,
            Some(unit) if parse::is(unit, "BIT") => true,
            Some(_) => return Err(errors::SYNTAX.into()),
        };
        Ok(Some(Part { start, end, in_bits }))
    }

    /// Returns its bits within a value of `bytes`.
    fn bits(self, value_bytes: u64) -> Range<u64> {
        let unit_bits = if self.in_bits { 1 } else { 8 };
        let length = value_bytes as i64 * 8 / unit_bits;
        let from_front = |index: i64| if index < 0 { (length + index).max(0) } else { index };
        let start = from_front(self.start);
        let end = from_front(self.end.unwrap_or(-1)).min(length - 1);
        if start > end {
            return 0..0;
        }
        (start * unit_bits) as u64..((end + 1) * unit_bits) as u64
    }
}

pub fn bitcount(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let part = match arguments.len() {
        2 => None,
        4 | 5 => Part::parse(arguments.tail(2))?,
        3 => {
            parse::required_integer(&arguments[2]).ok();
            return Err(errors::SYNTAX.into());
        }
        _ => return Err(errors::SYNTAX.into()),
    };
    let found = context.read_kind(&arguments[1], Kind::String)?;
    let length = length(found.as_ref());
    let bits = match part {
        // As in Redis 7 this is checked before the indexes are clamped to the value.
        Some(Part {
            start, end: Some(end), ..
        }) if start < 0 && end < 0 && start > end => 0..0,
        Some(part) => part.bits(length),
        None => 0..length * 8,
    };
    let Some(entry) = found else {
        context.reply.integer(0);
        return Ok(());
    };
    if context.makes_late((bits.end - bits.start) / 8) {
        let (string, protocol) = (HeldString::new(context.tx, &entry), context.reply.protocol());
        let (mut remaining, mut ones) = (bits, 0);
        context.make_late(context.reply.mark(), 0, move |out| {
            let end = remaining.end.min(remaining.start + 8 * STEP_BYTES);
            let mut is_read = true;
            ones += ones_of(remaining.start..end, |bytes, visit| is_read = string.each(bytes, visit));
            remaining.start = end;
            match (is_read, remaining.is_empty()) {
                (false, _) => return Made::Unreadable,
                (true, false) => return Made::Partly,
                (true, true) => {}
            }
            Reply::new(out, protocol).integer(ones as i64);
            Made::Wholly
        });
        return Ok(());
    }
    let ones = ones_of(bits, |bytes, visit| {
        StringValue::of(&entry).each(context.tx, bytes, visit)
    });
    context.reply.integer(ones as i64);
    Ok(())
}

/// The number of set bits; `walk` visits the bytes of a range.
fn ones_of(bits: Range<u64>, walk: impl FnOnce(Range<u64>, VisitPiece<'_>)) -> u64 {
    let mut ones = 0;
    each_piece(bits, walk, &mut |piece, bits| {
        if let Piece::Bytes(bytes) = piece {
            ones += count_ones(bytes, bits);
        }
        ControlFlow::Continue(())
    });
    ones
}

/// Takes pieces of a value, one after the other.
type VisitPiece<'v> = &'v mut dyn FnMut(Piece<'_>) -> ControlFlow<()>;

/// Visits the bytes that hold `bits`, each piece with the bits inside it, counted from its own
/// start.
fn each_piece(
    bits: Range<u64>,
    walk: impl FnOnce(Range<u64>, VisitPiece<'_>),
    visit: &mut dyn FnMut(Piece<'_>, Range<u64>) -> ControlFlow<()>,
) {
    let bytes = bits.start / 8..bits.end.div_ceil(8);
    let mut at = bytes.start * 8;
    walk(bytes, &mut |piece| {
        let piece_bits = 8 * piece.length();
        let inside = bits.start.max(at) - at..bits.end.min(at + piece_bits) - at;
        at += piece_bits;
        visit(piece, inside)
    });
}

fn count_ones(value: &[u8], bits: Range<u64>) -> u64 {
    if bits.is_empty() {
        return 0;
    }
    let (first, last) = ((bits.start / 8) as usize, ((bits.end - 1) / 8) as usize);
    let (chunks, tail) = value[first..=last].as_chunks::<8>();
    let whole: u64 = chunks
        .iter()
        .map(|&chunk| u64::from(u64::from_ne_bytes(chunk).count_ones()))
        .sum();
    let whole = whole + tail.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
    let before = value[first] & !mask_from(bits.start);
    let after = value[last] & !mask_to(bits.end);
    whole - u64::from(before.count_ones()) - u64::from(after.count_ones())
}

/// The bits of the start's byte that belong to a range.
fn mask_from(start: u64) -> u8 {
    0xff >> (start % 8)
}

/// The bits of the last byte that belong to a range with this exclusive end.
fn mask_to(end: u64) -> u8 {
    0xff << ((8 - end % 8) % 8)
}

pub fn bitpos(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let bit = match parse::required_integer(&arguments[2])? {
        0 => false,
        1 => true,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    if arguments.len() > 6 {
        return Err(errors::SYNTAX.into());
    }
    let part = Part::parse(arguments.tail(3))?;
    let Some(entry) = context.read_kind(&arguments[1], Kind::String)? else {
        context.reply.integer(if bit { -1 } else { 0 });
        return Ok(());
    };
    let length = StringValue::of(&entry).length();
    let bits = part.map_or(0..length * 8, |part| part.bits(length));
    let end_is_given = part.is_some_and(|part| part.end.is_some());
    let bit_position = match position(context, &entry, bits.clone(), bit) {
        Some(position) => position as i64,
        // Clear bits follow the value, unless the range ends before.
        None if !bit && !end_is_given && !bits.is_empty() => bits.end as i64,
        None => -1,
    };
    context.reply.integer(bit_position);
    Ok(())
}

/// The first bit of the range that is set, or clear.
fn position(context: &mut Context<'_, '_>, entry: &Entry, bits: Range<u64>, bit: bool) -> Option<u64> {
    let (mut bit_position, mut at) = (None, bits.start / 8 * 8);
    let walk = |bytes, visit: VisitPiece<'_>| StringValue::of(entry).each(context.tx, bytes, visit);
    each_piece(bits, walk, &mut |piece, bits| {
        let inside = match piece {
            Piece::Bytes(bytes) => find(bytes, bits, bit),
            Piece::Zeros(_) if bit => None,
            Piece::Zeros(_) => Some(bits.start),
        };
        bit_position = inside.map(|position| at + position);
        at += 8 * piece.length();
        match bit_position {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    });
    bit_position
}

/// The same for bytes in memory.
fn find(value: &[u8], bits: Range<u64>, bit: bool) -> Option<u64> {
    if bits.is_empty() {
        return None;
    }
    let (first, last) = ((bits.start / 8) as usize, ((bits.end - 1) / 8) as usize);
    let candidates = |index: usize| {
        let byte = if bit { value[index] } else { !value[index] };
        let from = if index == first { mask_from(bits.start) } else { 0xff };
        let to = if index == last { mask_to(bits.end) } else { 0xff };
        byte & from & to
    };
    let position = |index: usize| index as u64 * 8 + u64::from(candidates(index).leading_zeros());
    if candidates(first) != 0 {
        return Some(position(first));
    }
    let skipped = if bit { 0 } else { 0xff };
    let tail = &value[first + 1..last + 1];
    let index = first + 1 + tail.iter().position(|&byte| byte != skipped)?;
    (candidates(index) != 0).then(|| position(index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use proptest::prelude::*;

    #[test]
    fn bits_are_counted() {
        Fixture::new().connect().check(
            "SET a foobar => OK
             BITCOUNT a => 26
             BITCOUNT a 0 0 => 4
             BITCOUNT a 1 1 BYTE => 6
             BITCOUNT a 5 30 bit => 17
             BITCOUNT a -1 -2 => 0
             BITCOUNT a 0 -100 => 4
             BITCOUNT a -9223372036854775808 9223372036854775807 BIT => 26
             BITCOUNT a 9223372036854775807 -9223372036854775808 => 0
             BITCOUNT nosuch => 0
             BITCOUNT a 0 => !ERR syntax error
             BITCOUNT nosuch 0 => !ERR syntax error
             BITCOUNT a 0 1 HALF => !ERR syntax error
             BITCOUNT a 0 1 BIT 2 => !ERR syntax error
             BITCOUNT a x 1 => !ERR value is not an integer or out of range",
        );
    }

    #[test]
    fn bits_are_found() {
        Fixture::new().connect().check(
            "SET a foobar => OK
             BITPOS a 1 => 1
             BITPOS a 0 => 0
             BITPOS a 1 2 => 17
             BITPOS a 1 -1 -1 => 41
             BITPOS a 1 7 9 BIT => 9
             BITPOS a 1 7 8 BIT => -1
             BITPOS a 1 9223372036854775807 => -1
             BITPOS a 0 -9223372036854775808 9223372036854775807 => 0
             BITPOS nosuch 0 => 0
             BITPOS nosuch 1 => -1
             BITPOS nosuch 0 5 => 0
             BITPOS a 2 => !ERR The bit argument must be 1 or 0.
             BITPOS a 1 0 1 HALF => !ERR syntax error
             BITPOS a 1 0 1 BIT 3 => !ERR syntax error
             BITFIELD ones SET u16 0 65535 => [0]
             BITPOS ones 0 => 16
             BITPOS ones 0 1 => 16
             BITPOS ones 0 0 -1 => -1
             BITPOS ones 0 2 => -1
             SET empty \"\" => OK
             BITPOS empty 0 => -1
             BITPOS empty 1 => -1",
        );
    }

    proptest! {
        #[test]
        fn both_agree_with_single_bits(
            value in prop::collection::vec(prop::sample::select(vec![0u8, 0xff, 0x18]), 0..20),
            start in 0u64..160,
            length in 0u64..160,
            wanted: bool,
        ) {
            let bits = value.len() as u64 * 8;
            let range = start.min(bits)..(start + length).min(bits);
            let is_set = |bit: u64| value[(bit / 8) as usize] & 0x80 >> (bit % 8) != 0;
            let ones = range.clone().filter(|&bit| is_set(bit)).count() as u64;
            prop_assert_eq!(count_ones(&value, range.clone()), ones);
            prop_assert_eq!(find(&value, range.clone(), wanted), range.clone().find(|&bit| is_set(bit) == wanted));
        }
    }
}
