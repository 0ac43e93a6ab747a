//! One part while it runs: its log, its variables, its counts, and how it starts commands.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::tally::Tally;

/// Attempts at a command that depends on a registry.
const ATTEMPTS: u64 = 5;

/// Exit status of `timeout` after it ended the command.
const TIMED_OUT: i32 = 124;

pub struct Run {
    pub root: PathBuf,
    pub tally: Tally,
    name: &'static str,
    variables: Vec<(String, String)>,
    shows: bool,
}

impl Run {
    /// Empties the part's log. `shows` copies it to standard output as it grows.
    pub fn new(root: &Path, name: &'static str, shows: bool) -> Result<Run> {
        let run = Run {
            root: root.to_owned(),
            tally: Tally::default(),
            name,
            variables: Vec::new(),
            shows,
        };
        File::create(run.log_path()).with_context(|| format!("cannot create {}", run.log_path().display()))?;
        Ok(run)
    }

    pub fn log_path(&self) -> PathBuf {
        self.work().join(format!("{}.log", self.name))
    }

    /// The folder of logs, reports, jars and classes.
    pub fn work(&self) -> PathBuf {
        self.root.join("target/test")
    }

    pub fn python(&self) -> PathBuf {
        self.root.join("target/test-venv/bin/python")
    }

    /// Sets a variable of all commands that the part starts from now on.
    pub fn set(&mut self, name: &str, value: impl Display) {
        self.unset(name);
        self.variables.push((name.to_owned(), value.to_string()));
    }

    pub fn unset(&mut self, name: &str) {
        self.variables.retain(|(set, _)| set != name);
    }

    /// A command in the root of the checkout, from words that no shell reads.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = command(&self.root, words[0]);
        command.args(&words[1..]);
        command
    }

    /// Writes a line to the part's log and to standard output.
    pub fn say(&self, line: &str) -> Result<()> {
        println!("{}: {line}", self.name);
        let mut log = OpenOptions::new().append(true).open(self.log_path())?;
        Ok(writeln!(log, "{line}")?)
    }

    /// Runs a command and returns what it wrote, with whether it succeeded.
    pub fn output(&self, mut command: Command) -> Result<(String, bool)> {
        let mut log = OpenOptions::new().append(true).read(true).open(self.log_path())?;
        let start = log.seek(SeekFrom::End(0))?;
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdout(log.try_clone()?).stderr(log.try_clone()?);
        let has_ended = AtomicBool::new(false);
        let status = std::thread::scope(|scope| {
            if self.shows {
                scope.spawn(|| show(&self.log_path(), start, &has_ended));
            }
            let status = command.status();
            has_ended.store(true, Ordering::Release);
            status
        });
        let status = status.with_context(|| format!("cannot run {:?}", command.get_program()))?;
        let mut output = Vec::new();
        let mut log = File::open(self.log_path())?;
        log.seek(SeekFrom::Start(start))?;
        log.read_to_end(&mut output)?;
        if status.code() == Some(TIMED_OUT) {
            self.say("the time limit ended the command above; its last line names what hung")?;
        }
        Ok((String::from_utf8_lossy(&output).into_owned(), status.success()))
    }

    /// Runs a command that has to succeed, and counts nothing.
    pub fn must(&self, command: Command) -> Result<String> {
        let described = describe(&command);
        match self.output(command)? {
            (output, true) => Ok(output),
            (_, false) => bail!("failed: {described}"),
        }
    }

    /// Runs a command as one test.
    pub fn one(&mut self, words: &[&str]) -> Result<()> {
        self.counted(self.command(words), |_, succeeded| Tally {
            passed: usize::from(succeeded),
            failed: usize::from(!succeeded),
        })
    }

    /// Runs a command, adds what `count` reads from its output, and fails if it failed.
    pub fn counted(&mut self, command: Command, count: impl Fn(&str, bool) -> Tally) -> Result<()> {
        let described = describe(&command);
        let (output, succeeded) = self.output(command)?;
        self.tally.add(count(&output, succeeded));
        if !succeeded {
            bail!("failed: {described}");
        }
        Ok(())
    }

    /// Runs a command that depends on a registry, up to five times.
    pub fn patiently(&self, words: &[&str]) -> Result<()> {
        for attempt in 1..ATTEMPTS {
            if self.output(self.command(words))?.1 {
                return Ok(());
            }
            std::thread::sleep(Duration::from_secs(attempt * 5));
        }
        self.must(self.command(words)).map(drop)
    }
}

/// A command in the root of the checkout, without standard input.
pub fn command(root: &Path, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root).stdin(Stdio::null());
    command
}

fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(command.get_args().map(|word| word.to_string_lossy()));
    words.join(" ")
}

/// Copies what the log gains to standard output until the command has ended.
fn show(log: &Path, start: u64, has_ended: &AtomicBool) {
    let Ok(mut log) = File::open(log) else { return };
    if log.seek(SeekFrom::Start(start)).is_err() {
        return;
    }
    loop {
        let was_last = has_ended.load(Ordering::Acquire);
        let mut gained = Vec::new();
        if log.read_to_end(&mut gained).is_err() {
            return;
        }
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(&gained).and_then(|()| out.flush());
        drop(out);
        if was_last {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::tree;

    fn run() -> (tempfile::TempDir, Run) {
        let folder = tree(&[("target/test/old.log", "old")]);
        let run = Run::new(folder.path(), "old", false).unwrap();
        (folder, run)
    }

    #[test]
    fn output_is_that_of_one_command_and_the_log_has_all() {
        let (_folder, mut run) = run();
        run.set("WORD", "hello");
        run.must(run.command(&["sh", "-c", "echo first"])).unwrap();
        let (output, succeeded) = run
            .output(run.command(&["sh", "-c", "echo $WORD >&2; exit 3"]))
            .unwrap();
        assert_eq!((output.as_str(), succeeded), ("hello\n", false));
        assert_eq!(std::fs::read_to_string(run.log_path()).unwrap(), "first\nhello\n");
    }

    #[test]
    fn a_command_that_fails_is_counted_and_named() {
        let (_folder, mut run) = run();
        run.one(&["true"]).unwrap();
        let error = run.one(&["sh", "-c", "exit 1"]).unwrap_err();
        assert_eq!(error.to_string(), "failed: sh -c exit 1");
        assert_eq!(run.tally, Tally { passed: 1, failed: 1 });
    }

    #[test]
    fn a_time_limit_says_that_it_struck() {
        let (_folder, run) = run();
        let command = run.command(&["timeout", "0.1", "sleep", "60"]);
        assert!(!run.output(command).unwrap().1);
        assert!(
            std::fs::read_to_string(run.log_path())
                .unwrap()
                .contains("the time limit")
        );
    }
}
