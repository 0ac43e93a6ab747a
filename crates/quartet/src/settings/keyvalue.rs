//! Options of the key-value layer.

use anyhow::Result;
use clap::Args;
use quartet_server::{KeyValueLimits, KeyValueSettings};
use serde::{Deserialize, Serialize};

use super::values::listen;

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct KeyValueOptions {
    /// Address of the key-value protocol, for clients of FoundationDB; or "off" [default:
    /// 127.0.0.1:4500]
    #[arg(long, env = "QUARTET_LISTEN_KEYVALUE")]
    listen_keyvalue: Option<String>,
    /// Seconds that a version of the key-value layer stays readable [default: 5]
    #[arg(long, env = "QUARTET_KEYVALUE_READ_SECONDS")]
    keyvalue_read_seconds: Option<u64>,
    /// Most bytes that a transaction of the key-value layer may write, with its conflict ranges
    /// [default: 10000000]
    #[arg(long, env = "QUARTET_KEYVALUE_TRANSACTION_BYTES_MAX")]
    keyvalue_transaction_bytes_max: Option<usize>,
}

impl KeyValueOptions {
    pub fn validated(&self) -> Result<KeyValueSettings> {
        let mut limits = KeyValueLimits::default();
        if let Some(seconds) = self.keyvalue_read_seconds {
            limits.read_window_micros = seconds.saturating_mul(1_000_000);
        }
        if let Some(bytes) = self.keyvalue_transaction_bytes_max {
            limits.transaction_bytes_max = bytes.min(KeyValueLimits::TRANSACTION_BYTES_MAX);
        }
        Ok(KeyValueSettings {
            listen: listen("listen-keyvalue", &self.listen_keyvalue, "127.0.0.1:4500")?,
            limits,
        })
    }
}
