//! Times as texts and back, in the forms of C's `strftime` and `strptime`, in UTC.

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

pub(super) const DAY_SECONDS: i64 = 86_400;

/// A day of the Gregorian calendar.
pub(super) struct Date {
    pub year: i64,
    /// From 1.
    pub month: i64,
    /// From 1.
    pub day: i64,
    /// Since the Unix epoch.
    pub days: i64,
}

impl Date {
    /// The day of a time in seconds since the Unix epoch, by eras of 400 years that start in March.
    pub fn of(seconds: i64) -> Date {
        let days = seconds.div_euclid(DAY_SECONDS);
        let from_march = days + 719_468;
        let (era, day_of_era) = (from_march.div_euclid(146_097), from_march.rem_euclid(146_097));
        let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year + era * 400 + i64::from(month <= 2);
        Date { year, month, day, days }
    }

    /// The start of its month, in seconds since the Unix epoch.
    pub fn month_seconds(&self) -> f64 {
        ((self.days - (self.day - 1)) * DAY_SECONDS) as f64
    }

    /// From 0.
    pub fn day_of_year(&self) -> f64 {
        let is_leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let february = 28 + i64::from(is_leap);
        let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let before: i64 = lengths[..self.month as usize - 1].iter().sum();
        (before + self.day - 1) as f64
    }
}

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
        let (date, second_of_day) = (Date::of(seconds), seconds.rem_euclid(DAY_SECONDS));
        Time {
            seconds,
            week_day: (date.days + 4).rem_euclid(7),
            year_day: date.day_of_year() as i64,
            date,
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
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
    let mut input = text;
    parts.read(&mut input, form)?;
    parts.total()
}

impl Parts {
    fn read(&mut self, input: &mut &[u8], form: &[u8]) -> Option<()> {
        let mut form = form.iter();
        while let Some(&byte) = form.next() {
            match byte {
                b'%' => self.directive(input, *form.next()?)?,
                byte if byte.is_ascii_whitespace() => *input = input.trim_ascii_start(),
                byte => *input = input.strip_prefix(&[byte])?,
            }
        }
        Some(())
    }

    fn directive(&mut self, input: &mut &[u8], directive: u8) -> Option<()> {
        match directive {
            b'Y' => self.year = Some(number(input, 4)?),
            b'C' => self.century = Some(number(input, 2)?),
            b'y' => {
                let year = number(input, 2)?;
                self.year = Some(if year < 69 { 2000 + year } else { 1900 + year });
            }
            b'm' => self.month = Some(number(input, 2).filter(|month| (1..=12).contains(month))?),
            b'd' | b'e' => self.day = Some(number(input, 2).filter(|day| (1..=31).contains(day))?),
            b'H' | b'k' => self.hour = number(input, 2).filter(|hour| *hour < 24)?,
            b'I' | b'l' => self.hour = number(input, 2).filter(|hour| (1..=12).contains(hour))?,
            b'M' => self.minute = number(input, 2).filter(|minute| *minute < 60)?,
            b'S' => self.second = number(input, 2).filter(|second| *second <= 60)?,
            b's' => self.seconds = Some(number(input, 18)?),
            b'p' => self.is_afternoon = Some(name(input, &["AM", "PM"])? == 1),
            b'B' | b'b' | b'h' => self.month = Some(name(input, &MONTHS)? as i64 + 1),
            b'A' | b'a' => _ = name(input, &DAYS)?,
            b'j' => {
                let day = number(input, 3).filter(|day| (1..=366).contains(day))?;
                (self.month, self.day) = (Some(1), Some(day));
            }
            b'T' => self.read(input, b"%H:%M:%S")?,
            b'R' => self.read(input, b"%H:%M")?,
            b'D' => self.read(input, b"%m/%d/%y")?,
            b'F' => self.read(input, b"%Y-%m-%d")?,
            b'n' | b't' => *input = input.trim_ascii_start(),
            b'%' => *input = input.strip_prefix(b"%")?,
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
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * from_march + 2) / 5;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// A number with a limit to its digits, blanks before it.
fn number(input: &mut &[u8], digits_max: usize) -> Option<i64> {
    let trimmed = input.trim_ascii_start();
    let digits = trimmed.iter().take(digits_max).take_while(|byte| byte.is_ascii_digit());
    let count = digits.count();
    let text = std::str::from_utf8(&trimmed[..count]).ok()?;
    *input = &trimmed[count..];
    text.parse().ok()
}

/// One of the names, whole or by its first three letters, in any case.
fn name(input: &mut &[u8], names: &[&str]) -> Option<usize> {
    let begins = |name: &str| input.len() >= name.len() && input[..name.len()].eq_ignore_ascii_case(name.as_bytes());
    for (at, name) in names.iter().enumerate() {
        for form in [name, &name[..name.len().min(3)]] {
            if begins(form) {
                *input = &input[form.len()..];
                return Some(at);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let check = |seconds: i64, expected: (i64, i64, i64, f64)| {
            let date = Date::of(seconds);
            assert_eq!((date.year, date.month, date.day, date.day_of_year()), expected);
        };
        check(0, (1970, 1, 1, 0.0));
        check(951_782_400, (2000, 2, 29, 59.0));
        check(1_700_000_000, (2023, 11, 14, 317.0));
        check(1_735_689_599, (2024, 12, 31, 365.0));
    }

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
