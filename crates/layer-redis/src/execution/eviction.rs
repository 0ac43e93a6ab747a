//! Making room: removes keys when memory is short, as `maxmemory-policy` says.
//!
//! Among `maxmemory-samples` keys picked at random the policy removes the least wanted one, and
//! repeats until there is room, as in Redis
//! (<https://redis.io/docs/latest/develop/reference/eviction/>). `volatile-ttl` needs no sample:
//! deadlines are in order. An eviction is a transaction like any other, so a replay evicts the same
//! keys without knowing of memory or policies.
//!
//! The size of live rows counts, against `maxmemory` and against the budget of the process
//! (`quartet_engine::Memory`). Rows that only a snapshot holds, while a checkpoint is written,
//! cannot be given back by evicting more.

use std::sync::atomic::Ordering;

use quartet_engine::{PartitionGuard, Transaction};

use crate::keyspace::eviction_policy::{Order, Policy, Pool};
use crate::keyspace::{Keyspace, key_with_deadline, keys_with_deadlines};
use crate::layer::Redis;

/// Keys removed before one command, so that others need not wait long for the lock; the next
/// command continues.
const EVICTED_AT_ONCE: usize = 1000;

/// Number of consecutive search indexes that are skipped.
const INDEXES_PASSED: u64 = 16;

/// A key that may go.
struct Candidate {
    db: u8,
    name: Vec<u8>,
}

impl Redis {
    pub fn eviction_policy(&self) -> Policy {
        Policy::numbered(self.config.maxmemory_policy.load(Ordering::Relaxed))
    }

    /// Evicts until there is room, no key may be removed, or enough were removed that others must
    /// get their turn. Called with the lock held, before a command, when memory is short.
    pub fn make_room(&self, partition: &mut PartitionGuard<'_>) {
        let policy = self.eviction_policy();
        let is_paused = self
            .connections
            .pause
            .holds_back(true, partition.now_micros() / 1000)
            .is_some();
        let may_evict = policy.evicts() && !is_paused;
        let mut nothing_to_evict = false;
        for _ in 0..EVICTED_AT_ONCE {
            if nothing_to_evict || !self.should_evict() {
                break;
            }
            nothing_to_evict = !may_evict || !self.evict(partition, policy);
        }
        self.eviction.found_nothing.store(nothing_to_evict, Ordering::Relaxed);
    }

    /// Evicts one key. False if none may go.
    fn evict(&self, partition: &mut PartitionGuard<'_>, policy: Policy) -> bool {
        let now_ms = partition.now_micros() / 1000;
        let executed = partition.execute(self.space, |tx| -> Result<bool, ()> {
            let Some(victim) = self.victim(tx, policy, now_ms) else {
                return Ok(false);
            };
            self.keyspace(tx, victim.db, now_ms).evict(&victim.name);
            self.follow_changes(tx, now_ms);
            Ok(true)
        });
        let Ok((evicted, dependency)) = executed else {
            // The disk is full.
            self.changes.take();
            self.roll_modules_back();
            return false;
        };
        if evicted {
            partition.free_cleared();
            self.observation.statistics.evicted_keys.fetch_add(1, Ordering::Relaxed);
            self.tell_removed(dependency);
        }
        evicted
    }

    fn victim(&self, tx: &mut Transaction<'_>, policy: Policy, now_ms: u64) -> Option<Candidate> {
        if policy.order == Order::SoonestDeadline {
            return candidate_with_deadline(tx, 0);
        }
        let volatile = keys_with_deadlines(tx);
        let counts: Vec<u64> = match policy.pool {
            Pool::Nothing => return None,
            Pool::Volatile => Vec::new(),
            Pool::VolatileFirst if volatile > 0 => Vec::new(),
            Pool::All | Pool::VolatileFirst => (0..crate::facts::DATABASES)
                .map(|db| self.keyspace(tx, db, now_ms).key_count())
                .collect(),
        };
        let total = if counts.is_empty() {
            volatile
        } else {
            counts.iter().sum()
        };
        if total == 0 {
            return None;
        }
        let samples = match policy.order {
            Order::Random => 1,
            _ => self
                .config
                .maxmemory_samples
                .load(Ordering::Relaxed)
                .clamp(1, SAMPLES_MAX),
        };
        let picked = (0..samples).filter_map(|_| {
            let index = self.random.below(total);
            let candidate = match counts.is_empty() {
                true => candidate_with_deadline(tx, index)?,
                false => self.candidate_among_all(tx, &counts, index, now_ms)?,
            };
            Some((self.uselessness(tx, &candidate, policy.order, now_ms), candidate))
        });
        picked
            .max_by_key(|(uselessness, _)| *uselessness)
            .map(|(_, candidate)| candidate)
    }

    /// The key at `index` of the concatenated databases.
    fn candidate_among_all(
        &self,
        tx: &mut Transaction<'_>,
        counts: &[u64],
        mut index: u64,
        now_ms: u64,
    ) -> Option<Candidate> {
        for (db, &count) in (0..).zip(counts) {
            if index < count {
                let mut keys = self.keyspace(tx, db, now_ms);
                // Keys that only their own commands remove are passed over.
                let mut near = (0..=INDEXES_PASSED).filter_map(|step| keys.key_at((index + step) % count));
                let (name, _) = near.find(|(_, entry)| self.commands().modules.stays(entry.kind).is_none())?;
                return Some(Candidate { db, name });
            }
            index -= count;
        }
        None
    }

    /// The larger, the sooner the key goes.
    fn uselessness(&self, tx: &mut Transaction<'_>, candidate: &Candidate, order: Order, now_ms: u64) -> u64 {
        let (db, name) = (candidate.db, candidate.name.as_slice());
        match order {
            Order::LeastRecent => {
                let entry = self.keyspace(tx, db, now_ms).find(name);
                let written_micros = entry.map_or(0, |entry| entry.written_micros());
                let read_micros = self.eviction.recency.read_seconds(db, name) * 1_000_000;
                (now_ms * 1000).saturating_sub(written_micros.max(read_micros))
            }
            Order::LeastFrequent => u64::from(u8::MAX - self.frequency(db, name, now_ms)),
            Order::Random | Order::SoonestDeadline => 0,
        }
    }

    /// The recent frequency of a key's reads, on the scale of OBJECT FREQ.
    pub fn frequency(&self, db: u8, name: &[u8], now_ms: u64) -> u8 {
        let decay_minutes = self.config.lfu_decay_time.load(Ordering::Relaxed) as u64;
        self.eviction.recency.frequency(db, name, now_ms, decay_minutes)
    }
}

/// More samples than this cost time and gain nothing.
const SAMPLES_MAX: i64 = 64;

fn candidate_with_deadline(tx: &mut Transaction<'_>, index: u64) -> Option<Candidate> {
    let (db, name) = key_with_deadline(tx, index)?;
    Some(Candidate { db, name })
}

impl Keyspace<'_, '_> {
    /// Removes a key because memory is short.
    fn evict(&mut self, name: &[u8]) {
        self.remove_because(name, crate::keyspace::changes::What::Evicted);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::EVICTED_AT_ONCE;
    use crate::testing::{Connection, Fixture};

    /// Fills the layer beyond its limit: `volatile` of the keys have a deadline.
    fn fill(fixture: &Fixture, connection: &mut Connection, policy: &str) {
        connection.run(&["CONFIG", "SET", "maxmemory-policy", policy]);
        let value = "x".repeat(10_000);
        for number in 0..20 {
            let name = format!("key:{number}");
            connection.run(&["SET", &name, &value]);
            if number % 2 == 0 {
                connection.run(&["EXPIRE", &name, &(1000 - 10 * number).to_string()]);
            }
            fixture.advance_ms(1000);
        }
        let limit = fixture.layer.live_bytes() - 50_000;
        fixture.layer.config.start_with("maxmemory", limit.to_string());
    }

    /// Names that are still there, as numbers.
    fn remaining_keys(connection: &mut Connection) -> Vec<usize> {
        let is_there = |number: &usize| {
            let reply = connection.run(&["EXISTS", &format!("key:{number}")]);
            crate::testing::show(&reply) == "1"
        };
        (0..20).filter(is_there).collect()
    }

    #[test]
    fn each_policy_takes_its_own() {
        for (policy, may_go) in [
            ("volatile-ttl", [18, 16, 14, 12, 10, 8].as_slice()),
            ("volatile-random", &[0, 2, 4, 6, 8, 10, 12, 14, 16, 18]),
            ("volatile-lru", &[0, 2, 4, 6, 8, 10, 12, 14, 16, 18]),
            ("volatile-lfu", &[0, 2, 4, 6, 8, 10, 12, 14, 16, 18]),
            ("optimistic-volatile", &[0, 2, 4, 6, 8, 10, 12, 14, 16, 18]),
        ] {
            let fixture = Fixture::of_several();
            let mut connection = fixture.connect();
            let own = if policy.starts_with("optimistic") {
                "noeviction"
            } else {
                policy
            };
            fill(&fixture, &mut connection, own);
            if own != policy {
                fixture.layer.config.start_with("maxmemory-policy", policy.into());
            }
            connection.check("GET nosuch => nil");
            let remaining = remaining_keys(&mut connection);
            let gone: Vec<usize> = (0..20).filter(|number| !remaining.contains(number)).collect();
            assert!((4..=6).contains(&gone.len()), "{policy}: {gone:?}");
            assert!(gone.iter().all(|number| may_go.contains(number)), "{policy}: {gone:?}");
            let evicted = fixture
                .layer
                .observation
                .statistics
                .evicted_keys
                .load(Ordering::Relaxed);
            assert_eq!(evicted, gone.len() as u64);
        }
    }

    #[test]
    fn used_keys_stay() {
        for (policy, reads) in [("allkeys-lru", 1), ("allkeys-lfu", 100)] {
            let fixture = Fixture::of_several();
            let mut connection = fixture.connect();
            connection.check("CONFIG SET maxmemory-samples 64 => OK\nCONFIG SET lfu-log-factor 0 => OK");
            fill(&fixture, &mut connection, policy);
            let limit = fixture.layer.config.text_of("maxmemory");
            fixture.layer.config.start_with("maxmemory", "0".into());
            for _ in 0..reads {
                connection.run(&["GET", "key:0"]);
            }
            fixture.layer.config.start_with("maxmemory", limit);
            connection.check("GET nosuch => nil");
            let remaining = remaining_keys(&mut connection);
            assert!(
                remaining.contains(&0) && remaining.len() < 17,
                "{policy}: {remaining:?}"
            );
        }
    }

    #[test]
    fn without_eviction_writes_are_refused_and_deletions_work() {
        let fixture = Fixture::of_several();
        let mut connection = fixture.connect();
        fill(&fixture, &mut connection, "noeviction");
        connection.check(
            "SET k v => !OOM command not allowed when used memory > 'maxmemory'.
             EXISTS key:1 => 1
             DEL key:1 key:2 key:3 key:4 key:5 key:6 => 6
             SET k v => OK",
        );
    }

    /// Evicted keys were published to listeners of keyspace events, but not to clients that cache
    /// them.
    #[test]
    fn a_client_that_caches_an_evicted_key_is_notified() {
        let fixture = Fixture::of_several();
        let (mut connection, mut reader) = (fixture.connect(), fixture.connect());
        fill(&fixture, &mut connection, "volatile-ttl");
        reader.session.speak_resp3();
        fixture.layer.config.start_with("maxmemory", "0".into());
        reader.check("CLIENT TRACKING ON => OK\nSTRLEN key:18 => 10000");
        fixture.layer.config.start_with("maxmemory", "1".into());
        connection.check("GET nosuch => nil");
        let mail = String::from_utf8(reader.mail()).unwrap();
        assert!(mail.contains("invalidate") && mail.contains("key:18"), "{mail}");
    }

    /// Without `maxmemory` nothing was ever refused, until the kernel ended the process.
    #[test]
    fn the_budget_of_the_process_refuses_or_evicts_without_maxmemory() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        fill(&fixture, &mut connection, "noeviction");
        fixture.layer.config.start_with("maxmemory", "0".into());
        let memory = fixture.layer.engine.memory();
        memory.set_budget(Some(1));
        connection.check(
            "CONFIG GET maxmemory => [maxmemory 0]
             SET k v => !OOM command not allowed when used memory > 'maxmemory'.
             EXISTS key:1 => 1
             DEL key:1 => 1",
        );
        assert_eq!(
            remaining_keys(&mut connection).len(),
            19,
            "who does not evict loses nothing"
        );
        memory.set_budget(Some(1 << 60));
        connection.check("SET k v => OK");
        connection.run(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
        // Rows of other tests count against what is refused, only this engine's against what is
        // evicted.
        memory.set_budget(Some((fixture.layer.engine.live_bytes() - 50_000) * 2));
        memory.measured(u64::MAX);
        connection.run(&["GET", "nosuch"]);
        let remaining = remaining_keys(&mut connection).len();
        assert!((12..=15).contains(&remaining), "{remaining} keys are left");
    }

    /// A client that polled whether the checkpoint was written ended it each time.
    #[test]
    fn only_what_may_need_memory_ends_a_checkpoint() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        fill(&fixture, &mut connection, "allkeys-random");
        fixture.layer.config.start_with("maxmemory", "0".into());
        let engine = &fixture.layer.engine;
        let (memory, budget) = (engine.memory(), 1 << 60);
        memory.set_budget(Some(budget));
        let running = &engine.statistics().checkpoint_running;
        let was_given_up_after = |connection: &mut Connection, command: &[&str]| {
            memory.measured(u64::MAX);
            running.store(true, Ordering::Relaxed);
            connection.run(command);
            running.store(false, Ordering::Relaxed);
            memory.measured(0);
            memory.evicts_above() < budget
        };
        for command in [&["GET", "k"][..], &["INFO"], &["DEL", "k"], &["BGSAVE"]] {
            assert!(!was_given_up_after(&mut connection, command), "{command:?}");
        }
        assert!(was_given_up_after(&mut connection, &["SET", "k", "v"]));
    }

    #[test]
    fn one_of_several_databases_loses_nothing_because_others_need_room() {
        let fixture = Fixture::of_several();
        let mut connection = fixture.connect();
        fill(&fixture, &mut connection, "noeviction");
        fixture.layer.config.start_with("maxmemory", "0".into());
        connection.run(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
        fixture.layer.engine.memory().set_budget(Some(1));
        connection.check("SET k v => !OOM command not allowed when used memory > 'maxmemory'.");
        assert_eq!(remaining_keys(&mut connection).len(), 20);
    }

    #[test]
    fn nothing_volatile_is_left_and_writes_are_refused() {
        let fixture = Fixture::of_several();
        let mut connection = fixture.connect();
        fill(&fixture, &mut connection, "volatile-lru");
        fixture.layer.config.start_with("maxmemory", "1".into());
        connection.check(
            "SET k v => !OOM command not allowed when used memory > 'maxmemory'.
             DBSIZE => 10",
        );
    }

    /// More had to go than may go at once, and the command in between was refused.
    #[test]
    fn commands_continue_while_keys_can_be_evicted() {
        let fixture = Fixture::new();
        let mut connection = fixture.connect();
        for key in 0..3 * EVICTED_AT_ONCE {
            connection.run(&["SET", &key.to_string(), "v"]);
        }
        connection.run(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
        fixture.layer.config.start_with("maxmemory", "1".into());
        connection.check(
            "SET k v => OK
             SET k v => OK
             SET k v => OK",
        );
    }
}
