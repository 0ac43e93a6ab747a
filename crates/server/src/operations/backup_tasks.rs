//! Backups that the server itself takes, verifies and restores into new folders, on an operator's
//! request at the console.
//!
//! ```text
//!   GET    /admin/v1/backup-targets                 the names of the targets, and the task that runs or ran last
//!   GET    /admin/v1/backup-targets/NAME            what a target holds
//!   POST   /admin/v1/backup-targets/NAME/take       {"full": false}
//!   POST   /admin/v1/backup-targets/NAME/verify     {}
//!   POST   /admin/v1/backup-targets/NAME/restore    {"into": NAME, "at": VERSION or null, "database": NAME or null}
//!   DELETE /admin/v1/backup-task                    asks what runs to end
//! ```
//!
//! A request says names, never paths: the places of targets and restored folders are decided where
//! the server is started, and without that there are none. One task runs at a time, on a thread of
//! its own, which ends before the server does. A restored folder is for another server, of the ssd
//! engine, because that engine takes no more memory for more rows; nothing that is served changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Result, bail};
use parking_lot::Mutex;
use quartet_backup::{
    Archive, BackupError, BackupOptions, BackupSummary, Chain, Progress, Restored, Target, open_target,
    partition_address, partitions_in, state_partitions, take,
};
use quartet_engine::{PartitionId, StoreKind};
use quartet_env::{Runtime, SystemRuntime};
use quartet_model::Version;
use quartet_tenancy::{DEFAULT_NAME, is_name};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::http::{Answer, Head};
use crate::operations::local_backup::{LocalSource, Watched, now_micros};
use crate::operations::restoring::{FolderRestore, restore_folder};
use crate::settings::BackupSettings;
use crate::tenants::Tenants;

const TARGETS: &str = "/admin/v1/backup-targets";
const TASK: &str = "/admin/v1/backup-task";

pub struct BackupTasks {
    tenants: Arc<Tenants>,
    /// Names and addresses.
    targets: Vec<(String, String)>,
    restore_folder: Option<PathBuf>,
    running: Mutex<Option<Running>>,
}

/// The task that runs, or ran last.
struct Running {
    state: Arc<TaskState>,
    thread: JoinHandle<()>,
}

struct TaskState {
    kind: &'static str,
    target: String,
    started_micros: u64,
    stop: AtomicBool,
    progress: Mutex<Progress>,
    /// The task's result.
    outcome: Mutex<Option<Result<Value, String>>>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct TakeWanted {
    full: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RestoreWanted {
    into: String,
    #[serde(default)]
    at: Option<u64>,
    #[serde(default)]
    database: Option<String>,
}

/// Why a request is refused: status and text.
struct Refused(u16, String);

fn refused(status: u16, text: impl Into<String>) -> Refused {
    Refused(status, text.into())
}

impl BackupTasks {
    pub fn new(tenants: Arc<Tenants>, settings: &BackupSettings) -> BackupTasks {
        BackupTasks {
            tenants,
            targets: settings.targets.clone(),
            restore_folder: settings.restore_folder.clone(),
            running: Mutex::default(),
        }
    }

    pub fn answers(path: &str) -> bool {
        let below = |suffix: &str| suffix.is_empty() || suffix.starts_with('/');
        path.strip_prefix(TARGETS).is_some_and(below) || path == TASK
    }

    /// For authenticated holders of the root key. Reads from the disk, or from an object store.
    pub fn answer(&self, head: &Head<'_>, body: &[u8]) -> Answer {
        let answered = match head.path() {
            TASK => self.stop(head),
            path => {
                let rest = path.strip_prefix(TARGETS).unwrap_or_default();
                let segments: Vec<&str> = rest.split('/').skip(1).collect();
                match (head.method, &segments[..]) {
                    ("GET", []) => Ok((200, self.list())),
                    ("GET", [name]) => self.contents(name).map(|contents| (200, contents)),
                    ("POST", [name, "take"]) => self.take(name, body),
                    ("POST", [name, "verify"]) => self.verify(name),
                    ("POST", [name, "restore"]) => self.restore(name, body),
                    (_, [] | [_] | [_, "take" | "verify" | "restore"]) => Err(refused(405, "method not allowed")),
                    _ => Err(refused(404, "there is no such path")),
                }
            }
        };
        let (status, value) = answered.unwrap_or_else(|Refused(status, text)| (status, json!({ "error": text })));
        let mut answer = Answer::settled(status, format!("{value}\n"));
        answer.headers.push(("content-type", "application/json".into()));
        answer
    }

    fn list(&self) -> Value {
        let task = self.running.lock().as_ref().map(|running| running.state.show());
        let targets = self
            .targets
            .iter()
            .map(|(name, address)| json!({ "name": name, "address": address }));
        json!({
            "targets": targets.collect::<Vec<_>>(),
            "restore_folder": self.restore_folder.as_ref().map(|folder| folder.display().to_string()),
            "task": task,
        })
    }

    fn address(&self, name: &str) -> Result<&str, Refused> {
        let target = self.targets.iter().find(|(target_name, _)| target_name == name);
        let (_, address) = target.ok_or_else(|| refused(404, "there is no backup target of this name"))?;
        Ok(address)
    }

    fn contents(&self, name: &str) -> Result<Value, Refused> {
        let address = self.address(name)?;
        let unreadable = |error: BackupError| refused(503, error.to_string());
        if !address.contains("://") && !Path::new(address).exists() {
            return Ok(json!({ "chains": [] }));
        }
        let target = open_target(address, false).map_err(unreadable)?;
        let mut all = Vec::new();
        for partition in 0..partitions_in(target.as_ref()).map_err(unreadable)? {
            let target = open_target(&partition_address(address, partition), false).map_err(unreadable)?;
            let archive = Archive::read(target.as_ref()).map_err(unreadable)?;
            let chains = archive.chains().map_err(unreadable)?;
            all.extend(chains.iter().map(|chain| show_chain(partition, chain)));
        }
        Ok(json!({ "chains": all }))
    }

    fn take(&self, name: &str, body: &[u8]) -> Result<(u16, Value), Refused> {
        let wanted: TakeWanted = match body {
            [] => TakeWanted::default(),
            body => serde_json::from_slice(body).map_err(|error| refused(400, error.to_string()))?,
        };
        let (address, tenants) = (self.address(name)?.to_owned(), self.tenants.clone());
        self.start("take", name, move |state| {
            let is_stopped = || state.is_stopped();
            let partitions = tenants.parts.partitions.count() as u32;
            let options = BackupOptions {
                full: wanted.full,
                ..BackupOptions::default()
            };
            let mut all: Vec<BackupSummary> = Vec::new();
            for partition in 0..partitions {
                let address = partition_address(&address, partition);
                let target = Watched::new(open_target(&address, true)?, &is_stopped);
                if partition == 0 {
                    state_partitions(&target, partitions)?;
                }
                let mut source = LocalSource::new(Arc::downgrade(&tenants), PartitionId(partition), &is_stopped);
                let before = all.iter().map(|parts| parts.bytes).sum::<u64>();
                let mut progress = |progress: Progress| {
                    *state.progress.lock() = Progress {
                        bytes: before + progress.bytes,
                        bytes_total: before + progress.bytes_total,
                    };
                };
                all.push(take(&target, &mut source, &options, &mut progress, &mut |_| false)?);
            }
            let gap = all.iter().find_map(|parts| parts.gap);
            Ok(json!({
                "bytes": all.iter().map(|parts| parts.bytes).sum::<u64>(),
                "full": all.iter().any(|parts| parts.is_full),
                "steps": all.iter().map(|parts| parts.steps.len()).sum::<usize>(),
                "version": all[0].version,
                "partitions": all.iter().map(|parts| json!({ "version": parts.version })).collect::<Vec<_>>(),
                "gap": gap.map(|gap| json!({ "after": gap.after.0, "before": gap.before.0 })),
            }))
        })
    }

    fn verify(&self, name: &str) -> Result<(u16, Value), Refused> {
        let address = self.address(name)?.to_owned();
        self.start("verify", name, move |state| {
            let is_stopped = || state.is_stopped();
            let mut all = Vec::new();
            for partition in 0..partitions_in(open_target(&address, false)?.as_ref())? {
                let address = partition_address(&address, partition);
                let target = Watched::new(open_target(&address, false)?, &is_stopped);
                let chains = Archive::read(&target)?.chains()?;
                if chains.is_empty() {
                    bail!("there is no backup of partition {partition}");
                }
                all.push((target, chains));
            }
            let chains: Vec<(&Watched<'_>, &Chain)> = all
                .iter()
                .flat_map(|(target, chains)| chains.iter().map(move |chain| (target, chain)))
                .collect();
            let bytes_total = chains.iter().map(|(_, chain)| chain.bytes()).sum();
            let mut done = 0;
            for (target, chain) in &chains {
                let mut progress = |bytes| {
                    *state.progress.lock() = Progress {
                        bytes: done + bytes,
                        bytes_total,
                    };
                };
                chain.verify(*target, &mut progress)?;
                done += chain.bytes();
            }
            Ok(json!({ "bytes": bytes_total, "chains": chains.len() }))
        })
    }

    fn restore(&self, name: &str, body: &[u8]) -> Result<(u16, Value), Refused> {
        let options: RestoreWanted = serde_json::from_slice(body).map_err(|error| refused(400, error.to_string()))?;
        let folder = self.restore_folder.as_ref();
        let folder =
            folder.ok_or_else(|| refused(403, "the server was started without a folder for what is restored"))?;
        if !is_name(&options.into) && options.into != DEFAULT_NAME {
            let rule = "a folder's name is 1 to 64 lower-case letters, digits and hyphens";
            return Err(refused(400, rule));
        }
        let data = folder.join(&options.into);
        if data.exists() {
            return Err(refused(409, "there is a folder of this name"));
        }
        let address = self.address(name)?.to_owned();
        self.start("restore", name, move |state| {
            let is_stopped = || state.is_stopped();
            let open = |address: &str| -> Result<Box<dyn Target + '_>, BackupError> {
                Ok(Box::new(Watched::new(open_target(address, false)?, &is_stopped)))
            };
            let options = FolderRestore {
                at: options.at.map(Version),
                database: options.database,
                engine: StoreKind::Ssd,
            };
            let mut progress = |progress| *state.progress.lock() = progress;
            let restored = restore_folder(&address, &open, &data, &options, &mut progress)?;
            Ok(json!({
                "folder": data.display().to_string(),
                "version": restored[0].version.0,
                "rows": restored.iter().map(|restored| restored.rows).sum::<u64>(),
                "state_hash": format!("{:032x}", restored[0].state_hash),
                "partitions": restored.iter().map(show_restored).collect::<Vec<_>>(),
            }))
        })
    }

    /// Runs `work` on a thread, if nothing else runs.
    fn start(
        &self,
        kind: &'static str,
        target: &str,
        work: impl FnOnce(&TaskState) -> Result<Value> + Send + 'static,
    ) -> Result<(u16, Value), Refused> {
        let mut running = self.running.lock();
        if running.as_ref().is_some_and(|running| !running.thread.is_finished()) {
            return Err(refused(409, "another backup, check or restoration is running"));
        }
        let state = Arc::new(TaskState {
            kind,
            target: target.to_owned(),
            started_micros: now_micros(),
            stop: AtomicBool::new(false),
            progress: Mutex::new(Progress {
                bytes: 0,
                bytes_total: 0,
            }),
            outcome: Mutex::default(),
        });
        let own = state.clone();
        let run = move || {
            // Threads started here inherit the lower priority.
            SystemRuntime::default().make_way();
            let outcome = work(&own).map_err(|error| format!("{error:#}"));
            match &outcome {
                Ok(_) => tracing::info!(kind, target = own.target, "a task of the console has ended"),
                Err(error) => tracing::error!(kind, target = own.target, error, "a task of the console has failed"),
            }
            *own.outcome.lock() = Some(outcome);
        };
        let thread = std::thread::Builder::new().name("backup-task".into()).spawn(run);
        let thread = thread.map_err(|error| refused(503, format!("no thread can be started: {error}")))?;
        let description = state.show();
        *running = Some(Running { state, thread });
        Ok((202, description))
    }

    fn stop(&self, head: &Head<'_>) -> Result<(u16, Value), Refused> {
        if head.method != "DELETE" {
            return Err(refused(405, "method not allowed"));
        }
        let running = self.running.lock();
        let running = running.as_ref().ok_or_else(|| refused(404, "nothing has run"))?;
        running.state.stop.store(true, Ordering::Relaxed);
        Ok((202, running.state.show()))
    }
}

/// The connections are closed by now. The thread uses the engine, which is about to be closed.
impl Drop for BackupTasks {
    fn drop(&mut self) {
        if let Some(running) = self.running.lock().take() {
            running.state.stop.store(true, Ordering::Relaxed);
            drop(running.thread.join());
        }
    }
}

impl TaskState {
    fn show(&self) -> Value {
        let progress = *self.progress.lock();
        let mut description = json!({
            "kind": self.kind,
            "target": self.target,
            "started_micros": self.started_micros,
            "bytes": progress.bytes,
            "bytes_total": progress.bytes_total.max(progress.bytes),
        });
        match &*self.outcome.lock() {
            None => {}
            Some(Ok(value)) => description["done"] = value.clone(),
            Some(Err(error)) => description["failed"] = error.as_str().into(),
        }
        description
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn show_restored(restored: &Restored) -> Value {
    json!({
        "version": restored.version.0,
        "rows": restored.rows,
        "state_hash": format!("{:032x}", restored.state_hash),
    })
}

fn show_chain(partition: u32, chain: &Chain) -> Value {
    let base = chain.base();
    let written = chain.steps.last().map_or(0, |step| step.written_micros);
    json!({
        "partition": partition,
        "oldest": chain.oldest().0,
        "covered": chain.covered().0,
        "follows": chain.follows(),
        "steps": chain.steps.len(),
        "rows": base.rows,
        "bytes": chain.bytes(),
        "written_micros": written,
        "databases": base.databases.iter().map(|database| database.name.as_str()).collect::<Vec<_>>(),
    })
}
