//! Values of parameters: from what a client sent to what is stored and shown, with the errors of
//! Redis 7.0.

use crate::command::parse;
use crate::config::table::Kind;

/// Checks `value` and gives the text to store. `current` is the present text.
pub fn check(kind: Kind, value: &[u8], current: &str) -> Result<String, String> {
    let text = std::str::from_utf8(value).map_err(|_| "argument must be valid UTF-8".to_owned())?;
    match kind {
        Kind::Boolean => boolean(text),
        Kind::Text => Ok(text.to_owned()),
        // Never stored as it is: the handler keeps its hash.
        Kind::Password => Ok(String::new()),
        Kind::Integer(min, max) => {
            let number = parse::integer(value).ok_or("argument couldn't be parsed into an integer")?;
            within(number, min, max)
        }
        Kind::Memory(min, max) => within(memory(text).ok_or(NOT_MEMORY)?, min, max),
        Kind::MemoryOrPercent => memory_or_percent(text),
        Kind::Choice(words) => choice(text, words),
        Kind::Words(words) => several(text, words),
        Kind::Fixed(error) if text != current => Err(error.to_owned()),
        Kind::Fixed(_) => Ok(text.to_owned()),
        Kind::SavePoints => save_points(text),
        Kind::BufferLimits => buffer_limits(text, current),
        Kind::OomScores => oom_scores(text),
        Kind::KeyspaceEvents => keyspace_events(text),
        Kind::Percentiles => percentiles(text),
    }
}

/// The number of a checked text.
pub fn number(text: &str) -> i64 {
    match text {
        "yes" => 1,
        "no" => 0,
        digits => digits.parse().expect("a checked number"),
    }
}

pub fn show_number(kind: Kind, number: i64) -> String {
    match (kind, number) {
        (Kind::Boolean, 0) => "no".into(),
        (Kind::Boolean, _) => "yes".into(),
        _ => number.to_string(),
    }
}

fn boolean(text: &str) -> Result<String, String> {
    choice(text, &["yes", "no"]).map_err(|_| "argument must be 'yes' or 'no'".into())
}

fn within(number: i64, min: i64, max: i64) -> Result<String, String> {
    if number < min || number > max {
        return Err(format!("argument must be between {min} and {max} inclusive"));
    }
    Ok(number.to_string())
}

/// Bytes with a unit of Redis' configuration file: `k` is 1000, `kb` is 1024.
pub fn memory(text: &str) -> Option<i64> {
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_end);
    let factor: i64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1000 * 1000,
        "mb" => 1 << 20,
        "g" => 1000 * 1000 * 1000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<i64>().ok()?.checked_mul(factor)
}

fn memory_or_percent(text: &str) -> Result<String, String> {
    let Some(percent) = text.strip_suffix('%') else {
        return Ok(memory(text)
            .ok_or("argument must be a memory or percent value")?
            .to_string());
    };
    match percent.parse::<u64>() {
        Ok(percent) if percent > 100 => Err("percentage argument must be less or equal to 100".into()),
        Ok(percent) => Ok(format!("{percent}%")),
        Err(_) => Err("argument must be a memory or percent value".into()),
    }
}

fn choice(text: &str, words: &[&str]) -> Result<String, String> {
    let choice_word = words.iter().find(|word| word.eq_ignore_ascii_case(text));
    choice_word.map(|word| (*word).to_owned()).ok_or_else(|| one_of(words))
}

fn several(text: &str, words: &[&str]) -> Result<String, String> {
    let chosen: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
    let is_known = |word: &String| words.contains(&word.as_str());
    if chosen.is_empty()
        || !chosen.iter().all(is_known)
        || chosen.len() > 1 && chosen.iter().any(|word| word == words[0])
    {
        return Err(one_of(words));
    }
    let accepted = words.iter().filter(|word| chosen.iter().any(|other| other == *word));
    Ok(accepted.copied().collect::<Vec<_>>().join(" "))
}

fn one_of(words: &[&str]) -> String {
    format!("argument(s) must be one of the following: {}", words.join(", "))
}

fn save_points(text: &str) -> Result<String, String> {
    let numbers = integers(text).filter(|numbers| numbers.len() % 2 == 0);
    let numbers = numbers.ok_or("Invalid save parameters")?;
    if numbers.chunks(2).any(|pair| pair[0] < 1 || pair[1] < 0) {
        return Err("Invalid save parameters".into());
    }
    Ok(joined(&numbers))
}

fn oom_scores(text: &str) -> Result<String, String> {
    let words = text.split_whitespace().count();
    if words != 3 {
        return Err("wrong number of arguments".into());
    }
    let scores = integers(text).ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?;
    if scores.iter().any(|score| !(-2000..=2000).contains(score)) {
        return Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into());
    }
    Ok(joined(&scores))
}

fn integers(text: &str) -> Option<Vec<i64>> {
    text.split_whitespace()
        .map(|word| parse::integer(word.as_bytes()))
        .collect()
}

fn joined(numbers: &[i64]) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

fn percentiles(text: &str) -> Result<String, String> {
    let error = || "Invalid latency-tracking-info-percentiles parameters".to_owned();
    let mut text_parts = Vec::new();
    for word in text.split_whitespace() {
        let percentile = parse::float(word.as_bytes()).ok_or_else(error)?;
        if !(0.0..=100.0).contains(&percentile) {
            return Err(error());
        }
        text_parts.push(percentile.to_string());
    }
    Ok(text_parts.join(" "))
}

/// Replaces the limits of the classes that are named and keeps the others.
fn buffer_limits(text: &str, current: &str) -> Result<String, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut limits: Vec<String> = current.split(' ').map(str::to_owned).collect();
    for group in words.chunks(4) {
        let class = buffer_class(group[0]).ok_or("Invalid client class specified in buffer limit configuration.")?;
        let (hard, soft) = (memory(group[1]), memory(group[2]));
        let seconds = parse::integer(group[3].as_bytes()).filter(|seconds| *seconds >= 0);
        let (Some(hard), Some(soft), Some(seconds)) = (hard, soft, seconds) else {
            return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.".into());
        };
        for (offset, number) in [hard, soft, seconds].into_iter().enumerate() {
            limits[class * 4 + 1 + offset] = number.to_string();
        }
    }
    Ok(limits.join(" "))
}

fn buffer_class(word: &str) -> Option<usize> {
    match word.to_ascii_lowercase().as_str() {
        "normal" => Some(0),
        "slave" | "replica" => Some(1),
        "pubsub" => Some(2),
        _ => None,
    }
}

/// `A` means all classes except `m`, `n`, `o` and `c`; K, E and `m` are last. Beside `A` Redis 8.2
/// does not show `n`, `o` and `c`; here they are behind the others, so that the text says what is
/// set.
fn keyspace_events(text: &str) -> Result<String, String> {
    const IN_ALL: &str = "g$lshzxetd";
    if !text
        .chars()
        .all(|class| "AKEmnoc".contains(class) || IN_ALL.contains(class))
    {
        return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdnoc'.".into());
    }
    let has = |class: char| text.contains(class);
    let mut letters = String::new();
    let has_all = has('A') || IN_ALL.chars().all(has);
    let order = match has_all {
        true => "AKEmnoc".to_owned(),
        false => format!("{IN_ALL}nocKEm"),
    };
    letters.extend(order.chars().filter(|class| has(*class) || *class == 'A'));
    Ok(letters)
}

const NOT_MEMORY: &str = "argument must be a memory value";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_memory() {
        for (text, bytes) in [
            ("10", Some(10)),
            ("1k", Some(1000)),
            ("1KB", Some(1024)),
            ("10mb", Some(10 << 20)),
            ("-1", None),
            ("", None),
            ("1x", None),
            ("9223372036854775807gb", None),
        ] {
            assert_eq!(memory(text), bytes, "{text}");
        }
    }

    #[test]
    fn every_default_is_valid() {
        for parameter in crate::config::table::PARAMETERS {
            let text = check(parameter.kind, parameter.default.as_bytes(), parameter.default);
            assert_eq!(text.as_deref(), Ok(parameter.default), "{}", parameter.name);
        }
    }
}
