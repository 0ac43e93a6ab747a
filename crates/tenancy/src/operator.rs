//! The operator's own credentials: rows of the system space, so that every copy of the data has
//! them, be it a backup, a restored folder or another node.
//!
//! ```text
//! 'R'   the SHA-256 of the root key, 32 bytes
//! 'A'   DynamoDB's access key, in UTF-8: its name, ':' and its secret
//! ```
//!
//! A signature can only be verified with the secret itself, so the access key is kept as it is.

use quartet_engine::Engine;

use crate::catalogue::Catalogue;
use crate::definition::Hash;
use crate::rows::{CatalogueError, read};

pub const ROOT_KEY: &[u8] = b"R";
pub const ACCESS_KEY: &[u8] = b"A";

/// A name and a secret.
pub type AccessKey = (String, String);

/// Returns the hash of the root key in the first partition, if a root key exists. A replica returns
/// the last hash that it received.
pub fn kept_root_key(first: &Engine) -> Result<Option<Hash>, CatalogueError> {
    let stored = read(first, ROOT_KEY)?;
    stored
        .map(|bytes| root_key(&bytes).ok_or(CatalogueError::Damaged("the root key's hash")))
        .transpose()
}

impl Catalogue {
    /// Returns the hash of the root key, if a root key exists.
    pub fn root_key(&self) -> Result<Option<Hash>, CatalogueError> {
        kept_root_key(self.engine())
    }

    /// Replaces the hash of the root key; durable when this returns.
    pub fn keep_root_key(&self, hash: Hash) -> Result<(), CatalogueError> {
        self.write(|tx| drop(tx.set(ROOT_KEY, &hash.0)))
    }

    /// Returns DynamoDB's access key, if it exists.
    pub fn access_key(&self) -> Result<Option<AccessKey>, CatalogueError> {
        let stored = self.read(ACCESS_KEY)?;
        stored
            .map(|bytes| access_key(&bytes).ok_or(CatalogueError::Damaged("DynamoDB's access key")))
            .transpose()
    }

    /// Replaces DynamoDB's access key; durable when this returns.
    pub fn keep_access_key(&self, (name, secret): &AccessKey) -> Result<(), CatalogueError> {
        let text = format!("{name}:{secret}");
        self.write(|tx| drop(tx.set(ACCESS_KEY, text.as_bytes())))
    }
}

/// Parses the row of the root key.
pub fn root_key(bytes: &[u8]) -> Option<Hash> {
    bytes.try_into().ok().map(Hash)
}

/// Parses the row of DynamoDB's access key.
pub fn access_key(bytes: &[u8]) -> Option<AccessKey> {
    let (name, secret) = std::str::from_utf8(bytes).ok()?.split_once(':')?;
    let is_whole = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic());
    (is_whole(name) && is_whole(secret)).then(|| (name.to_owned(), secret.to_owned()))
}
