//! Settings of a node of a cluster.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use quartet_layer_redis::Announcement;
use quartet_log_etcd::EtcdOptions;
use quartet_log_replicated::NodeId;
use sha2::{Digest, Sha256};

use crate::settings::{Data, Settings};

/// The certificates by which the nodes of a cluster know each other, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCertificates {
    /// The certificate of the authority that signs the certificates of all nodes.
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Clone, Debug)]
pub struct ClusterSettings {
    pub etcd: EtcdOptions,
    /// The root of the cluster's keys in etcd.
    pub root: String,
    /// The name of this node: its own over restarts, and no other's.
    pub node_name: String,
    /// The address for other nodes.
    pub node_listen: SocketAddr,
    /// The host and port by which they do; `None`: `node_listen`.
    pub node_advertise: Option<String>,
    /// The least number of nodes, running or not. Joined nodes count too, and removed nodes do not.
    pub nodes: usize,
    /// The store for the bytes of large transactions: `s3://BUCKET/PREFIX`, or a folder that all
    /// nodes share; `None`: such transactions are refused.
    pub store: Option<String>,
    /// The place of the home's continuous backup, which counts as a copy of records in etcd:
    /// `s3://BUCKET/PREFIX`, or a folder.
    pub archive: Option<String>,
    /// The archive keeps every version younger than this; `None`: all.
    pub archive_keeps: Option<Duration>,
    /// `None`: in clear text, on loopback.
    pub certificates: Option<NodeCertificates>,
    /// Accepts a cluster of fewer than two nodes, of which the only one has all copies.
    pub allow_one_node: bool,
}

impl ClusterSettings {
    /// Refuses what would be unsafe or could not work.
    pub fn check(&self, settings: &Settings) -> Result<()> {
        ensure!(
            self.certificates.is_some() || self.node_listen.ip().is_loopback(),
            "node-listen: refusing to talk to other nodes on {} in clear text: give cluster-ca, cluster-certificate and cluster-key",
            self.node_listen
        );
        ensure!(
            self.node_advertise.is_some() || !self.node_listen.ip().is_unspecified(),
            "node-advertise: other nodes cannot reach {}",
            self.node_listen
        );
        ensure!(
            self.nodes >= 2 || self.allow_one_node,
            "cluster-nodes: one node has the only copy of what etcd has dropped: use two or more"
        );
        ensure!(
            self.archive_keeps.is_none() || self.archive.is_some(),
            "cluster-archive-days: there is no cluster-archive"
        );
        ensure!(
            settings.storage.data != Data::Memory,
            "data: a node of a cluster keeps its log in a folder"
        );
        ensure!(
            settings.redis.users_file.is_none(),
            "redis-users-file: the users of a cluster are in its data, where every node has them"
        );
        Ok(())
    }

    /// Those of node `name` in a test.
    #[cfg(test)]
    pub fn for_test(name: &str) -> ClusterSettings {
        ClusterSettings {
            etcd: EtcdOptions::new(vec!["127.0.0.1:2379".to_owned()]),
            root: "/test".to_owned(),
            node_name: name.to_owned(),
            node_listen: "127.0.0.1:7000".parse().expect("an address"),
            node_advertise: None,
            nodes: 3,
            store: None,
            archive: None,
            archive_keeps: None,
            certificates: None,
            allow_one_node: false,
        }
    }

    pub fn node(&self) -> NodeId {
        node_id(&self.node_name)
    }

    pub fn address(&self) -> String {
        let listen = || self.node_listen.to_string();
        self.node_advertise.clone().unwrap_or_else(listen)
    }

    /// The address for clients of the listener that is bound to `bound`. A listener on all
    /// addresses is reached at the host that other nodes know.
    pub fn reached_at(&self, bound: &str, announcement: &Announcement) -> String {
        let Ok(bound) = bound.parse::<SocketAddr>() else {
            return bound.to_owned();
        };
        let host = announcement.host.clone().unwrap_or_else(|| match bound.ip() {
            ip if ip.is_unspecified() => split(&self.address()).map_or_else(|| ip.to_string(), |(host, _)| host),
            ip => ip.to_string(),
        });
        joined(&host, announcement.port.unwrap_or(bound.port()))
    }
}

/// HOST:PORT out of its two parts.
pub fn joined(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// The two parts of HOST:PORT.
pub fn split(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some((host.to_owned(), port.parse().ok()?))
}

/// The number of the node of this name.
pub fn node_id(name: &str) -> NodeId {
    let hash = Sha256::digest(name);
    let (first, _) = hash.split_first_chunk().expect("a hash has 32 bytes");
    NodeId(u64::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(change: impl FnOnce(&mut ClusterSettings, &mut Settings)) -> Option<String> {
        let mut cluster = ClusterSettings::for_test("a");
        let mut settings = Settings::for_test();
        settings.storage.data = Data::Folder("data".into());
        change(&mut cluster, &mut settings);
        cluster.check(&settings).err().map(|error| error.to_string())
    }

    #[test]
    fn clients_are_given_an_address_that_they_reach() {
        checked(|cluster, _| {
            let reached = |cluster: &ClusterSettings, bound: &str, host: Option<&str>, port| {
                let host = host.map(str::to_owned);
                cluster.reached_at(bound, &Announcement { host, port })
            };
            assert_eq!(reached(cluster, "10.0.0.1:6379", None, None), "10.0.0.1:6379");
            assert_eq!(reached(cluster, "0.0.0.0:6379", None, None), "127.0.0.1:6379");
            assert_eq!(
                reached(cluster, "10.0.0.1:6379", Some("redis.example"), Some(1)),
                "redis.example:1"
            );
            assert_eq!(reached(cluster, "[::1]:6379", None, None), "[::1]:6379");
            cluster.node_advertise = Some("[fd00::1]:7000".to_owned());
            assert_eq!(reached(cluster, "[::]:6379", None, None), "[fd00::1]:6379");
        });
    }

    #[test]
    fn unsafe_settings_are_refused_by_name() {
        assert_eq!(checked(|_, _| {}), None);
        let refused = |option: &str, error: Option<String>| assert!(error.unwrap().starts_with(option), "{option}");
        let beyond = "10.0.0.1:7000".parse().unwrap();
        refused("node-listen", checked(|cluster, _| cluster.node_listen = beyond));
        refused("cluster-nodes", checked(|cluster, _| cluster.nodes = 1));
        let days = Some(Duration::from_hours(24));
        refused(
            "cluster-archive-days",
            checked(|cluster, _| cluster.archive_keeps = days),
        );
        refused("data", checked(|_, settings| settings.storage.data = Data::Memory));
        let users = Some("users".into());
        refused(
            "redis-users-file",
            checked(|_, settings| settings.redis.users_file = users),
        );
        // Clients hear the address at which the other nodes know of this one.
        assert_eq!(checked(|_, settings| settings.redis.emulates_cluster = true), None);
        let anywhere = "0.0.0.0:7000".parse().unwrap();
        let with_certificates = |cluster: &mut ClusterSettings| {
            let [authority, certificate, key] = ["ca", "certificate", "key"].map(Into::into);
            cluster.certificates = Some(NodeCertificates {
                authority,
                certificate,
                key,
            });
            cluster.node_listen = anywhere;
        };
        refused("node-advertise", checked(|cluster, _| with_certificates(cluster)));
        let message = checked(|cluster, _| {
            with_certificates(cluster);
            cluster.node_advertise = Some("a.example:7000".to_owned());
        });
        assert_eq!(message, None);
    }
}
