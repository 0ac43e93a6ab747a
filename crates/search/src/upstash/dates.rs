//! Points in time as RFC 3339 writes them, in microseconds since 1970.

const DAY: i64 = 86_400;
const MICROS: i64 = 1_000_000;

/// Reads a date, with or without a time; without a zone it is UTC.
pub fn parse(text: &str) -> Option<i64> {
    let (date, remainder) = text.split_at_checked(10)?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    if !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    let days = days_before(year, month) + day - 1;
    if remainder.is_empty() {
        return Some(days * DAY * MICROS);
    }
    let remainder = remainder.strip_prefix(['T', 't', ' '])?;
    let (time, remainder) = remainder.split_at_checked(8)?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (micros, remainder) = fraction(remainder)?;
    let seconds = days * DAY + hour * 3600 + minute * 60 + second - offset(remainder)?;
    Some(seconds * MICROS + micros)
}

fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(between);
    let mut parsed = [0; N];
    for (number, digits) in parsed.iter_mut().zip(digits) {
        let part = parts.next()?;
        if part.len() != digits || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(parsed)
}

/// The microseconds after a point, and the rest of the text. Digits after the sixth are cut.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(text) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let end = text.find(|byte: char| !byte.is_ascii_digit()).unwrap_or(text.len());
    if end == 0 {
        return None;
    }
    let mut micros = 0;
    for at in 0..6 {
        let digit = text.as_bytes()[..end].get(at).map_or(0, |byte| i64::from(byte - b'0'));
        micros = micros * 10 + digit;
    }
    Some((micros, &text[end..]))
}

/// Seconds that a zone is ahead of UTC.
fn offset(zone: &str) -> Option<i64> {
    if zone.is_empty() || zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = match zone.as_bytes()[0] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let [hours, minutes] = numbers(&zone[1..], ':', [2, 2])?;
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days between 1 January 1970 and the first of a month; negative before.
fn days_before(year: i64, month: i64) -> i64 {
    let years = year - 1;
    let leaps = |years: i64| years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
    let days_of_years = 365 * (year - 1970) + leaps(years) - leaps(1969);
    days_of_years + (1..month).map(|month| days_of(year, month)).sum::<i64>()
}

/// Writes a point in time, with milliseconds only if there are some.
pub fn text(micros: i64) -> String {
    let (seconds, micros) = (micros.div_euclid(MICROS), micros.rem_euclid(MICROS));
    let (mut days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    // Not after the year that it is.
    let mut year = 1970 + days.div_euclid(if days < 0 { 365 } else { 366 });
    while days_before(year + 1, 1) <= days {
        year += 1;
    }
    days -= days_before(year, 1);
    let mut month = 1;
    while days >= days_of(year, month) {
        days -= days_of(year, month);
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let fraction = match micros {
        0 => String::new(),
        micros if micros % 1000 == 0 => format!(".{:03}", micros / 1000),
        micros => format!(".{micros:06}"),
    };
    format!(
        "{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z",
        days + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_written() {
        let micros = 1_704_067_200_000_000;
        for (input, expected) in [
            ("2024-01-01", micros),
            ("2024-01-01T00:00:00Z", micros),
            ("2024-01-01T01:30:00+01:30", micros),
            ("2023-12-31 23:00:00.25-01:00", micros + 250_000),
            ("1969-12-31T23:59:59.999Z", -1000),
            ("0001-01-01", -62_135_596_800_000_000),
            ("2000-02-29", 951_782_400_000_000),
        ] {
            assert_eq!(parse(input), Some(expected), "{input}");
            assert_eq!(parse(&text(expected)), Some(expected), "{input}");
        }
        assert_eq!(text(micros), "2024-01-01T00:00:00Z");
        assert_eq!(text(-1000), "1969-12-31T23:59:59.999Z");
        assert_eq!(text(951_782_400_000_001), "2000-02-29T00:00:00.000001Z");
    }

    #[test]
    fn what_is_no_date_is_none() {
        for wrong in [
            "",
            "2024",
            "2024-13-01",
            "2023-02-29",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:00.Z",
            "é024-01-01",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
