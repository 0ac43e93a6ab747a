//! Numbers out of texts, by the rules of Java's `NumberFormat`: digits with commas between them, a
//! point, an exponent after a capital `E`. Text after a number is ignored, so `7.9kg` is 7.9 and
//! `1e3` is 1.

use crate::language::value::Value;

/// The number at the start of a text, if there is one. An integer where the value is whole and
/// fits.
pub fn read(text: &str) -> Option<Value> {
    let text = text.trim_matches(|c: char| c <= ' ');
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    if digits.starts_with("NaN") && !negative {
        return Some(Value::Double(f64::NAN));
    }
    if digits.starts_with('\u{221e}') {
        return Some(Value::Double(if negative { f64::NEG_INFINITY } else { f64::INFINITY }));
    }
    let (mut plain, exponent_text) = digits_and_point(digits)?;
    let exponent = exponent(exponent_text).unwrap_or(0);
    if negative {
        plain.insert(0, '-');
    }
    Some(kind_of(&plain, exponent))
}

/// The digits without their commas, with the point if there is one; and the rest of the text.
fn digits_and_point(text: &str) -> Option<(String, &str)> {
    let mut plain = String::new();
    let (mut has_digits, mut has_point, mut end) = (false, false, 0);
    for (at, c) in text.char_indices() {
        match c {
            '.' if !has_point => {
                plain.push('.');
                has_point = true;
            }
            ',' if !has_point => continue,
            c => {
                let Some(digit) = c.to_digit(10) else { break };
                plain.push(char::from_digit(digit, 10)?);
                has_digits = true;
            }
        }
        end = at + c.len_utf8();
    }
    has_digits.then_some((plain, &text[end..]))
}

fn exponent(text: &str) -> Option<i64> {
    let text = text.strip_prefix('E')?;
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    Some(sign * digits.parse::<i64>().ok()?)
}

/// Whole values that fit are integers, except a negative zero.
fn kind_of(plain: &str, exponent: i64) -> Value {
    let spelled = format!("{plain}E{exponent}");
    let double: f64 = spelled.parse().unwrap_or(f64::NAN);
    match whole(plain, exponent) {
        Some(0) if plain.starts_with('-') => Value::Double(-0.0),
        Some(integer) => Value::Int(integer),
        None => Value::Double(double),
    }
}

/// The value of a numeral if it is whole and fits into 64 bits.
fn whole(plain: &str, exponent: i64) -> Option<i64> {
    let (digits, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let fraction = fraction.trim_end_matches('0');
    let significant = format!("{digits}{fraction}");
    let shift = exponent - fraction.len() as i64;
    let bare = significant.trim_start_matches('-').trim_start_matches('0');
    if bare.is_empty() {
        return Some(0);
    }
    let zeros = bare.len() - bare.trim_end_matches('0').len();
    if shift < 0 && zeros as i64 >= -shift {
        let length = significant.len() - usize::try_from(-shift).ok()?;
        return significant[..length].parse().ok();
    }
    if shift < 0 || bare.len() as i64 + shift > 19 {
        return None;
    }
    format!("{significant}{}", "0".repeat(shift as usize)).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::language::render::compact;

    #[test]
    fn numbers_are_read_as_by_java() {
        let cases = [
            (" 2 ", "2"),
            ("7.9", "7.9"),
            ("7.0", "7"),
            ("7.9kg", "7.9"),
            ("1,234.5", "1234.5"),
            ("1,,2", "12"),
            ("12,", "12"),
            (",5", "5"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1.5.3", "1.5"),
            ("-5", "-5"),
            ("-0", "-0.0"),
            ("1e3", "1"),
            ("1E3", "1000"),
            ("1.5E1", "15"),
            ("1500E-2", "15"),
            ("15E-1", "1.5"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9.223372036854776E18"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("1E400", "\"Infinity\""),
            ("NaN", "\"NaN\""),
            ("\u{221e}", "\"Infinity\""),
        ];
        for (text, expected) in cases {
            let number = read(text).unwrap_or_else(|| panic!("{text} is a number"));
            assert_eq!(compact(&number), expected, "{text}");
        }
        for text in ["", "x", "+1", "-", ".", "e5", "--1"] {
            assert!(read(text).is_none(), "{text} is no number");
        }
    }
}
