//! Arguments as numbers, by the rules of Redis, with the errors that commands answer.

pub use quartet_wire_resp::number::{float, integer, short_whole_number, unsigned};

use crate::command::error_reply::ErrorReply;
use crate::command::errors;
use crate::facts::DATABASES;

/// The part of a word that C treats as its text: it ends at the first NUL. Only bounds of scores
/// and IDs of streams are cut like this.
pub fn before_nul(word: &[u8]) -> &[u8] {
    word.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// The integer, or the error that nearly every command answers.
pub fn required_integer(text: &[u8]) -> Result<i64, ErrorReply> {
    integer(text).ok_or(ErrorReply::new(errors::NOT_INTEGER))
}

/// The number of a database, or what is wrong with it.
pub fn database(text: &[u8]) -> Result<u8, ErrorReply> {
    let number = required_integer(text)?;
    if i32::try_from(number).is_err() {
        return Err("ERR value is out of range, value must between -2147483648 and 2147483647".into());
    }
    let db = u8::try_from(number).ok().filter(|db| *db < DATABASES);
    db.ok_or(errors::DB_OUT_OF_RANGE.into())
}

pub fn required_float(text: &[u8]) -> Result<f64, ErrorReply> {
    float(text).ok_or(ErrorReply::new(errors::NOT_FLOAT))
}

/// Parses a blocking command's timeout in seconds, as a deadline. `None`: wait indefinitely.
pub fn deadline_ms(text: &[u8], now_ms: u64) -> Result<Option<u64>, ErrorReply> {
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
    fn indexes_clamp() {
        assert_eq!(index_range(0, -1, 5), 0..5);
        assert_eq!(index_range(-3, -2, 5), 2..4);
        assert_eq!(index_range(i64::MIN, i64::MAX, 5), 0..5);
        assert_eq!(index_range(5, 9, 5), 0..0);
        assert_eq!(index_range(0, -6, 5), 0..0);
    }
}
