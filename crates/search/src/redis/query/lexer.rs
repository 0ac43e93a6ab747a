//! A query's text to tokens: the longest that fits at each place, as the original's scanner does.
//!
//! Punctuation without a meaning is skipped. Each token has its position, for errors that name it.

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A word; `text` is unescaped.
    Word,
    /// Digits, or a number with sign, fraction or exponent; also an infinity.
    Number,
    /// `@name`
    Field,
    /// `$name`
    Parameter,
    /// Text in quotes, verbatim.
    Exact,
    /// `text*`, `*text`, `*text*`: `text` is without the stars.
    Prefix,
    Suffix,
    Infix,
    /// `w'…'`
    Wildcard,
    /// `=>`
    Arrow,
    /// `==`, `!=`, `<`, `<=`, `>`, `>=` after a field.
    Comparison(Comparison),
    /// One of `( ) { } [ ] : ; | - ~ * %`.
    Mark(u8),
    /// The end of the query.
    End,
}

impl Kind {
    /// It has no text of its own that an error shows.
    pub fn is_mark(self) -> bool {
        matches!(self, Kind::Mark(_) | Kind::Arrow | Kind::Comparison(_) | Kind::End)
    }
}

/// A comparison of a document's number with the query's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A piece of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub text: Vec<u8>,
    /// The affix's text is a parameter's name.
    pub is_parameter: bool,
    /// Its first byte.
    pub at: usize,
}

/// The tokens of a query, the last of which is its end.
pub fn tokens(query: &[u8]) -> Vec<Token> {
    read(query, false)
}

/// The tokens of a query of the first dialect, which has fewer kinds.
pub fn first_tokens(query: &[u8]) -> Vec<Token> {
    read(query, true)
}

fn read(query: &[u8], is_first: bool) -> Vec<Token> {
    let mut lexer = Lexer {
        query,
        is_first,
        at: 0,
        tokens: Vec::new(),
    };
    while lexer.at < query.len() {
        lexer.step();
    }
    lexer.push(Kind::End, Vec::new(), query.len());
    lexer.tokens
}

struct Lexer<'a> {
    query: &'a [u8],
    is_first: bool,
    at: usize,
    tokens: Vec<Token>,
}

impl Lexer<'_> {
    fn push(&mut self, kind: Kind, text: Vec<u8>, end: usize) {
        let at = self.at;
        self.tokens.push(Token {
            kind,
            text,
            is_parameter: false,
            at,
        });
        self.at = end;
    }

    fn step(&mut self) {
        let byte = self.query[self.at];
        match byte {
            b'=' if self.byte(self.at + 1) == Some(b'>') => self.push(Kind::Arrow, b"=>".to_vec(), self.at + 2),
            b'@' => self.field(),
            b'$' => self.parameter(),
            b'"' => self.quoted(byte),
            b'\'' if !self.is_first => self.quoted(byte),
            b'*' => self.star(),
            b'w' if !self.is_first && self.wildcard() => {}
            b'(' | b')' | b'{' | b'}' | b'[' | b']' | b':' | b';' | b'|' | b'~' | b'%' => self.mark(byte),
            // The first dialect has no sign for what is more than 0: `+49 30 1234` are three words.
            b'+' if self.is_first
                && self
                    .byte(self.at + 1)
                    .is_some_and(|next| next.is_ascii_digit() || next == b'.') =>
            {
                self.at += 1;
            }
            b'-' | b'+' | b'.' | b'0'..=b'9' => self.number_or_word(),
            _ => self.word(),
        }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.query.get(at).copied()
    }

    fn mark(&mut self, byte: u8) {
        self.push(Kind::Mark(byte), vec![byte], self.at + 1);
    }

    /// The end of the word at `start`; `start` if there is none.
    fn word_end(&self, start: usize) -> usize {
        let mut at = start;
        while let Some(byte) = self.byte(at) {
            let escapes = byte == b'\\' && self.byte(at + 1).is_some_and(is_escapable);
            if escapes {
                at += 2;
            } else if is_of_word(byte) {
                at += 1;
            } else {
                return at;
            }
        }
        at
    }

    fn word(&mut self) {
        let end = self.word_end(self.at);
        if end == self.at {
            self.at += 1;
            return;
        }
        self.word_or_prefix(end);
    }

    fn word_or_prefix(&mut self, end: usize) {
        let text = unescaped(&self.query[self.at..end]);
        match self.byte(end) {
            Some(b'*') => self.push(Kind::Prefix, text, end + 1),
            _ if is_infinity(&text) => self.push(Kind::Number, text, end),
            _ => self.push(Kind::Word, text, end),
        }
    }

    /// A sign before a number is part of it; a word with leading digits is longer than the number.
    fn number_or_word(&mut self) {
        let byte = self.query[self.at];
        let signed = usize::from(matches!(byte, b'-' | b'+'));
        let end = self.number_end(self.at + signed);
        let word_end = self.word_end(self.at);
        if end > self.at + signed && end >= word_end {
            let kind = if self.byte(end) == Some(b'*') {
                Kind::Prefix
            } else {
                Kind::Number
            };
            let text = self.query[self.at..end].to_vec();
            return self.push(kind, text, end + usize::from(kind == Kind::Prefix));
        }
        let infinity_end = self.word_end(self.at + signed);
        if signed == 1 && is_infinity(&self.query[self.at + 1..infinity_end]) {
            let text = self.query[self.at..infinity_end].to_vec();
            return self.push(Kind::Number, text, infinity_end);
        }
        match byte {
            b'-' => self.mark(byte),
            _ => self.word(),
        }
    }

    /// The end of the unsigned number at `start`; `start` if there is none.
    fn number_end(&self, start: usize) -> usize {
        let digits = |from: usize| {
            let following = self.query[from.min(self.query.len())..].iter();
            from + following.take_while(|byte| byte.is_ascii_digit()).count()
        };
        let mut end = digits(start);
        if self.byte(end) == Some(b'.') {
            let fraction = digits(end + 1);
            match fraction > end + 1 || end > start {
                true => end = fraction,
                false => return start,
            }
        }
        if end > start && matches!(self.byte(end), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(self.byte(end + 1), Some(b'-' | b'+')));
            let exponent = digits(end + 1 + signed);
            if exponent > end + 1 + signed {
                end = exponent;
            }
        }
        end
    }

    fn field(&mut self) {
        let end = self.word_end(self.at + 1);
        if end == self.at + 1 {
            self.at += 1;
            return;
        }
        self.push(Kind::Field, unescaped(&self.query[self.at + 1..end]), end);
        if self.is_first {
            return;
        }
        let operator = end
            + self.query[end..]
                .iter()
                .take_while(|byte| byte.is_ascii_whitespace())
                .count();
        let (comparison, length) = match (self.byte(operator), self.byte(operator + 1)) {
            (Some(b'='), Some(b'=')) => (Comparison::Equal, 2),
            (Some(b'!'), Some(b'=')) => (Comparison::NotEqual, 2),
            (Some(b'<'), Some(b'=')) => (Comparison::LessOrEqual, 2),
            (Some(b'>'), Some(b'=')) => (Comparison::GreaterOrEqual, 2),
            (Some(b'<'), _) => (Comparison::Less, 1),
            (Some(b'>'), _) => (Comparison::Greater, 1),
            _ => return,
        };
        self.at = operator;
        let text = self.query[operator..operator + length].to_vec();
        self.push(Kind::Comparison(comparison), text, operator + length);
    }

    fn parameter(&mut self) {
        let end = self.word_end(self.at + 1);
        let text = self.query[self.at + 1..end].to_vec();
        match self.byte(end) {
            _ if text.is_empty() => self.at += 1,
            Some(b'*') => {
                self.push(Kind::Prefix, text, end + 1);
                self.tokens.last_mut().expect("one was pushed").is_parameter = true;
            }
            _ => self.push(Kind::Parameter, text, end),
        }
    }

    /// The end of the quote that opens at `start`.
    fn quote_end(&self, start: usize) -> Option<usize> {
        let quote = self.query[start];
        let mut at = start + 1;
        while let Some(byte) = self.byte(at) {
            match byte {
                b'\\' => at += 2,
                _ if byte == quote => return Some(at),
                _ => at += 1,
            }
        }
        None
    }

    /// Without its partner a single quote is punctuation (`O'Neil`), a double one an error.
    fn quoted(&mut self, quote: u8) {
        let Some(end) = self.quote_end(self.at) else {
            match quote {
                b'"' => self.mark(quote),
                _ => self.at += 1,
            }
            return;
        };
        let text = self.query[self.at + 1..end].to_vec();
        match self.byte(end + 1) {
            Some(b'*') => self.push(Kind::Prefix, unescaped(&text), end + 2),
            _ if text.is_empty() => self.push(Kind::Word, text, end + 1),
            _ => self.push(Kind::Exact, text, end + 1),
        }
    }

    /// `*text` and `*text*`, or a bare star.
    fn star(&mut self) {
        let start = self.at + 1;
        let quoted = matches!(self.byte(start), Some(b'"' | b'\''));
        let is_parameter = self.byte(start) == Some(b'$');
        let text_start = start + usize::from(is_parameter);
        let (text, end) = match self.quote_end_at(start, quoted) {
            Some(end) => (unescaped(&self.query[start + 1..end]), end + 1),
            None if quoted => return self.mark(b'*'),
            None => {
                let end = self.number_end(text_start).max(self.word_end(text_start));
                (unescaped(&self.query[text_start..end]), end)
            }
        };
        if text.is_empty() {
            return self.mark(b'*');
        }
        match self.byte(end) {
            Some(b'*') => self.push(Kind::Infix, text, end + 1),
            _ => self.push(Kind::Suffix, text, end),
        }
        self.tokens.last_mut().expect("one was pushed").is_parameter = is_parameter;
    }

    fn quote_end_at(&self, start: usize, quoted: bool) -> Option<usize> {
        if quoted { self.quote_end(start) } else { None }
    }

    fn wildcard(&mut self) -> bool {
        let quote = self.at + 1;
        if !matches!(self.byte(quote), Some(b'"' | b'\'')) {
            return false;
        }
        match self.quote_end(quote) {
            Some(end) if end > quote + 1 => {
                self.push(Kind::Wildcard, self.query[quote + 1..end].to_vec(), end + 1);
                true
            }
            _ => false,
        }
    }
}

fn is_of_word(byte: u8) -> bool {
    byte == b'_' || !(byte.is_ascii_punctuation() || byte.is_ascii_control() || is_space(byte))
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn is_escapable(byte: u8) -> bool {
    byte.is_ascii_punctuation() || is_space(byte)
}

fn is_infinity(text: &[u8]) -> bool {
    text.eq_ignore_ascii_case(b"inf")
}

/// The text without the backslashes before punctuation and blanks.
pub fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if text[at] == b'\\' && text.get(at + 1).is_some_and(|next| is_escapable(*next)) {
            at += 1;
        }
        plain.push(text[at]);
        at += 1;
    }
    plain
}
