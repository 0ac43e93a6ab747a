//! The 80-bit float of x86, in which Redis adds floats: INCRBYFLOAT and HINCRBYFLOAT.
//!
//! A 64-bit float would print 10.5 + 0.1 with an error in the 17th decimal, where Redis prints
//! 10.6. So the wider type is done here in integers: parsing and adding round to nearest, ties to
//! even; printing is exact. Every machine therefore gets the same digits.
//!
//! ```text
//!   value = mantissa * 2^exponent, the mantissa's top bit set unless the value is zero
//! ```
//!
//! Subnormals are kept with full precision, which no reply can show: it has 17 decimals.

use std::cmp::Ordering;
use std::fmt;

use crate::command::parse;

/// A finite number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    mantissa: u64,
    exponent: i32,
}

/// Longest text that is read, as in Redis.
const TEXT_BYTES_MAX: usize = 5 * 1024 - 1;
/// The exponent of the top bit of the largest number.
const TOP_EXPONENT_MAX: i32 = 16_383;
/// The exponent of the smallest number above zero.
const TOP_EXPONENT_MIN: i32 = -16_445;
/// Digits after the point.
const DECIMALS: u32 = 17;

/// The number that a text holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    Finite(LongDouble),
    /// Infinity, spelled out.
    Infinite,
}

impl Parsed {
    pub const ZERO: Parsed = Parsed::Finite(LongDouble::ZERO);

    /// The sum; `None` if it is infinite or not a number.
    pub fn plus(self, other: Parsed) -> Option<LongDouble> {
        match (self, other) {
            (Parsed::Finite(a), Parsed::Finite(b)) => a.plus(b),
            _ => None,
        }
    }
}

/// A float as C's strtold reads it, the whole text, no blanks. `None` also if it is out of range or
/// not a number.
pub fn parse(text: &[u8]) -> Option<Parsed> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.first()?.is_ascii_alphabetic() || digits.get(1).is_some_and(|byte| byte.eq_ignore_ascii_case(&b'x')) {
        let value = parse::float(text)?;
        return Some(LongDouble::from_f64(value).map_or(Parsed::Infinite, Parsed::Finite));
    }
    let (digits, scale) = decimal(digits)?;
    LongDouble::from_decimal(negative, &digits, scale).map(Parsed::Finite)
}

/// Splits `12.5e3` into the digits 125 and the power of ten that multiplies them. Leading zeros are
/// dropped.
fn decimal(text: &[u8]) -> Option<(Vec<u8>, i64)> {
    let exponent_at = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (number, exponent) = text.split_at(exponent_at.unwrap_or(text.len()));
    let mut scale = match exponent.get(1..) {
        None => 0,
        Some(exponent) => power(exponent)?,
    };
    let (mut digits, mut seen, mut after_point) = (Vec::new(), false, false);
    for &byte in number {
        match byte {
            b'.' if !after_point => after_point = true,
            b'0'..=b'9' => {
                seen = true;
                scale -= i64::from(after_point);
                if byte != b'0' || !digits.is_empty() {
                    digits.push(byte - b'0');
                }
            }
            _ => return None,
        }
    }
    seen.then_some((digits, scale))
}

/// The number after `e`; one too large to matter is cut off.
fn power(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i64, |value, &digit| {
        (value * 10 + i64::from(digit - b'0')).min(1_000_000)
    });
    Some(if negative { -value } else { value })
}

impl LongDouble {
    const ZERO: LongDouble = LongDouble {
        negative: false,
        mantissa: 0,
        exponent: 0,
    };

    fn from_f64(value: f64) -> Option<LongDouble> {
        if !value.is_finite() {
            return None;
        }
        let bits = value.to_bits();
        let (fraction, power) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32);
        let mantissa = if power == 0 { fraction } else { fraction | 1 << 52 };
        LongDouble::rounded(
            value.is_sign_negative(),
            u128::from(mantissa),
            power.max(1) - 1075,
            false,
        )
    }

    /// The nearest number to `digits * 10^scale`; `None` if it is too large, or too small but not
    /// zero.
    fn from_decimal(negative: bool, digits: &[u8], scale: i64) -> Option<LongDouble> {
        if digits.is_empty() {
            return Some(LongDouble {
                negative,
                ..LongDouble::ZERO
            });
        }
        let magnitude = digits.len() as i64 + scale;
        if !(-4_960..=4_940).contains(&magnitude) {
            return None;
        }
        let mut number = Big::from_digits(digits);
        let mut exponent = 0;
        let mut sticky = false;
        if scale >= 0 {
            number.multiply_by_power_of_ten(scale as u32);
        } else {
            // Room for 66 bits of quotient and more: a factor of ten is less than 3.33 bits.
            let shift = 70 + (-scale as u32) * 10 / 3;
            number.shift_left(shift);
            exponent = -(shift as i32);
            sticky = number.divide_by_power_of_ten(-scale as u32);
        }
        let (top, dropped, lost) = number.top_bits();
        LongDouble::rounded(negative, top, exponent + dropped, sticky || lost)
    }

    /// Rounds `value * 2^exponent` to 64 bits. `sticky`: the true value is a little larger. `None`:
    /// out of range.
    fn rounded(negative: bool, value: u128, exponent: i32, sticky: bool) -> Option<LongDouble> {
        if value == 0 {
            return Some(LongDouble {
                negative,
                ..LongDouble::ZERO
            });
        }
        let zeros = value.leading_zeros();
        let value = value << zeros;
        let mut mantissa = (value >> 64) as u64;
        let mut exponent = exponent - zeros as i32 + 64;
        let remainder = value as u64;
        let up = match remainder.cmp(&(1 << 63)) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => sticky || mantissa & 1 == 1,
        };
        if up {
            let (next, carried) = mantissa.overflowing_add(1);
            mantissa = if carried { 1 << 63 } else { next };
            exponent += i32::from(carried);
        }
        (TOP_EXPONENT_MIN..=TOP_EXPONENT_MAX)
            .contains(&(exponent + 63))
            .then_some(LongDouble {
                negative,
                mantissa,
                exponent,
            })
    }

    /// The sum; `None` if it is infinite.
    fn plus(self, other: LongDouble) -> Option<LongDouble> {
        if self.mantissa == 0 {
            return Some(other);
        }
        if other.mantissa == 0 {
            return Some(self);
        }
        let (large, small) = if self.exponent >= other.exponent {
            (self, other)
        } else {
            (other, self)
        };
        let distance = (large.exponent - small.exponent) as u32;
        // The lowest bit is the OR of all bits that are shifted out.
        let a = u128::from(large.mantissa) << 62;
        let shifted = u128::from(small.mantissa) << 62;
        let b = match distance {
            0..=126 => shifted >> distance | u128::from(shifted & ((1 << distance) - 1) != 0),
            _ => 1,
        };
        let exponent = large.exponent - 62;
        if large.negative == small.negative {
            return LongDouble::rounded(large.negative, a + b, exponent, false);
        }
        let negative = if a >= b { large.negative } else { small.negative };
        let difference = a.abs_diff(b);
        if difference == 0 {
            return Some(LongDouble::ZERO);
        }
        // A difference that is too small for the type is nothing in seventeen decimals.
        let sum = LongDouble::rounded(negative, difference, exponent, false);
        sum.or_else(|| (exponent < 0).then_some(LongDouble::ZERO))
    }

    /// The number scaled to a whole number of 10^-17, rounded to even; only for exponents below
    /// zero.
    fn whole_decimals(self) -> u128 {
        let shift = -self.exponent as u32;
        let product = u128::from(self.mantissa) * 10u128.pow(DECIMALS);
        if shift > 126 {
            return 0;
        }
        let (quotient, remainder, half) = (product >> shift, product & ((1 << shift) - 1), 1 << (shift - 1));
        quotient + u128::from(remainder > half || remainder == half && quotient & 1 == 1)
    }

    /// Without a sign.
    fn digits(self) -> String {
        if self.exponent >= 0 {
            let mut integer = Big::from_digits(&[]);
            integer
                .words
                .extend([self.mantissa as u32, (self.mantissa >> 32) as u32]);
            integer.shift_left(self.exponent as u32);
            return integer.digits();
        }
        let (scaled, unit) = (self.whole_decimals(), 10u128.pow(DECIMALS));
        let text = format!("{}.{:017}", scaled / unit, scaled % unit);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// Without an exponent, seventeen decimals at most, no zeros at the end.
impl fmt::Display for LongDouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits();
        let sign = if self.negative && digits != "0" { "-" } else { "" };
        write!(f, "{sign}{digits}")
    }
}

/// A large unsigned integer, 32 bits a word, the lowest first.
struct Big {
    words: Vec<u32>,
}

/// The largest power of ten in a word, and its exponent.
const TEN_TO_9: u32 = 1_000_000_000;

impl Big {
    fn from_digits(digits: &[u8]) -> Big {
        let mut number = Big { words: Vec::new() };
        for chunk in digits.chunks(9) {
            let value = chunk.iter().fold(0, |value, &digit| value * 10 + u32::from(digit));
            number.multiply_add(10u32.pow(chunk.len() as u32), value);
        }
        number
    }

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for word in &mut self.words {
            let product = u64::from(*word) * u64::from(factor) + carry;
            *word = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.words.push(carry as u32);
        }
    }

    fn multiply_by_power_of_ten(&mut self, power: u32) {
        for _ in 0..power / 9 {
            self.multiply_add(TEN_TO_9, 0);
        }
        self.multiply_add(10u32.pow(power % 9), 0);
    }

    /// Divides and rounds down; true if there was a remainder.
    fn divide_by_power_of_ten(&mut self, power: u32) -> bool {
        let mut inexact = false;
        for _ in 0..power / 9 {
            inexact |= self.divide(TEN_TO_9) != 0;
        }
        inexact | (self.divide(10u32.pow(power % 9)) != 0)
    }

    /// Divides and rounds down. Returns the remainder.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut remainder = 0u64;
        for word in self.words.iter_mut().rev() {
            let dividend = remainder << 32 | u64::from(*word);
            *word = (dividend / u64::from(divisor)) as u32;
            remainder = dividend % u64::from(divisor);
        }
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
        remainder as u32
    }

    fn shift_left(&mut self, bits: u32) {
        self.multiply_add(1 << (bits % 32), 0);
        let zeros = std::iter::repeat_n(0, bits as usize / 32);
        self.words.splice(0..0, zeros);
    }

    /// The highest 97 to 128 bits, the number of bits below them, and whether any of those is set.
    fn top_bits(&self) -> (u128, i32, bool) {
        let split = self.words.len().saturating_sub(4);
        let top = self.words[split..]
            .iter()
            .rev()
            .fold(0, |top, &word| top << 32 | u128::from(word));
        let lost = self.words[..split].iter().any(|&word| word != 0);
        (top, split as i32 * 32, lost)
    }

    fn digits(mut self) -> String {
        let mut chunks = Vec::new();
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
        while !self.words.is_empty() {
            chunks.push(self.divide(TEN_TO_9));
        }
        let top = chunks.pop().unwrap_or(0).to_string();
        let further_digits = chunks.iter().rev().map(|chunk| format!("{chunk:09}"));
        [top].into_iter().chain(further_digits).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> String {
        let number = |text: &str| match parse(text.as_bytes()) {
            Some(Parsed::Finite(number)) => number,
            other => panic!("{text}: {other:?}"),
        };
        number(a).plus(number(b)).expect("a finite sum").to_string()
    }

    /// Replies that redis-server 7.0.15 on x86-64 gave.
    #[test]
    fn sums_are_those_of_redis() {
        for (a, b, expected) in SUMS {
            assert_eq!(&sum(a, b), expected, "{a} + {b}");
        }
    }

    const SUMS: &[(&str, &str, &str)] = &[
        ("10.50", "0.1", "10.6"),
        ("3", "1.1", "4.1"),
        ("1e30", "1", "1000000000000000000024696061952"),
        ("17179869184", "1.5", "17179869185.5"),
        ("1.23", "-1.23", "0"),
        ("-5", "0.00000000000000001", "-4.99999999999999999"),
        ("1e-20", "0", "0"),
        ("0.1", "0.2", "0.3"),
        (
            "123456789012345678901234567890",
            "0.5",
            "123456789012345678899921813504",
        ),
        ("0x10", "0.3", "16.3"),
        ("9007199254740993", "0.3", "9007199254740993.2998046875"),
        ("0.000000000000000005", "0", "0"),
        ("0.000000000000000015", "0", "0.00000000000000002"),
        ("999999999999999.99999999999999999", "0", "1000000000000000"),
        ("-1e-30", "1e-30", "0"),
        ("1", "-0.99999999999999999999", "0"),
        (".5", "5.", "5.5"),
        ("-0.1", "0.000001", "-0.099999"),
    ];

    #[test]
    fn a_malformed_number_is_refused() {
        for text in [
            "", " 1", "1 ", "1e", "e5", ".", "-", "nan", "1.2.3", "1e5000", "1e-6000", "0x", "abc",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse(b"-inf"), Some(Parsed::Infinite));
        assert_eq!(parse(&[b'1'; 6000]), None);
    }

    #[test]
    fn too_large_a_sum_is_none() {
        let Some(Parsed::Finite(large)) = parse(b"1e4932") else {
            panic!("1e4932 is in range")
        };
        assert!(large.plus(large).is_none());
    }
}
