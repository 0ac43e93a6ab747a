//! DynamoDB's access key: made and printed at the first start without `--dev` and without keys of the operator's own.
//!
//! A signature is verified with the secret itself, so unlike the root key it is kept, in a file that only the owner reads.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use quartet_env::create_directory_durably;

use crate::root_key::{random_hexadecimal, write_private};

const FILE: &str = "dynamodb-access-key";

/// The access key's name and secret, and whether it was just made.
pub fn load_or_make(data: &Path) -> Result<((String, String), bool)> {
    create_directory_durably(data).with_context(|| format!("creating {}", data.display()))?;
    let path = data.join(FILE);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let pair = text.trim().split_once(':');
            let (id, secret) = pair.with_context(|| format!("{} does not hold an access key", path.display()))?;
            Ok(((id.to_owned(), secret.to_owned()), false))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let id = format!("QK{}", random_hexadecimal(9)?.to_ascii_uppercase());
            let secret = random_hexadecimal(24)?;
            let text = format!("{id}:{secret}");
            write_private(&path, &text).with_context(|| format!("writing {}", path.display()))?;
            Ok(((id, secret), true))
        }
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_made_once() {
        let data = tempfile::tempdir().unwrap();
        let (made, is_new) = load_or_make(data.path()).unwrap();
        assert!(is_new);
        assert_eq!(load_or_make(data.path()).unwrap(), (made, false));
    }
}
