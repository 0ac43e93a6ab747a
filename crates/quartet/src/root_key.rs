//! The root key: made and printed once, at the first start without `--dev`; afterwards only its hash exists.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use quartet_env::create_directory_durably;
use sha2::{Digest, Sha256};

const FILE: &str = "root-key.sha256";

/// A key that was just made, to be shown once; `None` if one had been made before. And the hash of the key in force.
pub fn load_or_make(data: &Path) -> Result<(Option<String>, [u8; 32])> {
    create_directory_durably(data).with_context(|| format!("creating {}", data.display()))?;
    let path = data.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let hash = parse(text.trim()).with_context(|| format!("{} does not hold a hash", path.display()))?;
            Ok((None, hash))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = random_key()?;
            let hash = hash(&key);
            write_private(&path, &hexadecimal(&hash)).with_context(|| format!("writing {}", path.display()))?;
            Ok((Some(key), hash))
        }
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// Written whole or not at all, readable by the owner only.
pub fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// 192 random bits.
fn random_key() -> Result<String> {
    Ok(format!("qk_{}", random_hexadecimal(24)?))
}

/// So many random bytes, two digits each.
pub fn random_hexadecimal(count: usize) -> Result<String> {
    let mut bytes = vec![0; count];
    fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("reading the system's randomness")?;
    Ok(hexadecimal(&bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (index, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_shown_once() {
        let data = tempfile::tempdir().unwrap();
        let (shown, made) = load_or_make(data.path()).unwrap();
        let (again, kept) = load_or_make(data.path()).unwrap();
        assert_eq!(hash(&shown.unwrap()), made);
        assert_eq!((again, kept), (None, made));
    }

    #[test]
    fn a_damaged_hash_is_refused() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join(FILE), "not a hash").unwrap();
        assert!(load_or_make(data.path()).is_err());
    }
}
