//! Text to terms: where words begin and end, which are left out, and what they are reduced to.

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

/// The first byte of a stem that is a term. No word begins with it, since `+` ends words.
pub const STEM_PREFIX: u8 = b'+';

/// Shortest word of a document whose stem is a term too, in bytes.
pub const STEMMED_BYTES_MIN: usize = 4;
