//! The record of each crate's figures, which may only fall.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};

pub const RECORD: &str = "crates/xtask/english.txt";

/// The figures of one crate, or of the documents.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Sentences with a pattern that none may have.
    pub refused: usize,
    /// Touched sentences, in tenths of a percent of all.
    pub sentences: usize,
    /// Vague bindings, in tenths of a percent of all.
    pub bindings: usize,
    /// Touched names of tests, in tenths of a percent of all.
    pub tests: usize,
}

impl Figures {
    /// Each figure with its name, which is that of a column of the record.
    pub fn columns(&self) -> [(&'static str, usize); 4] {
        [
            ("refused", self.refused),
            ("sentences", self.sentences),
            ("bindings", self.bindings),
            ("tests", self.tests),
        ]
    }

    /// The lower of each figure.
    pub fn least(self, other: Figures) -> Figures {
        Figures {
            refused: self.refused.min(other.refused),
            sentences: self.sentences.min(other.sentences),
            bindings: self.bindings.min(other.bindings),
            tests: self.tests.min(other.tests),
        }
    }
}

/// Reads `NAME REFUSED SENTENCES BINDINGS TESTS` in each line.
pub fn read(root: &Path) -> Result<BTreeMap<String, Figures>> {
    let text = std::fs::read_to_string(root.join(RECORD)).with_context(|| format!("cannot read {RECORD}"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| parse(line).with_context(|| format!("{RECORD}: `{line}`")))
        .collect()
}

fn parse(line: &str) -> Result<(String, Figures)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, refused, sentences, bindings, tests] = words[..] else {
        bail!("five words make a line");
    };
    let figures = Figures {
        refused: refused.parse()?,
        sentences: tenths(sentences)?,
        bindings: tenths(bindings)?,
        tests: tenths(tests)?,
    };
    Ok((name.to_owned(), figures))
}

/// Writes the record, with the comment lines that it starts with.
pub fn write(root: &Path, record: &BTreeMap<String, Figures>) -> Result<()> {
    let path = root.join(RECORD);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut written: String = text
        .lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    for (name, figures) in record {
        let shares = [figures.sentences, figures.bindings, figures.tests].map(percent);
        written.push_str(&format!("{name} {} {}\n", figures.refused, shares.join(" ")));
    }
    std::fs::write(path, written).with_context(|| format!("cannot write {RECORD}"))
}

/// Tenths of a percent as percent, with one decimal.
pub fn percent(tenths: usize) -> String {
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn tenths(percent: &str) -> Result<usize> {
    let (whole, tenth) = percent.split_once('.').context("a share has one decimal")?;
    Ok(whole.parse::<usize>()? * 10 + tenth.parse::<usize>()?)
}
