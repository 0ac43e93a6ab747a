//! Text to terms, as Tantivy's tokenizer for a language does it: words are letters and digits, in
//! lower case, reduced to their stems. A word of forty bytes or more is no term, but counts as a
//! position.

use std::ops::Range;

use crate::text::analysis::{Language, Stemmer};
use crate::upstash::schema::FieldType;

/// Words of this length in bytes, or longer, are no terms.
const WORD_BYTES_END: usize = 40;

/// A term of a text.
pub struct Token {
    pub term: String,
    /// The number of its word in the text.
    pub position: u32,
    /// The bytes of the token in the text.
    pub span: Range<usize>,
}

/// Makes terms of the texts of one index.
pub struct Analyzer {
    stemmer: Stemmer,
}

impl Analyzer {
    pub fn new(language: Language) -> Analyzer {
        Analyzer {
            stemmer: Stemmer::new(language),
        }
    }

    /// The terms of a TEXT field's value. Without tokenization the one term is the whole value;
    /// `layout` cuts it to the length allowed in a key.
    pub fn tokens(&self, kind: FieldType, text: &str) -> Vec<Token> {
        let FieldType::Text { no_tokenize, no_stem } = kind else {
            return Vec::new();
        };
        if no_tokenize {
            let span = 0..text.len();
            let term = text.to_owned();
            return vec![Token {
                term,
                position: 0,
                span,
            }];
        }
        let mut tokens = Vec::new();
        for (position, span) in (0..).zip(words(text)) {
            if span.len() >= WORD_BYTES_END {
                continue;
            }
            let word: String = text[span.clone()].chars().flat_map(lower_case).collect();
            let term = match no_stem {
                true => word,
                false => String::from_utf8(self.stemmer.stem(word.as_bytes())).unwrap_or(word),
            };
            tokens.push(Token { term, position, span });
        }
        tokens
    }
}

/// One character at a time, so that a final sigma is as any other.
fn lower_case(character: char) -> impl Iterator<Item = char> {
    character.to_lowercase()
}

fn words(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut unread_from = 0;
    std::iter::from_fn(move || {
        let start = unread_from + text[unread_from..].find(char::is_alphanumeric)?;
        let length = text[start..].find(|character: char| !character.is_alphanumeric());
        let end = length.map_or(text.len(), |length| start + length);
        unread_from = end;
        Some(start..end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(kind: FieldType, text: &str) -> Vec<(String, u32)> {
        let analyzer = Analyzer::new(Language::English);
        let tokens = analyzer.tokens(kind, text).into_iter();
        tokens.map(|token| (token.term, token.position)).collect()
    }

    #[test]
    fn words_are_letters_and_digits_in_lower_case() {
        let kind = FieldType::Text {
            no_tokenize: false,
            no_stem: true,
        };
        let expected = [("sku", 0), ("12345", 1), ("é", 2), ("x", 3)];
        let expected: Vec<_> = expected.map(|(term, at)| (term.to_owned(), at)).into();
        assert_eq!(terms(kind, "SKU-12345 É_x"), expected);
        assert_eq!(terms(kind, &format!("a {} b", "x".repeat(40))).len(), 2);
        assert_eq!(terms(kind, &format!("a {} b", "x".repeat(40)))[1].1, 2);
    }

    #[test]
    fn words_have_stems_unless_the_field_says_otherwise() {
        let kind = FieldType::of_name("text").unwrap();
        assert_eq!(terms(kind, "Studies running")[0].0, "studi");
        let whole = FieldType::Text {
            no_tokenize: true,
            no_stem: false,
        };
        assert_eq!(terms(whole, "Studies running"), [("Studies running".to_owned(), 0)]);
    }
}
