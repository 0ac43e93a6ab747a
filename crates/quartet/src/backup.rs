//! `quartet backup`: takes a backup of a running server, through its admin API (`docs/backup.md`).

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use quartet_backup::{
    Anchor, BackupError, BackupOptions, BackupStart, BackupSummary, Gap, Progress, Source, Target, open_target,
    partition_address, partitions_in, state_partitions, take,
};
use quartet_env::{Runtime, SystemRuntime};
use quartet_model::{LogSequence, hexadecimal};
use serde_json::{Value, json};

use crate::admin_api;

#[derive(Args)]
pub struct BackupArguments {
    #[command(flatten)]
    server: admin_api::Server,
    /// Where backups are kept: a folder, or s3://BUCKET/PREFIX (credentials and endpoint from the
    /// AWS_ variables)
    #[arg(long, value_name = "DIR|s3://BUCKET/PREFIX")]
    to: String,
    /// A single partition of a server with several [default: all of them, each below the target]
    #[arg(long, value_name = "NUMBER")]
    partition: Option<u32>,
    /// Take all rows, also if the log reaches back to what the target holds
    #[arg(long)]
    full: bool,
    /// Run until SIGTERM or SIGINT: add new records each --interval-seconds. Needs --partition
    /// where the server has several
    #[arg(long)]
    follow: bool,
    /// See --follow
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    interval_seconds: u64,
    /// Keep every version younger than this number of days: all rows are taken again once the
    /// newest base is a day old, and a backup starts by removing files that only older versions
    /// need [default: nothing is removed]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    keep_days: Option<u32>,
    /// Take no more bytes in a second [default: as fast as it goes]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    bytes_per_second: Option<u64>,
}

/// An answer is hardly longer.
const ANSWER_BYTES: u64 = 4 << 20;

pub fn backup(arguments: &BackupArguments) -> Result<()> {
    // The server, if it is on this machine, and its clients have priority.
    SystemRuntime::default().make_way();
    let mut server = Server::new(&arguments.server, arguments.partition)?;
    let partitions = match arguments.partition {
        Some(_) => 1,
        None => server.partitions()?,
    };
    ensure!(
        partitions == 1 || !arguments.follow,
        "name one of the {partitions} partitions to follow"
    );
    let options = BackupOptions {
        full: arguments.full,
        bytes_per_second: arguments.bytes_per_second,
        follow: arguments
            .follow
            .then(|| Duration::from_secs(arguments.interval_seconds)),
        keep: arguments.keep_days.map(|days| Duration::from_hours(24) * days),
    };
    let stop = stop_flag()?;
    let bar = bar();
    let mut progress = |progress: Progress| {
        bar.set_length(progress.bytes_total.max(progress.bytes));
        bar.set_position(progress.bytes);
    };
    for partition in 0..partitions {
        ensure!(
            partition == 0 || !stop.load(Ordering::Relaxed),
            "it was stopped before partition {partition}"
        );
        let target = open_target(&partition_address(&arguments.to, partition), true)?;
        if partitions > 1 {
            server.begin_partition(partition);
            print!("partition {partition}: ");
        }
        if partition == 0 && arguments.partition.is_none() {
            state_partitions(target.as_ref(), partitions)?;
        }
        take_into(
            target.as_ref(),
            &mut server,
            &options,
            arguments.follow,
            &stop,
            &mut progress,
        )?;
        bar.reset();
    }
    bar.finish_and_clear();
    Ok(())
}

/// Time for which `--follow` tries again after a step, while the server fails.
const SERVER_PATIENCE: Duration = Duration::from_secs(300);
/// Interval of its attempts.
const SERVER_AGAIN: Duration = Duration::from_secs(1);

fn take_into(
    target: &dyn Target,
    server: &mut Server,
    options: &BackupOptions,
    follows: bool,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<()> {
    let (mut options, mut failing_since) = (options.clone(), None::<Instant>);
    let summary = loop {
        let mut reported = 0;
        let mut go_on = |summary: &BackupSummary| {
            if summary.steps.len() > reported {
                warn_of_gap(summary.gap.filter(|_| reported == 0));
                reported = summary.steps.len();
                println!("{}", describe(summary));
            }
            !stop.load(Ordering::Relaxed)
        };
        let result = take(target, server, &options, progress, &mut go_on);
        server.end();
        server.id = None;
        if reported > 0 {
            (options.full, failing_since) = (false, Some(Instant::now()));
        }
        match result {
            // Another node of a cluster becomes home, or the server is started again. The next step
            // continues after the last one in the target.
            Err(BackupError::Source(reason))
                if follows
                    && !stop.load(Ordering::Relaxed)
                    && failing_since.is_some_and(|since| since.elapsed() < SERVER_PATIENCE) =>
            {
                eprintln!("warning: the server: {reason}: trying again");
                std::thread::sleep(SERVER_AGAIN);
            }
            result => break result?,
        }
    };
    if !follows {
        warn_of_gap(summary.gap);
        println!("{}", describe(&summary));
    }
    Ok(())
}

fn warn_of_gap(gap: Option<Gap>) {
    let Some(Gap { after, before }) = gap else { return };
    match after < before {
        true => eprintln!(
            "warning: the server's log does not reach back to the last step: writes after version {} and before version {} are in no backup",
            after.0, before.0
        ),
        false => eprintln!(
            "warning: the server does not continue the last backup, at version {}: a new base starts at version {}",
            after.0, before.0
        ),
    }
}

fn describe(summary: &BackupSummary) -> String {
    let kind = if summary.is_full {
        "all rows and the log"
    } else {
        "the log"
    };
    match summary.steps.is_empty() {
        true => format!("nothing new since version {}", summary.version),
        false => format!("{} bytes, {kind}, up to version {}", summary.bytes, summary.version),
    }
}

/// Shows a backup's progress on a terminal.
pub fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Returns a flag that is set once the process was requested to end.
fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            let terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate());
            let Ok(mut terminate) = terminate else { return };
            let interrupted = tokio::signal::ctrl_c();
            tokio::select! { _ = terminate.recv() => {}, _ = interrupted => {} }
        });
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(1);
        }
    });
    Ok(stop)
}

/// A running server, as its admin API shows it.
struct Server {
    agent: ureq::Agent,
    base: String,
    key: String,
    partition: Option<u32>,
    /// The partition is one of several that are backed up together.
    is_of_all: bool,
    /// The chain of the backup that it has started.
    id: Option<String>,
}

impl Server {
    fn new(server: &admin_api::Server, partition: Option<u32>) -> Result<Server> {
        Ok(Server {
            agent: server.agent()?,
            base: server.base()?,
            key: format!("Bearer {}", server.key()?),
            partition,
            is_of_all: false,
            id: None,
        })
    }

    /// Returns how many partitions the server has.
    fn partitions(&self) -> Result<u32> {
        let url = format!("{}/admin/v1/partitions", self.base);
        let response = self.agent.get(&url).header("authorization", &self.key).call();
        // One that does not say has one, or refuses a backup that names none.
        if response.as_ref().is_ok_and(|answer| !answer.status().is_success()) {
            return Ok(1);
        }
        let listed: Value = serde_json::from_slice(&read(response)?)?;
        let all = listed["partitions"].as_array().map_or(1, Vec::len);
        Ok(u32::try_from(all)?)
    }

    fn begin_partition(&mut self, partition: u32) {
        (self.partition, self.is_of_all, self.id) = (Some(partition), true, None);
    }

    fn ask(&self, action: &str, body: &Value) -> Result<Vec<u8>, BackupError> {
        let id = self.id.as_deref().unwrap_or_default();
        let url = format!("{}/admin/v1/backups/{id}/{action}", self.base);
        let request = self.agent.post(&url).header("authorization", &self.key);
        read(request.send(body.to_string()))
    }

    fn end(&self) {
        if let Some(id) = &self.id {
            let url = format!("{}/admin/v1/backups/{id}", self.base);
            // If this does not arrive, the server ends it by itself.
            let _ = self.agent.delete(&url).header("authorization", &self.key).call();
        }
    }
}

fn read(result: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Vec<u8>, BackupError> {
    let failed = |error: &dyn std::fmt::Display| BackupError::Source(error.to_string());
    let response = result.map_err(|error| failed(&error))?;
    let status = response.status();
    let announced = response.body().content_length().unwrap_or_default();
    let mut bytes = Vec::with_capacity(announced.min(ANSWER_BYTES) as usize);
    let body = response.into_body().into_reader().read_to_end(&mut bytes);
    body.map_err(|error| failed(&error))?;
    match status.is_success() {
        true => Ok(bytes),
        false => Err(failed(&format!("{status}: {}", String::from_utf8_lossy(&bytes).trim()))),
    }
}

impl Source for Server {
    fn begin(&mut self, anchor: Option<Anchor>, is_full: bool) -> Result<BackupStart, BackupError> {
        let url = format!("{}/admin/v1/backups", self.base);
        let mut body = json!({ "anchor": anchor, "is_full": is_full });
        if let Some(partition) = self.partition {
            body["partition"] = partition.into();
            body["is_of_all"] = self.is_of_all.into();
        }
        let body = body.to_string();
        let bytes = read(self.agent.post(&url).header("authorization", &self.key).send(body))?;
        let unreadable = |error: serde_json::Error| BackupError::Source(error.to_string());
        let mut answer: Value = serde_json::from_slice(&bytes).map_err(unreadable)?;
        self.id = answer["id"].as_str().map(str::to_owned);
        if let Some(fields) = answer.as_object_mut() {
            fields.remove("id");
        }
        serde_json::from_value(answer).map_err(unreadable)
    }

    fn rows(&mut self, after: Option<&[u8]>, bytes_max: usize) -> Result<Vec<u8>, BackupError> {
        self.ask(
            "rows",
            &json!({ "after": after.map(hexadecimal), "bytes_max": bytes_max }),
        )
    }

    fn log(&mut self, from: LogSequence, bytes_max: usize) -> Result<Vec<u8>, BackupError> {
        self.ask("log", &json!({ "from": from.0, "bytes_max": bytes_max }))
    }

    fn now_micros(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        since_epoch.map_or(0, |passed| passed.as_micros() as u64)
    }
}

/// For `quartet check --backup`: verifies all that the target holds, and says what it covers.
pub fn check(address: &str, out: &mut dyn Write) -> Result<()> {
    let partitions = partitions_in(open_target(address, false)?.as_ref())?;
    for partition in 0..partitions {
        if partitions > 1 {
            writeln!(out, "partition {partition}:")?;
        }
        check_partition(&partition_address(address, partition), out)?;
    }
    Ok(())
}

fn check_partition(address: &str, out: &mut dyn Write) -> Result<()> {
    let target = open_target(address, false)?;
    let archive = quartet_backup::Archive::read(target.as_ref())?;
    let chains = archive.chains()?;
    if chains.is_empty() {
        bail!("there is no backup");
    }
    for (index, chain) in chains.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| chains[before].covered());
        if let Some(after) = before.filter(|after| !chain.follows() && *after < chain.oldest()) {
            writeln!(
                out,
                "writes after version {} and before version {} are in no backup",
                after.0,
                chain.oldest().0
            )?;
        }
        let bar = bar();
        bar.set_length(chain.bytes());
        chain.verify(target.as_ref(), &mut |bytes| bar.set_position(bytes))?;
        bar.finish_and_clear();
        writeln!(
            out,
            "versions {} to {}: {} rows in its base, {} steps, {} bytes",
            chain.oldest().0,
            chain.covered().0,
            chain.base().rows,
            chain.steps.len(),
            chain.bytes()
        )?;
    }
    for name in &archive.leftovers {
        writeln!(
            out,
            "{name} belongs to no backup: it was ended in the middle, and the next one removes it"
        )?;
    }
    Ok(())
}
