//! Phrases of comments and documents that this project's style replaces, counted for each crate.
//!
//! The counts are on record in `english.txt` and may only fall: a higher one fails and names the
//! first places, a lower one asks to be recorded. Comment lines and prose lines of documents are at
//! most [`WIDTH`] columns wide.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub const RECORD: &str = "crates/xtask/english.txt";

/// Columns of a comment line or a line of prose.
const WIDTH: usize = 100;

/// Words that leave the noun to the reader when a sentence opens with them.
const OPENINGS: [&str; 6] = ["What", "Who", "Whoever", "Of", "Has", "Somebody"];

/// Phrases, as words in lower case: name the quantity; reported or returned; instead of;
/// indefinitely.
const PHRASES: [&[&str]; 5] = [
    &["so", "many"],
    &["so", "much"],
    &["told"],
    &["in", "the", "place", "of"],
    &["for", "ever"],
];

/// One phrase or one line that is too wide.
#[derive(Debug, PartialEq)]
pub struct Place {
    /// Counted from 1.
    pub line: usize,
    pub what: String,
}

/// The places in the Rust files of `folder`, with their files.
pub fn of_crate(folder: &Path) -> Result<Vec<(PathBuf, Place)>> {
    places(files(folder, "rs")?, |text| {
        let mut found = Vec::new();
        for block in comments(text) {
            found.extend(phrases(&block));
        }
        found
    })
}

/// The phrases in the documents at the root, below `docs`, in `benchmarks` and in `examples`.
pub fn of_documents(root: &Path) -> Result<Vec<(PathBuf, Place)>> {
    places(documents(root)?, |text| {
        paragraphs(text).iter().flat_map(phrases).collect()
    })
}

/// Lines of prose of the documents that are wider than [`WIDTH`].
pub fn wide_documents(root: &Path) -> Result<Vec<(PathBuf, Place)>> {
    places(documents(root)?, |text| {
        let lines = paragraphs(text).into_iter().flatten();
        lines
            .filter(|(_, line)| is_too_wide(line))
            .map(|(line, _)| too_wide(line - 1))
            .collect()
    })
}

fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut documents = files(&root.join("docs"), "md")?;
    let folders = [root.to_owned(), root.join("benchmarks"), root.join("examples")];
    for folder in folders {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        documents.extend(
            entries
                .map(|entry| entry.path())
                .filter(|path| has_extension(path, "md")),
        );
    }
    documents.sort();
    Ok(documents)
}

/// Comment lines of `folder` that are wider than [`WIDTH`]. Drawings, which stand between fences or
/// are indented, may be wider.
pub fn wide_comments(folder: &Path) -> Result<Vec<(PathBuf, Place)>> {
    places(files(folder, "rs")?, |text| {
        let mut is_drawing = false;
        let mut found = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let Some(comment) = line.trim_start().strip_prefix("//") else {
                is_drawing = false;
                continue;
            };
            let comment = comment.trim_start_matches(['/', '!']);
            is_drawing ^= comment.trim_start().starts_with("```");
            if !is_drawing && !comment.starts_with("    ") && is_too_wide(line) {
                found.push(too_wide(index));
            }
        }
        found
    })
}

fn too_wide(index: usize) -> Place {
    Place {
        line: index + 1,
        what: format!("more than {WIDTH} columns"),
    }
}

/// A line that could have been broken: a table row, a link or a path cannot.
fn is_too_wide(line: &str) -> bool {
    let text = line.trim_start_matches(['/', '!', ' ']);
    let breaks = text.split_whitespace().count() > 1;
    breaks && !text.starts_with('|') && line.chars().count() > WIDTH
}

fn places(files: Vec<PathBuf>, look: impl Fn(&str) -> Vec<Place>) -> Result<Vec<(PathBuf, Place)>> {
    let mut found = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        found.extend(look(&text).into_iter().map(|place| (file.clone(), place)));
    }
    Ok(found)
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension) && path.is_file()
}

fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut ahead = vec![folder.to_owned()];
    while let Some(folder) = ahead.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten() {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("target") {
                ahead.push(path);
            } else if has_extension(&path, extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Consecutive lines of prose: `(line, text)`, lines counted from 1.
type Block = Vec<(usize, String)>;

/// Comments of their own lines; an empty comment line ends one.
fn comments(text: &str) -> Vec<Block> {
    blocks(text, |line| {
        let comment = line.trim_start().strip_prefix("//")?;
        Some(comment.trim_start_matches(['/', '!']).trim())
    })
}

/// Paragraphs outside of code.
fn paragraphs(text: &str) -> Vec<Block> {
    let mut is_code = false;
    blocks(text, |line| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        (!is_code && !line.starts_with("    ")).then_some(line.trim())
    })
}

fn blocks<'t>(text: &'t str, mut prose: impl FnMut(&'t str) -> Option<&'t str>) -> Vec<Block> {
    let mut found = vec![Block::new()];
    for (index, line) in text.lines().enumerate() {
        match prose(line).filter(|prose| !prose.is_empty()) {
            Some(prose) => found
                .last_mut()
                .expect("never empty")
                .push((index + 1, prose.to_owned())),
            None if found.last().is_some_and(|block| !block.is_empty()) => found.push(Block::new()),
            None => {}
        }
    }
    found
}

fn phrases(block: &Block) -> Vec<Place> {
    let words: Vec<(usize, &str)> = block
        .iter()
        .flat_map(|(line, text)| text.split_whitespace().map(|word| (*line, word)))
        .collect();
    let bare: Vec<String> = words.iter().map(|(_, word)| letters(word).to_lowercase()).collect();
    let mut found = Vec::new();
    for (index, (line, word)) in words.iter().enumerate() {
        let opens = index == 0 || ends_a_sentence(words[index - 1].1);
        if opens && OPENINGS.contains(&letters(word)) {
            found.push(Place {
                line: *line,
                what: format!("a sentence opens with {}", letters(word)),
            });
        }
        for phrase in PHRASES {
            if bare[index..]
                .iter()
                .zip(phrase)
                .filter(|(word, wanted)| word == wanted)
                .count()
                == phrase.len()
            {
                found.push(Place {
                    line: *line,
                    what: phrase.join(" "),
                });
            }
        }
    }
    found
}

fn letters(word: &str) -> &str {
    word.trim_matches(|sign: char| !sign.is_alphanumeric())
}

fn ends_a_sentence(word: &str) -> bool {
    matches!(word, "-" | "*" | "|")
        || word
            .trim_end_matches(['*', '_', ')', '`'])
            .ends_with(['.', ':', '!', '?'])
}

/// `NAME COUNT` in a line.
pub fn read_record(root: &Path) -> Result<BTreeMap<String, usize>> {
    let path = root.join(RECORD);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {RECORD}"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (name, count) = line.split_once(' ').with_context(|| format!("{RECORD}: `{line}`"))?;
            Ok((
                name.to_owned(),
                count.parse().with_context(|| format!("{RECORD}: `{line}`"))?,
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the phrases found in a text, written `LINE WHAT`.
    fn check(found: Vec<Place>, expected: &[&str]) {
        let found: Vec<String> = found
            .iter()
            .map(|place| format!("{} {}", place.line, place.what))
            .collect();
        assert_eq!(found, expected);
    }

    fn in_comments(text: &str) -> Vec<Place> {
        comments(text).iter().flat_map(phrases).collect()
    }

    #[test]
    fn openings_count_where_a_sentence_begins() {
        check(
            in_comments("/// What it does. Whoever asks\n/// waits."),
            &["1 a sentence opens with What", "1 a sentence opens with Whoever"],
        );
        check(in_comments("// Says what it does, and of whom.\nlet what = 1;"), &[]);
        check(
            in_comments("// One line\n// ends.\n\n// Of two."),
            &["4 a sentence opens with Of"],
        );
    }

    #[test]
    fn phrases_count_wherever_they_stand_also_over_two_lines() {
        check(
            in_comments("//! It is told (in the\n//! place of the other) for ever."),
            &["1 told", "1 in the place of", "2 for ever"],
        );
        check(in_comments("// untold, somany"), &[]);
    }

    #[test]
    fn code_in_documents_is_left_out() {
        let text = "Who asks?\n\n```sh\nWho\n```\n\n    Who\n\n- Of a list.";
        let found = paragraphs(text).iter().flat_map(phrases).collect();
        check(found, &["1 a sentence opens with Who", "9 a sentence opens with Of"]);
    }

    #[test]
    fn a_line_is_too_wide_only_if_it_could_be_broken() {
        assert!(is_too_wide(&format!("/// {}", "word ".repeat(20))));
        assert!(!is_too_wide(&format!("/// {}", "word ".repeat(19))));
        assert!(!is_too_wide(&format!("// {}", "a".repeat(120))));
        assert!(!is_too_wide(&format!("//! | {}", "word ".repeat(30))));
    }
}
