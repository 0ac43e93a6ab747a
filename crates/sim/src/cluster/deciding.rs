//! The decisions of the nodes: each runs the state machine that `server::cluster` runs, over signs
//! of life that its network delivers.

use std::time::{Duration, Instant};

use quartet_cluster::divergence::{Hashes, Verdict};
use quartet_cluster::silence::{BEAT_EVERY, Turn};
use quartet_cluster::state::{Action, Health, Outlook, Reason, Service};
use quartet_engine::Role;
use quartet_env::Clock;
use quartet_log_replicated::{NodeId, Writer};

use crate::cluster::judgement::Violation;
use crate::cluster::mistake::Mistake;
use crate::cluster::node::{NODES, Node, PARTITION};
use crate::cluster::state::Cluster;

/// Interval of a node's turns.
const TURN_EVERY: Duration = Duration::from_millis(20);
/// Time within which a node with another state than both others ends.
const DIVERGED_SERVES_MAX: Duration = Duration::from_millis(200);
/// A node with a greater lag is not fit to be home, in records.
const LAG_RECORDS_MAX: u64 = 100;
/// A clock that differs from most by more is off, in microseconds.
const CLOCK_OFF_MICROS: u64 = 5_000_000;

impl Cluster {
    /// The time for the machines.
    fn instant(&self) -> Instant {
        self.nodes[0].instant(self.now)
    }

    /// Delivers heartbeats, and carries out what the machines decide.
    pub fn decide(&mut self) -> Result<(), Violation> {
        let millis = self.now.as_millis();
        if millis.is_multiple_of(BEAT_EVERY.as_millis()) {
            self.deliver_heartbeats();
        }
        if millis.is_multiple_of(TURN_EVERY.as_millis()) {
            for at in 0..NODES {
                if self.is_awake(at) {
                    self.turn(at)?;
                }
                self.check_states(at)?;
            }
        }
        Ok(())
    }

    fn deliver_heartbeats(&mut self) {
        let now = self.instant();
        let beating: Vec<bool> = (0..NODES).map(|at| self.beats(at)).collect();
        for at in 0..NODES {
            let node = &self.nodes[at];
            let Some(home) = node.followed().filter(|_| self.is_awake(at)) else {
                continue;
            };
            let from = home.0 as usize;
            let is_cut = |at: usize| self.nodes[at].alone_until > self.now;
            let is_connected = from == at || !is_cut(at) && !is_cut(from);
            let is_running = self.nodes[from].engine.is_some();
            let rules = &mut self.nodes[at].rules;
            rules.listens_to(PARTITION, Some(home), now);
            match is_connected {
                true if beating[from] => rules.heard(PARTITION, now),
                true if !is_running => rules.unreachable(PARTITION, now),
                _ => {}
            }
        }
    }

    /// Returns true if the node sends heartbeats as home.
    fn beats(&mut self, at: usize) -> bool {
        let has_fit_other = (0..NODES).any(|other| other != at && self.is_fit(other));
        let (now, is_awake) = (self.instant(), self.is_awake(at));
        let node = &mut self.nodes[at];
        let Some(engine) = node.engine.as_ref().filter(|_| is_awake) else {
            return false;
        };
        let figures = engine.replication();
        let health = Health {
            is_home: engine.is_home(),
            is_cut_off: figures.is_cut_off,
            stalled_millis: figures.stalled_millis,
            is_disk_full: engine.is_disk_full(),
        };
        node.rules.beats(PARTITION, &[health], has_fit_other, now)
    }

    fn is_fit(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        let engine = node.engine.as_ref().filter(|_| self.is_awake(at));
        let is_near = engine.is_some_and(|engine| engine.replication().lag_records <= LAG_RECORDS_MAX);
        is_near && !node.is_disk_full() && !self.is_clock_off(at)
    }

    fn is_clock_off(&self, at: usize) -> bool {
        let clock = |node: &Node| node.clock.now_micros();
        let own = clock(&self.nodes[at]);
        let is_far = |node: &&Node| clock(node).abs_diff(own) > CLOCK_OFF_MICROS;
        2 * self.nodes.iter().filter(is_far).count() >= NODES
    }

    fn turn(&mut self, at: usize) -> Result<(), Violation> {
        let Some(role) = self.nodes[at].role() else {
            return Ok(());
        };
        let (now, outlook) = (self.instant(), self.outlook(at));
        let actions = self.nodes[at].rules.turn(&[role], |_| outlook.clone(), now);
        actions.into_iter().try_for_each(|action| self.carry_out(at, action))
    }

    fn carry_out(&mut self, at: usize, action: Action) -> Result<(), Violation> {
        let node = &mut self.nodes[at];
        match action {
            Action::End => {
                node.drop_layers();
                node.engine.iter().for_each(|engine| engine.resume());
                self.reach("layers dropped at the end of a term");
            }
            Action::Serve(terms) => {
                node.engine.iter().for_each(|engine| engine.hold_requests_after_term());
                node.rules.began(Service::Layers(terms));
            }
            Action::StandBy => node.rules.began(Service::StandBy),
            Action::TakeOver(..) => {
                if let Some(engine) = &node.engine {
                    engine.take_over();
                }
                self.reach("take-over by the rules");
            }
            // `Cluster::tend` sees the role.
            Action::Stop(_) | Action::EndForCopy(_, Reason::Trimmed) => {}
            Action::EndForCopy(_, Reason::Differs) => {
                if !node.is_falsified {
                    return Err(Violation::HashDiffers { node: at });
                }
                self.forget(at);
                self.nodes[at].empty();
                self.reach("a node with another state ended, and copies");
            }
            Action::ServeFirst(_) | Action::ServeOwn(..) | Action::EndOwn(_) => {
                unreachable!("there is one partition")
            }
        }
        Ok(())
    }

    /// Fails if a node serves although its state hash differs from that of both others.
    fn check_states(&mut self, at: usize) -> Result<(), Violation> {
        let node = &self.nodes[at];
        let differs = self.hashes(at).verdict(true) == Verdict::Differs;
        let since = match differs && node.serves() && self.is_awake(at) {
            true => Some(node.differs_since.unwrap_or(self.now)),
            false => None,
        };
        self.nodes[at].differs_since = since;
        match since.is_some_and(|since| self.now - since > DIVERGED_SERVES_MAX) {
            true => Err(Violation::DivergedServes { node: at }),
            false => Ok(()),
        }
    }

    /// The state hashes that the nodes have taken.
    fn hashes(&self, at: usize) -> Hashes {
        let figures = |at: usize| self.nodes[at].engine.as_ref().map(|engine| engine.replication());
        let own = figures(at).unwrap_or_default();
        let other_nodes = (0..NODES).filter(|other| *other != at);
        let hash = |at: usize| (NodeId(at as u64), figures(at).and_then(|figures| figures.own_hash));
        Hashes {
            own: own.own_hash,
            recorded: own.recorded_hash,
            other_hashes: other_nodes.map(hash).collect(),
        }
    }

    /// The reads of a follower's engine are also those of its members' thread.
    fn outlook(&self, at: usize) -> Outlook {
        let node = &self.nodes[at];
        let home = match node.role() {
            Some(Role::Following { home, .. }) => home,
            _ => None,
        };
        let lag = node.engine.as_ref().map(|engine| engine.replication().lag_millis);
        let read_at = self.now.checked_sub(Duration::from_millis(lag.unwrap_or_default()));
        Outlook {
            home,
            read_began: read_at.map(|at| node.instant(at)),
            is_heard_elsewhere: home.is_some_and(|home| self.is_heard_elsewhere(at, home)),
            turn: self.rank(at, home),
            hashes: match self.mistake {
                Some(Mistake::UncomparedStates) => Hashes::default(),
                _ => self.hashes(at),
            },
        }
    }

    fn is_heard_elsewhere(&self, at: usize, home: Writer) -> bool {
        let now = self.instant();
        let hears = |other: usize| self.nodes[other].rules.heard_homes(now)[0] == Some(home.node);
        let others = (0..NODES).filter(|other| *other != at && NodeId(*other as u64) != home.node);
        others.filter(|other| self.is_awake(*other)).any(hears)
    }

    fn rank(&self, at: usize, home: Option<Writer>) -> Turn {
        let key = |at: usize| {
            let engine = self.nodes[at].engine.as_ref();
            let figures = engine.map(|engine| engine.replication()).unwrap_or_default();
            (figures.own_hash.is_none(), std::cmp::Reverse(figures.applied), at)
        };
        let is_candidate = |other: &usize| {
            let is_home = home.is_some_and(|home| home.node == NodeId(*other as u64));
            *other != at && !is_home && self.nodes[*other].engine.is_some()
        };
        let before = (0..NODES).filter(is_candidate).filter(|other| key(*other) < key(at));
        Turn {
            rank: before.count() as u32,
            is_unfit: self.is_clock_off(at) || self.nodes[at].is_disk_full(),
        }
    }
}
