//! The root key, as the commands that call a running server accept it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;

/// The credentials of a server started with `--dev`.
const DEVELOPMENT_KEY: &str = "dev";

#[derive(Args)]
pub struct OperatorKey {
    /// The root key [default: dev, of a server started with --dev]
    #[arg(long, env = "QUARTET_ROOT_KEY", hide_env_values = true, global = true)]
    key: Option<String>,
    /// File that holds the root key
    #[arg(long, env = "QUARTET_ROOT_KEY_FILE", global = true)]
    key_file: Option<PathBuf>,
}

impl OperatorKey {
    pub fn read(&self) -> Result<String> {
        let Some(file) = &self.key_file else {
            return Ok(self.key.as_deref().unwrap_or(DEVELOPMENT_KEY).to_owned());
        };
        ensure!(self.key.is_none(), "key and key-file are both given");
        read_secret(file).context("key-file")
    }
}

/// The secret in a file, without the end of its line.
pub fn read_secret(file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("reading {}", file.display()))?;
    let secret = text.trim_end_matches(['\r', '\n']);
    ensure!(!secret.is_empty(), "{} is empty", file.display());
    Ok(secret.to_owned())
}
