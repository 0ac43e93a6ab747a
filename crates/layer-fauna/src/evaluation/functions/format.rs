//! `format`: Java's formatter, with `%@` and `%^` for the JSON of a value.

use std::str::Chars;

use super::casts::text_of;
use crate::evaluation::{Arguments, Evaluation};
use crate::language::api_version::ApiVersion;
use crate::language::error::wrong_type;
use crate::language::error::{Errors, Result, Within};
use crate::language::number::java_double;
use crate::language::time::{Date, Time};
use crate::language::value::Value;

/// Longer results are refused.
const RESULT_BYTES_MAX: usize = 16 << 20;
/// Wider and more precise is refused.
const WIDTH_MAX: usize = 1024;

/// One `%` specifier.
#[derive(Debug, Default)]
struct Specifier {
    /// `%2$s`: counted from one.
    position: Option<usize>,
    flags: String,
    width: usize,
    precision: Option<usize>,
    conversion: char,
    /// As written, without the position.
    spelling: String,
    /// The second letter of a date conversion, `%tY`.
    date: Option<char>,
}

/// A piece of the pattern.
enum Piece {
    Text(String),
    Value(Specifier),
}

/// The whole pattern is read before anything is written.
pub fn format(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let values = arguments.many(1);
    let text = arguments.text(0);
    let specifiers = text.bytes().filter(|byte| *byte == b'%').count();
    evaluation.make(text.len() + specifiers * std::mem::size_of::<Piece>())?;
    let pieces = pieces(text).within("format")?;
    let (mut out, mut next) = (String::new(), 0);
    for piece in pieces {
        if out.len() > RESULT_BYTES_MAX {
            return Err(Errors::argument("Result string exceeds the size limit.")).within("format");
        }
        match piece {
            Piece::Text(text) => out.push_str(&text),
            Piece::Value(specifier) => out.push_str(&written(evaluation, &specifier, values, &mut next)?),
        }
    }
    Ok(Value::string(out))
}

fn written(
    evaluation: &mut Evaluation<'_>,
    specifier: &Specifier,
    values: &[Value],
    next: &mut usize,
) -> Result<String> {
    let (index, message) = match specifier.position {
        Some(position) => (position.saturating_sub(1), "index must be >= 1 and <= arguments size"),
        None => {
            *next += 1;
            (*next - 1, "format specifiers count must be <= arguments size")
        }
    };
    let value = values.get(index).ok_or_else(|| Errors::argument(message));
    let value = value.within("format")?;
    // Each value is formatted by itself: there is none before it to take again.
    if specifier.flags.contains('<') {
        return Err(invalid(&specifier.spelling)).within("format");
    }
    evaluation.make(value.size().bytes as usize)?;
    check_flags(specifier).within("format")?;
    let text = one(specifier, value, evaluation.version)
        .within_index(index)
        .within("values")?;
    Ok(padded(text, specifier))
}

/// Flags that a conversion does not know, that contradict each other, or that need a width.
fn check_flags(specifier: &Specifier) -> Result<()> {
    let has = |flag| specifier.flags.contains(flag);
    let any = |flags: &str| flags.chars().any(has);
    let twice = specifier
        .flags
        .char_indices()
        .any(|(at, flag)| specifier.flags[..at].contains(flag));
    let is_bad = match specifier.conversion.to_ascii_lowercase() {
        's' | 'b' => any("+ 0,(#") || has('-') && specifier.width == 0,
        'd' => has('#') || specifier.precision.is_some() || is_contradictory(specifier),
        'x' | 'o' => any("(+ ,") || specifier.precision.is_some() || is_contradictory(specifier),
        'f' => is_contradictory(specifier),
        'e' => has(',') || is_contradictory(specifier),
        'g' => has('#') || is_contradictory(specifier),
        't' => any("+ 0,(#") || specifier.precision.is_some() || has('-') && specifier.width == 0,
        _ => false,
    };
    match is_bad || twice {
        true => Err(invalid(&specifier.spelling)),
        false => Ok(()),
    }
}

fn is_contradictory(specifier: &Specifier) -> bool {
    let has = |flag| specifier.flags.contains(flag);
    let needs_width = (has('-') || has('0')) && specifier.width == 0;
    needs_width || (has('+') && has(' ')) || (has('-') && has('0'))
}

fn invalid(conversion: &str) -> Errors {
    Errors::argument(format!("Invalid conversion format '{conversion}'."))
}

fn pieces(pattern: &str) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut remaining = pattern;
    while let Some(at) = remaining.find('%') {
        pieces.push(Piece::Text(remaining[..at].to_owned()));
        let mut chars = remaining[at + 1..].chars();
        let specifier = parse(&mut chars)?;
        remaining = chars.as_str();
        pieces.push(match specifier.conversion {
            '%' => Piece::Text("%".to_owned()),
            'n' => Piece::Text("\n".to_owned()),
            _ => Piece::Value(specifier),
        });
    }
    pieces.push(Piece::Text(remaining.to_owned()));
    Ok(pieces)
}

/// Takes the next character if it matches.
fn next_if(chars: &mut Chars<'_>, matches: impl FnOnce(&char) -> bool) -> Option<char> {
    let next = chars.clone().next().filter(matches)?;
    chars.next();
    Some(next)
}

fn parse(chars: &mut Chars<'_>) -> Result<Specifier> {
    let mut specifier = Specifier {
        spelling: "%".to_owned(),
        ..Specifier::default()
    };
    let mut number: Option<usize> = None;
    loop {
        let Some(c) = chars.next() else {
            return Err(invalid(&specifier.spelling));
        };
        specifier.spelling.push(c);
        match c {
            '-' | '#' | '+' | ' ' | ',' | '(' | '<' => specifier.flags.push(c),
            '0' if number.is_none() => specifier.flags.push(c),
            '0'..='9' => {
                let longer = digits(number.unwrap_or(0), c);
                number = Some(longer.ok_or_else(|| invalid(&specifier.spelling))?);
            }
            '$' if number.is_some() => {
                specifier.position = number.take();
                // Messages do not show the position.
                specifier.spelling = "%".to_owned();
            }
            '.' => {
                let mut precision = 0;
                while let Some(digit) = next_if(chars, char::is_ascii_digit) {
                    specifier.spelling.push(digit);
                    precision = digits(precision, digit).ok_or_else(|| invalid(&specifier.spelling))?;
                }
                specifier.precision = Some(precision);
            }
            't' | 'T' => {
                specifier.conversion = c;
                specifier.date = next_if(chars, char::is_ascii_alphabetic);
                specifier.spelling.extend(specifier.date);
                specifier.width = number.unwrap_or(0);
                return Ok(specifier);
            }
            'f' | 'e' | 'E' | 'g' | 'G' | 'd' | 'x' | 'X' | 'o' | 's' | 'S' | 'b' | 'B' | '%' | 'n' | '@' | '^' => {
                specifier.width = number.unwrap_or(0);
                specifier.conversion = c;
                return Ok(specifier);
            }
            other => {
                if !other.is_ascii_alphabetic() {
                    specifier.spelling.pop();
                }
                return Err(invalid(&specifier.spelling));
            }
        }
    }
}

fn digits(number: usize, digit: char) -> Option<usize> {
    let number = number * 10 + digit.to_digit(10).unwrap_or(0) as usize;
    (number <= WIDTH_MAX).then_some(number)
}

fn padded(text: String, specifier: &Specifier) -> String {
    let length = text.chars().count();
    let missing = specifier.width.saturating_sub(length);
    if missing == 0 {
        return text;
    }
    if specifier.flags.contains('-') {
        return text + &" ".repeat(missing);
    }
    if specifier.flags.contains('0') {
        let signs = text.len() - text.trim_start_matches(['-', '+', ' ', '(']).len();
        return format!("{}{}{}", &text[..signs], "0".repeat(missing), &text[signs..]);
    }
    " ".repeat(missing) + &text
}

fn one(specifier: &Specifier, value: &Value, version: ApiVersion) -> Result<String> {
    let text = match specifier.conversion.to_ascii_lowercase() {
        's' => cut(plain(value)?, specifier),
        'b' => cut(boolean(value), specifier),
        'd' => signed_integer(integer(value)?, specifier),
        'x' => match integer(value)? {
            integer if specifier.flags.contains('#') => format!("0x{integer:x}"),
            integer => format!("{integer:x}"),
        },
        'o' => format!("{:o}", integer(value)?),
        'f' => signed(fixed(double(value)?, specifier), specifier),
        'e' => signed(scientific(double(value)?, specifier.precision.unwrap_or(6)), specifier),
        'g' => signed(general(double(value)?, specifier.precision.unwrap_or(6)), specifier),
        't' => temporal(specifier, value)?,
        '@' => crate::language::render::in_version(value, ApiVersion::DEFAULT),
        _ => crate::language::render::in_version(value, version),
    };
    let is_large = specifier.conversion.is_ascii_uppercase();
    Ok(if is_large { text.to_uppercase() } else { text })
}

/// A value as `%s` shows it.
fn plain(value: &Value) -> Result<String> {
    let cannot = || Errors::argument(format!("Cannot cast {} to String.", value.type_name()));
    text_of(value).map(|text| text.to_string()).ok_or_else(cannot)
}

fn boolean(value: &Value) -> String {
    match value {
        Value::Bool(value) => value.to_string(),
        other => (!other.is_null()).to_string(),
    }
}

fn cut(text: String, specifier: &Specifier) -> String {
    match specifier.precision {
        Some(precision) => text.chars().take(precision).collect(),
        None => text,
    }
}

fn integer(value: &Value) -> Result<i64> {
    match value {
        Value::Int(integer) => Ok(*integer),
        other => Err(wrong_type("Integer", other)),
    }
}

fn double(value: &Value) -> Result<f64> {
    match value {
        Value::Double(double) => Ok(*double),
        other => Err(wrong_type("Number", other)),
    }
}

fn signed_integer(integer: i64, specifier: &Specifier) -> String {
    let digits = grouped(&integer.unsigned_abs().to_string(), specifier);
    signed(if integer < 0 { format!("-{digits}") } else { digits }, specifier)
}

fn grouped(digits: &str, specifier: &Specifier) -> String {
    if !specifier.flags.contains(',') {
        return digits.to_owned();
    }
    let (whole, fraction) = digits
        .split_once('.')
        .map_or((digits, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut out = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    match fraction {
        Some(fraction) => format!("{out}.{fraction}"),
        None => out,
    }
}

fn signed(text: String, specifier: &Specifier) -> String {
    match text.strip_prefix('-') {
        Some(digits) if specifier.flags.contains('(') => format!("({digits})"),
        Some(_) => text,
        None if specifier.flags.contains('+') => format!("+{text}"),
        None if specifier.flags.contains(' ') => format!(" {text}"),
        None => text,
    }
}

/// Java rounds half up from the shortest decimal.
fn rounded(magnitude: f64, precision: usize) -> String {
    let spelling = format!("{magnitude}");
    let (whole, fraction) = spelling.split_once('.').unwrap_or((&spelling, ""));
    if fraction.len() <= precision {
        let zeros = "0".repeat(precision - fraction.len());
        return join(whole.to_owned(), format!("{fraction}{zeros}"));
    }
    let round_up = fraction.as_bytes()[precision] >= b'5';
    let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes().take(precision)).collect();
    if round_up {
        let mut at = digits.len();
        loop {
            if at == 0 {
                digits.insert(0, b'1');
                break;
            }
            at -= 1;
            if digits[at] != b'9' {
                digits[at] += 1;
                break;
            }
            digits[at] = b'0';
        }
    }
    let digits: String = digits.into_iter().map(char::from).collect();
    let split = digits.len() - precision;
    join(digits[..split].to_owned(), digits[split..].to_owned())
}

fn join(whole: String, fraction: String) -> String {
    if fraction.is_empty() {
        whole
    } else {
        format!("{whole}.{fraction}")
    }
}

fn not_finite(double: f64) -> Option<String> {
    (!double.is_finite()).then(|| java_double(double))
}

fn fixed(double: f64, specifier: &Specifier) -> String {
    if let Some(text) = not_finite(double) {
        return text;
    }
    let digits = grouped(&rounded(double.abs(), specifier.precision.unwrap_or(6)), specifier);
    if double.is_sign_negative() {
        format!("-{digits}")
    } else {
        digits
    }
}

fn scientific(double: f64, precision: usize) -> String {
    if let Some(text) = not_finite(double) {
        return text;
    }
    let spelling = format!("{double:.precision$e}");
    let (mantissa, exponent) = spelling.split_once('e').unwrap_or((&spelling, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

fn general(double: f64, precision: usize) -> String {
    let precision = precision.max(1);
    let magnitude = double.abs();
    if magnitude != 0.0 && !(1e-4..10f64.powi(precision.min(300) as i32)).contains(&magnitude) {
        return scientific(double, precision - 1);
    }
    let whole_digits = if magnitude < 1.0 {
        1
    } else {
        magnitude.log10().floor() as usize + 1
    };
    let text = rounded(magnitude, precision.saturating_sub(whole_digits));
    if double.is_sign_negative() {
        format!("-{text}")
    } else {
        text
    }
}

/// Times and dates by one letter; without a letter in the ISO form.
fn temporal(specifier: &Specifier, value: &Value) -> Result<String> {
    let (time, date) = match value {
        Value::Time(time) => (*time, time.date()),
        Value::Date(date) => (date.midnight(), *date),
        other => return Err(wrong_type("Date or Time", other)),
    };
    let Some(letter) = specifier.date else {
        return plain(value);
    };
    let is_date = "bBhaACyYdemjDF".contains(letter);
    let text = lettered(letter, time, date).filter(|_| is_date || matches!(value, Value::Time(_)));
    text.ok_or_else(|| Errors::argument(format!("Invalid date/time suffix '{}'.", specifier.spelling)))
}

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
const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

fn lettered(letter: char, time: Time, date: Date) -> Option<String> {
    let civil = date.civil();
    let second = time.second_of_day();
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let month = MONTHS[civil.month as usize - 1];
    let day = DAYS[date.day_of_week() as usize - 1];
    let again = |letters: &str| {
        letters
            .chars()
            .map(|letter| lettered(letter, time, date))
            .collect::<Option<Vec<_>>>()
    };
    Some(match letter {
        'Y' => format!("{:04}", civil.year),
        'C' => format!("{:02}", civil.year / 100),
        'y' => format!("{:02}", civil.year.rem_euclid(100)),
        'm' => format!("{:02}", civil.month),
        'd' => format!("{:02}", civil.day),
        'e' => civil.day.to_string(),
        'j' => format!("{:03}", date.day_of_year()),
        'B' => month.to_owned(),
        'b' | 'h' => month[..3].to_owned(),
        'A' => day.to_owned(),
        'a' => day[..3].to_owned(),
        'H' => format!("{hour:02}"),
        'k' => hour.to_string(),
        'I' => format!("{twelve:02}"),
        'l' => twelve.to_string(),
        'M' => format!("{minute:02}"),
        'S' => format!("{:02}", second % 60),
        'L' => format!("{:03}", time.nanos / 1_000_000),
        'N' => format!("{:09}", time.nanos),
        'p' => if hour < 12 { "am" } else { "pm" }.to_owned(),
        'z' => "+0000".to_owned(),
        'Z' => "Z".to_owned(),
        's' => time.seconds.to_string(),
        'Q' => (time.nanos_total() / 1_000_000).to_string(),
        'R' => again("HM")?.join(":"),
        'T' => again("HMS")?.join(":"),
        'r' => format!(
            "{} {}",
            again("IMS")?.join(":"),
            lettered('p', time, date)?.to_uppercase()
        ),
        'D' => again("mdy")?.join("/"),
        'F' => again("Ymd")?.join("-"),
        'c' => again("abdTZY")?.join(" "),
        _ => return None,
    })
}
