//! The mistakes that are planted, and what each is found by.

use quartet_log_replicated::{Compare, Operation, Place, Request};

use crate::judge::Violation;

/// A mistake made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Appends do not compare that the record before is there.
    WithoutPredecessor,
    /// Appends compare neither the term nor the record before.
    WithoutTerm,
    /// Appends do not compare the term. Nothing goes wrong: the Term record stands where a deposed
    /// home would append, and that record's place is free again only when the one before it is
    /// gone. Not among `ALL`.
    WithoutTermAlone,
    /// After an unknown answer another epoch is sent for the same place.
    ChangedEpoch,
    /// Clients are answered when an epoch is sent.
    EarlyReply,
    /// A confirmation that was begun before a read arrived is taken for it.
    EarlyConfirmation,
    /// A read leaves without a confirmation.
    NoConfirmation,
    /// The home trims what only it and the sequencer have.
    TrimWithoutCopies,
    /// A follower applies the record of a hint, whatever is missing before it.
    SkippedGap,
    /// A follower applies the chunks that it has when a term begins.
    CutGroupApplied,
}

impl Fault {
    pub const ALL: [Fault; 9] = [
        Fault::WithoutPredecessor,
        Fault::WithoutTerm,
        Fault::ChangedEpoch,
        Fault::EarlyReply,
        Fault::EarlyConfirmation,
        Fault::NoConfirmation,
        Fault::TrimWithoutCopies,
        Fault::SkippedGap,
        Fault::CutGroupApplied,
    ];

    /// An append as this mistake sends it.
    pub fn append(self, place: &Place, mut request: Request) -> Request {
        let term = place.term_key();
        if let Request::Transact {
            compares, operations, ..
        } = &mut request
        {
            debug_assert!(matches!(operations[..], [Operation::Put { .. }]));
            compares.retain(|compare| match compare {
                Compare::Present(_) => !matches!(self, Fault::WithoutPredecessor | Fault::WithoutTerm),
                Compare::Value { key, .. } => {
                    *key != term || !matches!(self, Fault::WithoutTerm | Fault::WithoutTermAlone)
                }
                Compare::Absent(_) => true,
            });
        }
        request
    }

    /// True if the violation is one that the mistake leads to.
    pub fn explains(self, violation: &Violation) -> bool {
        match self {
            Fault::WithoutPredecessor | Fault::WithoutTerm => {
                matches!(violation, Violation::WrittenAgain { .. } | Violation::Hole { .. })
            }
            Fault::ChangedEpoch => matches!(violation, Violation::Stopped { .. }),
            Fault::EarlyReply => matches!(violation, Violation::NotInTheLog { .. }),
            Fault::EarlyConfirmation | Fault::NoConfirmation => matches!(violation, Violation::StaleRead { .. }),
            Fault::TrimWithoutCopies => matches!(violation, Violation::TrimmedWithoutCopies { .. }),
            Fault::WithoutTermAlone => false,
            Fault::SkippedGap | Fault::CutGroupApplied => matches!(violation, Violation::Diverged { .. }),
        }
    }
}
