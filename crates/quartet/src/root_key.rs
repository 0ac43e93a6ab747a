//! The root key: made and printed once, at the first start without `--dev`; afterwards only its
//! hash exists.

use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use quartet_env::create_directory_durably;
use quartet_model::hexadecimal;
use sha2::{Digest, Sha256};

use crate::credential_file::{self, damaged};

const FILE: &str = "root-key.sha256";

/// A key that was just made, to be shown once; `None` if one had been made before. And the hash of
/// the key in force.
pub fn load_or_make(data: &Path) -> Result<(Option<String>, [u8; 32])> {
    create_directory_durably(data).with_context(|| format!("creating {}", data.display()))?;
    let path = data.join(FILE);
    if let Some(text) = credential_file::read(&path)? {
        return Ok((None, parse(&text).ok_or_else(|| damaged(&path))?));
    }
    let key = make(data)?;
    let hash = hash(&key);
    Ok((Some(key), hash))
}

/// A key of a server that keeps nothing, and its hash.
pub fn make_unkept() -> Result<(Option<String>, [u8; 32])> {
    let key = random_key()?;
    let hash = hash(&key);
    Ok((Some(key), hash))
}

/// Replaces the key with a new one; the old one is no longer valid.
pub fn make(data: &Path) -> Result<String> {
    let key = random_key()?;
    credential_file::write(&data.join(FILE), &hexadecimal(&hash(&key)))?;
    Ok(key)
}

pub fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// 192 random bits.
fn random_key() -> Result<String> {
    Ok(format!("qk_{}", random_hexadecimal(24)?))
}

/// Random bytes of a key, two digits each.
pub fn random_hexadecimal(count: usize) -> Result<String> {
    let mut bytes = vec![0; count];
    fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("reading the system's randomness")?;
    Ok(hexadecimal(&bytes))
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
        let new = make(data.path()).unwrap();
        assert_eq!(load_or_make(data.path()).unwrap(), (None, hash(&new)));
    }

    #[test]
    fn a_damaged_hash_is_refused() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join(FILE);
        fs::write(&path, hexadecimal(&hash("qk"))).unwrap();
        assert!(load_or_make(data.path()).is_err(), "no checksum");
        credential_file::write(&path, "not a hash").unwrap();
        assert!(load_or_make(data.path()).is_err(), "no hash");
    }
}
