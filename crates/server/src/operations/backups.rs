//! Serves `quartet backup` from a running server, through the admin API: rows of one snapshot and
//! records of the log, pieces of a few megabytes at a time, as frames of `quartet_backup`.
//!
//! ```text
//!   POST   /admin/v1/backups                           begins one: {"anchor": {"sequence", "digest"} or null, "is_full"}; answers its id
//!   POST   /admin/v1/backups/ID/rows                   {"after": HEX or null, "bytes_max"}: rows behind a key; nothing: there are no more
//!   POST   /admin/v1/backups/ID/log                    {"from", "bytes_max"}: records; nothing: there are no more for now
//!   DELETE /admin/v1/backups/ID                        ends it
//! ```
//!
//! The client keeps the pieces: here the server writes nothing, and connects to no other server.
//! (`backup_tasks` does, for a configured target.)
//!
//! A backup without requests ends after two minutes, together with the records kept for it. There
//! are at most four.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quartet_backup::{Anchor, BackupError, DatabaseName, Session};
use quartet_engine::PartitionId;
use quartet_env::{Runtime, SystemRuntime};
use quartet_model::LogSequence;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::http::{Answer, Head};
use crate::operations::partitions;
use crate::tenants::Tenants;

const BACKUPS: &str = "/admin/v1/backups";
const SESSIONS_MAX: usize = 4;
const IDLE_MAX: Duration = Duration::from_secs(120);
/// Time limit for a replica to receive the commits of its home.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// An answer is no longer than this, except for a single longer row or record.
const PIECE_BYTES_MAX: usize = 4 << 20;

pub struct Backups {
    tenants: Arc<Tenants>,
    sessions: Arc<Sessions>,
}

#[derive(Default)]
struct Sessions {
    open: Mutex<HashMap<String, Arc<Open>>>,
}

struct Open {
    /// None once it ends.
    asked: Option<Sender<Asked>>,
    thread: Option<JoinHandle<()>>,
    last_used: Mutex<Instant>,
}

/// The session's engine is not in use afterwards.
impl Drop for Open {
    fn drop(&mut self) {
        self.asked = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Work on the session, on the session's own thread: that one makes way for the server's others.
type Asked = Box<dyn FnOnce(&mut Session) + Send>;

impl Open {
    fn new(mut session: Session) -> io::Result<Open> {
        let (sender, asks) = channel::<Asked>();
        let serve = move || {
            SystemRuntime::default().make_way();
            asks.into_iter().for_each(|ask| ask(&mut session));
        };
        let thread = std::thread::Builder::new().name("backup".into()).spawn(serve)?;
        Ok(Open {
            asked: Some(sender),
            thread: Some(thread),
            last_used: Mutex::new(Instant::now()),
        })
    }

    /// Waits for what the session gives.
    fn ask(
        &self,
        step: impl FnOnce(&mut Session) -> Result<Vec<u8>, BackupError> + Send + 'static,
    ) -> Result<Vec<u8>, Refused> {
        let (answer, answered) = sync_channel(1);
        // The receiver is alive: `ask` blocks on it.
        let ask = move |session: &mut Session| drop(answer.send(step(session)));
        let ended = || Refused(503, "the backup has ended".into());
        let sender = self.asked.as_ref().ok_or_else(ended)?;
        sender.send(Box::new(ask)).map_err(|_| ended())?;
        Ok(answered.recv().map_err(|_| ended())??)
    }
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Wanted {
    anchor: Option<Anchor>,
    is_full: bool,
    /// A backup is of one partition. May be left out where there is one.
    partition: Option<u32>,
    /// The backup is one of all partitions: it covers the time of its start, even without writes.
    is_of_all: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RowsWanted {
    /// In hexadecimal digits: a key may be longer than the head of a request.
    after: Option<String>,
    bytes_max: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogWanted {
    from: u64,
    bytes_max: usize,
}

/// Why a request is refused: status and text.
struct Refused(u16, String);

impl From<BackupError> for Refused {
    fn from(error: BackupError) -> Refused {
        Refused(503, error.to_string())
    }
}

/// Adds a commit after all commits acknowledged by the partition's home so far, and waits until
/// this process has it: a backup started then covers this time, even without writes.
pub fn mark(tenants: &Tenants, partition: PartitionId) -> Result<(), String> {
    let catalogue = &tenants.catalogue;
    if !catalogue.is_elsewhere(partition) {
        let marked = tenants.parts.partitions.engine(partition).mark_version();
        return marked.map(drop).map_err(|error| error.to_string());
    }
    let until = Instant::now() + CATCH_UP_TIMEOUT;
    let number = catalogue.mark(partition).map_err(|error| error.to_string())?;
    while !catalogue
        .has_caught_up(partition, number)
        .map_err(|error| error.to_string())?
    {
        if Instant::now() >= until {
            return Err(format!(
                "this node does not catch up with the home of partition {}",
                partition.0
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

impl Backups {
    pub fn new(tenants: Arc<Tenants>) -> Backups {
        Backups {
            tenants,
            sessions: Arc::default(),
        }
    }

    pub fn answers(path: &str) -> bool {
        path.strip_prefix(BACKUPS)
            .is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('/'))
    }

    /// For authenticated holders of the root key. Reads from the disk.
    pub fn answer(&self, head: &Head<'_>, body: &[u8]) -> Answer {
        let path = head.path().strip_prefix(BACKUPS).unwrap_or_default();
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let answered = match (head.method, &segments[..]) {
            ("POST", []) => self.begin(body).map(|session| whole(201, &session)),
            ("POST", [id, "rows"]) => self.rows(id, body).map(frames),
            ("POST", [id, "log"]) => self.log(id, body).map(frames),
            ("DELETE", [id]) => self.end(id).map(|()| Answer::settled(204, "")),
            _ => Err(Refused(404, "there is no such path".into())),
        };
        answered.unwrap_or_else(|Refused(status, text)| whole(status, &json!({ "error": text })))
    }

    fn begin(&self, body: &[u8]) -> Result<Value, Refused> {
        let options: Wanted = wanted_in(body)?;
        self.sessions.forget_idle();
        if self.sessions.open.lock().len() >= SESSIONS_MAX {
            return Err(Refused(503, "as many backups are being taken as there may be".into()));
        }
        let partitions = &self.tenants.parts.partitions;
        let text = format!("name one of the {} partitions: a backup is of one", partitions.count());
        let named = match (options.partition, partitions.count()) {
            (None, 1) => Some(PartitionId(0)),
            (named, _) => named.map(PartitionId),
        };
        let named = named.filter(|id| partitions.has(*id));
        let partition = named.ok_or(Refused(400, text))?;
        let engine = partitions.engine(partition).clone();
        if options.is_of_all || self.tenants.catalogue.is_elsewhere(partition) {
            mark(&self.tenants, partition).map_err(|error| Refused(503, error))?;
        }
        let (session, mut description) = Session::begin(engine, options.anchor, options.is_full)?;
        description.databases = database_names(&self.tenants, partition);
        let mut id = [0; 16];
        let random = |_| Refused(503, "the system gives no random numbers".into());
        rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty()).map_err(random)?;
        let id = format!("{:032x}", u128::from_le_bytes(id));
        let no_thread = |error| Refused(503, format!("no thread can be started: {error}"));
        let open = Open::new(session).map_err(no_thread)?;
        self.sessions.keep(id.clone(), open);
        let mut answer = serde_json::to_value(description).expect("numbers and texts are JSON");
        answer["id"] = id.into();
        Ok(answer)
    }

    fn rows(&self, id: &str, body: &[u8]) -> Result<Vec<u8>, Refused> {
        let open = self.sessions.find(id)?;
        let options: RowsWanted = wanted_in(body)?;
        let not_hexadecimal = || Refused(400, "after is not hexadecimal".into());
        let after = options.after.map(|text| bytes_of(&text).ok_or_else(not_hexadecimal));
        let bytes_max = options.bytes_max.clamp(1, PIECE_BYTES_MAX);
        let after = after.transpose()?;
        open.ask(move |session| session.rows(after.as_deref(), bytes_max))
    }

    fn log(&self, id: &str, body: &[u8]) -> Result<Vec<u8>, Refused> {
        let open = self.sessions.find(id)?;
        let options: LogWanted = wanted_in(body)?;
        let bytes_max = options.bytes_max.clamp(1, PIECE_BYTES_MAX);
        open.ask(move |session| session.log(LogSequence(options.from), bytes_max))
    }

    fn end(&self, id: &str) -> Result<(), Refused> {
        self.sessions.open.lock().remove(id);
        Ok(())
    }
}

/// The logical databases of a partition.
pub fn database_names(tenants: &Tenants, partition: PartitionId) -> Vec<DatabaseName> {
    let databases = partitions::databases_in(tenants, partition);
    databases
        .into_iter()
        .map(|(name, id)| DatabaseName { name, id })
        .collect()
}

impl Sessions {
    fn find(&self, id: &str) -> Result<Arc<Open>, Refused> {
        let open = self.open.lock().get(id).cloned();
        let open = open.ok_or_else(|| Refused(404, "there is no such backup: it was idle for too long".into()))?;
        *open.last_used.lock() = Instant::now();
        Ok(open)
    }

    /// While there are any, a thread ends those without requests.
    fn keep(self: &Arc<Self>, id: String, open: Open) {
        let mut sessions = self.open.lock();
        sessions.insert(id, Arc::new(open));
        if sessions.len() == 1 {
            let watched = self.clone();
            let looks = move || {
                while !watched.open.lock().is_empty() {
                    std::thread::sleep(LOOK_INTERVAL);
                    watched.forget_idle();
                }
            };
            let started = std::thread::Builder::new().name("backups".into()).spawn(looks);
            if let Err(error) = started {
                tracing::warn!(%error, "no thread to end backups that nobody asks for");
            }
        }
    }

    fn forget_idle(&self) {
        self.open
            .lock()
            .retain(|_, open| open.last_used.lock().elapsed() < IDLE_MAX);
    }
}

fn wanted_in<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|error| Refused(400, error.to_string()))
}

fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.chunks_exact(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

fn frames(bytes: Vec<u8>) -> Answer {
    let mut answer = Answer::settled(200, bytes);
    answer.headers.push(("content-type", "application/octet-stream".into()));
    answer
}

fn whole(status: u16, body: &Value) -> Answer {
    let mut answer = Answer::settled(status, format!("{body}\n"));
    answer.headers.push(("content-type", "application/json".into()));
    answer
}
