//! Arguments as numbers, by the rules of Redis: strict decimal integers, C-like floats without
//! surrounding blanks.

use crate::command::errors;
use crate::command::failure::Failure;
use crate::facts::DATABASES;

/// A signed decimal integer: an optional minus, no plus, no leading zeros, no blanks.
pub fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let well_formed = matches!(digits, [b'0']) && !negative || matches!(digits, [b'1'..=b'9', ..]);
    if !well_formed || digits.len() > 19 {
        return None;
    }
    let mut value: i64 = 0;
    for &digit in digits {
        let digit = i64::from(digit.checked_sub(b'0').filter(|&digit| digit < 10)?);
        // Accumulated below zero, where there is room for the smallest number.
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

/// The part of a word that C reads as a text: it ends where a NUL stands. Only bounds of scores and
/// IDs of streams are cut so.
pub fn before_nul(word: &[u8]) -> &[u8] {
    word.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// The integer, or the error that nearly every command answers.
pub fn required_integer(text: &[u8]) -> Result<i64, Failure> {
    integer(text).ok_or(Failure::Error(errors::NOT_INTEGER))
}

/// The number of a database, or what is wrong with it.
pub fn database(text: &[u8]) -> Result<u8, Failure> {
    let number = required_integer(text)?;
    if i32::try_from(number).is_err() {
        return Err("ERR value is out of range, value must between -2147483648 and 2147483647".into());
    }
    let db = u8::try_from(number).ok().filter(|db| *db < DATABASES);
    db.ok_or(errors::DB_OUT_OF_RANGE.into())
}

/// An unsigned decimal integer.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    match text {
        [b'0'] => Some(0),
        [b'1'..=b'9', ..] => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// A float as C's strtod reads it, the whole text, no blanks, `inf` allowed, `nan` not.
pub fn float(text: &[u8]) -> Option<f64> {
    if let Some(whole) = short_whole_number(text) {
        return Some(whole as f64);
    }
    let text = std::str::from_utf8(text).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let value = if unsigned.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("0x")) {
        hexadecimal(text, &unsigned[2..])?
    } else {
        text.parse::<f64>().ok()?
    };
    // Too large a number is refused unless infinity was spelled out, and so is one that is too
    // small to differ from zero.
    let spelled = unsigned.starts_with(['i', 'I']);
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or_default();
    let vanished = value == 0.0 && mantissa.bytes().any(|digit| matches!(digit, b'1'..=b'9'));
    (!value.is_nan() && !vanished && (spelled || value.is_finite())).then_some(value)
}

/// Nearly every number is a few digits. Each of these is a float without rounding.
pub fn short_whole_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    text.iter().try_fold(0, |number, &digit| match digit {
        b'0'..=b'9' => Some(number * 10 + u64::from(digit - b'0')),
        _ => None,
    })
}

fn hexadecimal(text: &str, digits: &str) -> Option<f64> {
    let value = u64::from_str_radix(digits, 16).ok()? as f64;
    Some(if text.starts_with('-') { -value } else { value })
}

pub fn required_float(text: &[u8]) -> Result<f64, Failure> {
    float(text).ok_or(Failure::Error(errors::NOT_FLOAT))
}

/// Parses a blocking command's timeout in seconds, as a deadline. `None`: wait indefinitely.
pub fn deadline_ms(text: &[u8], now_ms: u64) -> Result<Option<u64>, Failure> {
    let seconds = float(text).ok_or(errors::TIMEOUT_NOT_FLOAT)?;
    if seconds < 0.0 {
        return Err(errors::TIMEOUT_NEGATIVE.into());
    }
    let milliseconds = (seconds * 1000.0).ceil();
    if milliseconds >= i64::MAX as f64 - now_ms as f64 {
        return Err(errors::TIMEOUT_OUT_OF_RANGE.into());
    }
    Ok((milliseconds > 0.0).then(|| now_ms + milliseconds as u64))
}

/// Compares an argument with a word, ASCII letters in any case.
pub fn is(text: &[u8], word: &str) -> bool {
    text.eq_ignore_ascii_case(word.as_bytes())
}

/// Turns Redis' inclusive, possibly negative indexes into a half-open range inside `0..length`.
pub fn index_range(start: i64, stop: i64, length: u64) -> std::ops::Range<u64> {
    let length = length as i64;
    let start = if start < 0 {
        (length.saturating_add(start)).max(0)
    } else {
        start
    };
    let stop = if stop < 0 { length.saturating_add(stop) } else { stop };
    if start > stop || start >= length || stop < 0 {
        return 0..0;
    }
    start as u64..(stop.min(length - 1) + 1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_strict() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("-0", None),
            ("01", None),
            ("+1", None),
            (" 1", None),
            ("1 ", None),
            ("", None),
            ("-", None),
            ("1a", None),
        ] {
            assert_eq!(integer(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn floats_are_whole_and_never_nan() {
        assert_eq!(float(b"1.5e3"), Some(1500.0));
        assert_eq!(float(b"+inf"), Some(f64::INFINITY));
        assert_eq!(float(b"-Infinity"), Some(f64::NEG_INFINITY));
        assert_eq!(float(b"0x10"), Some(16.0));
        assert_eq!(float(b"-0.00e9"), Some(0.0));
        assert_eq!(float(b"5e-324"), Some(5e-324));
        for text in ["nan", "", " 1", "1 ", "1e400", "1e-400", "abc", "0x", "G\u{76c}L"] {
            assert_eq!(float(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn indexes_clamp() {
        assert_eq!(index_range(0, -1, 5), 0..5);
        assert_eq!(index_range(-3, -2, 5), 2..4);
        assert_eq!(index_range(i64::MIN, i64::MAX, 5), 0..5);
        assert_eq!(index_range(5, 9, 5), 0..0);
        assert_eq!(index_range(0, -6, 5), 0..0);
    }
}
