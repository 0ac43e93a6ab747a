//! The words of a value that a filter looks for, between tags.

use std::collections::BTreeSet;

use crate::text::marks;
use crate::upstash::analysis::Analyzer;
use crate::upstash::automata::Automaton;
use crate::upstash::request::Clause;
use crate::upstash::schema::Schema;

/// Marks the words that a filter looks for.
pub struct Highlighter<'h> {
    schema: &'h Schema,
    analyzer: Analyzer,
    before: &'h str,
    after: &'h str,
    words: BTreeSet<(u16, &'h str)>,
    values: BTreeSet<(u16, &'h [u8])>,
    automata: Vec<(u16, &'h Automaton)>,
}

impl<'h> Highlighter<'h> {
    /// Puts `before` and `after` around what a clause looks for.
    pub fn new(schema: &'h Schema, clause: &'h Clause, before: &'h str, after: &'h str) -> Highlighter<'h> {
        let mut highlighter = Highlighter {
            schema,
            analyzer: Analyzer::new(schema.language),
            before,
            after,
            words: BTreeSet::new(),
            values: BTreeSet::new(),
            automata: Vec::new(),
        };
        highlighter.add(clause);
        highlighter
    }

    /// Clauses that leave documents out mark nothing.
    fn add(&mut self, clause: &'h Clause) {
        match clause {
            Clause::All | Clause::Nothing | Clause::Range { .. } => {}
            Clause::Term { field, word } => _ = self.words.insert((*field, word)),
            Clause::Phrase { field, words, .. } => {
                self.words.extend(words.iter().map(|(_, word)| (*field, word.as_str())));
            }
            Clause::Pattern { field, automaton } => self.automata.push((*field, automaton)),
            Clause::Equal { field, value } => _ = self.values.insert((*field, value)),
            Clause::Boolean { must, should, .. } => must.iter().chain(should).for_each(|clause| self.add(clause)),
            Clause::Boost(_, clause) => self.add(clause),
        }
    }

    /// The value of a field with tags; nothing if no word of it is looked for.
    pub fn marked(&self, field: u16, text: &str) -> Option<String> {
        let kind = self.schema.field(field).kind;
        if !kind.is_text() {
            let is_asked = self.values.contains(&(field, text.as_bytes()));
            return is_asked.then(|| format!("{}{text}{}", self.before, self.after));
        }
        let tokens = self.analyzer.tokens(kind, text);
        let spans = tokens.into_iter().filter(|token| self.is_asked(field, &token.term));
        let spans: Vec<_> = spans.map(|token| token.span).collect();
        if spans.is_empty() {
            return None;
        }
        let (open, close) = (self.before.as_bytes(), self.after.as_bytes());
        let marked = marks::marked(text.as_bytes(), 0..text.len(), spans.into_iter(), open, close);
        Some(String::from_utf8(marked).expect("marks stand around whole words"))
    }

    fn is_asked(&self, field: u16, term: &str) -> bool {
        let mut automata = self.automata.iter().filter(|(number, _)| *number == field);
        self.words.contains(&(field, term)) || automata.any(|(_, automaton)| automaton.matches(term.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::analysis::Language;
    use crate::upstash::{FieldType, TypedField, parse};

    #[test]
    fn words_that_are_looked_for_are_marked() {
        let fields = ["TEXT", "KEYWORD"].map(|kind| TypedField {
            name: kind.to_ascii_lowercase(),
            kind: FieldType::of_name(kind).unwrap(),
            fast: false,
            from: None,
        });
        let schema = Schema::new(fields.into(), Language::English).unwrap();
        let filter = r#"{"text": {"$eq": "run fast"}, "keyword": "a b", "$mustNot": {"text": {"$eq": "slow"}}}"#;
        let clause = parse(&schema, filter.as_bytes()).unwrap();
        let highlighter = Highlighter::new(&schema, &clause, "<em>", "</em>");
        let marked = highlighter.marked(0, "Runs (running), fast and slow");
        assert_eq!(
            marked.unwrap(),
            "<em>Runs</em> (<em>running</em>), <em>fast</em> and slow"
        );
        assert_eq!(highlighter.marked(0, "nothing here"), None);
        assert_eq!(highlighter.marked(1, "a b").unwrap(), "<em>a b</em>");
        assert_eq!(highlighter.marked(1, "a"), None);
    }
}
