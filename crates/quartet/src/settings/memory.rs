//! Options of the process' memory.

use clap::Args;
use quartet_server::MemorySettings;
use serde::{Deserialize, Serialize};

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct MemoryOptions {
    /// Bytes of memory that the server may take; beyond them it evicts or refuses to grow. 0: no
    /// limit [default: four fifths of the control group's limit or of the machine's memory]
    #[arg(long, env = "QUARTET_MEMORY_BYTES")]
    memory_bytes: Option<u64>,
}

impl MemoryOptions {
    pub fn validated(&self) -> MemorySettings {
        MemorySettings {
            bytes: self.memory_bytes,
            purge: crate::allocator::purge,
        }
    }
}
