//! Options of the listener that answers as a sentinel of Redis.

use anyhow::Result;
use clap::Args;
use quartet_server::SentinelSettings;
use serde::{Deserialize, Serialize};

use super::values::listen;

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct SentinelOptions {
    /// Address of Sentinel's protocol, which names this server; or "off" [default: off]
    #[arg(long, env = "QUARTET_LISTEN_SENTINEL")]
    listen_sentinel: Option<String>,
    /// Name of this server in clients' requests to a sentinel [default: mymaster]
    #[arg(long, env = "QUARTET_SENTINEL_MASTER_NAME")]
    sentinel_master_name: Option<String>,
}

impl SentinelOptions {
    pub fn validated(&self) -> Result<SentinelSettings> {
        Ok(SentinelSettings {
            listen: listen("listen-sentinel", &self.listen_sentinel, "off")?,
            master_name: self.sentinel_master_name.clone().unwrap_or_else(|| "mymaster".into()),
        })
    }
}
