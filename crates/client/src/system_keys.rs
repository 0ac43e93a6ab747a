//! System keys that describe a cluster of one server: their values unless a client has written
//! them.

use crate::Cluster;

/// The start of the single shard.
pub(crate) const SHARDS: &[u8] = b"\xff/keyServers/";
/// How a cluster is configured.
pub(crate) const CONFIGURATION: &[u8] = b"\xff/conf/";

/// Returns the value of a system key about the cluster, if it has one.
pub(crate) fn value(cluster: &Cluster, key: &[u8]) -> Option<Vec<u8>> {
    let mut rows = rows(cluster).into_iter();
    rows.find(|(row_key, _)| row_key == key).map(|(_, value)| value)
}

pub(crate) fn rows(cluster: &Cluster) -> Vec<(Vec<u8>, Vec<u8>)> {
    let configured = |name: &str| ([CONFIGURATION, name.as_bytes()].concat(), b"1".to_vec());
    let names = ["initialized", "log_replicas", "storage_replicas", "usable_regions"];
    let mut rows: Vec<_> = names.into_iter().map(configured).collect();
    rows.push((
        b"\xff/coordinators".to_vec(),
        cluster.connection_string.clone().into_bytes(),
    ));
    rows.push((SHARDS.to_vec(), b"quartet".to_vec()));
    rows
}
