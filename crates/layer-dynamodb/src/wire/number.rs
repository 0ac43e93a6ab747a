//! Decimal numbers of up to 38 significant digits, exact.
//!
//! A number is `coefficient * 10^exponent`, kept without trailing zeros in the coefficient, so
//! equal numbers are equal values. 38 digits fit into 127 bits. Nothing is ever rounded: what does
//! not fit is an error, as in DynamoDB ("Naming rules and data types", Number).

use std::cmp::Ordering;

/// Invariants: `coefficient < 10^38`, not divisible by ten unless zero; zero is not negative and
/// has exponent zero; otherwise `-130 <= exponent + digits - 1 <= 125`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Number {
    negative: bool,
    coefficient: u128,
    exponent: i16,
}

/// Why a text or a sum is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberError {
    Syntax,
    TooManyDigits,
    Overflow,
    Underflow,
}

const DIGITS_MAX: u32 = 38;
const MAGNITUDE_MAX: i64 = 125;
const MAGNITUDE_MIN: i64 = -130;

impl Number {
    pub const ZERO: Number = Number {
        negative: false,
        coefficient: 0,
        exponent: 0,
    };

    /// Reads `[+-]digits[.digits][e[+-]digits]`, with at least one digit before the exponent.
    pub fn parse(text: &str) -> Result<Number, NumberError> {
        let bytes = text.as_bytes();
        let (negative, unsigned) = split_sign(bytes);
        if let Some(coefficient) = small_integer(unsigned) {
            return Number::normal(negative, coefficient.into(), 0);
        }
        let mantissa_bytes = unsigned
            .iter()
            .position(|byte| matches!(byte, b'e' | b'E'))
            .unwrap_or(unsigned.len());
        let (mantissa, exponent_text) = unsigned.split_at(mantissa_bytes);
        let exponent = match exponent_text {
            [] => 0,
            [_, digits @ ..] => parse_exponent(digits)?,
        };
        let mut digits = Digits::default();
        for &byte in mantissa {
            digits.take(byte)?;
        }
        digits.finish(negative, exponent)
    }

    pub fn from_integer(value: i64) -> Number {
        let normal = Number::normal(value < 0, value.unsigned_abs().into(), 0);
        normal.expect("19 digits fit")
    }

    /// `None` unless it is a whole number that fits.
    pub fn to_integer(self) -> Option<i64> {
        let factor = 10u128.checked_pow(u32::try_from(self.exponent).ok()?)?;
        let value = i64::try_from(self.coefficient.checked_mul(factor)?).ok()?;
        Some(if self.negative { -value } else { value })
    }

    /// The nearest number of 64 bits, up to rounding twice.
    pub fn to_f64(self) -> f64 {
        const EXACT_DIGITS: i16 = 22;
        let unsigned = match self.coefficient < 1 << 53 && self.exponent.abs() <= EXACT_DIGITS {
            true if self.exponent < 0 => self.coefficient as f64 / 10f64.powi(-i32::from(self.exponent)),
            true => self.coefficient as f64 * 10f64.powi(self.exponent.into()),
            false => {
                let text = format!("{}e{}", self.coefficient, self.exponent);
                text.parse().expect("digits and an exponent")
            }
        };
        if self.negative { -unsigned } else { unsigned }
    }

    /// The number without its fraction, as a time; `None` if negative or beyond all times.
    pub fn to_whole_seconds(self) -> Option<u64> {
        if self.negative {
            return None;
        }
        let scale = 10u128.checked_pow(self.exponent.unsigned_abs().into());
        let whole = match (scale, self.exponent < 0) {
            (Some(scale), true) => self.coefficient / scale,
            (None, true) => 0,
            (scale, false) => self.coefficient.checked_mul(scale?)?,
        };
        u64::try_from(whole).ok()
    }

    /// The exact sum.
    pub fn plus(self, other: Number) -> Result<Number, NumberError> {
        if self.coefficient == 0 {
            return Ok(other);
        }
        if other.coefficient == 0 {
            return Ok(self);
        }
        let (high, low) = if self.exponent >= other.exponent {
            (self, other)
        } else {
            (other, self)
        };
        // The lowest digit of `low` is not zero, so a `high` that does not fit at its scale leaves
        // more than 38 digits.
        let scale = u32::from(high.exponent.abs_diff(low.exponent));
        let factor = 10u128.checked_pow(scale).ok_or(NumberError::TooManyDigits)?;
        let scaled = high.coefficient.checked_mul(factor).ok_or(NumberError::TooManyDigits)?;
        let (negative, coefficient) = if high.negative == low.negative {
            let sum = scaled.checked_add(low.coefficient).ok_or(NumberError::TooManyDigits)?;
            (high.negative, sum)
        } else if scaled >= low.coefficient {
            (high.negative, scaled - low.coefficient)
        } else {
            (low.negative, low.coefficient - scaled)
        };
        Number::normal(negative, coefficient, low.exponent.into())
    }

    pub fn minus(self, other: Number) -> Result<Number, NumberError> {
        self.plus(other.negated())
    }

    fn negated(self) -> Number {
        Number {
            negative: !self.negative && self.coefficient != 0,
            ..self
        }
    }

    fn normal(negative: bool, mut coefficient: u128, mut exponent: i64) -> Result<Number, NumberError> {
        if coefficient == 0 {
            return Ok(Number::ZERO);
        }
        while let (quotient, 0) = divided(coefficient, 10) {
            coefficient = quotient;
            exponent += 1;
        }
        let digits = digit_count(coefficient);
        if digits > DIGITS_MAX {
            return Err(NumberError::TooManyDigits);
        }
        match exponent + i64::from(digits) - 1 {
            magnitude if magnitude > MAGNITUDE_MAX => Err(NumberError::Overflow),
            magnitude if magnitude < MAGNITUDE_MIN => Err(NumberError::Underflow),
            _ => Ok(Number {
                negative,
                coefficient,
                exponent: exponent as i16,
            }),
        }
    }

    /// The power of ten of the first digit.
    fn magnitude(self) -> i64 {
        i64::from(self.exponent) + i64::from(digit_count(self.coefficient)) - 1
    }

    /// Its size in bytes as DynamoDB counts it: one, half of one for each significant digit before
    /// and after the point, both rounded up, and one if it is negative. Zero has no significant
    /// digit. Recorded from the service, August 2026.
    pub fn size(self) -> usize {
        if self.coefficient == 0 {
            return 1;
        }
        let digits = digit_count(self.coefficient) as usize;
        let behind_point = usize::from(self.exponent.min(0).unsigned_abs()).min(digits);
        1 + (digits - behind_point).div_ceil(2) + behind_point.div_ceil(2) + usize::from(self.negative)
    }

    /// Appends the normal form: no exponent, no leading plus, no trailing zeros.
    pub fn write(self, text: &mut Vec<u8>) {
        if self.negative {
            text.push(b'-');
        }
        let mut buffer = [0; DIGITS_MAX as usize];
        let digits = decimal(self.coefficient, &mut buffer);
        if self.exponent >= 0 {
            text.extend_from_slice(digits);
            text.extend(std::iter::repeat_n(b'0', self.exponent as usize));
            return;
        }
        let fraction = usize::from(self.exponent.unsigned_abs());
        match digits.len().checked_sub(fraction) {
            Some(whole) if whole > 0 => {
                text.extend_from_slice(&digits[..whole]);
                text.push(b'.');
                text.extend_from_slice(&digits[whole..]);
            }
            _ => {
                text.extend_from_slice(b"0.");
                text.extend(std::iter::repeat_n(b'0', fraction - digits.len()));
                text.extend_from_slice(digits);
            }
        }
    }

    /// Appends self-delimiting bytes that sort as the numbers do.
    ///
    /// ```text
    /// 0x01 zero
    /// 0x02 [magnitude + 130] [two digits + 1]... 0x00          positive; later digits break ties
    /// 0x00 the bytes after the first, each inverted            negative
    /// ```
    pub fn write_ordered(self, key: &mut Vec<u8>) {
        if self.coefficient == 0 {
            return key.push(1);
        }
        key.push(if self.negative { 0 } else { 2 });
        let start = key.len();
        key.push((self.magnitude() - MAGNITUDE_MIN) as u8);
        let mut digits = self.coefficient;
        let count = digit_count(digits);
        if !count.is_multiple_of(2) {
            digits *= 10;
        }
        let first = key.len();
        key.resize(first + count.div_ceil(2) as usize, 0);
        for pair in key[first..].iter_mut().rev() {
            let (quotient, two_digits) = divided(digits, 100);
            *pair = two_digits + 1;
            digits = quotient;
        }
        key.push(0);
        if self.negative {
            key[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }

    /// Reads a number written by `write_ordered`; `None` for other bytes.
    pub(crate) fn read_ordered(bytes: &[u8]) -> Option<Number> {
        let (&sign, tail) = bytes.split_first()?;
        let is_negative = match sign {
            1 => return tail.is_empty().then_some(Number::ZERO),
            0 => true,
            2 => false,
            _ => return None,
        };
        let mut plain = tail.iter().map(|byte| if is_negative { !byte } else { *byte });
        let magnitude = i64::from(plain.next()?) + MAGNITUDE_MIN;
        let (mut digits, mut count) = (0_u128, 0);
        for pair in plain.by_ref().take_while(|pair| *pair != 0) {
            digits = digits.checked_mul(100)?.checked_add(u128::from(pair - 1))?;
            count += 2;
        }
        // The first digit of the first pair is never a zero.
        Number::normal(is_negative, digits, magnitude + 1 - count).ok()
    }

    /// Sign, exponent and coefficient, for storage.
    pub(crate) fn parts(self) -> (bool, i16, u128) {
        (self.negative, self.exponent, self.coefficient)
    }

    /// The number of stored parts, which `parts` gave.
    pub(crate) fn from_parts(negative: bool, exponent: i16, coefficient: u128) -> Number {
        Number {
            negative,
            coefficient,
            exponent,
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = Vec::new();
        self.write(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        let sign = |number: &Number| i8::from(number.coefficient != 0) * if number.negative { -1 } else { 1 };
        let size_order = || {
            let (scaled, other_scaled) = (self.full_width(), other.full_width());
            self.magnitude().cmp(&other.magnitude()).then(scaled.cmp(&other_scaled))
        };
        sign(self).cmp(&sign(other)).then_with(|| match sign(self) {
            0 => Ordering::Equal,
            1 => size_order(),
            _ => size_order().reverse(),
        })
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Number {
    /// The coefficient at 38 digits.
    fn full_width(self) -> u128 {
        self.coefficient * 10u128.pow(DIGITS_MAX - digit_count(self.coefficient))
    }
}

/// Returns quotient and remainder of a division by at most a hundred. Numbers that fit into a
/// register, as nearly all do, cost a tenth.
fn divided(number: u128, divisor: u8) -> (u128, u8) {
    match u64::try_from(number) {
        Ok(small) => {
            let divisor = u64::from(divisor);
            ((small / divisor).into(), (small % divisor) as u8)
        }
        Err(_) => {
            let divisor = u128::from(divisor);
            (number / divisor, (number % divisor) as u8)
        }
    }
}

/// The digits of a coefficient.
fn decimal(mut coefficient: u128, buffer: &mut [u8; DIGITS_MAX as usize]) -> &[u8] {
    let mut start = buffer.len();
    loop {
        let (quotient, digit) = divided(coefficient, 10);
        start -= 1;
        buffer[start] = b'0' + digit;
        coefficient = quotient;
        if coefficient == 0 {
            break;
        }
    }
    &buffer[start..]
}

fn digit_count(coefficient: u128) -> u32 {
    let log = match u64::try_from(coefficient) {
        Ok(small) => small.checked_ilog10(),
        Err(_) => coefficient.checked_ilog10(),
    };
    log.map_or(0, |log| log + 1)
}

/// The value of a few digits, which is what most numbers are; `None` for any other text.
fn small_integer(digits: &[u8]) -> Option<u64> {
    const DIGITS_MAX: usize = 18;
    let all_digits = digits.iter().all(u8::is_ascii_digit);
    let is_small = all_digits && (1..=DIGITS_MAX).contains(&digits.len());
    is_small.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    }
}

/// Saturates far beyond any valid exponent, so that no length of text overflows it.
fn parse_exponent(text: &[u8]) -> Result<i64, NumberError> {
    let (negative, digits) = split_sign(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(NumberError::Syntax);
    }
    let magnitude = digits
        .iter()
        .fold(0i64, |sum, digit| (sum * 10 + i64::from(digit - b'0')).min(1 << 40));
    Ok(if negative { -magnitude } else { magnitude })
}

/// The significant digits read so far.
#[derive(Default)]
struct Digits {
    coefficient: u128,
    /// Zeros that are only significant if another digit follows.
    zeros: u64,
    after_point: i64,
    seen_digit: bool,
    seen_point: bool,
    too_many: bool,
}

impl Digits {
    fn take(&mut self, byte: u8) -> Result<(), NumberError> {
        match byte {
            b'.' if !self.seen_point => self.seen_point = true,
            b'0'..=b'9' => {
                self.seen_digit = true;
                self.after_point += i64::from(self.seen_point);
                self.digit(byte - b'0');
            }
            _ => return Err(NumberError::Syntax),
        }
        Ok(())
    }

    fn digit(&mut self, digit: u8) {
        if digit == 0 {
            self.zeros += u64::from(self.coefficient != 0);
            return;
        }
        let shift = self.zeros + 1;
        let room = DIGITS_MAX - digit_count(self.coefficient);
        if shift > u64::from(room) && self.coefficient != 0 {
            self.too_many = true;
            return;
        }
        self.coefficient = match self.coefficient {
            0 => digit.into(),
            coefficient => coefficient * 10u128.pow(shift as u32) + u128::from(digit),
        };
        self.zeros = 0;
    }

    fn finish(self, negative: bool, exponent: i64) -> Result<Number, NumberError> {
        if !self.seen_digit {
            return Err(NumberError::Syntax);
        }
        if self.too_many {
            return Err(NumberError::TooManyDigits);
        }
        let exponent = exponent - self.after_point + self.zeros as i64;
        Number::normal(negative, self.coefficient, exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: Result<&str, NumberError>) {
        let number = Number::parse(text).map(|number| number.to_string());
        assert_eq!(number.as_deref().map_err(|error| *error), expected, "{text}");
    }

    #[test]
    fn texts_are_normalised() {
        for (text, normal) in [
            ("0", "0"),
            ("-0", "0"),
            ("0e1000000", "0"),
            ("+1", "1"),
            ("0042", "42"),
            ("1.50", "1.5"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1e3", "1000"),
            ("1E+3", "1000"),
            ("-120e-3", "-0.12"),
            (
                "10000000000000000000000000000000000000000000",
                "10000000000000000000000000000000000000000000",
            ),
            (
                "12345678901234567890123456789012345678",
                "12345678901234567890123456789012345678",
            ),
            (
                "0.00012345678901234567890123456789012345678",
                "0.00012345678901234567890123456789012345678",
            ),
        ] {
            check(text, Ok(normal));
        }
        assert_eq!(Number::parse("9.9e125").unwrap().to_string().len(), 126);
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused() {
        use NumberError::*;
        for text in [
            "", "-", ".", "e5", "1e", "1e+", "abc", "1 ", " 1", "1.2.3", "--1", "NaN", "1e5.5",
        ] {
            check(text, Err(Syntax));
        }
        check("123456789012345678901234567890123456789", Err(TooManyDigits));
        check("1.23456789012345678901234567890123456789", Err(TooManyDigits));
        check("1e126", Err(Overflow));
        check("1e1000000000000000000000000", Err(Overflow));
        check("-1e-131", Err(Underflow));
        check(&"9".repeat(1_000_000), Err(TooManyDigits));
    }

    fn sum(a: &str, b: &str) -> Result<String, NumberError> {
        let sum = Number::parse(a).unwrap().plus(Number::parse(b).unwrap());
        sum.map(|number| number.to_string())
    }

    #[test]
    fn sums_are_exact() {
        assert_eq!(sum("0.1", "0.2").unwrap(), "0.3");
        assert_eq!(sum("1e37", "1").unwrap(), "10000000000000000000000000000000000001");
        assert_eq!(sum("1e38", "-1").unwrap(), "9".repeat(38));
        assert_eq!(sum("5", "-5").unwrap(), "0");
        assert_eq!(sum("1", "-5").unwrap(), "-4");
        assert_eq!(sum("1e38", "1"), Err(NumberError::TooManyDigits));
        assert_eq!(sum("1e125", "1e-130"), Err(NumberError::TooManyDigits));
        assert_eq!(sum("9e125", "9e125"), Err(NumberError::Overflow));
        assert_eq!(sum("9.9e37", "5e36").unwrap(), "104".to_owned() + &"0".repeat(36));
    }

    #[test]
    fn integers_are_read_back() {
        for value in [0, 1, -1, i64::MAX, i64::MIN + 1] {
            assert_eq!(Number::from_integer(value).to_integer(), Some(value));
        }
        assert_eq!(Number::parse("1.5").unwrap().to_integer(), None);
        assert_eq!(Number::parse("1e30").unwrap().to_integer(), None);
    }

    fn any_number() -> impl Strategy<Value = Number> {
        (any::<bool>(), any::<u128>(), 0u32..38, -130i64..80).prop_map(|(negative, coefficient, digits, exponent)| {
            Number::normal(negative, coefficient % 10u128.pow(digits + 1), exponent).unwrap_or(Number::ZERO)
        })
    }

    proptest! {
        #[test]
        fn keys_sort_as_numbers(a in any_number(), b in any_number()) {
            let (mut key_a, mut key_b) = (Vec::new(), Vec::new());
            a.write_ordered(&mut key_a);
            b.write_ordered(&mut key_b);
            prop_assert_eq!(key_a.cmp(&key_b), a.cmp(&b));
        }

        #[test]
        fn texts_are_read_back(number in any_number()) {
            prop_assert_eq!(Number::parse(&number.to_string()), Ok(number));
        }
    }
}
