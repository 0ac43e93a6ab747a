//! `quartet check --repair`: drops untrustworthy data, rebuilds derived rows, and reports each
//! repair.
//!
//! For a damaged log it drops the first unreadable record and all later ones, for a damaged
//! checkpoint or tree the unreadable rows (`rebuild`); the bytes are set aside in the directory
//! under names with the prefix `dropped-`. Between rows it makes the repairs that the layers
//! propose. Faults that only a person or a backup can decide are reported and left.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use quartet_engine::{Engine, EngineOptions, Finding, Findings, OpenError, Repair, Space};
use quartet_env::{Clock, RealDisk, SystemClock};
use quartet_server::{invariants, layer_name, partition_folders};

use crate::check::{self, CheckArguments, DamagedEnd, EXIT_DAMAGED, EXIT_UNKNOWN, Step, judge, judge_backup, progress};
use crate::rebuild::rebuild;
use crate::repair_report::{Report, shown};

/// Each round of repairing the log or rows may bring to light what it hid; there are never this
/// many.
const ROUNDS_MAX: usize = 1000;

/// Checks, says what a repair would do, or repairs.
pub fn check_or_repair(arguments: &CheckArguments) -> ExitCode {
    let (data, out) = (&arguments.data, &mut std::io::stdout());
    let judged = match (&arguments.backup, arguments.repair, arguments.yes) {
        (Some(address), ..) => judge_backup(address, out),
        (None, true, true) => repair(data, out),
        (None, announced, _) => judge(data, announced, out),
    };
    judged.unwrap_or_else(|error| {
        eprintln!("cannot check: {error:#}");
        ExitCode::from(EXIT_UNKNOWN)
    })
}

/// Repairs what can be repaired, and says what is left.
fn repair(data: &Path, out: &mut dyn Write) -> Result<ExitCode> {
    if !data.is_dir() {
        bail!("there is no directory {}", data.display());
    }
    let (folders, mut worst) = (partition_folders(data)?, ExitCode::SUCCESS);
    for folder in &folders {
        if folders.len() > 1 {
            writeln!(out, "repairing {}", folder.display())?;
        }
        let mut report = Report::create(folder)?;
        let code = repair_all(folder, &mut report, out)?;
        writeln!(out, "what was done is in {}", report.path().display())?;
        if code != ExitCode::SUCCESS {
            worst = code;
        }
    }
    Ok(worst)
}

fn repair_all(data: &Path, report: &mut Report, out: &mut dyn Write) -> Result<ExitCode> {
    let mut rebuilt = false;
    for _ in 0..ROUNDS_MAX {
        let disk = Arc::new(RealDisk::open(data).with_context(|| format!("opening {}", data.display()))?);
        match quartet_engine::check(disk.clone(), &invariants(), &mut progress()) {
            Ok(checked) if checked.findings.kept.iter().all(|finding| finding.repairs.is_empty()) => {
                check::describe(&checked, out)?;
                check::tell(&checked.findings, out)?;
                return Ok(check::verdict(&checked.findings));
            }
            Ok(checked) => repair_rows(disk, &checked.findings, report)?,
            Err(error) if error.is_damage() => {
                let repaired = match check::damaged_end(&error, &check::log_files(disk.as_ref())?) {
                    Some(end) => give_up(data, &error, &end, report).map(|()| true)?,
                    None => !rebuilt && rebuild(data, &disk, &error, report)?,
                };
                if !repaired {
                    writeln!(out, "damaged: {error}")?;
                    writeln!(out, "only a backup can replace it: see `quartet restore`")?;
                    report.say(&format!("left as it is: {error}"))?;
                    return Ok(ExitCode::from(EXIT_DAMAGED));
                }
                rebuilt |= matches!(error, OpenError::Store(_));
            }
            Err(error) => return Err(error.into()),
        }
    }
    bail!("after {ROUNDS_MAX} rounds of repairs there is still something to repair")
}

/// Cuts the log where it can no longer be read.
fn give_up(data: &Path, error: &OpenError, end: &DamagedEnd, report: &mut Report) -> Result<()> {
    report.say(&format!("damaged: {error}"))?;
    report.say(&end.lost)?;
    for step in &end.steps {
        let (file, from) = match step {
            Step::Cut { file, bytes } => (file, *bytes),
            Step::Remove { file } => (file, 0),
        };
        let path = data.join(file);
        let length = fs::metadata(&path).map_or(0, |metadata| metadata.len());
        let aside = data.join(format!("dropped-{}-{file}-from-{from}", SystemClock.now_micros()));
        let dropped = length.saturating_sub(from);
        report.say(&format!(
            "dropped: {dropped} bytes of {file} from byte {from} on, set aside as {}",
            aside.display()
        ))?;
        set_aside(&path, from, &aside).with_context(|| format!("dropping the end of {}", path.display()))?;
    }
    Ok(())
}

fn set_aside(path: &Path, from: u64, aside: &Path) -> std::io::Result<()> {
    use std::io::{Seek, SeekFrom};
    if from == 0 {
        fs::rename(path, aside)?;
    } else {
        let mut source = fs::OpenOptions::new().read(true).write(true).open(path)?;
        source.seek(SeekFrom::Start(from))?;
        let mut copy = fs::File::create_new(aside)?;
        std::io::copy(&mut source, &mut copy)?;
        copy.sync_all()?;
        source.set_len(from)?;
        source.sync_all()?;
    }
    fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Opens the directory as a server does and makes the repairs as transactions.
fn repair_rows(disk: Arc<RealDisk>, findings: &Findings, report: &mut Report) -> Result<()> {
    let failure = Box::new(|error: &_| eprintln!("the log failed: {error}"));
    let engine = Engine::open(
        disk,
        Arc::new(SystemClock),
        EngineOptions::default(),
        failure,
        &mut progress(),
    )?;
    for finding in &findings.kept {
        tell_repairs(&engine, finding, report)?;
    }
    engine
        .repair(&findings.kept)
        .map_err(|error| anyhow::anyhow!("repairing: {error:?}"))?;
    engine.close()?;
    Ok(())
}

fn tell_repairs(engine: &Engine, finding: &Finding, report: &mut Report) -> Result<()> {
    let (database, layer) = (finding.database, layer_name(finding.layer));
    report.say(&format!("database {}, {layer}: {}", database.0, finding.what))?;
    if finding.repairs.is_empty() {
        return report.say("  left as it is: a person has to decide");
    }
    let space = Space {
        database,
        layer: finding.layer,
        durability: quartet_engine::Durability::Always,
    };
    let reader = engine.reader(space)?;
    for repair in &finding.repairs {
        let line = match repair {
            Repair::Set { key, value } => format!("  written: {} with {}", shown(key), shown(value)),
            Repair::Clear { key } => {
                let value = reader.get(key).unwrap_or_default();
                format!("  dropped: {} with {}", shown(key), shown(&value))
            }
            Repair::ClearRange { start, end } => {
                let count = reader.count(start, end);
                format!(
                    "  dropped: {count} rows from {} on and before {}",
                    shown(start),
                    shown(end)
                )
            }
        };
        report.say(&line)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use quartet_engine::{Durability, ExecuteError};
    use quartet_model::{DatabaseId, LayerId};

    use super::*;
    use crate::check::tests::{ROWS, directory, log_files, open, run};

    /// The output, and the report.
    fn run_repair(data: &Path) -> (String, String) {
        let mut out = Vec::new();
        repair(data, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let report = out.rsplit_once("what was done is in ").unwrap().1.trim();
        let report = fs::read_to_string(report).unwrap();
        (out, report)
    }

    #[test]
    fn a_repair_gives_up_what_cannot_be_read_and_sets_it_aside() {
        let (data, _) = directory();
        let file = &log_files(data.path())[1];
        let mut content = fs::read(file).unwrap();
        content[32 + 100] ^= 1;
        fs::write(file, &content).unwrap();
        let mut out = Vec::new();
        judge(data.path(), true, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("nothing was changed"));
        assert_eq!(fs::read(file).unwrap(), content);
        let first: u64 = file.to_str().unwrap().rsplit_once("log-").unwrap().1.parse().unwrap();
        let (out, report) = run_repair(data.path());
        assert!(out.contains(&format!("state       {} rows", first - 1)), "{out}");
        assert!(out.contains("\nsound\n"), "{out}");
        assert!(
            report.contains(" of log-") && report.contains("from byte 32 on"),
            "{report}"
        );
        let mut dropped = fs::read_dir(data.path()).unwrap().map(|entry| entry.unwrap().path());
        let cut = dropped
            .find(|path| path.to_str().unwrap().ends_with("-from-32"))
            .unwrap();
        assert_eq!(fs::read(cut).unwrap(), content[32..]);
        assert_eq!(run(data.path()).0, 0);
        open(data.path()).close().unwrap();
    }

    #[test]
    fn rows_that_do_not_agree_are_found_and_repaired() {
        let (data, _) = directory();
        let engine = open(data.path());
        let space = Space {
            database: DatabaseId(1),
            layer: LayerId::Redis,
            durability: Durability::Always,
        };
        let planted: Result<_, ExecuteError<()>> = engine.partition().execute(space, |tx| {
            tx.set(b"E0123456789element", b"");
            tx.set(b"T\0\0\0\0\0\0\0\x01\0nobody", b"");
            Ok(())
        });
        planted.unwrap();
        engine.close().unwrap();
        let (code, text) = run(data.path());
        assert_eq!(code, EXIT_DAMAGED, "{text}");
        assert!(
            text.contains("2 things do not hold\n  database 1, redis: 1 elements belong to no key; can be repaired"),
            "{text}"
        );
        let (out, report) = run_repair(data.path());
        assert!(out.contains(&format!("state       {ROWS} rows")), "{out}");
        assert!(
            report.contains("dropped: 1 rows from \"E0123456789\" (11 bytes) on"),
            "{report}"
        );
        assert!(report.contains("nobody\" (16 bytes) with \"\" (0 bytes)"), "{report}");
        assert_eq!(run(data.path()).0, 0);
    }
}
