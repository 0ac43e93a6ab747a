//! The writer of a partition: the home of one term.
//!
//! ```text
//!          append             append_request             Done, Landed
//! idle ------------> held ---------------------> sent ------------------> idle, or held with the next chunk
//!                     ^                           |  |
//!                     |          Unknown          |  |  Deposed, Stopped
//!                     +---------------------------+  +------------------> over
//! ```
//!
//! An epoch that is too long for records becomes an object first (`objects`), and then a record
//! that points to it:
//!
//! ```text
//!          append              object_request        object_kept: all pieces
//! idle -------------> upload <----------------> sent ------------------------> held, as above
//!                                                |
//!                                                |  give_up: the store is silent
//!                                                +------------------> over; the epoch never happened
//! ```
//!
//! One record is in flight at a time, and its bytes never change once they were sent: after an
//! unknown answer the same are sent again until it is known what became of them. The transaction
//! that appends record N holds
//!
//! - that `term` has this home's value, so nothing is appended after a later term's Term record;
//! - that N is absent, so a record is written once;
//! - that N-1 is present, so that a copy of the request that is delivered after N was trimmed
//!   fails.
//!
//! Pure: requests are values, answers are passed in, and time only says how long something has been
//! outstanding.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use quartet_model::LogSequence;

use crate::confirmations::{Arrival, Attempt, Confirmations};
use crate::objects::Upload;
use crate::place::{Place, TermValue, put};
use crate::pointer::{ObjectAnswer, PIECE_BYTES_MAX, Pointer};
use crate::record::{BODY_BYTES_MAX, Body, CHUNK_HEADER_BYTES, RECORD_BYTES_MAX, Record, hash};
use crate::sequencer::{Answer, Compare, Failure, Operation, Request};
use crate::stop::StopReason;
use crate::words::{Moment, Position, RecordHash};

/// Longest epoch without an object store, in bytes: one transaction of 4 MiB after a record's worth
/// of others.
pub const EPOCH_BYTES_MAX: usize = 4 * 1024 * 1024 + RECORD_BYTES_MAX;
/// The epochs that become objects, and how they are given to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectOptions {
    /// Epochs of more bytes than this.
    pub beyond_bytes: usize,
    /// From 1 to `PIECE_BYTES_MAX`; an object has at most 256 pieces.
    pub piece_bytes: usize,
    /// Time for which a home waits for the store to keep another piece, before it gives up: all
    /// commits after the object wait meanwhile.
    pub patience: Duration,
}

impl Default for ObjectOptions {
    fn default() -> ObjectOptions {
        ObjectOptions {
            beyond_bytes: EPOCH_BYTES_MAX,
            piece_bytes: PIECE_BYTES_MAX,
            patience: Duration::from_secs(10),
        }
    }
}

/// Relaxed durability may acknowledge at once while the newest evidence is younger than this.
pub const EVIDENCE_LASTS: Duration = Duration::from_secs(2);

/// The outcome of one try to append the record in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is durable.
    Done(Appended),
    /// It is durable: an earlier try had landed.
    Landed(Appended),
    /// Another home's term has started, as far as is known that of `by`. This home has ended.
    Deposed {
        /// The value of `term`.
        by: TermValue,
        /// The fate of the epoch in flight.
        fate: Fate,
    },
    /// The log contradicts this home's knowledge. This home has ended.
    Stopped(StopReason),
    /// Not known. `append_request` returns the same bytes again.
    Unknown(Failure),
}

/// A record that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The record's sequence.
    pub sequence: LogSequence,
    /// True if the epoch, mark or hash that it belongs to is whole; false if more of its chunks
    /// follow.
    pub is_whole: bool,
}

/// The fate of an epoch that was in flight when its home was deposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is durable and part of every later history.
    Landed,
    /// It never happened.
    Never,
    /// The sequencer has trimmed the record, more than one term later, so only peers' logs can
    /// decide.
    Unknown,
}

/// The outcome of one read of `term`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// The term is this home's.
    Confirmed,
    /// The term is another's. This home has ended.
    Deposed {
        /// The value of `term`.
        by: TermValue,
        /// The fate of the epoch in flight, if there was one.
        fate: Option<Fate>,
    },
    /// The log contradicts this home's knowledge. This home has ended.
    Stopped(StopReason),
    /// Unknown. `confirm_request` returns another attempt.
    Unknown(Failure),
}

/// Why nothing was taken for appending. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Something is in flight.
    #[error("an append is in flight")]
    InFlight,
    /// More than `EPOCH_BYTES_MAX`, or than an object holds.
    #[error("an epoch of {0} bytes is too long for the log")]
    TooLong(usize),
    /// Deposed or stopped.
    #[error("this home's term is over")]
    Over,
}

/// The home of one term. A clone shares nothing; only one of the clones may be used.
#[derive(Clone, Debug)]
pub struct Home {
    place: Place,
    term: TermValue,
    term_bytes: Vec<u8>,
    tail: Position,
    /// Last record at or before the tail that ends a group; a follower may start only after such a
    /// record.
    whole: LogSequence,
    flight: Option<Flight>,
    /// The chunks after the record in flight.
    chunks: VecDeque<Body>,
    /// Which epochs become objects; `None` without a store of objects.
    objects: Option<ObjectOptions>,
    /// The object of the next record, which the store does not have yet.
    upload: Option<(Upload, Uploading)>,
    confirmations: Confirmations,
    /// The read of `term` that is outstanding.
    confirming: Option<Sent>,
    /// The send time of the oldest read of `term` without a later answer.
    confirming_since: Option<Moment>,
    evidence: Option<Moment>,
    is_over: bool,
}

/// A record that is not known to be durable.
#[derive(Clone, Debug)]
struct Flight {
    sequence: LogSequence,
    bytes: Vec<u8>,
    hash: RecordHash,
    /// The time of its first sending, and its attempt.
    since: Option<Moment>,
    first: Option<Attempt>,
    /// The try that is outstanding.
    sent: Option<Sent>,
}

/// The progress of an object in the store.
#[derive(Clone, Copy, Debug, Default)]
struct Uploading {
    /// The time of its first piece's first sending.
    since: Option<Moment>,
    /// The time at which the store kept the last piece, or was sent the first.
    progress: Option<Moment>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    attempt: Attempt,
    at: Moment,
}

impl Home {
    /// The home of a term that was just won, whose Term record is the log's last.
    pub(crate) fn new(place: Place, term: TermValue) -> Home {
        let tail = Position {
            sequence: term.sequence,
            hash: term.hash,
            term: term.term,
            writer: term.writer,
        };
        Home {
            place,
            term,
            term_bytes: term.encode(),
            tail,
            whole: tail.sequence,
            flight: None,
            chunks: VecDeque::new(),
            objects: None,
            upload: None,
            confirmations: Confirmations::default(),
            confirming: None,
            confirming_since: None,
            evidence: None,
            is_over: false,
        }
    }

    /// Makes objects of epochs that are too long for records.
    pub fn keep_objects(&mut self, options: ObjectOptions) {
        self.objects = Some(options);
    }

    /// The term.
    pub fn term(&self) -> &TermValue {
        &self.term
    }

    /// The last record that is known to be durable.
    pub fn tail(&self) -> Position {
        self.tail
    }

    /// Returns true once deposed or stopped; no further requests are sent.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns true while a record is not known to be durable.
    pub fn is_appending(&self) -> bool {
        self.flight.is_some() || self.upload.is_some()
    }

    /// Takes an epoch for appending, in chunks if it is long, or as an object, and returns the
    /// sequence of its last record.
    pub fn append<'e>(&mut self, epoch: impl Into<Cow<'e, [u8]>>) -> Result<LogSequence, AppendError> {
        let epoch = epoch.into();
        if let Some(options) = self.objects.filter(|options| epoch.len() > options.beyond_bytes) {
            return self.take_object(epoch.into_owned(), options.piece_bytes);
        }
        if epoch.len() > EPOCH_BYTES_MAX {
            return Err(AppendError::TooLong(epoch.len()));
        }
        self.take(split(&epoch))
    }

    fn take_object(&mut self, epoch: Vec<u8>, piece_bytes: usize) -> Result<LogSequence, AppendError> {
        self.may_take()?;
        let pointer = Pointer::to(&epoch, piece_bytes).ok_or(AppendError::TooLong(epoch.len()))?;
        let upload = Upload {
            pointer,
            epoch,
            kept: 0,
            is_sent: false,
        };
        self.upload = Some((upload, Uploading::default()));
        Ok(self.tail.sequence.next())
    }

    /// Returns the request that keeps the next piece of an object, unless it is outstanding. Its
    /// answer goes to `object_kept`.
    pub fn object_request(&mut self, now: Moment) -> Option<Request> {
        let (upload, uploading) = self.upload.as_mut().filter(|(upload, _)| !upload.is_sent)?;
        if self.is_over {
            return None;
        }
        upload.is_sent = true;
        uploading.since.get_or_insert(now);
        uploading.progress.get_or_insert(now);
        let request = upload.request(&self.place, self.tail.sequence.next(), self.term.term);
        Some(Request::Object(request))
    }

    /// Takes the answer to the last `object_request`. After a failure the same piece is sent again;
    /// after the last piece the record may be appended.
    pub fn object_kept(&mut self, answer: &Result<Answer, Failure>, now: Moment) {
        let Some((upload, uploading)) = &mut self.upload else {
            return;
        };
        upload.is_sent = false;
        if *answer != Ok(Answer::Object(ObjectAnswer::Done)) {
            return;
        }
        upload.kept += 1;
        uploading.progress = Some(now);
        if upload.kept == upload.pointer.pieces() {
            self.chunks = [Body::Object(upload.pointer)].into();
            self.upload = None;
            self.launch();
        }
    }

    /// Ends this home of its own will, if the store has kept no piece of an object for too long.
    /// The epoch that was taken last never happens: no record points to its object. True if this
    /// home has ended here.
    pub fn give_up(&mut self, now: Moment) -> bool {
        let (Some((_, uploading)), Some(options)) = (&self.upload, self.objects) else {
            return false;
        };
        let is_silent = uploading
            .progress
            .is_some_and(|progress| now.since(progress) >= options.patience);
        let gives_up = is_silent && !self.is_over;
        self.is_over |= gives_up;
        gives_up
    }

    /// Takes a mark for appending: every node notes its state hash there.
    pub fn append_mark(&mut self) -> Result<LogSequence, AppendError> {
        self.take([Body::Mark].into())
    }

    /// Takes the state hash at a mark for appending.
    pub fn append_hash(&mut self, at: LogSequence, state: u128) -> Result<LogSequence, AppendError> {
        self.take([Body::Hash { at, state }].into())
    }

    /// Returns the request that appends what is in flight, unless it is outstanding. Its answer
    /// goes to `appended`.
    pub fn append_request(&mut self, now: Moment) -> Option<Request> {
        let flight = self.flight.as_mut().filter(|_| !self.is_over)?;
        if flight.sent.is_some() {
            return None;
        }
        let attempt = self.confirmations.begin();
        flight.sent = Some(Sent { attempt, at: now });
        flight.since.get_or_insert(now);
        flight.first.get_or_insert(attempt);
        let key = self.place.record_key(flight.sequence);
        let value = self.term_bytes.clone();
        Some(Request::Transact {
            compares: vec![
                Compare::Value {
                    key: self.place.term_key(),
                    value,
                },
                Compare::Absent(key.clone()),
                Compare::Present(self.place.record_key(self.tail.sequence)),
            ],
            operations: vec![put(key.clone(), flight.bytes.clone())],
            otherwise: vec![self.place.term_key(), key],
        })
    }

    /// Takes the answer to the last `append_request`. Must be called once for each while this home
    /// is not over.
    pub fn appended(&mut self, answer: Result<Answer, Failure>) -> Outcome {
        let flight = self.flight.as_mut().expect("an append is in flight");
        let sent = flight.sent.take().expect("the append was sent");
        match answer {
            Ok(Answer::Done { .. }) => {
                self.confirm(sent);
                Outcome::Done(self.advance())
            }
            Ok(Answer::Refused { values }) => self.refused(sent, &values),
            Ok(_) => self.stop(StopReason::Confused("an append")),
            Err(failure) => Outcome::Unknown(failure),
        }
    }

    fn refused(&mut self, sent: Sent, values: &[Option<Vec<u8>>]) -> Outcome {
        let [term, record] = values else {
            return self.stop(StopReason::Confused("an append"));
        };
        let standing = self.standing(term.as_deref());
        let flight = self.flight.as_ref().expect("an append is in flight");
        let sequence = flight.sequence;
        let is_mine = record.as_deref().map(|record| record == flight.bytes);
        match (standing, is_mine) {
            (Standing::Mine, Some(true)) => {
                self.confirm(sent);
                Outcome::Landed(self.advance())
            }
            (Standing::Mine, Some(false)) => self.stop(StopReason::ForeignRecord { at: sequence }),
            (Standing::Mine, None) => self.stop(StopReason::LostPredecessor {
                missing: self.tail.sequence,
            }),
            (Standing::Another(by), is_mine) => {
                self.is_over = true;
                let fate = self.fate(sequence, &by, is_mine);
                self.confirm_landed(fate);
                Outcome::Deposed { by, fate }
            }
            (Standing::Older, _) => self.stop(StopReason::TermWentBack { known: self.term.term }),
        }
    }

    /// The fate of a record without a trace: it was trimmed if the next term started after it, and
    /// otherwise never existed. Chunks that were not all appended before the next term never
    /// happened.
    fn fate(&self, sequence: LogSequence, by: &TermValue, is_mine: Option<bool>) -> Fate {
        let was_there = by.sequence > sequence;
        let is_last = self.chunks.is_empty();
        match is_mine {
            _ if !is_last || !was_there => Fate::Never,
            Some(true) => Fate::Landed,
            Some(false) => Fate::Never,
            None if by.term == self.term.term.next() => Fate::Landed,
            None => Fate::Unknown,
        }
    }

    /// A landed record was appended while this node was home, after its first sending; it is
    /// unknown which attempt succeeded.
    fn confirm_landed(&mut self, fate: Fate) {
        let first = self.flight.as_ref().and_then(|flight| flight.first);
        if let Some(first) = first.filter(|_| fate == Fate::Landed) {
            self.confirmations.confirm(first);
        }
    }

    /// Marks that a request arrived. Its reply may leave once `is_confirmed`.
    pub fn arrival(&self) -> Arrival {
        self.confirmations.arrival()
    }

    /// Requests a confirmation of everything that arrived up to `arrival`.
    pub fn want(&mut self, arrival: Arrival) {
        self.confirmations.want(arrival);
    }

    /// Returns true once `term` was found unchanged at an instant after the arrival.
    pub fn is_confirmed(&self, arrival: Arrival) -> bool {
        self.confirmations.is_confirmed(arrival)
    }

    /// Returns a read of `term`, if a waiting request cannot be confirmed by any outstanding append
    /// or read. Its answer is passed to `confirmed`.
    pub fn confirm_request(&mut self, now: Moment) -> Option<Request> {
        let appending = self.flight.as_ref().and_then(|flight| flight.sent);
        let outstanding = appending.map(|sent| sent.attempt);
        if self.is_over || self.confirming.is_some() || !self.confirmations.needs_attempt(outstanding) {
            return None;
        }
        let attempt = self.confirmations.begin();
        self.confirming = Some(Sent { attempt, at: now });
        self.confirming_since.get_or_insert(now);
        Some(Request::Get {
            key: self.place.term_key(),
        })
    }

    /// Takes the answer to the last `confirm_request`. Must be called once for each while this home
    /// is not over.
    pub fn confirmed(&mut self, answer: Result<Answer, Failure>) -> Confirmation {
        let sent = self.confirming.take().expect("a read of the term is outstanding");
        let standing = match answer {
            Ok(Answer::Value(term)) => self.standing(term.as_deref()),
            Ok(_) => return self.halt(StopReason::Confused("a read of the term")),
            Err(failure) => return Confirmation::Unknown(failure),
        };
        self.confirming_since = None;
        match standing {
            Standing::Mine => {
                self.confirm(sent);
                Confirmation::Confirmed
            }
            Standing::Another(by) => {
                self.is_over = true;
                let flight = self.flight.as_ref();
                let fate = flight.map(|flight| self.fate(flight.sequence, &by, None));
                let fate = fate.or_else(|| self.upload.is_some().then_some(Fate::Never));
                if let Some(fate) = fate {
                    self.confirm_landed(fate);
                }
                Confirmation::Deposed { by, fate }
            }
            Standing::Older => self.halt(StopReason::TermWentBack { known: self.term.term }),
        }
    }

    /// Returns the first arrival that is not confirmed; all before it are.
    pub fn confirmed_below(&self) -> Arrival {
        self.confirmations.confirmed_below()
    }

    /// The send time of the newest attempt that has shown this node to be home.
    pub fn evidence(&self) -> Option<Moment> {
        self.evidence.filter(|_| !self.is_over)
    }

    /// The same, for relaxed durability: while an object is uploaded, evidence newer than the start
    /// of the upload does not count, because the home may give up.
    pub fn relaxed_evidence(&self) -> Option<Moment> {
        let since = self.upload.as_ref().and_then(|(_, uploading)| uploading.since);
        let evidence = self.evidence()?;
        Some(since.map_or(evidence, |since| evidence.min(since)))
    }

    /// Bytes of the record in flight, as stored; zero without a flight.
    pub fn flight_bytes(&self) -> usize {
        self.flight.as_ref().map_or(0, |flight| flight.bytes.len())
    }

    /// True while an append or a confirmation has been outstanding for as long.
    pub fn waits_for(&self, now: Moment, limit: Duration) -> bool {
        let append = self.flight.as_ref().and_then(|flight| flight.since);
        let oldest = append.into_iter().chain(self.confirming_since).min();
        oldest.is_some_and(|since| now.since(since) >= limit)
    }

    /// True while a confirmation has been outstanding for `limit`: a sequencer without room leaves
    /// appends waiting and answers reads.
    pub fn confirmation_waits_for(&self, now: Moment, limit: Duration) -> bool {
        self.confirming_since.is_some_and(|since| now.since(since) >= limit)
    }

    /// True while this node was home less than `EVIDENCE_LASTS` ago: relaxed durability may
    /// acknowledge at once.
    pub fn is_fresh(&self, now: Moment) -> bool {
        let evidence = self.relaxed_evidence();
        evidence.is_some_and(|evidence| now.since(evidence) < EVIDENCE_LASTS)
    }

    /// Returns the limit below which records may be dropped, at most `below` from
    /// [`trim`](crate::trim::trim): the last record, and an unfinished group, always stay.
    pub fn may_drop_below(&self, below: LogSequence) -> LogSequence {
        below.min(self.whole)
    }

    /// Returns the request that drops the records below `below`, as far as they may go, while this
    /// home's term runs. Safe to repeat.
    pub fn trim_request(&self, below: LogSequence) -> Request {
        let below = self.may_drop_below(below);
        Request::Transact {
            compares: vec![Compare::Value {
                key: self.place.term_key(),
                value: self.term_bytes.clone(),
            }],
            operations: vec![Operation::Delete {
                from: self.place.record_key(LogSequence::ZERO),
                until: self.place.record_key(below),
            }],
            otherwise: Vec::new(),
        }
    }

    fn may_take(&self) -> Result<(), AppendError> {
        match (self.is_over, self.is_appending()) {
            (true, _) => Err(AppendError::Over),
            (false, true) => Err(AppendError::InFlight),
            (false, false) => Ok(()),
        }
    }

    fn take(&mut self, bodies: VecDeque<Body>) -> Result<LogSequence, AppendError> {
        self.may_take()?;
        let last = LogSequence(self.tail.sequence.0 + bodies.len() as u64);
        self.chunks = bodies;
        self.launch();
        Ok(last)
    }

    /// Makes a record of the next body, and fixes its bytes.
    fn launch(&mut self) {
        self.flight = self.chunks.pop_front().map(|body| {
            let record = Record {
                cluster: self.place.cluster,
                partition: self.place.partition,
                sequence: self.tail.sequence.next(),
                term: self.term.term,
                writer: self.term.writer,
                before: self.tail.hash,
                body,
            };
            let bytes = record.encode();
            Flight {
                sequence: record.sequence,
                hash: hash(&bytes),
                bytes,
                since: None,
                first: None,
                sent: None,
            }
        });
    }

    /// The record in flight is durable.
    fn advance(&mut self) -> Appended {
        let flight = self.flight.take().expect("an append is in flight");
        (self.tail.sequence, self.tail.hash) = (flight.sequence, flight.hash);
        let is_whole = self.chunks.is_empty();
        if is_whole {
            self.whole = flight.sequence;
        }
        self.launch();
        let sequence = flight.sequence;
        Appended { sequence, is_whole }
    }

    fn confirm(&mut self, sent: Sent) {
        self.confirmations.confirm(sent.attempt);
        self.evidence = self.evidence.max(Some(sent.at));
    }

    fn stop(&mut self, reason: StopReason) -> Outcome {
        self.is_over = true;
        Outcome::Stopped(reason)
    }

    fn halt(&mut self, reason: StopReason) -> Confirmation {
        self.is_over = true;
        Confirmation::Stopped(reason)
    }

    fn standing(&self, term: Option<&[u8]>) -> Standing {
        match term {
            Some(term) if term == self.term_bytes => Standing::Mine,
            Some(term) => match TermValue::decode(term) {
                Some(by) if by.term > self.term.term => Standing::Another(by),
                _ => Standing::Older,
            },
            None => Standing::Older,
        }
    }
}

/// The owner of a term.
enum Standing {
    Mine,
    Another(TermValue),
    /// Missing, unreadable, earlier than this home's, or the same with another home: no later
    /// history of this log has such a value.
    Older,
}

/// One epoch, or its chunks.
fn split(epoch: &[u8]) -> VecDeque<Body> {
    if epoch.len() <= BODY_BYTES_MAX {
        return [Body::Epoch(epoch.to_vec())].into();
    }
    let pieces = epoch.chunks(BODY_BYTES_MAX - CHUNK_HEADER_BYTES);
    let count = pieces.len() as u32;
    let chunk = |(index, bytes): (usize, &[u8])| Body::Chunk {
        index: index as u32,
        count,
        bytes: bytes.to_vec(),
    };
    pieces.enumerate().map(chunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follower::Follower;
    use crate::model::Store;
    use crate::take_over::{Progress, TakeOver};
    use crate::words::{ClusterId, NodeId, PartitionId, Term, Writer};
    use quartet_model::Version;

    fn place() -> Place {
        Place::new("/x", ClusterId(1), PartitionId(0))
    }

    fn ask(store: &mut Store, request: &Request) -> Result<Answer, Failure> {
        Ok(store.execute(0, Duration::ZERO, request))
    }

    fn take_over(store: &mut Store, node: u64) -> Home {
        let mut follower = Follower::new(place(), place().beginning());
        let writer = Writer {
            node: NodeId(node),
            incarnation: 1,
        };
        let mut attempt = TakeOver::new(writer);
        loop {
            let Some(request) = attempt.request(&mut follower) else {
                attempt.claim(&follower, Version(1));
                continue;
            };
            let answer = ask(store, &request);
            if let Progress::Won(home, _) = attempt.answered(&mut follower, answer).unwrap() {
                return *home;
            }
        }
    }

    fn home() -> (Store, Home) {
        let mut store = Store::default();
        ask(&mut store, &place().found()).unwrap();
        let home = take_over(&mut store, 1);
        (store, home)
    }

    fn at(milliseconds: u64) -> Moment {
        Moment(Duration::from_millis(milliseconds))
    }

    fn unknown() -> Result<Answer, Failure> {
        Err(Failure::Unknown("no answer in time".to_owned()))
    }

    /// Checks the outcome of an append after `change` at the store.
    fn check(change: Operation, expected: StopReason) {
        let (mut store, mut home) = home();
        home.append(b"one").unwrap();
        let request = home.append_request(at(0)).unwrap();
        let changed = Request::Transact {
            compares: Vec::new(),
            operations: vec![change],
            otherwise: Vec::new(),
        };
        ask(&mut store, &changed).unwrap();
        assert_eq!(home.appended(ask(&mut store, &request)), Outcome::Stopped(expected));
        assert!(home.is_over() && home.append_request(at(0)).is_none());
    }

    #[test]
    fn a_log_that_contradicts_its_home_is_named() {
        let delete = |from: Vec<u8>| Operation::Delete {
            until: [&from[..], b"\0"].concat(),
            from,
        };
        let missing = LogSequence(1);
        let lost = StopReason::LostPredecessor { missing };
        check(delete(place().record_key(missing)), lost);
        let known = Term(1);
        check(delete(place().term_key()), StopReason::TermWentBack { known });
        let garbage = put(place().term_key(), b"garbage".to_vec());
        check(garbage, StopReason::TermWentBack { known });
        let at = LogSequence(2);
        let foreign = put(place().record_key(at), b"another's".to_vec());
        check(foreign, StopReason::ForeignRecord { at });
    }

    #[test]
    fn a_sent_request_never_changes_and_is_outstanding_once() {
        let (mut store, mut home) = home();
        home.append(b"one").unwrap();
        assert_eq!(home.append(b"two"), Err(AppendError::InFlight));
        let first = home.append_request(at(0)).unwrap();
        assert!(home.append_request(at(0)).is_none(), "it is outstanding");
        assert!(matches!(home.appended(unknown()), Outcome::Unknown(_)));
        assert_eq!(home.append_request(at(1)).as_ref(), Some(&first));
        let appended = Appended {
            sequence: LogSequence(2),
            is_whole: true,
        };
        assert_eq!(home.appended(ask(&mut store, &first)), Outcome::Done(appended));
        assert_eq!(
            home.append(vec![0; EPOCH_BYTES_MAX + 1]),
            Err(AppendError::TooLong(EPOCH_BYTES_MAX + 1))
        );
    }

    #[test]
    fn a_home_is_uncertain_while_an_answer_is_missing() {
        let (mut store, mut home) = home();
        let is_uncertain = |home: &Home, now| home.waits_for(now, Duration::from_secs(1));
        assert!(!home.is_fresh(at(0)), "nothing has been confirmed");
        home.append(b"one").unwrap();
        let request = home.append_request(at(0)).unwrap();
        home.appended(unknown());
        home.append_request(at(700)).unwrap();
        assert!(
            !is_uncertain(&home, at(999)) && is_uncertain(&home, at(1000)),
            "since it was sent first"
        );
        home.appended(ask(&mut store, &request));
        assert!(!is_uncertain(&home, at(1000)));
        // Evidence is as old as the sending of the try that was answered.
        assert!(home.is_fresh(at(2699)) && !home.is_fresh(at(2700)));
        home.want(home.arrival());
        home.confirm_request(at(3000)).unwrap();
        home.confirmed(unknown());
        assert!(is_uncertain(&home, at(4000)));
        let request = home.confirm_request(at(4000)).unwrap();
        assert_eq!(home.confirmed(ask(&mut store, &request)), Confirmation::Confirmed);
        assert!(!is_uncertain(&home, at(9000)) && home.is_fresh(at(5999)));
    }

    #[test]
    fn an_append_started_after_a_request_spares_its_confirmation() {
        let (mut store, mut home) = home();
        let early = home.arrival();
        home.want(early);
        home.append(b"one").unwrap();
        let append = home.append_request(at(0)).unwrap();
        assert!(home.confirm_request(at(0)).is_none(), "the append will do");
        let late = home.arrival();
        home.want(late);
        let read = home.confirm_request(at(0)).unwrap();
        home.appended(ask(&mut store, &append));
        assert!(home.is_confirmed(early) && !home.is_confirmed(late));
        home.confirmed(ask(&mut store, &read));
        assert!(home.is_confirmed(late));
    }

    /// A confirmation that names the next home decides the epoch in flight as well.
    #[test]
    fn a_confirmation_that_deposes_says_what_became_of_the_epoch() {
        for landed in [true, false] {
            let (mut store, mut old) = home();
            let early = old.arrival();
            old.append(b"one").unwrap();
            let append = old.append_request(at(0)).unwrap();
            let late = old.arrival();
            if landed {
                ask(&mut store, &append).unwrap();
            }
            old.appended(unknown());
            let new = take_over(&mut store, 2);
            old.want(old.arrival());
            let read = old.confirm_request(at(0)).unwrap();
            let fate = if landed { Fate::Landed } else { Fate::Never };
            let expected = Confirmation::Deposed {
                by: *new.term(),
                fate: Some(fate),
            };
            assert_eq!(old.confirmed(ask(&mut store, &read)), expected);
            // It was home when the epoch was appended, after requests that arrived before the
            // sending.
            assert_eq!((old.is_confirmed(early), old.is_confirmed(late)), (landed, false));
            assert_eq!(old.append(b"two"), Err(AppendError::Over));
        }
    }

    #[test]
    fn an_unfinished_group_is_never_trimmed() {
        let (mut store, mut home) = home();
        home.append(vec![0; BODY_BYTES_MAX + 1]).unwrap();
        let first = home.append_request(at(0)).unwrap();
        home.appended(ask(&mut store, &first));
        assert_eq!(home.tail().sequence, LogSequence(2));
        let trimmed = home.trim_request(LogSequence(u64::MAX));
        ask(&mut store, &trimmed).unwrap();
        assert!(store.value(&place().record_key(LogSequence(1))).is_some());
    }
}
