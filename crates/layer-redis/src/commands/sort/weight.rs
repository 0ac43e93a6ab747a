//! A text as a number to sort by: what C's strtod reads, all of it.
//!
//! Laxer than the numbers that other commands take ([`crate::command::parse::float`]): leading
//! blanks are passed over, the empty text is 0, and a text ends at its first NUL byte. A number out
//! of the range of a double is refused.

/// The number; never NaN.
pub fn weight(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let text = std::str::from_utf8(text).ok()?.trim_start_matches(is_blank);
    let (negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    // The sign has been taken; Rust's parser would take a second one.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = if digits.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x")) {
        hexadecimal(&digits[2..])?
    } else {
        decimal(digits)?
    };
    Some(if negative { -value } else { value })
}

/// C's isspace.
fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t'..='\r')
}

fn decimal(digits: &str) -> Option<f64> {
    let value: f64 = digits.parse().ok()?;
    let is_spelled = digits.starts_with(['i', 'I']);
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    let is_zero = !is_spelled && mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    (is_spelled || is_zero || value.is_normal()).then_some(value)
}

/// `1.8p-3`: hexadecimal digits, and a power of two in decimal. Rounded to the nearest double.
fn hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, power) = match text.split_once(['p', 'P']) {
        Some((mantissa, power)) => (mantissa, exponent(power)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // Sixty bits of the number; the lowest is set if any bit below them is.
    let (mut bits, mut dropped): (u64, i64) = (0, 0);
    for digit in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(digit.to_digit(16)?);
        if bits >> 56 == 0 {
            bits = bits << 4 | digit;
        } else {
            bits |= u64::from(digit != 0);
            dropped += 4;
        }
    }
    if bits == 0 {
        return Some(0.0);
    }
    let power = power.saturating_add(dropped - 4 * fraction.len() as i64);
    // In two steps, either within the range of powers, so that only the last one can leave that of
    // doubles.
    let power = power.clamp(-1200, 1200) as i32;
    let value = bits as f64 * 2f64.powi(power / 2) * 2f64.powi(power - power / 2);
    value.is_normal().then_some(value)
}

/// An optional sign and digits; as large as it needs to be.
fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse().unwrap_or(i64::MAX / 2);
    Some(if text.starts_with('-') { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_strtod() {
        for (text, expected) in [
            ("", 0.0),
            ("\0", 0.0),
            ("12\0abc", 12.0),
            (" \t\r12", 12.0),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("-1.5e3", -1500.0),
            ("0e999", 0.0),
            ("inf", f64::INFINITY),
            ("-INFINITY", f64::NEG_INFINITY),
            ("9223372036854775807", 9223372036854775807.0),
            ("0x10", 16.0),
            ("-0X1.8p1", -3.0),
            ("0x.8", 0.5),
            ("0x1p-1022", f64::MIN_POSITIVE),
            ("0x1fffffffffffff8p3", 2f64.powi(60)),
            ("0x100000000000000000000", 2f64.powi(80)),
            ("0x0p99999999999999999999", 0.0),
        ] {
            assert_eq!(weight(text.as_bytes()), Some(expected), "{text:?}");
        }
    }

    #[test]
    fn a_malformed_number_is_refused() {
        for text in [
            " ",
            "1 ",
            "a",
            "nan",
            "-nan",
            "1e",
            ".",
            "+",
            "+-1",
            "--1",
            "1e400",
            "1e-400",
            "0x",
            "0xg",
            "0x1p",
            "0x1p+",
            "0x1p9999999999999999999",
            "0x1p-1100",
            "1_000",
            "infinit",
            "0x\u{76c}",
            "0\u{76c}",
        ] {
            assert_eq!(weight(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(weight(b"\xff"), None);
    }
}
