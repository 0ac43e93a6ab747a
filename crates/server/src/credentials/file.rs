//! Files for the operator's new credentials: one line of text and its checksum, readable only by
//! the owner.
//!
//! ```text
//!   TEXT crc32=xxxxxxxx
//! ```
//!
//! A damaged file would otherwise lock everyone out or, worse, hold a credential other than the
//! displayed one.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, Result};

const CHECKSUM: &str = " crc32=";

/// The text in the file; `None` if there is no file. Errors: it is damaged, or cannot be read.
pub fn read(path: &Path) -> Result<Option<String>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    let line = String::from_utf8(bytes).unwrap_or_default();
    match line.trim_end().rsplit_once(CHECKSUM) {
        Some((text, checksum)) if checksum == checksum_of(text) => Ok(Some(text.to_owned())),
        _ => Err(damaged(path)),
    }
}

/// The error for a file whose checksum is wrong.
pub fn damaged(path: &Path) -> anyhow::Error {
    anyhow::anyhow!(
        "{} is damaged: restore it, or make a new credential with `quartet admin reset-key --data {}`",
        path.display(),
        path.parent().unwrap_or(Path::new(".")).display()
    )
}

/// Written whole or not at all.
pub fn write(path: &Path, text: &str) -> Result<()> {
    replace(path, &format!("{text}{CHECKSUM}{}\n", checksum_of(text)))
        .with_context(|| format!("writing {}", path.display()))
}

/// The same without a checksum, for a file that others read.
pub fn replace(path: &Path, line: &str) -> std::io::Result<()> {
    replace_with_mode(path, line, 0o600)
}

/// The same with permissions of one's own.
pub fn replace_with_mode(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    // A leftover file may be readable by others.
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&partial)?;
    // The process' mask takes bits away from the mode of a file that is made.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

fn checksum_of(text: &str) -> String {
    format!("{:08x}", crc32fast::hash(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damage_is_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        assert_eq!(read(&path).unwrap(), None);
        write(&path, "id:secret").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("id:secret"));
        let whole = fs::read(&path).unwrap();
        for position in 0..whole.len() - 1 {
            let mut bytes = whole.clone();
            bytes[position] ^= 1;
            fs::write(&path, &bytes).unwrap();
            let message = read(&path).unwrap_err().to_string();
            assert!(
                message.contains("is damaged") && message.contains("reset-key"),
                "{position}: {message}"
            );
        }
        for cut in ["", "id:secret"] {
            fs::write(&path, cut).unwrap();
            assert!(read(&path).is_err(), "{cut:?}");
        }
    }
}
