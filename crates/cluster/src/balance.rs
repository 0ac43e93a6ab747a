//! The choice of the next home to move, so that all nodes have about the same number of homes.

use std::collections::BTreeMap;

use quartet_log_replicated::{NodeId, PartitionId};

/// The next partition to move, and its new home. `homes`: the homes of all partitions. `fit`: the
/// nodes that can be home. `None`: no node has two homes more than another, or some homes are
/// unknown. The first partition is never moved.
pub fn next(homes: &[Option<NodeId>], fit: &[NodeId]) -> Option<(PartitionId, NodeId)> {
    let homes: Vec<NodeId> = homes.iter().copied().collect::<Option<_>>()?;
    let mut counts: BTreeMap<NodeId, usize> = fit.iter().map(|node| (*node, 0)).collect();
    for home in &homes {
        *counts.entry(*home).or_default() += 1;
    }
    let least = fit.iter().min_by_key(|node| (counts[node], **node))?;
    let movable = (0..).map(PartitionId).zip(&homes).skip(1);
    // The last partition of the busiest node: the same partitions move to and fro.
    let (partition, most) = movable.max_by_key(|(partition, home)| (counts[home], *partition))?;
    (counts[most] >= counts[least] + 2).then_some((partition, *least))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes<const N: usize>(ids: [u64; N]) -> [NodeId; N] {
        ids.map(NodeId)
    }

    /// The homes after each step, until there is none.
    fn spread(homes: &[u64], fit: &[NodeId]) -> Vec<u64> {
        let mut homes: Vec<_> = homes.iter().map(|id| Some(NodeId(*id))).collect();
        for _ in 0..100 {
            let Some((partition, node)) = next(&homes, fit) else {
                return homes.into_iter().flatten().map(|node| node.0).collect();
            };
            assert!(partition.0 > 0 && homes[partition.0 as usize] != Some(node));
            homes[partition.0 as usize] = Some(node);
        }
        panic!("no end: {homes:?}");
    }

    #[test]
    fn homes_are_spread_and_then_stay() {
        assert_eq!(spread(&[1, 1, 1, 1], &nodes([1, 2, 3])), [1, 1, 3, 2]);
        assert_eq!(spread(&[1, 1, 1, 1], &nodes([1, 2])), [1, 1, 2, 2]);
        assert_eq!(spread(&[1, 1, 2, 2], &nodes([1, 2, 3])), [1, 1, 2, 3]);
        assert_eq!(spread(&[3, 3], &nodes([1, 2, 3])), [3, 1]);
        assert_eq!(spread(&[2], &nodes([1, 2, 3])), [2]);
    }

    #[test]
    fn a_node_that_is_not_fit_gets_nothing_and_keeps_what_it_has() {
        assert_eq!(spread(&[1, 1, 1, 1], &nodes([1])), [1, 1, 1, 1]);
        assert_eq!(spread(&[1, 2, 2, 2], &nodes([1, 3])), [1, 2, 2, 3]);
        assert_eq!(next(&[Some(NodeId(1)), None, Some(NodeId(1))], &nodes([1, 2])), None);
        assert_eq!(next(&[Some(NodeId(1)); 4], &[]), None);
    }
}
