//! The cluster file in the data directory, where clients of FoundationDB find the address of this
//! server: one line, `quartet:CREDENTIAL@HOST:PORT`; a root key with other characters than letters,
//! digits and `_` is in hexadecimal digits.
//!
//! The root key is known only when it is created, so the file is written then, readable only to its
//! owner, and keeps its credential when the address changes.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use quartet_server::carried_credential;
use quartet_server::credentials::file;

const FILE: &str = "fdb.cluster";
/// With `--dev` any credential will do, and a cluster file needs one.
const DEVELOPMENT_CREDENTIAL: &str = "dev";

/// The path at which a server with the data directory `data` writes it.
pub fn path(data: impl AsRef<Path>) -> PathBuf {
    data.as_ref().join(FILE)
}

/// Writes the file, unless neither a new nor an old credential is known.
pub fn write(data: &Path, address: SocketAddr, new_key: Option<&str>, is_dev: bool) -> Result<()> {
    let path = path(data);
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let credential = match (is_dev, new_key) {
        (true, _) => Some(DEVELOPMENT_CREDENTIAL.into()),
        (false, Some(key)) => Some(carried_credential(key)),
        (false, None) => credential_of(&before)
            .filter(|credential| *credential != DEVELOPMENT_CREDENTIAL)
            .map(Cow::from),
    };
    let Some(credential) = credential else {
        return Ok(());
    };
    let line = format!("quartet:{credential}@{}\n", reachable(address));
    if line == before {
        return Ok(());
    }
    file::replace(&path, &line).with_context(|| format!("writing {}", path.display()))
}

fn credential_of(line: &str) -> Option<&str> {
    let (_, location) = line.trim().split_once(':')?;
    Some(location.split_once('@')?.0)
}

/// The address that a client on this machine connects to.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_credential_survives_a_new_address() {
        let data = tempfile::tempdir().unwrap();
        let text = || std::fs::read_to_string(data.path().join(FILE)).unwrap();
        let address = |text: &str| text.parse().unwrap();
        write(data.path(), address("0.0.0.0:4500"), None, false).unwrap();
        assert!(!data.path().join(FILE).exists());
        write(data.path(), address("0.0.0.0:4500"), Some("qk_1"), false).unwrap();
        assert_eq!(text(), "quartet:qk_1@127.0.0.1:4500\n");
        write(data.path(), address("127.0.0.1:4501"), None, false).unwrap();
        assert_eq!(text(), "quartet:qk_1@127.0.0.1:4501\n");
        // A key that no client could read as it is.
        write(data.path(), address("127.0.0.1:4502"), Some("a @"), false).unwrap();
        assert_eq!(text(), "quartet:hex_612040@127.0.0.1:4502\n");
        write(data.path(), address("127.0.0.1:4501"), None, false).unwrap();
        assert_eq!(text(), "quartet:hex_612040@127.0.0.1:4501\n");
        write(data.path(), address("127.0.0.1:4501"), None, true).unwrap();
        assert_eq!(text(), "quartet:dev@127.0.0.1:4501\n");
    }
}
