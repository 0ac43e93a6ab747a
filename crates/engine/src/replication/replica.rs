//! The machines of the replicated log, driven by the sequencer's events. Never waits.
//!
//! ```text
//! Following --take_over--> Candidate --won--> Home --deposed--> Following
//!     ^                        |                |
//!     +---- another's term ----+                +--> Ended, as from anywhere
//! ```
//!
//! Events become [`Happening`]s, which the flusher carries out in order before it takes the next
//! one.

use std::sync::Arc;
use std::time::Duration;

use quartet_log_replicated::{
    Answer, Arrival, Confirmation, Content, Delivery, Event, Failure, Fate, Follower, Hint, Hinted, Home, Moment,
    Outcome, Pace, Place, Position, Progress, ReplicaReads, Request, RequestId, Sequencer, StopReason, TakeOver,
    Writer,
};
use quartet_model::{LogSequence, Version};

use crate::replication::chores::{Chores, Reached};
use crate::standing::{Replication, Standing};

/// Interval at which a follower reads the log, with or without hints, and at which an idle home
/// checks that it still is home.
const POLL: Duration = Duration::from_secs(1);
/// The wait before a failed request is sent again.
const RETRY: Duration = Duration::from_millis(20);
/// The same for the store of objects.
const STORE_RETRY: Duration = Duration::from_millis(200);

/// Something for the flusher to carry out.
pub(crate) enum Happening {
    /// Apply these.
    Deliver(Vec<Delivery>),
    /// This node is home from this Term record on.
    Won(Delivery),
    /// A record of this home's is durable, at this position. True if its epoch is whole.
    Appended(Position, bool),
    /// Another is home. `has_landed`: what was in flight is durable all the same.
    Deposed { has_landed: bool },
    /// No further events follow.
    Ended(StopReason),
}

enum Stage {
    Following(Box<Following>),
    Candidate(Box<Candidate>),
    Home(Box<Serving>),
    Ended,
}

struct Following {
    follower: Follower,
    asked: Option<(RequestId, Moment)>,
    wants_range: bool,
}

struct Candidate {
    follower: Follower,
    attempt: TakeOver,
    asked: Option<RequestId>,
}

pub(crate) struct Serving {
    pub home: Home,
    append: Option<(RequestId, Moment)>,
    confirm: Option<(RequestId, Moment)>,
    object: Option<RequestId>,
    /// When the record in flight was first sent.
    since: Moment,
    /// The sequencer has refused for want of room.
    is_full: bool,
}

pub(crate) struct Replica {
    pub place: Place,
    pub me: Writer,
    sequencer: Box<dyn Sequencer + Send>,
    standing: Arc<Standing>,
    stage: Stage,
    chores: Chores,
    /// The last record known from hints.
    heard: LogSequence,
    polled: Option<Moment>,
    /// The requests that are read here while another node is home.
    reads: ReplicaReads,
    /// The log was seen to hold the history that this process was opened with.
    is_verified: bool,
    /// The time that the sequencer takes to answer a home.
    pace: Pace,
    /// When this node last had everything.
    complete: Moment,
    not_before: Moment,
    store_not_before: Moment,
}

impl Replica {
    /// Follows from `position` on.
    pub fn new(
        place: Place,
        me: Writer,
        chores: Chores,
        mut sequencer: Box<dyn Sequencer + Send>,
        standing: Arc<Standing>,
        position: Position,
        now: Moment,
    ) -> Replica {
        sequencer.watch(place.record_key(LogSequence::ZERO), place.records_end());
        let mut replica = Replica {
            place,
            me,
            sequencer,
            standing,
            stage: Stage::Ended,
            chores,
            heard: position.sequence,
            polled: None,
            reads: ReplicaReads::default(),
            is_verified: false,
            pace: Pace::default(),
            complete: now,
            not_before: Moment::default(),
            store_not_before: Moment::default(),
        };
        replica.follow(position);
        replica
    }

    /// Follows from `position` on, in any previous stage.
    pub fn follow(&mut self, position: Position) {
        self.reads.answered(false);
        self.stage = Stage::Following(Box::new(Following {
            follower: Follower::new(self.place.clone(), position),
            asked: None,
            wants_range: true,
        }));
    }

    /// Starts a take-over, if it follows.
    pub fn take_over(&mut self) {
        self.reads.answered(false);
        self.stage = match std::mem::replace(&mut self.stage, Stage::Ended) {
            Stage::Following(following) => Stage::Candidate(Box::new(Candidate {
                follower: following.follower,
                attempt: TakeOver::new(self.me),
                asked: None,
            })),
            other => other,
        };
    }

    /// Nothing more is sent or applied.
    pub fn end(&mut self) {
        self.stage = Stage::Ended;
    }

    pub fn home(&mut self) -> Option<&mut Serving> {
        match &mut self.stage {
            Stage::Home(serving) => Some(serving),
            _ => None,
        }
    }

    pub fn is_candidate(&self) -> bool {
        matches!(self.stage, Stage::Candidate(_))
    }

    pub fn is_following(&self) -> bool {
        matches!(self.stage, Stage::Following(_))
    }

    /// Returns true once the log was seen to continue from the node's own files.
    pub fn is_verified(&self) -> bool {
        self.is_verified
    }

    /// Reads that arrived at this node before may be answered with the state that has everything
    /// that was delivered so far.
    pub fn reads_confirmed_below(&self) -> Arrival {
        self.reads.confirmed_below()
    }

    /// The last known record, and true if a history may start after it.
    pub fn position(&self) -> Option<(Position, bool)> {
        let of = |follower: &Follower| (follower.position(), !follower.is_within_group());
        match &self.stage {
            Stage::Following(following) => Some(of(&following.follower)),
            Stage::Candidate(candidate) => Some(of(&candidate.follower)),
            Stage::Home(serving) => Some((serving.home.tail(), !serving.home.is_appending())),
            Stage::Ended => None,
        }
    }

    /// True while a home is not sure that it is one, or lacks room.
    pub fn is_uncertain(&mut self, now: Moment) -> bool {
        let (lacks_copies, limit) = (self.chores.lacks_copies(), self.pace.uncertain_after());
        self.home()
            .is_some_and(|serving| serving.home.waits_for(now, limit) || serving.is_full || lacks_copies)
    }

    /// True if this home may take an epoch that is kept as an object.
    pub fn takes_objects(&self) -> bool {
        self.chores.objects.as_ref().is_some_and(|objects| objects.is_well())
    }

    /// Ends a home whose object the store has left unanswered for too long. Returns true if it has.
    pub fn give_up(&mut self, now: Moment) -> bool {
        self.home().is_some_and(|serving| serving.home.give_up(now))
    }

    /// True while a home has no answer of the sequencer, though that has room.
    pub fn is_cut_off(&mut self, now: Moment) -> bool {
        let limit = self.pace.uncertain_after();
        self.home()
            .is_some_and(|serving| serving.home.waits_for(now, limit) && !serving.is_full)
    }

    /// Returns true while the sequencer's silence exceeds the limit for suspension. Without room,
    /// only confirmations count.
    pub fn is_to_be_suspended(&mut self, now: Moment) -> bool {
        let limit = self.pace.suspended_after();
        self.home().is_some_and(|serving| match serving.is_full {
            true => serving.home.confirmation_waits_for(now, limit),
            false => serving.home.waits_for(now, limit),
        })
    }

    /// The time that the sequencer takes to answer a home.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Number of known records after `position`, and milliseconds since the node had all of them.
    pub fn lag(&mut self, now: Moment) -> (u64, u64) {
        let Some((position, _)) = self.position() else {
            return (0, 0);
        };
        if self.home().is_some() {
            return (0, 0);
        }
        let records = self.heard.0.saturating_sub(position.sequence.0);
        (records, now.since(self.complete).as_millis() as u64)
    }

    /// A record of another home's was applied.
    pub fn applied(&mut self, sequence: LogSequence, stored_bytes: usize) {
        self.chores.appended(sequence, stored_bytes);
    }

    pub fn note_chores(&self, figures: &mut Replication) {
        self.chores.note(figures);
    }

    /// The next thing that has happened, if anything has.
    pub fn next(&mut self, now: Moment) -> Option<Happening> {
        while let Some(event) = self.sequencer.receive(Duration::ZERO) {
            let happened = match event {
                Event::Hint(hint) => self.hinted(&hint),
                Event::Answered(id, answer) => self.answered(id, answer, now),
            };
            if happened.is_some() {
                return happened;
            }
        }
        None
    }

    fn hinted(&mut self, hint: &Hint) -> Option<Happening> {
        if let Hint::Put { key, .. } = hint {
            self.heard = self.heard.max(self.place.sequence_of(key).unwrap_or_default());
        }
        let Stage::Following(following) = &mut self.stage else {
            return None;
        };
        match following.follower.hint(hint) {
            Hinted::Nothing => None,
            Hinted::Delivered(delivery) => Some(Happening::Deliver(vec![delivery])),
            Hinted::ReadRange => {
                following.wants_range = true;
                None
            }
        }
    }

    fn answered(&mut self, id: RequestId, answer: Result<Answer, Failure>, now: Moment) -> Option<Happening> {
        if answer.is_err() {
            self.standing.figures.lock().unknown_answers += 1;
        }
        match &answer {
            Err(Failure::Store(_)) => self.store_not_before = Moment(now.0 + STORE_RETRY),
            Err(_) => self.not_before = Moment(now.0 + RETRY),
            Ok(_) => {}
        }
        if self.chores.is_mine(id) {
            let home = match &mut self.stage {
                Stage::Home(serving) => Some(&serving.home),
                _ => None,
            };
            self.chores
                .answered(id, answer, &self.place, home, self.sequencer.as_mut());
            return None;
        }
        match &mut self.stage {
            Stage::Following(following) => match following.asked {
                Some((request, at)) if request == id => {
                    following.asked = None;
                    self.ranged(answer, at)
                }
                _ => None,
            },
            Stage::Candidate(candidate) if candidate.asked == Some(id) => {
                candidate.asked = None;
                self.progress(answer)
            }
            Stage::Home(serving) if serving.append.is_some_and(|(append, _)| append == id) => {
                if let (Some((_, sent)), true) = (serving.append.take(), answer.is_ok()) {
                    self.pace.answered(now.since(sent));
                }
                self.appended(answer, now)
            }
            Stage::Home(serving) if serving.confirm.is_some_and(|(confirm, _)| confirm == id) => {
                if let (Some((_, sent)), true) = (serving.confirm.take(), answer.is_ok()) {
                    self.pace.answered(now.since(sent));
                }
                self.confirmed(answer)
            }
            Stage::Home(serving) if serving.object == Some(id) => {
                serving.object = None;
                serving.home.object_kept(&answer, now);
                self.standing.figures.lock().object_pieces += u64::from(answer.is_ok());
                if let Some(objects) = &mut self.chores.objects {
                    objects.noted(answer.is_ok());
                }
                None
            }
            _ => None,
        }
    }

    fn ranged(&mut self, answer: Result<Answer, Failure>, requested_at: Moment) -> Option<Happening> {
        let Stage::Following(following) = &mut self.stage else {
            return None;
        };
        let Ok(answer) = answer else {
            following.wants_range = true;
            self.reads.answered(false);
            return None;
        };
        match following.follower.take(answer) {
            Ok((deliveries, more)) => {
                self.is_verified = true;
                following.wants_range = more;
                self.reads.answered(!more);
                if !more {
                    self.complete = requested_at;
                    self.heard = self.heard.max(following.follower.position().sequence);
                }
                (!deliveries.is_empty()).then_some(Happening::Deliver(deliveries))
            }
            Err(reason) => self.ended(reason),
        }
    }

    fn ended(&mut self, reason: StopReason) -> Option<Happening> {
        self.stage = Stage::Ended;
        Some(Happening::Ended(reason))
    }

    fn progress(&mut self, answer: Result<Answer, Failure>) -> Option<Happening> {
        let Stage::Candidate(candidate) = &mut self.stage else {
            return None;
        };
        match candidate.attempt.answered(&mut candidate.follower, answer) {
            Ok(Progress::Apply(deliveries)) => {
                let me = self.me;
                let is_anothers = |delivery: &Delivery| match delivery.content {
                    Content::Term { writer, .. } => writer != me,
                    _ => false,
                };
                if deliveries.iter().any(is_anothers) {
                    let follower = candidate.follower.clone();
                    self.stage = Stage::Following(Box::new(Following {
                        follower,
                        asked: None,
                        wants_range: true,
                    }));
                }
                Some(Happening::Deliver(deliveries))
            }
            Ok(Progress::Won(mut home, delivery)) => {
                if let Some(options) = self.chores.object_options {
                    home.keep_objects(options);
                }
                self.is_verified = true;
                self.stage = Stage::Home(Box::new(Serving {
                    home: *home,
                    append: None,
                    confirm: None,
                    object: None,
                    since: Moment::default(),
                    is_full: false,
                }));
                self.chores.begin_home();
                Some(Happening::Won(delivery))
            }
            Ok(Progress::Ready | Progress::Again) => None,
            Err(reason) => self.ended(reason),
        }
    }

    fn appended(&mut self, answer: Result<Answer, Failure>, now: Moment) -> Option<Happening> {
        let Stage::Home(serving) = &mut self.stage else {
            return None;
        };
        let bytes = serving.home.flight_bytes();
        match serving.home.appended(answer) {
            Outcome::Done(appended) | Outcome::Landed(appended) => {
                serving.is_full = false;
                let took = now.since(serving.since);
                serving.since = Moment::default();
                self.chores.appended(appended.sequence, bytes);
                let mut figures = self.standing.figures.lock();
                figures.appends += 1;
                figures.append_bytes += bytes as u64;
                figures.append_micros = took.as_micros() as u64;
                Some(Happening::Appended(serving.home.tail(), appended.is_whole))
            }
            Outcome::Deposed { fate, .. } => Some(Happening::Deposed {
                has_landed: fate == Fate::Landed,
            }),
            Outcome::Stopped(reason) => self.ended(reason),
            Outcome::Unknown(failure) => {
                serving.is_full = failure == Failure::NoRoom;
                None
            }
        }
    }

    fn confirmed(&mut self, answer: Result<Answer, Failure>) -> Option<Happening> {
        let Stage::Home(serving) = &mut self.stage else {
            return None;
        };
        match serving.home.confirmed(answer) {
            Confirmation::Confirmed => {
                self.standing.figures.lock().confirmations += 1;
                None
            }
            Confirmation::Deposed { fate, .. } => Some(Happening::Deposed {
                has_landed: fate == Some(Fate::Landed),
            }),
            Confirmation::Stopped(reason) => self.ended(reason),
            Confirmation::Unknown(_) => None,
        }
    }

    /// Sends the requests due at `now`. `floor`: a bound below every version of a term that would
    /// start now.
    pub fn send(&mut self, now: Moment, floor: Version, reached: Reached) {
        self.chores.send(now, reached, &self.place, self.sequencer.as_mut());
        if now < self.not_before {
            return;
        }
        let is_store_due = now >= self.store_not_before;
        match &mut self.stage {
            Stage::Following(_) => self.send_as_follower(now, is_store_due),
            Stage::Candidate(candidate)
                if candidate.asked.is_none() && (is_store_due || !candidate.follower.reads_object()) =>
            {
                if candidate.attempt.is_ready() {
                    candidate.attempt.claim(&candidate.follower, floor);
                }
                let request = candidate.attempt.request(&mut candidate.follower);
                candidate.asked = request.map(|request| self.sequencer.send(request));
            }
            Stage::Home(_) => self.send_as_home(now),
            Stage::Candidate(_) | Stage::Ended => {}
        }
    }

    /// The log is read each second from the last record on, which shows that it still holds this
    /// node's history, and for reads of this node's clients in between.
    fn send_as_follower(&mut self, now: Moment, is_store_due: bool) {
        if let Some(arrival) = self.standing.wanted_read() {
            self.reads.want(Arrival(arrival));
        }
        let Stage::Following(following) = &mut self.stage else {
            return;
        };
        let is_due = self.polled.is_none_or(|polled| now.since(polled) >= POLL);
        let may_ask = is_store_due || !following.follower.reads_object();
        let is_whole_due = following.wants_range || is_due || !self.is_verified;
        if following.asked.is_some() || !may_ask || !(is_whole_due || self.reads.needs_range()) {
            return;
        }
        let request = match is_whole_due {
            true => following.follower.request(),
            false => following.follower.request_rest(),
        };
        // A piece of an object shows nothing about the log's end.
        if let Request::Range { .. } = &request {
            self.standing.sends_read(self.reads.asks().0);
        }
        following.asked = Some((self.sequencer.send(request), now));
        following.wants_range = false;
        match is_whole_due {
            true => self.polled = Some(now),
            false => self.standing.counts_range(),
        }
    }

    /// Publishes the attempt before it is sent: no request that arrives after the sending may be
    /// confirmed by it.
    fn send_as_home(&mut self, now: Moment) {
        let (sequencer, standing) = (&mut self.sequencer, &self.standing);
        let Stage::Home(serving) = &mut self.stage else {
            return;
        };
        let home = &mut serving.home;
        if now >= self.store_not_before
            && let Some(request) = home.object_request(now)
        {
            serving.object = Some(sequencer.send(request));
        }
        if let Some(request) = home.append_request(now) {
            standing.sends(home.arrival().0);
            if serving.since == Moment::default() {
                serving.since = now;
            }
            serving.append = Some((sequencer.send(request), now));
        }
        let is_fresh = |evidence: Moment| now.since(evidence) < POLL;
        if !home.evidence().is_some_and(is_fresh) {
            home.want(home.arrival());
        }
        if let Some(arrival) = standing.wanted() {
            home.want(Arrival(arrival));
        }
        if let Some(request) = home.confirm_request(now) {
            standing.sends(home.arrival().0);
            serving.confirm = Some((sequencer.send(request), now));
        }
    }
}
