//! Suggestions: completions of a typed prefix.
//!
//! ```text
//! the key's row   payload: id (10), number of texts (8)
//! a row a text    the text in lower case, escaped, 00 00, the text if it is another -> score (8), payload
//! ```
//!
//! `00` is escaped as `00 ff`. Flags: `LARGE`, always. Invariants: there is at least one text; the
//! number equals that of the rows.

use std::ops::ControlFlow;

use quartet_layer_redis::module_api::{Context, ELEMENT_BYTES, Elements, Entry, ErrorReply, Header, Keyspace, LARGE};
use quartet_search::text::analysis::folded;
use quartet_wire_rdb::suggestions::Suggestion;
use quartet_wire_resp::Arguments;

use super::lookup::words;
use crate::indexes::{Words, refused};
use crate::kinds::SUGGESTIONS;

/// Longest text, in bytes.
const TEXT_BYTES_MAX: usize = 4096;

/// Longest payload, in bytes.
const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// Default number of suggestions in an answer.
const COUNT_DEFAULT: usize = 5;

/// Edits of the prefix that FUZZY allows.
const DISTANCE: usize = 1;

/// The score of a text that is what was typed.
const WHOLE: f32 = i32::MAX as f32;

/// The number of texts of a key's row.
pub fn count(entry: &Entry) -> u64 {
    entry
        .large_payload()
        .first_chunk()
        .map_or(0, |count| u64::from_be_bytes(*count))
}

/// Takes a text, its score and its payload.
pub type Visit<'v> = &'v mut dyn FnMut(&[u8], f64, &[u8]);

/// The texts of a key, in the order of the rows.
pub fn each(keys: &mut Keyspace<'_, '_>, entry: &Entry, visit: Visit<'_>) {
    entry.elements().scan(keys.tx, b"", None, false, &mut |key, value| {
        let (score, payload) = value_of(value);
        visit(&text_of(key), score, payload);
        ControlFlow::Continue(())
    });
}

/// All that a key suggests.
pub fn value(keys: &mut Keyspace<'_, '_>, entry: &Entry) -> Vec<Suggestion> {
    let mut all = Vec::new();
    each(keys, entry, &mut |text, score, payload| {
        all.push(Suggestion {
            text: text.to_vec(),
            score,
            payload: payload.to_vec(),
        });
    });
    all
}

/// Makes a key of different texts, of which there is at least one.
pub fn store(keys: &mut Keyspace<'_, '_>, name: &[u8], all: &[Suggestion]) -> Result<(), ErrorReply> {
    let elements = keys.new_elements();
    for suggestion in all {
        check_lengths(&suggestion.text, &suggestion.payload)?;
        let value = [&suggestion.score.to_be_bytes()[..], &suggestion.payload].concat();
        elements.set(keys.tx, &element(&suggestion.text), &value);
    }
    write_count(keys, name, None, &elements, all.len() as u64);
    Ok(())
}

fn check_lengths(text: &[u8], payload: &[u8]) -> Result<(), ErrorReply> {
    match text.len() > TEXT_BYTES_MAX || payload.len() > PAYLOAD_BYTES_MAX {
        true => Err(refused("A suggestion is too long")),
        false => Ok(()),
    }
}

fn escaped(text: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(text.len() + 2);
    for &byte in text {
        key.push(byte);
        if byte == 0 {
            key.push(0xff);
        }
    }
    key
}

fn element(text: &[u8]) -> Vec<u8> {
    let folded = folded(text);
    let mut key = escaped(&folded);
    key.extend([0, 0]);
    if folded != text {
        key.extend_from_slice(text);
    }
    key
}

fn text_of(key: &[u8]) -> Vec<u8> {
    let (mut folded, mut remaining) = (Vec::new(), key);
    while let [byte, behind @ ..] = remaining {
        remaining = behind;
        if *byte == 0 {
            remaining = behind.get(1..).unwrap_or_default();
            if behind.first() != Some(&0xff) {
                break;
            }
        }
        folded.push(*byte);
    }
    match remaining {
        [] => folded,
        text => text.to_vec(),
    }
}

fn value_of(value: &[u8]) -> (f64, &[u8]) {
    let (score, payload) = value.split_first_chunk().expect("a suggestion has a score");
    (f64::from_be_bytes(*score), payload)
}

fn write_count(keys: &mut Keyspace<'_, '_>, name: &[u8], old: Option<&Entry>, elements: &Elements, count: u64) {
    if count == 0 {
        keys.remove(name);
        return;
    }
    let header = old.map_or(Header::new(SUGGESTIONS), Header::of).flags(LARGE);
    keys.put_parts(name, header, &[elements.id(), &count.to_be_bytes()]);
}

pub fn add(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 3)?;
    let (name, text) = (words[0], words[1]);
    let score = std::str::from_utf8(words[2])
        .ok()
        .and_then(|score| score.parse::<f64>().ok());
    let score = score
        .filter(|score| score.is_finite())
        .ok_or_else(|| refused("invalid score"))?;
    let mut options = Words::new(&words[3..]);
    let (mut adds, mut payload) = (false, Vec::new());
    while options.left() > 0 {
        if options.take("INCR") {
            adds = true;
        } else if options.take("PAYLOAD") {
            payload = options.argument("PAYLOAD")?.to_vec();
        } else {
            let word = String::from_utf8_lossy(options.peek().unwrap_or_default()).into_owned();
            return Err(refused(format!("Unknown argument `{word}`")));
        }
    }
    check_lengths(text, &payload)?;
    let mut keys = context.keys();
    let old = keys.find_kind(name, SUGGESTIONS)?;
    let elements = old.as_ref().map_or_else(|| keys.new_elements(), Entry::elements);
    let mut number = old.as_ref().map_or(0, count);
    let element = element(text);
    let stored = elements.get(keys.tx, &element);
    let before = stored.as_ref().map(|row| value_of(row.value()).0);
    if let Some(row) = stored.as_ref().filter(|_| payload.is_empty()) {
        // As at the original, a text keeps its payload until it gets another.
        payload = value_of(row.value()).1.to_vec();
    }
    let score = if adds { before.unwrap_or(0.0) + score } else { score };
    // As at the original, a text without a score is none.
    if !text.is_empty() && (score != 0.0 || before.is_some()) {
        elements.set(keys.tx, &element, &[&score.to_be_bytes()[..], &payload].concat());
        number += u64::from(before.is_none());
        write_count(&mut keys, name, old.as_ref(), &elements, number);
    }
    context.reply.integer(number as i64);
    Ok(())
}

pub fn length(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 1)?;
    let entry = context.read_kind(words[0], SUGGESTIONS)?;
    context.reply.integer(entry.as_ref().map_or(0, count) as i64);
    Ok(())
}

pub fn remove(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 2)?;
    let mut keys = context.keys();
    let old = keys.find_kind(words[0], SUGGESTIONS)?;
    let is_removed = old.is_some_and(|old| {
        let elements = old.elements();
        let is_removed = elements.clear(keys.tx, &element(words[1])).is_some();
        if is_removed {
            write_count(&mut keys, words[0], Some(&old), &elements, count(&old) - 1);
        }
        is_removed
    });
    context.reply.integer(is_removed.into());
    Ok(())
}

/// The arguments of FT.SUGGET.
struct SuggestRequest {
    typed: Vec<char>,
    is_fuzzy: bool,
    with_scores: bool,
    with_payloads: bool,
    count: usize,
}

impl SuggestRequest {
    fn read(words: &[&[u8]]) -> Result<SuggestRequest, ErrorReply> {
        let typed = folded(words[0]);
        let mut request = SuggestRequest {
            typed: String::from_utf8_lossy(&typed).chars().collect(),
            is_fuzzy: false,
            with_scores: false,
            with_payloads: false,
            count: COUNT_DEFAULT,
        };
        let mut options = Words::new(&words[1..]);
        while options.left() > 0 {
            if options.take("FUZZY") {
                request.is_fuzzy = true;
            } else if options.take("WITHSCORES") {
                request.with_scores = true;
            } else if options.take("WITHPAYLOADS") {
                request.with_payloads = true;
            } else if options.take("MAX") {
                let word = options.next();
                let word = word.ok_or_else(|| refused("MAX: Expected an argument, but none provided"))?;
                let count = std::str::from_utf8(word).ok().and_then(|word| word.parse::<i64>().ok());
                let count = count.ok_or_else(|| refused("MAX: Could not convert argument to expected type"))?;
                let count = usize::try_from(count).ok().filter(|count| *count > 0);
                request.count = count.ok_or_else(|| refused("MAX: Value is outside acceptable bounds"))?;
            } else {
                let word = String::from_utf8_lossy(options.peek().unwrap_or_default()).into_owned();
                return Err(refused(format!("Unrecognized argument: {word}")));
            }
        }
        Ok(request)
    }

    /// How well a text fits; nothing if it does not.
    fn score(&self, text: &[u8], score: f64) -> Option<f32> {
        let letters: Vec<char> = String::from_utf8_lossy(&folded(text)).chars().collect();
        let distance = match self.is_fuzzy {
            true if self.typed.len() > letters.len() + DISTANCE => return None,
            true => least_distance(&self.typed, &letters).filter(|distance| *distance <= DISTANCE)?,
            false if letters.starts_with(&self.typed) => 0,
            false => return None,
        };
        let mut score = match is_whole(&self.typed, text) {
            true => WHOLE,
            false => score as f32,
        };
        if self.is_fuzzy {
            score = (f64::from(score) * (-2.0 * distance as f64).exp()) as f32;
        }
        let beyond = letters.len().abs_diff(self.typed.len());
        Some((f64::from(score) / (1.0 + beyond as f64).sqrt()) as f32)
    }
}

/// The text is what was typed. The original compares the first half of texts of the same length.
fn is_whole(typed: &[char], text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let text: Vec<u16> = text.chars().map(|letter| letter as u16).collect();
    let typed: Vec<u16> = typed.iter().map(|letter| *letter as u16).collect();
    let bytes = |letters: &[u16]| {
        letters
            .iter()
            .flat_map(|letter| letter.to_le_bytes())
            .collect::<Vec<_>>()
    };
    text.len() == typed.len() && bytes(&text)[..text.len()] == bytes(&typed)[..typed.len()]
}

/// The least distance of the typed text from a prefix of the text.
fn least_distance(typed: &[char], text: &[char]) -> Option<usize> {
    let mut row: Vec<usize> = (0..=typed.len()).collect();
    let mut least = row[typed.len()];
    for (at, letter) in text.iter().take(typed.len() + DISTANCE).enumerate() {
        let mut next = vec![at + 1];
        for (position, other) in typed.iter().enumerate() {
            let replaced = row[position] + usize::from(letter != other);
            next.push(replaced.min(row[position + 1] + 1).min(next[position] + 1));
        }
        row = next;
        least = least.min(row[typed.len()]);
    }
    Some(least)
}

pub fn get(context: &mut Context<'_, '_>, arguments: Arguments<'_>) -> Result<(), ErrorReply> {
    let words = words(arguments, 2)?;
    let request = SuggestRequest::read(&words[1..])?;
    let Some(entry) = context.read_kind(words[0], SUGGESTIONS)? else {
        context.reply.array(0);
        return Ok(());
    };
    let (mut matches, mut refused) = (Vec::new(), Ok(()));
    let groups = context.groups;
    let mut workspace = groups.workspace();
    let start = match request.is_fuzzy {
        true => Vec::new(),
        false => escaped(&folded(words[1])),
    };
    let end = (!start.is_empty()).then(|| quartet_model::next_prefix(&start));
    entry
        .elements()
        .scan(context.tx, &start, end.as_deref(), false, &mut |key, value| {
            let (text, (score, payload)) = (text_of(key), value_of(value));
            let payload = if request.with_payloads { payload } else { b"" };
            if let Some(score) = request.score(&text, score) {
                refused = workspace.take(ELEMENT_BYTES + text.len() + payload.len());
                matches.push((score, text, payload.to_vec()));
            }
            // Twice as many are kept for a while, so the sorting is paid for.
            if matches.len() >= request.count.saturating_mul(2).max(1024) {
                keep_best(&mut matches, request.count);
                let best = matches
                    .iter()
                    .map(|(_, text, payload)| ELEMENT_BYTES + text.len() + payload.len());
                workspace = groups.workspace();
                refused = workspace.take(best.sum());
            }
            match refused {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        });
    refused?;
    keep_best(&mut matches, request.count);
    let elements = 1 + usize::from(request.with_scores) + usize::from(request.with_payloads);
    context.reply.array(matches.len() * elements);
    for (score, text, payload) in &matches {
        context.reply.bulk(text);
        if request.with_scores {
            context.reply.double(f64::from(*score));
        }
        if request.with_payloads {
            match payload.is_empty() {
                true => context.reply.null(),
                false => context.reply.bulk(payload),
            }
        }
    }
    Ok(())
}

fn keep_best(matches: &mut Vec<(f32, Vec<u8>, Vec<u8>)>, count: usize) {
    matches.sort_by(|a, b| b.0.total_cmp(&a.0));
    matches.truncate(count);
}
