//! Lua 5.1's string patterns, matched in safe Rust.
//!
//! Follows section 5.4.1 of the Lua 5.1 manual. Lua's own matcher recurses once for each item of a
//! pattern and cannot be interrupted; this one bounds its depth and lets the script's budget stop
//! it, so a pattern is no bomb.

/// Why a match was given up.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// The pattern is malformed: Lua's message.
    Malformed(&'static str),
    /// The budget says stop.
    Stopped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// Start and end, end excluded.
    Span(usize, usize),
    /// `()`: a position, counted from zero.
    Position(usize),
}

/// A match: start, end (excluded), captures.
#[derive(Debug, PartialEq, Eq)]
pub struct Match {
    pub start: usize,
    pub end: usize,
    pub captures: Vec<Capture>,
}

const CAPTURES_MAX: usize = 32;
const DEPTH_MAX: usize = 200;
/// Steps between two looks at the budget.
const STEPS_PER_LOOK: u32 = 10_000;

const OPEN: usize = usize::MAX;
const POSITION: usize = usize::MAX - 1;

struct Matcher<'a> {
    text: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<(usize, usize)>,
    depth: usize,
    steps: u32,
    look: &'a mut dyn FnMut() -> bool,
}

/// The first match at or after `from`. `look` is called at intervals and returns whether to
/// continue.
pub fn search(
    text: &[u8],
    pattern: &[u8],
    from: usize,
    anchors: bool,
    look: &mut dyn FnMut() -> bool,
) -> Result<Option<Match>, Fault> {
    let anchored = anchors && pattern.first() == Some(&b'^');
    let mut matcher = Matcher {
        text,
        pattern,
        captures: Vec::new(),
        depth: 0,
        steps: 0,
        look,
    };
    for start in from..=text.len() {
        matcher.captures.clear();
        if let Some(end) = matcher.run(start, usize::from(anchored))? {
            let captures = matcher.finished(start, end)?;
            return Ok(Some(Match { start, end, captures }));
        }
        if anchored {
            break;
        }
    }
    Ok(None)
}

impl Matcher<'_> {
    fn finished(&self, _: usize, _: usize) -> Result<Vec<Capture>, Fault> {
        let finished = self.captures.iter().map(|&(start, length)| match length {
            OPEN => Err(Fault::Malformed("unfinished capture")),
            POSITION => Ok(Capture::Position(start)),
            length => Ok(Capture::Span(start, start + length)),
        });
        finished.collect()
    }

    fn step(&mut self) -> Result<(), Fault> {
        self.steps += 1;
        if self.steps < STEPS_PER_LOOK {
            return Ok(());
        }
        self.steps = 0;
        if (self.look)() { Ok(()) } else { Err(Fault::Stopped) }
    }

    /// Matches the pattern from `p` at `s`; the end of the match.
    fn run(&mut self, s: usize, p: usize) -> Result<Option<usize>, Fault> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Fault::Malformed("pattern too complex"));
        }
        let end = self.items(s, p);
        self.depth -= 1;
        end
    }

    fn items(&mut self, mut s: usize, mut p: usize) -> Result<Option<usize>, Fault> {
        loop {
            self.step()?;
            let Some(&item) = self.pattern.get(p) else {
                return Ok(Some(s));
            };
            let next = self.pattern.get(p + 1).copied();
            match (item, next) {
                (b'(', Some(b')')) => return self.open_capture(s, p + 2, POSITION),
                (b'(', _) => return self.open_capture(s, p + 1, OPEN),
                (b')', _) => return self.close_capture(s, p + 1),
                (b'$', None) => return Ok((s == self.text.len()).then_some(s)),
                (b'%', Some(b'b')) => match self.balanced(s, p + 2)? {
                    Some(end) => (s, p) = (end, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => match self.frontier(s, p + 2)? {
                    Some(after) => p = after,
                    None => return Ok(None),
                },
                (b'%', Some(digit)) if digit.is_ascii_digit() => match self.back_reference(s, digit)? {
                    Some(end) => (s, p) = (end, p + 2),
                    None => return Ok(None),
                },
                _ => {
                    let after = self.class_end(p)?;
                    let fits = s < self.text.len() && self.single(self.text[s], p, after);
                    match self.pattern.get(after) {
                        Some(b'?') => {
                            if fits && let Some(end) = self.run(s + 1, after + 1)? {
                                return Ok(Some(end));
                            }
                            p = after + 1;
                        }
                        Some(b'*') => return self.expand(s, p, after),
                        Some(b'+') if fits => return self.expand(s + 1, p, after),
                        Some(b'+') => return Ok(None),
                        Some(b'-') => return self.expand_least(s, p, after),
                        _ if fits => (s, p) = (s + 1, after),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn expand(&mut self, s: usize, p: usize, after: usize) -> Result<Option<usize>, Fault> {
        let tail = &self.text[s..];
        let mut count = tail.iter().take_while(|&&byte| self.single(byte, p, after)).count();
        self.steps = self.steps.saturating_add(count as u32 / 8);
        loop {
            self.step()?;
            if let Some(end) = self.run(s + count, after + 1)? {
                return Ok(Some(end));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn expand_least(&mut self, mut s: usize, p: usize, after: usize) -> Result<Option<usize>, Fault> {
        loop {
            self.step()?;
            if let Some(end) = self.run(s, after + 1)? {
                return Ok(Some(end));
            }
            if s >= self.text.len() || !self.single(self.text[s], p, after) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open_capture(&mut self, s: usize, p: usize, kind: usize) -> Result<Option<usize>, Fault> {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Fault::Malformed("too many captures"));
        }
        self.captures.push((s, kind));
        let depth = self.captures.len();
        let end = self.run(s, p)?;
        if end.is_none() {
            self.captures.truncate(depth - 1);
        }
        Ok(end)
    }

    fn close_capture(&mut self, s: usize, p: usize) -> Result<Option<usize>, Fault> {
        let open = self.captures.iter().rposition(|&(_, length)| length == OPEN);
        let open = open.ok_or(Fault::Malformed("invalid pattern capture"))?;
        self.captures[open].1 = s - self.captures[open].0;
        let end = self.run(s, p)?;
        if end.is_none() {
            self.captures[open].1 = OPEN;
        }
        Ok(end)
    }

    fn balanced(&self, s: usize, p: usize) -> Result<Option<usize>, Fault> {
        let [Some(&open), Some(&close)] = [self.pattern.get(p), self.pattern.get(p + 1)] else {
            return Err(Fault::Malformed("unbalanced pattern"));
        };
        if self.text.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for (offset, &byte) in self.text[s + 1..].iter().enumerate() {
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(s + offset + 2));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn frontier(&self, s: usize, p: usize) -> Result<Option<usize>, Fault> {
        if self.pattern.get(p) != Some(&b'[') {
            return Err(Fault::Malformed("missing '[' after '%f' in pattern"));
        }
        let after = self.class_end(p)?;
        let before = if s == 0 { 0 } else { self.text[s - 1] };
        let current = self.text.get(s).copied().unwrap_or(0);
        let is_frontier = !self.in_set(before, p, after - 1) && self.in_set(current, p, after - 1);
        Ok(is_frontier.then_some(after))
    }

    fn back_reference(&self, s: usize, digit: u8) -> Result<Option<usize>, Fault> {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let &(start, length) = self
            .captures
            .get(index)
            .ok_or(Fault::Malformed("invalid capture index"))?;
        if length == OPEN {
            return Err(Fault::Malformed("invalid capture index"));
        }
        let length = if length == POSITION { 0 } else { length };
        let captured = &self.text[start..start + length];
        Ok(self.text[s..].starts_with(captured).then_some(s + length))
    }

    /// The position after the single-character class that starts at `p`.
    fn class_end(&self, p: usize) -> Result<usize, Fault> {
        match self.pattern[p] {
            b'%' if p + 1 >= self.pattern.len() => Err(Fault::Malformed("malformed pattern (ends with '%')")),
            b'%' => Ok(p + 2),
            b'[' => self.set_end(p + 1),
            _ => Ok(p + 1),
        }
    }

    fn set_end(&self, mut p: usize) -> Result<usize, Fault> {
        const UNCLOSED: Fault = Fault::Malformed("malformed pattern (missing ']')");
        if self.pattern.get(p) == Some(&b'^') {
            p += 1;
        }
        loop {
            let byte = *self.pattern.get(p).ok_or(UNCLOSED)?;
            p += if byte == b'%' { 2 } else { 1 };
            if p >= self.pattern.len() {
                return Err(UNCLOSED);
            }
            if self.pattern[p] == b']' {
                return Ok(p + 1);
            }
        }
    }

    fn single(&self, byte: u8, p: usize, after: usize) -> bool {
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, after - 1),
            literal => literal == byte,
        }
    }

    /// Returns true if the set from the `[` at `p` to the `]` at `end` holds `byte`.
    fn in_set(&self, byte: u8, mut p: usize, end: usize) -> bool {
        p += 1;
        let negated = self.pattern[p] == b'^';
        p += usize::from(negated);
        let mut is_member = false;
        while p < end {
            let first = self.pattern[p];
            if first == b'%' {
                is_member |= in_class(byte, self.pattern[p + 1]);
                p += 2;
            } else if self.pattern.get(p + 1) == Some(&b'-') && p + 2 < end {
                is_member |= (first..=self.pattern[p + 2]).contains(&byte);
                p += 3;
            } else {
                is_member |= first == byte;
                p += 1;
            }
        }
        is_member != negated
    }
}

fn in_class(byte: u8, class: u8) -> bool {
    let inside = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    inside != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The matched text and the captures, or the fault.
    fn check(text: &str, pattern: &str, expected: &str) {
        let texts = match search(text.as_bytes(), pattern.as_bytes(), 0, true, &mut || true) {
            Ok(None) => "none".into(),
            Err(Fault::Malformed(message)) => format!("!{message}"),
            Err(Fault::Stopped) => "!stopped".into(),
            Ok(Some(matched)) => {
                let mut texts = vec![text[matched.start..matched.end].to_owned()];
                for capture in matched.captures {
                    texts.push(match capture {
                        Capture::Span(start, end) => text[start..end].to_owned(),
                        Capture::Position(at) => (at + 1).to_string(),
                    });
                }
                texts.join("|")
            }
        };
        assert_eq!(texts, expected, "{pattern:?} in {text:?}");
    }

    #[test]
    fn patterns_follow_the_manual() {
        check("hello world", "o w", "o w");
        check("hello", "l+", "ll");
        check("hello", "^l", "none");
        check("hello", "l-o", "llo");
        check("key=value", "(%w+)=(%w+)", "key=value|key|value");
        check("  x", "^%s*(.-)%s*$", "  x|x");
        check("f(a(b)c)d", "%b()", "(a(b)c)");
        check("THE (quick) fox", "%f[%a]%a+%f[%A]", "THE");
        check("aXa", "(.)X%1", "aXa|a");
        check("ab", "()b()", "b|2|3");
        check("a]b", "[]]", "]");
        check("a-b", "[a%-]+", "a-");
        check("xyz", "[^x]+", "yz");
        check("abc", "b?c", "bc");
        check("a.b", "%.", ".");
        check("x", "[a", "!malformed pattern (missing ']')");
        check("x", "%", "!malformed pattern (ends with '%')");
        check("x", "(x", "!unfinished capture");
        check("x", "x)", "!invalid pattern capture");
        check("x", "%1", "!invalid capture index");
    }

    #[test]
    fn bombs_end() {
        let deep = "a?".repeat(100_000);
        let text = "a".repeat(100_000);
        assert_eq!(
            search(text.as_bytes(), deep.as_bytes(), 0, true, &mut || true),
            Err(Fault::Malformed("pattern too complex"))
        );
        let slow = "a*".repeat(40) + "b";
        let mut looks = 0;
        let stopped = search(text.as_bytes(), slow.as_bytes(), 0, true, &mut || {
            looks += 1;
            looks < 20
        });
        assert_eq!(stopped, Err(Fault::Stopped));
    }
}
