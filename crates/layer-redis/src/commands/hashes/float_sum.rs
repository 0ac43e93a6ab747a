//! The sum of two decimal numbers as text, for HINCRBYFLOAT.
//!
//! Redis adds in 80-bit floats and prints seventeen digits behind the point, so 0.1 + 0.2 is 0.3. Plain decimals of up to
//! seventeen such digits are therefore added exactly here. Anything else (exponents, huge numbers) is added as 64-bit
//! floats, whose last digits may differ from Redis'.

use crate::parse;

const FRACTION_DIGITS: usize = 17;
const INTEGER_DIGITS_MAX: usize = 19;
const ONE: i128 = 10_i128.pow(FRACTION_DIGITS as u32);

/// The sum of two texts that [`parse::float`] accepts; `None` if it is not finite.
pub fn float_sum(a: &[u8], b: &[u8]) -> Option<String> {
    if let (Some(a), Some(b)) = (scaled(a), scaled(b)) {
        return Some(unscaled(a + b));
    }
    let sum = parse::float(a)? + parse::float(b)?;
    // Adding zero turns a negative zero into a positive one.
    sum.is_finite().then(|| (sum + 0.0).to_string())
}

/// A plain decimal as a multiple of 10^-17.
fn scaled(text: &[u8]) -> Option<i128> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let point = digits.iter().position(|&byte| byte == b'.').unwrap_or(digits.len());
    let (integer, fraction) = (&digits[..point], digits.get(point + 1..).unwrap_or(&[]));
    if integer.len() > INTEGER_DIGITS_MAX || fraction.len() > FRACTION_DIGITS {
        return None;
    }
    let mut value: i128 = 0;
    for &digit in integer.iter().chain(fraction) {
        value = value * 10 + i128::from(digit.checked_sub(b'0').filter(|&digit| digit < 10)?);
    }
    value *= 10_i128.pow((FRACTION_DIGITS - fraction.len()) as u32);
    Some(if negative { -value } else { value })
}

fn unscaled(value: i128) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let (integer, fraction) = (value.abs() / ONE, value.abs() % ONE);
    let text = format!("{sign}{integer}.{fraction:017}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_decimals() {
        for (a, b, expected) in [
            ("0.1", "0.2", Some("0.3")),
            ("10.50", "0.1", Some("10.6")),
            ("-1.5", "1.5", Some("0")),
            ("-0.25", "0", Some("-0.25")),
            ("1", "-3", Some("-2")),
            ("5.0e3", "200", Some("5200")),
            ("100", "0", Some("100")),
            ("9999999999999999999", "1", Some("10000000000000000000")),
            ("1.7e308", "1.7e308", None),
        ] {
            assert_eq!(float_sum(a.as_bytes(), b.as_bytes()).as_deref(), expected, "{a} + {b}");
        }
    }
}
