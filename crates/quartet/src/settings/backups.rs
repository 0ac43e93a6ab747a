//! Options of backups and restores at the console.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use quartet_server::BackupSettings;
use serde::{Deserialize, Serialize};

use super::values::{absolute, named_places};

#[derive(Args, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct BackupOptions {
    /// Where backups go that an operator takes at the console, as NAME=FOLDER or
    /// NAME=s3://BUCKET/PREFIX, with commas between [default: none]
    #[arg(long, env = "QUARTET_BACKUP_TARGETS")]
    backup_targets: Option<String>,
    /// Folder for data folders that an operator restores in the console [default: none]
    #[arg(long, env = "QUARTET_RESTORE_FOLDER")]
    restore_folder: Option<PathBuf>,
}

impl BackupOptions {
    pub fn validated(&self) -> Result<BackupSettings> {
        Ok(BackupSettings {
            targets: named_places("backup-targets", self.backup_targets.as_deref())?,
            restore_folder: self.restore_folder.as_deref().map(absolute),
        })
    }
}
