//! Options of the process' memory.

use anyhow::Result;
use clap::Args;
use quartet_server::MemorySettings;
use serde::{Deserialize, Serialize};

use super::values::ByteCount;

/// A server that holds nothing takes about as much.
const LEAST_BYTES: u64 = 16 << 20;

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct MemoryOptions {
    /// Bytes of memory that the server may take; beyond them it evicts or refuses to grow. 0: no
    /// limit [default: four fifths of the control group's limit or of the machine's memory]
    #[arg(long, env = "QUARTET_MEMORY_BYTES")]
    memory_bytes: Option<ByteCount>,
}

impl MemoryOptions {
    pub fn validated(&self) -> Result<MemorySettings> {
        let bytes = self.memory_bytes.map(|bytes| bytes.0);
        anyhow::ensure!(
            bytes.is_none_or(|bytes| bytes == 0 || bytes >= LEAST_BYTES),
            "memory-bytes: a server needs at least {LEAST_BYTES} bytes; 0 is no limit"
        );
        Ok(MemorySettings {
            bytes,
            purge: crate::allocator::purge,
        })
    }
}
