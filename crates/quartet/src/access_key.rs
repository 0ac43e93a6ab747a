//! DynamoDB's access key: made and printed at the first start without `--dev` and without keys of
//! the operator's own.
//!
//! A signature is verified with the secret itself, so unlike the root key it is kept, in a file
//! that only the owner reads.

use std::path::Path;

use anyhow::{Context, Result};
use quartet_env::create_directory_durably;

use crate::credential_file::{self, damaged};
use crate::root_key::random_hexadecimal;

const FILE: &str = "dynamodb-access-key";

/// The access key's name and secret, and whether it was just made.
pub fn load_or_make(data: &Path) -> Result<((String, String), bool)> {
    create_directory_durably(data).with_context(|| format!("creating {}", data.display()))?;
    let path = data.join(FILE);
    match credential_file::read(&path)? {
        Some(text) => Ok((parse(&text).ok_or_else(|| damaged(&path))?, false)),
        None => Ok((make(data)?, true)),
    }
}

/// Replaces the access key with a new one; the old one is no longer valid.
pub fn make(data: &Path) -> Result<(String, String)> {
    let (id, secret) = random()?;
    credential_file::write(&data.join(FILE), &format!("{id}:{secret}"))?;
    Ok((id, secret))
}

/// A name and a secret that nobody has had.
pub fn random() -> Result<(String, String)> {
    let id = format!("QK{}", random_hexadecimal(9)?.to_ascii_uppercase());
    Ok((id, random_hexadecimal(24)?))
}

fn parse(text: &str) -> Option<(String, String)> {
    let (id, secret) = text.split_once(':')?;
    let is_whole = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic());
    (is_whole(id) && is_whole(secret)).then(|| (id.to_owned(), secret.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_key_is_made_once() {
        let data = tempfile::tempdir().unwrap();
        let (made, is_new) = load_or_make(data.path()).unwrap();
        assert!(is_new);
        assert_eq!(load_or_make(data.path()).unwrap(), (made.clone(), false));
        assert_ne!(make(data.path()).unwrap(), made);
    }

    #[test]
    fn damage_is_told() {
        let data = tempfile::tempdir().unwrap();
        for damaged in ["QKA1:b2", "QKA1:b2 crc32=00000000"] {
            fs::write(data.path().join(FILE), damaged).unwrap();
            assert!(load_or_make(data.path()).is_err(), "{damaged}");
        }
        for no_key in ["QKA1", "QKA1:", "QK\u{1}:b2"] {
            credential_file::write(&data.path().join(FILE), no_key).unwrap();
            assert!(load_or_make(data.path()).is_err(), "{no_key}");
        }
    }
}
