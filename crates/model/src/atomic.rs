//! Atomic operations of interactive transactions: what each makes of the value it finds.
//!
//! Pure, so that a client shows a transaction its own operations exactly as the server will resolve
//! them at commit. The operations and their edge cases are FoundationDB's at API version 510 and
//! later. Numbers are little-endian, unsigned, and as long as the operand.

/// Longest value that [`AtomicOperation::AppendIfFits`] produces.
pub const APPEND_BYTES_MAX: usize = 100_000;

/// The computations on a value and an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOperation {
    /// The sum, without what overflows.
    Add,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Appends the operand, unless the result would be longer than [`APPEND_BYTES_MAX`].
    AppendIfFits,
    /// The larger or smaller of two numbers.
    Max,
    /// The smaller of two unsigned numbers, little-endian.
    Min,
    /// The larger or smaller of two byte strings.
    ByteMax,
    /// The first of two strings of bytes.
    ByteMin,
    /// Clears a value that equals the operand.
    CompareAndClear,
}

impl AtomicOperation {
    /// The value after the operation; `None`: the key is absent.
    pub fn apply(self, old: Option<&[u8]>, operand: &[u8]) -> Option<Vec<u8>> {
        let Some(old) = old else {
            return (self != AtomicOperation::CompareAndClear).then(|| operand.to_vec());
        };
        Some(match self {
            AtomicOperation::Add => add(old, operand),
            AtomicOperation::And => bitwise(old, operand, |a, b| a & b),
            AtomicOperation::Or => bitwise(old, operand, |a, b| a | b),
            AtomicOperation::Xor => bitwise(old, operand, |a, b| a ^ b),
            AtomicOperation::AppendIfFits if old.len() + operand.len() > APPEND_BYTES_MAX => old.to_vec(),
            AtomicOperation::AppendIfFits => [old, operand].concat(),
            AtomicOperation::Max => resized(old, operand.len(), |number| {
                number.iter().rev().gt(operand.iter().rev())
            })
            .unwrap_or_else(|| operand.to_vec()),
            AtomicOperation::Min => resized(old, operand.len(), |number| {
                number.iter().rev().lt(operand.iter().rev())
            })
            .unwrap_or_else(|| operand.to_vec()),
            AtomicOperation::ByteMax => old.max(operand).to_vec(),
            AtomicOperation::ByteMin => old.min(operand).to_vec(),
            AtomicOperation::CompareAndClear if old == operand => return None,
            AtomicOperation::CompareAndClear => old.to_vec(),
        })
    }
}

/// Bytes of `old`, cut or filled with zeros to the operand's length, combined with the operand's.
fn bitwise(old: &[u8], operand: &[u8], combine: impl Fn(u8, u8) -> u8) -> Vec<u8> {
    operand
        .iter()
        .enumerate()
        .map(|(index, &byte)| combine(old.get(index).copied().unwrap_or(0), byte))
        .collect()
}

fn add(old: &[u8], operand: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let mut sum = Vec::with_capacity(operand.len());
    for (index, &byte) in operand.iter().enumerate() {
        let digit = u16::from(byte) + u16::from(old.get(index).copied().unwrap_or(0)) + carry;
        carry = digit >> 8;
        sum.push(digit as u8);
    }
    sum
}

/// `old` as a number of `length` bytes, if it `wins`.
fn resized(old: &[u8], length: usize, wins: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let mut number = old.to_vec();
    number.resize(length, 0);
    wins(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::AtomicOperation::*;
    use super::*;

    fn check(operation: AtomicOperation, old: Option<&[u8]>, operand: &[u8], new: Option<&[u8]>) {
        assert_eq!(
            operation.apply(old, operand).as_deref(),
            new,
            "{operation:?} of {old:?} and {operand:?}"
        );
    }

    #[test]
    fn an_absent_value_becomes_the_operand_except_for_compare_and_clear() {
        for operation in [Add, And, Or, Xor, AppendIfFits, Max, Min, ByteMax, ByteMin] {
            check(operation, None, b"\x05\x00", Some(b"\x05\x00"));
        }
        check(CompareAndClear, None, b"x", None);
    }

    #[test]
    fn numbers_take_the_length_of_the_operand() {
        check(Add, Some(b"\xff\x01\x07"), b"\x01\x00", Some(b"\x00\x02"));
        check(Add, Some(b"\xff"), b"\x01\x00", Some(b"\x00\x01"));
        check(And, Some(b""), b"\xff\xff", Some(b"\x00\x00"));
        check(Or, Some(b"\x01"), b"\x02\x04", Some(b"\x03\x04"));
        check(Xor, Some(b"\x03\x03\x03"), b"\x01", Some(b"\x02"));
        check(Max, Some(b"\x00\x01"), b"\xff\x00", Some(b"\x00\x01"));
        check(Max, Some(b"\x01"), b"\x00\x01", Some(b"\x00\x01"));
        check(Min, Some(b""), b"\x07", Some(b"\x00"));
        check(Min, Some(b"\x01\x00"), b"\x02", Some(b"\x01"));
        check(Add, Some(b"abc"), b"", Some(b""));
    }

    #[test]
    fn byte_strings_compare_whole_and_append_has_a_limit() {
        check(ByteMax, Some(b"b"), b"ab", Some(b"b"));
        check(ByteMin, Some(b"b"), b"ab", Some(b"ab"));
        check(CompareAndClear, Some(b"x"), b"x", None);
        check(CompareAndClear, Some(b"xy"), b"x", Some(b"xy"));
        check(AppendIfFits, Some(b"a"), b"b", Some(b"ab"));
        let full = vec![1; APPEND_BYTES_MAX];
        check(AppendIfFits, Some(&full), b"", Some(&full));
        check(AppendIfFits, Some(&full), b"b", Some(&full));
    }
}
