//! Options of FaunaDB's layer.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use quartet_server::FaunaSettings;
use serde::{Deserialize, Serialize};

use super::values::listen;

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct FaunaOptions {
    /// Address of FaunaDB's protocol, or "off" [default: 127.0.0.1:8443]
    #[arg(long, env = "QUARTET_LISTEN_FAUNA")]
    listen_fauna: Option<String>,
    /// FaunaDB's operations in a second for each key or token: READ,WRITE,COMPUTE [default: no
    /// limit]
    #[arg(long, env = "QUARTET_FAUNA_RATE_LIMITS")]
    fauna_rate_limits: Option<String>,
    /// PEM file: the certificates to trust where keys of FaunaDB's access providers are fetched,
    /// which may then be in private networks [default: the public roots]
    #[arg(long, env = "QUARTET_FAUNA_ISSUER_ROOTS")]
    fauna_issuer_roots: Option<PathBuf>,
}

impl FaunaOptions {
    pub fn validated(&self) -> Result<FaunaSettings> {
        Ok(FaunaSettings {
            listen: listen("listen-fauna", &self.listen_fauna, "127.0.0.1:8443")?,
            rate_limits: self.fauna_rate_limits.as_deref().map(rate_limits).transpose()?,
            issuer_roots: self.fauna_issuer_roots.clone(),
        })
    }
}

fn rate_limits(text: &str) -> Result<[u64; 3]> {
    let numbers: Option<Vec<u64>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    let limits = numbers.and_then(|numbers| numbers.try_into().ok());
    limits
        .filter(|limits: &[u64; 3]| !limits.contains(&0))
        .context("fauna-rate-limits: three numbers above zero, READ,WRITE,COMPUTE")
}
