//! Counts that documents quote, each from one place.
//!
//! A figure with `<!-- count NAME -->` after it is that of `NAME`. Most are taken from a program's
//! output or a test's own input: the reports of the public suites, the lists of recorded facts and
//! of those that differ, the defaults of `./test`. The rest were measured by runs outside of
//! `./test`, and are in `docs/counts.txt`, which such a run rewrites where its page says so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use crate::links;
use crate::test::SETTINGS;

/// `NAME VALUE` in a line; `#` starts a comment.
const RECORDED: &str = "docs/counts.txt";
const REPORTS: &str = "docs/compat/redis-suites";
const MARK: &str = "<!-- count ";
const END: &str = " -->";

type Counts = BTreeMap<String, String>;

/// One complaint for each figure that is not that of its name, and for each recorded name that no
/// document quotes.
pub fn wrong(root: &Path) -> Result<Vec<String>> {
    let counts = all(root)?;
    let mut complaints = Vec::new();
    let mut quoted = BTreeSet::new();
    for document in links::documents(root)? {
        let text = std::fs::read_to_string(&document)?;
        let document = document.strip_prefix(root).unwrap_or(&document).display();
        for (figure, name) in quotations(&text) {
            quoted.insert(name.to_owned());
            match counts.get(name) {
                None => complaints.push(format!("{document}: nothing is counted as {name}")),
                Some(count) if plain(figure) != *count => complaints.push(format!(
                    "{document}: {name} is {count}, not {figure}; `cargo xtask counts` writes it"
                )),
                Some(_) => {}
            }
        }
    }
    let unquoted = recorded(root)?.into_keys().filter(|name| !quoted.contains(name));
    complaints.extend(unquoted.map(|name| format!("{RECORDED}: no document quotes {name}")));
    Ok(complaints)
}

/// Writes the counts into the documents that quote them.
pub fn write(root: &Path) -> Result<()> {
    let counts = all(root)?;
    for document in links::documents(root)? {
        let text = std::fs::read_to_string(&document)?;
        let written = filled(&text, &counts);
        if written != text {
            std::fs::write(&document, written)?;
        }
    }
    Ok(())
}

fn filled(text: &str, counts: &Counts) -> String {
    let mut written = String::new();
    let mut remainder = text;
    while let Some((before, name, after)) = next(remainder) {
        let figure = figure_before(before);
        let count = counts
            .get(name)
            .map_or(figure.to_owned(), |count| match figure.contains(',') {
                true => with_commas(count),
                false => count.clone(),
            });
        written.push_str(&before[..before.len() - figure.len()]);
        written.push_str(&format!("{count}{MARK}{name}{END}"));
        remainder = after;
    }
    written + remainder
}

/// The text before the next mark, its name, and the text after it.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let (before, marked) = text.split_once(MARK)?;
    let (name, after) = marked.split_once(END)?;
    Some((before, name, after))
}

fn quotations(mut text: &str) -> Vec<(&str, &str)> {
    let mut quotations = Vec::new();
    while let Some((before, name, after)) = next(text) {
        quotations.push((figure_before(before), name));
        text = after;
    }
    quotations
}

/// The number or date that the text ends with.
fn figure_before(text: &str) -> &str {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, ',' | '.' | '-');
    &text[text.trim_end_matches(is_part).len()..]
}

fn plain(figure: &str) -> String {
    figure.replace(',', "")
}

fn with_commas(count: &str) -> String {
    let mut text = String::new();
    for (index, digit) in count.chars().enumerate() {
        if index > 0 && (count.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn all(root: &Path) -> Result<Counts> {
    let mut counts = recorded(root)?;
    counts.extend(reports(root)?);
    counts.extend(lists(root)?);
    counts.extend(defaults());
    Ok(counts)
}

fn read(root: &Path, path: &str) -> Result<String> {
    std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))
}

fn recorded(root: &Path) -> Result<Counts> {
    let text = read(root, RECORDED)?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (name, count) = line.split_once(' ').with_context(|| format!("{RECORDED}: `{line}`"))?;
            Ok((name.to_owned(), count.to_owned()))
        })
        .collect()
}

/// The row of all units of each public suite's report, and the day of the latest.
fn reports(root: &Path) -> Result<Counts> {
    let mut counts = Counts::new();
    for entry in std::fs::read_dir(root.join(REPORTS)).with_context(|| format!("cannot read {REPORTS}"))? {
        let path = entry?.path();
        let suite = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path)?;
        let rows = text
            .lines()
            .map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        let mut day = String::new();
        for row in rows.filter(|row| row.len() > 6) {
            day = day.max(row[6].to_owned()).replace("run on", "");
            if row[1] == "**all**" {
                let columns = [("redis", row[2]), ("quartet", row[3]), ("differences", row[4])];
                let columns = columns.map(|(column, count)| (format!("{suite}.{column}"), count.to_owned()));
                counts.extend(columns);
            }
        }
        counts.insert(format!("{suite}.day"), day);
    }
    Ok(counts)
}

/// The lengths of lists that tests use, and the remainder of one without those that differ.
fn lists(root: &Path) -> Result<Counts> {
    let lines = |path: &str, counted: &dyn Fn(&str) -> bool| -> Result<usize> {
        Ok(read(root, path)?.lines().filter(|line| counted(line)).count())
    };
    let fauna = lines("tests/fauna/golden.jsonl", &|_| true)?;
    let fauna_differ = read(root, "crates/layer-fauna/tests/fauna/golden.rs")?;
    let fauna_differ = fauna_differ
        .split_once("DIFFERENCES")
        .and_then(|(_, after)| after.split_once("];"));
    let fauna_differ = fauna_differ.map_or(0, |(list, _)| list.matches("\n    (").count());
    let keyvalue = lines("tests/keyvalue/observed.jsonl", &|line| {
        !line.contains("\"timing_dependent\": true")
    })?;
    let keyvalue_differ = read(root, "tests/keyvalue/python/test_observed.py")?;
    let keyvalue_differ = keyvalue_differ
        .split_once("DIFFERENT = {")
        .and_then(|(_, after)| after.split_once("\n}"));
    let keyvalue_differ = keyvalue_differ.map_or(0, |(list, _)| list.matches("\n    ").count());
    // One of the fuzz targets panics on purpose.
    let targets = lines("fuzz/Cargo.toml", &|line| line == "[[bin]]")? - 1;
    let counts = [
        ("fauna.facts", fauna),
        ("fauna.same", fauna - fauna_differ),
        ("fauna.different", fauna_differ),
        ("keyvalue.facts", keyvalue),
        ("keyvalue.same", keyvalue - keyvalue_differ),
        ("keyvalue.different", keyvalue_differ),
        ("fuzz.targets", targets),
    ];
    Ok(counts.map(|(name, count)| (name.to_owned(), count.to_string())).into())
}

/// The defaults of `./test`.
fn defaults() -> Counts {
    let setting = |(name, value): &(&str, &str)| (format!("test.{name}"), (*value).to_owned());
    SETTINGS.iter().map(setting).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    const REPORT: &str = "\
        | unit | Redis passed | Quartet passed | differences | left out | run on |\n\
        | --- | ---: | ---: | ---: | ---: | --- |\n\
        | one | 3 | 4 | 0 | 0 | 2026-11-23 |\n\
        | two | 3 | 2 | 1 | 0 | 2026-11-21 |\n\
        | **all** | 6 | 6 | 1 | 0 |  |\n";

    /// Files that counts are taken from.
    pub const SOURCES: [(&str, &str); 7] = [
        (RECORDED, "# by hand\n"),
        ("docs/compat/redis-suites/own.md", REPORT),
        ("tests/fauna/golden.jsonl", "{}\n{}\n{}\n"),
        (
            "crates/layer-fauna/tests/fauna/golden.rs",
            "const DIFFERENCES: &[(&str, &str)] = &[\n    (\n        \"name\",\n    ),\n];\n",
        ),
        (
            "tests/keyvalue/observed.jsonl",
            "{\"timing_dependent\": true}\n{}\n{}\n",
        ),
        (
            "tests/keyvalue/python/test_observed.py",
            "DIFFERENT = {\n    190: \"why\",\n}\n",
        ),
        (
            "fuzz/Cargo.toml",
            "[[bin]]\nname = \"a\"\n[[bin]]\nname = \"planted_panic\"\n",
        ),
    ];

    fn house(page: &str, recorded: &str) -> tempfile::TempDir {
        let house = tree(&SOURCES);
        for (path, text) in [("docs/page.md", page), (RECORDED, recorded)] {
            std::fs::write(house.path().join(path), text).unwrap();
        }
        house
    }

    #[test]
    fn a_figure_that_is_not_that_of_its_name_is_found_and_written() {
        let page = "6<!-- count own.quartet --> pass, 2<!-- count own.differences --> differ on \
                    2026-11-22<!-- count own.day -->; 9,000<!-- count statements --> were asked.\n";
        let house = house(page, "# by hand\nstatements 10000\n");
        let failures = wrong(house.path()).unwrap();
        assert_eq!(failures.len(), 3, "{failures:?}");
        assert!(
            failures[0].starts_with("docs/page.md: own.differences is 1, not 2;"),
            "{failures:?}"
        );
        write(house.path()).unwrap();
        assert_eq!(wrong(house.path()).unwrap(), Vec::<String>::new());
        let written = std::fs::read_to_string(house.path().join("docs/page.md")).unwrap();
        assert_eq!(
            written,
            "6<!-- count own.quartet --> pass, 1<!-- count own.differences --> differ on \
             2026-11-23<!-- count own.day -->; 10,000<!-- count statements --> were asked.\n"
        );
    }

    #[test]
    fn a_name_that_nothing_counts_and_a_count_that_nothing_quotes_are_found() {
        let failures = wrong(house("1<!-- count gone -->\n", "unread 3\n").path()).unwrap();
        assert_eq!(
            failures,
            [
                "docs/page.md: nothing is counted as gone",
                "docs/counts.txt: no document quotes unread"
            ]
        );
    }

    #[test]
    fn lists_and_defaults_are_counted() {
        let page = "3<!-- count fauna.facts --> 2<!-- count fauna.same --> 2<!-- count keyvalue.facts --> \
                    1<!-- count keyvalue.different --> 1<!-- count fuzz.targets --> 200<!-- count test.CRASH_CYCLES -->";
        assert_eq!(wrong(house(page, "").path()).unwrap(), Vec::<String>::new());
    }
}
