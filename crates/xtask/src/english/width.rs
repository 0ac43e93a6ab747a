//! Lines of comments and of prose in documents that are wider than [`WIDTH`].

use std::path::Path;

use super::place::Place;
use super::prose::paragraphs;

/// Columns of a comment line or a line of prose.
const WIDTH: usize = 100;

/// Lines of a document's prose that are too wide.
pub fn of_document(file: &Path, text: &str) -> Vec<Place> {
    let lines = paragraphs(text).into_iter().flatten();
    lines
        .filter(|(_, line)| is_too_wide(line))
        .map(|(line, _)| too_wide(file, line))
        .collect()
}

/// Comment lines that are too wide. Drawings, which are fenced or indented, may be wider.
pub fn of_comments(file: &Path, text: &str) -> Vec<Place> {
    let mut is_drawing = false;
    let mut places = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_drawing = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']);
        is_drawing ^= comment.trim_start().starts_with("```");
        if !is_drawing && !comment.starts_with("    ") && is_too_wide(line) {
            places.push(too_wide(file, index + 1));
        }
    }
    places
}

fn too_wide(file: &Path, line: usize) -> Place {
    Place {
        file: file.to_owned(),
        line,
        finding: format!("more than {WIDTH} columns"),
    }
}

/// A line that could have been broken: a table row, a link or a path cannot.
fn is_too_wide(line: &str) -> bool {
    let text = line.trim_start_matches(['/', '!', ' ']);
    let breaks = text.split_whitespace().count() > 1;
    breaks && !text.starts_with('|') && line.chars().count() > WIDTH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_too_wide_only_if_it_could_be_broken() {
        assert!(is_too_wide(&format!("/// {}", "word ".repeat(20))));
        assert!(!is_too_wide(&format!("/// {}", "word ".repeat(19))));
        assert!(!is_too_wide(&format!("// {}", "a".repeat(120))));
        assert!(!is_too_wide(&format!("//! | {}", "word ".repeat(30))));
    }
}
