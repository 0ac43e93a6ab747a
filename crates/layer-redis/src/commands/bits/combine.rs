//! BITOP: bitwise operations on strings. Shorter strings count as padded with zeros.

use quartet_wire_resp::Arguments;

use crate::command::error_reply::ErrorReply;
use crate::command::errors;
use crate::command::parse;
use crate::command::repetition::Repetition;
use crate::handler::context::Context;
use crate::keyspace::string_value::{ValueBytes, length, whole};
use crate::keyspace::{Header, Kind};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
    /// Set in the first source and in no other.
    Diff,
    /// Set in some other source but not in the first.
    Diff1,
    /// Set in the first source and in some other.
    AndOr,
    /// Set in exactly one source.
    One,
}

const OPERATIONS: [(&str, Operation); 8] = [
    ("AND", Operation::And),
    ("OR", Operation::Or),
    ("XOR", Operation::Xor),
    ("NOT", Operation::Not),
    ("DIFF", Operation::Diff),
    ("DIFF1", Operation::Diff1),
    ("ANDOR", Operation::AndOr),
    ("ONE", Operation::One),
];

/// Bytes that take about as long as an element of a collection.
const BYTES_AN_ELEMENT: u64 = 64;

pub fn bitop(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let operation = operation(&arguments[1], arguments.len() - 3)?;
    let mut sources = Vec::with_capacity(arguments.len() - 3);
    let mut repetition = Repetition::default();
    for name in arguments.iter().skip(3) {
        let source = context.read_kind(name, Kind::String)?;
        repetition.add(name, length(source.as_ref()))?;
        sources.push(source);
    }
    let bytes = sources.iter().map(|source| length(source.as_ref())).sum::<u64>();
    if context.must_end_before(bytes / BYTES_AN_ELEMENT) {
        return Ok(());
    }
    let values: Vec<ValueBytes<'_>> = sources
        .iter()
        .map(|source| whole(context.tx, source.as_ref()))
        .collect();
    let values: Vec<&[u8]> = values.iter().map(|value| &**value).collect();
    let result = combine(operation, &values);
    let target = &arguments[2];
    if result.is_empty() {
        context.keys().remove(target);
    } else {
        context.keys().put(target, Header::patched(None), &result);
    }
    context.reply.integer(result.len() as i64);
    Ok(())
}

fn operation(word: &[u8], source_count: usize) -> Result<Operation, ErrorReply> {
    let &(name, operation) = OPERATIONS
        .iter()
        .find(|(name, _)| parse::is(word, name))
        .ok_or(errors::SYNTAX)?;
    match operation {
        Operation::Not if source_count != 1 => Err("ERR BITOP NOT must be called with a single source key.".into()),
        Operation::Diff | Operation::Diff1 | Operation::AndOr if source_count < 2 => {
            Err(format!("ERR BITOP {name} must be called with at least two source keys.").into())
        }
        _ => Ok(operation),
    }
}

/// As long as the longest value.
fn combine(operation: Operation, values: &[&[u8]]) -> Vec<u8> {
    let length = values.iter().map(|value| value.len()).max().unwrap_or(0);
    let (first, further) = values.split_first().expect("the arity demands a source");
    let mut result = padded(first, length);
    match operation {
        Operation::And => further.iter().for_each(|other| and(&mut result, other)),
        Operation::Or => further.iter().for_each(|other| or(&mut result, other)),
        Operation::Xor => each(&mut result, further, |byte, other| *byte ^= other),
        Operation::Not => result.iter_mut().for_each(|byte| *byte = !*byte),
        Operation::Diff => each(&mut result, further, |byte, other| *byte &= !other),
        Operation::Diff1 | Operation::AndOr => {
            let mut any = padded(b"", length);
            further.iter().for_each(|other| or(&mut any, other));
            if operation == Operation::Diff1 {
                each(&mut any, &[first], |byte, first| *byte &= !first);
                return any;
            }
            and(&mut result, &any);
        }
        Operation::One => {
            let mut twice = padded(b"", length);
            for other in further {
                for ((byte, twice), &other) in result.iter_mut().zip(&mut twice).zip(*other) {
                    *twice |= *byte & other;
                    *byte |= other;
                }
            }
            each(&mut result, &[&twice], |byte, twice| *byte &= !twice);
        }
    }
    result
}

fn padded(value: &[u8], length: usize) -> Vec<u8> {
    let mut padded = Vec::with_capacity(length);
    padded.extend_from_slice(value);
    padded.resize(length, 0);
    padded
}

/// Applies `change` where both have bytes: enough if zeros change nothing.
fn each(result: &mut [u8], operands: &[&[u8]], change: impl Fn(&mut u8, u8)) {
    for other in operands {
        for (byte, &other) in result.iter_mut().zip(*other) {
            change(byte, other);
        }
    }
}

fn or(result: &mut [u8], other: &[u8]) {
    each(result, &[other], |byte, other| *byte |= other);
}

fn and(result: &mut [u8], other: &[u8]) {
    each(result, &[other], |byte, other| *byte &= other);
    if let Some(tail) = result.get_mut(other.len()..) {
        tail.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;

    #[test]
    fn each_operation_is_what_it_says() {
        let values: [&[u8]; 3] = [&[0b1111_0000, 0xff], &[0b1100_1100], &[0b1010_1010, 0x0f, 0x01]];
        for (operation, expected) in [
            (Operation::And, [0b1000_0000, 0, 0]),
            (Operation::Or, [0b1111_1110, 0xff, 1]),
            (Operation::Xor, [0b1001_0110, 0xf0, 1]),
            (Operation::Diff, [0b0001_0000, 0xf0, 0]),
            (Operation::Diff1, [0b0000_1110, 0, 1]),
            (Operation::AndOr, [0b1110_0000, 0x0f, 0]),
            (Operation::One, [0b0001_0110, 0xf0, 1]),
        ] {
            assert_eq!(combine(operation, &values), expected);
        }
    }

    #[test]
    fn results_are_stored() {
        Fixture::new().connect().check(
            "MSET a abc b ABCD => OK
             BITOP AND t a b => 4
             GETRANGE t 0 2 => ABC
             BITOP or t a nosuch => 3
             GET t => abc
             BITOP NOT t a => 3
             BITOP NOT t t => 3
             GET t => abc
             BITOP XOR t nosuch => 0
             GET t => nil
             BITOP NOT t a b => !ERR BITOP NOT must be called with a single source key.
             BITOP DIFF t a => !ERR BITOP DIFF must be called with at least two source keys.
             BITOP diff1 t a => !ERR BITOP DIFF1 must be called with at least two source keys.
             BITOP ANDOR t a => !ERR BITOP ANDOR must be called with at least two source keys.
             BITOP ONE t a => 3
             BITOP NAND t a => !ERR syntax error",
        );
    }
}
