//! Words that are so frequent that they are no terms.

use std::collections::BTreeSet;

use crate::text::analysis::folded;

/// The list of an index that names none.
const DEFAULT: &str = "a is the an and are as at be but by for if in into it no not of on or such that their then \
                       there these they this to was will with";

/// Words that are not indexed, and are left out of queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopWords(BTreeSet<Vec<u8>>);

impl Default for StopWords {
    fn default() -> StopWords {
        StopWords::of(DEFAULT.split_ascii_whitespace())
    }
}

impl StopWords {
    /// The given words, in any case. None at all is allowed.
    pub fn of<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> StopWords {
        StopWords(words.into_iter().map(|word| folded(word.as_ref())).collect())
    }

    /// Returns true if the word, in lower case, is one of them.
    pub fn contains(&self, word: &[u8]) -> bool {
        self.0.contains(word)
    }

    /// Visits them in byte order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }
}
