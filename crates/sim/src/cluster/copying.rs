//! Filling nodes without data with a copy of another, over many ticks, while all other work
//! continues.

use std::time::Duration;

use quartet_engine::{CopyError, CopySource, CopyTarget, StoreKind};
use quartet_log_replicated::copies::hold_request;
use quartet_log_replicated::model::ModelSequencer;
use quartet_log_replicated::{Answer, Event, LeaseId, NodeId, Place, Request, RequestId, Sequencer};
use quartet_model::LogSequence;

use crate::cluster::node::Given;

/// Renewal interval of a hold, and the lifetime of its lease.
const KEEP_EVERY: Duration = Duration::from_secs(3);
const LEASE_SECONDS: u32 = 10;

/// A node's hold on the sequencer's records.
pub struct Holding {
    sequencer: ModelSequencer,
    place: Place,
    node: NodeId,
    pub is_wanted: bool,
    lease: Option<LeaseId>,
    pub is_placed: bool,
    asked: Option<RequestId>,
    kept: Duration,
}

impl Holding {
    pub fn new(sequencer: ModelSequencer, place: &Place, node: usize) -> Holding {
        Holding {
            sequencer,
            place: place.clone(),
            node: NodeId(node as u64),
            is_wanted: false,
            lease: None,
            is_placed: false,
            asked: None,
            kept: Duration::ZERO,
        }
    }

    /// Takes answers and sends what is due.
    pub fn turn(&mut self, now: Duration) {
        while let Some(event) = self.sequencer.arrived() {
            if let Event::Answered(id, answer) = event
                && self.asked == Some(id)
            {
                self.asked = None;
                match answer {
                    Ok(Answer::Lease(lease)) => (self.lease, self.kept) = (Some(lease), now),
                    Ok(Answer::Done { .. }) => self.is_placed = true,
                    Ok(Answer::NoLease) => (self.lease, self.is_placed) = (None, false),
                    _ => {}
                }
            }
        }
        if self.asked.is_none()
            && let Some(request) = self.due(now)
        {
            self.asked = Some(self.sequencer.send(request));
        }
    }

    fn due(&mut self, now: Duration) -> Option<Request> {
        if !self.is_wanted {
            self.is_placed = false;
            return self.lease.take().map(|lease| Request::Revoke { lease });
        }
        match (self.lease, self.is_placed) {
            (None, _) => Some(Request::Grant { seconds: LEASE_SECONDS }),
            (Some(lease), false) => Some(hold_request(&self.place, self.node, LogSequence::ZERO, lease)),
            (Some(lease), true) if now - self.kept >= KEEP_EVERY => Some(Request::KeepAlive { lease }),
            (Some(_), true) => None,
        }
    }
}

/// A copy on its way.
pub struct Copying {
    pub from: usize,
    pub incarnation: u64,
    pub was_home: bool,
    pub stage: Stage,
}

pub enum Stage {
    /// The source has been requested to return its state.
    Asked(Given),
    Carries(Box<(CopySource, CopyTarget)>),
}

/// The outcome of a step of a copy.
pub enum Copied {
    NotYet,
    Done,
    Failed,
}

impl Stage {
    /// Carries the next piece. `target` starts to fill the node's directory.
    pub fn step(self, target: impl FnOnce() -> Result<CopyTarget, CopyError>) -> (Option<Stage>, Copied) {
        match self {
            Stage::Asked(slot) => {
                let source = slot.lock().take();
                match source {
                    None => (Some(Stage::Asked(slot)), Copied::NotYet),
                    Some(Err(_)) => (None, Copied::Failed),
                    Some(Ok(source)) => match target() {
                        Ok(target) => (Some(Stage::Carries(Box::new((source, target)))), Copied::NotYet),
                        Err(_) => (None, Copied::Failed),
                    },
                }
            }
            Stage::Carries(mut ends) => match carried(&mut ends.0, &mut ends.1) {
                Ok(true) => match ends.1.finish() {
                    Ok(()) => (None, Copied::Done),
                    Err(_) => (None, Copied::Failed),
                },
                Ok(false) => (Some(Stage::Carries(ends)), Copied::NotYet),
                Err(_) => (None, Copied::Failed),
            },
        }
    }
}

/// Carries a piece; returns true at the end.
fn carried(source: &mut CopySource, target: &mut CopyTarget) -> Result<bool, CopyError> {
    match source.next()? {
        Some(piece) => target.take(&piece).map(|()| false),
        None => Ok(true),
    }
}

/// The state that a finished copy is counted as.
pub fn done_of(store: StoreKind) -> &'static str {
    match store {
        StoreKind::Memory => "copied a store in memory",
        StoreKind::Ssd => "copied an ssd store",
    }
}
