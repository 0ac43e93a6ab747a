//! Values as flags, variables and the file spell them. The file is not checked by the command
//! line's parser.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
use quartet_server::Listen;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

type Result<T, E = anyhow::Error> = std::result::Result<T, E>;

/// A number of bytes, as a number or with a unit: 268435456, 256MB, 256MiB, 256m. The units are
/// those of Redis' configuration with a `b`, powers of 1,024.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteCount(pub u64);

impl FromStr for ByteCount {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteCount, String> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match text[digits.len()..].to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            unit => return Err(format!("'{unit}' is no unit of bytes: KB, MB, GB or TB")),
        };
        let number = digits.trim_end().parse::<u64>();
        let number = number.map_err(|_| format!("'{text}' is no number of bytes, as 268435456 or 256MB"))?;
        let bytes = number.checked_mul(1 << shift);
        bytes.map(ByteCount).ok_or_else(|| format!("'{text}' is too large"))
    }
}

impl Serialize for ByteCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for ByteCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByteCount, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Number(u64),
            Text(String),
        }
        match Given::deserialize(deserializer)? {
            Given::Number(bytes) => Ok(ByteCount(bytes)),
            Given::Text(text) => text.parse().map_err(D::Error::custom),
        }
    }
}

pub fn listen(name: &str, value: &Option<String>, default: &str) -> Result<Listen> {
    let text = value.as_deref().unwrap_or(default);
    text.parse()
        .map_err(|reason: String| anyhow::anyhow!("{name}: {reason}"))
}

pub fn one_of(name: &str, value: &Option<String>, words: &[&str]) -> Result<()> {
    match value.as_deref() {
        Some(word) if !words.contains(&word) => anyhow::bail!("{name}: '{word}' is none of {}", words.join(", ")),
        _ => Ok(()),
    }
}

/// Names of places, with the places' addresses.
pub fn named_places(option: &str, list: Option<&str>) -> Result<Vec<(String, String)>> {
    let places = list.map(|list| list.split(',')).into_iter().flatten();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_may_have_a_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("1000", 1000),
            ("256MB", 256 << 20),
            ("256 MiB", 256 << 20),
            ("256m", 256 << 20),
            ("1kb", 1024),
            ("2G", 2 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(text.parse(), Ok(ByteCount(bytes)), "{text}");
        }
        for text in ["", "MB", "-1", "1.5GB", "1XB", "99999999999T"] {
            assert!(text.parse::<ByteCount>().is_err(), "{text}");
        }
    }
}
