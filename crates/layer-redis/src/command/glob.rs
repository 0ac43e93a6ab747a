//! Patterns of KEYS, SCAN and their like: `*`, `?`, `[a-z]`, `[^x]`, `\x`.
//!
//! Iterative, with a single backtracking point: the last star. So the work is bounded by pattern
//! times text, for any pattern.

/// Returns true if the whole text matches the pattern.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    matches_case(pattern, text, false)
}

/// The same, ASCII letters in any case if `ignore_case`.
pub fn matches_case(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        if p < pattern.len()
            && let Some(next) = one(pattern, p, text[t], ignore_case)
        {
            p = next;
            t += 1;
            continue;
        }
        let Some((after_star, consumed)) = star else {
            return false;
        };
        star = Some((after_star, consumed + 1));
        (p, t) = (after_star, consumed + 1);
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// Returns the prefix of every matching text: the pattern up to its first special byte.
pub fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern
        .iter()
        .position(|byte| b"*?[\\".contains(byte))
        .unwrap_or(pattern.len());
    &pattern[..end]
}

/// Matches one byte against the pattern's element at `p`. The position after the element, if it
/// matches.
fn one(pattern: &[u8], p: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    match pattern[p] {
        b'?' => Some(p + 1),
        b'[' => set(pattern, p + 1, byte, ignore_case),
        b'\\' if p + 1 < pattern.len() => same(pattern[p + 1], byte, ignore_case).then_some(p + 2),
        literal => same(literal, byte, ignore_case).then_some(p + 1),
    }
}

/// Matches a set, from after its bracket. An unclosed set ends with the pattern.
fn set(pattern: &[u8], mut p: usize, byte: u8, ignore_case: bool) -> Option<usize> {
    let negated = pattern.get(p) == Some(&b'^');
    if negated {
        p += 1;
    }
    let mut matches = false;
    loop {
        match pattern.get(p) {
            None => break,
            Some(b']') => {
                p += 1;
                break;
            }
            Some(b'\\') if p + 1 < pattern.len() => {
                matches |= same(pattern[p + 1], byte, ignore_case);
                p += 2;
            }
            Some(&low) if pattern.get(p + 1) == Some(&b'-') && p + 2 < pattern.len() => {
                matches |= in_range(low, pattern[p + 2], byte, ignore_case);
                p += 3;
            }
            Some(&literal) => {
                matches |= same(literal, byte, ignore_case);
                p += 1;
            }
        }
    }
    (matches != negated).then_some(p)
}

fn in_range(a: u8, b: u8, byte: u8, ignore_case: bool) -> bool {
    let fold = |byte: u8| if ignore_case { byte.to_ascii_lowercase() } else { byte };
    let (a, b, byte) = (fold(a), fold(b), fold(byte));
    a.min(b) <= byte && byte <= a.max(b)
}

fn same(a: u8, b: u8, ignore_case: bool) -> bool {
    if ignore_case {
        a.eq_ignore_ascii_case(&b)
    } else {
        a == b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[b-a]llo", "hallo", true),
            ("h[a-b]llo", "hbllo", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("[", "[", false),
            ("[a", "a", true),
            ("[^]x", "ax", true),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(
                matches(pattern.as_bytes(), text.as_bytes()),
                expected,
                "{pattern} {text}"
            );
        }
        assert!(matches_case(b"HE*", b"hello", true));
    }

    /// Many stars once meant exponential work (CVE-2022-36021). Now each star forgets the one
    /// before.
    #[test]
    fn many_stars_are_cheap() {
        let pattern = [b"a*".repeat(10_000), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &b"a".repeat(2_000)));
    }
}
