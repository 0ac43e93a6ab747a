//! The nodes, their timers, and what befalls them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use quartet_log_replicated::model::{Chaos, ModelSequencer, Random, World};
use quartet_log_replicated::{ClusterId, PartitionId, Place, Request, Sequencer};
use quartet_model::LogSequence;

use crate::fault::Fault;
use crate::judge::{Judge, Violation};
use crate::node::{Around, Node};

/// Simulated time with faults.
const STORM: Duration = Duration::from_secs(6);
/// Simulated time without faults after those, in which a write must be acknowledged.
const CALM: Duration = Duration::from_secs(3);

/// The outcome of a seed.
pub struct Report {
    /// Equal runs have equal hashes.
    pub hash: u64,
    /// The number of times that each state was reached.
    pub reached: BTreeMap<&'static str, u64>,
}

/// Runs a seed, with a mistake planted or none.
pub fn run(seed: u64, fault: Option<Fault>) -> Result<Report, Violation> {
    let mut cluster = Cluster::new(seed, fault);
    cluster.until(STORM)?;
    cluster.calm_down();
    let before = cluster.acknowledged();
    cluster.until(STORM + CALM)?;
    if cluster.acknowledged() == before {
        return Err(Violation::NoProgress(CALM.as_secs()));
    }
    let hash = cluster.world.borrow().digest();
    Ok(Report {
        hash,
        reached: cluster.reached,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Write,
    Read,
    Poll,
    Sync,
    Trim,
    Aspire,
    Copy,
    Misfortune,
    Start,
}

/// Each node's timers, and the longest time between two rings in microseconds.
const TIMERS: [(Timer, u64); 8] = [
    (Timer::Write, 8_000),
    (Timer::Read, 6_000),
    (Timer::Poll, 100_000),
    (Timer::Sync, 100_000),
    (Timer::Trim, 150_000),
    (Timer::Aspire, 2_000_000),
    (Timer::Copy, 200_000),
    (Timer::Misfortune, 3_000_000),
];

struct Cluster {
    world: Rc<RefCell<World>>,
    nodes: Vec<Node>,
    judge: Judge,
    random: Random,
    fault: Option<Fault>,
    reached: BTreeMap<&'static str, u64>,
    written: u64,
    reported: Vec<LogSequence>,
    timers: BTreeSet<(Duration, usize, Timer)>,
    is_calm: bool,
}

impl Cluster {
    fn new(seed: u64, fault: Option<Fault>) -> Cluster {
        let mut random = Random::new(seed);
        let chaos = Chaos {
            lost_requests: 30 + random.below(200),
            lost_answers: 30 + random.below(200),
            duplicates: 5 + random.below(50),
            late_requests: 30 + random.below(200),
            late_answers: 30 + random.below(200),
            lost_hints: 5 + random.below(100),
            late: Duration::from_millis(1 + random.below(4_000)),
        };
        let world = World::new(seed, chaos);
        let place = Place::new("/sim", ClusterId(seed.into()), PartitionId(0));
        let mut founder = ModelSequencer::new(&world);
        found(&mut founder, &place);
        let count = 2 + random.below(2) as usize;
        let node = |id| Node::new(id, &place, ModelSequencer::new(&world));
        let nodes: Vec<Node> = (0..count).map(node).collect();
        let mut cluster = Cluster {
            judge: Judge::new(place),
            reported: vec![LogSequence::ZERO; count],
            nodes,
            random,
            fault,
            reached: BTreeMap::new(),
            written: 0,
            timers: BTreeSet::new(),
            is_calm: false,
            world,
        };
        for node in 0..count {
            TIMERS.iter().for_each(|(timer, _)| cluster.wind(node, *timer));
        }
        cluster
    }

    fn until(&mut self, end: Duration) -> Result<(), Violation> {
        while self.world.borrow().now() < end {
            let ring = self.timers.first().map_or(end, |(at, _, _)| *at).min(end);
            self.world.borrow_mut().step(ring);
            self.judge()?;
            for node in 0..self.nodes.len() {
                self.with(node, |node, around| node.receive(around))?;
            }
            self.ring()?;
        }
        Ok(())
    }

    fn judge(&mut self) -> Result<(), Violation> {
        let synced: Vec<LogSequence> = self.nodes.iter().map(|node| node.disk.synced()).collect();
        self.judge.scan(self.world.borrow().store(), &synced)
    }

    fn ring(&mut self) -> Result<(), Violation> {
        let now = self.world.borrow().now();
        while let Some((at, node, timer)) = self.timers.first().copied().filter(|(at, _, _)| *at <= now) {
            self.timers.remove(&(at, node, timer));
            self.rang(node, timer)?;
        }
        Ok(())
    }

    fn rang(&mut self, node: usize, timer: Timer) -> Result<(), Violation> {
        match timer {
            Timer::Write => self.with(node, |node, around| node.write(around))?,
            Timer::Read => self.with(node, |node, around| node.read(around))?,
            Timer::Poll => self.with(node, |node, _| {
                node.poll();
                Ok(())
            })?,
            Timer::Trim => self.with(node, |node, around| {
                node.trim(around);
                Ok(())
            })?,
            Timer::Aspire if !self.is_calm || !self.nodes.iter().any(Node::is_home) => {
                self.with(node, |node, around| {
                    node.aspire(around);
                    Ok(())
                })?;
            }
            Timer::Aspire => {}
            Timer::Sync => self.sync(node),
            Timer::Copy => self.copy(node),
            Timer::Misfortune => self.misfortune(node),
            Timer::Start => {
                self.nodes[node].start();
                return Ok(());
            }
        }
        self.wind(node, timer);
        Ok(())
    }

    /// Sets a timer to ring within its longest time.
    fn wind(&mut self, node: usize, timer: Timer) {
        let longest = TIMERS
            .iter()
            .find(|(of, _)| *of == timer)
            .map_or(1_000_000, |(_, longest)| *longest);
        let after = Duration::from_micros(1 + self.random.below(longest));
        let at = self.world.borrow().now() + after;
        self.timers.insert((at, node, timer));
    }

    /// Does something at a node that runs.
    fn with(
        &mut self,
        node: usize,
        act: impl FnOnce(&mut Node, &mut Around<'_>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let node = &mut self.nodes[node];
        if node.is_down() || node.asleep_until > self.world.borrow().now() {
            return Ok(());
        }
        let mut around = Around {
            world: &self.world,
            judge: &mut self.judge,
            random: &mut self.random,
            fault: self.fault,
            reached: &mut self.reached,
            written: &mut self.written,
            reported: &self.reported,
        };
        act(node, &mut around)
    }

    fn sync(&mut self, node: usize) {
        let this = &mut self.nodes[node];
        if this.is_down() || this.asleep_until > self.world.borrow().now() {
            return;
        }
        this.disk.sync();
        self.reported[node] = this.disk.synced();
    }

    /// A node whose next records are trimmed copies the most complete peer's log.
    fn copy(&mut self, node: usize) {
        if !self.nodes[node].is_behind() {
            return;
        }
        let peers = self.nodes.iter().filter(|peer| peer.id != node && !peer.is_down());
        let best = peers.map(|peer| peer.disk.clone()).max_by_key(|disk| disk.synced());
        if let Some(disk) = best {
            let copied = self.with(node, |node, around| {
                node.copy(&disk, around);
                Ok(())
            });
            copied.expect("copying is judged later");
        }
    }

    fn misfortune(&mut self, node: usize) {
        if self.is_calm || self.nodes[node].is_down() {
            return;
        }
        let now = self.world.borrow().now();
        let lasts = Duration::from_millis(self.random.below(1_500));
        match self.random.below(3) {
            0 => {
                let crashed = self.with(node, |node, around| {
                    node.crash(around);
                    Ok(())
                });
                crashed.expect("a crash is judged later");
                if self.nodes[node].is_down() {
                    self.timers.insert((now + lasts, node, Timer::Start));
                }
            }
            1 => self.nodes[node].asleep_until = now + lasts,
            _ => {
                let client = self.nodes[node].client();
                self.world.borrow_mut().cut(client, lasts);
            }
        }
    }

    fn calm_down(&mut self) {
        self.is_calm = true;
        self.world.borrow_mut().behave(Chaos::default());
    }

    fn acknowledged(&self) -> u64 {
        self.reached.get("epochs acknowledged").copied().unwrap_or(0)
    }
}

fn found(founder: &mut ModelSequencer, place: &Place) {
    loop {
        let request: Request = place.found();
        let id = founder.send(request);
        // A refusal shows that a try before it has landed.
        if let Some(quartet_log_replicated::Event::Answered(of, Ok(_))) = founder.receive(Duration::from_secs(1)) {
            assert_eq!(of, id);
            return;
        }
    }
}
