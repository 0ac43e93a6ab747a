//! Splits a PartiQL statement into tokens.

use super::malformed;
use crate::failure::Failure;

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A bare word: a keyword, a name or a function.
    Word(String),
    /// A name in double quotes.
    Name(String),
    /// A text in single quotes.
    Text(String),
    Number(String),
    Symbol(&'static str),
    End,
}

/// Longer ones before their beginnings.
const SYMBOLS: [&str; 23] = [
    "<<", ">>", "<>", "!=", "<=", ">=", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ".", ":", "?", "+", "-", "*",
    ";",
];

/// All tokens, the last of which is `End`.
pub fn tokens(statement: &str) -> Result<Vec<Token>, Failure> {
    let mut tokens = Vec::new();
    let mut rest = statement.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '\'' => quoted(rest, '\'').map(|(text, length)| (Token::Text(text), length))?,
            '"' => quoted(rest, '"').map(|(text, length)| (Token::Name(text), length))?,
            '0'..='9' => number(rest),
            first if first.is_ascii_alphabetic() || first == '_' => word(rest),
            _ => symbol(rest)?,
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    if tokens.last() == Some(&Token::Symbol(";")) {
        tokens.pop();
    }
    tokens.push(Token::End);
    Ok(tokens)
}

/// A quoted text, in which the quote is doubled, and its length with the quotes.
fn quoted(rest: &str, quote: char) -> Result<(String, usize), Failure> {
    let mut text = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((index, character)) = characters.next() {
        if character != quote {
            text.push(character);
        } else if characters.peek().is_some_and(|(_, next)| *next == quote) {
            characters.next();
            text.push(quote);
        } else {
            return Ok((text, index + 1));
        }
    }
    Err(malformed("Unterminated quoted text"))
}

fn number(rest: &str) -> (Token, usize) {
    let bytes = rest.as_bytes();
    let mut length = 0;
    while length < bytes.len() {
        let after_exponent = length > 0 && matches!(bytes[length - 1], b'e' | b'E');
        match bytes[length] {
            b'0'..=b'9' | b'.' | b'e' | b'E' => length += 1,
            b'+' | b'-' if after_exponent => length += 1,
            _ => break,
        }
    }
    (Token::Number(rest[..length].to_owned()), length)
}

fn word(rest: &str) -> (Token, usize) {
    let length = rest
        .bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        .count();
    (Token::Word(rest[..length].to_owned()), length)
}

fn symbol(rest: &str) -> Result<(Token, usize), Failure> {
    match SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
        Some(symbol) => Ok((Token::Symbol(symbol), symbol.len())),
        None => Err(malformed("Unexpected character")),
    }
}
