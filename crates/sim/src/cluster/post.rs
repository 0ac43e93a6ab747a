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
    Answer, Body, Compare, Event, Failure, Hint, LeaseId, NodeId, ObjectAnswer, ObjectRequest, Operation, Place,
    Record, RecordHash, Request, RequestId, Sequencer, copies, hash,
};
use quartet_model::LogSequence;

use crate::cluster::mistake::Mistake;

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

/// The part of a request that its answer is understood by.
enum Sent {
    /// A record, the value of `term` that it rests on, and the kind of record.
    Append {
        term: Vec<u8>,
        record: Vec<u8>,
        kind: &'static str,
    },
    /// A new value of `term`.
    Claim(Vec<u8>),
    ReadTerm,
    /// A piece of an object.
    Piece,
    /// The records from one on, with the number of the read.
    Range(u64),
    Other,
}

/// The world's end of a node's mailbox.
pub struct Post {
    place: Place,
    sequencer: ModelSequencer,
    mailbox: Arc<Mutex<Mailbox>>,
    /// The node's number of each request under way.
    under_way: BTreeMap<RequestId, (RequestId, Sent)>,
    mistake: Option<Mistake>,
    /// The record that was appended last, and whether its answer was missing.
    last_append: Option<LogSequence>,
    /// The value of `term` with which the node has become home.
    home_by: Option<Vec<u8>>,
    /// The records that this node was shown, since it was first deceived.
    shown: BTreeMap<LogSequence, Vec<u8>>,
    /// The chunks as they are.
    chunks: BTreeMap<LogSequence, Vec<u8>>,
    /// Reads of the log by this process, and the last that was answered to the end of the log.
    ranges_sent: u64,
    ranges_answered: u64,
    /// Number of answers of each kind.
    pub counts: BTreeMap<&'static str, u64>,
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
            home_by: None,
            shown: BTreeMap::new(),
            chunks: BTreeMap::new(),
            ranges_sent: 0,
            ranges_answered: 0,
            counts: BTreeMap::new(),
        }
    }

    /// The number of reads of the log that were sent.
    pub fn ranges_sent(&self) -> u64 {
        self.ranges_sent
    }

    /// The number of the last range with an answer that reached the end of the log.
    pub fn ranges_answered(&self) -> u64 {
        self.ranges_answered
    }

    pub fn client(&self) -> usize {
        self.sequencer.client()
    }

    /// The kind of record with an unanswered append.
    pub fn appends(&self) -> Option<&'static str> {
        self.under_way.values().find_map(|(_, sent)| match sent {
            Sent::Append { kind, .. } => Some(*kind),
            _ => None,
        })
    }

    /// A new process' handle; the previous one receives nothing further.
    pub fn handle(&mut self) -> impl FnOnce(Waker) -> Box<dyn Sequencer + Send> + Send + use<> {
        self.mailbox = Arc::default();
        self.under_way.clear();
        self.home_by = None;
        let mailbox = self.mailbox.clone();
        move |waker| {
            mailbox.lock().waker = Some(waker);
            Box::new(Mail { mailbox, sent: 0 })
        }
    }

    /// The process has ended: what it has not sent yet it never sends.
    pub fn close(&mut self) {
        self.mailbox = Arc::default();
        self.under_way.clear();
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
            let sent = self.sent(&request);
            if let Sent::Range(number) = sent {
                self.ranges_sent = number;
            }
            let request = self.on_its_way(request);
            let number = self.sequencer.send(request);
            self.under_way.insert(number, (id, sent));
        }
        let mut has_news = false;
        while let Some(event) = self.sequencer.arrived() {
            let event = match event {
                Event::Answered(number, answer) => {
                    let Some((id, sent)) = self.under_way.remove(&number) else {
                        continue;
                    };
                    self.count(&sent, &answer);
                    self.remove_early(&sent, &answer);
                    Event::Answered(id, self.shown_answer(&sent, answer))
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

    fn sent(&self, request: &Request) -> Sent {
        match request {
            Request::Object(ObjectRequest::Put { name, .. }) if self.place.object_sequence(name).is_some() => {
                Sent::Piece
            }
            Request::Range { until, .. } if *until == self.place.records_end() => Sent::Range(self.ranges_sent + 1),
            Request::Get { key } if *key == self.place.term_key() => Sent::ReadTerm,
            Request::Transact {
                compares, operations, ..
            } => match &operations[..] {
                [Operation::Put { key, value, .. }] if self.place.sequence_of(key).is_some() => Sent::Append {
                    term: compared(compares),
                    record: value.clone(),
                    kind: kind_of(value),
                },
                [Operation::Put { .. }, Operation::Put { value, .. }] => Sent::Claim(value.clone()),
                _ => Sent::Other,
            },
            _ => Sent::Other,
        }
    }

    /// Counts what an answer says, and notes whether the node is home.
    fn count(&mut self, sent: &Sent, answer: &Result<Answer, Failure>) {
        if let (Sent::ReadTerm, Ok(Answer::Value(term))) = (sent, answer)
            && self.mistake != Some(Mistake::StaleConfirmation)
            && *term != self.home_by
        {
            self.home_by = None;
        }
        if let (Sent::Range(number), Ok(Answer::Entries { more: false, .. })) = (sent, answer) {
            self.ranges_answered = self.ranges_answered.max(*number);
        }
        let event = match (sent, answer) {
            (Sent::Append { .. }, Err(_)) => "append unknown",
            (Sent::Append { term, record, .. }, Ok(Answer::Refused { values })) => {
                let is_there = values.get(1).is_some_and(|value| value.as_ref() == Some(record));
                match (
                    values.first().is_some_and(|value| value.as_ref() == Some(term)),
                    is_there,
                ) {
                    (true, true) => "append had landed before",
                    (true, false) => "append refused within its term",
                    (false, true) => "deposed: the append had landed",
                    (false, false) => "deposed: the append never happened",
                }
            }
            (Sent::Claim(_), Err(_)) => "claim unknown",
            (Sent::Claim(term), Ok(answer)) => {
                let has_landed =
                    |values: &[Option<Vec<u8>>]| values.first().is_some_and(|value| value.as_ref() == Some(term));
                let outcome = match answer {
                    Answer::Refused { values } if !has_landed(values) => "claim refused",
                    Answer::Refused { .. } => "claim had landed before",
                    _ => "claim won",
                };
                if outcome != "claim refused" {
                    self.home_by = Some(term.clone());
                }
                outcome
            }
            (Sent::ReadTerm, Err(_)) => "read of the term unknown",
            (Sent::Piece, Err(_)) => "piece of an object unknown",
            (_, Err(_)) => "other answer unknown",
            _ => return,
        };
        *self.counts.entry(event).or_default() += 1;
        if event.starts_with("deposed") {
            self.home_by = None;
        }
    }

    /// A mistake: an object goes as soon as its record is appended.
    fn remove_early(&mut self, sent: &Sent, answer: &Result<Answer, Failure>) {
        if let (Some(Mistake::ObjectRemovedEarly), Sent::Append { record, .. }, Ok(Answer::Done { .. })) =
            (self.mistake, sent, answer)
            && let Ok(record) = Record::decode(record)
            && let Body::Object(pointer) = record.body
        {
            for piece in 0..pointer.pieces() {
                let name = self.place.object_name(record.sequence, record.term, &pointer, piece);
                self.sequencer.send(Request::Object(ObjectRequest::Remove { name }));
            }
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
            ([Operation::Put { key, value, lease }], Some(Mistake::ReportBeforeSync)) => {
                if let (None, Some(lease)) = (place.sequence_of(key), *lease)
                    && let Some(early) = reported_early(&place, key, value, lease)
                {
                    return early;
                }
            }
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

    fn shown_answer(&mut self, sent: &Sent, answer: Result<Answer, Failure>) -> Result<Answer, Failure> {
        match (self.mistake, sent, answer) {
            (Some(Mistake::UnknownTakenAsDone), Sent::Append { .. }, Err(_)) => Ok(Answer::Done { revision: 0 }),
            (Some(Mistake::PointerBeforeObject), Sent::Piece, Err(_)) => Ok(Answer::Object(ObjectAnswer::Done)),
            (Some(Mistake::StaleConfirmation), Sent::ReadTerm, Ok(answer)) => Ok(match &self.home_by {
                Some(term) => Answer::Value(Some(term.clone())),
                None => answer,
            }),
            (_, _, Ok(Answer::Entries { entries, more })) => {
                let as_shown = |(key, value): (Vec<u8>, Vec<u8>)| {
                    let value = self.shown_record(&key, value);
                    (key, value)
                };
                let entries = entries.into_iter().map(as_shown).collect();
                Ok(Answer::Entries { entries, more })
            }
            (_, _, answer) => answer,
        }
    }

    /// Replaces a record by a falsified record, and later records by records that fit it.
    fn shown_record(&mut self, key: &[u8], value: Vec<u8>) -> Vec<u8> {
        let (Some(at), Some(mistake)) = (self.place.sequence_of(key), self.mistake) else {
            return value;
        };
        let Ok(record) = Record::decode(&value) else {
            return value;
        };
        // A home knows its records as it has written them.
        if mistake == Mistake::CutGroupApplied && self.home_by.is_some() {
            return value;
        }
        if let Some(record) = self.shown.get(&at) {
            return record.clone();
        }
        let body = match (mistake, &record.body) {
            (Mistake::SkippedGap, Body::Epoch(_)) if at.0.is_multiple_of(97) => Some(Body::Epoch(Vec::new())),
            (Mistake::CutGroupApplied, Body::Chunk { index, .. }) => self.applied_at_once(at, *index, &value),
            _ => None,
        };
        let before = self.shown.get(&LogSequence(at.0.saturating_sub(1)));
        if before.is_none() && body.is_none() {
            return value;
        }
        let before: RecordHash = before.map_or(record.before, |before| hash(before));
        let body = body.unwrap_or(record.body);
        let value = Record { before, body, ..record }.encode();
        self.shown.insert(at, value.clone());
        value
    }

    /// The whole transactions that a chunk completes, as an epoch.
    fn applied_at_once(&mut self, at: LogSequence, index: u32, chunk: &[u8]) -> Option<Body> {
        self.chunks.insert(at, chunk.to_vec());
        let first = at.0 - u64::from(index);
        let mut bytes = Vec::new();
        let mut had = 0;
        for at in first..=at.0 {
            had = whole_transactions(&bytes);
            let Body::Chunk { bytes: more, .. } = Record::decode(self.chunks.get(&LogSequence(at))?).ok()?.body else {
                return None;
            };
            bytes.extend_from_slice(&more);
        }
        let has = whole_transactions(&bytes);
        Some(Body::Epoch(bytes[had..has].to_vec()))
    }
}

/// Length of the whole transactions at the start of `bytes`: each is a version, a length, and its
/// bytes.
fn whole_transactions(bytes: &[u8]) -> usize {
    let mut whole = 0;
    while let Some(length) = bytes[whole..].get(8..12) {
        let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
        let end = whole + 12 + length as usize;
        if end > bytes.len() {
            break;
        }
        whole = end;
    }
    whole
}

fn compared(compares: &[Compare]) -> Vec<u8> {
    let value = compares.iter().find_map(|compare| match compare {
        Compare::Value { value, .. } => Some(value.clone()),
        _ => None,
    });
    value.unwrap_or_default()
}

fn kind_of(record: &[u8]) -> &'static str {
    match Record::decode(record).map(|record| record.body) {
        Ok(Body::Chunk { .. }) => "take-over while a chunk is in flight",
        Ok(Body::Object(_)) => "take-over while a record with an object is in flight",
        Ok(Body::Mark | Body::Hash { .. }) => "take-over while a mark or hash is in flight",
        _ => "take-over while an epoch is in flight",
    }
}

/// A node's report that calls synced what is applied.
fn reported_early(place: &Place, key: &[u8], value: &[u8], lease: LeaseId) -> Option<Request> {
    let entries = vec![(key.to_vec(), value.to_vec())];
    let (node, mut report): (NodeId, _) = copies::reports(place, &Answer::Entries { entries, more: false }).pop()?;
    for reached in &mut report.partitions {
        reached.synced = reached.applied;
    }
    Some(report.request(place, node, lease))
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
