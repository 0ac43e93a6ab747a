//! The nodes of a cluster: their names, where they are reached, and which of them is home.
//!
//! Each node keeps one key of its own, leased, beside the log's keys:
//!
//! ```text
//! ROOT/members/ID   JSON: name, address (host:port for other nodes), endpoints (listeners by name),
//!                   redis and sentinel (host:port for clients, null if there is no such listener),
//!                   clock_us (microseconds since 1970 when it was written), lag_records, lag_millis, hears
//!                   (the number of the home that it hears, null if it hears none), hears_others (the
//!                   same for each partition behind the first), process (another number for each
//!                   process, and its number as a writer of the log), is_strict (durability
//!                   `always` for the default database), applied and synced (records of the first partition), condition
//!                   (what it does, in a word), disk_free_bytes, state_mismatches, state_hashes
//!                   (of each partition the record of its last state hash, and that hash),
//!                   formats (oldest and newest that its program writes and reads, and the written one)
//! ```
//!
//! and reads those of all others, which nodes are configured, the nodes' reports to the log, and
//! the running term. Nothing that the log promises rests on the members.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use parking_lot::{Mutex, RwLock};
use quartet_cluster::divergence::Hashes;
use quartet_cluster::silence::{BEAT_EVERY, SILENCE, Turn};
use quartet_cluster::state::Outlook;
use quartet_engine::{Replication, StateHash};
use quartet_log_replicated::copies::{self, Reached};
use quartet_log_replicated::drive::ask;
use quartet_log_replicated::{
    Answer, Compare, Configured, Failure, LeaseId, NodeId, Operation, PartitionId, Place, Request, Sequencer,
    TermValue, UnfitFormat, Writer, configured, configured_request, configures, remove_request,
};
use quartet_model::LogSequence;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::clocks;
use super::formats::{self, Formats, NotLearned};
use crate::layers::parts::OtherNode;

/// A node's key goes this long after its last renewal.
const LEASE_SECONDS: u32 = 10;
/// Interval at which a node renews its key and reads those of others.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A value of another process that stays the same for as many looks is left over.
const LOOKS_AT_FOREIGN: u32 = 4;
/// Interval of reads of the term while the home is silent.
const LOOK_AT_TERM_EVERY: Duration = Duration::from_millis(50);
/// A node renews its key each second, so what was read first longer ago is out of date.
const RECENT: Duration = Duration::from_secs(2);
/// Most members in one read.
const MEMBERS_MAX: u32 = 1000;
/// A clock that differs by more than this many microseconds from most others is off. Their keys are
/// up to two seconds old.
const CLOCK_OFF_MICROS: i64 = 5_000_000;

/// A node with a greater lag becomes home of no partition. Without writes the lag is measured once
/// a second.
const LAG_RECORDS_MAX: u64 = 100;
const LAG_MILLIS_MAX: u64 = 5000;

/// A node's record about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub name: String,
    /// Host and port at which other nodes reach it.
    pub address: String,
    /// Its listeners by name, as clients reach them.
    pub endpoints: BTreeMap<String, String>,
    /// Its address for clients of Redis, and of its sentinels.
    pub redis: Option<String>,
    pub sentinel: Option<String>,
    /// Its wall clock, in microseconds since 1970.
    pub clock_us: u64,
    /// The home that the node receives heartbeats from.
    pub hears: Option<u64>,
    /// The homes of the other partitions, in their order.
    #[serde(default)]
    pub hears_others: Vec<Option<u64>>,
    /// The number of records between the node and the log's end.
    pub lag_records: u64,
    pub lag_millis: u64,
    /// A different number for each process: two processes of one name detect each other by it.
    #[serde(default)]
    pub process: u64,
    /// As home of the first partition it acknowledges writes of the default database only once they
    /// are in the log. `process` is its number as a writer of the log.
    #[serde(default)]
    pub is_strict: bool,
    /// False while its disk is full.
    #[serde(default = "has_room")]
    pub has_room: bool,
    /// How often its state has differed from a home's, since the process before it ended.
    #[serde(default)]
    pub state_mismatches: u64,
    /// The last records of the first partition that it has applied, and that are on its disk.
    #[serde(default)]
    pub applied: u64,
    #[serde(default)]
    pub synced: u64,
    /// Whether it commits as home, or what it does otherwise, in a word or two.
    #[serde(default)]
    pub condition: String,
    /// Free space where its data are; `None` if it is not known.
    #[serde(default)]
    pub disk_free_bytes: Option<u64>,
    /// The formats that its program reads and writes.
    #[serde(default)]
    pub formats: Formats,
    /// Its last state hash of each partition: the record, and 32 hexadecimal digits.
    #[serde(default)]
    pub state_hashes: Vec<Option<(u64, String)>>,
}

/// The default for a node that does not report it.
fn has_room() -> bool {
    true
}

/// Another process runs under a node's name, and is reached at `address`.
#[derive(Debug)]
pub struct NameTaken {
    name: String,
    address: String,
}

impl fmt::Display for NameTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NameTaken { name, address } = self;
        write!(
            f,
            "node-name: another process runs as {name}, reached at {address}; a name is free ten seconds after its \
             process is gone"
        )
    }
}

impl std::error::Error for NameTaken {}

/// Why a node must end.
#[derive(Debug, thiserror::Error)]
pub enum MustEnd {
    #[error("{0}")]
    Name(NameTaken),
    /// Its program does not read what other nodes write.
    #[error("{0}")]
    Format(UnfitFormat),
}

/// Why a look at the other nodes has failed.
enum LookError {
    Failed(Failure),
    Ends(MustEnd),
}

impl From<NotLearned> for LookError {
    fn from(error: NotLearned) -> LookError {
        match error {
            NotLearned::Failed(failure) => LookError::Failed(failure),
            NotLearned::Unfit(unfit) => LookError::Ends(MustEnd::Format(unfit)),
        }
    }
}

impl From<Failure> for LookError {
    fn from(failure: Failure) -> LookError {
        LookError::Failed(failure)
    }
}

/// The keys that this node keeps among the members.
#[derive(Default)]
struct Kept {
    lease: Option<LeaseId>,
    /// The value of its key, as far as is known.
    value: Option<Vec<u8>>,
    /// This process has written the key.
    is_written: bool,
    /// Another process's value in this node's key, and the number of consecutive reads that
    /// returned it.
    foreign: Option<(Vec<u8>, u32)>,
    /// The last look had no answer.
    has_failed: bool,
}

impl Kept {
    /// Classifies another process's value in this node's key. A live process renews its value at
    /// each look. An unchanged value is left over in an etcd restored to an older state, and no
    /// reason for this process to end: the log detects that case.
    fn judge(&mut self, value: Vec<u8>) -> Foreign {
        let looks = match self.foreign.take() {
            None => 1,
            Some((before, looks)) if before == value => looks + 1,
            Some(_) => return Foreign::Alive,
        };
        self.foreign = Some((value, looks));
        match looks < LOOKS_AT_FOREIGN {
            true => Foreign::Unknown,
            false => Foreign::LeftOver,
        }
    }
}

/// A value of another process in this node's key.
enum Foreign {
    Alive,
    LeftOver,
    Unknown,
}

/// The term of a partition as it was read.
#[derive(Clone, Copy, Debug, Default)]
struct ReadTerm {
    /// The running term; `None` before the first.
    term: Option<TermValue>,
    /// The start of the newest answered read.
    read_began: Option<Instant>,
}

/// The state that was read last.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub members: BTreeMap<u64, Member>,
    /// The joined nodes, running or not, and the removed nodes.
    pub configured: Vec<(NodeId, Configured)>,
    /// The log position of each node in each partition.
    reports: BTreeMap<(PartitionId, u64), Reached>,
    /// The term of each partition, as far as it was read.
    terms: Vec<ReadTerm>,
    /// The last record of each partition that any node had at the read before.
    had: BTreeMap<PartitionId, LogSequence>,
    /// Each member's clock minus this node's, in microseconds: the reading, or without one the
    /// clock in the member's key, up to two seconds old.
    clocks_ahead: BTreeMap<u64, i64>,
    /// The readings of the members' clocks.
    read_clocks: BTreeMap<u64, i64>,
    /// The time of the first read of each member's present state.
    read_first: BTreeMap<u64, Instant>,
    /// The members of etcd, as they described themselves last.
    etcd: Vec<Value>,
}

/// The cluster as one node sees it.
pub struct Members {
    /// The place of the first partition. Its home is the cluster's home.
    place: Place,
    me: NodeId,
    /// As many nodes as the operator has said there are.
    announced: usize,
    view: RwLock<View>,
    /// The address of the home for Redis clients.
    redis_home: watch::Sender<Option<String>>,
    /// The home of each partition.
    homes: watch::Sender<Vec<Option<NodeId>>>,
    /// The last heartbeat of each home, also of past homes.
    heard: Mutex<BTreeMap<(PartitionId, u64), Instant>>,
    /// A home may have changed: the next look is due.
    is_due: AtomicBool,
}

impl Members {
    pub fn new(place: Place, me: NodeId, announced: usize) -> Arc<Members> {
        Arc::new(Members {
            place,
            me,
            announced,
            view: RwLock::default(),
            redis_home: watch::Sender::new(None),
            homes: watch::Sender::default(),
            heard: Mutex::default(),
            is_due: AtomicBool::new(false),
        })
    }

    /// The place of the first partition.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Makes the thread of [`Members::keep`] read the homes now: the log has shown another.
    pub fn look_soon(&self) {
        self.is_due.store(true, Ordering::SeqCst);
    }

    /// Watches the address of the home for Redis clients.
    pub fn redis_home(&self) -> watch::Receiver<Option<String>> {
        self.redis_home.subscribe()
    }

    /// Notes a heartbeat of a partition's home.
    pub fn note_heard(&self, partition: PartitionId, home: NodeId, now: Instant) {
        self.heard.lock().insert((partition, home.0), now);
    }

    /// Returns true if the node had sent no heartbeat as home for so long that it was suspected.
    pub fn is_silent(&self, partition: PartitionId, home: NodeId, now: Instant) -> bool {
        let heard = self.heard.lock().get(&(partition, home.0)).copied();
        heard.is_some_and(|at| now.saturating_duration_since(at) >= SILENCE - BEAT_EVERY)
    }

    /// Watches the home of each partition.
    pub fn homes(&self) -> watch::Receiver<Vec<Option<NodeId>>> {
        self.homes.subscribe()
    }

    fn tell_of_home(&self) {
        let view = self.view.read();
        let homes = view.homes(self.place.partitions());
        let home = homes[0];
        self.homes.send_if_modified(|current| {
            let is_news = *current != homes;
            *current = homes;
            is_news
        });
        let redis = home.and_then(|home| view.members.get(&home.0)?.redis.clone());
        // One that is not known for a moment is no change.
        self.redis_home.send_if_modified(|current| {
            let is_news = redis.is_some() && *current != redis;
            if is_news {
                *current = redis;
            }
            is_news
        });
    }

    /// The other running nodes.
    pub fn others(&self) -> Vec<OtherNode> {
        let view = self.view.read();
        let others = view.members.iter().filter(|(id, _)| **id != self.me.0);
        let other = |(_, member): (&u64, &Member)| OtherNode {
            redis: member.redis.clone(),
            sentinel: member.sentinel.clone(),
            lag_records: member.lag_records,
            lag_millis: member.lag_millis,
        };
        others.map(other).collect()
    }

    /// True if another node is fit to be home.
    pub fn has_fit_other(&self) -> bool {
        self.fit().iter().any(|node| *node != self.me)
    }

    /// The nodes that could be home of any partition: they run, do not lag, their disks have room,
    /// and their clocks are right.
    pub fn fit(&self) -> Vec<NodeId> {
        self.view.read().fit(Instant::now())
    }

    /// The homes of all partitions, as far as they are known.
    pub fn all_homes(&self) -> Vec<Option<NodeId>> {
        self.view.read().homes(self.place.partitions())
    }

    /// This node.
    pub fn me(&self) -> NodeId {
        self.me
    }

    pub fn member(&self, node: NodeId) -> Option<Member> {
        self.view.read().members.get(&node.0).cloned()
    }

    /// Returns true if the home with this number acknowledges writes of the default database only
    /// once they are in the log. False: it does not, or it is not known.
    pub fn is_strict(&self, home: Writer) -> bool {
        let view = self.view.read();
        let member = view.members.get(&home.node.0);
        member.is_some_and(|member| member.is_strict && member.process == home.incarnation)
    }

    /// Returns true if an operator has removed this node.
    pub fn is_removed(&self) -> bool {
        let view = self.view.read();
        let own = view.configured.iter().find(|(node, _)| *node == self.me);
        own.is_some_and(|(_, row)| row.is_removed)
    }

    /// Removes the node of this name, which does not run, for good.
    pub fn remove(&self, sequencer: &mut dyn Sequencer, name: &str) -> Result<()> {
        self.look_once(sequencer)?;
        let view = self.view();
        let mut rows = view.configured.iter();
        let node = rows.find(|(_, row)| row.name == name && !row.is_removed);
        let (node, _) = node.with_context(|| format!("there is no node {name}"))?;
        let terms = view.whole_terms(self.place.partitions());
        let terms = terms.context("not every partition has a home")?;
        ensure!(
            terms.iter().all(|term| term.writer.node != *node),
            "{name} is home: hand over to another node first"
        );
        ensure!(!view.members.contains_key(&node.0), "{name} runs: stop it first");
        let remain = configures(self.announced, &view.configured) - 1;
        ensure!(remain >= 2, "two nodes have to remain");
        let request = remove_request(&self.place, *node, name, &terms, self.key_of(*node));
        match ask(sequencer, request)? {
            Answer::Done { .. } => Ok(self.look_once(sequencer)?),
            _ => bail!("{name} runs again, or another node has become home meanwhile: ask again"),
        }
    }

    pub fn view(&self) -> View {
        self.view.read().clone()
    }

    /// The home of a partition's running term; also this node, even if it was home in an earlier
    /// process.
    pub fn home(&self, partition: PartitionId) -> Option<NodeId> {
        self.view.read().home(partition)
    }

    /// The home of a partition, if it is another running node.
    pub fn other_home(&self, partition: PartitionId) -> Option<Member> {
        self.other_home_and_id(partition).map(|(_, member)| member)
    }

    pub fn other_home_and_id(&self, partition: PartitionId) -> Option<(NodeId, Member)> {
        let view = self.view.read();
        let home = view.home(partition)?;
        let member = view.members.get(&home.0).filter(|_| home != self.me)?;
        Some((home, member.clone()))
    }

    /// The newest reads of a partition. `own`: the figures of this node's log.
    pub fn outlook(&self, partition: PartitionId, own: &Replication) -> Outlook {
        let view = self.view.read();
        let home = view.term(partition).map(|term| term.writer);
        let node = home.map(|home| home.node);
        Outlook {
            home,
            read_began: view.term_read_began(partition),
            is_heard_elsewhere: node
                .is_some_and(|node| view.is_heard_elsewhere(self.me, partition, node, Instant::now())),
            turn: view.turn(self.me, partition, node),
            hashes: Hashes {
                own: own.own_hash,
                recorded: own.recorded_hash,
                other_hashes: view.other_hashes(self.me, partition),
            },
        }
    }

    /// The members of etcd, as they described themselves last.
    pub fn etcd(&self) -> Vec<Value> {
        self.view.read().etcd.clone()
    }

    /// The other nodes that run and have no state hash of a partition since their start.
    pub fn nodes_without_hash(&self, partition: PartitionId) -> BTreeSet<NodeId> {
        let view = self.view.read();
        let other_nodes = view.members.iter().filter(|(id, _)| NodeId(**id) != self.me);
        let without_hash = other_nodes.filter(|(_, member)| member.state_hash(partition).is_none());
        without_hash.map(|(id, _)| NodeId(*id)).collect()
    }

    /// Notes the members of etcd, as they describe themselves.
    pub fn note_etcd(&self, members: Vec<Value>) {
        self.view.write().etcd = members;
    }

    /// Keeps this node's key and its hold, and reads the others' keys, until `is_over`.
    /// `is_home_silent`: the term and the others' keys are read more often, and this node's key
    /// says so at once. For a thread of its own.
    ///
    /// The hold keeps the records needed by a node that is paused or restarts within the lease's
    /// ten seconds. `needed`: the first needed record of each partition.
    ///
    /// Errors: another process has the same name. Two such processes would each consider the other
    /// a lost home, and depose each other forever.
    pub fn keep(
        &self,
        sequencer: &mut dyn Sequencer,
        own: impl Fn() -> Member,
        needed: impl Fn() -> Vec<LogSequence>,
        is_home_silent: impl Fn() -> bool,
        is_over: impl Fn() -> bool,
    ) -> Result<(), MustEnd> {
        let (mut kept, mut looked, mut was_silent) = (Kept::default(), None::<Instant>, false);
        while !is_over() {
            let is_silent = is_home_silent();
            if was_silent != is_silent || looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
                (looked, was_silent) = (Some(Instant::now()), is_silent);
                let result = self.look(sequencer, &mut kept, &own, &needed());
                kept.has_failed = result.is_err();
                match result {
                    Ok(()) => {}
                    Err(LookError::Ends(reason)) => return Err(reason),
                    Err(LookError::Failed(error)) => {
                        tracing::debug!(%error, "the cluster's members could not be read");
                        // The others wait until this node's key says that the home is silent.
                        looked = looked.filter(|_| !is_silent);
                    }
                }
            } else if self.is_due.swap(false, Ordering::SeqCst) || is_silent {
                let _ = self.look_once(sequencer);
            }
            std::thread::sleep(LOOK_AT_TERM_EVERY);
        }
        if let Some(lease) = kept.lease {
            let _ = ask(sequencer, Request::Revoke { lease });
        }
        Ok(())
    }

    /// Refuses a process if a process at another address has its name.
    pub fn refuse_second(&self, sequencer: &mut dyn Sequencer, address: &str) -> Result<()> {
        let key = self.key_of(self.me);
        if let Answer::Value(Some(value)) = ask(sequencer, Request::Get { key }).context("log")?
            && let Some(other) = member_of(&value)
            && other.address != address
        {
            return Err(other.has_the_name().into());
        }
        Ok(())
    }

    /// Reads who the members are and which is home, as a node does that is none yet.
    pub fn look_once(&self, sequencer: &mut dyn Sequencer) -> Result<(), Failure> {
        self.read_terms(sequencer)?;
        self.read_members(sequencer)
    }

    /// An etcd without free space still renews leases and answers reads: the nodes continue to know
    /// each other by their last written keys.
    fn look(
        &self,
        sequencer: &mut dyn Sequencer,
        kept: &mut Kept,
        own: &dyn Fn() -> Member,
        needed: &[LogSequence],
    ) -> Result<(), LookError> {
        // An etcd that elects a leader answers a waiting read as soon as it has one. A write that
        // it got before is lost, and a renewal waits for a second.
        if kept.has_failed {
            self.read_terms(sequencer)?;
        }
        match self.keep_own(sequencer, kept, &own(), needed) {
            Ok(()) | Err(LookError::Failed(Failure::NoRoom)) => {}
            Err(error) => return Err(error),
        }
        // After this node's own key: `Agreed` has the reason.
        formats::learn(sequencer, &self.place)?;
        self.read_terms(sequencer)?;
        Ok(self.read_members(sequencer)?)
    }

    fn keep_own(
        &self,
        sequencer: &mut dyn Sequencer,
        kept: &mut Kept,
        own: &Member,
        needed: &[LogSequence],
    ) -> Result<(), LookError> {
        let is_alive = match kept.lease {
            Some(lease) => ask(sequencer, Request::KeepAlive { lease })?,
            None => Answer::NoLease,
        };
        if is_alive == Answer::NoLease {
            let seconds = LEASE_SECONDS;
            kept.lease = match ask(sequencer, Request::Grant { seconds })? {
                Answer::Lease(lease) => Some(lease),
                _ => None,
            };
        }
        if let Some(lease) = kept.lease {
            self.write_own(sequencer, kept, own, lease)?;
            for (partition, needed) in (0..).map(PartitionId).zip(needed) {
                let place = self.place.of(partition);
                ask(sequencer, copies::hold_request(&place, self.me, *needed, lease))?;
            }
        }
        Ok(())
    }

    /// Writes this node's key over what this process has written, or an earlier one at the same
    /// address.
    fn write_own(
        &self,
        sequencer: &mut dyn Sequencer,
        kept: &mut Kept,
        own: &Member,
        lease: LeaseId,
    ) -> Result<(), LookError> {
        // The answer may have been lost, or the key may have been deleted since.
        for _ in 0..3 {
            let value = serde_json::to_vec(own).expect("texts and numbers are JSON");
            let answer = ask(sequencer, self.put(kept.value.clone(), value.clone(), lease))?;
            let Answer::Refused { values } = answer else {
                (kept.value, kept.is_written, kept.foreign) = (Some(value), true, None);
                return Ok(());
            };
            let found = values.into_iter().next().flatten();
            if let Some((value, other)) = found.as_ref().and_then(|value| Some((value, member_of(value)?)))
                && other.process != own.process
            {
                let foreign = match kept.is_written {
                    true => kept.judge(value.clone()),
                    false if other.address != own.address => Foreign::Alive,
                    false => Foreign::LeftOver,
                };
                match foreign {
                    Foreign::Alive => return Err(LookError::Ends(MustEnd::Name(other.has_the_name()))),
                    Foreign::Unknown => return Ok(()),
                    Foreign::LeftOver => {}
                }
            }
            kept.value = found;
        }
        Ok(())
    }

    fn read_members(&self, sequencer: &mut dyn Sequencer) -> Result<(), Failure> {
        let began = Instant::now();
        let (from, until) = self.keys();
        let limit = MEMBERS_MAX;
        let members = ask(sequencer, Request::Range { from, until, limit })?;
        let mut reports = BTreeMap::new();
        for partition in (0..self.place.partitions()).map(PartitionId) {
            let place = self.place.of(partition);
            let read = ask(sequencer, copies::reports_request(&place))?;
            for (node, report) in copies::reports(&place, &read) {
                let reached = report
                    .partitions
                    .into_iter()
                    .find(|reached| reached.partition == partition);
                reports.extend(reached.map(|reached| ((partition, node.0), reached)));
            }
        }
        let rows = ask(sequencer, configured_request(&self.place))?;
        let mut view = self.view.write();
        view.take_members(&self.keys().0, &members, began, now_us());
        view.take_reports(reports);
        view.configured = configured(&self.place, &rows).unwrap_or_default();
        drop(view);
        self.tell_of_home();
        Ok(())
    }

    /// Reads the running terms of all partitions.
    fn read_terms(&self, sequencer: &mut dyn Sequencer) -> Result<(), Failure> {
        for partition in (0..self.place.partitions()).map(PartitionId) {
            let began = Instant::now();
            let key = self.place.of(partition).term_key();
            if let Answer::Value(value) = ask(sequencer, Request::Get { key })? {
                let term = value.as_deref().and_then(TermValue::decode);
                self.view.write().take_term(partition, term, began);
                self.tell_of_home();
            }
        }
        Ok(())
    }

    /// Writes `value` to this node's key, if that is still `before`.
    fn put(&self, before: Option<Vec<u8>>, value: Vec<u8>, lease: LeaseId) -> Request {
        let key = self.key_of(self.me);
        let is_as_before = match before {
            Some(value) => Compare::Value {
                key: key.clone(),
                value,
            },
            None => Compare::Absent(key.clone()),
        };
        Request::Transact {
            compares: vec![is_as_before],
            operations: vec![Operation::Put {
                key: key.clone(),
                value,
                lease: Some(lease),
            }],
            otherwise: vec![key],
        }
    }

    /// `ROOT/members/ID`.
    fn key_of(&self, node: NodeId) -> Vec<u8> {
        format!("{}/members/{:016x}", self.place.root(), node.0).into_bytes()
    }

    /// `ROOT/members/` and the end of the keys with this prefix.
    fn keys(&self) -> (Vec<u8>, Vec<u8>) {
        let path = |end| format!("{}/members{end}", self.place.root()).into_bytes();
        (path('/'), path('0'))
    }
}

impl Member {
    /// The home of a partition as the node reports it.
    fn hears(&self, partition: PartitionId) -> Option<u64> {
        match partition.0.checked_sub(1) {
            None => self.hears,
            Some(index) => *self.hears_others.get(index as usize)?,
        }
    }

    /// Its last state hash of a partition.
    fn state_hash(&self, partition: PartitionId) -> Option<StateHash> {
        let (at, hash) = self.state_hashes.get(partition.0 as usize)?.as_ref()?;
        let hash = u128::from_str_radix(hash, 16).ok()?;
        let at = LogSequence(*at);
        Some(StateHash { at, hash })
    }

    fn has_the_name(self) -> NameTaken {
        let Member { name, address, .. } = self;
        NameTaken { name, address }
    }
}

/// Reads the value of a member's key.
fn member_of(value: &[u8]) -> Option<Member> {
    serde_json::from_slice(value).ok()
}

impl View {
    fn take_members(&mut self, prefix: &[u8], answer: &Answer, now: Instant, now_us: u64) {
        let Answer::Entries { entries, .. } = answer else {
            return;
        };
        let member = |(key, value): &(Vec<u8>, Vec<u8>)| {
            let id = std::str::from_utf8(key.strip_prefix(prefix)?).ok()?;
            Some((u64::from_str_radix(id, 16).ok()?, member_of(value)?))
        };
        let members: BTreeMap<u64, Member> = entries.iter().filter_map(member).collect();
        self.read_first.retain(|id, _| self.members.get(id) == members.get(id));
        for id in members.keys() {
            self.read_first.entry(*id).or_insert(now);
        }
        self.members = members;
        let key_offset = |member: &Member| member.clock_us as i64 - now_us as i64;
        let ahead = |(id, member): (&u64, &Member)| {
            let reading = self.read_clocks.get(id).copied();
            (*id, reading.unwrap_or_else(|| key_offset(member)))
        };
        self.clocks_ahead = self.members.iter().map(ahead).collect();
    }

    fn take_reports(&mut self, reports: BTreeMap<(PartitionId, u64), Reached>) {
        self.had.clear();
        for ((partition, _), reached) in &self.reports {
            let had = self.had.entry(*partition).or_insert(LogSequence::ZERO);
            *had = reached.applied.max(*had);
        }
        self.reports = reports;
    }

    /// The number of records that another node had a second ago and this node still does not have.
    /// A node that is cut off from the log reports a lag of zero.
    fn missing_records(&self, id: u64) -> u64 {
        let missing = self.had.iter().filter_map(|(partition, had)| {
            let applied = match self.reports.get(&(*partition, id)) {
                Some(reached) => reached.applied.0,
                // It has not reported yet.
                None if *partition == PartitionId(0) => self.members.get(&id)?.applied,
                None => return None,
            };
            Some(had.0.saturating_sub(applied))
        });
        missing.max().unwrap_or_default()
    }

    /// How far a clock is ahead of the median of all.
    fn clock_ahead(&self, ahead: i64) -> i64 {
        let mut all: Vec<i64> = self.clocks_ahead.values().copied().collect();
        ahead - clocks::median(&mut all).unwrap_or_default()
    }

    fn take_term(&mut self, partition: PartitionId, term: Option<TermValue>, began: Instant) {
        let index = partition.0 as usize;
        if self.terms.len() <= index {
            self.terms.resize(index + 1, ReadTerm::default());
        }
        self.terms[index] = ReadTerm {
            term,
            read_began: Some(began),
        };
    }

    /// The running term of a partition; `None` before the first.
    pub fn term(&self, partition: PartitionId) -> Option<TermValue> {
        self.terms.get(partition.0 as usize)?.term
    }

    /// The start of the newest answered read of a partition's term.
    pub fn term_read_began(&self, partition: PartitionId) -> Option<Instant> {
        self.terms.get(partition.0 as usize)?.read_began
    }

    fn home(&self, partition: PartitionId) -> Option<NodeId> {
        self.term(partition).map(|term| term.writer.node)
    }

    /// The running terms of all partitions, if each has one.
    fn whole_terms(&self, partitions: u32) -> Option<Vec<TermValue>> {
        (0..partitions).map(PartitionId).map(|id| self.term(id)).collect()
    }

    fn homes(&self, partitions: u32) -> Vec<Option<NodeId>> {
        (0..partitions).map(PartitionId).map(|id| self.home(id)).collect()
    }

    /// The number of partitions with the node as their known home.
    fn homes_of(&self, node: NodeId) -> usize {
        let homes = self.terms.iter().filter_map(|read| read.term);
        homes.filter(|term| term.writer.node == node).count()
    }

    fn home_of(&self, partition: PartitionId) -> Option<&str> {
        let home = self.home(partition)?;
        self.members.get(&home.0).map(|member| member.name.as_str())
    }

    fn describe_homes(&self, partitions: u32) -> Vec<Value> {
        let describe = |id| {
            let term = self.term(id).map(|term| term.term.0);
            json!({ "partition": id.0, "term": term, "home": self.home_of(id) })
        };
        (0..partitions).map(PartitionId).map(describe).collect()
    }

    fn turn(&self, me: NodeId, partition: PartitionId, home: Option<NodeId>) -> Turn {
        let key = |id: u64| {
            let applied = self
                .reports
                .get(&(partition, id))
                .map_or(0, |reached| reached.applied.0);
            let hash = self.members.get(&id).and_then(|member| member.state_hash(partition));
            // A node without a comparison of its state since its start is after all others. The
            // most advanced node is first, then the node with fewer homes, then the lower number.
            (
                hash.is_none(),
                std::cmp::Reverse(applied),
                self.homes_of(NodeId(id)),
                id,
            )
        };
        let others = self
            .members
            .keys()
            .filter(|id| **id != me.0 && Some(NodeId(**id)) != home);
        let before = others.filter(|id| key(**id) < key(me.0));
        Turn {
            rank: before.count() as u32,
            is_unfit: self.is_clock_off(me) || self.members.get(&me.0).is_some_and(|own| !own.has_room),
        }
    }

    /// An older key may belong to a stopped node.
    fn is_heard_elsewhere(&self, me: NodeId, partition: PartitionId, home: NodeId, now: Instant) -> bool {
        let mut others = self.members.iter().filter(|(id, _)| **id != me.0 && **id != home.0);
        let is_recent = |id: &u64| self.read_first.get(id).is_some_and(|first| now - *first < RECENT);
        others.any(|(id, member)| member.hears(partition) == Some(home.0) && is_recent(id))
    }

    /// The last state hash of each other configured node. One that does not run has none: it may
    /// return, and decide.
    fn other_hashes(&self, me: NodeId, partition: PartitionId) -> BTreeMap<NodeId, Option<StateHash>> {
        let configured = self.configured.iter().filter(|(_, row)| !row.is_removed);
        let ids = self.members.keys().copied().map(NodeId);
        let others = ids.chain(configured.map(|(id, _)| *id)).filter(|id| *id != me);
        let hash = |id: NodeId| self.members.get(&id.0)?.state_hash(partition);
        others.map(|id| (id, hash(id))).collect()
    }

    fn fit(&self, now: Instant) -> Vec<NodeId> {
        let is_right = |id: &u64| {
            let ahead = self.clocks_ahead.get(id);
            ahead.is_some_and(|ahead| self.clock_ahead(*ahead).abs() <= CLOCK_OFF_MICROS)
        };
        let is_recent = |id: &u64| self.read_first.get(id).is_some_and(|first| now - *first < 2 * RECENT);
        let is_fit = |(id, member): &(&u64, &Member)| {
            let is_near = member.lag_records <= LAG_RECORDS_MAX && member.lag_millis < LAG_MILLIS_MAX;
            is_recent(id) && is_near && member.has_room && is_right(id)
        };
        let fit = self.members.iter().filter(is_fit);
        fit.map(|(id, _)| NodeId(*id)).collect()
    }

    /// Returns true if this node's clock differs from most others.
    pub fn is_clock_off(&self, me: NodeId) -> bool {
        let others: Vec<_> = self.clocks_ahead.iter().filter(|(id, _)| **id != me.0).collect();
        let far = others.iter().filter(|(_, ahead)| ahead.abs() > CLOCK_OFF_MICROS);
        2 * far.count() > others.len()
    }
}

impl Members {
    /// The name of the node that is home of a partition, if it runs.
    pub fn home_of(&self, partition: PartitionId) -> Option<String> {
        self.view.read().home_of(partition).map(str::to_owned)
    }

    /// Notes how far the other nodes' clocks are ahead of this node's, in microseconds.
    pub fn note_clocks(&self, readings: BTreeMap<u64, i64>) {
        let mut view = self.view.write();
        view.read_clocks = readings;
        view.read_clocks.insert(self.me.0, 0);
        let View {
            clocks_ahead,
            read_clocks,
            members,
            ..
        } = &mut *view;
        let readings = read_clocks.iter().filter(|(id, _)| members.contains_key(id));
        clocks_ahead.extend(readings.map(|(id, ahead)| (*id, *ahead)));
    }

    /// The cluster as this node sees it, for an operator. `own`: this node's present record, newer
    /// than the one in etcd.
    pub fn describe(&self, own: Member) -> Value {
        let mut view = self.view();
        view.members.insert(self.me.0, own);
        let home = view.home(PartitionId(0));
        let node = |(id, member): (&u64, &Member)| {
            let reached = view.reports.get(&(PartitionId(0), *id));
            json!({
                "name": member.name,
                "id": format!("{id:016x}"),
                "is_running": true,
                "address": member.address,
                "endpoints": member.endpoints,
                "is_home": home == Some(NodeId(*id)),
                "condition": member.condition,
                "applied": reached.map_or(member.applied, |reached| reached.applied.0),
                "synced": reached.map_or(member.synced, |reached| reached.synced.0),
                "lag_records": member.lag_records.max(view.missing_records(*id)),
                "lag_milliseconds": member.lag_millis,
                "has_room": member.has_room,
                "disk_free_bytes": member.disk_free_bytes,
                "formats": member.formats,
                "state_mismatches": member.state_mismatches,
                "clock_ahead_milliseconds": view.read_clocks.get(id).map(|ahead| view.clock_ahead(*ahead) / 1000),
            })
        };
        let is_away = |(id, row): &&(NodeId, Configured)| !row.is_removed && !view.members.contains_key(&id.0);
        let away = |(id, row): &(NodeId, Configured)| {
            json!({
                "name": row.name,
                "id": format!("{:016x}", id.0),
                "is_running": false,
                "is_home": false,
            })
        };
        let home_member = home.and_then(|home| view.members.get(&home.0));
        let nodes = view.members.iter().map(node);
        json!({
            "cluster": format!("{:032x}", self.place.cluster.0),
            "partitions": self.place.partitions(),
            "term": view.term(PartitionId(0)).map(|term| term.term.0),
            "home": home_member.map(|member| &member.name),
            "homes": view.describe_homes(self.place.partitions()),
            "configured": configures(self.announced, &view.configured),
            "nodes": nodes.chain(view.configured.iter().filter(is_away).map(away)).collect::<Vec<_>>(),
        })
    }
}

pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    use quartet_log_replicated::model::Store;
    use quartet_log_replicated::{ClusterId, Event, RecordHash, RequestId, Term, Writer, drive, join_request};

    use super::*;

    const PREFIX: &[u8] = b"/test/members/";
    const HOME: NodeId = NodeId(1);
    const ME: NodeId = NodeId(2);

    /// An answer with these members and their homes.
    fn members(hears: &[(u64, Option<u64>)], clock_us: u64) -> Answer {
        let entry = |(id, hears): &(u64, Option<u64>)| {
            let member = Member {
                name: id.to_string(),
                address: String::new(),
                endpoints: BTreeMap::new(),
                redis: None,
                sentinel: None,
                clock_us,
                hears: *hears,
                hears_others: Vec::new(),
                lag_records: 0,
                lag_millis: 0,
                process: 0,
                is_strict: false,
                has_room: true,
                state_mismatches: 0,
                applied: 0,
                synced: 0,
                condition: String::new(),
                disk_free_bytes: None,
                formats: Formats::default(),
                state_hashes: Vec::new(),
            };
            let key = [PREFIX, format!("{id:016x}").as_bytes()].concat();
            (key, serde_json::to_vec(&member).unwrap())
        };
        Answer::Entries {
            entries: hears.iter().map(entry).collect(),
            more: false,
        }
    }

    /// A node compares its state with the hashes in the keys of the others.
    #[test]
    fn state_hashes_of_other_nodes_are_read_from_their_keys() {
        let mut view = View::default();
        view.take_members(
            PREFIX,
            &members(&[(1, None), (2, None), (3, None)], 1),
            Instant::now(),
            0,
        );
        let hash = |digits: &str| vec![None, Some((7, digits.to_owned()))];
        view.members.get_mut(&1).unwrap().state_hashes = hash("ff");
        view.members.get_mut(&3).unwrap().state_hashes = hash("no digits");
        let at = LogSequence(7);
        let of_first = Some(StateHash { at, hash: 255 });
        let others = |of_first| BTreeMap::from([(NodeId(1), of_first), (NodeId(3), None)]);
        assert_eq!(view.other_hashes(ME, PartitionId(1)), others(of_first));
        assert_eq!(view.other_hashes(ME, PartitionId(0)), others(None));
        // A node that was compared with others is the first to take over.
        let rank = |partition| view.turn(ME, PartitionId(partition), None).rank;
        assert_eq!([rank(0), rank(1)], [1, 1]);
        let rank = |partition| view.turn(NodeId(3), PartitionId(partition), Some(ME)).rank;
        assert_eq!([rank(0), rank(1)], [1, 1]);
        let rank = |partition| view.turn(NodeId(1), PartitionId(partition), Some(ME)).rank;
        assert_eq!([rank(0), rank(1)], [0, 0]);
    }

    /// A single node without contact to the home does not depose it if another node hears it.
    #[test]
    fn a_home_counts_as_alive_for_nodes_with_recent_reports() {
        let start = Instant::now();
        let mut view = View::default();
        let heard = |view: &View, at: Duration| view.is_heard_elsewhere(ME, PartitionId(0), HOME, start + at);
        view.take_members(
            PREFIX,
            &members(&[(1, Some(1)), (2, Some(1)), (3, Some(1))], 1),
            start,
            0,
        );
        assert!(heard(&view, Duration::from_secs(1)));
        // The same words again are no news.
        view.take_members(
            PREFIX,
            &members(&[(1, Some(1)), (2, Some(1)), (3, Some(1))], 1),
            start + RECENT,
            0,
        );
        assert!(!heard(&view, RECENT));
        view.take_members(PREFIX, &members(&[(3, Some(1))], 2), start + RECENT, 0);
        assert!(heard(&view, RECENT));
        for (hears, id) in [(None, 3), (Some(3), 3), (Some(1), 1), (Some(1), 2)] {
            view.take_members(PREFIX, &members(&[(id, hears)], 3), start, 0);
            assert!(!heard(&view, Duration::ZERO), "{id} {hears:?}");
        }
    }

    fn runs(term: u64, node: NodeId) -> Option<TermValue> {
        let (node, incarnation) = (node, 1);
        Some(TermValue {
            term: Term(term),
            writer: Writer { node, incarnation },
            sequence: LogSequence(term),
            hash: RecordHash(0),
        })
    }

    /// Among nodes with equal logs of a partition, the node with the fewest homes is first.
    #[test]
    fn a_partition_goes_to_who_has_most_of_it_and_then_to_who_has_least_to_do() {
        let (now, partition) = (Instant::now(), PartitionId(2));
        let mut view = View::default();
        view.take_members(PREFIX, &members(&[(1, None), (2, None), (3, None)], 1), now, 0);
        let rank = |view: &View, me: u64| view.turn(NodeId(me), partition, Some(HOME)).rank;
        assert_eq!([rank(&view, 2), rank(&view, 3)], [0, 1]);
        for (number, node) in [(0, 1), (1, 2), (2, 1)] {
            view.take_term(PartitionId(number), runs(1, NodeId(node)), now);
        }
        assert_eq!([rank(&view, 2), rank(&view, 3)], [1, 0]);
        let mut reaches = |node, partition, applied| {
            let reached = Reached {
                partition,
                applied: LogSequence(applied),
                synced: LogSequence(applied),
            };
            view.reports.insert((partition, node), reached);
        };
        reaches(2, partition, 7);
        reaches(3, partition, 6);
        reaches(3, PartitionId(0), 100);
        assert_eq!([rank(&view, 2), rank(&view, 3)], [0, 1]);
    }

    /// A node that was cut off reported a lag of zero, and status showed it.
    #[test]
    fn a_node_misses_records_that_another_had_before() {
        let mut view = View::default();
        let reports = |home: u64, other: u64| {
            let reached = |applied| Reached {
                partition: PartitionId(0),
                applied: LogSequence(applied),
                synced: LogSequence(applied),
            };
            BTreeMap::from([
                ((PartitionId(0), 1), reached(home)),
                ((PartitionId(0), 2), reached(other)),
            ])
        };
        view.take_reports(reports(2_000, 100));
        assert_eq!(view.missing_records(2), 0, "not known yet");
        view.take_reports(reports(2_500, 100));
        assert_eq!([view.missing_records(1), view.missing_records(2)], [0, 1_900]);
        // Records of the last second are no lag.
        view.take_reports(reports(3_000, 2_500));
        assert_eq!(view.missing_records(2), 0);
    }

    /// A home with a wrong clock took every other node for unfit, and handed over to none.
    #[test]
    fn clocks_are_compared_with_the_median() {
        let (mut view, start) = (View::default(), Instant::now());
        let hour = 3_600_000_000_u64;
        view.take_members(
            PREFIX,
            &members(&[(1, Some(1)), (2, Some(1)), (3, Some(1))], hour),
            start,
            2 * hour,
        );
        view.read_clocks = BTreeMap::from([(1, 0), (2, -(hour as i64)), (3, -(hour as i64))]);
        view.take_members(
            PREFIX,
            &members(&[(1, Some(1)), (2, Some(1)), (3, Some(1))], hour),
            start,
            2 * hour,
        );
        assert_eq!(view.fit(start), [NodeId(2), NodeId(3)]);
        assert!(view.is_clock_off(NodeId(1)));
    }

    /// Nodes of earlier versions report only the first partition.
    #[test]
    fn each_partitions_home_is_tracked_separately() {
        let start = Instant::now();
        let mut view = View::default();
        view.take_members(PREFIX, &members(&[(1, None), (2, None), (3, Some(1))], 1), start, 0);
        let heard = |view: &View, number| view.is_heard_elsewhere(ME, PartitionId(number), HOME, start);
        assert_eq!([0, 1, 2].map(|number| heard(&view, number)), [true, false, false]);
        let other = view.members.get_mut(&3).unwrap();
        (other.hears, other.hears_others) = (None, vec![None, Some(1)]);
        assert_eq!([0, 1, 2].map(|number| heard(&view, number)), [false, false, true]);
    }

    /// A node that is home of some partition stays.
    #[test]
    fn a_home_of_any_partition_is_not_removed() {
        let etcd = Rc::<RefCell<Store>>::default();
        let place = Place::new("/test", ClusterId(1), PartitionId(0)).with_partitions(2);
        let mut sequencer = Answering(etcd, VecDeque::new());
        let ask = |sequencer: &mut Answering, request| ask(sequencer, request).unwrap();
        drive::join(&mut sequencer, &place).unwrap();
        for (id, name) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
            ask(&mut sequencer, join_request(&place, NodeId(id), name));
        }
        let begins = |sequencer: &mut Answering, number, node| {
            let (key, value) = (
                place.of(PartitionId(number)).term_key(),
                runs(1, NodeId(node)).unwrap().encode(),
            );
            let lease = None;
            let operations = vec![Operation::Put { key, value, lease }];
            let (compares, otherwise) = (Vec::new(), Vec::new());
            ask(
                sequencer,
                Request::Transact {
                    compares,
                    operations,
                    otherwise,
                },
            );
        };
        let members = Members::new(place.clone(), ME, 3);
        let refused = |sequencer: &mut Answering, name: &str| members.remove(sequencer, name).unwrap_err().to_string();
        begins(&mut sequencer, 0, 2);
        assert_eq!(refused(&mut sequencer, "c"), "not every partition has a home");
        begins(&mut sequencer, 1, 3);
        for home in ["b", "c"] {
            let expected = format!("{home} is home: hand over to another node first");
            assert_eq!(refused(&mut sequencer, home), expected);
        }
        members.remove(&mut sequencer, "d").unwrap();
        assert!(members.remove(&mut sequencer, "d").is_err());
    }

    /// An etcd that answers at once.
    struct Answering(Rc<RefCell<Store>>, VecDeque<Event>);

    impl Sequencer for Answering {
        fn send(&mut self, request: Request) -> RequestId {
            let answer = self.0.borrow_mut().execute(0, Duration::ZERO, &request);
            self.1.push_back(Event::Answered(RequestId(0), Ok(answer)));
            RequestId(0)
        }

        fn watch(&mut self, _: Vec<u8>, _: Vec<u8>) {}

        fn receive(&mut self, _: Duration) -> Option<Event> {
            self.1.pop_front()
        }
    }

    /// One process that runs under the name `a`.
    struct Process {
        members: Arc<Members>,
        etcd: Answering,
        kept: Kept,
        own: Member,
    }

    impl Process {
        fn new(etcd: &Rc<RefCell<Store>>, process: u64, address: &str) -> Process {
            let place = Place::new("/test", ClusterId(1), PartitionId(0));
            Process {
                members: Members::new(place, ME, 3),
                etcd: Answering(etcd.clone(), VecDeque::new()),
                kept: Kept::default(),
                own: Member {
                    name: "a".to_owned(),
                    address: address.to_owned(),
                    endpoints: BTreeMap::new(),
                    redis: None,
                    sentinel: None,
                    clock_us: 0,
                    hears: None,
                    hears_others: Vec::new(),
                    lag_records: 0,
                    lag_millis: 0,
                    process,
                    is_strict: false,
                    has_room: true,
                    state_mismatches: 0,
                    applied: 0,
                    synced: 0,
                    condition: String::new(),
                    disk_free_bytes: None,
                    formats: Formats::default(),
                    state_hashes: Vec::new(),
                },
            }
        }

        fn starts(&mut self) -> bool {
            self.members.refuse_second(&mut self.etcd, &self.own.address).is_ok()
        }

        /// False: another process has the name.
        fn looks(&mut self) -> bool {
            self.own.clock_us += 1;
            let looked = self
                .members
                .look(&mut self.etcd, &mut self.kept, &|| self.own.clone(), &[LogSequence(1)]);
            !matches!(looked, Err(LookError::Ends(_)))
        }
    }

    /// Two processes of one name took over from each other without an end.
    #[test]
    fn a_name_is_that_of_one_process() {
        let etcd = Rc::default();
        let mut first = Process::new(&etcd, 1, "a:7000");
        assert!(first.starts() && first.looks() && first.looks());
        let mut second = Process::new(&etcd, 2, "b:7000");
        assert!(!second.starts() && !second.looks());
        assert!(first.looks());
        // An expired lease frees the name for the next process.
        let lease = first.kept.lease.unwrap();
        ask(&mut first.etcd, Request::Revoke { lease }).unwrap();
        first.kept.lease = None;
        assert!(first.looks());
        let lease = first.kept.lease.unwrap();
        ask(&mut first.etcd, Request::Revoke { lease }).unwrap();
        assert!(second.starts() && second.looks());
        first.kept.lease = None;
        assert!(first.looks() && second.looks(), "it may be left over");
        assert!(!first.looks());
        // The same machine again, before the lease of its earlier process has run out.
        let mut third = Process::new(&etcd, 3, "b:7000");
        assert!(third.starts() && third.looks() && third.looks());
        assert!(second.looks() && third.looks());
        assert!(!second.looks());
    }

    /// An etcd restored to an older state has the key of an earlier process, under a live lease.
    #[test]
    fn an_expired_value_is_overwritten() {
        let etcd = Rc::default();
        let mut earlier = Process::new(&etcd, 1, "b:7000");
        assert!(earlier.looks());
        let yesterday = earlier.kept.value.unwrap();
        let lease = earlier.kept.lease.unwrap();
        ask(&mut earlier.etcd, Request::Revoke { lease }).unwrap();
        let mut process = Process::new(&etcd, 2, "a:7000");
        assert!(process.starts() && process.looks());
        let lease = process.kept.lease.unwrap();
        let goes_back = process.members.put(process.kept.value.clone(), yesterday, lease);
        ask(&mut process.etcd, goes_back).unwrap();
        for _ in 0..LOOKS_AT_FOREIGN {
            process.own.clock_us += 1;
            assert!(process.looks());
        }
        assert_eq!(process.kept.value, Some(serde_json::to_vec(&process.own).unwrap()));
    }
}
