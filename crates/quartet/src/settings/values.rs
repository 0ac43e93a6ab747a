//! Values as flags, variables and the file spell them. The file is not checked by the command
//! line's parser.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use quartet_server::Listen;

pub fn listen(name: &str, given: &Option<String>, default: &str) -> Result<Listen> {
    let text = given.as_deref().unwrap_or(default);
    text.parse()
        .map_err(|reason: String| anyhow::anyhow!("{name}: {reason}"))
}

pub fn one_of(name: &str, given: &Option<String>, known: &[&str]) -> Result<()> {
    match given.as_deref() {
        Some(word) if !known.contains(&word) => anyhow::bail!("{name}: '{word}' is none of {}", known.join(", ")),
        _ => Ok(()),
    }
}

/// Names of places, with the places' addresses.
pub fn named_places(option: &str, given: Option<&str>) -> Result<Vec<(String, String)>> {
    let places = given.map(|given| given.split(',')).into_iter().flatten();
    let named = places.map(|place| match place.trim().split_once('=') {
        Some((name, address)) if !name.is_empty() && !address.is_empty() => Ok((name.to_owned(), address.to_owned())),
        _ => anyhow::bail!("{option}: each is NAME=FOLDER or NAME=s3://BUCKET/PREFIX"),
    });
    named.collect()
}

/// Reads a secret from its own file, if the option names a file.
pub fn read_secret(name: &str, secret: &mut Option<String>, file: &Option<PathBuf>) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    anyhow::ensure!(secret.is_none(), "{name} and {name}-file are both given");
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("{name}-file: reading {}", file.display()))?;
    let text = text.trim_end_matches(['\r', '\n']);
    anyhow::ensure!(!text.is_empty(), "{name}-file: {} is empty", file.display());
    *secret = Some(text.to_owned());
    Ok(())
}

/// The first of these variables that is set, and not empty.
pub fn variable(names: &[&str]) -> Option<String> {
    let mut values = names.iter().filter_map(|name| std::env::var(name).ok());
    values.find(|value| !value.is_empty())
}

/// A folder, as an absolute path, or s3://BUCKET/PREFIX.
pub fn absolute_place(option: &str, place: &str) -> Result<String> {
    let is_bucket = place.starts_with("s3://");
    anyhow::ensure!(
        is_bucket || !place.is_empty() && !place.contains("://"),
        "{option}: {place} is neither a folder nor s3://BUCKET/PREFIX"
    );
    if is_bucket {
        return Ok(place.to_owned());
    }
    let folder = absolute(Path::new(place)).into_os_string().into_string();
    folder.map_err(|_| anyhow::anyhow!("{option}: {place} is not text"))
}

pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
