//! Keeping the sequencer's records for a node that is being copied. For callers that may wait.

use quartet_model::LogSequence;

use crate::copies::hold_request;
use crate::drive::ask;
use crate::place::Place;
use crate::sequencer::{Answer, Failure, LeaseId, Request, Sequencer};
use crate::words::NodeId;

/// Longer than a copy goes without renewing it.
const LEASE_SECONDS: u32 = 10;

/// Prevents trimming of records while it lives, within the home's budget. Expires ten seconds after
/// its last renewal.
pub struct Hold {
    sequencer: Box<dyn Sequencer + Send>,
    place: Place,
    node: NodeId,
    lease: LeaseId,
}

impl Hold {
    /// Holds all present records. Start it before the copy.
    pub fn begin(mut sequencer: Box<dyn Sequencer + Send>, place: &Place, node: NodeId) -> Result<Hold, Failure> {
        let lease = place_hold(sequencer.as_mut(), place, node)?;
        let place = place.clone();
        Ok(Hold {
            sequencer,
            place,
            node,
            lease,
        })
    }

    /// Renews it. Call every three seconds, until the copied node follows.
    pub fn keep(&mut self) -> Result<(), Failure> {
        let lease = self.lease;
        if ask(self.sequencer.as_mut(), Request::KeepAlive { lease })? == Answer::NoLease {
            self.lease = place_hold(self.sequencer.as_mut(), &self.place, self.node)?;
        }
        Ok(())
    }

    /// Releases the hold immediately. A dropped hold ends with its lease.
    pub fn end(mut self) {
        let lease = self.lease;
        let _ = ask(self.sequencer.as_mut(), Request::Revoke { lease });
    }
}

fn place_hold(sequencer: &mut dyn Sequencer, place: &Place, node: NodeId) -> Result<LeaseId, Failure> {
    let seconds = LEASE_SECONDS;
    let Answer::Lease(lease) = ask(sequencer, Request::Grant { seconds })? else {
        return Err(Failure::Unknown("no lease was granted".to_owned()));
    };
    ask(sequencer, hold_request(place, node, LogSequence::ZERO, lease))?;
    Ok(lease)
}
