//! The record of a repair, for later readers.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use quartet_env::{Clock, SystemClock};

/// Bytes of a dropped row that the report shows, beside its length.
const SHOWN_BYTES_MAX: usize = 512;

/// The repairs made, line by line, in a file of its own.
pub struct Report {
    path: PathBuf,
    file: fs::File,
}

impl Report {
    pub fn create(data: &Path) -> Result<Report> {
        let path = data.join(format!("repair-{}.txt", SystemClock.now_micros()));
        let file = fs::File::create_new(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Report { path, file })
    }

    /// The path of the report.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Durable before what it says is done.
    pub fn say(&mut self, line: &str) -> Result<()> {
        writeln!(self.file, "{line}")
            .and_then(|()| self.file.sync_data())
            .with_context(|| format!("writing {}", self.path.display()))
    }
}

/// The bytes as text, up to a length, and how many there are.
pub fn shown(bytes: &[u8]) -> String {
    let some = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    format!("\"{}\" ({} bytes)", some.escape_ascii(), bytes.len())
}
