//! The table of patterns as it is matched against sentences.

use super::patterns::Pattern;
use super::prose::Word;

pub struct Table {
    rows: Vec<(&'static Pattern, Vec<Form>)>,
}

/// One form of a pattern.
struct Form {
    /// Whether it matches only where a sentence opens, in the case it is written in.
    opens: bool,
    /// The alternatives of each word. `.` among them matches the end of a clause too.
    words: Vec<Vec<&'static str>>,
}

impl Table {
    pub fn new(patterns: &'static [Pattern]) -> Self {
        let rows = patterns
            .iter()
            .map(|pattern| (pattern, pattern.forms.split(',').map(Form::parse).collect()));
        Table { rows: rows.collect() }
    }

    /// The patterns that a sentence has, each with the line of its first match.
    pub fn matches(&self, sentence: &[Word]) -> Vec<(&'static Pattern, usize)> {
        let line = |forms: &[Form]| {
            let mut starts =
                (0..sentence.len()).filter(|start| forms.iter().any(|form| form.matches(&sentence[*start..])));
            starts.next().map(|start| sentence[start].line)
        };
        let rows = self.rows.iter();
        rows.filter_map(|(pattern, forms)| Some((*pattern, line(forms)?)))
            .collect()
    }
}

impl Form {
    fn parse(form: &'static str) -> Form {
        let words = form.split_whitespace().filter(|word| *word != "^");
        Form {
            opens: form.trim_start().starts_with('^'),
            words: words.map(|word| word.split('|').collect()).collect(),
        }
    }

    /// Returns true if the words start with this form. No form reaches over the end of a clause.
    fn matches(&self, sentence: &[Word]) -> bool {
        if self.opens && !sentence.first().is_some_and(|word| word.opens) {
            return false;
        }
        self.words.iter().enumerate().all(|(index, alternatives)| {
            let before = index.checked_sub(1).and_then(|before| sentence.get(before));
            match sentence.get(index) {
                _ if before.is_some_and(|word| word.ends_clause) => alternatives.contains(&"."),
                None => alternatives.contains(&".") && before.is_some(),
                Some(word) if self.opens => alternatives.contains(&word.text.as_str()),
                Some(word) => alternatives.contains(&word.text.to_lowercase().as_str()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::patterns::{PATTERNS, REFUSED};
    use super::super::prose::{comments, sentences};
    use super::*;

    /// Checks the patterns of a comment's sentences, written `LINE NAME`.
    fn check(patterns: &'static [Pattern], comment: &str, expected: &[&str]) {
        let table = Table::new(patterns);
        let sentences = comments(comment).iter().flat_map(sentences).collect::<Vec<_>>();
        let matches = sentences.iter().flat_map(|sentence| table.matches(sentence));
        let written: Vec<String> = matches
            .map(|(pattern, line)| format!("{line} {}", pattern.name))
            .collect();
        assert_eq!(written, expected);
    }

    #[test]
    fn openings_count_where_a_sentence_starts() {
        check(
            &REFUSED,
            "/// What it does now. Whoever asks\n/// waits for it.",
            &["1 opening without a noun", "1 opening without a noun"],
        );
        check(&REFUSED, "/// Two things: What it does.", &["1 opening without a noun"]);
        check(&REFUSED, "// Says what it does, and of whom.\nlet what = 1;", &[]);
    }

    #[test]
    fn phrases_count_over_two_lines_and_not_in_code() {
        check(
            &REFUSED,
            "//! It is there (in the\n//! place of the other) now.",
            &["1 paraphrase"],
        );
        check(&REFUSED, "// It is `told` by TOLD and untold.", &[]);
    }

    #[test]
    fn a_sentence_has_each_pattern_once() {
        check(&PATTERNS, "// Rows that stand here, and stand there too.", &["1 stand"]);
        check(
            &PATTERNS,
            "// Asks the node\n// by which it came.",
            &["2 preposition and which", "1 ask", "2 come"],
        );
    }

    #[test]
    fn no_form_reaches_over_the_end_of_a_clause() {
        check(&PATTERNS, "// The row of this one.", &["1 one for a noun"]);
        check(&PATTERNS, "// The row of, which is one row.", &[]);
        check(&PATTERNS, "// This one row of the table.", &[]);
    }
}
