//! Doubles as Java writes them, which every driver's decoder relies on: always with a point or an
//! exponent.

use std::fmt::Write;
use std::ops::Range;

/// The shortest digits that read back as the same double, at least two of them if a second brings
/// it closer (the rule of `Double.toString` since JDK 19). NaN and the infinities are strings on
/// the wire: see `render`.
pub fn write_double(value: f64, out: &mut String) {
    if !PLAIN.contains(&value.abs()) {
        return out.push_str(&java_double(value));
    }
    // In this range the shortest digits are Java's too.
    let start = out.len();
    let written = write!(out, "{value}");
    written.expect("a string takes what is written");
    if !out[start..].contains('.') {
        out.push_str(".0");
    }
}

/// Magnitudes that are written without an exponent.
const PLAIN: Range<f64> = 1e-3..1e7;

pub fn java_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.into();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0.0" } else { "0.0" }.into();
    }
    let magnitude = value.abs();
    let sign = if value < 0.0 { "-" } else { "" };
    let (digits, exponent) = shortest_digits(magnitude);
    if PLAIN.contains(&magnitude) {
        return format!("{sign}{}", plain(&digits, exponent));
    }
    let fraction = if digits.len() > 1 { &digits[1..] } else { "0" };
    format!("{sign}{}.{fraction}E{exponent}", &digits[..1])
}

/// Digits `d1 d2 …` and the exponent of `d1.d2… x 10^exponent`.
fn shortest_digits(magnitude: f64) -> (String, i32) {
    let mut spelling = format!("{magnitude:e}");
    if !spelling.contains('.') {
        let closer = format!("{magnitude:.1e}");
        if closer.parse() == Ok(magnitude) {
            spelling = closer;
        }
    }
    let (mantissa, exponent) = spelling.split_once('e').unwrap_or((&spelling, "0"));
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let trimmed = digits.trim_end_matches('0');
    let digits = if trimmed.is_empty() { "0" } else { trimmed };
    (digits.to_owned(), exponent.parse().unwrap_or(0))
}

fn plain(digits: &str, exponent: i32) -> String {
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return format!("0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{digits}{}.0", "0".repeat(whole - digits.len()));
    }
    format!("{}.{}", &digits[..whole], &digits[whole..])
}

#[cfg(test)]
mod tests {
    use super::{java_double, write_double};

    #[test]
    fn doubles_are_spelled_as_in_java() {
        let cases = [
            (1.0, "1.0"),
            (285.0, "285.0"),
            (0.001, "0.001"),
            (1e20, "1.0E20"),
            (1e7, "1.0E7"),
            (1234567.25, "1234567.25"),
            (1e-7, "1.0E-7"),
            (5e-324, "4.9E-324"),
            (f64::MAX, "1.7976931348623157E308"),
            (-0.0, "-0.0"),
            (6.520904391968161e51, "6.520904391968161E51"),
            (100.5, "100.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-9_999_999.5, "-9999999.5"),
            (0.002, "0.002"),
        ];
        for (value, expected) in cases {
            assert_eq!(java_double(value), expected);
            check_written(value);
        }
    }

    fn check_written(value: f64) {
        let mut written = String::new();
        write_double(value, &mut written);
        assert_eq!(written, java_double(value));
    }

    #[test]
    fn the_short_way_writes_the_same() {
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for number in 0..20_000_u64 {
            bits = bits.wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(number);
            check_written((bits >> 11) as f64 / 4_194_304.0 / 1e3);
            check_written(-((bits % 2_000_000_000) as f64) / 100.0);
            check_written((bits % 20_000) as f64 / 1e6);
        }
    }
}
