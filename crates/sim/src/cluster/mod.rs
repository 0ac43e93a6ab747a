//! Three whole engines that share a log, on one thread and from one seed: their disks lose what is
//! not synced, their processes crash and stand still, the network between them and a model of the
//! sequencer loses, delays, repeats and reorders, and clocks differ by an hour. Clients write,
//! read and move money; a judge replays the sequencer's journal.
//!
//! A tick is a millisecond: the network delivers, each node takes its steps, clients act, and
//! replies leave as the engines allow.

mod judgement;
mod node;
mod post;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use quartet_engine::{
    Arrival, CommitRequest, CopyError, CopyTarget, Dependency, Durability, ExecuteError, Mutation, Role, Settled,
    Space, StoreKind,
};
use quartet_log_replicated::model::{Chaos, ModelSequencer, World};
use quartet_log_replicated::{ClusterId, PartitionId, Place, StopReason};
use quartet_model::{DatabaseId, KeyRange, LayerId, LogSequence, Version};

pub use judgement::{Mistake, Violation};

use crate::cluster::judgement::Judge;
use crate::cluster::node::{NODES, Node};
use crate::cluster::post::Post;
use crate::random::{Random, mixed};

const TICK: Duration = Duration::from_millis(1);
/// Ticks of a run in which everything may happen, and of the calm behind it.
const WILD_TICKS: u64 = 8_000;
const CALM_TICKS: u64 = 4_000;
const REGISTERS: u64 = 4;
const ACCOUNTS: u64 = 4;
const OPENING_BALANCE: u64 = 100;

/// How one seed ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Hash of everything that was observed: the same each time the seed is run.
    pub hash: u64,
    /// How often each state was reached.
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
    cluster.end()
}

struct Cluster {
    random: Random,
    world: Rc<RefCell<World>>,
    nodes: Vec<Node>,
    judge: Judge,
    mistake: Option<Mistake>,
    now: Duration,
    replies: Vec<Reply>,
    /// Arrivals of each node's request before, for a mistake.
    earlier: Vec<Option<Arrival>>,
    written: u64,
    acknowledged_at_end: u64,
    /// Transfers whose reads are answered and that are not committed.
    open: Vec<Transfer>,
    /// The home seen last, and the one before it.
    homes: (usize, usize),
    hash: u64,
    reached: BTreeMap<&'static str, u64>,
}

/// A transfer that has read and not committed.
struct Transfer {
    version: Version,
    writes: Vec<(Vec<u8>, Vec<u8>)>,
}

struct Reply {
    node: usize,
    incarnation: u64,
    arrival: Arrival,
    dependency: Dependency,
    answer: Answered,
}

enum Answered {
    Wrote(Version, Vec<(Vec<u8>, Vec<u8>)>),
    Relaxed(u64),
    Began(Transfer),
    Read {
        key: Vec<u8>,
        found: Version,
        value: Option<Vec<u8>>,
        required: Version,
    },
}

fn space(durability: Durability) -> Space {
    Space {
        database: DatabaseId(1),
        layer: LayerId::KeyValue,
        durability,
    }
}

fn full(key: &[u8]) -> Vec<u8> {
    [&space(Durability::Always).prefix()[..], key].concat()
}

fn register(number: u64) -> Vec<u8> {
    format!("register/{number}").into_bytes()
}

fn account(number: u64) -> Vec<u8> {
    format!("account/{number}").into_bytes()
}

fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn wild() -> Chaos {
    Chaos {
        lost_requests: 100,
        lost_answers: 100,
        duplicates: 50,
        late_requests: 50,
        late_answers: 50,
        lost_hints: 20,
        late: Duration::from_secs(3),
    }
}

impl Cluster {
    fn begin(seed: u64, mistake: Option<Mistake>) -> Result<Cluster, Violation> {
        let mut random = Random::new(seed);
        let place = Place::new("/sim", ClusterId(u128::from(seed) + 1), PartitionId(0));
        let world = World::new(random.next(), wild());
        let mut nodes = Vec::new();
        for id in 0..NODES {
            let post = Post::new(place.clone(), ModelSequencer::new(&world), mistake);
            nodes.push(Node::new(id, &place, post, &mut random, mistake));
        }
        let mut cluster = Cluster {
            random,
            world,
            nodes,
            judge: Judge::new(place.clone()),
            mistake,
            now: Duration::ZERO,
            replies: Vec::new(),
            earlier: vec![None; NODES],
            written: 0,
            acknowledged_at_end: 0,
            open: Vec::new(),
            homes: (0, 1),
            hash: seed,
            reached: BTreeMap::new(),
        };
        cluster.found(&place);
        for node in &mut cluster.nodes {
            node.start()?;
        }
        Ok(cluster)
    }

    fn found(&mut self, place: &Place) {
        let mut founder = ModelSequencer::new(&self.world);
        self.world.borrow_mut().behave(Chaos::default());
        quartet_log_replicated::drive::ask(&mut founder, place.found()).expect("a calm network");
        self.world.borrow_mut().behave(wild());
        self.now = self.world.borrow().now();
    }

    fn reach(&mut self, state: &'static str) {
        *self.reached.entry(state).or_default() += 1;
    }

    fn observe(&mut self, value: u64) {
        self.hash = mixed(self.hash ^ value);
    }

    fn tick(&mut self, is_wild: bool) -> Result<(), Violation> {
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
        if is_wild {
            self.disturb()?;
        }
        self.lead();
        self.tend()?;
        self.act()?;
        self.reply()?;
        if self.random.one_in(50) {
            self.compare()?;
        }
        Ok(())
    }

    /// A node that stood still finds the time gone.
    fn live(&mut self, at: usize) -> Result<(), Violation> {
        let now = self.now;
        let node = &mut self.nodes[at];
        if node.asleep_until > now {
            node.slept_since.get_or_insert(now);
            return Ok(());
        }
        if let Some(since) = node.slept_since.take() {
            node.runtime.skip(now - since);
        }
        node.live(TICK);
        if node.has_failed() {
            self.world.borrow_mut().forget(node.post.client());
            node.crash(&mut self.random);
            node.start()?;
            self.reach("own disk failed");
        }
        Ok(())
    }

    fn disturb(&mut self) -> Result<(), Violation> {
        let at = self.random.below(NODES as u64) as usize;
        match self.random.below(6_000) {
            0..2 => {
                self.world.borrow_mut().forget(self.nodes[at].post.client());
                self.nodes[at].crash(&mut self.random);
                self.forget_replies(at);
                self.reach("crash");
                self.nodes[at].start()?;
            }
            2..8 => {
                let lasts = Duration::from_millis(self.random.below(4_000));
                self.nodes[at].asleep_until = self.now + lasts;
                self.reach("stood still");
            }
            8..14 => {
                let lasts = Duration::from_millis(self.random.below(5_000));
                let client = self.nodes[at].post.client();
                self.world.borrow_mut().cut(client, lasts);
                self.reach("cut off");
            }
            14 => {
                let micros = self.random.below(7_200_000_000);
                self.nodes[at].clock.advance(micros);
                self.reach("clock jumped");
            }
            15..18 => {
                if let Some(engine) = &self.nodes[at].engine {
                    engine.mark();
                }
            }
            18..21 => {
                if let Some(engine) = &self.nodes[at].engine {
                    engine.checkpoint_in_background();
                }
            }
            21 => {
                if let Some(engine) = self.nodes[at].engine.as_ref().filter(|engine| engine.is_home()) {
                    engine.drain();
                    self.reach("drained");
                }
            }
            22..25 => {
                self.nodes[at].fill_disk();
                self.reach("disk full");
            }
            25..60 => self.nodes[at].empty_disk(),
            _ => {}
        }
        Ok(())
    }

    fn forget_replies(&mut self, at: usize) {
        self.replies.retain(|reply| reply.node != at);
        self.earlier[at] = None;
    }

    /// A node takes over when none seems to be home, and now and then when one is: often the one
    /// that was before.
    fn lead(&mut self) {
        let now = self.now;
        let is_awake_home = |node: &Node| node.is_home() && node.asleep_until <= now;
        let home = self.nodes.iter().position(is_awake_home);
        if let Some(home) = home.filter(|home| *home != self.homes.0) {
            self.homes = (home, self.homes.0);
        }
        if self.random.one_in(if home.is_some() { 1_000 } else { 150 }) {
            let at = match self.random.one_in(2) {
                true => self.homes.1,
                false => self.random.below(NODES as u64) as usize,
            };
            if let Some(engine) = &self.nodes[at].engine {
                engine.take_over();
            }
        }
    }

    /// Looks after nodes that need a copy, or have stopped.
    fn tend(&mut self) -> Result<(), Violation> {
        for at in 0..NODES {
            match self.nodes[at].role() {
                Some(Role::Stopped(reason)) => return Err(self.stopped(at, reason)),
                Some(Role::Copying) => {
                    let engine = self.nodes[at].engine.as_ref().expect("it has a role");
                    if engine.replication().hash_mismatches > 0 {
                        return Err(Violation::HashDiffers { node: at });
                    }
                    self.copy(at)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn stopped(&self, node: usize, reason: StopReason) -> Violation {
        Violation::Stopped { node, reason }
    }

    /// Fills a node that needs it with a follower's copy.
    fn copy(&mut self, at: usize) -> Result<(), Violation> {
        let now = self.now;
        let may_give = |node: &Node| {
            matches!(node.role(), Some(Role::Following { .. })) && node.asleep_until <= now && node.synced.0 > 0
        };
        let Some(from) = (0..NODES).find(|&from| from != at && may_give(&self.nodes[from])) else {
            return Ok(());
        };
        let engine = self.nodes[from].engine.as_ref().expect("it follows");
        let Ok(mut source) = engine.copy_source() else {
            return Ok(());
        };
        let mut chunks = Vec::new();
        while let Ok(Some(chunk)) = source.next() {
            chunks.push(chunk);
        }
        drop(source);
        self.forget_replies(at);
        self.world.borrow_mut().forget(self.nodes[at].post.client());
        self.nodes[at].empty();
        let filled = self.fill(at, &chunks);
        if filled.is_err() {
            self.nodes[at].empty();
        }
        self.reach("copied");
        self.nodes[at].start()
    }

    fn fill(&self, at: usize, chunks: &[Vec<u8>]) -> Result<(), CopyError> {
        let mut target = CopyTarget::begin(self.nodes[at].parts(), StoreKind::Memory)?;
        for chunk in chunks {
            target.take(chunk)?;
        }
        target.finish()
    }

    /// Clients act at whoever thinks that it is home.
    fn act(&mut self) -> Result<(), Violation> {
        for at in 0..NODES {
            let node = &self.nodes[at];
            let acts = node.is_home() && node.asleep_until <= self.now && self.random.one_in(4);
            if acts {
                match self.random.below(10) {
                    0..4 => self.write(at, Durability::Always)?,
                    4..5 => self.write(at, Durability::Interval)?,
                    5..8 => self.read(at)?,
                    8 => self.begin_transfer(at),
                    _ => self.end_transfer(at)?,
                }
            }
        }
        Ok(())
    }

    fn arrival(&mut self, at: usize, durability: Durability) -> Option<Arrival> {
        let arrival = self.nodes[at].engine.as_ref()?.arrival(durability);
        if durability != Durability::Always {
            return Some(arrival);
        }
        let before = self.earlier[at].replace(arrival);
        Some(match self.mistake {
            Some(Mistake::EarlyConfirmation) => before.unwrap_or(arrival),
            _ => arrival,
        })
    }

    fn promise(&mut self, node: usize, arrival: Arrival, dependency: Dependency, answer: Answered) {
        self.replies.push(Reply {
            node,
            incarnation: self.nodes[node].incarnation(),
            arrival,
            dependency,
            answer,
        });
    }

    fn write(&mut self, at: usize, durability: Durability) -> Result<(), Violation> {
        let Some(arrival) = self.arrival(at, durability) else {
            return Ok(());
        };
        self.written += 1;
        let mut value = self.written.to_be_bytes().to_vec();
        let padding = if self.random.one_in(400) {
            600_000
        } else {
            self.random.below(200)
        };
        value.resize(8 + padding as usize, 0);
        let mut writes = vec![(register(self.random.below(REGISTERS)), value)];
        if self.nodes[at]
            .rows(space(durability))
            .is_some_and(|(_, rows)| rows.is_empty())
        {
            let opened = |number| (account(number), OPENING_BALANCE.to_be_bytes().to_vec());
            writes.extend((0..ACCOUNTS).map(opened));
        }
        let engine = self.nodes[at].engine.as_ref().expect("it is home");
        let executed = engine
            .partition()
            .execute(space(durability), |tx| -> Result<Version, ()> {
                for (key, value) in &writes {
                    tx.set(key, value);
                }
                Ok(tx.commit_version())
            });
        match executed {
            Ok((version, dependency)) => {
                let term = engine.replication().term;
                let writes: Vec<_> = writes.into_iter().map(|(key, value)| (full(&key), value)).collect();
                let answer = match durability {
                    Durability::Always => Answered::Wrote(version, writes),
                    _ => Answered::Relaxed(term),
                };
                self.promise(at, arrival, dependency, answer);
                Ok(())
            }
            Err(ExecuteError::NotHome) => {
                self.reach("commit refused");
                Ok(())
            }
            Err(ExecuteError::DiskFull(_)) => Ok(()),
            Err(error) => panic!("{error:?}"),
        }
    }

    fn read(&mut self, at: usize) -> Result<(), Violation> {
        let Some(arrival) = self.arrival(at, Durability::Always) else {
            return Ok(());
        };
        let key = register(self.random.below(REGISTERS));
        let required = self.judge.required(&full(&key));
        let engine = self.nodes[at].engine.as_ref().expect("it is home");
        let read = engine
            .partition()
            .execute(space(Durability::Always), |tx| -> Result<_, ()> {
                Ok(tx.get(&key).map(|row| (row.version(), row.value().to_vec())))
            });
        let Ok((row, dependency)) = read else {
            return Ok(());
        };
        let (found, value) = match row {
            Some((version, value)) => {
                let value = self.nodes[at].through_cache(&key, version, value);
                (version, Some(value))
            }
            None => (Version::ZERO, None),
        };
        let answer = Answered::Read {
            key: full(&key),
            found,
            value,
            required,
        };
        self.promise(at, arrival, dependency, answer);
        Ok(())
    }

    fn begin_transfer(&mut self, at: usize) {
        let from = self.random.below(ACCOUNTS);
        let to = (from + 1 + self.random.below(ACCOUNTS - 1)) % ACCOUNTS;
        let amount = self.random.below(30);
        let Some(arrival) = self.arrival(at, Durability::Always) else {
            return;
        };
        let engine = self.nodes[at].engine.as_ref().expect("it is home");
        let reader = engine.read_version(space(Durability::Always));
        let balance = |number| reader.get(&account(number)).map(|value| self::number(&value));
        if let (Some(had), Some(has)) = (balance(from), balance(to)) {
            let amount = amount.min(had);
            let writes = vec![
                (account(from), (had - amount).to_be_bytes().to_vec()),
                (account(to), (has + amount).to_be_bytes().to_vec()),
            ];
            let version = reader.version;
            let answer = Answered::Began(Transfer { version, writes });
            self.promise(at, arrival, reader.dependency, answer);
        }
    }

    /// A client that has read at one home, maybe terms ago, commits.
    fn end_transfer(&mut self, at: usize) -> Result<(), Violation> {
        let Some(arrival) = self.arrival(at, Durability::Always) else {
            return Ok(());
        };
        if self.open.is_empty() {
            return Ok(());
        }
        let which = self.random.below(self.open.len() as u64) as usize;
        let Transfer { version, writes } = self.open.swap_remove(which);
        let set = |(key, value): &(Vec<u8>, Vec<u8>)| Mutation::Set {
            key: key.clone(),
            value: value.clone(),
        };
        let request = CommitRequest {
            read_version: version,
            read_conflicts: writes.iter().map(|(key, _)| KeyRange::point(key)).collect(),
            mutations: writes.iter().map(set).collect(),
            ..CommitRequest::default()
        };
        let engine = self.nodes[at].engine.as_ref().expect("it is home");
        if let Ok((version, dependency)) = engine.commit(space(Durability::Always), &request) {
            let writes = writes.into_iter().map(|(key, value)| (full(&key), value)).collect();
            self.promise(at, arrival, dependency, Answered::Wrote(version, writes));
        }
        Ok(())
    }

    /// Gives the replies that may leave.
    fn reply(&mut self) -> Result<(), Violation> {
        for reply in std::mem::take(&mut self.replies) {
            let node = &self.nodes[reply.node];
            let (Some(engine), true) = (&node.engine, node.incarnation() == reply.incarnation) else {
                continue;
            };
            if node.asleep_until > self.now {
                self.replies.push(reply);
                continue;
            }
            let settled = match (self.mistake, &reply.answer) {
                (Some(Mistake::EarlyReply), Answered::Wrote(..)) => Settled::Yes,
                (Some(Mistake::RelaxedForever), Answered::Relaxed(_)) => Settled::Yes,
                _ => engine.settled(reply.dependency, reply.arrival),
            };
            match settled {
                Settled::Yes => self.give(reply)?,
                Settled::NotYet => self.replies.push(reply),
                Settled::Lost => self.reach("reply lost"),
            }
        }
        Ok(())
    }

    fn give(&mut self, reply: Reply) -> Result<(), Violation> {
        self.acknowledged_at_end += 1;
        match reply.answer {
            Answered::Wrote(version, writes) => {
                self.reach("write acknowledged");
                self.observe(version.0);
                self.judge.acknowledge(version, &writes)
            }
            Answered::Began(transfer) => {
                self.open.push(transfer);
                Ok(())
            }
            Answered::Relaxed(term) => {
                self.reach("relaxed write acknowledged");
                self.judge.acknowledge_relaxed(reply.node, term, self.now)
            }
            Answered::Read {
                key,
                found,
                value,
                required,
            } => {
                self.reach("read answered");
                self.observe(found.0);
                self.judge.answer(reply.node, &key, found, value.as_deref(), required)
            }
        }
    }

    /// Compares what followers show with the log's past.
    fn compare(&mut self) -> Result<(), Violation> {
        for at in 0..NODES {
            let node = &self.nodes[at];
            if matches!(node.role(), Some(Role::Following { .. })) {
                let Some((version, rows)) = node.rows(space(Durability::Always)) else {
                    continue;
                };
                self.judge.shows(at, version, &rows)?;
            }
        }
        Ok(())
    }

    fn calm_down(&mut self) -> Result<(), Violation> {
        self.world.borrow_mut().behave(Chaos::default());
        for at in 0..NODES {
            let client = self.nodes[at].post.client();
            self.world.borrow_mut().cut(client, Duration::ZERO);
            self.nodes[at].asleep_until = Duration::ZERO;
            self.nodes[at].empty_disk();
            if self.nodes[at].is_down() {
                self.nodes[at].start()?;
            }
        }
        self.acknowledged_at_end = 0;
        Ok(())
    }

    fn end(mut self) -> Result<Report, Violation> {
        if self.acknowledged_at_end == 0 {
            return Err(Violation::NoProgress);
        }
        self.compare()?;
        let mut money = None;
        for at in 0..NODES {
            let Some((_, rows)) = self.nodes[at].rows(space(Durability::Always)) else {
                continue;
            };
            let accounts = rows.iter().filter(|(key, _)| key[3..].starts_with(b"account/"));
            let found: u64 = accounts.map(|(_, value)| number(value)).sum();
            let expected = ACCOUNTS * OPENING_BALANCE;
            if found != expected && found != 0 {
                return Err(Violation::Money { found, expected });
            }
            money = Some(found);
        }
        self.observe(money.unwrap_or_default());
        self.sum_up();
        let digest = self.world.borrow().digest();
        self.observe(digest);
        Ok(Report {
            hash: self.hash,
            reached: self.reached,
            simulated: self.now,
        })
    }

    fn sum_up(&mut self) {
        for at in 0..NODES {
            *self.reached.entry("unknown answers").or_default() += self.nodes[at].post.unknown;
            if let Some(engine) = &self.nodes[at].engine {
                let figures = engine.replication();
                for (state, count) in [
                    ("take-over", figures.take_overs),
                    ("deposed", figures.depositions),
                    ("rolled back", figures.roll_backs),
                    ("state hash taken", figures.marks),
                ] {
                    *self.reached.entry(state).or_default() += count;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_judge_finds_nothing() {
        for seed in 0..10 {
            run(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        }
    }

    #[test]
    fn a_seed_run_again_gives_the_same_hash() {
        let first = run(3, None).unwrap();
        assert_eq!(run(3, None).unwrap(), first);
        assert_ne!(run(4, None).unwrap().hash, first.hash);
    }

    /// Each mistake is found within 1,000 seeds, and as what it is.
    #[test]
    fn the_judge_finds_each_mistake() {
        for mistake in Mistake::ALL {
            let found = (0..1000).find_map(|seed| run(seed, Some(mistake)).err().map(|violation| (seed, violation)));
            let (seed, violation) = found.unwrap_or_else(|| panic!("{mistake:?} is not found"));
            println!("{mistake:?}: seed {seed}: {violation}");
            assert!(mistake.explains(&violation), "{mistake:?}, seed {seed}: {violation}");
        }
    }
}
