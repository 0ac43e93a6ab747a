//! Steps of the catalogue on their way to the partitions concerned.
//!
//! ```text
//!   'T'   in the first partition: the number that was given last, u64, big endian
//!         in each other one: the number of the push that was taken last
//! ```
//!
//! Each push carries one number: the version of the first partition's log at which its step was
//! decided. Numbers increase over all pushes and over all homes of the first partition, as versions
//! of a log do. A partition takes only numbers above the last taken. So a late push, from a deposed
//! home or after a time-out, changes nothing, whether it defines a database or clears it. A
//! repeated push has been taken already.
//!
//! A new home of the first partition pushes a [`Push::Fence`] to all others before it changes
//! anything: from then on none takes what an earlier home has sent.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use quartet_engine::{Durability, Engine, PartitionId, Transaction};
use quartet_model::DatabaseId;
use serde::{Deserialize, Serialize};

use crate::definition::{Definition, Place};
use crate::partitions::{NUMBER, number_row};
use crate::rows::{COPY, CatalogueError, PLACE, json, row, space, write};

pub(crate) const TAKEN: &[u8] = b"T";

/// One step of the catalogue, in the form that the affected partition receives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum Push {
    /// Nothing changes but the number.
    Fence,
    /// The partition has these of the databases numbered `first` to `last`, and no others.
    Exactly {
        first: u16,
        last: u16,
        definitions: BTreeMap<u16, Definition>,
    },
    /// No row of this database stays. It had been moved so often.
    Clear { id: u16, times: u64 },
}

/// The connection to the homes of the partitions after the first, at other nodes.
pub trait Homes: Send + Sync {
    /// Gives the push to the home of the partition, again until that has taken it.
    ///
    /// Errors: `LogFailed` if this node is no longer home of the first partition; `NoHome` if the
    /// partition has had no home for a while.
    fn push(&self, partition: PartitionId, number: u64, push: &[u8]) -> Result<(), CatalogueError>;
}

impl Push {
    /// Defines one database, or removes it from the partition.
    pub fn of(id: u16, definition: Option<&Definition>) -> Push {
        Push::Exactly {
            first: id,
            last: id,
            definitions: definition
                .map(|definition| (id, definition.clone()))
                .into_iter()
                .collect(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        json(self)
    }

    pub fn parse(bytes: &[u8]) -> Result<Push, CatalogueError> {
        serde_json::from_slice(bytes).map_err(|_| CatalogueError::Damaged("a push"))
    }
}

/// Takes a push, durably in the term of the partition. Not to be called for one partition by two
/// at once.
///
/// Errors: `Stale` if it has taken a later push.
pub(crate) fn take(partition: PartitionId, engine: &Engine, number: u64, push: &Push) -> Result<(), CatalogueError> {
    if let Push::Clear { id, .. } = push
        && taken(engine)? < number
    {
        // Before the row that records it, in the same log: once that is durable, so is the removal.
        engine.clear_database(DatabaseId(*id))?;
    }
    write(engine, |tx| {
        let last = last_taken(tx);
        if number <= last {
            return if number == last {
                Ok(())
            } else {
                Err(CatalogueError::Stale)
            };
        }
        if tx.get(NUMBER).is_none() {
            tx.set(NUMBER, &number_row(partition));
        }
        match push {
            Push::Fence => {}
            Push::Exactly {
                first,
                last,
                definitions,
            } => define_exactly(tx, *first, *last, definitions),
            Push::Clear { id, times } => clear(tx, *id, *times),
        }
        tx.set(TAKEN, &number.to_be_bytes());
        Ok(())
    })?
}

fn define_exactly(tx: &mut Transaction<'_>, first: u16, last: u16, definitions: &BTreeMap<u16, Definition>) {
    let (mut copies, prefix_bytes) = (BTreeMap::new(), space(Durability::Always).prefix().len());
    let end = [&row(COPY, last)[..], &[0]].concat();
    tx.scan(&row(COPY, first), &end, false, &mut |entry| {
        let key = entry.key()[prefix_bytes..].to_vec();
        copies.insert(key, entry.value().to_vec());
        ControlFlow::Continue(())
    });
    for (id, definition) in definitions {
        let (key, definition) = (row(COPY, *id), json(definition));
        if copies.remove(&key[..]).as_ref() != Some(&definition) {
            tx.set(&key, &definition);
        }
    }
    for key in copies.keys() {
        tx.clear(key);
    }
}

fn clear(tx: &mut Transaction<'_>, id: u16, times: u64) {
    let place = Place { times, is_here: false };
    match times {
        0 => drop(tx.clear(&row(PLACE, id))),
        _ => drop(tx.set(&row(PLACE, id), &json(&place))),
    }
    tx.clear(&row(COPY, id));
    tx.clear(&row(b'U', id));
}

/// The number that the partition of a transaction has taken last; zero: none.
pub(crate) fn last_taken(tx: &mut Transaction<'_>) -> u64 {
    tx.get(TAKEN).map_or(0, |row| number_in(row.value()))
}

/// The number that a partition has taken last; zero: none.
pub(crate) fn taken(engine: &Engine) -> Result<u64, CatalogueError> {
    let reader = engine.reader(space(Durability::Always))?;
    let row = reader.get(TAKEN);
    match reader.is_unreadable() {
        true => Err(CatalogueError::Unreadable),
        false => Ok(row.map_or(0, |row| number_in(&row))),
    }
}

/// An unreadable number is below every other: the next push rewrites it.
fn number_in(row: &[u8]) -> u64 {
    row.try_into().map_or(0, u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::{Duration, Instant};

    use parking_lot::Mutex;
    use quartet_engine::{EngineOptions, Parts, Replicated, Role, Waker};
    use quartet_env::{FaultyDisk, ManualClock};
    use quartet_log_replicated::model::Store;
    use quartet_log_replicated::{ClusterId, Event, NodeId, Place, Request, RequestId, Sequencer, Writer};

    use super::*;
    use crate::{Access, Catalogue, Partitions, Secrets};

    fn engine() -> Arc<Engine> {
        let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
        let clock = Arc::new(ManualClock::new(1_753_000_000_000_000));
        let disk = Arc::new(FaultyDisk::new());
        Arc::new(Engine::open(disk, clock, EngineOptions::default(), failure, &mut |_| {}).unwrap())
    }

    fn definition(name: &str) -> Definition {
        Definition::new(name, Durability::Always)
    }

    /// A partition takes pushes above the last taken, and repeats its answer to a repeated push.
    #[test]
    fn a_late_push_changes_nothing() {
        let engine = engine();
        let take = |number, push: &Push| take(PartitionId(1), &engine, number, push);
        let defined = |name: &str| Push::of(7, Some(&definition(name)));
        let stored_name = || {
            let reader = engine.reader(space(Durability::Always)).unwrap();
            let row = reader.get(&row(COPY, 7));
            row.map(|row| serde_json::from_slice::<Definition>(&row).unwrap().name)
        };
        take(5, &defined("shop")).unwrap();
        take(5, &defined("shop")).unwrap();
        for late in [defined("old"), Push::Fence, Push::Clear { id: 7, times: 0 }] {
            assert!(matches!(take(4, &late), Err(CatalogueError::Stale)));
        }
        assert_eq!((stored_name().as_deref(), taken(&engine).unwrap()), (Some("shop"), 5));
        take(8, &Push::Fence).unwrap();
        assert!(matches!(take(7, &Push::of(7, None)), Err(CatalogueError::Stale)));
        assert_eq!(stored_name().as_deref(), Some("shop"));
        take(9, &Push::Clear { id: 7, times: 0 }).unwrap();
        assert!(matches!(take(8, &defined("shop")), Err(CatalogueError::Stale)));
        assert_eq!(stored_name(), None);
        let whole = Push::Exactly {
            first: 0,
            last: u16::MAX,
            definitions: BTreeMap::from([(9, definition("news"))]),
        };
        take(10, &defined("shop")).unwrap();
        take(11, &Push::parse(&whole.bytes()).unwrap()).unwrap();
        assert_eq!(stored_name(), None);
        assert!(Push::parse(b"{\"exactly\":{}}").is_err());
    }

    /// Chosen by a seed.
    struct Choices(AtomicU64);

    impl Choices {
        fn below(&self, bound: u64) -> u64 {
            let mut state = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (state ^ (state >> 31)) % bound
        }
    }

    /// Two partitions with homes of their own, and the way to them, which loses pushes and answers
    /// and keeps pushes for later.
    struct World {
        engines: [Arc<Engine>; 3],
        homes: [Mutex<Option<Catalogue>>; 2],
        late: Mutex<Vec<(usize, u64, Vec<u8>)>>,
        choices: Choices,
    }

    impl World {
        fn new(seed: u64) -> Arc<World> {
            Arc::new(World {
                engines: [(); 3].map(|()| engine()),
                homes: Default::default(),
                late: Mutex::default(),
                choices: Choices(AtomicU64::new(seed)),
            })
        }

        /// Acts at the home of a partition.
        fn at<T>(&self, partition: usize, act: impl FnOnce(&Catalogue) -> T) -> T {
            let mut home = self.homes[partition - 1].lock();
            let home = home.get_or_insert_with(|| {
                let engine = self.engines[partition].clone();
                let only = Partitions::of_one(PartitionId(partition as u32), engine);
                Catalogue::open_one(Arc::new(only), Box::new(|_| {})).unwrap()
            });
            act(home)
        }

        /// Another node is home of the partition.
        fn move_home(&self, partition: usize) {
            *self.homes[partition - 1].lock() = None;
        }

        fn give(&self, (partition, number, push): &(usize, u64, Vec<u8>)) -> Result<(), CatalogueError> {
            let is_unused = self.choices.below(4) > 0;
            self.at(*partition, |home| home.take(*number, push, |_| is_unused).map(drop))
        }

        fn deliver_some_late(&self) {
            while self.choices.below(3) > 0 {
                let late = {
                    let mut late = self.late.lock();
                    let count = late.len() as u64;
                    (count > 0).then(|| late.swap_remove(self.choices.below(count) as usize))
                };
                late.iter().for_each(|late| drop(self.give(late)));
            }
        }

        /// The database that a secret opens at some partition, according to its own log.
        fn opens(&self, secret: &str) -> Option<(u16, usize)> {
            let matching = (1..3).filter_map(|partition| {
                let opened = self.at(partition, |home| home.by_secret(secret.as_bytes()));
                let (database, access) = opened?;
                assert_eq!(access, Access::Full);
                (!database.is_closed()).then_some((database.id.0, partition))
            });
            let matching: Vec<_> = matching.collect();
            assert!(matching.len() < 2, "two partitions open to one secret");
            matching.first().copied()
        }
    }

    struct ToWorld(Arc<World>);

    impl Homes for ToWorld {
        fn push(&self, partition: PartitionId, number: u64, push: &[u8]) -> Result<(), CatalogueError> {
            let world = &self.0;
            let sent = (partition.0 as usize, number, push.to_vec());
            for _ in 0..3 {
                world.deliver_some_late();
                match world.choices.below(8) {
                    0 => world.late.lock().push(sent.clone()),
                    1 => world.move_home(sent.0),
                    // Its answer is lost, and it arrives once more later.
                    2 => {
                        drop(world.give(&sent));
                        world.late.lock().push(sent.clone());
                    }
                    _ => match world.give(&sent) {
                        Err(CatalogueError::Busy(_)) => {}
                        result => return result,
                    },
                }
            }
            Err(CatalogueError::NoHome(partition.0))
        }
    }

    /// The answers that clients have.
    #[derive(Default)]
    struct Answered {
        /// The secret in the last answer, and whether a change without an answer may have replaced
        /// it since.
        secret: Option<(u16, String, bool)>,
        /// Secrets that are no longer valid.
        ended: Vec<String>,
    }

    impl Answered {
        fn ends(&mut self) {
            self.ended.extend(self.secret.take().map(|(_, secret, _)| secret));
        }

        fn is(&mut self, database: u16, secrets: Secrets) {
            self.ends();
            self.secret = Some((database, secrets.token, false));
        }

        fn check(&self, world: &World) {
            for ended in &self.ended {
                assert_eq!(world.opens(ended), None);
            }
            if let Some((id, secret, false)) = &self.secret {
                let opened = world.opens(secret).map(|(id, _)| id);
                assert_eq!(opened, Some(*id));
            }
        }
    }

    fn open(world: &Arc<World>) -> Catalogue {
        loop {
            let partitions = Arc::new(Partitions::new(world.engines.to_vec()));
            let random = {
                let world = world.clone();
                move |bytes: &mut [u8]| bytes.fill_with(|| world.choices.below(256) as u8)
            };
            let opened = Catalogue::open_apart(partitions, Box::new(ToWorld(world.clone())), Box::new(random));
            match opened {
                Ok(catalogue) => return catalogue,
                Err(error) => assert!(matches!(error, CatalogueError::NoHome(_)), "{error}"),
            }
        }
    }

    /// Databases are created, changed and deleted by successive homes, while pushes arrive late,
    /// twice, in any order, or never.
    #[test]
    fn separate_homes_agree_with_answered_changes() {
        let seeds = std::env::var("QUARTET_PUSH_SEEDS").map_or(40, |seeds| seeds.parse().unwrap());
        for seed in 0..seeds {
            let world = World::new(seed);
            let mut catalogue = open(&world);
            let mut answered: [Answered; 3] = Default::default();
            for _ in 0..40 {
                let number = world.choices.below(3) as usize;
                let (name, answers) = (["shop", "news", "mail"][number], &mut answered[number]);
                match world.choices.below(8) {
                    0..=2 => match catalogue.create(definition(name)) {
                        Ok((database, secrets)) if database.partition() != PartitionId(0) => {
                            answers.is(database.id.0, secrets);
                        }
                        _ => {}
                    },
                    3 | 4 => match catalogue.renew_credentials(name) {
                        Ok((database, secrets)) if database.partition() != PartitionId(0) => {
                            answers.is(database.id.0, secrets);
                        }
                        Ok(_) | Err(CatalogueError::Unknown) => {}
                        Err(_) => answers
                            .secret
                            .iter_mut()
                            .for_each(|(.., may_differ)| *may_differ = true),
                    },
                    5 => match catalogue.close(name) {
                        Ok(_) => answers.ends(),
                        Err(CatalogueError::Unknown) => {}
                        Err(_) => answers
                            .secret
                            .iter_mut()
                            .for_each(|(.., may_differ)| *may_differ = true),
                    },
                    6 => {
                        for closed in catalogue.unfinished() {
                            drop(catalogue.forget(&closed));
                        }
                        drop(catalogue.tell_again());
                    }
                    _ => {
                        drop(catalogue);
                        catalogue = open(&world);
                    }
                }
                world.deliver_some_late();
                answered.iter().for_each(|answered| answered.check(&world));
            }
            // In the end every partition has what the catalogue has.
            drop(catalogue);
            let catalogue = open(&world);
            for database in catalogue.list() {
                let partition = database.partition().0 as usize;
                if partition > 0 {
                    let definition = world.at(partition, |home| home.numbered(database.id).unwrap().definition());
                    assert_eq!(definition, database.definition(), "seed {seed}");
                }
            }
        }
    }

    /// The homes of partitions in this process, with a list of the pushes that they received.
    struct Heard {
        homes: Vec<Catalogue>,
        bytes: Mutex<Vec<usize>>,
    }

    struct ToHeard(Arc<Heard>);

    impl Homes for ToHeard {
        fn push(&self, partition: PartitionId, number: u64, push: &[u8]) -> Result<(), CatalogueError> {
            self.0.bytes.lock().push(push.len());
            let home = &self.0.homes[partition.0 as usize - 1];
            home.take(number, push, |_| true).map(drop)
        }
    }

    /// Largest push that a node takes from another, in bytes.
    const PUSH_BYTES_MAX: usize = 1 << 20;

    /// A new home of the first partition pushes thousands of definitions to the others in pieces of
    /// an accepted size.
    #[test]
    fn thousands_of_databases_are_pushed_in_pieces() {
        let engines = [(); 2].map(|()| engine());
        let random = |seed: u64| {
            let choices = Choices(AtomicU64::new(seed));
            Box::new(move |bytes: &mut [u8]| bytes.fill_with(|| choices.below(256) as u8))
        };
        let together = Partitions::new(engines.to_vec());
        let catalogue = Catalogue::open(Arc::new(together), random(1)).unwrap();
        let databases: Vec<_> = (0..4000)
            .map(|number| {
                // As long as a name may be.
                let name = format!("{number:064}");
                catalogue.create(definition(&name)).unwrap().0
            })
            .collect();
        drop(catalogue);
        // None of the partition's definitions is left.
        let mut stored = databases
            .iter()
            .filter(|database| database.partition() == PartitionId(1));
        assert!(stored.clone().count() >= 2000);
        let everything = Push::Exactly {
            first: 0,
            last: u16::MAX,
            definitions: BTreeMap::new(),
        };
        let number = taken(&engines[1]).unwrap() + 1;
        take(PartitionId(1), &engines[1], number, &everything).unwrap();
        engines[0].land_above(quartet_model::Version(number)).unwrap();
        let only = Partitions::of_one(PartitionId(1), engines[1].clone());
        let heard = Arc::new(Heard {
            homes: vec![Catalogue::open_one(Arc::new(only), random(2)).unwrap()],
            bytes: Mutex::default(),
        });
        assert!(heard.homes[0].is_empty());
        let partitions = Arc::new(Partitions::new(engines.to_vec()));
        let apart = Catalogue::open_apart(partitions, Box::new(ToHeard(heard.clone())), random(3)).unwrap();
        let pushed = heard.bytes.lock();
        assert!(
            pushed.len() > 4 && pushed.iter().all(|bytes| *bytes < PUSH_BYTES_MAX),
            "{pushed:?}"
        );
        let is_known = |database: &Arc<crate::Database>| {
            let copy = heard.homes[0].numbered(database.id);
            copy.is_some_and(|copy| copy.definition() == database.definition())
        };
        assert!(stored.all(is_known));
        drop(apart);
    }

    /// A sequencer that answers at once.
    struct AtOnce {
        store: Arc<Mutex<Store>>,
        waker: Waker,
        inbox: VecDeque<Event>,
        sent: u64,
    }

    impl Sequencer for AtOnce {
        fn send(&mut self, request: Request) -> RequestId {
            let id = RequestId(self.sent);
            self.sent += 1;
            let answer = self.store.lock().execute(0, Duration::ZERO, &request);
            self.inbox.push_back(Event::Answered(id, Ok(answer)));
            (self.waker)();
            id
        }

        fn watch(&mut self, _: Vec<u8>, _: Vec<u8>) {}

        fn receive(&mut self, _: Duration) -> Option<Event> {
            self.inbox.pop_front()
        }
    }

    /// The home of a partition of a cluster.
    fn home_of(place: Place, store: &Arc<Mutex<Store>>) -> Arc<Engine> {
        let store = store.clone();
        let replicated = Replicated {
            place,
            me: Writer {
                node: NodeId(1),
                incarnation: 1,
            },
            nodes: 1,
            sequencer: Box::new(move |waker| {
                Box::new(AtOnce {
                    store,
                    waker,
                    inbox: VecDeque::new(),
                    sent: 0,
                })
            }),
            on_role: Box::new(|_| {}),
            budget_bytes: 64 << 20,
            objects: None,
        };
        let parts = Parts::on_one_machine(
            Arc::new(FaultyDisk::new()),
            Arc::new(ManualClock::new(1_753_000_000_000_000)),
        );
        let failure = Box::new(|error: &_| panic!("the log failed: {error}"));
        let opened = Engine::open_replicated(parts, EngineOptions::default(), replicated, failure, &mut |_| {});
        let engine = Arc::new(opened.unwrap());
        engine.take_over();
        let until = Instant::now() + Duration::from_secs(60);
        while !matches!(engine.role(), Role::Home { .. }) {
            assert!(Instant::now() < until, "it does not become home");
            std::thread::sleep(Duration::from_millis(1));
        }
        engine
    }

    /// A node that became home of all of a cluster's partitions had nothing to push to them, and so
    /// they still took the pushes of an earlier home of the first.
    #[test]
    fn a_home_of_all_ends_what_an_earlier_home_has_sent() {
        let store = Arc::new(Mutex::new(Store::default()));
        let place = Place::new("/test", ClusterId(7), PartitionId(0)).with_partitions(2);
        store.lock().execute(0, Duration::ZERO, &place.found());
        let engines: Vec<_> = (0..2).map(|id| home_of(place.of(PartitionId(id)), &store)).collect();
        let open = || {
            let partitions = Arc::new(Partitions::new(engines.clone()));
            Catalogue::open(partitions, Box::new(|bytes| bytes.fill(7))).unwrap()
        };
        let earlier = open();
        let (database, _) = earlier.create(definition("shop")).unwrap();
        assert_eq!(database.partition(), PartitionId(1));
        let number = earlier.next_number().unwrap();
        drop(earlier);
        // The step was decided, and nothing of it has arrived.
        assert!(taken(&engines[1]).unwrap() < number);
        let later = open();
        let late = take(PartitionId(1), &engines[1], number, &Push::of(database.id.0, None));
        assert!(matches!(late, Err(CatalogueError::Stale)), "{late:?}");
        assert!(later.numbered(database.id).is_some());
    }
}
