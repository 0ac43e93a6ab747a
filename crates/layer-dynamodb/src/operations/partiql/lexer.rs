//! Tokens of PartiQL, as the published grammar has them (partiql-lang-kotlin, `PartiQLTokens.g4`):
//! a hyphen ends a name, an unquoted name that is a keyword is none, `--` and `/* */` are comments.
//!
//! Text that makes no token is refused without saying where, as the service does.

use crate::wire::failure::Failure;

/// The failure of a statement that the grammar does not have.
pub fn malformed(detail: &str) -> Failure {
    Failure::validation(format!("Statement wasn't well formed, can't be processed: {detail}"))
}

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// An unquoted name, as it was written.
    Name(String),
    /// A name in double quotes.
    Quoted(String),
    /// A reserved word, in lower case.
    Keyword(&'static str),
    /// A text in single quotes.
    Text(String),
    /// An unsigned number, which fits what decimal arithmetic of 32-bit scales can hold.
    Number(String),
    /// The text between backticks, which holds Ion.
    Ion(String),
    Symbol(&'static str),
    End,
}

/// The place of a token in its statement: line and column from 1, and length, all in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    line: usize,
    column: usize,
    length: usize,
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {}:{}:{}", self.line, self.column, self.length)
    }
}

/// Longer symbols before their prefixes. `!=` is another spelling of `<>`.
const SYMBOLS: [(&str, &str); 29] = [
    ("<<", "<<"),
    (">>", ">>"),
    ("<>", "<>"),
    ("!=", "<>"),
    ("<=", "<="),
    (">=", ">="),
    ("||", "||"),
    ("<", "<"),
    (">", ">"),
    ("=", "="),
    ("(", "("),
    (")", ")"),
    ("[", "["),
    ("]", "]"),
    ("{", "{"),
    ("}", "}"),
    (",", ","),
    (".", "."),
    (":", ":"),
    ("?", "?"),
    ("+", "+"),
    ("-", "-"),
    ("*", "*"),
    ("/", "/"),
    ("%", "%"),
    ("@", "@"),
    (";", ";"),
    ("~", "~"),
    ("^", "^"),
];

/// The unquoted names that the grammar keeps for itself, sorted.
#[rustfmt::skip]
const KEYWORDS: [&str; 252] = [
    "absolute", "action", "add", "all", "allocate", "alter", "and", "any", "are", "as", "asc", "assertion", "at",
    "authorization", "avg", "bag", "begin", "between", "bigint", "bit", "bit_length", "blob", "bool", "boolean",
    "by", "can_cast", "can_lossless_cast", "cascade", "cascaded", "case", "cast", "catalog", "char", "char_length",
    "character", "character_length", "check", "clob", "close", "coalesce", "collate", "collation", "column",
    "commit", "conflict", "connect", "connection", "constraint", "constraints", "continue", "convert",
    "corresponding", "count", "create", "cross", "current", "current_date", "current_time", "current_timestamp",
    "current_user", "cursor", "date", "date_add", "date_diff", "deallocate", "dec", "decimal", "declare", "default",
    "deferrable", "deferred", "delete", "desc", "describe", "descriptor", "diagnostics", "disconnect", "distinct",
    "do", "domain", "double", "drop", "else", "end", "escape", "except", "exception", "exec", "execute", "exists",
    "external", "extract", "false", "fetch", "first", "float", "for", "foreign", "found", "from", "full", "get",
    "global", "go", "goto", "grant", "group", "having", "identity", "immediate", "in", "index", "indicator",
    "initially", "inner", "input", "insensitive", "insert", "int", "int2", "int4", "int8", "integer", "integer2",
    "integer4", "integer8", "intersect", "interval", "into", "is", "isolation", "join", "key", "language", "last",
    "left", "let", "level", "like", "limit", "list", "local", "lower", "match", "max", "min", "missing", "modified",
    "module", "names", "national", "natural", "nchar", "new", "next", "no", "not", "nothing", "null", "nullif",
    "numeric", "octet_length", "of", "offset", "old", "on", "only", "open", "option", "or", "order", "outer",
    "output", "overlaps", "pad", "partial", "pivot", "position", "precision", "prepare", "preserve", "primary",
    "prior", "privileges", "procedure", "public", "read", "real", "references", "relative", "remove", "restrict",
    "returning", "revoke", "right", "rollback", "rows", "schema", "scroll", "section", "select", "session",
    "session_user", "set", "sexp", "size", "smallint", "some", "space", "sql", "sqlcode", "sqlerror", "sqlstate",
    "string", "struct", "substring", "sum", "symbol", "system_user", "table", "temporary", "then", "time",
    "timestamp", "to", "transaction", "translate", "translation", "trim", "true", "tuple", "union", "unique",
    "unknown", "unpivot", "update", "upper", "usage", "user", "using", "value", "values", "varchar", "varying",
    "view", "when", "whenever", "where", "with", "work", "write", "zone",
];

/// The keyword that an unquoted name is, in any case of its letters.
fn keyword(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    KEYWORDS
        .binary_search(&lower.as_str())
        .ok()
        .map(|index| KEYWORDS[index])
}

/// All tokens with their places; the last token is `End`.
pub fn tokens(statement: &str) -> Result<Vec<(Token, At)>, Failure> {
    let mut tokens = Vec::new();
    let (mut line, mut column) = (1, 1);
    let mut remaining = statement;
    while let Some(first) = remaining.chars().next() {
        let (token, bytes) = match first {
            ' ' | '\t' | '\r' | '\n' => (None, 1),
            '-' if remaining.starts_with("--") => (None, remaining.find(['\r', '\n']).unwrap_or(remaining.len())),
            '/' if remaining.starts_with("/*") => (None, remaining[2..].find("*/").ok_or_else(unreadable)? + 4),
            _ => token(first, remaining).map(|(token, bytes)| (Some(token), bytes))?,
        };
        let text = &remaining[..bytes];
        if let Some(token) = token {
            let length = text.chars().count();
            tokens.push((token, At { line, column, length }));
        }
        match text.rsplit_once('\n') {
            Some((before, after)) => {
                line += 1 + before.matches('\n').count();
                column = 1 + after.chars().count();
            }
            None => column += text.chars().count(),
        }
        remaining = &remaining[bytes..];
    }
    tokens.push((
        Token::End,
        At {
            line,
            column,
            length: 0,
        },
    ));
    Ok(tokens)
}

fn unreadable() -> Failure {
    malformed("")
}

/// The token at the start of `source`, and its length in bytes.
fn token(first: char, source: &str) -> Result<(Token, usize), Failure> {
    match first {
        '\'' => quoted(source, '\'').map(|(text, bytes)| (Token::Text(text), bytes)),
        '"' => quoted(source, '"').map(|(name, bytes)| (Token::Quoted(name), bytes)),
        '`' => {
            let end = source[1..].find('`').ok_or_else(unreadable)?;
            Ok((Token::Ion(source[1..=end].to_owned()), end + 2))
        }
        '0'..='9' => number(source),
        '.' if source[1..].starts_with(|next: char| next.is_ascii_digit()) => number(source),
        first if first.is_ascii_alphabetic() || matches!(first, '_' | '$') => Ok(name(source)),
        _ => symbol(source),
    }
}

/// A quoted text, in which the quote is doubled, and how many bytes it takes with its quotes.
fn quoted(source: &str, quote: char) -> Result<(String, usize), Failure> {
    let mut text = String::new();
    let mut characters = source.char_indices().skip(1).peekable();
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
    Err(unreadable())
}

/// Digits, perhaps with a point and an exponent.
fn number(source: &str) -> Result<(Token, usize), Failure> {
    let bytes = source.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = digits(0);
    let mut behind_point = 0;
    if bytes.get(length) == Some(&b'.') {
        behind_point = digits(length + 1);
        length += 1 + behind_point;
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let signed = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let from = length + 1;
        length = from + signed;
        length += match digits(length) {
            0 => return Err(unreadable()),
            count => count,
        };
        let exponent: i32 = source[from..length].parse().map_err(|_| unreadable())?;
        i32::try_from(behind_point as i64 - i64::from(exponent)).map_err(|_| unreadable())?;
    }
    Ok((Token::Number(source[..length].to_owned()), length))
}

fn name(source: &str) -> (Token, usize) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    let name = &source[..source.bytes().take_while(is_part).count()];
    let token = keyword(name).map_or_else(|| Token::Name(name.to_owned()), Token::Keyword);
    (token, name.len())
}

fn symbol(source: &str) -> Result<(Token, usize), Failure> {
    let row = SYMBOLS.into_iter().find(|(spelling, _)| source.starts_with(spelling));
    let (spelling, symbol) = row.ok_or_else(unreadable)?;
    Ok((Token::Symbol(symbol), spelling.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_sorted_and_each_is_there_once() {
        assert!(KEYWORDS.is_sorted_by(|word, next| word < next));
    }

    #[test]
    fn a_hyphen_ends_a_name_and_places_count_characters() {
        let written = |statement: &str| {
            let all = tokens(statement).unwrap();
            all.iter()
                .map(|(token, at)| format!("{token:?} {at}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            written("n-1.5e3\n 'ä' /* c */Size"),
            [
                "Name(\"n\") at 1:1:1",
                "Symbol(\"-\") at 1:2:1",
                "Number(\"1.5e3\") at 1:3:5",
                "Text(\"ä\") at 2:2:3",
                "Keyword(\"size\") at 2:13:4",
                "End at 2:17:0"
            ]
        );
        assert_eq!(written("a -- b"), ["Name(\"a\") at 1:1:1", "End at 1:7:0"]);
    }

    #[test]
    fn text_that_is_no_token_is_refused() {
        for statement in [
            "'a",
            "\"a",
            "`1",
            "/* a",
            "a # b",
            "1e",
            "1e+",
            "1e2147483648",
            "1.5e-2147483647",
            "é",
        ] {
            let failure = tokens(statement).unwrap_err();
            assert_eq!(
                failure.message, "Statement wasn't well formed, can't be processed: ",
                "{statement}"
            );
        }
    }
}
