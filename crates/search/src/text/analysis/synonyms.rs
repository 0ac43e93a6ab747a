//! Words that mean the same, in groups that have names.

use std::collections::{BTreeMap, HashSet};

use crate::error::SearchError;
use crate::text::analysis::folded;

/// The first byte of a group as a term. No word starts with it, since `~` ends words.
pub const SYNONYM_PREFIX: u8 = b'~';

/// Most words of all groups together; one counts once for each of its groups.
const WORDS_MAX: usize = 10_000;

/// Longest name of a group and longest word, in bytes.
const BYTES_MAX: usize = 1024;

/// The groups of each word, in the order of their addition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synonyms {
    groups_of_words: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Words with their groups: a definition is read by adding each, without a search of the rest.
    pairs: HashSet<(Vec<u8>, Vec<u8>)>,
}

impl Synonyms {
    /// Adds words to a group.
    pub fn add(&mut self, group: &[u8], words: &[&[u8]]) -> Result<(), SearchError> {
        if words.iter().chain([&group]).any(|word| word.len() > BYTES_MAX) {
            return Err(SearchError::Limit(format!("Synonyms have at most {BYTES_MAX} bytes")));
        }
        for word in words {
            let word = folded(word);
            if self.pairs.insert((word.clone(), group.to_vec())) {
                self.groups_of_words.entry(word).or_default().push(group.to_vec());
            }
        }
        match self.pairs.len() <= WORDS_MAX {
            true => Ok(()),
            false => Err(SearchError::Limit(format!("An index has at most {WORDS_MAX} synonyms"))),
        }
    }

    /// The terms of a word's groups.
    pub fn of(&self, word: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        let groups = self.groups_of_words.get(word).into_iter().flatten();
        groups.map(|group| [&[SYNONYM_PREFIX], &group[..]].concat())
    }

    /// The words in byte order, with the names of their groups.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[Vec<u8>])> {
        let words = self.groups_of_words.iter();
        words.map(|(word, groups)| (word.as_slice(), groups.as_slice()))
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.groups_of_words.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_in_each_group_once() {
        let mut synonyms = Synonyms::default();
        synonyms.add(b"g1", &[b"Boy", b"child"]).unwrap();
        synonyms.add(b"g2", &[b"child", b"child"]).unwrap();
        let terms: Vec<_> = synonyms.of(b"child").collect();
        assert_eq!(terms, [b"~g1".to_vec(), b"~g2".to_vec()]);
        assert_eq!(synonyms.iter().count(), 2);
        assert_eq!(synonyms.of(b"Boy").count(), 0);
    }

    #[test]
    fn groups_are_bounded() {
        let words: Vec<Vec<u8>> = (0..=WORDS_MAX).map(|at| at.to_string().into_bytes()).collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        assert!(Synonyms::default().add(b"g", &words).is_err());
        assert!(Synonyms::default().add(b"g", &words[1..]).is_ok());
        assert!(Synonyms::default().add(&[b'g'; BYTES_MAX + 1], &[b"a"]).is_err());
    }
}
