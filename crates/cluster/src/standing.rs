//! The roles of a node in all partitions, and what it serves in them.

use quartet_engine::Role;
use quartet_log_replicated::{PartitionId, Term};

/// The state of the cluster's partitions at this node.
#[derive(Debug, PartialEq, Eq)]
pub enum Standing {
    /// No log is shared.
    Alone,
    /// It is home of each, in these terms.
    All(Vec<Term>),
    /// It is home of the first, in this term, and not of each.
    First(Term),
    /// It is not home of the first.
    NotFirst,
    /// Nothing of this partition can be continued.
    NeedsCopy(PartitionId),
    /// An operator has to decide.
    Stopped(PartitionId),
}

impl Standing {
    pub fn of(roles: &[Role]) -> Standing {
        let find = |is_it: fn(&Role) -> bool| (0..).map(PartitionId).zip(roles).find(|(_, role)| is_it(role));
        if let Some((id, _)) = find(|role| matches!(role, Role::Copying)) {
            return Standing::NeedsCopy(id);
        }
        if let Some((id, _)) = find(|role| matches!(role, Role::Stopped(_))) {
            return Standing::Stopped(id);
        }
        if find(|role| *role == Role::Alone).is_some() {
            return Standing::Alone;
        }
        let terms: Option<Vec<Term>> = roles.iter().map(home_term).collect();
        match (terms, home_term(&roles[0])) {
            (Some(terms), _) => Standing::All(terms),
            (None, Some(term)) => Standing::First(term),
            (None, None) => Standing::NotFirst,
        }
    }
}

/// The node's term as home.
pub fn home_term(role: &Role) -> Option<Term> {
    match role {
        Role::Home { term, .. } => Some(*term),
        _ => None,
    }
}

/// Returns true if the partition has a home, alive or not.
pub fn has_home(role: &Role) -> bool {
    matches!(role, Role::Home { .. } | Role::Following { home: Some(_), .. })
}

/// Returns true if the node is home of the first partitions in these terms still.
pub fn is_in(terms: &[Term], roles: &[Role]) -> bool {
    terms
        .iter()
        .zip(roles)
        .all(|(term, role)| home_term(role) == Some(*term))
}

#[cfg(test)]
mod tests {
    use quartet_engine::Condition;
    use quartet_log_replicated::StopReason;

    use super::*;

    pub fn home(term: u64) -> Role {
        let (term, condition) = (Term(term), Condition::Sure);
        Role::Home { term, condition }
    }

    /// Layers over all partitions are there while the node is home of all, and see one term of
    /// each.
    #[test]
    fn a_node_is_classified_by_its_roles() {
        let following = || Role::Following {
            term: Term(4),
            home: None,
        };
        let both = [home(3), home(5)];
        assert_eq!(Standing::of(&both), Standing::All(vec![Term(3), Term(5)]));
        for missing in [following(), Role::Candidate { term: Term(4) }, Role::RollingBack] {
            assert_eq!(Standing::of(&[home(3), missing.clone()]), Standing::First(Term(3)));
            assert_eq!(Standing::of(&[missing, home(3)]), Standing::NotFirst);
        }
        let stopped = Role::Stopped(StopReason::NotThisCluster);
        assert_eq!(
            Standing::of(&[home(3), stopped.clone()]),
            Standing::Stopped(PartitionId(1))
        );
        assert_eq!(
            Standing::of(&[stopped, following(), Role::Copying]),
            Standing::NeedsCopy(PartitionId(2))
        );
        assert_eq!(Standing::of(&[Role::Alone]), Standing::Alone);
    }

    /// A node that serves only partition 0 keeps serving while other partitions are gained or lost.
    #[test]
    fn layers_end_with_any_of_their_terms() {
        let one = [home(3), home(5)];
        assert!(is_in(&[Term(3), Term(5)], &one) && is_in(&[Term(3)], &one));
        assert!(!is_in(&[Term(3), Term(4)], &one) && !is_in(&[Term(2)], &one));
        let other = [home(3), Role::RollingBack];
        assert!(is_in(&[Term(3)], &other) && !is_in(&[Term(3), Term(5)], &other));
    }
}
