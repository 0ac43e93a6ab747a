//! Text to terms: the bounds of words, the words that are left out, and the forms that words are
//! reduced to.

mod language;
mod phonetics;
mod stop_words;
mod synonyms;
mod tokens;

pub use language::{Language, Stemmer};
pub use phonetics::{PHONETIC_PREFIX, Phonetics, phonetics};
pub use stop_words::StopWords;
pub use synonyms::{SYNONYM_PREFIX, Synonyms};
pub use tokens::{Token, folded, is_separator, spans, tokens};

/// The first byte of a stem as a term. No word starts with it, since `+` ends words.
pub const STEM_PREFIX: u8 = b'+';

/// Shortest word of a document whose stem is a term too, in bytes.
pub const STEMMED_BYTES_MIN: usize = 4;
