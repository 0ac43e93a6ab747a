//! How a line of the shell is read, and how keys and values are printed. Both follow `fdbcli`.
//!
//! Commands are separated by `;`, their words by blanks. `"` starts and ends a part in which
//! neither separates. `\xNN` and `\u00NN` are one byte; `\ `, `\;`, `\"` and `\\` are the character
//! itself.

use std::fmt::Write;

/// Why a line is no sequence of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    Escape,
    OpenQuote,
}

/// A command and its arguments. Empty words are possible: `""` is one.
pub type Words = Vec<Vec<u8>>;

/// The commands of a line, in order.
pub fn commands(line: &str) -> Result<Vec<Words>, Malformed> {
    let mut reading = Reading::default();
    let mut remaining = line.as_bytes();
    while let [byte, after @ ..] = remaining {
        remaining = after;
        match byte {
            b'"' => {
                reading.quoted = !reading.quoted;
                reading.word.get_or_insert_default();
            }
            b'\\' => {
                let (byte, after) = escape(remaining).ok_or(Malformed::Escape)?;
                reading.push(byte);
                remaining = after;
            }
            b';' if !reading.quoted => reading.end_command(),
            b' ' | b'\t' | b'\r' | b'\n' if !reading.quoted => reading.end_word(),
            byte => reading.push(*byte),
        }
    }
    if reading.quoted {
        return Err(Malformed::OpenQuote);
    }
    reading.end_command();
    Ok(reading.commands)
}

#[derive(Default)]
struct Reading {
    commands: Vec<Words>,
    command: Words,
    /// The current word.
    word: Option<Vec<u8>>,
    quoted: bool,
}

impl Reading {
    fn push(&mut self, byte: u8) {
        self.word.get_or_insert_default().push(byte);
    }

    fn end_word(&mut self) {
        self.command.extend(self.word.take());
    }

    fn end_command(&mut self) {
        self.end_word();
        if !self.command.is_empty() {
            self.commands.push(std::mem::take(&mut self.command));
        }
    }
}

/// The byte of an escape, and the text after it. `text` starts after the backslash.
fn escape(text: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, tail) = match text {
        [b'x', tail @ ..] => tail.split_at_checked(2)?,
        [b'u', tail @ ..] => tail.split_at_checked(4)?,
        [byte @ (b'"' | b'\\' | b' ' | b';'), tail @ ..] => return Some((*byte, tail)),
        _ => return None,
    };
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let number = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some((u8::try_from(number).ok()?, tail))
}

/// A key or value: what can be printed as it is, a backslash twice, everything else as `\xNN`.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*byte)),
            // Writing to a string cannot fail.
            byte => drop(write!(text, "\\x{byte:02x}")),
        }
    }
    text
}

/// A command as it could be typed again.
pub fn typed(words: &Words) -> String {
    let words = words.iter().map(|word| match word.as_slice() {
        b"" => "\"\"".to_owned(),
        word => printable(word)
            .replace('"', "\\\"")
            .replace(' ', "\\x20")
            .replace(';', "\\;"),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(line: &str, expected: &[&[&[u8]]]) {
        let expected: Vec<Words> = expected
            .iter()
            .map(|words| words.iter().map(|word| word.to_vec()).collect())
            .collect();
        assert_eq!(commands(line), Ok(expected), "{line}");
    }

    #[test]
    fn words_and_commands() {
        check("", &[]);
        check(" ; ;", &[]);
        check("get a", &[&[b"get", b"a"]]);
        check(" set  a\tb ;get a", &[&[b"set", b"a", b"b"], &[b"get", b"a"]]);
        check(r#"set "a b;" """#, &[&[b"set", b"a b;", b""]]);
        check(r#"get a" "b"#, &[&[b"get", b"a b"]]);
    }

    #[test]
    fn escapes() {
        check(r"get \x00\xFf\u00e4", &[&[b"get", b"\x00\xff\xe4"]]);
        check(r#"get a\ b\;\"\\"#, &[&[b"get", b"a b;\"\\"]]);
        for line in [r"\", r"\x", r"\x1", r"\xg0", r"\x+1", r"\u0100", r"\u00", r"\n"] {
            assert_eq!(commands(line), Err(Malformed::Escape), "{line}");
        }
        assert_eq!(commands("get \"a"), Err(Malformed::OpenQuote));
    }

    proptest! {
        #[test]
        fn text_shown_as_typed_reads_back(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..6), 1..4)) {
            prop_assert_eq!(commands(&typed(&words)), Ok(vec![words]));
        }

        #[test]
        fn no_line_panics(line in ".*") {
            let _ = commands(&line);
        }
    }
}
