//! Options of the log of transactions.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use quartet_server::LogSettings;
use serde::{Deserialize, Serialize};

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct LogOptions {
    /// Which log orders the transactions: file, or one that several nodes share, as
    /// etcd://HOST:PORT,HOST:PORT/ROOT [default: file]
    #[arg(long, env = "QUARTET_LOG")]
    log: Option<String>,
    /// Size of a log segment in bytes [default: 67108864]
    #[arg(long, env = "QUARTET_LOG_SEGMENT_BYTES")]
    log_segment_bytes: Option<u64>,
    /// Bytes of the log that are kept for its readers (backups, change feeds), beyond the bytes
    /// that the next start needs [default: 1073741824]
    #[arg(long, env = "QUARTET_LOG_RETENTION_BYTES")]
    log_retention_bytes: Option<u64>,
    /// Seconds that the log is kept for readers that are away, within those bytes [default: 300]
    #[arg(long, env = "QUARTET_LOG_RETENTION_SECONDS")]
    log_retention_seconds: Option<u64>,
}

impl LogOptions {
    /// The address of a log that several nodes share.
    pub fn shared(&self) -> Result<Option<&str>> {
        match self.log.as_deref() {
            None | Some("file") => Ok(None),
            Some(address) if address.starts_with("etcd://") => Ok(Some(address)),
            Some(other) => anyhow::bail!("log: '{other}' is neither file nor etcd://HOST:PORT,HOST:PORT/ROOT"),
        }
    }

    pub fn validated(&self) -> Result<LogSettings> {
        Ok(LogSettings {
            segment_bytes: self.log_segment_bytes.unwrap_or(64 << 20),
            retention_bytes: self.log_retention_bytes.unwrap_or(1 << 30),
            retention: Duration::from_secs(self.log_retention_seconds.unwrap_or(300)),
        })
    }
}
