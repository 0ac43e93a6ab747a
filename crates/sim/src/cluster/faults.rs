//! The faults of the nodes, take-overs, and the recovery of nodes.

use std::time::Duration;

use quartet_engine::{Condition, Role};
use quartet_log_replicated::model::Chaos;

use crate::cluster::clients::falsified_row;
use crate::cluster::copying::{Copied, Copying, Stage, done_of};
use crate::cluster::judgement::Violation;
use crate::cluster::node::{NODES, Node, PARTITION};
use crate::cluster::state::Cluster;

const HOUR_MICROS: u64 = 3_600_000_000;

impl Cluster {
    /// The disk of a node that is filled with a copy has no faults but loss: a concurrent thread of
    /// the simulation writes to it (`Restoration`), and the seed does not determine when that would
    /// see a fault.
    pub fn disturb(&mut self) -> Result<(), Violation> {
        let at = self.random.below(NODES as u64) as usize;
        match self.random.below(6_000) {
            0..2 => self.crash(at)?,
            2 => self.restart(at)?,
            3..9 => {
                let lasts = Duration::from_millis(self.random.below(4_000));
                self.nodes[at].asleep_until = self.now + lasts;
                self.reach("stood still");
            }
            9..18 => self.cut(at),
            18..20 => self.jump(at),
            20..23 => {
                if let Some(engine) = &self.nodes[at].engine {
                    engine.mark();
                }
            }
            23..27 => {
                if let Some(engine) = &self.nodes[at].engine {
                    engine.checkpoint_in_background();
                }
            }
            27 => {
                if let Some(engine) = self.nodes[at].engine.as_ref().filter(|engine| engine.is_home()) {
                    engine.drain();
                    self.reach("hand-over asked for");
                }
            }
            28..31 if !self.nodes[at].is_empty => {
                self.nodes[at].fill_disk();
                self.reach("disk full");
            }
            31..35 => {
                let until = self.now + Duration::from_millis(self.random.below(5_000));
                let sync_takes = self.random.pick(&[20, 200, 1_000, 4_000]);
                self.nodes[at].slow_disk(until, Duration::from_millis(sync_takes));
                self.reach("disk slow");
            }
            35..37 if !self.nodes[at].is_empty => self.nodes[at].order_fault(&mut self.random),
            37 => self.lose_disk(at),
            38..40 if self.has_objects => {
                let lasts = Duration::from_millis(self.random.below(5_000));
                self.world.borrow_mut().take_objects_away(lasts);
            }
            40..75 => self.nodes[at].empty_disk(),
            80..82 => self.falsify(at),
            75..80 => {
                self.nodes[at].alone_until = self.now + Duration::from_millis(self.random.below(5_000));
                self.reach("cut off from the other nodes");
            }
            _ => {}
        }
        Ok(())
    }

    fn cut(&mut self, at: usize) {
        let lasts = Duration::from_millis(self.random.below(5_000));
        let client = self.nodes[at].post.client();
        let way = self.random.below(3);
        {
            let mut world = self.world.borrow_mut();
            match way {
                0 => world.cut(client, lasts),
                1 => world.cut_requests(client, lasts),
                _ => world.cut_answers(client, lasts),
            }
        }
        self.reach(match way {
            0 => "cut off both ways",
            1 => "requests cut off, answers not",
            _ => "answers cut off, requests not",
        });
    }

    /// A clock is set by up to an hour, forward or back.
    fn jump(&mut self, at: usize) {
        let micros = 1_000_000 + self.random.below(HOUR_MICROS);
        if self.random.one_in(2) {
            self.nodes[at].clock.advance(micros);
            self.reach("clock set forward");
        } else {
            self.nodes[at].set_clock_back(micros);
            self.reach("clock set back");
        }
    }

    fn crash(&mut self, at: usize) -> Result<(), Violation> {
        self.forget(at);
        let is_filled = self.copies[at].take().is_some();
        self.nodes[at].crash(&mut self.random);
        self.reach("crash");
        if is_filled {
            self.reach("crash while filled with a copy");
        }
        if self.nodes[at].is_empty {
            self.nodes[at].empty();
        }
        self.start(at)
    }

    fn restart(&mut self, at: usize) -> Result<(), Violation> {
        if self.nodes[at].engine.is_some() {
            self.forget(at);
            self.nodes[at].stop();
            self.reach("restart");
        }
        self.start(at)
    }

    /// Starts a node, unless it runs or waits for its copy.
    fn start(&mut self, at: usize) -> Result<(), Violation> {
        let now = self.now;
        let node = &mut self.nodes[at];
        match node.engine.is_none() && !node.is_empty && !node.is_ahead(now) {
            true => node.start(),
            false => Ok(()),
        }
    }

    /// A row of one node changes, as by damaged memory.
    fn falsify(&mut self, at: usize) {
        let is_settled =
            |node: &Node| node.engine.is_some() && node.role() != Some(Role::Copying) && !node.is_falsified;
        if self.nodes.iter().all(is_settled)
            && self.is_awake(at)
            && let Some(engine) = &self.nodes[at].engine
        {
            let (key, value) = falsified_row();
            engine.falsify(&key, &value);
            self.nodes[at].is_falsified = true;
            self.reach("a row changed without the log");
        }
    }

    /// One node at a time may lose everything it has: others have copies. The next may once another
    /// has on disk what the log has dropped, which a node that was filled again may still lack.
    fn lose_disk(&mut self, at: usize) {
        let is_settled =
            |node: &Node| node.engine.is_some() && node.role() != Some(Role::Copying) && !node.is_falsified;
        let dropped_below = self.judge.trimmed_below().0;
        let has_dropped = |node: &Node| {
            let engine = node.engine.as_ref();
            engine.is_some_and(|engine| engine.replication().synced + 1 >= dropped_below)
        };
        let mut peers = self.nodes.iter().filter(|node| node.id != at);
        if self.nodes.iter().all(is_settled) && peers.any(has_dropped) {
            self.forget(at);
            self.nodes[at].empty();
            self.reach("disk lost");
        }
    }

    /// Any node may try to take over at any time, as after a hand-over: often the previous home.
    pub fn lead(&mut self) {
        let home = (0..NODES).find(|&at| self.is_awake(at) && self.nodes[at].is_home());
        if let Some(home) = home.filter(|home| *home != self.homes.0) {
            self.homes = (home, self.homes.0);
        }
        let drains = |at: usize| matches!(self.condition(at), Some(Condition::Drained));
        let patience = match home {
            Some(home) if drains(home) => 20,
            Some(_) => 500,
            None => 150,
        };
        if self.random.one_in(patience) {
            let at = match self.random.one_in(2) {
                true => self.homes.1,
                false => self.random.below(NODES as u64) as usize,
            };
            self.nodes[at].rules.is_handed(PARTITION);
        }
    }

    fn condition(&self, at: usize) -> Option<Condition> {
        match self.nodes[at].role() {
            Some(Role::Home { condition, .. }) => Some(condition),
            _ => None,
        }
    }

    /// Records the states of homes that others have taken over from.
    pub fn note_take_overs(&mut self) {
        for by in self.judge.take_begun() {
            let candidates = self
                .nodes
                .iter()
                .filter(|node| matches!(node.role(), Some(Role::Candidate { .. })));
            if candidates.count() > 1 {
                self.reach("take-over with a rival");
            }
            for at in (0..NODES).filter(|at| *at != by) {
                let states = self.stands(at);
                states.into_iter().flatten().for_each(|state| self.reach(state));
            }
        }
    }

    fn stands(&self, at: usize) -> [Option<&'static str>; 6] {
        let node = &self.nodes[at];
        if !node.is_home() {
            return [None; 6];
        }
        let condition = match self.condition(at) {
            Some(Condition::Uncertain) => Some("take-over from an uncertain home"),
            Some(Condition::Draining) => Some("take-over from a home that drains"),
            Some(Condition::Drained) => Some("take-over from a drained home"),
            _ => None,
        };
        let gives = |copy: &&Copying| copy.from == at;
        let is_given = self.copies.iter().flatten().find(gives).is_some();
        [
            node.post.appends(),
            condition,
            (node.asleep_until > self.now).then_some("take-over while the home stands still"),
            node.is_disk_slow(self.now)
                .then_some("take-over while the home's disk is slow"),
            node.is_disk_full().then_some("take-over while the home's disk is full"),
            is_given.then_some("take-over while the home is copied"),
        ]
    }

    /// Looks after nodes that need a copy, are down, or have stopped.
    pub fn tend(&mut self) -> Result<(), Violation> {
        for at in 0..NODES {
            match self.nodes[at].role() {
                Some(Role::Stopped(reason)) => return Err(Violation::Stopped { node: at, reason }),
                Some(Role::Copying) => {
                    self.reach("away for too long");
                    self.forget(at);
                    self.nodes[at].empty();
                }
                None if !self.nodes[at].is_empty && self.random.one_in(100) => self.start(at)?,
                _ => {}
            }
            self.copy(at)?;
        }
        Ok(())
    }

    /// Continues to fill an empty node.
    fn copy(&mut self, at: usize) -> Result<(), Violation> {
        let node = &self.nodes[at];
        let has_caught_up = node.engine.as_ref().is_some_and(|engine| {
            let figures = engine.replication();
            figures.is_home || figures.term > 0 && figures.lag_records == 0
        });
        if has_caught_up || node.is_empty {
            self.holds[at].is_wanted = node.is_empty;
        }
        self.holds[at].turn(self.now);
        if !self.nodes[at].is_empty || !self.holds[at].is_placed || !self.random.one_in(20) {
            return Ok(());
        }
        match self.copies[at].take() {
            None => self.begin_copy(at),
            Some(copying) => self.carry(at, copying)?,
        }
        Ok(())
    }

    fn begin_copy(&mut self, at: usize) {
        let from = self.random.below(NODES as u64) as usize;
        let node = &self.nodes[from];
        let was_home = node.is_home();
        let may_give = was_home || matches!(node.role(), Some(Role::Following { .. })) && node.synced.0 > 0;
        if from != at
            && may_give
            && !node.is_falsified
            && self.is_awake(from)
            && let Some(slot) = node.begin_copy()
        {
            self.copies[at] = Some(Copying {
                from,
                incarnation: node.incarnation(),
                was_home,
                stage: Stage::Asked(slot),
            });
        }
    }

    fn carry(&mut self, at: usize, copying: Copying) -> Result<(), Violation> {
        let Copying {
            from,
            incarnation,
            was_home,
            stage,
        } = copying;
        let source = &self.nodes[from];
        if source.engine.is_none() || source.incarnation() != incarnation {
            self.reach("copy cut off at its source");
            self.nodes[at].empty();
            return Ok(());
        }
        if !self.is_awake(from) {
            self.copies[at] = Some(Copying {
                from,
                incarnation,
                was_home,
                stage,
            });
            return Ok(());
        }
        let is_home = source.is_home();
        let target = &self.nodes[at];
        let (stage, copied) = stage.step(|| target.begin_target());
        if let Some(stage) = stage {
            self.copies[at] = Some(Copying {
                from,
                incarnation,
                was_home,
                stage,
            });
        }
        match copied {
            Copied::NotYet => {}
            Copied::Failed => {
                self.reach("copy failed");
                self.nodes[at].empty();
            }
            Copied::Done => {
                self.reach(done_of(self.nodes[at].store()));
                self.reach(match (was_home, is_home) {
                    (true, true) => "copied from a home",
                    (true, false) => "copied from a home that was deposed meanwhile",
                    _ => "copied from a follower",
                });
                self.nodes[at].is_empty = false;
                self.start(at)?;
            }
        }
        Ok(())
    }

    /// Ends all faults. A disk that takes seconds for a sync stayed slow once: where two were, and
    /// the third node had none of its data, nothing was acknowledged in time.
    pub fn calm_down(&mut self) -> Result<(), Violation> {
        self.world.borrow_mut().behave(Chaos::default());
        self.world.borrow_mut().take_objects_away(Duration::ZERO);
        for at in 0..NODES {
            let client = self.nodes[at].post.client();
            self.world.borrow_mut().cut(client, Duration::ZERO);
            self.nodes[at].asleep_until = Duration::ZERO;
            self.nodes[at].alone_until = Duration::ZERO;
            self.nodes[at].empty_disk();
            self.nodes[at].end_slowness();
            self.nodes[at].clear_faults();
            self.start(at)?;
        }
        self.acknowledged_at_end = 0;
        Ok(())
    }
}
