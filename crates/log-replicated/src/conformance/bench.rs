//! The writers, followers and clients that scenarios are made of.

use std::cell::Cell;
use std::time::Duration;

use quartet_model::{LogSequence, Version};

use super::meddler::Meddler;
use crate::drive;
use crate::follower::{Content, Delivery, Follower};
use crate::home::{Confirmation, Home, Outcome};
use crate::place::{Place, TermValue, cluster_of, meta_key};
use crate::record::{Record, hash};
use crate::sequencer::{Answer, Request, Sequencer};
use crate::stop::StopReason;
use crate::take_over::{Progress, TakeOver};
use crate::words::{ClusterId, Moment, NodeId, PartitionId, Position, Writer};

/// Makes a new client of the sequencer under test.
pub type Connect<'a> = dyn FnMut() -> Box<dyn Sequencer> + 'a;

/// Number of missing answers that a scenario tolerates; a store whose leader is killed answers
/// nothing for a few seconds.
pub(super) const TRIES: u32 = 200;

pub(super) struct Bench<'b, 'c> {
    pub place: Place,
    connect: &'b mut Connect<'c>,
    pub sequencer: Box<dyn Sequencer>,
    /// Writers go through it.
    pub meddler: Meddler,
    time: Cell<u64>,
}

/// A home and the epoch it was last given.
#[derive(Clone)]
pub(super) struct Node {
    pub home: Home,
    pub epoch: Vec<u8>,
}

impl<'b, 'c> Bench<'b, 'c> {
    pub fn new(root: &str, connect: &'b mut Connect<'c>) -> Bench<'b, 'c> {
        let place = Place::new(root, ClusterId(0xabcd), PartitionId(0));
        let mut bench = Bench {
            place,
            sequencer: connect(),
            meddler: Meddler::new(connect()),
            connect,
            time: Cell::new(0),
        };
        let founded = bench.ask(bench.place.found());
        let again = Answer::Refused {
            values: vec![bench.meta()],
        };
        // A refusal shows that a try before it has landed.
        assert!(matches!(founded, Answer::Done { .. }) || founded == again);
        let (unused, key) = (Answer::Value(None), bench.place.term_key());
        let term = Request::Get { key };
        assert_eq!(bench.ask(term), unused, "{root} is in use");
        bench
    }

    /// The value of `meta`, if it names this cluster.
    fn meta(&mut self) -> Option<Vec<u8>> {
        let key = meta_key(self.place.root());
        let Answer::Value(meta) = self.ask(Request::Get { key }) else {
            panic!("a key is read");
        };
        meta.filter(|meta| cluster_of(meta) == Some(self.place.cluster))
    }

    pub fn connect(&mut self) -> Box<dyn Sequencer> {
        (self.connect)()
    }

    /// Repeats the request until there is an answer.
    pub fn ask(&mut self, request: Request) -> Answer {
        let mut tries = (0..TRIES).map(|_| drive::ask(&mut *self.sequencer, request.clone()));
        tries.find_map(Result::ok).expect("the sequencer answers in the end")
    }

    pub fn now(&self) -> Moment {
        self.time.set(self.time.get() + 1);
        Moment(Duration::from_micros(self.time.get()))
    }

    pub fn follower(&self) -> Follower {
        Follower::new(self.place.clone(), self.place.beginning())
    }

    /// A follower after the first remaining record, where a copy of a peer's log would leave it.
    /// That record ends the trimmed part, so it is not within a group.
    pub fn newest(&mut self) -> Follower {
        let first = Request::Range {
            from: self.place.record_key(LogSequence::ZERO),
            until: self.place.records_end(),
            limit: 1,
        };
        let Answer::Entries { entries, .. } = self.ask(first) else {
            panic!("a range is read");
        };
        let Some((_, bytes)) = entries.first() else {
            return self.follower();
        };
        let record = Record::decode(bytes).unwrap();
        let position = Position {
            sequence: record.sequence,
            hash: hash(bytes),
            term: record.term,
            writer: record.writer,
        };
        Follower::new(self.place.clone(), position)
    }

    pub fn catch_up(&mut self, follower: &mut Follower) -> Result<Vec<Delivery>, drive::DriveError> {
        let mut all = Vec::new();
        loop {
            let answer = self.ask(follower.request());
            let (deliveries, more) = follower.take(answer)?;
            all.extend(deliveries);
            if !more {
                return Ok(all);
            }
        }
    }

    pub fn home(&mut self, node: u64) -> Node {
        self.slow_home(node, usize::MAX, &mut |_| {})
    }

    /// Takes over, with something happening before one of its requests.
    pub fn slow_home(&mut self, node: u64, step: usize, between: &mut dyn FnMut(&mut Self)) -> Node {
        let mut follower = self.newest();
        let mut attempt = TakeOver::new(writer(node));
        for at in 0.. {
            assert!(at < 1000, "take-over does not end");
            if at == step {
                between(self);
            }
            let Some(request) = attempt.request(&mut follower) else {
                attempt.claim(&follower, Version(1));
                continue;
            };
            let answer = drive::ask(&mut self.meddler, request);
            match attempt.answered(&mut follower, answer) {
                Ok(Progress::Won(home, _)) => {
                    let (home, epoch) = (*home, Vec::new());
                    return Node { home, epoch };
                }
                Ok(_) => {}
                // Trimmed meanwhile; a node would be copied from a peer.
                Err(StopReason::Trimmed { .. }) => {
                    follower = self.newest();
                    attempt = TakeOver::new(writer(node));
                }
                Err(reason) => panic!("{reason}"),
            }
        }
        unreachable!("the loop has no end")
    }

    pub fn until_ready(&mut self, attempt: &mut TakeOver, follower: &mut Follower) {
        *follower = self.newest();
        while let Some(request) = attempt.request(follower) {
            let answer = self.ask(request);
            attempt.answered(follower, Ok(answer)).unwrap();
        }
    }

    pub fn trim(&mut self, home: &Home, below: LogSequence) {
        let Answer::Done { revision } = self.ask(home.trim_request(below)) else {
            panic!("the home may trim");
        };
        assert_eq!(self.ask(Request::Compact { revision }), Answer::Compacted);
    }

    /// Sends what was held back; true for each that was done.
    pub fn release(&mut self) -> Vec<bool> {
        let pending = std::mem::take(&mut self.meddler.held);
        let done = |request| matches!(self.ask(request), Answer::Done { .. });
        pending.into_iter().map(done).collect()
    }

    pub fn holds(&mut self, expected: &[&[u8]]) {
        let mut follower = self.follower();
        let epochs = epochs(self.catch_up(&mut follower).unwrap());
        assert_eq!(epochs, expected);
    }

    /// Checks that the rest of the log is one chain, and `term` names a record in it or before it.
    pub fn is_whole(&mut self) {
        let mut follower = self.newest();
        self.catch_up(&mut follower).unwrap();
        let key = self.place.term_key();
        if let Answer::Value(Some(term)) = self.ask(Request::Get { key }) {
            let term = TermValue::decode(&term).unwrap();
            assert_eq!(follower.position().term, term.term);
        }
    }
}

impl Node {
    /// Appends with as many attempts as needed.
    pub fn append(&mut self, bench: &mut Bench, epoch: &[u8]) {
        let outcome = self.try_append(bench, epoch);
        let done = matches!(outcome, Outcome::Done(_) | Outcome::Landed(_));
        assert!(done, "{outcome:?}");
    }

    /// Appends until it is known what became of it.
    pub fn try_append(&mut self, bench: &mut Bench, epoch: &[u8]) -> Outcome {
        self.home.append(epoch).unwrap();
        self.resume(bench)
    }

    pub fn resume(&mut self, bench: &mut Bench) -> Outcome {
        let now = bench.now();
        drive::append(&mut self.home, &mut bench.meddler, TRIES, &|| now).expect("an append is in flight")
    }

    /// One try.
    pub fn once(&mut self, bench: &mut Bench, epoch: &[u8]) -> Outcome {
        self.home.append(epoch).unwrap();
        self.step(bench)
    }

    /// The next try.
    pub fn step(&mut self, bench: &mut Bench) -> Outcome {
        let now = bench.now();
        let request = self.home.append_request(now).expect("an append is in flight");
        self.home.appended(drive::ask(&mut bench.meddler, request))
    }

    pub fn confirm(&mut self, bench: &mut Bench) -> Confirmation {
        loop {
            let now = bench.now();
            match drive::confirm(&mut self.home, &mut bench.meddler, now) {
                Some(Confirmation::Unknown(_)) => {}
                Some(other) => return other,
                None => panic!("nobody waits"),
            }
        }
    }
}

pub(super) fn writer(node: u64) -> Writer {
    Writer {
        node: NodeId(node),
        incarnation: node,
    }
}

pub(super) fn epochs(deliveries: Vec<Delivery>) -> Vec<Vec<u8>> {
    let epoch = |delivery: Delivery| match delivery.content {
        Content::Epoch(epoch) => Some(epoch),
        _ => None,
    };
    deliveries.into_iter().filter_map(epoch).collect()
}
