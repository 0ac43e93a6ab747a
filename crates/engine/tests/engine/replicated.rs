//! Engines that share a log: home, followers, promotion, deposition.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use quartet_engine::{
    BriefWaits, Busy, CommitError, CommitRequest, Condition, CopyError, CopyTarget, DatabaseCopy, DatabaseCopyError,
    Dependency, Durability, Engine, EngineOptions, ExecuteError, Mutation, OwnLog, Parts, Replicated, Role, Settled,
    StoreKind,
};
use quartet_env::{Fault, FaultyDisk, ManualClock, Operation};
use quartet_log::{FileLogOpener, FileLogOptions, LogError, LogOpener};
use quartet_log_replicated::copies::hold_request;
use quartet_log_replicated::{
    Answer, Body, ClusterId, NodeId, ObjectOptions, ObjectRequest, Operation as Change, PartitionId, Place, Record,
    Request, StopReason, Writer,
};
use quartet_model::{EffectsReader, KeyRange, LogSequence, Version};

use crate::shelf::{Mode, Shelf, until};
use crate::world::{ALWAYS, RELAXED, World, execute, set};

/// One node: its disk outlives its engine.
struct Node {
    id: u64,
    shelf: Shelf,
    world: World,
    /// Its client at the shelf.
    client: usize,
    roles: Arc<Mutex<Vec<Role>>>,
    engine: Option<Engine>,
    objects: Option<ObjectOptions>,
}

fn place() -> Place {
    Place::new("/test", ClusterId(7), PartitionId(0))
}

fn founded() -> Shelf {
    let shelf = Shelf::default();
    shelf.ask(&place().found());
    shelf
}

static INCARNATIONS: AtomicUsize = AtomicUsize::new(1);

impl Node {
    fn new(shelf: &Shelf, id: u64) -> Node {
        let mut node = Node::down(shelf, id);
        node.start();
        node
    }

    fn down(shelf: &Shelf, id: u64) -> Node {
        Node {
            id,
            shelf: shelf.clone(),
            world: World::default(),
            client: 0,
            roles: Arc::default(),
            engine: None,
            objects: None,
        }
    }

    fn start(&mut self) {
        self.start_with(Box::new(|error| panic!("the own log failed: {error}")));
    }

    fn start_with(&mut self, failure: Box<dyn Fn(&LogError) + Send>) {
        self.engine = None;
        self.client = self.shelf.next_client();
        let roles = self.roles.clone();
        let replicated = Replicated {
            place: place(),
            me: Writer {
                node: NodeId(self.id),
                incarnation: INCARNATIONS.fetch_add(1, Ordering::SeqCst) as u64,
            },
            nodes: 3,
            sequencer: self.shelf.maker(),
            on_role: Box::new(move |role| roles.lock().push(role.clone())),
            budget_bytes: 64 << 20,
            objects: self.objects,
        };
        let parts = Parts::on_one_machine(Arc::new(self.world.disk.clone()), self.world.clock.clone());
        let options = EngineOptions {
            store: self.world.store,
            ..EngineOptions::default()
        };
        self.engine = Some(Engine::open_replicated(parts, options, replicated, failure, &mut |_| {}).unwrap());
    }

    /// The process ends and the disk loses what it has not synced.
    fn crash(&mut self) {
        let disk = self.world.disk.fork();
        disk.crash();
        self.engine = None;
        self.world.disk = disk;
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn become_home(&self) {
        self.engine().take_over();
        until("it becomes home", || self.is_sure());
    }

    fn is_sure(&self) -> bool {
        let condition = Condition::Sure;
        matches!(self.engine().role(), Role::Home { condition: current, .. } if current == condition)
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        let arrival = self.engine().arrival(Durability::Always);
        let dependency = set(self.engine(), ALWAYS, key, value);
        assert!(self.engine().wait_settled(dependency, arrival));
    }

    /// Reads as a follower shows it.
    fn shown(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.engine().reader(ALWAYS).unwrap().get(key)
    }

    /// Reads as a home, and waits until the answer may leave.
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let arrival = self.engine().arrival(Durability::Always);
        let (row, dependency) = execute(self.engine(), ALWAYS, |tx| tx.get(key).map(|row| row.value().to_vec()));
        assert!(self.engine().wait_settled(dependency, arrival));
        row
    }

    fn applied(&self) -> u64 {
        self.engine().replication().applied
    }

    fn until_shown(&self, key: &[u8], value: &[u8]) {
        until("it is applied", || self.shown(key).as_deref() == Some(value));
    }
}

fn refused(engine: &Engine) -> bool {
    let executed: Result<_, ExecuteError<()>> = engine.partition().execute(ALWAYS, |tx| {
        tx.set(b"x", b"y");
        Ok(())
    });
    matches!(executed, Err(ExecuteError::NotHome))
}

#[test]
fn a_home_is_answered_by_the_sequencer() {
    let node = Node::new(&founded(), 1);
    assert!(refused(node.engine()), "nobody is home yet");
    node.become_home();
    node.set(b"key", b"value");
    assert_eq!(node.get(b"key"), Some(b"value".to_vec()));
    let figures = node.engine().replication();
    assert_eq!((figures.term, figures.home_node, figures.is_home), (1, 1, true));
    assert!(figures.appends >= 1 && figures.confirmations >= 1, "{figures:?}");
    assert!(!node.engine().make_durable(Version::MAX), "nobody flushes by itself");
}

/// A reply to a read of settled rows waits until it is shown that the node is still home.
#[test]
fn a_read_waits_for_a_confirmation_after_its_arrival() {
    let shelf = founded();
    let node = Node::new(&shelf, 1);
    node.become_home();
    node.set(b"key", b"value");
    shelf.set_mode(node.client, Mode::Late);
    let arrival = node.engine().arrival(Durability::Always);
    let (_, dependency) = execute(node.engine(), ALWAYS, |tx| tx.get(b"key").is_some());
    assert_eq!(dependency, Dependency::ZERO);
    assert_eq!(node.engine().settled(dependency, arrival), Settled::NotYet);
    shelf.set_mode(node.client, Mode::Well);
    assert!(node.engine().wait_settled(dependency, arrival));
}

#[test]
fn a_home_that_is_cut_off_refuses_commits_and_recovers() {
    let shelf = founded();
    let node = Node::new(&shelf, 1);
    node.become_home();
    shelf.set_mode(node.client, Mode::CutOff);
    let arrival = node.engine().arrival(Durability::Always);
    let dependency = set(node.engine(), ALWAYS, b"key", b"value");
    assert_eq!(node.engine().settled(dependency, arrival), Settled::NotYet);
    until("it is uncertain", || refused(node.engine()));
    let uncertain = |role: &Role| {
        matches!(
            role,
            Role::Home {
                condition: Condition::Uncertain,
                ..
            }
        )
    };
    until("it says so", || uncertain(&node.engine().role()));
    shelf.set_mode(node.client, Mode::Well);
    // On a machine that is paused the home is suspended meanwhile, and gives up what waits.
    let is_settled = node.engine().wait_settled(dependency, arrival);
    assert!(is_settled || node.engine().replication().suspensions > 0);
    until("it commits again", || !refused(node.engine()));
}

/// Requests waited for as long as the sequencer was silent, which is an unknown time.
#[test]
fn a_home_without_answers_gives_up_what_waits_and_refuses_reads_as_well() {
    let shelf = founded();
    let node = Node::new(&shelf, 1);
    node.become_home();
    node.set(b"key", b"before");
    shelf.set_mode(node.client, Mode::CutOff);
    let arrival = node.engine().arrival(Durability::Always);
    let dependency = set(node.engine(), ALWAYS, b"key", b"value");
    assert!(
        !node.engine().wait_settled(dependency, arrival),
        "its outcome is unknown"
    );
    let arrival = node.engine().arrival(Durability::Always);
    let read = node.engine().partition().execute(ALWAYS, |tx| {
        tx.get(b"key");
        Ok::<_, ()>(())
    });
    assert!(matches!(read, Err(ExecuteError::NotHome)));
    assert_eq!(
        node.engine().settled(Dependency::ZERO, arrival),
        Settled::Yes,
        "the refusal leaves at once"
    );
    assert!(!node.engine().is_home());
    until("the figures show it", || node.engine().replication().is_suspended);
    shelf.set_mode(node.client, Mode::Well);
    until("it executes again", || node.engine().is_home());
    // The write that waited was appended all the same: it is the same term.
    assert_eq!(node.get(b"key").as_deref(), Some(&b"value"[..]));
    assert_eq!(node.engine().replication().roll_backs, 0);
}

/// `interval` acknowledged without end at a home that no peer could reach: everything since the cut
/// was lost with it.
#[test]
fn relaxed_replies_wait_once_the_evidence_is_old() {
    let shelf = founded();
    let node = Node::new(&shelf, 1);
    node.become_home();
    let arrival = || node.engine().arrival(Durability::Interval);
    let dependency = loop {
        let confirmed = Instant::now();
        node.set(b"key", b"value");
        let (early, dependency) = (arrival(), set(node.engine(), RELAXED, b"key", b"at once"));
        assert_eq!(dependency, Dependency::ZERO);
        let settled = node.engine().settled(dependency, early);
        // On a machine that was suspended the evidence may already be two seconds old.
        if confirmed.elapsed() < Duration::from_secs(1) {
            assert_eq!(settled, Settled::Yes);
            break dependency;
        }
    };
    shelf.set_mode(node.client, Mode::CutOff);
    until("the evidence is old", || {
        node.engine().settled(dependency, arrival()) == Settled::NotYet
    });
    shelf.set_mode(node.client, Mode::Well);
    until("the evidence is young", || {
        node.engine().settled(dependency, arrival()) == Settled::Yes
    });
}

#[test]
fn an_answer_that_was_lost_is_found_out() {
    let shelf = founded();
    let node = Node::new(&shelf, 1);
    node.become_home();
    shelf.set_mode(node.client, Mode::AnswersLost);
    let arrival = node.engine().arrival(Durability::Always);
    let dependency = set(node.engine(), ALWAYS, b"key", b"once");
    until("answers are missing", || {
        node.engine().replication().unknown_answers > 2
    });
    shelf.set_mode(node.client, Mode::Well);
    let is_settled = node.engine().wait_settled(dependency, arrival);
    assert!(is_settled || node.engine().replication().suspensions > 0);
    let follower = Node::new(&shelf, 2);
    follower.until_shown(b"key", b"once");
}

#[test]
fn a_transaction_above_the_limit_is_refused_by_its_size() {
    let node = Node::new(&founded(), 1);
    node.become_home();
    let large = vec![7; (4 << 20) + 1];
    let executed: Result<_, ExecuteError<()>> = node.engine().partition().execute(ALWAYS, |tx| {
        tx.set(b"large", &large);
        Ok(())
    });
    assert!(matches!(executed, Err(ExecuteError::TooLarge(_))));
    node.set(b"large", &large[..4 << 20 >> 1]);
    let follower = Node::new(&node.shelf, 2);
    follower.until_shown(b"large", &large[..4 << 20 >> 1]);
}

#[test]
fn a_follower_applies_notifies_watches_and_counts() {
    let shelf = founded();
    let (home, follower) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    home.become_home();
    let changes = Arc::new(AtomicUsize::new(0));
    let heard = changes.clone();
    let heard = Arc::new(move |_: &[u8]| _ = heard.fetch_add(1, Ordering::SeqCst));
    follower.engine().partition().watch_key(ALWAYS, b"key", heard);
    home.set(b"key", b"value");
    home.set(b"other", b"gone");
    execute(home.engine(), ALWAYS, |tx| tx.clear(b"other"));
    execute(home.engine(), ALWAYS, |tx| tx.set(b"range1", b"x"));
    execute(home.engine(), ALWAYS, |tx| tx.clear_range(b"range0", b"range2"));
    home.set(b"last", b"one");
    follower.until_shown(b"last", b"one");
    assert_eq!(
        (follower.shown(b"key"), follower.shown(b"other")),
        (Some(b"value".to_vec()), None)
    );
    assert_eq!(follower.shown(b"range1"), None);
    assert_eq!(changes.load(Ordering::SeqCst), 1);
    let database = ALWAYS.database;
    until("the same is counted", || {
        home.engine().stored_bytes(database) == follower.engine().stored_bytes(database)
    });
    assert_eq!(
        home.engine().state_hash(None).unwrap(),
        follower.engine().state_hash(None).unwrap()
    );
    assert!(refused(follower.engine()));
}

/// A watch is a hint: records that it does not report are read anyway.
#[test]
fn a_follower_without_hints_reads_what_there_is() {
    let shelf = founded();
    let (home, follower) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    shelf.set_hints(follower.client, false);
    home.become_home();
    home.set(b"key", b"value");
    follower.until_shown(b"key", b"value");
}

#[test]
fn a_follower_continues_from_its_own_files_after_a_restart() {
    let shelf = founded();
    let (home, mut follower) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    home.become_home();
    home.set(b"first", b"1");
    follower.until_shown(b"first", b"1");
    follower.engine().checkpoint().unwrap();
    home.set(b"second", b"2");
    follower.until_shown(b"second", b"2");
    for crashes in [false, true, true] {
        match crashes {
            true => follower.crash(),
            false => follower.engine.take().unwrap().close().unwrap(),
        }
        home.set(b"away", b"3");
        follower.start();
        assert_eq!(follower.shown(b"first"), Some(b"1".to_vec()));
        follower.until_shown(b"away", b"3");
        until("equal states", || {
            home.engine().state_hash(None).unwrap() == follower.engine().state_hash(None).unwrap()
        });
    }
}

#[test]
fn a_new_home_has_everything_and_older_readers_are_too_old() {
    let shelf = founded();
    let (first, second) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    first.become_home();
    first.set(b"key", b"value");
    second.until_shown(b"key", b"value");
    let read = second.engine().reader(ALWAYS).unwrap().version;
    second.become_home();
    assert_eq!(second.get(b"key"), Some(b"value".to_vec()));
    let commit = |read_version| {
        second.engine().commit(
            ALWAYS,
            &CommitRequest {
                read_version,
                read_conflicts: vec![KeyRange::point(b"absent")],
                mutations: vec![Mutation::Set {
                    key: b"key".to_vec(),
                    value: b"new".to_vec(),
                }],
                ..CommitRequest::default()
            },
        )
    };
    assert_eq!(commit(read), Err(CommitError::TooOld));
    let now = second.engine().read_version(ALWAYS).version;
    assert!(now > read);
    assert!(commit(now).is_ok());
    let follows = |role: &Role| matches!(role, Role::Following { home: Some(writer), .. } if writer.node == NodeId(2));
    until("the first finds out", || {
        first.engine().arrival(Durability::Always);
        first
            .engine()
            .settled(Dependency::ZERO, first.engine().arrival(Durability::Always));
        follows(&first.engine().role())
    });
    assert_eq!(
        first.engine().replication().roll_backs,
        0,
        "it had nothing to take back"
    );
    first.until_shown(b"key", b"new");
}

/// A deposed home ended its process. It now rolls back its unconfirmed writes, and follows.
#[test]
fn a_deposed_home_rolls_back_unconfirmed_commits() {
    let shelf = founded();
    let (first, second) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    first.become_home();
    first.set(b"key", b"confirmed");
    second.until_shown(b"key", b"confirmed");
    shelf.set_mode(first.client, Mode::CutOff);
    let arrival = first.engine().arrival(Durability::Always);
    let dependency = set(first.engine(), ALWAYS, b"key", b"never");
    set(first.engine(), ALWAYS, b"more", b"never");
    second.become_home();
    second.set(b"key", b"second");
    assert_eq!(first.engine().settled(dependency, arrival), Settled::NotYet);
    shelf.set_mode(first.client, Mode::Well);
    assert!(!first.engine().wait_settled(dependency, arrival), "its home is over");
    first.until_shown(b"key", b"second");
    assert_eq!(first.shown(b"more"), None);
    assert_eq!(first.engine().replication().roll_backs, 1);
    assert!(first.roles.lock().contains(&Role::RollingBack));
    let database = ALWAYS.database;
    assert_eq!(
        first.engine().stored_bytes(database),
        second.engine().stored_bytes(database)
    );
    assert_eq!(
        first.engine().state_hash(None).unwrap(),
        second.engine().state_hash(None).unwrap()
    );
    // And it may be home again.
    first.become_home();
    first.set(b"key", b"third");
    second.until_shown(b"key", b"third");
}

/// A caller that commits first and only then reads since when this node is home mistakes another
/// home's version of the same number for its own: CREATE reported success for a database that did
/// not exist.
#[test]
fn a_commit_rolled_back_with_its_deposed_home_is_not_durable() {
    let shelf = founded();
    let (first, second) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    first.become_home();
    first.set(b"key", b"confirmed");
    second.until_shown(b"key", b"confirmed");
    shelf.set_mode(first.client, Mode::CutOff);
    // The engine calls the lock's waiters once it is free: after the commit, before the wait.
    let (committed, is_committed) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    let once = Mutex::new(Some((committed, may_go_on)));
    let _listening = first.engine().on_free(Arc::new(move || {
        if let Some((committed, may_go_on)) = once.lock().take() {
            committed.send(()).unwrap();
            let _ = may_go_on.recv();
        }
    }));
    std::thread::scope(|threads| {
        let engine = first.engine();
        let committing = threads.spawn(|| {
            engine.execute_durably(ALWAYS, |transaction| {
                transaction.set(b"key", b"never");
                let in_vain = || {
                    let _brief = BriefWaits::begin();
                    assert_eq!(engine.partition_in_time().err(), Some(Busy));
                };
                threads.spawn(in_vain).join().unwrap();
                Ok::<(), ()>(())
            })
        });
        is_committed.recv_timeout(Duration::from_secs(60)).unwrap();
        second.become_home();
        for _ in 0..3 {
            second.set(b"key", b"second");
        }
        shelf.set_mode(first.client, Mode::Well);
        first.until_shown(b"key", b"second");
        until("the other home's is durable here", || {
            engine.durable() >= second.engine().durable()
        });
        go_on.send(()).unwrap();
        assert_eq!(committing.join().unwrap(), Ok(Err(ExecuteError::NotHome)));
    });
}

/// A copy whose target was deposed counted another home's writes there as its own rows, and the
/// catalogue then placed the database where none of it was.
#[test]
fn a_copy_is_not_in_a_target_or_of_a_source_that_was_deposed_meanwhile() {
    let world = World::default();
    let alone = Arc::new(world.open());
    assert!(alone.wait_durable(set(&alone, ALWAYS, b"moved", b"row")));
    let (database, figures) = (ALWAYS.database, || Arc::default());

    let shelf = founded();
    let (mut first, second) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    first.become_home();
    let target = Arc::new(first.engine.take().unwrap());
    shelf.set_mode(first.client, Mode::CutOff);
    let mut copy = DatabaseCopy::begin(&alone, target.clone(), database, figures()).unwrap();
    while copy.copy_some().unwrap() {}
    second.become_home();
    for _ in 0..3 {
        second.set(b"other", b"home's");
    }
    shelf.set_mode(first.client, Mode::Well);
    until("it follows the other home", || {
        target.durable() >= second.engine().durable()
    });
    assert!(matches!(copy.settle(), Err(DatabaseCopyError::Refused)));

    // The reverse: the fence of a former home.
    let source = second.engine();
    let copy = DatabaseCopy::begin(source, alone, database, figures()).unwrap();
    shelf.set_mode(second.client, Mode::CutOff);
    let fence = source.fence(database).unwrap();
    target.take_over();
    until("the first is home again", || {
        matches!(
            target.role(),
            Role::Home {
                condition: Condition::Sure,
                ..
            }
        )
    });
    for _ in 0..3 {
        target.wait_settled(
            set(&target, ALWAYS, b"other", b"home's"),
            target.arrival(Durability::Always),
        );
    }
    shelf.set_mode(second.client, Mode::Well);
    until("it follows the other home", || source.durable() >= target.durable());
    assert!(!source.wait_settled(fence, copy.arrival()));
}

/// An epoch whose answer was lost before the home was deposed is part of the history, and is
/// acknowledged. Its outcome was reported as unknown.
#[test]
fn a_deposed_home_keeps_what_had_landed() {
    let shelf = founded();
    let (first, second) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    first.become_home();
    shelf.set_mode(first.client, Mode::AnswersLost);
    let arrival = first.engine().arrival(Durability::Always);
    let dependency = set(first.engine(), ALWAYS, b"key", b"landed");
    first.engine().settled(dependency, arrival);
    second.until_shown(b"key", b"landed");
    second.become_home();
    second.set(b"behind", b"it");
    shelf.set_mode(first.client, Mode::Well);
    assert!(first.engine().wait_settled(dependency, arrival), "it had landed");
    first.until_shown(b"behind", b"it");
    assert_eq!(first.shown(b"key"), Some(b"landed".to_vec()));
    assert!(first.engine().wait_settled(dependency, arrival), "also later");
}

#[test]
fn a_drained_home_hands_over_and_loses_nothing() {
    let shelf = founded();
    let (first, second) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    first.become_home();
    let arrival = first.engine().arrival(Durability::Always);
    let dependency = set(first.engine(), ALWAYS, b"key", b"value");
    first.engine().drain();
    let drained = |role: &Role| {
        matches!(
            role,
            Role::Home {
                condition: Condition::Drained,
                ..
            }
        )
    };
    until("it is drained", || drained(&first.engine().role()));
    assert!(refused(first.engine()));
    assert!(first.engine().wait_settled(dependency, arrival));
    second.become_home();
    assert_eq!(second.get(b"key"), Some(b"value".to_vec()));
    first
        .engine()
        .settled(Dependency::ZERO, first.engine().arrival(Durability::Always));
    until("it follows", || matches!(first.engine().role(), Role::Following { .. }));
    assert_eq!(first.engine().replication().roll_backs, 0);
}

/// Layers run up to 20 ms beyond the end of their term: a read that arrived at them then was
/// refused as if the database were busy, and a layer that did not check for a home would have
/// answered it. Requests wait instead, until the layers have ended.
#[test]
fn requests_wait_from_the_end_of_a_term_with_layers_until_they_have_ended() {
    let shelf = founded();
    let (first, second) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    let reads = |node: &Node| node.engine().reader(ALWAYS).is_ok();
    let loses_to = |node: &Node, other: &Node| {
        other.become_home();
        node.engine()
            .settled(Dependency::ZERO, node.engine().arrival(Durability::Always));
        until("it follows", || matches!(node.engine().role(), Role::Following { .. }));
    };
    first.become_home();
    first.engine().hold_requests_after_term();
    assert!(reads(&first) && !first.engine().are_requests_held());
    loses_to(&first, &second);
    assert!(!reads(&first) && first.engine().are_requests_held());
    first.engine().resume();
    assert!(reads(&first));
    // A term without layers.
    loses_to(&second, &first);
    assert!(reads(&second));
    // A hold does not outlast the next term's start.
    first.engine().hold_requests_after_term();
    loses_to(&first, &second);
    assert!(!reads(&first));
    first.become_home();
    assert!(reads(&first));
}

/// A home that had handed over and took over again within ten seconds still refused commits.
#[test]
fn a_home_that_has_handed_over_commits_when_it_is_home_again() {
    let shelf = founded();
    let (first, second) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    first.become_home();
    first.engine().drain();
    until("commits are refused", || refused(first.engine()));
    second.become_home();
    first
        .engine()
        .settled(Dependency::ZERO, first.engine().arrival(Durability::Always));
    until("it follows", || matches!(first.engine().role(), Role::Following { .. }));
    first.roles.lock().clear();
    first.become_home();
    let drains = |role: &Role| {
        matches!(
            role,
            Role::Home {
                condition: Condition::Draining | Condition::Drained,
                ..
            }
        )
    };
    let roles = first.roles.lock();
    assert!(!roles.iter().any(drains), "{roles:?}");
}

/// A node of a cluster that stopped flushed its ssd store before its own log was synced. A loss of
/// power between the two left a store that was ahead of the log, which could not be opened.
#[test]
fn a_store_is_not_flushed_ahead_of_its_log_at_the_end() {
    let shelf = founded();
    let home = Node::new(&shelf, 1);
    home.become_home();
    let mut node = Node::down(&shelf, 2);
    node.world.store = Some(StoreKind::Ssd);
    for nth in 1..10 {
        node.start_with(Box::new(|_| {}));
        home.set(b"key", &[nth]);
        node.until_shown(b"key", &[nth]);
        node.world.disk.fail(Operation::Sync, nth.into(), Fault::Error);
        let _ = node.engine.take().unwrap().close();
        node.crash();
    }
    node.start();
    node.until_shown(b"key", &[9]);
}

/// The last record that the sequencer has.
fn records(shelf: &Shelf) -> Vec<(u64, Vec<u8>)> {
    let (from, until) = (place().record_key(LogSequence::ZERO), place().records_end());
    let answer = shelf.ask(&Request::Range {
        from,
        until,
        limit: 1000,
    });
    let Answer::Entries { entries, more: false } = answer else {
        panic!("{answer:?}");
    };
    let numbered = |(key, bytes): (Vec<u8>, Vec<u8>)| Some((place().sequence_of(&key)?.0, bytes));
    entries.into_iter().filter_map(numbered).collect()
}

fn last_record(shelf: &Shelf) -> u64 {
    records(shelf).last().expect("there is a record").0
}

/// The number of records after `before` that have effects.
fn effects_after(shelf: &Shelf, before: u64) -> usize {
    let has_effects = |bytes: &[u8]| {
        let body = Record::decode(bytes).unwrap().body;
        matches!(body, Body::Epoch(_) | Body::Chunk { .. } | Body::Object(_))
    };
    let behind = records(shelf).into_iter().filter(|(at, _)| *at > before);
    behind.filter(|(_, bytes)| has_effects(bytes)).count()
}

/// The outcome of a group when a node has only its first records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// Its last record arrives later.
    GoesOn,
    /// A term starts instead.
    IsCut,
}

/// Two records of a group are at the end of a node's own log when it stops or is killed. It
/// restarts twice while the sequencer is out of reach, with or without a checkpoint.
///
/// A checkpoint in that state was at the last part instead of the last whole record. The next start
/// did not find where in the shared log the node is, took its own log for empty, and stopped at
/// record 1.
fn goes_on_behind_parts(store: StoreKind, has_checkpoint: bool, is_killed: bool, group: Group) {
    let case = format!("{store:?}, checkpoint {has_checkpoint}, killed {is_killed}, {group:?}");
    let shelf = held();
    let home = Node::new(&shelf, 1);
    home.become_home();
    let mut node = Node::down(&shelf, 2);
    node.world.store = Some(store);
    node.start();
    home.set(b"key", b"before");
    node.until_shown(b"key", b"before");
    let last = last_record(&shelf);
    // A row is shown before it is written down.
    until(&case, || node.applied() == last);
    let written = |node: &Node| node.engine().statistics().epochs.load(Ordering::Relaxed);
    let before = written(&node);
    shelf.set_mode(node.client, Mode::CutOff);

    // Three records of one transaction; the third is late.
    let large = &large()[..1_300_000];
    home.set(b"large", large);
    drop(home);
    let third = place().record_key(LogSequence(last + 3));
    let Answer::Value(Some(value)) = shelf.ask(&Request::Get { key: third.clone() }) else {
        panic!("{case}: no third record");
    };
    let change = |operation| {
        shelf.ask(&Request::Transact {
            compares: Vec::new(),
            operations: vec![operation],
            otherwise: Vec::new(),
        })
    };
    change(Change::Delete {
        from: third.clone(),
        until: place().records_end(),
    });
    shelf.set_mode(node.client, Mode::Well);
    until(&case, || written(&node) == before + 2);

    let end = |node: &mut Node| match is_killed {
        false => node.engine.take().unwrap().close().unwrap(),
        true => {
            // A second, with the log synced after it.
            let synced = || node.world.disk.fork();
            until(&case, || {
                let disk = synced();
                disk.crash();
                let alone = Parts::on_one_machine(Arc::new(disk), node.world.clock.clone());
                let log = OwnLog::open(alone, Some(store), &place());
                log.is_ok_and(|log| log.tail() == LogSequence(last + 2))
            });
            node.crash();
        }
    };
    end(&mut node);
    shelf.begin_with(Mode::CutOff);
    node.start();
    until(&case, || node.applied() == last);
    if has_checkpoint {
        node.engine().checkpoint().unwrap();
    }
    end(&mut node);
    shelf.begin_with(Mode::Well);
    match group {
        Group::GoesOn => {
            let (key, lease) = (third, None);
            change(Change::Put { key, value, lease });
        }
        Group::IsCut => {
            let other = Node::new(&shelf, 3);
            other.until_shown(b"key", b"before");
            other.become_home();
            other.set(b"key", b"cut");
        }
    }
    node.start();
    match group {
        Group::GoesOn => node.until_shown(b"large", large),
        Group::IsCut => {
            node.until_shown(b"key", b"cut");
            assert_eq!(node.shown(b"large"), None, "{case}");
        }
    }
    node.become_home();
    node.set(b"key", b"behind");
    let late = Node::new(&shelf, 4);
    late.until_shown(b"key", b"behind");
    until(&case, || {
        late.engine().state_hash(None).unwrap() == node.engine().state_hash(None).unwrap()
    });
}

#[test]
fn a_node_continues_after_parts_of_a_group_at_the_end_of_its_log() {
    for (store, has_checkpoint, is_killed, group) in [
        (StoreKind::Memory, true, false, Group::GoesOn),
        (StoreKind::Memory, true, true, Group::IsCut),
        (StoreKind::Memory, false, true, Group::GoesOn),
        (StoreKind::Ssd, true, false, Group::IsCut),
        (StoreKind::Ssd, true, true, Group::GoesOn),
        (StoreKind::Ssd, false, true, Group::IsCut),
    ] {
        goes_on_behind_parts(store, has_checkpoint, is_killed, group);
    }
}

/// A home with a disk that no longer responded kept reporting to the other nodes that it was alive.
#[test]
fn a_home_that_waits_for_its_disk_says_for_how_long() {
    let home = Node::new(&founded(), 1);
    home.become_home();
    home.set(b"key", b"value");
    let hangs = Arc::new(AtomicBool::new(true));
    let hanging = hangs.clone();
    home.world.disk.before_syncs(Arc::new(move || {
        // Not without an end: a test that fails waits for its engine.
        let until = Instant::now() + Duration::from_secs(60);
        while hanging.load(Ordering::SeqCst) && Instant::now() < until {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }));
    let stalled = || home.engine().replication().stalled_millis;
    until("it waits for its sync", || stalled() > 500);
    assert!(home.engine().is_home());
    hangs.store(false, Ordering::SeqCst);
    until("it goes on", || stalled() < 500);
    home.set(b"key", b"behind it");
}

#[test]
fn all_nodes_take_their_hash_at_the_same_record() {
    let shelf = founded();
    let (home, follower) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    home.become_home();
    home.set(b"key", b"value");
    home.engine().mark();
    let hash = |node: &Node| node.engine().replication().own_hash;
    until("both have one", || hash(&home).is_some() && hash(&follower).is_some());
    assert_eq!(hash(&home), hash(&follower));
    home.set(b"key", b"behind it");
    follower.until_shown(b"key", b"behind it");
    assert_eq!(follower.engine().replication().hash_mismatches, 0);
}

/// Returns the disk of a node with only its log, in which `from` is replaced by `to`. Every
/// checksum is right, and so are the positions in the shared log.
fn changed(disk: &FaultyDisk, from: &[u8], to: &[u8]) -> FaultyDisk {
    let other = FaultyDisk::new();
    let opener = |disk: &FaultyDisk| {
        Box::new(FileLogOpener {
            disk: Arc::new(disk.clone()),
            options: FileLogOptions::default(),
        })
    };
    let mut payloads = Vec::new();
    let mut keep = |_: LogSequence, payload: &[u8]| {
        payloads.push(payload.to_vec());
        Ok(())
    };
    let first = LogSequence::ZERO.next();
    drop(opener(disk).open(first, &mut keep, &mut |_| {}).unwrap());
    let mut log = opener(&other).open(first, &mut |_, _| Ok(()), &mut |_| {}).unwrap();
    for mut payload in payloads {
        if let Some(at) = payload.windows(from.len()).position(|bytes| bytes == from) {
            payload[at..at + to.len()].copy_from_slice(to);
        }
        log.append(log.tail(), &[&payload]).unwrap();
    }
    log.sync().unwrap();
    log.close().unwrap();
    other
}

/// A row of a node differs while all checksums of its files are right, as after a bit flip in
/// memory. The node detects it at the next mark, and shows both hashes: the nodes
/// decide by them which one copies.
#[test]
fn a_state_that_differs_is_found_at_a_mark_and_copied_again() {
    let shelf = held();
    let (home, mut node) = (Node::new(&shelf, 1), Node::down(&shelf, 2));
    home.become_home();
    // It starts from its log only.
    node.world.store = Some(StoreKind::Memory);
    node.start();
    home.set(b"key", b"right value");
    node.until_shown(b"key", b"right value");
    // The figures of the home may be older than its last record.
    let last = last_record(&shelf);
    until("its log is on disk", || node.engine().replication().synced == last);
    node.crash();
    node.world.disk = changed(&node.world.disk, b"right value", b"wrong value");
    node.start();
    assert_eq!(node.shown(b"key"), Some(b"wrong value".to_vec()));
    home.set(b"other", b"follows all the same");
    node.until_shown(b"other", b"follows all the same");
    home.engine().mark();
    until("it is found", || node.engine().replication().hash_mismatches == 1);
    let recorded = node.engine().replication().recorded_hash;
    assert_eq!(recorded, home.engine().replication().own_hash);
    assert_ne!(recorded, node.engine().replication().own_hash);
    assert_eq!(home.engine().replication().hash_mismatches, 0);
    home.set(b"key", b"new value");

    let mut source = home.engine().copy_source().unwrap();
    node.engine = None;
    node.world.disk = FaultyDisk::new();
    let parts = Parts::on_one_machine(Arc::new(node.world.disk.clone()), node.world.clock.clone());
    let mut target = CopyTarget::begin(parts, StoreKind::Memory).unwrap();
    while let Some(bytes) = source.next().unwrap() {
        target.take(&bytes).unwrap();
    }
    target.finish().unwrap();
    node.start();
    node.until_shown(b"key", b"new value");
    let marks = |node: &Node| node.engine().replication().marks;
    let before = marks(&node);
    home.engine().mark();
    until("it takes its hash", || marks(&node) > before);
    home.set(b"behind", b"the home's hash");
    node.until_shown(b"behind", b"the home's hash");
    assert_eq!(node.engine().replication().hash_mismatches, 0);
}

/// The sequencer keeps seconds of the log; a node that was away for longer needs a copy.
#[test]
fn records_that_two_have_synced_are_trimmed_and_an_absent_node_copies() {
    let shelf = founded();
    let (home, follower) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    home.become_home();
    home.set(b"key", b"value");
    follower.until_shown(b"key", b"value");
    until("it is trimmed", || home.engine().replication().trimmed_below > 1);
    let late = Node::new(&shelf, 3);
    until("it needs a copy", || late.engine().role() == Role::Copying);
    assert!(home.applied() > 1);
}

#[test]
fn a_copy_from_a_peer_follows_and_may_be_copied_again() {
    let shelf = founded();
    let (home, mut copied) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    home.become_home();
    let large = vec![7; 300_000];
    home.set(b"large", &large);
    home.set(b"key", b"value");
    copied.until_shown(b"key", b"value");
    for (from_home, value) in [(true, &b"first"[..]), (false, b"second"), (true, b"third")] {
        home.set(b"key", value);
        let follower = Node::new(&shelf, 3);
        follower.until_shown(b"key", value);
        let source = if from_home { &home } else { &follower };
        let mut source = source.engine().copy_source().unwrap();
        home.set(b"meanwhile", value);
        follower.until_shown(b"meanwhile", value);
        copied.engine = None;
        copied.world.disk = FaultyDisk::new();
        let parts = || Parts::on_one_machine(Arc::new(copied.world.disk.clone()), copied.world.clock.clone());
        let mut target = CopyTarget::begin(parts(), copied.world.store.unwrap_or(StoreKind::Memory)).unwrap();
        while let Some(bytes) = source.next().unwrap() {
            // However the bytes are cut on their way.
            bytes.chunks(100_001).for_each(|bytes| target.take(bytes).unwrap());
        }
        target.finish().unwrap();
        copied.start();
        copied.until_shown(b"meanwhile", value);
        assert_eq!(copied.shown(b"large").as_deref(), Some(&large[..]));
        assert_eq!(copied.shown(b"key").as_deref(), Some(value));
        home.set(b"behind", value);
        copied.until_shown(b"behind", value);
        let hash = |node: &Node| node.engine().state_hash(None).unwrap();
        assert_eq!(hash(&copied), hash(&home));
    }
}

/// Bytes of a peer never panic, and parts of a copy are no directory.
#[test]
fn a_copy_that_is_torn_is_refused() {
    let node = Node::new(&founded(), 1);
    assert!(node.engine().copy_source().is_err(), "there is nothing to copy");
    node.become_home();
    node.set(b"key", b"value");
    let mut source = node.engine().copy_source().unwrap();
    let mut bytes = Vec::new();
    while let Some(more) = source.next().unwrap() {
        bytes.extend(more);
    }
    let target = || {
        let (disk, clock) = (Arc::new(FaultyDisk::new()), Arc::new(ManualClock::new(1)));
        CopyTarget::begin(Parts::on_one_machine(disk, clock), StoreKind::Memory).unwrap()
    };
    for end in 0..bytes.len() {
        let mut torn = target();
        torn.take(&bytes[..end]).unwrap();
        assert!(matches!(torn.finish(), Err(CopyError::Malformed)), "{end}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x80;
        let mut damaged = target();
        let _ = damaged.take(&changed);
    }
}

/// Feeds and backups read the own log of any node, and see only transactions.
#[test]
fn a_followers_log_is_read_as_any() {
    let shelf = founded();
    let (home, follower) = (Node::new(&shelf, 1), Node::new(&shelf, 2));
    home.become_home();
    home.set(b"key", b"value");
    follower.until_shown(b"key", b"value");
    let versions = |node: &Node| {
        let mut reader = node.engine().read_log_after(Version::ZERO).unwrap();
        let mut versions = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            let mut transactions = EffectsReader::new(record.payload);
            while let Some((version, _)) = transactions.next_transaction().unwrap() {
                versions.push(version);
            }
        }
        versions
    };
    until("both have the same", || versions(&home) == versions(&follower));
    assert!(versions(&home).len() >= 2);
}

#[test]
fn a_node_of_another_cluster_is_refused_by_name() {
    let shelf = founded();
    let mut node = Node::new(&shelf, 1);
    node.become_home();
    node.set(b"key", b"value");
    node.engine.take().unwrap().close().unwrap();
    let other = Shelf::default();
    other.ask(&Place::new("/test", ClusterId(8), PartitionId(0)).found());
    node.shelf = other;
    node.start();
    let stopped = |role: &Role| matches!(role, Role::Stopped(StopReason::EndsBefore { .. }));
    until("it stops", || stopped(&node.engine().role()));
    let alone = node.world.try_open();
    let refusal = alone.err().expect("a folder of a node is refused").to_string();
    assert!(refusal.contains("cluster"), "{refusal}");
}

#[test]
fn a_directory_of_a_standalone_server_does_not_join() {
    let world = World::default();
    let engine = world.open();
    set(&engine, ALWAYS, b"key", b"value");
    engine.close().unwrap();
    let parts = Parts::on_one_machine(Arc::new(world.disk.clone()), Arc::new(ManualClock::new(1)));
    let replicated = Replicated {
        place: place(),
        me: Writer::default(),
        nodes: 3,
        sequencer: founded().maker(),
        on_role: Box::new(|_| {}),
        budget_bytes: 1 << 20,
        objects: None,
    };
    let failure = Box::new(|_: &_| {});
    let opened = Engine::open_replicated(parts, EngineOptions::default(), replicated, failure, &mut |_| {});
    assert!(opened.err().is_some_and(|error| error.to_string().contains("alone")));
}

// ---- transactions that are kept as objects

/// A cluster without trimming, however long a step takes.
fn held() -> Shelf {
    let shelf = founded();
    let Answer::Lease(lease) = shelf.ask(&Request::Grant { seconds: 10 }) else {
        panic!("no lease");
    };
    shelf.ask(&hold_request(&place(), NodeId(99), LogSequence::ZERO, lease));
    shelf
}

fn with_objects(shelf: &Shelf, id: u64, patience: Duration) -> Node {
    let mut node = Node::down(shelf, id);
    node.objects = Some(ObjectOptions {
        beyond_bytes: 100_000,
        piece_bytes: 64 << 10,
        patience,
    });
    node.start();
    node
}

/// Longer than a home has to wait in these tests.
const PATIENT: Duration = Duration::from_secs(60);

fn large() -> Vec<u8> {
    (0..6_000_000_u32).map(|at| (at >> 8) as u8).collect()
}

fn until_it_takes_objects(node: &Node) {
    until("the object store has answered", || {
        node.engine().replication().object_store_answers
    });
}

/// A transaction of 6 MB is read at the home, at a follower, by a node that starts later, and after
/// a crash of each.
#[test]
fn a_large_transaction_is_an_object_that_every_node_reads() {
    let shelf = held();
    let mut home = with_objects(&shelf, 1, PATIENT);
    let follower = with_objects(&shelf, 2, PATIENT);
    home.become_home();
    until_it_takes_objects(&home);
    let before = home.applied();
    home.set(b"large", &large());
    home.set(b"small", b"behind it");
    // A busy machine may add a record of a term or of a mark.
    assert_eq!(effects_after(&shelf, before), 2, "one record each");
    assert_eq!(shelf.objects().len(), 92 + 1, "its pieces, and the probe");
    follower.until_shown(b"small", b"behind it");
    assert_eq!(follower.shown(b"large"), Some(large()));
    let late = with_objects(&shelf, 3, PATIENT);
    late.until_shown(b"small", b"behind it");
    assert_eq!(late.shown(b"large"), Some(large()));
    home.crash();
    follower.become_home();
    assert_eq!(follower.get(b"large"), Some(large()));
    home.start();
    home.until_shown(b"small", b"behind it");
    assert_eq!(home.shown(b"large"), Some(large()));
}

/// A follower takes over while the record that it reads next points to an object.
#[test]
fn a_take_over_reads_the_object_at_the_end_of_the_log() {
    let shelf = held();
    let (mut home, other) = (with_objects(&shelf, 1, PATIENT), with_objects(&shelf, 2, PATIENT));
    home.become_home();
    until_it_takes_objects(&home);
    shelf.set_mode(other.client, Mode::CutOff);
    home.set(b"large", &large());
    home.crash();
    shelf.set_mode(other.client, Mode::Well);
    other.become_home();
    assert_eq!(other.get(b"large"), Some(large()));
}

/// While the store does not respond, large transactions are refused before they commit, and all
/// others continue.
#[test]
fn while_the_object_store_is_away_only_large_transactions_are_refused() {
    let shelf = held();
    shelf.set_objects(false);
    let home = with_objects(&shelf, 1, PATIENT);
    home.become_home();
    let commit_large = || {
        let executed: Result<_, ExecuteError<()>> = home.engine().partition().execute(ALWAYS, |tx| {
            tx.set(b"large", &large());
            Ok(())
        });
        executed.map(|_| ())
    };
    assert!(matches!(commit_large(), Err(ExecuteError::TooLarge(_))));
    home.set(b"small", b"goes on");
    shelf.set_objects(true);
    until_it_takes_objects(&home);
    assert_eq!(home.get(b"large"), None);
    home.set(b"large", &large());
    assert_eq!(home.get(b"large"), Some(large()));
}

/// The store becomes unreachable after a commit: the home ends its term instead of waiting
/// indefinitely. The commits after the object never happened, and their replies are lost.
#[test]
fn a_home_gives_up_when_the_object_store_stays_away() {
    let shelf = held();
    let home = with_objects(&shelf, 1, Duration::from_millis(300));
    home.become_home();
    until_it_takes_objects(&home);
    home.set(b"before", b"kept");
    shelf.set_objects(false);
    let arrival = home.engine().arrival(Durability::Always);
    let dependency = set(home.engine(), ALWAYS, b"large", &large());
    assert!(!home.engine().wait_settled(dependency, arrival), "its reply is lost");
    until("it follows", || matches!(home.engine().role(), Role::Following { .. }));
    home.become_home();
    assert_eq!(home.get(b"large"), None);
    assert_eq!(home.get(b"before"), Some(b"kept".to_vec()));
    home.set(b"small", b"goes on");
    assert_eq!(home.engine().replication().roll_backs, 1);
}

/// A follower stops at a record for which the store has no object, or another.
#[test]
fn an_object_that_is_lost_stops_a_follower() {
    let shelf = held();
    let (home, follower) = (with_objects(&shelf, 1, PATIENT), with_objects(&shelf, 2, PATIENT));
    home.become_home();
    until_it_takes_objects(&home);
    shelf.set_mode(follower.client, Mode::CutOff);
    home.set(b"large", &large());
    for name in shelf.objects() {
        shelf.ask(&Request::Object(ObjectRequest::Remove { name }));
    }
    shelf.set_mode(follower.client, Mode::Well);
    let lost = |role: &Role| matches!(role, Role::Stopped(StopReason::LostObject { .. }));
    until("it stops", || lost(&follower.engine().role()));
}
