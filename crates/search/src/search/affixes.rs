//! Which terms match a pattern.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::SearchError;
use crate::document::DocumentRow;
use crate::index::DocumentRows;
use crate::layout::{after, tag_of, tag_prefix, tags_from, term_row};
use crate::postings::documents_of;
use crate::query::Affix;
use crate::rows::Rows;

/// Most terms that a pattern stands for. The first in byte order are taken, as they are the same
/// whatever is settled; the original takes what its tree has first.
pub const EXPANSIONS_MAX: usize = 200;

/// Shortest text of a pattern, in bytes. Shorter ones match nothing, as at the original.
const TEXT_BYTES_MIN: usize = 2;

impl Affix {
    fn text(&self) -> &[u8] {
        let (Affix::Prefix(text)
        | Affix::Suffix(text)
        | Affix::Infix(text)
        | Affix::Wildcard(text)
        | Affix::Fuzzy(text, _)) = self;
        text
    }

    fn is_too_short(&self) -> bool {
        let is_bounded = matches!(self, Affix::Prefix(_) | Affix::Suffix(_) | Affix::Infix(_));
        is_bounded && self.text().len() < TEXT_BYTES_MIN
    }

    /// The beginning that every matching term shares.
    fn literal(&self) -> &[u8] {
        match self {
            Affix::Prefix(text) => text,
            Affix::Wildcard(pattern) => {
                let end = pattern.iter().position(|byte| b"*?\\".contains(byte));
                &pattern[..end.unwrap_or(pattern.len())]
            }
            _ => b"",
        }
    }

    /// Returns true if the term matches.
    pub(super) fn matches(&self, term: &[u8]) -> bool {
        match self {
            Affix::Prefix(prefix) => term.starts_with(prefix),
            Affix::Suffix(suffix) => term.ends_with(suffix),
            Affix::Infix(infix) => term.windows(infix.len()).any(|window| window == infix),
            Affix::Wildcard(pattern) => matches_wildcard(pattern, term),
            // A rune has four bytes at most.
            Affix::Fuzzy(word, distance) => {
                word.len() / 4 <= term.len() + distance && is_within(&runes(word), &runes(term), *distance)
            }
        }
    }
}

/// The terms of all documents that match, in byte order.
pub(super) fn terms(
    rows: &mut dyn Rows,
    affix: &Affix,
    (unsettled, gone): (&DocumentRows, &DocumentRows),
    is_over: &dyn Fn() -> bool,
) -> Result<Vec<Vec<u8>>, SearchError> {
    if affix.is_too_short() {
        return Ok(Vec::new());
    }
    let gone = counted(affix, gone, is_over)?;
    let mut found: Vec<Vec<u8>> = counted(affix, unsettled, is_over)?.into_keys().collect();
    let start = term_row(affix.literal());
    let mut settled = 0;
    rows.scan(&start, &after(&start), &mut |key, row| {
        let term = &key[1..];
        let documents = documents_of(row);
        if affix.matches(term) && gone.get(term).is_none_or(|gone| *gone < documents) {
            found.push(term.to_vec());
            settled += 1;
        }
        match settled < EXPANSIONS_MAX && !is_over() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    if is_over() {
        return Err(SearchError::Timeout);
    }
    found.sort();
    found.dedup();
    found.truncate(EXPANSIONS_MAX);
    Ok(found)
}

/// The terms of some documents that match, with how many of them have each.
fn counted(
    affix: &Affix,
    documents: &DocumentRows,
    is_over: &dyn Fn() -> bool,
) -> Result<BTreeMap<Vec<u8>, u32>, SearchError> {
    let mut counts = BTreeMap::new();
    for (_, row) in documents {
        if is_over() {
            return Err(SearchError::Timeout);
        }
        DocumentRow::read(row).terms(|term, _| {
            if affix.matches(term) {
                *counts.entry(term.to_vec()).or_default() += 1;
            }
        });
    }
    Ok(counts)
}

/// The values of a TAG field that match, in byte order.
pub(super) fn tags(
    rows: &mut dyn Rows,
    field: u16,
    affix: &Affix,
    is_over: &dyn Fn() -> bool,
) -> Result<Vec<Vec<u8>>, SearchError> {
    let mut found = Vec::new();
    if affix.is_too_short() {
        return Ok(found);
    }
    let mut start = tags_from(field, affix.literal());
    let end = after(&start);
    while found.len() < EXPANSIONS_MAX {
        if is_over() {
            return Err(SearchError::Timeout);
        }
        let mut first = None;
        rows.scan(&start, &end, &mut |key, _| {
            first = Some(tag_of(key));
            ControlFlow::Break(())
        });
        let Some(value) = first else {
            break;
        };
        start = after(&tag_prefix(field, &value));
        if affix.matches(&value) {
            found.push(value);
        }
    }
    Ok(found)
}

/// `*` is any text, `?` one byte of it, and a backslash makes the next byte plain. Takes at most
/// the product of both lengths.
fn matches_wildcard(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut of_text) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while of_text < text.len() {
        let escapes = pattern.get(at) == Some(&b'\\') && at + 1 < pattern.len();
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, of_text));
                at += 1;
            }
            Some(b'?') => (at, of_text) = (at + 1, of_text + 1),
            Some(_) if escapes && pattern[at + 1] == text[of_text] => (at, of_text) = (at + 2, of_text + 1),
            Some(byte) if !escapes && *byte == text[of_text] => (at, of_text) = (at + 1, of_text + 1),
            _ => match &mut star {
                None => return false,
                Some((behind, from)) => {
                    *from += 1;
                    (at, of_text) = (*behind, *from);
                }
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

fn runes(text: &[u8]) -> Vec<char> {
    String::from_utf8_lossy(text).chars().collect()
}

/// Whether one word becomes the other by at most `distance` insertions, removals and replacements.
fn is_within(a: &[char], b: &[char], distance: usize) -> bool {
    if a.len().abs_diff(b.len()) > distance {
        return false;
    }
    let mut before: Vec<usize> = (0..=b.len()).collect();
    for (at, &rune) in a.iter().enumerate() {
        let mut row = vec![at + 1];
        for (of_b, &other) in b.iter().enumerate() {
            let replaced = before[of_b] + usize::from(rune != other);
            row.push(replaced.min(before[of_b + 1] + 1).min(row[of_b] + 1));
        }
        if row.iter().min().is_some_and(|least| *least > distance) {
            return false;
        }
        before = row;
    }
    before[b.len()] <= distance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_whole_terms() {
        let check = |pattern: &str, text: &str| matches_wildcard(pattern.as_bytes(), text.as_bytes());
        assert!(check("a?b*", "axbyyy") && check("*", "") && check("a*b*c", "a-b-b-c") && check(r"a\*b", "a*b"));
        assert!(!check("a?b", "ab") && !check("a*b", "abc") && !check("", "a") && !check(r"a\*b", "axb"));
        let many = "a*".repeat(500);
        assert!(!check(&format!("{many}b"), &"a".repeat(2000)));
    }

    #[test]
    fn distances_are_counted_in_characters() {
        let check = |a: &str, b: &str, distance| is_within(&runes(a.as_bytes()), &runes(b.as_bytes()), distance);
        assert!(check("hello", "helo", 1) && check("äb", "ab", 1) && check("kitten", "sitting", 3));
        assert!(!check("kitten", "sitting", 2) && !check("abc", "abcde", 1));
    }

    #[test]
    fn a_search_whose_time_is_over_looks_at_no_more_terms() {
        let mut rows = crate::rows::MemoryRows::default();
        let affix = Affix::Infix(b"ab".to_vec());
        let none = DocumentRows::default();
        let found = terms(&mut rows, &affix, (&none, &none), &|| false);
        assert!(matches!(found, Ok(terms) if terms.is_empty()));
        let found = terms(&mut rows, &affix, (&none, &none), &|| true);
        assert!(matches!(found, Err(SearchError::Timeout)));
    }
}
