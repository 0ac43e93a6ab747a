//! The English of comments, names and documents, counted for each crate.
//!
//! A sentence is *touched* if it has one of the patterns in [`patterns`]; a binding is vague, and a
//! test's name touched, by the rules in [`names`]. The shares are on record in `english.txt` and
//! may only fall: a higher share fails `tidy`, a lower share is printed as a remark.

mod files;
mod names;
mod patterns;
mod place;
mod prose;
mod record;
mod share;
mod table;
mod width;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::map;
use names::Names;
use patterns::{PATTERNS, REFUSED};
use place::Place;
use prose::{Block, comments, paragraphs, sentences};
use record::{Figures, RECORD, percent};
use share::Share;
use table::Table;

/// The name of the documents in the record.
const DOCUMENTS: &str = "documents";

/// Places listed for a figure above its record.
const LISTED: usize = 12;

/// All that was counted in one crate, or in the documents.
#[derive(Default)]
struct Counts {
    refused: Vec<Place>,
    sentences: Share,
    bindings: Share,
    tests: Share,
    /// Lines that are too wide.
    wide: Vec<Place>,
}

impl Counts {
    fn of(root: &Path, name: &str) -> Result<Counts> {
        let mut counts = Counts::default();
        let is_documents = name == DOCUMENTS;
        let files = match is_documents {
            true => files::documents(root)?,
            false => files::sources(&root.join("crates").join(name))?,
        };
        for file in files {
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            if is_documents {
                counts.add_prose(&file, &paragraphs(&text));
                counts.wide.extend(width::of_document(&file, &text));
            } else {
                counts.add_prose(&file, &comments(&text));
                counts.wide.extend(width::of_comments(&file, &text));
                let names = Names::of(&file, &text)?;
                counts.bindings.add(names.bindings);
                counts.tests.add(names.tests);
            }
        }
        Ok(counts)
    }

    fn add_prose(&mut self, file: &Path, blocks: &[Block]) {
        let (refused, patterns) = (Table::new(&REFUSED), Table::new(&PATTERNS));
        for sentence in blocks.iter().flat_map(sentences) {
            self.sentences.total += 1;
            let place = |(pattern, line): (&patterns::Pattern, usize)| Place {
                file: file.to_owned(),
                line,
                finding: format!("{}; instead: {}", pattern.name, pattern.instead),
            };
            self.refused.extend(refused.matches(&sentence).into_iter().map(place));
            self.sentences
                .places
                .extend(patterns.matches(&sentence).into_iter().next().map(place));
        }
    }

    fn figures(&self) -> Figures {
        Figures {
            refused: self.refused.len(),
            sentences: self.sentences.permille(),
            bindings: self.bindings.permille(),
            tests: self.tests.permille(),
        }
    }

    /// The places of each column of [`Figures::columns`].
    fn places(&self) -> [&[Place]; 4] {
        [
            &self.refused,
            &self.sentences.places,
            &self.bindings.places,
            &self.tests.places,
        ]
    }
}

/// The results of comparing all figures with the record.
#[derive(Default)]
pub struct Comparison {
    pub failures: Vec<String>,
    /// Figures that can be lowered in the record.
    pub remarks: Vec<String>,
}

pub fn compare(root: &Path) -> Result<Comparison> {
    let mut record = record::read(root)?;
    let mut comparison = Comparison::default();
    for name in names_of_record(root)? {
        let counts = Counts::of(root, &name)?;
        comparison.add(root, &name, &counts, record.remove(&name).unwrap_or_default());
        comparison
            .failures
            .extend(counts.wide.iter().map(|place| place.describe(root)));
    }
    let unknown = record.keys().map(|name| format!("{RECORD}: there is no crate {name}"));
    comparison.failures.extend(unknown);
    Ok(comparison)
}

fn names_of_record(root: &Path) -> Result<Vec<String>> {
    let mut names = map::crates(root)?;
    names.push(DOCUMENTS.to_owned());
    Ok(names)
}

impl Comparison {
    fn add(&mut self, root: &Path, name: &str, counts: &Counts, recorded: Figures) {
        let columns = counts.figures().columns().into_iter().zip(recorded.columns());
        for (((column, figure), (_, allowed)), places) in columns.zip(counts.places()) {
            let write = |figure| match column {
                "refused" => format!("{figure}"),
                _ => format!("{} %", percent(figure)),
            };
            let (figure_text, allowed_text) = (write(figure), write(allowed));
            if figure > allowed {
                let places: Vec<String> = places.iter().take(LISTED).map(|place| place.describe(root)).collect();
                self.failures.push(format!(
                    "{name}: {column} {figure_text}, and {allowed_text} are on record; `cargo xtask english {name}` \
                     lists them all:\n  {}",
                    places.join("\n  ")
                ));
            }
            if figure < allowed {
                self.remarks.push(format!(
                    "{RECORD}: {column} of {name} can be lowered from {allowed_text} to {figure_text}, which `cargo \
                     xtask english record` does"
                ));
            }
        }
    }
}

/// Prints each place of a crate, or of the documents, and then the figures.
pub fn list(root: &Path, name: &str) -> Result<()> {
    if !names_of_record(root)?.contains(&name.to_owned()) {
        bail!("there is no crate {name}; `{DOCUMENTS}` are the documents");
    }
    let counts = Counts::of(root, name)?;
    for place in counts.places().into_iter().flatten() {
        println!("{}", place.describe(root));
    }
    print_figures(name, &counts.figures());
    Ok(())
}

/// Prints the figures of every crate and of the documents.
pub fn summarize(root: &Path) -> Result<()> {
    for name in names_of_record(root)? {
        print_figures(&name, &Counts::of(root, &name)?.figures());
    }
    Ok(())
}

fn print_figures(name: &str, figures: &Figures) {
    let shares = [figures.sentences, figures.bindings, figures.tests].map(percent);
    let [sentences, bindings, tests] = shares;
    println!(
        "{name}: {} refused, {sentences} % of sentences, {bindings} % of bindings, {tests} % of test names",
        figures.refused
    );
}

/// Lowers the record to the present figures, and adds crates that are not in it. No figure rises.
pub fn lower_record(root: &Path) -> Result<()> {
    let recorded = record::read(root)?;
    let mut lowered = BTreeMap::new();
    for name in names_of_record(root)? {
        let figures = Counts::of(root, &name)?.figures();
        let figures = recorded.get(&name).map_or(figures, |allowed| allowed.least(figures));
        lowered.insert(name, figures);
    }
    record::write(root, &lowered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    const SOURCE: &str = "/// Rows that stand here.\n/// Returns the row of a key.\nfn f() { let found = 1; }\n";

    /// Checks the failures and remarks for one crate that has `SOURCE`, by their first lines.
    fn check(record: &str, failures: &[&str], remarks: usize) {
        let house = tree(&[
            ("Cargo.toml", "    \"crates/a\", # the only crate"),
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", SOURCE),
            (RECORD, record),
        ]);
        let comparison = compare(house.path()).unwrap();
        let lines: Vec<&str> = comparison
            .failures
            .iter()
            .filter_map(|failure| failure.split(" are on").next())
            .collect();
        assert_eq!((lines, comparison.remarks.len()), (failures.to_vec(), remarks));
    }

    #[test]
    fn a_share_above_the_record_fails_and_a_share_below_it_is_remarked() {
        check("a 0 50.0 100.0 0.0\n", &[], 0);
        check("a 0 60.0 100.0 0.1\n", &[], 2);
        check(
            "a 0 49.9 0.0 0.0\n",
            &["a: sentences 50.0 %, and 49.9 %", "a: bindings 100.0 %, and 0.0 %"],
            0,
        );
        check(
            "a 0 50.0 100.0 0.0\nb 0 1.0 1.0 1.0\n",
            &["crates/xtask/english.txt: there is no crate b"],
            0,
        );
    }

    #[test]
    fn a_record_is_lowered_and_never_raised() {
        let house = tree(&[
            ("Cargo.toml", "    \"crates/a\", # the only crate"),
            ("crates/a/Cargo.toml", ""),
            ("crates/a/src/lib.rs", SOURCE),
            (RECORD, "# shares\na 3 20.0 100.0 7.0\n"),
        ]);
        lower_record(house.path()).unwrap();
        let written = std::fs::read_to_string(house.path().join(RECORD)).unwrap();
        assert_eq!(written, "# shares\na 0 20.0 100.0 0.0\ndocuments 0 0.0 0.0 0.0\n");
    }
}
