//! Patterns that terms are compared with: words with typing errors, beginnings, regular
//! expressions.

use regex::bytes::{Regex, RegexBuilder};

/// Longest regular expression, in bytes.
const PATTERN_BYTES_MAX: usize = 1024;

/// Most memory that a regular expression may be compiled to, in bytes.
const PATTERN_MEMORY_MAX: usize = 1 << 18;

/// Deepest nesting of a regular expression.
const PATTERN_DEPTH_MAX: u32 = 32;

/// Most errors that a word may have.
pub const DISTANCE_MAX: usize = 2;

/// A pattern over whole terms of one field.
#[derive(Clone, Debug)]
pub enum Automaton {
    /// Words within a distance of this word.
    Near(Near),
    /// Words with this prefix.
    Prefix(String),
    /// Words that the expression matches from end to end.
    Regex {
        /// The expression.
        regex: Regex,
        /// The prefix of all matches.
        literal: String,
    },
}

/// A word with up to `distance` errors: a letter too many, missing or other.
#[derive(Clone, Debug)]
pub struct Near {
    /// The word.
    pub word: Vec<char>,
    /// At most [`DISTANCE_MAX`].
    pub distance: usize,
    /// Two neighbours in the wrong order are one error instead of two.
    pub swaps: bool,
    /// Set if a match of any prefix suffices.
    pub prefix: bool,
}

/// How a term compares, for a walk over terms in their order.
pub enum Compared {
    /// It matches.
    Matches,
    /// It does not.
    Differs,
    /// No term matches that has this many leading bytes of the given term.
    Dead(usize),
}

impl Automaton {
    /// A regular expression that does not distinguish upper and lower case.
    pub fn regex(pattern: &str, lower_case: bool) -> Result<Automaton, String> {
        let regex = whole(pattern, true)?;
        let literal = match lower_case {
            true => literal(pattern),
            false => String::new(),
        };
        Ok(Automaton::Regex { regex, literal })
    }

    /// A regular expression that distinguishes them.
    pub fn exact_regex(pattern: &str) -> Result<Automaton, String> {
        let (regex, literal) = (whole(pattern, false)?, String::new());
        Ok(Automaton::Regex { regex, literal })
    }

    /// The prefix of all matches.
    pub fn literal(&self) -> &str {
        match self {
            Automaton::Near(_) => "",
            Automaton::Prefix(literal) | Automaton::Regex { literal, .. } => literal,
        }
    }

    /// Compares a term.
    pub fn compare(&self, term: &[u8]) -> Compared {
        let matches = match self {
            Automaton::Near(near) => return near.compare(term),
            Automaton::Prefix(prefix) => term.starts_with(prefix.as_bytes()),
            Automaton::Regex { regex, .. } => regex.is_match(term),
        };
        match matches {
            true => Compared::Matches,
            false => Compared::Differs,
        }
    }

    /// Returns true if a term matches.
    pub fn matches(&self, term: &[u8]) -> bool {
        matches!(self.compare(term), Compared::Matches)
    }
}

/// The expression for texts that it matches from end to end.
fn whole(pattern: &str, any_case: bool) -> Result<Regex, String> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(format!("a regular expression has at most {PATTERN_BYTES_MAX} bytes"));
    }
    // The pattern by itself first: it must not close the surrounding group.
    build(pattern, any_case)?;
    build(&format!("^(?:{pattern})$"), any_case)
}

fn build(pattern: &str, any_case: bool) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(pattern);
    builder.case_insensitive(any_case).dot_matches_new_line(true);
    builder
        .size_limit(PATTERN_MEMORY_MAX)
        .dfa_size_limit(PATTERN_MEMORY_MAX);
    builder.nest_limit(PATTERN_DEPTH_MAX);
    builder.build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the regular expression has too many states".to_owned(),
        _ => "invalid regular expression".to_owned(),
    })
}

/// The leading letters and digits of a pattern, in lower case as in terms. Empty if there are
/// alternatives; the last character is left out if a repetition follows.
fn literal(pattern: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric();
    // Some letters of other scripts have ASCII letters for lower case.
    let folds_alone = |byte: u8| !matches!(byte.to_ascii_lowercase(), b'k' | b's');
    let end = pattern.bytes().position(|byte| !(is_plain(byte) && folds_alone(byte)));
    let mut end = end.unwrap_or(pattern.len());
    if pattern.contains('|') {
        return String::new();
    }
    if pattern[end..].starts_with(['*', '?', '{']) {
        end = end.saturating_sub(1);
    }
    pattern[..end].to_ascii_lowercase()
}

impl Near {
    fn compare(&self, term: &[u8]) -> Compared {
        let Ok(text) = std::str::from_utf8(term) else {
            return Compared::Differs;
        };
        let length = self.word.len();
        let mut last: Vec<usize> = (0..=length).collect();
        let (mut before, mut previous) = (last.clone(), None);
        if self.prefix && last[length] <= self.distance {
            return Compared::Matches;
        }
        for (at, rune) in text.char_indices() {
            let mut row = vec![last[0] + 1];
            for (index, &other) in self.word.iter().enumerate() {
                let replaced = last[index] + usize::from(rune != other);
                let mut least = replaced.min(last[index + 1] + 1).min(row[index] + 1);
                let is_swap = self.swaps && index > 0 && previous == Some(other) && self.word[index - 1] == rune;
                if is_swap {
                    least = least.min(before[index - 1] + 1);
                }
                row.push(least);
            }
            if self.prefix && row[length] <= self.distance {
                return Compared::Matches;
            }
            if row.iter().all(|distance| *distance > self.distance) {
                return Compared::Dead(at + rune.len_utf8());
            }
            before = std::mem::replace(&mut last, row);
            previous = Some(rune);
        }
        match last[length] <= self.distance {
            true => Compared::Matches,
            false => Compared::Differs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(word: &str, distance: usize, swaps: bool, prefix: bool) -> Automaton {
        let word = word.chars().collect();
        Automaton::Near(Near {
            word,
            distance,
            swaps,
            prefix,
        })
    }

    #[test]
    fn words_are_ordered_by_their_errors() {
        for (word, distance, swaps, prefix, term, expected) in [
            ("laptopp", 1, true, false, "laptop", true),
            ("haedphone", 1, true, false, "headphone", true),
            ("haedphone", 1, false, false, "headphone", false),
            ("haedphone", 2, false, false, "headphone", true),
            ("lep", 1, true, true, "laptop", true),
            ("lep", 1, true, false, "laptop", false),
            ("a", 1, true, false, "", true),
            ("abc", 0, true, false, "abc", true),
            ("abc", 0, true, false, "acb", false),
        ] {
            let automaton = near(word, distance, swaps, prefix);
            assert_eq!(automaton.matches(term.as_bytes()), expected, "{word} {term}");
        }
    }

    #[test]
    fn a_dead_prefix_matches_nothing() {
        let automaton = near("abcd", 1, true, false);
        let Compared::Dead(bytes) = automaton.compare(b"xyzzy") else {
            panic!("no match begins so");
        };
        assert!((1..=3).contains(&bytes));
    }

    #[test]
    fn expressions_match_whole_terms_in_any_case_and_are_bounded() {
        let regex = |pattern: &str| Automaton::regex(pattern, true);
        assert!(regex("Lap.*").unwrap().matches(b"laptop"));
        assert!(!regex("lap").unwrap().matches(b"laptop"));
        assert!(regex("a|b").unwrap().matches(b"b"));
        for wrong in ["(", "a)|(b", "a{1000}{1000}", &"(".repeat(40), &"a".repeat(2000)] {
            assert!(regex(wrong).is_err(), "{wrong}");
        }
        let literals = ["Lap.*", "lap*", "a|b", "abs", ""].map(|pattern| regex(pattern).unwrap().literal().to_owned());
        assert_eq!(literals, ["lap", "la", "", "ab", ""]);
    }
}
