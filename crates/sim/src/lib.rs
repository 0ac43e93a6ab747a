//! A whole engine on one thread, in a world determined by one seed: its disk fails and loses power,
//! the simulation advances its time, and its threads take steps in a seeded order. A checker that
//! knows every commit verifies it.
//!
//! A seed leads to the same hash each time: every failure can be reproduced.

pub mod cluster;
mod judgement;
mod model;
mod own_thread;
pub mod partitions;
mod random;
mod runtime;
mod workload;
mod world;

pub use judgement::{Planted, Violation};

use crate::world::World;

/// How one seed ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Hash of everything that was observed on the way: the same each time the seed is run.
    pub hash: u64,
    pub crashes: u64,
}

/// Times that the engine is opened, and turns of clients in each of its lives, at most.
const LIVES: u64 = 5;
const TURNS_MAX: u64 = 120;

/// Runs one seed.
pub fn run(seed: u64, planted: Option<Planted>) -> Result<Report, Violation> {
    let mut world = World::begin(seed, planted)?;
    for _ in 0..LIVES {
        live(&mut world)?;
        match world.random.one_in(4) && !world.has_failed() {
            true => world.restart()?,
            false => world.crash()?,
        }
    }
    world.audit()?;
    Ok(Report {
        hash: world.hash,
        crashes: world.crashes,
    })
}

/// One life of the engine, up to its end.
fn live(world: &mut World) -> Result<(), Violation> {
    world.open_accounts()?;
    if world.random.one_in(2) {
        world.order_fault();
    }
    let mut open = Vec::new();
    for _ in 0..world.random.below(TURNS_MAX) {
        if world.has_failed() {
            break;
        }
        world.turn(&mut open)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checker_finds_nothing() {
        for seed in 0..50 {
            run(seed, None).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        }
    }

    #[test]
    fn a_seed_run_again_gives_the_same_hash() {
        let mut hashes = std::collections::BTreeSet::new();
        for seed in 0..10 {
            let first = run(seed, None).unwrap();
            assert_eq!(run(seed, None).unwrap(), first, "seed {seed}");
            hashes.insert(first.hash);
        }
        assert_eq!(hashes.len(), 10);
    }

    /// The number of seeds, of a few, that show it.
    fn found(planted: Planted, is_it: fn(&Violation) -> bool) -> usize {
        let outcomes = (0..20).map(|seed| run(seed, Some(planted)));
        outcomes.filter(|outcome| outcome.as_ref().is_err_and(is_it)).count()
    }

    #[test]
    fn the_checker_finds_a_disk_with_false_syncs() {
        let is_it = |violation: &Violation| matches!(violation, Violation::Lost { .. } | Violation::Damage(_));
        assert!(found(Planted::LyingDisk, is_it) > 0);
    }

    #[test]
    fn the_checker_finds_answers_given_too_early() {
        assert!(
            found(Planted::EarlyAnswers, |violation| matches!(
                violation,
                Violation::Lost { .. }
            )) > 0
        );
    }

    #[test]
    fn the_checker_finds_transactions_that_are_not_certified() {
        assert!(
            found(Planted::UncertifiedReads, |violation| matches!(
                violation,
                Violation::Money { .. }
            )) > 0
        );
    }
}
