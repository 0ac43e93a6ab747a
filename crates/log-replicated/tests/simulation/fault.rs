//! The mistakes that are planted, and what each is found by.

use quartet_log_replicated::{Compare, Operation, Place, Request};

use crate::judge::Violation;

/// A mistake made on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Appends do not check that the record before is present.
    WithoutPredecessor,
    /// Appends compare neither the term nor the record before.
    WithoutTerm,
    /// Appends do not compare the term. No violation results: the Term record is at the sequence
    /// where a deposed home would append, and that sequence is free again only when its predecessor
    /// has been trimmed. Not among `ALL`.
    WithoutTermAlone,
    /// After an unknown answer another epoch is sent for the same place.
    ChangedEpoch,
    /// Clients are answered when an epoch is sent.
    EarlyReply,
    /// A confirmation that started before a read arrived is accepted for it.
    EarlyConfirmation,
    /// A read leaves without a confirmation.
    NoConfirmation,
    /// The home trims what only it and the sequencer have.
    TrimWithoutCopies,
    /// A follower applies the record of a hint, even if earlier records are missing.
    SkippedGap,
    /// A follower applies its incomplete chunks when a term starts.
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

    /// Returns true if the mistake can cause the violation.
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
