//! The languages in which words are reduced to their stems, by Snowball's algorithms.

use std::cell::RefCell;

use rust_stemmers::Algorithm;
use rustc_hash::FxHashMap;

use crate::error::SearchError;

/// A language that a document or a query may be in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Language {
    /// The default.
    #[default]
    English,
    /// Any other that has a stemmer, by its position in the table.
    Other(u8),
}

/// The original's names of languages, and the stemmers of the languages that have a stemmer here.
const TABLE: &[(&str, Algorithm)] = &[
    ("arabic", Algorithm::Arabic),
    ("danish", Algorithm::Danish),
    ("dutch", Algorithm::Dutch),
    ("finnish", Algorithm::Finnish),
    ("french", Algorithm::French),
    ("german", Algorithm::German),
    ("greek", Algorithm::Greek),
    ("hungarian", Algorithm::Hungarian),
    ("italian", Algorithm::Italian),
    ("norwegian", Algorithm::Norwegian),
    ("portuguese", Algorithm::Portuguese),
    ("romanian", Algorithm::Romanian),
    ("russian", Algorithm::Russian),
    ("spanish", Algorithm::Spanish),
    ("swedish", Algorithm::Swedish),
    ("tamil", Algorithm::Tamil),
    ("turkish", Algorithm::Turkish),
];

impl Language {
    /// The language of this name, in any case.
    pub fn of_name(name: &str) -> Result<Language, SearchError> {
        let name = name.to_ascii_lowercase();
        if name == "english" {
            return Ok(Language::English);
        }
        let position = TABLE.iter().position(|(language_name, _)| *language_name == name);
        let missing = || SearchError::Arguments("Invalid language".into());
        position.map(|at| Language::Other(at as u8)).ok_or_else(missing)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Language::English => "english",
            Language::Other(at) => TABLE[usize::from(at)].0,
        }
    }

    fn algorithm(self) -> Algorithm {
        match self {
            Language::English => Algorithm::English,
            Language::Other(at) => TABLE[usize::from(at)].1,
        }
    }
}

/// Stems that a thread remembers: those of its most recent words. Most words of a text are among
/// the few that occur in every text.
const STEMS_KEPT: usize = 4096;

/// Longer words are rare.
const KEPT_BYTES_MAX: usize = 32;

/// Stems by their words.
#[derive(Default)]
struct Stems {
    language: Language,
    by_word: FxHashMap<Vec<u8>, Vec<u8>>,
}

thread_local! {
    static STEMS: RefCell<Stems> = RefCell::default();
}

/// Reduces words of one language to their stems.
pub struct Stemmer {
    language: Language,
    algorithm: rust_stemmers::Stemmer,
}

impl Stemmer {
    /// The stemmer of a language.
    pub fn new(language: Language) -> Stemmer {
        Stemmer {
            language,
            algorithm: rust_stemmers::Stemmer::create(language.algorithm()),
        }
    }

    /// The stem of a word in lower case; a word that is no UTF-8 is its own.
    pub fn stem(&self, word: &[u8]) -> Vec<u8> {
        if word.len() > KEPT_BYTES_MAX {
            return self.computed(word);
        }
        STEMS.with_borrow_mut(|stems| {
            if stems.language != self.language || stems.by_word.len() >= STEMS_KEPT {
                stems.by_word.clear();
                stems.language = self.language;
            }
            match stems.by_word.get(word) {
                Some(stem) => stem.clone(),
                None => {
                    let stem = self.computed(word);
                    stems.by_word.insert(word.to_vec(), stem.clone());
                    stem
                }
            }
        })
    }

    fn computed(&self, word: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(word) {
            Ok(word) => self.algorithm.stem(word).into_owned().into_bytes(),
            Err(_) => word.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_languages_and_back() {
        for name in ["english", "german", "turkish"] {
            assert_eq!(Language::of_name(&name.to_uppercase()).unwrap().name(), name);
        }
        let refused = Language::of_name("klingon").unwrap_err();
        assert_eq!(refused.text(), "SEARCH_PARSE_ARGS Invalid language");
    }

    #[test]
    fn stems_are_those_of_snowball() {
        let english = Stemmer::new(Language::English);
        assert_eq!(english.stem(b"running"), b"run");
        assert_eq!(english.stem(b"running"), b"run");
        assert_eq!(english.stem(b"\xff"), b"\xff");
        let german = Stemmer::new(Language::of_name("german").unwrap());
        assert_eq!(german.stem("häuser".as_bytes()), b"haus");
        assert_eq!(english.stem(b"running"), b"run");
    }
}
