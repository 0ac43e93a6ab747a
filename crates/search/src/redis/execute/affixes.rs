//! Which terms match a pattern.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::error::SearchError;
use crate::index::DocumentRows;
use crate::index::document::DocumentRow;
use crate::index::layout::{after, tag_of, tag_prefix, tags_from, term_row};
use crate::index::postings::documents_of;
use crate::redis::query::Affix;
use crate::rows::Rows;

/// Most terms that match a pattern. The first in byte order are taken, as these do not depend on
/// settling; the original takes the first of its tree.
pub const EXPANSIONS_MAX: usize = 200;

/// Number of terms between two checks of the deadline.
const TERMS_BETWEEN_CHECKS: u64 = 256;

/// Shortest text of a pattern, in bytes. Shorter patterns match nothing, as in the original.
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

    /// The prefix of every matching term.
    fn literal(&self) -> &[u8] {
        match self {
            Affix::Prefix(text) => text,
            Affix::Wildcard(pattern) => {
                let end = pattern.iter().position(|byte| b"*?".contains(byte));
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
            Affix::Fuzzy(word, distance) => Fuzzy::new(word, *distance).is_near(term),
        }
    }
}

/// The terms of all documents that match, in byte order.
pub(super) fn terms(
    rows: &mut dyn Rows,
    affix: &Affix,
    unsettled: &DocumentRows,
    removed: &DocumentRows,
    is_over: &dyn Fn() -> bool,
) -> Result<Vec<Vec<u8>>, SearchError> {
    if affix.is_too_short() {
        return Ok(Vec::new());
    }
    let removed = counted(affix, removed, is_over)?;
    let mut expansions: Vec<Vec<u8>> = counted(affix, unsettled, is_over)?.into_keys().collect();
    let mut pattern = Pattern::new(affix);
    let mut start = term_row(affix.literal());
    let end = after(&start);
    let (mut settled, mut looked_at, mut is_done) = (0, 0u64, false);
    while !is_done {
        let mut next = None;
        rows.scan(&start, &end, &mut |key, row| {
            let term = &key[1..];
            match pattern.look(term) {
                Looked::Matches
                    if removed
                        .get(term)
                        .is_none_or(|removed_count| *removed_count < documents_of(row)) =>
                {
                    expansions.push(term.to_vec());
                    settled += 1;
                }
                Looked::SkipTo(term) => next = Some(term_row(&term)),
                _ => {}
            }
            looked_at += 1;
            let has_time = !looked_at.is_multiple_of(TERMS_BETWEEN_CHECKS) || !is_over();
            match next.is_none() && settled < EXPANSIONS_MAX && has_time {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        match next {
            Some(next) => start = next,
            None => is_done = true,
        }
        looked_at += 1;
        if (is_done || looked_at.is_multiple_of(TERMS_BETWEEN_CHECKS)) && is_over() {
            return Err(SearchError::Timeout);
        }
    }
    expansions.sort();
    expansions.dedup();
    expansions.truncate(EXPANSIONS_MAX);
    Ok(expansions)
}

/// The terms of some documents that match, with how many of them have each.
fn counted(
    affix: &Affix,
    documents: &DocumentRows,
    is_over: &dyn Fn() -> bool,
) -> Result<BTreeMap<Vec<u8>, u32>, SearchError> {
    let mut counts = BTreeMap::new();
    let mut pattern = Pattern::new(affix);
    for (_, row) in documents {
        if is_over() {
            return Err(SearchError::Timeout);
        }
        DocumentRow::read(row).terms(|term, _| {
            if pattern.matches(term) {
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
    let mut expanded = Vec::new();
    if affix.is_too_short() {
        return Ok(expanded);
    }
    let mut start = tags_from(field, affix.literal());
    let end = after(&start);
    while expanded.len() < EXPANSIONS_MAX {
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
            expanded.push(value);
        }
    }
    Ok(expanded)
}

/// A pattern that terms are compared with in byte order.
enum Pattern<'a> {
    Fuzzy(Fuzzy),
    Other(&'a Affix),
}

enum Looked {
    Matches,
    Differs,
    /// No term below this one matches.
    SkipTo(Vec<u8>),
}

impl<'a> Pattern<'a> {
    fn new(affix: &'a Affix) -> Pattern<'a> {
        match affix {
            Affix::Fuzzy(word, distance) => Pattern::Fuzzy(Fuzzy::new(word, *distance)),
            _ => Pattern::Other(affix),
        }
    }

    /// Returns true if a term matches that others are not in order with.
    fn matches(&mut self, term: &[u8]) -> bool {
        match self {
            Pattern::Fuzzy(fuzzy) => fuzzy.is_near(term),
            Pattern::Other(affix) => affix.matches(term),
        }
    }

    fn look(&mut self, term: &[u8]) -> Looked {
        let matches = match self {
            Pattern::Fuzzy(fuzzy) => match fuzzy.look(term) {
                Some(matches) => matches,
                None => return Looked::SkipTo(fuzzy.resumed_at.clone()),
            },
            Pattern::Other(affix) => affix.matches(term),
        };
        match matches {
            true => Looked::Matches,
            false => Looked::Differs,
        }
    }
}

/// Number of distant terms that are read one by one before a range is skipped: a next is cheaper
/// than a seek.
const TERMS_BEFORE_SKIP: usize = 8;

/// A word that terms are compared with. Beginnings that terms share are compared once.
struct Fuzzy {
    word: Vec<char>,
    distance: usize,
    /// The prefix of the last term, as far as it was examined.
    path: Vec<char>,
    /// For each length of the path, the distances of that prefix from each prefix of the word, by
    /// their lengths: a row for each.
    distances: Vec<usize>,
    /// The runes of the word, ascending.
    runes: Vec<char>,
    /// No term from the last one up to this is within the distance.
    resumed_at: Vec<u8>,
    seen: usize,
}

impl Fuzzy {
    fn new(word: &[u8], distance: usize) -> Fuzzy {
        let word = runes(word);
        let mut runes = word.clone();
        runes.sort_unstable();
        runes.dedup();
        Fuzzy {
            distances: (0..=word.len()).collect(),
            word,
            distance,
            path: Vec::new(),
            runes,
            resumed_at: Vec::new(),
            seen: 0,
        }
    }

    /// Returns true if the term is within the distance; `None` if it is in a range of distant
    /// terms, which may be long.
    fn look(&mut self, term: &[u8]) -> Option<bool> {
        if term < self.resumed_at.as_slice() {
            self.seen += 1;
            return (self.seen < TERMS_BEFORE_SKIP).then_some(false);
        }
        self.seen = 0;
        self.resumed_at.clear();
        let Ok(text) = std::str::from_utf8(term) else {
            return Some(self.is_near(term));
        };
        match self.far_beginning(text.char_indices()) {
            Some(end) => {
                self.resume_behind(&text[..end]);
                Some(false)
            }
            None => Some(self.of_whole() <= self.distance),
        }
    }

    /// Seeks the next terms that may be within the distance, after all terms with this prefix,
    /// which is too far: its last rune is, and so is any rune that the word lacks.
    fn resume_behind(&mut self, text: &str) {
        let Some(last) = text.chars().next_back() else {
            return;
        };
        // A term that is no UTF-8 is compared as if it had these.
        if self.runes.contains(&char::REPLACEMENT_CHARACTER) {
            return;
        }
        let begin = &text[..text.len() - last.len_utf8()];
        let later = self.runes.partition_point(|rune| *rune <= last);
        for at in later..self.runes.len() {
            let (rune, length) = (self.runes[at], self.path.len());
            let least = self.add(rune);
            self.cut(length);
            if least <= self.distance {
                self.resumed_at.extend(begin.bytes());
                self.resumed_at.extend(rune.encode_utf8(&mut [0; 4]).bytes());
                return;
            }
        }
        self.resumed_at = match begin.is_empty() {
            // No UTF-8 text is after it.
            true => vec![u8::MAX],
            false => after(begin.as_bytes()),
        };
    }

    /// Returns true if a term is within the distance, for terms in any order.
    fn is_near(&mut self, term: &[u8]) -> bool {
        // A rune has four bytes at most.
        if self.word.len() > term.len() + self.distance || term.len() / 4 > self.word.len() + self.distance {
            return false;
        }
        let text = String::from_utf8_lossy(term);
        self.far_beginning(text.char_indices()).is_none() && self.of_whole() <= self.distance
    }

    /// The length of the shortest prefix of a text that is already too far.
    fn far_beginning(&mut self, text: impl Iterator<Item = (usize, char)>) -> Option<usize> {
        let (mut length, mut state_count) = (0, self.path.len());
        for (at, rune) in text {
            if length < state_count && self.path[length] == rune {
                length += 1;
                continue;
            }
            if length < state_count {
                self.cut(length);
                state_count = length;
            }
            length += 1;
            if self.add(rune) > self.distance {
                // The path ends before it: a term with another continuation may be within the
                // distance.
                self.cut(length - 1);
                return Some(at + rune.len_utf8());
            }
        }
        self.cut(length);
        None
    }

    fn cut(&mut self, length: usize) {
        self.path.truncate(length);
        self.distances.truncate((length + 1) * (self.word.len() + 1));
    }

    /// Adds a rune to the path. Returns the least distance, below which no longer text can be.
    fn add(&mut self, rune: char) -> usize {
        let before = self.distances.len() - (self.word.len() + 1);
        let mut last = self.distances[before] + 1;
        let mut least = last;
        self.path.push(rune);
        self.distances.push(last);
        for (at, &other) in self.word.iter().enumerate() {
            let replaced = self.distances[before + at] + usize::from(rune != other);
            last = replaced.min(self.distances[before + at + 1] + 1).min(last + 1);
            self.distances.push(last);
            least = least.min(last);
        }
        least
    }

    fn of_whole(&self) -> usize {
        self.distances.last().copied().unwrap_or(0)
    }
}

/// `*` is any text, `?` one byte of it. Takes at most the product of both lengths.
fn matches_wildcard(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut text_length) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while text_length < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at + 1, text_length));
                at += 1;
            }
            Some(b'?') => (at, text_length) = (at + 1, text_length + 1),
            Some(byte) if *byte == text[text_length] => (at, text_length) = (at + 1, text_length + 1),
            _ => match &mut star {
                None => return false,
                Some((behind, from)) => {
                    *from += 1;
                    (at, text_length) = (*behind, *from);
                }
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

fn runes(text: &[u8]) -> Vec<char> {
    String::from_utf8_lossy(text).chars().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::index::document::OccurrencesRow;
    use crate::index::postings;
    use crate::rows::MemoryRows;

    #[test]
    fn wildcards_match_whole_terms() {
        let check = |pattern: &str, text: &str| matches_wildcard(pattern.as_bytes(), text.as_bytes());
        assert!(check("a?b*", "axbyyy") && check("*", "") && check("a*b*c", "a-b-b-c") && check(r"a\*b", r"a\xb"));
        assert!(!check("a?b", "ab") && !check("a*b", "abc") && !check("", "a"));
        let many = "a*".repeat(500);
        assert!(!check(&format!("{many}b"), &"a".repeat(2000)));
    }

    #[test]
    fn distances_are_counted_in_characters() {
        let check = |a: &str, b: &str, distance| Fuzzy::new(a.as_bytes(), distance).is_near(b.as_bytes());
        assert!(check("hello", "helo", 1) && check("äb", "ab", 1) && check("kitten", "sitting", 3));
        assert!(!check("kitten", "sitting", 2) && !check("abc", "abcde", 1));
    }

    proptest! {
        /// Terms in byte order with skips, beside each by itself.
        #[test]
        fn fuzzy_terms_are_those_of_one_comparison_each(
            terms in prop::collection::btree_set("[abcä]{1,6}", 1..200), word in "[abcä]{1,6}", distance in 0usize..4,
        ) {
            let mut rows = MemoryRows::default();
            let id = 1;
            for term in &terms {
                let occurrences = OccurrencesRow { frequency: 1, fields: 1, positions: &[1] };
                postings::change(&mut rows, term.as_bytes(), &[(id, occurrences)], &BTreeSet::new(), None);
            }
            let affix = Affix::Fuzzy(word.clone().into_bytes(), distance);
            let none = DocumentRows::default();
            let found = super::terms(&mut rows, &affix, &none, &none, &|| false);
            let near = |term: &&String| distance_by_table(&word, term) <= distance;
            let expected: Vec<_> = terms.iter().filter(near).map(|term| term.clone().into_bytes()).take(EXPANSIONS_MAX).collect();
            prop_assert_eq!(found.ok(), Some(expected));
        }
    }

    /// By the definition: the minimum over the last edits.
    fn distance_by_table(a: &str, b: &str) -> usize {
        let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
        let mut table = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..=a.len() {
            for j in 0..=b.len() {
                table[i][j] = match (i, j) {
                    (0, _) => j,
                    (_, 0) => i,
                    _ => {
                        let replaced = table[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                        replaced.min(table[i - 1][j] + 1).min(table[i][j - 1] + 1)
                    }
                };
            }
        }
        table[a.len()][b.len()]
    }

    #[test]
    fn a_search_that_timed_out_reads_no_more_terms() {
        let mut rows = MemoryRows::default();
        let affix = Affix::Infix(b"ab".to_vec());
        let none = DocumentRows::default();
        let expanded = terms(&mut rows, &affix, &none, &none, &|| false);
        assert!(matches!(expanded, Ok(terms) if terms.is_empty()));
        let expanded = terms(&mut rows, &affix, &none, &none, &|| true);
        assert!(matches!(expanded, Err(SearchError::Timeout)));
    }
}
