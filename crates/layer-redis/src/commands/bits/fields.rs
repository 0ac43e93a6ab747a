//! BITFIELD: integers of 1 to 64 bits at any bit of a string.
//!
//! Arithmetic is done in 128 bits, where nothing overflows, and then brought into the field's
//! range.

use std::ops::Range;

use quartet_wire_resp::Arguments;
use smallvec::SmallVec;

use super::checked_offset;
use crate::command::error_reply::ErrorReply;
use crate::commands::strings::check_growth;
use crate::handler::context::Context;
use crate::keyspace::string_value::{self, StringValue, length};
use crate::keyspace::{Entry, Header, Kind};
use crate::{command::errors, command::parse};

#[derive(Clone, Copy)]
struct Operation {
    field: Field,
    action: Action,
}

/// An integer's place.
#[derive(Clone, Copy)]
struct Field {
    signed: bool,
    /// 1 to 64, at most 63 if unsigned.
    bits: u32,
    offset: u64,
}

#[derive(Clone, Copy)]
enum Action {
    Get,
    Set(i64, Overflow),
    Increment(i64, Overflow),
}

/// The handling of a number that does not fit.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

pub fn bitfield(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let operations = operations(arguments)?;
    if operations.iter().all(Operation::only_reads) {
        return read(context, arguments, &operations);
    }
    write(context, &arguments[1], &operations)
}

pub fn bitfield_ro(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let operations = operations(arguments)?;
    if !operations.iter().all(Operation::only_reads) {
        return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
    }
    read(context, arguments, &operations)
}

fn operations(arguments: Arguments<'_>) -> Result<Vec<Operation>, ErrorReply> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut at = 2;
    while let Some(word) = arguments.get(at) {
        let following = arguments.len() - at - 1;
        if parse::is(word, "GET") && following >= 2 {
            let field = Field::parse(&arguments[at + 1], &arguments[at + 2])?;
            operations.push(Operation {
                field,
                action: Action::Get,
            });
            at += 3;
        } else if (parse::is(word, "SET") || parse::is(word, "INCRBY")) && following >= 3 {
            let field = Field::parse(&arguments[at + 1], &arguments[at + 2])?;
            let number = parse::required_integer(&arguments[at + 3])?;
            let action = if parse::is(word, "SET") {
                Action::Set(number, overflow)
            } else {
                Action::Increment(number, overflow)
            };
            operations.push(Operation { field, action });
            at += 4;
        } else if parse::is(word, "OVERFLOW") && following >= 1 {
            overflow = Overflow::parse(&arguments[at + 1])?;
            at += 2;
        } else {
            return Err(errors::SYNTAX.into());
        }
    }
    Ok(operations)
}

fn read(context: &mut Context<'_, '_>, arguments: Arguments<'_>, operations: &[Operation]) -> Result<(), ErrorReply> {
    let found = context.read_kind(&arguments[1], Kind::String)?;
    let length = length(found.as_ref());
    context.reply.array(operations.len());
    for operation in operations {
        let field = operation.field;
        let bytes = clipped(field.bytes(), length);
        let number = match &found {
            Some(entry) => field
                .seen_from(bytes.start)
                .load(&StringValue::of(entry).part(context.tx, bytes)),
            None => 0,
        };
        context.reply.integer(number as i64);
    }
    Ok(())
}

/// The value grows to the last bit that an operation may write, even if it fails.
fn write(context: &mut Context<'_, '_>, name: &[u8], operations: &[Operation]) -> Result<(), ErrorReply> {
    let writes = operations.iter().filter(|operation| !operation.only_reads());
    let end = writes.map(|operation| operation.field.end()).max().unwrap_or(0);
    let old = context.keys().find_kind(name, Kind::String)?;
    check_growth(context.config(), end.div_ceil(8))?;
    let new_length = length(old.as_ref()).max(end.div_ceil(8));
    let mut windows = Windows::of(context, old.as_ref(), operations, new_length);
    context.reply.array(operations.len());
    for operation in operations {
        let number = match windows.find(operation.field) {
            Some(window) => operation
                .seen_from(window.start)
                .run(&mut window.bytes, &mut window.changed),
            None => Some(0),
        };
        match number {
            Some(number) => context.reply.integer(number as i64),
            None => context.reply.null(),
        }
    }
    windows.write(context, name, old);
    Ok(())
}

/// Longest value, in bytes, that is one window, which is written once.
const WHOLE_BYTES_MAX: u64 = 1024;

/// The parts of a value that a command's operations look at, in order, none of which touches
/// another.
struct Windows {
    parts: Vec<Window>,
}

struct Window {
    /// Offset in the value, in bytes.
    start: u64,
    bytes: Vec<u8>,
    changed: bool,
}

impl Windows {
    /// Reads the windows of a value that ends at `length`, which may exceed its present length: the
    /// bytes between are zeros.
    fn of(context: &mut Context<'_, '_>, entry: Option<&Entry>, operations: &[Operation], length: u64) -> Windows {
        let touched = operations.iter().map(|operation| match length <= WHOLE_BYTES_MAX {
            true => 0..length,
            false => clipped(operation.field.bytes(), length),
        });
        let mut touched: SmallVec<[Range<u64>; 4]> = touched.filter(|bytes| !bytes.is_empty()).collect();
        touched.sort_unstable_by_key(|bytes| bytes.start);
        touched.dedup_by(|next, before| {
            let touches = next.start <= before.end;
            if touches {
                before.end = before.end.max(next.end);
            }
            touches
        });
        let mut windows = Windows {
            parts: Vec::with_capacity(touched.len()),
        };
        let old_length = string_value::length(entry);
        for bytes in touched {
            let clipped_bytes = clipped(bytes.clone(), old_length);
            let mut window = match entry {
                Some(entry) => StringValue::of(entry).part(context.tx, clipped_bytes).into_owned(),
                None => Vec::new(),
            };
            window.resize((bytes.end - bytes.start) as usize, 0);
            windows.parts.push(Window {
                start: bytes.start,
                bytes: window,
                changed: bytes.end > old_length,
            });
        }
        windows
    }

    /// The window of a field; `None` if it is after the value's end.
    fn find(&mut self, field: Field) -> Option<&mut Window> {
        let first = field.bytes().start;
        let count = self.parts.partition_point(|window| window.start <= first);
        let last = self.parts[..count].last_mut();
        last.filter(|window| first < window.start + window.bytes.len() as u64)
    }

    /// Writes what has changed into the key.
    fn write(self, context: &mut Context<'_, '_>, name: &[u8], mut old: Option<Entry>) {
        for window in self.parts.into_iter().filter(|window| window.changed) {
            let header = Header::patched(old.as_ref());
            context.patch_string(name, header, old.as_ref(), window.start, &window.bytes);
            old = context.keys().find(name);
        }
    }
}

/// The part of `bytes` that a value of this length has; nothing at its end if it has none.
fn clipped(bytes: Range<u64>, length: u64) -> Range<u64> {
    bytes.start.min(length)..bytes.end.min(length)
}

impl Operation {
    fn seen_from(&self, start: u64) -> Operation {
        let field = self.field.seen_from(start);
        Operation { field, ..*self }
    }

    fn only_reads(&self) -> bool {
        matches!(self.action, Action::Get)
    }

    /// Returns the number to answer; `None` if it does not fit and may not be changed to.
    fn run(&self, value: &mut [u8], changed: &mut bool) -> Option<i128> {
        let field = self.field;
        let old = field.load(value);
        let new = match self.action {
            Action::Get => return Some(old),
            Action::Set(number, overflow) => field.fit(field.as_given(number), overflow)?,
            Action::Increment(amount, overflow) => field.fit(old + i128::from(amount), overflow)?,
        };
        if new != old {
            field.store(value, new);
            *changed = true;
        }
        Some(if matches!(self.action, Action::Set(..)) {
            old
        } else {
            new
        })
    }
}

impl Overflow {
    fn parse(word: &[u8]) -> Result<Overflow, ErrorReply> {
        if parse::is(word, "WRAP") {
            Ok(Overflow::Wrap)
        } else if parse::is(word, "SAT") {
            Ok(Overflow::Saturate)
        } else if parse::is(word, "FAIL") {
            Ok(Overflow::Fail)
        } else {
            Err("ERR Invalid OVERFLOW type specified".into())
        }
    }
}

impl Field {
    /// Reads a type like `i16` and an offset in bits or, with `#`, in fields.
    fn parse(kind: &[u8], offset: &[u8]) -> Result<Field, ErrorReply> {
        let (signed, bits) = match kind {
            [b'i', bits @ ..] => (true, parse::integer(bits)),
            [b'u', bits @ ..] => (false, parse::integer(bits)),
            _ => (false, None),
        };
        let bits_max = if signed { 64 } else { 63 };
        let bits = bits.filter(|bits| (1..=bits_max).contains(bits)).ok_or(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        )?;
        let offset = match offset {
            [b'#', index @ ..] => parse::integer(index).and_then(|index| index.checked_mul(bits)),
            offset => parse::integer(offset),
        };
        Ok(Field {
            signed,
            bits: bits as u32,
            offset: checked_offset(offset)?,
        })
    }

    /// The field in a part of the value that starts at this byte, which is at or before the field's
    /// first.
    fn seen_from(self, start: u64) -> Field {
        let offset = self.offset - 8 * start;
        Field { offset, ..self }
    }

    /// The bytes that it has bits in.
    fn bytes(self) -> Range<u64> {
        self.offset / 8..self.end().div_ceil(8)
    }

    /// The end of the field, exclusive, in bits.
    fn end(self) -> u64 {
        self.offset + u64::from(self.bits)
    }

    /// A number given to SET: for an unsigned field a negative one is huge.
    fn as_given(self, number: i64) -> i128 {
        if self.signed {
            i128::from(number)
        } else {
            i128::from(number as u64)
        }
    }

    fn fit(self, number: i128, overflow: Overflow) -> Option<i128> {
        let (min, max) = if self.signed {
            (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        } else {
            (0, (1 << self.bits) - 1)
        };
        if (min..=max).contains(&number) {
            return Some(number);
        }
        match overflow {
            Overflow::Wrap => Some(self.wrap(number)),
            Overflow::Saturate => Some(number.clamp(min, max)),
            Overflow::Fail => None,
        }
    }

    /// The lowest bits of `number`, with their sign.
    fn wrap(self, number: i128) -> i128 {
        let unused = 128 - self.bits;
        if self.signed {
            number << unused >> unused
        } else {
            ((number as u128) << unused >> unused) as i128
        }
    }

    /// Bits after the value's end are clear.
    fn load(self, value: &[u8]) -> i128 {
        let first = (self.offset / 8) as usize;
        let window = (first..first + WINDOW_BYTES).fold(0u128, |window, index| {
            window << 8 | u128::from(value.get(index).copied().unwrap_or(0))
        });
        self.wrap((window >> self.shift()) as i128)
    }

    /// The value reaches as far as the field.
    fn store(self, value: &mut [u8], number: i128) {
        let first = (self.offset / 8) as usize;
        let mask = ((1u128 << self.bits) - 1) << self.shift();
        let bits = (number as u128) << self.shift() & mask;
        for (position, byte) in value[first..].iter_mut().take(WINDOW_BYTES).enumerate() {
            let below = 8 * (WINDOW_BYTES - 1 - position);
            *byte = *byte & !((mask >> below) as u8) | (bits >> below) as u8;
        }
    }

    /// Bits between the field and the end of the bytes it may touch.
    fn shift(self) -> u32 {
        WINDOW_BYTES as u32 * 8 - (self.offset % 8) as u32 - self.bits
    }
}

/// Bytes that a field of 64 bits may touch.
const WINDOW_BYTES: usize = 9;

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    #[test]
    fn fields_are_read_and_written() {
        Fixture::new().connect().check(
            "BITFIELD a SET i8 0 -100 SET u8 8 200 => [0 0]
             BITFIELD a GET i8 0 GET u8 #1 GET u4 4 => [-100 200 12]
             BITFIELD a INCRBY u8 #1 100 => [44]
             BITFIELD a SET i64 3 -9223372036854775808 => [-2206763817411543040]
             BITFIELD a GET i64 3 INCRBY i64 3 -1 => [-9223372036854775808 9223372036854775807]
             BITFIELD a INCRBY u63 200 9223372036854775807 INCRBY u63 200 1 => [9223372036854775807 0]
             BITFIELD a => []
             BITFIELD nosuch GET u8 0 => [0]
             GET nosuch => nil
             BITFIELD_RO a GET u1 0 => [1]
             BITFIELD_RO a SET u1 0 1 => !ERR BITFIELD_RO only supports the GET subcommand",
        );
    }

    #[test]
    fn overflow_is_as_ordered() {
        Fixture::new().connect().check(
            "BITFIELD a SET u8 0 255 OVERFLOW SAT INCRBY u8 0 1 OVERFLOW FAIL INCRBY u8 0 1 OVERFLOW WRAP INCRBY u8 0 1 => [0 255 nil 0]
             BITFIELD a OVERFLOW SAT INCRBY u8 0 -1 SET u8 0 -1 GET u8 0 => [0 0 255]
             BITFIELD a OVERFLOW FAIL SET i8 0 128 SET i8 0 127 => [nil -1]
             BITFIELD a OVERFLOW SAT INCRBY i8 0 9223372036854775807 INCRBY i8 0 -9223372036854775808 => [127 -128]
             BITFIELD a INCRBY i8 0 -1 => [127]
             BITFIELD b OVERFLOW FAIL SET u1 7 2 => [nil]
             STRLEN b => 1
             BITFIELD a OVERFLOW MAYBE => !ERR Invalid OVERFLOW type specified",
        );
    }

    #[test]
    fn malformed_operations_are_refused() {
        Fixture::new().connect().check(
            "BITFIELD a GET u64 0 => !ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
             BITFIELD a GET i0 0 => !ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.
             BITFIELD a GET u8 -1 => !ERR bit offset is not an integer or out of range
             BITFIELD a GET u8 #9223372036854775807 => !ERR bit offset is not an integer or out of range
             BITFIELD a SET u8 4294967295 1 => !ERR string exceeds maximum allowed size (proto-max-bulk-len)
             BITFIELD a SET u8 0 x => !ERR value is not an integer or out of range
             BITFIELD a GET u8 => !ERR syntax error
             BITFIELD a NOSUCH => !ERR syntax error",
        );
    }
}
