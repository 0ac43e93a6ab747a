//! Random histories against the simplest log there is: a vector, and how much of it was synced.

use super::{open_from, payload};
use proptest::prelude::*;
use quartet_env::FaultyDisk;
use quartet_log::Log;
use quartet_model::LogSequence;

#[derive(Clone, Debug)]
enum Step {
    Append(u64),
    Sync,
    Confirm,
    /// Trims below this percentage of the durable records.
    Trim(u64),
    Restart,
    LosePower(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..1500u64).prop_map(Step::Append),
        4 => Just(Step::Sync),
        2 => Just(Step::Confirm),
        1 => (0..=100u64).prop_map(Step::Trim),
        1 => Just(Step::Restart),
        2 => any::<u64>().prop_map(Step::LosePower),
    ]
}

/// The log, and what it should hold.
struct Run {
    disk: FaultyDisk,
    opened: super::Opened,
    /// Payload of sequence `index + 1`.
    expected: Vec<Vec<u8>>,
    durable: u64,
    /// The checkpoint covers everything below.
    replay_from: u64,
}

const SEGMENT_BYTES: u64 = 3000;

impl Run {
    fn new() -> Run {
        let disk = FaultyDisk::new();
        let opened = open_from(&disk, SEGMENT_BYTES, 1).unwrap();
        Run {
            disk,
            opened,
            expected: Vec::new(),
            durable: 0,
            replay_from: 1,
        }
    }

    fn step(&mut self, step: Step) {
        let log = &mut self.opened.log;
        match step {
            Step::Append(bytes) => {
                self.expected.push(payload(bytes + 1, bytes));
                log.append(log.tail(), &[&self.expected[self.expected.len() - 1]])
                    .unwrap();
            }
            Step::Sync => self.durable = log.sync().unwrap().0,
            Step::Confirm => log.mark_durable().unwrap(),
            Step::Trim(percent) => {
                self.replay_from = self.replay_from.max(self.durable * percent / 100 + 1);
                log.trim_below(LogSequence(self.replay_from)).unwrap();
            }
            Step::Restart => self.reopen(self.expected.len() as u64),
            Step::LosePower(seed) => {
                self.disk.crash_keeping_some(seed);
                self.reopen(self.durable);
            }
        }
        assert_eq!(self.opened.log.tail().0, self.expected.len() as u64);
    }

    /// Opens the log again, which must hold at least the first `acknowledged` records.
    fn reopen(&mut self, acknowledged: u64) {
        self.opened = open_from(&self.disk, SEGMENT_BYTES, self.replay_from).unwrap();
        let tail = self.opened.log.tail().0;
        assert!((acknowledged..=self.expected.len() as u64).contains(&tail));
        self.expected.truncate(tail as usize);
        self.durable = tail;
        let expected =
            (self.replay_from..=tail).map(|sequence| (sequence, self.expected[sequence as usize - 1].clone()));
        assert_eq!(self.opened.records, expected.collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_agree_with_a_vector(steps in prop::collection::vec(step(), 1..80)) {
        let mut run = Run::new();
        steps.into_iter().for_each(|step| run.step(step));
        let kept = run.expected.len() as u64;
        run.reopen(kept);
    }
}
