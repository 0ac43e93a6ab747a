//! The display of an import: a bar on a terminal, lines where there is none, and a file of rejected
//! records.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use quartet_redis_copy::watcher::{Rejected, Watcher};
use tokio::signal::unix::{SignalKind, signal};

pub struct Watch {
    bar: ProgressBar,
    rejected: Option<File>,
    is_stopped: Arc<AtomicBool>,
    wants_cut_over: Arc<AtomicBool>,
}

impl Watch {
    /// SIGINT and SIGTERM end the import where it can be resumed. While it `follows`, a line on
    /// standard input cuts over.
    pub fn new(rejected: Option<&Path>, follows: bool, cuts_over: bool) -> Result<Watch> {
        let rejected = rejected.map(|path| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.with_context(|| format!("writing {}", path.display()))
        });
        let watch = Watch {
            bar: ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
            rejected: rejected.transpose()?,
            is_stopped: Arc::default(),
            wants_cut_over: Arc::new(AtomicBool::new(cuts_over)),
        };
        listen_to_signals(watch.is_stopped.clone())?;
        if follows && !cuts_over {
            listen_to_lines(watch.wants_cut_over.clone());
        }
        Ok(watch)
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn line(&self, text: &str) {
        if std::io::stderr().is_terminal() {
            self.bar.println(text);
        } else {
            eprintln!("{text}");
        }
    }
}

pub(super) fn listen_to_signals(is_stopped: Arc<AtomicBool>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let (Ok(mut interrupt), Ok(mut terminate)) =
                (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
            else {
                return;
            };
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            is_stopped.store(true, Ordering::Relaxed);
        });
    });
    Ok(())
}

fn listen_to_lines(wants_cut_over: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if line.trim() == "cut over" {
                wants_cut_over.store(true, Ordering::Relaxed);
            }
        }
    });
}

impl Watcher for Watch {
    fn phase(&mut self, text: &str, bytes_max: Option<u64>) {
        let template = match bytes_max {
            Some(bytes_max) => {
                self.bar.set_length(bytes_max);
                "{msg}: [{wide_bar}] {bytes} of {total_bytes}, {eta}, {prefix}"
            }
            None => {
                self.bar.unset_length();
                "{msg}: {spinner} {prefix}"
            }
        };
        let style = ProgressStyle::with_template(template).expect("a template of this file");
        self.bar.set_style(style);
        self.bar.set_message(text.to_owned());
        self.bar.enable_steady_tick(Duration::from_millis(200));
        if !std::io::stderr().is_terminal() {
            eprintln!("{text}");
        }
    }

    fn progress(&mut self, done: u64, bytes: u64) {
        self.bar.set_prefix(format!("{done} done"));
        self.bar.set_position(bytes);
    }

    fn rejected(&mut self, rejected: Rejected) {
        let written = self.rejected.as_mut().map(|file| writeln!(file, "{rejected}"));
        if !matches!(written, Some(Ok(()))) {
            self.line(&format!("rejected: {rejected}"));
        }
    }

    fn note(&mut self, text: &str) {
        self.line(text);
    }

    fn stop_flag(&self) -> Option<Arc<AtomicBool>> {
        Some(self.is_stopped.clone())
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn wants_cut_over(&mut self) -> bool {
        self.wants_cut_over.load(Ordering::Relaxed)
    }
}
