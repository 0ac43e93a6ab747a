//! Times as texts and back, in the forms of C's `strftime` and `strptime`, in UTC.

use crate::aggregate::functions::Date;

const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const DAY_SECONDS: i64 = 86_400;

/// Longest text of a time, in bytes. Longer texts are no times.
const TEXT_BYTES_MAX: usize = 255;

/// The time in the form; empty if it is too long.
pub(super) fn text(seconds: i64, form: &[u8]) -> Vec<u8> {
    let time = Time::of(seconds);
    let mut out = Vec::new();
    let mut bytes = form.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'%' => match bytes.next() {
                Some(&directive) => out.extend(time.directive(directive).into_bytes()),
                None => out.push(b'%'),
            },
            _ => out.push(byte),
        }
        if out.len() > TEXT_BYTES_MAX {
            return Vec::new();
        }
    }
    out
}

struct Time {
    seconds: i64,
    date: Date,
    /// From Sunday, 0.
    week_day: i64,
    /// From 0.
    year_day: i64,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Time {
    fn of(seconds: i64) -> Time {
        let (date, of_day) = (Date::of(seconds), seconds.rem_euclid(DAY_SECONDS));
        Time {
            seconds,
            week_day: (date.days + 4).rem_euclid(7),
            year_day: date.day_of_year() as i64,
            date,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
        }
    }

    /// The hour of a clock with twelve.
    fn half_hour(&self) -> i64 {
        (self.hour + 11) % 12 + 1
    }

    fn directive(&self, directive: u8) -> String {
        let Date { year, month, day, .. } = self.date;
        let (hour, minute, second) = (self.hour, self.minute, self.second);
        let (week_day, month_name) = (DAYS[self.week_day as usize], MONTHS[month as usize - 1]);
        let noon = if hour < 12 { "AM" } else { "PM" };
        match directive {
            b'A' => week_day.into(),
            b'a' => week_day[..3].into(),
            b'B' => month_name.into(),
            b'b' | b'h' => month_name[..3].into(),
            b'c' => format!(
                "{} {} {day:2} {hour:02}:{minute:02}:{second:02} {year}",
                &week_day[..3],
                &month_name[..3]
            ),
            b'C' => format!("{:02}", year.div_euclid(100)),
            b'd' => format!("{day:02}"),
            b'D' | b'x' => format!("{month:02}/{day:02}/{:02}", year.rem_euclid(100)),
            b'e' => format!("{day:2}"),
            b'F' => format!("{year}-{month:02}-{day:02}"),
            b'G' => self.iso_week().0.to_string(),
            b'g' => format!("{:02}", self.iso_week().0.rem_euclid(100)),
            b'H' => format!("{hour:02}"),
            b'I' => format!("{:02}", self.half_hour()),
            b'j' => format!("{:03}", self.year_day + 1),
            b'k' => format!("{hour:2}"),
            b'l' => format!("{:2}", self.half_hour()),
            b'M' => format!("{minute:02}"),
            b'm' => format!("{month:02}"),
            b'n' => "\n".into(),
            b'p' => noon.into(),
            b'R' => format!("{hour:02}:{minute:02}"),
            b'r' => format!("{:02}:{minute:02}:{second:02} {noon}", self.half_hour()),
            b'S' => format!("{second:02}"),
            b's' => self.seconds.to_string(),
            b'T' | b'X' => format!("{hour:02}:{minute:02}:{second:02}"),
            b't' => "\t".into(),
            b'u' => ((self.week_day + 6) % 7 + 1).to_string(),
            b'U' => format!("{:02}", (self.year_day + 7 - self.week_day) / 7),
            b'V' => format!("{:02}", self.iso_week().1),
            b'W' => format!("{:02}", (self.year_day + 7 - (self.week_day + 6) % 7) / 7),
            b'w' => self.week_day.to_string(),
            b'Y' => year.to_string(),
            b'y' => format!("{:02}", year.rem_euclid(100)),
            b'Z' => "GMT".into(),
            b'z' => "+0000".into(),
            b'%' => "%".into(),
            other => format!("%{}", char::from(other)),
        }
    }

    /// The year and the number of an ISO week, which starts on Monday and belongs to the year of
    /// its Thursday.
    fn iso_week(&self) -> (i64, i64) {
        let from_monday = (self.week_day + 6) % 7;
        let thursday = Date::of((self.date.days - from_monday + 3) * DAY_SECONDS);
        (thursday.year, thursday.day_of_year() as i64 / 7 + 1)
    }
}

/// A time as a text gives it. The day is the one before a month's first while nothing names it.
#[derive(Default)]
struct Parts {
    year: Option<i64>,
    century: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    is_afternoon: Option<bool>,
    seconds: Option<i64>,
}

/// The time that a text is in this form, in seconds since the Unix epoch. The rest of the
/// text is not looked at.
pub(super) fn parse(text: &[u8], form: &[u8]) -> Option<i64> {
    let mut parts = Parts::default();
    let mut rest = text;
    parts.read(&mut rest, form)?;
    parts.total()
}

impl Parts {
    fn read(&mut self, rest: &mut &[u8], form: &[u8]) -> Option<()> {
        let mut form = form.iter();
        while let Some(&byte) = form.next() {
            match byte {
                b'%' => self.directive(rest, *form.next()?)?,
                byte if byte.is_ascii_whitespace() => *rest = rest.trim_ascii_start(),
                byte => *rest = rest.strip_prefix(&[byte])?,
            }
        }
        Some(())
    }

    fn directive(&mut self, rest: &mut &[u8], directive: u8) -> Option<()> {
        match directive {
            b'Y' => self.year = Some(number(rest, 4)?),
            b'C' => self.century = Some(number(rest, 2)?),
            b'y' => {
                let year = number(rest, 2)?;
                self.year = Some(if year < 69 { 2000 + year } else { 1900 + year });
            }
            b'm' => self.month = Some(number(rest, 2).filter(|month| (1..=12).contains(month))?),
            b'd' | b'e' => self.day = Some(number(rest, 2).filter(|day| (1..=31).contains(day))?),
            b'H' | b'k' => self.hour = number(rest, 2).filter(|hour| *hour < 24)?,
            b'I' | b'l' => self.hour = number(rest, 2).filter(|hour| (1..=12).contains(hour))?,
            b'M' => self.minute = number(rest, 2).filter(|minute| *minute < 60)?,
            b'S' => self.second = number(rest, 2).filter(|second| *second <= 60)?,
            b's' => self.seconds = Some(number(rest, 18)?),
            b'p' => self.is_afternoon = Some(name(rest, &["AM", "PM"])? == 1),
            b'B' | b'b' | b'h' => self.month = Some(name(rest, &MONTHS)? as i64 + 1),
            b'A' | b'a' => _ = name(rest, &DAYS)?,
            b'j' => {
                let day = number(rest, 3).filter(|day| (1..=366).contains(day))?;
                (self.month, self.day) = (Some(1), Some(day));
            }
            b'T' => self.read(rest, b"%H:%M:%S")?,
            b'R' => self.read(rest, b"%H:%M")?,
            b'D' => self.read(rest, b"%m/%d/%y")?,
            b'F' => self.read(rest, b"%Y-%m-%d")?,
            b'n' | b't' => *rest = rest.trim_ascii_start(),
            b'%' => *rest = rest.strip_prefix(b"%")?,
            _ => return None,
        }
        Some(())
    }

    fn total(&self) -> Option<i64> {
        if self.seconds.is_some() {
            return self.seconds;
        }
        let year = match (self.century, self.year) {
            (Some(century), year) => century * 100 + year.unwrap_or(0).rem_euclid(100),
            (None, year) => year.unwrap_or(1900),
        };
        let hour = match self.is_afternoon {
            Some(true) => self.hour % 12 + 12,
            Some(false) => self.hour % 12,
            None => self.hour,
        };
        let days = days_before(year, self.month.unwrap_or(1)) + self.day.unwrap_or(0) - 1;
        Some(days * DAY_SECONDS + hour * 3600 + self.minute * 60 + self.second)
    }
}

/// The days from the Unix epoch to the first of a month.
fn days_before(year: i64, month: i64) -> i64 {
    let from_march = (month + 9) % 12;
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * from_march + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// A number with a limit to its digits, blanks before it.
fn number(rest: &mut &[u8], digits_max: usize) -> Option<i64> {
    let trimmed = rest.trim_ascii_start();
    let digits = trimmed.iter().take(digits_max).take_while(|byte| byte.is_ascii_digit());
    let count = digits.count();
    let text = std::str::from_utf8(&trimmed[..count]).ok()?;
    *rest = &trimmed[count..];
    text.parse().ok()
}

/// One of the names, whole or by its first three letters, in any case.
fn name(rest: &mut &[u8], names: &[&str]) -> Option<usize> {
    let begins = |name: &str| rest.len() >= name.len() && rest[..name.len()].eq_ignore_ascii_case(name.as_bytes());
    for (at, name) in names.iter().enumerate() {
        for form in [name, &name[..name.len().min(3)]] {
            if begins(form) {
                *rest = &rest[form.len()..];
                return Some(at);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the original printed them.
    #[test]
    fn times_are_printed_as_c_does() {
        let form =
            b"%A %a %B %b %c %C %d %D %e %F %g %G %h %H %I %j %m %M %p %r %R %S %T %u %U %V %w %W %x %X %y %Y %z \
                     %Z %% %s %k %l";
        let expected = "Tuesday Tue November Nov Tue Nov 14 22:13:20 2023 20 14 11/14/23 14 2023-11-14 23 2023 Nov 22 10 \
                        318 11 13 PM 10:13:20 PM 22:13 20 22:13:20 2 46 46 2 46 11/14/23 22:13:20 23 2023 +0000 GMT % \
                        1700000000 22 10";
        assert_eq!(String::from_utf8(text(1_700_000_000, form)).unwrap(), expected);
        assert_eq!(text(-1, b"%FT%TZ"), b"1969-12-31T23:59:59Z");
        assert_eq!(text(0, &[b'x'; 300]), b"");
    }

    #[test]
    fn times_are_read_as_c_does() {
        let check = |text: &str, form: &str, expected| assert_eq!(parse(text.as_bytes(), form.as_bytes()), expected);
        check("2024-02-29T01:02:03Z", "%Y-%m-%dT%H:%M:%SZ", Some(1_709_168_523));
        check("29/02/2024", "%d/%m/%Y", Some(1_709_164_800));
        check("xx", "%Y", None);
        check("2024", "%Y", Some(1_703_980_800));
        check("2024-02-29 junk", "%Y-%m-%d", Some(1_709_164_800));
        check("Thu Feb 29 01:02:03 2024", "%a %b %d %H:%M:%S %Y", Some(1_709_168_523));
        check("1700000000", "%s", Some(1_700_000_000));
        check("12:30 PM", "%I:%M %p", Some(-2_209_030_200));
    }
}
