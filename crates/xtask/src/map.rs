//! The map of the house: every crate is in the root manifest, with a word about it, and in
//! ARCHITECTURE; every file is reached.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::modules::Modules;

/// The folders below `crates`, by name.
pub fn crates(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("crates");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().join("Cargo.toml").exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// Complaints about crates that the manifest or ARCHITECTURE do not mention.
pub fn missing(root: &Path) -> Result<Vec<String>> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let architecture = std::fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let mut complaints = Vec::new();
    for name in crates(root)? {
        let member = format!("\"crates/{name}\",");
        let line = manifest.lines().find(|line| line.trim_start().starts_with(&member));
        if !line.is_some_and(|line| line.contains('#')) {
            complaints.push(format!(
                "Cargo.toml: the members lack crates/{name} with a comment that says what it is"
            ));
        }
        if !architecture.contains(&format!("`{name}`")) {
            complaints.push(format!("ARCHITECTURE.md: `{name}` is not on the map"));
        }
        let own = std::fs::read_to_string(root.join("crates").join(&name).join("Cargo.toml"))?;
        let is_named_so = [format!("name = \"quartet-{name}\""), format!("name = \"{name}\"")];
        if !own
            .lines()
            .any(|line| is_named_so.iter().any(|expected| line == expected))
        {
            complaints.push(format!("crates/{name}: the crate has another name than its folder"));
        }
    }
    Ok(complaints)
}

/// Complaints about source files of a crate that no module declares. `reached`: what its programs
/// and library consist of.
pub fn unreached(folder: &Path, reached: &BTreeSet<PathBuf>) -> Result<Vec<String>> {
    let mut modules = Modules::default();
    for root in test_roots(folder) {
        modules.add_root(&root)?;
    }
    let mut complaints = Vec::new();
    for part in ["src", "tests", "benches", "examples"] {
        for file in sources(&folder.join(part)) {
            if !reached.contains(&file) && !modules.files.contains(&file) {
                complaints.push(format!("{}: no module declares it", file.display()));
            }
        }
    }
    Ok(complaints)
}

/// Files that cargo takes for a test, a benchmark or an example of its own.
fn test_roots(folder: &Path) -> Vec<PathBuf> {
    let mut roots = Vec::new();
    for part in ["tests", "benches", "examples"] {
        for entry in std::fs::read_dir(folder.join(part)).into_iter().flatten().flatten() {
            let path = entry.path();
            let root = if path.is_dir() { path.join("main.rs") } else { path };
            if root.is_file() && is_source(&root) {
                roots.push(root);
            }
        }
    }
    roots
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut sources = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path if is_source(&path) => sources.push(path),
                _ => {}
            }
        }
    }
    sources.sort();
    sources
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    #[test]
    fn a_crate_that_the_map_lacks_is_named() {
        let folder = tree(&[
            (
                "Cargo.toml",
                "members = [\n    \"crates/a\", # the first\n    \"crates/b\",\n]",
            ),
            (
                "ARCHITECTURE.md",
                "- `a`: the first.\n- `b`: the second.\n- `d`: named otherwise.",
            ),
            ("crates/a/Cargo.toml", "name = \"quartet-a\""),
            ("crates/b/Cargo.toml", "name = \"quartet-b\""),
            ("crates/c/Cargo.toml", "name = \"other\""),
        ]);
        let expected = [
            "Cargo.toml: the members lack crates/b with a comment that says what it is",
            "Cargo.toml: the members lack crates/c with a comment that says what it is",
            "ARCHITECTURE.md: `c` is not on the map",
            "crates/c: the crate has another name than its folder",
        ];
        assert_eq!(missing(folder.path()).unwrap(), expected);
    }

    #[test]
    fn a_file_that_no_module_declares_is_named() {
        let folder = tree(&[
            ("src/lib.rs", "mod a; #[cfg(test)] mod checks;"),
            ("src/a.rs", ""),
            ("src/checks.rs", ""),
            ("src/lost.rs", ""),
            ("tests/one.rs", "#[path = \"shared/world.rs\"] mod world;"),
            ("tests/shared/world.rs", ""),
            ("tests/many/main.rs", "mod part;"),
            ("tests/many/part.rs", ""),
            ("tests/many/lost.rs", ""),
        ]);
        let modules = Modules::of_crate(folder.path()).unwrap();
        let complaints = unreached(folder.path(), &modules.files).unwrap();
        let expected = ["src/lost.rs", "tests/many/lost.rs"];
        assert_eq!(complaints.len(), expected.len(), "{complaints:?}");
        for (complaint, file) in complaints.iter().zip(expected) {
            assert!(complaint.contains(file), "{complaint}");
        }
    }
}
