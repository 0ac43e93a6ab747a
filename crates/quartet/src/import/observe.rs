//! The display of a copy of documents, items or keys: a bar on a terminal, lines where there is
//! none, and a file of rejected records.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quartet_interchange::{Error, Observer};

use super::watch::listen_to_signals;

/// The options of every import of records.
#[derive(Args)]
pub struct RecordArguments {
    /// Copies into a target that is not empty, and replaces items of the same key
    #[arg(long)]
    pub merge: bool,
    /// File that what was rejected is added to [default: standard error]
    #[arg(long)]
    pub rejected: Option<PathBuf>,
    /// More rejected records than this end the import
    #[arg(long, default_value_t = 1000)]
    pub rejected_max: u64,
    /// File with the progress of the import until its end: the same command continues from there
    #[arg(long, default_value = "quartet-import.journal")]
    pub journal: PathBuf,
}

pub struct Observed {
    bar: ProgressBar,
    file: Option<File>,
    is_stopped: Arc<AtomicBool>,
    pub done: u64,
    pub rejected: u64,
    rejected_max: u64,
}

impl Observed {
    /// SIGINT and SIGTERM end the copy where it can be resumed.
    pub fn new(rejected: Option<&Path>, rejected_max: u64) -> Result<Observed> {
        let file = rejected.map(|path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.with_context(|| format!("writing {}", path.display()))
        });
        let is_stopped = Arc::<AtomicBool>::default();
        listen_to_signals(is_stopped.clone())?;
        Ok(Observed {
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
            file: file.transpose()?,
            is_stopped,
            done: 0,
            rejected: 0,
            rejected_max,
        })
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Observed {
    fn phase(&mut self, text: &str, records: Option<u64>) {
        let template = match records {
            Some(records) => {
                self.bar.set_length(records);
                "{msg}: [{wide_bar}] {pos} of {len}, {per_sec}, {eta}"
            }
            None => "{msg}: {spinner} {pos}, {per_sec}",
        };
        let style = ProgressStyle::with_template(template).expect("a template of this file");
        self.bar.set_style(style);
        self.bar.set_message(text.to_owned());
        self.bar.enable_steady_tick(Duration::from_millis(200));
        if !std::io::stderr().is_terminal() {
            eprintln!("{text}");
        }
    }

    fn advance(&mut self, records: u64) {
        self.done += records;
        self.bar.set_position(self.done);
    }

    fn reject(&mut self, description: &str, reason: &str) -> quartet_interchange::Result<()> {
        self.rejected += 1;
        let line = format!("{reason}: {description}");
        let written = self.file.as_mut().map(|file| writeln!(file, "{line}"));
        if !matches!(written, Some(Ok(()))) {
            match std::io::stderr().is_terminal() {
                true => self.bar.println(format!("rejected: {line}")),
                false => eprintln!("rejected: {line}"),
            }
        }
        match self.rejected > self.rejected_max {
            true => Err(Error::TooManyRejected(self.rejected_max)),
            false => Ok(()),
        }
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}
