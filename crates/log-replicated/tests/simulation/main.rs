//! Two or three nodes over the model of a sequencer, on one thread from one seed: homes append and
//! confirm, followers read and take over, nodes crash and lose unsynced data, are suspended and
//! resumed, are disconnected; everything is trimmed after them. A checker that sees the sequencer's
//! journal and all disks replays the log.
//!
//! Mistakes are planted one at a time, in the nodes and not in the library, and the checker must
//! find each.

mod cluster;
mod fault;
mod judge;
mod node;

use std::collections::BTreeMap;

use cluster::{Report, run};
use fault::Fault;

/// More with `LOG_SEEDS=10000`.
fn seeds() -> u64 {
    let variable = std::env::var("LOG_SEEDS").ok();
    variable.map_or(100, |seeds| seeds.parse().expect("LOG_SEEDS is a number"))
}

#[test]
fn no_seed_breaks_the_log() {
    let mut reached: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..seeds() {
        let report = run(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        for (state, count) in report.reached {
            *reached.entry(state).or_default() += count;
        }
    }
    println!("{reached:#?}");
    let rare = [
        "answers unknown",
        "append had landed",
        "claim won",
        "copied from a peer",
        "deposed: landed",
        "deposed: never",
        "deposed by a confirmation",
        "epochs acknowledged",
        "group cut by a term",
        "node crashed",
        "reads answered",
        "records trimmed",
    ];
    for state in rare {
        assert!(reached.contains_key(state), "no seed reached `{state}`");
    }
}

#[test]
fn a_seed_run_twice_gives_one_hash() {
    let hash = |seed| run(seed, None).map(|report: Report| report.hash);
    for seed in 0..5 {
        assert_eq!(hash(seed), hash(seed), "seed {seed}");
    }
    assert_ne!(hash(0), hash(1));
}

#[test]
fn every_planted_fault_is_found() {
    for fault in Fault::ALL {
        let failure = (0..1000).find_map(|seed| Some((seed, run(seed, Some(fault)).err()?)));
        let (seed, violation) = failure.unwrap_or_else(|| panic!("{fault:?} was not found in 1,000 seeds"));
        println!("{fault:?}: seed {seed}: {violation}");
        assert!(fault.explains(&violation), "{fault:?} was found as: {violation}");
    }
}

/// A free sequence with a present predecessor implies that the term is the home's. It is compared
/// as well, so that a log that has lost a record never gets appends of two homes.
#[test]
fn the_other_two_conditions_imply_the_term() {
    for seed in 0..20 {
        let report = run(seed, Some(Fault::WithoutTermAlone));
        assert!(report.is_ok(), "seed {seed}: {}", report.err().expect("a violation"));
    }
}
