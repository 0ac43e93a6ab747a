//! Words that sound alike: one code for all of them, by Lawrence Philips' double metaphone.

use rphonetic::{DoubleMetaphone, Encoder};

/// The first byte of a code as a term. No word starts with it, since `<` ends words.
pub const PHONETIC_PREFIX: u8 = b'<';

/// Shortest word of a document whose code is a term too, in bytes.
const CODED_BYTES_MIN: usize = 3;

/// Longest word that is coded, in bytes. Codes have four letters at most.
const CODED_BYTES_MAX: usize = 256;

/// How a TEXT field says that its words are found by how they sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phonetics;

impl Phonetics {
    /// Parses the argument of PHONETIC. All languages have the same codes, as in the original.
    pub fn of_name(name: &str) -> Option<Phonetics> {
        matches!(name, "dm:en" | "dm:fr" | "dm:pt" | "dm:es").then_some(Phonetics)
    }

    /// The term of a document's word.
    pub fn of_word(self, word: &[u8]) -> Option<Vec<u8>> {
        (word.len() >= CODED_BYTES_MIN).then(|| phonetics(word)).flatten()
    }
}

/// The term that a word sounds like; nothing if it has no sound. A long word sounds like its start.
pub fn phonetics(word: &[u8]) -> Option<Vec<u8>> {
    let word = &word[..word.len().min(CODED_BYTES_MAX)];
    // Letters outside of English have no sound, but separate the letters that have.
    let letter = |byte: &u8| if byte.is_ascii() { char::from(*byte) } else { '-' };
    let letters: String = word.iter().map(letter).collect();
    let code = DoubleMetaphone::default().encode(&letters);
    (!code.is_empty()).then(|| [&[PHONETIC_PREFIX], code.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_sound_alike_have_one_code() {
        for word in ["smith", "smythe"] {
            assert_eq!(phonetics(word.as_bytes()).unwrap(), b"<SM0");
        }
        assert_eq!(phonetics(b"knight"), phonetics(b"night"));
        assert_eq!(phonetics("über".as_bytes()), phonetics(b"bar"));
        assert_eq!(phonetics(b"2024"), None);
        // FT.EXPLAIN showed that the original has a sound for these.
        for (word, code) in [("a", "<A"), ("smith", "<SM0S"), ("ab", "<APPP")] {
            assert_eq!(phonetics(word.repeat(2000).as_bytes()).unwrap(), code.as_bytes());
        }
        assert_eq!(Phonetics.of_word(b"jo"), None);
        assert_eq!(Phonetics::of_name("dm:xx"), None);
    }
}
