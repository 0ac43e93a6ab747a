//! The files in the count.

use std::path::{Path, PathBuf};

use anyhow::Result;

/// The Rust files below `folder`.
pub fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    below(folder, "rs")
}

/// The documents at the root, below `docs`, in `benchmarks` and `packaging`, and in `examples` and
/// each folder there.
pub fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut documents = below(&root.join("docs"), "md")?;
    let mut folders = vec![
        root.to_owned(),
        root.join("benchmarks"),
        root.join("packaging"),
        root.join("examples"),
    ];
    folders.extend(entries(&root.join("examples")).filter(|path| path.is_dir()));
    for folder in folders {
        documents.extend(entries(&folder).filter(|path| has_extension(path, "md")));
    }
    documents.sort();
    Ok(documents)
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|suffix| suffix == extension) && path.is_file()
}

fn below(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        for path in entries(&folder) {
            if path.is_dir() && !path.ends_with("target") {
                pending.push(path);
            } else if has_extension(&path, extension) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
