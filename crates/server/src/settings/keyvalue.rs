//! Settings of the key-value layer.

use std::net::SocketAddr;

use super::{Credentials, Listen, Settings};

#[derive(Clone, Debug, Default)]
pub struct KeyValueSettings {
    pub listen: Listen,
    pub limits: quartet_layer_keyvalue::Options,
}

impl Settings {
    /// The line of a cluster file by which clients of FoundationDB find the server; the root key
    /// stands for itself.
    pub fn cluster_string(&self, address: SocketAddr) -> String {
        match self.credentials {
            Credentials::None => format!("quartet:dev@{address}"),
            Credentials::Key { .. } | Credentials::Kept => format!("quartet:<root key>@{address}"),
        }
    }
}
