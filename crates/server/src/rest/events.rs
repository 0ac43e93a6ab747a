//! The event stream of a subscriber or a monitor over REST, which lasts until either side ends it.

use std::sync::atomic::Ordering;

use quartet_engine::{Dependency, PartitionId};
use quartet_layer_redis::Session;
use quartet_wire_rest::write_events;

use crate::http::{Follower, Following};

pub struct Events {
    session: Session,
    /// RESP2 that is not sent yet.
    messages: Vec<u8>,
    /// The dependency of the messages.
    dependency: Dependency,
    partition: PartitionId,
}

impl Events {
    pub fn new(session: Session, confirmation: Vec<u8>, dependency: Dependency, partition: PartitionId) -> Events {
        Events {
            session,
            messages: confirmation,
            dependency,
            partition,
        }
    }
}

impl Follower for Events {
    fn partition(&self) -> PartitionId {
        self.partition
    }

    fn next(&mut self) -> Following {
        let dependency = std::mem::take(&mut self.dependency);
        if dependency > Dependency::ZERO {
            return Following::Wait(dependency);
        }
        if self.messages.is_empty() {
            self.dependency = self.session.drain_mailbox(&mut self.messages);
            if self.dependency > Dependency::ZERO {
                return self.next();
            }
        }
        let mut events = Vec::new();
        let consumed = write_events(&self.messages, &mut events);
        self.messages.drain(..consumed);
        if !events.is_empty() {
            return Following::Send(events);
        }
        if self.session.client().killed.load(Ordering::SeqCst) {
            return Following::End;
        }
        Following::Idle
    }
}
