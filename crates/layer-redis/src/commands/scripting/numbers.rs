//! Numbers as C's `printf` writes them with `%g`, which is how scripts see theirs.

/// `%.<precision>g`. `precision` is at least 1.
pub fn general(value: f64, precision: usize) -> String {
    if value.is_nan() {
        return if value.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if value.is_infinite() {
        return if value < 0.0 { "-inf" } else { "inf" }.into();
    }
    let scientific = format!("{value:.*e}", precision - 1);
    let (digits, exponent) = scientific.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", without_zeros(digits), exponent.abs());
    }
    let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
    without_zeros(&format!("{value:.decimals$}")).to_owned()
}

fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') {
        digits.trim_end_matches('0').trim_end_matches('.')
    } else {
        digits
    }
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn numbers_look_as_in_c() {
        for (value, precision, expected) in [
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (3.0, 17, "3"),
            (0.1, 17, "0.10000000000000001"),
            (0.1, 14, "0.1"),
            (1e17, 17, "1e+17"),
            (123_456_789_012.5, 17, "123456789012.5"),
            (1e-5, 14, "1e-05"),
            (1.5e300, 14, "1.5e+300"),
            (f64::INFINITY, 14, "inf"),
            (99999.5, 3, "1e+05"),
        ] {
            assert_eq!(general(value, precision), expected);
        }
    }
}
