//! The clients' work: registers, a bank, and appends to lists, sent to any node that believes it is
//! home.

use std::time::Duration;

use quartet_engine::{
    Arrival, CommitRequest, Dependency, Durability, ExecuteError, Mutation, Reader, Settled, Space,
    Transaction as Executing,
};
use quartet_model::{DatabaseId, KeyRange, LayerId, Version};

use crate::cluster::histories::{Outcome, Transaction};
use crate::cluster::judgement::Violation;
use crate::cluster::mistake::Mistake;
use crate::cluster::node::NODES;
use crate::cluster::state::{Answered, ArrivedRead, Cluster, OpenLists, Reply, Transfer};

pub const REGISTERS: u64 = 4;
const ACCOUNTS: u64 = 4;
pub const OPENING_BALANCE: u64 = 100;
pub const MONEY: u64 = ACCOUNTS * OPENING_BALANCE;
/// Number of lists in use, and number of values after which a list is replaced.
const LISTS: u64 = 3;
const LIST_VALUES: u64 = 60;
/// Two such values in one epoch take several records of the shared log; one fits a record.
const LARGE_BYTES: usize = 300_000;
/// Longest time that a request waits before it executes.
const WAITS_MILLIS: u64 = 1_500;

/// For a mistake: a confirmation starts too early by this time.
pub const EARLIER: Duration = Duration::from_millis(300);

pub fn space(durability: Durability) -> Space {
    Space {
        database: DatabaseId(1),
        layer: LayerId::KeyValue,
        durability,
    }
}

pub fn full(key: &[u8]) -> Vec<u8> {
    [&space(Durability::Always).prefix()[..], key].concat()
}

/// A row of the folder of a cluster with data: its full key, and its value.
pub fn founded_row(number: u64) -> (Vec<u8>, Vec<u8>) {
    let value = vec![number as u8; (number % 90) as usize + 1];
    (full(format!("founded/{number}").as_bytes()), value)
}

/// A row that no client reads: its full key, and its value.
pub fn falsified_row() -> (Vec<u8>, Vec<u8>) {
    (full(b"falsified"), b"another state".to_vec())
}

/// Returns true if this is the full key of an account.
pub fn is_account(key: &[u8]) -> bool {
    key.starts_with(&full(b"account/"))
}

pub fn register(number: u64) -> Vec<u8> {
    format!("register/{number}").into_bytes()
}

fn account(number: u64) -> Vec<u8> {
    format!("account/{number}").into_bytes()
}

pub fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

pub fn values_of(list: Option<&[u8]>) -> Vec<u32> {
    let values = list.unwrap_or_default().chunks_exact(4);
    values
        .map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
        .collect()
}

fn list_of(values: &[u32], own: u32) -> Vec<u8> {
    let values = values.iter().copied().chain([own]);
    values.flat_map(u32::to_le_bytes).collect()
}

impl Cluster {
    pub fn act(&mut self) -> Result<(), Violation> {
        for at in 0..NODES {
            if !self.is_awake(at) || !self.random.one_in(4) {
                continue;
            }
            if !self.nodes[at].serves() {
                match self.random.below(20) {
                    0 => self.let_arrive(at),
                    1..6 => self.ask_follower(at),
                    _ => {}
                }
                continue;
            }
            match self.random.below(14) {
                0..4 => self.write(at, Durability::Always),
                4 => self.write(at, Durability::Interval),
                5 => self.write(at, Durability::None),
                6..8 => self.read(at)?,
                8 => self.let_arrive(at),
                // Layers of an ended term may still run: the engine gives them no reader.
                9 | 12 if self.nodes[at].is_suspended() => {}
                9 => self.begin_transfer(at),
                10 => self.end_transfer(at),
                11 => self.lists_at_once(at),
                12 => self.begin_lists(at),
                _ => self.end_lists(at),
            }
        }
        self.execute_arrived()?;
        self.read_at_followers()
    }

    fn arrival(&mut self, at: usize, durability: Durability) -> Arrival {
        let engine = self.nodes[at].engine.as_ref().expect("it is awake");
        let arrival = engine.arrival(durability);
        if durability != Durability::Always {
            return arrival;
        }
        let is_old = |(_, at): &(Arrival, Duration)| self.now - *at > EARLIER;
        if self.earlier[at].as_ref().is_none_or(is_old) {
            self.earlier[at] = Some((arrival, self.now));
        }
        match (self.mistake, self.earlier[at]) {
            (Some(Mistake::EarlyConfirmation), Some((earlier, _))) => earlier,
            _ => arrival,
        }
    }

    fn promise(&mut self, node: usize, arrival: Arrival, dependency: Dependency, answer: Answered) {
        self.replies.push(Reply {
            node,
            arrival,
            dependency,
            answer,
        });
    }

    /// Executes a transaction at the latest state; `None` if it is refused.
    fn execute<T>(
        &mut self,
        at: usize,
        durability: Durability,
        body: impl FnOnce(&mut Executing<'_>) -> T,
    ) -> Option<(T, Dependency)> {
        let engine = self.nodes[at].engine.as_ref().expect("it is awake");
        let executed = engine
            .partition()
            .execute(space(durability), |tx| -> Result<T, ()> { Ok(body(tx)) });
        match executed {
            Ok(executed) => return Some(executed),
            Err(ExecuteError::NotHome) => self.reach("commit refused"),
            Err(ExecuteError::DiskFull(_)) => self.reach("commit refused by a full disk"),
            Err(error) => panic!("{error:?}"),
        }
        None
    }

    fn write(&mut self, at: usize, durability: Durability) {
        // A client that fills an epoch waits for the flusher, and here one thread does both.
        let seldom = if self.has_objects { 150 } else { 600 };
        if self.random.one_in(seldom) && !self.nodes[at].is_stalled() {
            (0..2).for_each(|_| self.write_value(at, durability, LARGE_BYTES));
        } else {
            let bytes = self.random.below(200) as usize;
            self.write_value(at, durability, bytes);
        }
    }

    /// Writes a value of about `bytes` bytes, which no compression makes smaller.
    fn write_value(&mut self, at: usize, durability: Durability, bytes: usize) {
        let arrival = self.arrival(at, durability);
        self.written += 1;
        let noise = (0..bytes / 8).flat_map(|_| self.random.next().to_le_bytes());
        let value = self.written.to_be_bytes().into_iter().chain(noise).collect();
        let mut writes = vec![(register(self.random.below(REGISTERS)), value)];
        let executed = self.execute(at, durability, |tx| {
            if tx.get(&account(0)).is_none() {
                let opened = |number| (account(number), OPENING_BALANCE.to_be_bytes().to_vec());
                writes.extend((0..ACCOUNTS).map(opened));
            }
            for (key, value) in &writes {
                tx.set(key, value);
            }
            tx.commit_version()
        });
        let Some((version, dependency)) = executed else { return };
        let answer = match durability {
            Durability::Always => {
                let writes = writes.into_iter().map(|(key, value)| (full(&key), value));
                Answered::Wrote(version, writes.collect())
            }
            _ => {
                let engine = self.nodes[at].engine.as_ref().expect("it is awake");
                Answered::Relaxed(engine.replication().term)
            }
        };
        self.promise(at, arrival, dependency, answer);
    }

    fn read(&mut self, at: usize) -> Result<(), Violation> {
        let arrival = self.arrival(at, Durability::Always);
        let key = register(self.random.below(REGISTERS));
        let required = self.judge.required(&full(&key));
        self.read_as(at, arrival, key, required)
    }

    fn read_as(&mut self, at: usize, arrival: Arrival, key: Vec<u8>, required: Version) -> Result<(), Violation> {
        let read = self.execute(at, Durability::Always, |tx| {
            tx.get(&key).map(|row| (row.version(), row.value().to_vec()))
        });
        let Some((row, dependency)) = read else {
            return Ok(());
        };
        let (version_read, value) = match row {
            Some((version, value)) => {
                let value = self.nodes[at].through_cache(&key, version, value);
                (version, Some(value))
            }
            None => (Version::ZERO, None),
        };
        let key = full(&key);
        let answer = Answered::Read {
            key,
            found: version_read,
            value,
            required,
        };
        self.promise(at, arrival, dependency, answer);
        Ok(())
    }

    /// A read arrives, at a home or not, and waits for its turn.
    fn let_arrive(&mut self, at: usize) {
        let arrival = self.arrival(at, Durability::Always);
        let key = register(self.random.below(REGISTERS));
        self.arrived.push(ArrivedRead {
            node: at,
            incarnation: self.nodes[at].incarnation(),
            arrival,
            required: self.judge.required(&full(&key)),
            key,
            due: self.now + Duration::from_millis(self.random.below(WAITS_MILLIS)),
        });
    }

    fn execute_arrived(&mut self) -> Result<(), Violation> {
        for read in std::mem::take(&mut self.arrived) {
            if read.due > self.now || !self.is_awake(read.node) {
                self.arrived.push(read);
            } else if self.nodes[read.node].incarnation() == read.incarnation && self.nodes[read.node].serves() {
                self.read_as(read.node, read.arrival, read.key, read.required)?;
            }
        }
        Ok(())
    }

    fn begin_transfer(&mut self, at: usize) {
        let from = self.random.below(ACCOUNTS);
        let to = (from + 1 + self.random.below(ACCOUNTS - 1)) % ACCOUNTS;
        let amount = self.random.below(30);
        let arrival = self.arrival(at, Durability::Always);
        let Some(reader) = self.reader(at) else { return };
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

    /// The latest state; `None` while requests wait for the next home.
    fn reader(&mut self, at: usize) -> Option<Reader> {
        let engine = self.nodes[at].engine.as_ref().expect("it is awake");
        let reader = engine.reader(space(Durability::Always)).ok();
        if reader.is_none() {
            self.reach("a read that waits for the next home");
        }
        reader
    }

    /// Commits what was read at a home, maybe terms ago.
    fn commit(
        &mut self,
        at: usize,
        read_version: Version,
        reads: Vec<&[u8]>,
        writes: &[(Vec<u8>, Vec<u8>)],
    ) -> Option<(Version, Dependency)> {
        let set = |(key, value): &(Vec<u8>, Vec<u8>)| Mutation::Set {
            key: key.clone(),
            value: value.clone(),
        };
        let mut read_conflicts: Vec<KeyRange> = reads.into_iter().map(KeyRange::point).collect();
        if self.mistake == Some(Mistake::UncertifiedReads) {
            read_conflicts.clear();
        }
        let request = CommitRequest {
            read_version,
            read_conflicts,
            mutations: writes.iter().map(set).collect(),
            ..CommitRequest::default()
        };
        let engine = self.nodes[at].engine.as_ref().expect("it is awake");
        engine.commit(space(Durability::Always), &request).ok()
    }

    fn end_transfer(&mut self, at: usize) {
        if self.open.is_empty() {
            return;
        }
        let arrival = self.arrival(at, Durability::Always);
        let which = self.random.below(self.open.len() as u64) as usize;
        let Transfer { version, writes } = self.open.swap_remove(which);
        let reads = writes.iter().map(|(key, _)| &key[..]).collect();
        if let Some((version, dependency)) = self.commit(at, version, reads, &writes) {
            let writes = writes.into_iter().map(|(key, value)| (full(&key), value)).collect();
            self.promise(at, arrival, dependency, Answered::Wrote(version, writes));
        }
    }

    /// One or two of the lists in use, and how many of them are appended to.
    pub fn choose_lists(&mut self) -> (Vec<Vec<u8>>, usize) {
        let generation = self.history.len() as u64 / LIST_VALUES;
        let first = self.random.below(LISTS);
        let list = |number: u64| format!("list/{generation}/{}", number % LISTS).into_bytes();
        match self.random.one_in(3) {
            true => (vec![list(first)], self.random.below(2) as usize),
            false => (vec![list(first), list(first + 1)], self.random.below(3) as usize),
        }
    }

    fn own_value(&mut self) -> u32 {
        self.written += 1;
        self.written as u32
    }

    /// Records a transaction with an unknown outcome.
    pub fn note(&mut self, transaction: Transaction) -> usize {
        self.history.push(transaction);
        self.history.len() - 1
    }

    fn lists_at_once(&mut self, at: usize) {
        let arrival = self.arrival(at, Durability::Always);
        let (lists, appended) = self.choose_lists();
        let appends: Vec<_> = lists
            .iter()
            .take(appended)
            .map(|key| (key.clone(), self.own_value()))
            .collect();
        let executed = self.execute(at, Durability::Always, |tx| {
            let read = |tx: &mut Executing<'_>, key: &Vec<u8>| values_of(tx.get(key).as_ref().map(|row| row.value()));
            let reads: Vec<_> = lists.iter().map(|key| (key.clone(), read(tx, key))).collect();
            for ((key, own), (_, values)) in appends.iter().zip(&reads) {
                tx.set(key, &list_of(values, *own));
            }
            reads
        });
        let (reads, outcome, dependency) = match executed {
            Some((reads, dependency)) => (reads, Outcome::Unknown, Some(dependency)),
            None => (Vec::new(), Outcome::Failed, None),
        };
        let transaction = Transaction {
            reads,
            appends,
            began: self.now,
            ended: self.now,
            outcome,
        };
        let index = self.note(transaction);
        if let Some(dependency) = dependency {
            self.promise(at, arrival, dependency, Answered::Lists(index));
        }
    }

    fn begin_lists(&mut self, at: usize) {
        let arrival = self.arrival(at, Durability::Always);
        let (lists, appended) = self.choose_lists();
        let appends: Vec<_> = lists
            .iter()
            .take(appended.max(1))
            .map(|key| (key.clone(), self.own_value()))
            .collect();
        let Some(reader) = self.reader(at) else { return };
        let reads = lists.into_iter().map(|key| {
            let values = values_of(reader.get(&key).as_deref());
            (key, values)
        });
        let transaction = Transaction {
            reads: reads.collect(),
            appends,
            began: self.now,
            ended: self.now,
            outcome: Outcome::Unknown,
        };
        let version = reader.version;
        let answer = Answered::BeganLists(OpenLists { version, transaction });
        self.promise(at, arrival, reader.dependency, answer);
    }

    fn end_lists(&mut self, at: usize) {
        if self.open_lists.is_empty() {
            return;
        }
        let arrival = self.arrival(at, Durability::Always);
        let which = self.random.below(self.open_lists.len() as u64) as usize;
        let OpenLists {
            version,
            mut transaction,
        } = self.open_lists.swap_remove(which);
        let new_list = |(key, own): &(Vec<u8>, u32)| {
            let read = transaction.reads.iter().find(|(read, _)| read == key);
            let (_, values) = read.expect("it is read before");
            (key.clone(), list_of(values, *own))
        };
        let writes: Vec<_> = transaction.appends.iter().map(new_list).collect();
        let reads = transaction.reads.iter().map(|(key, _)| &key[..]).collect();
        match self.commit(at, version, reads, &writes) {
            Some((_, dependency)) => {
                let index = self.note(transaction);
                self.promise(at, arrival, dependency, Answered::Lists(index));
            }
            None => {
                transaction.outcome = Outcome::Failed;
                self.note(transaction);
            }
        }
    }

    /// Gives the replies that may leave.
    pub fn reply(&mut self) -> Result<(), Violation> {
        let settled: Vec<Settled> = self.replies.iter().map(|reply| self.settled(reply)).collect();
        if settled.iter().all(|settled| *settled == Settled::NotYet) {
            return Ok(());
        }
        for (reply, settled) in std::mem::take(&mut self.replies).into_iter().zip(settled) {
            match settled {
                Settled::Yes => self.give(reply)?,
                Settled::NotYet => self.replies.push(reply),
                Settled::Lost if self.mistake == Some(Mistake::ForgottenTerm) => self.wait_for_the_next(reply),
                Settled::Lost => self.reach("reply lost"),
            }
        }
        Ok(())
    }

    fn settled(&self, reply: &Reply) -> Settled {
        let node = &self.nodes[reply.node];
        let Some(engine) = node.engine.as_ref().filter(|_| self.is_awake(reply.node)) else {
            return Settled::NotYet;
        };
        let is_relaxed = matches!(reply.answer, Answered::Relaxed(_));
        let settled = match (self.mistake, &reply.answer) {
            (Some(Mistake::EarlyReply), Answered::Wrote(..)) => Settled::Yes,
            (Some(Mistake::UnsettledRead), Answered::Read { .. }) => engine.settled(Dependency::ZERO, reply.arrival),
            (Some(Mistake::RelaxedForever), Answered::Relaxed(_)) => Settled::Yes,
            _ => engine.settled(reply.dependency, reply.arrival),
        };
        let is_durable = reply.dependency <= engine.durable();
        match (self.mistake, settled) {
            (Some(Mistake::NoConfirmation), Settled::NotYet) if !is_relaxed && is_durable => Settled::Yes,
            (_, settled) => settled,
        }
    }

    /// A mistake: the home has been deposed, and the node's next term answers.
    fn wait_for_the_next(&mut self, mut reply: Reply) {
        if let Some(engine) = &self.nodes[reply.node].engine
            && !matches!(reply.answer, Answered::Relaxed(_))
        {
            reply.arrival = engine.arrival(Durability::Always);
            self.replies.push(reply);
        }
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
            Answered::BeganLists(lists) => {
                self.open_lists.push(lists);
                Ok(())
            }
            Answered::Lists(index) => {
                let transaction = &mut self.history[index];
                (transaction.outcome, transaction.ended) = (Outcome::Ok, self.now);
                self.observe(index as u64);
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
}
