//! Regular expressions of Java, translated for the engine in use.
//!
//! Syntax that both engines read alike passes; syntax that Java reads otherwise is spelled out:
//! classes of ASCII where the engine means Unicode's, a `$` that stops before the last line's end,
//! quoting, octal numbers, a brace that must be a repetition. A pattern that Java refuses is not
//! rewritten.

use std::iter::Peekable;
use std::str::Chars;

const LINE_ENDS: &str = r"\n\r\x{85}\x{2028}\x{2029}";
const WORD: &str = "A-Za-z0-9_";
const SPACE: &str = r"\x20\t\n\x0B\x0C\r";
const HORIZONTAL: &str = r"\x20\t\x{A0}\x{1680}\x{180E}\x{2000}-\x{200A}\x{202F}\x{205F}\x{3000}";
const VERTICAL: &str = r"\n\x0B\x0C\r\x{85}\x{2028}\x{2029}";

/// The pattern for the engine; `None` if Java refuses it.
pub fn rewritten(pattern: &str) -> Option<String> {
    let mut rewriter = Rewriter {
        rest: pattern.chars().peekable(),
        out: String::with_capacity(pattern.len()),
        flags: vec![Flags::default()],
        groups: count_groups(pattern),
    };
    rewriter.sequence()?;
    Some(rewriter.out)
}

/// The meaning of the flags in force for the parts that are spelled out here.
#[derive(Clone, Copy, Default)]
struct Flags {
    dot_takes_all: bool,
    lines: bool,
}

struct Rewriter<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
    /// Flags of each open group, outermost first.
    flags: Vec<Flags>,
    groups: usize,
}

/// Groups that capture, roughly: what is quoted does not matter for what this is used for.
fn count_groups(pattern: &str) -> usize {
    let opening = pattern.match_indices('(');
    opening
        .filter(|(at, _)| {
            let after = &pattern[at + 1..];
            let named = after.starts_with("?<") && !after.starts_with("?<=") && !after.starts_with("?<!");
            !pattern[..*at].ends_with('\\') && (named || !after.starts_with('?'))
        })
        .count()
}

fn literal(c: char, out: &mut String) {
    match c.is_alphanumeric() || (!c.is_ascii() && !c.is_whitespace()) {
        true => out.push(c),
        false => out.push_str(&format!("\\x{{{:X}}}", u32::from(c))),
    }
}

impl Rewriter<'_> {
    fn sequence(&mut self) -> Option<()> {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                ')' => {
                    self.flags.pop();
                    // One flag set stays for the pattern itself.
                    if self.flags.is_empty() {
                        return None;
                    }
                    self.out.push(')');
                }
                '{' => self.repetition()?,
                '.' => self.dot(),
                '$' => self.end_of_line(),
                '^' if self.now().lines => self.out.push_str("(?m:^)"),
                '^' => self.out.push_str("\\A"),
                '*' | '+' | '?' | '|' | ' ' | '\t' | '\n' | '\r' | '#' => self.out.push(c),
                c => literal(c, &mut self.out),
            }
        }
        (self.flags.len() == 1).then_some(())
    }

    fn now(&self) -> Flags {
        self.flags.last().copied().unwrap_or_default()
    }

    fn dot(&mut self) {
        match self.now().dot_takes_all {
            true => self.out.push_str("(?s:.)"),
            false => self.out.push_str(&format!("[^{LINE_ENDS}]")),
        }
    }

    fn end_of_line(&mut self) {
        let end = match self.now().lines {
            true => format!(r"(?=\r\n|[{LINE_ENDS}]|\z)"),
            false => format!(r"(?=(?:\r\n|[{LINE_ENDS}])?\z)"),
        };
        self.out.push_str(&end);
    }

    /// `{n}`, `{n,}` or `{n,m}`: Java takes a brace for nothing else.
    fn repetition(&mut self) -> Option<()> {
        let inner: String = self.rest.by_ref().take_while(|c| *c != '}').collect();
        let (least, most) = inner.split_once(',').unwrap_or((&inner, ""));
        let is_number =
            |text: &str| !text.is_empty() && text.len() < 10 && text.bytes().all(|byte| byte.is_ascii_digit());
        if self.out.is_empty() || !is_number(least) || !(most.is_empty() || is_number(most)) {
            return None;
        }
        self.out.push_str(&format!("{{{inner}}}"));
        Some(())
    }

    fn group(&mut self) -> Option<()> {
        let flags = self.now();
        if self.rest.next_if_eq(&'?').is_none() {
            self.flags.push(flags);
            self.out.push('(');
            return Some(());
        }
        let c = self.rest.next()?;
        match c {
            ':' | '=' | '!' | '>' => self.out.push_str(&format!("(?{c}")),
            '<' => {
                self.out.push_str("(?<");
                if let Some(direction) = self.rest.next_if(|c| matches!(c, '=' | '!')) {
                    self.out.push(direction);
                } else {
                    let name: String = self.rest.by_ref().take_while(|c| *c != '>').collect();
                    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic());
                    if !is_name || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                        return None;
                    }
                    self.out.push_str(&format!("{name}>"));
                }
            }
            c => return self.inline_flags(c),
        }
        self.flags.push(flags);
        Some(())
    }

    /// `(?i)`, `(?s-m:…)`. Java's `d`, `u` and `U` change what the engine does anyway, or does not
    /// know.
    fn inline_flags(&mut self, first: char) -> Option<()> {
        let mut flags = self.now();
        let (mut on, mut added, mut removed) = (true, String::new(), String::new());
        let mut next = first;
        loop {
            match next {
                '-' if on => on = false,
                's' => flags.dot_takes_all = on,
                'm' => flags.lines = on,
                'i' | 'x' => (if on { &mut added } else { &mut removed }).push(next),
                'd' | 'u' | 'U' => {}
                ')' | ':' => break,
                _ => return None,
            }
            next = self.rest.next()?;
        }
        if !removed.is_empty() {
            added = format!("{added}-{removed}");
        }
        if next == ':' {
            self.flags.push(flags);
            self.out.push_str(&format!("(?{added}:"));
        } else {
            *self.flags.last_mut()? = flags;
            if !added.is_empty() {
                self.out.push_str(&format!("(?{added})"));
            }
        }
        Some(())
    }

    fn escape(&mut self) -> Option<()> {
        let c = *self.rest.peek()?;
        match c {
            'Q' => {
                self.rest.next();
                let quoted = self.quoted();
                quoted.chars().for_each(|c| literal(c, &mut self.out));
            }
            'b' | 'B' | 'A' | 'z' | 'G' => {
                self.rest.next();
                self.out.push_str(&format!("\\{c}"));
            }
            'Z' => {
                self.rest.next();
                self.out.push_str(&format!(r"(?=(?:\r\n|[{LINE_ENDS}])?\z)"));
            }
            'R' => {
                self.rest.next();
                self.out.push_str(&format!(r"(?:\r\n|[{VERTICAL}])"));
            }
            'X' => {
                self.rest.next();
                self.out.push_str(r"(?:\P{M}\p{M}*)");
            }
            'k' => {
                self.rest.next();
                self.rest.next_if_eq(&'<')?;
                let name: String = self.rest.by_ref().take_while(|c| *c != '>').collect();
                self.out.push_str(&format!("\\k<{name}>"));
            }
            '1'..='9' => self.back_reference(),
            _ => match self.class_of_escape()? {
                Some(class) => self.out.push_str(&class),
                None => {
                    let c = self.character()?;
                    literal(c, &mut self.out);
                }
            },
        }
        Some(())
    }

    fn quoted(&mut self) -> String {
        let mut quoted = String::new();
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                break;
            }
            quoted.push(c);
        }
        quoted
    }

    /// As many digits as name a group that there is.
    fn back_reference(&mut self) {
        let mut number = 0;
        while let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(10)) {
            let longer = number * 10 + digit as usize;
            if number > 0 && longer > self.groups {
                break;
            }
            number = longer;
            self.rest.next();
        }
        match number <= self.groups {
            true => self.out.push_str(&format!("(?:\\{number})")),
            false => self.out.push_str("(?!)"),
        }
    }

    /// The class of an escape, after its backslash; `Some(None)`: it is a character.
    fn class_of_escape(&mut self) -> Option<Option<String>> {
        let letter = *self.rest.peek()?;
        let inner = match letter.to_ascii_lowercase() {
            'd' => "0-9",
            'w' => WORD,
            's' => SPACE,
            'h' => HORIZONTAL,
            'v' => VERTICAL,
            'p' => return self.property().map(Some),
            _ => return Some(None),
        };
        self.rest.next();
        let negation = if letter.is_ascii_uppercase() { "^" } else { "" };
        Some(Some(format!("[{negation}{inner}]")))
    }

    fn property(&mut self) -> Option<String> {
        let is_negated = self.rest.next()? == 'P';
        let name: String = match self.rest.next()? {
            '{' => self.rest.by_ref().take_while(|c| *c != '}').collect(),
            letter => letter.to_string(),
        };
        let ascii = match &*name {
            "Lower" => "a-z",
            "Upper" => "A-Z",
            "ASCII" => r"\x00-\x7F",
            "Alpha" => "A-Za-z",
            "Digit" => "0-9",
            "Alnum" => "A-Za-z0-9",
            "Punct" => r"\x21-\x2F\x3A-\x40\x5B-\x60\x7B-\x7E",
            "Graph" => r"\x21-\x7E",
            "Print" => r"\x20-\x7E",
            "Blank" => r"\x20\t",
            "Cntrl" => r"\x00-\x1F\x7F",
            "XDigit" => "0-9A-Fa-f",
            "Space" => SPACE,
            "L1" => r"\x00-\xFF",
            _ => "",
        };
        if !ascii.is_empty() {
            let negation = if is_negated { "^" } else { "" };
            return Some(format!("[{negation}{ascii}]"));
        }
        let class = match &*name {
            "javaLowerCase" => "Lowercase",
            "javaUpperCase" => "Uppercase",
            "javaWhitespace" => "White_Space",
            "javaLetter" => "L",
            "javaDigit" => "Nd",
            name => name.strip_prefix("Is").unwrap_or(name),
        };
        let letter = if is_negated { 'P' } else { 'p' };
        Some(format!("\\{letter}{{{class}}}"))
    }

    /// The character of an escape, after its backslash.
    fn character(&mut self) -> Option<char> {
        Some(match self.rest.next()? {
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'f' => '\x0C',
            'a' => '\x07',
            'e' => '\x1B',
            'c' => char::from_u32(u32::from(self.rest.next()?) ^ 64)?,
            '0' => self.octal()?,
            'x' => match self.rest.next_if_eq(&'{') {
                Some(_) => {
                    let digits: String = self.rest.by_ref().take_while(|c| *c != '}').collect();
                    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?
                }
                None => char::from_u32(self.hexadecimal(2)?)?,
            },
            'u' => self.utf16()?,
            c if c.is_ascii_alphanumeric() => return None,
            c => c,
        })
    }

    fn octal(&mut self) -> Option<char> {
        let (mut value, mut digits) = (0, 0);
        while digits < 3 {
            let Some(digit) = self.rest.peek().and_then(|c| c.to_digit(8)) else {
                break;
            };
            if value * 8 + digit > 0o377 {
                break;
            }
            value = value * 8 + digit;
            digits += 1;
            self.rest.next();
        }
        (digits > 0).then(|| char::from_u32(value)).flatten()
    }

    fn hexadecimal(&mut self, digits: usize) -> Option<u32> {
        let mut value = 0;
        for _ in 0..digits {
            value = value * 16 + self.rest.next()?.to_digit(16)?;
        }
        Some(value)
    }

    /// One unit of UTF-16 or a pair of them.
    fn utf16(&mut self) -> Option<char> {
        let unit = self.hexadecimal(4)?;
        if !(0xD800..0xDC00).contains(&unit) {
            return char::from_u32(unit);
        }
        self.rest.next_if_eq(&'\\')?;
        self.rest.next_if_eq(&'u')?;
        let low = self.hexadecimal(4)?.checked_sub(0xDC00)?;
        char::from_u32(0x10000 + ((unit - 0xD800) << 10) + low)
    }

    /// Parses a class after its opening bracket. A leading closing bracket is a character.
    fn class(&mut self) -> Option<()> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut is_empty = true;
        loop {
            let c = self.rest.next()?;
            match c {
                ']' if !is_empty => break,
                '[' => self.class()?,
                '&' if self.rest.next_if_eq(&'&').is_some() => self.out.push_str("&&"),
                '\\' if self.rest.next_if_eq(&'Q').is_some() => {
                    let quoted = self.quoted();
                    quoted.chars().for_each(|c| literal(c, &mut self.out));
                }
                '\\' => match self.class_of_escape()? {
                    Some(class) => self.out.push_str(&class),
                    None => {
                        let first = self.character()?;
                        self.range(first)?;
                    }
                },
                c => self.range(c)?,
            }
            is_empty = false;
        }
        self.out.push(']');
        Some(())
    }

    /// Parses a character, or a range that starts with it.
    fn range(&mut self, first: char) -> Option<()> {
        literal(first, &mut self.out);
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('-') || matches!(ahead.next(), None | Some(']' | '[')) {
            return Some(());
        }
        self.rest.next();
        let last = match self.rest.next()? {
            '\\' => self.character()?,
            c => c,
        };
        if last < first {
            return None;
        }
        self.out.push('-');
        literal(last, &mut self.out);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::rewritten;
    use fancy_regex::Regex;

    fn found<'t>(pattern: &str, text: &'t str) -> Option<&'t str> {
        let regex = Regex::new(&rewritten(pattern).unwrap_or_else(|| panic!("{pattern} is refused"))).unwrap();
        regex.find(text).unwrap().map(|matched| matched.as_str())
    }

    #[test]
    fn patterns_mean_what_they_mean_in_java() {
        let cases = [
            (r"\d+", "٣4", Some("4")),
            (r"\w+", "éa", Some("a")),
            (r"\s", "\u{a0}", None),
            (r"\h", "\u{a0}", Some("\u{a0}")),
            ("a$", "a\n", Some("a")),
            (r"a\z", "a\n", None),
            ("(?m)^b$", "a\r\nb\r\nc", Some("b")),
            ("a.b", "a\u{85}b", None),
            ("(?s)a.b", "a\nb", Some("a\nb")),
            ("(?i)É", "é", Some("é")),
            (r"[\w-]+", "a-b", Some("a-b")),
            ("[a-z&&[^b]]+", "abc", Some("a")),
            ("[]a]+", "]a", Some("]a")),
            ("[a~~b-]+", "~-", Some("~-")),
            (r"\Qa.b\E+", "a.bb", Some("a.bb")),
            (r"\x41\u0042\0103", "ABC", Some("ABC")),
            (r"\p{Upper}\p{L}", "Éé Aé", Some("Aé")),
            (r"(a)\1", "aa", Some("aa")),
            (r"(a)\10", "aa0", Some("aa0")),
            (r"\/\<\>", "/<>", Some("/<>")),
            ("a++b", "aab", Some("aab")),
            (r"(?<n>a)\k<n>", "aa", Some("aa")),
            ("]}", "]}", Some("]}")),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(found(pattern, text), expected, "{pattern}");
        }
        for pattern in ["a{", "x{,3}", r"\y", "[a", "(a", "a)", "[z-a]", r"\E"] {
            assert_eq!(rewritten(pattern), None, "{pattern}");
        }
    }
}
