//! A client that interferes with the next transaction, in front of any sequencer.

use std::collections::VecDeque;
use std::time::Duration;

use crate::drive;
use crate::sequencer::{Event, Failure, Request, RequestId, Sequencer};

/// An interference with the next transaction.
#[derive(Clone, Copy)]
pub(super) enum Meddling {
    /// It is not sent until it is released; its client receives `Unknown`.
    Hold,
    /// It is sent; its client receives `Unknown` once the answer arrives.
    LoseAnswer,
}

/// A client that interferes with the next transaction.
pub(super) struct Meddler {
    inner: Box<dyn Sequencer>,
    pub next: Option<Meddling>,
    pub held: Vec<Request>,
    /// Answers made here.
    own: VecDeque<Event>,
    /// The lowest number that `inner` never gives.
    numbers: u64,
}

impl Meddler {
    pub fn new(inner: Box<dyn Sequencer>) -> Meddler {
        Meddler {
            inner,
            next: None,
            held: Vec::new(),
            own: VecDeque::new(),
            numbers: u64::MAX / 2,
        }
    }
}

impl Sequencer for Meddler {
    fn send(&mut self, request: Request) -> RequestId {
        let is_transaction = matches!(request, Request::Transact { .. });
        let Some(meddling) = self.next.take_if(|_| is_transaction) else {
            return self.inner.send(request);
        };
        match meddling {
            Meddling::Hold => self.held.push(request),
            Meddling::LoseAnswer => drop(drive::ask(&mut *self.inner, request)),
        }
        self.numbers += 1;
        let id = RequestId(self.numbers);
        let lost = Err(Failure::Unknown("the answer was lost".to_owned()));
        self.own.push_back(Event::Answered(id, lost));
        id
    }

    fn watch(&mut self, from: Vec<u8>, until: Vec<u8>) {
        self.inner.watch(from, until);
    }

    fn receive(&mut self, wait: Duration) -> Option<Event> {
        self.own.pop_front().or_else(|| self.inner.receive(wait))
    }
}
