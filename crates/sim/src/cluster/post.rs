//! The way between a node and the model of the sequencer: a mailbox that the world empties and
//! fills, so that nodes themselves are steps that never wait. Some mistakes are made here, to
//! requests on their way.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use quartet_engine::Waker;
use quartet_log_replicated::model::ModelSequencer;
use quartet_log_replicated::{
    Answer, Body, Compare, Event, Hint, Operation, Place, Record, RecordHash, Request, RequestId, Sequencer, hash,
};
use quartet_model::LogSequence;

use crate::cluster::judgement::Mistake;

#[derive(Default)]
struct Mailbox {
    sent: Vec<(RequestId, Request)>,
    watches: Vec<(Vec<u8>, Vec<u8>)>,
    events: VecDeque<Event>,
    waker: Option<Waker>,
}

/// A node's handle.
pub struct Mail {
    mailbox: Arc<Mutex<Mailbox>>,
    sent: u64,
}

impl Sequencer for Mail {
    fn send(&mut self, request: Request) -> RequestId {
        self.sent += 1;
        let id = RequestId(self.sent);
        self.mailbox.lock().sent.push((id, request));
        id
    }

    fn watch(&mut self, from: Vec<u8>, until: Vec<u8>) {
        self.mailbox.lock().watches.push((from, until));
    }

    fn receive(&mut self, _: Duration) -> Option<Event> {
        self.mailbox.lock().events.pop_front()
    }
}

/// The world's end of a node's mailbox.
pub struct Post {
    place: Place,
    sequencer: ModelSequencer,
    mailbox: Arc<Mutex<Mailbox>>,
    /// The node's number of each request under way.
    under_way: BTreeMap<RequestId, RequestId>,
    mistake: Option<Mistake>,
    /// The record that was appended last, and whether its answer was missing.
    last_append: Option<LogSequence>,
    /// The chain as this node was shown it, since it was first deceived.
    shown: BTreeMap<LogSequence, RecordHash>,
    pub unknown: u64,
}

impl Post {
    pub fn new(place: Place, sequencer: ModelSequencer, mistake: Option<Mistake>) -> Post {
        Post {
            place,
            sequencer,
            mailbox: Arc::default(),
            under_way: BTreeMap::new(),
            mistake,
            last_append: None,
            shown: BTreeMap::new(),
            unknown: 0,
        }
    }

    pub fn client(&self) -> usize {
        self.sequencer.client()
    }

    /// A new process' handle; the one before gets nothing any more.
    pub fn handle(&mut self) -> impl FnOnce(Waker) -> Box<dyn Sequencer + Send> + Send + use<> {
        self.mailbox = Arc::default();
        self.under_way.clear();
        let mailbox = self.mailbox.clone();
        move |waker| {
            mailbox.lock().waker = Some(waker);
            Box::new(Mail { mailbox, sent: 0 })
        }
    }

    /// Carries what was sent and what has arrived.
    pub fn carry(&mut self) {
        let (watches, sent) = {
            let mut mailbox = self.mailbox.lock();
            (std::mem::take(&mut mailbox.watches), std::mem::take(&mut mailbox.sent))
        };
        for (from, until) in watches {
            self.sequencer.watch(from, until);
        }
        for (id, request) in sent {
            let request = self.on_its_way(request);
            let number = self.sequencer.send(request);
            self.under_way.insert(number, id);
        }
        let mut has_news = false;
        while let Some(event) = self.sequencer.arrived() {
            let event = match event {
                Event::Answered(number, answer) => {
                    self.unknown += u64::from(answer.is_err());
                    let Some(id) = self.under_way.remove(&number) else {
                        continue;
                    };
                    Event::Answered(id, answer.map(|answer| self.shown_answer(answer)))
                }
                Event::Hint(hint) => Event::Hint(self.shown_hint(hint)),
            };
            self.mailbox.lock().events.push_back(event);
            has_news = true;
        }
        let waker = self.mailbox.lock().waker.clone();
        if let Some(waker) = waker.filter(|_| has_news) {
            waker();
        }
    }

    fn on_its_way(&mut self, mut request: Request) -> Request {
        let (place, mistake) = (self.place.clone(), self.mistake);
        let Request::Transact {
            compares, operations, ..
        } = &mut request
        else {
            return request;
        };
        match (&mut operations[..], mistake) {
            ([Operation::Put { key, value, .. }], Some(mistake)) => {
                let Some(at) = place.sequence_of(key) else {
                    return request;
                };
                let keeps = |compare: &Compare| match compare {
                    Compare::Present(_) => !matches!(mistake, Mistake::WithoutPredecessor | Mistake::WithoutTerm),
                    Compare::Value { .. } => mistake != Mistake::WithoutTerm,
                    Compare::Absent(_) => true,
                };
                compares.retain(keeps);
                let is_again = self.last_append.replace(at) == Some(at);
                if mistake == Mistake::ChangedEpoch && is_again {
                    changed(value);
                }
            }
            ([Operation::Delete { until, .. }], Some(Mistake::TrimWithoutCopies)) => {
                if let Some(last) = self.last_append {
                    *until = place.record_key(last);
                }
            }
            _ => {}
        }
        request
    }

    fn shown_hint(&mut self, hint: Hint) -> Hint {
        match hint {
            Hint::Put { key, value } => {
                let value = self.shown_record(&key, value);
                Hint::Put { key, value }
            }
            Hint::Missed => Hint::Missed,
        }
    }

    fn shown_answer(&mut self, answer: Answer) -> Answer {
        let Answer::Entries { entries, more } = answer else {
            return answer;
        };
        let shown = |(key, value): (Vec<u8>, Vec<u8>)| {
            let value = self.shown_record(&key, value);
            (key, value)
        };
        let entries = entries.into_iter().map(shown).collect();
        Answer::Entries { entries, more }
    }

    /// A follower that skips a record applies nothing of it and goes on behind it.
    fn shown_record(&mut self, key: &[u8], value: Vec<u8>) -> Vec<u8> {
        let at = self.place.sequence_of(key);
        let (Some(at), Some(Mistake::SkippedGap)) = (at, self.mistake) else {
            return value;
        };
        let Ok(mut record) = Record::decode(&value) else {
            return value;
        };
        let before = self.shown.get(&LogSequence(at.0.saturating_sub(1)));
        let is_skipped = at.0.is_multiple_of(97) && matches!(record.body, Body::Epoch(_));
        if before.is_none() && !is_skipped {
            return value;
        }
        record.before = before.copied().unwrap_or(record.before);
        if is_skipped {
            record.body = Body::Epoch(Vec::new());
        }
        let value = record.encode();
        self.shown.insert(at, hash(&value));
        value
    }
}

/// The record with another epoch.
fn changed(value: &mut Vec<u8>) {
    if let Ok(mut record) = Record::decode(value)
        && let Body::Epoch(_) = record.body
    {
        record.body = Body::Epoch(Vec::new());
        *value = record.encode();
    }
}
