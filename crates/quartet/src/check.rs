//! `quartet check`: reports whether a data directory is sound, its content, and, if it is damaged,
//! how to proceed.
//!
//! It reads everything that a server would read at its start, checks the layers' invariants about
//! their rows, and changes nothing unless a repair is requested (`repair`). A directory in use by a
//! server is refused.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use quartet_backup::BackupError;
use quartet_engine::{CheckReport, Findings, Invariants, OpenError, OpenProgress};
use quartet_env::{Disk, RealDisk};
use quartet_log::FileLogError;
use quartet_server::{check_complete, invariants, layer_name, partition_folders};

use crate::rebuild;
use crate::settings::DEFAULT_DATA;

#[derive(Args)]
pub struct CheckArguments {
    /// Directory that holds the log and the checkpoints
    #[arg(long, env = "QUARTET_DATA", default_value = DEFAULT_DATA)]
    pub data: PathBuf,
    /// Say what a repair would do: drop what cannot be trusted, rebuild what follows from other
    /// rows
    #[arg(long)]
    pub repair: bool,
    /// Do it, and report each thing in a file of the directory
    #[arg(long, requires = "repair")]
    pub yes: bool,
    /// Verifies a backup instead: a folder, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "DIR|s3://BUCKET/PREFIX", conflicts_with = "repair")]
    pub backup: Option<String>,
}

/// The exit status for a damaged directory, and for one in which something does not hold.
pub const EXIT_DAMAGED: u8 = 1;
/// The exit status if the directory could not be checked: it is in use, does not exist, or cannot
/// be read.
pub const EXIT_UNKNOWN: u8 = 2;

/// Verifies a backup.
pub fn judge_backup(address: &str, out: &mut dyn Write) -> Result<ExitCode> {
    match crate::backup::check(address, out) {
        Ok(()) => {
            writeln!(out, "sound")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if error.downcast_ref::<BackupError>().is_some_and(BackupError::is_damage) => {
            writeln!(out, "damaged: {error}")?;
            Ok(ExitCode::from(EXIT_DAMAGED))
        }
        Err(error) => Err(error),
    }
}

/// Checks every partition of a data directory, the first one first: it has the catalogue, which
/// lists the databases of the others.
pub fn judge(data: &Path, announces_repair: bool, out: &mut dyn Write) -> Result<ExitCode> {
    let (folders, invariants) = (partition_folders(data)?, invariants());
    let mut worst = ExitCode::SUCCESS;
    for (number, folder) in folders.iter().enumerate() {
        if folders.len() > 1 {
            writeln!(out, "partition   {number}, in {}", folder.display())?;
        }
        let opening = || format!("opening {}", folder.display());
        let disk = Arc::new(RealDisk::open_to_read(folder).with_context(opening)?);
        let code = judge_one(folder, disk.clone(), &invariants, announces_repair, out)?;
        if folders.len() == 1 && code == ExitCode::SUCCESS {
            check_complete(disk.as_ref(), folder)?;
        }
        if code != ExitCode::SUCCESS {
            worst = code;
        }
    }
    if announces_repair && worst != ExitCode::SUCCESS {
        writeln!(
            out,
            "nothing was changed; to do it: quartet check --data '{}' --repair --yes",
            data.display()
        )?;
    }
    Ok(worst)
}

fn judge_one(
    data: &Path,
    disk: Arc<RealDisk>,
    invariants: &[Box<dyn Invariants>],
    announces_repair: bool,
    out: &mut dyn Write,
) -> Result<ExitCode> {
    let code = match quartet_engine::check(disk.clone(), invariants, &mut progress()) {
        Ok(report) => {
            describe(&report, out)?;
            tell(&report.findings, out)?;
            if report.findings.count > 0 && !announces_repair {
                hint_at_repair(data, out)?;
            }
            verdict(&report.findings)
        }
        Err(error) if error.is_damage() => {
            writeln!(out, "damaged: {error}")?;
            if let Some(end) = damaged_end(&error, &log_files(disk.as_ref())?) {
                writeln!(out, "{}", end.lost)?;
                for step in &end.steps {
                    writeln!(out, "    {}", step.command(data))?;
                }
            } else if announces_repair {
                foresee(disk, out)?;
            } else {
                hint_at_repair(data, out)?;
            }
            ExitCode::from(EXIT_DAMAGED)
        }
        Err(error) => return Err(error.into()),
    };
    Ok(code)
}

fn hint_at_repair(data: &Path, out: &mut dyn Write) -> std::io::Result<()> {
    let data = data.display();
    writeln!(
        out,
        "see what a repair would do: quartet check --data '{data}' --repair"
    )
}

/// Says what of a damaged checkpoint or tree would be dropped.
fn foresee(disk: Arc<RealDisk>, out: &mut dyn Write) -> Result<()> {
    let mut written = Ok(());
    rebuild::foresee(disk, &mut |line| {
        if written.is_ok() {
            written = writeln!(out, "{line}");
        }
    })?;
    Ok(written?)
}

pub fn verdict(findings: &Findings) -> ExitCode {
    match findings.count {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_DAMAGED),
    }
}

/// Lists what does not hold, and what a repair does about it.
pub fn tell(findings: &Findings, out: &mut dyn Write) -> std::io::Result<()> {
    if findings.count == 0 {
        return writeln!(out, "sound");
    }
    writeln!(out, "{} things do not hold", findings.count)?;
    for finding in findings.kept.iter().take(LINES_MAX) {
        let (database, layer) = (finding.database.0, layer_name(finding.layer));
        let repair = match finding.repairs.as_slice() {
            [] => "a person has to decide",
            _ => "can be repaired",
        };
        writeln!(out, "  database {database}, {layer}: {}; {repair}", finding.what)?;
    }
    Ok(())
}

/// Findings that are listed.
const LINES_MAX: usize = 1000;

/// Those of the log, in the order of their names.
pub fn log_files(disk: &dyn Disk) -> std::io::Result<Vec<String>> {
    let mut files = disk.list()?;
    files.retain(|name| name.starts_with("log-"));
    files.sort();
    Ok(files)
}

/// Prints the progress to standard error, each second.
pub fn progress() -> impl FnMut(OpenProgress) {
    let mut reported = Instant::now();
    move |progress| {
        if reported.elapsed() >= Duration::from_secs(1) {
            reported = Instant::now();
            match progress {
                OpenProgress::Checkpoint { rows } => eprintln!("reading the checkpoint: {rows} rows"),
                OpenProgress::Log { bytes, bytes_total } => {
                    eprintln!("reading the log: {bytes} of {bytes_total} bytes")
                }
            }
        }
    }
}

pub fn describe(report: &CheckReport, out: &mut dyn Write) -> std::io::Result<()> {
    if let Some(base) = report.base {
        let (bytes, live_bytes) = (base.bytes, base.live_bytes);
        writeln!(out, "base        {bytes} bytes in files, {live_bytes} of them in use")?;
    }
    match &report.checkpoint {
        None if report.base.is_some() => {}
        None => writeln!(out, "checkpoint  none")?,
        Some(checkpoint) => {
            let summary = &checkpoint.summary;
            writeln!(out, "checkpoint  {}: {} bytes", checkpoint.file, summary.bytes)?;
            let position = summary.position;
            writeln!(
                out,
                "            {} rows, version {}, log record {}, state hash {:032x}",
                summary.rows, position.version.0, position.sequence.0, summary.state_hash
            )?;
        }
    }
    let log = &report.log;
    writeln!(out, "log         {} segments, {} bytes", log.segments, log.bytes)?;
    if log.segments == 0 && report.checkpoint.is_some() {
        writeln!(out, "            whatever came after the checkpoint is not here")?;
    }
    if log.segments_unread > 0 {
        let unread = log.segments_unread;
        writeln!(
            out,
            "            {unread} of them not read: all they hold is in the checkpoint"
        )?;
    }
    if log.last >= log.first {
        let (first, last) = (log.first.0, log.last.0);
        writeln!(
            out,
            "            records {first} to {last}, {} transactions after the checkpoint",
            report.transactions
        )?;
    }
    if let Some(unfinished) = &log.unfinished {
        let (file, offset) = (&unfinished.file, unfinished.offset);
        writeln!(
            out,
            "            an unfinished write in {file} at byte {offset}: never acknowledged, cut at the next start"
        )?;
    }
    writeln!(
        out,
        "state       {} rows, version {}, state hash {:032x}",
        report.rows, report.version.0, report.state_hash
    )
}

/// How to proceed without a backup: the lost data, and the steps with the files of the directory.
pub struct DamagedEnd {
    pub lost: String,
    pub steps: Vec<Step>,
}

pub enum Step {
    /// Cuts the file after this many bytes.
    Cut {
        file: String,
        bytes: u64,
    },
    Remove {
        file: String,
    },
}

impl Step {
    fn command(&self, data: &Path) -> String {
        let path = |file: &str| format!("'{}'", data.join(file).display());
        match self {
            Step::Cut { file, bytes } => format!("truncate --size={bytes} {}", path(file)),
            Step::Remove { file } => format!("rm {}", path(file)),
        }
    }
}

/// For a log with an unreadable end; `None` if something else is damaged. The file with the log's
/// reach, `log-reach`, sorts after all segments and is removed with the abandoned ones.
pub fn damaged_end(error: &OpenError, log_files: &[String]) -> Option<DamagedEnd> {
    let removed_from = |first: &str| {
        let files = log_files.iter().filter(|name| name.as_str() >= first);
        let removed = files.map(|file| Step::Remove { file: file.clone() });
        removed.collect::<Vec<_>>()
    };
    let lost = |from: u64| format!("without a backup, these commands give up log record {from} and all after it:");
    let OpenError::Log(log) = error else {
        return None;
    };
    let (lost, steps) = match log.of_file_log()? {
        FileLogError::Damaged {
            file, offset, sequence, ..
        } => {
            let mut steps = removed_from(file);
            if let (Some(first), 1..) = (steps.first_mut(), *offset) {
                let (file, bytes) = (file.clone(), *offset);
                *first = Step::Cut { file, bytes };
            }
            (lost(sequence.0), steps)
        }
        FileLogError::Gap { needed, found, .. } => {
            // A log that ends before the checkpoint is of no use at all.
            let first = if found < needed { 0 } else { found.0 };
            (lost(needed.0), removed_from(&format!("log-{first:020}")))
        }
        // Only the statement of the missing records has to be removed.
        FileLogError::EndMissing { tail, .. } => (lost(tail.0 + 1), removed_from("log-reach")),
        FileLogError::ReachUnreadable => {
            let unknown = "without a backup, this command gives up knowing whether the log's end is missing:";
            (unknown.into(), removed_from("log-reach"))
        }
        _ => return None,
    };
    Some(DamagedEnd { lost, steps })
}

#[cfg(test)]
pub mod tests {
    use std::fs;
    use std::sync::Arc;

    use quartet_engine::{Durability, Engine, EngineOptions, ExecuteError, Parts, Space};
    use quartet_env::SystemClock;
    use quartet_log::FileLogOptions;
    use quartet_model::{DatabaseId, LayerId};
    use tempfile::TempDir;

    use super::*;

    pub const ROWS: u64 = 60;

    pub fn open(data: &Path) -> Engine {
        let disk = Arc::new(RealDisk::open(data).unwrap());
        let log = FileLogOptions {
            segment_bytes: 4096,
            ..FileLogOptions::default()
        };
        let parts = Parts::with_file_log(disk, Arc::new(SystemClock), log);
        let options = EngineOptions {
            kept_bytes: 1024,
            ..EngineOptions::default()
        };
        Engine::open_with(parts, options, Box::new(|_| {}), &mut |_| {}).unwrap()
    }

    /// A closed directory with a checkpoint after a third of its rows, each a log record. Also the
    /// state hash.
    pub fn directory() -> (TempDir, u128) {
        let data = tempfile::tempdir().unwrap();
        let engine = open(data.path());
        let space = Space {
            database: DatabaseId(1),
            layer: LayerId::Redis,
            durability: Durability::Always,
        };
        for number in 0..ROWS {
            let set: Result<_, ExecuteError<()>> = engine
                .partition()
                .execute(space, |tx| Ok(tx.set(&number.to_be_bytes(), &[7; 500])));
            engine.wait_durable(set.unwrap().1);
            if number == ROWS / 3 {
                engine.checkpoint().unwrap();
            }
        }
        let hash = engine.state_hash(None).unwrap();
        engine.close().unwrap();
        (data, hash)
    }

    pub fn log_files(data: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries
            .filter(|path| path.to_str().unwrap().contains("/log-0"))
            .collect();
        files.sort();
        files
    }

    pub fn run(data: &Path) -> (u8, String) {
        let mut out = Vec::new();
        let code = judge(data, false, &mut out).map_or(EXIT_UNKNOWN, |code| match code {
            ExitCode::SUCCESS => 0,
            _ => EXIT_DAMAGED,
        });
        (code, String::from_utf8(out).unwrap())
    }

    /// Does the work of the advice's two commands. Not by a shell: a child that is just being
    /// started holds the lock files of all tests for a moment.
    fn obey(command: &str) {
        let (command, file) = command.trim().split_once(" '").unwrap();
        let file = file.trim_end_matches('\'');
        match command.split_once("truncate --size=") {
            Some((_, bytes)) => {
                let file = fs::File::options().write(true).open(file).unwrap();
                file.set_len(bytes.parse().unwrap()).unwrap();
            }
            None => {
                assert_eq!(command, "rm");
                fs::remove_file(file).unwrap();
            }
        }
    }

    /// Follows the advice, and expects a sound directory with the rows that were not given up.
    fn follow(data: &Path, advice: &str, rows: u64) {
        advice.lines().filter(|line| line.starts_with("    ")).for_each(obey);
        let (code, text) = run(data);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains(&format!("state       {rows} rows")), "{text}");
        open(data).close().unwrap();
    }

    #[test]
    fn a_sound_directory_is_described_and_left_as_it_is() {
        let (data, hash) = directory();
        let (code, text) = run(data.path());
        assert_eq!(code, 0, "{text}");
        for part in [
            "checkpoint  checkpoint-00000000000000000021: ",
            "21 rows, version ",
            " to 60, 39 transactions after the checkpoint",
            &format!("state       {ROWS} rows"),
            &format!("state hash {hash:032x}\nsound\n"),
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert_eq!(run(data.path()), (code, text));
    }

    #[test]
    fn a_torn_tail_is_sound() {
        let (data, _) = directory();
        let newest = log_files(data.path()).pop().unwrap();
        let mut content = fs::read(&newest).unwrap();
        let end = content.iter().rposition(|&byte| byte != 0).unwrap() + 1;
        content.truncate(end);
        content.extend([9; 512]);
        fs::write(&newest, content).unwrap();
        let (code, text) = run(data.path());
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("an unfinished write in log-"), "{text}");
    }

    #[test]
    fn a_flipped_byte_is_found_and_may_be_cut_away() {
        let (data, _) = directory();
        let file = &log_files(data.path())[1];
        let mut content = fs::read(file).unwrap();
        content[32 + 100] ^= 1;
        fs::write(file, content).unwrap();
        let (code, text) = run(data.path());
        assert_eq!(code, EXIT_DAMAGED);
        let name = file.file_name().unwrap().to_str().unwrap();
        let first: u64 = name.trim_start_matches("log-").parse().unwrap();
        let place = format!("damaged: {name} is damaged at byte 32, in record {first}, which was durable");
        assert!(text.starts_with(&place), "{text}");
        follow(data.path(), &text, first - 1);
    }

    #[test]
    fn a_missing_segment_is_a_gap() {
        for missing in [1, 3] {
            let (data, _) = directory();
            let file = &log_files(data.path())[missing];
            fs::remove_file(file).unwrap();
            let (code, text) = run(data.path());
            assert_eq!(code, EXIT_DAMAGED, "{text}");
            let last = text.split("but record ").nth(1).unwrap().split(' ').next().unwrap();
            follow(data.path(), &text, last.parse::<u64>().unwrap() - 1);
        }
    }

    /// The newest segment was missing, or all of them next to a checkpoint: the remaining files
    /// opened as sound.
    #[test]
    fn a_missing_end_is_damage() {
        for count in [0, 2] {
            let (data, _) = directory();
            let files = log_files(data.path());
            let removed = if count == 0 {
                &files[..]
            } else {
                &files[files.len() - 1..]
            };
            removed.iter().for_each(|file| fs::remove_file(file).unwrap());
            let (code, text) = run(data.path());
            assert_eq!(code, EXIT_DAMAGED, "{text}");
            assert!(text.contains("which the log had begun, is missing"), "{text}");
            let from = text.split("give up log record ").nth(1).unwrap();
            let from = from.split(' ').next().unwrap();
            follow(data.path(), &text, from.parse::<u64>().unwrap() - 1);
        }
    }

    #[test]
    fn the_newest_segment_cut_at_a_record_is_damage() {
        let (data, _) = directory();
        let newest = log_files(data.path()).pop().unwrap();
        let file = fs::File::options().write(true).open(newest).unwrap();
        file.set_len(32).unwrap();
        let (code, text) = run(data.path());
        assert_eq!(code, EXIT_DAMAGED, "{text}");
        assert!(text.contains("which was durable: the file ends"), "{text}");
    }

    #[test]
    fn an_unreadable_reach_is_damage() {
        let (data, _) = directory();
        fs::write(data.path().join("log-reach"), "something else").unwrap();
        let (code, text) = run(data.path());
        assert_eq!(code, EXIT_DAMAGED, "{text}");
        follow(data.path(), &text, ROWS);
    }

    /// As after restoring a backup, which is a checkpoint.
    #[test]
    fn a_checkpoint_without_a_log_is_sound_and_said() {
        let (data, _) = directory();
        log_files(data.path())
            .iter()
            .for_each(|file| fs::remove_file(file).unwrap());
        fs::remove_file(data.path().join("log-reach")).unwrap();
        let (code, text) = run(data.path());
        assert_eq!(code, 0, "{text}");
        assert!(
            text.contains("whatever came after the checkpoint is not here"),
            "{text}"
        );
        open(data.path()).close().unwrap();
    }

    #[test]
    fn a_damaged_checkpoint_is_named() {
        let (data, _) = directory();
        let file = data.path().join("checkpoint-00000000000000000021");
        let mut content = fs::read(&file).unwrap();
        content[100] ^= 1;
        fs::write(&file, content).unwrap();
        let (code, text) = run(data.path());
        assert_eq!(code, EXIT_DAMAGED);
        assert!(
            text.contains("a wrong checksum in the part that starts at byte 32"),
            "{text}"
        );
    }

    #[test]
    fn a_directory_in_use_or_missing_is_not_checked() {
        let (data, _) = directory();
        let engine = open(data.path());
        let refused = judge(data.path(), false, &mut Vec::new()).unwrap_err();
        assert!(
            format!("{refused:#}").contains("in use by another process"),
            "{refused:#}"
        );
        engine.close().unwrap();
        assert_eq!(run(data.path()).0, 0);
        assert_eq!(run(&data.path().join("nowhere")).0, EXIT_UNKNOWN);
    }
}
