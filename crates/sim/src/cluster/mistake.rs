//! The mistakes that are made on purpose, and what each is found by.

use quartet_log_replicated::StopReason;

use crate::cluster::judgement::Violation;

/// A deliberate mistake that the checker must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Appends do not check that the record before is present.
    WithoutPredecessor,
    /// Appends compare neither the term nor the record before.
    WithoutTerm,
    /// After an unknown answer another epoch is sent for the same place.
    ChangedEpoch,
    /// A missing answer to an append is taken for its success.
    UnknownTakenAsDone,
    /// Clients are answered when a transaction has committed here.
    EarlyReply,
    /// Reads are answered before the rows that they read are durable.
    UnsettledRead,
    /// A reply of a former home waits for the next one.
    ForgottenTerm,
    /// A reply accepts a confirmation that started before its request arrived.
    EarlyConfirmation,
    /// A reply leaves without a confirmation.
    NoConfirmation,
    /// A home's reads of `term` return its former value.
    StaleConfirmation,
    /// Relaxed replies leave however old the evidence is.
    RelaxedForever,
    /// A layer's memory is kept when its home is deposed.
    KeptCaches,
    /// The home trims what only the sequencer has.
    TrimWithoutCopies,
    /// A node reports as synced what it has applied.
    ReportBeforeSync,
    /// A follower continues after a record that it has not applied.
    SkippedGap,
    /// Chunks are applied on arrival, so also those of a group that a term has cut.
    CutGroupApplied,
    /// A piece of an object without an answer is taken for kept, and the record is appended.
    PointerBeforeObject,
    /// An object is removed once its record is appended.
    ObjectRemovedEarly,
    /// A node does not compare its state hash with those of others.
    UncomparedStates,
    /// Interactive transactions are not certified against their reads.
    UncertifiedReads,
    /// A read at a follower accepts a range of the log that was sent before the read arrived.
    EarlyRange,
    /// A read at a follower waits until the log's end is known, and not until it is applied.
    UnappliedRange,
    /// A follower answers by rows that it once kept in memory, such as credentials, though they
    /// have changed in the log.
    KeptRows,
}

impl Mistake {
    pub const ALL: [Mistake; 23] = [
        Mistake::WithoutPredecessor,
        Mistake::WithoutTerm,
        Mistake::ChangedEpoch,
        Mistake::UnknownTakenAsDone,
        Mistake::EarlyReply,
        Mistake::UnsettledRead,
        Mistake::ForgottenTerm,
        Mistake::EarlyConfirmation,
        Mistake::NoConfirmation,
        Mistake::StaleConfirmation,
        Mistake::RelaxedForever,
        Mistake::KeptCaches,
        Mistake::TrimWithoutCopies,
        Mistake::ReportBeforeSync,
        Mistake::SkippedGap,
        Mistake::CutGroupApplied,
        Mistake::PointerBeforeObject,
        Mistake::ObjectRemovedEarly,
        Mistake::UncomparedStates,
        Mistake::UncertifiedReads,
        Mistake::EarlyRange,
        Mistake::UnappliedRange,
        Mistake::KeptRows,
    ];

    /// Returns true if the mistake can cause the violation.
    pub fn explains(self, violation: &Violation) -> bool {
        use Violation as V;
        match self {
            Mistake::WithoutPredecessor | Mistake::WithoutTerm => {
                matches!(violation, V::WrittenAgain { .. } | V::Hole { .. })
            }
            Mistake::ChangedEpoch => matches!(
                violation,
                V::Stopped { .. }
                    | V::NotInTheLog { .. }
                    | V::Diverged { .. }
                    | V::EndsDifferently { .. }
                    | V::PhantomRead { .. }
            ),
            Mistake::UnknownTakenAsDone => {
                matches!(
                    violation,
                    V::NotInTheLog { .. } | V::PhantomRead { .. } | V::Stopped { .. }
                )
            }
            Mistake::EarlyReply => matches!(violation, V::NotInTheLog { .. } | V::PhantomRead { .. } | V::Lists(_)),
            Mistake::UnsettledRead => matches!(violation, V::PhantomRead { .. } | V::Lists(_)),
            Mistake::ForgottenTerm => matches!(violation, V::NotInTheLog { .. } | V::PhantomRead { .. } | V::Lists(_)),
            Mistake::EarlyConfirmation | Mistake::NoConfirmation | Mistake::EarlyRange | Mistake::UnappliedRange => {
                matches!(violation, V::StaleRead { .. } | V::Lists(_))
            }
            Mistake::KeptRows => matches!(violation, V::StaleRead { .. }),
            // Relaxed replies depend on the age of the last confirmation as well. A home without
            // writes to append never learns of its successor. A node that already knows a later
            // term stops at the old answer.
            Mistake::StaleConfirmation => matches!(
                violation,
                V::StaleRead { .. }
                    | V::AcknowledgedTooLong { .. }
                    | V::Lists(_)
                    | V::NeverAlike { .. }
                    | V::Stopped {
                        reason: StopReason::TermWentBack { .. },
                        ..
                    }
            ),
            Mistake::RelaxedForever => matches!(violation, V::AcknowledgedTooLong { .. }),
            Mistake::KeptCaches => matches!(violation, V::PhantomRead { .. }),
            Mistake::TrimWithoutCopies | Mistake::ReportBeforeSync => {
                matches!(violation, V::TrimmedWithoutCopies { .. })
            }
            Mistake::SkippedGap => matches!(
                violation,
                V::Diverged { .. }
                    | V::HashDiffers { .. }
                    | V::EndsDifferently { .. }
                    | V::Stopped { .. }
                    | V::PhantomRead { .. }
            ),
            // Its history is another than the log's: the chain shows it as well, and reads at a
            // follower do.
            Mistake::CutGroupApplied => matches!(
                violation,
                V::Diverged { .. }
                    | V::HashDiffers { .. }
                    | V::EndsDifferently { .. }
                    | V::Stopped { .. }
                    | V::PhantomRead { .. }
            ),
            Mistake::PointerBeforeObject | Mistake::ObjectRemovedEarly => matches!(
                violation,
                V::WithoutObject { .. }
                    | V::Stopped {
                        reason: StopReason::LostObject { .. },
                        ..
                    }
            ),
            // A state that no node compares never becomes like the others.
            Mistake::UncomparedStates => matches!(
                violation,
                V::DivergedServes { .. } | V::EndsDifferently { .. } | V::NeverAlike { .. }
            ),
            Mistake::UncertifiedReads => matches!(violation, V::Lists(_) | V::Money { .. }),
        }
    }
}
