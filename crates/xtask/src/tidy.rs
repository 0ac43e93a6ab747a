//! `cargo xtask tidy`: what must hold of the sources themselves, and no compiler checks.
//!
//! The largest circle of imports in each crate is on record in `circles.txt`, and may only shrink:
//! a larger one fails, and a smaller circle is printed as a remark. `NAME` counts files, `NAME/`
//! the rooms: the folders below `src`, and each file beside them. The shares of sentences and names
//! that the style replaces are on record in `english.txt` in the same way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::arrows;
use crate::circles::{between_rooms, circles};
use crate::{counts, english, links, map};

/// `NAME SIZE` or `NAME/ SIZE` in a line; a crate that is not named may have no circle at all.
const RECORD: &str = "crates/xtask/circles.txt";

pub fn tidy(root: &Path) -> Result<()> {
    let mut found = Findings::default();
    found.failures.extend(map::missing(root)?);
    found.failures.extend(links::dead(root)?);
    found.failures.extend(counts::wrong(root)?);
    let mut record = read_record(root)?;
    for name in map::crates(root)? {
        let folder = root.join("crates").join(&name);
        let (arrows, files) = arrows::of_crate(&folder)?;
        found.failures.extend(map::unreached(&folder, &files)?);
        let largest = circles(&arrows).into_iter().next().unwrap_or_default();
        found.compare(&name, &largest, record.remove(&name));
        let largest = circles(&between_rooms(&arrows)).into_iter().next().unwrap_or_default();
        let name_of_rooms = format!("{name}/");
        found.compare(&name_of_rooms, &largest, record.remove(&name_of_rooms));
    }
    let english = english::compare(root)?;
    found.failures.extend(english.failures);
    found.remarks.extend(english.remarks);
    let gone = record.keys().map(|name| format!("{RECORD}: there is no crate {name}"));
    found.failures.extend(gone);
    found.tell()
}

#[derive(Default)]
struct Findings {
    failures: Vec<String>,
    remarks: Vec<String>,
}

impl Findings {
    fn compare(&mut self, name: &str, largest: &[PathBuf], recorded: Option<usize>) {
        let (size, allowed) = (largest.len(), recorded.unwrap_or(0));
        if size > allowed {
            let files: Vec<String> = largest.iter().map(|file| file.display().to_string()).collect();
            self.failures.push(format!(
                "crates/{name}: {size} files import each other in a circle, and {allowed} are on record; \
                 `cargo xtask circles {name}` shows by which names: {}",
                files.join(", ")
            ));
        }
        if size < allowed {
            self.remarks
                .push(format!("{RECORD}: {name} can be lowered from {allowed} to {size}"));
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

fn read_record(root: &Path) -> Result<BTreeMap<String, usize>> {
    let text = std::fs::read_to_string(root.join(RECORD)).with_context(|| format!("cannot read {RECORD}"))?;
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let (name, size) = line.split_once(' ').with_context(|| format!("{RECORD}: `{line}`"))?;
            Ok((
                name.to_owned(),
                size.parse().with_context(|| format!("{RECORD}: `{line}`"))?,
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
    fn a_circle_smaller_than_its_record_is_remarked() {
        let mut found = Findings::default();
        found.compare("a", &[], Some(2));
        assert!(found.failures.is_empty());
        assert_eq!(
            found.remarks,
            ["crates/xtask/circles.txt: a can be lowered from 2 to 0"]
        );
    }
}
