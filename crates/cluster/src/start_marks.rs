//! The marks that a home makes for nodes that have started: a node takes over by no hand-over
//! before its state was compared at a mark, and the next one of a large database is late.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use quartet_log_replicated::NodeId;

/// A node that ends and starts again and again makes the others hash their states for at most one
/// part in this many of the time.
const SHARE: u32 = 4;

/// The marks of one partition.
#[derive(Clone, Debug, Default)]
pub struct StartMarks {
    /// Nodes that have had their mark and have no hash yet.
    marked_for: BTreeSet<NodeId>,
    last: Option<Instant>,
}

impl StartMarks {
    /// Returns true if the home must make a mark now. `without_hash`: the other running nodes
    /// without a state hash since their start. `took`: the duration of the last hash.
    pub fn is_due(&mut self, without_hash: &BTreeSet<NodeId>, took: Duration, now: Instant) -> bool {
        self.marked_for.retain(|node| without_hash.contains(node));
        let is_early = self
            .last
            .is_some_and(|last| now.saturating_duration_since(last) < took * SHARE);
        if is_early || without_hash.is_subset(&self.marked_for) {
            return false;
        }
        self.marked_for.extend(without_hash);
        self.last = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_secs(10);

    fn nodes(ids: &[u64]) -> BTreeSet<NodeId> {
        ids.iter().copied().map(NodeId).collect()
    }

    #[test]
    fn each_node_that_starts_has_one_mark() {
        let (mut marks, start) = (StartMarks::default(), Instant::now());
        let mut is_due = |ids: &[u64], seconds| marks.is_due(&nodes(ids), TOOK, start + Duration::from_secs(seconds));
        assert!(!is_due(&[], 0));
        assert!(is_due(&[2], 1));
        assert!(!is_due(&[2], 100), "it takes long");
        assert!(is_due(&[2, 3], 101));
        assert!(!is_due(&[], 102) && !is_due(&[3], 103), "marked for a moment ago");
        assert!(is_due(&[3], 141));
    }

    /// A node that ended every two seconds had all others hash their states without a pause.
    #[test]
    fn a_node_that_starts_again_and_again_costs_a_share_of_the_time() {
        let (mut marks, start) = (StartMarks::default(), Instant::now());
        let count = (0..2_000)
            .filter(|second| {
                let without_hash = if second % 2 == 0 { nodes(&[2]) } else { nodes(&[]) };
                marks.is_due(&without_hash, TOOK, start + Duration::from_secs(*second))
            })
            .count();
        assert_eq!(count, 50);
    }
}
