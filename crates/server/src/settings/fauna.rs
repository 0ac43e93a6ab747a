//! Settings of FaunaDB's layer.

use std::path::PathBuf;

use quartet_layer_fauna::Operations;

use super::listen::Listen;

#[derive(Clone, Debug, Default)]
pub struct FaunaSettings {
    pub listen: Listen,
    /// Operations in a second for each credential; `None`: unlimited.
    pub rate_limits: Option<Operations>,
    /// Certificates of access providers' issuers, trusted instead of the public ones. Such issuers
    /// may have private addresses.
    pub issuer_roots: Option<PathBuf>,
}

/// The secret that every local setup of FaunaDB uses.
pub const DEVELOPMENT_SECRET: &str = "secret";
