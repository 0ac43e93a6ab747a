//! Numbers as Redis reads them in words: strict decimal integers, and floats as C reads them,
//! without surrounding blanks.

/// Reads a signed decimal integer as Redis' `string2ll` does: an optional minus, then digits
/// without padding; no plus, no blanks, no `-0`. Returns `None` for any other text.
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

/// Reads an unsigned decimal integer without padding. Returns `None` for any other text.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    match text {
        [b'0'] => Some(0),
        [b'1'..=b'9', ..] => std::str::from_utf8(text).ok()?.parse().ok(),
        _ => None,
    }
}

/// Reads the whole text as a float, like C's `strtod`: no blanks, `inf` allowed, `nan` not. Returns
/// `None` for any other text, and for a number with a magnitude outside of a float's range.
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
    // Too large a number is refused unless it is spelled as infinity, and so is a number that is
    // too small to differ from zero.
    let spelled = unsigned.starts_with(['i', 'I']);
    let mantissa = unsigned.split(['e', 'E']).next().unwrap_or_default();
    let vanished = value == 0.0 && mantissa.bytes().any(|digit| matches!(digit, b'1'..=b'9'));
    (!value.is_nan() && !vanished && (spelled || value.is_finite())).then_some(value)
}

/// Reads one to fifteen digits, the short way for nearly every number. Each of these numbers is a
/// float without rounding.
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
}
