//! Strings. Positions and lengths count code points.

use icu_casemap::CaseMapper;
use icu_normalizer::{ComposingNormalizer, DecomposingNormalizer};

use crate::error::{Errors, Result, Within};
use crate::evaluation::{Arguments, Evaluation, wrong_type};
use crate::value::Value;

/// What one string function may make at most.
const REPEAT_MAX: i64 = 1024;
const NGRAM_MAX: usize = 100_000;

/// A value as it stands in messages.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => crate::render::compact(other),
    }
}

fn texts(arguments: &Arguments, index: usize) -> impl Iterator<Item = &str> {
    arguments
        .many(index)
        .iter()
        .filter_map(|value| value.as_str().map(|text| &**text))
}

fn answer(text: impl Into<std::sync::Arc<str>>) -> Result<Value> {
    Ok(Value::string(text))
}

pub fn concat(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let separator = arguments.optional(1).map_or("", |_| arguments.text(1));
    let parts: Vec<&str> = texts(arguments, 0).collect();
    let bytes: usize = parts.iter().map(|part| part.len() + separator.len()).sum();
    if bytes > 16 << 20 {
        return Err(Errors::argument("Result string exceeds the size limit."));
    }
    answer(parts.join(separator))
}

/// Unicode's NFKC_Casefold.
pub fn casefold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let normalizer = ComposingNormalizer::new_nfkc();
    let fold = |text: &str| CaseMapper::new().fold_string(text).into_owned();
    let once = normalizer.normalize(&fold(text)).into_owned();
    normalizer.normalize(&fold(&once)).into_owned()
}

pub fn casefold_function(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let normalizer = arguments.optional(1).map_or("NFKCCaseFold", |_| arguments.text(1));
    let fold: fn(&str) -> String = match normalizer {
        "NFKCCaseFold" => casefold,
        "NFC" => |text| ComposingNormalizer::new_nfc().normalize(text).into_owned(),
        "NFKC" => |text| ComposingNormalizer::new_nfkc().normalize(text).into_owned(),
        "NFD" => |text| DecomposingNormalizer::new_nfd().normalize(text).into_owned(),
        "NFKD" => |text| DecomposingNormalizer::new_nfkd().normalize(text).into_owned(),
        _ => {
            let expected = "String 'NFKCCaseFold', 'NFC', 'NFD', 'NFKC', or 'NFKD'";
            return Err(wrong_type(expected, arguments.value(1))).within("normalizer");
        }
    };
    folded(arguments.value(0), fold).within("casefold")
}

fn folded(value: &Value, fold: fn(&str) -> String) -> Result<Value> {
    match value {
        Value::String(text) => answer(fold(text)),
        Value::Array(items) => {
            let folded: Result<Vec<Value>> = items.values.iter().map(|value| folded(value, fold)).collect();
            Ok(Value::array(folded?))
        }
        Value::Object(_) | Value::Page(_) | Value::Document(_) | Value::Set(_) => Err(wrong_type("Scalar", value)),
        other => Ok(other.clone()),
    }
}

pub fn contains(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Bool(arguments.text(0).contains(arguments.text(1))))
}

pub fn starts_with(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Bool(arguments.text(0).starts_with(arguments.text(1))))
}

pub fn ends_with(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Bool(arguments.text(0).ends_with(arguments.text(1))))
}

/// The byte at which a code point begins; the end if there are fewer.
pub fn byte_of(text: &str, code_point: usize) -> usize {
    text.char_indices().nth(code_point).map_or(text.len(), |(byte, _)| byte)
}

pub fn code_points(text: &str) -> usize {
    text.chars().count()
}

pub fn find(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let text = arguments.text(0);
    let start = start_of(text, arguments.integer(2)).within("start")?;
    let found = text[start..].find(arguments.text(1));
    Ok(Value::Int(
        found.map_or(-1, |at| code_points(&text[..start + at]) as i64),
    ))
}

/// The byte at which a search starts.
pub fn start_of(text: &str, start: Option<i64>) -> Result<usize> {
    let start = start.unwrap_or(0);
    match usize::try_from(start) {
        Ok(start) => Ok(byte_of(text, start)),
        Err(_) => Err(Errors::argument("start must be greater than or equal to zero")),
    }
}

pub fn replace(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let (text, find, with) = (arguments.text(0), arguments.text(1), arguments.text(2));
    let count = text.matches(find).count();
    if text.len() + count.saturating_mul(with.len()) > 16 << 20 {
        return Err(Errors::argument("Result string exceeds the size limit."));
    }
    answer(text.replace(find, with))
}

pub fn length(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Int(code_points(arguments.text(0)) as i64))
}

pub fn lowercase(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    answer(arguments.text(0).to_lowercase())
}

pub fn uppercase(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    answer(arguments.text(0).to_uppercase())
}

/// The first letter of each word large, the others small.
pub fn titlecase(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let mut out = String::new();
    let mut in_word = false;
    for c in arguments.text(0).chars() {
        let is_letter = c.is_alphanumeric() || (c == '\'' && in_word);
        match (is_letter, in_word) {
            (true, false) => out.extend(c.to_uppercase()),
            _ => out.extend(c.to_lowercase()),
        }
        in_word = is_letter;
    }
    answer(out)
}

pub fn trim_start(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    answer(arguments.text(0).trim_start())
}

pub fn trim_end(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    answer(arguments.text(0).trim_end())
}

pub fn trim(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    answer(arguments.text(0).trim())
}

pub fn ngram(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let min = arguments.integer(1).unwrap_or(1);
    let max = arguments.integer(2).unwrap_or(min.saturating_add(1));
    if min <= 0 || min > max {
        return Err(Errors::argument("min ngram size must be > 0 and <= max"));
    }
    if max - min > 1 {
        return Err(Errors::argument("max ngram size must be <= min + 1"));
    }
    let mut grams = Vec::new();
    for text in texts(arguments, 0) {
        let bounds: Vec<usize> = text.char_indices().map(|(byte, _)| byte).chain([text.len()]).collect();
        for start in 0..bounds.len() - 1 {
            for size in min..=max {
                let end = start.saturating_add(size as usize);
                if let Some(&end) = bounds.get(end) {
                    grams.push(Value::string(&text[bounds[start]..end]));
                }
            }
            evaluation.step(1)?;
            if grams.len() > NGRAM_MAX {
                return Err(Errors::argument("Result array exceeds the size limit."));
            }
        }
    }
    Ok(Value::array(grams))
}

/// More repetitions than the limit are cut down to it (observed).
fn repetitions(number: i64, key: &'static str) -> Result<usize> {
    match number {
        0.. => Ok(number.min(REPEAT_MAX) as usize),
        _ => Err(Errors::argument("number must be greater than or equal to zero")).within(key),
    }
}

pub fn repeat(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let count = repetitions(arguments.integer(1).unwrap_or(2), "number")?;
    if arguments.text(0).len().saturating_mul(count) > 16 << 20 {
        return Err(Errors::argument("Result string exceeds the size limit."));
    }
    answer(arguments.text(0).repeat(count))
}

pub fn space(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    answer(" ".repeat(repetitions(arguments.integer(0).unwrap_or(0), "space")?))
}

pub fn substring(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let text = arguments.text(0);
    let total = code_points(text) as i64;
    let mut start = arguments.integer(1).unwrap_or(0);
    if start < 0 {
        start = (start + total).max(0);
    }
    if start > total {
        return Err(Errors::argument(
            "start must be less than or equal to the string length",
        ));
    }
    let length = arguments.integer(2).unwrap_or(total);
    if length < 0 {
        return Err(Errors::argument("length must be greater than or equal to zero")).within("length");
    }
    let rest = &text[byte_of(text, start as usize)..];
    answer(&rest[..byte_of(rest, length as usize)])
}
