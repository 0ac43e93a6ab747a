//! Fetches the keys of FaunaDB's access providers.
//!
//! A user who may define an access provider names an address that this server contacts. So only
//! HTTPS, no redirects, a few seconds, a few kilobytes; and no address of this machine or of a
//! private network, unless the operator has configured the certificates of private issuers.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use quartet_layer_fauna::Fetch;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error};

const TIMEOUT: Duration = Duration::from_secs(5);
const KEY_SET_BYTES_MAX: u64 = 256 << 10;

/// How to fetch; `roots` are trusted instead of the public certificates, and may be anywhere.
pub fn fetch(roots: Option<&Path>) -> Result<Fetch> {
    let root_certificates = match roots {
        None => RootCerts::WebPki,
        Some(path) => certificates(path)?,
    };
    let tls = TlsConfig::builder().root_certs(root_certificates).build();
    let config = Agent::config_builder()
        .https_only(true)
        .max_redirects(0)
        .proxy(None)
        .timeout_global(Some(TIMEOUT))
        .tls_config(tls)
        .build();
    let resolver = Addresses {
        resolver: DefaultResolver::default(),
        private: roots.is_some(),
    };
    let agent = Agent::with_parts(config, DefaultConnector::default(), resolver);
    Ok(Box::new(move |uri| {
        let fetched = fetch_one(&agent, uri);
        if let Err(reason) = &fetched {
            tracing::warn!(uri, reason, "cannot fetch the keys of an access provider");
        }
        fetched
    }))
}

fn certificates(path: &Path) -> Result<RootCerts> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let items = ureq::tls::parse_pem(&bytes).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    });
    let certificates: Vec<Certificate<'static>> = items
        .collect::<Result<_, _>>()
        .with_context(|| format!("in {}", path.display()))?;
    if certificates.is_empty() {
        bail!("{} holds no certificate", path.display());
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

fn fetch_one(agent: &Agent, uri: &str) -> Result<Vec<u8>, String> {
    let reason = |error: &dyn std::fmt::Display| error.to_string();
    let response = agent
        .get(uri)
        .header("accept", "application/json")
        .call()
        .map_err(|error| reason(&error))?;
    if response.status() != 200 {
        return Err(format!("status {}", response.status()));
    }
    let mut bytes = Vec::new();
    let mut body = response.into_body().into_reader().take(KEY_SET_BYTES_MAX + 1);
    body.read_to_end(&mut bytes).map_err(|error| reason(&error))?;
    match bytes.len() as u64 > KEY_SET_BYTES_MAX {
        true => Err("the key set is too large".into()),
        false => Ok(bytes),
    }
}

/// Resolves names, and removes internal addresses.
#[derive(Debug)]
struct Addresses {
    resolver: DefaultResolver,
    private: bool,
}

impl Resolver for Addresses {
    fn resolve(&self, uri: &Uri, config: &Config, timeout: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        let resolved = self.resolver.resolve(uri, config, timeout)?;
        let mut allowed = self.empty();
        for address in resolved.iter() {
            if self.private || is_public(address.ip()) {
                allowed.push(*address);
            }
        }
        match allowed.is_empty() {
            true => Err(Error::HostNotFound),
            false => Ok(allowed),
        }
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    let shared = first == 100 && (64..128).contains(&second);
    let special = first == 0 || first >= 240 || (first, second) == (198, 18) || (first, second) == (198, 19);
    !(address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || shared
        || special)
}

/// Global unicast, and not a way to write an address of the older kind.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let is_global = segments[0] & 0xe000 == 0x2000;
    let leads_elsewhere = segments[0] == 0x2002 || (segments[0] == 0x2001 && segments[1] < 0x200);
    is_global && !leads_elsewhere
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_nobodys_business() {
        let public = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111"];
        let private = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "198.18.0.1",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "fe80::1",
            "fd00::1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "ff02::1",
        ];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
        for address in private {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn nothing_is_fetched_from_this_machine_or_in_clear_text() {
        let fetch = fetch(None).unwrap();
        assert!(fetch("https://127.0.0.1:1/keys").is_err_and(|reason| reason.contains("host not found")));
        assert!(fetch("http://example.com/keys").is_err());
        assert!(fetch("no address").is_err());
    }
}
