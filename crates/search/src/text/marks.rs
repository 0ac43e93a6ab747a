//! Parts of a text between marks, as highlighters show them.

use std::ops::Range;

/// Returns the bytes of `range` with `open` and `close` around each of `spans`, which ascend and
/// lie within the range.
pub(crate) fn marked(
    text: &[u8],
    range: Range<usize>,
    spans: impl Iterator<Item = Range<usize>>,
    open: &[u8],
    close: &[u8],
) -> Vec<u8> {
    let (mut out, mut end) = (Vec::new(), range.start);
    for span in spans {
        for part in [&text[end..span.start], open, &text[span.clone()], close] {
            out.extend_from_slice(part);
        }
        end = span.end;
    }
    out.extend_from_slice(&text[end..range.end]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_marked_within_the_range() {
        let check = |range: Range<usize>, spans: &[Range<usize>], expected: &str| {
            let output = marked(b"one two three", range, spans.iter().cloned(), b"<", b">");
            assert_eq!(String::from_utf8(output).unwrap(), expected);
        };
        check(0..13, &[], "one two three");
        check(0..13, &[0..3, 8..13], "<one> two <three>");
        check(0..7, &[0..3, 4..7], "<one> <two>");
    }
}
