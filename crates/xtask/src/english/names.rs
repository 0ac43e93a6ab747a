//! Names that say little: bindings that are participles or pronouns, and tests named like the
//! sentences that [`super::patterns`] replaces.

use std::path::Path;

use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{ItemFn, PatIdent};

use super::patterns::PATTERNS;
use super::place::Place;
use super::prose::Word;
use super::share::Share;
use super::table::Table;

/// Bindings that say what happened to a value, and not what the value is.
const VAGUE: [&str; 24] = [
    "found", "wanted", "given", "known", "left", "what", "kept", "one", "asked", "shown", "rest", "told", "taken",
    "held", "gone", "begun", "meant", "owed", "others", "another", "both", "those", "here", "there",
];

/// Prepositions with which no binding starts.
const PREPOSITIONS: [&str; 2] = ["of_", "by_"];

/// The names of one file.
pub struct Names {
    pub bindings: Share,
    pub tests: Share,
}

impl Names {
    pub fn of(file: &Path, text: &str) -> Result<Names> {
        let parsed = syn::parse_file(text).with_context(|| format!("cannot parse {}", file.display()))?;
        let mut reader = Reader {
            file,
            table: Table::new(&PATTERNS),
            names: Names {
                bindings: Share::default(),
                tests: Share::default(),
            },
        };
        reader.visit_file(&parsed);
        Ok(reader.names)
    }
}

struct Reader<'f> {
    file: &'f Path,
    table: Table,
    names: Names,
}

impl Reader<'_> {
    fn place(&self, name: &proc_macro2::Ident, finding: String) -> Place {
        Place {
            file: self.file.to_owned(),
            line: name.span().start().line,
            finding,
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_pat_ident(&mut self, pattern: &'ast PatIdent) {
        let name = pattern.ident.to_string();
        // Constants and variants are patterns too.
        if name.starts_with(|letter: char| letter.is_lowercase() || letter == '_') {
            self.names.bindings.total += 1;
            if is_vague(&name) {
                let place = self.place(&pattern.ident, format!("binding {name}"));
                self.names.bindings.places.push(place);
            }
        }
        visit::visit_pat_ident(self, pattern);
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        let mut attributes = function.attrs.iter();
        if attributes.any(|attribute| {
            attribute
                .path()
                .segments
                .last()
                .is_some_and(|last| last.ident == "test")
        }) {
            let name = function.sig.ident.to_string();
            self.names.tests.total += 1;
            let patterns = self.table.matches(&words(&name));
            if !patterns.is_empty() {
                let patterns: Vec<&str> = patterns.iter().map(|(pattern, _)| pattern.name).collect();
                let place = self.place(&function.sig.ident, format!("test {name}: {}", patterns.join(", ")));
                self.names.tests.places.push(place);
            }
        }
        visit::visit_item_fn(self, function);
    }
}

fn is_vague(name: &str) -> bool {
    VAGUE.contains(&name) || PREPOSITIONS.iter().any(|preposition| name.starts_with(preposition))
}

/// The words of a test's name, as those of a sentence.
fn words(name: &str) -> Vec<Word> {
    let words = name.split('_').map(|word| Word {
        line: 0,
        text: word.to_owned(),
        ends_clause: false,
        opens: false,
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the totals and the places of a file, written `LINE FINDING`.
    fn check(text: &str, bindings: (usize, &[&str]), tests: (usize, &[&str])) {
        let names = Names::of(Path::new("file.rs"), text).unwrap();
        for (share, (total, expected)) in [(names.bindings, bindings), (names.tests, tests)] {
            let places = share.places.iter();
            let written: Vec<String> = places
                .map(|place| format!("{} {}", place.line, place.finding))
                .collect();
            assert_eq!(
                (share.total, written.iter().map(String::as_str).collect::<Vec<_>>()),
                (total, expected.to_vec())
            );
        }
    }

    #[test]
    fn bindings_are_counted_in_lets_parameters_closures_and_arms() {
        check(
            "fn find(rest: &str, row: Row) {\n let found = 1;\n |of_set, row| match row {\n None => 1,\n Some(kept) => kept,\n }; }",
            (
                6,
                &[
                    "1 binding rest",
                    "2 binding found",
                    "3 binding of_set",
                    "5 binding kept",
                ],
            ),
            (0, &[]),
        );
    }

    #[test]
    fn test_names_are_read_as_sentences() {
        check(
            "#[test]\nfn a_row_that_stands_behind_another() {}\n#[test]\nfn rows_ascend() {}\nfn asks() {}",
            (0, &[]),
            (2, &["2 test a_row_that_stands_behind_another: stand, behind"]),
        );
    }
}
