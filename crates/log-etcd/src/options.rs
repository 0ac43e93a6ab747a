//! Where etcd is, and what is accepted of it.

use std::fmt;
use std::net::IpAddr;

/// How to reach etcd, and what of it to accept.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// `host:port` of the members' client listeners, tried in turn; at least one.
    pub endpoints: Vec<String>,
    /// None: in clear text.
    pub tls: Option<EtcdTls>,
    /// Bytes of records that the log keeps in etcd. Its quota must be four times that at least, as
    /// history and deleted records take room until etcd has compacted.
    pub budget_bytes: u64,
    /// The quota of members before 3.6, which do not report it: what `--quota-backend-bytes` says
    /// there.
    pub quota_bytes: u64,
    /// Accepts a cluster of one member, and so of a single disk.
    pub allow_one_member: bool,
    /// Accepts versions whose linearizable reads may be stale.
    pub allow_stale_reads: bool,
    /// Accepts clear text beyond loopback.
    pub allow_clear_text: bool,
}

/// TLS towards etcd. All are PEM.
#[derive(Clone)]
pub struct EtcdTls {
    /// The authorities that sign the members' certificates.
    pub authorities: String,
    /// The client's certificate and key; `None` if the members require none.
    pub identity: Option<(String, String)>,
    /// The name in the members' certificates, if it differs from the endpoint's.
    pub server_name: Option<String>,
}

/// Text that is no `etcd://HOST:PORT,HOST:PORT/ROOT`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not etcd://HOST:PORT,HOST:PORT/ROOT")]
pub struct NotAnAddress(pub String);

/// etcd's own default quota.
const QUOTA_BYTES: u64 = 2 << 30;
const BUDGET_BYTES: u64 = 256 << 20;

impl EtcdOptions {
    /// The defaults for these endpoints: clear text, a budget of 256 MiB, and nothing out of the
    /// ordinary accepted.
    pub fn new(endpoints: Vec<String>) -> EtcdOptions {
        EtcdOptions {
            endpoints,
            tls: None,
            budget_bytes: BUDGET_BYTES,
            quota_bytes: QUOTA_BYTES,
            allow_one_member: false,
            allow_stale_reads: false,
            allow_clear_text: false,
        }
    }

    /// Reads `etcd://HOST:PORT,HOST:PORT/ROOT`: the endpoints, and the root with its slash.
    pub fn parse(address: &str) -> Result<(EtcdOptions, String), NotAnAddress> {
        let refused = || NotAnAddress(address.to_owned());
        let location = address.strip_prefix("etcd://").ok_or_else(refused)?;
        let (hosts, root) = location.split_once('/').ok_or_else(refused)?;
        let endpoints: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        let is_endpoint = |endpoint: &String| host(endpoint).is_some_and(|host| !host.is_empty());
        if root.is_empty() || !endpoints.iter().all(is_endpoint) {
            return Err(refused());
        }
        Ok((EtcdOptions::new(endpoints), format!("/{root}")))
    }

    /// The first endpoint that clear text would be sent to beyond this machine.
    pub(crate) fn in_the_clear(&self) -> Option<&String> {
        let is_open = self.tls.is_none() && !self.allow_clear_text;
        let mut beyond = self.endpoints.iter().filter(|endpoint| !is_loopback(endpoint));
        beyond.next().filter(|_| is_open)
    }
}

impl fmt::Debug for EtcdTls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("EtcdTls");
        debug.field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// The host of `host:port` or `[v6]:port`.
fn host(endpoint: &str) -> Option<&str> {
    let (host, port) = endpoint.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    Some(bracketed.unwrap_or(host))
}

fn is_loopback(endpoint: &str) -> bool {
    host(endpoint).is_some_and(|host| {
        let address = host.parse::<IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let (options, root) = EtcdOptions::parse("etcd://a:1,[::1]:2/prod/eu").unwrap();
        assert_eq!(
            (options.endpoints, root.as_str()),
            (vec!["a:1".to_owned(), "[::1]:2".to_owned()], "/prod/eu")
        );
        for address in [
            "etcd://a:1",
            "etcd://a:1/",
            "etcd://a/prod",
            "etcd://a:1,/prod",
            "etcd://:1/p",
            "http://a:1/p",
        ] {
            assert_eq!(EtcdOptions::parse(address).unwrap_err().0, address);
        }
    }

    #[test]
    fn clear_text_stays_on_the_machine() {
        let check = |endpoint: &str| EtcdOptions::new(vec![endpoint.to_owned()]).in_the_clear().is_none();
        assert!(check("127.0.0.1:2379") && check("[::1]:2379") && check("localhost:2379"));
        assert!(!check("10.0.0.1:2379") && !check("etcd.example:2379") && !check("localhost.example:2379"));
    }
}
