//! Strings. Positions and lengths count code points.

use icu_casemap::TitlecaseMapper;
use icu_locale_core::LanguageIdentifier;
use icu_normalizer::{ComposingNormalizer, DecomposingNormalizer};

use unicode_segmentation::UnicodeSegmentation;

use crate::evaluation::{Arguments, Evaluation};
use crate::language::casefold::casefold;
use crate::language::error::{Errors, Result};
use crate::language::value::Value;

/// Upper bound on the repetitions that one string function makes.
const REPEAT_MAX: i64 = 1024;
const NGRAM_MAX: usize = 100_000;

/// A value in the form of messages.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => crate::language::render::compact(other),
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

pub fn concat(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let separator = arguments.optional(1).map_or("", |_| arguments.text(1));
    let parts: Vec<&str> = texts(arguments, 0).collect();
    let bytes: usize = parts.iter().map(|part| part.len() + separator.len()).sum();
    if bytes > 16 << 20 {
        return Err(Errors::argument("Result string exceeds the size limit."));
    }
    evaluation.make(bytes)?;
    answer(parts.join(separator))
}

pub fn casefold_function(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    evaluation.make(arguments.value(0).size().bytes as usize)?;
    let normalizer = arguments.optional(1).map_or("NFKCCaseFold", |_| arguments.text(1));
    let fold: fn(&str) -> String = match normalizer {
        "NFKCCaseFold" => casefold,
        "NFC" => |text| ComposingNormalizer::new_nfc().normalize(text).into_owned(),
        "NFKC" => |text| ComposingNormalizer::new_nfkc().normalize(text).into_owned(),
        "NFD" => |text| DecomposingNormalizer::new_nfd().normalize(text).into_owned(),
        "NFKD" => |text| DecomposingNormalizer::new_nfkd().normalize(text).into_owned(),
        _ => unreachable!("the declaration asks for a normalizer"),
    };
    let folded = arguments.many(0).iter().map(|value| match value {
        Value::String(text) => Value::string(fold(text)),
        other => other.clone(),
    });
    let mut folded: Vec<Value> = folded.collect();
    // An array of one element is returned as that element.
    match folded.len() {
        1 => Ok(folded.remove(0)),
        _ => Ok(Value::array(folded)),
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

/// The byte offset of a code point; the end if there are fewer.
pub fn byte_of(text: &str, code_point: usize) -> usize {
    text.char_indices().nth(code_point).map_or(text.len(), |(byte, _)| byte)
}

pub fn code_points(text: &str) -> usize {
    text.chars().count()
}

pub fn find(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let text = arguments.text(0);
    let start = start_of(text, arguments.integer(2));
    let position = text[start..].find(arguments.text(1));
    Ok(Value::Int(
        position.map_or(-1, |at| code_points(&text[..start + at]) as i64),
    ))
}

/// The byte offset of the start of a search: zero, if the start is not inside of the text.
pub fn start_of(text: &str, start: Option<i64>) -> usize {
    let start = usize::try_from(start.unwrap_or(0)).unwrap_or(0);
    match start < text.encode_utf16().count() {
        true => byte_of(text, start),
        false => 0,
    }
}

pub fn replace(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let (text, find, with) = (arguments.text(0), arguments.text(1), arguments.text(2));
    let count = text.matches(find).count();
    if text.len() + count.saturating_mul(with.len()) > 16 << 20 {
        return Err(Errors::argument("Result string exceeds the size limit."));
    }
    evaluation.make(text.len() + count * with.len())?;
    answer(text.replace(find, with))
}

pub fn length(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    Ok(Value::Int(code_points(arguments.text(0)) as i64))
}

pub fn lowercase(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    evaluation.make(arguments.text(0).len())?;
    answer(arguments.text(0).to_lowercase())
}

pub fn uppercase(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    evaluation.make(arguments.text(0).len())?;
    answer(arguments.text(0).to_uppercase())
}

/// The first letter of each word large, the others small; words are those of Unicode's
/// segmentation.
pub fn titlecase(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    evaluation.make(arguments.value(0).size().bytes as usize)?;
    let mapper = TitlecaseMapper::new();
    let words = arguments.text(0).split_word_bounds();
    let titled =
        words.map(|word| mapper.titlecase_segment_to_string(word, &LanguageIdentifier::UNKNOWN, Default::default()));
    answer(titled.collect::<String>())
}

/// Returns true for Java's white space: no-break spaces are not.
fn is_white_space(c: char) -> bool {
    match c {
        '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{85}' => false,
        '\u{1c}'..='\u{1f}' => true,
        c => c.is_whitespace(),
    }
}

pub fn trim_start(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    evaluation.make(arguments.value(0).size().bytes as usize)?;
    answer(arguments.text(0).trim_start_matches(is_white_space))
}

pub fn trim_end(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    evaluation.make(arguments.value(0).size().bytes as usize)?;
    answer(arguments.text(0).trim_end_matches(is_white_space))
}

pub fn trim(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    evaluation.make(arguments.value(0).size().bytes as usize)?;
    answer(arguments.text(0).trim_matches(is_white_space))
}

/// Checks the sizes of n-grams; the defaults are 1 and 2.
fn check_ngram_sizes(min: Option<i64>, max: Option<i64>) -> Result<()> {
    let (given_min, given_max) = (min.is_some(), max.is_some());
    let (min, max) = (min.unwrap_or(1), max.unwrap_or(2));
    let wrong = match (given_min, given_max) {
        (true, true) => vec![
            (min > max || min <= 0, "min ngram size must be > 0 and <= max"),
            (max <= 0, "max ngram size must be > 0"),
            (max.saturating_sub(min) > 1, "max ngram size must be <= min + 1"),
        ],
        (true, false) => vec![
            (min > max || min <= 0, "min ngram size must be > 0 and <= max"),
            (max.saturating_sub(min) > 1, "min ngram size must be >= max - 1"),
        ],
        (false, true) => vec![
            (max <= min, "max ngram size must be > 0 and >= min"),
            (max.saturating_sub(min) > 1, "max ngram size must be <= min + 1"),
        ],
        (false, false) => Vec::new(),
    };
    let errors = wrong.into_iter().filter(|(is_wrong, _)| *is_wrong);
    Errors::unless_empty(errors.flat_map(|(_, message)| Errors::argument(message).0).collect())
}

pub fn ngram(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    check_ngram_sizes(arguments.integer(1), arguments.integer(2))?;
    let min = arguments.integer(1).unwrap_or(1);
    let max = arguments.integer(2).unwrap_or(2);
    let mut grams = Vec::new();
    for value in arguments.many(0) {
        let Value::String(text) = value else {
            grams.push(value.clone());
            continue;
        };
        let bounds: Vec<usize> = text.char_indices().map(|(byte, _)| byte).chain([text.len()]).collect();
        for start in 0..bounds.len() - 1 {
            for size in min..=max {
                let end = start.saturating_add(size as usize);
                if let Some(&end) = bounds.get(end) {
                    evaluation.make(end - bounds[start])?;
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

/// The number of repetitions, clamped to the limit and to zero.
fn repetitions(number: i64) -> usize {
    number.clamp(0, REPEAT_MAX) as usize
}

pub fn repeat(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let count = repetitions(arguments.integer(1).unwrap_or(2));
    if arguments.text(0).len().saturating_mul(count) > 16 << 20 {
        return Err(Errors::argument("Result string exceeds the size limit."));
    }
    evaluation.make(arguments.text(0).len() * count)?;
    answer(arguments.text(0).repeat(count))
}

pub fn space(_: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    answer(" ".repeat(repetitions(arguments.integer(0).unwrap_or(0))))
}

pub fn substring(evaluation: &mut Evaluation<'_>, arguments: &Arguments) -> Result<Value> {
    let text = arguments.text(0);
    evaluation.make(text.len())?;
    let total = code_points(text) as i64;
    let start = match arguments.integer(1).unwrap_or(0) {
        start @ ..0 => start.saturating_add(total),
        start => start,
    };
    if !(0..=total).contains(&start) {
        let message = "start must be less than or equal to the string length";
        return Err(Errors::argument(message));
    }
    let length = arguments.integer(2).unwrap_or(total);
    if length < 0 {
        return Err(Errors::argument("length must be positive"));
    }
    let tail = &text[byte_of(text, start as usize)..];
    answer(&tail[..byte_of(tail, length as usize)])
}
