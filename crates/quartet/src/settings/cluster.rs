//! Options of a node of a cluster: `--log etcd://...` and what belongs to it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use quartet_server::{ClusterSettings, EtcdOptions, EtcdTls, NodeCertificates};
use serde::{Deserialize, Serialize};

use super::values::{absolute, absolute_place};

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct ClusterOptions {
    /// Name of this node: its own over restarts, and no other's [default: the machine's host name]
    #[arg(long, env = "QUARTET_NODE_NAME")]
    node_name: Option<String>,
    /// Address at which other nodes reach this one [default: 127.0.0.1:7000]
    #[arg(long, env = "QUARTET_NODE_LISTEN")]
    node_listen: Option<String>,
    /// HOST:PORT at which other nodes reach this node [default: node-listen]
    #[arg(long, env = "QUARTET_NODE_ADVERTISE")]
    node_advertise: Option<String>,
    /// How many nodes there are at least, whether they run or not: etcd drops what a majority of
    /// them has. Nodes that join later count too; a node that has left permanently is removed with
    /// `quartet cluster remove` [default: 3]
    #[arg(long, env = "QUARTET_CLUSTER_NODES")]
    cluster_nodes: Option<usize>,
    /// Store for the bytes of transactions of more than 4 MiB, while etcd has their records:
    /// s3://BUCKET/PREFIX, or a folder that all nodes share. The same at every node [default: none,
    /// such transactions are refused]
    #[arg(long, env = "QUARTET_CLUSTER_STORE")]
    cluster_store: Option<String>,
    /// Store for the home's continuous backup, s3://BUCKET/PREFIX or a folder: a record in it
    /// counts as stored by a majority of the nodes, so etcd may drop it [default: none]
    #[arg(long, env = "QUARTET_CLUSTER_ARCHIVE")]
    cluster_archive: Option<String>,
    /// The archive keeps every version younger than this number of days: all rows are taken again
    /// once a day, and files that only older versions need are removed [default: nothing is
    /// removed]
    #[arg(long, env = "QUARTET_CLUSTER_ARCHIVE_DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    cluster_archive_days: Option<u32>,
    /// PEM file: the authority that signs the certificates of all nodes
    #[arg(long, env = "QUARTET_CLUSTER_CA")]
    cluster_ca: Option<PathBuf>,
    /// PEM file: this node's certificate
    #[arg(long, env = "QUARTET_CLUSTER_CERTIFICATE")]
    cluster_certificate: Option<PathBuf>,
    /// PEM file: the key of that certificate
    #[arg(long, env = "QUARTET_CLUSTER_KEY")]
    cluster_key: Option<PathBuf>,
    /// PEM file: the authority that signs the certificates of etcd's members; they are spoken to in
    /// TLS then
    #[arg(long, env = "QUARTET_ETCD_CA")]
    etcd_ca: Option<PathBuf>,
    /// PEM file: the certificate that this node shows to etcd
    #[arg(long, env = "QUARTET_ETCD_CERTIFICATE")]
    etcd_certificate: Option<PathBuf>,
    /// PEM file: the key of that certificate
    #[arg(long, env = "QUARTET_ETCD_KEY")]
    etcd_key: Option<PathBuf>,
    /// Bytes of records that the log keeps in etcd, at most [default: 268435456]
    #[arg(long, env = "QUARTET_ETCD_BUDGET_BYTES")]
    etcd_budget_bytes: Option<u64>,
    /// Value of --quota-backend-bytes of etcd's members before 3.6 [default: 2147483648]
    #[arg(long, env = "QUARTET_ETCD_QUOTA_BYTES")]
    etcd_quota_bytes: Option<u64>,
    /// Accepts an etcd of one member: its disk is the only copy of the newest records
    #[arg(long, env = "QUARTET_ETCD_ALLOW_ONE_MEMBER")]
    etcd_allow_one_member: bool,
    /// Accepts an etcd before 3.4.42, 3.5.28 and 3.6.9, which may answer a read with what was true
    /// before: so may this node
    #[arg(long, env = "QUARTET_ETCD_ALLOW_STALE_READS")]
    etcd_allow_stale_reads: bool,
    /// Accepts clear text to an etcd beyond this machine
    #[arg(long, env = "QUARTET_ETCD_ALLOW_CLEAR_TEXT")]
    etcd_allow_clear_text: bool,
    /// Accepts a cluster of one node
    #[arg(long, env = "QUARTET_CLUSTER_ALLOW_ONE_NODE")]
    cluster_allow_one_node: bool,
}

fn days(count: u32) -> Duration {
    Duration::from_hours(24) * count
}

impl ClusterOptions {
    /// The settings of a node that has its log at this `etcd://` address.
    pub fn validated(&self, log: &str) -> Result<ClusterSettings> {
        let (mut etcd, root) = EtcdOptions::parse(log).context("log")?;
        etcd.tls = self.etcd_tls()?;
        etcd.budget_bytes = self.etcd_budget_bytes.unwrap_or(etcd.budget_bytes);
        etcd.quota_bytes = self.etcd_quota_bytes.unwrap_or(etcd.quota_bytes);
        etcd.allow_one_member = self.etcd_allow_one_member;
        etcd.allow_stale_reads = self.etcd_allow_stale_reads;
        etcd.allow_clear_text = self.etcd_allow_clear_text;
        let place =
            |option, value: &Option<String>| value.as_deref().map(|place| absolute_place(option, place)).transpose();
        let listen = self.node_listen.as_deref().unwrap_or("127.0.0.1:7000");
        Ok(ClusterSettings {
            etcd,
            root,
            node_name: self.node_name.clone().map_or_else(host_name, Ok)?,
            node_listen: listen
                .parse::<SocketAddr>()
                .with_context(|| format!("node-listen: '{listen}' is not ADDRESS:PORT"))?,
            node_advertise: self.node_advertise.clone(),
            nodes: self.cluster_nodes.unwrap_or(3),
            store: place("cluster-store", &self.cluster_store)?,
            archive: place("cluster-archive", &self.cluster_archive)?,
            archive_keeps: self.cluster_archive_days.map(days),
            certificates: self.certificates()?,
            allow_one_node: self.cluster_allow_one_node,
        })
    }

    fn certificates(&self) -> Result<Option<NodeCertificates>> {
        match (&self.cluster_ca, &self.cluster_certificate, &self.cluster_key) {
            (None, None, None) => Ok(None),
            (Some(authority), Some(certificate), Some(key)) => Ok(Some(NodeCertificates {
                authority: absolute(authority),
                certificate: absolute(certificate),
                key: absolute(key),
            })),
            _ => anyhow::bail!("cluster-ca, cluster-certificate and cluster-key go together"),
        }
    }

    fn etcd_tls(&self) -> Result<Option<EtcdTls>> {
        ensure!(
            self.etcd_certificate.is_some() == self.etcd_key.is_some(),
            "etcd-certificate and etcd-key go together"
        );
        ensure!(
            self.etcd_ca.is_some() || self.etcd_certificate.is_none(),
            "etcd-certificate needs etcd-ca"
        );
        let read =
            |path: &PathBuf| std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()));
        let Some(authority) = &self.etcd_ca else {
            return Ok(None);
        };
        let identity = match (&self.etcd_certificate, &self.etcd_key) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => None,
        };
        Ok(Some(EtcdTls {
            authorities: read(authority)?,
            identity,
            server_name: None,
        }))
    }
}

fn host_name() -> Result<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim().to_owned();
    ensure!(!name.is_empty(), "node-name: this machine has no host name");
    Ok(name)
}
