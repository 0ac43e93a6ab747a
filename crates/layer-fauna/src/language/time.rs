//! Times with nanoseconds, dates, their ISO spellings and calendar arithmetic (proleptic
//! Gregorian).
//!
//! Years of dates run from -999,999,999 to 999,999,999, those of times one further, as in Java;
//! what would leave that range is refused, never wrapped.

use std::fmt;

/// A moment: seconds since 1970-01-01T00:00:00Z and nanoseconds above them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    pub seconds: i64,
    /// `0 <= nanos < 1_000_000_000`.
    pub nanos: u32,
}

/// A day, counted from 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    pub days: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    pub year: i64,
    pub month: u32,
    pub day: u32,
}

/// A unit of `epoch`, `time_add` and the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    HalfDay,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

pub const DAY_SECONDS: i64 = 86_400;
const NANOS: i128 = 1_000_000_000;
const YEAR_MAX: i64 = 999_999_999;
const OFFSET_SECONDS_MAX: i64 = 18 * 3600;

impl Unit {
    pub fn parse(name: &str) -> Option<Unit> {
        Some(match name.trim_matches(|c: char| c <= ' ') {
            "half day" | "half days" => Unit::HalfDay,
            "day" | "days" => Unit::Day,
            "hour" | "hours" => Unit::Hour,
            "minute" | "minutes" => Unit::Minute,
            "second" | "seconds" => Unit::Second,
            "millisecond" | "milliseconds" => Unit::Millisecond,
            "microsecond" | "microseconds" => Unit::Microsecond,
            "nanosecond" | "nanoseconds" => Unit::Nanosecond,
            _ => return None,
        })
    }

    pub fn nanos(self) -> i128 {
        match self {
            Unit::HalfDay => 43_200 * NANOS,
            Unit::Day => 86_400 * NANOS,
            Unit::Hour => 3_600 * NANOS,
            Unit::Minute => 60 * NANOS,
            Unit::Second => NANOS,
            Unit::Millisecond => 1_000_000,
            Unit::Microsecond => 1_000,
            Unit::Nanosecond => 1,
        }
    }
}

impl Time {
    pub fn from_nanos(nanos: i128) -> Option<Time> {
        let seconds = i64::try_from(nanos.div_euclid(NANOS)).ok()?;
        let time = Time {
            seconds,
            nanos: nanos.rem_euclid(NANOS) as u32,
        };
        let year = civil_of_days(seconds.div_euclid(DAY_SECONDS)).year;
        (year.abs() <= YEAR_MAX + 1).then_some(time)
    }

    pub fn from_micros(micros: i64) -> Time {
        Time {
            seconds: micros.div_euclid(1_000_000),
            nanos: micros.rem_euclid(1_000_000) as u32 * 1000,
        }
    }

    pub fn nanos_total(self) -> i128 {
        i128::from(self.seconds) * NANOS + i128::from(self.nanos)
    }

    /// Microseconds since the epoch, rounded down.
    pub fn micros(self) -> i64 {
        i64::try_from(self.nanos_total().div_euclid(1000)).unwrap_or(if self.seconds < 0 { i64::MIN } else { i64::MAX })
    }

    pub fn date(self) -> Date {
        Date {
            days: self.seconds.div_euclid(DAY_SECONDS),
        }
    }

    pub fn second_of_day(self) -> i64 {
        self.seconds.rem_euclid(DAY_SECONDS)
    }

    /// An ISO date and time with `Z` or an offset of hours and minutes. A day that its month lacks
    /// is taken for the month's last, as Java's formatter does by default.
    pub fn parse(text: &str) -> Option<Time> {
        let (date, clock_text) = text.split_once(['T', 't'])?;
        let Civil { year, month, day } = civil(date)?;
        let days = days_of_civil(year, month, day.min(days_in_month(year, month)));
        let (clock, offset) = split_offset(clock_text)?;
        let mut parts = clock.split(':');
        let hour = two_digits(parts.next()?)?;
        let minute = two_digits(parts.next()?)?;
        let (second, nanos) = parts.next().map_or(Some((0, 0)), seconds_and_nanos)?;
        let plain = hour < 24 && minute < 60 && second < 60;
        let midnight = hour == 24 && minute == 0 && second == 0 && nanos == 0;
        if parts.next().is_some() || !(plain || midnight) {
            return None;
        }
        let seconds = days * DAY_SECONDS + hour * 3600 + minute * 60 + second - offset;
        Some(Time { seconds, nanos })
    }
}

/// `Z`, `+HH:MM`, `+HH:MM:ss` or `+HHMM`.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(clock) = text.strip_suffix(['Z', 'z']) {
        return Some((clock, 0));
    }
    let at = text.rfind(['+', '-'])?;
    let sign = if text.as_bytes()[at] == b'-' { -1 } else { 1 };
    let spelled = &text[at + 1..];
    let parts: Vec<&str> = match spelled.len() {
        4 => vec![spelled.get(..2)?, spelled.get(2..)?],
        _ => spelled.split(':').collect(),
    };
    let numbers: Option<Vec<i64>> = parts.into_iter().map(two_digits).collect();
    let offset = match *numbers?.as_slice() {
        [hours, minutes] if hours <= 18 && minutes < 60 => hours * 3600 + minutes * 60,
        [hours, minutes, seconds] if hours <= 18 && minutes < 60 && seconds < 60 => {
            hours * 3600 + minutes * 60 + seconds
        }
        _ => return None,
    };
    (offset <= OFFSET_SECONDS_MAX).then_some((&text[..at], sign * offset))
}

fn two_digits(text: &str) -> Option<i64> {
    (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
}

fn seconds_and_nanos(text: &str) -> Option<(i64, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    Some((two_digits(whole)?, nanos))
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.second_of_day();
        write!(
            f,
            "{}T{:02}:{:02}:{:02}",
            self.date(),
            second / 3600,
            second / 60 % 60,
            second % 60
        )?;
        match self.nanos {
            0 => {}
            nanos if nanos % 1_000_000 == 0 => write!(f, ".{:03}", nanos / 1_000_000)?,
            nanos if nanos % 1_000 == 0 => write!(f, ".{:06}", nanos / 1_000)?,
            nanos => write!(f, ".{nanos:09}")?,
        }
        f.write_str("Z")
    }
}

impl Date {
    pub fn parse(text: &str) -> Option<Date> {
        let Civil { year, month, day } = civil(text)?;
        (day <= days_in_month(year, month)).then(|| Date {
            days: days_of_civil(year, month, day),
        })
    }

    pub fn civil(self) -> Civil {
        civil_of_days(self.days)
    }

    pub fn midnight(self) -> Time {
        Time {
            seconds: self.days * DAY_SECONDS,
            nanos: 0,
        }
    }

    pub fn checked_add(self, days: i64) -> Option<Date> {
        let days = self.days.checked_add(days)?;
        (days.abs() < 366 * YEAR_MAX && civil_of_days(days).year.abs() <= YEAR_MAX).then_some(Date { days })
    }

    /// Monday is 1.
    pub fn day_of_week(self) -> i64 {
        (self.days + 3).rem_euclid(7) + 1
    }

    pub fn day_of_year(self) -> i64 {
        self.days - days_of_civil(self.civil().year, 1, 1) + 1
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Civil { year, month, day } = self.civil();
        match year {
            0..=9999 => write!(f, "{year:04}-{month:02}-{day:02}"),
            10000.. => write!(f, "+{year}-{month:02}-{day:02}"),
            _ => write!(f, "-{:04}-{month:02}-{day:02}", -year),
        }
    }
}

/// A year of four digits, or of more with its sign; a month; a day that some month has.
fn civil(text: &str) -> Option<Civil> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (Some(-1), &text[1..]),
        b'+' => (Some(1), &text[1..]),
        _ => (None, text),
    };
    let mut parts = digits.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let fits = match sign {
        None => year.len() == 4,
        Some(1) => (5..=10).contains(&year.len()),
        Some(_) => (4..=10).contains(&year.len()) && year.bytes().any(|digit| digit != b'0'),
    };
    if parts.next().is_some() || !fits || !year.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let year = sign.unwrap_or(1) * year.parse::<i64>().ok()?;
    let (month, day) = (two_digits(month)? as u32, two_digits(day)? as u32);
    let valid = (1..=12).contains(&month) && (1..=31).contains(&day) && year.abs() <= YEAR_MAX;
    valid.then_some(Civil { year, month, day })
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Counts in years that start in March, so that the leap day is the last of its year.
fn days_of_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day - 1);
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_of_days(days: i64) -> Civil {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = ((march_month + 2) % 12 + 1) as u32;
    Civil {
        year: era * 400 + year_of_era + i64::from(month <= 2),
        month,
        day: (day_of_year - (153 * march_month + 2) / 5 + 1) as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        let cases = [
            ("2020-01-01T00:00:00.123456789Z", "2020-01-01T00:00:00.123456789Z"),
            ("2020-01-01T00:00:00.100Z", "2020-01-01T00:00:00.100Z"),
            ("1970-01-01T01:00:00+01:00", "1970-01-01T00:00:00Z"),
            ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999Z"),
            ("0000-02-29T00:00Z", "0000-02-29T00:00:00Z"),
            ("2021-02-31T00:00:00Z", "2021-02-28T00:00:00Z"),
            ("2020-01-01T24:00:00Z", "2020-01-02T00:00:00Z"),
            ("2020-01-01T01:30:00+0130", "2020-01-01T00:00:00Z"),
            ("+12020-01-01T00:00:00Z", "+12020-01-01T00:00:00Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(Time::parse(text).unwrap().to_string(), expected);
        }
        for text in [
            "nope",
            "2020-13-01T00:00:00Z",
            "2021-02-32T00:00:00Z",
            "12020-01-01T00:00:00Z",
            "2020-01-01T00:00:00+01",
            "2020-01-01T00:00:00",
            "2020-01-01T25:00:00Z",
            "2020-01-01",
        ] {
            assert_eq!(Time::parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_is_its_own() {
        for days in -200_000..200_000 {
            let date = Date { days };
            assert_eq!(Date::parse(&date.to_string()), Some(date));
        }
        assert_eq!(Date { days: 0 }.day_of_week(), 4);
    }
}
