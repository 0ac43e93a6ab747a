//! Links from one document to another file of this repository: each must lead somewhere.

use std::path::{Path, PathBuf};

use anyhow::Result;

/// One complaint for each relative link in the documents at the root and below `docs` whose file is
/// not there.
pub fn dead(root: &Path) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    for document in documents(root)? {
        let text = std::fs::read_to_string(&document)?;
        let folder = document.parent().unwrap_or(root);
        for target in relative_links(&text) {
            if !folder.join(&target).exists() {
                let document = document.strip_prefix(root).unwrap_or(&document);
                complaints.push(format!("{}: nothing is at {target}", document.display()));
            }
        }
    }
    Ok(complaints)
}

/// The documents at the root and below `docs`.
pub fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut documents = Vec::new();
    let mut folders = vec![root.join("docs")];
    let at_root = std::fs::read_dir(root)?.flatten().map(|entry| entry.path());
    documents.extend(at_root.filter(|path| is_document(path)));
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path if is_document(&path) => documents.push(path),
                _ => {}
            }
        }
    }
    documents.sort();
    Ok(documents)
}

fn is_document(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md") && path.is_file()
}

/// Targets of `[text](target)` outside of code, without the fragment after `#`.
fn relative_links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code && !line.starts_with("    ") {
            // Every second piece between backticks is code.
            let plain: String = line.split('`').step_by(2).collect();
            links.extend(plain.split("](").skip(1).filter_map(target));
        }
    }
    links
}

fn target(text: &str) -> Option<String> {
    let whole = text.split_once(')')?.0;
    let file = whole.split('#').next().filter(|file| !file.is_empty())?;
    let is_elsewhere = file.contains("://") || file.starts_with("mailto:");
    (!is_elsewhere).then(|| file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    #[test]
    fn dead_links_are_named() {
        let folder = tree(&[
            ("README.md", "[a](docs/a.md) [b](docs/b.md#part), [`code`](docs/c.md)"),
            (
                "docs/a.md",
                "[up](../README.md) [self](#here) [web](https://example.org/x) [gone](x.md)\n`[no](y.md)`\n```\n[no](z.md)\n```",
            ),
        ]);
        let expected = [
            "README.md: nothing is at docs/b.md",
            "README.md: nothing is at docs/c.md",
            "docs/a.md: nothing is at x.md",
        ];
        assert_eq!(dead(folder.path()).unwrap(), expected);
    }
}
