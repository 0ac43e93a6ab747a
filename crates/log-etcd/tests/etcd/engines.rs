//! Whole engines that share a log over etcd.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quartet_engine::{Condition, Durability, Engine, EngineOptions, ExecuteError, Parts, Replicated, Role, Space};
use quartet_env::{FaultyDisk, SystemClock};
use quartet_log_etcd::{Etcd, EtcdOptions};
use quartet_log_replicated::{ClusterId, NodeId, PartitionId, Place, Writer, drive};
use quartet_model::{DatabaseId, LayerId};

use crate::members::Members;
use crate::open;

const SPACE: Space = Space {
    database: DatabaseId(1),
    layer: LayerId::Redis,
    durability: Durability::Always,
};

fn node(options: &EtcdOptions, place: &Place, id: u64) -> Engine {
    let (options, place) = (options.clone(), place.clone());
    let replicated = Replicated {
        place,
        me: Writer {
            node: NodeId(id),
            incarnation: id,
        },
        nodes: 3,
        sequencer: Box::new(move |waker| Box::new(Etcd::open_waking(&options, waker).expect("the members are fit"))),
        on_role: Box::new(|_| {}),
        budget_bytes: 16 << 20,
        objects: None,
    };
    let parts = Parts::on_one_machine(Arc::new(FaultyDisk::new()), Arc::new(SystemClock));
    let failure = Box::new(|error: &_| panic!("the own log failed: {error}"));
    Engine::open_replicated(parts, EngineOptions::default(), replicated, failure, &mut |_| {}).expect("it opens")
}

fn until(condition: &str, mut holds: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < patience, "{condition}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

fn become_home(engine: &Engine) {
    engine.take_over();
    let sure = |role: Role| {
        matches!(
            role,
            Role::Home {
                condition: Condition::Sure,
                ..
            }
        )
    };
    until("it becomes home", || sure(engine.role()));
}

/// Writes until it is acknowledged; a refused commit has not happened.
fn set(engine: &Engine, key: &str, value: &str) {
    until("it is acknowledged", || {
        let arrival = engine.arrival(Durability::Always);
        let executed: Result<_, ExecuteError<()>> = engine.partition().execute(SPACE, |tx| {
            tx.set(key.as_bytes(), value.as_bytes());
            Ok(())
        });
        match executed {
            Ok(((), dependency)) => engine.wait_settled(dependency, arrival),
            Err(ExecuteError::NotHome) => false,
            Err(error) => panic!("{error:?}"),
        }
    });
}

fn shown(engine: &Engine, key: &str) -> Option<Vec<u8>> {
    engine.reader(SPACE).expect("nobody keeps the lock").get(key.as_bytes())
}

/// The home writes while etcd's leader is killed, another node takes over, and everything
/// acknowledged is present at all of them.
#[test]
#[ignore = "needs etcd: ./test etcd"]
fn engines_share_a_log_over_etcd() {
    let mut members = Members::start(3);
    let options = members.options();
    let at = |id| Place::new("/engines", ClusterId(id), PartitionId(0));
    let place = drive::join(&mut *open(&options), &at(77)).expect("it is founded");
    let again = drive::join(&mut *open(&options), &at(78));
    assert_eq!(again, Ok(place.clone()));
    let nodes: Vec<Engine> = (1..=3).map(|id| node(&options, &place, id)).collect();
    become_home(&nodes[0]);
    let mut down = None;
    for number in 0..300 {
        match number {
            100 => down = Some(members.kill_leader()),
            200 => down.take().into_iter().for_each(|member| members.run(member)),
            _ => {}
        }
        set(&nodes[0], &format!("key/{number}"), "first");
    }
    become_home(&nodes[1]);
    for number in 0..300 {
        assert_eq!(
            shown(&nodes[1], &format!("key/{number}")).as_deref(),
            Some(&b"first"[..])
        );
    }
    set(&nodes[1], "key/0", "second");
    for node in &nodes {
        until("it follows", || shown(node, "key/0").as_deref() == Some(b"second"));
    }
    let hashes: Vec<u128> = nodes
        .iter()
        .map(|node| node.state_hash(None).expect("it is read"))
        .collect();
    assert!(hashes.iter().all(|hash| *hash == hashes[0]));
    let figures = nodes[1].replication();
    assert!(figures.appends > 0 && figures.term == 2, "{figures:?}");
    until("records are trimmed", || nodes[1].replication().trimmed_below > 100);
}
