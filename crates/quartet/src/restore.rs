//! `quartet restore`: makes a data folder out of a backup, or another database of a running server
//! (`docs/backup.md`).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use quartet_backup::{Progress, Restored, open_target};
use quartet_engine::StoreKind;
use quartet_model::Version;
use quartet_server::{FolderRestore, restore_folder};
use quartet_tenancy::DEFAULT_NAME;
use time::UtcDateTime;
use time::format_description::well_known::Rfc3339;

use crate::admin_api;
use crate::backup::bar;
use crate::restore_into::{Source, restore_into};

#[derive(Args)]
pub struct RestoreArguments {
    /// Where backups are kept: a folder, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR|s3://BUCKET/PREFIX")]
    from: String,
    /// The folder to make: it is not there, or empty
    #[arg(long, required_unless_present = "into")]
    data: Option<PathBuf>,
    /// The logical database to make instead, in a running server or cluster: its clients continue.
    /// Prints its credentials, this once
    #[arg(long, value_name = "NAME", conflicts_with_all = ["data", "engine"])]
    into: Option<String>,
    #[command(flatten)]
    server: admin_api::Server,
    /// The state as of a version, or of a time as 2026-11-22T18:00:00Z [default: the newest]
    #[arg(long, value_name = "VERSION|TIME")]
    at: Option<String>,
    /// Only this logical database [default: all; with --into: default]
    #[arg(long)]
    database: Option<String>,
    /// The engine that opens the folder
    #[arg(long, default_value = "memory", value_parser = ["memory", "ssd"])]
    engine: String,
}

pub fn restore(arguments: &RestoreArguments) -> Result<()> {
    match (&arguments.into, &arguments.data) {
        (Some(name), _) => {
            let database = arguments.database.as_deref().unwrap_or(DEFAULT_NAME);
            let source = Source {
                server: &arguments.server,
                database,
                restore_folder: &|data| arguments.restore_folder(data, Some(database.to_owned()), StoreKind::Ssd),
            };
            restore_into(&source, name)
        }
        (None, Some(data)) => restore_to(data, arguments),
        (None, None) => bail!("--data names the folder to make, and --into a database of a running server"),
    }
}

fn restore_to(data: &Path, arguments: &RestoreArguments) -> Result<()> {
    let engine = StoreKind::parse(&arguments.engine).context("an engine is memory or ssd")?;
    let all = arguments.restore_folder(data, arguments.database.clone(), engine)?;
    for (number, restored) in all.iter().enumerate() {
        if all.len() > 1 {
            print!("partition {number} of ");
        }
        println!(
            "{}: version {}, {} rows, state hash {:032x}",
            data.display(),
            restored.version.0,
            restored.rows,
            restored.state_hash
        );
    }
    Ok(())
}

impl RestoreArguments {
    fn restore_folder(&self, data: &Path, database: Option<String>, engine: StoreKind) -> Result<Vec<Restored>> {
        let open = |address: &str| open_target(address, false);
        let options = FolderRestore {
            at: self.at.as_deref().map(version).transpose()?,
            database,
            engine,
        };
        let bar = bar();
        let mut progress = |progress: Progress| {
            bar.set_length(progress.bytes_total);
            bar.set_position(progress.bytes);
        };
        let all = restore_folder(&self.from, &open, data, &options, &mut progress)?;
        bar.finish_and_clear();
        Ok(all)
    }
}

/// Versions are microseconds since the Unix epoch.
fn version(text: &str) -> Result<Version> {
    if let Ok(version) = text.parse() {
        return Ok(Version(version));
    }
    match time(text) {
        Some(micros) => Ok(Version(micros)),
        None => bail!("'{text}' is neither a version nor a time as 2026-11-22T18:00:00Z"),
    }
}

/// Parses a time as RFC 3339 writes it, in microseconds since the Unix epoch. A time in whole
/// seconds means the last microsecond of that second.
fn time(text: &str) -> Option<u64> {
    let time = UtcDateTime::parse(text, &Rfc3339).ok()?;
    let micros = u64::try_from(time.unix_timestamp_nanos() / 1000).ok()?;
    let is_whole_second = !text.contains('.');
    Some(if is_whole_second { micros + 999_999 } else { micros })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_microseconds() {
        for (text, micros) in [
            ("1970-01-01T00:00:00.000000Z", 0),
            ("2000-02-29T12:00:00.5Z", 951_825_600_500_000),
            ("2026-11-22T18:00:00Z", 1_795_370_400_999_999),
            ("2026-11-22T19:00:00+01:00", 1_795_370_400_999_999),
        ] {
            assert_eq!(time(text), Some(micros), "{text}");
        }
        for text in [
            "2026-11-22",
            "2026-13-22T18:00:00Z",
            "2026-02-30T18:00:00Z",
            "2026-11-22T18:00:00",
            "2026-11-22T24:00:00Z",
            "now",
        ] {
            assert!(version(text).is_err(), "{text}");
        }
        assert_eq!(version("17").unwrap(), Version(17));
    }
}
