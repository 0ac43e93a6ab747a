//! The root key and DynamoDB's access key where no option gives them: rows of the data, made and
//! shown once at the first start.
//!
//! A file of either in the data folder takes effect at the next start, which replaces the row by
//! the content of the file, and removes the file. So recovery from a lost key needs only the folder
//! (`quartet admin reset-key`), and no running server.

pub mod file;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use quartet_layer_redis::access::acl::password_hash;
use quartet_tenancy::{AccessKey, Catalogue, Hash, access_key};

use crate::connections::tls::TlsFiles;
use crate::process::system::random_hexadecimal;
use crate::settings::{AccessKeys, Credentials, Listen, NewCredentials, RestTokens, Settings};

const ROOT_KEY_FILE: &str = "root-key.sha256";
const ACCESS_KEY_FILE: &str = "dynamodb-access-key";

/// Replaces `Kept` in the settings by the credentials that the data hold, which are made if there
/// are none.
pub fn settle(settings: &mut Settings, catalogue: &Catalogue) -> Result<NewCredentials> {
    let folder = settings.storage.data.folder().map(Path::to_owned);
    let folder = folder.as_deref();
    let mut new = NewCredentials::default();
    if settings.credentials == Credentials::Kept {
        let (hash, key) = root_key(folder, catalogue)?;
        settings.credentials = Credentials::Key { sha256: hash.0 };
        new.root_key = key;
    }
    if settings.dynamodb.access_keys == AccessKeys::Kept {
        let (key, is_new) = dynamodb_key(folder, catalogue)?;
        settings.dynamodb.access_keys = AccessKeys::Given(vec![key.clone()]);
        new.access_key = is_new.then_some(key);
    }
    Ok(new)
}

/// The same at a node that is not home, which makes none. False: the data have none yet.
pub fn settle_replica(settings: &mut Settings, catalogue: &Catalogue) -> Result<bool> {
    if settings.credentials == Credentials::Kept {
        let Some(hash) = catalogue.root_key()? else {
            return Ok(false);
        };
        settings.credentials = Credentials::Key { sha256: hash.0 };
    }
    if settings.dynamodb.access_keys == AccessKeys::Kept {
        let Some(key) = catalogue.access_key()? else {
            return Ok(false);
        };
        settings.dynamodb.access_keys = AccessKeys::Given(vec![key]);
    }
    Ok(true)
}

/// The settings with unknown credentials, for a service without a default database.
pub fn without_default(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    let sha256 = password_hash(random_root_key().as_bytes());
    settings.credentials = Credentials::Key { sha256 };
    settings.dynamodb.access_keys = AccessKeys::Given(vec![random_access_key()]);
    settings.http.rest_tokens = RestTokens::default();
    settings.redis.users_file = None;
    // Forwarded clients are already out of TLS.
    settings.connections.tls = TlsFiles::default();
    settings.redis.listen_tls = Listen::Off;
    settings.telemetry = None;
    settings
}

/// The hash of the root key, and the key itself if it was made just now.
fn root_key(folder: Option<&Path>, catalogue: &Catalogue) -> Result<(Hash, Option<String>)> {
    take_in(folder, ROOT_KEY_FILE, Hash::parse, |hash| {
        catalogue.keep_root_key(*hash)
    })?;
    if let Some(hash) = catalogue.root_key().context(RESET)? {
        return Ok((hash, None));
    }
    let key = random_root_key();
    let hash = Hash(password_hash(key.as_bytes()));
    catalogue.keep_root_key(hash)?;
    Ok((hash, Some(key)))
}

/// DynamoDB's access key, and whether it was made just now.
fn dynamodb_key(folder: Option<&Path>, catalogue: &Catalogue) -> Result<(AccessKey, bool)> {
    let parse = |text: &str| access_key(text.as_bytes());
    take_in(folder, ACCESS_KEY_FILE, parse, |key| catalogue.keep_access_key(key))?;
    if let Some(key) = catalogue.access_key().context(RESET)? {
        return Ok((key, false));
    }
    let key = random_access_key();
    catalogue.keep_access_key(&key)?;
    Ok((key, true))
}

/// Gives `keep` what a file that was handed in says, and removes the file once that is durable.
fn take_in<T, E: std::error::Error + Send + Sync + 'static>(
    folder: Option<&Path>,
    name: &str,
    parse: impl Fn(&str) -> Option<T>,
    keep: impl FnOnce(&T) -> Result<(), E>,
) -> Result<()> {
    let Some(path) = folder.map(|folder| folder.join(name)) else {
        return Ok(());
    };
    let Some(text) = file::read(&path)? else {
        return Ok(());
    };
    let handed_in = parse(&text).ok_or_else(|| file::damaged(&path))?;
    keep(&handed_in).with_context(|| format!("taking in {}", path.display()))?;
    fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))
}

/// Generates a root key that takes effect at the next start of a server on this folder.
pub fn hand_in_root_key(folder: &Path) -> Result<String> {
    let key = random_root_key();
    let hash = Hash(password_hash(key.as_bytes()));
    file::write(&folder.join(ROOT_KEY_FILE), &hash.to_string())?;
    Ok(key)
}

/// Generates an access key of DynamoDB that takes effect at the next start of a server on this
/// folder.
pub fn hand_in_access_key(folder: &Path) -> Result<AccessKey> {
    let (name, secret) = random_access_key();
    file::write(&folder.join(ACCESS_KEY_FILE), &format!("{name}:{secret}"))?;
    Ok((name, secret))
}

/// 192 random bits.
fn random_root_key() -> String {
    format!("qk_{}", random_hexadecimal(48))
}

fn random_access_key() -> AccessKey {
    let name = format!("QK{}", random_hexadecimal(18).to_ascii_uppercase());
    (name, random_hexadecimal(48))
}

const RESET: &str = "`quartet admin reset-key` makes another";

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quartet_engine::{Engine, EngineOptions};
    use quartet_env::{MemoryDisk, SystemClock};
    use quartet_tenancy::Partitions;

    use super::*;
    use crate::settings::Data;

    fn catalogue() -> Catalogue {
        let disk = Arc::new(MemoryDisk::new(1 << 30));
        let ended = Box::new(|_: &_| {});
        let engine = Engine::open(
            disk,
            Arc::new(SystemClock),
            EngineOptions::default(),
            ended,
            &mut |_| {},
        );
        let partitions = Partitions::new(vec![Arc::new(engine.unwrap())]);
        Catalogue::open(Arc::new(partitions), Box::new(|_| {})).unwrap()
    }

    fn kept(folder: &Path) -> Settings {
        let mut settings = Settings::for_test();
        settings.storage.data = Data::Folder(folder.to_owned());
        settings.credentials = Credentials::Kept;
        settings.dynamodb.access_keys = AccessKeys::Kept;
        settings
    }

    fn settled(folder: &Path, catalogue: &Catalogue) -> (Settings, NewCredentials) {
        let mut settings = kept(folder);
        let new = settle(&mut settings, catalogue).unwrap();
        (settings, new)
    }

    fn opens(settings: &Settings, key: &str) -> bool {
        let sha256 = password_hash(key.as_bytes());
        settings.credentials == Credentials::Key { sha256 }
    }

    #[test]
    fn keys_are_made_and_shown_once() {
        let (folder, catalogue) = (tempfile::tempdir().unwrap(), catalogue());
        let (first, keys) = settled(folder.path(), &catalogue);
        assert!(opens(&first, &keys.root_key.unwrap()));
        assert_eq!(first.dynamodb.access_keys.known(), [keys.access_key.unwrap()]);
        let (second, keys) = settled(folder.path(), &catalogue);
        assert!(keys.root_key.is_none() && keys.access_key.is_none());
        assert_eq!(
            (&second.credentials, &second.dynamodb.access_keys),
            (&first.credentials, &first.dynamodb.access_keys)
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_key_that_is_handed_in_replaces_the_one_before() {
        let (folder, catalogue) = (tempfile::tempdir().unwrap(), catalogue());
        settled(folder.path(), &catalogue);
        let root_key = hand_in_root_key(folder.path()).unwrap();
        let access_key = hand_in_access_key(folder.path()).unwrap();
        for _ in 0..2 {
            let (settings, keys) = settled(folder.path(), &catalogue);
            assert!(opens(&settings, &root_key));
            assert_eq!(settings.dynamodb.access_keys.known(), std::slice::from_ref(&access_key));
            assert!(keys.root_key.is_none() && keys.access_key.is_none());
        }
    }

    #[test]
    fn a_damaged_file_is_refused_and_changes_nothing() {
        let (folder, catalogue) = (tempfile::tempdir().unwrap(), catalogue());
        let (before, _) = settled(folder.path(), &catalogue);
        let refused = |name: &str, line: &str| {
            let path = folder.path().join(name);
            fs::write(&path, line).unwrap();
            let error = settle(&mut kept(folder.path()), &catalogue).err();
            fs::remove_file(&path).unwrap();
            error.is_some_and(|error| error.to_string().contains("is damaged"))
        };
        let hash = Hash([7; 32]).to_string();
        assert!(refused(ROOT_KEY_FILE, &hash), "no checksum");
        assert!(refused(ACCESS_KEY_FILE, "QKA1:b2 crc32=00000000"), "another checksum");
        for no_key in ["QKA1", "QKA1:", "QK\u{1}:b2"] {
            file::write(&folder.path().join("text"), no_key).unwrap();
            let line = fs::read_to_string(folder.path().join("text")).unwrap();
            assert!(refused(ACCESS_KEY_FILE, &line), "{no_key}");
        }
        fs::remove_file(folder.path().join("text")).unwrap();
        let (after, _) = settled(folder.path(), &catalogue);
        assert_eq!(before.credentials, after.credentials);
    }
}
