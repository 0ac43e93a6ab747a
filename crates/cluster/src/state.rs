//! The state of one node: its services, the signs of each home's life, and what delays a take-over.
//!
//! ```text
//!   turn:  End, EndOwn        layers of an ended term end, and nothing else happens in that turn
//!          TakeOver           the home is silent, or hands over to this node
//!          StandBy, Serve...  repeated each turn until `began` reports them
//!          Stop, EndForCopy   nothing can be served, or the state is not that of most nodes
//! ```
//!
//! A take-over follows the end of a term's layers, so no layer sees two terms, or a version that
//! was reused with other content.

use std::time::{Duration, Instant};

use quartet_engine::Role;
use quartet_log_replicated::{NodeId, PartitionId, Term, Writer};

use crate::balance;
use crate::divergence::{Comparison, Hashes, Verdict};
use crate::silence::{Signs, Turn};
use crate::standing::{Standing, has_home, home_term, is_in};

/// A home serves no client once its log's thread has waited for the disk for this time, in
/// milliseconds. Writing down the longest transaction takes seconds as well.
const STALLED_MILLIS: u64 = 10_000;
/// The time after which a home that does not start to serve is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(10);
/// A home with a disk that has been full for this time hands over to a node that has room.
const FULL_FOR: Duration = Duration::from_secs(1);
/// The home of the first partition forwards clients to the other homes. It deposes another home
/// after this much silence, even if other nodes receive its heartbeats.
const CUT_OFF_AFTER: Duration = Duration::from_secs(5);
/// Time during which the homes remain at one node after a request to gather them.
const GATHERED_FOR: Duration = Duration::from_secs(20);
/// Time for which the homes must be unchanged before one is moved.
const REST: Duration = Duration::from_secs(10);

/// The service at a node's sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// The node has just started or stopped, or is between two of the others.
    #[default]
    Nothing,
    /// Clients are forwarded to the home.
    StandBy,
    /// Layers over the first partitions, one for each term: over all, or over one.
    Layers(Vec<Term>),
}

/// A task for the node's threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ends the service at the sockets. The state counts it as ended.
    End,
    /// Ends the layers of a partition other than the first. The state counts them as ended.
    EndOwn(PartitionId),
    /// Serves all databases by layers over all partitions, in these terms.
    Serve(Vec<Term>),
    /// Serves the first partition's databases, and forwards clients of others.
    ServeFirst(Term),
    /// Serves the databases of a partition other than the first.
    ServeOwn(PartitionId, Term),
    /// Forwards clients to the home.
    StandBy,
    /// Tries to become home of a partition.
    TakeOver(PartitionId, Cause),
    /// Serves nothing more: an operator must decide about this partition.
    Stop(PartitionId),
    /// Ends the process; its next start copies this partition from its home.
    EndForCopy(PartitionId, Reason),
}

/// The reason for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The sequencer has dropped the next record.
    Trimmed,
    /// The state differs from that of most nodes.
    Differs,
}

/// The cause of a take-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The home is silent.
    Silence,
    /// The home hands over.
    HandOver,
}

/// A hand-over for the balance of homes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The partition, which has another home.
    pub partition: PartitionId,
    /// Its next home.
    pub to: NodeId,
}

/// The newest reads of a partition at the sequencer.
#[derive(Clone, Debug)]
pub struct Outlook {
    /// The home of the running term; `None` before the first.
    pub home: Option<Writer>,
    /// The start of the newest answered read.
    pub read_began: Option<Instant>,
    /// Another node has reported lately that it receives this home's heartbeats.
    pub is_heard_elsewhere: bool,
    /// This node's place among the candidates to replace this home.
    pub turn: Turn,
    /// The state hashes of this node and of the others.
    pub hashes: Hashes,
}

/// The health of one partition's engine at this node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Health {
    /// It executes transactions.
    pub is_home: bool,
    /// It is home, and the sequencer does not answer it.
    pub is_cut_off: bool,
    /// Milliseconds for which its log has waited for the disk.
    pub stalled_millis: u64,
    /// Its disk has no room.
    pub is_disk_full: bool,
}

/// The known homes, and the nodes that could be one.
#[derive(Clone, Debug, Default)]
pub struct Homes {
    /// The home of each partition, as far as it is known.
    pub homes: Vec<Option<NodeId>>,
    /// The nodes that could be home of any partition.
    pub fit: Vec<NodeId>,
    /// A database is moving, which needs all homes at one node.
    pub is_moving: bool,
}

/// The state of one partition at a node.
#[derive(Clone, Debug)]
struct Partition {
    /// The home that is listened to; `None` before the first term.
    home: Option<NodeId>,
    signs: Signs,
    /// The term of this node's last attempt to take over.
    tried: Option<Term>,
    /// Its home hands over to this node.
    is_handed: bool,
    /// The term of the layers that this partition has for itself.
    served: Option<Term>,
    /// Since when this node has been home of it without serving it.
    unserved_since: Option<Instant>,
    comparison: Comparison,
}

/// The state of one node.
#[derive(Clone, Debug)]
pub struct NodeState {
    me: NodeId,
    service: Service,
    partitions: Vec<Partition>,
    /// Since when the disk has had no room.
    full_since: Option<Instant>,
    /// The end of the time when this node takes all homes to itself, as home of the first
    /// partition.
    gathers_until: Option<Instant>,
    is_handing_over: bool,
    /// The homes at the last check, and the time of their last change or failed move.
    homes: Vec<Option<NodeId>>,
    homes_since: Instant,
}

impl NodeState {
    /// A node that serves nothing yet. `partitions`: their number, at least one.
    pub fn new(me: NodeId, partitions: usize, now: Instant) -> NodeState {
        let partition = Partition {
            home: None,
            signs: Signs::of_new_home(now),
            tried: None,
            is_handed: false,
            served: None,
            unserved_since: None,
            comparison: Comparison::default(),
        };
        NodeState {
            me,
            service: Service::Nothing,
            partitions: vec![partition; partitions],
            full_since: None,
            gathers_until: None,
            is_handing_over: false,
            homes: Vec::new(),
            homes_since: now,
        }
    }

    /// Returns the actions that are due, in the order of their execution. `roles`: one
    /// of each partition.
    pub fn turn(&mut self, roles: &[Role], outlook: impl Fn(PartitionId) -> Outlook, now: Instant) -> Vec<Action> {
        match Standing::of(roles) {
            Standing::Alone => Vec::new(),
            Standing::NeedsCopy(id) => vec![Action::EndForCopy(id, Reason::Trimmed)],
            Standing::Stopped(id) => match self.serves_nothing() {
                true => Vec::new(),
                false => vec![Action::Stop(id)],
            },
            standing => {
                let ids = (0..).map(PartitionId).take(roles.len());
                let outlooks: Vec<Outlook> = ids.map(outlook).collect();
                if let Some(id) = self.compare_hashes(&outlooks, now) {
                    return vec![Action::EndForCopy(id, Reason::Differs)];
                }
                let mut actions = self.ends(roles);
                if actions.is_empty() {
                    actions = self.take_overs(roles, &outlooks, now);
                }
                self.serve_as(&standing, roles, &mut actions);
                actions
            }
        }
    }

    /// Compares the states of all partitions with those of other nodes. Returns a partition
    /// with a state of a minority.
    fn compare_hashes(&mut self, outlooks: &[Outlook], now: Instant) -> Option<PartitionId> {
        let partitions = self.partitions.iter_mut().zip(outlooks);
        let verdicts = partitions.map(|(partition, outlook)| partition.comparison.compare(&outlook.hashes, now));
        let verdicts: Vec<Verdict> = verdicts.collect();
        let differs = verdicts.iter().position(|verdict| *verdict == Verdict::Differs);
        differs.map(|at| PartitionId(at as u32))
    }

    /// Returns true while the node's state of a partition differs from another node's and no
    /// majority has decided: it is neither served again nor copied.
    pub fn is_in_doubt(&self, partition: PartitionId) -> bool {
        self.partitions[partition.0 as usize].comparison.is_in_doubt()
    }

    /// Returns true once the node's state of a partition was that of most nodes, since its start.
    pub fn has_agreed(&self, partition: PartitionId) -> bool {
        self.partitions[partition.0 as usize].comparison.has_agreed()
    }

    /// Ends the layers of ended terms.
    fn ends(&mut self, roles: &[Role]) -> Vec<Action> {
        let mut actions = Vec::new();
        if matches!(&self.service, Service::Layers(terms) if !is_in(terms, roles)) {
            self.ended();
            actions.push(Action::End);
        }
        for (id, (partition, role)) in (0..).map(PartitionId).zip(self.partitions.iter_mut().zip(roles)) {
            if partition.served.is_some() && partition.served != home_term(role) {
                partition.served = None;
                actions.push(Action::EndOwn(id));
            }
        }
        actions
    }

    fn serve_as(&self, standing: &Standing, roles: &[Role], actions: &mut Vec<Action>) {
        if let Standing::All(terms) = standing {
            if !matches!(&self.service, Service::Layers(of) if of.len() == terms.len()) {
                actions.push(Action::Serve(terms.clone()));
            }
            return;
        }
        if self.service == Service::Nothing {
            actions.push(Action::StandBy);
        }
        let first = match standing {
            Standing::First(term) => Some(*term),
            _ => None,
        };
        // This node may still become home of all partitions.
        if first.is_some() && !roles.iter().all(has_home) {
            return;
        }
        for (id, (partition, role)) in (0..).map(PartitionId).zip(self.partitions.iter().zip(roles)).skip(1) {
            if let Some(term) = home_term(role).filter(|_| partition.served.is_none()) {
                actions.push(Action::ServeOwn(id, term));
            }
        }
        if let Some(term) = first.filter(|_| !matches!(self.service, Service::Layers(_))) {
            actions.push(Action::ServeFirst(term));
        }
    }

    fn take_overs(&mut self, roles: &[Role], outlooks: &[Outlook], now: Instant) -> Vec<Action> {
        let is_first_home = home_term(&roles[0]).is_some();
        let mut actions = Vec::new();
        for (id, role) in (0..).map(PartitionId).zip(roles) {
            let partition = &mut self.partitions[id.0 as usize];
            let is_handed = std::mem::take(&mut partition.is_handed);
            match *role {
                Role::Following { .. } if partition.comparison.is_in_doubt() => {}
                Role::Following { term, home } => {
                    let outlook = &outlooks[id.0 as usize];
                    let is_due = || partition.is_time_to_try(id, home, outlook, is_first_home, now);
                    let cause = match is_handed {
                        true => Some(Cause::HandOver),
                        false => (partition.tried != Some(term) && is_due()).then_some(Cause::Silence),
                    };
                    if let Some(cause) = cause {
                        partition.tried = Some(term);
                        actions.push(Action::TakeOver(id, cause));
                    }
                }
                Role::Candidate { .. } => {}
                _ => partition.tried = None,
            }
        }
        actions
    }

    /// The home of a partition hands over to this node: the next turn tries to take over.
    pub fn is_handed(&mut self, partition: PartitionId) {
        self.partitions[partition.0 as usize].is_handed = true;
    }

    /// The service at the sockets has started.
    pub fn began(&mut self, service: Service) {
        self.service = service;
    }

    /// Nothing is served at the sockets.
    pub fn ended(&mut self) {
        self.service = Service::Nothing;
    }

    /// The layers of a partition other than the first have started.
    pub fn began_own(&mut self, partition: PartitionId, term: Term) {
        self.partitions[partition.0 as usize].served = Some(term);
    }

    /// They have ended.
    pub fn ended_own(&mut self, partition: PartitionId) {
        self.partitions[partition.0 as usize].served = None;
    }

    /// The service at the sockets.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Returns true if clients of the partition's databases are served at this node.
    pub fn serves(&self, partition: PartitionId) -> bool {
        let is_of_all = |terms: &[Term]| terms.len() == self.partitions.len() || partition == PartitionId(0);
        let is_by_layers = matches!(&self.service, Service::Layers(terms) if is_of_all(terms));
        is_by_layers || self.partitions[partition.0 as usize].served.is_some()
    }

    /// Returns true while neither the sockets nor a partition have a service.
    pub fn serves_nothing(&self) -> bool {
        self.service == Service::Nothing && self.partitions.iter().all(|partition| partition.served.is_none())
    }

    /// From now on the signs of life are those of this home.
    pub fn listens_to(&mut self, partition: PartitionId, home: Option<NodeId>, now: Instant) {
        let partition = &mut self.partitions[partition.0 as usize];
        if partition.home != home {
            (partition.home, partition.signs) = (home, Signs::of_new_home(now));
        }
    }

    /// A heartbeat of the partition's home has arrived.
    pub fn heard(&mut self, partition: PartitionId, now: Instant) {
        let signs = &mut self.partitions[partition.0 as usize].signs;
        signs.heard = now;
        signs.unreachable_since = None;
    }

    /// There is no connection to the partition's home.
    pub fn unreachable(&mut self, partition: PartitionId, now: Instant) {
        let signs = &mut self.partitions[partition.0 as usize].signs;
        signs.unreachable_since.get_or_insert(now);
    }

    /// The home of each partition, if its heartbeats arrive.
    pub fn heard_homes(&self, now: Instant) -> Vec<Option<NodeId>> {
        let heard = |partition: &Partition| partition.home.filter(|_| !partition.signs.is_silent(now));
        self.partitions.iter().map(heard).collect()
    }

    /// Returns true if the home of any partition is silent.
    pub fn is_any_home_silent(&self, now: Instant) -> bool {
        self.partitions.iter().any(|partition| partition.signs.is_silent(now))
    }

    /// Returns true if this node sends heartbeats as home of the partition: both the sequencer and
    /// its own disk respond. A home without responses sends none, so that a healthy node takes
    /// over. After a while the same applies to a home that does not start to serve, and to a home
    /// with a full disk. `engines`: one of each partition. `has_fit_other`: another node is fit to
    /// be home.
    pub fn beats(&mut self, partition: PartitionId, engines: &[Health], has_fit_other: bool, now: Instant) -> bool {
        let is_living = |engine: &Health| !engine.is_cut_off && engine.stalled_millis < STALLED_MILLIS;
        let is_home = engines[partition.0 as usize].is_home;
        let is_served = is_home && engines.iter().all(is_living) && !self.is_stuck(partition, is_home, now);
        let is_disk_full = engines.iter().any(|engine| engine.is_disk_full);
        is_served && !self.is_out_of_room(is_disk_full, has_fit_other, now)
    }

    /// True if this node's disk has been full for a while and another node's is not: that node
    /// should be home. Among nodes that all lack room the home stays where it is.
    fn is_out_of_room(&mut self, is_disk_full: bool, has_fit_other: bool, now: Instant) -> bool {
        if !is_disk_full {
            self.full_since = None;
            return false;
        }
        let since = *self.full_since.get_or_insert(now);
        now.saturating_duration_since(since) >= FULL_FOR && has_fit_other
    }

    /// True if this node has long been home of the partition without serving it.
    fn is_stuck(&mut self, id: PartitionId, is_home: bool, now: Instant) -> bool {
        let is_served = self.serves(id);
        let partitions = self.partitions.len();
        let partition = &mut self.partitions[id.0 as usize];
        // One partition's home has nothing to wait for.
        if is_served || partitions == 1 || !is_home {
            partition.unserved_since = None;
            return false;
        }
        // The first waits for the others.
        let limit = if id == PartitionId(0) {
            3 * STUCK_AFTER
        } else {
            STUCK_AFTER
        };
        let since = *partition.unserved_since.get_or_insert(now);
        now.saturating_duration_since(since) >= limit
    }

    /// Starts a hand-over. Returns false while another is in progress.
    pub fn begin_hand_over(&mut self) -> bool {
        !std::mem::replace(&mut self.is_handing_over, true)
    }

    /// The hand-over has ended, whether it succeeded or not.
    pub fn end_hand_over(&mut self) {
        self.is_handing_over = false;
    }

    /// All homes must be at this node until a deadline.
    pub fn gather(&mut self, now: Instant) {
        self.gathers_until = Some(now + GATHERED_FOR);
    }

    /// Returns true while this node should have all homes.
    fn is_gathering(&mut self, is_moving: bool, now: Instant) -> bool {
        if self.gathers_until.is_some() && is_moving {
            self.gathers_until = Some(now + GATHERED_FOR);
        }
        if self.gathers_until.is_some_and(|until| until < now) {
            self.gathers_until = None;
        }
        self.gathers_until.is_some() || is_moving
    }

    /// The next home to move while this node is home of the first partition: homes are spread over
    /// the nodes, or gathered here.
    pub fn balance(&mut self, homes: &Homes, is_first_home: bool, now: Instant) -> Option<Move> {
        if self.homes != homes.homes {
            (self.homes, self.homes_since) = (homes.homes.clone(), now);
        }
        if !is_first_home {
            self.homes_since = now;
            return None;
        }
        let me = self.me;
        let next = match self.is_gathering(homes.is_moving, now) {
            true => {
                let mut movable = (0..).map(PartitionId).zip(&self.homes).skip(1);
                let partition = movable.find(|(_, home)| home.is_some_and(|home| home != me));
                partition.map(|(partition, _)| (partition, me))
            }
            false if now.saturating_duration_since(self.homes_since) < REST => None,
            false => balance::next(&self.homes, &homes.fit),
        };
        next.map(|(partition, to)| Move { partition, to })
    }

    /// A home was not moved: the next move waits.
    pub fn balance_failed(&mut self, now: Instant) {
        self.homes_since = now;
    }
}

impl Partition {
    /// `followed`: the home of the engine. Until what was read of the term agrees with it,
    /// one of the two is about to learn of another.
    fn is_time_to_try(
        &self,
        id: PartitionId,
        followed: Option<Writer>,
        outlook: &Outlook,
        is_first_home: bool,
        now: Instant,
    ) -> bool {
        if outlook.home != followed {
            return false;
        }
        let is_of_this_home = outlook.home.map(|home| home.node) == self.home;
        let signs = Signs {
            found_home: outlook.read_began.filter(|_| is_of_this_home),
            ..self.signs
        };
        // Clients reach it only through the home of the first partition.
        let is_needed_here = id != PartitionId(0) && is_first_home;
        let is_cut_off = is_needed_here && now.saturating_duration_since(signs.heard) >= CUT_OFF_AFTER;
        (!outlook.is_heard_elsewhere || is_cut_off) && signs.is_time_to_try(outlook.turn, now)
    }
}

#[cfg(test)]
mod tests;
