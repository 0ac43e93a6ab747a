//! Where a server is, and with which credential: `redis://[USER[:PASSWORD]@]HOST[:PORT]`.

use std::str::FromStr;

pub const PORT: u16 = 6379;

#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub host: String,
    pub port: u16,
    pub user: Option<String>,
    pub password: Option<String>,
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let rest = text
            .strip_prefix("redis://")
            .ok_or_else(|| format!("'{text}' is not redis://[USER:PASSWORD@]HOST[:PORT]; TLS is not spoken here"))?;
        let rest = rest.trim_end_matches('/');
        let (credential, place) = rest
            .rsplit_once('@')
            .map_or((None, rest), |(left, right)| (Some(left), right));
        let (user, password) = match credential.map(|credential| credential.split_once(':').unwrap_or((credential, "")))
        {
            None => (None, None),
            // A single word is a password, as redis-cli has it for tokens without a user.
            Some((word, "")) => (None, Some(decoded(word)?)),
            Some((user, password)) => (
                Some(decoded(user)?).filter(|user| !user.is_empty()),
                Some(decoded(password)?),
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
            return Err(format!("'{text}' names no host; databases are told by the source"));
        }
        Ok(Address {
            host: host.into(),
            port,
            user,
            password,
        })
    }
}

/// Replaces %41 by A.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => (high << 4 | low) as u8,
                _ => return Err("two hexadecimal digits belong behind % in a credential".into()),
            },
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| "a credential is UTF-8".into())
}

/// Without the password.
impl std::fmt::Display for Address {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "redis://{}:{}", self.host, self.port)
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
        };
        check("redis://h", "h", 6379, None, None);
        check("redis://h:7000/", "h", 7000, None, None);
        check("redis://secret@h", "h", 6379, None, Some("secret"));
        check("redis://:secret@h:1", "h", 1, None, Some("secret"));
        check("redis://me:a%40b%3a@[::1]:1", "::1", 1, Some("me"), Some("a@b:"));
        check("redis://me:p@[::1]", "::1", 6379, Some("me"), Some("p"));
        for text in [
            "h:1",
            "rediss://h",
            "redis://",
            "redis://h:x",
            "redis://h/3",
            "redis://%4@h",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
