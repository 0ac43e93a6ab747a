//! Where a listener listens, and which credential its clients show.

use std::net::SocketAddr;

use quartet_layer_redis::access::acl::password_hash;
use quartet_tenancy::AccessKey;

/// The address of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listen {
    #[default]
    Off,
    On(SocketAddr),
}

impl Listen {
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Listen::Off => None,
            Listen::On(address) => Some(address),
        }
    }
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        if text == "off" {
            return Ok(Listen::Off);
        }
        // As people write an address: this machine by its name, or all of its addresses by none.
        let spelled = match text.rsplit_once(':') {
            Some(("localhost", port)) => format!("127.0.0.1:{port}"),
            Some(("", port)) => format!("0.0.0.0:{port}"),
            _ => text.to_owned(),
        };
        let address = spelled.parse().map(Listen::On);
        address.map_err(|_| format!("'{text}' is neither ADDRESS:PORT nor \"off\""))
    }
}

/// An address at which a row of the tables of listeners may listen.
pub struct Listening {
    /// Its name in messages.
    pub name: &'static str,
    pub listen: Listen,
    /// Clients reach data there without a credential.
    pub is_open: bool,
}

/// The credentials that a client has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// `--dev`: nothing, and therefore only on loopback.
    None,
    /// The root key; only its hash is kept.
    Key { sha256: [u8; 32] },
    /// The root key, whose hash is in the data. Opening replaces this by `Key` before its first
    /// use.
    Kept,
}

/// Credentials that were made just now: the person who started the server sees them this once.
#[derive(Default)]
pub struct NewCredentials {
    pub root_key: Option<String>,
    pub access_key: Option<AccessKey>,
}

impl Credentials {
    pub fn of_key(key: &str) -> Credentials {
        Credentials::Key {
            sha256: password_hash(key.as_bytes()),
        }
    }

    /// The hash of the root key; `None` if nothing has to be shown.
    pub fn root_key(&self) -> Option<[u8; 32]> {
        match self {
            Credentials::None => None,
            Credentials::Key { sha256 } => Some(*sha256),
            Credentials::Kept => unreachable!("replaced when the data was opened"),
        }
    }

    /// Returns the address to paste into a Redis client, with a placeholder for the root key.
    pub fn connection_string(&self, scheme: &str, address: SocketAddr) -> String {
        match self {
            Credentials::None => format!("{scheme}://{address}"),
            Credentials::Key { .. } | Credentials::Kept => format!("{scheme}://default:<root key>@{address}"),
        }
    }

    /// The line of a cluster file for clients of FoundationDB, with a placeholder for the root key.
    pub fn cluster_string(&self, address: SocketAddr) -> String {
        match self {
            Credentials::None => format!("quartet:dev@{address}"),
            Credentials::Key { .. } | Credentials::Kept => format!("quartet:<root key>@{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_addresses_or_off() {
        assert_eq!("off".parse(), Ok(Listen::Off));
        assert_eq!("127.0.0.1:0".parse::<Listen>().unwrap().address().unwrap().port(), 0);
        assert!("6379".parse::<Listen>().is_err());
    }
}
