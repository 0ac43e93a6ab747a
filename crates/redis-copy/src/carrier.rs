//! Sends requests to the target, many in one transaction, together with the copy's progress.
//!
//! ```text
//! MULTI  SELECT db  request ...  SELECT 0  SET quartet:import progress  EXEC     or, within a replica,  REPLCONF  quartet-whole progress  EXEC
//! ```
//!
//! Keys are sent with several transactions in flight; each writes as its progress the position
//! confirmed when it is sent, so a lost transaction is never skipped. Commands are sent one
//! transaction after the other, and the progress is that of the transaction itself. A request that
//! the target refuses to queue is reported and left out, and the transaction is sent again without
//! it; a request that fails when it is executed is reported, and the rest of its transaction stays,
//! as on the source.

use std::collections::VecDeque;

use quartet_wire_resp::{Value, encode_command};

use crate::connection::{IN_FLIGHT_BYTES_MAX, Target, error_text};
use crate::error::{Error, Result};
use crate::progress::{Keeper, Progress, Step, refused};
use crate::watcher::{Rejected, Watcher, shown};

/// Number of requests or bytes at which a transaction is sent.
const REQUESTS_MAX: usize = 1000;
const BYTES_MAX: usize = 1 << 20;
/// Transactions under way.
const IN_FLIGHT_MAX: usize = 6;

/// Errors that concern every request: nothing is left out because of them.
const FATAL: [&str; 9] = [
    "OOM",
    "NOAUTH",
    "NOPERM",
    "READONLY",
    "MISCONF",
    "LOADING",
    "BUSY ",
    "ERR DB capacity",
    "ERR max ",
];

pub struct Carrier<'c> {
    target: &'c mut dyn Target,
    pub watcher: &'c mut dyn Watcher,
    source: String,
    keeper: Keeper,
    batch: Batch,
    in_flight: VecDeque<Sent>,
    in_flight_bytes: usize,
    /// The confirmed progress.
    confirmed: Step,
    /// Keys and commands that the target has confirmed.
    pub done: u64,
    pub rejected: u64,
    /// Bytes read from the source, for the watcher.
    pub bytes_read: u64,
}

/// See [`Carrier::mark`].
#[derive(Clone, Copy)]
pub struct Mark {
    count: usize,
    db: Option<u64>,
}

#[derive(Default)]
struct Batch {
    requests: Vec<u8>,
    /// The ends of the requests, with their databases and their names in a report.
    ends: Vec<Request>,
    /// The database that the requests have selected last.
    db: Option<u64>,
}

#[derive(Clone)]
struct Request {
    start: usize,
    end: usize,
    db: u64,
    label: String,
    /// It selects a database: it is not counted.
    is_own: bool,
}

struct Sent {
    batch: Batch,
    /// The progress of the copy after the arrival of this batch.
    step: Step,
    bytes: usize,
    /// To the requests that write the progress.
    own_replies: usize,
}

impl<'c> Carrier<'c> {
    pub fn new(
        target: &'c mut dyn Target,
        watcher: &'c mut dyn Watcher,
        source: &str,
        begin: Step,
        keeper: Keeper,
    ) -> Carrier<'c> {
        Carrier {
            target,
            watcher,
            source: source.into(),
            keeper,
            batch: Batch::default(),
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            confirmed: begin,
            done: 0,
            rejected: 0,
            bytes_read: 0,
        }
    }

    /// The confirmed progress.
    pub fn confirmed(&self) -> &Step {
        &self.confirmed
    }

    /// Writes the progress at the start of the copy, or at its resumption.
    pub fn begin(&mut self) -> Result<()> {
        self.bring_commands(self.confirmed.clone())
    }

    /// Removes everything from the target, so that the copy can restart.
    pub fn clear(&mut self) -> Result<()> {
        self.confirmed = Step::FirstCopy;
        self.batch.push(&[b"FLUSHALL"], 0, "FLUSHALL".into(), true);
        if self.keeper == Keeper::Replica {
            let words: &[&[u8]] = &[b"FUNCTION", b"FLUSH"];
            self.batch.push(words, 0, "FUNCTION FLUSH".into(), true);
        }
        self.begin()
    }

    /// Discards unsent requests: the source is going to repeat them.
    pub fn forget(&mut self) {
        self.batch = Batch::default();
    }

    /// The target and the watcher, while nothing is in flight.
    pub fn parts(&mut self) -> (&mut dyn Target, &mut dyn Watcher) {
        (self.target, self.watcher)
    }

    pub fn reject(&mut self, db: u64, description: String, reason: impl Into<String>) {
        self.rejected += 1;
        let reason = reason.into();
        self.watcher.rejected(Rejected {
            db,
            what: description,
            reason,
        });
    }

    /// Adds a request.
    pub fn add(&mut self, db: u64, words: &[&[u8]]) {
        self.batch.select(db);
        let label = match words {
            [command, ..] if command.eq_ignore_ascii_case(b"RESTORE") && words.len() > 1 => shown(words[1]),
            [command, name, ..] => format!("{} {}", command.escape_ascii(), shown(name)),
            _ => words.iter().map(|word| shown(word)).collect(),
        };
        self.batch.push(words, db, label, false);
    }

    pub fn is_full(&self) -> bool {
        self.batch.ends.len() >= REQUESTS_MAX || self.batch.requests.len() >= BYTES_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.batch.ends.is_empty()
    }

    /// The requests added until now, for [`Carrier::forget_behind`].
    pub fn mark(&self) -> Mark {
        Mark {
            count: self.batch.ends.len(),
            db: self.batch.db,
        }
    }

    /// Forgets what was added since the mark, and was not sent.
    pub fn forget_behind(&mut self, mark: Mark) {
        self.batch.ends.truncate(mark.count);
        self.batch
            .requests
            .truncate(self.batch.ends.last().map_or(0, |request| request.end));
        self.batch.db = mark.db;
    }

    /// Sends the added requests for keys, which may be repeated. `step` is the copy's progress with
    /// them.
    pub fn send_keys(&mut self, step: Step) -> Result<()> {
        let resume_step = self.confirmed.clone();
        self.send(step, &resume_step)?;
        self.settle(IN_FLIGHT_MAX, IN_FLIGHT_BYTES_MAX)
    }

    /// Sends the added commands, which must be executed exactly once, and waits until they are.
    pub fn bring_commands(&mut self, step: Step) -> Result<()> {
        self.settle(0, 0)?;
        let resume_step = step.clone();
        self.send(step, &resume_step)?;
        self.settle(0, 0)
    }

    /// Waits for everything in flight.
    pub fn wait(&mut self) -> Result<()> {
        self.settle(0, 0)
    }

    fn send(&mut self, step: Step, resume_step: &Step) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.send_batch(batch, step, resume_step)
    }

    fn send_batch(&mut self, batch: Batch, step: Step, resume_step: &Step) -> Result<()> {
        let progress = Progress {
            source: self.source.clone(),
            step: resume_step.clone(),
        };
        let (written, own_replies) = self.keeper.requests(&progress);
        let mut requests = Vec::with_capacity(batch.requests.len() + written.len() + 50);
        encode_command(&["MULTI"], &mut requests);
        requests.extend_from_slice(&batch.requests);
        requests.extend_from_slice(&written);
        encode_command(&["EXEC"], &mut requests);
        self.target.send(&requests).map_err(of_target)?;
        let bytes = requests.len();
        self.in_flight_bytes += bytes;
        self.in_flight.push_back(Sent {
            batch,
            step,
            bytes,
            own_replies,
        });
        Ok(())
    }

    /// Receives replies until at most this much is in flight.
    fn settle(&mut self, count_max: usize, bytes_max: usize) -> Result<()> {
        while self.in_flight.len() > count_max || self.in_flight_bytes > bytes_max {
            let Some(sent) = self.in_flight.pop_front() else { break };
            self.in_flight_bytes -= sent.bytes;
            self.settle_one(sent)?;
        }
        Ok(())
    }

    fn settle_one(&mut self, sent: Sent) -> Result<()> {
        let reply = self.receive()?;
        if !matches!(reply, Value::Simple(_)) {
            return Err(refused(&reply));
        }
        let mut refusals: Vec<(usize, String)> = Vec::new();
        for index in 0..sent.batch.ends.len() {
            if let Some(text) = error_text(&self.receive()?) {
                refusals.push((index, text));
            }
        }
        for _ in 0..sent.own_replies {
            if let Some(text) = error_text(&self.receive()?) {
                return Err(Error::Target(format!("writing down how far the copy is: {text}")));
            }
        }
        match self.receive()? {
            Value::Array(replies) => self.arrived(&sent, &replies),
            Value::Error(_) if !refusals.is_empty() => self.bring_without(sent, &refusals),
            other => Err(refused(&other)),
        }
    }

    fn receive(&mut self) -> Result<Value> {
        self.target.receive().map_err(of_target)
    }

    fn arrived(&mut self, sent: &Sent, replies: &[Value]) -> Result<()> {
        for (request, reply) in sent.batch.ends.iter().zip(replies) {
            match error_text(reply) {
                Some(text) => self.refuse(request, text)?,
                None if !request.is_own => self.done += 1,
                None => {}
            }
        }
        // Transactions are confirmed in the order of their sending.
        self.confirmed = sent.step.clone();
        let (done, bytes) = (self.done, self.bytes_read);
        self.watcher.progress(done, bytes);
        Ok(())
    }

    fn refuse(&mut self, request: &Request, text: String) -> Result<()> {
        if FATAL.iter().any(|start| text.starts_with(start)) || request.is_own {
            return Err(Error::Target(text));
        }
        self.reject(request.db, request.label.clone(), text);
        Ok(())
    }

    /// Resends a discarded transaction without the requests that were not queued.
    fn bring_without(&mut self, sent: Sent, refusals: &[(usize, String)]) -> Result<()> {
        let mut remaining = Batch::default();
        for (index, request) in sent.batch.ends.iter().enumerate() {
            match refusals.iter().find(|(refused, _)| *refused == index) {
                Some((_, text)) => self.refuse(request, text.clone())?,
                None => remaining.append(request, &sent.batch.requests),
            }
        }
        // Other transactions, of keys, may be in flight: this one is settled after them, and the
        // progress that they report is before it.
        let resume_step = match sent.step {
            Step::Following { .. } => sent.step.clone(),
            _ => self.confirmed.clone(),
        };
        while let Some(other) = self.in_flight.pop_front() {
            self.in_flight_bytes -= other.bytes;
            let confirmed = self.confirmed.clone();
            let settled = self.settle_one(other);
            self.confirmed = confirmed;
            settled?;
        }
        self.send_batch(remaining, sent.step, &resume_step)?;
        self.settle(0, 0)
    }
}

impl Batch {
    fn select(&mut self, db: u64) {
        if self.db != Some(db) {
            self.db = Some(db);
            let number = db.to_string();
            self.push(&[b"SELECT", number.as_bytes()], db, format!("SELECT {db}"), true);
        }
    }

    fn push(&mut self, words: &[&[u8]], db: u64, label: String, is_own: bool) {
        let start = self.requests.len();
        encode_command(words, &mut self.requests);
        let end = self.requests.len();
        self.ends.push(Request {
            start,
            end,
            db,
            label,
            is_own,
        });
    }

    fn append(&mut self, request: &Request, requests: &[u8]) {
        let start = self.requests.len();
        self.requests.extend_from_slice(&requests[request.start..request.end]);
        let end = self.requests.len();
        self.ends.push(Request {
            start,
            end,
            ..request.clone()
        });
    }
}

/// Maps a connection's errors to the target's.
fn of_target(error: Error) -> Error {
    match error {
        Error::Link(text) | Error::Source(text) => Error::Target(text),
        other => other,
    }
}
