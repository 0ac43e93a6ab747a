//! Three whole engines that share a log, on one thread and from one seed: their disks lose unsynced
//! data, fill up, fail and are slow, their processes crash and are suspended, the network between
//! them and a model of the sequencer loses, delays, repeats and reorders, in one direction or both,
//! and clocks are set forward and back by up to an hour. Clients write, read, move money and append
//! to lists; one checker replays the sequencer's journal, and another searches for cycles among
//! transactions.
//!
//! A tick is a millisecond: the network delivers, each node takes its steps, clients act, and
//! replies leave as the engines allow.

mod clients;
mod copying;
mod deciding;
mod faults;
mod followed;
mod founding;
mod histories;
mod judgement;
mod mistake;
mod node;
mod post;
mod state;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use quartet_engine::{Durability, Role};
use quartet_env::Runtime;
use quartet_model::LogSequence;

pub use judgement::Violation;
pub use mistake::Mistake;

use crate::cluster::clients::{MONEY, is_account, number, space};
use crate::cluster::node::{NODES, Node};
use crate::cluster::state::Cluster;

const TICK: Duration = Duration::from_millis(1);
/// Ticks of a run with all kinds of faults, of the calm after it, and of the final time in which
/// clients send no requests and all nodes reach the same record.
const WILD_TICKS: u64 = 8_000;
/// A node opens for up to 3.5 s after a crash on a slow disk. If the state of another differs,
/// nodes without a hash wait for two seconds before they take over, and clients repeat their
/// requests.
const CALM_TICKS: u64 = 10_000;
const REST_TICKS_MIN: u64 = 300;
const REST_TICKS_MAX: u64 = 20_000;

/// How one seed ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Hash of everything that was observed: the same each time the seed is run.
    pub hash: u64,
    /// The number of times that each state was reached.
    pub reached: BTreeMap<&'static str, u64>,
    /// Simulated time.
    pub simulated: Duration,
}

/// Runs one seed.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Result<Report, Violation> {
    let mut cluster = Cluster::begin(seed, mistake)?;
    for _ in 0..WILD_TICKS {
        cluster.tick(true)?;
    }
    cluster.calm_down()?;
    for _ in 0..CALM_TICKS {
        cluster.tick(false)?;
    }
    cluster.rest()?;
    cluster.end()
}

/// The first of the seeds that shows the mistake, and the finding.
pub fn first_finding(mistake: Mistake, mut seeds: Range<u64>) -> Option<(u64, Violation)> {
    seeds.find_map(|seed| run(seed, Some(mistake)).err().map(|violation| (seed, violation)))
}

impl Cluster {
    fn tick(&mut self, is_wild: bool) -> Result<(), Violation> {
        self.tick_of(is_wild, true)
    }

    fn tick_of(&mut self, is_wild: bool, clients_act: bool) -> Result<(), Violation> {
        self.now += TICK;
        let now = self.now;
        loop {
            let next = self.world.borrow().next_at();
            self.world.borrow_mut().step(now);
            if next.is_none_or(|next| next > now) {
                break;
            }
        }
        let first = self.random.below(NODES as u64) as usize;
        for turn in 0..NODES {
            self.live((first + turn) % NODES)?;
        }
        let synced: Vec<LogSequence> = self.nodes.iter().map(|node| node.synced).collect();
        self.judge.scan(self.world.borrow().store(), &synced)?;
        self.note_take_overs();
        if is_wild {
            self.disturb()?;
        }
        if is_wild {
            self.lead();
        }
        self.decide()?;
        self.tend()?;
        if clients_act {
            self.act()?;
        }
        self.reply()?;
        if self.random.one_in(50) {
            self.compare()?;
        }
        Ok(())
    }

    /// Waits until all nodes have the same records, without requests of clients, and compares the
    /// hashes of their states.
    fn rest(&mut self) -> Result<(), Violation> {
        for tick in 0..REST_TICKS_MAX {
            self.tick_of(false, false)?;
            if tick.is_multiple_of(REST_TICKS_MIN) {
                self.mark();
            }
            if tick >= REST_TICKS_MIN && self.are_alike() {
                let compared = self.compare_hashes();
                let is_falsified = self.nodes.iter().any(|node| node.is_falsified);
                // The next mark shows which.
                if compared.is_ok() || !is_falsified {
                    return compared;
                }
            }
        }
        let nodes = (0..NODES).map(|at| format!("\nnode {at}: {}", self.describe(at)));
        Err(Violation::NeverAlike { nodes: nodes.collect() })
    }

    /// Makes all nodes take their state hash.
    fn mark(&self) {
        let engines = self.nodes.iter().filter_map(|node| node.engine.as_ref());
        engines.for_each(|engine| engine.mark());
    }

    /// Returns true if all nodes have applied everything that the log has.
    fn are_alike(&self) -> bool {
        let last = self.judge.last();
        let applied = |node: &Node| {
            let engine = node.engine.as_ref()?;
            Some(LogSequence(engine.replication().applied))
        };
        self.nodes.iter().all(|node| applied(node) == Some(last))
    }

    fn compare_hashes(&mut self) -> Result<(), Violation> {
        let hash = |node: &Node| {
            let engine = node.engine.as_ref().expect("all nodes run");
            engine.state_hash(None).expect("a disk without faults")
        };
        let hashes: Vec<u128> = self.nodes.iter().map(hash).collect();
        match hashes.iter().position(|hash| *hash != hashes[0]) {
            Some(node) => Err(Violation::EndsDifferently { node }),
            None => {
                self.reach("all nodes had one state hash at the end");
                Ok(())
            }
        }
    }

    /// A paused node finds that time has passed.
    fn live(&mut self, at: usize) -> Result<(), Violation> {
        let now = self.now;
        let node = &mut self.nodes[at];
        if node.asleep_until > now {
            node.stood_still = true;
            return Ok(());
        }
        if node.is_ahead(now) {
            return Ok(());
        }
        if std::mem::take(&mut node.stood_still) {
            node.wake(now - TICK);
        }
        node.drag(now, &mut self.random);
        node.live(now)?;
        if node.has_failed() {
            self.forget(at);
            let node = &mut self.nodes[at];
            node.crash(&mut self.random);
            node.start()?;
            self.reach("own disk failed");
        }
        Ok(())
    }

    /// Compares what followers show with the log's past.
    fn compare(&mut self) -> Result<(), Violation> {
        for at in 0..NODES {
            let node = &self.nodes[at];
            let space = space(Durability::Always);
            if matches!(node.role(), Some(Role::Following { .. }))
                && !node.is_falsified
                && let Some(version) = node.version(space)
            {
                self.judge.shows(at, version, |visit| _ = node.rows(space, visit))?;
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<Report, Violation> {
        if self.acknowledged_at_end == 0 {
            let nodes = (0..NODES).map(|at| format!("\nnode {at}: {}", self.describe(at)));
            return Err(Violation::NoProgress { nodes: nodes.collect() });
        }
        self.compare()?;
        let in_the_log = self.judge.sum(is_account, number);
        for at in 0..NODES {
            // A home may not know yet that it is deposed: its later commits never happened.
            if !matches!(self.nodes[at].role(), Some(Role::Following { .. })) {
                continue;
            }
            let mut found = 0;
            self.nodes[at].rows(space(Durability::Always), &mut |key, value| {
                found += if is_account(key) { number(value) } else { 0 };
            });
            if [found, in_the_log].iter().any(|sum| *sum != MONEY && *sum != 0) {
                return Err(Violation::Money {
                    node: at,
                    found,
                    in_the_log,
                });
            }
            self.observe(found);
        }
        let report = histories::judge(&self.history).map_err(Violation::Lists)?;
        self.observe(report.edges);
        self.add("lists: transactions that committed", report.transactions);
        self.add("lists: dependencies between them", report.edges);
        self.sum_up();
        let digest = self.world.borrow().digest();
        self.observe(digest);
        Ok(Report {
            hash: self.hash,
            reached: self.reached,
            simulated: self.now,
        })
    }

    /// The state of a node, for the report of a violation.
    fn describe(&self, at: usize) -> String {
        let node = &self.nodes[at];
        let ahead = node.runtime.now().saturating_sub(self.now);
        let copy = self.copies[at].as_ref().map(|copying| copying.from);
        let figures = node.engine.as_ref().map(|engine| engine.replication());
        let reached = figures.map(|figures| (figures.applied, figures.synced));
        format!(
            "{:?}, applied and synced {reached:?}, trimmed below {}, its disk is empty: {}, copies from {copy:?}, \
             its time is ahead by {ahead:?}, its disk is slow: {}, requests are held: {:?}",
            node.role(),
            self.judge.trimmed_below().0,
            node.is_empty,
            node.is_disk_slow(self.now) || node.is_stalled(),
            node.engine.as_ref().map(|engine| engine.are_requests_held()),
        )
    }

    fn add(&mut self, state: &'static str, count: u64) {
        *self.reached.entry(state).or_default() += count;
    }

    fn sum_up(&mut self) {
        for at in 0..NODES {
            self.nodes[at].sum_up();
            let node = &self.nodes[at];
            let counts = [node.counts.clone(), node.post.counts.clone()];
            for (state, count) in counts.into_iter().flatten() {
                self.add(state, count);
            }
        }
        let counts = self.world.borrow().counts().clone();
        for (state, count) in counts.into_iter().chain(self.judge.counts()) {
            self.add(state, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checker_finds_nothing() {
        for seed in 0..10 {
            run(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        }
    }

    /// Seeds that have failed: 137 lost a second disk before the first was made good; 5800 is the
    /// fault of the engine's test of parts at the end of a log; in the others the disks of two
    /// nodes were slow to the end.
    #[test]
    fn the_checker_finds_nothing_in_past_failures() {
        for seed in [137, 5800, 7325, 7379] {
            run(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        }
    }

    /// With the memory store, and with the ssd store.
    #[test]
    fn a_seed_run_again_gives_the_same_hash() {
        let first = [2, 3].map(|seed| run(seed, None).unwrap());
        let again = [2, 3].map(|seed| run(seed, None).unwrap());
        assert_eq!(again, first);
        assert_ne!(first[0].hash, first[1].hash);
    }

    /// Mistakes that need many seeds or a long run are run by `quartet-sim --cluster --mistakes`.
    #[test]
    fn the_checker_finds_mistakes() {
        for mistake in [
            Mistake::WithoutTerm,
            Mistake::ChangedEpoch,
            Mistake::EarlyReply,
            Mistake::TrimWithoutCopies,
            Mistake::SkippedGap,
            Mistake::KeptRows,
        ] {
            let (seed, violation) = first_finding(mistake, 0..20).expect("it is found");
            assert!(mistake.explains(&violation), "{mistake:?}, seed {seed}: {violation}");
        }
    }
}
