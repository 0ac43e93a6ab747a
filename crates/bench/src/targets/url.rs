//! `redis[s]://[user:password@]host[:port][/db]`, as redis-cli and the client libraries write it.

use anyhow::{Context, bail};

const DEFAULT_PORT: u16 = 6379;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisUrl {
    pub is_tls: bool,
    /// Empty means the default user.
    pub user: String,
    pub password: Option<String>,
    /// Without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
    pub database: u32,
}

impl RedisUrl {
    pub fn parse(url: &str) -> anyhow::Result<RedisUrl> {
        let (is_tls, location) = match url.split_once("://") {
            Some(("redis", location)) => (false, location),
            Some(("rediss", location)) => (true, location),
            _ => bail!("a target is redis[s]://[user:password@]host:port[/db]"),
        };
        let (authority, path) = location.split_once('/').unwrap_or((location, ""));
        let (credentials, address) = match authority.rsplit_once('@') {
            Some((credentials, address)) => (Some(credentials), address),
            None => (None, authority),
        };
        let (user, password) = match credentials.map(|text| text.split_once(':').unwrap_or(("", text))) {
            Some((user, password)) => (percent_decoded(user)?, Some(percent_decoded(password)?)),
            None => (String::new(), None),
        };
        let (host, port) = split_port(address)?;
        let database = if path.is_empty() {
            0
        } else {
            path.parse().context("the database is a number")?
        };
        Ok(RedisUrl {
            is_tls,
            user,
            password,
            host: host.to_owned(),
            port,
            database,
        })
    }

    pub fn without_credentials(&self) -> String {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        match self.host.contains(':') {
            true => format!("{scheme}://[{}]:{}/{}", self.host, self.port, self.database),
            false => format!("{scheme}://{}:{}/{}", self.host, self.port, self.database),
        }
    }
}

fn split_port(address: &str) -> anyhow::Result<(&str, u16)> {
    let (host, port) = match address.strip_prefix('[') {
        Some(bracketed) => {
            let (host, port) = bracketed.split_once(']').context("an IPv6 host ends with ]")?;
            (host, port.strip_prefix(':'))
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    if host.is_empty() {
        bail!("the host is missing");
    }
    let port = port.map_or(Ok(DEFAULT_PORT), |port| {
        port.parse().context("the port is a number below 65536")
    })?;
    Ok((host, port))
}

fn percent_decoded(text: &str) -> anyhow::Result<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes();
    while let [first, tail @ ..] = bytes {
        bytes = tail;
        if *first != b'%' {
            decoded.push(*first);
            continue;
        }
        let digits = tail
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .context("% needs two digits")?;
        decoded.push(u8::from_str_radix(digits, 16).context("% needs two hexadecimal digits")?);
        bytes = &tail[2..];
    }
    String::from_utf8(decoded).context("credentials are UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, user: &str, password: Option<&str>, host: &str, port: u16, database: u32) {
        let expected = RedisUrl {
            is_tls: url.starts_with("rediss"),
            user: user.to_owned(),
            password: password.map(str::to_owned),
            host: host.to_owned(),
            port,
            database,
        };
        assert_eq!(RedisUrl::parse(url).unwrap(), expected, "{url}");
    }

    #[test]
    fn the_usual_forms_are_understood() {
        check("redis://127.0.0.1:6380", "", None, "127.0.0.1", 6380, 0);
        check("redis://localhost", "", None, "localhost", 6379, 0);
        check("redis://localhost/", "", None, "localhost", 6379, 0);
        check("rediss://localhost/", "", None, "localhost", 6379, 0);
        check("redis://:secret@db.example:1/3", "", Some("secret"), "db.example", 1, 3);
        check("redis://secret@db.example", "", Some("secret"), "db.example", 6379, 0);
        check(
            "redis://me:p%40ss%3A@[::1]:7000/15",
            "me",
            Some("p@ss:"),
            "::1",
            7000,
            15,
        );
    }

    #[test]
    fn others_are_refused() {
        for url in [
            "redisss://host",
            "host:1",
            "redis://",
            "redis://h:x",
            "redis://h/x",
            "redis://%4@h",
            "redis://a:%é@h",
        ] {
            assert!(RedisUrl::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        let url = RedisUrl::parse("redis://me:secret@[::1]:7000/2").unwrap();
        assert_eq!(url.without_credentials(), "redis://[::1]:7000/2");
    }
}
