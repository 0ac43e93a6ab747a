//! The files of an import's folder, in any of three layouts.
//!
//! ```text
//!   NAME.json                                       a collection's documents, a line each
//!   definitions/KIND.json, history/NAME.json        beside them, in what `export` writes
//!
//!   NAME/NAME_PP_NNNNNN.jsonl                       the service's snapshot export: part, file
//!   Credential/Credential_PP_NNNNNN.jsonl           passwords
//!   metadata_PP.json, data/collections/NAME/...     as the service lays out a whole one
//! ```
//!
//! `.jsonl` and `.json`, lines or one array, each also with `.gz`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::json::Json;
use super::values::Form;
use crate::error::{Error, Result, source};

/// Marks a folder with a part of an export: its collections are of one moment only when all are
/// complete.
pub const UNFINISHED: &str = "export.unfinished";
pub const DEFINITIONS: &str = "definitions";
pub const HISTORY: &str = "history";
/// The service's name for the collection of passwords.
const CREDENTIALS: &str = "Credential";

#[derive(Default)]
pub struct Folder {
    pub documents: Vec<DataFile>,
    /// Earlier versions of documents, and deleted documents.
    pub history: Vec<DataFile>,
    /// Credentials of the service's own export.
    pub credentials: Vec<DataFile>,
    pub definitions: Option<PathBuf>,
    /// The form of the values, if the export says it.
    pub form: Option<Form>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub struct DataFile {
    pub collection: String,
    /// Its place in the folder, which names it in the journal.
    pub name: String,
    pub path: PathBuf,
}

impl Folder {
    pub fn open(root: &Path) -> Result<Folder> {
        if root.join(UNFINISHED).exists() {
            let reason = "its collections may be of different moments, or missing. Begin the export anew";
            return Err(Error::Source(format!(
                "the export in {} ended in the middle: {reason}",
                root.display()
            )));
        }
        let mut folder = Folder::default();
        let parts = metadata(root)?;
        let whole = root.join("data").join("collections");
        let data = if whole.is_dir() { &whole } else { root };
        for path in entries(data)? {
            let name = file_name(&path);
            if path.is_dir() {
                folder.add_collection(&name, &path)?;
            } else if let Some(collection) = collection_of(&name)
                && !is_metadata(&name)
            {
                folder.documents.push(DataFile { collection, name, path });
            }
        }
        folder.check_whole(root, &parts)?;
        let nothing = folder.documents.is_empty() && folder.credentials.is_empty() && folder.definitions.is_none();
        match nothing {
            true => Err(Error::Source(format!(
                "{} holds neither NAME.json nor NAME/NAME_00_000000.jsonl",
                root.display()
            ))),
            false => Ok(folder),
        }
    }

    pub fn collections(&self) -> BTreeSet<String> {
        let files = self.documents.iter().chain(&self.history);
        files.map(|file| file.collection.clone()).collect()
    }

    /// A folder below: the parts of one collection, or what our own export has beside documents.
    fn add_collection(&mut self, collection: &str, folder: &Path) -> Result<()> {
        let files = entries(folder)?;
        let parts: Vec<&PathBuf> = files
            .iter()
            .filter(|path| is_part_of(collection, &file_name(path)))
            .collect();
        if parts.is_empty() {
            match collection {
                DEFINITIONS => self.definitions = Some(folder.to_owned()),
                HISTORY => self.history = histories(&files),
                _ => {}
            }
            return Ok(());
        }
        let target = match collection {
            CREDENTIALS => &mut self.credentials,
            _ => &mut self.documents,
        };
        for path in parts {
            target.push(DataFile {
                collection: collection.to_owned(),
                name: format!("{collection}/{}", file_name(path)),
                path: path.clone(),
            });
        }
        Ok(())
    }

    /// The service's export says how many files it has.
    fn check_whole(&mut self, root: &Path, parts: &[Json]) -> Result<()> {
        let Some(first) = parts.first() else { return Ok(()) };
        self.form = match first.field("doc_format").and_then(Json::as_text) {
            Some("tagged") => Some(Form::Tagged),
            Some("simple") => Some(Form::Simple),
            other => {
                return Err(Error::Source(format!(
                    "the export in {} is of the form {}; those that can be read are tagged and simple",
                    root.display(),
                    other.unwrap_or("that it does not name")
                )));
            }
        };
        let number = |part: &Json, name: &str| part.field(name)?.to_string().parse::<usize>().ok();
        let parts_expected = number(first, "total_parts").unwrap_or(parts.len());
        let expected: usize = parts.iter().filter_map(|part| number(part, "files_count")).sum();
        let count = self.documents.len() + self.credentials.len();
        if parts.len() != parts_expected || count != expected {
            return Err(Error::Source(format!(
                "the export in {} is not whole: {} of {parts_expected} metadata files are there, and {count} of the \
                 {expected} data files that these name",
                root.display(),
                parts.len()
            )));
        }
        Ok(())
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = std::fs::read_dir(folder).map_err(|error| Error::Source(format!("{}: {error}", folder.display())));
    let mut entries = Vec::new();
    for entry in read? {
        entries.push(entry.map_err(source)?.path());
    }
    entries.sort();
    Ok(entries)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// The name of a data file without its endings.
fn collection_of(name: &str) -> Option<String> {
    let plain = name.strip_suffix(".gz").unwrap_or(name);
    let (collection, end) = plain.rsplit_once('.')?;
    matches!(end, "json" | "jsonl" | "ndjson").then(|| collection.to_owned())
}

fn histories(files: &[PathBuf]) -> Vec<DataFile> {
    let files = files.iter().filter_map(|path| {
        let name = file_name(path);
        Some(DataFile {
            collection: collection_of(&name)?,
            name: format!("{HISTORY}/{name}"),
            path: path.clone(),
        })
    });
    files.collect()
}

fn is_part_of(collection: &str, name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = collection_of(name).and_then(|stem| {
        let name = stem.strip_prefix(collection)?.strip_prefix('_')?.to_owned();
        let (part, file) = name.split_once('_')?;
        Some(digits(part) && digits(file))
    });
    numbers == Some(true)
}

fn is_metadata(name: &str) -> bool {
    let number = name
        .strip_prefix("metadata_")
        .and_then(|name| name.strip_suffix(".json"));
    number.is_some_and(|number| number.len() >= 2 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Reads the service's description of its export, a file for each of its parts.
fn metadata(root: &Path) -> Result<Vec<Json>> {
    let mut parts = Vec::new();
    for path in entries(root)? {
        if path.is_file() && is_metadata(&file_name(&path)) {
            let text = std::fs::read(&path).map_err(source)?;
            let part = Json::parse(&text);
            parts.push(part.ok_or_else(|| Error::Source(format!("{} is no JSON", path.display())))?);
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn made(files: &[(&str, &str)]) -> Result<Vec<String>> {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let folder = Folder::open(root.path())?;
        let written = |kind: &str, files: &[DataFile]| -> Vec<String> {
            let names = files
                .iter()
                .map(|file| format!("{kind} {} {}", file.collection, file.name));
            names.collect()
        };
        Ok([
            written("documents", &folder.documents),
            written("history", &folder.history),
            written("credentials", &folder.credentials),
            folder.definitions.iter().map(|_| "definitions".to_owned()).collect(),
            folder.form.iter().map(|form| format!("{form:?}")).collect(),
        ]
        .concat())
    }

    #[test]
    fn each_layout_is_found() {
        assert_eq!(
            made(&[
                ("people.json", ""),
                ("things.jsonl.gz", ""),
                ("README.md", ""),
                ("definitions/roles.json", ""),
                ("history/people.json", ""),
            ])
            .unwrap(),
            [
                "documents people people.json",
                "documents things things.jsonl.gz",
                "history people history/people.json",
                "definitions",
            ]
        );
        // A collection may have the name of one of our folders.
        let data = "data/collections";
        let metadata = r#"{"doc_format":"simple","total_parts":1,"files_count":4}"#;
        let files = [
            ("metadata_00.json", metadata),
            (&*format!("{data}/history/history_00_000000.json.gz"), ""),
            (&*format!("{data}/people/people_00_000000.jsonl"), ""),
            (&*format!("{data}/people/people_12_000001.jsonl"), ""),
            (&*format!("{data}/Credential/Credential_00_000000.jsonl"), ""),
        ];
        assert_eq!(
            made(&files).unwrap(),
            [
                "documents history history/history_00_000000.json.gz",
                "documents people people/people_00_000000.jsonl",
                "documents people people/people_12_000001.jsonl",
                "credentials Credential Credential/Credential_00_000000.jsonl",
                "Simple",
            ]
        );
        let lost = made(&files[..4]).unwrap_err().to_string();
        assert!(lost.contains("not whole"), "{lost}");
        assert!(made(&[("x.txt", "")]).is_err());
        assert!(made(&[("export.unfinished", ""), ("people.json", "")]).is_err());
    }
}
