//! `cargo xtask tidy`: what must hold of the sources themselves, and no compiler checks.
//!
//! The largest circle of imports in each crate is on record in `circles.txt`, and may only shrink:
//! a larger one fails, and a smaller circle is printed as a remark. `NAME` counts files, `NAME/`
//! the rooms: the folders below `src`, and each file beside them. The number of parameters that are
//! tuples is on record in `tuple_parameters.txt` in the same way, and the shares of sentences and
//! names that the style replaces in `english.txt`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::arrows;
use crate::circles::{between_rooms, circles};
use crate::modules::Modules;
use crate::{counts, english, links, map};

/// `NAME SIZE` or `NAME/ SIZE` in a line; a crate that is not named may have no circle at all.
const CIRCLES: &str = "crates/xtask/circles.txt";

/// `NAME COUNT` in a line; a crate that is not named may have no such parameter.
const TUPLE_PARAMETERS: &str = "crates/xtask/tuple_parameters.txt";

pub fn tidy(root: &Path) -> Result<()> {
    let mut findings = Findings::default();
    findings.failures.extend(map::missing(root)?);
    findings.failures.extend(links::dead(root)?);
    findings.failures.extend(counts::wrong(root)?);
    let mut sizes = read_record(root, CIRCLES)?;
    let mut tuple_counts = read_record(root, TUPLE_PARAMETERS)?;
    for name in map::crates(root)? {
        let folder = root.join("crates").join(&name);
        let modules = Modules::of_crate(&folder)?;
        let arrows = arrows::of_modules(&modules, &folder);
        findings.failures.extend(map::unreached(&folder, &modules.files)?);
        findings.compare_tuples(&name, &tuple_parameters(&modules, root), tuple_counts.remove(&name));
        let largest = circles(&arrows).into_iter().next().unwrap_or_default();
        findings.compare_circle(&name, &largest, sizes.remove(&name));
        let largest = circles(&between_rooms(&arrows)).into_iter().next().unwrap_or_default();
        let name_of_rooms = format!("{name}/");
        findings.compare_circle(&name_of_rooms, &largest, sizes.remove(&name_of_rooms));
    }
    let english = english::compare(root)?;
    findings.failures.extend(english.failures);
    findings.remarks.extend(english.remarks);
    for (record, remaining) in [(CIRCLES, sizes), (TUPLE_PARAMETERS, tuple_counts)] {
        let unknown = remaining.keys();
        findings
            .failures
            .extend(unknown.map(|name| format!("{record}: there is no crate {name}")));
    }
    findings.tell()
}

#[derive(Default)]
struct Findings {
    failures: Vec<String>,
    remarks: Vec<String>,
}

impl Findings {
    fn compare_circle(&mut self, name: &str, largest: &[PathBuf], recorded: Option<usize>) {
        let (size, allowed) = (largest.len(), recorded.unwrap_or(0));
        if size > allowed {
            let files: Vec<String> = largest.iter().map(|file| file.display().to_string()).collect();
            self.failures.push(format!(
                "crates/{name}: {size} files import each other in a circle, and {allowed} are on record; \
                 `cargo xtask circles {name}` shows by which names: {}",
                files.join(", ")
            ));
        }
        self.remark_lower(CIRCLES, name, size, allowed);
    }

    /// `places`: `FILE:LINE: FUNCTION` of each.
    fn compare_tuples(&mut self, name: &str, places: &[String], recorded: Option<usize>) {
        let (count, allowed) = (places.len(), recorded.unwrap_or(0));
        if count > allowed {
            self.failures.push(format!(
                "crates/{name}: {count} parameters are tuples, and {allowed} are on record; a range, parameters or a \
                 struct name the values:\n  {}",
                places.join("\n  ")
            ));
        }
        self.remark_lower(TUPLE_PARAMETERS, name, count, allowed);
    }

    fn remark_lower(&mut self, record: &str, name: &str, figure: usize, allowed: usize) {
        if figure < allowed {
            self.remarks
                .push(format!("{record}: {name} can be lowered from {allowed} to {figure}"));
        }
    }

    fn tell(self) -> Result<()> {
        self.remarks.iter().for_each(|remark| println!("{remark}"));
        if self.failures.is_empty() {
            return Ok(());
        }
        bail!("{}", self.failures.join("\n"))
    }
}

/// The parameters of a crate that are tuples, each written `FILE:LINE: FUNCTION`.
fn tuple_parameters(modules: &Modules, root: &Path) -> Vec<String> {
    let mut places = Vec::new();
    for module in &modules.all {
        let file = module.file.strip_prefix(root).unwrap_or(&module.file).display();
        let parameters = module.tuple_parameters.iter();
        places.extend(parameters.map(|parameter| format!("{file}:{}: {}", parameter.line, parameter.function)));
    }
    places
}

fn read_record(root: &Path, record: &str) -> Result<BTreeMap<String, usize>> {
    let text = std::fs::read_to_string(root.join(record)).with_context(|| format!("cannot read {record}"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (name, size) = line.split_once(' ').with_context(|| format!("{record}: `{line}`"))?;
            Ok((
                name.to_owned(),
                size.parse().with_context(|| format!("{record}: `{line}`"))?,
            ))
        })
        .collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A folder with these files.
    pub fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn house(record: &str) -> tempfile::TempDir {
        let files = [
            ("Cargo.toml", "    \"crates/a\", # the only one"),
            ("ARCHITECTURE.md", "`a`"),
            ("crates/a/Cargo.toml", "name = \"quartet-a\""),
            ("crates/a/src/lib.rs", "mod x; mod y; mod z;"),
            ("crates/a/src/x.rs", "use crate::y::Y; pub struct X;"),
            ("crates/a/src/y.rs", "use crate::x::X; pub struct Y;"),
            ("crates/a/src/z.rs", "use crate::x::X;"),
            ("crates/xtask/circles.txt", record),
            ("crates/xtask/english.txt", "# counts\n"),
            ("crates/xtask/tuple_parameters.txt", "# counts\n"),
            ("test", ""),
        ];
        tree(&[&files[..], &counts::tests::SOURCES].concat())
    }

    #[test]
    fn a_circle_larger_than_its_record_fails_and_names_its_files() {
        tidy(house("# sizes\na 2\na/ 2\n").path()).unwrap();
        tidy(house("a 3\na/ 2\n").path()).unwrap();
        let refused = tidy(house("").path()).unwrap_err().to_string();
        assert!(
            refused.contains("crates/a: 2 files") && refused.ends_with("x.rs, y.rs"),
            "{refused}"
        );
        let refused = tidy(house("a 2\na/ 2\nb 2\n").path()).unwrap_err().to_string();
        assert!(refused.contains("there is no crate b"), "{refused}");
    }

    #[test]
    fn a_tuple_parameter_above_the_record_fails_with_its_line() {
        let house = house("a 2\na/ 2\n");
        let source = "use crate::x::X;\nfn f((start, end): (u8, u8)) {}";
        std::fs::write(house.path().join("crates/a/src/z.rs"), source).unwrap();
        let refused = tidy(house.path()).unwrap_err().to_string();
        assert!(
            refused.contains("crates/a: 1 parameters are tuples, and 0 are on record")
                && refused.ends_with("crates/a/src/z.rs:2: f"),
            "{refused}"
        );
        std::fs::write(house.path().join(TUPLE_PARAMETERS), "a 1\n").unwrap();
        tidy(house.path()).unwrap();
    }

    #[test]
    fn a_touched_sentence_and_a_wide_comment_fail_with_their_lines() {
        let house = house("a 2\na/ 2\n");
        let check = |source: &str, expected: &str| {
            std::fs::write(house.path().join("crates/a/src/z.rs"), source).unwrap();
            let refused = tidy(house.path()).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        };
        check("// It is told so.\nuse crate::x::X;", "crates/a/src/z.rs:1: paraphrase");
        let wide = format!("// {}\nuse crate::x::X;", "word ".repeat(30));
        check(&wide, "z.rs:1: more than 100 columns");
    }

    #[test]
    fn a_figure_below_its_record_is_remarked() {
        let mut findings = Findings::default();
        findings.compare_circle("a", &[], Some(2));
        findings.compare_tuples("a", &[], Some(1));
        assert!(findings.failures.is_empty());
        assert_eq!(
            findings.remarks,
            [
                "crates/xtask/circles.txt: a can be lowered from 2 to 0",
                "crates/xtask/tuple_parameters.txt: a can be lowered from 1 to 0"
            ]
        );
    }
}
