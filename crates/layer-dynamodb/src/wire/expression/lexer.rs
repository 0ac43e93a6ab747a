//! Splits an expression into tokens.

/// The kind of a token; its text says the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bare word: a name, a keyword or a function.
    Word,
    /// `#name`
    Name,
    /// `:value`
    Value,
    /// Digits, as in an index.
    Digits,
    /// An operator or a bracket.
    Symbol,
    /// A character that starts no token.
    Unknown,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'s> {
    pub kind: Kind,
    pub text: &'s str,
    /// Offset of the text in the expression, in bytes.
    pub start: usize,
}

impl Token<'_> {
    pub fn is_keyword(&self, keyword: &str) -> bool {
        self.kind == Kind::Word && self.text.eq_ignore_ascii_case(keyword)
    }

    pub fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == Kind::Symbol && self.text == symbol
    }

    /// Returns true for tokens between two operands of a comparison.
    pub fn is_comparator(&self) -> bool {
        let is_sign = self.kind == Kind::Symbol && matches!(self.text, "=" | "<>" | "<" | "<=" | ">" | ">=");
        is_sign || self.is_keyword("BETWEEN") || self.is_keyword("IN")
    }
}

/// All tokens; the last token is `End`.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    // Blanks and words of a few letters leave about this many.
    let mut tokens = Vec::with_capacity(source.len() / 4 + 2);
    let mut start = 0;
    while start < source.len() {
        let remaining = &source[start..];
        let (kind, length) = next(remaining);
        if let Some(kind) = kind {
            let text = &remaining[..length];
            tokens.push(Token { kind, text, start });
        }
        start += length;
    }
    tokens.push(Token {
        kind: Kind::End,
        text: "<EOF>",
        start,
    });
    tokens
}

/// The kind, `None` for blanks, and the length of the token at the start of `remaining`.
fn next(remaining: &str) -> (Option<Kind>, usize) {
    let first = remaining.as_bytes()[0];
    let word_length = |text: &str| text.bytes().take_while(|byte| is_word_byte(*byte)).count();
    match first {
        b' ' | b'\t' | b'\r' | b'\n' => (None, 1),
        b'#' | b':' => match word_length(&remaining[1..]) {
            0 => (Some(Kind::Unknown), 1),
            length if first == b'#' => (Some(Kind::Name), 1 + length),
            length => (Some(Kind::Value), 1 + length),
        },
        b'0'..=b'9' => (
            Some(Kind::Digits),
            remaining.bytes().take_while(u8::is_ascii_digit).count(),
        ),
        first if first.is_ascii_alphabetic() => (Some(Kind::Word), word_length(remaining)),
        _ if ["<>", "<=", ">="].iter().any(|symbol| remaining.starts_with(symbol)) => (Some(Kind::Symbol), 2),
        b'=' | b'<' | b'>' | b'(' | b')' | b'[' | b']' | b',' | b'.' | b'+' | b'-' => (Some(Kind::Symbol), 1),
        _ => (Some(Kind::Unknown), remaining.chars().next().map_or(1, char::len_utf8)),
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_separated() {
        let source = "SET #a.b[10]=:v- x<>é #";
        let texts: Vec<&str> = tokens(source).iter().map(|token| token.text).collect();
        assert_eq!(
            texts,
            [
                "SET", "#a", ".", "b", "[", "10", "]", "=", ":v", "-", "x", "<>", "é", "#", "<EOF>"
            ]
        );
    }
}
