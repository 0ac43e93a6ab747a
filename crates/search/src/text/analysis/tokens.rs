//! The bounds of a text's words.
//!
//! A word ends at a blank, a tab or one of the punctuation marks below. A backslash before one of
//! them makes it part of the word. The rest is in lower case, without blanks and control
//! characters that were not escaped. Observed of the original: a line feed ends no word, it is a
//! control character that goes.

use std::ops::Range;

/// Marks that end a word. `_` and `\` do not.
const SEPARATORS: &[u8] = b" \t,./(){}[]:;~!@#$%^&*-=+|'`\"<>?";

/// The same, by the byte.
const IS_SEPARATOR: [bool; 256] = {
    let (mut table, mut at) = ([false; 256], 0);
    while at < SEPARATORS.len() {
        table[SEPARATORS[at] as usize] = true;
        at += 1;
    }
    table
};

/// A word of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// As a term.
    pub term: Vec<u8>,
    /// The token's first byte and its end in the text.
    pub span: Range<usize>,
}

/// The words of a text, in order, as terms. Stop words are among them.
pub fn tokens(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    spans(text).map(|token| token.term)
}

/// The same words with their positions in the text.
pub fn spans(text: &[u8]) -> impl Iterator<Item = Token> {
    let mut remainder = Some(text);
    std::iter::from_fn(move || {
        loop {
            let start = text.len() - remainder?.len();
            let word = next_word(&mut remainder)?;
            let term = normalized(word);
            if !term.is_empty() {
                let span = start..start + word.len();
                return Some(Token { term, span });
            }
        }
    })
}

/// Returns true if the byte ends a word.
pub fn is_separator(byte: u8) -> bool {
    IS_SEPARATOR[usize::from(byte)]
}

fn next_word<'a>(remainder: &mut Option<&'a [u8]>) -> Option<&'a [u8]> {
    let text = (*remainder)?;
    let mut escaped = false;
    for (at, byte) in text.iter().enumerate() {
        if is_separator(*byte) && !escaped {
            *remainder = Some(&text[at + 1..]);
            return Some(&text[..at]);
        }
        escaped = !escaped && *byte == b'\\';
    }
    *remainder = None;
    Some(text)
}

fn normalized(word: &[u8]) -> Vec<u8> {
    // Most words are like this, and need one look.
    if word.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'\\') {
        return word.to_ascii_lowercase();
    }
    let mut unescaped = Vec::with_capacity(word.len());
    let mut escaped = false;
    for &byte in word {
        if byte == b'\\' && !escaped {
            escaped = true;
            continue;
        }
        let is_dropped = matches!(byte, b' ' | b'\t') && !escaped || byte.is_ascii_control();
        if !is_dropped {
            unescaped.push(byte);
        }
        escaped = false;
    }
    folded(&unescaped)
}

/// Text in lower case, character by character. Bytes that are no UTF-8 keep their values.
pub fn folded(text: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(text) {
        Ok(text) if !text.is_ascii() => text.chars().flat_map(char::to_lowercase).collect::<String>().into(),
        _ => text.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let words: Vec<_> = tokens(text.as_bytes()).collect();
        assert_eq!(words, expected.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
    }

    #[test]
    fn words_end_at_punctuation() {
        check("Hello, world! foo_bar (baz)", &["hello", "world", "foo_bar", "baz"]);
        check("", &[]);
        check(" .. ", &[]);
    }

    #[test]
    fn escaped_marks_are_part_of_a_word() {
        check(r"hello\-world a\ b c\\d", &["hello-world", "a b", r"c\d"]);
        check(r"end\", &["end"]);
    }

    #[test]
    fn a_line_feed_ends_no_word() {
        check("one\ntwo three\r", &["onetwo", "three"]);
    }

    #[test]
    fn letters_of_other_scripts_are_in_lower_case_too() {
        check("ÄRGER ΣΟΦΟΣ", &["ärger", "σοφοσ"]);
        assert_eq!(folded(b"\xff\xfeAB"), b"\xff\xfeab");
    }
}
