//! Strict reads at nodes that are not home: of registers, and of lists in transactions that only
//! read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quartet_engine::{Durability, FollowingPeriod, ReadArrival, Transaction as Executing};
use quartet_model::Version;

use crate::cluster::clients::{EARLIER, REGISTERS, full, register, space, values_of};
use crate::cluster::histories::{Outcome, Transaction};
use crate::cluster::judgement::Violation;
use crate::cluster::mistake::Mistake;
use crate::cluster::state::{Asked, Cluster, FollowedRead, KeptRows, StoredRow};

/// Time after which a node passes a read on to the home.
const PATIENCE: Duration = Duration::from_millis(1_500);

impl Cluster {
    /// A read arrives at a node that is not home.
    pub fn ask_follower(&mut self, at: usize) {
        let engine = self.nodes[at].engine.as_ref().expect("it is awake");
        let Some(arrival) = engine.read_arrival() else {
            return;
        };
        let object = match self.random.one_in(3) {
            true => Asked::Lists(self.choose_lists().0),
            false => {
                let key = register(self.random.below(REGISTERS));
                let required = self.judge.required(&full(&key));
                let is_kept = self.random.one_in(2);
                Asked::Register { key, required, is_kept }
            }
        };
        let arrival = self.followed_arrival(at, arrival);
        self.followed.push(FollowedRead {
            node: at,
            incarnation: self.nodes[at].incarnation(),
            arrival,
            ranges: self.nodes[at].post.ranges_sent(),
            asked: object,
            began: self.now,
        });
    }

    fn followed_arrival(&mut self, at: usize, arrival: ReadArrival) -> ReadArrival {
        let is_old = |(_, at): &(ReadArrival, Duration)| self.now - *at > EARLIER;
        if self.earlier_followed[at].as_ref().is_none_or(is_old) {
            self.earlier_followed[at] = Some((arrival, self.now));
        }
        match (self.mistake, self.earlier_followed[at]) {
            (Some(Mistake::EarlyRange), Some((earlier, _))) => earlier,
            _ => arrival,
        }
    }

    /// Answers the reads that their nodes have everything for.
    pub fn read_at_followers(&mut self) -> Result<(), Violation> {
        for read in std::mem::take(&mut self.followed) {
            if !self.is_awake(read.node) {
                self.followed.push(read);
                continue;
            }
            if self.nodes[read.node].incarnation() != read.incarnation {
                continue;
            }
            if self.may_read(&read) {
                self.read_followed(read)?;
            } else if self.now - read.began < PATIENCE {
                self.followed.push(read);
            } else {
                self.reach("read at a follower passed on");
            }
        }
        Ok(())
    }

    fn may_read(&self, read: &FollowedRead) -> bool {
        let node = &self.nodes[read.node];
        let engine = node.engine.as_ref().expect("it is awake");
        let may_read = engine.may_read(read.arrival);
        match self.mistake {
            // The end of the log is known, and what is before it may not be applied.
            Some(Mistake::UnappliedRange) => node.post.ranges_answered() > read.ranges,
            _ => may_read,
        }
    }

    /// Makes the registers' rows in the memory of a node those of its state. `None`: its layers see
    /// nothing any more.
    fn keep_rows(&mut self, at: usize, period: FollowingPeriod) -> Option<()> {
        let believes = self.mistake == Some(Mistake::KeptRows);
        let has_changed = |rows: &KeptRows| !believes && rows.has_changed.load(Ordering::SeqCst);
        if self.kept_rows[at]
            .as_ref()
            .is_some_and(|rows| rows.period == period && !has_changed(rows))
        {
            return Some(());
        }
        let engine = self.nodes[at].engine.as_ref().expect("it is awake");
        if let Some(before) = self.kept_rows[at].take() {
            engine.unwatch(before.watches);
        }
        let keys: Vec<_> = (0..REGISTERS).map(register).collect();
        let has_changed = Arc::<AtomicBool>::default();
        let mut partition = engine.partition();
        // From before they are read, so that no change is missed.
        let watches = keys.iter().map(|key| {
            let changed = has_changed.clone();
            let notes = Arc::new(move |_: &[u8]| changed.store(true, Ordering::SeqCst));
            partition.watch_key(space(Durability::Always), key, notes)
        });
        let watches = watches.collect();
        drop(partition);
        let Some(rows) = self.look(at, period, &keys) else {
            engine.unwatch(watches);
            return None;
        };
        self.kept_rows[at] = Some(KeptRows {
            period,
            rows: keys.into_iter().zip(rows).collect(),
            has_changed,
            watches,
        });
        self.reach("rows kept in memory at a follower");
        Some(())
    }

    /// The rows of keys in a node's state. `None`: its layers see nothing any more.
    fn look(&self, at: usize, period: FollowingPeriod, keys: &[Vec<u8>]) -> Option<Vec<StoredRow>> {
        let engine = self.nodes[at].engine.as_ref().expect("it is awake");
        let mut partition = engine.read_replica_in_time(period).ok()?;
        let look = |tx: &mut Executing<'_>| -> Result<Vec<StoredRow>, ()> {
            let row = |tx: &mut Executing<'_>, key: &Vec<u8>| {
                let row = tx.get(key)?;
                Some((row.version(), row.value().to_vec()))
            };
            Ok(keys.iter().map(|key| row(tx, key)).collect())
        };
        let executed = partition.execute(space(Durability::Always), look);
        Some(executed.ok()?.ok()?.0)
    }

    fn read_followed(&mut self, read: FollowedRead) -> Result<(), Violation> {
        let period = read.arrival.period();
        let is_kept = matches!(read.asked, Asked::Register { is_kept: true, .. });
        let keys = match &read.asked {
            Asked::Register { key, .. } => std::slice::from_ref(key),
            Asked::Lists(keys) => keys,
        };
        let mut rows = self.look(read.node, period, keys);
        if is_kept && rows.is_some() {
            let in_memory = self.keep_rows(read.node, period);
            let in_memory = in_memory.and(self.kept_rows[read.node].as_ref());
            rows = in_memory.map(|memory| keys.iter().map(|key| memory.rows[key].clone()).collect());
        }
        let Some(mut rows) = rows else {
            self.reach("read at a follower that has become home");
            return Ok(());
        };
        self.reach("read at a follower answered");
        match read.asked {
            Asked::Register { key, required, .. } => {
                let (version, value) = rows.pop().flatten().unzip();
                let version = version.unwrap_or(Version::ZERO);
                self.observe(version.0);
                self.judge
                    .answer(read.node, &full(&key), version, value.as_deref(), required)
            }
            Asked::Lists(keys) => {
                let values = rows
                    .iter()
                    .map(|row| values_of(row.as_ref().map(|(_, value)| &value[..])));
                let transaction = Transaction {
                    reads: keys.into_iter().zip(values).collect(),
                    appends: Vec::new(),
                    began: read.began,
                    ended: self.now,
                    outcome: Outcome::Ok,
                };
                self.note(transaction);
                Ok(())
            }
        }
    }
}
