//! A server's address and credential: `redis://[USER[:PASSWORD]@]HOST[:PORT]`, or `rediss://` for
//! TLS.

use std::path::PathBuf;
use std::str::FromStr;

use crate::tls::Tls;

pub const PORT: u16 = 6379;

#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
    pub user: Option<String>,
    pub password: Option<String>,
    /// How it is spoken to, if not in clear text.
    pub tls: Option<Tls>,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let (authority, tls) = match (text.strip_prefix("redis://"), text.strip_prefix("rediss://")) {
            (Some(authority), _) => (authority, None),
            (None, Some(authority)) => (authority, Some(Tls::default())),
            (None, None) => return Err("an address is redis:// or rediss://[USER:PASSWORD@]HOST[:PORT]".into()),
        };
        let authority = authority.trim_end_matches('/');
        let (credential, place) = authority
            .rsplit_once('@')
            .map_or((None, authority), |(credential, right)| (Some(credential), right));
        let (user, password) = match credential.map(|credential| (credential, credential.split_once(':'))) {
            None => (None, None),
            // A single word is a password, as redis-cli has it for tokens without a user.
            Some((word, None)) => (None, Some(decoded(word)?)),
            Some((_, Some((user, password)))) => (
                Some(decoded(user)?).filter(|user| !user.is_empty()),
                Some(decoded(password)?).filter(|password| !password.is_empty()),
            ),
        };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| format!("'{port}' is no port"))?)
            }
            _ => (place, PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains('/') {
            return Err("the address names no host, or a database, which the source decides".into());
        }
        Ok(Address {
            host: host.into(),
            port,
            user,
            password,
            tls,
        })
    }
}

impl Address {
    /// Trusts these roots and no others, if the address is one of TLS.
    pub fn trust(&mut self, roots: Option<PathBuf>) {
        if let Some(tls) = &mut self.tls {
            tls.roots = roots;
        }
    }
}

/// Replaces %41 by A.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut remaining = text.bytes();
    while let Some(byte) = remaining.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'%' => match (digit(remaining.next()), digit(remaining.next())) {
                (Some(high), Some(low)) => (high << 4 | low) as u8,
                _ => return Err("two hexadecimal digits must follow % in a credential".into()),
            },
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| "a credential is UTF-8".into())
}

/// Without the password.
impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        let host = &self.host;
        match host.contains(':') {
            true => write!(formatter, "{scheme}://[{host}]:{}", self.port),
            false => write!(formatter, "{scheme}://{host}:{}", self.port),
        }
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_never_show_a_password() {
        let check = |text: &str, host: &str, port: u16, user: Option<&str>, password: Option<&str>| {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.host.as_str(), address.port), (host, port), "{text}");
            assert_eq!(
                (address.user.as_deref(), address.password.as_deref()),
                (user, password),
                "{text}"
            );
            assert!(!format!("{address} {address:?}").contains('@'));
            assert_eq!(address.tls.is_some(), text.starts_with("rediss"));
            assert_eq!(address.to_string().parse::<Address>().unwrap().host, host);
        };
        check("redis://h", "h", 6379, None, None);
        check("rediss://me:p@h:7001", "h", 7001, Some("me"), Some("p"));
        check("redis://h:7000/", "h", 7000, None, None);
        check("redis://secret@h", "h", 6379, None, Some("secret"));
        check("redis://me:@h", "h", 6379, Some("me"), None);
        check("redis://:secret@h:1", "h", 1, None, Some("secret"));
        check("redis://me:a%40b%3a@[::1]:1", "::1", 1, Some("me"), Some("a@b:"));
        check("redis://me:p@[::1]", "::1", 6379, Some("me"), Some("p"));
        for text in [
            "h:1",
            "tls://h",
            "redis://",
            "redis://h:x",
            "redis://h/3",
            "redis://%4@h",
            "redis://:secret@h/3",
        ] {
            let refused = text.parse::<Address>().unwrap_err();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
