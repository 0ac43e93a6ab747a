//! The cluster file: one line, `description:credential@host:port[,host:port...][:tls]`, and comment
//! lines with a leading `#`.
//!
//! FoundationDB's id of the cluster is the credential of a logical database here.

use std::path::{Path, PathBuf};

use quartet_wire_keyvalue::ErrorCode;

const DEFAULT_FILES: [&str; 2] = ["fdb.cluster", "/etc/foundationdb/fdb.cluster"];
/// The suffix of every address or of none.
const TLS_SUFFIX: &str = ":tls";
const VARIABLE: &str = "FDB_CLUSTER_FILE";

/// The server's address, and the credential for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The path of the file, if it was read from one.
    pub path: Option<PathBuf>,
    /// The line itself.
    pub connection_string: String,
    /// The credential of the logical database: the part between `:` and `@`.
    pub credential: String,
    /// `host:port` of each server, in the order to try them.
    pub addresses: Vec<String>,
    /// The servers speak TLS.
    pub tls: bool,
}

impl Cluster {
    /// Reads the file at `path`; without a path the file named by the environment, or the first of
    /// the default places.
    pub fn read(path: Option<&Path>) -> Result<Cluster, ErrorCode> {
        let path = match path {
            Some(path) => path.to_path_buf(),
            None => usual_path().ok_or(ErrorCode::NO_CLUSTER_FILE)?,
        };
        let text = std::fs::read_to_string(&path).map_err(|_| ErrorCode::NO_CLUSTER_FILE)?;
        Ok(Cluster {
            path: Some(path),
            ..Cluster::parse(&text)?
        })
    }

    /// Parses the text of a cluster file. Errors: `CONNECTION_STRING_INVALID`.
    pub fn parse(text: &str) -> Result<Cluster, ErrorCode> {
        let mut lines = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim())
            .filter(|line| !line.is_empty());
        let (Some(line), None) = (lines.next(), lines.next()) else {
            return Err(ErrorCode::CONNECTION_STRING_INVALID);
        };
        parse_line(line).ok_or(ErrorCode::CONNECTION_STRING_INVALID)
    }
}

fn usual_path() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    DEFAULT_FILES.iter().map(PathBuf::from).find(|path| path.exists())
}

fn parse_line(line: &str) -> Option<Cluster> {
    let (names, addresses) = line.split_once('@')?;
    let (description, credential) = names.split_once(':')?;
    let is_word =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_word(description) || !is_word(credential) {
        return None;
    }
    let addresses: Vec<&str> = addresses.split(',').collect();
    let tls = addresses.iter().all(|address| address.ends_with(TLS_SUFFIX));
    let addresses = addresses.iter().map(|address| match tls {
        true => parse_address(address.strip_suffix(TLS_SUFFIX)?),
        false => parse_address(address),
    });
    Some(Cluster {
        path: None,
        connection_string: line.to_owned(),
        credential: credential.to_owned(),
        addresses: addresses.collect::<Option<_>>()?,
        tls,
    })
}

/// Parses `host:port`, with an IPv6 address in brackets.
fn parse_address(text: &str) -> Option<String> {
    let (host, port) = text.rsplit_once(':')?;
    port.parse::<u16>().ok()?;
    let is_ipv6 = host.starts_with('[') && host.ends_with(']');
    let is_host = !host.is_empty() && !host.contains(':');
    (is_ipv6 || is_host).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_credential_and_addresses() {
        let cluster = Cluster::parse("# a comment\nquartet:qk_1@127.0.0.1:4500,[::1]:4501\n").unwrap();
        assert_eq!(cluster.credential, "qk_1");
        assert_eq!(cluster.addresses, ["127.0.0.1:4500", "[::1]:4501"]);
        assert!(!cluster.tls);
        let cluster = Cluster::parse("quartet:qk_1@127.0.0.1:4500:tls,[::1]:4501:tls").unwrap();
        assert_eq!(cluster.addresses, ["127.0.0.1:4500", "[::1]:4501"]);
        assert!(cluster.tls);
    }

    #[test]
    fn other_lines_are_refused() {
        for text in [
            "",
            "#only a comment",
            "a@1.2.3.4:5",
            "a:b",
            "a:b@host",
            "a:b@host:x",
            "a-b:c@1.2.3.4:5",
            "a:b@1.2.3.4:5\na:b@1.2.3.4:5",
            "a:b@1.2.3.4:5:tls,1.2.3.4:6",
        ] {
            assert_eq!(
                Cluster::parse(text),
                Err(ErrorCode::CONNECTION_STRING_INVALID),
                "{text}"
            );
        }
    }
}
