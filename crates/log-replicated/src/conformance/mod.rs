//! The behaviour that the log needs of every sequencer, for two writers of one log, as one check
//! that any implementation's tests can call.
//!
//! Each scenario has a root of its own. Faults are made in front of the sequencer under test, by a
//! client that holds requests back, sends them later, or loses answers; so the scenarios are the
//! same for a model and for a real store.

mod bench;
mod meddler;
mod two_writers;

use std::time::Duration;

use quartet_model::{LogSequence, Version};

use crate::drive;
use crate::follower::{Content, Follower, Hinted};
use crate::home::{Appended, Confirmation, EPOCH_BYTES_MAX, Fate, Outcome};
use crate::place::{Place, cluster_of, put};
use crate::record::BODY_BYTES_MAX;
use crate::sequencer::{Answer, Compare, Event, Operation, Request};
use crate::stop::StopReason;
use crate::take_over::{Progress, TakeOver};
use crate::words::{ClusterId, NodeId, PartitionId};
pub use bench::Connect;
use bench::{Bench, TRIES, epochs, writer};
use meddler::Meddling;
use two_writers::Two;

/// Runs every scenario below `root`, which must be empty, and `seeds` random scenarios. Panics with
/// the name of the scenario if the sequencer deviates from the expected behaviour.
pub fn check(root: &str, seeds: u64, connect: &mut Connect<'_>) {
    for (name, scenario) in SCENARIOS {
        let mut bench = Bench::new(&format!("{root}/{}", name.replace(' ', "-")), connect);
        println!("{name}");
        scenario(&mut bench);
        bench.is_whole();
    }
    for seed in 0..seeds {
        println!("seed {seed}");
        let mut bench = Bench::new(&format!("{root}/seed-{seed}"), connect);
        Two::new(&mut bench, seed).run(STEPS);
        bench.is_whole();
    }
}

/// Runs one random history below `root` for `steps`, with `meddle` between them: the place to
/// disturb the sequencer itself.
pub fn check_disturbed(root: &str, seed: u64, steps: u64, connect: &mut Connect<'_>, meddle: &mut dyn FnMut(u64)) {
    let mut bench = Bench::new(root, connect);
    let mut two = Two::new(&mut bench, seed);
    for step in 0..steps {
        meddle(step);
        two.step();
    }
    two.end();
    bench.is_whole();
}

const STEPS: u64 = 120;

type Scenario = fn(&mut Bench);

const SCENARIOS: [(&str, Scenario); 13] = [
    ("conditions", conditions),
    ("ranges", ranges),
    ("leases", leases),
    ("hints", hints),
    ("founded once", founded_once),
    ("append behind", append_behind),
    ("delayed append after a trim", delayed_append_after_a_trim),
    ("lost answer", lost_answer),
    ("confirmations", confirmations),
    ("trim under a reader", trim_under_a_reader),
    ("take-over at each step", take_over_at_each_step),
    ("claim delayed and lost", claim_delayed_and_lost),
    ("chunks cut by a term", chunks_cut_by_a_term),
];

fn conditions(bench: &mut Bench) {
    let root = bench.place.root().to_owned();
    let key = |name: &str| format!("{root}/x/{name}").into_bytes();
    let (key_one, two, none) = (key("one"), key("two"), key("none"));
    let transact = |compares: &[Compare]| Request::Transact {
        compares: compares.to_vec(),
        operations: vec![put(key_one.clone(), b"1".to_vec()), put(two.clone(), b"2".to_vec())],
        otherwise: vec![two.clone(), none.clone()],
    };
    let value = |key: &Vec<u8>, value: &[u8]| Compare::Value {
        key: key.clone(),
        value: value.to_vec(),
    };
    assert!(matches!(
        bench.ask(transact(&[Compare::Absent(key_one.clone())])),
        Answer::Done { .. }
    ));
    let refused = Answer::Refused {
        values: vec![Some(b"2".to_vec()), None],
    };
    let failing = [
        Compare::Absent(key_one.clone()),
        Compare::Present(none.clone()),
        value(&key_one, b"2"),
        value(&none, b""),
    ];
    for compare in failing {
        let among = [Compare::Present(two.clone()), compare.clone()];
        assert_eq!(bench.ask(transact(&among)), refused, "{compare:?}");
    }
    let all = [
        value(&key_one, b"1"),
        Compare::Present(two.clone()),
        Compare::Absent(none.clone()),
    ];
    assert!(matches!(bench.ask(transact(&all)), Answer::Done { .. }));
    assert_eq!(
        bench.ask(Request::Get { key: key_one }),
        Answer::Value(Some(b"1".to_vec()))
    );
}

fn ranges(bench: &mut Bench) {
    let root = bench.place.root().to_owned();
    let key = |name: u8| [root.as_bytes(), b"/y/", &[name]].concat();
    for name in 0..5 {
        let request = Request::Transact {
            compares: Vec::new(),
            operations: vec![put(key(name), vec![name])],
            otherwise: Vec::new(),
        };
        bench.ask(request);
    }
    let range = |from, until, limit| Request::Range {
        from: key(from),
        until: key(until),
        limit,
    };
    let entries = |names: &[u8], more| Answer::Entries {
        entries: names.iter().map(|name| (key(*name), vec![*name])).collect(),
        more,
    };
    assert_eq!(bench.ask(range(1, 4, 9)), entries(&[1, 2, 3], false));
    assert_eq!(bench.ask(range(1, 4, 3)), entries(&[1, 2, 3], false));
    assert_eq!(bench.ask(range(1, 4, 2)), entries(&[1, 2], true));
    assert_eq!(bench.ask(range(7, 9, 2)), entries(&[], false));
    let delete = Operation::Delete {
        from: key(1),
        until: key(3),
    };
    let request = Request::Transact {
        compares: Vec::new(),
        operations: vec![delete],
        otherwise: Vec::new(),
    };
    let Answer::Done { revision } = bench.ask(request) else {
        panic!("a deletion without conditions is done");
    };
    assert_eq!(bench.ask(Request::Compact { revision }), Answer::Compacted);
    assert_eq!(
        bench.ask(Request::Compact { revision }),
        Answer::Compacted,
        "a second time"
    );
    assert_eq!(bench.ask(range(0, 9, 9)), entries(&[0, 3, 4], false));
}

fn leases(bench: &mut Bench) {
    let Answer::Lease(lease) = bench.ask(Request::Grant { seconds: 60 }) else {
        panic!("a lease is granted");
    };
    let key = bench.place.hold_key(NodeId(1));
    let hold = crate::copies::hold_request(&bench.place, NodeId(1), LogSequence(7), lease);
    assert!(matches!(bench.ask(hold), Answer::Done { .. }));
    let answer = bench.ask(crate::copies::holds_request(&bench.place));
    assert_eq!(crate::copies::holds(&answer), Some(vec![LogSequence(7)]));
    assert_eq!(bench.ask(Request::KeepAlive { lease }), Answer::Lease(lease));
    assert_eq!(bench.ask(Request::Revoke { lease }), Answer::NoLease);
    assert_eq!(
        bench.ask(Request::Get { key }),
        Answer::Value(None),
        "it went with its lease"
    );
    assert_eq!(bench.ask(Request::KeepAlive { lease }), Answer::NoLease);
    assert_eq!(bench.ask(Request::Revoke { lease }), Answer::NoLease);
}

/// Hints may be late, so appends continue until one arrives; each hint is of a present record.
fn hints(bench: &mut Bench) {
    let mut watching = bench.connect();
    let place = bench.place.clone();
    watching.watch(place.record_key(LogSequence::ZERO), place.records_end());
    let mut a = bench.home(1);
    let mut follower = bench.follower();
    drive::catch_up(&mut follower, &mut *watching).unwrap();
    let mut delivered = 0;
    for number in 0..1000 {
        a.append(bench, &[number as u8]);
        while let Some(event) = watching.receive(Duration::from_millis(5)) {
            let Event::Hint(hint) = event else { continue };
            match follower.hint(&hint) {
                Hinted::Delivered(_) => delivered += 1,
                Hinted::Nothing => {}
                Hinted::ReadRange => {
                    drive::catch_up(&mut follower, &mut *watching).unwrap();
                }
            }
        }
        if delivered >= 3 {
            return;
        }
    }
    panic!("hints of 1,000 appends led to {delivered} deliveries");
}

fn founded_once(bench: &mut Bench) {
    let other = Place::new(bench.place.root(), ClusterId(1), PartitionId(0));
    let Answer::Refused { values } = bench.ask(other.found()) else {
        panic!("a second cluster was founded below the same root");
    };
    let meta = values[0].as_deref().and_then(cluster_of);
    assert_eq!(meta, Some(bench.place.cluster));
    let mut follower = Follower::new(other.clone(), other.beginning());
    let mut sequencer = bench.connect();
    let result = drive::take_over(writer(1), &mut follower, &mut *sequencer, TRIES, &mut |_| {}, &|| {
        Version::ZERO
    });
    assert_eq!(result.unwrap_err(), StopReason::NotThisCluster.into());
}

/// An outdated writer changes nothing, whether it is of an older term or a forgotten copy within
/// its own.
fn append_behind(bench: &mut Bench) {
    let mut a = bench.home(1);
    a.append(bench, b"one");
    let mut copy = a.clone();
    a.append(bench, b"two");
    let foreign = StopReason::ForeignRecord { at: LogSequence(3) };
    assert_eq!(copy.try_append(bench, b"another two"), Outcome::Stopped(foreign));
    let mut b = bench.home(2);
    let Outcome::Deposed { by, fate } = a.try_append(bench, b"three") else {
        panic!("appended behind a later term");
    };
    assert_eq!((by, fate), (*b.home.term(), Fate::Never));
    assert_eq!(a.home.append(b"four"), Err(crate::home::AppendError::Over));
    b.append(bench, b"three of b");
    bench.holds(&[b"one", b"two", b"three of b"]);
}

/// A copy of an append is delivered after its record, and its neighbours, were trimmed: within the
/// term and after it.
fn delayed_append_after_a_trim(bench: &mut Bench) {
    let mut a = bench.home(1);
    a.append(bench, b"one");
    bench.meddler.next = Some(Meddling::Hold);
    assert!(matches!(a.once(bench, b"delayed"), Outcome::Unknown(_)));
    assert!(matches!(a.resume(bench), Outcome::Done(_)));
    for number in 0..5 {
        a.append(bench, &[number]);
    }
    bench.trim(&a.home, a.home.tail().sequence);
    assert_eq!(bench.release(), [false], "a trimmed place was written again");

    bench.meddler.next = Some(Meddling::Hold);
    assert!(matches!(a.once(bench, b"never"), Outcome::Unknown(_)));
    let mut b = bench.home(2);
    for number in 0..5 {
        b.append(bench, &[number]);
    }
    bench.trim(&b.home, b.home.tail().sequence);
    assert_eq!(bench.release(), [false], "an append behind a later term landed");
    let Outcome::Deposed { fate, .. } = a.resume(bench) else {
        panic!("appended behind a later term");
    };
    assert_eq!(fate, Fate::Never, "its place is that of the Term record");
}

fn lost_answer(bench: &mut Bench) {
    let mut a = bench.home(1);
    bench.meddler.next = Some(Meddling::LoseAnswer);
    assert!(matches!(a.once(bench, b"one"), Outcome::Unknown(_)));
    let landed = Appended {
        sequence: LogSequence(2),
        is_whole: true,
    };
    assert_eq!(a.resume(bench), Outcome::Landed(landed));
    a.append(bench, b"two");
    bench.holds(&[b"one", b"two"]);

    // Its answer is lost, another takes over, and its place is trimmed: it happened all the same.
    bench.meddler.next = Some(Meddling::LoseAnswer);
    assert!(matches!(a.once(bench, b"three"), Outcome::Unknown(_)));
    let mut b = bench.home(2);
    b.append(bench, b"four");
    bench.holds(&[b"one", b"two", b"three", b"four"]);
    let mut late = a.clone();
    let Outcome::Deposed { fate, .. } = a.resume(bench) else {
        panic!("appended behind a later term");
    };
    assert_eq!(fate, Fate::Landed);
    bench.trim(&b.home, b.home.tail().sequence);
    let mut later = late.clone();
    let Outcome::Deposed { fate, .. } = late.resume(bench) else {
        panic!("appended behind a later term");
    };
    assert_eq!(fate, Fate::Landed, "the next term began behind it");
    bench.home(1);
    let Outcome::Deposed { fate, .. } = later.resume(bench) else {
        panic!("appended behind a later term");
    };
    assert_eq!(fate, Fate::Unknown, "two terms later there is no trace");
}

fn confirmations(bench: &mut Bench) {
    let mut a = bench.home(1);
    let early = a.home.arrival();
    assert!(!a.home.is_confirmed(early));
    assert_eq!(a.confirm(bench), Confirmation::Confirmed);
    assert!(a.home.is_confirmed(early));
    let before = a.home.arrival();
    a.append(bench, b"one");
    assert!(a.home.is_confirmed(before), "an append confirms");
    let b = bench.home(2);
    let late = a.home.arrival();
    let Confirmation::Deposed { by, fate: None } = a.confirm(bench) else {
        panic!("confirmed behind a later term");
    };
    assert_eq!(by, *b.home.term());
    assert!(!a.home.is_confirmed(late));
}

fn trim_under_a_reader(bench: &mut Bench) {
    let mut a = bench.home(1);
    for number in 0..10 {
        a.append(bench, &[number]);
    }
    let mut behind = bench.follower();
    let Ok((deliveries, true)) = behind.take(bench.ask(Request::Range {
        from: bench.place.record_key(LogSequence::ZERO),
        until: bench.place.records_end(),
        limit: 3,
    })) else {
        panic!("three records of eleven can be read");
    };
    assert_eq!(deliveries.len(), 3);
    let mut ahead = bench.follower();
    bench.catch_up(&mut ahead).unwrap();
    bench.trim(&a.home, LogSequence(8));
    let trimmed = StopReason::Trimmed {
        next: LogSequence(4),
        first: LogSequence(8),
    };
    assert_eq!(bench.catch_up(&mut behind), Err(trimmed.into()));
    bench.trim(&a.home, LogSequence(u64::MAX));
    a.append(bench, b"behind the trim");
    let deliveries = bench.catch_up(&mut ahead).unwrap();
    assert_eq!(deliveries.len(), 1, "who has the last record needs none before");
    assert_eq!(deliveries[0].content, Content::Epoch(b"behind the trim".to_vec()));
}

/// One node takes over while, before one of its steps, the log moves: the home appends, trims, or a
/// third node takes over.
fn take_over_at_each_step(bench: &mut Bench) {
    let mut home = bench.home(1);
    for number in 0..40 {
        home.append(bench, &[number]);
    }
    for step in 0..5 {
        for disturbance in 0..3 {
            let mut between = |bench: &mut Bench| match disturbance {
                0 => home.append(bench, b"between"),
                1 => {
                    home.append(bench, b"before a trim");
                    bench.trim(&home.home, LogSequence(home.home.tail().sequence.0 - 1));
                }
                _ => home = bench.home(3),
            };
            let mut slow = bench.slow_home(4, step, &mut between);
            let Outcome::Deposed { fate, .. } = home.try_append(bench, b"late") else {
                panic!("appended behind a later term");
            };
            assert_eq!(fate, Fate::Never);
            slow.append(bench, b"of the new home");
            home = slow;
        }
    }
}

/// The claim's answer is lost; the claim is lost; the claim arrives after another's.
fn claim_delayed_and_lost(bench: &mut Bench) {
    let mut a = bench.home(1);
    for meddling in [Meddling::LoseAnswer, Meddling::Hold] {
        bench.meddler.next = Some(meddling);
        let mut b = bench.home(2);
        assert!(matches!(a.try_append(bench, b"late"), Outcome::Deposed { .. }));
        b.append(bench, b"of b");
        assert!(bench.release().iter().all(|done| !done), "a claim won twice");
        b.append(bench, b"of b again");
        a = b;
    }
    // An abandoned claim that arrives later starts a term all the same. The next attempt continues
    // from there.
    let mut follower = bench.follower();
    let mut given_up = TakeOver::new(writer(3));
    bench.until_ready(&mut given_up, &mut follower);
    given_up.claim(&follower, Version(5));
    bench.meddler.next = Some(Meddling::Hold);
    let answer = drive::ask(&mut bench.meddler, given_up.request(&mut follower).unwrap());
    assert!(matches!(given_up.answered(&mut follower, answer), Ok(Progress::Again)));
    assert_eq!(bench.release(), [true]);
    assert!(matches!(a.try_append(bench, b"late"), Outcome::Deposed { .. }));
    bench.home(4).append(bench, b"of d");
}

/// A home is deposed between the chunks of an epoch. The epoch never happened, for a reader from
/// the start and for a reader that had read the first chunk.
fn chunks_cut_by_a_term(bench: &mut Bench) {
    let mut a = bench.home(1);
    let long: Vec<u8> = (0..2 * BODY_BYTES_MAX as u32 + 7).map(|at| (at >> 10) as u8).collect();
    assert!(a.home.append(vec![0; EPOCH_BYTES_MAX + 1]).is_err());
    let mut reader = bench.follower();
    a.home.append(&long).unwrap();
    let Outcome::Done(first) = a.step(bench) else {
        panic!("the first chunk was not appended");
    };
    assert!(!first.is_whole && a.home.is_appending());
    bench.catch_up(&mut reader).unwrap();
    assert!(reader.is_within_group());
    let mut b = bench.home(2);
    b.append(bench, b"short");
    let Outcome::Deposed { fate, .. } = a.resume(bench) else {
        panic!("appended behind a later term");
    };
    assert_eq!(fate, Fate::Never);
    let contents = epochs(bench.catch_up(&mut reader).unwrap());
    assert_eq!(contents, [b"short".to_vec()]);
    bench.holds(&[b"short"]);
    b.append(bench, &long);
    assert_eq!(epochs(bench.catch_up(&mut reader).unwrap()), [long]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Chaos, ModelSequencer, World};

    #[test]
    fn the_model_conforms() {
        let world = World::new(1, Chaos::default());
        check("/model", 200, &mut || Box::new(ModelSequencer::new(&world)));
    }

    #[test]
    fn the_model_conforms_over_a_bad_network() {
        for seed in 0..50 {
            let chaos = Chaos {
                lost_requests: 20,
                lost_answers: 20,
                duplicates: 10,
                late_requests: 20,
                late_answers: 20,
                lost_hints: 5,
                late: Duration::from_secs(3),
            };
            let world = World::new(seed, chaos);
            check_disturbed(
                "/model",
                seed,
                STEPS,
                &mut || Box::new(ModelSequencer::new(&world)),
                &mut |_| {},
            );
        }
    }
}
