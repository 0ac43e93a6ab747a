//! The words of a request, one after the other, and the original's errors about them.

use quartet_layer_redis::module_api::{ErrorReply, parse};

/// Words that are read from the front.
pub struct Words<'w> {
    words: &'w [&'w [u8]],
    at: usize,
}

impl<'w> Words<'w> {
    pub fn new(words: &'w [&'w [u8]]) -> Words<'w> {
        Words { words, at: 0 }
    }

    /// The number of read words.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn left(&self) -> usize {
        self.words.len() - self.at
    }

    pub fn peek(&self) -> Option<&'w [u8]> {
        self.words.get(self.at).copied()
    }

    pub fn next(&mut self) -> Option<&'w [u8]> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// Takes the next word if it equals this one, in any case.
    pub fn take(&mut self, word: &str) -> bool {
        let is_next = self.peek().is_some_and(|next| parse::is(next, word));
        self.at += usize::from(is_next);
        is_next
    }

    /// The argument of an option.
    pub fn argument(&mut self, option: &str) -> Result<&'w [u8], ErrorReply> {
        let missing = || {
            refused(format!(
                "Bad arguments for {option}: Expected an argument, but none provided"
            ))
        };
        self.next().ok_or_else(missing)
    }

    pub fn text(&mut self, option: &str) -> Result<String, ErrorReply> {
        text(self.argument(option)?)
    }

    pub fn number<N: std::str::FromStr>(&mut self, option: &str) -> Result<N, ErrorReply> {
        let word = self.argument(option)?;
        let number = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
        let wrong = || {
            refused(format!(
                "Bad arguments for {option}: Could not convert argument to expected type"
            ))
        };
        number.ok_or_else(wrong)
    }

    /// As many words as the next one says.
    pub fn counted(&mut self, option: &str) -> Result<&'w [&'w [u8]], ErrorReply> {
        let is_negative =
            |word: &[u8]| std::str::from_utf8(word).is_ok_and(|word| word.parse().is_ok_and(|n: i64| n < 0));
        if self.peek().is_some_and(is_negative) {
            return Err(refused(format!(
                "Bad arguments for {option}: Value is outside acceptable bounds"
            )));
        }
        let count: usize = self.number(option)?;
        self.several(count, option)
    }

    pub fn several(&mut self, count: usize, option: &str) -> Result<&'w [&'w [u8]], ErrorReply> {
        let missing = || {
            refused(format!(
                "Bad arguments for {option}: Expected an argument, but none provided"
            ))
        };
        let end = self.at.checked_add(count).filter(|end| *end <= self.words.len());
        let end = end.ok_or_else(missing)?;
        let words = &self.words[self.at..end];
        self.at = end;
        Ok(words)
    }
}

/// An argument is wrong.
pub fn refused(text: impl Into<String>) -> ErrorReply {
    quartet_search::error::SearchError::Arguments(text.into()).text().into()
}

/// A word that names something.
pub fn text(word: &[u8]) -> Result<String, ErrorReply> {
    let wrong = |_| refused("Names of fields, expressions and parameters are UTF-8");
    String::from_utf8(word.to_vec()).map_err(wrong)
}
