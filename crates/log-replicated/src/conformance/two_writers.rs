//! Random histories of two writers.

use super::bench::{Bench, Node, epochs};
use super::meddler::Meddling;
use crate::drive;
use crate::follower::Follower;
use crate::home::{Fate, Outcome};
use crate::model::Random;
use crate::record::BODY_BYTES_MAX;

/// Two nodes that append and take over at random, before a client that holds requests back and
/// loses answers; a list beside them has what was acknowledged.
pub(super) struct Two<'a, 'b, 'c> {
    bench: &'a mut Bench<'b, 'c>,
    random: Random,
    homes: [Option<Node>; 2],
    /// Epochs in the order of their acknowledgement.
    acknowledged: Vec<Vec<u8>>,
    /// Never known what became of them: may or may not be in the log.
    doubtful: usize,
    written: u64,
    /// Follows all along, so that trimming hides nothing.
    witness: Follower,
    seen: Vec<Vec<u8>>,
}

impl<'a, 'b, 'c> Two<'a, 'b, 'c> {
    pub fn new(bench: &'a mut Bench<'b, 'c>, seed: u64) -> Two<'a, 'b, 'c> {
        let witness = bench.follower();
        let homes = [None, None];
        Two {
            bench,
            random: Random::new(seed),
            homes,
            acknowledged: Vec::new(),
            doubtful: 0,
            written: 0,
            witness,
            seen: Vec::new(),
        }
    }

    pub fn run(mut self, steps: u64) {
        (0..steps).for_each(|_| self.step());
        self.end();
    }

    pub fn step(&mut self) {
        let node = self.random.below(2) as usize;
        if self.random.one_in(5) {
            let lost = self.random.one_in(2);
            self.bench.meddler.next = Some(if lost { Meddling::LoseAnswer } else { Meddling::Hold });
        }
        match self.random.below(20) {
            0 => self.take_over(node),
            1 => {
                self.bench.release();
            }
            2 => self.trim(node),
            3 => self.witness(),
            _ => self.append(node),
        }
    }

    /// A home that a node forgets while it appends never learns what became of the epoch.
    fn take_over(&mut self, node: usize) {
        let forgotten = self.homes[node].take();
        self.doubtful += usize::from(forgotten.is_some_and(|node| node.home.is_appending()));
        self.homes[node] = Some(self.bench.home(node as u64 + 1));
    }

    fn append(&mut self, node: usize) {
        let Some(home) = &mut self.homes[node] else {
            return;
        };
        if !home.home.is_appending() {
            self.written += 1;
            let mut epoch = self.written.to_le_bytes().to_vec();
            let long = self.random.one_in(40);
            epoch.resize(if long { BODY_BYTES_MAX + 100 } else { 100 }, 0);
            home.home.append(&epoch).unwrap();
            home.epoch = epoch;
        }
        let outcome = home.step(self.bench);
        let epoch = home.epoch.clone();
        match outcome {
            Outcome::Done(appended) | Outcome::Landed(appended) => {
                if appended.is_whole {
                    self.acknowledged.push(epoch);
                }
            }
            Outcome::Deposed { fate, .. } => {
                self.homes[node] = None;
                match fate {
                    Fate::Landed => self.acknowledged.push(epoch),
                    Fate::Unknown => self.doubtful += 1,
                    Fate::Never => {}
                }
            }
            Outcome::Stopped(reason) => panic!("{reason}"),
            Outcome::Unknown(_) => {}
        }
    }

    fn trim(&mut self, node: usize) {
        self.witness();
        let safe = self.witness.position().sequence;
        if let Some(home) = &self.homes[node] {
            let request = home.home.trim_request(safe);
            let _ = drive::ask(&mut *self.bench.sequencer, request);
        }
    }

    fn witness(&mut self) {
        let deliveries = self.bench.catch_up(&mut self.witness).unwrap();
        self.seen.extend(epochs(deliveries));
    }

    /// Checks that the log has every acknowledged epoch once, and besides those only epochs with an
    /// unknown outcome.
    pub fn end(&mut self) {
        self.bench.release();
        self.witness();
        let mut seen = self.seen.clone();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), self.seen.len(), "an epoch is in the log twice");
        let missing = self.acknowledged.iter().filter(|epoch| !self.seen.contains(epoch));
        assert_eq!(missing.count(), 0, "an acknowledged epoch is not in the log");
        // Epochs seen and not acknowledged are in flight at the end, or in doubt.
        let open = self.homes.iter().flatten().filter(|node| node.home.is_appending());
        let may_differ = self.doubtful + open.count();
        let more = self.seen.len() - self.acknowledged.len();
        assert!(
            more <= may_differ,
            "{more} epochs of {may_differ} at most were not acknowledged"
        );
    }
}
