//! A follower's attempt to become home. The caller decides when to try; a transaction decides which
//! node wins.
//!
//! ```text
//! ReadTerm ----> ReadTail ----> Ready ----> Claim ----> won
//!    ^              | ^           |          |  |
//!    |              +-+ more      | claim    |  +--+ unknown: the same bytes again
//!    +---------------------------------------+ refused
//! ```
//!
//! `term` is read before the tail, both linearizably, so the tail read holds the Term record that
//! `term` names. The claim requires that `term` is unchanged, that the record after the last
//! applied one is absent and the last one present, and that the store is this cluster's; it puts
//! the Term record and the new `term` together. Its bytes never change once sent. The new value of
//! `term` names the record by hash, so reading that value proves that this very claim has won, even
//! if its answer was lost.

use quartet_model::{LogSequence, Version};

use crate::follower::{Delivery, Follower, Hinted};
use crate::home::Home;
use crate::place::{Place, TermValue, cluster_of, meta_key, put};
use crate::record::{Body, Record, hash};
use crate::sequencer::{Answer, Compare, Failure, Hint, Request};
use crate::stop::StopReason;
use crate::words::Writer;

/// The progress of a take-over.
#[derive(Clone, Debug)]
pub enum Progress {
    /// Apply these, then send the next request.
    Apply(Vec<Delivery>),
    /// Everything is applied: call `claim` with the version floor.
    Ready,
    /// This node is home. Apply the delivery, its own Term record, before serving anything.
    Won(Box<Home>, Delivery),
    /// Another was faster, or an answer is missing. Send the next request.
    Again,
}

/// One node's attempt to become home of a partition. It may be dropped at any step: a claim that
/// takes effect afterwards starts a term whose home does nothing, and the next attempt takes over
/// from that.
#[derive(Clone, Debug)]
pub struct TakeOver {
    me: Writer,
    step: Step,
}

#[derive(Clone, Debug)]
enum Step {
    ReadTerm,
    ReadTail(Option<TermValue>),
    Ready(Option<TermValue>),
    Claim(Box<Claim>),
}

/// The transaction that takes over; unchanged until its outcome is known.
#[derive(Clone, Debug)]
struct Claim {
    request: Request,
    sequence: LogSequence,
    record: Vec<u8>,
    term: TermValue,
}

impl TakeOver {
    /// Starts a take-over as `me`.
    pub fn new(me: Writer) -> TakeOver {
        let step = Step::ReadTerm;
        TakeOver { me, step }
    }

    /// Returns the next request, or `None` if the caller must call `claim`. Its answer is passed to
    /// `answered`; one request is outstanding at a time.
    pub fn request(&self, follower: &mut Follower) -> Option<Request> {
        match &self.step {
            Step::ReadTerm => Some(Request::Get {
                key: follower.place().term_key(),
            }),
            Step::ReadTail(_) => Some(follower.request()),
            Step::Ready(_) => None,
            Step::Claim(claim) => Some(claim.request.clone()),
        }
    }

    /// Takes the answer to the last request. Between a request and its answer the follower must not
    /// be moved by hints.
    pub fn answered(
        &mut self,
        follower: &mut Follower,
        answer: Result<Answer, Failure>,
    ) -> Result<Progress, StopReason> {
        let Ok(answer) = answer else {
            return Ok(Progress::Again);
        };
        match std::mem::replace(&mut self.step, Step::ReadTerm) {
            Step::ReadTerm => self.term_read(follower, answer),
            Step::ReadTail(term) => self.tail_read(term, follower, answer),
            Step::Claim(claim) => self.claimed(*claim, follower, answer),
            Step::Ready(_) => Err(StopReason::Confused("nothing")),
        }
    }

    /// Makes the claim. Versions of the term are above `floor`, which is that of the newest version
    /// applied or more.
    pub fn claim(&mut self, follower: &Follower, floor: Version) {
        if let Step::Ready(term) = self.step {
            self.step = Step::Claim(Box::new(Claim::new(self.me, term, follower, floor)));
        }
    }

    fn term_read(&mut self, follower: &Follower, answer: Answer) -> Result<Progress, StopReason> {
        let Answer::Value(value) = answer else {
            return Err(StopReason::Confused("a read of the term"));
        };
        let known = follower.position().term;
        let term = match value {
            Some(bytes) => Some(TermValue::decode(&bytes).ok_or(StopReason::TermWentBack { known })?),
            None => None,
        };
        if term.map_or(0, |term| term.term.0) < known.0 {
            return Err(StopReason::TermWentBack { known });
        }
        self.step = Step::ReadTail(term);
        Ok(Progress::Again)
    }

    fn tail_read(
        &mut self,
        term: Option<TermValue>,
        follower: &mut Follower,
        answer: Answer,
    ) -> Result<Progress, StopReason> {
        let (deliveries, more) = follower.take(answer)?;
        if more {
            self.step = Step::ReadTail(term);
            return Ok(Progress::Apply(deliveries));
        }
        let applied = follower.position();
        let expected = term.map_or(0, |term| term.term.0);
        if applied.term.0 < expected {
            let applied = applied.sequence;
            return Err(StopReason::EndsBefore { applied });
        }
        // After a newer term than the one read, the claim could only be refused.
        if applied.term.0 == expected {
            self.step = Step::Ready(term);
        }
        match (&self.step, deliveries.is_empty()) {
            (_, false) => Ok(Progress::Apply(deliveries)),
            (Step::Ready(_), true) => Ok(Progress::Ready),
            _ => Ok(Progress::Again),
        }
    }

    /// Returns true once everything is applied and the caller must call `claim`.
    pub fn is_ready(&self) -> bool {
        matches!(self.step, Step::Ready(_))
    }

    fn claimed(&mut self, claim: Claim, follower: &mut Follower, answer: Answer) -> Result<Progress, StopReason> {
        let won = match answer {
            Answer::Done { .. } => true,
            Answer::Refused { values } => self.refused(&claim, follower.place(), values)?,
            _ => return Err(StopReason::Confused("a claim")),
        };
        if !won {
            return Ok(Progress::Again);
        }
        let hint = Hint::Put {
            key: follower.place().record_key(claim.sequence),
            value: claim.record,
        };
        match follower.hint(&hint) {
            Hinted::Delivered(delivery) => {
                let home = Home::new(follower.place().clone(), claim.term);
                Ok(Progress::Won(Box::new(home), delivery))
            }
            _ => Err(StopReason::Confused("a claim")),
        }
    }

    fn refused(&self, claim: &Claim, place: &Place, values: Vec<Option<Vec<u8>>>) -> Result<bool, StopReason> {
        let [term, meta] = &values[..] else {
            return Err(StopReason::Confused("a claim"));
        };
        let cluster = meta.as_deref().and_then(cluster_of);
        if cluster != Some(place.cluster) {
            return Err(StopReason::NotThisCluster);
        }
        Ok(term.as_deref() == Some(&claim.term.encode()))
    }
}

impl Claim {
    fn new(me: Writer, old: Option<TermValue>, follower: &Follower, floor: Version) -> Claim {
        let (place, applied) = (follower.place(), follower.position());
        let record = Record {
            cluster: place.cluster,
            partition: place.partition,
            sequence: applied.sequence.next(),
            term: applied.term.next(),
            writer: me,
            before: applied.hash,
            body: Body::Term { floor },
        };
        let bytes = record.encode();
        let term = TermValue {
            term: record.term,
            writer: me,
            sequence: record.sequence,
            hash: hash(&bytes),
        };
        let request = Request::Transact {
            compares: compares(place, old, applied.sequence),
            operations: vec![
                put(place.record_key(record.sequence), bytes.clone()),
                put(place.term_key(), term.encode()),
            ],
            otherwise: vec![place.term_key(), meta_key(place.root())],
        };
        Claim {
            request,
            sequence: record.sequence,
            record: bytes,
            term,
        }
    }
}

fn compares(place: &Place, old: Option<TermValue>, applied: LogSequence) -> Vec<Compare> {
    let mut compares = vec![
        place.is_this_cluster(),
        match old {
            Some(old) => Compare::Value {
                key: place.term_key(),
                value: old.encode(),
            },
            None => Compare::Absent(place.term_key()),
        },
        Compare::Absent(place.record_key(applied.next())),
    ];
    // The first term has no record before its own; that `term` is absent shows that there never was
    // one.
    if applied != LogSequence::ZERO {
        compares.push(Compare::Present(place.record_key(applied)));
    }
    compares
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{ClusterId, NodeId, PartitionId, Position, Term};

    fn check(reached: u64, applied: u64, answers: Vec<Answer>) -> Result<(), StopReason> {
        let place = Place::new("/x", ClusterId(1), PartitionId(0));
        let position = Position {
            sequence: LogSequence(applied),
            term: Term(reached),
            ..place.beginning()
        };
        let mut follower = Follower::new(place, position);
        let writer = Writer {
            node: NodeId(1),
            incarnation: 1,
        };
        let mut attempt = TakeOver::new(writer);
        for answer in answers {
            attempt.request(&mut follower);
            attempt.answered(&mut follower, Ok(answer))?;
        }
        Ok(())
    }

    fn term(number: u64) -> Answer {
        let value = TermValue {
            term: Term(number),
            writer: Writer::default(),
            sequence: LogSequence(1),
            hash: hash(b""),
        };
        Answer::Value(Some(value.encode()))
    }

    /// A sequencer that was restored from a backup, or emptied, is not taken over by a node that
    /// has seen more of it.
    #[test]
    fn a_log_that_went_back_is_not_taken_over() {
        let known = Term(3);
        let back = Err(StopReason::TermWentBack { known });
        assert_eq!(check(3, 9, vec![term(2)]), back);
        assert_eq!(check(3, 9, vec![Answer::Value(None)]), back);
        assert_eq!(check(3, 9, vec![Answer::Value(Some(b"garbage".to_vec()))]), back);
        let nothing = || Answer::Entries {
            entries: Vec::new(),
            more: false,
        };
        let applied = LogSequence(9);
        let ends = Err(StopReason::EndsBefore { applied });
        assert_eq!(check(3, 9, vec![term(3), nothing()]), ends);
        let applied = LogSequence(0);
        let hollow = Err(StopReason::EndsBefore { applied });
        assert_eq!(
            check(0, 0, vec![term(3), nothing()]),
            hollow,
            "a term without its record"
        );
        assert_eq!(check(0, 0, vec![Answer::Value(None), nothing()]), Ok(()));
    }
}
