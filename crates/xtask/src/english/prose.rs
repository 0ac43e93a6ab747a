//! The prose of a file: its comments or paragraphs, cut into sentences.
//!
//! Code spans, targets of links and comments of HTML are no words of a sentence. A row of a table
//! and an entry of a list are blocks of their own, and each cell is a sentence.

/// Consecutive lines of prose: `(line, text)`, lines counted from 1.
pub type Block = Vec<(usize, String)>;

/// Letters below which a sentence is only a label.
const WORDS_OF_A_SENTENCE: usize = 3;

#[derive(Clone, Debug)]
pub struct Word {
    pub line: usize,
    /// Without signs around it; empty for code and for names in capitals.
    pub text: String,
    /// Whether a sign after it separates it from the next.
    pub ends_clause: bool,
    /// Whether it is the first of a sentence, or follows a colon.
    pub opens: bool,
}

/// Comments that have lines of their own; an empty comment line ends a block. Drawings, which are
/// fenced or indented, are left out.
pub fn comments(text: &str) -> Vec<Block> {
    let mut is_drawing = false;
    blocks(text, |line| {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_drawing = false;
            return None;
        };
        let comment = comment.trim_start_matches(['/', '!']);
        if comment.trim_start().starts_with("```") {
            is_drawing = !is_drawing;
            return None;
        }
        (!is_drawing && !comment.starts_with("    ")).then_some(comment.trim())
    })
}

/// Paragraphs, lists and tables outside of code. Headings are labels, and left out.
pub fn paragraphs(text: &str) -> Vec<Block> {
    let mut is_code = false;
    blocks(text, |line| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        (!is_code && !line.starts_with("    ") && !line.starts_with('#')).then_some(line.trim())
    })
}

fn blocks<'t>(text: &'t str, mut prose: impl FnMut(&'t str) -> Option<&'t str>) -> Vec<Block> {
    let mut blocks = vec![Block::new()];
    for (index, line) in text.lines().enumerate() {
        let prose = prose(line).filter(|prose| !prose.is_empty());
        if prose.is_none_or(starts_block) && blocks.last().is_some_and(|block| !block.is_empty()) {
            blocks.push(Block::new());
        }
        if let (Some(prose), Some(block)) = (prose, blocks.last_mut()) {
            block.push((index + 1, prose.to_owned()));
        }
    }
    blocks
}

/// Returns true if a line is an entry of a list or a row of a table.
fn starts_block(line: &str) -> bool {
    let number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    line.starts_with("- ")
        || line.starts_with("* ")
        || line.starts_with('|')
        || (number != line && number.starts_with(". "))
}

/// The sentences of a block that have at least three words.
pub fn sentences(block: &Block) -> Vec<Vec<Word>> {
    let text: Vec<&str> = block.iter().map(|(_, text)| text.as_str()).collect();
    let text = without_code(&text.join("\n"));
    let mut sentences = vec![Vec::new()];
    let mut opens = true;
    for ((line, _), text) in block.iter().zip(text.lines()) {
        for word in text.split_whitespace() {
            let last = sentences.last_mut().expect("never empty");
            last.push(Word {
                line: *line,
                text: letters(word).to_owned(),
                ends_clause: ends_clause(word),
                opens,
            });
            opens = ends_sentence(word) || word.ends_with(':');
            if ends_sentence(word) {
                sentences.push(Vec::new());
            }
        }
    }
    sentences.retain(|sentence| sentence.iter().filter(|word| !word.text.is_empty()).count() >= WORDS_OF_A_SENTENCE);
    sentences
}

/// The text with a sign in place of each code span, without targets of links and comments of HTML;
/// lines stay lines.
fn without_code(text: &str) -> String {
    let mut plain = String::new();
    let mut end: Option<&str> = None;
    for (index, letter) in text.char_indices() {
        let remaining = &text[index..];
        match end {
            Some(sign) if remaining.starts_with(sign) => {
                end = None;
                // The other signs of `-->` are dashes, which are before it.
                plain.push_str(if letter == '`' { "`" } else { "" });
            }
            Some(_) if letter == '\n' => plain.push(letter),
            Some(_) => {}
            None if letter == '`' => {
                end = Some("`");
                plain.push('`');
            }
            None if letter == '(' && plain.ends_with(']') => end = Some(")"),
            None if remaining.starts_with("<!--") => end = Some(">"),
            None => plain.push(letter),
        }
    }
    plain
}

/// The word without signs around it; nothing of a name in capitals.
fn letters(word: &str) -> &str {
    let word = word.trim_matches(|sign: char| !sign.is_alphanumeric());
    let is_name = word.len() > 1 && !word.chars().any(char::is_lowercase);
    if is_name { "" } else { word }
}

fn ends_sentence(word: &str) -> bool {
    matches!(word, "-" | "*" | "|") || without_quotes(word).ends_with(['.', '!', '?'])
}

fn ends_clause(word: &str) -> bool {
    ends_sentence(word) || word.ends_with(')') || without_quotes(word).ends_with([',', ';', ':'])
}

fn without_quotes(word: &str) -> &str {
    word.trim_end_matches(['*', '_', ')', '`', '"'])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the words of each sentence; a comma is the end of a clause.
    fn check(blocks: &[Block], expected: &[&str]) {
        let sentences = blocks.iter().flat_map(sentences);
        let written: Vec<String> = sentences
            .map(|words| {
                let words = words
                    .iter()
                    .map(|word| format!("{}{}", word.text, if word.ends_clause { "," } else { "" }));
                words.collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(written, expected);
    }

    #[test]
    fn sentences_end_at_full_stops_and_code_has_no_words() {
        check(
            &comments("/// Returns the `row of\n/// it`, if found. Two words. SET writes a row."),
            &["Returns the  , if found,", " writes a row,"],
        );
        check(
            &paragraphs("See [the page](a/told.md) of it.<!-- told -->"),
            &["See the page of it,"],
        );
    }

    #[test]
    fn code_headings_and_drawings_are_left_out() {
        check(
            &paragraphs("# One two three\n\n```sh\none two three\n```\n\n    one two three"),
            &[],
        );
        check(
            &comments("// ```\n// one two three\n// ```\n//     one two three\nlet one = two;"),
            &[],
        );
    }

    #[test]
    fn cells_and_entries_are_sentences() {
        check(
            &paragraphs("| one two three | four |\n- five six seven\n1. eight nine ten"),
            &["one two three ,", "five six seven", "eight nine ten"],
        );
    }
}
