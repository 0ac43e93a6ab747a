//! The nodes of a cluster: their names, where they are reached, and which of them is home.
//!
//! Each node keeps one key of its own, leased, beside the log's keys:
//!
//! ```text
//! ROOT/members/ID   JSON: name, address (host:port for other nodes), endpoints (listeners by name),
//!                   clock_us (microseconds since 1970 when it was written), hears (the number of
//!                   the home that it hears, if it does)
//! ```
//!
//! and reads those of all others, the nodes' reports to the log, and the running term. Nothing that
//! the log promises rests on them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::RwLock;
use quartet_log_replicated::copies::{self, NodeReport};
use quartet_log_replicated::drive::ask;
use quartet_log_replicated::{Answer, Failure, LeaseId, NodeId, Operation, Place, Request, Sequencer, TermValue};
use quartet_model::LogSequence;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::silence::Turn;

/// A node's key goes this long after its last renewal.
const LEASE_SECONDS: u32 = 10;
/// How often a node renews its key and reads those of others.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the term is read while the home is silent.
const LOOK_AT_TERM_EVERY: Duration = Duration::from_millis(50);
/// A node renews its key each second, so what was read first longer ago is out of date.
const RECENT: Duration = Duration::from_secs(2);
/// Most members that one read asks for.
const MEMBERS_MAX: u32 = 1000;
/// A clock that differs by more than this many microseconds from most others is off. Their keys are
/// up to two seconds old.
const CLOCK_OFF_MICROS: i64 = 5_000_000;

/// A node's record about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub name: String,
    /// Host and port at which other nodes reach it.
    pub address: String,
    /// Its listeners by name, as clients reach them.
    pub endpoints: BTreeMap<String, String>,
    /// Its wall clock, in microseconds since 1970.
    pub clock_us: u64,
    /// The home that it hears.
    #[serde(default)]
    pub hears: Option<u64>,
}

/// The state that was read last.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub members: BTreeMap<u64, Member>,
    pub reports: BTreeMap<u64, NodeReport>,
    /// The running term; `None` before the first.
    pub term: Option<TermValue>,
    /// When the newest read of the term began that was answered.
    pub term_read_began: Option<Instant>,
    /// Microseconds by which each member's clock was ahead of this node's.
    clocks_ahead: BTreeMap<u64, i64>,
    /// When this node first read what it has of each member.
    read_first: BTreeMap<u64, Instant>,
}

/// The cluster as one node sees it.
pub struct Members {
    place: Place,
    me: NodeId,
    view: RwLock<View>,
}

impl Members {
    pub fn new(place: Place, me: NodeId) -> Arc<Members> {
        Arc::new(Members {
            place,
            me,
            view: RwLock::default(),
        })
    }

    pub fn view(&self) -> View {
        self.view.read().clone()
    }

    /// The home of the running term: this node too, in a life of it that is over.
    pub fn home(&self) -> Option<NodeId> {
        self.view.read().term.map(|term| term.writer.node)
    }

    /// The home, if it is another node that is there.
    pub fn other_home(&self) -> Option<Member> {
        let view = self.view.read();
        let home = view.term?.writer.node;
        view.members.get(&home.0).filter(|_| home != self.me).cloned()
    }

    /// This node's turn among those that would replace `home`.
    pub fn turn(&self, home: Option<NodeId>) -> Turn {
        self.view.read().turn(self.me, home)
    }

    /// True if another node has said within its last few renewals that it hears this home.
    pub fn is_heard_elsewhere(&self, home: NodeId) -> bool {
        self.view.read().is_heard_elsewhere(self.me, home, Instant::now())
    }

    /// Keeps this node's key and its hold, and reads the others' keys, until `is_over`.
    /// `is_home_silent`: the term and the others' keys are read more often, and this node's key
    /// says so at once. For a thread of its own.
    ///
    /// The hold keeps the records that a node needs which stands still or is started again within
    /// the lease's ten seconds. `needed`: the first of them.
    pub fn keep(
        &self,
        sequencer: &mut dyn Sequencer,
        own: impl Fn() -> Member,
        needed: impl Fn() -> LogSequence,
        is_home_silent: impl Fn() -> bool,
        is_over: impl Fn() -> bool,
    ) {
        let (mut lease, mut looked, mut was_silent) = (None, None::<Instant>, false);
        while !is_over() {
            let is_silent = is_home_silent();
            if was_silent != is_silent || looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
                (looked, was_silent) = (Some(Instant::now()), is_silent);
                if let Err(error) = self.look(sequencer, &mut lease, &own(), needed()) {
                    tracing::debug!(%error, "the cluster's members could not be read");
                    lease = None;
                }
            } else if is_silent {
                let _ = self.look_once(sequencer);
            }
            std::thread::sleep(LOOK_AT_TERM_EVERY);
        }
        if let Some(lease) = lease {
            let _ = ask(sequencer, Request::Revoke { lease });
        }
    }

    /// Reads who the members are and which is home, as a node does that is none yet.
    pub fn look_once(&self, sequencer: &mut dyn Sequencer) -> Result<(), Failure> {
        self.read_term(sequencer)?;
        self.read_members(sequencer)
    }

    fn look(
        &self,
        sequencer: &mut dyn Sequencer,
        lease: &mut Option<LeaseId>,
        own: &Member,
        needed: LogSequence,
    ) -> Result<(), Failure> {
        let kept = match *lease {
            Some(lease) => ask(sequencer, Request::KeepAlive { lease })?,
            None => Answer::NoLease,
        };
        if kept == Answer::NoLease {
            let seconds = LEASE_SECONDS;
            *lease = match ask(sequencer, Request::Grant { seconds })? {
                Answer::Lease(lease) => Some(lease),
                _ => None,
            };
        }
        if let Some(lease) = *lease {
            ask(sequencer, self.put(own, lease))?;
            ask(sequencer, copies::hold_request(&self.place, self.me, needed, lease))?;
        }
        self.read_term(sequencer)?;
        self.read_members(sequencer)
    }

    fn read_members(&self, sequencer: &mut dyn Sequencer) -> Result<(), Failure> {
        let began = Instant::now();
        let (from, until) = self.keys();
        let limit = MEMBERS_MAX;
        let members = ask(sequencer, Request::Range { from, until, limit })?;
        let reports = ask(sequencer, copies::reports_request(&self.place))?;
        let reports = copies::reports(&self.place, &reports);
        let mut view = self.view.write();
        view.take_members(&self.keys().0, &members, began, now_us());
        view.reports = reports.into_iter().map(|(node, report)| (node.0, report)).collect();
        Ok(())
    }

    fn read_term(&self, sequencer: &mut dyn Sequencer) -> Result<(), Failure> {
        let began = Instant::now();
        let key = self.place.term_key();
        if let Answer::Value(value) = ask(sequencer, Request::Get { key })? {
            let mut view = self.view.write();
            view.term = value.as_deref().and_then(TermValue::decode);
            view.term_read_began = Some(began);
        }
        Ok(())
    }

    fn put(&self, own: &Member, lease: LeaseId) -> Request {
        let (mut key, _) = self.keys();
        key.extend_from_slice(format!("{:016x}", self.me.0).as_bytes());
        Request::Transact {
            compares: Vec::new(),
            operations: vec![Operation::Put {
                key,
                value: serde_json::to_vec(own).expect("texts and numbers are JSON"),
                lease: Some(lease),
            }],
            otherwise: Vec::new(),
        }
    }

    /// `ROOT/members/` and the end of the keys that begin so.
    fn keys(&self) -> (Vec<u8>, Vec<u8>) {
        let path = |end| format!("{}/members{end}", self.place.root()).into_bytes();
        (path('/'), path('0'))
    }
}

impl View {
    fn take_members(&mut self, prefix: &[u8], answer: &Answer, now: Instant, now_us: u64) {
        let Answer::Entries { entries, .. } = answer else {
            return;
        };
        let member = |(key, value): &(Vec<u8>, Vec<u8>)| {
            let id = std::str::from_utf8(key.strip_prefix(prefix)?).ok()?;
            let member: Member = serde_json::from_slice(value).ok()?;
            Some((u64::from_str_radix(id, 16).ok()?, member))
        };
        let members: BTreeMap<u64, Member> = entries.iter().filter_map(member).collect();
        self.read_first.retain(|id, _| self.members.get(id) == members.get(id));
        for id in members.keys() {
            self.read_first.entry(*id).or_insert(now);
        }
        self.members = members;
        let ahead = |member: &Member| member.clock_us as i64 - now_us as i64;
        self.clocks_ahead = self.members.iter().map(|(id, member)| (*id, ahead(member))).collect();
    }

    fn turn(&self, me: NodeId, home: Option<NodeId>) -> Turn {
        let key = |id: u64| {
            let applied = self.reports.get(&id).and_then(|report| report.partitions.first());
            // The further one comes first, the lower number among equals.
            (std::cmp::Reverse(applied.map_or(0, |reached| reached.applied.0)), id)
        };
        let others = self
            .members
            .keys()
            .filter(|id| **id != me.0 && Some(NodeId(**id)) != home);
        let before = others.filter(|id| key(**id) < key(me.0));
        Turn {
            rank: before.count() as u32,
            is_clock_off: self.is_clock_off(me),
        }
    }

    /// An older key may be the word of a node that is gone.
    fn is_heard_elsewhere(&self, me: NodeId, home: NodeId, now: Instant) -> bool {
        let mut others = self.members.iter().filter(|(id, _)| **id != me.0 && **id != home.0);
        let is_recent = |id: &u64| self.read_first.get(id).is_some_and(|first| now - *first < RECENT);
        others.any(|(id, member)| member.hears == Some(home.0) && is_recent(id))
    }

    /// True if most others' clocks stand elsewhere than this node's own.
    pub fn is_clock_off(&self, me: NodeId) -> bool {
        let others: Vec<_> = self.clocks_ahead.iter().filter(|(id, _)| **id != me.0).collect();
        let far = others.iter().filter(|(_, ahead)| ahead.abs() > CLOCK_OFF_MICROS);
        2 * far.count() > others.len()
    }
}

impl Members {
    /// The cluster as this node sees it, for an operator.
    pub fn describe(&self) -> Value {
        let view = self.view.read();
        let home = view.term.map(|term| term.writer.node);
        let node = |(id, member): (&u64, &Member)| {
            let reached = view.reports.get(id).and_then(|report| report.partitions.first());
            json!({
                "name": member.name,
                "id": format!("{id:016x}"),
                "address": member.address,
                "endpoints": member.endpoints,
                "is_home": home == Some(NodeId(*id)),
                "applied": reached.map(|reached| reached.applied.0),
                "synced": reached.map(|reached| reached.synced.0),
                "clock_ahead_milliseconds": view.clocks_ahead.get(id).map(|micros| micros / 1000),
            })
        };
        let home_member = home.and_then(|home| view.members.get(&home.0));
        json!({
            "cluster": format!("{:032x}", self.place.cluster.0),
            "term": view.term.map(|term| term.term.0),
            "home": home_member.map(|member| &member.name),
            "nodes": view.members.iter().map(node).collect::<Vec<_>>(),
        })
    }
}

pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &[u8] = b"/test/members/";
    const HOME: NodeId = NodeId(1);
    const ME: NodeId = NodeId(2);

    /// An answer that has these members, each with the home that it hears.
    fn members(hears: &[(u64, Option<u64>)], clock_us: u64) -> Answer {
        let entry = |(id, hears): &(u64, Option<u64>)| {
            let member = Member {
                name: id.to_string(),
                address: String::new(),
                endpoints: BTreeMap::new(),
                clock_us,
                hears: *hears,
            };
            let key = [PREFIX, format!("{id:016x}").as_bytes()].concat();
            (key, serde_json::to_vec(&member).unwrap())
        };
        Answer::Entries {
            entries: hears.iter().map(entry).collect(),
            more: false,
        }
    }

    /// One node that is cut off from the home does not take its place while another hears it.
    #[test]
    fn a_home_is_heard_elsewhere_by_those_who_have_said_so_lately() {
        let start = Instant::now();
        let mut view = View::default();
        let heard = |view: &View, at: Duration| view.is_heard_elsewhere(ME, HOME, start + at);
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

    #[test]
    fn a_member_that_does_not_say_what_it_hears_is_read() {
        let text = br#"{"name": "a", "address": "a:1", "endpoints": {}, "clock_us": 1}"#;
        assert_eq!(serde_json::from_slice::<Member>(text).unwrap().hears, None);
    }
}
