//! How far the sequencer's copy of the log may be dropped.
//!
//! A record may be dropped once it is durable elsewhere: synced by a majority of the configured
//! nodes, two at least, or archived. A node that is being copied holds the records that it still
//! needs; holds are released while the kept records exceed the budget. If copies are missing, no
//! record is dropped, and writes must be refused: records are never trimmed without copies.

use std::collections::VecDeque;

use quartet_model::LogSequence;

/// The places of records other than the sequencer.
#[derive(Clone, Copy, Debug)]
pub struct Copies<'a> {
    /// Nodes configured, whether they report or not.
    pub nodes: usize,
    /// For each node that reports, the last record that it has synced.
    pub synced: &'a [LogSequence],
    /// The last record archived in an object store; `LogSequence::ZERO` without one.
    pub archived: LogSequence,
    /// The lowest record that each node being copied still needs.
    pub holds: &'a [LogSequence],
}

/// A decision about trimming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// Records below this go; at most the last, which always stays.
    pub below: LogSequence,
    /// Nodes being copied have lost records that they need, and restart.
    pub holds_given_up: bool,
    /// More is kept than the budget allows, for want of copies: refuse new writes.
    pub writes_refused: bool,
}

/// Decides which records of a log with the last record `last` to drop, to keep the bytes of
/// `window` within `budget`.
pub fn trim(copies: &Copies<'_>, last: LogSequence, window: &Window, budget: u64) -> Trim {
    let safe = copies.safe().next().min(last);
    let oldest_hold = copies.holds.iter().copied().min().unwrap_or(safe).min(safe);
    let holds_given_up = oldest_hold < safe && window.bytes_from(oldest_hold) > budget;
    Trim {
        below: if holds_given_up { safe } else { oldest_hold },
        holds_given_up,
        writes_refused: window.bytes_from(safe) > budget,
    }
}

impl Copies<'_> {
    /// The last record with enough durable copies.
    fn safe(&self) -> LogSequence {
        let enough = (self.nodes / 2 + 1).max(2);
        let mut synced = self.synced.to_vec();
        synced.sort_unstable_by(|a, b| b.cmp(a));
        let synced_by_nodes = synced.get(enough - 1).copied().unwrap_or(LogSequence::ZERO);
        synced_by_nodes.max(self.archived)
    }
}

/// The bytes of the newest records, in steps of about `STEP_BYTES`. Records appended before the
/// window's start are not counted.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Oldest first; each is the last sequence of its step, and the step's bytes.
    steps: VecDeque<(LogSequence, u64)>,
}

const STEP_BYTES: u64 = 1 << 20;

impl Window {
    /// Counts a record. Records are noted in their order.
    pub fn note(&mut self, sequence: LogSequence, stored_bytes: usize) {
        let stored = stored_bytes as u64;
        match self.steps.back_mut() {
            Some((last, bytes)) if *bytes + stored <= STEP_BYTES => (*last, *bytes) = (sequence, *bytes + stored),
            _ => self.steps.push_back((sequence, stored)),
        }
    }

    /// Forgets steps that are wholly below `below`.
    pub fn forget_below(&mut self, below: LogSequence) {
        while self.steps.front().is_some_and(|(last, _)| *last < below) {
            self.steps.pop_front();
        }
    }

    /// Forgets the oldest steps beyond `bytes_max`. A follower, which does not see what the home
    /// trims, calls this with a little more than the budget.
    pub fn keep(&mut self, bytes_max: u64) {
        while self.bytes_from(LogSequence::ZERO) > bytes_max && self.steps.len() > 1 {
            self.steps.pop_front();
        }
    }

    /// Bytes of the records from `from` on, or up to a step more.
    pub fn bytes_from(&self, from: LogSequence) -> u64 {
        let counted = self.steps.iter().rev().take_while(|(last, _)| *last >= from);
        counted.map(|(_, bytes)| bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodes: usize, synced: &[u64], archived: u64, holds: &[u64], budget: u64) -> Trim {
        let mut window = Window::default();
        (1..=100).for_each(|sequence| window.note(LogSequence(sequence), STEP_BYTES as usize));
        let sequences = |numbers: &[u64]| numbers.iter().copied().map(LogSequence).collect::<Vec<_>>();
        let copies = Copies {
            nodes,
            synced: &sequences(synced),
            archived: LogSequence(archived),
            holds: &sequences(holds),
        };
        trim(&copies, LogSequence(100), &window, budget * STEP_BYTES)
    }

    fn below(below: u64) -> Trim {
        Trim {
            below: LogSequence(below),
            holds_given_up: false,
            writes_refused: false,
        }
    }

    #[test]
    fn a_majority_of_the_configured_nodes_must_have_synced() {
        assert_eq!(check(3, &[100, 90, 10], 0, &[], 100), below(91));
        assert_eq!(check(3, &[100], 0, &[], 100), below(1), "two do not report");
        assert_eq!(check(5, &[100, 90, 80], 0, &[], 100), below(81));
        assert_eq!(check(1, &[100], 0, &[], 100), below(1), "one copy is none");
        assert_eq!(check(2, &[100, 60], 0, &[], 100), below(61));
    }

    #[test]
    fn an_archive_is_copy_enough_and_the_last_record_stays() {
        assert_eq!(check(1, &[100], 70, &[], 100), below(71));
        assert_eq!(check(3, &[100, 100, 100], 0, &[], 100), below(100));
    }

    #[test]
    fn holds_are_kept_within_the_budget() {
        assert_eq!(check(3, &[100, 90], 0, &[50, 70], 60), below(50));
        let given_up = Trim {
            holds_given_up: true,
            ..below(91)
        };
        assert_eq!(check(3, &[100, 90], 0, &[50, 70], 40), given_up);
    }

    #[test]
    fn without_copies_nothing_goes_and_writes_are_refused() {
        let refused = Trim {
            writes_refused: true,
            ..below(11)
        };
        assert_eq!(check(3, &[100, 10], 0, &[], 40), refused);
    }

    #[test]
    fn a_window_counts_in_steps_and_stays_small() {
        let mut window = Window::default();
        (1..=4096).for_each(|sequence| window.note(LogSequence(sequence), 1024));
        assert_eq!(window.bytes_from(LogSequence(1)), 4 << 20);
        assert_eq!(window.bytes_from(LogSequence(4096)), 1 << 20);
        window.keep(2 << 20);
        assert_eq!(window.bytes_from(LogSequence(1)), 2 << 20);
        window.forget_below(LogSequence(4000));
        assert_eq!(window.bytes_from(LogSequence(1)), 1 << 20);
    }
}
