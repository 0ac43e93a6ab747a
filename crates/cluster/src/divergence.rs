//! The comparison of state hashes: a node with another state than most never serves.
//!
//! Each node takes its state hash at the same records (marks), and the home appends its own to the
//! log. A node could become home before it had compared its hash, and all others would have copied
//! its state. So nodes publish their hashes, and the majority of those at one record decides:
//!
//! | hashes at the last mark of this node      | verdict                                        |
//! |-------------------------------------------|------------------------------------------------|
//! | more than half are its own                | `Agrees`                                       |
//! | more than half are another                | `Differs`: it copies                           |
//! | neither, and another node has yet to hash | `Undecided`: it waits for that node            |
//! | neither, and another has a later hash     | `Undecided`: this node's next hash decides     |
//! | neither, and the log has a hash           | `Agrees` or `Differs`, by that hash            |
//! | neither, and the log has none             | `Undecided`: it does not become home           |
//! | no other hash                             | `Unknown`                                      |
//!
//! A hash once read counts even after its node has ended: otherwise a node in doubt would become
//! home once the node that it differs from is lost. A doubt ends only by a verdict.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use quartet_engine::StateHash;
use quartet_log_replicated::NodeId;

/// Time within which a slower node takes its state hash, for a comparison without a majority.
const DECIDE_WITHIN: Duration = Duration::from_secs(60);

/// The state hashes of a partition that a node has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hashes {
    /// The node's own at its last mark.
    pub own: Option<StateHash>,
    /// The last hash in the log: its home's.
    pub recorded: Option<StateHash>,
    /// The last one of each other configured node; `None` if that node has none, or does not run.
    pub other_hashes: BTreeMap<NodeId, Option<StateHash>>,
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// No hash of another node at the record is known.
    #[default]
    Unknown,
    /// The node and the majority have one state.
    Agrees,
    /// The hashes differ without a majority.
    Undecided,
    /// The node has a state of a minority.
    Differs,
}

/// One node's conclusions from the state hashes of a partition.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The last hash of each other configured node, running or not.
    other_hashes: BTreeMap<NodeId, StateHash>,
    undecided_since: Option<Instant>,
    verdict: Verdict,
    has_agreed: bool,
}

impl Comparison {
    /// Compares the newest hashes.
    pub fn compare(&mut self, hashes: &Hashes, now: Instant) -> Verdict {
        self.other_hashes
            .retain(|node, _| hashes.other_hashes.contains_key(node));
        let read = hashes.other_hashes.iter();
        self.other_hashes
            .extend(read.filter_map(|(node, hash)| Some((*node, (*hash)?))));
        let other_hashes = hashes.other_hashes.keys();
        let latest = Hashes {
            other_hashes: other_hashes
                .map(|node| (*node, self.other_hashes.get(node).copied()))
                .collect(),
            ..*hashes
        };
        self.verdict = match (latest.verdict(true), self.undecided_since) {
            (Verdict::Unknown, Some(_)) => Verdict::Undecided,
            (Verdict::Undecided, since) => {
                let since = *self.undecided_since.insert(since.unwrap_or(now));
                latest.verdict(now.saturating_duration_since(since) < DECIDE_WITHIN)
            }
            (verdict, _) => verdict,
        };
        if self.verdict == Verdict::Agrees {
            self.undecided_since = None;
            self.has_agreed = true;
        }
        self.verdict
    }

    /// Returns true once a comparison since the node's start had the verdict `Agrees`.
    pub fn has_agreed(&self) -> bool {
        self.has_agreed
    }

    /// Returns true while the node's state differs from another node's and no majority has decided
    /// for it: it is neither served again nor copied.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.verdict, Verdict::Undecided | Verdict::Differs)
    }
}

impl Hashes {
    /// Compares the node's hash with the others. `waits`: nodes without a hash at its record count
    /// as undecided.
    pub fn verdict(&self, waits: bool) -> Verdict {
        let Some(own) = self.own else {
            return Verdict::Unknown;
        };
        let at_record = |hash: &&StateHash| hash.at == own.at;
        let recorded = self.recorded.as_ref().filter(at_record).map(|hash| hash.hash);
        let other_hashes = self.other_hashes.values().flatten().filter(at_record);
        let other_hashes: Vec<u128> = other_hashes.map(|hash| hash.hash).collect();
        let is_alike = |hash: &u128| *hash == own.hash;
        if other_hashes.iter().chain(&recorded).all(is_alike) {
            return match other_hashes.is_empty() && recorded.is_none() {
                true => Verdict::Unknown,
                false => Verdict::Agrees,
            };
        }
        let votes = other_hashes.len() + 1;
        let count = |hash: u128| other_hashes.iter().filter(|other| **other == hash).count();
        if votes >= 3 && 2 * (count(own.hash) + 1) > votes {
            return Verdict::Agrees;
        }
        if other_hashes
            .iter()
            .any(|hash| *hash != own.hash && 2 * count(*hash) > votes)
        {
            return Verdict::Differs;
        }
        let is_awaited = |hash: &Option<StateHash>| hash.is_none_or(|hash| hash.at < own.at);
        // Its hash at this record was replaced, and may have been this node's: the next decides.
        let is_ahead = |hash: &StateHash| hash.at > own.at;
        match recorded {
            _ if self.other_hashes.values().flatten().any(is_ahead) => Verdict::Undecided,
            _ if waits && self.other_hashes.values().any(is_awaited) => Verdict::Undecided,
            Some(recorded) if recorded == own.hash => Verdict::Agrees,
            Some(_) => Verdict::Differs,
            None => Verdict::Undecided,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quartet_model::LogSequence;

    use super::*;

    fn at(at: u64, hash: u128) -> Option<StateHash> {
        let at = LogSequence(at);
        Some(StateHash { at, hash })
    }

    fn numbered(hashes: &[Option<StateHash>]) -> BTreeMap<NodeId, Option<StateHash>> {
        (2..).map(NodeId).zip(hashes.iter().copied()).collect()
    }

    fn verdict(own: u128, recorded: Option<u128>, other_hashes: &[Option<StateHash>]) -> Verdict {
        let hashes = Hashes {
            own: at(9, own),
            recorded: recorded.and_then(|hash| at(9, hash)),
            other_hashes: numbered(other_hashes),
        };
        hashes.verdict(true)
    }

    /// A follower with another state became home before its next comparison, and both other nodes
    /// copied it. The recorded home may differ as well.
    #[test]
    fn the_majority_decides_and_between_two_the_log() {
        for (own, recorded, other_hashes, expected) in [
            (1, None, vec![], Verdict::Unknown),
            (1, None, vec![at(8, 2)], Verdict::Unknown),
            (1, None, vec![at(9, 1)], Verdict::Agrees),
            (1, Some(1), vec![], Verdict::Agrees),
            (1, Some(2), vec![at(9, 1), at(9, 2)], Verdict::Agrees),
            (2, Some(2), vec![at(9, 1), at(9, 1)], Verdict::Differs),
            (1, None, vec![at(9, 2)], Verdict::Undecided),
            (1, Some(1), vec![at(9, 2)], Verdict::Agrees),
            (1, Some(2), vec![at(9, 2)], Verdict::Differs),
            (1, Some(2), vec![], Verdict::Differs),
            (1, Some(2), vec![at(9, 2), at(8, 0)], Verdict::Undecided),
            (1, Some(2), vec![at(9, 2), None], Verdict::Undecided),
            (1, Some(2), vec![at(10, 1), at(10, 2)], Verdict::Undecided),
            (1, Some(3), vec![at(9, 2), at(9, 3)], Verdict::Differs),
            (1, None, vec![at(9, 2), at(9, 3)], Verdict::Undecided),
        ] {
            assert_eq!(
                verdict(own, recorded, &other_hashes),
                expected,
                "{own} {recorded:?} {other_hashes:?}"
            );
        }
        let hashes = Hashes {
            own: at(9, 1),
            recorded: at(9, 2),
            other_hashes: numbered(&[at(9, 2), None]),
        };
        assert_eq!(hashes.verdict(false), Verdict::Differs, "it has waited long enough");
    }

    /// Two nodes had other states than each other at the home's end. Each stays in doubt, for as
    /// long as no third node or record of the log decides, and although the other one ends.
    #[test]
    fn a_doubt_lasts_until_a_verdict() {
        let start = Instant::now();
        let mut node = Comparison::default();
        let mut compare = |own, recorded, other_hashes: &[Option<StateHash>], seconds| {
            let other_hashes = numbered(other_hashes);
            let hashes = Hashes {
                own,
                recorded,
                other_hashes,
            };
            node.compare(&hashes, start + Duration::from_secs(seconds))
        };
        assert_eq!(compare(at(8, 1), None, &[at(8, 1), at(8, 1)], 0), Verdict::Agrees);
        assert_eq!(compare(at(9, 1), None, &[at(8, 1), at(8, 1)], 0), Verdict::Unknown);
        assert_eq!(compare(at(9, 1), None, &[at(9, 2), at(8, 1)], 1), Verdict::Undecided);
        assert_eq!(compare(at(9, 1), None, &[None, None], 2), Verdict::Undecided);
        assert_eq!(compare(at(11, 1), None, &[None, None], 30), Verdict::Undecided);
        assert_eq!(compare(at(11, 1), None, &[at(11, 2), None], 31), Verdict::Undecided);
        assert_eq!(compare(at(11, 1), None, &[at(11, 2), None], 61), Verdict::Undecided);
        assert_eq!(
            compare(at(11, 1), at(11, 1), &[at(11, 2), None], 62),
            Verdict::Agrees,
            "the time is over, and the log decides"
        );
        assert_eq!(compare(at(12, 1), None, &[None, None], 63), Verdict::Unknown);
        assert_eq!(compare(at(12, 1), None, &[at(12, 2), None], 64), Verdict::Undecided);
        // The second node has ended, and its hash counts.
        assert_eq!(compare(at(12, 1), None, &[None, at(12, 2)], 65), Verdict::Differs);
        // An operator has removed one of them.
        assert_eq!(compare(at(12, 1), None, &[None], 66), Verdict::Undecided);
    }

    proptest! {
        /// Nodes with different states at one record never all agree, and never all differ where
        /// the log has a hash of one of them.
        #[test]
        fn no_two_states_agree(states in prop::collection::vec(0_u128..3, 2..6), home in 0_usize..6) {
            for recorded in [None, Some(states[home % states.len()])] {
                let judged: Vec<(u128, Verdict)> = (0..states.len()).map(|node| {
                    let mut other_hashes = states.clone();
                    let own = other_hashes.remove(node);
                    let other_hashes: Vec<_> = other_hashes.into_iter().map(|hash| at(9, hash)).collect();
                    (own, verdict(own, recorded, &other_hashes))
                }).collect();
                let agree: Vec<u128> = judged.iter().filter(|(_, verdict)| *verdict == Verdict::Agrees).map(|(own, _)| *own).collect();
                prop_assert!(agree.iter().all(|own| *own == agree[0]), "{judged:?}");
                prop_assert!(recorded.is_none() || !agree.is_empty(), "{judged:?}");
            }
        }
    }
}
